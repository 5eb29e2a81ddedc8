// GNU's libgomp, by its entry points (tracepoints/openmp.yaml, `symbols`): compilers call them, so their arguments are an
// ABI. A team's threads are seen by a function of ours that stands in front of the outlined one; a task by one of a fixed
// number of functions that each stand for one outlined one, because its arguments must stay as they are.
#include "openmp_gomp.h"

namespace {

// ---- calls inside a region ----

// Of a library that is traced, while recording; else the hook only calls on.
struct Here {
  occatrace_thread *self;
  State *state;
};
bool here(const Library &library, Here &here) {
  if (!occatrace_running() || !library.traced) return false;
  here.self = occatrace_self();
  here.state = state_of(here.self);
  return true;
}

template <unsigned Slot, Schedule schedule, unsigned first, class... A> struct LoopStart {
  // `first`: which argument is the start of the iterations, followed by end and step; 9: none is.
  static bool hook(A... args) {
    const void *caller = CALLER;
    Library &library = library_for(static_cast<const char *>(caller) - 1);
    const auto call = real<bool (*)(A...)>(library, Slot);
    Here at;
    if (here(library, at)) {
      const Word words[] = {static_cast<Word>(args)...};
      uint64_t count = 0;
      if constexpr (first + 2 < sizeof...(A)) count = iterations(words[first], words[first + 1], words[first + 2]);
      open_work(at.state, LoopWork, schedule, count, caller);
    }
    return call(args...);
  }
};

template <unsigned Slot, class... A> struct SectionsStart {
  static unsigned hook(A... args) {
    const void *caller = CALLER;
    Library &library = library_for(static_cast<const char *>(caller) - 1);
    Here at;
    if (here(library, at)) {
      const Word words[] = {static_cast<Word>(args)...};
      open_work(at.state, SectionsWork, UnknownSchedule, static_cast<uint64_t>(words[0]), caller);
    }
    return real<unsigned (*)(A...)>(library, Slot)(args...);
  }
};

// The end of worksharing, with its barrier, and barriers of their own.
template <unsigned Slot, class R, bool barrier, BarrierKind kind> struct End {
  static R hook() {
    const void *caller = CALLER;
    Library &library = library_for(static_cast<const char *>(caller) - 1);
    const auto call = real<R (*)()>(library, Slot);
    Here at;
    if (!here(library, at)) return call();
    if (kind == WorksharingBarrier) close_work(at.self, at.state);
    if (!barrier || !levels[OCCATRACE_OPENMP_barrier]) return call();
    Span span;
    span_begin(at.state, span, OCCATRACE_OPENMP_barrier);
    if constexpr (std::is_void_v<R>) {
      call();
      barrier_end(at.self, at.state, span, kind, caller);
    } else {
      const R result = call();
      barrier_end(at.self, at.state, span, kind, caller);
      return result;
    }
  }
};

template <unsigned Slot, class R> struct Single {
  static R hook() {
    const void *caller = CALLER;
    Library &library = library_for(static_cast<const char *>(caller) - 1);
    const auto call = real<R (*)()>(library, Slot);
    Here at;
    if (!here(library, at)) return call();
    const uint64_t start = occatrace_now(), ticks = occatrace_ticks();
    const R result = call();
    // single_start: true for the one that does it; single_copy_start: null for it.
    const bool executor = std::is_pointer_v<R> ? !result : static_cast<bool>(result);
    single_end(at.self, at.state, start, ticks, executor, caller);
    return result;
  }
};

// ---- tasks ----

constexpr unsigned kThunks = 256;
Outlined task_functions[kThunks];
unsigned task_count;
std::mutex &task_lock = *new std::mutex;

template <unsigned N> void thunk(void *data) {
  const Outlined function = __atomic_load_n(&task_functions[N], __ATOMIC_ACQUIRE);
  if (!occatrace_running()) return function(data);
  occatrace_thread *self = occatrace_self();
  State *state = state_of(self);
  Span span;
  task_begin(state, span);
  function(data);
  if (__builtin_expect(self != occatrace_tls, 0)) return;
  task_end(self, state, span, levels[OCCATRACE_OPENMP_task] == OCCATRACE_EVENT ? site_of(state, reinterpret_cast<const void *>(function)) : 0);
}
template <unsigned... N> const Outlined *thunk_table(std::integer_sequence<unsigned, N...>) {
  static const Outlined table[] = {thunk<N>...};
  return table;
}
const Outlined *const thunks = thunk_table(std::make_integer_sequence<unsigned, kThunks>());

// The function that stands for this outlined one; itself, when there are too many.
Outlined thunk_of(Outlined function) {
  // Open addressing without removal: a slot, once taken, keeps its function.
  const uintptr_t a = reinterpret_cast<uintptr_t>(function);
  unsigned at = static_cast<unsigned>((a >> 4) ^ (a >> 12)) % kThunks;
  for (unsigned tries = 0; tries < kThunks; tries++, at = (at + 1) % kThunks) {
    const Outlined known = __atomic_load_n(&task_functions[at], __ATOMIC_ACQUIRE);
    if (known == function) return thunks[at];
    if (known) continue;
    const std::lock_guard<std::mutex> guard(task_lock);
    if (task_functions[at] && task_functions[at] != function) continue;
    if (!task_functions[at]) {
      if (task_count >= kThunks - 16) return function; // an empty slot ends every search
      task_count++;
      __atomic_store_n(&task_functions[at], function, __ATOMIC_RELEASE);
    }
    return thunks[at];
  }
  return function;
}

using Copy = void (*)(void *, void *);
constexpr unsigned kDepend = 8;

// Newer compilers pass more arguments than older ones; what an older one has not pushed is only passed on.
using TaskCall = void (*)(Outlined, void *, Copy, long, long, bool, unsigned, void **, Word, void *);
void task(Outlined function, void *data, Copy copy, long size, long align, bool condition, unsigned flags, void **depend, Word priority, void *detach) {
  const void *caller = CALLER;
  Library &library = library_for(reinterpret_cast<const void *>(function));
  const auto call = real<TaskCall>(library, SLOT(GOMP_task));
  Here at;
  if (!here(library, at)) return call(function, data, copy, size, align, condition, flags, depend, priority, detach);
  const Outlined stand_in = levels[OCCATRACE_OPENMP_task] ? thunk_of(function) : function;
  Span span;
  span_begin(at.state, span, OCCATRACE_OPENMP_task_create);
  call(stand_in, data, copy, size, align, condition, flags, depend, priority, detach);
  if (__builtin_expect(at.self != occatrace_tls, 0)) return;
  task_created(at.self, at.state, span, caller, !condition, (flags & kDepend) != 0);
}

template <unsigned Slot, class N> struct Taskloop {
  static void hook(Outlined function, void *data, Copy copy, long size, long align, unsigned flags, unsigned long tasks, int priority, N start,
                   N end, N step) {
    const void *caller = CALLER;
    Library &library = library_for(reinterpret_cast<const void *>(function));
    const auto call = real<void (*)(Outlined, void *, Copy, long, long, unsigned, unsigned long, int, N, N, N)>(library, Slot);
    Here at;
    if (!here(library, at)) return call(function, data, copy, size, align, flags, tasks, priority, start, end, step);
    const Outlined stand_in = levels[OCCATRACE_OPENMP_task] ? thunk_of(function) : function;
    const uint64_t begin = occatrace_now(), ticks = occatrace_ticks();
    call(stand_in, data, copy, size, align, flags, tasks, priority, start, end, step);
    if (__builtin_expect(at.self != occatrace_tls, 0)) return;
    worksharing_end(at.self, at.state, begin, ticks, iterations(static_cast<long>(start), static_cast<long>(end), static_cast<long>(step)), caller);
  }
};

// (…, up or down, …): the unsigned variant has the direction in the flags.
template <unsigned Slot> using TaskloopUll = Taskloop<Slot, unsigned long long>;

template <unsigned Slot, bool group, class... A> struct Taskwait {
  static void hook(A... args) {
    const void *caller = CALLER;
    Library &library = library_for(static_cast<const char *>(caller) - 1);
    const auto call = real<void (*)(A...)>(library, Slot);
    Here at;
    if (!here(library, at)) return call(args...);
    Span span;
    span_begin(at.state, span, group ? OCCATRACE_OPENMP_taskgroup : OCCATRACE_OPENMP_taskwait);
    call(args...);
    if (__builtin_expect(at.self != occatrace_tls, 0)) return;
    if (group) taskgroup_end(at.self, at.state, span, caller);
    else taskwait_end(at.self, at.state, span, caller);
  }
};

// ---- mutexes ----

Held *held(State *state, MutexKind kind, bool take) {
  Gomp &g = gomp(state);
  if (kind == Ordered) return &g.ordered;
  if (kind == Atomic) return &g.atomic;
  const uint32_t at = take ? g.criticals++ : g.criticals > 0 ? --g.criticals
                                                             : UINT32_MAX;
  return at < std::size(g.critical) ? &g.critical[at] : nullptr;
}

template <unsigned Slot, MutexKind kind, class... A> struct Enter {
  static void hook(A... args) {
    const void *caller = CALLER;
    Library &library = library_for(static_cast<const char *>(caller) - 1);
    const auto call = real<void (*)(A...)>(library, Slot);
    Here at;
    if (!here(library, at)) return call(args...);
    const bool timed = level_of(OCCATRACE_OPENMP_critical_wait) == OCCATRACE_EVENT;
    const uint64_t start = timed ? occatrace_now() : 0, ticks = occatrace_ticks();
    call(args...);
    Word mutex = 0;
    ((mutex = reinterpret_cast<Word>(args)), ...);
    const uint64_t now = occatrace_ticks();
    mutex_acquired(at.self, at.state, kind, static_cast<uint64_t>(mutex), start, ticks, now, caller);
    if (Held *h = held(at.state, kind, true)) *h = {timed ? occatrace_now() : 1, now};
  }
};

template <unsigned Slot, MutexKind kind, class... A> struct Leave {
  static void hook(A... args) {
    const void *caller = CALLER;
    Library &library = library_for(static_cast<const char *>(caller) - 1);
    Here at;
    if (here(library, at)) {
      Word mutex = 0;
      ((mutex = reinterpret_cast<Word>(args)), ...);
      Held *h = held(at.state, kind, false);
      if (h && h->ticks) mutex_released(at.self, at.state, kind, static_cast<uint64_t>(mutex), h->start, h->ticks, caller);
      if (h) h->ticks = 0;
    }
    real<void (*)(A...)>(library, Slot)(args...);
  }
};

// ---- target ----

// Bytes that the map clauses bring to and from the device: the low bits of a kind say so.
void mapped(size_t count, const size_t *sizes, const unsigned short *kinds, uint64_t &to, uint64_t &from) {
  for (size_t i = 0; sizes && kinds && i < count; i++) {
    const unsigned kind = kinds[i] & 0xff;
    if (kind & 0x6c) continue; // pointers, attachments, firstprivate, delete: no data that moves
    const unsigned copy = kind & 3;
    if (copy & 1) to += sizes[i];
    if (copy & 2) from += sizes[i];
  }
}

template <class Event, unsigned function, class Call>
void target(const Library &library, Construct construct, const void *site, int device, size_t count, const size_t *sizes, const unsigned short *kinds, unsigned flags,
            void (*const *write)(const Event *), Call call) {
  Here at;
  const uint8_t level = level_of(function);
  if (level == OCCATRACE_OFF || !here(library, at)) return call();
  if (level == OCCATRACE_TALLY) {
    const uint64_t ticks = occatrace_ticks();
    call();
    if (at.self == occatrace_tls) tally(at.self, function, occatrace_ticks() - ticks);
    return;
  }
  Event e{};
  e.tid = at.self->tid;
  e.seq = occatrace_next_seq(at.self);
  e.caller = caller_at(at.self, site);
  e.site = site_of(at.state, site);
  e.device = device;
  e.construct = construct;
  e.nowait = flags & 1;
  e.run_seq = at.self->run_seq;
  mapped(count, sizes, kinds, e.mapped_to, e.mapped_from);
  const uint32_t outer = at.state->target_seq;
  at.state->target_seq = e.seq;
  e.start = occatrace_now();
  call();
  if (at.self != occatrace_tls) return;
  at.state->target_seq = outer;
  (*write)(&e);
}
#define TARGET(name, site, device, count, sizes, kinds, flags, ...) \
  target<occatrace_openmp_##name, OCCATRACE_OPENMP_##name>(library, Construct_##name, site, device, count, sizes, kinds, flags, \
                                                           events ? &events->name : nullptr, __VA_ARGS__)

