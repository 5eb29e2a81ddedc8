// The calls of NAME, by preloaded symbols. The wrappers are generated from tracepoints/NAME.yaml; what the generator cannot know
// of a call goes into a Hook of its function.
#include "NAME_dispatch.h"
#include "occatrace_core.h"

namespace occatrace::NAME {

// The real functions.
static Dispatch targets[1];
template <int I>
const Dispatch &real() {
  return targets[I];
}

}  // namespace occatrace::NAME

#include "NAME_slots.h"

namespace occatrace::NAME {

// `before` the real call, `result` between it and its record, `after` the record (native/emit/hooks.h). An example: a call that
// succeeds shows that the API is in use.
template <>
struct Hook<OCCATRACE_UPPER_NAME_init> : NoHook {
  template <int I>
  static void after(Call &call, Args_NAME_init &a) {
    if (call.level == OCCATRACE_EVENT && a.ret == 0) occatrace_intern("NAME");
  }
};

namespace {

// Called from the background, after fork and at the end: a backend with device work harvests it there (native/device).
occatrace_backend backend{"NAME", nullptr, nullptr, nullptr};

}  // namespace

extern "C" OCCATRACE_EXPORT void occatrace_bind_NAME(const occatrace_trampolines *t) {
  if (!load_events()) return;
  occatrace_backend_register(&backend);
  bind_slots(t, targets, [](void *, void *) {});
}

}  // namespace occatrace::NAME
