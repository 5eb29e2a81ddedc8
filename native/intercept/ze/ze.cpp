// Level Zero, by preloaded symbols in front of its loader. The wrappers are generated from tracepoints/ze.yaml; here is what they
// cannot know: the life of events, lists and queues, and functions that a program asks a driver for by name.
#include <cstring>
#include <mutex>
#include <string>
#include <utility>

#include "known_functions.h"
#include "occatrace_core.h"
#include "ze_lists.h"
#include "ze_time.h"

namespace occatrace::ze {

// Two sets of real functions: of the loader, and of a driver that was asked for them by name.
static Dispatch targets[2];
template <int I>
const Dispatch &real() {
  return targets[I];
}
const Dispatch &real(unsigned target) { return targets[target]; }
const Dispatch &loader() { return targets[0]; }

}  // namespace occatrace::ze

#include "ze_device_work.h"
#include "ze_places.h"
#include "ze_slots.h"

namespace occatrace::ze {

namespace {

using Function = void *;

// The wrapper in front of a driver's function. Other drivers keep theirs: a wrapper has one function to go on to.
Function in_front_of(const char *name, Function theirs) {
  static std::mutex mutex;
  static Dispatch *wrappers;
  const Place *place = place_of(places, name);
  if (place == nullptr) return nullptr;
  std::lock_guard<std::mutex> guard(mutex);
  if (wrappers == nullptr) {
    wrappers = new Dispatch;
    // `fill` replaces what is not NULL.
    std::memset(static_cast<void *>(wrappers), 0xff, sizeof *wrappers);
    fill<1>(*wrappers);
  }
  Function &target = at(targets[1], *place);
  if (target == nullptr) __atomic_store_n(&target, theirs, __ATOMIC_RELEASE);
  return target == theirs ? at(*wrappers, *place) : nullptr;
}

}  // namespace

template <>
struct Hook<OCCATRACE_ZE_zeDriverGetExtensionFunctionAddress> : Always {
  template <int I>
  static void result(Call &, Args_zeDriverGetExtensionFunctionAddress &a) {
    if (a.ret != 0 || a.name == nullptr || a.ppFunctionAddress == nullptr || *a.ppFunctionAddress == nullptr) return;
    if (occatrace_is_core(*a.ppFunctionAddress)) return;
    const Function ours = in_front_of(a.name, *a.ppFunctionAddress);
    if (ours != nullptr)
      *a.ppFunctionAddress = ours;
    else
      device::untraced("Level Zero", a.name);
  }
};

// ---- events ----

template <>
struct Hook<OCCATRACE_ZE_zeEventPoolCreate> : ByLoader {
  template <int I>
  static void before(Call &call, Args_zeEventPoolCreate &a) {
    static thread_local EventPoolDescriptor changed;
    const auto &given = as<EventPoolDescriptor>(a.desc);
    if (!timing || a.desc == nullptr || (given.flags & (kInterprocess | kTimestamps | kMappedTimestamps)) != 0) return;
    changed = given;
    changed.flags |= kTimestamps | kHostVisible;
    call.own = reinterpret_cast<uint64_t>(a.desc);
    a.desc = reinterpret_cast<const ze_event_pool_desc_t *>(&changed);
  }
  template <int I>
  static void result(Call &call, Args_zeEventPoolCreate &a) {
    if (call.own == 0) return;
    a.desc = reinterpret_cast<const ze_event_pool_desc_t *>(call.own);
    // A driver that refuses timestamps gets the pool that the program wanted.
    if (a.ret == kSuccess) return;
    call.own = 0;
    a.ret = real<I>().zeEventPoolCreate(a.hContext, a.desc, a.numDevices, a.phDevices, a.phEventPool);
  }
  template <int I>
  static void after(Call &call, Args_zeEventPoolCreate &a) {
    if (a.ret != kSuccess) return;
    const bool asked = (as<EventPoolDescriptor>(a.desc).flags & (kTimestamps | kMappedTimestamps)) != 0;
    timed_pools.set(*a.phEventPool, call.own != 0 || asked);
    given_flags.set(*a.phEventPool, call.own == 0 ? 0 : kFlagsGiven | as<EventPoolDescriptor>(a.desc).flags);
  }
};
template <>
struct Hook<OCCATRACE_ZE_zeEventPoolGetFlags> : Always {
  template <int I>
  static void result(Call &, Args_zeEventPoolGetFlags &a) {
    const uint64_t given = given_flags.get(a.hEventPool);
    if (given != 0 && a.ret == kSuccess && a.pFlags != nullptr) *a.pFlags = static_cast<uint32_t>(given);
  }
};
template <>
struct Hook<OCCATRACE_ZE_zeEventCreate> : Always {
  template <int I>
  static void after(Call &, Args_zeEventCreate &a) {
    if (a.ret == kSuccess) timed_events.set(*a.phEvent, timed_pools.get(a.hEventPool));
  }
};

namespace {

// What the event's last command left is read before.
struct EndsEvent : Always {
  template <int I, class Args>
  static void before(Call &, Args &a) {
    if (timing) Commands::instance().settle(a.hEvent);
  }
};

}  // namespace

template <>
struct Hook<OCCATRACE_ZE_zeEventDestroy> : EndsEvent {};
template <>
struct Hook<OCCATRACE_ZE_zeEventHostReset> : EndsEvent {};

// ---- queues and lists ----

template <>
struct Hook<OCCATRACE_ZE_zeCommandQueueCreate> : Always {
  template <int I>
  static void after(Call &, Args_zeCommandQueueCreate &a) {
    if (!timing || a.ret != kSuccess) return;
    add_line(*a.phCommandQueue, a.hContext, a.hDevice, as<QueueDescriptor>(a.desc).mode == kSynchronousMode);
  }
};
template <>
struct Hook<OCCATRACE_ZE_zeCommandQueueDestroy> : Always {
  template <int I>
  static void before(Call &, Args_zeCommandQueueDestroy &a) {
    drop_line(a.hCommandQueue);
  }
};
template <>
struct Hook<OCCATRACE_ZE_zeCommandListCreate> : Always {
  template <int I>
  static void after(Call &, Args_zeCommandListCreate &a) {
    if (!timing || a.ret != kSuccess) return;
    OurEvents *ours = &Events::instance().of(a.hContext, a.hDevice);
    List *list = new List{a.hContext, &Devices::instance().of(a.hDevice), ours, nullptr, as<ListDescriptor>(a.desc).ordinal};
    lists.set(*a.phCommandList, reinterpret_cast<uint64_t>(list));
  }
};
template <>
struct Hook<OCCATRACE_ZE_zeCommandListCreateImmediate> : Always {
  template <int I>
  static void after(Call &, Args_zeCommandListCreateImmediate &a) {
    if (!timing || a.ret != kSuccess) return;
    Line *line = add_line(*a.phCommandList, a.hContext, a.hDevice, as<QueueDescriptor>(a.altdesc).mode == kSynchronousMode);
    OurEvents *ours = &Events::instance().of(a.hContext, a.hDevice);
    lists.set(*a.phCommandList, reinterpret_cast<uint64_t>(new List{a.hContext, line->device, ours, line}));
  }
};
template <>
struct Hook<OCCATRACE_ZE_zeCommandListDestroy> : Always {
  template <int I>
  static void before(Call &, Args_zeCommandListDestroy &a) {
    List *list = find<List>(lists, a.hCommandList);
    if (list == nullptr) return;
    clear(*list);
    drop_line(a.hCommandList);
    lists.set(a.hCommandList, 0);
    delete list;
  }
};
template <>
struct Hook<OCCATRACE_ZE_zeCommandListReset> : Always {
  template <int I>
  static void before(Call &, Args_zeCommandListReset &a) {
    if (List *list = find<List>(lists, a.hCommandList)) clear(*list);
  }
};

namespace {

// Executes regular lists in a queue, or in an immediate list.
template <class Where>
struct Executes : Always {
  template <int I, class Args>
  static void before(Call &call, Args &a) {
    const Line *line = timing && call.work ? find<Line>(lines, Where::line(a)) : nullptr;
    if (line == nullptr || a.phCommandLists == nullptr) return;
    call.host = call.level == OCCATRACE_EVENT ? call.start : occatrace_now();
    Plan *instead = plan(*line, a.numCommandLists, a.phCommandLists);
    if (instead == nullptr) return;
    call.own = reinterpret_cast<uint64_t>(instead);
    a.phCommandLists = instead->lists.data();
    a.numCommandLists = static_cast<uint32_t>(instead->lists.size());
  }
  // The record has what the program gave.
  template <int I, class Args>
  static void result(Call &call, Args &a) {
    if (call.own == 0) return;
    a.phCommandLists = planned(call)->given;
    a.numCommandLists = static_cast<uint32_t>(planned(call)->parts.size());
  }
  template <int I, class Args>
  static void after(Call &call, Args &a) {
    const std::unique_ptr<Plan> plan(planned(call));
    Line *line = call.host != 0 ? find<Line>(lines, Where::line(a)) : nullptr;
    if (line == nullptr) return;
    if (failed(a)) {
      if (plan != nullptr) give_up(*plan);
      return;
    }
    const Work by = device::work_of(call, nullptr);
    for (uint32_t at = 0; at < a.numCommandLists; ++at) {
      if (List *list = regular(a.phCommandLists[at])) execute(*line, *list, plan == nullptr ? Plan::Part{} : plan->parts[at], by);
    }
    if (plan != nullptr) given(*plan, *line);
    if (line->synchronous) see_complete(*line, line->progress.given.load());
  }

