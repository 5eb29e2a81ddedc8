/* The core: starts tracing at the first use of an API, knows the threads, follows fork, and writes what is left at the end.
 * Everything here is plain C on libc, because every process that inherits LD_PRELOAD loads it. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <unistd.h>

#include "internal.h"
#include "rank.h"
#include "samples.h"

#ifndef OCCATRACE_VERSION
#define OCCATRACE_VERSION "unknown"
#endif

__thread struct occatrace_thread *occatrace_tls __attribute__((tls_model("initial-exec")));
void (*occatrace_on_end)(struct occatrace_thread *self);
void (*occatrace_on_use)(struct occatrace_thread *self, uint32_t call_seq, uint64_t memory);
uint32_t occatrace_pid;
const struct occatrace_process_events *occatrace_process;
const struct occatrace_device_events *occatrace_devices;

/* FORKED: a child of fork that has recorded nothing yet. */
enum {
  NEW,
  READY,
  REFUSED,
  FORKED,
};
static int state = NEW;
static pthread_mutex_t start_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_mutex_t threads_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_mutex_t flush_lock = PTHREAD_MUTEX_INITIALIZER;
static struct occatrace_thread *threads;
static pthread_key_t thread_end_key;
static uint64_t loaded_mono, loaded_ticks;
static uint64_t born_mono; /* this process, if it is traced from then on: as it was loaded into it, or forked */
static int finished;
static int capture_stopped; /* by the program */
static enum occatrace_range range_kind;
static int range_open, ranges_left = 1; /* of those still to be captured; -1: all */
const char *occatrace_captured_name;
/* Taken in this order, before start_lock. */
static pthread_mutex_t range_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_mutex_t switch_lock = PTHREAD_MUTEX_INITIALIZER;
/* The process record is owed by the first thread that writes anything (again after fork). */
static int process_owed;
static uint32_t functions_used;
static char function_names[OCCATRACE_MAX_FUNCTIONS][72];
static uint32_t function_ids[OCCATRACE_MAX_FUNCTIONS];

static void (*lttng_before_fork)(sigset_t *), (*lttng_after_fork_parent)(sigset_t *), (*lttng_after_fork_child)(sigset_t *);
static void (*lttng_postpone)(sigset_t *);
static void (*lttng_settle)(void);
static int (*lttng_records)(void);

void occatrace_say(const char *format, ...) {
  char line[1024];
  va_list args;
  va_start(args, format);
  int n = snprintf(line, sizeof line, "occatrace: ");
  n += vsnprintf(line + n, sizeof line - (size_t)n - 1, format, args);
  va_end(args);
  if (n > (int)sizeof line - 2) n = (int)sizeof line - 2;
  line[n++] = '\n';
  if (write(2, line, (size_t)n) < 0) return;
}

static cpu_set_t processors; /* on which this thread may run as the library is loaded; none: more than there is room for */

/* Those of the process, as 0-3,8; empty: not known. A runtime of OpenMP that binds threads may have bound the first one before
 * this library was loaded, which says nothing of the process. */
static void name_processors(char *text, size_t room) {
  text[0] = '\0';
  static const char *const binding[] = {"OMP_PROC_BIND", "OMP_PLACES", "GOMP_CPU_AFFINITY", "KMP_AFFINITY"};
  for (size_t i = 0; i < sizeof binding / sizeof *binding; i++) {
    const char *value = getenv(binding[i]);
    if (value != NULL && *value != '\0' && strcasecmp(value, "false") != 0) return;
  }
  size_t used = 0;
  for (int first = 0; first < CPU_SETSIZE; first++) {
    if (!CPU_ISSET(first, &processors)) continue;
    int last = first;
    while (last + 1 < CPU_SETSIZE && CPU_ISSET(last + 1, &processors)) last++;
    const char *const comma = used > 0 ? "," : "";
    const int n = last > first ? snprintf(text + used, room - used, "%s%d-%d", comma, first, last)
                               : snprintf(text + used, room - used, "%s%d", comma, first);
    used += (size_t)n;
    if (used >= room) { /* a part of them would be wrong */
      text[0] = '\0';
      return;
    }
    first = last;
  }
}

