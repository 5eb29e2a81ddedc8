// Device time of everything that a program enqueues, whatever the API: commands wait in a bounded ring per queue, are
// harvested while the program runs, placed on the host's clock and written as occatrace_device:activity events.
// An API brings a small table of functions (Vendor); this room knows nothing else of it.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <string>
#include <vector>

#include "clock.h"
#include "handle_map.h"

namespace occatrace::device {

// As in occatrace_device:activity.
enum class Kind : uint8_t {
  kernel = 1,
  host_to_device = 2,
  device_to_host = 3,
  device_to_device = 4,
  host_to_host = 5,
  fill = 6,
  map = 7,
  unmap = 8,
  marker = 9,
  migrate = 10,
  native = 11,
  other = 12,
};

constexpr uint32_t kOutOfOrder = 1;
constexpr uint32_t kProfilingAsked = 2;

// Stamps of one command on its device's clock.
struct Times {
  uint64_t queued = 0;
  uint64_t submitted = 0;
  uint64_t start = 0;
  uint64_t end = 0;
};

struct Vendor {
  const char *api;
  // 1 pending, 0 complete (the times are filled in), negative: the command failed with this code.
  int32_t (*poll)(void *event, Times *times);
  // Gives up the engine's hold on the event; may run callbacks of the program.
  void (*release)(void *event);
};

// One enqueued command.
struct Work {
  void *event = nullptr;
  uint64_t before = 0;  // host clock around the enqueuing call
  uint64_t after = 0;
  uint64_t bytes = 0;
  uint32_t tid = 0;
  uint32_t seq = 0;
  uint32_t run_seq = UINT32_MAX;
  uint32_t name = 0;
  uint32_t grid[3] = {0, 0, 0};
  uint32_t block[3] = {0, 0, 0};
  Kind kind = Kind::other;
  bool shared = false;  // the program holds the event too
};

class Device {
 public:
  Device(uint32_t id, const void *handle) : id(id), handle(handle) {}

  const uint32_t id;
  const void *const handle;

 private:
  friend class Queue;
  friend class Engine;
  std::mutex mutex_;
  Clock clock_;
  uint64_t clamped_ = 0;
  uint64_t worst_ = 0;
  uint64_t reported_ = 0;
};

struct DeviceNames {
  std::string platform;
  std::string name;
  std::string vendor;
};

class Queue {
 public:
  Queue(uint32_t id, const Vendor &vendor, Device &device, const void *handle, const void *context, uint32_t flags);

  const uint32_t id;
  const Vendor &vendor;
  Device &device;
  const void *const handle;
  const void *const context;

  bool profiling_asked() const { return (flags_.load(std::memory_order_relaxed) & kProfilingAsked) != 0; }
  void ask_profiling(bool asked);

  void push(const Work &work);

  // Takes what is complete. `gently` leaves a few young commands to a later harvest, so that a program that waits for
  // each of its commands does not pay for a harvest each time.
  void harvest(bool gently = false);

  // How many holds of ours on this event the program could see in its reference count.
  unsigned holds(const void *event);

 private:
  friend class Engine;
  size_t collect(Work *done, Times *times, int32_t *status, size_t room);
  void record(const Work *done, const Times *times, const int32_t *status, size_t count);
  void grow();

  std::atomic<uint32_t> flags_;
  std::mutex mutex_;
  // A ring whose size is a power of two; commands [head_, tail_) are pending.
  std::vector<Work> ring_;
  uint64_t head_ = 0;
  uint64_t tail_ = 0;
  uint64_t try_at_ = 0;
  std::atomic<uint64_t> harvested_at_{0};
  std::atomic<uint32_t> pending_{0};
  bool retired_ = false;
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

  Queue &add_queue(const Vendor &vendor, Device &device, const void *handle, const void *context, uint32_t flags);

  Queue *queue(const void *handle) const { return reinterpret_cast<Queue *>(queues_.get(handle)); }

  // The program let its last reference go. What is still pending is harvested from the background.
  void retire(Queue &queue);

  void harvest_all();
  void harvest_context(const void *context);

  // Last harvest and last clock points of a process that ends.
  void finish();

 private:
  Engine() = default;
  Device &add_device(const char *api, const void *handle, const DeviceNames &names);
  std::vector<Queue *> snapshot();
  void start_background();
  static void *background(void *);
  void record_clocks(bool last);
  void forget_after_fork();

  std::mutex mutex_;
  std::vector<Device *> all_devices_;
  std::vector<Queue *> live_;
  HandleMap devices_;
  HandleMap queues_;
  std::atomic<bool> background_running_{false};
};

}  // namespace occatrace::device
