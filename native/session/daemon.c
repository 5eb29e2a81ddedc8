/* Preloaded into the LTTng daemon that we start ourselves and into its consumer, and into nothing else. It shortens their
 * fixed pauses, joins their smallest writes, keeps signals of others from them, and lets a member of the group `tracing` have
 * a private daemon. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

/* The daemon waits for its consumer in fixed steps of 100, 200 and 500 ms, at the start, the stop and the end of a
 * session: a run of a few milliseconds would take a second more. Here the same loops look again after 1 to 5 ms.
 * LTTng 2.13.9 on 2 cores, one small program: stop 200 ms to 2 ms, end of the daemon 620 ms to 110 ms. */
int usleep(useconds_t us) {
  if (us >= 100000 && us < 1000000) us = 1000;
  return nanosleep(&(struct timespec){.tv_sec = us / 1000000, .tv_nsec = (long)(us % 1000000) * 1000}, NULL);
}

/* The check whether a rotation is over: armed once for 500 ms, and armed again by its handler until it is. */
int timer_settime(timer_t timer, int flags, const struct itimerspec *value, struct itimerspec *old) {
  static int (*real)(timer_t, int, const struct itimerspec *, struct itimerspec *);
  if (!real) {
    /* By version: before glibc 2.36 RTLD_NEXT finds the oldest function of this name, which takes other timers. */
    void *found = dlvsym(RTLD_NEXT, "timer_settime", "GLIBC_2.34");
    if (!found) found = dlvsym(RTLD_NEXT, "timer_settime", "GLIBC_2.3.3");
    if (!found) found = dlsym(RTLD_NEXT, "timer_settime");
    real = (int (*)(timer_t, int, const struct itimerspec *, struct itimerspec *))found;
  }
  struct itimerspec shorter = *value;
  if (flags == 0 && value->it_interval.tv_sec == 0 && value->it_interval.tv_nsec == 0 && value->it_value.tv_sec == 0 &&
      value->it_value.tv_nsec == 500000000)
    shorter.it_value.tv_nsec = 5000000;
  return real(timer, flags, &shorter, old);
}

/* As an ordinary user in the group `tracing` it would refuse to start beside root's daemon: for that it asks here. */
int getgroups(int size, gid_t *list) {
  (void)size, (void)list;
  return 0;
}

/* ---- signals ----
 * Who ends a job (Slurm's scancel, a time limit) sends SIGTERM to all of its processes, and #SBATCH --signal sends any other
 * signal: the daemon ended before the program, and the trace was empty. It and the consumer end at the word of their parents,
 * the keeper and the daemon. The keeper goes on until occa_prof lets go of it, or is no more. */

static pid_t parent;
static struct sigaction ending[NSIG];

static void from_parent(int number, siginfo_t *info, void *context) {
  /* A parent that has ended counts, too: that is what PR_SET_PDEATHSIG tells. */
  if (info->si_pid != parent && info->si_pid != getpid()) return;
  if ((ending[number].sa_flags & SA_SIGINFO) != 0)
    ending[number].sa_sigaction(number, info, context);
  else
    ending[number].sa_handler(number);
}

static int real_sigaction(int number, const struct sigaction *action, struct sigaction *old) {
  static int (*real)(int, const struct sigaction *, struct sigaction *);
  if (!real) real = (int (*)(int, const struct sigaction *, struct sigaction *))dlsym(RTLD_NEXT, "sigaction");
  return real(number, action, old);
}

int sigaction(int number, const struct sigaction *action, struct sigaction *old) {
  if ((number != SIGTERM && number != SIGINT) || action == NULL || action->sa_handler == SIG_DFL || action->sa_handler == SIG_IGN)
    return real_sigaction(number, action, old);
  ending[number] = *action;
  struct sigaction ours = *action;
  ours.sa_sigaction = from_parent;
  ours.sa_flags |= SA_SIGINFO;
  return real_sigaction(number, &ours, old);
}

__attribute__((constructor)) static void ignore_signals(void) {
  static const int of_jobs[] = {SIGTERM, SIGINT, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2, SIGXCPU};
  const struct sigaction ignored = {.sa_handler = SIG_IGN};
  parent = getppid();
  for (size_t i = 0; i < sizeof of_jobs / sizeof *of_jobs; i++) real_sigaction(of_jobs[i], &ignored, NULL);
}

