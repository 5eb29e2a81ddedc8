// Device time for APIs whose commands do not say when they ran: an event of ours before and after each command, and a clock
// made of events that are recorded now and then and waited for. The API is a small table, `Api`:
//
//   kName, kVendor          what the API and the makers of its devices are called
//   kNotReady               what `query` and `elapsed` return for an event that is not complete
//   Scope, Stream, Event    handles; a scope is what events belong to and what must be current to use them (of CUDA a
//                           context, of HIP a device), null: none
//   current()               the scope of the calling thread
//   scope_of(stream)        that of a stream, where streams have one of their own; else the calling thread's
//   enter(scope, &before)   makes a scope current; true: it was not, and `leave(before)` is due
//   platform()              the name, and by whom its devices' times are told where that is not by events
//   device(), name(device)  the device of the current scope, as a number, and its name
//   create_stream, create_event, record, synchronize, query, elapsed (ms), synchronize_all, capturing
#pragma once

#include <algorithm>
#include <atomic>
#include <cmath>
#include <mutex>
#include <new>
#include <string>
#include <utility>
#include <vector>

#include "engine.h"
#include "hooks.h"
#include "made_once.h"
#include "occatrace_core.h"

namespace occatrace::device {

template <class Api>
class EventPairs {
 public:
  using Scope = typename Api::Scope;
  using Stream = typename Api::Stream;
  using Event = typename Api::Event;
  struct Context;

  // Two events around one command.
  struct Pair {
    Event start = nullptr;
    Event end = nullptr;
    Context *context = nullptr;
  };

  // A scope and what we keep in it. Lives on after the program destroyed it: somebody may still be looking.
  struct Context {
    Scope handle = nullptr;
    Device *device = nullptr;
    std::mutex mutex;
    std::vector<Pair *> free;
    Stream stream = nullptr;    // of ours: what is recorded there waits for nothing
    Event reference = nullptr;  // complete, at reference_time of the device's clock
    Event spare = nullptr;
    uint64_t reference_time = 0;
    std::atomic<uint64_t> calibrated{0};
    std::atomic<bool> prepared{false};
    std::atomic<bool> alive{true};
  };

  // Makes a scope current for a moment, for calls from a thread that has another or none.
  class Entered {
   public:
    explicit Entered(const Context &context) : entered_(Api::enter(context.handle, &before_)) {}
    ~Entered() {
      if (entered_) Api::leave(before_);
    }
    Entered(const Entered &) = delete;
    Entered &operator=(const Entered &) = delete;

   private:
    Scope before_ = nullptr;
    bool entered_;
  };

  // Pairs and the tickets of a source of records (tickets.h) may be in one queue: a pair is an odd handle.
  static bool is_pair(uint64_t handle) { return (handle & kIsPair) != 0; }

  // Off in the mode that only tallies: no event of ours is then recorded into the program's streams.
  static inline bool wanted = false;

  // ---- scopes ----

  // The record of the calling thread's scope, or null where it has none.
  static Context *current() { return of(Api::current()); }
  static Context *of(Scope handle) {
    if (handle == nullptr) return nullptr;
    if (Context *known = find(handle)) return known;
    return add(handle);
  }
  static Context *of_stream(Stream stream) { return of(Api::scope_of(stream)); }
  static Context *find(Scope handle) { return reinterpret_cast<Context *>(map().get(handle)); }
  static std::vector<Context *> all() {
    std::lock_guard<std::mutex> guard(mutex_);
    return contexts();
  }
  static void remove(Context &context) {
    context.alive = false;
    map().set(context.handle, 0);
    std::lock_guard<std::mutex> guard(mutex_);
    auto &all = contexts();
    all.erase(std::remove(all.begin(), all.end(), &context), all.end());
  }
  // A driver waits for the work of a context before it destroys it; we need its times before.
  static void finish(Context &context) {
    // Not asked whether anything is pending: while another thread harvests, nothing seems to be.
    const Entered inside(context);
    Api::synchronize_all();
    Engine::instance().harvest_context(context.handle);
  }

  // A scope is about to go, and our events with it.
  static void close(Scope handle) {
    Context *context = handle == nullptr ? nullptr : find(handle);
    if (context == nullptr) return;
    finish(*context);
    remove(*context);
  }

