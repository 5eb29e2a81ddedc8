/* The interface between the core of the tracer (liboccatrace.so, preloaded) and what stands on it: API backends and
 * the generated LTTng-UST providers. C, because the core must not bring libstdc++ into every process that inherits it. */
#ifndef OCCATRACE_CORE_H
#define OCCATRACE_CORE_H

#include <stddef.h>
#include <stdint.h>
#include <time.h>
#if defined(__x86_64__)
#include <x86intrin.h>
#endif

#include "bounds.h"
#include "enums.h"
#include "histogram.h"

#ifdef __cplusplus
extern "C" {
#endif

#define OCCATRACE_EXPORT __attribute__((visibility("default")))
#define OCCATRACE_NO_RUN UINT32_MAX
#define OCCATRACE_MAX_FUNCTIONS 8192
#define OCCATRACE_RETURNED 16

/* How a call is recorded. The order matters: a level includes what is below it. */
enum occatrace_level {
  OCCATRACE_OFF = 0,
  OCCATRACE_TALLY = 1,
  OCCATRACE_EVENT = 2,
};
#define OCCATRACE_EXCLUDED 0x80 /* in a table of levels: the person does not want this function; its calls are counted */
/* Recording modes, in the order of the level tables that the generator writes. */
enum occatrace_mode {
  OCCATRACE_DEFAULT = 0,
  OCCATRACE_MINIMAL = 1,
  OCCATRACE_FULL = 2,
  OCCATRACE_TALLIES = 3,
};

/* Exact statistics of one function in one thread. Written by its thread only; read by whoever flushes. */
struct occatrace_tally {
  uint64_t count, failed, total, min, max; /* ticks */
  uint64_t flushed;                        /* count at the last flush */
  uint32_t buckets[OCCATRACE_HISTOGRAM_BUCKETS];
};

/* One traced thread. Lives on the heap: layers are dlopen'ed and may not ask for much static TLS. */
struct occatrace_thread {
  uint32_t tid;
  uint32_t next_seq;     /* number of the next event of this thread */
  uint32_t run_seq;      /* number of the OCCA kernel call in flight, or OCCATRACE_NO_RUN */
  uint32_t scope_seq;    /* number of the outermost OCCA call in flight, or OCCATRACE_NO_RUN */
  uint32_t run_launches; /* device launches made under it, counted by the OCCA backend */
  uint32_t occa_depth;   /* nesting of OCCA hooks, kept by the OCCA backend */
  uint32_t finished;     /* its thread has ended; freed after the next flush */
  uint32_t silent;       /* not 0: nothing that this thread does is recorded now, because it is not among what was chosen */
  uint32_t silent_for;   /* why: an occatrace_excluded_reason */
  uint64_t excluded[OCCATRACE_EXCLUDED_REASON_COUNT];  /* calls that were left out, by reason */
  void *occa;            /* state of the OCCA backend for this thread, from malloc */
  void *annotation;      /* open ranges of this thread, from malloc */
  void *openmp;          /* state of the OpenMP backend for this thread, which keeps it */
  void *mpi;             /* likewise of the MPI backend */
  void *paths;           /* of call paths, by mmap */
  uintptr_t call_frame;  /* where on the stack the outermost recorded call in flight begins; 0: there is none */
  uint64_t caller;       /* where in the program that call was made */
  uintptr_t module_begin, module_size; /* the module of the program that made the last one */
  uint64_t module_turn;                /* what is added to places in it (site.c) */
  uint32_t module_unloads;             /* occatrace_unloads when it was known to be there */
  uint32_t no_room;                    /* the event that was just to be written was not (room.c) */
  uint32_t returned_count;
  uint32_t returned[OCCATRACE_RETURNED]; /* the last numbers of blocking calls that were counted after their begin */
  uint64_t counted, counted_flushed;   /* numbers of events whose calls were counted instead; at the last flush */
  struct occatrace_thread *next;
  struct occatrace_tally *tallies[OCCATRACE_MAX_FUNCTIONS];
  /* Places in libraries that pass calls on, and how far on the stack the return address of their caller is (site.c). */
  struct {
    uintptr_t address, distance, caller;
  } through[16];
};

/* The number of the next event of this thread, which is the calling one. A signal's handler may record, too: it comes before or
 * after, as this is one instruction. */
static inline uint32_t occatrace_next_seq(struct occatrace_thread *self) {
#if defined(__x86_64__)
  uint32_t number = 1;
  __asm__("xaddl %0, %1" : "+r"(number), "+m"(self->next_seq) : : "cc");
  return number;
#else
  return __atomic_fetch_add(&self->next_seq, 1, __ATOMIC_RELAXED);
#endif
}

extern OCCATRACE_EXPORT __thread struct occatrace_thread *occatrace_tls __attribute__((tls_model("initial-exec")));

/* ---- what is recorded now (choice.c) ---- */

/* The switch (bounds.h): bytes with an owner each, so that nobody's write undoes another's; 1 = on. From the lowest: commands from
 * another shell, the clock (--delay and the like), events (off: only tallies are kept), "no choice among the work". The run's
 * word lies in a file that all its processes on this node map, this process's own is a mask on it. */
extern OCCATRACE_EXPORT const uint32_t *occatrace_run_switch;
extern OCCATRACE_EXPORT uint32_t occatrace_own_switch;
/* Not 0: there is a choice among threads, functions, kernels, queues or tagged objects. */
extern OCCATRACE_EXPORT uint8_t occatrace_choosing;
OCCATRACE_EXPORT uint8_t occatrace_level_slow(uint32_t now, uint8_t wanted);
OCCATRACE_EXPORT int occatrace_capturing_slow(uint32_t now);

static inline uint32_t occatrace_switch(void) {
  return __atomic_load_n(__atomic_load_n(&occatrace_run_switch, __ATOMIC_RELAXED), __ATOMIC_RELAXED) &
         __atomic_load_n(&occatrace_own_switch, __ATOMIC_RELAXED);
}

/* The level at which a call that begins now is recorded, given the one of its function. Asked once for each call: what it
 * says holds to the end of the call. */
static inline uint8_t occatrace_level_now(uint8_t wanted) {
  const uint32_t now = occatrace_switch();
  if (__builtin_expect(now == OCCATRACE_SWITCH_ON, 1)) return wanted;
  if ((now & OCCATRACE_SWITCH_RUNNING) != OCCATRACE_SWITCH_RUNNING) return OCCATRACE_OFF;
  return occatrace_level_slow(now, wanted);
}
/* Whether events that are no calls are recorded now. */
static inline int occatrace_capturing(void) {
  const uint32_t now = occatrace_switch();
  if (__builtin_expect(now == OCCATRACE_SWITCH_ON, 1)) return 1;
  if ((now & OCCATRACE_SWITCH_EVENTS) != OCCATRACE_SWITCH_EVENTS) return 0;
  return occatrace_capturing_slow(now);
}
/* Whether anything at all is, be it only tallies. */
static inline int occatrace_running(void) {
  return (occatrace_switch() & OCCATRACE_SWITCH_RUNNING) == OCCATRACE_SWITCH_RUNNING;
}
#define occatrace_capture occatrace_capturing()

/* The program stops and starts recording; before the first traced call too. */
OCCATRACE_EXPORT void occatrace_set_capture(int on);

/* What --capture-range may name, and that it begins or ends. */
enum occatrace_range {
  OCCATRACE_RANGE_NONE = 0,
  OCCATRACE_RANGE_API,
  OCCATRACE_RANGE_CUDA,
  OCCATRACE_RANGE_HIP,
  OCCATRACE_RANGE_NAMED,
};
OCCATRACE_EXPORT void occatrace_capture_range(enum occatrace_range kind, int begins);
/* The name of the ranges that are captured (--capture-range range:NAME), or NULL. */
extern OCCATRACE_EXPORT const char *occatrace_captured_name;

/* Whether a launch of the kernel with this (interned) name is wanted; the launch counts as one of its iterations. */
OCCATRACE_EXPORT int occatrace_choose_kernel(uint32_t name);
/* One that is not wanted, whatever its name. */
OCCATRACE_EXPORT void occatrace_exclude_kernel(uint32_t name);
/* From now on there is a choice: the program has made one. */
OCCATRACE_EXPORT void occatrace_start_choosing(void);
/* Whether work in a queue is. */
OCCATRACE_EXPORT int occatrace_choose_queue(uint32_t device, const char *device_name, uint32_t queue);
/* Only what is tagged is wanted; and whether this label is among the wanted ones (NULL: tagged without one). */
OCCATRACE_EXPORT int occatrace_only_tagged(void);
OCCATRACE_EXPORT int occatrace_label_wanted(const char *label);

/* Opens a library that lies beside this one; says why when it can't. */
OCCATRACE_EXPORT void *occatrace_load_library(const char *file);
/* 0 when OCCATRACE_DISABLE is set or the session refused this process: backends are not even loaded. */
OCCATRACE_EXPORT int occatrace_capture_wanted(void);
/* Whether an API is traced at all (OCCATRACE_TRACE): what is not chosen is passed straight on. */
OCCATRACE_EXPORT int occatrace_chosen(const char *api);

/* Loads LTTng and announces the process, once. Returns 1 when events can be written, 0 when the process runs untraced. */
OCCATRACE_EXPORT int occatrace_start(void);
/* Starts the core if need be and loads the provider library of an API; returns its table of emit functions
 * (`struct occatrace_<api>_events`), or NULL when the process runs untraced. */
OCCATRACE_EXPORT const void *occatrace_load_provider(const char *api);
OCCATRACE_EXPORT enum occatrace_mode occatrace_mode(void);
/* The one of an API, where --level says something else. */
OCCATRACE_EXPORT enum occatrace_mode occatrace_mode_of(const char *api);
/* By what device work is timed (--device-time): by the vendor's records where there are any, by events, not at all. */
enum occatrace_device_time {
  OCCATRACE_TIME_AUTO,
  OCCATRACE_TIME_OFF,
  OCCATRACE_TIME_EVENTS,
  OCCATRACE_TIME_CUPTI,
  OCCATRACE_TIME_ROCTRACER,
  OCCATRACE_TIME_ROCPROFILER,
};
OCCATRACE_EXPORT enum occatrace_device_time occatrace_device_time(void);
OCCATRACE_EXPORT uint64_t occatrace_ticks_hz(void);
/* Fills `levels` for the mode in force from the generated table [function][mode]. */
/* It comes with --level, and with the functions that the person chose. */
OCCATRACE_EXPORT void occatrace_levels(const char *api, uint8_t *levels, const uint8_t (*table)[4], const char *const *names,
                                       uint32_t count);

/* Makes the state of the calling thread and writes its `thread` record. */
OCCATRACE_EXPORT struct occatrace_thread *occatrace_thread_start(void);

static inline struct occatrace_thread *occatrace_self(void) {
  struct occatrace_thread *self = occatrace_tls;
  return __builtin_expect(self != NULL, 1) ? self : occatrace_thread_start();
}

/* CLOCK_MONOTONIC in ns: the clock of LTTng's time stamps. */
static inline uint64_t occatrace_now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (uint64_t)t.tv_sec * UINT64_C(1000000000) + (uint64_t)t.tv_nsec;
}

