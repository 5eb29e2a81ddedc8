/* occatrace.h in C. `ranges`: ranges of set numbers and lengths, marks, counters, two threads, a capture that is stopped;
 * `kill`: ends by SIGKILL inside two ranges; `fork`: parent and child; `cost N`: N pairs of push and pop, prints ns of CPU time. */
#define _GNU_SOURCE
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "occatrace.h"

static void sleep_ms(int ms) {
  struct timespec t = {ms / 1000, ms % 1000 * 1000000L};
  while (nanosleep(&t, &t) != 0) {
  }
}

static void *other(void *id) {
  for (int i = 0; i < 5; i++) {
    occatrace_push("in thread");
    occatrace_pop();
  }
  sleep_ms(20);
  occatrace_end(*(uint64_t *)id); /* begun by the main thread */
  return NULL;
}

static void ranges(void) {
  occatrace_pop(); /* nothing is open: nothing happens */
  occatrace_push("outer");
  for (int i = 0; i < 10; i++) {
    occatrace_push_with("inner", 0xff00ff00u, "even=no");
    sleep_ms(2);
    occatrace_counter("progress", i / 2.0, "%");
    occatrace_pop();
  }
  occatrace_pop();
  uint64_t crossing = occatrace_begin("crossing");
  pthread_t thread;
  pthread_create(&thread, NULL, other, &crossing);
  uint64_t a = occatrace_begin("a"), b = occatrace_begin("b");
  sleep_ms(10);
  occatrace_end(a);
  sleep_ms(10);
  occatrace_end(b);
  occatrace_end(b); /* twice: nothing happens */
  pthread_join(thread, NULL);
  occatrace_mark_with("done", 0x102030u, "n=10");

  /* Capture: what is begun or ended outside of it. */
  occatrace_push("end outside");
  occatrace_push("begin outside");
  occatrace_pop();
  occatrace_capture_stop();
  occatrace_pop(); /* "end outside" */
  occatrace_push("unseen");
  occatrace_mark("unseen");
  occatrace_counter("unseen", 1, "");
  occatrace_pop();
  occatrace_push("begin outside");
  sleep_ms(5);
  occatrace_capture_start();
  occatrace_pop();

  /* Names that are long, empty, or not text. */
  char longer[3000];
  memset(longer, 'x', sizeof longer - 1);
  longer[sizeof longer - 1] = '\0';
  occatrace_push(longer);
  occatrace_pop();
  occatrace_mark("");
  occatrace_mark("a \"quoted\", name\nof two lines \xc3\xa4");
}

static double cost(long n) {
  struct timespec from, to;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &from);
  for (long i = 0; i < n; i++) {
    occatrace_push("cost");
    occatrace_pop();
  }
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &to);
  return ((double)(to.tv_sec - from.tv_sec) * 1e9 + (double)(to.tv_nsec - from.tv_nsec)) / (double)n;
}

int main(int argc, char **argv) {
  const char *what = argc > 1 ? argv[1] : "ranges";
  if (strcmp(what, "present") == 0) {
    printf("%d\n", occatrace_present());
  } else if (strcmp(what, "kill") == 0) {
    occatrace_push("first");
    occatrace_pop();
    occatrace_push("killed");
    occatrace_begin("killed too");
    raise(SIGKILL);
  } else if (strcmp(what, "fork") == 0) {
    occatrace_push("parent");
    const pid_t child = fork();
    if (child == 0) {
      occatrace_pop(); /* the parent's: not the child's to end */
      occatrace_push("child");
      occatrace_pop();
      exit(0);
    }
    waitpid(child, NULL, 0);
    occatrace_pop();
  } else if (strcmp(what, "cost") == 0) {
    cost(1000);
    printf("%.2f\n", cost(argc > 2 ? atol(argv[2]) : 1000000));
  } else {
    ranges();
  }
  return 0;
}
