// The exports of the fake driver (driver.cpp, whose functions are compiled under the names impl_…), each of which tells the
// stand-in for CUPTI where it begins and ends, as the real driver does: by CUPTI's own numbers and structures of arguments.
// `names.h` is the list of them, FUNCTION(name) and, where CUPTI has no structure, FUNCTION_WITHOUT(name).
#define __CUDA_API_VERSION_INTERNAL
#include <cuda.h>
#include <cupti_driver_cbid.h>
#include <cupti_target.h>
#include <generated_cuda_meta.h>

#include "../core.h"

// Of a header of its own.
extern "C" CUresult cuProfilerStart(void);
extern "C" CUresult cuProfilerStop(void);

namespace {

struct None {};

template <auto Implementation, class Params, int Number, const char *Name, class F>
struct Exported;
template <auto Implementation, class Params, int Number, const char *Name, class... A>
struct Exported<Implementation, Params, Number, Name, CUresult (*)(A...)> {
  static CUresult call(A... a) {
    const fake::Observer *o = fake::observer;
    if (o == nullptr || o->call == nullptr) return Implementation(a...);
    const Params params{a...};
    CUresult result = CUDA_ERROR_UNKNOWN;
    uint64_t kept = 0xfeedfacefeedface;  // nobody's yet
    fake::DriverCall told{Number, Name, false, &params, &result, &kept, 0};
    o->call(told);
    result = Implementation(a...);
    told.over = true;
    o->call(told);
    return result;
  }
};

}  // namespace

#define EXPORTED(name, Params, Number)                                                                             \
  extern "C" __attribute__((visibility("hidden"))) decltype(name) impl_##name;                                     \
  static constexpr char name_##name[] = #name;                                                                     \
  extern "C" __attribute__((used)) void *resolve_##name(void) {                                                    \
    return reinterpret_cast<void *>(&Exported<&impl_##name, Params, Number, name_##name, decltype(&name)>::call);  \
  }                                                                                                                \
  extern "C" __attribute__((visibility("default"), ifunc("resolve_" #name))) decltype(name) name;
#define FUNCTION(name) EXPORTED(name, name##_params, CUPTI_DRIVER_TRACE_CBID_##name)
#define FUNCTION_WITHOUT(name) EXPORTED(name, None, CUPTI_DRIVER_TRACE_CBID_##name)
#include "names.h"