__attribute__((constructor)) static void loaded(void) {
  loaded_mono = born_mono = occatrace_now();
  loaded_ticks = occatrace_ticks();
  if (sched_getaffinity(0, sizeof processors, &processors) != 0) CPU_ZERO(&processors);
  occatrace_pid = (uint32_t)getpid();
}

uint64_t occatrace_ticks_hz(void) {
#if defined(__aarch64__)
  uint64_t hz;
  __asm__ volatile("mrs %0, cntfrq_el0" : "=r"(hz));
  return hz;
#else
  /* Against the time since the library was loaded; a very young process waits for a usable baseline. */
  uint64_t mono = occatrace_now(), ticks = occatrace_ticks();
  while (mono - loaded_mono < 200000) mono = occatrace_now(), ticks = occatrace_ticks();
  return (uint64_t)((double)(ticks - loaded_ticks) * 1e9 / (double)(mono - loaded_mono) + 0.5);
#endif
}

static const char *const modes[] = {"default", "minimal", "full", "tally"}; /* as occatrace_mode counts */

enum occatrace_mode occatrace_mode(void) {
  const char *mode = getenv("OCCATRACE_MODE");
  return mode == NULL ? OCCATRACE_DEFAULT : occatrace_mode_named(mode, strlen(mode));
}

enum occatrace_mode occatrace_mode_named(const char *name, size_t length) {
  for (int m = OCCATRACE_DEFAULT; m <= OCCATRACE_TALLIES; m++)
    if (strlen(modes[m]) == length && strncmp(modes[m], name, length) == 0) return (enum occatrace_mode)m;
  return OCCATRACE_DEFAULT;
}

/* ---- the process's own part of the switch ---- */

static int own_on(void) { return !capture_stopped && (range_kind == OCCATRACE_RANGE_NONE || range_open > 0); }

static void apply_switch(void) {
  const int traced = state == READY || state == FORKED;
  __atomic_store_n(&occatrace_own_switch, traced && own_on() ? occatrace_own_mask() : 0, __ATOMIC_SEQ_CST);
  /* Whoever finds full buffers takes no lock: either it clears what was just stored, or it is seen here. */
  __atomic_fetch_and(&occatrace_own_switch, occatrace_room_mask(), __ATOMIC_SEQ_CST);
}

void occatrace_room_returns(void) {
  pthread_mutex_lock(&start_lock);
  apply_switch();
  pthread_mutex_unlock(&start_lock);
}

void occatrace_start_choosing(void) {
  pthread_mutex_lock(&start_lock);
  if (!occatrace_choosing) {
    occatrace_choosing = 1;
    apply_switch();
  }
  pthread_mutex_unlock(&start_lock);
}

/* 0: off, 1: on, 2: off from the begin. */
static void write_capture(struct occatrace_thread *self, int state_now) {
  const struct occatrace_process_capture r = {self->tid, occatrace_next_seq(self), occatrace_pid, (uint8_t)state_now};
  occatrace_process->capture(&r);
}

/* Which ranges are captured, by the environment; before anything else that looks. */
__attribute__((constructor)) static void find_range(void) {
  const char *wanted = getenv("OCCATRACE_CAPTURE_RANGE"), *end = getenv("OCCATRACE_CAPTURE_RANGE_END");
  if (wanted == NULL || *wanted == '\0') return;
  if (strcmp(wanted, "api") == 0) range_kind = OCCATRACE_RANGE_API;
  if (strcmp(wanted, "cudaProfilerApi") == 0) range_kind = OCCATRACE_RANGE_CUDA;
  if (strcmp(wanted, "hipProfilerApi") == 0) range_kind = OCCATRACE_RANGE_HIP;
  if (strncmp(wanted, "range:", 6) == 0) {
    range_kind = OCCATRACE_RANGE_NAMED;
    occatrace_captured_name = wanted + 6;
  }
  if (end != NULL && strncmp(end, "repeat", 6) == 0) ranges_left = end[6] == ':' ? atoi(end + 7) : -1;
}

