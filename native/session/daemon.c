/* Preloaded into the LTTng daemon that we start ourselves, and into nothing else: it looks at its own consumer more
 * often, and does not mind another daemon. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <signal.h>
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
  if (!real) real = (int (*)(timer_t, int, const struct itimerspec *, struct itimerspec *))dlsym(RTLD_NEXT, "timer_settime");
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
