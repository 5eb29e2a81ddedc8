/* Everything at once that a signal may come in the middle of: memory, libraries, threads, traced calls, forks, the program's own
 * signals, also those of the same number, and calls of the system that do not go on after a signal. Tells what it saw. */
#define _GNU_SOURCE
#define CL_TARGET_OPENCL_VERSION 120
#include <CL/cl.h>
#include <dlfcn.h>
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/select.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static double until;
static volatile sig_atomic_t alarms, own;
static int interrupted, forks, strange;
static cl_context context;

static double cpu(void) {
  struct timespec t;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
  return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}
static void on_alarm(int n) {
  (void)n;
  alarms++;
}
static void on_own(int n) {
  (void)n;
  own++;
}
static void *memory(void *unused) {
  void *kept[64] = {NULL};
  for (unsigned i = 0; cpu() < until; i++) {
    free(kept[i % 64]);
    kept[i % 64] = malloc((size_t)1 << (i % 18));
  }
  for (int i = 0; i < 64; i++) free(kept[i]);
  return unused;
}
static void *libraries(void *unused) {
  while (cpu() < until) {
    void *library = dlopen("libz.so.1", RTLD_NOW);
    if (library == NULL) break;
    dlclose(library);
  }
  return unused;
}
static void *nothing(void *unused) {
  volatile double sum = 0;
  for (int i = 0; i < 20000; i++) sum += i;
  return unused;
}
static void *threads(void *unused) {
  while (cpu() < until / 4) {
    pthread_t thread;
    if (pthread_create(&thread, NULL, nothing, NULL) == 0) pthread_join(thread, NULL);
  }
  return unused;
}
static void *calls(void *unused) {
  while (cpu() < until) {
    cl_mem memory_object = clCreateBuffer(context, CL_MEM_READ_WRITE, 64, NULL, NULL);
    if (memory_object != NULL) clReleaseMemObject(memory_object);
  }
  return unused;
}
static void *forking(void *unused) {
  while (cpu() < until / 4) {
    int status = -1;
    const pid_t child = fork();
    if (child == 0) {
      nothing(NULL);
      _exit(7);
    }
    while (waitpid(child, &status, 0) < 0 && errno == EINTR) interrupted++;
    strange += !WIFEXITED(status) || WEXITSTATUS(status) != 7;
    forks++;
  }
  return unused;
}
/* Nothing but calls that a handler would end; the program's own signals go elsewhere. */
static void *waits(void *unused) {
  sigset_t all;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, NULL);
  const int epoll = epoll_create1(0);
  while (cpu() < until) {
    struct timespec short_time = {0, 1000}, left;
    struct timeval short_wait = {0, 1};
    struct epoll_event event;
    interrupted += nanosleep(&short_time, &left) != 0;
    interrupted += usleep(1) != 0;
    interrupted += poll(NULL, 0, 1) < 0;
    interrupted += ppoll(NULL, 0, &short_time, NULL) < 0;
    interrupted += select(0, NULL, NULL, NULL, &short_wait) < 0;
    interrupted += clock_nanosleep(CLOCK_MONOTONIC, 0, &short_time, NULL) != 0;
    interrupted += epoll_wait(epoll, &event, 1, 0) < 0;
    const int n = sigtimedwait(&all, NULL, &short_time);
    strange += n >= SIGRTMIN; /* nobody has sent one */
    interrupted += n < 0 && errno != EAGAIN;
  }
  close(epoll);
  return unused;
}

int main(int count, char **arguments) {
  until = count > 1 ? atof(arguments[1]) : 1;
  struct sigaction action = {.sa_handler = on_own}, none;
  int numbers = 0, same = 0;
  for (int n = SIGRTMIN; n <= SIGRTMAX; n++) numbers += sigaction(n, &action, &none) == 0 && none.sa_handler == SIG_DFL;
  action.sa_handler = on_alarm;
  action.sa_flags = SA_RESTART;
  sigaction(SIGALRM, &action, NULL);
  cl_platform_id platform;
  cl_device_id device;
  if (clGetPlatformIDs(1, &platform, NULL) != CL_SUCCESS || clGetDeviceIDs(platform, CL_DEVICE_TYPE_ALL, 1, &device, NULL) != CL_SUCCESS) return 2;
  context = clCreateContext(NULL, 1, &device, NULL, NULL, NULL);
  const struct itimerval often = {{0, 1000}, {0, 1000}}, never = {{0, 0}, {0, 0}};
  setitimer(ITIMER_REAL, &often, NULL);
  static void *(*const work[])(void *) = {memory, libraries, threads, calls, forking, waits};
  pthread_t all[sizeof work / sizeof *work];
  for (size_t i = 0; i < sizeof work / sizeof *work; i++) pthread_create(&all[i], NULL, work[i], NULL);
  for (size_t i = 0; i < sizeof work / sizeof *work; i++) pthread_join(all[i], NULL);
  setitimer(ITIMER_REAL, &never, NULL);
  const int before = own;
  for (int n = SIGRTMIN; n <= SIGRTMAX; n++) raise(n);
  const int told = own - before;
  for (int n = SIGRTMIN; n <= SIGRTMAX; n++) same += sigaction(n, NULL, &none) == 0 && none.sa_handler == on_own;
  clReleaseContext(context);
  printf("handlers %d of %d, raised %d, before %d, alarms %s, forks %s, interrupted %d, strange %d\n", same, numbers, told, before,
         alarms > 0 ? "yes" : "no", forks > 0 ? "yes" : "no", interrupted, strange);
  return 0;
}