/* Changes what `own_on` looks at and says so in the trace. */
static void change(int *what, int by, int set) {
  pthread_mutex_lock(&switch_lock);
  pthread_mutex_lock(&start_lock);
  const int before = own_on();
  *what = set ? by : *what + by;
  const int after = own_on(), ready = state == READY;
  if (before != after) apply_switch();
  pthread_mutex_unlock(&start_lock);
  if (before != after && ready) write_capture(occatrace_self(), after);
  pthread_mutex_unlock(&switch_lock);
}

void occatrace_set_capture(int on) {
  if (range_kind == OCCATRACE_RANGE_API) occatrace_capture_range(OCCATRACE_RANGE_API, on);
  else change(&capture_stopped, !on, 1);
}

void occatrace_capture_range(enum occatrace_range kind, int begins) {
  if (kind != range_kind) return;
  pthread_mutex_lock(&range_lock);
  /* Ranges of a name may be open in several threads; the others are on or off. */
  if (begins && ranges_left != 0 && (kind == OCCATRACE_RANGE_NAMED || range_open == 0)) change(&range_open, 1, 0);
  else if (!begins && range_open > 0) {
    if (range_open == 1 && ranges_left > 0) ranges_left--;
    change(&range_open, -1, 0);
  }
  pthread_mutex_unlock(&range_lock);
}

int occatrace_capture_wanted(void) {
  const char *disable = getenv("OCCATRACE_DISABLE");
  return state != REFUSED && (disable == NULL || *disable == '\0' || strcmp(disable, "0") == 0);
}

int occatrace_is_recorded(void) { return state == READY; }

/* Whether --trace chose an API, or a part of one; without a choice all are. */
int occatrace_chosen(const char *api) {
  const char *list = getenv("OCCATRACE_TRACE");
  if (list == NULL || *list == '\0') return 1;
  const size_t length = strlen(api);
  for (const char *word = list; word != NULL; word = strchr(word, ',')) {
    if (*word == ',') word++;
    if (strncmp(word, api, length) == 0 && (word[length] == ',' || word[length] == '\0')) return 1;
  }
  return 0;
}

void *occatrace_load_library(const char *file) {
  Dl_info info;
  char path[PATH_MAX];
  if (!dladdr((const void *)occatrace_load_library, &info) || info.dli_fname == NULL) return NULL;
  const char *slash = strrchr(info.dli_fname, '/');
  const int folder = slash == NULL ? 0 : (int)(slash - info.dli_fname) + 1;
  if (snprintf(path, sizeof path, "%.*s%s", folder, info.dli_fname, file) >= (int)sizeof path) return NULL;
  /* Never unloaded: probes and hooks point into it. */
  void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
  if (library == NULL) occatrace_say("%s; the program runs untraced", dlerror());
  return library;
}

#include "core_registration.h"

#include "core_threads.h"

/* ---- start ---- */

/* Set while this thread is inside LTTng, which forks to make a file that it shares: that child is none of the program's. */
static __thread int inside_lttng __attribute__((tls_model("initial-exec")));

/* A provider says when LTTng's buffers are full. */
static void tell_of_room(void *library) {
  void (*room)(const struct occatrace_room *) = (void (*)(const struct occatrace_room *))dlsym(library, "occatrace_room_into");
  if (room != NULL) room(&occatrace_room);
}