  // ---- commands ----

  // The stream that a function of variant I means: without one, that of the thread where I is 1.
  template <int I>
  static Stream meant(Stream stream) {
    return I == 1 && stream == nullptr ? reinterpret_cast<Stream>(uintptr_t{2}) : stream;
  }

  // The scope in which the work of a call that begins is timed, and its begin in `call.host`; null: it is not timed.
  template <class Call>
  static Context *timed(Call &call, Stream stream) {
    if (!call.work || captured(stream)) return nullptr;
    Context *context = of_stream(stream);
    if (context != nullptr) call.host = call.level == OCCATRACE_EVENT ? call.start : occatrace_now();
    return context;
  }

  // Whether work in a stream is among what the person chose.
  static bool chosen(Stream stream) {
    Context *context = wanted || vendor != &vendor_ ? of_stream(stream) : nullptr;
    if (context == nullptr || queue_of(*context, stream, occatrace_self())->wanted) return true;
    occatrace_self()->excluded[OCCATRACE_BY_QUEUE]++;
    return false;
  }

  // Before a command: the first event. Hooks keep the pair in `call.own`, and the begin in `call.host`.
  template <class Call>
  static void begin(Call &call, Stream stream) {
    Context *context = wanted ? timed(call, stream) : nullptr;
    if (context != nullptr) prepare(*context);
    Pair *pair = context != nullptr ? take(*context) : nullptr;
    if (pair == nullptr) return;
    if (Api::record(pair->start, stream) != 0) {
      release(pair);
      return;
    }
    call.own = reinterpret_cast<uint64_t>(pair) | kIsPair;
  }

  // After it: the second. `waits`: the call itself waited for the command; `describe` fills in what it was.
  template <class Call, class Describe>
  static void end(const Call &call, Stream stream, bool succeeded, bool waits, Describe describe) {
    if (call.own == 0) return;
    auto *handle = reinterpret_cast<void *>(call.own);
    Pair *pair = pair_of(handle);
    if (!succeeded || Api::record(pair->end, stream) != 0) {
      release(pair);
      return;
    }
    Queue *queue = queue_of(*pair->context, stream, call.self);
    Work work = work_of(call, handle);
    describe(work);
    queue->push(work);
    if (waits) queue->harvest(true);
  }

  // A call waited for a stream.
  static void harvest_stream(Stream stream, const occatrace_thread *self) {
    if (!Engine::instance().busy()) return;
    if (Context *context = of_stream(stream)) queue_of(*context, stream, self)->harvest();
  }

  // A stream is about to go.
  static void retire(Stream stream) {
    Queue *queue = Engine::instance().queue(stream);
    if (queue == nullptr) return;
    queue->harvest();
    Engine::instance().retire(*queue);
  }

  // Streams by a number that is theirs alone: the default streams are small numbers, the same in every scope.
  static Queue *queue_of(const Context &context, Stream stream, const occatrace_thread *self) {
    const auto number = reinterpret_cast<uintptr_t>(stream);
    const void *key = stream;
    if (number == 2) key = reinterpret_cast<const char *>(self) + 2;
    if (number < 2) key = reinterpret_cast<const char *>(context.handle) + 1;
    Queue *known = Engine::instance().queue(key);
    if (known != nullptr && known->context == context.handle) return known;
    static std::mutex mutex;
    std::lock_guard<std::mutex> guard(mutex);
    known = Engine::instance().queue(key);
    if (known != nullptr && known->context == context.handle) return known;
    // The driver registers its exit handler when it is initialized, so ours comes after it.
    Engine::be_first_at_exit();
    return &Engine::instance().add_queue(*vendor, *context.device, key, context.handle, 0);
  }

  // A capture may forbid every thread to ask or wait for any event, and breaks when one does (the mode that is called global): what
  // is complete waits until it is over, or the process.
  static bool held_back() {
    return captures_.load(std::memory_order_relaxed) > 0 && !ending_.load(std::memory_order_relaxed);
  }
  static bool captured(Stream stream) { return captures_.load(std::memory_order_relaxed) > 0 && Api::capturing(stream); }

