/* A handler that makes traced calls, in the middle of memory, libraries, threads and traced calls of the same thread. The call
 * fails at once: nothing of OpenCL is in the way, only what records it. */
#define _GNU_SOURCE
#define CL_TARGET_OPENCL_VERSION 120
#include <CL/cl.h>
#include <dlfcn.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/time.h>
#include <time.h>

static int made, failed;

static void on_alarm(int n) {
  (void)n;
  /* The short-lived thread may run the handler at the same time. */
  if (clWaitForEvents(0, NULL) != CL_SUCCESS) __atomic_fetch_add(&failed, 1, __ATOMIC_RELAXED);
  __atomic_fetch_add(&made, 1, __ATOMIC_RELAXED);
}
static void *nothing(void *unused) { return unused; }
static double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

int main(void) {
  cl_platform_id platform;
  cl_device_id device;
  if (clGetPlatformIDs(1, &platform, NULL) != CL_SUCCESS || clGetDeviceIDs(platform, CL_DEVICE_TYPE_ALL, 1, &device, NULL) != CL_SUCCESS) return 2;
  cl_context context = clCreateContext(NULL, 1, &device, NULL, NULL, NULL);
  clWaitForEvents(0, NULL);
  struct sigaction action = {.sa_handler = on_alarm, .sa_flags = SA_RESTART};
  sigaction(SIGALRM, &action, NULL);
  const struct itimerval often = {{0, 500}, {0, 500}}, never = {{0, 0}, {0, 0}};
  setitimer(ITIMER_REAL, &often, NULL);
  void *kept[64] = {NULL};
  int rounds = 0;
  for (const double until = now() + 1.5; now() < until; rounds++) {
    free(kept[rounds % 64]);
    kept[rounds % 64] = malloc((size_t)1 << rounds % 18);
    if (rounds % 8 == 0) {
      void *library = dlopen("libz.so.1", RTLD_NOW);
      if (library != NULL) dlclose(library);
      pthread_t thread;
      if (pthread_create(&thread, NULL, nothing, NULL) == 0) pthread_join(thread, NULL);
    }
    clWaitForEvents(0, NULL);
  }
  setitimer(ITIMER_REAL, &never, NULL);
  const struct timespec over = {0, 50000000}; /* threads of the OpenCL implementation may run the handler still */
  nanosleep(&over, NULL);
  for (int i = 0; i < 64; i++) free(kept[i]);
  clReleaseContext(context);
  printf("%d %d %d\n", rounds, made, failed);
  return 0;
}