void target_ext(int device, Outlined function, size_t count, void **host, size_t *sizes, unsigned short *kinds, unsigned flags, void **depend,
                void **args) {
  Library &library = library_for(reinterpret_cast<const void *>(function));
  TARGET(target, reinterpret_cast<const void *>(function), device, count, sizes, kinds, flags, [&] {
    real<void (*)(int, Outlined, size_t, void **, size_t *, unsigned short *, unsigned, void **, void **)>(library, SLOT(GOMP_target_ext))(
        device, function, count, host, sizes, kinds, flags, depend, args);
  });
}

void target_data_ext(int device, size_t count, void **host, size_t *sizes, unsigned short *kinds) {
  const char *site = static_cast<const char *>(CALLER) - 1;
  Library &library = library_for(site);
  TARGET(target_data, site, device, count, sizes, kinds, 0, [&] {
    real<void (*)(int, size_t, void **, size_t *, unsigned short *)>(library, SLOT(GOMP_target_data_ext))(device, count, host, sizes, kinds);
  });
}

void target_end_data() {
  const char *site = static_cast<const char *>(CALLER) - 1;
  Library &library = library_for(site);
  TARGET(target_exit_data, site, -1, 0, nullptr, nullptr, 0, [&] { real<void (*)()>(library, SLOT(GOMP_target_end_data))(); });
}

