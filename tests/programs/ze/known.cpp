// Level Zero with known answers, on any device. `probe`: whether there is one. `copies N BYTES`: so many copies to the device, each
// with an event whose time it prints in ns. `many N`: so many fills that nobody times.
#include <level_zero/ze_api.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

#define CHECK(call)                                                     \
  do {                                                                  \
    const ze_result_t code = (call);                                    \
    if (code != ZE_RESULT_SUCCESS) {                                    \
      std::fprintf(stderr, "%s: %x\n", #call, static_cast<int>(code)); \
      std::exit(1);                                                     \
    }                                                                   \
  } while (0)

template <class T>
static T made(ze_structure_type_t type) {
  T made;
  std::memset(static_cast<void *>(&made), 0, sizeof made);
  made.stype = type;
  return made;
}

int main(int count, char **arguments) {
  if (count < 2) return 2;
  ze_driver_handle_t driver;
  ze_device_handle_t device;
  ze_context_handle_t context;
  uint32_t one = 1;
  CHECK(zeInit(ZE_INIT_FLAG_GPU_ONLY));
  CHECK(zeDriverGet(&one, &driver));
  if (one == 0) return 1;
  one = 1;
  CHECK(zeDeviceGet(driver, &one, &device));
  if (one == 0) return 1;
  if (std::strcmp(arguments[1], "probe") == 0) return 0;
  const unsigned times = count > 2 ? static_cast<unsigned>(std::atoi(arguments[2])) : 1;
  const size_t bytes = count > 3 ? static_cast<size_t>(std::atoll(arguments[3])) : 4096;

  auto of_context = made<ze_context_desc_t>(ZE_STRUCTURE_TYPE_CONTEXT_DESC);
  CHECK(zeContextCreate(driver, &of_context, &context));
  auto properties = made<ze_device_properties_t>(ZE_STRUCTURE_TYPE_DEVICE_PROPERTIES);
  CHECK(zeDeviceGetProperties(device, &properties));
  const uint64_t mask =
      properties.kernelTimestampValidBits >= 64 ? UINT64_MAX : (uint64_t{1} << properties.kernelTimestampValidBits) - 1;
  auto of_list = made<ze_command_queue_desc_t>(ZE_STRUCTURE_TYPE_COMMAND_QUEUE_DESC);
  of_list.mode = ZE_COMMAND_QUEUE_MODE_ASYNCHRONOUS;
  ze_command_list_handle_t list;
  CHECK(zeCommandListCreateImmediate(context, device, &of_list, &list));
  auto of_pool = made<ze_event_pool_desc_t>(ZE_STRUCTURE_TYPE_EVENT_POOL_DESC);
  of_pool.flags = ZE_EVENT_POOL_FLAG_HOST_VISIBLE | ZE_EVENT_POOL_FLAG_KERNEL_TIMESTAMP;
  of_pool.count = 1;
  ze_event_pool_handle_t pool;
  CHECK(zeEventPoolCreate(context, &of_pool, 1, &device, &pool));
  auto of_event = made<ze_event_desc_t>(ZE_STRUCTURE_TYPE_EVENT_DESC);
  of_event.signal = ZE_EVENT_SCOPE_FLAG_HOST;
  ze_event_handle_t event;
  CHECK(zeEventCreate(pool, &of_event, &event));
  auto of_memory = made<ze_device_mem_alloc_desc_t>(ZE_STRUCTURE_TYPE_DEVICE_MEM_ALLOC_DESC);
  void *memory;
  CHECK(zeMemAllocDevice(context, &of_memory, bytes, 64, device, &memory));
  const std::vector<char> content(bytes, 'x');

  const bool timed = std::strcmp(arguments[1], "copies") == 0;
  for (unsigned i = 0; i < times; i++) {
    if (!timed) {
      CHECK(zeCommandListAppendMemoryFill(list, memory, "z", 1, bytes, i + 1 == times ? event : nullptr, 0, nullptr));
      continue;
    }
    CHECK(zeCommandListAppendMemoryCopy(list, memory, content.data(), bytes, event, 0, nullptr));
    CHECK(zeEventHostSynchronize(event, UINT64_MAX));
    ze_kernel_timestamp_result_t found;
    CHECK(zeEventQueryKernelTimestamp(event, &found));
    const uint64_t cycles = (found.global.kernelEnd - found.global.kernelStart) & mask;
    std::printf("%llu\n", static_cast<unsigned long long>(cycles * properties.timerResolution));
    CHECK(zeEventHostReset(event));
  }
  if (!timed) CHECK(zeEventHostSynchronize(event, UINT64_MAX));
  CHECK(zeEventDestroy(event));
  CHECK(zeEventPoolDestroy(pool));
  CHECK(zeMemFree(context, memory));
  CHECK(zeCommandListDestroy(list));
  CHECK(zeContextDestroy(context));
  return 0;
}
