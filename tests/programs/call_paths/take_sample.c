// Takes a sample of the calling thread's stack as a timer of --sample-stacks would, for so many periods. What a signal carries is
// as in samples.c: the number of the thread is not known, and no other thread takes its sample.
#define _GNU_SOURCE
#include <signal.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <unistd.h>

// Those with the number of another thread, and all where nothing is sampled.
__attribute__((constructor)) static void ignore(void) { signal(SIGRTMAX - 4, SIG_IGN); }

void call_back(void (*function)(void)) {
  volatile int more = 1;
  function();
  more = 0;
}

void take_sample(int periods) {
  siginfo_t info = {.si_code = SI_TIMER};
  info.si_overrun = periods - 1;
  for (unsigned thread = 0; thread < 32; thread++) {
    info.si_value.sival_ptr = (void *)(uintptr_t)(UINT64_C(0x6f63636170720000) | thread);
    syscall(SYS_rt_tgsigqueueinfo, getpid(), (pid_t)syscall(SYS_gettid), SIGRTMAX - 4, &info);
  }
}
