// Device time of Level Zero's commands: by the kernel timestamps of the event that a command signals, the program's where it gave
// one, else one of ours. Commands of an immediate list run once. Those of a regular list run at each execution of the list, and the
// call that executes it is the call that launched them.
#pragma once

#include <atomic>
#include <cstring>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "engine.h"
#include "occatrace_core.h"
#include "ze_work.h"

namespace occatrace::ze {

using device::Engine;
using device::HandleMap;
using device::Queue;
using device::Times;
using device::Work;

// The real functions of the loader.
const Dispatch &loader();

constexpr ze_result_t kSuccess = 0, kNotReady = 1;

// ---- devices and their clocks ----

struct Device {
  ze_device_handle_t handle;
  device::Device *record;
  double ns_per_cycle;
  unsigned bits, kernel_bits;
  std::mutex mutex;
  uint64_t latest = 0;  // the last reading, without the wraps of its counter
  uint64_t read_at = 0;
};

inline uint64_t mask_of(unsigned bits) { return bits == 0 || bits >= 64 ? UINT64_MAX : (uint64_t{1} << bits) - 1; }

// The value of a counter of so many bits that lies closest to a known one.
inline uint64_t unwrapped(uint64_t value, uint64_t near, unsigned bits) {
  const uint64_t mask = mask_of(bits);
  if (mask == UINT64_MAX) return value;
  const uint64_t ahead = (value - near) & mask;
  return ahead <= mask / 2 ? near + ahead : near - (mask + 1 - ahead);
}
inline uint64_t in_ns(const Device &device, uint64_t cycles) {
  return static_cast<uint64_t>(static_cast<long double>(cycles) * static_cast<long double>(device.ns_per_cycle));
}

inline void calibrate(Device &device) {
  const std::lock_guard<std::mutex> guard(device.mutex);
  uint64_t host = 0, stamp = 0;
  const uint64_t before = occatrace_now();
  if (loader().zeDeviceGetGlobalTimestamps(device.handle, &host, &stamp) != kSuccess) return;
  const uint64_t after = occatrace_now();
  // The first one begins far from zero, so that nothing that ran before is negative.
  device.latest = device.read_at == 0 ? (stamp & mask_of(device.bits)) + (device.bits >= 63 ? 0 : mask_of(device.bits) + 1)
                                      : unwrapped(stamp & mask_of(device.bits), device.latest, device.bits);
  device.read_at = after;
  Engine::instance().calibrate(*device.record, in_ns(device, device.latest), before, after);
}

class Devices {
 public:
  static Devices &instance() {
    static auto *const all = new Devices;
    return *all;
  }
  Device &of(ze_device_handle_t handle) {
    const std::lock_guard<std::mutex> guard(mutex_);
    std::unique_ptr<Device> &known = known_[handle];
    if (known == nullptr) {
      known.reset(new Device{handle, nullptr, 0, 0, 0, {}});
      describe(*known);
      for (int time = 0; time < 4; ++time) calibrate(*known);
    }
    return *known;
  }
  void calibrate_all() {
    const std::lock_guard<std::mutex> guard(mutex_);
    for (auto &[handle, device] : known_) calibrate(*device);
  }
  void unlock_after_fork() {
    new (&mutex_) std::mutex;
    for (auto &[handle, device] : known_) new (&device->mutex) std::mutex;
  }

 private:
  static void describe(Device &device) {
    DeviceProperties found{};
    found.type = kDevicePropertiesByFrequency;
    loader().zeDeviceGetProperties(device.handle, reinterpret_cast<ze_device_properties_t *>(&found));
    // Cycles per second; a driver that does not know this form gives nanoseconds per cycle.
    const auto timer = static_cast<double>(found.timer == 0 ? 1 : found.timer);
    device.ns_per_cycle = timer < 100'000 ? timer : 1e9 / timer;
    device.bits = found.bits;
    device.kernel_bits = found.kernel_bits;
    found.name[sizeof found.name - 1] = '\0';
    std::string name = found.name;
    // A sub-device (a tile) has the name of its device.
    if ((found.flags & kSubdevice) != 0) name += " sub-device " + std::to_string(found.subdevice);
    const char *const vendor = found.vendor == 0x8086 ? "Intel" : "";
    device.record = &Engine::instance().device("Level Zero", device.handle, [&] {
      return device::DeviceNames{"Level Zero", name, vendor};
    });
  }