/* Invariant counter for tallies: a third of the cost of clock_gettime. */
static inline uint64_t occatrace_ticks(void) {
#if defined(__x86_64__)
  return __rdtsc();
#elif defined(__aarch64__)
  uint64_t v;
  __asm__ volatile("mrs %0, cntvct_el0" : "=r"(v));
  return v;
#else
  return occatrace_now();
#endif
}

/* Reserves `count` slots for the tallies of an API's functions, named "api:function"; returns the first. */
OCCATRACE_EXPORT uint32_t occatrace_register_functions(const char *api, const char *const *names, uint32_t count);
OCCATRACE_EXPORT struct occatrace_tally *occatrace_tally_new(struct occatrace_thread *self, uint32_t slot);

static inline void occatrace_tally_count(struct occatrace_tally *t, uint64_t ticks, int failed) {
  t->failed += failed != 0;
  t->total += ticks;
  if (ticks < t->min) t->min = ticks;
  if (ticks > t->max) t->max = ticks;
  t->buckets[occatrace_histogram_bucket(ticks)]++;
  t->count++;
}
static inline void occatrace_tally_add(struct occatrace_thread *self, uint32_t slot, uint64_t ticks, int failed) {
  struct occatrace_tally *t = self->tallies[slot];
  if (__builtin_expect(t == NULL, 0)) {
    t = occatrace_tally_new(self, slot);
    if (t == NULL) return;
  }
  occatrace_tally_count(t, ticks, failed);
}

