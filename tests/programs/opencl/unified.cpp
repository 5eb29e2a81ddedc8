// Intel's unified memory through functions asked for by name: `unified [count]`. Prints what it did, as a JSON object.
#define CL_TARGET_OPENCL_VERSION 300
#include <CL/cl.h>
#include <CL/cl_ext.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace {

void check(cl_int code, const char *what) {
  if (code == CL_SUCCESS) return;
  std::fprintf(stderr, "unified: %s gave %d\n", what, code);
  std::exit(2);
}
#define CHECK(call) check((call), #call)

template <class Function>
Function ask(cl_platform_id platform, const char *name) {
  void *address = clGetExtensionFunctionAddressForPlatform(platform, name);
  if (address == nullptr) {
    std::fprintf(stderr, "unified: no %s\n", name);
    std::exit(3);
  }
  return reinterpret_cast<Function>(address);
}
#define ASK(name) ask<name##_fn>(platform, #name)

}  // namespace

int main() {
  cl_platform_id platforms[8], platform = nullptr;
  cl_uint count = 0;
  CHECK(clGetPlatformIDs(8, platforms, &count));
  const char *wanted = std::getenv("CASES_PLATFORM");
  for (cl_uint at = 0; at < count; ++at) {
    char name[256] = "";
    clGetPlatformInfo(platforms[at], CL_PLATFORM_NAME, sizeof name, name, nullptr);
    if (std::strstr(name, wanted != nullptr ? wanted : "Portable") != nullptr) platform = platforms[at];
  }
  cl_device_id device = nullptr;
  CHECK(clGetDeviceIDs(platform, CL_DEVICE_TYPE_ALL, 1, &device, nullptr));
  cl_int code = 0;
  cl_context context = clCreateContext(nullptr, 1, &device, nullptr, nullptr, &code);
  check(code, "clCreateContext");
  cl_command_queue queue = clCreateCommandQueueWithProperties(context, device, nullptr, &code);
  check(code, "clCreateCommandQueueWithProperties");
  const char *source = "kernel void twice(global int *x) { x[get_global_id(0)] *= 2; }";
  cl_program program = clCreateProgramWithSource(context, 1, &source, nullptr, &code);
  CHECK(clBuildProgram(program, 1, &device, "", nullptr, nullptr));
  cl_kernel kernel = clCreateKernel(program, "twice", &code);
  check(code, "clCreateKernel");

  const auto host_alloc = ASK(clHostMemAllocINTEL);
  const auto device_alloc = ASK(clDeviceMemAllocINTEL);
  const auto shared_alloc = ASK(clSharedMemAllocINTEL);
  const auto release = ASK(clMemFreeINTEL);
  const auto blocking_release = ASK(clMemBlockingFreeINTEL);
  const auto copy = ASK(clEnqueueMemcpyINTEL);
  const auto fill = ASK(clEnqueueMemFillINTEL);
  const auto migrate = ASK(clEnqueueMigrateMemINTEL);
  const auto argument = ASK(clSetKernelArgMemPointerINTEL);
  const bool same = ASK(clEnqueueMemcpyINTEL) == copy;

  const size_t n = 1024;
  int *host = static_cast<int *>(host_alloc(context, nullptr, n * sizeof(int), 0, &code));
  check(code, "clHostMemAllocINTEL");
  int *on_device = static_cast<int *>(device_alloc(context, device, nullptr, 2 * n * sizeof(int), 0, nullptr));
  int *shared = static_cast<int *>(shared_alloc(context, device, nullptr, 3 * n * sizeof(int), 0, nullptr));
  const bool failed = device_alloc(context, device, nullptr, 0, 0, &code) == nullptr && code == CL_INVALID_BUFFER_SIZE;

  const int seven = 7;
  CHECK(fill(queue, on_device, &seven, sizeof seven, n * sizeof(int), 0, nullptr, nullptr));
  CHECK(argument(kernel, 0, on_device));
  for (int at = 0; at < 5; ++at) CHECK(clEnqueueNDRangeKernel(queue, kernel, 1, nullptr, &n, nullptr, 0, nullptr, nullptr));
  CHECK(migrate(queue, shared, 512, CL_MIGRATE_MEM_OBJECT_HOST, 0, nullptr, nullptr));
  CHECK(copy(queue, CL_FALSE, shared, on_device, n * sizeof(int), 0, nullptr, nullptr));
  cl_event done = nullptr;
  CHECK(copy(queue, CL_FALSE, host, on_device, n * sizeof(int), 0, nullptr, &done));
  CHECK(clWaitForEvents(1, &done));
  const int first = host[0];
  CHECK(copy(queue, CL_TRUE, on_device, host, 256, 0, nullptr, nullptr));
  clFinish(queue);
  clReleaseEvent(done);
  CHECK(release(context, host));
  CHECK(blocking_release(context, on_device));
  // `shared` is never freed.
  clReleaseKernel(kernel);
  clReleaseProgram(program);
  clReleaseCommandQueue(queue);
  clReleaseContext(context);
  std::printf("{\"first\": %d, \"same\": %d, \"failed\": %d}\n", first, same, failed);
  return 0;
}
