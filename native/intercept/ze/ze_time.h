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
#include <unordered_set>
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

// Events of ours, by context and device.
class Events {
 public:
  static Events &instance() {
    static auto *const all = new Events;
    return *all;
  }
  ze_event_handle_t take(ze_context_handle_t context, ze_device_handle_t device) {
    const std::lock_guard<std::mutex> guard(mutex_);
    std::vector<ze_event_handle_t> &free = of_[context].free[device];
    if (free.empty() && !add(context, device)) return nullptr;
    const ze_event_handle_t event = free.back();
    free.pop_back();
    return event;
  }
  // Back for the next command. Of a context that is gone they are gone too.
  void give(ze_context_handle_t context, ze_device_handle_t device, ze_event_handle_t event) {
    const std::lock_guard<std::mutex> guard(mutex_);
    const auto found = of_.find(context);
    if (found == of_.end() || found->second.all.count(event) == 0) return;
    loader().zeEventHostReset(event);
    found->second.free[device].push_back(event);
  }
  void close(ze_context_handle_t context) {
    const std::lock_guard<std::mutex> guard(mutex_);
    const auto found = of_.find(context);
    if (found == of_.end()) return;
    for (const ze_event_handle_t event : found->second.all) loader().zeEventDestroy(event);
    for (const ze_event_pool_handle_t pool : found->second.pools) loader().zeEventPoolDestroy(pool);
    of_.erase(found);
  }
  void unlock_after_fork() { new (&mutex_) std::mutex; }

 private:
  static constexpr uint32_t kPool = 64;
  struct Context {
    std::unordered_map<ze_device_handle_t, std::vector<ze_event_handle_t>> free;
    std::unordered_set<ze_event_handle_t> all;
    std::vector<ze_event_pool_handle_t> pools;
  };
  bool add(ze_context_handle_t context, ze_device_handle_t device) {
    EventPoolDescriptor of_pool{{kEventPoolDescriptor, nullptr}, kHostVisible | kTimestamps, kPool};
    ze_event_pool_handle_t pool = nullptr;
    if (loader().zeEventPoolCreate(context, reinterpret_cast<const ze_event_pool_desc_t *>(&of_pool), 1, &device, &pool) != kSuccess)
      return false;
    Context &into = of_[context];
    into.pools.push_back(pool);
    for (uint32_t index = 0; index < kPool; ++index) {
      EventDescriptor of_event{{kEventDescriptor, nullptr}, index, kScopeHost, 0};
      ze_event_handle_t event = nullptr;
      if (loader().zeEventCreate(pool, reinterpret_cast<const ze_event_desc_t *>(&of_event), &event) != kSuccess) break;
      into.all.insert(event);
      into.free[device].push_back(event);
    }
    return !into.free[device].empty();
  }