/* What a call does, as bits. */
enum occatrace_call_effect {
  OCCATRACE_LAUNCHES = 1,
  OCCATRACE_COPIES = 2,
  OCCATRACE_ALLOCATES = 4,
  OCCATRACE_BUILDS = 8,
  OCCATRACE_WAITS = 16,
  OCCATRACE_IS_MPI = 32,
  OCCATRACE_IS_OCCA = 64,
  OCCATRACE_SETS_UP = 128 /* none of these, and recorded one by one unless the person wants less */
};
/* Wants to know of each call that does one of these, in its thread before it is made; NULL: nobody does. */
extern OCCATRACE_EXPORT void (*occatrace_on_call)(struct occatrace_thread *self, uint32_t call_seq, uint32_t kinds);
/* Sets it, besides what --call-paths wants. */
OCCATRACE_EXPORT void occatrace_want_calls(void (*told)(struct occatrace_thread *self, uint32_t call_seq, uint32_t kinds));
/* Kinds of calls that have their stack (--call-paths), by bits as above; 0: none. Known once events are loaded. */
OCCATRACE_EXPORT uint32_t occatrace_path_kinds(void);
/* From where to where the code goes, by its unwind table, that has this place in its frame on the stack of the calling thread; 0: that
 * is not known. A function may be in several such parts. */
