// A program that knows its own truth. The first argument is the case, the second, where there is one, how often.
#include <dlfcn.h>
#include <level_zero/ze_api.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

static int failures;
#define CHECK(call) \
  do { \
    const ze_result_t code = (call); \
    if (code != ZE_RESULT_SUCCESS) { \
      std::printf("%s: %x\n", #call, code); \
      std::exit(1); \
    } \
  } while (0)
#define FAILS(call) failures += (call) != ZE_RESULT_SUCCESS

template <class T>
static T made(ze_structure_type_t type) {
  T made;
  std::memset(static_cast<void *>(&made), 0, sizeof made);
  made.stype = type;
  return made;
}

static ze_driver_handle_t driver;
static ze_device_handle_t device;
static ze_context_handle_t context;
static ze_module_handle_t module_;

static ze_module_handle_t build(size_t size, ze_result_t *result) {
  auto desc = made<ze_module_desc_t>(ZE_STRUCTURE_TYPE_MODULE_DESC);
  static const uint8_t code[128] = {};
  desc.inputSize = size;
  desc.pInputModule = code;
  desc.pBuildFlags = "-ze-opt-level=2";
  ze_module_handle_t found = nullptr;
  *result = zeModuleCreate(context, device, &desc, &found, nullptr);
  return found;
}

static void start() {
  CHECK(zeInit(ZE_INIT_FLAG_GPU_ONLY));
  uint32_t count = 1;
  CHECK(zeDriverGet(&count, &driver));
  count = 1;
  CHECK(zeDeviceGet(driver, &count, &device));
  auto desc = made<ze_context_desc_t>(ZE_STRUCTURE_TYPE_CONTEXT_DESC);
  CHECK(zeContextCreate(driver, &desc, &context));
  ze_result_t result;
  module_ = build(128, &result);
  CHECK(result);
}

static ze_kernel_handle_t kernel(const char *name, uint64_t duration) {
  auto desc = made<ze_kernel_desc_t>(ZE_STRUCTURE_TYPE_KERNEL_DESC);
  desc.pKernelName = name;
  ze_kernel_handle_t found = nullptr;
  CHECK(zeKernelCreate(module_, &desc, &found));
  CHECK(zeKernelSetGroupSize(found, 32, 1, 1));
  CHECK(zeKernelSetArgumentValue(found, 0, sizeof duration, &duration));
  return found;
}
static ze_command_queue_handle_t queue() {
  auto desc = made<ze_command_queue_desc_t>(ZE_STRUCTURE_TYPE_COMMAND_QUEUE_DESC);
  ze_command_queue_handle_t found = nullptr;
  CHECK(zeCommandQueueCreate(context, device, &desc, &found));
  return found;
}
static ze_command_list_handle_t list() {
  auto desc = made<ze_command_list_desc_t>(ZE_STRUCTURE_TYPE_COMMAND_LIST_DESC);
  ze_command_list_handle_t found = nullptr;
  CHECK(zeCommandListCreate(context, device, &desc, &found));
  return found;
}
static char *allocate(int kind, size_t size) {
  auto on_device = made<ze_device_mem_alloc_desc_t>(ZE_STRUCTURE_TYPE_DEVICE_MEM_ALLOC_DESC);
  auto on_host = made<ze_host_mem_alloc_desc_t>(ZE_STRUCTURE_TYPE_HOST_MEM_ALLOC_DESC);
  void *found = nullptr;
  if (kind == 0) CHECK(zeMemAllocDevice(context, &on_device, size, 64, device, &found));
  if (kind == 1) CHECK(zeMemAllocHost(context, &on_host, size, 64, &found));
  if (kind == 2) CHECK(zeMemAllocShared(context, &on_device, &on_host, size, 64, device, &found));
  return static_cast<char *>(found);
}

// Every kind of call once or a known number of times, and calls that fail.
static void calls() {
  ze_result_t result;
  FAILS((build(0, &result), result));
  auto desc = made<ze_kernel_desc_t>(ZE_STRUCTURE_TYPE_KERNEL_DESC);
  desc.pKernelName = "absent";
  ze_kernel_handle_t none;
  for (int i = 0; i < 2; i++) FAILS(zeKernelCreate(module_, &desc, &none));
  char *memory = allocate(0, 4096), *host = allocate(1, 1000), *shared = allocate(2, 500);
  void *too_much = nullptr;
  auto on_device = made<ze_device_mem_alloc_desc_t>(ZE_STRUCTURE_TYPE_DEVICE_MEM_ALLOC_DESC);
  FAILS(zeMemAllocDevice(context, &on_device, size_t{1} << 50, 64, device, &too_much));
  auto fence_desc = made<ze_fence_desc_t>(ZE_STRUCTURE_TYPE_FENCE_DESC);
  ze_command_queue_handle_t q = queue();
  ze_fence_handle_t fence;
  CHECK(zeFenceCreate(q, &fence_desc, &fence));
  ze_command_list_handle_t l = list();
  auto pool_desc = made<ze_event_pool_desc_t>(ZE_STRUCTURE_TYPE_EVENT_POOL_DESC);
  pool_desc.flags = ZE_EVENT_POOL_FLAG_HOST_VISIBLE;
  pool_desc.count = 2;
  ze_event_pool_handle_t pool;
  CHECK(zeEventPoolCreate(context, &pool_desc, 1, &device, &pool));
  auto event_desc = made<ze_event_desc_t>(ZE_STRUCTURE_TYPE_EVENT_DESC);
  ze_event_handle_t event;
  CHECK(zeEventCreate(pool, &event_desc, &event));
  // Not yet is no failure.
  for (int i = 0; i < 3; i++) zeEventQueryStatus(event);
  zeEventHostSynchronize(event, 0);
  ze_kernel_handle_t tick = kernel("tick", 1000);
  const ze_group_count_t groups = {4, 2, 1};
  CHECK(zeCommandListAppendMemoryCopy(l, memory, host, 1000, event, 0, nullptr));
  CHECK(zeCommandListAppendLaunchKernel(l, tick, &groups, nullptr, 1, &event));
  CHECK(zeCommandListAppendMemoryCopy(l, shared, memory, 500, nullptr, 0, nullptr));
  FAILS(zeCommandListAppendMemoryCopy(l, nullptr, memory, 500, nullptr, 0, nullptr));
  CHECK(zeCommandListClose(l));
  CHECK(zeCommandQueueExecuteCommandLists(q, 1, &l, fence));
  CHECK(zeFenceHostSynchronize(fence, UINT64_MAX));
  CHECK(zeCommandQueueSynchronize(q, UINT64_MAX));
  // A function that a driver is asked for by name.
  size_t pitch = 0;
  ze_result_t (*pitch_of)(ze_context_handle_t, ze_device_handle_t, size_t, size_t, unsigned, size_t *) = nullptr;
  CHECK(zeDriverGetExtensionFunctionAddress(driver, "zeMemGetPitchFor2dImage", reinterpret_cast<void **>(&pitch_of)));
  for (int i = 0; i < 4; i++) CHECK(pitch_of(context, device, 10, 1, 4, &pitch));
  ze_result_t (*own)(int) = nullptr;
  CHECK(zeDriverGetExtensionFunctionAddress(driver, "zexVendorsOwn", reinterpret_cast<void **>(&own)));
  FAILS(own(2));
  FAILS(zeDriverGetExtensionFunctionAddress(driver, "zexAbsent", reinterpret_cast<void **>(&own)));
  CHECK(zeEventDestroy(event));
  CHECK(zeEventPoolDestroy(pool));
  CHECK(zeKernelDestroy(tick));
  CHECK(zeFenceDestroy(fence));
  CHECK(zeCommandListDestroy(l));
  CHECK(zeCommandQueueDestroy(q));
  for (char *each : {memory, host}) CHECK(zeMemFree(context, each));
  FAILS(zeMemFree(context, memory + 1));
  std::printf("%d failed, pitch %zu\n", failures, pitch);
}

static ze_command_list_handle_t immediate(ze_command_queue_mode_t mode) {
  auto desc = made<ze_command_queue_desc_t>(ZE_STRUCTURE_TYPE_COMMAND_QUEUE_DESC);
  desc.mode = mode;
  ze_command_list_handle_t found = nullptr;
  CHECK(zeCommandListCreateImmediate(context, device, &desc, &found));
  return found;
}
struct Pool {
  ze_event_pool_handle_t handle = nullptr;
  std::vector<ze_event_handle_t> events;
  explicit Pool(uint32_t count, ze_event_pool_flags_t flags = ZE_EVENT_POOL_FLAG_HOST_VISIBLE) {
    auto desc = made<ze_event_pool_desc_t>(ZE_STRUCTURE_TYPE_EVENT_POOL_DESC);
    desc.flags = flags;
    desc.count = count;
    CHECK(zeEventPoolCreate(context, &desc, 1, &device, &handle));
    if (desc.flags != flags) std::exit(3);
    for (uint32_t i = 0; i < count; i++) {
      auto event = made<ze_event_desc_t>(ZE_STRUCTURE_TYPE_EVENT_DESC);
      event.index = i;
      ze_event_handle_t found;
      CHECK(zeEventCreate(handle, &event, &found));
      events.push_back(found);
    }
  }
  ~Pool() {
    for (ze_event_handle_t event : events) CHECK(zeEventDestroy(event));
    CHECK(zeEventPoolDestroy(handle));
  }
};
static const ze_group_count_t groups = {4, 2, 1};

// Kernels and copies of every direction in an immediate list; the program waits only at the end.
static void work(int count) {
  ze_command_list_handle_t list = immediate(ZE_COMMAND_QUEUE_MODE_ASYNCHRONOUS);
  ze_kernel_handle_t tick = kernel("tick", 20000), tock = kernel("tock", 50000);
  char *on_device = allocate(0, 4096), *host = allocate(1, 4096), *shared = allocate(2, 4096);
  std::vector<char> own(4096, 'x');
  for (int i = 0; i < count; i++) {
    CHECK(zeCommandListAppendMemoryCopy(list, on_device, own.data(), 1001, nullptr, 0, nullptr));
    CHECK(zeCommandListAppendLaunchKernel(list, tick, &groups, nullptr, 0, nullptr));
    CHECK(zeCommandListAppendMemoryCopy(list, shared, on_device, 1002, nullptr, 0, nullptr));
    CHECK(zeCommandListAppendLaunchKernel(list, tock, &groups, nullptr, 0, nullptr));
    CHECK(zeCommandListAppendMemoryCopy(list, host, shared, 1003, nullptr, 0, nullptr));
    CHECK(zeCommandListAppendMemoryFill(list, on_device, "z", 1, 1004, nullptr, 0, nullptr));
    CHECK(zeCommandListAppendBarrier(list, nullptr, 0, nullptr));
  }
  Pool pool(1);
  CHECK(zeCommandListAppendSignalEvent(list, pool.events[0]));
  CHECK(zeEventHostSynchronize(pool.events[0], UINT64_MAX));
  CHECK(zeCommandListDestroy(list));
  for (char *each : {on_device, host, shared}) CHECK(zeMemFree(context, each));
  CHECK(zeKernelDestroy(tick));
  CHECK(zeKernelDestroy(tock));
  std::printf("%c\n", own[0]);
}

// A regular list that is recorded once and executed many times, each time waited for; with one event of the program's, which it
// resets and reads itself, and one command without.
static void again(int count) {
  ze_command_queue_handle_t q = queue();
  ze_command_list_handle_t l = list();
  ze_kernel_handle_t tick = kernel("tick", 20000), tock = kernel("tock", 30000);
  Pool pool(1, ZE_EVENT_POOL_FLAG_HOST_VISIBLE | ZE_EVENT_POOL_FLAG_KERNEL_TIMESTAMP);
  CHECK(zeCommandListAppendLaunchKernel(l, tick, &groups, pool.events[0], 0, nullptr));
  CHECK(zeCommandListAppendLaunchKernel(l, tock, &groups, nullptr, 1, &pool.events[0]));
  CHECK(zeCommandListClose(l));
  int right = 0;
  for (int i = 0; i < count; i++) {
    CHECK(zeCommandQueueExecuteCommandLists(q, 1, &l, nullptr));
    CHECK(zeCommandQueueSynchronize(q, UINT64_MAX));
    ze_kernel_timestamp_result_t times;
    CHECK(zeEventQueryKernelTimestamp(pool.events[0], &times));
    const uint64_t cycles = (times.global.kernelEnd - times.global.kernelStart) & UINT32_MAX;
    right += cycles * 1e9 / 19.2e6 >= 19900;
    CHECK(zeEventHostReset(pool.events[0]));
  }
  // Other commands in the same list.
  CHECK(zeCommandListReset(l));
  CHECK(zeCommandListAppendLaunchKernel(l, tock, &groups, nullptr, 0, nullptr));
  CHECK(zeCommandListClose(l));
  CHECK(zeCommandQueueExecuteCommandLists(q, 1, &l, nullptr));
  CHECK(zeCommandQueueSynchronize(q, UINT64_MAX));
  CHECK(zeCommandListDestroy(l));
  CHECK(zeCommandQueueDestroy(q));
  std::printf("%d right\n", right);
}

// A list that is executed again before it has ended, also twice in one call and from an immediate list, with an event of the
// program's that nobody resets and a command without one; and an event that a list resets itself.
static void overlapping(int count) {
  ze_command_queue_handle_t q = queue();
  ze_command_list_handle_t l = list(), other = list();
  ze_kernel_handle_t tick = kernel("tick", 3000000), tock = kernel("tock", 1000000);
  Pool pool(2, ZE_EVENT_POOL_FLAG_HOST_VISIBLE | ZE_EVENT_POOL_FLAG_KERNEL_TIMESTAMP);
  CHECK(zeCommandListAppendLaunchKernel(l, tick, &groups, pool.events[0], 0, nullptr));
  CHECK(zeCommandListAppendLaunchKernel(l, tock, &groups, nullptr, 0, nullptr));
  CHECK(zeCommandListClose(l));
  CHECK(zeCommandListAppendLaunchKernel(other, tock, &groups, nullptr, 0, nullptr));
  CHECK(zeCommandListClose(other));
  auto desc = made<ze_fence_desc_t>(ZE_STRUCTURE_TYPE_FENCE_DESC);
  ze_fence_handle_t fence;
  CHECK(zeFenceCreate(q, &desc, &fence));
  for (int i = 0; i < count; i++) {
    CHECK(zeCommandQueueExecuteCommandLists(q, 1, &l, nullptr));
    ze_command_list_handle_t several[] = {l, other, l};
    CHECK(zeCommandQueueExecuteCommandLists(q, 3, several, fence));
    if (several[0] != l || several[1] != other || several[2] != l) std::exit(4);
    // Now and then the program waits.
    if (i % 2 == 1) CHECK(zeFenceHostSynchronize(fence, UINT64_MAX));
    CHECK(zeFenceReset(fence));
  }
  CHECK(zeCommandQueueSynchronize(q, UINT64_MAX));
  // Of the program's event it sees the last.
  ze_kernel_timestamp_result_t times;
  CHECK(zeEventQueryKernelTimestamp(pool.events[0], &times));
  CHECK(zeCommandListDestroy(l));
  ze_command_list_handle_t resets = list();
  CHECK(zeCommandListAppendLaunchKernel(resets, tock, &groups, pool.events[1], 0, nullptr));
  CHECK(zeCommandListAppendEventReset(resets, pool.events[1]));
  CHECK(zeCommandListClose(resets));
  for (int i = 0; i < 2; i++) CHECK(zeCommandQueueExecuteCommandLists(q, 1, &resets, nullptr));
  CHECK(zeCommandQueueSynchronize(q, UINT64_MAX));
  for (ze_command_list_handle_t each : {other, resets}) CHECK(zeCommandListDestroy(each));
  CHECK(zeFenceDestroy(fence));
  CHECK(zeCommandQueueDestroy(q));
}

// One event of the program's for many commands of a synchronous list.
static void reused(int count) {
  ze_command_list_handle_t list = immediate(ZE_COMMAND_QUEUE_MODE_SYNCHRONOUS);
  ze_kernel_handle_t tick = kernel("tick", 5000);
  Pool pool(1);
  for (int i = 0; i < count; i++) {
    CHECK(zeCommandListAppendLaunchKernel(list, tick, &groups, pool.events[0], 0, nullptr));
    CHECK(zeEventHostReset(pool.events[0]));
  }
  CHECK(zeCommandListDestroy(list));
}

// A kernel on each sub-device.
static void tiles() {
  uint32_t count = 2;
  ze_device_handle_t whole = device, found[2];
  CHECK(zeDeviceGetSubDevices(whole, &count, found));
  ze_kernel_handle_t tick = kernel("tick", 5000);
  for (ze_device_handle_t tile : found) {
    device = tile;
    ze_command_list_handle_t list = immediate(ZE_COMMAND_QUEUE_MODE_SYNCHRONOUS);
    CHECK(zeCommandListAppendLaunchKernel(list, tick, &groups, nullptr, 0, nullptr));
    CHECK(zeCommandListDestroy(list));
  }
  device = whole;
}

int main(int count, char **arguments) {
  const char *which = count > 1 ? arguments[1] : "";
  start();
  const int times = count > 2 ? std::atoi(arguments[2]) : 1;
  if (std::strcmp(which, "calls") == 0) calls();
  if (std::strcmp(which, "work") == 0) work(times);
  if (std::strcmp(which, "again") == 0) again(times);
  if (std::strcmp(which, "overlapping") == 0) overlapping(times);
  if (std::strcmp(which, "reused") == 0) reused(times);
  if (std::strcmp(which, "tiles") == 0) tiles();
  CHECK(zeModuleDestroy(module_));
  CHECK(zeContextDestroy(context));
  return 0;
}
