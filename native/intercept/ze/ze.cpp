// Level Zero, by preloaded symbols in front of its loader. The wrappers are generated from tracepoints/ze.yaml; here is what they
// cannot know: functions that a program asks a driver for by name.
#include <cstring>
#include <iterator>
#include <mutex>
#include <utility>

#include "known_functions.h"
#include "occatrace_core.h"
#include "ze_work.h"

namespace occatrace::ze {

// Two sets of real functions: of the loader, and of a driver that was asked for them by name.
static Dispatch targets[2];
template <int I>
const Dispatch &real() {
  return targets[I];
}

}  // namespace occatrace::ze

#include "ze_slots.h"

namespace occatrace::ze {

namespace {

using Function = void *;

Function &at(Dispatch &table, size_t offset) { return *reinterpret_cast<Function *>(reinterpret_cast<char *>(&table) + offset); }

// The wrapper in front of a driver's function. Other drivers keep theirs: a wrapper has one function to go on to.
Function in_front_of(const char *name, Function theirs) {
  static std::mutex mutex;
  static Dispatch *wrappers;
  const auto place = std::find_if(std::begin(places), std::end(places), [&](const Place &p) { return std::strcmp(p.name, name) == 0; });
  if (place == std::end(places)) return nullptr;
  std::lock_guard<std::mutex> guard(mutex);
  if (wrappers == nullptr) {
    wrappers = new Dispatch;
    // `fill` replaces what is not NULL.
    std::memset(static_cast<void *>(wrappers), 0xff, sizeof *wrappers);
    fill<1>(*wrappers);
  }
  Function &target = at(targets[1], place->offset);
  if (target == nullptr) __atomic_store_n(&target, theirs, __ATOMIC_RELEASE);
  return target == theirs ? at(*wrappers, place->offset) : nullptr;
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

namespace {

occatrace_backend backend{"ze", nullptr, nullptr, nullptr};

}  // namespace

extern "C" OCCATRACE_EXPORT void occatrace_bind_ze(const occatrace_trampolines *t) {
  if (!load_events()) return;
  bind_slots(t, targets, [](void *, void *) {});
  occatrace_backend_register(&backend);
}

}  // namespace occatrace::ze