OCCATRACE_EXPORT int occatrace_code_around(const void *on_stack, uintptr_t *begin, uintptr_t *end);
/* Names code that has no symbol, for stacks; `function` is kept. Once for each part of a function. */
OCCATRACE_EXPORT void occatrace_name_code(uintptr_t begin, uintptr_t end, const char *function);
/* Whether stacks are sampled (--sample-stacks). */
OCCATRACE_EXPORT int occatrace_samples_stacks(void);
/* Frames of a language that are not those of the machine's stack, in samples of stacks. */
struct occatrace_frames {
  /* In a signal's handler: a word for each frame of the calling thread, the innermost first; returns how many. */
  uint32_t (*read)(uint64_t *words, uint32_t room);
  /* Whether they can be announced. */
  int (*ready)(void);
  /* The number of the innermost frame, announced; 0: there is none. */
  uint32_t (*announce)(struct occatrace_thread *self, const uint64_t *words, uint32_t count);
};
OCCATRACE_EXPORT void occatrace_sample_frames(const struct occatrace_frames *frames);
/* Whether the word at a multiple of 8 can be read; in a handler, too. `page`: the last one that could, 0 at the begin. */
OCCATRACE_EXPORT int occatrace_is_readable(uintptr_t place, uintptr_t *page);
/* Wants to know, in the thread that ends the process, that it ends, while events can still be written; NULL: nobody does. */
extern OCCATRACE_EXPORT void (*occatrace_on_end)(struct occatrace_thread *self);
static inline void occatrace_calling(struct occatrace_thread *self, uint32_t call_seq, uint32_t kinds) {
  void (*const told)(struct occatrace_thread *, uint32_t, uint32_t) = __atomic_load_n(&occatrace_on_call, __ATOMIC_RELAXED);
  if (__builtin_expect(told != NULL, 0)) told(self, call_seq, kinds);
}

