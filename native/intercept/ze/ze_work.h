// What the model asks of the arguments of Level Zero's calls (tracepoints/ze.yaml).
#pragma once

#include <cstddef>
#include <cstdint>

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