 private:
  static Plan *planned(const Call &call) { return reinterpret_cast<Plan *>(call.own); }
};
struct InQueue {
  template <class Args>
  static const void *line(const Args &a) {
    return a.hCommandQueue;
  }
};
struct InList {
  template <class Args>
  static const void *line(const Args &a) {
    return a.hCommandListImmediate;
  }
};

template <class Handle>
void waits(Call &call, Handle handle) {
  const Line *line = find<Line>(lines, handle);
  call.own = line == nullptr ? 0 : line->progress.given.load();
}
template <class Handle>
void waited(const Call &call, ze_result_t result, Handle handle) {
  Line *line = find<Line>(lines, handle);
  if (line != nullptr && result == kSuccess) see_complete(*line, call.own);
}
// A wait for something else than a queue.
struct WaitsForMore : Always {
  template <int I, class Args>
  static void after(Call &, Args &a) {
    if (timing && a.ret == kSuccess && Engine::instance().busy()) Engine::instance().harvest_all();
  }
};

}  // namespace

template <>
struct Hook<OCCATRACE_ZE_zeCommandQueueExecuteCommandLists> : Executes<InQueue> {};
template <>
struct Hook<OCCATRACE_ZE_zeCommandListImmediateAppendCommandListsExp> : Executes<InList> {};
template <>
struct Hook<OCCATRACE_ZE_zeCommandListImmediateAppendCommandListsWithParameters> : Executes<InList> {};
template <>
struct Hook<OCCATRACE_ZE_zeCommandQueueSynchronize> : Always {
  template <int I>
  static void before(Call &call, Args_zeCommandQueueSynchronize &a) {
    waits(call, a.hCommandQueue);
  }
  template <int I>
  static void after(Call &call, Args_zeCommandQueueSynchronize &a) {
    waited(call, a.ret, a.hCommandQueue);
  }
};
template <>
struct Hook<OCCATRACE_ZE_zeCommandListHostSynchronize> : Always {
  template <int I>
  static void before(Call &call, Args_zeCommandListHostSynchronize &a) {
    waits(call, a.hCommandList);
  }
  template <int I>
  static void after(Call &call, Args_zeCommandListHostSynchronize &a) {
    waited(call, a.ret, a.hCommandList);
  }
};
template <>
struct Hook<OCCATRACE_ZE_zeFenceHostSynchronize> : WaitsForMore {};
template <>
struct Hook<OCCATRACE_ZE_zeDeviceSynchronize> : WaitsForMore {};
template <>
struct Hook<OCCATRACE_ZE_zeContextDestroy> : Always {
  template <int I>
  static void before(Call &, Args_zeContextDestroy &a) {
    if (!timing) return;
    Commands::instance().settle_all(a.hContext);
    Engine::instance().harvest_context(a.hContext);
    Events::instance().close(a.hContext);
  }
};

// ---- modules ----

// The compiler's log of a failed build. A program that did not ask for it does not see that we did.
template <>
struct Hook<OCCATRACE_ZE_zeModuleCreate> : ByLoader {
  template <int I>
  static void before(Call &call, Args_zeModuleCreate &a) {
    if (call.level != OCCATRACE_EVENT || a.phBuildLog != nullptr || real<I>().zeModuleBuildLogGetString == nullptr) return;
    static thread_local ze_module_build_log_handle_t ours;
    ours = nullptr;
    a.phBuildLog = &ours;
    call.own = 1;
  }
  template <int I>
  static void result(Call &call, Args_zeModuleCreate &a) {
    if (call.level != OCCATRACE_EVENT || a.phBuildLog == nullptr) return;
    if (a.ret != kSuccess && *a.phBuildLog != nullptr) a.log = text_of<I>(*a.phBuildLog);
    if (call.own == 0) return;
    if (*a.phBuildLog != nullptr && real<I>().zeModuleBuildLogDestroy != nullptr) real<I>().zeModuleBuildLogDestroy(*a.phBuildLog);
    a.phBuildLog = nullptr;
  }