static int load_lttng(void) {
  void *library = occatrace_load_library("liboccatrace_tp_core.so");
  if (library == NULL) return 0;
  tell_of_room(library);
  occatrace_process = dlsym(library, "occatrace_process_events");
  occatrace_devices = dlsym(library, "occatrace_device_events");
  lttng_before_fork = (void (*)(sigset_t *))dlsym(library, "occatrace_lttng_before_fork");
  lttng_after_fork_parent = (void (*)(sigset_t *))dlsym(library, "occatrace_lttng_after_fork_parent");
  lttng_after_fork_child = (void (*)(sigset_t *))dlsym(library, "occatrace_lttng_after_fork_child");
  lttng_postpone = (void (*)(sigset_t *))dlsym(library, "occatrace_lttng_postpone");
  lttng_settle = (void (*)(void))dlsym(library, "occatrace_lttng_settle");
  lttng_records = (int (*)(void))dlsym(library, "occatrace_lttng_records");
  void (**at_unload)(void) = dlsym(library, "occatrace_at_unload");
  if (!occatrace_process || !occatrace_devices || !lttng_before_fork || !lttng_after_fork_parent ||
      !lttng_after_fork_child || !lttng_postpone || !lttng_settle || !lttng_records || !at_unload) {
    occatrace_say("liboccatrace_tp_core.so does not fit this liboccatrace.so; the program runs untraced");
    return 0;
  }
  *at_unload = occatrace_unloading;
  occatrace_protect_descriptors(library);
  return 1;
}

#define RECORDS_TIMEOUT_S 10

/* Until what this process writes is recorded. On a loaded machine the daemon may have given it up and be taking it again. */
static void wait_until_recorded(void) {
  const char *run = getenv("OCCATRACE_SOCKET");
  if (run == NULL || *run == '\0') return; /* the user's own LTTng session, which may enable what it likes */
  const uint64_t until = occatrace_now() + UINT64_C(1000000000) * RECORDS_TIMEOUT_S;
  while (!lttng_records() && access(run, F_OK) == 0) { /* the run may end meanwhile */
    if (occatrace_now() >= until) {
      occatrace_say("LTTng did not begin to record process %ld within %d s: its first events, or all, will be missing",
                    (long)getpid(), RECORDS_TIMEOUT_S);
      return;
    }
    nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
  }
}

/* What fork left undone in this child: it asks, and becomes a process of its own for LTTng. */
static int start_forked(void) {
  /* Threads of the parent, and its tallies, are none of the child's. */
  while (threads != NULL) {
    struct occatrace_thread *next = threads->next;
    munmap(threads, sizeof *threads);
    threads = next;
  }
  /* The session has to know the pid before LTTng registers it. */
  if (!occatrace_register_process()) return 0;
  sigset_t signals;
  lttng_before_fork(&signals);
  lttng_after_fork_child(&signals);
  occatrace_lttng_has_threads(1);
  wait_until_recorded();
  return 1;
}

static int start_new(void) {
  occatrace_pid = (uint32_t)getpid(); /* a child of a process that was not traced */
  if (!occatrace_capture_wanted() || !occatrace_register_process() || !load_lttng()) return 0;
  pthread_key_create(&thread_end_key, thread_ended);
  wait_until_recorded();
  return 1;
}

/* A handler of the program that makes traced calls must not come between: it would wait for its own thread. Signals without
 * a handler still stop or end the program, and faults are handled. */
static void hold_signals(sigset_t *before) {
  sigset_t held;
  sigemptyset(&held);
  for (int s = 1; s < NSIG; s++) {
    struct sigaction now;
    if (s == SIGSEGV || s == SIGBUS || s == SIGFPE || s == SIGILL || s == SIGTRAP || s == SIGSYS) continue;
    if (sigaction(s, NULL, &now) == 0 && now.sa_handler != SIG_DFL && now.sa_handler != SIG_IGN) sigaddset(&held, s);
  }
  pthread_sigmask(SIG_BLOCK, &held, before);
}