/* Counters of PAPI (--papi); NULL: nobody wants them. A reading holds what the calling thread has counted so far, and the
 * OpenMP teams that have worked for it. */
struct occatrace_counters {
  /* A reading as something begins; NULL: this thread cannot count. */
  void *(*begin)(void);
  /* As it ends, in the same thread: the reading becomes what was counted since. */
  void (*end)(void *reading);
  /* Writes it for a call or range of this thread and gives the reading up; OCCATRACE_NO_RUN: only that. NULL is none. */
  void (*write)(void *reading, struct occatrace_thread *self, uint32_t seq);
  /* Where the teams of regions that this thread meets add what their threads counted; NULL: it cannot count. */
  void *(*account)(void);
  /* What was counted since `reading`, by a thread of a team, goes to the one who met the region; the reading is given up. */
  void (*add)(void *reading, void *account);
};
extern OCCATRACE_EXPORT const struct occatrace_counters *occatrace_counting;
static inline const struct occatrace_counters *occatrace_counts(void) {
  return __atomic_load_n(&occatrace_counting, __ATOMIC_ACQUIRE);
}

/* Wants to know of the memory that a launch, copy or fill works on, by its handle or an address in it, after the call; NULL:
 * nobody does. */
extern OCCATRACE_EXPORT void (*occatrace_on_use)(struct occatrace_thread *self, uint32_t call_seq, uint64_t memory);
static inline int occatrace_uses_wanted(void) {
  return __builtin_expect(__atomic_load_n(&occatrace_on_use, __ATOMIC_RELAXED) != NULL, 0);
}

/* A failed call and why: `code` is the value that tells it, `text` an interned message or 0, `call_seq` the number of its
 * event or OCCATRACE_NO_RUN. Errors are rare; a function that fails all the time is noted 1000 times. */
OCCATRACE_EXPORT void occatrace_failure(uint32_t slot, uint32_t call_seq, int64_t code, uint32_t text);

/* Text as a small number, announced in the trace before it is first used; 0 for NULL. Thread-safe. */
OCCATRACE_EXPORT uint32_t occatrace_intern(const char *text);
OCCATRACE_EXPORT uint32_t occatrace_intern_n(const char *text, size_t length);

/* Announces an OCCA kernel as its author named it; the arguments are interned texts (0 = unknown). */
OCCATRACE_EXPORT uint32_t occatrace_kernel(uint32_t name, uint32_t mode, uint32_t source, uint32_t line,
                                           uint32_t binary);
/* Announces a device and a queue or stream; texts are interned. */
OCCATRACE_EXPORT uint32_t occatrace_device(uint32_t api, uint32_t platform, uint32_t name, uint32_t vendor,
                                           uint64_t handle);
OCCATRACE_EXPORT uint32_t occatrace_queue(uint32_t device, uint64_t handle, uint32_t flags, uint64_t context);

/* Device work, complete. Times are CLOCK_MONOTONIC ns. */
struct occatrace_activity {
  uint8_t kind;
  int32_t status;                /* 0, or the error code that the device reported */
  uint32_t corr_tid, corr_seq;   /* the call that launched it */
  uint32_t run_seq;              /* the OCCA kernel call on that thread, or OCCATRACE_NO_RUN */
  uint32_t queue, name;
  uint32_t grid[3], block[3];
  uint64_t queued, submitted, start, end, bytes;
};
OCCATRACE_EXPORT void occatrace_activity(const struct occatrace_activity *a);
/* What the driver did to managed memory by itself (its kind is an occatrace_managed_kind), and a wait for device work (an
 * occatrace_wait_kind). */
