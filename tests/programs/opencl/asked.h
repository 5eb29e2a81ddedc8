// What the programs share that ask for functions of extensions: one device, a queue, and a kernel that doubles.
#ifndef OCCATRACE_TESTS_ASKED_H
#define OCCATRACE_TESTS_ASKED_H
#define CL_TARGET_OPENCL_VERSION 300
#include <CL/cl.h>
#include <CL/cl_ext.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>

inline void check(cl_int code, const char *what) {
  if (code == CL_SUCCESS) return;
  std::fprintf(stderr, "%s gave %d\n", what, code);
  std::exit(2);
}
#define CHECK(call) check((call), #call)

template <class Function>
Function ask(cl_platform_id platform, const char *name) {
  void *address = clGetExtensionFunctionAddressForPlatform(platform, name);
  if (address != nullptr) return reinterpret_cast<Function>(address);
  std::fprintf(stderr, "no %s\n", name);
  std::exit(3);
}

struct Device {
  cl_platform_id platform = nullptr;
  cl_device_id device = nullptr;
  cl_context context = nullptr;
  cl_command_queue queue = nullptr;
  cl_program program = nullptr;
  cl_kernel kernel = nullptr;

  // Of the platform with CASES_PLATFORM in its name, PoCL's if it is not set.
  Device() {
    cl_platform_id platforms[8];
    cl_uint count = 0;
    CHECK(clGetPlatformIDs(8, platforms, &count));
    const char *wanted = std::getenv("CASES_PLATFORM");
    for (cl_uint at = 0; at < count; ++at) {
      char name[256] = "";
      clGetPlatformInfo(platforms[at], CL_PLATFORM_NAME, sizeof name, name, nullptr);
      if (std::strstr(name, wanted != nullptr ? wanted : "Portable") != nullptr) platform = platforms[at];
    }
    CHECK(clGetDeviceIDs(platform, CL_DEVICE_TYPE_ALL, 1, &device, nullptr));
    cl_int code = 0;
    context = clCreateContext(nullptr, 1, &device, nullptr, nullptr, &code);
    check(code, "clCreateContext");
    queue = clCreateCommandQueueWithProperties(context, device, nullptr, &code);
    check(code, "clCreateCommandQueueWithProperties");
    const char *source = "kernel void twice(global int *x) { x[get_global_id(0)] *= 2; }";
    program = clCreateProgramWithSource(context, 1, &source, nullptr, &code);
    CHECK(clBuildProgram(program, 1, &device, "", nullptr, nullptr));
    kernel = clCreateKernel(program, "twice", &code);
    check(code, "clCreateKernel");
  }

  void release() {
    clReleaseKernel(kernel);
    clReleaseProgram(program);
    clReleaseCommandQueue(queue);
    clReleaseContext(context);
  }
};
#endif