/* ---- the copy of the metadata ----
 * Beside the buffers the daemon keeps the metadata as text, for lttng-crash. It writes it token by token, labels of
 * enumerations even character by character: 288,000 writes for the events of OpenCL, while the program waits for its
 * first call. Joined here, and written before the daemon sends anything to anybody: a process records an event only after
 * the answer to its registration, so that what is in the buffers is always described in the file. */

enum {
  DESCRIPTORS = 4096,
  TABLE = 1023,
  JOINED = 64 << 10,
  SHORT_WRITE = 1024,
};
enum {
  UNKNOWN,
  METADATA,
  OTHER,
};

static pthread_mutex_t joining = PTHREAD_MUTEX_INITIALIZER;
static unsigned char kind[DESCRIPTORS];
static int joined_fd = -1, joined_error;
static size_t joined_size;
static char joined[JOINED];
static pid_t process;

__attribute__((constructor)) static void know_process(void) { process = getpid(); }

/* A table of descriptors that grows while there are threads waits for the kernel's RCU, 10 ms and more each time: of sessiond
 * as the first process registers. It never shrinks. */
__attribute__((constructor)) static void grow_table(void) {
  const int fd = fcntl(0, F_DUPFD_CLOEXEC, TABLE);
  if (fd >= 0) close(fd);
}

static ssize_t real_write(int fd, const void *data, size_t size) { return syscall(SYS_write, fd, data, size); }

/* With `joining` held. An error is returned by the next write. */
static void write_joined(void) {
  if (getpid() == process) /* else a child of fork, which has a copy of what its parent writes */
    for (size_t done = 0; done < joined_size;) {
      const ssize_t n = real_write(joined_fd, joined + done, joined_size - done);
      if (n > 0) {
        done += (size_t)n;
      } else if (n == 0 || errno != EINTR) {
        joined_error = n == 0 ? EIO : errno;
        break;
      }
    }
  __atomic_store_n(&joined_size, 0, __ATOMIC_RELEASE);
}

static void settle(void) {
  if (__atomic_load_n(&joined_size, __ATOMIC_ACQUIRE) == 0) return;
  const int before = errno;
  pthread_mutex_lock(&joining);
  write_joined();
  pthread_mutex_unlock(&joining);
  errno = before;
}

/* The text itself is printed into a string of its own for each token, and for each character of a label: 0.4 million times
 * for the events of OpenCL. What needs no formatting is copied here. 0: it needs some. */
static int printed(char **result, const char *format, va_list args) {
  size_t length = strlen(format);
  char one[1];
  if (length == 2 && memcmp(format, "%c", 2) == 0) {
    one[0] = (char)va_arg(args, int);
    format = one;
    length = 1;
  } else if (memchr(format, '%', length) != NULL) {
    return 0;
  }
  char *text = malloc(length + 1);
  if (text == NULL) return -1;
  memcpy(text, format, length);
  text[length] = 0;
  *result = text;
  return (int)length;
}

int vasprintf(char **result, const char *format, va_list args) {
  static int (*real)(char **, const char *, va_list);
  const int length = printed(result, format, args);
  if (length != 0) return length;
  if (!real) real = (int (*)(char **, const char *, va_list))dlsym(RTLD_NEXT, "vasprintf");
  return real(result, format, args);
}

/* As which a program that was built with checks calls it. */
int __vasprintf_chk(char **result, int flag, const char *format, va_list args) {
  static int (*real)(char **, int, const char *, va_list);
  const int length = printed(result, format, args);
  if (length != 0) return length;
  if (!real) real = (int (*)(char **, int, const char *, va_list))dlsym(RTLD_NEXT, "__vasprintf_chk");
  return real(result, flag, format, args);
}

static int is_metadata(int fd) {
  static const char name[] = "/metadata";
  char link[32] = "/proc/self/fd/", path[4096], digits[12];
  struct stat info;
  if (fd < 0 || fd >= DESCRIPTORS) return 0;
  if (kind[fd] != UNKNOWN) return kind[fd] == METADATA;
  size_t count = 0, at = strlen(link);
  for (int rest = fd; count == 0 || rest > 0; rest /= 10) digits[count++] = (char)('0' + rest % 10);
  while (count > 0) link[at++] = digits[--count];
  kind[fd] = OTHER;
  if (strcmp(program_invocation_short_name, "lttng-sessiond") != 0 || fstat(fd, &info) != 0 || !S_ISREG(info.st_mode)) return 0;
  const ssize_t length = readlink(link, path, sizeof path);
  if (length < (ssize_t)strlen(name) || memcmp(path + length - strlen(name), name, strlen(name)) != 0) return 0;
  kind[fd] = METADATA;
  return 1;
}

