/* A small OpenCL program: one build, 58 launches, copies both ways. Prints how long its first call and all of it took. */
#define CL_TARGET_OPENCL_VERSION 120
#include <CL/cl.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum { N = 4096, LAUNCHES = 58 };

static double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec * 1e3 + (double)t.tv_nsec * 1e-6;
}

static void check(cl_int status, const char *what) {
  if (status == CL_SUCCESS) return;
  fprintf(stderr, "%s: %d\n", what, status);
  exit(1);
}

int main(void) {
  static const char *source = "kernel void scale(global float *x, float a) { x[get_global_id(0)] *= a; }";
  static float x[N];
  const size_t size = N;
  const float a = 1.0f;
  cl_platform_id platform;
  cl_device_id device;
  cl_int status;
  const double start = now();
  check(clGetPlatformIDs(1, &platform, NULL), "clGetPlatformIDs");
  const double first = now() - start;
  check(clGetDeviceIDs(platform, CL_DEVICE_TYPE_ALL, 1, &device, NULL), "clGetDeviceIDs");
  cl_context context = clCreateContext(NULL, 1, &device, NULL, NULL, &status);
  check(status, "clCreateContext");
  cl_command_queue queue = clCreateCommandQueue(context, device, 0, &status);
  check(status, "clCreateCommandQueue");
  cl_program program = clCreateProgramWithSource(context, 1, &source, NULL, &status);
  check(status, "clCreateProgramWithSource");
  check(clBuildProgram(program, 1, &device, "", NULL, NULL), "clBuildProgram");
  cl_kernel kernel = clCreateKernel(program, "scale", &status);
  check(status, "clCreateKernel");
  cl_mem buffer = clCreateBuffer(context, CL_MEM_READ_WRITE, sizeof x, NULL, &status);
  check(status, "clCreateBuffer");
  check(clEnqueueWriteBuffer(queue, buffer, CL_TRUE, 0, sizeof x, x, 0, NULL, NULL), "clEnqueueWriteBuffer");
  check(clSetKernelArg(kernel, 0, sizeof buffer, &buffer), "clSetKernelArg");
  check(clSetKernelArg(kernel, 1, sizeof a, &a), "clSetKernelArg");
  for (int i = 0; i < LAUNCHES; i++)
    check(clEnqueueNDRangeKernel(queue, kernel, 1, NULL, &size, NULL, 0, NULL, NULL), "clEnqueueNDRangeKernel");
  check(clEnqueueReadBuffer(queue, buffer, CL_TRUE, 0, sizeof x, x, 0, NULL, NULL), "clEnqueueReadBuffer");
  clReleaseMemObject(buffer);
  clReleaseKernel(kernel);
  clReleaseProgram(program);
  clReleaseCommandQueue(queue);
  clReleaseContext(context);
  printf("first %.1f ms\nall %.1f ms\n", first, now() - start);
  return 0;
}
