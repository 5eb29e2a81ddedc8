// The records that the engine writes (provider occatrace_device), on top of the emit core.
#pragma once

#include <cstdint>

#include "engine.h"

namespace occatrace::device {

// A finished command, placed on the host's clock.
struct Activity {
  const Work *work = nullptr;
  uint32_t queue = 0;
  int32_t status = 0;
  uint64_t queued = 0;
  uint64_t submitted = 0;
  uint64_t start = 0;
  uint64_t end = 0;
};

void record_device(const Device &device, const char *api, const DeviceNames &names);
void record_queue(const Queue &queue, uint32_t flags);
void record_activity(const Activity &activity);
void record_clock(const Device &device, const Clock::Point &point);
void record_clock_warning(const Device &device, uint64_t clamped, uint64_t worst);

}  // namespace occatrace::device
