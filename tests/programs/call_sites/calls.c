// OpenCL calls at lines that the program tells: "TRUE function line" for each. Also in an inlined function, in a library that is
// loaded and unloaded (the argument), and in a child of fork.
#define CL_TARGET_OPENCL_VERSION 120
#include <CL/cl.h>
#include <dlfcn.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

#define AT(function, ...) (fprintf(stderr, "TRUE %s %d\n", #function, __LINE__), function(__VA_ARGS__))

#ifdef LIBRARY
// Not as the last thing that the function does: that would be a jump, which leaves no return address here.
int in_library(cl_command_queue queue);
int in_library(cl_command_queue queue) {
  return AT(clFlush, queue) == CL_SUCCESS ? 7 : 8;
}
#else
static inline cl_mem make(cl_context context) {
  return AT(clCreateBuffer, context, CL_MEM_READ_WRITE, 4096, NULL, NULL);
}

int main(int argc, char **argv) {
  cl_platform_id platform;
  cl_device_id device;
  static char host[4096];
  AT(clGetPlatformIDs, 1, &platform, NULL);
  AT(clGetDeviceIDs, platform, CL_DEVICE_TYPE_ALL, 1, &device, NULL);
  cl_context context = AT(clCreateContext, NULL, 1, &device, NULL, NULL, NULL);
  cl_command_queue queue = AT(clCreateCommandQueue, context, device, 0, NULL);
  cl_mem memory = make(context);
  for (int i = 0; i < 3; i++)
    AT(clEnqueueWriteBuffer, queue, memory, CL_TRUE, 0, 4096, host, 0, NULL, NULL);
  if (argc > 1) {
    void *library = dlopen(argv[1], RTLD_NOW);
    int (*call)(cl_command_queue) = (int (*)(cl_command_queue))dlsym(library, "in_library");
    if (call(queue) != 7) return 1;
    dlclose(library);
  }
  AT(clFinish, queue);
  const pid_t child = fork();
  if (child == 0) {
    AT(clGetPlatformIDs, 0, NULL, &(cl_uint){0});
    _exit(0);
  }
  waitpid(child, NULL, 0);
  AT(clReleaseMemObject, memory);
  AT(clReleaseCommandQueue, queue);
  AT(clReleaseContext, context);
  return 0;
}
#endif