  std::mutex mutex_;
  std::unordered_map<ze_device_handle_t, std::unique_ptr<Device>> known_;
};

// ---- events ----

// Events of ours for a device in a context. Stays, small, after the context is gone: commands may still point to it.
class OurEvents {
 public:
  OurEvents(ze_context_handle_t context, ze_device_handle_t device) : context_(context), device_(device) {}

  // Null: the driver has none.
  ze_event_handle_t take() {
    const std::lock_guard<std::mutex> guard(mutex_);
    if (free_.empty() && !add()) return nullptr;
    const ze_event_handle_t event = free_.back();
    free_.pop_back();
    return event;
  }
  // Back for the next command.
  void give(ze_event_handle_t event) {
    const std::lock_guard<std::mutex> guard(mutex_);
    if (!alive()) return;
    loader().zeEventHostReset(event);
    free_.push_back(event);
  }
  bool alive() const { return alive_.load(std::memory_order_acquire); }
  void close() {
    const std::lock_guard<std::mutex> guard(mutex_);
    alive_.store(false, std::memory_order_release);
    for (const ze_event_handle_t event : all_) loader().zeEventDestroy(event);
    for (const ze_event_pool_handle_t pool : pools_) loader().zeEventPoolDestroy(pool);
    free_.clear();
  }
  void unlock_after_fork() { new (&mutex_) std::mutex; }

 private:
  static constexpr uint32_t kPool = 64;
  bool add() {
    if (!alive()) return false;
    EventPoolDescriptor of_pool{{kEventPoolDescriptor, nullptr}, kHostVisible | kTimestamps, kPool};
    ze_event_pool_handle_t pool = nullptr;
    const auto described = reinterpret_cast<const ze_event_pool_desc_t *>(&of_pool);
    if (loader().zeEventPoolCreate(context_, described, 1, &device_, &pool) != kSuccess) return false;
    pools_.push_back(pool);
    for (uint32_t index = 0; index < kPool; ++index) {
      EventDescriptor of_event{{kEventDescriptor, nullptr}, index, kScopeHost, 0};
      ze_event_handle_t event = nullptr;
      if (loader().zeEventCreate(pool, reinterpret_cast<const ze_event_desc_t *>(&of_event), &event) != kSuccess) break;
      all_.push_back(event);
      free_.push_back(event);
    }
    return !free_.empty();
  }

  const ze_context_handle_t context_;
  ze_device_handle_t device_;
  std::mutex mutex_;
  std::atomic<bool> alive_{true};
  std::vector<ze_event_handle_t> free_, all_;
  std::vector<ze_event_pool_handle_t> pools_;
};

class Events {
 public:
  static Events &instance() {
    static auto *const all = new Events;
    return *all;
  }
  OurEvents &of(ze_context_handle_t context, ze_device_handle_t device) {
    const std::lock_guard<std::mutex> guard(mutex_);
    OurEvents *&known = of_[context][device];
    if (known == nullptr) known = new OurEvents(context, device);
    return *known;
  }
  void close(ze_context_handle_t context) {
    const std::lock_guard<std::mutex> guard(mutex_);
    const auto found = of_.find(context);
    if (found == of_.end()) return;
    for (const auto &[device, events] : found->second) events->close();
    of_.erase(found);
  }
  void unlock_after_fork() {
    new (&mutex_) std::mutex;
    for (const auto &[context, devices] : of_) {
      for (const auto &[device, events] : devices) events->unlock_after_fork();
    }
  }