void target_update_ext(int device, size_t count, void **host, size_t *sizes, unsigned short *kinds, unsigned flags, void **depend) {
  const char *site = static_cast<const char *>(CALLER) - 1;
  Library &library = library_for(site);
  TARGET(target_update, site, device, count, sizes, kinds, flags, [&] {
    real<void (*)(int, size_t, void **, size_t *, unsigned short *, unsigned, void **)>(library, SLOT(GOMP_target_update_ext))(
        device, count, host, sizes, kinds, flags, depend);
  });
}

void target_enter_exit_data(int device, size_t count, void **host, size_t *sizes, unsigned short *kinds, unsigned flags, void **depend) {
  const char *site = static_cast<const char *>(CALLER) - 1;
  Library &library = library_for(site);
  const auto call = [&] {
    real<void (*)(int, size_t, void **, size_t *, unsigned short *, unsigned, void **)>(library, SLOT(GOMP_target_enter_exit_data))(
        device, count, host, sizes, kinds, flags, depend);
  };
  if (flags & 2) TARGET(target_exit_data, site, device, count, sizes, kinds, flags, call);
  else TARGET(target_enter_data, site, device, count, sizes, kinds, flags, call);
}

// omp_target_*: LLVM's libomptarget has them too and reports by OMPT what they do. The function that this caller would get
// without us, and whether it is libgomp's.
template <class F> F device_function(const char *symbol, const void *caller, bool &traced) {
  void *function = occatrace_next_symbol(symbol);
  if (!function) function = occatrace_find_symbol(symbol, caller);
  const Library *library = library_of(function);
  traced = library && library->traced && events && occatrace_running();
  return reinterpret_cast<F>(function);
}

