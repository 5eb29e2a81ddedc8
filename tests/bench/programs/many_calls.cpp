// COUNT cheap OpenCL calls in each of THREADS threads: what a benchmark of the analysis reads.
// usage: many_calls THREADS COUNT
#define CL_TARGET_OPENCL_VERSION 300
#include <CL/cl.h>

#include <cstdio>
#include <cstdlib>
#include <thread>
#include <vector>

int main(int argc, char **argv) {
  const int threads = argc > 1 ? std::atoi(argv[1]) : 2;
  const long count = argc > 2 ? std::atol(argv[2]) : 1000000;
  cl_platform_id platform = nullptr;
  cl_device_id device = nullptr;
  if (clGetPlatformIDs(1, &platform, nullptr) || clGetDeviceIDs(platform, CL_DEVICE_TYPE_ALL, 1, &device, nullptr)) return 1;
  cl_int error = 0;
  cl_context context = clCreateContext(nullptr, 1, &device, nullptr, nullptr, &error);
  if (error) return 1;
  std::vector<std::thread> all;
  for (int i = 0; i < threads; ++i)
    all.emplace_back([=] {
      cl_uint references = 0;
      for (long at = 0; at < count; at += 3) {
        clRetainContext(context);
        clGetContextInfo(context, CL_CONTEXT_REFERENCE_COUNT, sizeof references, &references, nullptr);
        clReleaseContext(context);
      }
    });
  for (auto &thread : all) thread.join();
  clReleaseContext(context);
  std::printf("%ld\n", threads * ((count + 2) / 3) * 3);
  return 0;
}
