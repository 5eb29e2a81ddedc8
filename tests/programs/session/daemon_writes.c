/* Writes as LTTng's daemon and its consumer do, for the test of native/session/daemon.c. The name of the program decides
 * which of them it is taken for.
 *   daemon_writes tokens FILE    text in short writes; prints the size of FILE before and after a message is sent
 *   daemon_writes zeros FILE     a file of 1 MiB and 100 bytes filled with zeros by pages; prints its blocks
 *   daemon_writes map FILE       maps 1 MiB of it with all its pages; prints the pages that are mapped, and reads one
 *   daemon_writes print FILE     texts through vasprintf, and whose function that is */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static struct stat state_of(int fd) {
  struct stat info;
  if (fstat(fd, &info) != 0) abort();
  return info;
}

static void tokens(int fd) {
  int pair[2];
  char text[16], byte = 'x';
  if (socketpair(AF_UNIX, SOCK_STREAM, 0, pair) != 0) abort();
  for (int i = 0; i < 1000; i++) {
    snprintf(text, sizeof text, "%d,", i);
    if (write(fd, text, strlen(text)) != (ssize_t)strlen(text)) abort();
  }
  const pid_t child = fork(); /* has a copy of what was not written yet, which is not its own to write */
  if (child == 0) {
    close(fd);
    _exit(0);
  }
  waitpid(child, NULL, 0);
  printf("before %ld\n", (long)state_of(fd).st_size);
  struct iovec part = {&byte, 1};
  if (sendmsg(pair[0], &(struct msghdr){.msg_iov = &part, .msg_iovlen = 1}, 0) != 1) abort();
  printf("after %ld\n", (long)state_of(fd).st_size);
  for (int i = 0; i < 40000; i++)
    if (write(fd, "more\n", 5) != 5) abort();
  close(fd);
}

static void zeros(int fd) {
  enum { PAGE = 4096, SIZE = (1 << 20) + 100 };
  static const char page[PAGE];
  if (ftruncate(fd, SIZE) != 0) abort();
  for (int done = 0; done < SIZE; done += PAGE) {
    const size_t size = SIZE - done < PAGE ? SIZE - done : PAGE;
    if (write(fd, page, size) != (ssize_t)size) abort();
  }
  printf("position %ld size %ld blocks %d\n", (long)lseek(fd, 0, SEEK_CUR), (long)state_of(fd).st_size,
         state_of(fd).st_blocks >= SIZE / 512);
  /* What is there already is overwritten. */
  if (pwrite(fd, "text", 4, 0) != 4 || lseek(fd, 0, SEEK_SET) != 0 || write(fd, page, PAGE) != PAGE) abort();
  char start[4] = "full";
  if (pread(fd, start, 4, 0) != 4) abort();
  printf("overwritten %d\n", memcmp(start, page, 4) == 0);
  close(fd);
}

static long mapped_kib(const void *address) {
  char line[256];
  unsigned long start = 0, kib = 0, begin;
  FILE *maps = fopen("/proc/self/smaps", "r");
  if (!maps) abort();
  while (fgets(line, sizeof line, maps)) {
    if (sscanf(line, "%lx-", &begin) == 1 && strchr(line, '-')) start = begin;
    if (start == (unsigned long)address && sscanf(line, "Rss: %lu kB", &kib) == 1) break;
  }
  fclose(maps);
  return (long)kib;
}

static void map(int fd) {
  enum { SIZE = 1 << 20 };
  if (posix_fallocate(fd, 0, SIZE) != 0 || pwrite(fd, "x", 1, SIZE - 1) != 1) abort();
  for (int shared = 1; shared >= 0; shared--) {
    const int flags = (shared ? MAP_SHARED : MAP_PRIVATE) | MAP_POPULATE;
    char *pages = mmap(NULL, SIZE, PROT_READ | PROT_WRITE, flags, fd, 0);
    if (pages == MAP_FAILED) abort();
    printf("%s %ld\n", shared ? "shared" : "private", mapped_kib(pages));
    if (pages[SIZE - 1] != 'x') abort();
    munmap(pages, SIZE);
  }
}

static void print(const char *format, ...) {
  char *text;
  va_list args;
  va_start(args, format);
  if (vasprintf(&text, format, args) != (int)strlen(text)) abort();
  va_end(args);
  printf("%s|", text);
  free(text);
}

static void texts(void) {
  Dl_info info;
  print("%c", 'c');
  print("plain text");
  print("%d of %%%s", 7, "c");
  print("%s", "");
  printf("%s", dladdr(dlsym(RTLD_DEFAULT, "vasprintf"), &info) && strstr(info.dli_fname, "occatrace") ? "ours" : "libc's");
}

/* In place of libc's: the pauses that the library asks for. */
int nanosleep(const struct timespec *pause, struct timespec *left) {
  (void)left;
  printf("pause %lld\n", (long long)pause->tv_sec * 1000000 + pause->tv_nsec / 1000);
  return 0;
}

static void pauses(void) {
  static const unsigned asked[] = {99999, 100000, 200000, 999999, 1000000};
  for (unsigned i = 0; i < sizeof asked / sizeof *asked; i++) usleep(asked[i]);
}

/* What a timer has left at most, as soon as it is set: ms, rounded up. */
static void timers(void) {
  static const long asked[] = {500, 100000};
  for (unsigned i = 0; i < sizeof asked / sizeof *asked; i++) {
    timer_t timer;
    struct sigevent event = {.sigev_notify = SIGEV_NONE};
    struct itimerspec value = {.it_value = {.tv_sec = asked[i] / 1000, .tv_nsec = asked[i] % 1000 * 1000000}};
    if (timer_create(CLOCK_MONOTONIC, &event, &timer) != 0 || timer_settime(timer, 0, &value, NULL) != 0) abort();
    if (timer_gettime(timer, &value) != 0) abort();
    printf("timer %ld %s\n", asked[i], value.it_value.tv_sec == 0 && value.it_value.tv_nsec <= 5000000 ? "short" : "whole");
  }
  printf("groups %d\n", getgroups(0, NULL));
}

int main(int argc, char **argv) {
  if (argc != 3) return 2;
  const int fd = open(argv[2], O_RDWR | O_CREAT | O_EXCL, 0600);
  if (fd < 0) return 1;
  if (strcmp(argv[1], "tokens") == 0) tokens(fd);
  if (strcmp(argv[1], "zeros") == 0) zeros(fd);
  if (strcmp(argv[1], "map") == 0) map(fd);
  if (strcmp(argv[1], "print") == 0) texts();
  if (strcmp(argv[1], "pauses") == 0) pauses();
  if (strcmp(argv[1], "timers") == 0) timers();
  return 0;
}
