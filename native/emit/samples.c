/* Stacks of the process's threads by processor time (--sample-stacks[=HZ]): a timer of each thread's own clock sends it a signal,
 * whose handler walks the stack into a ring of that thread; the background thread writes what is in the rings. The handler takes
 * no lock, allocates nothing and reads no thread-local storage. */
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <ucontext.h>
#include <unistd.h>

#include "samples.h"

enum {
  THREADS = 4096,
  WORDS = 1 << 14,
  FIRST_WORDS = 1 << 17,
};
#define WORTH_NS UINT64_C(100000000) /* recording a process takes 30 ms and more */
#define COOKIE UINT64_C(0x6f63636170720000) /* in a signal's value, above the number of the thread */

enum {
  FREE,
  LIVE,
  ENDED,
};
/* Never unmapped: a signal may be on its way. Another thread may get it. */
struct sampled {
  uint32_t tid, words;
  int state, timer, started; /* started: by pthread_create, so that its end is known */
  uint32_t head, tail; /* words that the handler has written, and that were read */
  uint64_t taken, lost, cpu, told; /* periods; ns; what was written last */
  char name[17];
  struct occatrace_rules rules;
  uint64_t ring[];
};

int occatrace_sampling;
__thread int occatrace_makes_own_threads __attribute__((tls_model("initial-exec")));
static struct sampled *all[THREADS];
static uint32_t used, tasks;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_key_t end_key;
static uint64_t period;
static pid_t owner; /* the process: a child of vfork shares its memory */
static int traced; /* what is recorded now is known */
static const struct occatrace_frames *frames; /* of Python */

/* A sample in a ring: time; periods, how many frames of Python and of the machine's stack there are, why those end; the frames. */
enum { MOST_FRAMES = 64 };
static uint64_t packed(uint64_t periods, uint32_t count, uint32_t inner, uint32_t end) {
  return (periods > UINT32_MAX ? UINT32_MAX : periods) << 32 | inner << 20 | end << 16 | count;
}

static void block(sigset_t *before) {
  sigset_t every;
  sigfillset(&every);
  pthread_sigmask(SIG_SETMASK, &every, before);
  pthread_mutex_lock(&lock);
}
static void unblock(const sigset_t *before) {
  pthread_mutex_unlock(&lock);
  pthread_sigmask(SIG_SETMASK, before, NULL);
}

/* The kernel's number for the clock of a thread's processor time. */
static clockid_t clock_of(uint32_t tid) { return (clockid_t)(~tid << 3 | 6); }

static void tick(int n, siginfo_t *info, void *context) {
  const int before = errno;
  const uint64_t value = (uint64_t)(uintptr_t)info->si_value.sival_ptr;
  struct sampled *const s = info->si_code == SI_TIMER && (value & ~UINT64_C(0xffff)) == COOKIE && (value & 0xffff) < THREADS
                                ? __atomic_load_n(&all[value & 0xffff], __ATOMIC_ACQUIRE)
                                : NULL;
  if (s == NULL) {
    occatrace_pass_signal(n, info, context);
    errno = before;
    return;
  }
  occatrace_repeat_call(context);
  const int wanted = !__atomic_load_n(&traced, __ATOMIC_ACQUIRE) || (occatrace_switch() & OCCATRACE_SWITCH_EVENTS) == OCCATRACE_SWITCH_EVENTS;
  if (wanted && s->tid == (uint32_t)syscall(SYS_gettid)) {
    uintptr_t at[OCCATRACE_SAMPLE_DEPTH];
    uint32_t end = OCCATRACE_PATH_NO_TABLE;
    const uint64_t time = occatrace_now(), periods = (uint64_t)(info->si_overrun > 0 ? info->si_overrun : 0) + 1;
    const uint32_t count = occatrace_walk_interrupted(context, &s->rules, at, &end);
    uint64_t inside[MOST_FRAMES];
    const struct occatrace_frames *const of = __atomic_load_n(&frames, __ATOMIC_ACQUIRE);
    const uint32_t inner = of != NULL ? of->read(inside, MOST_FRAMES) : 0;
    const uint32_t head = s->head, words = count + inner + 2;
    if (s->words - (head - __atomic_load_n(&s->tail, __ATOMIC_ACQUIRE)) >= words) {
      s->ring[head % s->words] = time;
      s->ring[(head + 1) % s->words] = packed(periods, count, inner, end);
      for (uint32_t i = 0; i < count; i++) s->ring[(head + 2 + i) % s->words] = at[i];
      for (uint32_t i = 0; i < inner; i++) s->ring[(head + 2 + count + i) % s->words] = inside[i];
      __atomic_store_n(&s->taken, s->taken + periods, __ATOMIC_RELAXED);
      __atomic_store_n(&s->head, head + words, __ATOMIC_RELEASE);
    } else {
      __atomic_store_n(&s->lost, s->lost + periods, __ATOMIC_RELAXED);
    }
  }
  errno = before;
}

