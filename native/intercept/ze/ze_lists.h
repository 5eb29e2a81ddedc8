// Executions of regular command lists. The events of a list are signaled anew by each execution. What the last one left is read by
// the host before the list runs again; where that one still runs, by the device: a short list of ours goes to the queue between the
// two and copies the timestamps (a snapshot).
#pragma once

#include <cstddef>
#include <cstring>
#include <memory>
#include <utility>
#include <vector>

#include "ze_time.h"

namespace occatrace::ze {

// ---- snapshots ----

// A program that executes a list more often without a wait loses the durations of what comes then, and this is counted.
constexpr size_t kMostSnapshots = 1024;

inline void destroy(const List &list, Snapshot &snapshot) {
  if (snapshot.list != nullptr) loader().zeCommandListDestroy(snapshot.list);
  if (snapshot.times != nullptr) loader().zeMemFree(list.context, snapshot.times);
  if (snapshot.done != nullptr) list.ours->give(snapshot.done);
}

// Appends to the list of a new snapshot; false: the driver refused.
inline bool fill(const List &list, Snapshot &snapshot) {
  const Dispatch &d = loader();
  ListDescriptor of_list{{kListDescriptor, nullptr}, list.ordinal, 0};
  HostMemoryDescriptor of_memory{{kHostMemoryDescriptor, nullptr}, 0};
  const auto list_as_given = reinterpret_cast<const ze_command_list_desc_t *>(&of_list);
  const auto memory_as_given = reinterpret_cast<const ze_host_mem_alloc_desc_t *>(&of_memory);
  void *memory = nullptr;
  const size_t bytes = list.steps.size() * sizeof(Timestamps);
  if (d.zeMemAllocHost(list.context, memory_as_given, bytes, sizeof(Timestamps), &memory) != kSuccess) return false;
  snapshot.times = static_cast<Timestamps *>(memory);
  std::memset(memory, 0xff, bytes);
  snapshot.done = list.ours->take();
  if (snapshot.done == nullptr) return false;
  if (d.zeCommandListCreate(list.context, list.device->handle, list_as_given, &snapshot.list) != kSuccess) return false;
  // Behind what the list did, and before it does it again.
  bool good = d.zeCommandListAppendBarrier(snapshot.list, nullptr, 0, nullptr) == kSuccess;
  for (size_t at = 0; good && at < list.steps.size(); ++at) {
    ze_event_handle_t event = list.steps[at].event;
    if (!list.steps[at].timed) continue;
    Timestamps *to = snapshot.times + at;
    good = d.zeCommandListAppendQueryKernelTimestamps(snapshot.list, 1, &event, to, nullptr, nullptr, 0, nullptr) == kSuccess;
  }
  good = good && d.zeCommandListAppendBarrier(snapshot.list, nullptr, 0, nullptr) == kSuccess;
  for (const List::Step &step : list.steps) {
    if (good && step.ours) good = d.zeCommandListAppendEventReset(snapshot.list, step.event) == kSuccess;
  }
  good = good && d.zeCommandListAppendBarrier(snapshot.list, snapshot.done, 0, nullptr) == kSuccess;
  return good && d.zeCommandListClose(snapshot.list) == kSuccess;
}

inline bool can_take_snapshots() {
  const Dispatch &d = loader();
  return d.zeMemAllocHost != nullptr && d.zeMemFree != nullptr && d.zeCommandListCreate != nullptr &&
         d.zeCommandListDestroy != nullptr && d.zeCommandListClose != nullptr && d.zeCommandListAppendBarrier != nullptr &&
         d.zeCommandListAppendEventReset != nullptr && d.zeCommandListAppendQueryKernelTimestamps != nullptr;
}

// One to be executed before the list; null: none can be had.
inline Snapshot *take_snapshot(List &list) {
  for (const std::unique_ptr<Snapshot> &known : list.snapshots) {
    if (!Commands::instance().is_free(*known)) continue;
    loader().zeEventHostReset(known->done);
    known->until = kNotGiven;
    return known.get();
  }
  if (list.snapshots.size() >= kMostSnapshots || !can_take_snapshots()) return nullptr;
  std::unique_ptr<Snapshot> made(new Snapshot{nullptr, nullptr, nullptr, kNotGiven});
  if (!fill(list, *made)) return destroy(list, *made), nullptr;
  list.snapshots.push_back(std::move(made));
  return list.snapshots.back().get();
}

// ---- executions ----

// Null for an immediate list, and for one that is not known.
inline List *regular(ze_command_list_handle_t handle) {
  List *list = find<List>(lists, handle);
  return list == nullptr || list->line != nullptr ? nullptr : list;
}

// What a regular list did is over, and it gets other commands or none.
inline void clear(List &list) {
  for (const std::unique_ptr<Snapshot> &snapshot : list.snapshots) Commands::instance().settle(*snapshot);
  for (const List::Step &step : list.steps) {
    Commands::instance().settle(step.event);
    if (step.ours) list.ours->give(step.event);
  }
  for (const std::unique_ptr<Snapshot> &snapshot : list.snapshots) destroy(list, *snapshot);
  list.snapshots.clear();
  list.steps.clear();
  list.ran_in = nullptr;
}

// Before a list is executed again: what the last execution left is read, and events of ours are used again. False: that one
// still runs.
inline bool prepare(List &list) {
  for (const List::Step &step : list.steps) {
    if (Commands::instance().runs(step.event)) return false;
  }
  for (List::Step &step : list.steps) {
    Commands::instance().settle(step.event);
    if (step.ours) loader().zeEventHostReset(step.event);
    step.stale = 0;
    Timestamps found{};
    // A program need not reset its own.
    if (step.ours || !step.timed || step.first || loader().zeEventQueryStatus(step.event) != kSuccess) continue;
    const auto to = reinterpret_cast<ze_kernel_timestamp_result_t *>(&found);
    if (loader().zeEventQueryKernelTimestamp(step.event, to) == kSuccess) step.stale = found.global.start;
  }
  return true;
}

// The lists of one call that executes them, where not all can simply run: what is executed instead.
struct Plan {
  struct Part {
    bool timed = true;
    Snapshot *before = nullptr;  // none is needed, or none can be had
    Snapshot *after = nullptr;   // that of the next execution in the same call
  };
  std::vector<Part> parts;  // as the program gave them
  std::vector<ze_command_list_handle_t> lists;
  ze_command_list_handle_t *given;
};

// The list runs already, or did in this call: a snapshot before it. `earlier`: its place in this call, or -1.
inline Plan::Part between(List &list, const Line &line, Plan &plan, ptrdiff_t earlier) {
  Snapshot *snapshot = earlier >= 0 || list.ran_in == &line ? take_snapshot(list) : nullptr;
  if (snapshot == nullptr) return {false, nullptr, nullptr};
  if (earlier >= 0)
    plan.parts[static_cast<size_t>(earlier)].after = snapshot;
  else
    for (const List::Step &step : list.steps) Commands::instance().keep(step.event, *snapshot);
  return {true, snapshot, nullptr};
}

// Null: each list can simply run.
inline Plan *plan(const Line &line, uint32_t count, ze_command_list_handle_t *given) {
  Plan *made = nullptr;
  for (uint32_t at = 0; at < count; ++at) {
    List *list = regular(given[at]);
    ptrdiff_t earlier = static_cast<ptrdiff_t>(at) - 1;
    while (earlier >= 0 && given[earlier] != given[at]) --earlier;
    const bool simply = list == nullptr || list->steps.empty() || (earlier < 0 && prepare(*list));
    if (made == nullptr && simply) continue;
    if (made == nullptr) made = new Plan{{at, Plan::Part{}}, {given, given + at}, given};
    made->parts.push_back(simply ? Plan::Part{} : between(*list, line, *made, earlier));
    if (Snapshot *snapshot = made->parts.back().before) made->lists.push_back(snapshot->list);
    made->lists.push_back(given[at]);
  }
  return made;
}

// The commands of a list at one execution. The first belongs to the calls that appended them, others to the one that executes.
inline void execute(Line &line, List &list, const Plan::Part &part, const Work &by) {
  for (size_t at = 0; at < list.steps.size(); ++at) {
    List::Step &step = list.steps[at];
    Work work = step.work;
    work.before = by.before;
    if (!step.first) {
      work.tid = by.tid;
      work.seq = by.seq;
      work.run_seq = by.run_seq;
    }
    step.first = false;
    Given given{step.event, nullptr, nullptr, 0, list.context, nullptr, Given::kPending, {}};
    given.step = at;
    given.stale = step.stale;
    given.behind = part.before;
    given.kept_in = part.after;
    push(line, given, part.timed && step.timed, work);
  }
  list.ran_in = &line;
}

// The plan's lists were given to the line, or refused by the driver.
inline void given(const Plan &plan, const Line &line) {
  for (const Plan::Part &part : plan.parts) {
    if (part.before != nullptr) Commands::instance().give(*part.before, line.progress.given.load());
  }
}
inline void give_up(const Plan &plan) {
  for (const Plan::Part &part : plan.parts) {
    if (part.before != nullptr) Commands::instance().give_up(*part.before);
  }
}

}  // namespace occatrace::ze
