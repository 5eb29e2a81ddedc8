/* The signal that samples stacks, beside the program's own signals: it may use the same number (sample_preload.c), and make calls
 * of the system that a handler ends early. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <ucontext.h>
#include <unistd.h>

#include "samples.h"

/* Not those of sample_preload.c, which stand before this library. */
static int (*real_sigaction)(int, const struct sigaction *, struct sigaction *);
static int (*real_thread_mask)(int, const sigset_t *, sigset_t *);

int occatrace_sample_signal;
/* What the program wants with it; the first or the second of them. */
static struct sigaction wanted[2];
static uint32_t which;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

int occatrace_take_signal(void (*handler)(int, siginfo_t *, void *)) {
  *(void **)&real_sigaction = dlsym(RTLD_NEXT, "sigaction");
  *(void **)&real_thread_mask = dlsym(RTLD_NEXT, "pthread_sigmask");
  for (int n = SIGRTMAX - 4; n > SIGRTMIN; n--) {
    struct sigaction now, ours = {.sa_sigaction = handler, .sa_flags = SA_SIGINFO | SA_RESTART | SA_ONSTACK};
    if (real_sigaction(n, NULL, &now) != 0 || now.sa_handler != SIG_DFL) continue;
    sigfillset(&ours.sa_mask); /* a handler that leaves by longjmp would leave ours, too */
    if (real_sigaction(n, &ours, NULL) != 0) continue;
    sigset_t open;
    sigemptyset(&open);
    sigaddset(&open, n);
    real_thread_mask(SIG_UNBLOCK, &open, NULL);
    occatrace_sample_signal = n;
    return 1;
  }
  return 0;
}

void occatrace_pass_signal(int n, siginfo_t *info, void *context) {
  const uint32_t at = __atomic_load_n(&which, __ATOMIC_ACQUIRE);
  const struct sigaction action = wanted[at];
  if (action.sa_handler == SIG_IGN) return;
  if (action.sa_handler == SIG_DFL) { /* it ends the process */
    const struct sigaction standard = {.sa_handler = SIG_DFL};
    real_sigaction(n, &standard, NULL);
    syscall(SYS_tgkill, getpid(), (pid_t)syscall(SYS_gettid), n);
    sigset_t open;
    sigemptyset(&open);
    sigaddset(&open, n);
    real_thread_mask(SIG_UNBLOCK, &open, NULL);
    return;
  }
  if (action.sa_flags & (int)SA_RESETHAND) wanted[at].sa_handler = SIG_DFL;
  sigset_t blocked = ((ucontext_t *)context)->uc_sigmask;
  for (int s = 1; s < NSIG; s++)
    if (sigismember(&action.sa_mask, s) == 1) sigaddset(&blocked, s);
  if (!(action.sa_flags & SA_NODEFER)) sigaddset(&blocked, n);
  real_thread_mask(SIG_SETMASK, &blocked, NULL);
  if (action.sa_flags & SA_SIGINFO) action.sa_sigaction(n, info, context);
  else action.sa_handler(n);
}

/* Such calls of the system end with EINTR when a handler has run, whatever SA_RESTART says. A signal by processor time comes while
 * its thread runs, so hardly any of the time to wait is over: the call is made again, with what it was given. */
void occatrace_repeat_call(void *context) {
#if defined(__x86_64__)
  static const uint16_t calls[] = {SYS_poll, SYS_ppoll, SYS_select, SYS_pselect6, SYS_epoll_wait, SYS_epoll_pwait, SYS_nanosleep,
                                   SYS_clock_nanosleep, SYS_pause, SYS_rt_sigsuspend, SYS_rt_sigtimedwait, SYS_semop,
                                   SYS_semtimedop, SYS_msgsnd, SYS_msgrcv, SYS_futex, SYS_io_getevents, SYS_recvfrom, SYS_recvmsg,
                                   SYS_sendto, SYS_sendmsg, SYS_accept, SYS_accept4};
  greg_t *const r = ((ucontext_t *)context)->uc_mcontext.gregs;
  if (r[REG_RAX] != -EINTR) return;
  const uint8_t *const after = (const uint8_t *)r[REG_RIP];
  if (after[-2] != 0x0f || after[-1] != 0x05) return; /* syscall */
  if (after[-7] != 0xb8) return;                      /* mov $number, %eax */
  sigset_t waiting; /* the program's own that came with it: that one ends the call */
  sigpending(&waiting);
  for (int s = 1; s < NSIG; s++)
    if (s != occatrace_sample_signal && sigismember(&waiting, s) == 1 && sigismember(&((ucontext_t *)context)->uc_sigmask, s) == 0) return;
  uint32_t made;
  memcpy(&made, after - 6, sizeof made);
  for (size_t i = 0; i < sizeof calls / sizeof *calls; i++)
    if (made == calls[i]) {
      r[REG_RIP] -= 7;
      return;
    }
#else
  (void)context; /* what the call was given is not there any more */
#endif
}

int occatrace_sample_wanted(const struct sigaction *action, struct sigaction *old) {
  sigset_t all, signals;
  sigfillset(&all);
  real_thread_mask(SIG_SETMASK, &all, &signals);
  pthread_mutex_lock(&lock);
  if (old != NULL) *old = wanted[which];
  if (action != NULL) {
    wanted[1 - which] = *action;
    __atomic_store_n(&which, 1 - which, __ATOMIC_RELEASE);
  }
  pthread_mutex_unlock(&lock);
  real_thread_mask(SIG_SETMASK, &signals, NULL);
  return 0;
}