  // ---- hooks ----

  // What we keep in a scope is made when the program makes or takes it, not in the time of its first command.
  struct TakesScope : Always {
    template <int I, class Call, class Args>
    static void after(Call &, Args &a) {
      if (wanted && a.ret == 0) current();
    }
  };
  // A call that waited for all of the scope's work.
  struct Synchronizes : Always {
    template <int I, class Call, class Args>
    static void after(Call &, Args &a) {
      if (a.ret != 0 || !Engine::instance().busy()) return;
      if (Context *context = current()) Engine::instance().harvest_context(context->handle);
    }
  };
  // While a stream is being captured into a graph, nothing of ours may be recorded into it.
  struct BeginsCapture : Always {
    // Before the call: a launch of another thread must not slip in between.
    template <int I, class Call, class Args>
    static void before(Call &, Args &) {
      captures_.fetch_add(1, std::memory_order_relaxed);
    }
    template <int I, class Call, class Args>
    static void after(Call &, Args &a) {
      if (a.ret != 0) captures_.fetch_sub(1, std::memory_order_relaxed);
    }
  };
  struct EndsCapture : Always {
    template <int I, class Call, class Args>
    static void after(Call &, Args &) {
      int open = captures_.load(std::memory_order_relaxed);
      while (open > 0 && !captures_.compare_exchange_weak(open, open - 1, std::memory_order_relaxed)) {
      }
    }
  };

  // ---- of the backend ----

  static void harvest(int final) {
    if (final) {
      ending_.store(true, std::memory_order_relaxed);
    } else if (!Engine::instance().closed()) {
      const uint64_t now = occatrace_now();
      for (Context *context : all()) {
        if (!Engine::instance().busy() || now - context->calibrated.load(std::memory_order_relaxed) < kCalibrateEvery) continue;
        const Entered inside(*context);
        calibrate(*context);
      }
    }
    Engine::instance().harvest(final != 0);
  }

  // A child of a process that uses a device cannot use it; nothing of the driver is touched.
  static void after_fork_child() {
    Engine::instance().after_fork_child();
    new (&mutex_) std::mutex;
    map().unlock_after_fork();
  }

 private:
  static constexpr uint64_t kIsPair = 1;
  static constexpr uint64_t kOrigin = uint64_t{1} << 61;
  static constexpr int kFirstCalibrations = 4;
  static constexpr uint64_t kCalibrateEvery = 100'000'000;

  // As long as the process: destructors of other libraries may still come here.
  static HandleMap &map() {
    static std::atomic<HandleMap *> all;
    return made_once(all);
  }
  static std::vector<Context *> &contexts() {
    static std::atomic<std::vector<Context *> *> all;
    return made_once(all);
  }

  static Context *add(Scope handle) {
    auto *context = new Context;
    {
      std::lock_guard<std::mutex> guard(mutex_);
      if (Context *known = find(handle)) {
        delete context;
        return known;
      }
      context->handle = handle;
      const Entered inside(*context);
      const int device = Api::device();
      const auto *key = reinterpret_cast<const void *>(static_cast<uintptr_t>(device) + 1);
      context->device = &Engine::instance().device(
          Api::kName, key, [device] { return DeviceNames{Api::platform(), Api::name(device), Api::kVendor}; });
      contexts().push_back(context);
      map().set(handle, reinterpret_cast<uint64_t>(context));
    }
    prepare(*context);
    return context;
  }

  // Makes what the clock of a scope needs. CUDA's runtime makes a primary context current before it is set up: then nothing can
  // be made in it, and the first command tries again.
  static void prepare(Context &context) {
    if (!wanted || context.prepared.load(std::memory_order_acquire) || held_back()) return;
    const Entered inside(context);
    {
      std::lock_guard<std::mutex> guard(context.mutex);
      if (context.prepared.load(std::memory_order_relaxed)) return;
      if (context.stream == nullptr && Api::create_stream(&context.stream) != 0) context.stream = nullptr;
      if (context.stream == nullptr) return;
      if (context.spare == nullptr && Api::create_event(&context.spare) != 0) context.spare = nullptr;
      if (context.spare == nullptr) return;
      context.prepared.store(true, std::memory_order_release);
    }
    // The first brackets are wide: drivers set themselves up.
    for (int time = 0; time < kFirstCalibrations; ++time) calibrate(context);
  }

