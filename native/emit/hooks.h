// What a hook of a generated wrapper is when nobody wrote one: `chosen`: whether the work of the call is among what the person
// chose, asked only where there is a choice; `before` the real call; `result` between it and its record, to
// change what the program gets back; `after` the record, so that it is not in the time of the call. C++ only.
#pragma once

#include "occatrace_core.h"

namespace occatrace {

struct NoHook {
  static constexpr bool always = false;
  static constexpr bool by_loader = false;
  template <int I, class Args>
  static bool chosen(Args &) {
    return true;
  }
  template <int I, class Call, class Args>
  static void before(Call &, Args &) {}
  template <int I, class Call, class Args>
  static void result(Call &, Args &) {}
  template <int I, class Call, class Args>
  static void after(Call &, Args &) {}
};

// Runs also for calls that are not recorded as events, as long as the process is traced.
struct Always : NoHook {
  static constexpr bool always = true;
};

// Likewise, and it has to know which of the API's sets of real functions was called: handles carry their driver's functions, so others need not.
struct ByLoader : Always {
  static constexpr bool by_loader = true;
};

// What --capture-range waits for.
template <occatrace_range Kind, bool begins>
struct CaptureRange : Always {
  template <int I, class Call, class Args>
  static void before(Call &, Args &) {
    occatrace_capture_range(Kind, begins);
  }
};

}  // namespace occatrace
