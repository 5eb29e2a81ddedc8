// Which libgomp it is, what is kept for each thread, and teams.
#pragma once

#include <dlfcn.h>

#include <cstring>
#include <iterator>
#include <map>
#include <mutex>
#include <type_traits>

#include "openmp.h"

using namespace openmp;

namespace {

#define SLOT(symbol) OCCATRACE_SLOT_##symbol
using Outlined = void (*)(void *);
using Word = intptr_t;

// ---- which libgomp ----

// A process may have several: Python packages bring one each, loaded for themselves. What such a package calls belongs into
// its own; with one for all, which is the rule, that is where every call goes.
struct Library {
  void *functions[OCCATRACE_OPENMP_SLOTS];
  int (*thread_num)();
  int (*num_threads)();
  bool traced; // false: LLVM's libomp, which has these entry points too and speaks for itself by OMPT
};

const char *const *symbols; // of the model, by slot
Library *everybodys; // null: each caller has its own
std::mutex &libraries_lock = *new std::mutex;
std::map<const void *, Library *> &libraries = *new std::map<const void *, Library *>;

Library *library_of(void *function) {
  Dl_info info;
  if (!function || !dladdr(function, &info)) return nullptr;
  const std::lock_guard<std::mutex> guard(libraries_lock);
  Library *&known = libraries[info.dli_fbase];
  if (known) return known;
  void *home = dlopen(info.dli_fname, RTLD_LAZY | RTLD_NOLOAD | RTLD_NODELETE);
  if (!home) return nullptr;
  auto *library = new Library{};
  for (unsigned i = 0; i < OCCATRACE_OPENMP_SLOTS; i++) library->functions[i] = dlsym(home, symbols[i]);
  library->thread_num = reinterpret_cast<int (*)()>(dlsym(home, "omp_get_thread_num"));
  library->num_threads = reinterpret_cast<int (*)()>(dlsym(home, "omp_get_num_threads"));
  library->traced = library->thread_num && library->num_threads && !dlsym(home, "__kmpc_fork_call");
  return known = library;
}

const void *const unknown_library = &libraries; // so that a caller without one is looked for once only

// `address`: the outlined function, or where the call came from.
Library &library_for(const void *address) {
  if (everybodys) return *everybodys;
  occatrace_thread *self = occatrace_self();
  State *state = state_of(self);
  Site &site = site_entry(state, address);
  if (!site.runtime) {
    const void *near = address;
    // A call at the very end of an outlined function comes, as it seems, from ours: it belongs to the region's library.
    Dl_info info, ours;
    if (dladdr(address, &info) && dladdr(reinterpret_cast<const void *>(&library_for), &ours) && info.dli_fbase == ours.dli_fbase &&
        state->gomp)
      return *static_cast<Library *>(state->gomp);
    Library *library = library_of(occatrace_find_symbol("GOMP_parallel", near));
    site.runtime = library ? library : unknown_library;
    keep_site(site);
  }
  if (site.runtime == unknown_library) {
    occatrace_say("a call of libgomp came from where no libgomp is; please report this");
    abort();
  }
  return *static_cast<Library *>(const_cast<void *>(site.runtime));
}

template <class F> F real(Library &library, unsigned slot) { return reinterpret_cast<F>(library.functions[slot]); }

#define CALLER __builtin_return_address(0)

// ---- per thread ----

// Beside the shared state: what this thread has begun and not ended.
struct Open {
  uint8_t what; // 0: nothing
  uint8_t schedule;
  uint64_t start, ticks, count;
  const void *caller;
};
struct Held {
  uint64_t start, ticks;
};
struct Gomp {
  Open work;
  Held critical[4], ordered, atomic; // nested: critical sections of different names
  uint32_t criticals;
};
static_assert(sizeof(Gomp) <= sizeof(State::gomp_room), "room for libgomp's part of the state");
Gomp &gomp(State *state) { return *reinterpret_cast<Gomp *>(state->gomp_room); }
enum : uint8_t {
  NoWork,
  LoopWork,
  SectionsWork,
};

void close_work(occatrace_thread *self, State *state) {
  Open &work = gomp(state).work;
  if (work.what == LoopWork)
    loop_end(self, state, work.start, work.ticks, static_cast<Schedule>(work.schedule), work.count, work.caller);
  else if (work.what == SectionsWork)
    sections_end(self, state, work.start, work.ticks, work.count, work.caller);
  work.what = NoWork;
}

void open_work(State *state, uint8_t what, Schedule schedule, uint64_t count, const void *caller) {
  const unsigned function = what == LoopWork ? OCCATRACE_OPENMP_loop : OCCATRACE_OPENMP_sections;
  gomp(state).work = {what, schedule, event_now(function), occatrace_ticks(), count, caller};
}

// ---- teams ----

struct Team {
  Outlined function;
  void *data;
  Region *region;
  Library *library;
  uint8_t what;
  uint8_t schedule;
  uint64_t count;
};

void member(void *pointer) {
  const Team team = *static_cast<const Team *>(pointer);
  occatrace_thread *self = occatrace_self();
  State *state = state_of(self);
  const uint32_t number = static_cast<uint32_t>(team.library->thread_num());
  if (number == 0 && team.region) team.region->threads = static_cast<uint32_t>(team.library->num_threads());
  const Open outer_work = gomp(state).work;
  void *const outer_library = state->gomp;
  gomp(state).work.what = NoWork;
  if (state->depth == 0) gomp(state).criticals = 0; // left in a part that was not recorded
  state->gomp = team.library;
  part_begin(self, state, team.region, number);
  if (team.what) open_work(state, team.what, static_cast<Schedule>(team.schedule), team.count, reinterpret_cast<const char *>(team.function) + 1);
  team.function(team.data);
  if (__builtin_expect(self != occatrace_tls, 0)) { // a child of fork, in the state of its own
    self = occatrace_self();
    if (state != self->openmp) return;
  }
  if (gomp(state).work.what) close_work(self, state);
  part_arrived(self, state);
  part_end(state);
  gomp(state).work = outer_work;
  state->gomp = outer_library;
}

// Calls `run` with what libgomp is to run instead of `function` on `data`.
template <class Run>
void team(Library &library, ParallelKind kind, Outlined function, void *data, uint32_t requested, uint8_t what, Schedule schedule, uint64_t count,
          Run run) {
  if (!occatrace_running() || !library.traced || (levels[OCCATRACE_OPENMP_parallel] == OCCATRACE_OFF && !occatrace_counts()))
    return run(function, data);
  occatrace_thread *self = occatrace_self();
  State *state = state_of(self);
  Region *region = region_begin(self, state, reinterpret_cast<const void *>(function), kind, Libgomp, requested);
  Team shared{function, data, region, &library, what, schedule, count};
  run(member, &shared);
  if (__builtin_expect(self != occatrace_tls, 0)) return;
  region_end(self, state, region);
}

void parallel(Outlined function, void *data, unsigned threads, unsigned flags) {
  Library &library = library_for(reinterpret_cast<const void *>(function));
  team(library, Parallel, function, data, threads, NoWork, UnknownSchedule, 0, [&](Outlined f, void *d) {
    real<void (*)(Outlined, void *, unsigned, unsigned)>(library, SLOT(GOMP_parallel))(f, d, threads, flags);
  });
}

uint64_t iterations(long start, long end, long step) {
  if (step > 0) return end > start ? static_cast<uint64_t>((end - start + step - 1) / step) : 0;
  if (step < 0) return start > end ? static_cast<uint64_t>((start - end - step - 1) / -step) : 0;
  return 0;
}

// Combined parallel loops: (fn, data, threads, start, end, step, [chunk,] flags).
template <unsigned Slot, ParallelKind kind, class... Rest> struct ParallelLoop {
  static void hook(Outlined function, void *data, unsigned threads, long start, long end, long step, Rest... rest) {
    Library &library = library_for(reinterpret_cast<const void *>(function));
    constexpr Schedule schedule = kind == LoopStatic ? Static : kind == LoopDynamic ? Dynamic
                                                            : kind == LoopGuided    ? Guided
                                                                                    : RuntimeSchedule;
    team(library, kind, function, data, threads, LoopWork, schedule, iterations(start, end, step), [&](Outlined f, void *d) {
      real<void (*)(Outlined, void *, unsigned, long, long, long, Rest...)>(library, Slot)(f, d, threads, start, end, step, rest...);
    });
  }
};

void parallel_sections(Outlined function, void *data, unsigned threads, unsigned count, unsigned flags) {
  Library &library = library_for(reinterpret_cast<const void *>(function));
  team(library, openmp::Sections, function, data, threads, SectionsWork, UnknownSchedule, count, [&](Outlined f, void *d) {
    real<void (*)(Outlined, void *, unsigned, unsigned, unsigned)>(library, SLOT(GOMP_parallel_sections))(f, d, threads, count, flags);
  });
}

// libgomp reads the reductions out of `data`, so the threads of such a team are not seen; the region is.
unsigned parallel_reductions(Outlined function, void *data, unsigned threads, unsigned flags) {
  Library &library = library_for(reinterpret_cast<const void *>(function));
  const auto call = real<unsigned (*)(Outlined, void *, unsigned, unsigned)>(library, SLOT(GOMP_parallel_reductions));
  if (!occatrace_running() || !library.traced || levels[OCCATRACE_OPENMP_parallel] == OCCATRACE_OFF) return call(function, data, threads, flags);
  occatrace_thread *self = occatrace_self();
  State *state = state_of(self);
  Region *region = region_begin(self, state, reinterpret_cast<const void *>(function), Parallel, Libgomp, threads);
  const unsigned team = call(function, data, threads, flags);
  if (self != occatrace_tls) return team;
  if (region) region->threads = team;
  region_end(self, state, region);
  return team;
}

void teams(Outlined function, void *data, unsigned count, unsigned limit, unsigned flags) {
  Library &library = library_for(reinterpret_cast<const void *>(function));
  const auto call = real<void (*)(Outlined, void *, unsigned, unsigned, unsigned)>(library, SLOT(GOMP_teams_reg));
  if (!occatrace_running() || !library.traced || levels[OCCATRACE_OPENMP_parallel] == OCCATRACE_OFF) return call(function, data, count, limit, flags);
  occatrace_thread *self = occatrace_self();
  State *state = state_of(self);
  // The teams run one after the other on this thread: no waits, nothing to balance.
  Region *region = region_begin(self, state, reinterpret_cast<const void *>(function), Teams, Libgomp, count);
  call(function, data, count, limit, flags);
  if (self != occatrace_tls) return;
  if (region) region->threads = 1;
  region_end(self, state, region);
}

}  // namespace
