/* Four threads make cheap OpenCL calls without end; after MS milliseconds the process ends by HOW, with status 8.
 * usage: amid HOW MS */
#define CL_TARGET_OPENCL_VERSION 120
#include <CL/cl.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static cl_context context;

static void *work(void *unused) {
  for (;;) {
    clRetainContext(context);
    clReleaseContext(context);
  }
  return unused;
}

int main(int argc, char **argv) {
  cl_platform_id platform;
  cl_device_id device;
  cl_int error;
  if (argc != 3 || clGetPlatformIDs(1, &platform, NULL) || clGetDeviceIDs(platform, CL_DEVICE_TYPE_ALL, 1, &device, NULL)) return 1;
  context = clCreateContext(NULL, 1, &device, NULL, NULL, &error);
  if (error) return 1;
  pthread_t thread;
  for (int i = 0; i < 4; i++) pthread_create(&thread, NULL, work, NULL);
  usleep((useconds_t)atoi(argv[2]) * 1000);
  if (strcmp(argv[1], "_exit") == 0) _exit(8);
  if (strcmp(argv[1], "quick_exit") == 0) quick_exit(8);
  if (strcmp(argv[1], "abort") == 0) abort();
  if (strcmp(argv[1], "kill") == 0) kill(getpid(), SIGKILL);
  return 8;
}