void *target_alloc(size_t bytes, int device) {
  const void *caller = CALLER;
  bool traced;
  const auto call = device_function<void *(*)(size_t, int)>("omp_target_alloc", caller, traced);
  const uint8_t level = level_of(OCCATRACE_OPENMP_target_alloc);
  if (!traced || level == OCCATRACE_OFF) return call(bytes, device);
  occatrace_thread *self = occatrace_self();
  State *state = state_of(self);
  const uint64_t start = occatrace_now(), ticks = occatrace_ticks();
  void *memory = call(bytes, device);
  if (level == OCCATRACE_TALLY) {
    occatrace_tally_add(self, first_tally + OCCATRACE_OPENMP_target_alloc, occatrace_ticks() - ticks, !memory);
    return memory;
  }
  occatrace_openmp_target_alloc e{};
  e.tid = self->tid;
  e.seq = occatrace_next_seq(self);
  e.start = start;
  e.caller = caller_of(self, caller);
  e.site = site_of_return(state, caller);
  e.device = device;
  e.handle = reinterpret_cast<uintptr_t>(memory);
  e.bytes = memory ? bytes : 0;
  e.target_seq = state->target_seq;
  events->target_alloc(&e);
  return memory;
}

void target_free(void *memory, int device) {
  const void *caller = CALLER;
  bool traced;
  const auto call = device_function<void (*)(void *, int)>("omp_target_free", caller, traced);
  const uint8_t level = level_of(OCCATRACE_OPENMP_target_free);
  if (!traced || level == OCCATRACE_OFF || !memory) return call(memory, device);
  occatrace_thread *self = occatrace_self();
  State *state = state_of(self);
  const uint64_t start = occatrace_now(), ticks = occatrace_ticks();
  call(memory, device);
  if (level == OCCATRACE_TALLY) return tally(self, OCCATRACE_OPENMP_target_free, occatrace_ticks() - ticks);
  occatrace_openmp_target_free e{};
  e.tid = self->tid;
  e.seq = occatrace_next_seq(self);
  e.start = start;
  e.caller = caller_of(self, caller);
  e.site = site_of_return(state, caller);
  e.device = device;
  e.handle = reinterpret_cast<uintptr_t>(memory);
  e.target_seq = state->target_seq;
  events->target_free(&e);
}

