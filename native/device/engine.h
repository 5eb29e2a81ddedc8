// Device time of everything that a program enqueues, whatever the API: commands wait in a ring per queue, are harvested
// while the program runs, placed on the host's clock and written as occatrace_device:activity events.
// An API brings a small table of functions (Vendor); this room knows nothing else of it.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "clock.h"
#include "handle_map.h"
#include "occatrace_core.h"

namespace occatrace::device {

constexpr uint32_t kOutOfOrder = 1;
constexpr uint32_t kProfilingAsked = 2;

// Stamps of one command on its device's clock; 0 where there is none.
struct Times {
  uint64_t queued = 0;
  uint64_t submitted = 0;
  uint64_t start = 0;
  uint64_t end = 0;
};

// Answers of Vendor::poll for a command that is not complete.
constexpr int32_t kWaiting = 1;  // for other commands, or to be handed to the device
constexpr int32_t kWorking = 2;  // with the device

struct Vendor {
  // kWaiting, kWorking, 0: complete (the times are filled in), negative: the command failed with this code.
  int32_t (*poll)(void *event, Times *times);
  // Gives up the engine's hold on the event; may run callbacks of the program.
  void (*release)(void *event);
  // Where times are brought by somebody else: has those of what has finished brought; `last`: all that there is.
  void (*collect)(bool last) = nullptr;
  // Drivers differ: one may give no times of any command. Otherwise a command without times has an unknown time.
  bool may_lack_clock = false;
};

// One of the copies that a single command makes.
struct Part {
  uint8_t kind;
  uint64_t bytes;
};

// So many parts, each as `part(at)` says.
template <class Make>
std::vector<Part> parts(size_t count, Make part) {
  std::vector<Part> made;
  made.reserve(count);
  for (size_t at = 0; at < count; ++at) made.push_back(part(at));
  return made;
}

// Extents of a grid or of a block of it.
struct Size {
  uint32_t x = 0, y = 0, z = 0;
};
template <class X, class Y, class Z>
constexpr Size size(X x, Y y, Z z) {
  return {static_cast<uint32_t>(x), static_cast<uint32_t>(y), static_cast<uint32_t>(z)};
}

// One enqueued command.
struct Work {
  void *event = nullptr;
  uint64_t before = 0;  // host clock when the enqueuing call began
  uint64_t after = 0;   // and when it ended; 0: not read, the stamps of this command do not calibrate
  uint64_t bytes = 0;
  uint32_t tid = 0;
  uint32_t seq = UINT32_MAX;
  uint32_t run_seq = OCCATRACE_NO_RUN;
  uint32_t name = 0;
  uint32_t grid[3] = {0, 0, 0};
  uint32_t block[3] = {0, 0, 0};
  uint8_t kind = OCCATRACE_OTHER;
  // Of a command that makes several copies: each is recorded, with a share of the time by its bytes. Owned.
  const std::vector<Part> *parts = nullptr;

  // The command makes these copies.
  void consists_of(std::vector<Part> of);
  // The grid of a kernel, in work-items or in blocks.
  void in_items(const Size &of, const Size &in) {
    grid[0] = of.x, grid[1] = of.y, grid[2] = of.z;
    block[0] = in.x, block[1] = in.y, block[2] = in.z;
  }
  void in_blocks(const Size &of, const Size &in) { in_items({of.x * in.x, of.y * in.y, of.z * in.z}, in); }
};

// The work of a call in flight, as generated wrappers have it.
template <class Call>
Work work_of(const Call &call, void *event) {
  Work work;
  work.event = event;
  work.before = call.host;
  if (call.level == OCCATRACE_EVENT) work.seq = call.seq;
  work.tid = call.self->tid;
  work.run_seq = call.self->run_seq;
  return work;
}

inline uint8_t copy_kind(bool from_device, bool to_device) {
  static constexpr uint8_t kinds[2][2] = {{OCCATRACE_HTOH, OCCATRACE_HTOD}, {OCCATRACE_DTOH, OCCATRACE_DTOD}};
  return kinds[from_device][to_device];
}

struct DeviceNames {
  std::string platform;
  std::string name;
  std::string vendor;
};

class Device {
 public:
  explicit Device(uint32_t number, std::string called = {}) : id(number), name(std::move(called)) {}
  const uint32_t id;
  const std::string name;

 private:
  friend class Queue;
  friend class Engine;
  std::mutex mutex_;
  Clock clock_;
  uint64_t clamped_ = 0;
  uint64_t worst_ = 0;
  uint64_t reported_ = 0;
  bool stamped_ = false;  // some command had a time stamp
};

class Queue {
 public:
  Queue(const Vendor &functions, Device &on, const void *number, const void *of, uint32_t flags);

  const Vendor &vendor;
  Device &device;
  const void *const handle;
  const void *const context;
  const uint32_t id;