 private:
  std::mutex mutex_;
  std::unordered_map<ze_context_handle_t, std::unordered_map<ze_device_handle_t, OurEvents *>> of_;
};

// ---- commands that run or will ----

// How far a queue or an immediate list was seen complete, in numbers of commands.
struct Progress {
  std::atomic<uint64_t> given{0}, complete{0};
};

// Timestamps of a list's events, copied by the device after one execution and before the next.
struct Snapshot {
  ze_command_list_handle_t list;  // makes the copy
  ze_event_handle_t done;
  Timestamps *times;      // by step of the list
  uint64_t until;         // the number of the last command that was given with it: when that is complete, so is this
  unsigned users = 0;     // commands that will look here

  bool complete() const { return loader().zeEventQueryStatus(done) == kSuccess; }
};
constexpr uint64_t kNotGiven = UINT64_MAX;

struct Given {
  ze_event_handle_t event;
  Device *device;
  Progress *progress;
  uint64_t number;
  ze_context_handle_t context;
  OurEvents *returns_to;  // the event is ours, of an immediate list: nobody else asks for it
  enum State {
    kPending,
    kKnown,
    kLost,
  } state = kPending;
  Times times;
  // Of a command of a regular list.
  size_t step = 0;
  uint64_t stale = 0;           // the start that the event still has from the execution before; 0: none
  Snapshot *behind = nullptr;   // it runs after this copy of what the execution before left
  Snapshot *kept_in = nullptr;  // its own times will be here
  Given *next = nullptr, *previous = nullptr;
};

class Commands {
 public:
  static Commands &instance() {
    static auto *const all = new Commands;
    return *all;
  }

  // A command was given that will signal the event.
  Given *add(const Given &command) {
    auto *made = new Given(command);
    made->number = made->progress->given.fetch_add(1) + 1;
    const std::lock_guard<std::mutex> guard(mutex_);
    if (made->state == Given::kLost) return ++lost_, made;
    for (Snapshot *used : {made->behind, made->kept_in}) {
      if (used != nullptr) ++used->users;
    }
    made->next = first_;
    if (first_ != nullptr) first_->previous = made;
    first_ = made;
    if (made->kept_in != nullptr || made->returns_to != nullptr) return made;
    if (Given *before = of(made->event)) read(*before, true);
    by_event_.set(made->event, reinterpret_cast<uint64_t>(made));
    return made;
  }
  int32_t poll(Given &command, Times *times) {
    const std::lock_guard<std::mutex> guard(mutex_);
    if (command.state == Given::kPending) read(command, false);
    if (command.state == Given::kPending) return device::kWorking;
    *times = command.times;
    return 0;
  }
  void release(Given *command) {
    {
      const std::lock_guard<std::mutex> guard(mutex_);
      forget(*command);
    }
    if (command->returns_to != nullptr) command->returns_to->give(command->event);
    delete command;
  }
  // The event is about to be reset, signaled again or destroyed: what its last command left is read now or never.
  void settle(ze_event_handle_t event) {
    const std::lock_guard<std::mutex> guard(mutex_);
    Given *command = of(event);
    if (command == nullptr) return;
    read(*command, true);
    by_event_.set(event, 0);
  }
  // The same for all of a context that is about to go.
  void settle_all(ze_context_handle_t context) {
    settle_those([context](const Given &command) { return command.context == context; });
  }
  // The same for what a snapshot has, which is about to go.
  void settle(const Snapshot &snapshot) {
    settle_those([&snapshot](const Given &command) { return command.kept_in == &snapshot; });
  }
  // The last command that signals the event will have been copied before the event is signaled again.
  void keep(ze_event_handle_t event, Snapshot &in) {
    const std::lock_guard<std::mutex> guard(mutex_);
    Given *command = of(event);
    if (command == nullptr || command->state != Given::kPending) return;
    by_event_.set(event, 0);
    command->kept_in = &in;
    ++in.users;
  }
  // The copy was given to the device, with commands up to this number.
  void give(Snapshot &snapshot, uint64_t number) {
    const std::lock_guard<std::mutex> guard(mutex_);
    snapshot.until = number;
  }
  // Or refused by the driver.
  void give_up(const Snapshot &snapshot) {
    const std::lock_guard<std::mutex> guard(mutex_);
    for (Given *command = first_; command != nullptr; command = command->next) {
      if (command->kept_in != &snapshot) continue;
      --command->kept_in->users;
      command->kept_in = nullptr;
      by_event_.set(command->event, reinterpret_cast<uint64_t>(command));
    }
  }
  bool is_free(const Snapshot &snapshot) {
    const std::lock_guard<std::mutex> guard(mutex_);
    return snapshot.users == 0 && snapshot.until != kNotGiven && snapshot.complete();
  }
  // Whether the event's last command is still to run.
  bool runs(ze_event_handle_t event) {
    const std::lock_guard<std::mutex> guard(mutex_);
    Given *command = of(event);
    if (command == nullptr) return false;
    read(*command, false);
    return command->state == Given::kPending;
  }
  void tell() {
    const uint64_t count = lost_.exchange(0);
    if (count == 0) return;
    occatrace_say("%llu commands of Level Zero have no duration: their event was used again before it was read, or has no timestamps",
                  static_cast<unsigned long long>(count));
  }
  void after_fork_child() {
    new (&mutex_) std::mutex;
    by_event_.unlock_after_fork();
    for (Given *command = first_; command != nullptr; command = command->next) by_event_.set(command->event, 0);
    first_ = nullptr;
    lost_ = 0;
  }

