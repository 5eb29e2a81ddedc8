// The device work of Level Zero's calls: what the expressions of the model name (tracepoints/ze.yaml), and the hook of such calls.
#pragma once

#include <array>

#include "ze_time.h"
#include "ze_wrappers.h"

namespace occatrace::ze {

namespace {

// Off in the mode that only tallies: events are then left as the program made them.
bool timing = false;

HandleMap kernel_names;   // kernel → interned name
HandleMap kernel_groups;  // kernel → the extents of a group

uint32_t kernel_name(ze_kernel_handle_t kernel) {
  if (const uint64_t known = kernel_names.get(kernel)) return static_cast<uint32_t>(known);
  char text[1024] = "";
  size_t size = sizeof text - 1;
  if (loader().zeKernelGetName != nullptr) loader().zeKernelGetName(kernel, &size, text);
  const uint32_t name = occatrace_intern(text);
  kernel_names.set(kernel, name);
  return name;
}

constexpr unsigned kExtentBits = 21;
constexpr uint64_t kExtent = (1u << kExtentBits) - 1;
void set_group(ze_kernel_handle_t kernel, uint64_t x, uint64_t y, uint64_t z) {
  kernel_groups.set(kernel, (x & kExtent) | (y & kExtent) << kExtentBits | (z & kExtent) << (2 * kExtentBits));
}
device::Size group_of(ze_kernel_handle_t kernel) {
  const uint64_t packed = kernel_groups.get(kernel);
  return device::size(packed & kExtent, packed >> kExtentBits & kExtent, packed >> (2 * kExtentBits) & kExtent);
}
device::Size extents(const ze_group_count_t *count) { return as<device::Size>(count); }
template <class Structure>
device::Size extents(const Structure &by_value) {
  return reinterpret_cast<const device::Size &>(by_value);
}

size_t volume(const ze_copy_region_t *region) {
  const Region &r = as<Region>(region);
  return size_t{r.width} * r.height * (r.depth == 0 ? 1 : r.depth);
}

// An address, and the context that knows what it is; without one that of the list.
struct Address {
  ze_context_handle_t context;
  const void *address;
};
Address place(ze_command_list_handle_t list, const void *address) {
  const List *known = find<List>(lists, list);
  return {known == nullptr ? nullptr : known->context, address};
}
Address place(ze_context_handle_t context, const void *address) { return {context, address}; }
bool on_device(const Address &place) {
  MemoryProperties found{};
  found.type = kMemoryProperties;
  const auto to = reinterpret_cast<ze_memory_allocation_properties_t *>(&found);
  if (place.context == nullptr || loader().zeMemGetAllocProperties == nullptr) return false;
  if (loader().zeMemGetAllocProperties(place.context, place.address, to, nullptr) != kSuccess) return false;
  return found.kind == kMemoryOfDevice || found.kind == kMemoryShared;
}

}  // namespace

// Gives every command an event with timestamps: the program's where it gave one, else one of ours.
template <int F>
struct Enqueue : Always {
  template <int I, class Args>
  static bool chosen(Args &a) {
    const List *list = timing ? find<List>(lists, Command<F>::queue(a)) : nullptr;
    if (list != nullptr && list->line != nullptr && !list->line->queue->wanted)
      return occatrace_self()->excluded[OCCATRACE_BY_QUEUE]++, false;
    if constexpr (Command<F>::is_kernel) {
      // Below an OCCA kernel, that one is what people choose.
      return occatrace_self()->run_seq != OCCATRACE_NO_RUN || occatrace_choose_kernel(Command<F>::template kernel<I>(a));
    }
    return true;
  }

  template <int I, class Args>
  static void before(Call &call, Args &a) {
    const List *list = timing && call.work ? find<List>(lists, Command<F>::queue(a)) : nullptr;
    if (list == nullptr) return;
    call.host = call.level == OCCATRACE_EVENT ? call.start : occatrace_now();
    auto &event = Command<F>::event(a);
    if (event != nullptr) {
      if (list->line != nullptr) Commands::instance().settle(event);
      return;
    }
    event = list->ours->take();
    call.own = reinterpret_cast<uint64_t>(event);
  }

  // The record has what the program gave.
  template <int I, class Args>
  static void result(Call &call, Args &a) {
    if (call.own != 0) Command<F>::event(a) = nullptr;
  }

  template <int I, class Args>
  static void after(Call &call, Args &a) {
    List *list = call.host != 0 ? find<List>(lists, Command<F>::queue(a)) : nullptr;
    if (list == nullptr) return;
    const bool ours = call.own != 0;
    const ze_event_handle_t event = ours ? reinterpret_cast<ze_event_handle_t>(call.own) : Command<F>::event(a);
    if (failed(a)) {
      if (ours) list->ours->give(event);
      return;
    }
    const bool timed = ours || timed_events.get(event) != 0;
    Work work = device::work_of(call, nullptr);
    Command<F>::template describe<I>(a, work);
    if (list->line == nullptr) {
      list->steps.push_back({event, ours, timed, true, work});
      return;
    }
    push(*list->line, {event, nullptr, nullptr, 0, list->context, ours ? list->ours : nullptr, Given::kPending, {}}, timed, work);
    if (list->line->synchronous) see_complete(*list->line, list->line->progress.given.load());
  }
};

}  // namespace occatrace::ze

#include "ze_commands.h"