int occatrace_start(void) {
  const int now = __atomic_load_n(&state, __ATOMIC_ACQUIRE);
  if (now == READY || now == REFUSED) return now == READY;
  const int before = errno;
  sigset_t signals;
  hold_signals(&signals);
  pthread_mutex_lock(&start_lock);
  if (state == NEW || state == FORKED) {
    const int was = state;
    inside_lttng = occatrace_makes_own_threads = 1;
    const int next = (was == NEW ? start_new() : start_forked()) ? READY : REFUSED;
    inside_lttng = occatrace_makes_own_threads = 0;
    if (next == READY) process_owed = 1;
    __atomic_store_n(&state, next, __ATOMIC_RELEASE);
    if (next == READY && was == NEW) {
      occatrace_choice_start();
      occatrace_paths_start();
      occatrace_live_start(loaded_mono);
    }
    apply_switch();
    if (next == READY) occatrace_samples_begin();
    else occatrace_samples_refused();
  }
  pthread_mutex_unlock(&start_lock);
  pthread_sigmask(SIG_SETMASK, &signals, NULL);
  errno = before;
  return state == READY;
}

/* ---- fork ---- */

#define START_TIMEOUT_S 60 /* longer than all that a start waits for */

static sigset_t fork_signals, all_signals;
static int start_held;

/* Only locks that are held for moments, but for the one of the start: a child would never get out of half a start. */
static void before_fork(void) {
  if (inside_lttng) return;
  sigset_t signals;
  sigfillset(&all_signals);
  pthread_sigmask(SIG_SETMASK, &all_signals, &signals);
  pthread_mutex_lock(&range_lock);
  fork_signals = signals;
  pthread_mutex_lock(&switch_lock);
  struct timespec until;
  clock_gettime(CLOCK_REALTIME, &until);
  until.tv_sec += START_TIMEOUT_S;
  start_held = pthread_mutex_timedlock(&start_lock, &until) == 0;
  pthread_mutex_lock(&threads_lock);
  occatrace_live_lock();
  occatrace_announcements_lock();
  if (start_held && state == READY) lttng_before_fork(&all_signals);
}

static sigset_t fork_unlock(void) {
  const sigset_t signals = fork_signals;
  occatrace_announcements_unlock();
  occatrace_live_unlock();
  pthread_mutex_unlock(&threads_lock);
  if (start_held) pthread_mutex_unlock(&start_lock);
  pthread_mutex_unlock(&switch_lock);
  pthread_mutex_unlock(&range_lock);
  return signals;
}

static void after_fork_parent(void) {
  if (inside_lttng) return;
  if (start_held && state == READY) lttng_after_fork_parent(&all_signals);
  const sigset_t signals = fork_unlock();
  pthread_sigmask(SIG_SETMASK, &signals, NULL);
}

/* Most children only exec or end: what takes time (asking occa_prof, registering with LTTng) waits for the first call that
 * is traced, in start_forked. */
static void after_fork_child(void) {
  if (inside_lttng) return;
  const int was = state;
  occatrace_pid = (uint32_t)getpid();
  born_mono = occatrace_now();
  announcing = 0;
  occatrace_samples_after_fork();
  pthread_mutex_init(&flush_lock, NULL);
  if (!start_held) {
    pthread_mutex_init(&start_lock, NULL);
    state = REFUSED;
    occatrace_own_switch = 0;
    occatrace_lttng_has_threads(0);
    occatrace_say("process %ld was forked while tracing began; it runs untraced", (long)occatrace_pid);
  } else if (was == READY || was == FORKED) {
    state = FORKED;
    occatrace_tls = NULL;
    pthread_setspecific(thread_end_key, NULL);
    finished = 0;
    occatrace_background_forget();
    occatrace_choice_after_fork();
    occatrace_room_after_fork();
    occatrace_live_after_fork();
    if (was == READY) {
      lttng_postpone(&all_signals);
      occatrace_lttng_has_threads(0);
      occatrace_park_lttng_sockets();
    }
  }
  const sigset_t signals = fork_unlock();
  if (state == FORKED) occatrace_backends_after_fork();
  pthread_sigmask(SIG_SETMASK, &signals, NULL);
}

