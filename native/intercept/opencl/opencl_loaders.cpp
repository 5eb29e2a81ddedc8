// Loaders that know no layers, found while the program runs: those that it opens itself (dlopen, dlsym), and those that are
// part of a library of its own (a wheel's). Debian 11, Ubuntu 20.04 and Rocky Linux 8 have such a loader; LightGBM's wheel has
// one inside. Each gets a table of the layer; the program gets the table's functions in the place of the loader's.
#include <dlfcn.h>
#include <elf.h>
#include <link.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstring>
#include <mutex>
#include <new>
#include <vector>

#include "occatrace_core.h"
#include "opencl_by_handle.h"
#include "opencl_loader.h"
#include "opencl_table.h"

namespace occatrace::opencl {
namespace {

// A library of the process, by an address in it.
struct Library {
  const void *base = nullptr;
  const char *file = "";
  link_map *map = nullptr;
};

Library library_of(const void *address) {
  Dl_info info;
  void *map = nullptr;
  if (address == nullptr || dladdr1(address, &info, &map, RTLD_DL_LINKMAP) == 0) return {};
  return {info.dli_fbase, info.dli_fname, static_cast<link_map *>(map)};
}

bool is_ours(const Library &library) {
  const char *slash = std::strrchr(library.file, '/');
  return std::strncmp(slash == nullptr ? library.file : slash + 1, "liboccatrace", 12) == 0;
}

// A function that the library itself exports, not one of those it was linked with.
void *exported(occatrace_lookup lookup, const Library &library, const char *name) {
  if (library.map == nullptr) return nullptr;
  void *handle = dlopen(library.map->l_name[0] == '\0' ? nullptr : library.map->l_name, RTLD_LAZY | RTLD_NOLOAD);
  if (handle == nullptr) return nullptr;
  void *found = lookup(handle, name);
  dlclose(handle);
  return found != nullptr && library_of(found).base == library.base ? found : nullptr;
}

struct Loader {
  const void *base;
  uint32_t unloads;               // occatrace_unloads when it was looked at: another may be at its place since
  const cl_icd_dispatch *layered; // never unloaded then; NULL: it has layers, or is no loader
  cl_icd_dispatch real;
};
// Only around the list: the dynamic linker has a lock of its own, which a caller may hold (in a constructor).
std::mutex lock;
std::vector<Loader *> loaders;

Loader *known(const Library &library, uint32_t unloads) {
  for (Loader *loader : loaders)
    if (loader->base == library.base && (loader->layered != nullptr || loader->unloads == unloads)) return loader;
  return nullptr;
}

const cl_icd_dispatch *layered(const cl_icd_dispatch &real) {
  constexpr cl_uint all = sizeof real / sizeof(void *);
  cl_uint slots = 0;
  const cl_icd_dispatch *ours = nullptr;
  return clInitLayer(all, &real, &slots, &ours) == CL_SUCCESS && slots == all && ours != &real ? ours : nullptr;
}

// What is known of a library; `layered` is set where it is a loader whose calls are not recorded in another way.
const Loader &loader_of(occatrace_lookup lookup, const Library &library) {
  const uint32_t unloads = __atomic_load_n(&occatrace_unloads, __ATOMIC_ACQUIRE);
  {
    const std::lock_guard<std::mutex> guard(lock);
    if (const Loader *loader = known(library, unloads)) return *loader;
  }
  auto *loader = new Loader{library.base, unloads, nullptr, {}};
  const void *platforms = exported(lookup, library, "clGetPlatformIDs");
  // What a driver exports is for loaders.
  const bool missed = platforms != nullptr && exported(lookup, library, "clIcdGetPlatformIDsKHR") == nullptr && !has_layers(platforms);
  for (const Place &place : places) at(loader->real, place) = missed ? exported(lookup, library, place.name) : nullptr;
  const std::lock_guard<std::mutex> guard(lock);
  if (const Loader *other = known(library, unloads)) {
    delete loader;
    return *other;
  }
  if (missed) loader->layered = layered(loader->real);
  loaders.push_back(loader);
  return *loader;
}

// What stands in for a function of the loader, or NULL.
void *in_place_of(const Loader &loader, const char *name, const void *found) {
  const Place *place = place_of(places, name);
  return place != nullptr && at(loader.real, *place) == found ? at(*loader.layered, *place) : nullptr;
}

// ---- libraries that were linked with a loader before it was known ----

struct Linked {
  ElfW(Addr) base;
  const ElfW(Dyn) * dynamic;
  uintptr_t begin, end;                // of the library
  uintptr_t protected_begin, protected_end;  // read only once it is linked
};

int list(dl_phdr_info *info, size_t, void *data) {
  Linked linked{info->dlpi_addr, nullptr, UINTPTR_MAX, 0, 0, 0};
  for (int at = 0; at < info->dlpi_phnum; at++) {
    const ElfW(Phdr) &part = info->dlpi_phdr[at];
    const uintptr_t from = info->dlpi_addr + part.p_vaddr, to = from + part.p_memsz;
    if (part.p_type == PT_DYNAMIC) linked.dynamic = reinterpret_cast<const ElfW(Dyn) *>(from);
    if (part.p_type == PT_LOAD) {
      linked.begin = std::min(linked.begin, from);
      linked.end = std::max(linked.end, to);
    }
    if (part.p_type == PT_GNU_RELRO) {
      linked.protected_begin = from;
      linked.protected_end = to;
    }
  }
  if (linked.dynamic != nullptr) static_cast<std::vector<Linked> *>(data)->push_back(linked);
  return 0;
}

void write(const Linked &linked, void **slot, void *value) {
  const auto page = static_cast<uintptr_t>(sysconf(_SC_PAGESIZE));
  const auto at = reinterpret_cast<uintptr_t>(slot);
  // The dynamic linker has protected whole pages only.
  const bool read_only = at >= (linked.protected_begin & -page) && at < (linked.protected_end & -page);
  void *const begin = reinterpret_cast<void *>(at & -page);
  if (read_only && mprotect(begin, page, PROT_READ | PROT_WRITE) != 0) return;
  __atomic_store_n(slot, value, __ATOMIC_RELEASE);
  if (read_only) mprotect(begin, page, PROT_READ);
}

#if defined(__x86_64__)
bool is_slot(uint64_t type) { return type == R_X86_64_JUMP_SLOT || type == R_X86_64_GLOB_DAT; }
#else
bool is_slot(uint64_t type) { return type == R_AARCH64_JUMP_SLOT || type == R_AARCH64_GLOB_DAT; }
#endif

// The slots through which a library calls functions of others.
void relink(occatrace_lookup lookup, const Linked &linked, const Loader &loader) {
  uintptr_t jumps = 0, jump_size = 0, others = 0, other_size = 0, symbols = 0, names = 0;
  for (const ElfW(Dyn) *d = linked.dynamic; d->d_tag != DT_NULL; d++) {
    const uintptr_t value = d->d_un.d_ptr, address = value < linked.base ? value + linked.base : value;
    switch (d->d_tag) {
      case DT_JMPREL: jumps = address; break;
      case DT_PLTRELSZ: jump_size = value; break;
      case DT_RELA: others = address; break;
      case DT_RELASZ: other_size = value; break;
      case DT_SYMTAB: symbols = address; break;
      case DT_STRTAB: names = address; break;
      default: break;
    }
  }
  if (symbols == 0 || names == 0) return;
  const auto each = [&](uintptr_t table, uintptr_t size) {
    const auto *entries = reinterpret_cast<const ElfW(Rela) *>(table);
    for (size_t i = 0; table != 0 && i < size / sizeof *entries; i++) {
      if (!is_slot(ELF64_R_TYPE(entries[i].r_info))) continue;
      const auto &symbol = reinterpret_cast<const ElfW(Sym) *>(symbols)[ELF64_R_SYM(entries[i].r_info)];
      const char *name = reinterpret_cast<const char *>(names) + symbol.st_name;
      const Place *place = name[0] == 'c' && name[1] == 'l' ? place_of(places, name) : nullptr;
      void *const real = place == nullptr ? nullptr : at(loader.real, *place);
      if (real == nullptr) continue;
      auto **slot = reinterpret_cast<void **>(linked.base + entries[i].r_offset);
      void *bound = __atomic_load_n(slot, __ATOMIC_ACQUIRE);
      // Not bound before the first call: what the dynamic linker would find.
      if (reinterpret_cast<uintptr_t>(bound) - linked.begin < linked.end - linked.begin && bound != real) {
        bound = lookup(RTLD_DEFAULT, name);
        if (bound == nullptr) bound = exported(lookup, library_of(linked.dynamic), name);
        if (bound == nullptr) bound = real;
      }
      if (bound == real) write(linked, slot, at(*loader.layered, *place));
    }
  };
  each(jumps, jump_size);
  each(others, other_size);
}

// A loader that asks a driver: from here on its users call the layer. The call in which it does so has begun.
void serve(occatrace_lookup lookup, const Loader &loader) {
  std::vector<Linked> all;
  dl_iterate_phdr(list, &all);
  for (const Linked &linked : all)
    if (!is_ours(library_of(linked.dynamic))) relink(lookup, linked, loader);
}

}  // namespace

void loaders_after_fork_child() { new (&lock) std::mutex; }

}  // namespace occatrace::opencl

void *occatrace_opencl_by_handle(occatrace_lookup lookup, const char *name, void *found, const void *asker) {
  using namespace occatrace::opencl;
  const Library asking = library_of(asker);
  if (is_ours(asking)) return found;
  const bool loader_asks = exported(lookup, asking, "clGetPlatformIDs") != nullptr;
  // Asked of each driver. (What only stands in front of a loader with layers, as stubs do, is recorded behind it.)
  if (loader_asks && std::strcmp(name, "clGetExtensionFunctionAddress") == 0 && !has_layers(found)) {
    const Loader &loader = loader_of(lookup, asking);
    if (loader.layered != nullptr) serve(lookup, loader);
  }
  const Library library = library_of(found);
  if (loader_asks || is_ours(library)) return found;
  const Loader &loader = loader_of(lookup, library);
  void *ours = loader.layered == nullptr ? nullptr : in_place_of(loader, name, found);
  return ours != nullptr ? ours : found;
}