int target_memcpy(void *to, const void *from, size_t bytes, size_t to_offset, size_t from_offset, int to_device, int from_device) {
  const void *caller = CALLER;
  bool traced;
  const auto call = device_function<int (*)(void *, const void *, size_t, size_t, size_t, int, int)>("omp_target_memcpy", caller, traced);
  const uint8_t level = level_of(OCCATRACE_OPENMP_target_transfer);
  if (!traced || level == OCCATRACE_OFF) return call(to, from, bytes, to_offset, from_offset, to_device, from_device);
  occatrace_thread *self = occatrace_self();
  State *state = state_of(self);
  const uint64_t start = occatrace_now(), ticks = occatrace_ticks();
  const int status = call(to, from, bytes, to_offset, from_offset, to_device, from_device);
  if (level == OCCATRACE_TALLY) {
    tally(self, OCCATRACE_OPENMP_target_transfer, occatrace_ticks() - ticks);
    return status;
  }
  static const auto initial_device = reinterpret_cast<int (*)()>(occatrace_find_symbol("omp_get_initial_device", reinterpret_cast<const void *>(call)));
  const int host = initial_device ? initial_device() : -1;
  occatrace_openmp_target_transfer e{};
  e.tid = self->tid;
  e.seq = occatrace_next_seq(self);
  e.start = start;
  e.caller = caller_of(self, caller);
  e.site = site_of_return(state, caller);
  e.kind = from_device == host ? (to_device == host ? OCCATRACE_HTOH : OCCATRACE_HTOD) : to_device == host ? OCCATRACE_DTOH
                                                                                                           : OCCATRACE_DTOD;
  e.source = reinterpret_cast<uintptr_t>(from) + from_offset;
  e.source_device = from_device;
  e.destination = reinterpret_cast<uintptr_t>(to) + to_offset;
  e.destination_device = to_device;
  e.bytes = status == 0 ? bytes : 0;
  e.target_seq = state->target_seq;
  events->target_transfer(&e);
  return status;
}

// ---- which hook stands for which symbol ----

