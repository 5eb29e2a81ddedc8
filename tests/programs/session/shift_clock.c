/* Preloaded into a rank: its CLOCK_MONOTONIC is ahead by SHIFT_NS and gains SHIFT_PPB billionths from
 * SHIFT_SINCE_NS on, as on another node. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

static int64_t ahead, ppb, since;

static int64_t now(clockid_t clock, struct timespec *t) {
  const long failed = syscall(SYS_clock_gettime, clock, t);
  return failed ? -1 : (int64_t)t->tv_sec * 1000000000 + t->tv_nsec;
}

static int started;

/* At the first use, because constructors of other libraries read clocks before ours would run. */
static void start(void) {
  struct timespec t;
  started = 1;
  ahead = getenv("SHIFT_NS") ? atoll(getenv("SHIFT_NS")) : 0;
  ppb = getenv("SHIFT_PPB") ? atoll(getenv("SHIFT_PPB")) : 0;
  since = getenv("SHIFT_SINCE_NS") ? atoll(getenv("SHIFT_SINCE_NS")) : now(CLOCK_MONOTONIC, &t);
}

int clock_gettime(clockid_t clock, struct timespec *t) {
  if (!started) start();
  int64_t ns = now(clock, t);
  if (ns < 0) return -1;
  if (clock == CLOCK_MONOTONIC) {
    ns += ahead + (int64_t)((double)(ns - since) * (double)ppb * 1e-9);
    t->tv_sec = ns / 1000000000;
    t->tv_nsec = ns % 1000000000;
  }
  return 0;
}
