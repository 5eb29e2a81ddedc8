// What Level Zero's calls cost the thread that makes them: ns of its CPU time per call, the smallest of several rounds. `getter` asks
// for a kernel's name; `append` puts a launch into a list, with its share of closing, executing and waiting; `immediate` launches in
// an immediate list, with its share of a wait.
#include <level_zero/ze_api.h>
#include <time.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#define CHECK(call) \
  if ((call) != ZE_RESULT_SUCCESS) std::fprintf(stderr, "%s failed\n", #call), std::exit(1)

template <class T>
static T made(ze_structure_type_t type) {
  T made;
  std::memset(static_cast<void *>(&made), 0, sizeof made);
  made.stype = type;
  return made;
}

constexpr int kRounds = 12, kCalls = 2000;

template <class Round>
static void measure(const char *name, Round round) {
  double least = 1e18;
  for (int i = 0; i < kRounds; i++) {
    timespec from, to;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &from);
    round();
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &to);
    least = std::min(least, ((to.tv_sec - from.tv_sec) * 1e9 + static_cast<double>(to.tv_nsec - from.tv_nsec)) / kCalls);
  }
  std::printf("%s %.1f\n", name, least);
}

int main() {
  ze_driver_handle_t driver;
  ze_device_handle_t device;
  ze_context_handle_t context;
  uint32_t one = 1;
  CHECK(zeInit(ZE_INIT_FLAG_GPU_ONLY));
  CHECK(zeDriverGet(&one, &driver));
  CHECK(zeDeviceGet(driver, &one, &device));
  auto of_context = made<ze_context_desc_t>(ZE_STRUCTURE_TYPE_CONTEXT_DESC);
  CHECK(zeContextCreate(driver, &of_context, &context));
  static const uint8_t code[128] = {};
  auto of_module = made<ze_module_desc_t>(ZE_STRUCTURE_TYPE_MODULE_DESC);
  of_module.inputSize = sizeof code;
  of_module.pInputModule = code;
  ze_module_handle_t module;
  CHECK(zeModuleCreate(context, device, &of_module, &module, nullptr));
  auto of_kernel = made<ze_kernel_desc_t>(ZE_STRUCTURE_TYPE_KERNEL_DESC);
  of_kernel.pKernelName = "tick";
  ze_kernel_handle_t kernel;
  CHECK(zeKernelCreate(module, &of_kernel, &kernel));
  CHECK(zeKernelSetGroupSize(kernel, 32, 1, 1));
  auto of_queue = made<ze_command_queue_desc_t>(ZE_STRUCTURE_TYPE_COMMAND_QUEUE_DESC);
  of_queue.mode = ZE_COMMAND_QUEUE_MODE_ASYNCHRONOUS;
  ze_command_queue_handle_t queue;
  CHECK(zeCommandQueueCreate(context, device, &of_queue, &queue));
  auto of_list = made<ze_command_list_desc_t>(ZE_STRUCTURE_TYPE_COMMAND_LIST_DESC);
  ze_command_list_handle_t list, immediate;
  CHECK(zeCommandListCreate(context, device, &of_list, &list));
  CHECK(zeCommandListCreateImmediate(context, device, &of_queue, &immediate));
  auto of_pool = made<ze_event_pool_desc_t>(ZE_STRUCTURE_TYPE_EVENT_POOL_DESC);
  of_pool.flags = ZE_EVENT_POOL_FLAG_HOST_VISIBLE;
  of_pool.count = 1;
  ze_event_pool_handle_t pool;
  CHECK(zeEventPoolCreate(context, &of_pool, 1, &device, &pool));
  auto of_event = made<ze_event_desc_t>(ZE_STRUCTURE_TYPE_EVENT_DESC);
  ze_event_handle_t event;
  CHECK(zeEventCreate(pool, &of_event, &event));
  const ze_group_count_t groups = {4, 1, 1};

  measure("getter", [&] {
    for (int i = 0; i < kCalls; i++) {
      char name[16];
      size_t size = sizeof name;
      CHECK(zeKernelGetName(kernel, &size, name));
    }
  });
  measure("append", [&] {
    for (int i = 0; i < kCalls; i++) CHECK(zeCommandListAppendLaunchKernel(list, kernel, &groups, nullptr, 0, nullptr));
    CHECK(zeCommandListClose(list));
    CHECK(zeCommandQueueExecuteCommandLists(queue, 1, &list, nullptr));
    CHECK(zeCommandQueueSynchronize(queue, UINT64_MAX));
    CHECK(zeCommandListReset(list));
  });
  measure("immediate", [&] {
    for (int i = 0; i < kCalls; i++) {
      const bool last = i + 1 == kCalls;
      CHECK(zeCommandListAppendLaunchKernel(immediate, kernel, &groups, last ? event : nullptr, 0, nullptr));
    }
    CHECK(zeEventHostSynchronize(event, UINT64_MAX));
    CHECK(zeEventHostReset(event));
  });
  CHECK(zeEventDestroy(event));
  CHECK(zeEventPoolDestroy(pool));
  CHECK(zeCommandListDestroy(immediate));
  CHECK(zeCommandListDestroy(list));
  CHECK(zeCommandQueueDestroy(queue));
  CHECK(zeKernelDestroy(kernel));
  CHECK(zeModuleDestroy(module));
  CHECK(zeContextDestroy(context));
  return 0;
}
