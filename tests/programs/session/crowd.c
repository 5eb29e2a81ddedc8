/* For each number on standard input: so many cheap OpenCL calls of two kinds in each of four threads, and a clFinish; then says
 * "done". */
#define CL_TARGET_OPENCL_VERSION 120
#include <CL/cl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

static cl_context context;
static cl_command_queue queue;
static long count;

static void *work(void *unused) {
  (void)unused;
  for (long i = 0; i < count; i++) {
    clRetainContext(context);
    clReleaseContext(context);
  }
  clFinish(queue);
  return NULL;
}

int main(void) {
  cl_platform_id platform;
  cl_device_id device;
  cl_int error;
  if (clGetPlatformIDs(1, &platform, NULL) || clGetDeviceIDs(platform, CL_DEVICE_TYPE_ALL, 1, &device, NULL)) return 1;
  context = clCreateContext(NULL, 1, &device, NULL, NULL, &error);
  if (error) return 1;
  queue = clCreateCommandQueue(context, device, 0, &error);
  if (error) return 1;
  puts("ready");
  fflush(stdout);
  for (char line[32]; fgets(line, sizeof line, stdin) != NULL;) {
    count = atol(line);
    pthread_t threads[4];
    for (int i = 0; i < 4; i++) pthread_create(&threads[i], NULL, work, NULL);
    for (int i = 0; i < 4; i++) pthread_join(threads[i], NULL);
    puts("done");
    fflush(stdout);
  }
  return 0;
}