static ssize_t join(int fd, const void *data, size_t size) {
  pthread_mutex_lock(&joining);
  if (joined_size > 0 && (joined_fd != fd || joined_size + size > JOINED)) write_joined();
  ssize_t result = (ssize_t)size;
  if (joined_error != 0) {
    errno = joined_error;
    joined_error = 0;
    result = -1;
  } else {
    joined_fd = fd;
    memcpy(joined + joined_size, data, size);
    __atomic_store_n(&joined_size, joined_size + size, __ATOMIC_RELEASE);
  }
  pthread_mutex_unlock(&joining);
  return result;
}

ssize_t sendmsg(int fd, const struct msghdr *message, int flags) {
  settle();
  return syscall(SYS_sendmsg, fd, message, flags);
}

int close(int fd) {
  settle();
  if (fd >= 0 && fd < DESCRIPTORS) kind[fd] = UNKNOWN;
  return (int)syscall(SYS_close, fd);
}

/* ---- the buffers ----
 * LTTng gives a buffer's file its size and then fills it with zeros, a page at a time, so that a program never finds shared
 * memory full where it writes an event: 10,000 writes for 40 MiB. Allocating the pages of the new file does the same. */

enum {
  PAGE = 4096,
  SMALL_PACKET = 64 << 10,
};

static int is_zero(const char *data) { return data[0] == 0 && memcmp(data, data + 1, PAGE - 1) == 0; }

/* The writing of a page of zeros where the file has nothing yet; -1: it has to be written. */
static ssize_t allocate(int fd) {
  static __thread int allocated = -1;
  static __thread off_t next, end;
  const off_t at = lseek(fd, 0, SEEK_CUR);
  if (fd != allocated || at != next) {
    struct stat info;
    allocated = -1;
    if (at != 0 || fstat(fd, &info) != 0 || !S_ISREG(info.st_mode) || info.st_blocks != 0) return -1;
    if (fallocate(fd, 0, 0, info.st_size) != 0) return -1;
    allocated = fd;
    end = info.st_size;
  }
  if (at + PAGE > end || lseek(fd, PAGE, SEEK_CUR) != at + PAGE) return -1;
  next = at + PAGE;
  return PAGE;
}

/* The consumer maps all pages of the buffers at once, 10,000 for 40 MiB, of which a small run uses a few: 15 ms in which the
 * first process of a user waits. They are allocated (above), and are mapped when they are read. */
void *mmap(void *address, size_t size, int protection, int flags, int fd, off_t offset) {
  if (fd >= 0 && flags & MAP_SHARED) flags &= ~MAP_POPULATE;
  return (void *)syscall(SYS_mmap, address, size, protection, flags, fd, offset);
}

void *mmap64(void *address, size_t size, int protection, int flags, int fd, off_t offset) __attribute__((alias("mmap")));

/* After each packet of the trace the consumer waits until the one before is on disk, and drops it from the cache. Packets of
 * metadata have 4 KiB: a small run would wait for the disk a hundred times, and read all of it from there again. */
int sync_file_range(int fd, off64_t offset, off64_t size, unsigned flags) {
  if (size <= SMALL_PACKET) return 0;
  return (int)syscall(SYS_sync_file_range, fd, offset, size, flags);
}

int posix_fadvise(int fd, off_t offset, off_t size, int advice) {
  if (size <= SMALL_PACKET && advice == POSIX_FADV_DONTNEED) return 0;
  return syscall(SYS_fadvise64, fd, offset, size, advice) == 0 ? 0 : errno;
}

ssize_t write(int fd, const void *data, size_t size) {
  if (size <= SHORT_WRITE && is_metadata(fd)) return join(fd, data, size);
  if (size > SHORT_WRITE) settle(); /* may be to the same file */
  if (size == PAGE && is_zero(data) && strcmp(program_invocation_short_name, "lttng-consumerd") == 0) {
    const int before = errno;
    const ssize_t done = allocate(fd);
    errno = before;
    if (done > 0) return done;
  }
  return real_write(fd, data, size);
}