/* So early that handlers of the program come after ours in a child, and may make traced calls. */
__attribute__((constructor)) static void follow_fork(void) { pthread_atfork(before_fork, after_fork_parent, after_fork_child); }

const void *occatrace_load_provider(const char *api) {
  occatrace_served(api);
  if (!occatrace_chosen(api) || !occatrace_start()) return NULL;
  occatrace_counting_start();
  return occatrace_provider(api);
}

const void *occatrace_provider(const char *api) {
  char file[64], table[64];
  snprintf(file, sizeof file, "liboccatrace_tp_%s.so", api);
  snprintf(table, sizeof table, "occatrace_%s_events", api);
  void *library = occatrace_load_library(file);
  if (library == NULL) return NULL;
  void (*live)(const struct occatrace_live_sink *) = (void (*)(const struct occatrace_live_sink *))dlsym(library, "occatrace_live_into");
  if (live != NULL) live(&occatrace_live_sink);
  tell_of_room(library);
  void (**at_unload)(void) = dlsym(library, "occatrace_at_unload");
  if (at_unload != NULL && *at_unload == NULL) *at_unload = occatrace_leave_alone;
  return dlsym(library, table);
}

#include "core_tallies.h"

/* ---- end ---- */

#define SETTLE_S 1

static void *settle(void *unused) {
  (void)unused;
  const struct timespec moment = {0, 100000};
  for (int i = 0; i < SETTLE_S * 10000 && __atomic_load_n(&announcing, __ATOMIC_ACQUIRE) != 0; i++) nanosleep(&moment, NULL);
  lttng_settle();
  return NULL;
}

/* A thread that is ended in the middle of an event leaves a part of a buffer that nobody can read, and what lies behind it. So
 * the others get a moment to leave theirs. In a thread, as this one, or another that never goes on, may be in one itself. */
static void let_others_settle(void) {
  pthread_mutex_lock(&threads_lock);
  const int alone = threads == NULL || threads->next == NULL;
  pthread_mutex_unlock(&threads_lock);
  if (alone) return;
  pthread_t thread;
  if (!occatrace_own_thread(&thread, settle)) return;
  struct timespec until;
  clock_gettime(CLOCK_REALTIME, &until);
  until.tv_sec += SETTLE_S;
  if (pthread_timedjoin_np(thread, NULL, &until) != 0) pthread_detach(thread);
}

void occatrace_finish(enum occatrace_exit_reason reason) {
  /* Samples of a process that has made no traced call. */
  if ((state == NEW || state == FORKED) && occatrace_samples_are_worth_it()) occatrace_self();
  if (state != READY || finished || (uint32_t)getpid() != occatrace_pid) return; /* a vfork child shares our memory */
  finished = 1;
  /* What other threads still do would be lost where the buffers are full, as nothing is written of them after this. */
  if (reason != OCCATRACE_EXEC) {
    occatrace_leave_alone();
    let_others_settle();
  }
  occatrace_background_stop();
  occatrace_samples_drain(reason == OCCATRACE_EXEC ? 1 : 2);
  if (reason != OCCATRACE_EXEC && occatrace_on_end != NULL && occatrace_tls != NULL) occatrace_on_end(occatrace_tls);
  occatrace_room_turn(1);
  occatrace_harvest(1);
  occatrace_flush();
  struct occatrace_thread *self = occatrace_self();
  const struct occatrace_process_exit r = {self->tid, occatrace_next_seq(self), occatrace_pid, (uint8_t)reason};
  occatrace_process->exit(&r);
  if (reason == OCCATRACE_EXEC) finished = 0; /* exec may fail */
}

/* Without a provider library. */
void occatrace_finish_unstarted(void) {
  if (state == NEW) occatrace_finish(OCCATRACE_EXIT);
}

/* Runs from the destructors of the provider library: after all destructors of the program, before LTTng's own. */
void occatrace_unloading(void) { occatrace_finish(OCCATRACE_EXIT); }
