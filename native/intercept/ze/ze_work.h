// What the model asks of the arguments of Level Zero's calls (tracepoints/ze.yaml).
#pragma once

#include <cstddef>
#include <cstdint>

#include "engine.h"
#include "ze_dispatch.h"

namespace occatrace::ze {

// ---- structures of the headers, as far as they are read ----

struct Descriptor {
  int type;
  const void *next;
};
struct KernelDescriptor : Descriptor {
  uint32_t flags;
  const char *name;
};
struct ModuleDescriptor : Descriptor {
  int format;
  size_t size;
  const uint8_t *code;
  const char *options;
};
struct PhysicalMemoryDescriptor : Descriptor {
  uint32_t flags;
  size_t size;
};

struct EventPoolDescriptor : Descriptor {
  uint32_t flags, count;
};
struct EventDescriptor : Descriptor {
  uint32_t index, signal, wait;
};
struct QueueDescriptor : Descriptor {
  uint32_t ordinal, index, flags;
  int mode, priority;
};
struct ListDescriptor : Descriptor {
  uint32_t ordinal, flags;
};
struct HostMemoryDescriptor : Descriptor {
  uint32_t flags;
};
struct DeviceProperties {
  int type;
  void *next;
  int kind;
  uint32_t vendor, device, flags, subdevice, clock_rate;
  uint64_t most_memory;
  uint32_t contexts, priorities, threads, width, units, subslices, slices;
  uint64_t timer;
  uint32_t bits, kernel_bits;
  uint8_t uuid[16];
  char name[256];
  char room[64];  // for what newer versions add
};
struct MemoryProperties {
  int type;
  void *next;
  int kind;
  uint64_t id, page;
};
struct Timestamps {
  struct {
    uint64_t start, end;
  } global, context;
};
struct Region {
  uint32_t x, y, z, width, height, depth;
};
// ZE_STRUCTURE_TYPE_…
constexpr int kListDescriptor = 0x0f, kHostMemoryDescriptor = 0x16, kEventPoolDescriptor = 0x10, kEventDescriptor = 0x11, kMemoryProperties = 0x17, kDevicePropertiesByFrequency = 0x20006;
constexpr uint32_t kHostVisible = 1, kInterprocess = 2, kTimestamps = 4, kMappedTimestamps = 8, kScopeHost = 4;
constexpr uint32_t kSubdevice = 2;  // ZE_DEVICE_PROPERTY_FLAG_SUBDEVICE
constexpr int kSynchronousMode = 1;
constexpr int kMemoryOfDevice = 2, kMemoryShared = 3;

template <class Structure, class Given>
const Structure &as(const Given *given) {
  static constexpr Structure none{};
  return given == nullptr ? none : *reinterpret_cast<const Structure *>(given);
}

inline const char *name_of(const ze_kernel_desc_t *desc) { return as<KernelDescriptor>(desc).name; }
inline size_t code_of(const ze_module_desc_t *desc) { return as<ModuleDescriptor>(desc).size; }
inline const char *options_of(const ze_module_desc_t *desc) { return as<ModuleDescriptor>(desc).options; }
inline size_t size_of(const ze_physical_mem_desc_t *desc) { return as<PhysicalMemoryDescriptor>(desc).size; }

}  // namespace occatrace::ze
