// The device work of Level Zero's calls, each with a known answer.
#include "ze_dispatch.h"

namespace occatrace::ze {
static Dispatch targets[2];
template <int I>
const Dispatch &real() {
  return targets[I];
}
const Dispatch &real(unsigned target) { return targets[target]; }
const Dispatch &loader() { return targets[0]; }
}  // namespace occatrace::ze

#include "ze_device_work.h"
//
#include "commands.h"

#define FUNCTION(name) OCCATRACE_ZE_##name

namespace occatrace::ze {

using namespace known_answers;

// Above this address memory is the device's, in the context of the list or in the one that is given.
static void *const device_memory = reinterpret_cast<void *>(0x100000);
static void *const host_memory = reinterpret_cast<void *>(0x1000);
static const auto of_list = reinterpret_cast<ze_context_handle_t>(0x10), other = reinterpret_cast<ze_context_handle_t>(0x20);
static ze_result_t properties(ze_context_handle_t context, const void *address, ze_memory_allocation_properties_t *to, ze_device_handle_t *) {
  auto &found = *reinterpret_cast<MemoryProperties *>(to);
  found.kind = address >= device_memory && context == of_list ? kMemoryOfDevice : address >= device_memory && context == other ? kMemoryShared : 1;
  return kSuccess;
}
static ze_result_t name(ze_kernel_handle_t, size_t *, char *text) {
  std::strcpy(text, "tick");
  return kSuccess;
}

static void checks() {
  targets[0].zeMemGetAllocProperties = properties;
  targets[0].zeKernelGetName = name;
  List list{of_list, nullptr, nullptr, {}};
  lists.set(kQueue, reinterpret_cast<uint64_t>(&list));
  const auto kernel = reinterpret_cast<ze_kernel_handle_t>(0x7);
  set_group(kernel, 32, 5, 1);
  const device::Size groups{4, 3, 2};
  const auto *const given = reinterpret_cast<const ze_group_count_t *>(&groups);

  KERNEL(zeCommandListAppendLaunchKernel, ({128, 15, 2}), ({32, 5, 1}), a.hKernel = kernel, a.pLaunchFuncArgs = given)
  KERNEL(zeCommandListAppendLaunchCooperativeKernel, ({128, 15, 2}), ({32, 5, 1}), a.hKernel = kernel, a.pLaunchFuncArgs = given)
  KERNEL(zeCommandListAppendLaunchKernelWithParameters, ({128, 15, 2}), ({32, 5, 1}), a.hKernel = kernel, a.pGroupCounts = given)
  KERNEL(zeCommandListAppendLaunchKernelWithArguments, ({40, 9, 2}), ({10, 3, 1}), a.hKernel = kernel,
         std::memcpy(static_cast<void *>(&a.groupCounts), &groups, sizeof groups);
         const device::Size block = device::size(10, 3, 1); std::memcpy(static_cast<void *>(&a.groupSizes), &block, sizeof block))
  // Only the device knows its grid.
  KERNEL(zeCommandListAppendLaunchKernelIndirect, ({0, 0, 0}), ({0, 0, 0}), a.hKernel = kernel, a.pLaunchArgumentsBuffer = given)

#define COPY(function) \
  CHECK(function, returns, OCCATRACE_HTOD, 1001, a.size = 1001, a.srcptr = host_memory, a.dstptr = device_memory) \
  CHECK(function, returns, OCCATRACE_DTOH, 1001, a.size = 1001, a.srcptr = device_memory, a.dstptr = host_memory)
  COPY(zeCommandListAppendMemoryCopy)
  COPY(zeCommandListAppendMemoryCopyWithParameters)
  COPY(zeRTASBuilderCommandListAppendCopyExt)
  CHECK(zeCommandListAppendMemoryCopyFromContext, returns, OCCATRACE_DTOH, 7, a.size = 7, a.hContextSrc = other, a.srcptr = device_memory,
        a.dstptr = host_memory)
  const Region region{1, 2, 3, 10, 4, 0};
  CHECK(zeCommandListAppendMemoryCopyRegion, returns, OCCATRACE_DTOD, 40, a.srcptr = device_memory, a.dstptr = device_memory,
        a.srcRegion = reinterpret_cast<const ze_copy_region_t *>(&region))
  CHECK(zeCommandListAppendMemoryFill, returns, OCCATRACE_FILL, 12, a.size = 12, a.pattern_size = 4)
  CHECK(zeCommandListAppendMemoryFillWithParameters, returns, OCCATRACE_FILL, 12, a.size = 12, a.pattern_size = 4)
  CHECK(zeCommandListAppendImageCopy, returns, OCCATRACE_DTOD, 0, )
  CHECK(zeCommandListAppendImageCopyRegion, returns, OCCATRACE_DTOD, 0, )
  CHECK(zeCommandListAppendImageCopyToMemory, returns, OCCATRACE_DTOH, 0, a.dstptr = host_memory)
  CHECK(zeCommandListAppendImageCopyToMemoryExt, returns, OCCATRACE_DTOD, 0, a.dstptr = device_memory)
  CHECK(zeCommandListAppendImageCopyFromMemory, returns, OCCATRACE_HTOD, 0, a.srcptr = host_memory)
  CHECK(zeCommandListAppendImageCopyFromMemoryExt, returns, OCCATRACE_DTOD, 0, a.srcptr = device_memory)
  CHECK(zeCommandListAppendGraphExt, returns, OCCATRACE_OTHER, 0, )
}

// Counters that wrap, on both sides of a known value.
static void counters() {
  expect("unwrapped", "a value after", unwrapped(5, 0x1'0000'0000 + 3, 32), uint64_t{0x1'0000'0005});
  expect("unwrapped", "a value before a wrap", unwrapped(0xffff'fff0, 0x2'0000'0003, 32), uint64_t{0x1'ffff'fff0});
  expect("unwrapped", "a value after a wrap", unwrapped(0x10, 0x1'ffff'fff0, 32), uint64_t{0x2'0000'0010});
  expect("unwrapped", "a counter that never wraps", unwrapped(7, 1000, 64), uint64_t{7});
}

}  // namespace occatrace::ze

int main() {
  occatrace::ze::checks();
  occatrace::ze::counters();
  return known_answers::wrong != 0;
}
