// MPI: one wrapper for every ABI. Arguments pass through as machine words (handles are pointers in Open MPI and the MPI ABI,
// ints in MPICH; both travel in integer registers), and what they mean is looked up in the generated table of calls. Both
// MPI_x and PMPI_x are hooked, because Open MPI's Fortran calls the latter; what is called inside a call is not recorded.
// MPI is asked about a handle only after the program's own call with it has succeeded: an error of the program stays its own.
#include "mpi_after.h"

namespace {

// ---- around the real call ----

// What has to be read before the call, because the call changes it. `args` may be changed: statuses of ours stand in where
// the program wants none, so that it can be known what came.
void prepare(InFlight &f, Word *args) {
  const Call &c = f.call;
  switch (c.kind) {
    case Kind::complete: {
      f.count = c.count >= 0 ? f.amount(c.count) : 1;
      if (f.count < 0 || f.word(c.request) == 0) f.count = 0;
      const size_t n = static_cast<size_t>(f.count);
      auto *handles = f.state->handles;
      if (n > std::size(f.state->handles)) {
        handles = static_cast<uint64_t *>(std::malloc(n * sizeof *handles));
        if (!handles) {
          f.count = 0;
          break;
        }
        f.own_handles = true;
      }
      for (size_t i = 0; i < n; i++) handles[i] = handle_at(f.word(c.request), static_cast<int64_t>(i));
      f.handles = handles;
      f.statuses = reinterpret_cast<const char *>(args[c.status]);
      if (args[c.status] == abi.status_ignore) {
        const size_t wanted = c.shape == Shape::one || c.shape == Shape::any ? 1 : std::max<size_t>(n, 1);
        char *own = f.state->statuses;
        if (wanted > std::size(f.state->handles)) {
          own = static_cast<char *>(std::calloc(wanted, abi.status_size));
          f.own_statuses = own != nullptr;
        }
        f.statuses = own;
        if (own) args[c.status] = reinterpret_cast<Word>(own);
      }
      break;
    }
    case Kind::recv:
    case Kind::probe:
    case Kind::sendrecv:
    case Kind::posted:
      if (c.message >= 0 && c.kind != Kind::probe) {
        f.state->handles[0] = handle_at(f.word(c.message));
        f.handles = f.state->handles;
      }
      if (c.status >= 0) {
        if (args[c.status] == abi.status_ignore) args[c.status] = reinterpret_cast<Word>(f.state->statuses);
        f.statuses = reinterpret_cast<const char *>(args[c.status]);
      }
      break;
    case Kind::request:
      f.state->handles[0] = handle_at(f.word(c.request));
      f.handles = f.state->handles;
      break;
    case Kind::window:
      if (c.shape == Shape::free) {
        f.state->handles[0] = handle_at(f.word(c.window));
        f.handles = f.state->handles;
        forget_window(f.handles[0]);
      }
      break;
    case Kind::communicator:
      if (c.shape == Shape::free) {
        const uint64_t handle = handle_at(f.word(c.comm));
        {
          const std::shared_lock<std::shared_mutex> guard(known.lock);
          const auto found = known.comms.find(handle);
          f.count = found == known.comms.end() ? 0 : found->second->id;
        }
        forget_comm(handle);
      }
      break;
    case Kind::type:
      if (f.args[0]) forget_type(handle_at(f.args[0]));
      break;
    default:
      break;
  }
}

void finish(InFlight &f) {
  const bool event = f.level == OCCATRACE_EVENT;
  switch (f.call.kind) {
    case Kind::send:
      if (event) finish_send(f);
      break;
    case Kind::recv:
      if (event) finish_recv(f);
      break;
    case Kind::isend: finish_isend(f); break;
    case Kind::posted: finish_posted(f); break;
    case Kind::start: finish_start(f); break;
    case Kind::complete: finish_complete(f); break;
    case Kind::request: finish_request(f); break;
    case Kind::probe: finish_probe(f); break;
    case Kind::sendrecv:
      if (event) finish_sendrecv(f);
      break;
    case Kind::collective: finish_collective(f); break;
    case Kind::onesided: finish_onesided(f); break;
    case Kind::window: finish_window(f); break;
    case Kind::file:
      if (event) finish_file(f);
      break;
    case Kind::communicator: finish_communicator(f); break;
    case Kind::type:
      if (event) {
        auto e = head<occatrace_mpi_call_type>(f);
        e.ret = f.ret;
        write(f, e);
      }
      break;
    case Kind::plain: finish_plain(f); break;
    case Kind::time: break;
  }
  if (f.own_handles) std::free(const_cast<uint64_t *>(f.handles));
  if (f.own_statuses) std::free(const_cast<char *>(f.statuses));
}

__attribute__((noinline)) void note_failure(int function, uint32_t seq, int ret) {
  char text[8192] = "";
  int length = 0;
  if (usable && ask.error_string && ask.error_string(ret, text, &length) == 0) text[sizeof text - 1] = '\0';
  text[std::min<size_t>(std::strcspn(text, "\n"), 500)] = '\0';
  occatrace_failure(first_tally + static_cast<uint32_t>(function), seq, ret, text[0] ? occatrace_intern(text) : 0);
}

// A call inside a call (Fortran above C, callbacks, the MPI's own use of itself) is the outer one's business. A frame that
// was left by longjmp is known by the stack having grown back above it.
struct Outermost {
  State *state;
  Outermost(State *s, const char *frame) : state(s) { s->frame = frame; }
  ~Outermost() { state->frame = nullptr; }
};

template <size_t> using Argument = Word;

// A call of slot S with its arguments, in a place of their own. One copy per number of arguments: 1200 would be large.
template <size_t... I> __attribute__((noinline)) Word run(int slot, Word *args, const char *frame, const void *from) {
  using Real = Word (*)(Argument<I>...);
  const int function = slot / 2;
  const Call &c = calls[function];
  const Real real = reinterpret_cast<Real>(original[slot]);
  if (!occatrace_running()) return real(args[I]...);
  occatrace_thread *self = occatrace_self();
  State *state = state_of(self);
  if (state == nullptr) return real(args[I]...);
  if (state->frame != nullptr && frame < state->frame) {
    if (args[0] && c.kind == Kind::type) forget_type(handle_at(args[0]));
    if (args[0] && c.kind == Kind::communicator && c.shape == Shape::free) forget_comm(handle_at(args[0]));
    return real(args[I]...);
  }
  const Outermost outermost(state, frame);
  if (only_counted[function]) {
    if (occatrace_level_now(OCCATRACE_TALLY) == OCCATRACE_OFF) return real(args[I]...);
    const uint64_t begin = occatrace_ticks();
    const Word result = real(args[I]...);
    occatrace_tally_add(self, first_tally + static_cast<uint32_t>(function), occatrace_ticks() - begin, static_cast<int>(result) != 0);
    if (__builtin_expect(static_cast<int>(result) != 0, 0)) note_failure(function, OCCATRACE_NO_RUN, static_cast<int>(result));
    return result;
  }
  const uint8_t level = occatrace_level_now(levels[function]);
  if (__builtin_expect(function == OCCATRACE_MPI_MPI_Finalize, 0)) finalizing();
  InFlight f{c, function, args, self, state, level};
  const occatrace::CallSite site(self, level == OCCATRACE_EVENT, from);
  if (follow) prepare(f, args);
  if (level == OCCATRACE_EVENT) {
    f.seq = occatrace_next_seq(self);
    occatrace_calling(self, f.seq, OCCATRACE_IS_MPI);
    f.begin = occatrace_now();
    if (c.blocking) {
      using Begin = void (*)(const occatrace_mpi_begin *);
      const occatrace_mpi_begin b{self->tid, occatrace_next_seq(self), f.seq};
      (*reinterpret_cast<const Begin *>(reinterpret_cast<const char *>(events) + c.begin))(&b);
    }
  } else {
    f.begin = occatrace_ticks();
  }
  const Word result = real(args[I]...);
  f.ret = static_cast<int>(result);
  if (level == OCCATRACE_TALLY)
    occatrace_tally_add(self, first_tally + static_cast<uint32_t>(function), occatrace_ticks() - f.begin, f.ret != 0);
  if (follow || level == OCCATRACE_EVENT) finish(f);
  else if (c.shape == Shape::init && f.ok()) initialized(0);
  if (__builtin_expect(f.ret != 0 && level != OCCATRACE_OFF, 0)) note_failure(function, level == OCCATRACE_EVENT ? f.seq : OCCATRACE_NO_RUN, f.ret);
  return result;
}

template <int S, size_t... I> Word wrapper(Argument<I>... given) {
  Word args[] = {given..., 0};
  return run<I...>(S, args, static_cast<const char *>(__builtin_frame_address(0)), OCCATRACE_CALLED_FROM());
}

// The clock is the only one that returns no int.
template <int S> double clock_wrapper() {
  constexpr int F = S / 2;
  const auto real = reinterpret_cast<double (*)()>(original[S]);
  const uint8_t level = occatrace_level_now(levels[F]);
  if (level == OCCATRACE_OFF) return real();
  occatrace_thread *self = occatrace_self();
  const occatrace::CallSite site(self, level == OCCATRACE_EVENT, OCCATRACE_CALLED_FROM());
  const uint64_t begin = level == OCCATRACE_EVENT ? occatrace_now() : occatrace_ticks();
  const uint32_t seq = level == OCCATRACE_EVENT ? occatrace_next_seq(self) : 0;
  const double now = real();
  if (level == OCCATRACE_EVENT) {
    const occatrace_mpi_call_time e{self->tid, seq, begin, self->caller};
    using Writer = void (*)(const occatrace_mpi_call_time *);
    (*reinterpret_cast<const Writer *>(reinterpret_cast<const char *>(events) + calls[F].emit))(&e);
  } else {
    occatrace_tally_add(self, first_tally + F, occatrace_ticks() - begin, 0);
  }
  return now;
}

template <int S, size_t... I> void *with_arguments(std::index_sequence<I...>) { return reinterpret_cast<void *>(wrapper<S, I...>); }
template <int S> void *hook() {
  if constexpr (calls[S / 2].kind == Kind::time) return reinterpret_cast<void *>(clock_wrapper<S>);
  else return with_arguments<S>(std::make_index_sequence<calls[S / 2].parameters>());
}
template <int... S> std::array<void *, sizeof...(S)> all_hooks(std::integer_sequence<int, S...>) { return {hook<S>()...}; }

void after_fork_child() {
  // MPI in a forked child is not allowed; what it does is passed on and not recorded.
  usable = false;
}
occatrace_backend backend{"mpi", nullptr, after_fork_child, nullptr};

}  // namespace

