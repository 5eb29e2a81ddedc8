// ns per OpenCL call of a few kinds, one line each: the smallest and the median of many rounds. `launch` includes its share
// of a clFinish every 100 launches and is CPU time of the launching thread: a CPU device works beside it on the same cores.
#define CL_TARGET_OPENCL_VERSION 300
#define CL_USE_DEPRECATED_OPENCL_1_2_APIS
#include <CL/cl.h>
#include <time.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

static uint64_t now(clockid_t clock) {
  timespec time{};
  clock_gettime(clock, &time);
  return static_cast<uint64_t>(time.tv_sec) * 1000000000u + static_cast<uint64_t>(time.tv_nsec);
}

template <class Call>
static void measure(const char *name, clockid_t clock, int rounds, int calls, Call call) {
  std::vector<double> all;
  for (int round = 0; round < rounds; ++round) {
    const uint64_t begin = now(clock);
    for (int at = 0; at < calls; ++at) call(at);
    all.push_back(static_cast<double>(now(clock) - begin) / calls);
  }
  std::sort(all.begin(), all.end());
  std::printf("%s %.1f %.1f\n", name, all.front(), all[all.size() / 2]);
}

int main() {
  cl_platform_id platforms[8];
  cl_uint count = 0;
  clGetPlatformIDs(8, platforms, &count);
  cl_platform_id platform = nullptr;
  for (cl_uint at = 0; at < count; ++at) {
    char name[256];
    clGetPlatformInfo(platforms[at], CL_PLATFORM_NAME, sizeof name, name, nullptr);
    if (std::strstr(name, "Portable") != nullptr) platform = platforms[at];
  }
  cl_device_id device = nullptr;
  if (clGetDeviceIDs(platform, CL_DEVICE_TYPE_ALL, 1, &device, nullptr) != CL_SUCCESS) return 2;
  cl_context context = clCreateContext(nullptr, 1, &device, nullptr, nullptr, nullptr);
  cl_command_queue queue = clCreateCommandQueue(context, device, 0, nullptr);
  const char *source = "kernel void nothing(global float *x) { x[0] = 1; }";
  cl_program program = clCreateProgramWithSource(context, 1, &source, nullptr, nullptr);
  if (clBuildProgram(program, 1, &device, "", nullptr, nullptr) != CL_SUCCESS) return 2;
  cl_kernel kernel = clCreateKernel(program, "nothing", nullptr);
  cl_mem x = clCreateBuffer(context, CL_MEM_READ_WRITE, 4096, nullptr, nullptr);
  clSetKernelArg(kernel, 0, sizeof x, &x);
  const size_t one = 1;

  measure("retain", CLOCK_MONOTONIC, 300, 1000, [&](int at) { at % 2 ? clReleaseContext(context) : clRetainContext(context); });
  measure("set_arg", CLOCK_MONOTONIC, 300, 1000, [&](int) { clSetKernelArg(kernel, 0, sizeof x, &x); });
  cl_uint units = 0;
  measure("get_info", CLOCK_MONOTONIC, 300, 1000,
          [&](int) { clGetDeviceInfo(device, CL_DEVICE_MAX_COMPUTE_UNITS, sizeof units, &units, nullptr); });
  measure("launch", CLOCK_THREAD_CPUTIME_ID, 200, 100, [&](int at) {
    clEnqueueNDRangeKernel(queue, kernel, 1, nullptr, &one, &one, 0, nullptr, nullptr);
    if (at == 99) clFinish(queue);
  });
  return 0;
}