 private:
  // Under the lock. `last`: there will be no other chance.
  void read(Given &command, bool last) {
    if (command.state != Given::kPending) return;
    const uint64_t number = command.kept_in == nullptr ? command.number : command.kept_in->until;
    const bool over = number <= command.progress->complete.load(std::memory_order_acquire);
    Timestamps found{};
    bool readable = true;
    if (has_run(command, &found, &readable)) {
      if (readable && set(command, found)) return leave(command, Given::kKnown);
      last = true;
    }
    if (!last && !over) return;
    ++lost_;
    leave(command, Given::kLost);
  }
  static bool has_run(const Given &command, Timestamps *found, bool *readable) {
    if (command.kept_in != nullptr) {
      if (!command.kept_in->complete()) return false;
      *found = command.kept_in->times[command.step];
      return true;
    }
    uint64_t stale = command.stale;
    if (command.behind != nullptr) {
      if (!command.behind->complete()) return false;
      stale = command.behind->times[command.step].global.start;
    }
    if (command.returns_to != nullptr && !command.returns_to->alive()) return *readable = false, true;
    const auto to = reinterpret_cast<ze_kernel_timestamp_result_t *>(found);
    const ze_result_t result = loader().zeEventQueryKernelTimestamp(command.event, to);
    if (result == kSuccess) return stale == 0 || found->global.start != stale;
    *readable = false;
    return result != kNotReady && loader().zeEventQueryStatus(command.event) == kSuccess;
  }
  // Whether the timestamps are some: those of an event that was reset have all bits.
  static bool set(Given &command, const Timestamps &found) {
    Device &device = *command.device;
    const uint64_t mask = mask_of(device.kernel_bits);
    if ((found.global.start & mask) == mask && (found.global.end & mask) == mask) return false;
    const std::lock_guard<std::mutex> guard(device.mutex);
    const uint64_t start = unwrapped(found.global.start & mask, device.latest, device.kernel_bits);
    const uint64_t end = unwrapped(found.global.end & mask, start, device.kernel_bits);
    command.times.start = in_ns(device, start);
    command.times.end = in_ns(device, end);
    return true;
  }
  static void leave(Given &command, Given::State state) {
    command.state = state;
    for (Snapshot **used : {&command.behind, &command.kept_in}) {
      if (*used != nullptr) --(*used)->users;
      *used = nullptr;
    }
  }
  template <class Which>
  void settle_those(Which which) {
    const std::lock_guard<std::mutex> guard(mutex_);
    for (Given *command = first_; command != nullptr; command = command->next) {
      if (!which(*command)) continue;
      read(*command, true);
      if (of(command->event) == command) by_event_.set(command->event, 0);
    }
  }
  Given *of(ze_event_handle_t event) const { return reinterpret_cast<Given *>(by_event_.get(event)); }
  void forget(Given &command) {
    leave(command, command.state);
    if (command.next != nullptr) command.next->previous = command.previous;
    if (command.previous != nullptr) command.previous->next = command.next;
    if (first_ == &command) first_ = command.next;
    if (of(command.event) == &command) by_event_.set(command.event, 0);
  }

