/* Work that goes on for a while at a given rate, so that what belongs together lies in several pieces of the trace.
 * paced ROUNDS PER_SECOND [FILE]: in each round a thread of its own makes 1000 calls of clFlush and four launches in a range, and
 * a buffer that is released five rounds later; every tenth round is a child's (fork). With FILE it goes on after the last
 * round, when it says "ready", until FILE is there. Prints how many rounds it were. */
#define CL_TARGET_OPENCL_VERSION 120
#include <CL/cl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "occatrace.h"

enum { CALLS = 1000, LAUNCHES = 4, HELD = 5, CHILD = 10, FIRST_BYTES = 4096 };
static cl_context context;
static cl_device_id device;
static cl_command_queue queue;
static cl_kernel kernel;
static cl_mem memory;

static void start(void) {
  cl_platform_id platform;
  const char *source = "kernel void one(global int *a) { a[0] = 1; }";
  if (clGetPlatformIDs(1, &platform, NULL) || clGetDeviceIDs(platform, CL_DEVICE_TYPE_ALL, 1, &device, NULL)) exit(3);
  context = clCreateContext(NULL, 1, &device, NULL, NULL, NULL);
  cl_program program = clCreateProgramWithSource(context, 1, &source, NULL, NULL);
  if (clBuildProgram(program, 1, &device, "", NULL, NULL)) exit(4);
  queue = clCreateCommandQueue(context, device, 0, NULL);
  kernel = clCreateKernel(program, "one", NULL);
  memory = clCreateBuffer(context, CL_MEM_READ_WRITE, 64, NULL, NULL);
  clSetKernelArg(kernel, 0, sizeof memory, &memory);
}

static void *work(void *child) {
  const size_t size = 1;
  occatrace_push("round");
  for (int i = 0; i < CALLS; i++) clFlush(queue);
  for (int i = 0; !child && i < LAUNCHES; i++) {
    if (clEnqueueNDRangeKernel(queue, kernel, 1, NULL, &size, NULL, 0, NULL, NULL)) exit(5);
    clFinish(queue);
  }
  occatrace_pop();
  return NULL;
}

static double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

int main(int argc, char **argv) {
  const int rounds = argc > 1 ? atoi(argv[1]) : 1;
  const double per_second = argc > 2 ? atof(argv[2]) : 100;
  cl_mem held[HELD] = {0};
  start();
  const double begin = now();
  int i = 0;
  for (; i < rounds || (argc > 3 && access(argv[3], F_OK) != 0); i++) {
    const double due = begin + i / per_second;
    while (now() < due) usleep(200);
    if (i == rounds) {
      printf("ready\n");
      fflush(stdout);
    }
    if (i % CHILD == CHILD - 1) {
      const pid_t child = fork();
      if (child == 0) {
        /* A driver does not work in a child; the calls need none. */
        work(&i);
        _exit(0);
      }
      int status = 0;
      if (waitpid(child, &status, 0) != child || status) return 6;
      continue;
    }
    pthread_t thread;
    pthread_create(&thread, NULL, work, NULL);
    pthread_join(thread, NULL);
    cl_mem *place = &held[i % HELD];
    if (*place) clReleaseMemObject(*place);
    *place = clCreateBuffer(context, CL_MEM_READ_WRITE, FIRST_BYTES + (size_t)i, NULL, NULL);
  }
  printf("%d\n", i);
  return 0;
}
