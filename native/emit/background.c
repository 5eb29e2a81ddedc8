/* The slow background thread: harvests device work and writes tallies now and then, so that memory stays bounded and a
 * killed process loses no more than the last moments. */
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <signal.h>

#include "samples.h"

#define HARVEST_NS 100000000u /* 0.1 s */
#define FLUSH_EVERY 10u       /* harvests */

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_mutex_t working = PTHREAD_MUTEX_INITIALIZER;
static pthread_mutex_t harvesting = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t wake;
static int running, stopping;
static struct occatrace_backend *backends;

void occatrace_backend_register(struct occatrace_backend *backend) {
  pthread_mutex_lock(&lock);
  struct occatrace_backend *b = backends;
  while (b != NULL && b != backend) b = b->next;
  if (b == NULL) {
    backend->next = backends;
    __atomic_store_n(&backends, backend, __ATOMIC_RELEASE);
  }
  pthread_mutex_unlock(&lock);
}

void occatrace_harvest(int final) {
  for (struct occatrace_backend *b = __atomic_load_n(&backends, __ATOMIC_ACQUIRE); b != NULL; b = b->next)
    if (b->harvest != NULL) b->harvest(final);
}

void occatrace_backends_after_fork(void) {
  for (struct occatrace_backend *b = backends; b != NULL; b = b->next)
    if (b->after_fork_child != NULL) b->after_fork_child();
}

void occatrace_harvest_now(void) {
  static __thread int inside __attribute__((tls_model("initial-exec")));
  if (inside) return; /* letting go of an event may run a callback of the program, which may ask again */
  /* What another thread has taken out it has also written when it is done; a callback there may wait for us. */
  struct timespec until;
  clock_gettime(CLOCK_REALTIME, &until);
  until.tv_sec += 1;
  if (pthread_mutex_timedlock(&harvesting, &until) != 0) return;
  inside = 1;
  if (!__atomic_load_n(&stopping, __ATOMIC_ACQUIRE)) occatrace_harvest(0);
  inside = 0;
  pthread_mutex_unlock(&harvesting);
}

static void *work(void *unused) {
  (void)unused;
  pthread_setname_np(pthread_self(), "occatrace");
  pthread_mutex_lock(&lock);
  for (unsigned turn = 1; !stopping; turn++) {
    struct timespec until;
    clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_nsec += HARVEST_NS;
    if (until.tv_nsec >= 1000000000) until.tv_nsec -= 1000000000, until.tv_sec++;
    while (!stopping && pthread_cond_timedwait(&wake, &lock, &until) != ETIMEDOUT) {
    }
    if (stopping) break;
    pthread_mutex_unlock(&lock);
    pthread_mutex_lock(&working);
    if (!__atomic_load_n(&stopping, __ATOMIC_ACQUIRE)) {
      occatrace_samples_drain(0);
      occatrace_harvest_now();
      occatrace_room_turn(0);
      if (turn % FLUSH_EVERY == 0) occatrace_flush();
    }
    pthread_mutex_unlock(&working);
    pthread_mutex_lock(&lock);
  }
  pthread_mutex_unlock(&lock);
  return NULL;
}

int occatrace_own_thread(pthread_t *thread, void *(*what)(void *)) {
  /* No signal of the program may land on our thread. */
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  occatrace_makes_own_threads++;
  const int made = pthread_create(thread, NULL, what, NULL) == 0;
  occatrace_makes_own_threads--;
  pthread_sigmask(SIG_SETMASK, &before, NULL);
  return made;
}

void occatrace_background_start(void) {
  if (__atomic_load_n(&running, __ATOMIC_ACQUIRE)) return;
  pthread_mutex_lock(&lock);
  if (!running && !stopping) {
    pthread_condattr_t clock;
    pthread_condattr_init(&clock);
    pthread_condattr_setclock(&clock, CLOCK_MONOTONIC);
    pthread_cond_init(&wake, &clock);
    pthread_condattr_destroy(&clock);
    pthread_t thread;
    if (occatrace_own_thread(&thread, work)) pthread_detach(thread);
    __atomic_store_n(&running, 1, __ATOMIC_RELEASE);
  }
  pthread_mutex_unlock(&lock);
}

void occatrace_want_harvest(void) { occatrace_background_start(); }

void occatrace_background_forget(void) {
  pthread_mutex_init(&lock, NULL);
  pthread_mutex_init(&working, NULL);
  pthread_mutex_init(&harvesting, NULL);
  running = stopping = 0;
}

void occatrace_background_stop(void) {
  pthread_mutex_lock(&lock);
  __atomic_store_n(&stopping, 1, __ATOMIC_RELEASE);
  if (running) pthread_cond_broadcast(&wake);
  pthread_mutex_unlock(&lock);
  /* It may be inside a driver; a program that ends does not wait for it for ever. */
  struct timespec until;
  clock_gettime(CLOCK_REALTIME, &until);
  until.tv_sec += 2;
  if (pthread_mutex_timedlock(&working, &until) == 0) pthread_mutex_unlock(&working);
}
