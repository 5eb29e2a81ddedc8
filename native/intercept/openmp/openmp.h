// What both ways into OpenMP (OMPT, libgomp) share: the thread's state, regions and their teams, waits, tasks, mutexes,
// places in the code. The two only say what happened; what is counted and written is decided in openmp.cpp.
#ifndef OCCATRACE_OPENMP_H
#define OCCATRACE_OPENMP_H
#include "occatrace_core.h"
#include "openmp_events.h"

namespace openmp {

extern const occatrace_openmp_events *events; // null: this process is not traced
extern uint8_t levels[OCCATRACE_OPENMP_COUNT];
extern uint32_t first_tally;

enum Runtime : uint8_t {
  Libgomp = 1,
  Ompt = 2,
};
enum ParallelKind : uint8_t {
  Parallel = 1,
  LoopStatic,
  LoopDynamic,
  LoopGuided,
  LoopRuntime,
  Sections,
  Teams,
};
enum Schedule : uint8_t {
  UnknownSchedule,
  Static,
  Dynamic,
  Guided,
  RuntimeSchedule,
  Doacross,
  OtherSchedule,
};
enum Construct : uint8_t {
  Construct_target = 1,
  Construct_target_data,
  Construct_target_enter_data,
  Construct_target_exit_data,
  Construct_target_update,
};
enum BarrierKind : uint8_t {
  ImplicitBarrier = 1,
  ExplicitBarrier,
  WorksharingBarrier,
  RuntimeBarrier,
};

// A region in flight. Kept in the state of the thread that met it, which is never given back to the system: a pointer that
// a thread of the team still has is harmless, and `id` tells that the region has ended.
struct LateTasks {
  uint64_t ticks;
  uint32_t tasks;
};
constexpr uint32_t kMaxTeam = 1024; // threads of a team whose tasks at its last barrier are known one by one
struct Region {
  uint64_t id;
  uint32_t tid, seq;
  uint32_t threads;
  uint32_t parent_tid, parent_seq, run_seq, target_seq, site, requested;
  uint8_t kind, runtime, level;
  uint8_t silent, heard; // of work that was not chosen, or was: so is what the threads of the team do in it
  uint64_t start, ticks, caller;
  void *account; // of who met it, for what the threads of the team count (--papi)
  LateTasks *late; // by thread number, from calloc, made by whoever first runs a task at the last barrier
  struct {
    Region *region;
    uint64_t id;
    uint32_t thread_num;
  } outer_late;
};

// A thread's part of a region.
struct Frame {
  Region *region;
  uint32_t region_tid, region_seq, thread_num;
  uint8_t arrived, silent;
  uint64_t start, ticks;
  uint64_t barrier, wait, mutex, task; // ticks
  uint32_t barriers, waits, mutexes, worksharing, tasks;
  void *counted; // reading of the counters at its begin, where they are somebody else's account
};

// Something that a thread is in and that tasks may run in: `saved` is the sum of what had run before in what is around it.
struct Span {
  uint64_t start, ticks, saved;
};

struct Site {
  const void *address;
  uint32_t generation, id;
  const void *runtime; // of libgomp, where callers have several
};

constexpr unsigned kFrames = 32, kRegions = 32, kSites = 128;

struct State {
  State *next; // in the list of those that are free
  State *other; // in the list of all
  uint64_t serial; // of regions
  uint32_t depth, masters, tasks;
  uint32_t target_seq;
  uint64_t inner; // ticks of the tasks that have run in the innermost span
  struct {
    Region *region;
    uint64_t id;
    uint32_t thread_num;
  } late;
  Frame frames[kFrames];
  Region regions[kRegions];
  Site sites[kSites];
  void *gomp, *ompt; // what the two keep beside, of the sizes below
  alignas(16) char gomp_room[512];
  alignas(16) char ompt_room[4096];
};

State *state_of(occatrace_thread *self);

// The place in the code as a name; `address` is a function (of an outlined region) or the byte before a return address.
uint32_t site_of(State *state, const void *address);
inline uint32_t site_of_return(State *state, const void *address) {
  return address ? site_of(state, static_cast<const char *>(address) - 1) : 0;
}
// What an event carries as its caller: of an address as above (`place`), or of a return address.
inline uint64_t caller_at(occatrace_thread *self, const void *place) {
  if (self->call_frame != 0) return self->caller; // within a call of another API
  return place ? occatrace_site_at(self, reinterpret_cast<uintptr_t>(place) + 1, 0) : 0;
}
inline uint64_t caller_of(occatrace_thread *self, const void *address) { return caller_at(self, address ? static_cast<const char *>(address) - 1 : nullptr); }
Site &site_entry(State *state, const void *address); // what is 0 in it is not yet known
void keep_site(const Site &site);                     // for all threads

// Loads the provider, once. False: nothing is recorded.
bool start();
uint64_t ticks_to_ns(uint64_t ticks);

inline uint8_t level_of(unsigned function) { return occatrace_level_now(levels[function]); }
// The time, where something that begins now will be an event; else 0.
inline uint64_t event_now(unsigned function) { return level_of(function) == OCCATRACE_EVENT ? occatrace_now() : 0; }
// The level of what began at such a time.
inline uint8_t level_since(unsigned function, uint64_t start) {
  if (start != 0 && levels[function] == OCCATRACE_EVENT) return OCCATRACE_EVENT;
  return level_of(function) == OCCATRACE_TALLY ? OCCATRACE_TALLY : OCCATRACE_OFF;
}
inline void tally(occatrace_thread *self, unsigned function, uint64_t ticks) { occatrace_tally_add(self, first_tally + function, ticks, 0); }

// ---- regions ----
Region *region_begin(occatrace_thread *self, State *state, const void *site, ParallelKind kind, Runtime runtime, uint32_t requested);
void region_end(occatrace_thread *self, State *state, Region *region);
Frame *part_begin(occatrace_thread *self, State *state, Region *region, uint32_t thread_num);
void part_arrived(occatrace_thread *self, State *state); // at the barrier at the end of the region
void part_end(State *state);
inline Frame *frame_of(State *state) { return state->depth > 0 && state->depth <= kFrames ? &state->frames[state->depth - 1] : nullptr; }

// ---- spans ----
// `function`: what it will be; the time is only needed for an event of it.
inline void span_begin(State *state, Span &span, unsigned function) {
  span.start = event_now(function);
  span.ticks = occatrace_ticks();
  span.saved = state->inner;
  state->inner = 0;
}
void barrier_end(occatrace_thread *self, State *state, const Span &span, BarrierKind kind, const void *caller);
void taskwait_end(occatrace_thread *self, State *state, const Span &span, const void *caller);
void taskgroup_end(occatrace_thread *self, State *state, const Span &span, const void *caller);
inline void task_begin(State *state, Span &span) {
  span_begin(state, span, OCCATRACE_OPENMP_task);
  state->tasks++;
}
void task_end(occatrace_thread *self, State *state, const Span &span, uint32_t site);
void task_created(occatrace_thread *self, State *state, const Span &span, const void *caller, bool undeferred, bool dependences);

// ---- worksharing ----
void loop_end(occatrace_thread *self, State *state, uint64_t start, uint64_t ticks, Schedule schedule, uint64_t iterations, const void *caller);
void sections_end(occatrace_thread *self, State *state, uint64_t start, uint64_t ticks, uint64_t count, const void *caller);
void single_end(occatrace_thread *self, State *state, uint64_t start, uint64_t ticks, bool executor, const void *caller);
void worksharing_end(occatrace_thread *self, State *state, uint64_t start, uint64_t ticks, uint64_t count, const void *caller);

// ---- mutexes ----
enum MutexKind {
  Critical,
  Lock,
  Ordered,
  Atomic,
};
void mutex_acquired(occatrace_thread *self, State *state, MutexKind kind, uint64_t mutex, uint64_t start, uint64_t ticks, uint64_t now_ticks, const void *caller);
void mutex_released(occatrace_thread *self, State *state, MutexKind kind, uint64_t mutex, uint64_t start, uint64_t ticks, const void *caller);

} // namespace openmp
#endif
