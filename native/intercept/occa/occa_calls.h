// A call of OCCA from its entry to its event; the calls of kernels and builds.
#pragma once

#include "occa_objects.h"

namespace {

// ---- one call, from its entry to its event ----

// What a function of the model is: its event, how it is written, what its arguments mean. The hooks below are generic.
struct Function {
  static constexpr Kind kind = Kind::Plain;
  static constexpr bool blocking = false;
  static constexpr bool builds = false;
  static constexpr bool always = false; // has work to do also while nothing is recorded
  // Whether the work of a call is among what the person chose, and what it is left out for; asked only where there is a choice.
  static constexpr occatrace_excluded_reason reason = OCCATRACE_BY_TAG;
  template <class... A> static bool chosen(State *, const A &...) { return true; }
  // Whether it is of a tagged object; asked only where nothing else is wanted.
  template <class... A> static bool tagged(const A &...) { return false; }
  template <class... A> static void nested(State *, const A &...) {}
};

constexpr uint32_t call_kinds(Kind kind) {
  return kind == Kind::Run ? OCCATRACE_LAUNCHES : kind == Kind::Copy ? OCCATRACE_COPIES
                                              : kind == Kind::Alloc  ? OCCATRACE_ALLOCATES
                                                                     : 0;
}

template <class P> struct Call : Frame {
  occatrace_thread *self;
  State *state;
  typename P::Event event{};
  uint8_t level;
  bool outermost;
  bool placed = false; // the outermost recorded call of all APIs
  uint64_t ticks = 0;
  void *counted = nullptr; // of kernel calls: reading of the counters (--papi)

  // `from`: where the hook was called from (OCCATRACE_CALLED_FROM). `nested`: an event of its own inside another call.
  Call(occatrace_thread *thread, State *of, const void *from, bool nested = false) : self(thread), state(of), outermost(!nested) {
    kind = P::kind;
    closed = end_of_process;
    level = occatrace_level_now(levels[P::function]);
    if (outermost) {
      self->occa_depth = 1;
      state->outer = this;
    } else {
      above = state->nested;
      state->nested = this;
    }
    if (level == OCCATRACE_EVENT) {
      event.tid = self->tid;
      placed = occatrace_site_begin(self, from);
      event.caller = self->caller;
      event.seq = occatrace_next_seq(self);
      occatrace_calling(self, event.seq, OCCATRACE_IS_OCCA | call_kinds(P::kind) | (P::builds ? OCCATRACE_BUILDS : P::blocking ? OCCATRACE_WAITS
                                                                                                                               : 0));
      if (outermost) self->scope_seq = event.seq;
      if constexpr (P::kind == Kind::Run) {
        self->run_seq = event.seq;
        self->run_launches = 0;
        if (const occatrace_counters *counts = occatrace_counts(); __builtin_expect(counts != nullptr, 0)) counted = counts->begin();
      }
      event.start = occatrace_now();
      if constexpr (P::blocking) {
        const occatrace_occa_begin begin{self->tid, occatrace_next_seq(self), event.seq};
        P::begin(begin);
      }
    } else if (level == OCCATRACE_TALLY) {
      ticks = occatrace_ticks();
    }
  }
  Call(const Call &) = delete;

  ~Call() {
    write();
    if (placed) occatrace_site_end(self);
    if (outermost) {
      state->outer = nullptr;
      self->occa_depth = 0;
      self->scope_seq = OCCATRACE_NO_RUN;
    } else {
      state->nested = above;
    }
  }

 private:
  void write() {
    if (level == OCCATRACE_EVENT) {
      if (__builtin_expect(counted != nullptr, 0)) occatrace_counts()->end(counted);
      P::finish(event, *this);
      P::write(event);
      if constexpr (P::kind == Kind::Run) {
        // The work of other modes is a device's.
        if (__builtin_expect(counted != nullptr, 0)) occatrace_counts()->write(counted, self, self->run_launches ? OCCATRACE_NO_RUN : event.seq);
        self->run_seq = OCCATRACE_NO_RUN;
      }
    } else if (level == OCCATRACE_TALLY) {
      occatrace_tally_add(self, first_tally + P::function, occatrace_ticks() - ticks, event.error != 0);
    }
    if (event.error != 0 && level != OCCATRACE_OFF)
      occatrace_failure(first_tally + P::function, level == OCCATRACE_EVENT ? event.seq : OCCATRACE_NO_RUN, event.error,
                        event.error);
  }

  // Nobody catches what it has thrown, or a kernel or signal handler in it has ended the process. The begin of a blocking call
  // has said already that it does not return.
  static void end_of_process(Frame &frame, uint32_t error) {
    Call &call = static_cast<Call &>(frame);
    if (P::blocking && error == 0) return;
    call.event.error = error;
    call.write();
    call.level = OCCATRACE_OFF;
  }
};

void close_calls(occatrace_thread *self) {
  const State *state = static_cast<const State *>(self->occa);
  if (!state || !state->outer) return;
  const uint32_t error = current_error();
  for (Frame *frame = state->nested; frame; frame = frame->above) frame->closed(*frame, error);
  state->outer->closed(*state->outer, error);
}

// What is not chosen is silent, with all that it calls.
enum class Voice {
  Same,
  Silent,
  Heard,
};
template <class Chosen, class Tagged> Voice voice_of(occatrace_thread *self, Chosen chosen, Tagged tagged) {
  if (!occatrace_choosing || !occatrace_running()) return Voice::Same;
  if (!self->silent) return chosen() ? Voice::Same : Voice::Silent;
  // With --only-tagged a thread is silent but for what is tagged.
  const bool by_tag = self->silent == 1 && self->silent_for == OCCATRACE_BY_TAG;
  return by_tag && tagged() && chosen() ? Voice::Heard : Voice::Same;
}
template <class P, class... A> Voice voice(occatrace_thread *self, State *state, const A &...args) {
  return voice_of(self, [&] { return P::chosen(state, args...); }, [&] { return P::tagged(args...); });
}

class Voiced {
 public:
  Voiced(occatrace_thread *self, Voice voice, occatrace_excluded_reason reason) : silence_(self, voice != Voice::Silent, reason), self_(voice == Voice::Heard ? self : nullptr) {
    if (self_) self_->silent = 0;
  }
  ~Voiced() {
    if (self_) self_->silent = 1;
  }
  Voiced(const Voiced &) = delete;
  Voiced &operator=(const Voiced &) = delete;