  // ns between two events: 0, kNotReady as long as they are not both complete, or the API's error. A float of milliseconds:
  // exact to 1 ns up to 16 ms, to 60 ns up to a second.
  static int32_t elapsed(Event from, Event to, int64_t *ns) {
    float ms = 0;
    if (const auto failed = Api::elapsed(&ms, from, to)) return static_cast<int32_t>(failed);
    *ns = std::llround(static_cast<double>(ms) * 1e6);
    return 0;
  }

  // Moves the reference to now, so that the distances to it stay small, and brackets the device's clock by the host's.
  static void calibrate(Context &context) {
    if (held_back()) return;
    std::lock_guard<std::mutex> guard(context.mutex);
    if (context.spare == nullptr) return;
    const uint64_t before = occatrace_now();
    if (Api::record(context.spare, context.stream) != 0) return;
    if (Api::synchronize(context.spare) != 0) return;
    const uint64_t after = occatrace_now();
    int64_t moved = 0;
    if (context.reference == nullptr) {
      // The origin is ours to choose: far from every clock of the host, lest it be taken for one of them.
      context.reference_time = kOrigin;
      if (Api::create_event(&context.reference) != 0) context.reference = nullptr;
    } else {
      if (elapsed(context.reference, context.spare, &moved) != 0) return;
      context.reference_time += static_cast<uint64_t>(moved);
    }
    std::swap(context.reference, context.spare);
    context.calibrated.store(after, std::memory_order_relaxed);
    Engine::instance().calibrate(*context.device, context.reference_time, before, after);
  }

  static Pair *take(Context &context) {
    {
      std::lock_guard<std::mutex> guard(context.mutex);
      if (!context.free.empty()) {
        Pair *pair = context.free.back();
        context.free.pop_back();
        return pair;
      }
    }
    const Entered inside(context);
    auto *pair = new Pair;
    pair->context = &context;
    if (Api::create_event(&pair->start) != 0 || Api::create_event(&pair->end) != 0) {
      delete pair;
      return nullptr;
    }
    return pair;
  }

  static Pair *pair_of(void *handle) { return reinterpret_cast<Pair *>(reinterpret_cast<uint64_t>(handle) & ~kIsPair); }

  static void give_back(void *handle) { release(pair_of(handle)); }

  static void release(Pair *pair) {
    Context &context = *pair->context;
    if (!context.alive) {
      delete pair;
      return;
    }
    std::lock_guard<std::mutex> guard(context.mutex);
    context.free.push_back(pair);
  }

  static int32_t poll(void *handle, Times *times) {
    const Pair &pair = *pair_of(handle);
    Context &context = *pair.context;
    *times = {};
    if (!context.alive) return -1;
    if (held_back()) return kWorking;
    const Entered inside(context);
    int64_t since = 0;
    int64_t length = 0;
    // How long it took says that it is complete, too; only where that cannot be told is it asked for itself.
    int32_t state = elapsed(pair.start, pair.end, &length);
    const bool told = state == 0;
    if (!told && state != Api::kNotReady) state = Api::query(pair.end);
    if (state == Api::kNotReady) return kWorking;
    if (state != 0) return -state;
    std::lock_guard<std::mutex> guard(context.mutex);
    if (!told || context.reference == nullptr || elapsed(context.reference, pair.start, &since) != 0) {
      return 0;  // complete, without stamps
    }
    times->start = context.reference_time + static_cast<uint64_t>(since);
    times->end = times->start + static_cast<uint64_t>(std::max<int64_t>(length, 0));
    return 0;
  }

  static constexpr Vendor vendor_{poll, give_back};

 public:
  // Whom queues ask for times: pairs of events, or somebody else from before the first queue on, who then asks `of_pairs`
  // for pairs.
  static inline const Vendor *vendor = &vendor_;
  static constexpr const Vendor &of_pairs = vendor_;

 private:
  static inline std::mutex mutex_;
  static inline std::atomic<int> captures_{0};
  static inline std::atomic<bool> ending_{false};
};

}  // namespace occatrace::device
