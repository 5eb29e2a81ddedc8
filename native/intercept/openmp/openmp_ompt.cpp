// LLVM's OpenMP runtime (and Intel's and AMD's) by OMPT, the tools interface of the specification.
// The runtime tells a worker that the barrier at the end of a region is over only when it has something new for it, so a
// thread's part of a region ends here when it arrives at that barrier.
#include <algorithm>
#include <cstring>
#include <iterator>
#include <map>
#include <mutex>

#include "ompt.h"
#include "openmp.h"

using namespace openmp;

namespace {

// ---- per thread ----
// What begins is remembered and what ends forgotten also while nothing is recorded, so that the two always fit.

struct Work {
  uint64_t start, ticks, count; // the count is told at the begin
};
struct TaskRun {
  const ompt::Data *task;
  uint32_t site;
  Span span;
};
struct Mutex {
  uint64_t id, start, ticks;
  const void *caller;
  uint8_t kind;
};
struct Target {
  uint64_t start, ticks;
  uint32_t seq, outer;
  int device;
  const void *caller;
};
struct Ompt {
  uint32_t works, spans, tasks, mutexes, targets;
  Mutex acquiring;
  Work work[8];
  Span span[16];
  TaskRun task[32];
  Mutex mutex[16];
  Target target[4];
  uint64_t op_start, op_ticks, submit_start, submit_ticks;
};
static_assert(sizeof(Ompt) <= sizeof(State::ompt_room), "room for OMPT's part of the state");

struct Here {
  occatrace_thread *self;
  State *state;
  Ompt &ompt;
};
Here here() {
  occatrace_thread *self = occatrace_self();
  State *state = state_of(self);
  return {self, state, *reinterpret_cast<Ompt *>(state->ompt_room)};
}

// A stack that forgets what is deeper than it has room for, and still counts it.
template <class T, size_t N> T *push(T (&stack)[N], uint32_t &depth) { return depth++ < N ? &stack[depth - 1] : nullptr; }
template <class T, size_t N> T *pop(T (&stack)[N], uint32_t &depth) { return depth > 0 && --depth < N ? &stack[depth] : nullptr; }

// ---- regions ----

void parallel_begin(ompt::Data *, const void *, ompt::Data *parallel, unsigned requested, int flags, const void *caller) {
  parallel->pointer = nullptr;
  if (!occatrace_running()) return;
  const Here at = here();
  const void *site = caller ? static_cast<const char *>(caller) - 1 : nullptr;
  const bool league = static_cast<unsigned>(flags) & ompt::ParallelLeague;
  // num_threads that was not said is told as what the runtime would take.
  parallel->pointer = region_begin(at.self, at.state, site, league ? Teams : Parallel, openmp::Ompt, requested);
}

void parallel_end(ompt::Data *parallel, ompt::Data *, int, const void *) {
  if (!parallel->pointer) return; // begun while nothing was recorded
  const Here at = here();
  region_end(at.self, at.state, static_cast<Region *>(parallel->pointer));
  parallel->pointer = nullptr;
}

void implicit_task(int endpoint, ompt::Data *parallel, ompt::Data *task, unsigned threads, unsigned index, int flags) {
  if (endpoint == ompt::ScopeBegin) {
    task->value = 0;
    if (!occatrace_running()) return;
    // The initial task of the process is no part of a region; those of a league are.
    if (!parallel || ((flags & ompt::TaskInitial) && !parallel->pointer)) return;
    const Here at = here();
    auto *region = static_cast<Region *>(parallel->pointer);
    if (region && index == 0) region->threads = threads;
    part_begin(at.self, at.state, region, index);
    task->value = 1;
  } else {
    if (task->value != 1) return;
    task->value = 0;
    const Here at = here();
    part_arrived(at.self, at.state);
    part_end(at.state);
  }
}

// ---- waits ----

unsigned sync_function(int kind) {
  return kind == ompt::Taskwait ? OCCATRACE_OPENMP_taskwait : kind == ompt::Taskgroup ? OCCATRACE_OPENMP_taskgroup
                                                                                      : OCCATRACE_OPENMP_barrier;
}

void sync_region(int kind, int endpoint, ompt::Data *, ompt::Data *, const void *caller) {
  const Here at = here();
  if (kind == ompt::BarrierImplicitParallel || kind == ompt::BarrierTeams) {
    if (endpoint == ompt::ScopeBegin) part_arrived(at.self, at.state);
    return;
  }
  if (kind == ompt::Reduction) return;
  if (endpoint == ompt::ScopeBegin) {
    if (Span *span = push(at.ompt.span, at.ompt.spans)) span_begin(at.state, *span, sync_function(kind));
    return;
  }
  const Span *span = pop(at.ompt.span, at.ompt.spans);
  if (!span) return;
  switch (kind) {
    case ompt::Taskwait: return taskwait_end(at.self, at.state, *span, caller);
    case ompt::Taskgroup: return taskgroup_end(at.self, at.state, *span, caller);
    case ompt::BarrierExplicit: return barrier_end(at.self, at.state, *span, ExplicitBarrier, caller);
    case ompt::BarrierImplicitWorkshare: return barrier_end(at.self, at.state, *span, WorksharingBarrier, caller);
    case ompt::BarrierImplementation: return barrier_end(at.self, at.state, *span, RuntimeBarrier, caller);
    default: return barrier_end(at.self, at.state, *span, ImplicitBarrier, caller);
  }
}

// ---- worksharing ----

void work(int type, int endpoint, ompt::Data *, ompt::Data *, uint64_t count, const void *caller) {
  if (type == ompt::WorkSingleOther) return;
  const Here at = here();
  if (endpoint == ompt::ScopeBegin) {
    if (Work *w = push(at.ompt.work, at.ompt.works)) *w = {event_now(OCCATRACE_OPENMP_loop), occatrace_ticks(), count};
    return;
  }
  const Work *w = pop(at.ompt.work, at.ompt.works);
  if (!w) return;
  const auto loop = [&](Schedule schedule) { loop_end(at.self, at.state, w->start, w->ticks, schedule, w->count, caller); };
  switch (type) {
    case ompt::WorkLoop: return loop(UnknownSchedule);
    case ompt::WorkLoopStatic: return loop(Static);
    case ompt::WorkLoopDynamic: return loop(Dynamic);
    case ompt::WorkLoopGuided: return loop(Guided);
    case ompt::WorkLoopOther: return loop(OtherSchedule);
    case ompt::WorkSections: return sections_end(at.self, at.state, w->start, w->ticks, w->count, caller);
    case ompt::WorkSingleExecutor: return single_end(at.self, at.state, w->start, w->ticks, true, caller);
    default: return worksharing_end(at.self, at.state, w->start, w->ticks, w->count, caller);
  }
}

// ---- tasks ----

// In a task's data: that it is an explicit one, whether it has begun, its place in the code.
constexpr uint64_t kExplicit = UINT64_C(1) << 32, kBegun = UINT64_C(1) << 33;

void task_create(ompt::Data *, const void *, ompt::Data *task, int flags, int dependences, const void *caller) {
  task->value = 0;
  if (!occatrace_running() || !(flags & (ompt::TaskExplicit | ompt::TaskTarget))) return;
  const Here at = here();
  const bool named = levels[OCCATRACE_OPENMP_task] == OCCATRACE_EVENT;
  task->value = kExplicit | (named ? site_of_return(at.state, caller) : 0);
  Span span;
  span_begin(at.state, span, OCCATRACE_OPENMP_task_create);
  task_created(at.self, at.state, span, caller, static_cast<unsigned>(flags) & ompt::TaskUndeferred, dependences != 0);
}

void task_schedule(ompt::Data *prior, int status, ompt::Data *next) {
  const Here at = here();
  const bool over = status == ompt::TaskComplete || status == ompt::TaskCancel || status == ompt::TaskDetach;
  if (prior && over && (prior->value & kBegun)) {
    prior->value &= ~kBegun;
    // The innermost one, unless a task has come here from another thread (untied).
    for (uint32_t i = at.ompt.tasks < std::size(at.ompt.task) ? at.ompt.tasks : std::size(at.ompt.task); i-- > 0;) {
      if (at.ompt.task[i].task != prior) continue;
      const TaskRun run = at.ompt.task[i];
      std::memmove(&at.ompt.task[i], &at.ompt.task[i + 1], (at.ompt.tasks - i - 1) * sizeof run);
      at.ompt.tasks--;
      task_end(at.self, at.state, run.span, run.site);
      break;
    }
  }
  if (next && (next->value & kExplicit) && !(next->value & kBegun)) {
    if (at.ompt.tasks >= std::size(at.ompt.task)) return;
    next->value |= kBegun;
    TaskRun &run = at.ompt.task[at.ompt.tasks++];
    run.task = next;
    run.site = static_cast<uint32_t>(next->value);
    task_begin(at.state, run.span);
  }
}

// ---- mutexes ----

bool mutex_kind(int kind, MutexKind &out) {
  switch (kind) {
    case ompt::MutexLock:
    case ompt::MutexTestLock:
    case ompt::MutexNestLock:
    case ompt::MutexTestNestLock: out = Lock; return true;
    case ompt::MutexCritical: out = Critical; return true;
    case ompt::MutexAtomic: out = Atomic; return true;
    case ompt::MutexOrdered: out = Ordered; return true;
    default: return false;
  }
}

uint64_t timed_now() { return event_now(OCCATRACE_OPENMP_critical); }

void mutex_acquire(int kind, unsigned, unsigned, uint64_t id, const void *caller) {
  here().ompt.acquiring = {id, timed_now(), occatrace_ticks(), caller, static_cast<uint8_t>(kind)};
}

void mutex_acquired(int kind, uint64_t id, const void *caller) {
  MutexKind our;
  if (!mutex_kind(kind, our)) return;
  const Here at = here();
  const Mutex &wanted = at.ompt.acquiring;
  const uint64_t ticks = occatrace_ticks();
  if (wanted.id == id && wanted.ticks)
    mutex_acquired(at.self, at.state, our, id, wanted.start, wanted.ticks, ticks, caller ? caller : wanted.caller);
  if (Mutex *m = push(at.ompt.mutex, at.ompt.mutexes)) *m = {id, timed_now(), ticks, caller, static_cast<uint8_t>(kind)};
}

void mutex_released(int kind, uint64_t id, const void *caller) {
  MutexKind our;
  if (!mutex_kind(kind, our)) return;
  const Here at = here();
  uint32_t &depth = at.ompt.mutexes;
  for (uint32_t i = depth < std::size(at.ompt.mutex) ? depth : std::size(at.ompt.mutex); i-- > 0;) {
    if (at.ompt.mutex[i].id != id) continue;
    const Mutex held = at.ompt.mutex[i];
    if (depth <= std::size(at.ompt.mutex)) std::memmove(&at.ompt.mutex[i], &at.ompt.mutex[i + 1], (depth - i - 1) * sizeof held);
    depth--;
    mutex_released(at.self, at.state, our, id, held.start, held.ticks, caller ? caller : held.caller);
    return;
  }
  if (depth > std::size(at.ompt.mutex)) depth--;
}

// ---- devices ----

// Devices that are this machine's processor: what the runtime does with them is over when it says so, so the times of the
// callbacks are those of the work. Of others they are times on the host, and no device work is made of them.
struct Device {
  uint32_t id = 0, queue = 0;
};
struct Devices {
  std::mutex lock;
  std::map<int, Device> known;
};
Devices &devices = *new Devices;

// Stands for a device where memory says what it belongs to; 0 means none.
uint64_t context_of(int number) { return (UINT64_C(1) << 32) + static_cast<uint32_t>(number); }

void device_initialize(int number, const char *type, void *, ompt::Lookup, const char *) {
  if (!occatrace_running()) return;
  const std::lock_guard<std::mutex> guard(devices.lock);
  Device &device = devices.known[number];
  if (device.id || !type) return;
  const bool host = std::strstr(type, "generic") || std::strstr(type, "x86_64") || std::strstr(type, "aarch64") || std::strstr(type, "host");
  const uint32_t name = occatrace_intern(type);
  device.id = occatrace_device(occatrace_intern("openmp"), occatrace_intern("OpenMP target"), name, 0, static_cast<uint64_t>(number));
  if (host) device.queue = occatrace_queue(device.id, static_cast<uint64_t>(number), 0, context_of(number));
}

uint32_t queue_of(int number) {
  const std::lock_guard<std::mutex> guard(devices.lock);
  const auto found = devices.known.find(number);
  return found == devices.known.end() ? 0 : found->second.queue;
}
bool is_device(int number) {
  const std::lock_guard<std::mutex> guard(devices.lock);
  return devices.known.count(number) != 0;
}

void activity(occatrace_thread *self, uint32_t seq, int device, uint8_t kind, uint64_t start, uint64_t bytes, uint32_t name, uint32_t teams) {
  const uint32_t queue = queue_of(device);
  if (!queue) return;
  struct occatrace_activity a{};
  a.kind = kind;
  a.corr_tid = self->tid;
  a.corr_seq = seq;
  a.run_seq = self->run_seq;
  a.queue = queue;
  a.queued = a.submitted = a.start = start;
  a.end = occatrace_now();
  a.bytes = bytes;
  a.name = name;
  a.grid[0] = teams;
  occatrace_activity(&a);
}

template <class Event> void write_target(Here &at, const Target &t, Construct construct, int device, bool nowait, const void *caller, void (*write)(const Event *)) {
  Event e{};
  e.tid = at.self->tid;
  e.seq = t.seq;
  e.start = t.start;
  e.caller = caller_of(at.self, caller);
  e.site = site_of_return(at.state, caller);
  e.device = device;
  e.construct = construct;
  e.nowait = nowait;
  e.run_seq = at.self->run_seq;
  write(&e);
}

unsigned target_function(int kind) {
  switch (kind & ~ompt::TargetNowait) {
    case ompt::TargetEnterData: return OCCATRACE_OPENMP_target_enter_data;
    case ompt::TargetExitData: return OCCATRACE_OPENMP_target_exit_data;
    case ompt::TargetUpdate: return OCCATRACE_OPENMP_target_update;
    default: return OCCATRACE_OPENMP_target;
  }
}

void target_emi(int kind, int endpoint, int device, ompt::Data *, ompt::Data *, ompt::Data *, const void *caller) {
  Here at = here();
  const unsigned function = target_function(kind);
  if (endpoint == ompt::ScopeBegin) {
    Target *t = push(at.ompt.target, at.ompt.targets);
    if (!t) return;
    const bool event = level_of(function) == OCCATRACE_EVENT;
    *t = {occatrace_now(), occatrace_ticks(), event ? occatrace_next_seq(at.self) : OCCATRACE_NO_RUN, at.state->target_seq, device, caller};
    if (event) at.state->target_seq = t->seq;
    return;
  }
  const Target *t = pop(at.ompt.target, at.ompt.targets);
  if (!t) return;
  at.state->target_seq = t->outer;
  if (t->seq == OCCATRACE_NO_RUN) {
    if (level_of(function) == OCCATRACE_TALLY) tally(at.self, function, occatrace_ticks() - t->ticks);
    return;
  }
  const bool nowait = kind & ompt::TargetNowait;
  switch (function) {
    case OCCATRACE_OPENMP_target: return write_target(at, *t, Construct_target, device, nowait, caller, events->target);
    case OCCATRACE_OPENMP_target_enter_data: return write_target(at, *t, Construct_target_enter_data, device, nowait, caller, events->target_enter_data);
    case OCCATRACE_OPENMP_target_exit_data: return write_target(at, *t, Construct_target_exit_data, device, nowait, caller, events->target_exit_data);
    default: return write_target(at, *t, Construct_target_update, device, nowait, caller, events->target_update);
  }
}

const Target *innermost(const Ompt &o) { return o.targets > 0 && o.targets <= std::size(o.target) ? &o.target[o.targets - 1] : nullptr; }

void target_submit_emi(int endpoint, ompt::Data *, uint64_t *, unsigned teams) {
  const Here at = here();
  if (endpoint == ompt::ScopeBegin) {
    at.ompt.submit_start = occatrace_now();
    at.ompt.submit_ticks = occatrace_ticks();
    return;
  }
  const uint8_t level = level_of(OCCATRACE_OPENMP_target_submit);
  if (!at.ompt.submit_start) return;
  if (level == OCCATRACE_EVENT) {
    const Target *target = innermost(at.ompt);
    occatrace_openmp_target_submit e{};
    e.tid = at.self->tid;
    e.seq = occatrace_next_seq(at.self);
    e.start = at.ompt.submit_start;
    e.caller = caller_of(at.self, target ? target->caller : nullptr);
    e.device = target ? target->device : -1;
    e.teams = teams;
    e.target_seq = at.state->target_seq;
    events->target_submit(&e);
    activity(at.self, e.seq, e.device, OCCATRACE_KERNEL, e.start, 0, target ? site_of_return(at.state, target->caller) : 0, teams);
  } else if (level == OCCATRACE_TALLY) {
    tally(at.self, OCCATRACE_OPENMP_target_submit, occatrace_ticks() - at.ompt.submit_ticks);
  }
  at.ompt.submit_start = 0;
}

// Of one operation; `function` tells the kind.
template <class Event> Event op_event(Here &at, const void *caller) {
  Event e{};
  e.tid = at.self->tid;
  e.seq = occatrace_next_seq(at.self);
  e.start = at.ompt.op_start;
  if (!caller)
    if (const Target *target = innermost(at.ompt)) caller = target->caller;
  e.caller = caller_of(at.self, caller);
  e.site = site_of_return(at.state, caller);
  return e;
}

uint64_t number(const void *address) { return reinterpret_cast<uintptr_t>(address); }

void target_data_op_emi(int endpoint, ompt::Data *, ompt::Data *, uint64_t *, int op, void *source, int source_device, void *destination,
                        int destination_device, size_t bytes, const void *caller) {
  Here at = here();
  if (endpoint == ompt::ScopeBegin) {
    at.ompt.op_start = occatrace_now();
    at.ompt.op_ticks = occatrace_ticks();
    return;
  }
  op &= ~ompt::Async;
  unsigned function;
  switch (op) {
    case ompt::Alloc: function = OCCATRACE_OPENMP_target_alloc; break;
    case ompt::Delete: function = OCCATRACE_OPENMP_target_free; break;
    case ompt::ToDevice:
    case ompt::FromDevice: function = OCCATRACE_OPENMP_target_transfer; break;
    case ompt::Associate:
    case ompt::Disassociate: function = OCCATRACE_OPENMP_target_associate; break;
    default: return;
  }
  // Those that are told at once, at their end only, are moments.
  if (!at.ompt.op_start) {
    at.ompt.op_start = occatrace_now();
    at.ompt.op_ticks = occatrace_ticks();
  }
  const uint64_t start = at.ompt.op_start, ticks = at.ompt.op_ticks;
  const uint8_t level = level_of(function);
  if (level == OCCATRACE_TALLY) tally(at.self, function, occatrace_ticks() - ticks);
  if (level == OCCATRACE_EVENT && op == ompt::Alloc) {
    auto e = op_event<occatrace_openmp_target_alloc>(at, caller);
    e.device = destination_device;
    e.handle = number(destination);
    e.host = number(source);
    e.bytes = bytes;
    e.target_seq = at.state->target_seq;
    e.context = queue_of(destination_device) ? context_of(destination_device) : 0;
    events->target_alloc(&e);
  } else if (level == OCCATRACE_EVENT && op == ompt::Delete) {
    auto e = op_event<occatrace_openmp_target_free>(at, caller);
    e.device = source ? source_device : destination_device;
    e.handle = number(source ? source : destination);
    e.target_seq = at.state->target_seq;
    events->target_free(&e);
  } else if (level == OCCATRACE_EVENT && function == OCCATRACE_OPENMP_target_transfer) {
    auto e = op_event<occatrace_openmp_target_transfer>(at, caller);
    const bool from_device = is_device(source_device), to_device = is_device(destination_device);
    e.kind = from_device && to_device ? OCCATRACE_DTOD : op == ompt::ToDevice ? OCCATRACE_HTOD
                                                                              : OCCATRACE_DTOH;
    e.source = number(source);
    e.source_device = source_device;
    e.destination = number(destination);
    e.destination_device = destination_device;
    e.bytes = bytes;
    e.target_seq = at.state->target_seq;
    events->target_transfer(&e);
    activity(at.self, e.seq, op == ompt::ToDevice ? destination_device : source_device, e.kind, start, bytes, 0, 0);
  } else if (level == OCCATRACE_EVENT) {
    auto e = op_event<occatrace_openmp_target_associate>(at, caller);
    const bool to_device = is_device(destination_device);
    e.device = to_device ? destination_device : source_device;
    e.handle = number(to_device ? destination : source);
    e.host = number(to_device ? source : destination);
    e.associated = op == ompt::Associate;
    events->target_associate(&e);
  }
  at.ompt.op_start = 0;
}

// ---- start ----

int initialize(ompt::Lookup lookup, int, ompt::Data *) {
  const auto set = reinterpret_cast<ompt::SetCallback>(lookup("ompt_set_callback"));
  if (!set) return 0;
  // A callback costs something each time: one that would write nothing is not asked for.
  const auto ask = [&](int which, auto *callback, std::initializer_list<unsigned> functions, bool anyway = false) {
    const auto written = [](unsigned f) { return levels[f] != OCCATRACE_OFF; };
    if (anyway || std::any_of(functions.begin(), functions.end(), written)) set(which, reinterpret_cast<ompt::Function>(callback));
  };
  // Counters are read as the parts of a team begin and end, whatever is written of them.
  const bool counted = occatrace_counts() != nullptr;
  ask(ompt::ParallelBegin, parallel_begin, {OCCATRACE_OPENMP_parallel}, counted);
  ask(ompt::ParallelEnd, parallel_end, {OCCATRACE_OPENMP_parallel}, counted);
  ask(ompt::ImplicitTask, implicit_task, {OCCATRACE_OPENMP_implicit_task}, counted);
  ask(ompt::SyncRegion, sync_region, {OCCATRACE_OPENMP_barrier, OCCATRACE_OPENMP_taskwait, OCCATRACE_OPENMP_taskgroup, OCCATRACE_OPENMP_implicit_task}, counted);
  ask(ompt::Work, work, {OCCATRACE_OPENMP_loop, OCCATRACE_OPENMP_sections, OCCATRACE_OPENMP_single, OCCATRACE_OPENMP_worksharing});
  ask(ompt::TaskCreate, task_create, {OCCATRACE_OPENMP_task_create, OCCATRACE_OPENMP_task});
  ask(ompt::TaskSchedule, task_schedule, {OCCATRACE_OPENMP_task});
  const auto mutexes = {OCCATRACE_OPENMP_critical_wait, OCCATRACE_OPENMP_critical, OCCATRACE_OPENMP_lock_wait, OCCATRACE_OPENMP_lock,
                        OCCATRACE_OPENMP_ordered_wait, OCCATRACE_OPENMP_ordered, OCCATRACE_OPENMP_atomic_wait, OCCATRACE_OPENMP_atomic};
  for (const unsigned f : mutexes) {
    ask(ompt::MutexAcquire, mutex_acquire, {f});
    ask(ompt::MutexAcquired, static_cast<void (*)(int, uint64_t, const void *)>(mutex_acquired), {f});
    ask(ompt::MutexReleased, static_cast<void (*)(int, uint64_t, const void *)>(mutex_released), {f});
  }
  ask(ompt::DeviceInitialize, device_initialize, {OCCATRACE_OPENMP_target});
  ask(ompt::TargetEmi, target_emi, {OCCATRACE_OPENMP_target});
  ask(ompt::TargetSubmitEmi, target_submit_emi, {OCCATRACE_OPENMP_target_submit});
  ask(ompt::TargetDataOpEmi, target_data_op_emi, {OCCATRACE_OPENMP_target_alloc, OCCATRACE_OPENMP_target_transfer});
  return 1;
}

void finalize(ompt::Data *) {}

} // namespace

// Called by the core's ompt_start_tool as a runtime starts. A process may have several runtimes.
extern "C" OCCATRACE_EXPORT ompt::StartToolResult *occatrace_openmp_start_tool(unsigned, const char *) {
  if (!start()) return nullptr;
  static ompt::StartToolResult result{initialize, finalize, {0}};
  return &result;
}