struct occatrace_managed {
  uint32_t device;
  uint8_t kind;
  uint64_t start, end, value, address;
};
OCCATRACE_EXPORT void occatrace_write_managed(const struct occatrace_managed *m);
struct occatrace_wait {
  uint8_t kind;
  uint32_t corr_tid, corr_seq; /* the call that waits, or by which a queue does */
  uint32_t queue, waiting;
  uint64_t start, end;
};
OCCATRACE_EXPORT void occatrace_write_wait(const struct occatrace_wait *w);
OCCATRACE_EXPORT void occatrace_clock(uint32_t device, uint64_t host, uint64_t device_time, uint64_t uncertainty);
OCCATRACE_EXPORT void occatrace_clock_warning(uint32_t device, uint64_t clamped, uint64_t worst);

/* What a backend offers to the core. Callbacks may be NULL. They run without locks of the core. */
struct occatrace_backend {
  const char *api;
  void (*harvest)(int final);  /* collect finished device work; final: the process is about to end */
  void (*after_fork_child)(void);
  struct occatrace_backend *next;
};
OCCATRACE_EXPORT void occatrace_backend_register(struct occatrace_backend *backend);
/* Asks the background thread (started at the first call) to harvest now and then. */
OCCATRACE_EXPORT void occatrace_want_harvest(void);
/* Writes the tallies of all threads and their `progress`. */
OCCATRACE_EXPORT void occatrace_flush(void);

/* Preloaded symbols: the slots behind the trampolines of one API (generated). A backend library exports
 * `void occatrace_bind_<api>(const struct occatrace_trampolines *)` and puts its hooks into `slots`;
 * `original` holds the real functions, NULL where this process has none. */
struct occatrace_trampolines {
  const char *api;
  uint32_t count;
  const char *const *symbols;
  void **slots;
  void **original;
  uint32_t bound; /* 1 while the first call of one of them is being seen, 2 after */
  uint32_t per_caller; /* callers may have libraries of their own: the backend sends each call to the right one */
  const char *anchor; /* symbol by which the API's library is known, or NULL: wherever the first one called is */
  const char *begin; /* of the trampolines, where there is an anchor */
  const void *chosen; /* something in the library that the program asked by handle before any call */
};
/* The real function behind a preloaded symbol, also where its library was loaded RTLD_LOCAL. `near`: an address in
 * the object to search first (or NULL). */
OCCATRACE_EXPORT void *occatrace_find_symbol(const char *symbol, const void *near);
/* The same, only as every object of the process finds it; NULL where it was loaded RTLD_LOCAL. */
OCCATRACE_EXPORT void *occatrace_next_symbol(const char *symbol);
/* Through the caller's object, then through every object, but for what lies in [begin, end): for other libraries that export
 * the functions of one, after they have asked for the next one in the search order. */
OCCATRACE_EXPORT void *occatrace_find_symbol_beside(const char *symbol, const void *near, const void *begin, const void *end);
/* Whether the preloaded function `ours` goes on to `real`, so that who asked a library for it by handle may get ours: then all
 * functions of that API go on to that library. Another library of the API keeps its own. */
OCCATRACE_EXPORT int occatrace_leads_to(const void *ours, const void *real);
/* Whether an address lies in the core: a preloaded function of ours. */
OCCATRACE_EXPORT int occatrace_is_core(const void *address);
/* Counts the libraries that the program let go of: another may be at their address now. */
extern OCCATRACE_EXPORT uint32_t occatrace_unloads;

/* ---- where in the program a call was made (site.c) ---- */