 private:
  static constexpr size_t kMost = 4096;

  template <int I>
  static const char *text_of(ze_module_build_log_handle_t log) {
    static thread_local char text[kMost];
    const auto get = real<I>().zeModuleBuildLogGetString;
    size_t size = 0;
    if (get == nullptr || get(log, &size, nullptr) != kSuccess || size == 0) return nullptr;
    std::string whole(size, '\0');
    if (get(log, &size, &whole[0]) != kSuccess) return nullptr;
    std::strncpy(text, whole.c_str(), kMost - 1);
    return text;
  }
};

// ---- kernels ----

template <>
struct Hook<OCCATRACE_ZE_zeKernelCreate> : Always {
  template <int I>
  static void after(Call &, Args_zeKernelCreate &a) {
    if (a.ret != kSuccess || a.kernel == nullptr) return;
    kernel_names.set(*a.phKernel, occatrace_intern(a.kernel));
    set_group(*a.phKernel, 1, 1, 1);
  }
};
template <>
struct Hook<OCCATRACE_ZE_zeKernelSetGroupSize> : Always {
  template <int I>
  static void after(Call &, Args_zeKernelSetGroupSize &a) {
    if (a.ret == kSuccess) set_group(a.hKernel, a.groupSizeX, a.groupSizeY, a.groupSizeZ);
  }
};

// ---- begin ----

namespace {

void harvest(int final) {
  if (timing && !Engine::instance().closed() && (final != 0 || Engine::instance().busy())) Devices::instance().calibrate_all();
  Engine::instance().harvest(final != 0);
  if (final != 0) Commands::instance().tell();
}

void after_fork_child() {
  Engine::instance().after_fork_child();
  Devices::instance().unlock_after_fork();
  Events::instance().unlock_after_fork();
  Commands::instance().after_fork_child();
  for (HandleMap *map : {&lines, &lists, &timed_pools, &timed_events, &given_flags, &kernel_names, &kernel_groups}) map->unlock_after_fork();
}

occatrace_backend backend{"ze", harvest, after_fork_child, nullptr};

bool able(const Dispatch &d) {
  return device::can_be_timed(
      "Level Zero", {OCCATRACE_NEEDED(d, zeDeviceGetProperties), OCCATRACE_NEEDED(d, zeDeviceGetGlobalTimestamps),
                     OCCATRACE_NEEDED(d, zeEventPoolCreate), OCCATRACE_NEEDED(d, zeEventPoolDestroy),
                     OCCATRACE_NEEDED(d, zeEventCreate), OCCATRACE_NEEDED(d, zeEventDestroy), OCCATRACE_NEEDED(d, zeEventHostReset),
                     OCCATRACE_NEEDED(d, zeEventQueryStatus), OCCATRACE_NEEDED(d, zeEventQueryKernelTimestamp)});
}

}  // namespace

extern "C" OCCATRACE_EXPORT void occatrace_bind_ze(const occatrace_trampolines *t) {
  if (!load_events()) return;
  bind_slots(t, targets, [](void *, void *) {});
  timing = occatrace_mode_of("ze") != OCCATRACE_TALLIES && occatrace_device_time() != OCCATRACE_TIME_OFF && able(real<0>());
  occatrace_backend_register(&backend);
}

}  // namespace occatrace::ze
