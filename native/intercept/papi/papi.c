/* Counters of PAPI in kernel calls that run on the host, and in ranges (--papi). Each thread that has something to count has
 * an event set of its own, which runs from then to its end; what a kernel or a range counted is the difference of two
 * readings. The threads of an OpenMP team add their parts to who met the region, before the barrier at its end. */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdlib.h>
#include <unistd.h>

#include "occatrace_core.h"
#include "papi_events.h"
#include "papi_library.h"

struct reading {
  struct reading *next; /* of those given up */
  uint32_t generation;
  long long values[PAPI_LIBRARY_MOST];
};

/* What teams counted for a thread. A late thread of a team may hold it after its owner has ended: never given back, used again. */
struct account {
  struct account *next;
  long long values[PAPI_LIBRARY_MOST];
};

enum {
  NEW,
  COUNTS,
  CANNOT,
};
struct counter_thread {
  int state, set;
  uint32_t generation; /* a child of fork has none of its parent's sets */
  struct account *account;
  struct reading *spare;
};

static const struct occatrace_papi_events *events;
static struct papi_library papi;
static struct papi_counters counters;
static uint32_t counter_ids[PAPI_LIBRARY_MOST];
static uint32_t generation = 1;
static pthread_key_t end_key;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct account *unused;
static __thread struct counter_thread mine;

static unsigned long thread_id(void) { return (unsigned long)pthread_self(); }

static void thread_ended(void *data) {
  struct counter_thread *t = data;
  if (t->generation == generation && t->state == COUNTS) {
    long long values[PAPI_LIBRARY_MOST];
    papi.stop(t->set, values);
    papi_drop_set(&papi, t->set);
    papi.unregister_thread();
  }
  while (t->spare != NULL) {
    struct reading *next = t->spare->next;
    free(t->spare);
    t->spare = next;
  }
  if (t->account != NULL) {
    pthread_mutex_lock(&lock);
    t->account->next = unused;
    unused = t->account;
    pthread_mutex_unlock(&lock);
  }
  *t = (struct counter_thread){.state = CANNOT, .generation = generation};
}

static struct account *new_account(void) {
  pthread_mutex_lock(&lock);
  struct account *account = unused;
  if (account != NULL) unused = account->next;
  pthread_mutex_unlock(&lock);
  return account != NULL ? account : calloc(1, sizeof *account);
}

static int start_thread(struct counter_thread *t) {
  static int said;
  t->generation = generation;
  t->state = CANNOT;
  struct papi_counters own = counters;
  const char *why = "no memory";
  if (t->account == NULL) t->account = new_account();
  if (t->account == NULL) goto refused;
  int error = t->set = papi_make_set(&papi, &own, NULL, NULL);
  if (error >= 0 && own.count == counters.count && (error = papi.start(t->set)) >= 0) {
    t->state = COUNTS;
    pthread_setspecific(end_key, t);
    return 1;
  }
  if (t->set >= 0) papi_drop_set(&papi, t->set);
  why = error < 0 ? papi.strerror(error) : "other events than in the first thread";
refused:
  if (!__atomic_exchange_n(&said, 1, __ATOMIC_RELAXED)) occatrace_say("--papi: thread %ld of process %ld counts nothing: %s", (long)gettid(), (long)getpid(), why);
  return 0;
}

static int counting(struct counter_thread *t) {
  if (__builtin_expect(t->generation == generation, 1)) return t->state == COUNTS;
  return start_thread(t);
}

static struct reading *take(struct counter_thread *t) {
  struct reading *r = t->spare;
  if (r != NULL) t->spare = r->next;
  else r = malloc(sizeof *r);
  return r;
}

static void give_up(struct reading *r) {
  r->next = mine.spare;
  mine.spare = r;
}

static int read_now(struct counter_thread *t, long long *values) {
  if (papi.read(t->set, values) < 0) return 0;
  for (unsigned i = 0; i < counters.count; i++) values[i] += __atomic_load_n(&t->account->values[i], __ATOMIC_RELAXED);
  return 1;
}

static void *begin_counts(void) {
  struct counter_thread *t = &mine;
  struct reading *r = counting(t) ? take(t) : NULL;
  if (r == NULL) return NULL;
  r->generation = generation;
  if (read_now(t, r->values)) return r;
  give_up(r);
  return NULL;
}

static void end_counts(void *reading) {
  struct counter_thread *t = &mine;
  struct reading *r = reading;
  long long now[PAPI_LIBRARY_MOST];
  if (r->generation != generation || !counting(t) || !read_now(t, now)) {
    r->generation = 0; /* no number is better than a wrong one */
    return;
  }
  for (unsigned i = 0; i < counters.count; i++) r->values[i] = now[i] - r->values[i];
}

static void write_counts(void *reading, struct occatrace_thread *self, uint32_t seq) {
  struct reading *r = reading;
  if (r->generation == generation && seq != OCCATRACE_NO_RUN)
    for (unsigned i = 0; i < counters.count; i++) {
      const struct occatrace_papi_count e = {self->tid, occatrace_next_seq(self), seq, counter_ids[i], r->values[i]};
      events->count(&e);
    }
  give_up(r);
}

static void *account(void) { return counting(&mine) ? mine.account : NULL; }

static void add(void *reading, void *of) {
  struct reading *r = reading;
  struct account *to = of;
  end_counts(r);
  if (r->generation == generation && to != NULL)
    for (unsigned i = 0; i < counters.count; i++) __atomic_fetch_add(&to->values[i], r->values[i], __ATOMIC_RELAXED);
  give_up(r);
}

static void after_fork_child(void) {
  pthread_mutex_init(&lock, NULL);
  generation++;
  /* It knows that the process is another, and begins anew. */
  if (papi.library_init(papi.version) != papi.version || papi.thread_init(thread_id) < 0) {
    mine = (struct counter_thread){.state = CANNOT, .generation = generation};
    occatrace_say("--papi: PAPI does not start in process %ld, which counts nothing", (long)getpid());
  }
}

static void ignore(void *data, const char *name, const char *why) {}

OCCATRACE_EXPORT const struct occatrace_counters *occatrace_papi_start(const struct occatrace_papi_events *provider, const char *list) {
  static const struct occatrace_counters functions = {begin_counts, end_counts, write_counts, account, add};
  static struct occatrace_backend backend = {"papi", NULL, after_fork_child, NULL};
  if (papi_is_used()) {
    occatrace_say("--papi: process %ld uses PAPI itself and keeps it: its kernels and ranges are not counted", (long)getpid());
    return NULL;
  }
  papi_split(list, &counters, ignore, NULL);
  if (papi_open(&papi) != NULL || papi.thread_init(thread_id) < 0) return NULL; /* occa_prof says why */
  const int set = papi_make_set(&papi, &counters, NULL, NULL);
  if (set < 0) return NULL;
  papi_drop_set(&papi, set);
  if (counters.count == 0 || pthread_key_create(&end_key, thread_ended) != 0) return NULL;
  for (unsigned i = 0; i < counters.count; i++) counter_ids[i] = occatrace_intern(counters.names[i]);
  events = provider;
  occatrace_backend_register(&backend);
  return &functions;
}
