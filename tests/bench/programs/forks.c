/* What fork costs, in a process that is traced where occa_prof runs it. usage: forks COUNT THREADS: so many threads keep
 * recording meanwhile. Prints a line for each child, which makes no traced call, in ns: the wall time until it is gone, that of
 * fork in the parent, the CPU time of the forking thread in fork, and that of the child until fork has returned in it, which
 * is all that it pays before its first traced call. */
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

__attribute__((weak)) int occatrace_start(void);
__attribute__((weak)) uint32_t occatrace_intern(const char *text);

static volatile int stop;
static void *busy(void *unused) {
  for (unsigned n = 0; !stop; n++)
    if (occatrace_intern) {
      char text[32];
      snprintf(text, sizeof text, "%u", n % 1000);
      occatrace_intern(text);
    }
  return unused;
}

static long now(clockid_t clock) {
  struct timespec t;
  clock_gettime(clock, &t);
  return t.tv_sec * 1000000000L + t.tv_nsec;
}
static long wall(void) { return now(CLOCK_MONOTONIC); }
/* Of this thread. getrusage has it as of the last tick of the scheduler, which is longer ago than a fork takes. */
static long cpu(void) { return now(CLOCK_THREAD_CPUTIME_ID); }

int main(int argc, char **argv) {
  if (argc < 3) return 2;
  if (occatrace_start && !occatrace_start()) return 3;
  volatile long *in_child = mmap(NULL, sizeof *in_child, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (in_child == MAP_FAILED) return 4;
  const int threads = atoi(argv[2]);
  pthread_t t;
  for (int i = 0; i < threads; i++) pthread_create(&t, NULL, busy, NULL);
  for (int i = 0, count = atoi(argv[1]); i < count; i++) {
    const long before = wall(), used = cpu();
    const pid_t child = fork();
    if (child == 0) {
      *in_child = cpu();
      _exit(0);
    }
    const long forked = wall(), spent = cpu() - used;
    if (child < 0 || waitpid(child, NULL, 0) != child) return 5;
    printf("%ld %ld %ld %ld\n", wall() - before, forked - before, spent, *in_child);
  }
  stop = 1;
  return 0;
}
