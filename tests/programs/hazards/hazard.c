/* An OpenCL program that ends, forks, spawns or loads its API in a hazardous way, after known work.
 * usage: hazard WAY. Work of one round: 1 buffer of 4096 bytes, 1 write of 4096 bytes, 100 launches of `add`, 1 clFinish,
 * 1 read of 4096 bytes. The API is taken by dlopen, so that the same program can let it go again. */
#define _GNU_SOURCE
#define CL_TARGET_OPENCL_VERSION 120
#include <CL/cl.h>
#include <dlfcn.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <signal.h>
#include <spawn.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
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

/* From here on a file or socket that is opened kills the process. */
static void lock_in(void) {
  struct sock_filter rules[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_openat, 2, 0),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_socket, 1, 0),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
  };
  const struct sock_fprog filter = {sizeof rules / sizeof *rules, rules};
  if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) || prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter)) exit(17);
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
  if (!strcmp(way, "sandbox")) {
    lock_in();
    work();
    return 6;
  }
  if (!strcmp(way, "daemon")) {
    /* The pipe ends with the child; occa_prof waits for the parent only. */
    int ends[2];
    char byte;
    const pid_t watched = pipe(ends) == 0 ? fork() : -1;
    if (watched < 0) return 18;
    if (watched == 0) {
      if (daemon(0, 0)) _exit(19);
      char *where = getcwd(NULL, 0);
      if (where && !strcmp(where, "/") && getsid(0) == getpid() && write(ends[1], "d", 1) == 1) _exit(0);
      _exit(20);
    }
    close(ends[1]);
    if (read(ends[0], &byte, 1) != 1 || byte != 'd' || read(ends[0], &byte, 1) != 0) return 21;
    int status;
    waitpid(watched, &status, 0);
    return status == 0 ? 7 : 22;
  }
  if (!strcmp(way, "daemon-parent")) {
    puts("parent");
    fflush(stdout);
    return daemon(1, 1) ? 19 : 0;
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