  std::mutex mutex_;
  HandleMap by_event_;       // the last command that signals it, until it is settled
  Given *first_ = nullptr;  // of all
  std::atomic<uint64_t> lost_{0};
};

inline const device::Vendor vendor{
    [](void *command, Times *times) { return Commands::instance().poll(*static_cast<Given *>(command), times); },
    [](void *command) { Commands::instance().release(static_cast<Given *>(command)); }};

// ---- lists and queues ----

// A queue, or an immediate list.
struct Line {
  Device *device;
  Queue *queue;
  bool synchronous;
  Progress progress;
};
struct List {
  ze_context_handle_t context;
  Device *device;
  OurEvents *ours;
  Line *line;  // of an immediate list
  uint32_t ordinal = 0;
  // Of a regular one: what it does at each execution.
  struct Step {
    ze_event_handle_t event;
    bool ours;
    bool timed;
    bool first;  // it has not run yet
    Work work;
    uint64_t stale = 0;  // the start that an event of the program's still has from the last execution
  };
  std::vector<Step> steps{};
  const Line *ran_in = nullptr;  // its last execution
  std::vector<std::unique_ptr<Snapshot>> snapshots{};
};

inline HandleMap lines, lists;
// Events of the program with timestamps, and their pools; of pools to which we gave the timestamps the flags that the program sees.
inline HandleMap timed_pools, timed_events, given_flags;
constexpr uint64_t kFlagsGiven = uint64_t{1} << 32;

template <class Object>
Object *find(const HandleMap &map, const void *handle) {
  return reinterpret_cast<Object *>(map.get(handle));
}

inline Line *add_line(const void *handle, ze_context_handle_t context, ze_device_handle_t device, bool synchronous) {
  Device &on = Devices::instance().of(device);
  Engine::be_first_at_exit();
  // Commands of a list may overlap.
  Queue &queue = Engine::instance().add_queue(vendor, *on.record, handle, context, device::kOutOfOrder);
  auto *line = new Line{&on, &queue, synchronous, {}};
  lines.set(handle, reinterpret_cast<uint64_t>(line));
  return line;
}
inline void drop_line(const void *handle) {
  Line *line = find<Line>(lines, handle);
  if (line == nullptr) return;
  line->progress.complete = line->progress.given.load();
  line->queue->harvest();
  Engine::instance().retire(*line->queue);
  // The record stays, small: commands may still point to it.
  lines.set(handle, 0);
}

// Gives the engine a command that was given to the device. `timed`: the event will say when it ran; otherwise it is recorded
// without a duration, and counted.
inline void push(Line &line, Given command, bool timed, Work work) {
  command.device = line.device;
  command.progress = &line.progress;
  command.state = timed ? Given::kPending : Given::kLost;
  work.event = Commands::instance().add(command);
  line.queue->push(work);
  if (!line.queue->used.load(std::memory_order_relaxed) && !line.queue->used.exchange(true)) Engine::be_first_at_exit();
}

// A call waited for the line: it is complete up to this command.
inline void see_complete(Line &line, uint64_t number) {
  uint64_t known = line.progress.complete.load();
  while (known < number && !line.progress.complete.compare_exchange_weak(known, number)) {
  }
  line.queue->harvest(true);
}

}  // namespace occatrace::ze
