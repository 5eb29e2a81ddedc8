/* An OpenCL program that ends, forks, spawns or loads its API in a hazardous way, after known work.
 * usage: hazard WAY. Work of one round: 1 buffer of 4096 bytes, 1 write of 4096 bytes, 100 launches of `add`, 1 clFinish,
 * 1 read of 4096 bytes. The API is taken by dlopen, so that the same program can let it go again. */
#define _GNU_SOURCE
#define CL_TARGET_OPENCL_VERSION 120
#include <CL/cl.h>
#include <dlfcn.h>
#include <pthread.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define F(name) static __typeof__(name) *p_##name
F(clGetPlatformIDs); F(clGetDeviceIDs); F(clCreateContext); F(clCreateCommandQueue); F(clCreateBuffer);
F(clCreateProgramWithSource); F(clBuildProgram); F(clCreateKernel); F(clSetKernelArg); F(clEnqueueNDRangeKernel);
F(clEnqueueWriteBuffer); F(clEnqueueReadBuffer); F(clFinish); F(clReleaseMemObject); F(clReleaseKernel);
F(clReleaseProgram); F(clReleaseCommandQueue); F(clReleaseContext);
static void *api;

static void load(void) {
  api = dlopen("libOpenCL.so.1", RTLD_NOW | RTLD_LOCAL);
  if (!api) exit(10);
#define G(name) p_##name = (__typeof__(p_##name))dlsym(api, #name)
  G(clGetPlatformIDs); G(clGetDeviceIDs); G(clCreateContext); G(clCreateCommandQueue); G(clCreateBuffer);
  G(clCreateProgramWithSource); G(clBuildProgram); G(clCreateKernel); G(clSetKernelArg); G(clEnqueueNDRangeKernel);
  G(clEnqueueWriteBuffer); G(clEnqueueReadBuffer); G(clFinish); G(clReleaseMemObject); G(clReleaseKernel);
  G(clReleaseProgram); G(clReleaseCommandQueue); G(clReleaseContext);
}

static cl_context context;
static cl_device_id device;
static cl_program program;

static void setup(void) {
  cl_platform_id platform;
  const char *source = "__kernel void add(__global int *a) { a[get_global_id(0)] += 1; }";
  if (p_clGetPlatformIDs(1, &platform, NULL) || p_clGetDeviceIDs(platform, CL_DEVICE_TYPE_ALL, 1, &device, NULL)) exit(11);
  context = p_clCreateContext(NULL, 1, &device, NULL, NULL, NULL);
  program = p_clCreateProgramWithSource(context, 1, &source, NULL, NULL);
  if (p_clBuildProgram(program, 1, &device, "", NULL, NULL)) exit(12);
}

static void work(void) {
  static const int zero[1024];
  int back[1024];
  const size_t n = 1024;
  cl_command_queue queue = p_clCreateCommandQueue(context, device, 0, NULL);
  cl_kernel kernel = p_clCreateKernel(program, "add", NULL);
  cl_mem buffer = p_clCreateBuffer(context, CL_MEM_READ_WRITE, sizeof back, NULL, NULL);
  p_clSetKernelArg(kernel, 0, sizeof buffer, &buffer);
  p_clEnqueueWriteBuffer(queue, buffer, CL_FALSE, 0, sizeof zero, zero, 0, NULL, NULL);
  for (int i = 0; i < 100; i++) p_clEnqueueNDRangeKernel(queue, kernel, 1, NULL, &n, NULL, 0, NULL, NULL);
  p_clFinish(queue);
  p_clEnqueueReadBuffer(queue, buffer, CL_TRUE, 0, sizeof back, back, 0, NULL, NULL);
  if (back[7] != 100) exit(13);
  p_clReleaseMemObject(buffer);
  p_clReleaseKernel(kernel);
  p_clReleaseCommandQueue(queue);
}

static void *thread(void *unused) {
  (void)unused;
  work();
  return NULL;
}

extern char **environ;

int main(int argc, char **argv) {
  const char *way = argc > 1 ? argv[1] : "exit3";
  load();
  setup();
  work();
  if (!strcmp(way, "exit3")) return 3;
  if (!strcmp(way, "segv")) {
    signal(SIGSEGV, SIG_DFL); /* PoCL has a handler of its own */
    *(volatile int *)8 = 1;
  }
  if (!strcmp(way, "abort")) abort();
  if (!strcmp(way, "_exit")) _exit(4);
  if (!strcmp(way, "kill9")) kill(getpid(), SIGKILL);
  if (!strcmp(way, "sleep")) {
    puts("ready");
    fflush(stdout);
    for (;;) pause();
  }
  if (!strcmp(way, "fork")) {
    /* PoCL's threads do not survive fork, so the child only makes calls that need none. */
    const pid_t child = fork();
    if (child == 0) {
      cl_kernel kernel = p_clCreateKernel(program, "add", NULL);
      p_clReleaseKernel(kernel);
      _exit(0);
    }
    waitpid(child, NULL, 0);
  }
  if (!strcmp(way, "fork-exec-50")) {
    char *command[] = {"/usr/bin/gcc", "-x", "c", "-c", "/dev/null", "-o", "/dev/null", NULL};
    for (int i = 0; i < 50; i++) {
      pid_t child;
      int status;
      if (i % 2) {
        if (posix_spawn(&child, command[0], NULL, NULL, command, environ)) return 14;
      } else if ((child = fork()) == 0) {
        execv(command[0], command);
        _exit(15);
      }
      waitpid(child, &status, 0);
      if (status) return 16;
    }
  }
  if (!strcmp(way, "threads64")) {
    pthread_t t[64];
    for (int i = 0; i < 64; i++) pthread_create(&t[i], NULL, thread, NULL);
    for (int i = 0; i < 64; i++) pthread_join(t[i], NULL);
  }
  if (!strcmp(way, "dlclose")) {
    for (int i = 0; i < 3; i++) {
      p_clReleaseProgram(program);
      p_clReleaseContext(context);
      dlclose(api);
      load();
      setup();
      work();
    }
  }
  return 0;
}
