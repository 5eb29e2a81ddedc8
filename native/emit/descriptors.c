/* A program that closes descriptors it did not open (a daemon, closefrom) would close LTTng's and be aborted by it.
 * LTTng knows which are its own and says EBADF to whoever closes those. */
#define _GNU_SOURCE
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "internal.h"

static int (*safe_close)(int, int (*)(int));
static int (*real_close)(int);
static const void *lttng; /* something in liblttng-ust */
static int lttng_has_threads = 1;

void occatrace_protect_descriptors(void *provider) {
  safe_close = (int (*)(int, int (*)(int)))dlsym(provider, "lttng_ust_safe_close_fd");
  lttng = dlsym(provider, "lttng_ust_before_fork");
}

static int close_for_real(int fd) {
  if (real_close == NULL) real_close = (int (*)(int))dlsym(RTLD_NEXT, "close");
  return real_close != NULL ? real_close(fd) : (int)syscall(SYS_close, fd);
}

OCCATRACE_EXPORT int close(int fd) {
  return __builtin_expect(safe_close == NULL, 1) ? close_for_real(fd) : safe_close(fd, close_for_real);
}

/* Goes through what is open from `first` to `last` until a pass changes nothing; no allocation, since this is called between
 * fork and exec. */
static int each_open(unsigned first, unsigned last, int (*change)(int)) {
  const int folder = open("/proc/self/fd", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (folder < 0) return -1;
  char buffer[4096] __attribute__((aligned(8)));
  /* Closing while reading may skip entries. */
  for (int changed = 1; changed;) {
    changed = 0;
    lseek(folder, 0, SEEK_SET);
    for (long n; (n = syscall(SYS_getdents64, folder, buffer, sizeof buffer)) > 0;)
      for (long at = 0; at < n;) {
        const struct dirent64 *entry = (const struct dirent64 *)(buffer + at);
        at += entry->d_reclen;
        if (entry->d_name[0] == '.') continue;
        const unsigned fd = (unsigned)strtoul(entry->d_name, NULL, 10);
        if (fd >= first && fd <= last && fd != (unsigned)folder && change((int)fd)) changed = 1;
      }
  }
  close_for_real(folder);
  return 0;
}

static int close_unless_lttngs(int fd) { return safe_close(fd, close_for_real) == 0; }
static int close_open(unsigned first, unsigned last) { return each_open(first, last, close_unless_lttngs); }

/* ---- what a child of fork inherits of LTTng ---- */

static int leave_open(int fd) {
  (void)fd;
  return 0;
}

static int parked = -1;
static int park_if_lttngs(int fd) {
  struct sockaddr_storage peer = {0}; /* some kinds of sockets give no name */
  socklen_t length = sizeof peer;
  if (getpeername(fd, (struct sockaddr *)&peer, &length) != 0 || peer.ss_family != AF_UNIX || safe_close(fd, leave_open) == 0) return 0;
  dup3(parked, fd, O_CLOEXEC);
  return 0;
}

void occatrace_park_lttng_sockets(void) {
  if (safe_close == NULL) return;
  /* The numbers stay LTTng's own: it closes them when the child registers. */
  parked = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (parked < 0) return; /* no descriptor is left: should the child outlive its parent, the daemon waits for it in vain */
  each_open(0, UINT32_MAX, park_if_lttngs);
  close_for_real(parked);
}

void occatrace_lttng_has_threads(int present) { lttng_has_threads = present; }

/* As the process exits LTTng cancels its threads, by handles that in a child of fork may be those of the program's threads. */
OCCATRACE_EXPORT int pthread_cancel(pthread_t thread) {
  static int (*real)(pthread_t);
  Dl_info caller, theirs;
  if (!lttng_has_threads && lttng != NULL && dladdr(__builtin_return_address(0), &caller) && dladdr(lttng, &theirs) &&
      caller.dli_fbase == theirs.dli_fbase)
    return 0;
  if (real == NULL) real = (int (*)(pthread_t))dlsym(RTLD_NEXT, "pthread_cancel");
  return real != NULL ? real(thread) : ENOSYS;
}

OCCATRACE_EXPORT int close_range(unsigned first, unsigned last, int flags) {
  if (safe_close != NULL && flags == 0) {
    if (first > last) {
      errno = EINVAL;
      return -1;
    }
    if (close_open(first, last) == 0) return 0;
  }
#ifdef SYS_close_range
  return (int)syscall(SYS_close_range, first, last, flags);
#else
  errno = ENOSYS;
  return -1;
#endif
}

OCCATRACE_EXPORT void closefrom(int first) {
  if (safe_close != NULL && close_open(first < 0 ? 0u : (unsigned)first, UINT32_MAX) == 0) return;
  void (*real)(int) = (void (*)(int))dlsym(RTLD_NEXT, "closefrom");
  if (real != NULL) real(first);
}