/* ---- threads ---- */

static uint64_t cpu_of(uint32_t tid) {
  struct timespec t = {0, 0};
  syscall(SYS_clock_gettime, clock_of(tid), &t);
  return (uint64_t)t.tv_sec * UINT64_C(1000000000) + (uint64_t)t.tv_nsec;
}

static void name_of(uint32_t tid, char *name) {
  char path[64];
  snprintf(path, sizeof path, "/proc/self/task/%u/comm", tid);
  name[0] = '\0';
  const int fd = open(path, O_RDONLY | O_CLOEXEC);
  const ssize_t n = fd >= 0 ? read(fd, name, 16) : 0;
  if (fd >= 0) close(fd);
  name[n > 0 ? n : 0] = '\0';
  name[strcspn(name, "\n")] = '\0';
}

/* LTTng's and our own. */
static int is_of_tracing(const char *name) {
  const size_t n = strlen(name);
  return strcmp(name, "occatrace") == 0 || (n >= 4 && strcmp(name + n - 4, "-ust") == 0);
}

static struct sampled *room(uint32_t words, uint32_t *index) {
  for (uint32_t i = 0; i < used; i++)
    if (all[i]->state == FREE && all[i]->words == words) {
      *index = i;
      return all[i];
    }
  if (used == THREADS) return NULL;
  struct sampled *const s = mmap(NULL, sizeof *s + words * sizeof s->ring[0], PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (s == MAP_FAILED) return NULL;
  s->words = words;
  *index = used;
  __atomic_store_n(&all[used], s, __ATOMIC_RELEASE);
  used++;
  return s;
}

static struct sampled *entry_of(uint32_t tid) {
  for (uint32_t i = 0; i < used; i++)
    if (all[i]->state == LIVE && all[i]->tid == tid) return all[i];
  return NULL;
}

static void ends(struct sampled *s, uint64_t cpu) {
  syscall(SYS_timer_delete, s->timer);
  s->cpu = cpu;
  s->state = ENDED;
}

/* Under the lock. */
static struct sampled *begins(uint32_t tid, uint32_t words) {
  static int said;
  uint32_t index;
  struct sampled *const s = room(words, &index);
  if (s == NULL) {
    if (!said++) occatrace_say("more than %d threads: the others' stacks are not sampled", THREADS);
    return NULL;
  }
  s->tid = tid;
  s->head = s->tail = 0;
  s->taken = s->lost = s->cpu = s->started = 0;
  s->told = UINT64_MAX;
  name_of(tid, s->name);
  struct sigevent event;
  memset(&event, 0, sizeof event);
  event.sigev_notify = SIGEV_THREAD_ID;
  event.sigev_signo = occatrace_sample_signal;
  event.sigev_value.sival_ptr = (void *)(uintptr_t)(COOKIE | index);
  event._sigev_un._tid = (pid_t)tid;
  const struct itimerspec every = {{(time_t)(period / 1000000000), (long)(period % 1000000000)}, {(time_t)(period / 1000000000), (long)(period % 1000000000)}};
  if (syscall(SYS_timer_create, clock_of(tid), &event, &s->timer) != 0 || syscall(SYS_timer_settime, s->timer, 0, &every, NULL) != 0) {
    /* It has ended already, or there are no more signals to be had. */
    if (errno == EAGAIN && !said++) occatrace_say("the limit of pending signals (ulimit -i) is reached: stacks of some threads are not sampled");
    return NULL;
  }
  s->state = LIVE;
  return s;
}

/* Whether its thread is there still. */
static int ticks(const struct sampled *s) {
  struct itimerspec left;
  return syscall(SYS_timer_gettime, s->timer, &left) == 0 && (left.it_value.tv_sec != 0 || left.it_value.tv_nsec != 0);
}

int occatrace_samples_new_threads(void) { return __atomic_load_n(&occatrace_sampling, __ATOMIC_RELAXED) && !occatrace_makes_own_threads; }

void occatrace_sample_thread_begins(void) {
  const int before = errno;
  sigset_t signals;
  block(&signals);
  const uint32_t tid = (uint32_t)syscall(SYS_gettid);
  struct sampled *s = occatrace_sampling ? entry_of(tid) : NULL;
  if (s != NULL && (s->started || !ticks(s))) { /* of a thread of the same number that has ended unseen */
    ends(s, s->cpu);
    s = NULL;
  }
  if (occatrace_sampling && s == NULL) s = begins(tid, WORDS);
  if (s != NULL) s->started = 1;
  unblock(&signals);
  if (s != NULL) pthread_setspecific(end_key, s);
  errno = before;
}

static void thread_ends(void *data) {
  struct sampled *const s = data;
  sigset_t signals;
  block(&signals);
  if (s->state == LIVE && s->tid == (uint32_t)syscall(SYS_gettid)) {
    name_of(s->tid, s->name);
    ends(s, cpu_of(s->tid));
  }
  unblock(&signals);
}

/* Threads that were there before, or were made by other ways than pthread_create, and what has become of those. Under the lock. */
static void look_for_threads(void) {
  struct stat status;
  if (stat("/proc/self/task", &status) == 0 && status.st_nlink == tasks) return;
  tasks = (uint32_t)status.st_nlink;
  for (uint32_t i = 0; i < used; i++) {
    if (all[i]->state != LIVE || all[i]->started) continue;
    if (ticks(all[i])) all[i]->cpu = cpu_of(all[i]->tid);
    else ends(all[i], all[i]->cpu);
  }
  DIR *const folder = opendir("/proc/self/task");
  if (folder == NULL) return;
  for (struct dirent *entry; (entry = readdir(folder)) != NULL;) {
    const uint32_t tid = (uint32_t)strtoul(entry->d_name, NULL, 10);
    char name[17];
    if (tid == 0 || entry_of(tid) != NULL) continue;
    name_of(tid, name);
    if (!is_of_tracing(name)) begins(tid, WORDS);
  }
  closedir(folder);
}

/* ---- what is written ---- */

static int telling_frames;

static void write_samples(struct occatrace_thread *self, struct sampled *s) {
  uintptr_t at[OCCATRACE_SAMPLE_DEPTH];
  uint64_t inside[MOST_FRAMES];
  const uint32_t head = __atomic_load_n(&s->head, __ATOMIC_ACQUIRE);
  while (s->tail != head) {
    const uint64_t time = s->ring[s->tail % s->words], word = s->ring[(s->tail + 1) % s->words];
    const uint32_t count = (uint32_t)word & 0xffff, end = (uint32_t)word >> 16 & 0xf, inner = (uint32_t)word >> 20;
    for (uint32_t i = 0; i < count; i++) at[i] = s->ring[(s->tail + 2 + i) % s->words];
    for (uint32_t i = 0; i < inner; i++) inside[i] = s->ring[(s->tail + 2 + count + i) % s->words];
    __atomic_store_n(&s->tail, s->tail + 2 + count + inner, __ATOMIC_RELEASE);
    const uint32_t path = occatrace_path_of(self, at, count, end);
    const uint32_t frame = inner > 0 && telling_frames ? frames->announce(self, inside, inner) : 0;
    const struct occatrace_process_stack_sample r = {
        .tid = self->tid,
        .seq = occatrace_next_seq(self),
        .pid = occatrace_pid,
        .owner = s->tid,
        .time = time,
        .path = path,
        .cpu = (word >> 32) * period,
        .frame = frame,
    };
    occatrace_process->stack_sample(&r);
  }
}

static void write_thread(struct occatrace_thread *self, struct sampled *s) {
  const uint64_t sum = s->taken + s->lost + s->cpu / period;
  if (sum == s->told) return;
  s->told = sum;
  const struct occatrace_process_sampled_thread r = {
      .tid = self->tid,
      .seq = occatrace_next_seq(self),
      .pid = occatrace_pid,
      .owner = s->tid,
      .name = s->name,
      .cpu = s->cpu,
      .taken = s->taken * period,
      .lost = s->lost * period,
  };
  occatrace_process->sampled_thread(&r);
}

void occatrace_samples_drain(int final) {
  if (!__atomic_load_n(&occatrace_sampling, __ATOMIC_ACQUIRE) || !__atomic_load_n(&traced, __ATOMIC_ACQUIRE)) return;
  static uint32_t turns;
  struct occatrace_thread *const self = occatrace_self();
  if (!final) occatrace_sample_modules();
  const struct occatrace_frames *const of = __atomic_load_n(&frames, __ATOMIC_ACQUIRE);
  const int ready = of != NULL && of->ready(); /* it may load a library */
  sigset_t signals;
  block(&signals);
  telling_frames = ready;
  if (!final) look_for_threads();
  const int telling = final || ++turns % 10 == 0;
  for (uint32_t i = 0; i < used; i++) {
    struct sampled *const s = all[i];
    if (s->state == FREE) continue;
    if (!s->started && s->told == UINT64_MAX) { /* threads of tracing get their names after they have begun */
      name_of(s->tid, s->name);
      if (is_of_tracing(s->name)) {
        ends(s, 0);
        s->state = FREE;
        continue;
      }
    }
    if (final && s->state == LIVE) {
      name_of(s->tid, s->name);
      if (final > 1) ends(s, cpu_of(s->tid));
    }
    if (telling && s->state == LIVE) s->cpu = cpu_of(s->tid);
    write_samples(self, s);
    if (telling || s->state == ENDED) write_thread(self, s);
    if (s->state == ENDED) s->state = FREE;
  }
  unblock(&signals);
}

/* ---- begin and end ---- */

int occatrace_samples_stacks(void) { return __atomic_load_n(&occatrace_sampling, __ATOMIC_ACQUIRE); }

void occatrace_sample_frames(const struct occatrace_frames *of) { __atomic_store_n(&frames, of, __ATOMIC_RELEASE); }

void occatrace_samples_begin(void) {
  if (!occatrace_sampling) return;
  occatrace_paths_for_samples();
  occatrace_sample_modules();
  if ((occatrace_switch() & OCCATRACE_SWITCH_EVENTS) != OCCATRACE_SWITCH_EVENTS) /* nothing was to be recorded so far */
    for (uint32_t i = 0; i < used; i++) __atomic_store_n(&all[i]->tail, __atomic_load_n(&all[i]->head, __ATOMIC_ACQUIRE), __ATOMIC_RELEASE);
  __atomic_store_n(&traced, 1, __ATOMIC_RELEASE);
  occatrace_background_start();
}

void occatrace_samples_refused(void) {
  if (!occatrace_sampling) return;
  sigset_t signals;
  block(&signals);
  __atomic_store_n(&occatrace_sampling, 0, __ATOMIC_RELEASE);
  for (uint32_t i = 0; i < used; i++)
    if (all[i]->state == LIVE) ends(all[i], 0);
  unblock(&signals);
}

int occatrace_samples_are_worth_it(void) {
  if (!occatrace_samples_stacks() || getpid() != owner) return 0;
  uint64_t periods = 0;
  sigset_t signals;
  block(&signals);
  for (uint32_t i = 0; i < used; i++)
    if (all[i]->state != FREE) periods += __atomic_load_n(&all[i]->taken, __ATOMIC_RELAXED) + __atomic_load_n(&all[i]->lost, __ATOMIC_RELAXED);
  unblock(&signals);
  return periods * period >= WORTH_NS;
}

__attribute__((destructor)) static void end(void) { occatrace_finish_unstarted(); }

/* Timers are not inherited; what the parent has not written yet is the parent's. */
void occatrace_samples_after_fork(void) {
  if (!occatrace_sampling) return;
  pthread_mutex_init(&lock, NULL);
  owner = getpid();
  occatrace_sample_modules_forked();
  for (uint32_t i = 0; i < used; i++) all[i]->state = FREE;
  tasks = 0;
  struct sampled *const s = begins((uint32_t)syscall(SYS_gettid), WORDS);
  if (s != NULL) s->started = 1;
  pthread_setspecific(end_key, s);
}

/* From the begin of the process, though what is sampled is written only when it makes a call that is traced. */
__attribute__((constructor)) static void start(void) {
  const char *text = getenv("OCCATRACE_SAMPLE_STACKS");
  if (text == NULL || *text == '\0' || !occatrace_capture_wanted()) return;
  long hz = strtol(text, NULL, 10);
  if (hz < 1 || hz > OCCATRACE_FASTEST_SAMPLES) hz = OCCATRACE_SAMPLE_HZ;
  period = UINT64_C(1000000000) / (uint64_t)hz;
  if (!occatrace_take_signal(tick) || pthread_key_create(&end_key, thread_ends) != 0) {
    occatrace_say("no signal is left for --sample-stacks: no stacks are sampled");
    return;
  }
  occatrace_sample_modules();
  owner = getpid();
  sigset_t signals;
  block(&signals);
  struct sampled *const s = begins((uint32_t)syscall(SYS_gettid), FIRST_WORDS);
  if (s != NULL) s->started = 1;
  unblock(&signals);
  if (s == NULL) return;
  pthread_setspecific(end_key, s);
  __atomic_store_n(&occatrace_sampling, 1, __ATOMIC_RELEASE);
}