/* In the function that the program calls: what tells its return address. On x86-64 it is where on the stack that lies. */
#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__)
#define OCCATRACE_CALLED_FROM() ((const void *)((const char *)__builtin_dwarf_cfa() - sizeof(void *)))
#define OCCATRACE_FRAME(from) ((uintptr_t)(from))
static inline uintptr_t occatrace_return_slot(const void *from) { return (uintptr_t)from; }
static inline uintptr_t occatrace_return_address(const void *from) { return from == NULL ? 0 : *(const uintptr_t *)from; }
#else
#define OCCATRACE_CALLED_FROM() ((const void *)__builtin_return_address(0))
#define OCCATRACE_FRAME(from) ((from) == NULL ? 0 : (uintptr_t)__builtin_frame_address(0))
static inline uintptr_t occatrace_return_slot(const void *from) { return (void)from, 0; }
static inline uintptr_t occatrace_return_address(const void *from) { return (uintptr_t)from; }
#endif
OCCATRACE_EXPORT uint64_t occatrace_site_slow(struct occatrace_thread *self, uintptr_t address, uintptr_t slot);

/* The place in the program that a return address leads to, which lies at `slot` on the stack (0: anywhere); its module has been
 * announced. In a module that has the place of one that was unloaded, its upper 16 bits tell them apart. */
static inline uint64_t occatrace_site_at(struct occatrace_thread *self, uintptr_t address, uintptr_t slot) {
  if (__builtin_expect(address - self->module_begin < self->module_size, 1) &&
      __builtin_expect(self->module_unloads == __atomic_load_n(&occatrace_unloads, __ATOMIC_RELAXED), 1))
    return address | self->module_turn;
  return occatrace_site_slow(self, address, slot);
}
/* From now on kernels are launched through functions that a compiler made of them, which are not the place of a call. */
OCCATRACE_EXPORT void occatrace_kernels_have_stubs(void);
/* A recorded call begins; 1: it is the outermost one and has to be ended. One that longjmp has left is known by the stack
 * having grown back above it. NULL: it is within another one. */
static inline int occatrace_site_begin_at(struct occatrace_thread *self, const void *from, uintptr_t frame) {
  if (frame < self->call_frame) return 0;
  self->call_frame = frame;
  self->caller = occatrace_site_at(self, occatrace_return_address(from), occatrace_return_slot(from));
  return 1;
}
static inline int occatrace_site_begin(struct occatrace_thread *self, const void *from) {
  return occatrace_site_begin_at(self, from, OCCATRACE_FRAME(from));
}
static inline void occatrace_site_end(struct occatrace_thread *self) { self->call_frame = 0; }
/* The same for a call that may be within another one. */
static inline void occatrace_site_end_at(struct occatrace_thread *self, uintptr_t frame) {
  if (self->call_frame == frame) self->call_frame = 0;
}

/* Whether calls of this process were ever counted because the buffers had no room for their events. */
OCCATRACE_EXPORT int occatrace_was_full(void);

/* One line on stderr, "occatrace: …". */
OCCATRACE_EXPORT void occatrace_say(const char *format, ...) __attribute__((format(printf, 1, 2)));

#ifdef __cplusplus
}

namespace occatrace {

// Nothing that this thread does is recorded for as long as the object lives, where `wanted` is false.
class Silence {
 public:
  Silence(occatrace_thread *self, bool wanted, occatrace_excluded_reason reason) : self_(wanted ? nullptr : self) {
    if (self_ == nullptr || self_->silent++ != 0) return;
    self_->silent_for = reason;
  }
  ~Silence() {
    if (self_ != nullptr) self_->silent--;
  }
  Silence(const Silence &) = delete;
  Silence &operator=(const Silence &) = delete;

 private:
  occatrace_thread *self_;
};

// A recorded call is in flight for as long as the object lives: it and what is recorded within have its place in the program.
class CallSite {
 public:
  CallSite(occatrace_thread *self, bool recorded, const void *from)
      : self_(recorded && occatrace_site_begin(self, from) ? self : nullptr) {}
  ~CallSite() {
    if (self_ != nullptr) occatrace_site_end(self_);
  }
  CallSite(const CallSite &) = delete;
  CallSite &operator=(const CallSite &) = delete;

 private:
  occatrace_thread *self_;
};

}  // namespace occatrace
#endif
#endif
