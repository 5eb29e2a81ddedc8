/* Processor time that is known: functions that compute for a given time of their thread's own clock. */
#define _GNU_SOURCE
#define CL_TARGET_OPENCL_VERSION 120
#include <CL/cl.h>
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

volatile double sink;
static cl_device_id device;

static double cpu(void) {
  struct timespec t;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
  return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}
#define COMPUTES(name, step) /* each other code: compilers make one function of equal ones */ \
  __attribute__((noinline)) static void name(double seconds) {                  \
    const double until = cpu() + seconds;                                       \
    while (cpu() < until)                                                       \
      for (int i = 0; i < 100000; i++) sink += i * (step);                      \
  }
COMPUTES(light, 1)
COMPUTES(heavy, 2)
COMPUTES(in_child, 3)
COMPUTES(while_busy, 4)
COMPUTES(while_idle, 5)
__attribute__((noinline)) static void phase(double a, double b) {
  light(a);
  heavy(b);
  sink += 1;
}
static void *worker(void *p) {
  sigset_t all;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, NULL);
  pthread_setname_np(pthread_self(), "worker");
  phase(0.2, 0.6);
  return p;
}
/* As many samples as a timer would make in seconds, below many frames. What a signal carries is as in samples.c: this is the
 * second thread. */
__attribute__((noinline)) static void deep(int frames, int samples) {
  siginfo_t info = {.si_code = SI_TIMER};
  info.si_value.sival_ptr = (void *)(uintptr_t)UINT64_C(0x6f63636170720001);
  if (frames > 0) deep(frames - 1, samples);
  else
    while (samples-- > 0) syscall(SYS_rt_tgsigqueueinfo, getpid(), (pid_t)syscall(SYS_gettid), SIGRTMAX - 4, &info);
  sink += 1;
}
static void *deep_worker(void *p) {
  deep(200, 500);
  return p;
}
static void start(void) {
  cl_platform_id platform;
  if (clGetPlatformIDs(1, &platform, NULL) != CL_SUCCESS || clGetDeviceIDs(platform, CL_DEVICE_TYPE_ALL, 1, &device, NULL) != CL_SUCCESS) exit(2);
}
static void run_threads(void *(*function)(void *), int count) {
  pthread_t threads[8];
  for (int i = 0; i < count; i++) pthread_create(&threads[i], NULL, function, NULL);
  for (int i = 0; i < count; i++) pthread_join(threads[i], NULL);
}

static void functions(void) {
  phase(0.3, 0.1); /* before the first call that is traced */
  start();
  run_threads(worker, 2);
  const pid_t child = fork();
  if (child == 0) {
    in_child(0.5);
    size_t size = 0;
    clGetDeviceInfo(device, CL_DEVICE_NAME, 0, NULL, &size);
    cl_int status;
    cl_context context = clCreateContext(NULL, 1, &device, NULL, NULL, &status);
    if (context != NULL) clReleaseContext(context);
    _exit(0);
  }
  waitpid(child, NULL, 0);
}

/* A device that works for long, while the host computes, and one that has nothing to do. */
static void devices(void) {
  static const char *const source = "kernel void spin(global float *a, int n) { float s = a[0]; for (int i = 0; i < n; i++) s = s * 0.9999f + a[i & 63]; a[0] = s; }";
  start();
  cl_context context = clCreateContext(NULL, 1, &device, NULL, NULL, NULL);
  cl_command_queue queue = clCreateCommandQueue(context, device, 0, NULL);
  cl_program program = clCreateProgramWithSource(context, 1, (const char **)&source, NULL, NULL);
  clBuildProgram(program, 1, &device, "", NULL, NULL);
  cl_kernel kernel = clCreateKernel(program, "spin", NULL);
  cl_mem memory = clCreateBuffer(context, CL_MEM_READ_WRITE, 256, NULL, NULL);
  cl_int n = 400000000;
  const size_t one = 1;
  clSetKernelArg(kernel, 0, sizeof memory, &memory);
  clSetKernelArg(kernel, 1, sizeof n, &n);
  cl_event event;
  cl_int status = CL_QUEUED;
  clEnqueueNDRangeKernel(queue, kernel, 1, NULL, &one, &one, 0, NULL, &event);
  clFlush(queue);
  do clGetEventInfo(event, CL_EVENT_COMMAND_EXECUTION_STATUS, sizeof status, &status, NULL);
  while (status != CL_RUNNING && status != CL_COMPLETE);
  while_busy(0.3);
  clFinish(queue);
  while_idle(0.3);
}

/* A process and its child that make no traced call. */
static void silent(void) {
  light(0.4);
  const pid_t child = fork();
  if (child == 0) {
    in_child(0.4);
    _exit(0);
  }
  waitpid(child, NULL, 0);
}

/* A signal as ours comes while a call of the system waits, which has to go on. What a signal carries is as in samples.c. */
static void repeated(void) {
  start();
  struct sigevent event = {.sigev_notify = SIGEV_THREAD_ID, .sigev_signo = SIGRTMAX - 4};
  event.sigev_value.sival_ptr = (void *)(uintptr_t)UINT64_C(0x6f63636170720000);
  event._sigev_un._tid = (pid_t)syscall(SYS_gettid);
  timer_t timer;
  const struct itimerspec soon = {{0, 0}, {0, 100000000}};
  int made = 0;
  struct timespec half = {0, 500000000}, left;
  if (timer_create(CLOCK_MONOTONIC, &event, &timer) != 0) exit(3);
  timer_settime(timer, 0, &soon, NULL);
  made += poll(NULL, 0, 500) == 0;
  timer_settime(timer, 0, &soon, NULL);
  made += nanosleep(&half, &left) == 0;
  timer_settime(timer, 0, &soon, NULL);
  made += usleep(500000) == 0;
  printf("went on: %d\n", made);
}

int main(int count, char **arguments) {
  const char *what = count > 1 ? arguments[1] : "functions";
  if (strcmp(what, "functions") == 0) functions();
  if (strcmp(what, "devices") == 0) devices();
  if (strcmp(what, "silent") == 0) silent();
  if (strcmp(what, "repeated") == 0) repeated();
  if (strcmp(what, "deep") == 0) {
    run_threads(deep_worker, 1);
    start();
  }
  if (strcmp(what, "exec") == 0) {
    heavy(0.3);
    execl("/bin/echo", "echo", "replaced", (char *)NULL);
  }
  return 0;
}
