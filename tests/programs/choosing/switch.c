/* Launches of OpenCL that are counted by whether the capture is on. It is on at the begin.
 * threads TIMES: eight threads launch while the main thread stops and starts the capture so often; then, unordered, as often
 * again. Prints: enabled, all of the ordered part, all. `steps FILE`: counts steps, one each millisecond, until FILE.stop is
 * there; FILE has the number of the last one. `flood FILE`: calls until FILE.stop is there, or for two million. */
#define CL_TARGET_OPENCL_VERSION 120
#include <CL/cl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "occatrace.h"

enum { THREADS = 8 };
static cl_context context;
static cl_device_id device;
static cl_program program;
static pthread_rwlock_t ordered = PTHREAD_RWLOCK_INITIALIZER;
static atomic_int on = 1, free_running, over;
static atomic_long enabled, all_ordered, all;

static void start(void) {
  cl_platform_id platform;
  const char *source = "kernel void nothing(global int *a) { a[0] = 1; }";
  if (clGetPlatformIDs(1, &platform, NULL) || clGetDeviceIDs(platform, CL_DEVICE_TYPE_ALL, 1, &device, NULL)) exit(3);
  context = clCreateContext(NULL, 1, &device, NULL, NULL, NULL);
  program = clCreateProgramWithSource(context, 1, &source, NULL, NULL);
  if (clBuildProgram(program, 1, &device, "", NULL, NULL)) exit(4);
}

static void *launch(void *unused) {
  cl_command_queue queue = clCreateCommandQueue(context, device, 0, NULL);
  cl_kernel kernel = clCreateKernel(program, "nothing", NULL);
  cl_mem memory = clCreateBuffer(context, CL_MEM_READ_WRITE, 64, NULL, NULL);
  clSetKernelArg(kernel, 0, sizeof memory, &memory);
  const size_t size = 1;
  (void)unused;
  while (!over) {
    const int unordered = free_running;
    if (!unordered) pthread_rwlock_rdlock(&ordered);
    if (clEnqueueNDRangeKernel(queue, kernel, 1, NULL, &size, NULL, 0, NULL, NULL)) exit(5);
    if (!unordered) {
      enabled += on;
      all_ordered++;
      pthread_rwlock_unlock(&ordered);
    }
    all++;
    clFinish(queue); /* or a driver on the same cores is buried in commands */
  }
  return NULL;
}

static void threads(int times) {
  pthread_t thread[THREADS];
  int now = 1;
  start();
  for (int i = 0; i < THREADS; i++) pthread_create(&thread[i], NULL, launch, NULL);
  for (int part = 0; part < 2; part++) {
    for (int i = 0; i < times; i++) {
      if (!part) pthread_rwlock_wrlock(&ordered);
      now = !now;
      if (now) occatrace_capture_start();
      else occatrace_capture_stop();
      if (!part) on = now; /* a thread may still be in its last ordered launch when the second part begins */
      if (!part) pthread_rwlock_unlock(&ordered);
      usleep(100);
    }
    if (!part) {
      /* From here on nobody counts. */
      pthread_rwlock_wrlock(&ordered);
      occatrace_capture_stop();
      on = now = 0;
      free_running = 1;
      pthread_rwlock_unlock(&ordered);
    }
  }
  over = 1;
  for (int i = 0; i < THREADS; i++) pthread_join(thread[i], NULL);
  occatrace_capture_stop();
  printf("%ld %ld %ld\n", enabled, all_ordered, all);
}

static int ended(const char *file) {
  char name[4096];
  snprintf(name, sizeof name, "%s.stop", file);
  return access(name, F_OK) == 0;
}

static void steps(const char *file) {
  for (long i = 1; !ended(file); i++) {
    char name[4096];
    snprintf(name, sizeof name, "%s.new", file);
    occatrace_counter("step", (double)i, "");
    FILE *f = fopen(name, "w");
    fprintf(f, "%ld", i);
    fclose(f);
    rename(name, file);
    usleep(1000);
  }
}

static void flood(const char *file) {
  long calls = 0;
  start();
  cl_command_queue queue = clCreateCommandQueue(context, device, 0, NULL);
  for (; calls < 2000000 && !ended(file); calls++) clFlush(queue);
  printf("%ld\n", calls);
}

int main(int argc, char **argv) {
  if (argc > 2 && strcmp(argv[1], "threads") == 0) threads(atoi(argv[2]));
  if (argc > 2 && strcmp(argv[1], "steps") == 0) steps(argv[2]);
  if (argc > 2 && strcmp(argv[1], "flood") == 0) flood(argv[2]);
  return 0;
}
