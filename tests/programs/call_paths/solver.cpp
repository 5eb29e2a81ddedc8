// A library that Python calls (mixed.py): it launches a kernel from C++, and calls Python again in between.
#define CL_TARGET_OPENCL_VERSION 120
#include <CL/cl.h>

#include <cstddef>

namespace solver {
static const char *const text = "__kernel void scale(__global float *x, float a) { x[get_global_id(0)] *= a; }";

template <class T> struct Field {
  cl_context context{};
  cl_command_queue queue{};
  cl_kernel kernel{};
  cl_mem memory{};
  size_t n;

  explicit Field(size_t count) : n(count) {
    cl_platform_id platform;
    cl_device_id device;
    clGetPlatformIDs(1, &platform, nullptr);
    clGetDeviceIDs(platform, CL_DEVICE_TYPE_ALL, 1, &device, nullptr);
    context = clCreateContext(nullptr, 1, &device, nullptr, nullptr, nullptr);
    queue = clCreateCommandQueue(context, device, CL_QUEUE_PROFILING_ENABLE, nullptr);
    cl_program program = clCreateProgramWithSource(context, 1, const_cast<const char **>(&text), nullptr, nullptr);
    clBuildProgram(program, 1, &device, "", nullptr, nullptr);
    kernel = clCreateKernel(program, "scale", nullptr);
    memory = clCreateBuffer(context, CL_MEM_READ_WRITE, n * sizeof(T), nullptr, nullptr);
    clSetKernelArg(kernel, 0, sizeof memory, &memory);
  }

  __attribute__((noinline)) int step(T factor) {
    clSetKernelArg(kernel, 1, sizeof factor, &factor);
    const int status = clEnqueueNDRangeKernel(queue, kernel, 1, nullptr, &n, nullptr, 0, nullptr, nullptr);
    return status | clFinish(queue);
  }
};
} // namespace solver

extern "C" void *make(size_t n) {
  auto *const made = new solver::Field<float>(n);
  return made->memory != nullptr ? made : nullptr;
}

extern "C" int advance(void *field, int steps, int (*callback)(int)) {
  int failed = 0;
  for (int i = 0; i < steps; i++) {
    failed |= static_cast<solver::Field<float> *>(field)->step(0.5f);
    if (callback != nullptr) failed |= callback(i);
  }
  return failed;
}
