/* A program that closes descriptors it did not open (a daemon, closefrom) would close LTTng's and be aborted by it.
 * LTTng knows which are its own and says EBADF to whoever closes those. */
#define _GNU_SOURCE
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "internal.h"

static int (*safe_close)(int, int (*)(int));
static int (*real_close)(int);

void occatrace_protect_descriptors(void *provider) {
  safe_close = (int (*)(int, int (*)(int)))dlsym(provider, "lttng_ust_safe_close_fd");
}

static int close_for_real(int fd) {
  if (real_close == NULL) real_close = (int (*)(int))dlsym(RTLD_NEXT, "close");
  return real_close != NULL ? real_close(fd) : (int)syscall(SYS_close, fd);
}

OCCATRACE_EXPORT int close(int fd) {
  return __builtin_expect(safe_close == NULL, 1) ? close_for_real(fd) : safe_close(fd, close_for_real);
}

/* Closes what is open from `first` to `last`; no allocation, since this is called between fork and exec. */
static int close_open(unsigned first, unsigned last) {
  const int folder = open("/proc/self/fd", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (folder < 0) return -1;
  char buffer[4096] __attribute__((aligned(8)));
  /* Closing while reading may skip entries: read until a pass closes nothing. */
  for (int closed = 1; closed;) {
    closed = 0;
    lseek(folder, 0, SEEK_SET);
    for (long n; (n = syscall(SYS_getdents64, folder, buffer, sizeof buffer)) > 0;)
      for (long at = 0; at < n;) {
        const struct dirent64 *entry = (const struct dirent64 *)(buffer + at);
        at += entry->d_reclen;
        if (entry->d_name[0] == '.') continue;
        const unsigned fd = (unsigned)strtoul(entry->d_name, NULL, 10);
        if (fd >= first && fd <= last && fd != (unsigned)folder && safe_close((int)fd, close_for_real) == 0) closed = 1;
      }
  }
  close_for_real(folder);
  return 0;
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
