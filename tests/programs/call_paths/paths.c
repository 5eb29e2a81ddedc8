// OpenCL calls in stacks that the program knows: "TRUE N function:line function:line ..." for each call that writes N bytes, the
// outermost frame first. Recursion, stacks of any size (alloca, aligned locals), inlined functions, through libc (qsort), threads,
// OpenMP, a handler of a signal, generated code without unwind tables, after longjmp, in a child of fork. With SAMPLED it takes
// samples of its stack (--sample-stacks) there, which stand for N periods, in place of the calls.
#define _GNU_SOURCE
#define CL_TARGET_OPENCL_VERSION 120
#include <CL/cl.h>
#include <alloca.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#define NOINLINE __attribute__((noinline, noclone))
#define ALWAYS static inline __attribute__((always_inline))

// Volatile, because a handler reads it.
static __thread volatile struct { const char *function; int line; } stack[64];
static __thread volatile int depth;
static cl_context context;
static cl_command_queue queue;
static cl_mem memory;
static char host[1 << 16];
static int number = 1;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

// Not in tail position: that would be a jump, which leaves no frame.
#define GO(call)                                            \
  do {                                                      \
    stack[depth].function = __func__;                       \
    stack[depth++].line = __LINE__;                         \
    (void)(call);                                           \
    depth--;                                                \
    __asm__ volatile("" ::: "memory");                      \
  } while (0)

static int told(void) {
  pthread_mutex_lock(&lock);
  const int bytes = number++;
  fprintf(stderr, "TRUE %d", bytes);
  for (int i = 0; i < depth; i++) fprintf(stderr, " %s:%d", stack[i].function, stack[i].line);
  fprintf(stderr, "\n");
  pthread_mutex_unlock(&lock);
  return bytes;
}
#if defined(SAMPLED)
void take_sample(int periods);
#define WRITE() GO(take_sample(told()))
#define CREATE() take_sample(told())
#else
#define WRITE() GO(clEnqueueWriteBuffer(queue, memory, CL_TRUE, 0, (size_t)told(), host, 0, NULL, NULL))
#define CREATE() clCreateBuffer(context, CL_MEM_READ_WRITE, (size_t)told(), NULL, NULL)
#endif

NOINLINE static void leaf(void) { WRITE(); }
ALWAYS void inner(void) { WRITE(); }
ALWAYS void inlined(void) { GO(inner()); }
NOINLINE static void recursive(int n) {
  if (n == 0) GO(leaf());
  else GO(recursive(n - 1));
}
NOINLINE static void sized(size_t n) {
  volatile char *room = alloca(n);
  room[n - 1] = 1;
  if (n > 4096) GO(inlined());
  GO(leaf());
}
NOINLINE static void aligned(int n) {
  volatile __attribute__((aligned(64))) char room[64];
  volatile char *more = alloca((size_t)n);
  room[0] = more[0] = (char)n;
  __asm__ volatile("" : : "r"(room) : "memory");
  GO(leaf());
}
static int compare(const void *a, const void *b) {
  GO(leaf());
  return *(const int *)a - *(const int *)b;
}
static jmp_buf back;
NOINLINE static void jumps(void) {
  GO(leaf());
  longjmp(back, 1);
}
static void handler(int signal) {
  (void)signal;
  GO(leaf());
}
static void *thread(void *argument) {
  GO(recursive((int)(size_t)argument));
  return NULL;
}
NOINLINE static void setup(void) {
  cl_platform_id platform;
  cl_device_id device;
  clGetPlatformIDs(1, &platform, NULL);
  clGetDeviceIDs(platform, CL_DEVICE_TYPE_ALL, 1, &device, NULL);
  context = clCreateContext(NULL, 1, &device, NULL, NULL, NULL);
  queue = clCreateCommandQueue(context, device, 0, NULL);
  memory = clCreateBuffer(context, CL_MEM_READ_WRITE, sizeof host, NULL, NULL);
}

int main(void) {
  setup();
  for (int i = 0; i < 3; i++) GO(leaf());
  GO(inlined());
  for (int n = 0; n < 6; n++) GO(recursive(n));
  for (size_t n = 16; n < 20000; n += n) GO(sized(n));
  for (int n = 1; n < 300; n += 37) GO(aligned(n));
  int numbers[2] = {2, 1};
  GO(qsort(numbers, 2, sizeof *numbers, compare));
  const int before = depth;
  if (setjmp(back) == 0) GO(jumps());
  depth = before;
  GO(leaf());
  signal(SIGUSR1, handler);
  GO(raise(SIGUSR1));
  pthread_t threads[2];
  for (size_t i = 0; i < 2; i++) pthread_create(&threads[i], NULL, thread, (void *)(3 + i));
  for (size_t i = 0; i < 2; i++) pthread_join(threads[i], NULL);
#if defined(__x86_64__)
  // sub $8, %rsp; call *%rdi; add $8, %rsp; ret
  static const unsigned char code[] = {0x48, 0x83, 0xec, 0x08, 0xff, 0xd7, 0x48, 0x83, 0xc4, 0x08, 0xc3};
  void *page = mmap(NULL, 4096, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  memcpy(page, code, sizeof code);
  depth = 0; // nothing is known of what is around it
  ((void (*)(void (*)(void)))page)(leaf);
#endif
  const pid_t child = fork();
  if (child == 0) {
    // No work: drivers have no threads here.
    GO(CREATE());
    clRetainContext(context); // what was sampled is written in processes that make a call
    _exit(0);
  }
  waitpid(child, NULL, 0);
  return 0;
}