struct Hook {
  unsigned slot;
  void *function;
};
#define HOOK(symbol, ...) {SLOT(symbol), reinterpret_cast<void *>(&__VA_ARGS__)}
#define PARALLEL_LOOP(schedule, kind, ...) \
  HOOK(GOMP_parallel_loop_##schedule, ParallelLoop<SLOT(GOMP_parallel_loop_##schedule), kind, __VA_ARGS__>::hook)
// Words instead of long, pointers and bool: integer registers all the same.
#define LOOP(name, schedule, first, ...) HOOK(GOMP_loop_##name##_start, LoopStart<SLOT(GOMP_loop_##name##_start), schedule, first, __VA_ARGS__>::hook)
#define W Word
#define LOOPS(prefix, first, ...) \
  LOOP(prefix##static, Static, first, __VA_ARGS__, W), LOOP(prefix##dynamic, Dynamic, first, __VA_ARGS__, W), \
      LOOP(prefix##guided, Guided, first, __VA_ARGS__, W), LOOP(prefix##runtime, RuntimeSchedule, first, __VA_ARGS__)
#define NONMONOTONIC(prefix, first, ...) \
  LOOP(prefix##nonmonotonic_dynamic, Dynamic, first, __VA_ARGS__, W), LOOP(prefix##nonmonotonic_guided, Guided, first, __VA_ARGS__, W), \
      LOOP(prefix##nonmonotonic_runtime, RuntimeSchedule, first, __VA_ARGS__), \
      LOOP(prefix##maybe_nonmonotonic_runtime, RuntimeSchedule, first, __VA_ARGS__)
#define ANY_LOOP(name, schedule, first, ...) HOOK(GOMP_loop_##name, LoopStart<SLOT(GOMP_loop_##name), schedule, first, __VA_ARGS__>::hook)

const Hook hooks[] = {
    HOOK(GOMP_parallel, parallel),
    PARALLEL_LOOP(static, LoopStatic, long, unsigned),
    PARALLEL_LOOP(dynamic, LoopDynamic, long, unsigned),
    PARALLEL_LOOP(guided, LoopGuided, long, unsigned),
    PARALLEL_LOOP(runtime, LoopRuntime, unsigned),
    PARALLEL_LOOP(nonmonotonic_dynamic, LoopDynamic, long, unsigned),
    PARALLEL_LOOP(nonmonotonic_guided, LoopGuided, long, unsigned),
    PARALLEL_LOOP(nonmonotonic_runtime, LoopRuntime, unsigned),
    PARALLEL_LOOP(maybe_nonmonotonic_runtime, LoopRuntime, unsigned),
    HOOK(GOMP_parallel_sections, parallel_sections),
    HOOK(GOMP_parallel_reductions, parallel_reductions),
    HOOK(GOMP_teams_reg, teams),

    // (start, end, step, [chunk,] &start, &end); the unsigned ones have the direction in front.
    LOOPS(, 0, W, W, W, W, W),
    NONMONOTONIC(, 0, W, W, W, W, W),
    LOOPS(ordered_, 0, W, W, W, W, W),
    LOOPS(ull_, 1, W, W, W, W, W, W),
    NONMONOTONIC(ull_, 1, W, W, W, W, W, W),
    LOOPS(ull_ordered_, 1, W, W, W, W, W, W),
    // (dimensions, counts, [chunk,] &start, &end)
    LOOPS(doacross_, 9, W, W, W, W),
    LOOPS(ull_doacross_, 9, W, W, W, W),
    ANY_LOOP(start, OtherSchedule, 0, W, W, W, W, W, W, W, W, W),
    ANY_LOOP(ordered_start, OtherSchedule, 0, W, W, W, W, W, W, W, W, W),
    ANY_LOOP(ull_start, OtherSchedule, 1, W, W, W, W, W, W, W, W, W, W),
    ANY_LOOP(ull_ordered_start, OtherSchedule, 1, W, W, W, W, W, W, W, W, W, W),
    ANY_LOOP(doacross_start, Doacross, 9, W, W, W, W, W, W, W, W),
    ANY_LOOP(ull_doacross_start, Doacross, 9, W, W, W, W, W, W, W, W),
    HOOK(GOMP_loop_end, End<SLOT(GOMP_loop_end), void, true, WorksharingBarrier>::hook),
    HOOK(GOMP_loop_end_nowait, End<SLOT(GOMP_loop_end_nowait), void, false, WorksharingBarrier>::hook),
    HOOK(GOMP_loop_end_cancel, End<SLOT(GOMP_loop_end_cancel), bool, true, WorksharingBarrier>::hook),
    HOOK(GOMP_sections_start, SectionsStart<SLOT(GOMP_sections_start), W>::hook),
    HOOK(GOMP_sections2_start, SectionsStart<SLOT(GOMP_sections2_start), W, W, W>::hook),
    HOOK(GOMP_sections_end, End<SLOT(GOMP_sections_end), void, true, WorksharingBarrier>::hook),
    HOOK(GOMP_sections_end_nowait, End<SLOT(GOMP_sections_end_nowait), void, false, WorksharingBarrier>::hook),
    HOOK(GOMP_sections_end_cancel, End<SLOT(GOMP_sections_end_cancel), bool, true, WorksharingBarrier>::hook),
    HOOK(GOMP_single_start, Single<SLOT(GOMP_single_start), bool>::hook),
    HOOK(GOMP_single_copy_start, Single<SLOT(GOMP_single_copy_start), void *>::hook),
    HOOK(GOMP_barrier, End<SLOT(GOMP_barrier), void, true, ExplicitBarrier>::hook),
    HOOK(GOMP_barrier_cancel, End<SLOT(GOMP_barrier_cancel), bool, true, ExplicitBarrier>::hook),
    HOOK(GOMP_task, task),
    HOOK(GOMP_taskloop, Taskloop<SLOT(GOMP_taskloop), long>::hook),
    HOOK(GOMP_taskloop_ull, TaskloopUll<SLOT(GOMP_taskloop_ull)>::hook),
    HOOK(GOMP_taskwait, Taskwait<SLOT(GOMP_taskwait), false>::hook),
    HOOK(GOMP_taskwait_depend, Taskwait<SLOT(GOMP_taskwait_depend), false, void **>::hook),
    HOOK(GOMP_taskgroup_end, Taskwait<SLOT(GOMP_taskgroup_end), true>::hook),
    HOOK(GOMP_critical_start, Enter<SLOT(GOMP_critical_start), Critical>::hook),
    HOOK(GOMP_critical_end, Leave<SLOT(GOMP_critical_end), Critical>::hook),
    HOOK(GOMP_critical_name_start, Enter<SLOT(GOMP_critical_name_start), Critical, void **>::hook),
    HOOK(GOMP_critical_name_end, Leave<SLOT(GOMP_critical_name_end), Critical, void **>::hook),
    HOOK(GOMP_atomic_start, Enter<SLOT(GOMP_atomic_start), Atomic>::hook),
    HOOK(GOMP_atomic_end, Leave<SLOT(GOMP_atomic_end), Atomic>::hook),
    HOOK(GOMP_ordered_start, Enter<SLOT(GOMP_ordered_start), Ordered>::hook),
    HOOK(GOMP_ordered_end, Leave<SLOT(GOMP_ordered_end), Ordered>::hook),
    HOOK(GOMP_target_ext, target_ext),
    HOOK(GOMP_target_data_ext, target_data_ext),
    HOOK(GOMP_target_end_data, target_end_data),
    HOOK(GOMP_target_update_ext, target_update_ext),
    HOOK(GOMP_target_enter_exit_data, target_enter_exit_data),
    HOOK(omp_target_alloc, target_alloc),
    HOOK(omp_target_free, target_free),
    HOOK(omp_target_memcpy, target_memcpy),
};
static_assert(std::size(hooks) == OCCATRACE_OPENMP_SLOTS, "a symbol of the model has no hook, or two");

// What each hook records; it stays out of the way where that is nothing.
bool wanted(unsigned slot) {
  const auto any = [](std::initializer_list<unsigned> functions) {
    for (const unsigned f : functions)
      if (levels[f] != OCCATRACE_OFF) return true;
    return false;
  };
  if (slot >= SLOT(GOMP_target_ext)) return any({OCCATRACE_OPENMP_target, OCCATRACE_OPENMP_target_alloc, OCCATRACE_OPENMP_target_transfer});
  return occatrace_counts() || any({OCCATRACE_OPENMP_parallel, OCCATRACE_OPENMP_implicit_task, OCCATRACE_OPENMP_barrier, OCCATRACE_OPENMP_task});
}

} // namespace

extern "C" OCCATRACE_EXPORT void occatrace_bind_openmp(const occatrace_trampolines *trampolines) {
  symbols = trampolines->symbols;
  if (void *function = occatrace_next_symbol("GOMP_parallel")) everybodys = library_of(function);
  const bool traced = start();
  for (const Hook &hook : hooks) {
    // omp_target_* may come from another library than the rest.
    const bool device = hook.slot >= SLOT(omp_target_alloc);
    if (!everybodys || (traced && wanted(hook.slot) && (device || everybodys->traced))) trampolines->slots[hook.slot] = hook.function;
  }
}