  std::mutex mutex_;
  std::unordered_map<ze_context_handle_t, Context> of_;
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
  bool returns_event;  // ours, of an immediate list
  enum State { kPending, kKnown, kLost } state = kPending;
  Times times;
  // Of a command of a regular list.
  size_t step = 0;
  uint64_t stale = 0;           // the start that the event still has from the execution before; 0: none
  Snapshot *behind = nullptr;   // it runs after this copy of what the execution before left
  Snapshot *kept_in = nullptr;  // its own times will be here
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
    if (made->kept_in != nullptr) return kept_.insert(made), made;
    Given *&before = pending_[made->event];
    if (before != nullptr) read(*before, true);
    before = made;
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
    if (command->returns_event) Events::instance().give(command->context, command->device->handle, command->event);
    delete command;
  }
  // The event is about to be reset, signaled again or destroyed: what its last command left is read now or never.
  void settle(ze_event_handle_t event) {
    const std::lock_guard<std::mutex> guard(mutex_);
    const auto found = pending_.find(event);
    if (found == pending_.end()) return;
    read(*found->second, true);
    pending_.erase(found);
  }
  // The same for all of a context that is about to go.
  void settle_all(ze_context_handle_t context) {
    const std::lock_guard<std::mutex> guard(mutex_);
    for (auto at = pending_.begin(); at != pending_.end();) {
      if (at->second->context == context) read(*at->second, true);
      at = at->second->context == context ? pending_.erase(at) : std::next(at);
    }
    settle_kept([context](const Given &command) { return command.context == context; });
  }
  // The same for what a snapshot has, which is about to go.
  void settle(const Snapshot &snapshot) {
    const std::lock_guard<std::mutex> guard(mutex_);
    settle_kept([&snapshot](const Given &command) { return command.kept_in == &snapshot; });
  }
  // The last command that signals the event will have been copied before the event is signaled again.
  void keep(ze_event_handle_t event, Snapshot &in) {
    const std::lock_guard<std::mutex> guard(mutex_);
    const auto found = pending_.find(event);
    if (found == pending_.end()) return;
    Given *command = found->second;
    pending_.erase(found);
    if (command->state != Given::kPending) return;
    command->kept_in = &in;
    ++in.users;
    kept_.insert(command);
  }
  // The copy was given to the device, with commands up to this number.
  void give(Snapshot &snapshot, uint64_t number) {
    const std::lock_guard<std::mutex> guard(mutex_);
    snapshot.until = number;
  }
  // Or refused by the driver.
  void give_up(const Snapshot &snapshot) {
    const std::lock_guard<std::mutex> guard(mutex_);
    for (auto at = kept_.begin(); at != kept_.end();) {
      Given *command = *at;
      at = command->kept_in == &snapshot ? kept_.erase(at) : std::next(at);
      if (command->kept_in != &snapshot) continue;
      --command->kept_in->users;
      command->kept_in = nullptr;
      pending_[command->event] = command;
    }
  }
  bool is_free(const Snapshot &snapshot) {
    const std::lock_guard<std::mutex> guard(mutex_);
    return snapshot.users == 0 && snapshot.until != kNotGiven && snapshot.complete();
  }
  // Whether the event's last command is still to run.
  bool runs(ze_event_handle_t event) {
    const std::lock_guard<std::mutex> guard(mutex_);
    const auto found = pending_.find(event);
    if (found == pending_.end()) return false;
    read(*found->second, false);
    return found->second->state == Given::kPending;
  }
  void tell() {
    const uint64_t count = lost_.exchange(0);
    if (count == 0) return;
    occatrace_say("%llu commands of Level Zero have no duration: their event was used again before it was read, or has no timestamps",
                  static_cast<unsigned long long>(count));
  }
  void after_fork_child() {
    new (&mutex_) std::mutex;
    pending_.clear();
    kept_.clear();
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
    if (loader().zeEventQueryStatus(command.event) != kSuccess) return false;
    *readable =
        loader().zeEventQueryKernelTimestamp(command.event, reinterpret_cast<ze_kernel_timestamp_result_t *>(found)) == kSuccess;
    return !*readable || stale == 0 || found->global.start != stale;
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
  void settle_kept(Which which) {
    for (auto at = kept_.begin(); at != kept_.end();) {
      Given *command = *at;
      const bool chosen = which(*command);
      if (chosen) read(*command, true);
      at = chosen ? kept_.erase(at) : std::next(at);
    }
  }
  void forget(Given &command) {
    kept_.erase(&command);
    leave(command, command.state);
    const auto found = pending_.find(command.event);
    if (found != pending_.end() && found->second == &command) pending_.erase(found);
  }

  std::mutex mutex_;
  std::unordered_map<ze_event_handle_t, Given *> pending_;
  std::unordered_set<Given *> kept_;  // pending ones that a snapshot will have
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
  std::vector<Step> steps;
  const Line *ran_in = nullptr;  // its last execution
  std::vector<std::unique_ptr<Snapshot>> snapshots;
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
