// An OpenCL loader: the library that has clGetPlatformIDs and leads to the drivers.
#pragma once

#include <link.h>
#include <string.h>

#include <algorithm>

namespace occatrace::opencl {

// Whether the library of a function reads the variable that names layers: then the loader has ours already. (A program may
// bring its own loader, as pyopencl's wheels do, where the system's has no layers.)
inline bool has_layers(const void *function) {
  struct Asked {
    uintptr_t address;
    bool found;
  } asked{reinterpret_cast<uintptr_t>(function), false};
  dl_iterate_phdr(
      [](dl_phdr_info *info, size_t, void *data) {
        auto &wanted = *static_cast<Asked *>(data);
        static constexpr char variable[] = "OPENCL_LAYERS";
        const auto begin = [info](const ElfW(Phdr) &part) { return info->dlpi_addr + part.p_vaddr; };
        const auto any = [info](auto is) {
          return std::any_of(info->dlpi_phdr, info->dlpi_phdr + info->dlpi_phnum,
                             [is](const ElfW(Phdr) &part) { return part.p_type == PT_LOAD && (part.p_flags & PF_R) != 0 && is(part); });
        };
        // Only this library is read: others may be large.
        if (!any([&](const ElfW(Phdr) &part) { return wanted.address - begin(part) < part.p_memsz; })) return 0;
        wanted.found = any([&](const ElfW(Phdr) &part) {
          return memmem(reinterpret_cast<const void *>(begin(part)), part.p_filesz, variable, sizeof variable) != nullptr;
        });
        return 1;
      },
      &asked);
  return asked.found;
}

// In a child of fork (opencl_loaders.cpp).
void loaders_after_fork_child();

}  // namespace occatrace::opencl
