/* Device work after main: `late handler` in an exit handler that was registered before OpenCL's first use, and behind the
 * driver's own; `late destructor` in a destructor besides; `late never` behind an event that nobody sets. */
#define CL_TARGET_OPENCL_VERSION 120
#include <CL/cl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static cl_command_queue queue;
static cl_kernel kernel;
static const char *what = "";

static void launch(int count) {
  const size_t items = 64;
  for (int at = 0; at < count; at++)
    if (clEnqueueNDRangeKernel(queue, kernel, 1, NULL, &items, NULL, 0, NULL, NULL) != CL_SUCCESS) _Exit(2);
  if (clFinish(queue) != CL_SUCCESS) _Exit(2);
}
static void handler(void) { launch(7); }
__attribute__((destructor)) static void destructor(void) {
  if (strcmp(what, "destructor") == 0) launch(5);
}

int main(int count, char **words) {
  if (count > 1) what = words[1];
  if (strcmp(what, "never") != 0) atexit(handler);
  const char *source = "kernel void unit(global int *a) { a[0] = 1; }";
  cl_platform_id platform;
  cl_device_id device;
  cl_int code;
  if (clGetPlatformIDs(1, &platform, NULL) || clGetDeviceIDs(platform, CL_DEVICE_TYPE_ALL, 1, &device, NULL)) _Exit(3);
  cl_context context = clCreateContext(NULL, 1, &device, NULL, NULL, &code);
  queue = clCreateCommandQueue(context, device, 0, &code);
  cl_program program = clCreateProgramWithSource(context, 1, &source, NULL, &code);
  if (clBuildProgram(program, 1, &device, "", NULL, NULL) != CL_SUCCESS) _Exit(2);
  kernel = clCreateKernel(program, "unit", &code);
  cl_mem memory = clCreateBuffer(context, CL_MEM_READ_WRITE, 4096, NULL, &code);
  if (clSetKernelArg(kernel, 0, sizeof memory, &memory) != CL_SUCCESS) _Exit(2);
  launch(3);
  if (strcmp(what, "never") == 0) {
    cl_event never = clCreateUserEvent(context, &code);
    const size_t items = 64;
    for (int at = 0; at < 2; at++)
      if (clEnqueueNDRangeKernel(queue, kernel, 1, NULL, &items, NULL, 1, &never, NULL) != CL_SUCCESS) _Exit(2);
  }
  return 0;
}
