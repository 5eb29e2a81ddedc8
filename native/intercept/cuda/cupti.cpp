// CUPTI's activity records: see cupti.h.
#include "cupti.h"

#include <dlfcn.h>
#include <link.h>
#include <time.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <new>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "../libraries/libraries.h"
#include "cupti_watch.h"
#include "made_once.h"
#include "occatrace_core.h"
#include "tickets.h"

namespace occatrace::cupti {

namespace {

namespace tickets = device::tickets;

// ---- facts of CUPTI's headers, the same in versions 11 to 13 ----

using Result = int;
constexpr Result kTaken = 39;  // CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED
constexpr uint32_t kForced = 1;
constexpr int kDriverDomain = 1, kRuntimeDomain = 2;  // CUPTI_CB_DOMAIN_DRIVER_API, …_RUNTIME_API
// Numbers of functions: where so many in a row have no name, no more come.
constexpr uint32_t kUnnamed = 256;

enum Kind : uint32_t {
  kMemcpy = 1,
  kMemset = 2,
  kConcurrentKernel = 10,
  kMemcpyPeer = 22,
  kManaged = 25,
  kSynchronization = 38,
  kGraph = 51,
};

// Where a record has its times and its correlation: what every version of its structure begins with.
struct Layout {
  uint32_t kind;
  uint16_t start, end, correlation;
};
constexpr Layout layouts[] = {
    {kConcurrentKernel, 16, 24, 92},  // CUpti_ActivityKernel4 to 10
    {kMemcpy, 16, 24, 44},            // CUpti_ActivityMemcpy3 to 7
    {kMemcpyPeer, 16, 24, 60},        // CUpti_ActivityMemcpyPtoP2 to 4
    {kMemset, 16, 24, 44},            // CUpti_ActivityMemset to 5
    {kGraph, 8, 16, 4},               // CUpti_ActivityGraphTrace, 2
};
// CUpti_ActivityUnifiedMemoryCounter2, 3; CUpti_ActivitySynchronization, 2.
constexpr uint16_t kManagedKind = 4, kManagedValue = 8, kManagedStart = 16, kManagedEnd = 24, kManagedAddress = 32, kManagedFrom = 40,
                   kManagedTo = 44;
constexpr uint16_t kWaitKind = 4, kWaitStart = 8, kWaitEnd = 16, kWaitCorrelation = 24;

// The driver's functions that give commands, both variants. (CUPTI_DRIVER_TRACE_CBID_…)
constexpr uint16_t commands[] = {53, 54, 55, 66, 67, 115, 116, 117, 776, 777, 778, 779, 784, 785, 791, 792,
                                 796, 797, 798, 799,
                                 216, 218, 220, 222, 224, 226, 249, 250, 251, 252, 253, 254, 276, 277, 278, 279,
                                 280, 281, 282, 283, 284, 285, 286, 287, 288, 289, 290, 291, 292, 293, 305, 306,
                                 307, 318, 319, 320, 321, 397, 398, 399, 400, 401, 402, 403, 404, 405, 406, 407,
                                 408, 409, 410, 411, 412, 413, 414, 415, 416, 418, 419, 420, 421, 422, 423, 424,
                                 425, 426, 427, 428, 429, 430, 431, 432, 433, 442, 477, 478, 514, 515, 652, 653};

// Those that wait.
constexpr uint16_t waiting[] = {17, 121, 126, 295, 436, 440, 800};

// The functions of the runtime that give commands or wait, by the first letters of their names.
constexpr const char *of_runtime[] = {"cudaLaunch", "__cudaLaunch", "cudaMemcpy", "cudaMemset",
                                      "cudaGraphLaunch", "cudaMemPrefetch", "cudaMemDiscard", "cudaStreamSynchronize",
                                      "cudaDeviceSync", "cudaStreamWaitEvent", "cudaEventSynchronize", "cudaThreadSync"};

// CUpti_ActivityUnifiedMemoryCounterConfig: of one device.
struct ManagedConfig {
  uint32_t scope, kind, device, enable;
};
constexpr uint32_t kOneDevice = 1;

struct Functions {
  Result (*version)(uint32_t *);
  Result (*subscribe)(void **, void (*)(void *, int, uint32_t, const void *), void *);
  Result (*unsubscribe)(void *);
  Result (*enable)(uint32_t);
  Result (*disable)(uint32_t);
  Result (*register_callbacks)(void (*)(uint8_t **, size_t *, size_t *), void (*)(void *, uint32_t, uint8_t *, size_t, size_t));
  Result (*next_record)(uint8_t *, size_t, void **);
  Result (*dropped)(void *, uint32_t, size_t *);
  Result (*flush_all)(uint32_t);
  Result (*callback_name)(int, uint32_t, const char **);
  Result (*enable_callback)(uint32_t, void *, int, uint32_t);
  // Not in every version.
  Result (*register_clock)(uint64_t (*)());
  Result (*timestamp)(uint64_t *);
  Result (*configure_managed)(ManagedConfig *, uint32_t);
};
Functions cupti;

uint32_t api_version = 0;
bool own_clock = false;  // CUPTI stamps by our clock

// ---- records ----

constexpr size_t kBuffer = 256 << 10;

std::mutex buffers_mutex;
// All that were ever given to CUPTI, and those that it gave back.
std::vector<uint8_t *> &made_buffers() {
  static std::atomic<std::vector<uint8_t *> *> all;
  return device::made_once(all);
}
std::vector<uint8_t *> &free_buffers() {
  static std::atomic<std::vector<uint8_t *> *> all;
  return device::made_once(all);
}

template <class T>
T field(const void *record, size_t at) {
  T value;
  std::memcpy(&value, static_cast<const char *>(record) + at, sizeof value);
  return value;
}

// ---- waits ----

constexpr size_t kMostWaits = 1 << 16;

std::atomic<bool> waits_recorded{false};
std::mutex waits_mutex;
struct WaitTimes {
  uint8_t kind;
  uint64_t start, end;
};
// By correlation: what the call said, and what the record said, until both are there.
std::unordered_map<uint32_t, occatrace_wait> &called() {
  static std::atomic<std::unordered_map<uint32_t, occatrace_wait> *> all;
  return device::made_once(all);
}
std::unordered_map<uint32_t, WaitTimes> &recorded() {
  static std::atomic<std::unordered_map<uint32_t, WaitTimes> *> all;
  return device::made_once(all);
}

void write_wait(occatrace_wait wait, const WaitTimes &times) {
  wait.kind = times.kind;
  wait.start = times.start;
  wait.end = times.end;
  ::occatrace_write_wait(&wait);
}

void told_wait_call(uint32_t correlation, const occatrace_wait &wait) {
  WaitTimes times;
  {
    std::lock_guard<std::mutex> guard(waits_mutex);
    const auto found = recorded().find(correlation);
    if (found == recorded().end()) {
      // Of calls that failed no record comes. Bounded.
      if (called().size() >= kMostWaits) called().clear();
      called()[correlation] = wait;
      return;
    }
    times = found->second;
    recorded().erase(found);
  }
  write_wait(wait, times);
}

void take_wait(const void *record) {
  const WaitTimes times{static_cast<uint8_t>(field<uint32_t>(record, kWaitKind)), field<uint64_t>(record, kWaitStart),
                        field<uint64_t>(record, kWaitEnd)};
  occatrace_wait wait;
  {
    std::lock_guard<std::mutex> guard(waits_mutex);
    const auto correlation = field<uint32_t>(record, kWaitCorrelation);
    const auto found = called().find(correlation);
    if (found == called().end()) {
      if (recorded().size() >= kMostWaits) recorded().clear();
      recorded()[correlation] = times;
      return;
    }
    wait = found->second;
    called().erase(found);
  }
  write_wait(wait, times);
}

// ---- managed memory ----

std::atomic<uint32_t (*)(uint32_t)> device_of_number{nullptr};

void take_managed(const void *record) {
  const auto device_of = device_of_number.load();
  if (device_of == nullptr) return;
  constexpr uint32_t to_device = OCCATRACE_MANAGED_HTOD, faults_of_host = OCCATRACE_MANAGED_CPU_PAGE_FAULTS;
  occatrace_managed m = {};
  const auto kind = field<uint32_t>(record, kManagedKind);
  m.kind = static_cast<uint8_t>(kind);
  m.start = field<uint64_t>(record, kManagedStart);
  m.end = field<uint64_t>(record, kManagedEnd);
  m.value = field<uint64_t>(record, kManagedValue);
  m.address = field<uint64_t>(record, kManagedAddress);
  if (kind != faults_of_host) m.device = device_of(field<uint32_t>(record, kind == to_device ? kManagedTo : kManagedFrom));
  // A fault of the host has no end: what stands there says nothing. Its value is the instruction that caused it, not a count.
  if (kind == faults_of_host) m.value = 1;
  if (kind == faults_of_host || m.end < m.start) m.end = m.start;
  ::occatrace_write_managed(&m);
}

void take_work(const void *record, const Layout &layout) {
  tickets::told_work(field<uint32_t>(record, layout.correlation), field<uint64_t>(record, layout.start),
                     field<uint64_t>(record, layout.end));
}

void buffer_wanted(uint8_t **buffer, size_t *size, size_t *most) {
  *most = 0;
  *size = kBuffer;
  {
    std::lock_guard<std::mutex> guard(buffers_mutex);
    if (!free_buffers().empty()) {
      *buffer = free_buffers().back();
      free_buffers().pop_back();
      return;
    }
  }
  *buffer = static_cast<uint8_t *>(std::aligned_alloc(8, kBuffer));
  if (*buffer == nullptr) {
    *size = 0;
    return;
  }
  std::lock_guard<std::mutex> guard(buffers_mutex);
  made_buffers().push_back(*buffer);
}

void buffer_full(void *context, uint32_t stream, uint8_t *buffer, size_t, size_t valid) {
  void *record = nullptr;
  while (valid != 0 && cupti.next_record(buffer, valid, &record) == 0) {
    const auto kind = field<uint32_t>(record, 0);
    if (kind == kSynchronization) take_wait(record);
    if (kind == kManaged) take_managed(record);
    for (const Layout &layout : layouts) {
      if (layout.kind == kind) take_work(record, layout);
    }
  }
  {
    std::lock_guard<std::mutex> guard(buffers_mutex);
    free_buffers().push_back(buffer);
  }
  size_t dropped = 0;
  if (cupti.dropped(context, stream, &dropped) == 0 && dropped != 0)
    occatrace_say("CUPTI had no room for %zu records: as many pieces of device work have no times", dropped);
}

// The program has CUPTI now: nothing of ours is asked of it.
std::atomic<bool> yielded{false};

// CUPTI keeps the clock that it was given, and cannot be given its own again: CLOCK_REALTIME.
uint64_t our_clock() {
  if (!yielded.load(std::memory_order_relaxed)) return occatrace_now();
  timespec now;
  clock_gettime(CLOCK_REALTIME, &now);
  return static_cast<uint64_t>(now.tv_sec) * 1'000'000'000 + static_cast<uint64_t>(now.tv_nsec);
}

// ---- the numbers of calls ----

// Work has the number of the call that launched it, which CUPTI's callbacks say. External correlation ids would cost a record
// for each call, and another for each id.

// The work of a call of the runtime has that call's number, not that of the driver's calls within it; the outermost counts.
thread_local uint32_t within_runtime = 0;

// What the driver's call that this thread is about to make gives to the device, or waits for.
thread_local uint64_t pending_ticket = 0;
thread_local occatrace_wait pending_wait;
thread_local bool is_wait_pending = false;

void driver_called(const CallbackData &call) {
  if (call.site != 0) return;
  if (const uint64_t ticket = std::exchange(pending_ticket, 0)) tickets::told_call(ticket, call.correlation);
  if (std::exchange(is_wait_pending, false)) told_wait_call(call.correlation, pending_wait);
}

void runtime_called(const CallbackData &call) {
  if (call.site == 0) {
    if (within_runtime == 0) within_runtime = call.correlation;
  } else if (within_runtime == call.correlation) {
    within_runtime = 0;
  }
}

// Null where the shim sees the driver's calls.
void (*told_of_driver)(void *, int, uint32_t, const void *) = nullptr;
void told(void *user, int domain, uint32_t number, const void *data) {
  if (domain == kRuntimeDomain) return runtime_called(*static_cast<const CallbackData *>(data));
  if (told_of_driver == nullptr) return driver_called(*static_cast<const CallbackData *>(data));
  told_of_driver(user, domain, number, data);
}

// Asks for the calls of these functions of the driver; false: of none.
template <class Numbers>
bool enable_driver(void *subscriber, const Numbers &numbers) {
  bool some = false;
  for (const uint32_t number : numbers) some |= cupti.enable_callback(1, subscriber, kDriverDomain, number) == 0;
  return some;
}

// The functions of a domain that have names.
template <class Visit>
void each_function(int domain, Visit visit) {
  for (uint32_t number = 1, unnamed = 0; unnamed < kUnnamed; ++number) {
    const char *name = nullptr;
    if (cupti.callback_name(domain, number, &name) != 0 || name == nullptr) {
      ++unnamed;
      continue;
    }
    unnamed = 0;
    visit(number, name);
  }
}

bool enable_runtime(void *subscriber) {
  bool some = false;
  each_function(kRuntimeDomain, [&](uint32_t number, const char *name) {
    const auto begins = [name](const char *with) { return std::strncmp(name, with, std::strlen(with)) == 0; };
    if (std::any_of(std::begin(of_runtime), std::end(of_runtime), begins))
      some |= cupti.enable_callback(1, subscriber, kRuntimeDomain, number) == 0;
  });
  return some;
}

// ---- start ----

const char *const names[] = {"libcupti.so.13", "libcupti.so.12", "libcupti.so.11.8", "libcupti.so"};

// Where CUPTI may be: where the program has it (the driver takes no other after ours), as the loader finds it, or in a toolkit.
std::vector<std::string> candidates() {
  if (const char *given = setting("OCCATRACE_CUPTI")) return {given};
  std::vector<std::string> all(std::begin(names), std::end(names));
  std::stable_partition(all.begin(), all.end(), [](const std::string &name) { return is_loaded(name.c_str()); });
  for (const char *variable : {"CUDA_HOME", "CUDA_PATH"}) {
    if (const char *folder = setting(variable)) all.push_back(std::string(folder) + "/extras/CUPTI/lib64/libcupti.so");
  }
  all.push_back("/usr/local/cuda/extras/CUPTI/lib64/libcupti.so");
  return all;
}

// CUPTI opens the driver as the program does, and finds the shim: its own calls are none of the program's.
void note_place(const void *function) {
  struct Found {
    uintptr_t address, begin, end;
  } found{reinterpret_cast<uintptr_t>(function), 0, 0};
  dl_iterate_phdr(
      [](dl_phdr_info *info, size_t, void *data) {
        auto &wanted = *static_cast<Found *>(data);
        uintptr_t begin = UINTPTR_MAX, end = 0;
        for (int i = 0; i < info->dlpi_phnum; ++i) {
          if (info->dlpi_phdr[i].p_type != PT_LOAD) continue;
          const uintptr_t from = info->dlpi_addr + info->dlpi_phdr[i].p_vaddr;
          begin = std::min(begin, from);
          end = std::max(end, from + info->dlpi_phdr[i].p_memsz);
        }
        if (wanted.address < begin || wanted.address >= end) return 0;
        wanted.begin = begin, wanted.end = end;
        return 1;
      },
      &found);
  place.begin.store(found.begin, std::memory_order_relaxed);
  place.size.store(found.end - found.begin, std::memory_order_relaxed);
}

bool bind_all(void *library) {
  bind(library, "cuptiActivityRegisterTimestampCallback", &cupti.register_clock);
  bind(library, "cuptiActivityConfigureUnifiedMemoryCounter", &cupti.configure_managed);
  return bind(library, "cuptiGetCallbackName", &cupti.callback_name) && bind(library, "cuptiEnableCallback", &cupti.enable_callback) &&
         bind(library, "cuptiGetVersion", &cupti.version) && bind(library, "cuptiSubscribe", &cupti.subscribe) &&
         bind(library, "cuptiUnsubscribe", &cupti.unsubscribe) && bind(library, "cuptiActivityEnable", &cupti.enable) &&
         bind(library, "cuptiActivityDisable", &cupti.disable) &&
         bind(library, "cuptiActivityRegisterCallbacks", &cupti.register_callbacks) &&
         bind(library, "cuptiActivityGetNextRecord", &cupti.next_record) &&
         bind(library, "cuptiActivityGetNumDroppedRecords", &cupti.dropped) &&
         bind(library, "cuptiActivityFlushAll", &cupti.flush_all) && bind(library, "cuptiGetTimestamp", &cupti.timestamp);
}

bool enable_work() {
  for (const uint32_t kind : {kConcurrentKernel, kMemcpy, kMemset}) {
    if (cupti.enable(kind) != 0) return false;
  }
  // Where these are missing only such work has no times.
  cupti.enable(kMemcpyPeer);
  cupti.enable(kGraph);
  return true;
}

void disable_all() {
  for (const uint32_t kind : {kConcurrentKernel, kMemcpy, kMemset, kMemcpyPeer, kGraph, kManaged, kSynchronization}) cupti.disable(kind);
}

bool push(uint64_t ticket) {
  if (within_runtime != 0) {
    tickets::told_call(ticket, within_runtime);
  } else {
    pending_ticket = ticket;
  }
  return true;
}
void pop() { pending_ticket = 0; }
void flush(bool all) {
  if (!yielded.load(std::memory_order_relaxed)) cupti.flush_all(all ? kForced : 0);
}
uint64_t stamp() {
  uint64_t now = 0;
  return own_clock || cupti.timestamp(&now) != 0 ? occatrace_now() : now;
}
constexpr device::Source records{"CUPTI", push, pop, flush, stamp};

// In callbacks the call's number is known as it begins.
thread_local uint32_t calling_now = 0;
bool by_callbacks = false;
uint32_t number_of_call() { return within_runtime != 0 ? within_runtime : calling_now; }
bool tell(uint64_t ticket) {
  tickets::told_call(ticket, number_of_call());
  return true;
}
constexpr device::Source records_of_callbacks{"CUPTI", tell, [] {}, flush, stamp};

// ---- who has CUPTI ----

void *subscription = nullptr;
void (*release)() = nullptr;
std::mutex holding;
// In our own calls of CUPTI, which may call functions of its own that are preloaded.
thread_local bool ours_now = false;
struct Ours {
  const bool before = std::exchange(ours_now, true);
  Ours() = default;
  ~Ours() { ours_now = before; }
  Ours(const Ours &) = delete;
  Ours &operator=(const Ours &) = delete;
};

void wanted_by_program() {
  if (ours_now) return;
  std::lock_guard<std::mutex> guard(holding);
  if (subscription == nullptr) return;
  const Ours ours;
  release();
  yielded.store(true);
  waits_recorded = false;
  disable_all();
  cupti.unsubscribe(std::exchange(subscription, nullptr));
}

int is_our_buffer(uint8_t *buffer) {
  std::lock_guard<std::mutex> guard(buffers_mutex);
  const auto &all = made_buffers();
  return std::find(all.begin(), all.end(), buffer) != all.end();
}

std::atomic<void *> serving{nullptr};

const occatrace_cupti_watch watching{wanted_by_program, is_our_buffer, [] { return serving.load(); }, &watching};

// Whether the program may have CUPTI when it wants it; `taken`: it has it.
bool is_watched(bool *taken) {
  auto *watch = reinterpret_cast<decltype(&occatrace_watch_cupti)>(dlsym(RTLD_DEFAULT, "occatrace_watch_cupti"));
  if (watch == nullptr) return false;
  *taken = watch(&watching) != 0;
  return true;
}

// Opens CUPTI and subscribes.
void *subscribe(const char **why) {
  bool theirs = false;
  if (!is_watched(&theirs)) theirs = is_loaded(names);
  if (theirs) {
    *why = "the program uses CUPTI itself";
    return nullptr;
  }
  *why = "libcupti was not found";
  for (const std::string &path : candidates()) {
    void *library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (library == nullptr) continue;
    *why = "this libcupti lacks functions";
    if (!bind_all(library)) continue;
    note_place(reinterpret_cast<const void *>(cupti.subscribe));
    void *subscriber = nullptr;
    const Result taken = cupti.subscribe(&subscriber, told, nullptr);
    if (taken == 0) {
      serving.store(library);
      return subscriber;
    }
    // One of another version than the driver's refuses; there may be one that fits.
    *why = taken == kTaken ? "another tool has CUPTI" : "CUPTI refuses (is it of the driver's version?)";
    if (taken == kTaken) break;
  }
  return nullptr;
}

bool record() {
  own_clock = cupti.register_clock != nullptr && cupti.register_clock(our_clock) == 0;
  cupti.version(&api_version);
  if (cupti.register_callbacks(buffer_wanted, buffer_full) == 0 && enable_work()) return true;
  disable_all();
  return false;
}

void hold(void *subscriber, void (*before_release)()) {
  std::lock_guard<std::mutex> guard(holding);
  release = before_release;
  subscription = subscriber;
}

bool enable_calls(const Calls &calls, void *subscriber) {
  // Those that are enabled are told of at once, in other threads too: by then all are known.
  std::vector<uint32_t> wanted;
  each_function(kDriverDomain, [&](uint32_t number, const char *name) {
    if (calls.wants(number, name)) wanted.push_back(number);
  });
  return enable_driver(subscriber, wanted);
}

}  // namespace

Place place;

uint32_t version() { return api_version; }

const device::Source *start(void (*before_release)(), const char **why) {
  const Ours ours;
  void *subscriber = subscribe(why);
  if (subscriber == nullptr) return nullptr;
  if (enable_runtime(subscriber) && enable_driver(subscriber, commands) && record()) {
    hold(subscriber, before_release);
    return &records;
  }
  cupti.unsubscribe(subscriber);
  *why = "CUPTI refuses to record";
  return nullptr;
}

bool start_with_calls(const Calls &calls, const device::Source **source, const char **why) {
  const Ours ours;
  *source = nullptr;
  told_of_driver = calls.told;
  void *subscriber = subscribe(why);
  if (subscriber == nullptr) return false;
  if (!enable_calls(calls, subscriber)) {
    cupti.unsubscribe(subscriber);
    *why = "CUPTI refuses to tell of calls";
    return false;
  }
  by_callbacks = true;
  if (calls.work) enable_runtime(subscriber);
  if (calls.work && record()) *source = &records_of_callbacks;
  hold(subscriber, calls.before_release);
  return true;
}

void calling(uint32_t correlation) { calling_now = correlation; }

void record_managed(int devices, uint32_t (*device_of)(uint32_t), bool faults) {
  static std::atomic<bool> done{false};
  if (!own_clock || yielded || cupti.configure_managed == nullptr || devices < 1 || done.exchange(true)) return;
  const Ours ours;
  device_of_number = device_of;
  const auto configure = [devices](uint32_t from, uint32_t to) {
    std::vector<ManagedConfig> all;
    for (uint32_t device = 0; device < static_cast<uint32_t>(devices); ++device) {
      for (uint32_t kind = from; kind <= to; ++kind) all.push_back({kOneDevice, kind, device, 1});
    }
    return cupti.configure_managed(all.data(), static_cast<uint32_t>(all.size())) == 0;
  };
  bool some = configure(1, 2);
  if (faults) some |= configure(3, 4);
  if (some) cupti.enable(kManaged);
}

void record_waits() {
  const Ours ours;
  std::lock_guard<std::mutex> guard(holding);
  if (subscription == nullptr || !own_clock || cupti.enable(kSynchronization) != 0) return;
  waits_recorded = true;
  if (!by_callbacks) enable_driver(subscription, waiting);
}
bool waits() { return waits_recorded.load(std::memory_order_relaxed); }
void wait_begins(const occatrace_wait &wait) {
  if (by_callbacks || within_runtime != 0) {
    told_wait_call(number_of_call(), wait);
  } else {
    pending_wait = wait;
    is_wait_pending = true;
  }
}
void wait_ends() { is_wait_pending = false; }

void after_fork_child() {
  new (&buffers_mutex) std::mutex;
  new (&waits_mutex) std::mutex;
  new (&holding) std::mutex;
  subscription = nullptr;
  waits_recorded = false;
}

}  // namespace occatrace::cupti
