// A fake driver of Level Zero on CPU threads, which the real loader loads by ZE_ENABLE_ALT_DRIVERS. A queue is a thread that does
// its commands one after another. Kernels are `tick` and `tock`, which last as many nanoseconds as their first argument says;
// copies and fills really copy and last a nanosecond per byte at least. The device's timer counts 19.2 MHz from a start of its own:
// the timestamps of the device have 36 valid bits, those of kernels 32, which wrap while a program of the tests runs
// (FAKE_ZE_WRAPS_IN_MS). FAKE_ZE_LOG names a file that gets a line for each command that ran: what, and the host's times (ns).
#include <level_zero/ze_api.h>
#include <level_zero/ze_ddi.h>
#include <time.h>

#include <atomic>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <functional>
#include <map>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

namespace {

constexpr uint64_t kFrequency = 19'200'000;
constexpr uint64_t kKernelBits = 32, kDeviceBits = 36;

uint64_t now() {
  timespec at;
  clock_gettime(CLOCK_MONOTONIC, &at);
  return static_cast<uint64_t>(at.tv_sec) * 1'000'000'000 + static_cast<uint64_t>(at.tv_nsec);
}
uint64_t cycles(uint64_t host) {
  static const uint64_t base = [] {
    const char *wraps = std::getenv("FAKE_ZE_WRAPS_IN_MS");
    const uint64_t left = (wraps == nullptr ? 100'000 : std::strtoull(wraps, nullptr, 10)) * (kFrequency / 1000);
    return (uint64_t{7} << kKernelBits) - left;
  }();
  static const uint64_t begin = now();
  const auto elapsed = static_cast<__uint128_t>(host - begin) * kFrequency / 1'000'000'000;
  return base + static_cast<uint64_t>(elapsed);
}
uint64_t cut(uint64_t value, uint64_t bits) { return value & ((uint64_t{1} << bits) - 1); }

std::mutex lock;
std::condition_variable changed;

void log(const std::string &what, uint64_t start, uint64_t end) {
  static FILE *const file = std::getenv("FAKE_ZE_LOG") == nullptr ? nullptr : std::fopen(std::getenv("FAKE_ZE_LOG"), "w");
  if (file == nullptr) return;
  std::fprintf(file, "%s %llu %llu\n", what.c_str(), static_cast<unsigned long long>(start), static_cast<unsigned long long>(end));
  std::fflush(file);
}

struct Event {
  bool timed;
  bool signaled = false;
  uint64_t start = 0, end = 0;
};
struct Pool {
  bool timed;
};
struct Command {
  std::string name;  // empty: nothing of the device's
  std::function<void()> work;
  uint64_t at_least = 0;
  Event *signal = nullptr, *reset = nullptr;
  std::vector<Event *> waits;
};
struct Fence {
  bool signaled = false;
};
struct Batch {
  std::vector<Command> commands;
  Fence *fence;
};

struct Queue {
  std::deque<Batch> batches;
  size_t unfinished = 0;
  bool ends = false;
  std::thread thread{[this] { run(); }};

  void give(std::vector<Command> commands, Fence *fence = nullptr) {
    const std::lock_guard<std::mutex> guard(lock);
    batches.push_back({std::move(commands), fence});
    unfinished++;
    changed.notify_all();
  }
  ze_result_t wait(uint64_t timeout) {
    std::unique_lock<std::mutex> guard(lock);
    const auto done = [this] { return unfinished == 0; };
    if (timeout == UINT64_MAX) return changed.wait(guard, done), ZE_RESULT_SUCCESS;
    return changed.wait_for(guard, std::chrono::nanoseconds(timeout), done) ? ZE_RESULT_SUCCESS : ZE_RESULT_NOT_READY;
  }
  void run() {
    std::unique_lock<std::mutex> guard(lock);
    for (;;) {
      changed.wait(guard, [this] { return ends || !batches.empty(); });
      if (batches.empty()) return;
      const Batch batch = std::move(batches.front());
      batches.pop_front();
      for (const Command &command : batch.commands) one(command, guard);
      if (batch.fence != nullptr) batch.fence->signaled = true;
      unfinished--;
      changed.notify_all();
    }
  }
  void one(const Command &command, std::unique_lock<std::mutex> &guard) {
    for (Event *event : command.waits) changed.wait(guard, [event] { return event->signaled; });
    guard.unlock();
    const uint64_t start = now();
    if (command.work) command.work();
    while (now() - start < command.at_least) {
    }
    const uint64_t end = now();
    if (!command.name.empty()) log(command.name, start, end);
    guard.lock();
    if (command.reset != nullptr) command.reset->signaled = false;
    if (command.signal != nullptr) {
      command.signal->start = cycles(start);
      command.signal->end = cycles(end);
      command.signal->signaled = true;
    }
    changed.notify_all();
  }
};
struct List {
  Queue *queue;  // of an immediate one
  bool synchronous = false;
  bool closed = false;
  std::vector<Command> commands;

  ze_result_t append(Command command) {
    if (queue == nullptr) {
      if (closed) return ZE_RESULT_ERROR_INVALID_ARGUMENT;
      commands.push_back(std::move(command));
      return ZE_RESULT_SUCCESS;
    }
    queue->give({std::move(command)});
    return synchronous ? queue->wait(UINT64_MAX) : ZE_RESULT_SUCCESS;
  }
};
struct Kernel {
  std::string name;
  uint64_t duration = 0;
};

std::map<uintptr_t, std::pair<size_t, ze_memory_type_t>> memory;

template <class Object, class Handle>
Object *of(Handle handle) {
  return reinterpret_cast<Object *>(handle);
}
template <class Handle>
void give(Handle *to, void *object) {
  *to = reinterpret_cast<Handle>(object);
}
template <class Object, class Handle>
ze_result_t drop(Handle handle) {
  delete of<Object>(handle);
  return ZE_RESULT_SUCCESS;
}
int driver, device, tiles[2], context, module;
bool ready;

// ---- drivers and devices ----

ze_result_t init(ze_init_flags_t flags) {
  ready = flags != ZE_INIT_FLAG_VPU_ONLY;
  return ready ? ZE_RESULT_SUCCESS : ZE_RESULT_ERROR_UNINITIALIZED;
}
template <class Parent, class Handle, int *only>
ze_result_t get(Parent, uint32_t *count, Handle *to) {
  if (to != nullptr && *count != 0) give(to, only);
  *count = 1;
  return ZE_RESULT_SUCCESS;
}
ze_result_t get_driver(uint32_t *count, ze_driver_handle_t *to) { return get<int, ze_driver_handle_t, &driver>(0, count, to); }
ze_result_t api_version(ze_driver_handle_t, ze_api_version_t *version) {
  *version = ZE_API_VERSION_1_3;
  return ZE_RESULT_SUCCESS;
}
ze_result_t driver_properties(ze_driver_handle_t, ze_driver_properties_t *properties) {
  properties->driverVersion = 42;
  return ZE_RESULT_SUCCESS;
}
// A function of the vendor's own, and one that the loader does not export: a driver's own way to free memory.
ze_result_t vendors_own(int value) { return value == 1 ? ZE_RESULT_SUCCESS : ZE_RESULT_ERROR_UNKNOWN; }
ze_result_t pitch_for_image(ze_context_handle_t, ze_device_handle_t, size_t width, size_t, unsigned element, size_t *pitch) {
  *pitch = width * element;
  return ZE_RESULT_SUCCESS;
}
ze_result_t extension_function(ze_driver_handle_t, const char *name, void **address) {
  *address = nullptr;
  if (std::strcmp(name, "zexVendorsOwn") == 0) *address = reinterpret_cast<void *>(vendors_own);
  if (std::strcmp(name, "zeMemGetPitchFor2dImage") == 0) *address = reinterpret_cast<void *>(pitch_for_image);
  return *address != nullptr ? ZE_RESULT_SUCCESS : ZE_RESULT_ERROR_INVALID_ARGUMENT;
}
ze_result_t sub_devices(ze_device_handle_t, uint32_t *count, ze_device_handle_t *to) {
  for (uint32_t i = 0; to != nullptr && i < *count && i < 2; i++) give(to + i, &tiles[i]);
  *count = 2;
  return ZE_RESULT_SUCCESS;
}
ze_result_t device_properties(ze_device_handle_t which, ze_device_properties_t *properties) {
  for (uint32_t i = 0; i < 2; i++) {
    if (of<int>(which) != &tiles[i]) continue;
    properties->flags = ZE_DEVICE_PROPERTY_FLAG_SUBDEVICE;
    properties->subdeviceId = i;
  }
  properties->type = ZE_DEVICE_TYPE_GPU;
  properties->vendorId = 0x8086;
  const bool by_frequency = properties->stype == ZE_STRUCTURE_TYPE_DEVICE_PROPERTIES_1_2;
  properties->timerResolution = by_frequency ? kFrequency : 1'000'000'000 / kFrequency;
  properties->timestampValidBits = kDeviceBits;
  properties->kernelTimestampValidBits = kKernelBits;
  std::strcpy(properties->name, "Fake GPU");
  return ZE_RESULT_SUCCESS;
}
ze_result_t global_timestamps(ze_device_handle_t, uint64_t *host, uint64_t *stamp) {
  *host = now();
  *stamp = cut(cycles(*host), kDeviceBits);
  return ZE_RESULT_SUCCESS;
}
ze_result_t create_context(ze_driver_handle_t, const ze_context_desc_t *, ze_context_handle_t *to) {
  give(to, &context);
  return ZE_RESULT_SUCCESS;
}
ze_result_t destroy_context(ze_context_handle_t) { return ZE_RESULT_SUCCESS; }

// ---- queues, lists, fences ----

ze_result_t create_queue(ze_context_handle_t, ze_device_handle_t, const ze_command_queue_desc_t *, ze_command_queue_handle_t *to) {
  give(to, new Queue);
  return ZE_RESULT_SUCCESS;
}
ze_result_t end_queue(Queue *queue) {
  {
    const std::lock_guard<std::mutex> guard(lock);
    queue->ends = true;
    changed.notify_all();
  }
  queue->thread.join();
  delete queue;
  return ZE_RESULT_SUCCESS;
}
ze_result_t destroy_queue(ze_command_queue_handle_t queue) { return end_queue(of<Queue>(queue)); }
ze_result_t execute(ze_command_queue_handle_t queue, uint32_t count, ze_command_list_handle_t *lists, ze_fence_handle_t fence) {
  std::vector<Command> all;
  for (uint32_t i = 0; i < count; i++) {
    const List *list = of<List>(lists[i]);
    if (!list->closed) return ZE_RESULT_ERROR_INVALID_ARGUMENT;
    all.insert(all.end(), list->commands.begin(), list->commands.end());
  }
  of<Queue>(queue)->give(std::move(all), of<Fence>(fence));
  return ZE_RESULT_SUCCESS;
}
ze_result_t synchronize(ze_command_queue_handle_t queue, uint64_t timeout) { return of<Queue>(queue)->wait(timeout); }
ze_result_t create_list(ze_context_handle_t, ze_device_handle_t, const ze_command_list_desc_t *, ze_command_list_handle_t *to) {
  give(to, new List{nullptr});
  return ZE_RESULT_SUCCESS;
}
ze_result_t create_immediate(ze_context_handle_t, ze_device_handle_t, const ze_command_queue_desc_t *desc, ze_command_list_handle_t *to) {
  give(to, new List{new Queue, desc->mode == ZE_COMMAND_QUEUE_MODE_SYNCHRONOUS});
  return ZE_RESULT_SUCCESS;
}
ze_result_t destroy_list(ze_command_list_handle_t list) {
  if (of<List>(list)->queue != nullptr) end_queue(of<List>(list)->queue);
  return drop<List>(list);
}
ze_result_t close_list(ze_command_list_handle_t list) {
  of<List>(list)->closed = true;
  return ZE_RESULT_SUCCESS;
}
ze_result_t reset_list(ze_command_list_handle_t list) {
  of<List>(list)->commands.clear();
  of<List>(list)->closed = false;
  return ZE_RESULT_SUCCESS;
}
ze_result_t create_fence(ze_command_queue_handle_t, const ze_fence_desc_t *, ze_fence_handle_t *to) {
  give(to, new Fence);
  return ZE_RESULT_SUCCESS;
}
template <class Object>
ze_result_t wait_for(Object *object, uint64_t timeout) {
  std::unique_lock<std::mutex> guard(lock);
  const auto done = [object] { return object->signaled; };
  if (timeout == UINT64_MAX) return changed.wait(guard, done), ZE_RESULT_SUCCESS;
  return changed.wait_for(guard, std::chrono::nanoseconds(timeout), done) ? ZE_RESULT_SUCCESS : ZE_RESULT_NOT_READY;
}
ze_result_t wait_fence(ze_fence_handle_t fence, uint64_t timeout) { return wait_for(of<Fence>(fence), timeout); }
ze_result_t reset_fence(ze_fence_handle_t fence) {
  const std::lock_guard<std::mutex> guard(lock);
  of<Fence>(fence)->signaled = false;
  return ZE_RESULT_SUCCESS;
}

// ---- events ----

ze_result_t create_pool(ze_context_handle_t, const ze_event_pool_desc_t *desc, uint32_t, ze_device_handle_t *, ze_event_pool_handle_t *to) {
  give(to, new Pool{(desc->flags & ZE_EVENT_POOL_FLAG_KERNEL_TIMESTAMP) != 0});
  return ZE_RESULT_SUCCESS;
}
ze_result_t create_event(ze_event_pool_handle_t pool, const ze_event_desc_t *, ze_event_handle_t *to) {
  give(to, new Event{of<Pool>(pool)->timed});
  return ZE_RESULT_SUCCESS;
}
ze_result_t set_event(ze_event_handle_t event, bool signaled) {
  const std::lock_guard<std::mutex> guard(lock);
  of<Event>(event)->signaled = signaled;
  changed.notify_all();
  return ZE_RESULT_SUCCESS;
}
ze_result_t signal_event(ze_event_handle_t event) { return set_event(event, true); }
ze_result_t reset_event(ze_event_handle_t event) { return set_event(event, false); }
ze_result_t wait_event(ze_event_handle_t event, uint64_t timeout) { return wait_for(of<Event>(event), timeout); }
ze_result_t query_event(ze_event_handle_t event) { return wait_for(of<Event>(event), 0); }
ze_result_t query_timestamp(ze_event_handle_t handle, ze_kernel_timestamp_result_t *to) {
  const std::lock_guard<std::mutex> guard(lock);
  const Event *event = of<Event>(handle);
  if (!event->timed) return ZE_RESULT_ERROR_INVALID_ARGUMENT;
  if (!event->signaled) return ZE_RESULT_NOT_READY;
  to->global = to->context = {cut(event->start, kKernelBits), cut(event->end, kKernelBits)};
  return ZE_RESULT_SUCCESS;
}

// ---- commands ----

Command command(const char *name, ze_event_handle_t signal, uint32_t waits, ze_event_handle_t *events) {
  Command made;
  made.name = name;
  made.signal = of<Event>(signal);
  for (uint32_t i = 0; i < waits; i++) made.waits.push_back(of<Event>(events[i]));
  return made;
}
ze_result_t launch(ze_command_list_handle_t list, ze_kernel_handle_t kernel, const ze_group_count_t *, ze_event_handle_t signal,
                   uint32_t waits, ze_event_handle_t *events) {
  Command made = command(of<Kernel>(kernel)->name.c_str(), signal, waits, events);
  made.at_least = of<Kernel>(kernel)->duration;
  return of<List>(list)->append(std::move(made));
}
ze_result_t copy(ze_command_list_handle_t list, void *to, const void *from, size_t size, ze_event_handle_t signal, uint32_t waits,
                 ze_event_handle_t *events) {
  if (to == nullptr || from == nullptr) return ZE_RESULT_ERROR_INVALID_NULL_POINTER;
  Command made = command("copy", signal, waits, events);
  made.work = [=] { std::memcpy(to, from, size); };
  made.at_least = size;
  return of<List>(list)->append(std::move(made));
}
ze_result_t fill(ze_command_list_handle_t list, void *to, const void *pattern, size_t length, size_t size, ze_event_handle_t signal,
                 uint32_t waits, ze_event_handle_t *events) {
  Command made = command("fill", signal, waits, events);
  const std::string what(static_cast<const char *>(pattern), length);
  made.work = [=] {
    for (size_t at = 0; at < size; at++) static_cast<char *>(to)[at] = what[at % length];
  };
  made.at_least = size;
  return of<List>(list)->append(std::move(made));
}
ze_result_t barrier(ze_command_list_handle_t list, ze_event_handle_t signal, uint32_t waits, ze_event_handle_t *events) {
  return of<List>(list)->append(command("", signal, waits, events));
}
ze_result_t append_signal(ze_command_list_handle_t list, ze_event_handle_t event) {
  return of<List>(list)->append(command("", event, 0, nullptr));
}
ze_result_t append_wait(ze_command_list_handle_t list, uint32_t count, ze_event_handle_t *events) {
  return of<List>(list)->append(command("", nullptr, count, events));
}
ze_result_t append_reset(ze_command_list_handle_t list, ze_event_handle_t event) {
  Command made;
  made.reset = of<Event>(event);
  return of<List>(list)->append(std::move(made));
}

// Of an event that is reset all bits are set.
ze_result_t append_query(ze_command_list_handle_t list, uint32_t count, ze_event_handle_t *events, void *to, const size_t *offsets,
                         ze_event_handle_t signal, uint32_t waits, ze_event_handle_t *waited) {
  Command made = command("", signal, waits, waited);
  for (uint32_t i = 0; i < count; i++) {
    const Event *event = of<Event>(events[i]);
    if (!event->timed) return ZE_RESULT_ERROR_INVALID_ARGUMENT;
    void *at = static_cast<char *>(to) + (offsets == nullptr ? i * sizeof(ze_kernel_timestamp_result_t) : offsets[i]);
    made.work = [event, at, others = std::move(made.work)] {
      if (others) others();
      const std::lock_guard<std::mutex> guard(lock);
      const uint64_t none = cut(UINT64_MAX, kKernelBits);
      ze_kernel_timestamp_result_t found{};
      found.global = {event->signaled ? cut(event->start, kKernelBits) : none, event->signaled ? cut(event->end, kKernelBits) : none};
      found.context = found.global;
      std::memcpy(at, &found, sizeof found);
    };
  }
  return of<List>(list)->append(std::move(made));
}

// ---- memory, modules, kernels ----

ze_result_t allocate(size_t size, ze_memory_type_t type, void **to) {
  if (size > size_t{1} << 40) return ZE_RESULT_ERROR_OUT_OF_DEVICE_MEMORY;
  *to = std::malloc(size);
  const std::lock_guard<std::mutex> guard(lock);
  memory[reinterpret_cast<uintptr_t>(*to)] = {size, type};
  return ZE_RESULT_SUCCESS;
}
ze_result_t allocate_shared(ze_context_handle_t, const ze_device_mem_alloc_desc_t *, const ze_host_mem_alloc_desc_t *, size_t size, size_t,
                            ze_device_handle_t, void **to) {
  return allocate(size, ZE_MEMORY_TYPE_SHARED, to);
}
ze_result_t allocate_device(ze_context_handle_t, const ze_device_mem_alloc_desc_t *, size_t size, size_t, ze_device_handle_t, void **to) {
  return allocate(size, ZE_MEMORY_TYPE_DEVICE, to);
}
ze_result_t allocate_host(ze_context_handle_t, const ze_host_mem_alloc_desc_t *, size_t size, size_t, void **to) {
  return allocate(size, ZE_MEMORY_TYPE_HOST, to);
}
ze_result_t free_memory(ze_context_handle_t, void *at) {
  const std::lock_guard<std::mutex> guard(lock);
  if (memory.erase(reinterpret_cast<uintptr_t>(at)) == 0) return ZE_RESULT_ERROR_INVALID_ARGUMENT;
  std::free(at);
  return ZE_RESULT_SUCCESS;
}
ze_result_t memory_properties(ze_context_handle_t, const void *at, ze_memory_allocation_properties_t *to, ze_device_handle_t *where) {
  const std::lock_guard<std::mutex> guard(lock);
  auto next = memory.upper_bound(reinterpret_cast<uintptr_t>(at));
  const bool known = next != memory.begin() && reinterpret_cast<uintptr_t>(at) - (--next)->first < next->second.first;
  to->type = known ? next->second.second : ZE_MEMORY_TYPE_UNKNOWN;
  if (where != nullptr) give(where, &device);
  return ZE_RESULT_SUCCESS;
}
ze_result_t create_module(ze_context_handle_t, ze_device_handle_t, const ze_module_desc_t *desc, ze_module_handle_t *to,
                          ze_module_build_log_handle_t *build_log) {
  static std::string said;
  said = desc->inputSize == 0 ? "error: no code" : "";
  if (build_log != nullptr) give(build_log, &said);
  if (desc->inputSize == 0) return ZE_RESULT_ERROR_MODULE_BUILD_FAILURE;
  give(to, &module);
  return ZE_RESULT_SUCCESS;
}
ze_result_t log_text(ze_module_build_log_handle_t handle, size_t *size, char *to) {
  const std::string &said = *of<std::string>(handle);
  if (to != nullptr) std::memcpy(to, said.c_str(), *size);
  *size = said.size() + 1;
  return ZE_RESULT_SUCCESS;
}
ze_result_t destroy_log(ze_module_build_log_handle_t) { return ZE_RESULT_SUCCESS; }
ze_result_t destroy_module(ze_module_handle_t) { return ZE_RESULT_SUCCESS; }
ze_result_t create_kernel(ze_module_handle_t, const ze_kernel_desc_t *desc, ze_kernel_handle_t *to) {
  const std::string name = desc->pKernelName;
  if (name != "tick" && name != "tock") return ZE_RESULT_ERROR_INVALID_KERNEL_NAME;
  give(to, new Kernel{name});
  return ZE_RESULT_SUCCESS;
}
ze_result_t kernel_name(ze_kernel_handle_t handle, size_t *size, char *to) {
  const Kernel *kernel = of<Kernel>(handle);
  if (to != nullptr) std::memcpy(to, kernel->name.c_str(), *size);
  *size = kernel->name.size() + 1;
  return ZE_RESULT_SUCCESS;
}
ze_result_t group_size(ze_kernel_handle_t, uint32_t, uint32_t, uint32_t) { return ZE_RESULT_SUCCESS; }
ze_result_t set_argument(ze_kernel_handle_t kernel, uint32_t index, size_t size, const void *value) {
  if (index != 0 || size != sizeof(uint64_t)) return ZE_RESULT_ERROR_INVALID_KERNEL_ARGUMENT_INDEX;
  std::memcpy(&of<Kernel>(kernel)->duration, value, size);
  return ZE_RESULT_SUCCESS;
}

}  // namespace

// ---- what the loader asks for ----

#define TABLE(Name, type) extern "C" ZE_DLLEXPORT ze_result_t ZE_APICALL zeGet##Name##ProcAddrTable(ze_api_version_t, type *to)

TABLE(Global, ze_global_dditable_t) {
  to->pfnInit = init;
  return ZE_RESULT_SUCCESS;
}
TABLE(Driver, ze_driver_dditable_t) {
  to->pfnGet = get_driver;
  to->pfnGetApiVersion = api_version;
  to->pfnGetProperties = driver_properties;
  to->pfnGetExtensionFunctionAddress = extension_function;
  return ZE_RESULT_SUCCESS;
}
TABLE(Device, ze_device_dditable_t) {
  to->pfnGet = get<ze_driver_handle_t, ze_device_handle_t, &device>;
  to->pfnGetProperties = device_properties;
  to->pfnGetSubDevices = sub_devices;
  to->pfnGetGlobalTimestamps = global_timestamps;
  return ZE_RESULT_SUCCESS;
}
TABLE(Context, ze_context_dditable_t) {
  to->pfnCreate = create_context;
  to->pfnDestroy = destroy_context;
  return ZE_RESULT_SUCCESS;
}
TABLE(CommandQueue, ze_command_queue_dditable_t) {
  to->pfnCreate = create_queue;
  to->pfnDestroy = destroy_queue;
  to->pfnExecuteCommandLists = execute;
  to->pfnSynchronize = synchronize;
  return ZE_RESULT_SUCCESS;
}
TABLE(CommandList, ze_command_list_dditable_t) {
  to->pfnCreate = create_list;
  to->pfnCreateImmediate = create_immediate;
  to->pfnDestroy = destroy_list;
  to->pfnClose = close_list;
  to->pfnReset = reset_list;
  to->pfnAppendBarrier = barrier;
  to->pfnAppendMemoryCopy = copy;
  to->pfnAppendMemoryFill = fill;
  to->pfnAppendSignalEvent = append_signal;
  to->pfnAppendWaitOnEvents = append_wait;
  to->pfnAppendEventReset = append_reset;
  to->pfnAppendQueryKernelTimestamps = append_query;
  to->pfnAppendLaunchKernel = launch;
  return ZE_RESULT_SUCCESS;
}
TABLE(EventPool, ze_event_pool_dditable_t) {
  to->pfnCreate = create_pool;
  to->pfnDestroy = drop<Pool>;
  return ZE_RESULT_SUCCESS;
}
TABLE(Event, ze_event_dditable_t) {
  to->pfnCreate = create_event;
  to->pfnDestroy = drop<Event>;
  to->pfnHostSignal = signal_event;
  to->pfnHostSynchronize = wait_event;
  to->pfnQueryStatus = query_event;
  to->pfnHostReset = reset_event;
  to->pfnQueryKernelTimestamp = query_timestamp;
  return ZE_RESULT_SUCCESS;
}
TABLE(Fence, ze_fence_dditable_t) {
  to->pfnCreate = create_fence;
  to->pfnDestroy = drop<Fence>;
  to->pfnHostSynchronize = wait_fence;
  to->pfnReset = reset_fence;
  return ZE_RESULT_SUCCESS;
}
TABLE(Mem, ze_mem_dditable_t) {
  to->pfnAllocShared = allocate_shared;
  to->pfnAllocDevice = allocate_device;
  to->pfnAllocHost = allocate_host;
  to->pfnFree = free_memory;
  to->pfnGetAllocProperties = memory_properties;
  return ZE_RESULT_SUCCESS;
}
TABLE(Module, ze_module_dditable_t) {
  to->pfnCreate = create_module;
  to->pfnDestroy = destroy_module;
  return ZE_RESULT_SUCCESS;
}
TABLE(Kernel, ze_kernel_dditable_t) {
  to->pfnCreate = create_kernel;
  to->pfnDestroy = drop<Kernel>;
  to->pfnSetGroupSize = group_size;
  to->pfnSetArgumentValue = set_argument;
  to->pfnGetName = kernel_name;
  return ZE_RESULT_SUCCESS;
}
TABLE(Image, ze_image_dditable_t) { return (void)to, ZE_RESULT_SUCCESS; }
TABLE(ModuleBuildLog, ze_module_build_log_dditable_t) {
  to->pfnDestroy = destroy_log;
  to->pfnGetString = log_text;
  return ZE_RESULT_SUCCESS;
}
TABLE(PhysicalMem, ze_physical_mem_dditable_t) { return (void)to, ZE_RESULT_SUCCESS; }
TABLE(Sampler, ze_sampler_dditable_t) { return (void)to, ZE_RESULT_SUCCESS; }
TABLE(VirtualMem, ze_virtual_mem_dditable_t) { return (void)to, ZE_RESULT_SUCCESS; }
// Loaders refuse a driver without these; those of tools and sysman have nothing.
TABLE(DeviceExp, ze_device_exp_dditable_t) { return (void)to, ZE_RESULT_SUCCESS; }
TABLE(ImageExp, ze_image_exp_dditable_t) { return (void)to, ZE_RESULT_SUCCESS; }
TABLE(EventExp, ze_event_exp_dditable_t) { return (void)to, ZE_RESULT_SUCCESS; }
TABLE(KernelExp, ze_kernel_exp_dditable_t) { return (void)to, ZE_RESULT_SUCCESS; }
TABLE(FabricVertexExp, ze_fabric_vertex_exp_dditable_t) { return (void)to, ZE_RESULT_SUCCESS; }
TABLE(FabricEdgeExp, ze_fabric_edge_exp_dditable_t) { return (void)to, ZE_RESULT_SUCCESS; }
#define EMPTY(table) \
  extern "C" ZE_DLLEXPORT ze_result_t ZE_APICALL table(ze_api_version_t, void *) { return ZE_RESULT_SUCCESS; }
#define TOOLS(Name) EMPTY(zetGet##Name##ProcAddrTable)
#define SYSMAN(Name) EMPTY(zesGet##Name##ProcAddrTable)
TOOLS(Device) TOOLS(Context) TOOLS(CommandList) TOOLS(Module) TOOLS(Kernel) TOOLS(MetricGroup) TOOLS(MetricGroupExp)
TOOLS(Metric) TOOLS(MetricStreamer) TOOLS(MetricQueryPool) TOOLS(MetricQuery) TOOLS(TracerExp) TOOLS(Debug)
SYSMAN(Driver) SYSMAN(Device) SYSMAN(Scheduler) SYSMAN(PerformanceFactor) SYSMAN(Power) SYSMAN(Frequency) SYSMAN(Engine)
SYSMAN(Standby) SYSMAN(Firmware) SYSMAN(Memory) SYSMAN(FabricPort) SYSMAN(Temperature) SYSMAN(Psu) SYSMAN(Fan) SYSMAN(Led)
SYSMAN(Ras) SYSMAN(Diagnostics)