 private:
  Silence silence_;
  occatrace_thread *self_;
};

// Calls the real function; an exception is noted and goes on its way.
template <class C, class F> auto guarded(C &call, F function) -> decltype(function()) {
  try {
    return function();
  } catch (...) {
    call.event.error = current_error();
    throw;
  }
}

// Results that are objects are built where the caller wants them: one variable, returned by name, nothing else returned.
template <class P, unsigned Slot, class R, class... A> R traced(occatrace_thread *self, State *state, const void *from, A... args) {
  const Voiced voiced(self, voice<P>(self, state, args...), P::reason);
  Call<P> call(self, state, from);
  P::enter(call, args...);
  R result = guarded(call, [&]() -> R { return reinterpret_cast<R (*)(A...)>(original[Slot])(args...); });
  P::leave(call, result, args...);
  return result;
}
template <class P, unsigned Slot, class... A> void traced_void(occatrace_thread *self, State *state, const void *from, A... args) {
  const Voiced voiced(self, voice<P>(self, state, args...), P::reason);
  Call<P> call(self, state, from);
  P::enter(call, args...);
  guarded(call, [&] { reinterpret_cast<void (*)(A...)>(original[Slot])(args...); });
  P::leave(call, args...);
}

// A member of the API: an event when it is the outermost one.
template <class P, unsigned Slot, class R, class... A> struct Api {
  static R hook(A... args) {
    if (!occatrace_running() && !P::always) return reinterpret_cast<R (*)(A...)>(original[Slot])(args...);
    occatrace_thread *self = occatrace_self();
    State *state = state_of(self);
    if (!state) return reinterpret_cast<R (*)(A...)>(original[Slot])(args...);
    if (self->occa_depth) {
      P::nested(state, args...);
      return reinterpret_cast<R (*)(A...)>(original[Slot])(args...);
    }
    if constexpr (std::is_void_v<R>)
      traced_void<P, Slot, A...>(self, state, OCCATRACE_CALLED_FROM(), args...);
    else
      return traced<P, Slot, R, A...>(self, state, OCCATRACE_CALLED_FROM(), args...);
  }
};

#define OCCA_FUNCTION(name) \
  using Event = occatrace_occa_##name; \
  static constexpr unsigned function = OCCATRACE_OCCA_##name; \
  static void write(const Event &event) { events->name(&event); }
#define OCCA_BLOCKING(name) \
  OCCA_FUNCTION(name) \
  static constexpr bool blocking = true; \
  static void begin(const occatrace_occa_begin &b) { events->name##_begin(&b); }

// ---- kernels ----

constexpr uint32_t kNotKnown = UINT32_MAX;

uint64_t size_of(const void *memory) {
  if (!memory || !ask.memory_size) return 0;
  const Probe probe{{nullptr, nullptr}, memory};
  return ask.memory_size(&probe);
}

// The distinct memory objects among the arguments of the call that has just been made, and their bytes.
template <class E> void count_memory(const void *mode_kernel, E &event) {
  event.memory_args = kNotKnown;
  if (!layout.arguments || !mode_kernel) return;
  const char *const *vector = reinterpret_cast<const char *const *>(static_cast<const char *>(mode_kernel) + layout.arguments);
  const char *const first = vector[0], *const last = vector[1];
  const size_t length = static_cast<size_t>(last - first);
  // What OCCA itself allows is less; something else stands there.
  if (first > last || last > vector[2] || length % layout.element != 0 || length / layout.element > 512) return;
  const void *seen[512];
  uint32_t count = 0;
  uint64_t bytes = 0;
  for (const char *at = first; at < last; at += layout.element) {
    const void *const memory = *reinterpret_cast<const void *const *>(at + layout.memory);
    if (!memory || std::find(seen, seen + count, memory) != seen + count) continue;
    seen[count++] = memory;
    bytes += size_of(memory);
  }
  event.memory_args = count;
  event.memory_bytes = bytes;
}

struct KernelRun : Function {
  OCCA_FUNCTION(kernel_run)
  static constexpr Kind kind = Kind::Run;
  static constexpr occatrace_excluded_reason reason = OCCATRACE_BY_KERNEL;
  template <class... A> static bool chosen(State *state, const void *kernel, const A &...) { return kernel_chosen(state, object(kernel)); }
  static bool kernel_chosen(State *state, const void *mode_kernel) {
    const uint32_t name = cached_kernel(state, mode_kernel).name;
    if (!tag_of(mode_kernel).refused) return occatrace_choose_kernel(name);
    occatrace_exclude_kernel(name);
    return false;
  }
  // Its own tag, or that of memory which it is given: what operator() passes on are vectors of arguments.
  static bool tagged(const void *kernel) { return kernel_tagged(object(kernel)); }
  template <class... A> static bool tagged(const void *kernel, const A *...arguments) {
    if (tag_of(object(kernel)).wanted) return true;
    const bool taken[] = {takes_tagged(static_cast<const char *>(static_cast<const void *>(arguments)))...};
    return std::find(std::begin(taken), std::end(taken), true) != std::end(taken);
  }
  static bool kernel_tagged(const void *mode_kernel) {
    if (tag_of(mode_kernel).wanted) return true;
    return layout.arguments && mode_kernel && takes_tagged(static_cast<const char *>(mode_kernel) + layout.arguments);
  }
  static bool takes_tagged(const char *arguments) {
    if (!layout.arguments || !arguments || !tags.any.load(std::memory_order_relaxed)) return false;
    const char *const *vector = reinterpret_cast<const char *const *>(arguments);
    const char *const first = vector[0], *const last = vector[1];
    const size_t length = static_cast<size_t>(last - first);
    if (first > last || last > vector[2] || length % layout.element != 0 || length / layout.element > 512) return false;
    for (const char *at = first; at < last; at += layout.element)
      if (tag_of(*reinterpret_cast<const void *const *>(at + layout.memory)).wanted) return true;
    return false;
  }
  template <class... A> static void enter(Call<KernelRun> &call, const void *kernel, A...) { of(call, object(kernel)); }
  static void of(Call<KernelRun> &call, const void *mode_kernel) {
    call.object = mode_kernel;
    if (call.level == OCCATRACE_EVENT) call.event.kernel = kernel_id(call.state, mode_kernel);
  }
  template <class... A> static void leave(Call<KernelRun> &, A...) {}
  static void finish(Event &event, Frame &frame) {
    event.launches = static_cast<Call<KernelRun> &>(frame).self->run_launches;
    if (event.error == 0)
      count_memory(frame.object, event);
    else
      event.memory_args = kNotKnown;
  }
};

// operator() of many arguments: what is done around the call is compiled once, only what passes the arguments on once for each
// number of them.
using PassOn = void (*)(void *real, const void *kernel, const void *const *arguments);

[[gnu::noinline]] void run_of_many(occatrace_thread *self, State *state, const void *from, void *real, PassOn pass_on, const void *kernel,
                                   const void *const *arguments, unsigned count) {
  const auto chosen = [&] { return KernelRun::chosen(state, kernel); };
  const auto takes_tagged = [](const void *a) { return KernelRun::takes_tagged(static_cast<const char *>(a)); };
  const auto tagged = [&] {
    return tag_of(object(kernel)).wanted || std::any_of(arguments, arguments + count, takes_tagged);
  };
  const Voice voice = voice_of(self, chosen, tagged);
  const Voiced voiced(self, voice, KernelRun::reason);
  Call<KernelRun> call(self, state, from);
  KernelRun::of(call, object(kernel));
  guarded(call, [&] { pass_on(real, kernel, arguments); });
}

template <unsigned Slot, class... A> struct ManyArguments {
  using Real = void (*)(const void *, A...);
  template <size_t... I> static void pass_on(void *real, const void *kernel, const void *const *arguments, std::index_sequence<I...>) {
    reinterpret_cast<Real>(real)(kernel, arguments[I]...);
  }
  static void pass_all_on(void *real, const void *kernel, const void *const *arguments) {
    pass_on(real, kernel, arguments, std::index_sequence_for<A...>());
  }
  static void hook(const void *kernel, A... arguments) {
    const Real real = reinterpret_cast<Real>(original[Slot]);
    if (!occatrace_running()) return real(kernel, arguments...);
    occatrace_thread *self = occatrace_self();
    State *state = state_of(self);
    if (!state || self->occa_depth) return real(kernel, arguments...);
    const void *const all[] = {arguments...};
    run_of_many(self, state, OCCATRACE_CALLED_FROM(), original[Slot], pass_all_on, kernel, all, sizeof...(A));
  }
};

// serial::kernel::run and launchedModeKernel_t::run: the user's call itself when operator() has swallowed kernel::run.
template <unsigned Slot> void run_kernel(const void *mode_kernel) {
  const auto real = reinterpret_cast<void (*)(const void *)>(original[Slot]);
  if (!occatrace_running()) return real(mode_kernel);
  occatrace_thread *self = occatrace_self();
  if (self->occa_depth) return real(mode_kernel);
  State *state = state_of(self);
  if (!state) return real(mode_kernel);
  const Voice voice = voice_of(self, [&] { return KernelRun::kernel_chosen(state, mode_kernel); }, [&] { return KernelRun::kernel_tagged(mode_kernel); });
  const Voiced voiced(self, voice, OCCATRACE_BY_KERNEL);
  Call<KernelRun> call(self, state, OCCATRACE_CALLED_FROM());
  KernelRun::of(call, mode_kernel);
  guarded(call, [&] { real(mode_kernel); });
}

// X::kernel::deviceRun: exactly one launch of the backend.
template <unsigned Slot> void run_on_device(const void *mode_kernel) {
  if (occatrace_running()) occatrace_self()->run_launches++;
  reinterpret_cast<void (*)(const void *)>(original[Slot])(mode_kernel);
}

struct KernelFree : Function {
  OCCA_FUNCTION(kernel_free)
  static void enter(Call<KernelFree> &call, const void *kernel) { call.event.kernel = known_kernel(object(kernel)); }
  static void leave(Call<KernelFree> &, const void *) {}
  static void finish(Event &, Frame &) {}
};

// The deleting destructor of a mode's kernel: its address may be another kernel's soon.
template <unsigned Slot> void delete_kernel(void *mode_kernel) {
  const auto real = reinterpret_cast<void (*)(void *)>(original[Slot]);
  const uint32_t id = known_kernel(mode_kernel);
  forget_kernel(mode_kernel);
  // Launchers and device kernels end inside the kernel that they belong to.
  if (!occatrace_running() || id == 0) return real(mode_kernel);
  occatrace_thread *self = occatrace_self();
  State *state = self->occa_depth ? nullptr : state_of(self);
  if (!state) return real(mode_kernel);
  Call<KernelFree> call(self, state, OCCATRACE_CALLED_FROM());
  call.event.kernel = id;
  guarded(call, [&] { real(mode_kernel); });
}

// ---- building ----

// The three ways to build; `Source` says what the first argument is.
enum class Source {
  File,
  Text,
  Binary,
};

// What compilers leave behind: OCCA runs them as child processes and waits for them.
struct Children {
  uint64_t ns, faults;
  static Children now() {
    rusage r{};
    getrusage(RUSAGE_CHILDREN, &r);
    const auto ns = [](const timeval &t) { return static_cast<uint64_t>(t.tv_sec) * 1000000000u + static_cast<uint64_t>(t.tv_usec) * 1000u; };
    return {ns(r.ru_utime) + ns(r.ru_stime), static_cast<uint64_t>(r.ru_minflt + r.ru_majflt)};
  }
};

// A file that was there before: its time stamp is older than `ns` ago, by more than a tick of the kernel's clock.
bool older_than(const std::string &file, uint64_t ns) {
  struct stat s{};
  timespec now{};
  if (stat(file.c_str(), &s) != 0) return false;
  clock_gettime(CLOCK_REALTIME, &now);
  const auto in_ns = [](const timespec &t) { return static_cast<int64_t>(t.tv_sec) * 1000000000 + t.tv_nsec; };
  return in_ns(now) - in_ns(s.st_mtim) > static_cast<int64_t>(ns) + 10000000;
}

template <class E, Source source> struct Build : Function {
  using Event = E;
  static constexpr bool blocking = true, builds = true, always = true;
  template <class C> static void begin_build(C &call) {
    call.state->built_from = 0;
    const Children children = Children::now();
    call.bytes = children.faults;
    call.offset = children.ns;
  }
  template <class C> static void end_build(C &call, const void *kernel) {
    const Children children = Children::now();
    call.event.compiler = children.ns - call.offset;
    // Programs of no child ran: nothing was compiled. A child alone does not tell: OCCA also tries out the compiler.
    call.event.cached = children.faults == call.bytes ||
                        (call.event.start && older_than(ask_kernel(ask.kernel_binary, kernel), occatrace_now() - call.event.start));
  }
  static bool tagged(const void *device, const std::string &, const std::string &, const void *props) { return tag_in(props, object(device)).wanted; }
  static bool tagged(const std::string &, const std::string &, const void *props) { return tag_in(props).wanted; }
  template <class C> static void enter(C &call, const void *device, const std::string &, const std::string &name, const void *) {
    begin_build(call);
    call.event.device = handle(device);
    call.event.function = intern(name);
    call.event.mode = mode_of(call.state, ask.device_mode, object(device));
  }
  static void nested(State *state, const void *, const std::string &file, const std::string &, const void *) {
    if (source == Source::File && state->outer) state->built_from = intern(file);
  }
  template <class C>
  static void leave(C &call, const Object &result, const void *device, const std::string &given, const std::string &name, const void *props) {
    if (!result.object) return;
    end_build(call, result.object);
    const Tag tag = tag_in(props, object(device));
    remember_tag(result.object, tag);
    if (source != Source::Text)
      call.event.source = intern(absolute(given));
    else if (call.state->built_from)
      call.event.source = call.state->built_from;
    else
      call.event.source = intern(ask_kernel(ask.kernel_source, result.object));
    call.event.kernel = remember_kernel(call.state, result.object, name, name_by(tag), call.event.source,
                                        source == Source::Text ? given : source == Source::File ? read_file(given)
                                                                                                : nothing);
    if (name == inline_kernel) call.event.function = cached_kernel(call.state, result.object).name;
  }
  static void finish(Event &, Frame &) {}
};

// The functions of namespace occa work on the current device. There is one once they have succeeded.
const void *current_device() { return ask.current_device ? ask.current_device() : nullptr; }

template <class P> struct OnCurrentDevice : P {
  template <class C> static void enter(C &call, const std::string &, const std::string &name, const void *) {
    P::begin_build(call);
    call.event.function = intern(name);
  }
  static void nested(State *state, const std::string &file, const std::string &name, const void *props) {
    P::nested(state, nullptr, file, name, props);
  }
  template <class C>
  static void leave(C &call, const Object &result, const std::string &given, const std::string &name, const void *props) {
    call.event.device = handle(current_device());
    call.event.mode = mode_of(call.state, ask.kernel_mode, result.object);
    P::leave(call, result, nullptr, given, name, props);
  }
};

struct BuildKernel : Build<occatrace_occa_device_buildKernel, Source::File> {
  OCCA_BLOCKING(device_buildKernel)
};
struct BuildKernelFromString : Build<occatrace_occa_device_buildKernelFromString, Source::Text> {
  OCCA_BLOCKING(device_buildKernelFromString)
};
struct BuildKernelFromBinary : Build<occatrace_occa_device_buildKernelFromBinary, Source::Binary> {
  OCCA_BLOCKING(device_buildKernelFromBinary)
};

}  // namespace
