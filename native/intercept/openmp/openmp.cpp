// OpenMP: what its events are made of, whichever runtime they come from. See openmp.h for the parts.
#include "openmp.h"

#include <pthread.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <new>
#include <string>
#include <unordered_map>

#include "../common/site.h"

namespace openmp {

const occatrace_openmp_events *events;
uint8_t levels[OCCATRACE_OPENMP_COUNT];
uint32_t first_tally;

namespace {

// ---- threads ----

// States are handed on from a thread that has ended to a new one, never freed: regions in them may still be pointed to.
std::mutex &free_lock = *new std::mutex;
State *free_states, *all_states;
pthread_key_t key;
uint64_t serials; // each state counts its regions from a number of its own

void thread_ended(void *data) {
  const std::lock_guard<std::mutex> guard(free_lock);
  State *state = static_cast<State *>(data);
  if (occatrace_tls && occatrace_tls->openmp == state) occatrace_tls->openmp = nullptr;
  state->next = free_states;
  free_states = state;
}

State *new_state(occatrace_thread *self) {
  static pthread_once_t once = PTHREAD_ONCE_INIT;
  pthread_once(&once, [] { pthread_key_create(&key, thread_ended); });
  State *state = nullptr;
  {
    const std::lock_guard<std::mutex> guard(free_lock);
    if (free_states) {
      state = free_states;
      free_states = state->next;
    }
  }
  if (!state) {
    state = static_cast<State *>(std::calloc(1, sizeof(State)));
    if (!state) abort();
    state->serial = __atomic_add_fetch(&serials, 1, __ATOMIC_RELAXED) << 40;
    const std::lock_guard<std::mutex> guard(free_lock);
    state->other = all_states;
    __atomic_store_n(&all_states, state, __ATOMIC_RELEASE);
  }
  state->depth = state->masters = state->tasks = 0;
  state->inner = 0;
  state->late = {};
  state->target_seq = OCCATRACE_NO_RUN;
  std::memset(state->gomp_room, 0, sizeof state->gomp_room);
  std::memset(state->ompt_room, 0, sizeof state->ompt_room);
  self->openmp = state;
  pthread_setspecific(key, state);
  return state;
}

// ---- the end of the process, fork ----

// Regions that it cuts off have a number and no event.
void harvest(int final) {
  if (!final) return;
  for (State *s = __atomic_load_n(&all_states, __ATOMIC_ACQUIRE); s; s = s->other)
    for (uint32_t i = 0; i < s->masters && i < kRegions; i++)
      if (s->regions[i].seq != OCCATRACE_NO_RUN && s->regions[i].level == OCCATRACE_EVENT) {
        const occatrace_openmp_begin begin{s->regions[i].tid, s->regions[i].seq, s->regions[i].seq};
        events->parallel_begin(&begin);
      }
}

// Of all threads: a search takes a while in a library with many symbols, and a thread has room for few places.
std::mutex &sites_lock = *new std::mutex;
std::unordered_map<const void *, Site> &all_sites = *new std::unordered_map<const void *, Site>;

// The parent's regions are none of the child's, whose only thread gets a state of its own.
void after_fork_child() {
  new (&sites_lock) std::mutex;
  for (State *s = all_states; s; s = s->other) s->masters = s->depth = 0;
}

// ---- time ----

double ns_per_tick;
uint64_t calibrated, next_calibration;

} // namespace

State *state_of(occatrace_thread *self) {
  return __builtin_expect(self->openmp != nullptr, 1) ? static_cast<State *>(self->openmp) : new_state(self);
}

// The longer the process has run, the better the rate is known.
uint64_t ticks_to_ns(uint64_t ticks) {
  const uint64_t now = occatrace_ticks();
  if (__builtin_expect(now >= __atomic_load_n(&next_calibration, __ATOMIC_RELAXED), 0)) {
    const uint64_t hz = occatrace_ticks_hz();
    const double rate = 1e9 / static_cast<double>(hz);
    __atomic_store(&ns_per_tick, const_cast<double *>(&rate), __ATOMIC_RELAXED);
    calibrated = calibrated ? calibrated * 2 : hz / 1000;
    __atomic_store_n(&next_calibration, now + calibrated, __ATOMIC_RELAXED);
  }
  double rate;
  __atomic_load(&ns_per_tick, &rate, __ATOMIC_RELAXED);
  return static_cast<uint64_t>(static_cast<double>(ticks) * rate + 0.5);
}

bool start() {
  static const uint8_t table[][4] = OCCATRACE_OPENMP_LEVELS;
  static const char *const names[] = OCCATRACE_OPENMP_NAMES;
  static std::mutex &lock = *new std::mutex;
  const std::lock_guard<std::mutex> guard(lock);
  if (events) return true;
  const auto *provider = static_cast<const occatrace_openmp_events *>(occatrace_load_provider("openmp"));
  if (!provider) return false;
  occatrace_levels("openmp", levels, table, names, OCCATRACE_OPENMP_COUNT);
  first_tally = occatrace_register_functions("openmp", names, OCCATRACE_OPENMP_COUNT);
  events = provider;
  static occatrace_backend backend{"openmp", harvest, after_fork_child, nullptr};
  occatrace_backend_register(&backend);
  return true;
}

// ---- places in the code ----

Site &site_entry(State *state, const void *address) {
  const uint64_t a = reinterpret_cast<uintptr_t>(address);
  Site &site = state->sites[(a ^ (a >> 7)) % kSites];
  const uint32_t generation = __atomic_load_n(&occatrace_unloads, __ATOMIC_ACQUIRE);
  if (site.address == address && site.generation == generation) return site;
  site = {address, generation, 0, nullptr};
  const std::lock_guard<std::mutex> guard(sites_lock);
  const auto known = all_sites.find(address);
  if (known != all_sites.end() && known->second.generation == generation) site = known->second;
  return site;
}

void keep_site(const Site &site) {
  const std::lock_guard<std::mutex> guard(sites_lock);
  all_sites[site.address] = site;
}

uint32_t site_of(State *state, const void *address) {
  if (!address) return 0;
  Site &site = site_entry(state, address);
  if (site.id) return site.id;
  const std::string text = occatrace::site_text(address);
  site.id = occatrace_intern_n(text.data(), text.size());
  keep_site(site);
  return site.id;
}

// ---- regions ----

Region *region_begin(occatrace_thread *self, State *state, const void *address, ParallelKind kind, Runtime runtime, uint32_t requested) {
  if (state->masters >= kRegions) return nullptr; // nested deeper than anybody does
  Region *r = &state->regions[state->masters++];
  r->level = level_of(OCCATRACE_OPENMP_parallel);
  r->silent = occatrace_choosing && self->silent;
  r->heard = occatrace_choosing && !self->silent;
  const Frame *frame = frame_of(state);
  r->tid = self->tid;
  r->seq = OCCATRACE_NO_RUN;
  r->threads = 0;
  r->requested = requested;
  r->kind = kind;
  r->runtime = runtime;
  r->outer_late = {state->late.region, state->late.id, state->late.thread_num};
  state->late.region = nullptr;
  if (r->level == OCCATRACE_EVENT) {
    r->seq = occatrace_next_seq(self);
    r->site = site_of(state, address);
    r->caller = caller_at(self, address);
    r->parent_tid = frame ? frame->region_tid : 0;
    r->parent_seq = frame ? frame->region_seq : OCCATRACE_NO_RUN;
    r->run_seq = self->run_seq;
    r->target_seq = state->target_seq;
    r->start = occatrace_now();
  } else if (r->level == OCCATRACE_TALLY) {
    r->ticks = occatrace_ticks();
  }
  const occatrace_counters *counts = occatrace_counts();
  r->account = __builtin_expect(counts != nullptr, 0) && occatrace_running() && !self->silent ? counts->account() : nullptr;
  __atomic_store_n(&r->id, ++state->serial, __ATOMIC_RELEASE);
  return r;
}

void region_end(occatrace_thread *self, State *state, Region *r) {
  if (!r) return;
  if (state->masters > 0) state->masters--;
  __atomic_store_n(&r->id, 0, __ATOMIC_RELEASE);
  state->late.region = r->outer_late.region;
  state->late.id = r->outer_late.id;
  state->late.thread_num = r->outer_late.thread_num;
  LateTasks *late = __atomic_exchange_n(&r->late, nullptr, __ATOMIC_ACQ_REL);
  if (r->level == OCCATRACE_EVENT && r->tid == self->tid) { // a child of fork ends a region of its parent
    occatrace_openmp_parallel e{};
    e.tid = r->tid;
    e.seq = r->seq;
    e.start = r->start;
    e.caller = r->caller;
    e.site = r->site;
    e.kind = r->kind;
    e.runtime = r->runtime;
    e.requested = r->requested;
    e.threads = r->threads;
    e.parent_tid = r->parent_tid;
    e.parent_seq = r->parent_seq;
    e.run_seq = r->run_seq;
    e.target_seq = r->target_seq;
    events->parallel(&e);
    if (late)
      for (uint32_t i = 0; i < kMaxTeam && i < r->threads; i++)
        if (late[i].tasks) {
          const occatrace_openmp_join_tasks record{self->tid, occatrace_next_seq(self), r->seq, i, late[i].tasks, ticks_to_ns(late[i].ticks)};
          events->join_tasks(&record);
        }
  } else if (r->level == OCCATRACE_TALLY) {
    tally(self, OCCATRACE_OPENMP_parallel, occatrace_ticks() - r->ticks);
  }
  std::free(late);
}

Frame *part_begin(occatrace_thread *self, State *state, Region *region, uint32_t thread_num) {
  if (state->depth++ >= kFrames) return nullptr;
  Frame *f = &state->frames[state->depth - 1];
  std::memset(f, 0, sizeof *f);
  f->region = region;
  f->region_tid = region ? region->tid : 0;
  f->region_seq = region ? region->seq : OCCATRACE_NO_RUN;
  f->thread_num = thread_num;
  state->late.region = nullptr;
  if (__builtin_expect(region && region->silent, 0)) {
    f->silent = 1;
    if (self->silent++ == 0) self->silent_for = OCCATRACE_BY_KERNEL;
  } else if (__builtin_expect(region && region->heard && self->silent == 1 && self->silent_for == OCCATRACE_BY_TAG, 0)) {
    f->silent = 2;
    self->silent = 0;
  }
  if (__builtin_expect(region && region->account && region->tid != self->tid, 0)) f->counted = occatrace_counts()->begin();
  const uint8_t level = level_of(OCCATRACE_OPENMP_implicit_task);
  if (level == OCCATRACE_EVENT) f->start = occatrace_now();
  else if (level == OCCATRACE_TALLY) f->ticks = occatrace_ticks();
  return f;
}

void part_arrived(occatrace_thread *self, State *state) {
  Frame *f = frame_of(state);
  if (!f || f->arrived) return;
  f->arrived = 1;
  // Before the barrier, behind which who met the region reads the sum.
  if (__builtin_expect(f->counted != nullptr, 0)) occatrace_counts()->add(f->counted, f->region->account);
  if (f->start) {
    occatrace_openmp_implicit_task e{};
    e.tid = self->tid;
    e.seq = occatrace_next_seq(self);
    e.start = f->start;
    e.region_tid = f->region_tid;
    e.region_seq = f->region_seq;
    e.thread_num = f->thread_num;
    e.barriers = f->barriers;
    e.waits = f->waits;
    e.mutexes = f->mutexes;
    e.worksharing = f->worksharing;
    e.tasks = f->tasks;
    if (f->barriers | f->waits | f->mutexes | f->tasks) {
      e.barrier_ns = ticks_to_ns(f->barrier);
      e.wait_ns = ticks_to_ns(f->wait);
      e.mutex_ns = ticks_to_ns(f->mutex);
      e.task_ns = ticks_to_ns(f->task);
    }
    events->implicit_task(&e);
  } else if (f->ticks) {
    tally(self, OCCATRACE_OPENMP_implicit_task, occatrace_ticks() - f->ticks);
  }
  if (f->region) {
    state->late.region = f->region;
    state->late.id = __atomic_load_n(&f->region->id, __ATOMIC_ACQUIRE);
    state->late.thread_num = f->thread_num;
  }
}

void part_end(State *state) {
  if (const Frame *f = frame_of(state); f && f->silent) occatrace_tls->silent += f->silent == 1 ? -1u : 1u;
  if (state->depth > 0) state->depth--;
}

// ---- spans ----

namespace {

// Ends a span that is a wait; returns the ticks of the tasks that have run in it.
uint64_t wait_end(State *state, const Span &span) {
  const uint64_t tasks = state->inner;
  state->inner += span.saved;
  return tasks;
}

template <class Event, unsigned function, class Write>
void wait_event(occatrace_thread *self, State *state, const Span &span, uint64_t tasks, const void *caller, Write write) {
  const uint8_t level = level_since(function, span.start);
  if (level == OCCATRACE_EVENT) {
    Event e{};
    e.tid = self->tid;
    e.seq = occatrace_next_seq(self);
    e.start = span.start;
    e.caller = caller_of(self, caller);
    e.site = site_of_return(state, caller);
    e.task_ns = ticks_to_ns(tasks);
    write(e);
  } else if (level == OCCATRACE_TALLY) {
    tally(self, function, occatrace_ticks() - span.ticks);
  }
}

uint64_t less(uint64_t whole, uint64_t part) { return whole > part ? whole - part : 0; }

} // namespace

void barrier_end(occatrace_thread *self, State *state, const Span &span, BarrierKind kind, const void *caller) {
  const uint64_t tasks = wait_end(state, span);
  if (Frame *f = frame_of(state); f && !f->arrived) {
    f->barriers++;
    f->barrier += less(occatrace_ticks() - span.ticks, tasks);
  }
  wait_event<occatrace_openmp_barrier, OCCATRACE_OPENMP_barrier>(self, state, span, tasks, caller, [&](occatrace_openmp_barrier &e) {
    e.kind = kind;
    events->barrier(&e);
  });
}

void taskwait_end(occatrace_thread *self, State *state, const Span &span, const void *caller) {
  const uint64_t tasks = wait_end(state, span);
  // Waits in a task are part of the task.
  if (Frame *f = frame_of(state); f && !f->arrived && state->tasks == 0) {
    f->waits++;
    f->wait += less(occatrace_ticks() - span.ticks, tasks);
  }
  wait_event<occatrace_openmp_taskwait, OCCATRACE_OPENMP_taskwait>(self, state, span, tasks, caller,
                                                                   [](occatrace_openmp_taskwait &e) { events->taskwait(&e); });
}

void taskgroup_end(occatrace_thread *self, State *state, const Span &span, const void *caller) {
  const uint64_t tasks = wait_end(state, span);
  if (Frame *f = frame_of(state); f && !f->arrived && state->tasks == 0) {
    f->waits++;
    f->wait += less(occatrace_ticks() - span.ticks, tasks);
  }
  wait_event<occatrace_openmp_taskgroup, OCCATRACE_OPENMP_taskgroup>(self, state, span, tasks, caller,
                                                                     [](occatrace_openmp_taskgroup &e) { events->taskgroup(&e); });
}

// A task's time, with what else ran inside it, counts once: in the outermost task of the thread.
void task_end(occatrace_thread *self, State *state, const Span &span, uint32_t site) {
  const uint64_t ticks = occatrace_ticks() - span.ticks;
  state->inner = span.saved + ticks;
  if (state->tasks > 0) state->tasks--;
  if (Region *r = state->late.region; r && state->late.thread_num < kMaxTeam) {
    // At the last barrier of a region. (The region has ended when the number is another: nothing is known of this task.)
    if (state->tasks == 0 && __atomic_load_n(&r->id, __ATOMIC_ACQUIRE) == state->late.id) {
      LateTasks *late = __atomic_load_n(&r->late, __ATOMIC_ACQUIRE);
      if (!late) {
        auto *fresh = static_cast<LateTasks *>(std::calloc(kMaxTeam, sizeof(LateTasks)));
        if (fresh && __atomic_compare_exchange_n(&r->late, &late, fresh, false, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE)) late = fresh;
        else std::free(fresh);
      }
      if (late) {
        late[state->late.thread_num].ticks += ticks;
        late[state->late.thread_num].tasks++;
      }
    }
  } else if (Frame *f = frame_of(state); f && !f->arrived) {
    f->tasks++;
    if (state->tasks == 0) f->task += ticks;
  }
  const uint8_t level = level_since(OCCATRACE_OPENMP_task, span.start);
  if (level == OCCATRACE_EVENT) {
    occatrace_openmp_task e{};
    e.tid = self->tid;
    e.seq = occatrace_next_seq(self);
    e.start = span.start;
    e.site = site;
    events->task(&e);
  } else if (level == OCCATRACE_TALLY) {
    tally(self, OCCATRACE_OPENMP_task, ticks);
  }
}

void task_created(occatrace_thread *self, State *state, const Span &span, const void *caller, bool undeferred, bool dependences) {
  const uint64_t tasks = wait_end(state, span);
  const uint8_t level = level_since(OCCATRACE_OPENMP_task_create, span.start);
  if (level == OCCATRACE_EVENT) {
    occatrace_openmp_task_create e{};
    e.tid = self->tid;
    e.seq = occatrace_next_seq(self);
    e.start = span.start;
    e.caller = caller_of(self, caller);
    e.site = site_of_return(state, caller);
    e.undeferred = undeferred;
    e.dependences = dependences;
    events->task_create(&e);
  } else if (level == OCCATRACE_TALLY) {
    tally(self, OCCATRACE_OPENMP_task_create, less(occatrace_ticks() - span.ticks, tasks));
  }
}

// ---- worksharing, mutexes ----

namespace {

// The event of a function without more to it than what `fill` says.
template <class Event, unsigned function, class Fill>
void plain(occatrace_thread *self, State *state, uint64_t start, uint64_t ticks, const void *caller, Fill fill, uint64_t end_ticks = 0) {
  const uint8_t level = level_since(function, start);
  if (level == OCCATRACE_EVENT) {
    Event e{};
    e.tid = self->tid;
    e.seq = occatrace_next_seq(self);
    e.start = start;
    e.caller = caller_of(self, caller);
    e.site = site_of_return(state, caller);
    fill(e);
  } else if (level == OCCATRACE_TALLY) {
    tally(self, function, (end_ticks ? end_ticks : occatrace_ticks()) - ticks);
  }
}

void shared_work(State *state) {
  if (Frame *f = frame_of(state)) f->worksharing++;
}

} // namespace

void loop_end(occatrace_thread *self, State *state, uint64_t start, uint64_t ticks, Schedule schedule, uint64_t iterations, const void *caller) {
  shared_work(state);
  plain<occatrace_openmp_loop, OCCATRACE_OPENMP_loop>(self, state, start, ticks, caller, [&](occatrace_openmp_loop &e) {
    e.schedule = schedule;
    e.iterations = iterations;
    events->loop(&e);
  });
}

void sections_end(occatrace_thread *self, State *state, uint64_t start, uint64_t ticks, uint64_t count, const void *caller) {
  shared_work(state);
  plain<occatrace_openmp_sections, OCCATRACE_OPENMP_sections>(self, state, start, ticks, caller, [&](occatrace_openmp_sections &e) {
    e.count = count;
    events->sections(&e);
  });
}

void single_end(occatrace_thread *self, State *state, uint64_t start, uint64_t ticks, bool executor, const void *caller) {
  shared_work(state);
  plain<occatrace_openmp_single, OCCATRACE_OPENMP_single>(self, state, start, ticks, caller, [&](occatrace_openmp_single &e) {
    e.executor = executor;
    events->single(&e);
  });
}

void worksharing_end(occatrace_thread *self, State *state, uint64_t start, uint64_t ticks, uint64_t count, const void *caller) {
  shared_work(state);
  plain<occatrace_openmp_worksharing, OCCATRACE_OPENMP_worksharing>(self, state, start, ticks, caller,
                                                                    [&](occatrace_openmp_worksharing &e) {
                                                                      e.count = count;
                                                                      events->worksharing(&e);
                                                                    });
}

#define MUTEX(name, end) \
  plain<occatrace_openmp_##name, OCCATRACE_OPENMP_##name>(self, state, start, ticks, caller, [&](occatrace_openmp_##name &e) { \
    e.mutex = mutex;                                                                                                  \
    events->name(&e); }, end)

void mutex_acquired(occatrace_thread *self, State *state, MutexKind kind, uint64_t mutex, uint64_t start, uint64_t ticks, uint64_t now_ticks,
                    const void *caller) {
  if (Frame *f = frame_of(state); f && !f->arrived) {
    f->mutexes++;
    f->mutex += now_ticks - ticks;
  }
  switch (kind) {
    case Critical: MUTEX(critical_wait, now_ticks); break;
    case Lock: MUTEX(lock_wait, now_ticks); break;
    case Ordered: MUTEX(ordered_wait, now_ticks); break;
    case Atomic: MUTEX(atomic_wait, now_ticks); break;
  }
}

void mutex_released(occatrace_thread *self, State *state, MutexKind kind, uint64_t mutex, uint64_t start, uint64_t ticks, const void *caller) {
  switch (kind) {
    case Critical: MUTEX(critical, 0); break;
    case Lock: MUTEX(lock, 0); break;
    case Ordered: MUTEX(ordered, 0); break;
    case Atomic: MUTEX(atomic, 0); break;
  }
}

} // namespace openmp