extern "C" OCCATRACE_EXPORT void occatrace_bind_mpi(const occatrace_trampolines *trampolines) {
  static const uint8_t table[][4] = OCCATRACE_MPI_LEVELS;
  static const char *const names[] = OCCATRACE_MPI_NAMES;
  static_assert(std::size(calls) == kCalls && static_cast<int>(OCCATRACE_MPI_SLOTS) == 2 * kCalls, "two symbols for each call");
  events = static_cast<const occatrace_mpi_events *>(occatrace_load_provider("mpi"));
  if (!events) return;
  constexpr int kInit = 2 * OCCATRACE_MPI_MPI_Init;
  Dl_info info;
  if (!trampolines->original[kInit + 1] || !dladdr(trampolines->original[kInit + 1], &info)) return;
  void *library = dlopen(info.dli_fname, RTLD_LAZY | RTLD_NOLOAD | RTLD_NODELETE);
  if (!library) library = dlopen(nullptr, RTLD_LAZY);
  find_mpi(library, info.dli_fname);
  if (!ask.comm_size || !ask.comm_rank || !ask.comm_group || !ask.type_size) return;
  occatrace_levels("mpi", levels, table, names, kCalls);
  first_tally = occatrace_register_functions("mpi", names, kCalls);
  follow = occatrace_mode_of("mpi") == OCCATRACE_DEFAULT || occatrace_mode_of("mpi") == OCCATRACE_FULL;
  for (int i = 0; i < kCalls; i++) {
    const bool stateless = calls[i].kind == Kind::plain && calls[i].shape == Shape::none;
    const bool bounds = calls[i].shape == Shape::init || i == OCCATRACE_MPI_MPI_Finalize; // of the time with MPI
    only_counted[i] = levels[i] == OCCATRACE_TALLY && (stateless || (!follow && !bounds));
  }
  const auto hooks = all_hooks(std::make_integer_sequence<int, 2 * kCalls>());
  for (int s = 0; s < 2 * kCalls; s++) {
    void *&real = original[s];
    real = trampolines->original[s];
    if (!real) continue;
    // Another tool's MPI_x may stand between the program and the library.
    if (s % 2 == 0)
      if (void *next = occatrace_find_symbol(trampolines->symbols[s], real)) real = next;
    trampolines->slots[s] = levels[s / 2] == OCCATRACE_OFF ? real : hooks[static_cast<size_t>(s)];
  }
  occatrace_backend_register(&backend);
  initialized(0);
}
