/* Time of fork + _exit + waitpid, in a process that is traced where occa_prof runs it. usage: forks COUNT THREADS: so many
 * threads keep recording meanwhile. Prints the ns of each. */
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
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

int main(int argc, char **argv) {
  if (argc < 3) return 2;
  if (occatrace_start && !occatrace_start()) return 3;
  const int threads = atoi(argv[2]);
  pthread_t t;
  for (int i = 0; i < threads; i++) pthread_create(&t, NULL, busy, NULL);
  for (int i = 0, count = atoi(argv[1]); i < count; i++) {
    struct timespec a, b;
    clock_gettime(CLOCK_MONOTONIC, &a);
    const pid_t child = fork();
    if (child == 0) _exit(0);
    waitpid(child, NULL, 0);
    clock_gettime(CLOCK_MONOTONIC, &b);
    printf("%ld\n", (b.tv_sec - a.tv_sec) * 1000000000L + b.tv_nsec - a.tv_nsec);
  }
  stop = 1;
  return 0;
}
