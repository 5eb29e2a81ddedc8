// The CUDA runtime API, by preloaded symbols: the calls only. What they make the device do is seen in the driver's calls that
// they make (cuda.cpp).
#include "../common/arrays.h"
#include "cudart_dispatch.h"
#include "handle_map.h"
#include "occatrace_core.h"

namespace occatrace::cudart {

// Two sets of real functions: of the legacy default stream, and of the per-thread default stream.
static Dispatch targets[2];
template <int I>
const Dispatch &real() {
  return targets[I];
}

}  // namespace occatrace::cudart

#include "cudart_slots.h"

namespace occatrace::cudart {

namespace {

device::HandleMap kernel_names;  // host function or cudaKernel_t → interned name

// Asked only after a launch that went well: a failure would be remembered by the runtime as the program's own.
uint32_t kernel_name(const void *function) {
  if (const uint64_t known = kernel_names.get(function)) return static_cast<uint32_t>(known);
  const char *text = nullptr;
  if (real<0>().cudaFuncGetName == nullptr || real<0>().cudaFuncGetName(&text, function) != 0) return 0;
  const uint32_t name = occatrace_intern(text);
  kernel_names.set(function, name);
  return name;
}

struct Launch : NoHook {
  template <int I, class Args>
  static void result(Call &call, Args &a) {
    if (call.level == OCCATRACE_EVENT && a.ret == 0) a.name = kernel_name(function_of(a));
  }

 private:
  template <class Args>
  static const void *function_of(const Args &a) {
    return a.func;
  }
};

}  // namespace

template <>
struct Hook<OCCATRACE_CUDART_cudaLaunchKernel> : Launch {};
template <>
struct Hook<OCCATRACE_CUDART_cudaLaunchKernelExC> : Launch {};
template <>
struct Hook<OCCATRACE_CUDART_cudaLaunchCooperativeKernel> : Launch {};
template <>
struct Hook<OCCATRACE_CUDART___cudaLaunchKernel> : NoHook {
  template <int I>
  static void result(Call &call, Args___cudaLaunchKernel &a) {
    if (call.level == OCCATRACE_EVENT && a.ret == 0) a.name = static_cast<uint32_t>(kernel_names.get(a.kernel));
  }
};
// Which a program asks for before it launches by the function above.
template <>
struct Hook<OCCATRACE_CUDART___cudaGetKernel> : NoHook {
  static constexpr bool always = true;
  template <int I>
  static void after(Call &, Args___cudaGetKernel &a) {
    if (a.ret != 0 || a.kernelPtr == nullptr) return;
    if (const uint32_t name = kernel_name(a.entryFuncAddr)) kernel_names.set(*a.kernelPtr, name);
  }
};

namespace {

occatrace_backend backend{"cudart", nullptr, [] { kernel_names.unlock_after_fork(); }, nullptr};

}  // namespace

extern "C" OCCATRACE_EXPORT void occatrace_bind_cudart(const occatrace_trampolines *t) {
  if (!load_events()) return;
  occatrace_backend_register(&backend);
  occatrace_kernels_have_stubs();
  bind_slots(t, targets, [](void *, void *) {});
}

}  // namespace occatrace::cudart