  // References as the program counts them: the driver's own count also has its own.
  std::atomic<int> references{1};
  // What the program gave at creation, where we gave something else.
  std::vector<uint64_t> given_properties;
  bool properties_changed = false;
  // Among the devices and streams that the person chose.
  bool wanted = true;
  std::atomic<bool> used{false};

  bool profiling_asked() const { return (flags_.load(std::memory_order_relaxed) & kProfilingAsked) != 0; }
  void ask_profiling(bool asked);

  void push(const Work &work);

  // Every so many commands the end of the enqueuing call is read too, to calibrate by; true: this one.
  bool wants_bracket() { return (brackets_.fetch_add(1, std::memory_order_relaxed) & 15) == 0; }

  // Takes what is complete. `gently` leaves a few young commands to a later harvest, so that a program that waits for
  // each of its commands does not pay for a harvest each time.
  void harvest(bool gently = false);

  // How many holds of ours on this event the program could see in its reference count.
  unsigned holds(const void *event);

 private:
  friend class Engine;
  size_t collect(Work *done, Times *times, int32_t *status, size_t room);
  void sort(Work *done, Times *times, int32_t *status, size_t count);
  void place(const Work *done, const Times *times, const int32_t *status, size_t count,
             struct occatrace_activity *activities);
  void grow();

  std::atomic<uint32_t> flags_;
  std::atomic<uint32_t> brackets_{0};
  std::mutex mutex_;
  // A ring whose size is a power of two; commands [head_, tail_) are pending.
  std::vector<Work> ring_;
  uint64_t head_ = 0;
  uint64_t tail_ = 0;
  uint64_t try_at_;
  std::atomic<uint64_t> harvested_at_;
  // Under the lock of the device: the latest end that was recorded, on the host's clock and on the device's, and by how much
  // it may have been placed too late.
  uint64_t ended_ = 0;
  uint64_t ended_stamp_ = 0;
  uint64_t ended_unsure_ = 0;
  std::atomic<uint32_t> pending_{0};
  std::atomic<bool> retired_{false};
  // Whether the last harvest left a command that the device was at.
  std::atomic<bool> working_{false};
};

class Engine {
 public:
  // Lives until the process ends: destructors of other libraries may still enqueue.
  static Engine &instance();

  // The record of a device, made (and announced) when it is first seen.
  template <class Describe>
  Device &device(const char *api, const void *handle, Describe describe) {
    if (const uint64_t known = devices_.get(handle)) return *reinterpret_cast<Device *>(known);
    return add_device(api, handle, describe());
  }

  // Its number in the run; 0: nobody has used it yet.
  uint32_t device_number(const void *handle) const {
    const uint64_t known = devices_.get(handle);
    return known == 0 ? 0 : reinterpret_cast<Device *>(known)->id;
  }

  Queue &add_queue(const Vendor &vendor, Device &device, const void *handle, const void *context, uint32_t flags);
  Queue *queue(const void *handle) const { return reinterpret_cast<Queue *>(queues_.get(handle)); }

  // The device's clock showed `stamp` at some moment between two readings of the host's: for APIs whose commands do not say
  // when they were enqueued.
  void calibrate(Device &device, uint64_t stamp, uint64_t before, uint64_t after);

  // The program let its last reference go. What is still pending is harvested from the background.
  void retire(Queue &queue);

  // Whether anything may be pending anywhere: cheap, and never wrongly false.
  bool busy() const { return busy_.load(std::memory_order_relaxed); }
  void harvest_all();
  void harvest_context(const void *context);

  // Now and then, from the background; `final`: the process is about to end and its drivers still stand.
  void harvest(bool final);
  // The process exits. Waits a moment for what devices are at: it belongs into the run, and a driver may well crash in its
  // threads when its own state is taken down around them, for which our part of the exit would give it the time (PoCL).
  // From then on the drivers may be gone. The program may still use one in exit handlers and static destructors: then its
  // queue is harvested in its own calls, where the driver stands, and nowhere else. What is left is counted at the end.
  void close();
  bool closed() const { return closed_.load(std::memory_order_relaxed); }
  // The last harvest has to run before any exit handler of a driver or of its compiler: afterwards their objects are gone.
  // Handlers run in reverse order, and drivers register some late, so ours is registered again after each step that may
  // have brought new ones; the first to run does the work.
  static void be_first_at_exit();

  void after_fork_child();

 private:
  friend class Queue;
  Engine() = default;
  Device &add_device(const char *api, const void *handle, const DeviceNames &names);
  std::vector<Queue *> snapshot();
  void collect(bool last);
  void record_clocks(bool last);
  void take_all(bool final);
  // Commands whose times will never be known, by device, as a text of the run.
  void tell_unfinished();

  std::mutex mutex_;
  std::vector<Device *> all_devices_;
  std::vector<Queue *> live_;
  HandleMap devices_;
  HandleMap queues_;
  std::atomic<bool> busy_{false};
  std::atomic<bool> closed_{false};
};

}  // namespace occatrace::device
