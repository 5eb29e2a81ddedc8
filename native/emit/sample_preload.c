/* What the program does with signals and threads while stacks are sampled: it may use the same signal, block all signals, wait for
 * any. A library of its own, preloaded with --sample-stacks only and before the core, which needs the functions behind these. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <time.h>

#include "sample_preload.h"

static int (*real_sigaction)(int, const struct sigaction *, struct sigaction *);
static __sighandler_t (*real_signal)(int, __sighandler_t);
static int (*real_thread_mask)(int, const sigset_t *, sigset_t *), (*real_mask)(int, const sigset_t *, sigset_t *);
static int (*real_wait)(const sigset_t *, int *), (*real_wait_info)(const sigset_t *, siginfo_t *);
static int (*real_timed_wait)(const sigset_t *, siginfo_t *, const struct timespec *);
static int (*real_create)(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *);

/* Before anything of the program where that is possible: dlsym is not for a signal's handler. */
static void find(void) {
  if (__builtin_expect(__atomic_load_n((void **)&real_create, __ATOMIC_ACQUIRE) != NULL, 1)) return;
  *(void **)&real_sigaction = dlsym(RTLD_NEXT, "sigaction");
  *(void **)&real_signal = dlsym(RTLD_NEXT, "signal");
  *(void **)&real_thread_mask = dlsym(RTLD_NEXT, "pthread_sigmask");
  *(void **)&real_mask = dlsym(RTLD_NEXT, "sigprocmask");
  *(void **)&real_wait = dlsym(RTLD_NEXT, "sigwait");
  *(void **)&real_wait_info = dlsym(RTLD_NEXT, "sigwaitinfo");
  *(void **)&real_timed_wait = dlsym(RTLD_NEXT, "sigtimedwait");
  __atomic_store_n((void **)&real_create, dlsym(RTLD_NEXT, "pthread_create"), __ATOMIC_RELEASE); /* the last: all are known */
}
__attribute__((constructor)) static void find_early(void) { find(); }

/* A set without ours. */
static const sigset_t *without(const sigset_t *set, sigset_t *room) {
  if (occatrace_sample_signal == 0 || set == NULL || sigismember(set, occatrace_sample_signal) != 1) return set;
  *room = *set;
  sigdelset(room, occatrace_sample_signal);
  return room;
}

OCCATRACE_EXPORT int sigaction(int n, const struct sigaction *action, struct sigaction *old) {
  if (__builtin_expect(n == occatrace_sample_signal && n != 0, 0)) return occatrace_sample_wanted(action, old);
  find();
  return real_sigaction(n, action, old);
}

OCCATRACE_EXPORT __sighandler_t signal(int n, __sighandler_t handler) {
  if (__builtin_expect(n == occatrace_sample_signal && n != 0, 0)) {
    struct sigaction old, action = {.sa_handler = handler, .sa_flags = SA_RESTART};
    occatrace_sample_wanted(&action, &old);
    return old.sa_handler;
  }
  find();
  return real_signal(n, handler);
}

OCCATRACE_EXPORT int pthread_sigmask(int how, const sigset_t *set, sigset_t *old) {
  sigset_t room;
  find();
  return real_thread_mask(how, how == SIG_UNBLOCK ? set : without(set, &room), old);
}
OCCATRACE_EXPORT int sigprocmask(int how, const sigset_t *set, sigset_t *old) {
  sigset_t room;
  find();
  return real_mask(how, how == SIG_UNBLOCK ? set : without(set, &room), old);
}
OCCATRACE_EXPORT int sigwait(const sigset_t *set, int *which_one) {
  sigset_t room;
  find();
  return real_wait(without(set, &room), which_one);
}
OCCATRACE_EXPORT int sigwaitinfo(const sigset_t *set, siginfo_t *info) {
  sigset_t room;
  find();
  return real_wait_info(without(set, &room), info);
}
OCCATRACE_EXPORT int sigtimedwait(const sigset_t *set, siginfo_t *info, const struct timespec *timeout) {
  sigset_t room;
  find();
  return real_timed_wait(without(set, &room), info, timeout);
}

struct start {
  void *(*function)(void *);
  void *argument;
};
static void *started(void *data) {
  const struct start start = *(struct start *)data;
  free(data);
  occatrace_sample_thread_begins();
  return start.function(start.argument);
}
OCCATRACE_EXPORT int pthread_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*function)(void *), void *argument) {
  find();
  struct start *const start = occatrace_samples_new_threads() ? malloc(sizeof *start) : NULL;
  if (start == NULL) return real_create(thread, attributes, function, argument);
  *start = (struct start){function, argument};
  const int result = real_create(thread, attributes, started, start);
  if (result != 0) free(start);
  return result;
}
