// What generated wrappers share, and their hooks: `before` the real call; `result` between it and its record, to change what the
// program gets back; `after` the record, so that it is not in the time of the call. C++ only.
#pragma once

#include <cstddef>
#include <type_traits>
#include <utility>

#include "occatrace_core.h"

namespace occatrace {

// A call in flight.
struct Call {
  occatrace_thread *self;
  uint32_t seq; /* its number when it is recorded as an event (level OCCATRACE_EVENT) */
  uint8_t level;
  bool work = false;  /* its device work is recorded */
  uint64_t start;     /* ns; ticks at level OCCATRACE_TALLY */
  uint64_t own = 0;   /* for the hooks */
  uint64_t host = 0;  /* likewise: ns, where a hook wants the begin at every level */
};
// Instead of the level of a call: the switch is not simply on, as wherever there is a choice, so the call asks (decide).
constexpr uint8_t kAsk = 0x40;
// It was OCCATRACE_OFF after a choice, and nothing that this thread does is recorded until the call ends.
constexpr uint8_t kSilent = 0x10;

// The arguments of a call.
struct Arguments {};

// ---- what wrappers of all functions share ----
//
// Not inlined: there are thousands of wrappers, and compiling this into each of them took half of the time of a build. By value: so
// a call that no hook looks at lies in registers.

// A call at level OCCATRACE_EVENT begins. `kinds`: what it does (occatrace_call_effect).
struct Begun {
  uint64_t start;
  uint32_t seq;
};
[[gnu::noinline]] inline Begun begin_event(occatrace_thread *self, const void *called_from, uintptr_t frame) {
  if (called_from == nullptr) __builtin_unreachable();
  occatrace_site_begin_at(self, called_from, frame);
  const uint32_t seq = occatrace_next_seq(self);
  return {occatrace_now(), seq};
}
[[gnu::noinline]] inline Begun begin_event_of(occatrace_thread *self, const void *called_from, uintptr_t frame, uint32_t kinds) {
  if (called_from == nullptr) __builtin_unreachable();
  occatrace_site_begin_at(self, called_from, frame);
  const uint32_t seq = occatrace_next_seq(self);
  occatrace_calling(self, seq, kinds);
  return {occatrace_now(), seq};
}

// The same by a callback: where in the program is not known.
[[gnu::noinline]] inline Begun begin_event_nowhere(occatrace_thread *self, uint32_t kinds) {
  occatrace_site_begin_at(self, nullptr, 0);
  const uint32_t seq = occatrace_next_seq(self);
  if (kinds != 0) occatrace_calling(self, seq, kinds);
  return {occatrace_now(), seq};
}

// A call at level OCCATRACE_TALLY has ended.
[[gnu::noinline, gnu::cold]] inline void count_first(occatrace_thread *self, uint32_t slot, uint64_t ticks, bool failed) {
  occatrace_tally_add(self, slot, ticks, failed);
}
[[gnu::noinline]] inline void count(occatrace_thread *self, uint32_t slot, uint64_t start, bool failed) {
  const uint64_t ticks = occatrace_ticks() - start;
  occatrace_tally *const tally = self->tallies[slot];
  if (__builtin_expect(tally == nullptr, 0)) return count_first(self, slot, ticks, failed);
  occatrace_tally_count(tally, ticks, failed);
}

// A call that is recorded or counted has failed.
[[gnu::noinline, gnu::cold]] inline void fail(uint32_t slot, uint32_t seq, int64_t code) {
  occatrace_failure(slot, seq, code, 0);
}

// Whether the device work of a call that is not recorded itself is, decided once, with the call: the switch may be turned while it
// runs.
[[gnu::noinline]] inline bool records_work(uint8_t of_function) { return of_function != OCCATRACE_EVENT && occatrace_capturing(); }

// The level of a call for which the switch or a choice decides, or kSilent. `chosen`: whether its work is among what the
// person chose; `wanted_off`: the hook of the function wants to know of calls at level OCCATRACE_OFF.
[[gnu::noinline, gnu::cold]] inline uint8_t decide(occatrace_thread *self, uint32_t asked, uint8_t of_function, bool wanted_off,
                                                   bool (*chosen)(const void *), const void *arguments) {
  auto level = static_cast<uint8_t>(asked);
  if (level == kAsk) {
    level = occatrace_level_now(of_function);
    if (level == OCCATRACE_OFF && !wanted_off) return level;
  }
  if (!occatrace_choosing) return level;
  const bool wanted = of_function != OCCATRACE_EXCLUDED &&
                      (self->silent || !occatrace_running() || chosen == nullptr || chosen(arguments));
  if (wanted) return level;
  if (self->silent++ == 0) self->silent_for = OCCATRACE_BY_FUNCTION;
  return kSilent;
}

[[gnu::noinline, gnu::cold]] inline void leave_slow(occatrace_thread *self, uint32_t level, uintptr_t frame) {
  if (level == kSilent) self->silent--;
  if (level == OCCATRACE_EVENT) occatrace_site_end_at(self, frame);
}
// The call is over.
inline void leave(occatrace_thread *self, uint32_t level, uintptr_t frame) {
  if (level == OCCATRACE_EVENT) return occatrace_site_end_at(self, frame);
  if (__builtin_expect(level > OCCATRACE_EVENT, 0)) leave_slow(self, level, frame);
}
// The same where an exception or the end of the thread takes the call away. Always inlined: else the object would lie in memory.
class Unwound {
 public:
  [[gnu::always_inline]] Unwound(occatrace_thread *self, uint32_t level, uintptr_t frame) : self_(self), frame_(frame), level_(level) {}
  [[gnu::always_inline]] ~Unwound() {
    if (!over_) leave_slow(self_, level_, frame_);
  }
  Unwound(const Unwound &) = delete;
  Unwound &operator=(const Unwound &) = delete;
  [[gnu::always_inline]] void over() { over_ = true; }

 private:
  occatrace_thread *self_;
  uintptr_t frame_;
  uint32_t level_;
  bool over_ = false;
};

// ---- hooks ----

// A hook may have `template <int I, class Args> static bool chosen(Args &)`: whether the work of the call is among what the person
// chose, asked only where there is a choice.
struct NoHook {
  static constexpr bool always = false;
  static constexpr bool by_loader = false;
  template <int I>
  static void before(Call &, Arguments &) {}
  template <int I>
  static void result(Call &, Arguments &) {}
  template <int I>
  static void after(Call &, Arguments &) {}
};

template <class H, int I, class Args, class = void>
struct Chosen {
  static constexpr bool is_asked = false;
};
template <class H, int I, class Args>
struct Chosen<H, I, Args, std::void_t<decltype(H::template chosen<I>(std::declval<Args &>()))>> {
  static constexpr bool is_asked = true;
  static bool ask(const void *arguments) {
    Args copy = *static_cast<const Args *>(arguments);
    return H::template chosen<I>(copy);
  }
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
