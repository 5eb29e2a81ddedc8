// OpenCL loaders that know no layers: this library, preloaded, has the loader's functions in front of the loader. It makes a
// dispatch table of the real ones, hands it to the layer as a loader would, and calls what the layer gives back.
#include <dlfcn.h>
#include <link.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "../common/library_of.h"
#include "opencl_loader.h"
#include "opencl_table.h"

namespace {

cl_icd_dispatch real_table;
const cl_icd_dispatch *table;  // of the layer, or the real one
pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
// A loader that calls its own functions by name comes back here; that is its own business.
__thread int depth __attribute__((tls_model("initial-exec")));

// The library that the program means: the next one in the search order, or, where a Python extension brought its own
// loader, what the calling object depends on.
void *find(const char *name, const void *caller) {
  if (void *next = dlsym(RTLD_NEXT, name)) return next;
  Dl_info info;
  link_map *map = nullptr;
  if (!dladdr1(caller, &info, reinterpret_cast<void **>(&map), RTLD_DL_LINKMAP) || map == nullptr) return nullptr;
  void *object = dlopen(map->l_name[0] == '\0' ? nullptr : map->l_name, RTLD_LAZY | RTLD_NOLOAD);
  void *found = object == nullptr ? nullptr : dlsym(object, name);
  // The program's own search order begins with us: then the loader has no such function.
  return found != nullptr && occatrace_in_one_library(&real_table, found) ? nullptr : found;
}

using InitLayer = decltype(&clInitLayer);

const cl_icd_dispatch *layered() {
  Dl_info info;
  char path[4096];
  if (dladdr(&real_table, &info) == 0 || info.dli_fname == nullptr) return &real_table;
  const char *slash = strrchr(info.dli_fname, '/');
  const int folder = slash == nullptr ? 0 : static_cast<int>(slash - info.dli_fname) + 1;
  snprintf(path, sizeof path, "%.*sliboccatrace_opencl.so", folder, info.dli_fname);
  void *layer = dlopen(path, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
  auto init = layer == nullptr ? nullptr : reinterpret_cast<InitLayer>(dlsym(layer, "clInitLayer"));
  const cl_icd_dispatch *ours = nullptr;
  cl_uint slots = 0;
  constexpr cl_uint all = sizeof real_table / sizeof(void *);
  if (init == nullptr || init(all, &real_table, &slots, &ours) != CL_SUCCESS || slots < all) return &real_table;
  return ours;
}

const cl_icd_dispatch *bind(const void *caller) {
  pthread_mutex_lock(&lock);
  if (table == nullptr) {
#define OCCATRACE_BIND(result, name, parameters, arguments) \
  real_table.name = reinterpret_cast<decltype(real_table.name)>(find(#name, caller));
    OCCATRACE_OPENCL_FUNCTIONS(OCCATRACE_BIND)
#undef OCCATRACE_BIND
    const bool alone = occatrace::opencl::has_layers(reinterpret_cast<const void *>(real_table.clGetPlatformIDs));
    __atomic_store_n(&table, alone ? &real_table : layered(), __ATOMIC_RELEASE);
  }
  pthread_mutex_unlock(&lock);
  return table;
}

const cl_icd_dispatch &functions(const void *caller) {
  const cl_icd_dispatch *found = __atomic_load_n(&table, __ATOMIC_ACQUIRE);
  if (found == nullptr) found = bind(caller);
  return depth == 0 ? *found : real_table;
}

struct Inside {
  Inside() { ++depth; }
  ~Inside() { --depth; }
};

// What a function answers that the loader does not have.
template <class Result>
Result missing() {
  return Result();
}
template <>
cl_int missing<cl_int>() {
  return CL_INVALID_OPERATION;
}

}  // namespace

extern "C" {
#define OCCATRACE_FORWARD(result, name, parameters, arguments) \
  __attribute__((visibility("default"))) result CL_API_CALL name parameters { \
    const auto function = functions(__builtin_return_address(0)).name; \
    if (function == nullptr) return missing<result>(); \
    const Inside inside; \
    return function arguments; \
  }
OCCATRACE_OPENCL_FUNCTIONS(OCCATRACE_FORWARD)
}
