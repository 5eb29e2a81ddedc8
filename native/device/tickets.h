// Device time from a vendor's library of activity records: a second way beside pairs of events, for the same engine. A command's
// ticket goes to the source of records around the call; the records bring it back with the times.
// The library is a small table of functions (Source); this room knows nothing else of it.
#pragma once

#include <sched.h>
#include <unistd.h>

#include <atomic>
#include <cstdint>

#include "engine.h"
#include "occatrace_core.h"

namespace occatrace::device {

struct Source {
  const char *name;
  // The id of what this thread is about to call, and its end.
  bool (*push)(uint64_t id);
  void (*pop)();
  // Has the records of what has finished brought; `all`: what is held back too.
  void (*flush)(bool all);
  // What the clock of the records shows; 0: that cannot be told yet.
  uint64_t (*stamp)();
  // Whether it tells of copies and fills by the pieces in which the runtime makes them.
  bool in_pieces = false;
};

namespace tickets {

// Commands are timed by `source` from now on: before the first queue.
void use(const Source &source);
// The source, once there is one.
const Source *source();
// Whether commands get tickets.
bool on();
// They get none any more: the source goes. Records of those that have one may still come, until `forget`.
void stop();
void forget();
inline bool in_pieces() { return on() && source()->in_pieces; }

// What the engine polls.
extern const Vendor vendor;

// A ticket for the command that this thread is about to give to a queue; null where none can be had. Ends with `given`.
// `pieces`: it may be told of in several records, which together are its time.
void *take(const Queue *queue, bool pieces);
// The call is over; whoever keeps the ticket lets go of it by `vendor.release`.
void given();
// The call gave nothing to the device.
void drop(void *ticket);

// Records as they come: of a call that had an external id, and of work on the device. Any thread, in any order.
void told_call(uint64_t external, uint64_t correlation);
void told_work(uint64_t correlation, uint64_t start, uint64_t end);
// Work of which the record itself has the external id; 0: no call of ours launched it.
void told(uint64_t external, uint64_t start, uint64_t end);

void after_fork_child();

}  // namespace tickets

// Device time of an API's commands: by tickets where there is a source of records, else by pairs of events.
template <class Pairs>
struct Timing {
  using Context = typename Pairs::Context;
  using Stream = typename Pairs::Stream;

  // Around a command, as those of EventPairs. `pieces`: it may be told of in several records.
  template <class Call>
  static void begin(Call &call, Stream stream, bool pieces) {
    while (changing.load(std::memory_order_acquire)) sched_yield();
    if (!tickets::on()) {
      Pairs::begin(call, stream);
      return;
    }
    Context *context = Pairs::timed(call, stream);
    if (context == nullptr) return;
    if (context->calibrated.load(std::memory_order_relaxed) == 0) {
      for (int time = 0; time < 4; ++time) calibrate(*context);
    }
    call.own = reinterpret_cast<uint64_t>(tickets::take(Pairs::queue_of(*context, stream, call.self), pieces));
  }
  template <class Call, class Describe>
  static void end(const Call &call, Stream stream, bool succeeded, bool waits, Describe describe) {
    if (Pairs::is_pair(call.own)) {
      Pairs::end(call, stream, succeeded, waits, describe);
      return;
    }
    auto *ticket = reinterpret_cast<void *>(call.own);
    if (ticket == nullptr) return;
    tickets::given();
    Context *context = Pairs::of_stream(stream);
    Work work = work_of(call, ticket);
    if (succeeded) describe(work);
    // Of what moves nothing there is no record.
    const bool moves = work.kind != OCCATRACE_KERNEL && work.kind != OCCATRACE_OTHER;
    if (!succeeded || context == nullptr || (moves && work.bytes == 0)) {
      tickets::drop(ticket);
      delete work.parts;
      return;
    }
    Pairs::queue_of(*context, stream, call.self)->push(work);
  }

  // Has commands timed by a source of records, where it can be started; else by pairs of events. `chosen`: the person wants
  // this source and no other.
  template <class Open>
  static void start(bool chosen, Open open) {
    if (!Pairs::wanted) return;
    const char *why = nullptr;
    if (const Source *source = open(&why)) {
      use(*source);
    } else if (chosen) {
      occatrace_say("device work is timed by events: %s", why);
    }
  }
  static void use(const Source &source) {
    Pairs::wanted = false;
    Pairs::vendor = &both;
    tickets::use(source);
  }

  // The source is about to go: what it still has is fetched, for a moment that no program notices, and commands are timed by
  // pairs of events from now on.
  static void stop() {
    if (!tickets::on()) return;
    Engine &engine = Engine::instance();
    const uint64_t until = occatrace_now() + kLastRecords;
    do {
      tickets::source()->flush(false);
      engine.harvest_all();
      if (engine.busy()) usleep(1000);
    } while (engine.busy() && occatrace_now() < until);
    // Times of both kinds are on different clocks: none of the one is placed once the other is read.
    changing.store(true, std::memory_order_release);
    tickets::stop();
    tickets::source()->flush(true);
    engine.harvest_all();
    tickets::forget();
    Pairs::wanted = true;
    changing.store(false, std::memory_order_release);
  }

  static void harvest(int final) {
    if (tickets::on() && !Engine::instance().closed()) {
      for (Context *context : Pairs::all()) calibrate(*context);
    }
    Pairs::harvest(final);
  }
  static void after_fork_child() {
    tickets::after_fork_child();
    Pairs::after_fork_child();
  }

 private:
  static constexpr uint64_t kLastRecords = 300'000'000;
  // Between tickets and pairs: no command is begun.
  static inline std::atomic<bool> changing{false};

  static const Vendor &whose(void *handle) {
    return Pairs::is_pair(reinterpret_cast<uint64_t>(handle)) ? Pairs::of_pairs : tickets::vendor;
  }
  static constexpr Vendor both{[](void *handle, Times *times) { return whose(handle).poll(handle, times); },
                               [](void *handle) { whose(handle).release(handle); },
                               [](bool last) { tickets::vendor.collect(last); }};

  static void calibrate(Context &context) {
    const uint64_t now = occatrace_now();
    const uint64_t stamp = tickets::source()->stamp();
    if (stamp == 0) return;
    context.calibrated.store(now, std::memory_order_relaxed);
    Engine::instance().calibrate(*context.device, stamp, now, occatrace_now());
  }
};

}  // namespace occatrace::device
