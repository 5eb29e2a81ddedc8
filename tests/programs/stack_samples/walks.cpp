// Traced calls from everywhere that a stack may be hard to read: deep recursion with alloca, exceptions, longjmp, code without unwind
// tables that comes and goes, libraries that are loaded and unloaded, threads that end, contexts with small stacks, handlers on a
// stack of their own, children; and, with "hammer", samples of all threads at random moments. Prints how many calls there were.
//   walks LIBRARY CALLS THREADS [hammer]
#define CL_TARGET_OPENCL_VERSION 120
#include <CL/cl.h>
#include <alloca.h>
#include <csetjmp>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <dirent.h>
#include <dlfcn.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <ucontext.h>
#include <unistd.h>

namespace {

long wanted;
long made;
int over;
const char *library;

void call() {
  clWaitForEvents(0, nullptr);  // fails at once: nothing but what records it
  __atomic_fetch_add(&made, 1, __ATOMIC_RELAXED);
}

struct Random {
  uint64_t state;
  unsigned operator()(unsigned below) {
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return static_cast<unsigned>(state >> 33) % below;
  }
};

struct Calls {  // in a destructor, also while an exception passes
  ~Calls() { call(); }
};

__attribute__((noinline)) int deep(Random &random, int depth, void (*last)(Random &)) {
  auto *room = static_cast<volatile char *>(alloca(16 + random(300)));
  room[0] = 1;
  if (depth == 0) last(random);
  else if (random(2)) return deep(random, depth - 1, last) + room[0];
  else return [&] { return deep(random, depth - 1, last) + 1; }() + room[0];
  return room[0];
}

__attribute__((noinline)) void throws(Random &random) {
  Calls one;
  if (random(2)) throw 1;
  call();
  throw 2L;
}

thread_local jmp_buf back;
__attribute__((noinline)) void jumps(Random &random) {
  call();
  longjmp(back, 1 + static_cast<int>(random(3)));
}

// sub rsp, n; call rdi; add rsp, n; ret; with a broken frame pointer in between. No unwind table.
void generated(Random &random) {
  const long size = 4096;
  auto *code = static_cast<unsigned char *>(mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
  if (code == MAP_FAILED) return;
  const auto room = static_cast<unsigned char>(16 * random(7));
  const unsigned char text[] = {0x55, 0x48, 0xbd, 1, 2, 3, 4, 5, 6, 7, 8, 0x48, 0x83, 0xec, room, 0xff, 0xd7, 0x48, 0x83, 0xc4, room, 0x5d, 0xc3};
  unsigned char *at = code + random(64);
  memcpy(at, text, sizeof text);
  const uint64_t frame = random(2) ? random(1 << 30) : reinterpret_cast<uint64_t>(&room) + random(4096);
  memcpy(at + 3, &frame, sizeof frame);
  mprotect(code, size, PROT_READ | PROT_EXEC);
  reinterpret_cast<void (*)(void (*)())>(reinterpret_cast<uintptr_t>(at))(call);
  munmap(code, size);
}

void loaded(Random &) {
  void *handle = dlopen(library, RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr) return;
  auto through = reinterpret_cast<void (*)(void (*)())>(dlsym(handle, "through"));
  if (through != nullptr) through(call);
  dlclose(handle);
}

int compare(const void *a, const void *b) {
  if ((reinterpret_cast<uintptr_t>(a) & 31) == 0) call();
  return *static_cast<const int *>(a) - *static_cast<const int *>(b);
}

ucontext_t *resumed(ucontext_t *set = nullptr) {
  static thread_local ucontext_t *context;
  if (set != nullptr) context = set;
  return context;
}
void within() {
  call();
  swapcontext(resumed() + 1, resumed());
  call();
}
void contexts(Random &random) {
  ucontext_t both[2];
  const size_t size = 65536;
  void *stack = mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (stack == MAP_FAILED) return;
  getcontext(&both[1]);
  both[1].uc_stack.ss_sp = stack;
  both[1].uc_stack.ss_size = size;
  both[1].uc_link = &both[0];
  makecontext(&both[1], within, 0);
  resumed(both);
  swapcontext(&both[0], &both[1]);
  if (random(2)) swapcontext(&both[0], &both[1]);  // otherwise it is never ended
  munmap(stack, size);
}

void on_signal(int) { call(); }

void *brief(void *seed) {
  Random random{reinterpret_cast<uint64_t>(seed)};
  deep(random, static_cast<int>(random(10)), [](Random &) { call(); });
  return nullptr;
}

void child(Random &random) {
  fflush(stdout);
  const pid_t pid = fork();
  if (pid == 0) {
    for (int i = 0; i < 50; i++) deep(random, static_cast<int>(random(30)), [](Random &) { call(); });
    _exit(0);
  }
  int status = 0;
  while (pid > 0 && waitpid(pid, &status, 0) < 0) {}
  if (status != 0) {
    fprintf(stderr, "a child ended with %x\n", status);
    _exit(9);
  }
  __atomic_fetch_add(&made, 50, __ATOMIC_RELAXED);
}

void *work(void *seed) {
  Random random{0x9E3779B97F4A7C15u * (reinterpret_cast<uint64_t>(seed) + 1)};
  const size_t size = 65536;
  stack_t other = {malloc(size), 0, size};
  sigaltstack(&other, nullptr);
  while (__atomic_load_n(&made, __ATOMIC_RELAXED) < wanted) {
    const unsigned kind = random(1000);
    if (kind < 1 && random(100) == 0) child(random);
    else if (kind < 20) {
      pthread_t thread;
      if (pthread_create(&thread, nullptr, brief, reinterpret_cast<void *>(random.state)) == 0) pthread_join(thread, nullptr);
    } else if (kind < 40) loaded(random);
    else if (kind < 100) generated(random);
    else if (kind < 200) {
      try {
        deep(random, static_cast<int>(random(20)), throws);
      } catch (int) {
        call();
      } catch (long) {
        deep(random, 2, [](Random &) { call(); });
      }
    } else if (kind < 300) {
      if (setjmp(back) == 0) deep(random, static_cast<int>(random(20)), jumps);
      else call();
    } else if (kind < 340) contexts(random);
    else if (kind < 380) raise(SIGUSR1);
    else if (kind < 400) {
      int numbers[64];
      for (int &number : numbers) number = static_cast<int>(random(1000));
      qsort(numbers, 64, sizeof *numbers, compare);
    } else deep(random, static_cast<int>(kind < 420 ? random(2000) : random(40)), [](Random &) { call(); });
  }
  other.ss_flags = SS_DISABLE;
  sigaltstack(&other, nullptr);
  free(other.ss_sp);
  return nullptr;
}

// What a timer of --sample-stacks would send, to all threads in turn (as in call_paths/take_sample.c).
void *hammer(void *) {
  Random random{4711};
  siginfo_t info;
  memset(&info, 0, sizeof info);
  info.si_code = SI_TIMER;
  while (!__atomic_load_n(&over, __ATOMIC_RELAXED)) {
    DIR *tasks = opendir("/proc/self/task");
    if (tasks == nullptr) break;
    while (dirent *entry = readdir(tasks)) {
      const auto thread = static_cast<pid_t>(atol(entry->d_name));
      if (thread <= 0 || thread == static_cast<pid_t>(syscall(SYS_gettid))) continue;
      for (int times = 0; times < 40; times++) {
        info.si_value.sival_ptr = reinterpret_cast<void *>(static_cast<uintptr_t>(0x6f63636170720000u | random(12)));
        syscall(SYS_rt_tgsigqueueinfo, getpid(), thread, SIGRTMAX - 4, &info);
      }
    }
    closedir(tasks);
  }
  return nullptr;
}

}  // namespace

int main(int count, char **words) {
  if (count < 4) return 2;
  library = words[1];
  wanted = atol(words[2]);
  const int threads = atoi(words[3]);
  cl_platform_id platform;
  cl_device_id device;
  if (clGetPlatformIDs(1, &platform, nullptr) != CL_SUCCESS || clGetDeviceIDs(platform, CL_DEVICE_TYPE_ALL, 1, &device, nullptr) != CL_SUCCESS) return 2;
  cl_context context = clCreateContext(nullptr, 1, &device, nullptr, nullptr, nullptr);
  struct sigaction action;
  memset(&action, 0, sizeof action);
  action.sa_handler = on_signal;
  action.sa_flags = SA_RESTART | SA_ONSTACK;
  sigaction(SIGUSR1, &action, nullptr);
  sigaction(SIGALRM, &action, nullptr);
  signal(SIGRTMAX - 4, SIG_IGN);  // with the number of no thread they are the program's
  const itimerval often = {{0, 2000}, {0, 2000}}, never = {{0, 0}, {0, 0}};
  setitimer(ITIMER_REAL, &often, nullptr);
  pthread_t all[64], one;
  const bool hammers = count > 4 && pthread_create(&one, nullptr, hammer, nullptr) == 0;
  for (long i = 0; i < threads && i < 64; i++) pthread_create(&all[i], nullptr, work, reinterpret_cast<void *>(i));
  for (long i = 0; i < threads && i < 64; i++) pthread_join(all[i], nullptr);
  setitimer(ITIMER_REAL, &never, nullptr);
  __atomic_store_n(&over, 1, __ATOMIC_RELAXED);
  if (hammers) pthread_join(one, nullptr);
  clReleaseContext(context);
  printf("%ld\n", made);
  return 0;
}
