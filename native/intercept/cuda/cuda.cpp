// The CUDA driver API, twice. The shim: a library of the driver's soname, found before it, with the real one behind; its exports
// are generated from the model. And with OCCATRACE_INJECTED what the driver itself loads where the shim is not reached
// (cuda_injected.h), the calls then told of by CUPTI. Here is what both have and the generator cannot know: device time, names.
#include "cuda_work.h"

namespace occatrace::cuda {

template <>
struct Hook<OCCATRACE_CUDA_cuFuncSetBlockShape> : Always {
  template <int I>
  static void after(Call &, Args_cuFuncSetBlockShape &a) {
    const auto side = [](int extent, int at) { return static_cast<uint64_t>(extent & 0xffff) << (at * kShapeBits); };
    if (a.ret == 0) block_shapes.set(a.hfunc, side(a.x, 0) | side(a.y, 1) | side(a.z, 2));
  }
};

// ---- what CUPTI tells besides: waits, managed memory ----

namespace {

HandleMap event_queues;  // event → number of the queue that it was last recorded in

uint32_t queue_number(CUstream stream, const occatrace_thread *self) {
  Context *context = Pairs::of_stream(stream);
  return context == nullptr ? 0 : Pairs::queue_of(*context, stream, self)->id;
}

// Around a call that waits, or has a queue wait.
template <class Waited>
struct Waits : Always {
  template <int I, class Args>
  static void before(Call &call, Args &a) {
    if (!cupti::waits() || !call.work || call.level != OCCATRACE_EVENT) return;
    occatrace_wait wait = {};
    wait.corr_tid = call.self->tid;
    wait.corr_seq = call.seq;
    Waited::template fill<I>(wait, a, call.self);
    cupti::wait_begins(wait);
    call.own = 1;
  }
  template <int I, class Args>
  static void after(Call &call, Args &a) {
    if (call.own != 0) cupti::wait_ends();
    Waited::template done<I>(call, a);
  }
  template <int I, class Args>
  static void done(Call &, Args &) {}
};

struct Managed : Always {
  template <int I, class Args>
  static void after(Call &, Args &a) {
    int devices = 0;
    if (a.ret != 0 || !device::tickets::on() || real<0>().cuDeviceGetCount == nullptr) return;
    if (real<0>().cuDeviceGetCount(&devices) != 0) return;
    cupti::record_managed(devices, device_number, occatrace_mode_of("cuda") == OCCATRACE_FULL);
  }

 private:
  static uint32_t device_number(uint32_t number) {
    const auto *key = reinterpret_cast<const void *>(static_cast<uintptr_t>(number) + 1);
    return Engine::instance().device_number(key);
  }
};

// Waits are recorded where calls are, and CUPTI brings the times.
void record_more() {
  const auto mode = occatrace_mode_of("cuda");
  if (device::tickets::on() && (mode == OCCATRACE_DEFAULT || mode == OCCATRACE_FULL)) cupti::record_waits();
}

}  // namespace

template <>
struct Hook<OCCATRACE_CUDA_cuMemAllocManaged> : Managed {};
template <>
struct Hook<OCCATRACE_CUDA_cuEventRecord> : Always {
  template <int I>
  static void after(Call &call, Args_cuEventRecord &a) {
    if (cupti::waits() && a.ret == 0) event_queues.set(a.hEvent, queue_number(Pairs::meant<I>(a.hStream), call.self));
  }
};
template <>
struct Hook<OCCATRACE_CUDA_cuEventSynchronize> : Waits<Hook<OCCATRACE_CUDA_cuEventSynchronize>> {
  template <int I>
  static void fill(occatrace_wait &wait, Args_cuEventSynchronize &a, const occatrace_thread *) {
    wait.queue = static_cast<uint32_t>(event_queues.get(a.hEvent));
  }
};
template <>
struct Hook<OCCATRACE_CUDA_cuStreamWaitEvent> : Waits<Hook<OCCATRACE_CUDA_cuStreamWaitEvent>> {
  template <int I>
  static void fill(occatrace_wait &wait, Args_cuStreamWaitEvent &a, const occatrace_thread *self) {
    wait.queue = static_cast<uint32_t>(event_queues.get(a.hEvent));
    wait.waiting = queue_number(Pairs::meant<I>(a.hStream), self);
  }
};

// ---- streams, contexts, captures ----

template <>
struct Hook<OCCATRACE_CUDA_cuStreamBeginCapture_v2> : Pairs::BeginsCapture {};
template <>
struct Hook<OCCATRACE_CUDA_cuStreamBeginCaptureToGraph> : Pairs::BeginsCapture {};
template <>
struct Hook<OCCATRACE_CUDA_cuStreamEndCapture> : Pairs::EndsCapture {};

template <>
struct Hook<OCCATRACE_CUDA_cuProfilerStart> : CaptureRange<OCCATRACE_RANGE_CUDA, true> {};
template <>
struct Hook<OCCATRACE_CUDA_cuProfilerStop> : CaptureRange<OCCATRACE_RANGE_CUDA, false> {};

#ifndef OCCATRACE_INJECTED
namespace {

// The program takes CUPTI.
void stop_timing() {
  occatrace_say("the program uses CUPTI itself now: from here on its device work is timed by events");
  Timing::stop();
}

// How many calls of cuInit are in the shim now, or have succeeded through it.
std::atomic<int> initialized{0};

}  // namespace

// CUPTI is taken when the driver stands and no context does.
template <>
struct Hook<OCCATRACE_CUDA_cuInit> : Always {
  template <int I>
  static void before(Call &, Args_cuInit &) {
    ++initialized;
  }
  template <int I>
  static void after(Call &, Args_cuInit &a) {
    if (a.ret != 0) --initialized;
    static std::atomic<bool> tried{false};
    const auto wanted = occatrace_device_time();
    if (a.ret != 0 || wanted == OCCATRACE_TIME_EVENTS || tried.exchange(true)) return;
    Timing::start(wanted == OCCATRACE_TIME_CUPTI, [](const char **why) { return cupti::start(stop_timing, why); });
    record_more();
  }
};
#endif
template <>
struct Hook<OCCATRACE_CUDA_cuCtxSynchronize> : Waits<Hook<OCCATRACE_CUDA_cuCtxSynchronize>> {
  template <int I>
  static void fill(occatrace_wait &, Args_cuCtxSynchronize &, const occatrace_thread *) {}
  template <int I>
  static void done(Call &call, Args_cuCtxSynchronize &a) {
    Pairs::Synchronizes::template after<I>(call, a);
  }
};
template <>
struct Hook<OCCATRACE_CUDA_cuStreamSynchronize> : Waits<Hook<OCCATRACE_CUDA_cuStreamSynchronize>> {
  template <int I>
  static void fill(occatrace_wait &wait, Args_cuStreamSynchronize &a, const occatrace_thread *self) {
    wait.queue = queue_number(Pairs::meant<I>(a.hStream), self);
  }
  template <int I>
  static void done(Call &call, Args_cuStreamSynchronize &a) {
    Pairs::harvest_stream(Pairs::meant<I>(a.hStream), call.self);
  }
};
template <>
struct Hook<OCCATRACE_CUDA_cuStreamDestroy_v2> : Always {
  template <int I>
  static void before(Call &, Args_cuStreamDestroy_v2 &a) {
    Pairs::retire(a.hStream);
  }
};
template <>
struct Hook<OCCATRACE_CUDA_cuCtxCreate> : Pairs::TakesScope {};
template <>
struct Hook<OCCATRACE_CUDA_cuCtxCreate_v2> : Pairs::TakesScope {};
template <>
struct Hook<OCCATRACE_CUDA_cuCtxCreate_v3> : Pairs::TakesScope {};
template <>
struct Hook<OCCATRACE_CUDA_cuCtxCreate_v4> : Pairs::TakesScope {};
template <>
struct Hook<OCCATRACE_CUDA_cuCtxSetCurrent> : Pairs::TakesScope {};
template <>
struct Hook<OCCATRACE_CUDA_cuCtxPushCurrent_v2> : Pairs::TakesScope {};

namespace {

struct LeavesContext : Always {
  template <int I, class Args>
  static void before(Call &, Args &a) {
    Pairs::close(a.ctx);
  }
};

}  // namespace

template <>
struct Hook<OCCATRACE_CUDA_cuCtxDestroy_v2> : LeavesContext {};
// One that is attached to more than once stays, and is met again as a new one.
template <>
struct Hook<OCCATRACE_CUDA_cuCtxDetach> : LeavesContext {};

namespace {

// A primary context goes with its last holder, whom we cannot know: look afterwards whether it is still there.
struct LeavesPrimary : Always {
  template <int I, class Args>
  static void before(Call &call, Args &a) {
    for (Context *context : Pairs::all()) {
      const Pairs::Entered inside(*context);
      CUdevice device = -1;
      if (real<0>().cuCtxGetDevice(&device) == 0 && device == a.dev) Pairs::finish(*context);
    }
  }
  template <int I, class Args>
  static void after(Call &, Args &a) {
    unsigned flags = 0;
    int active = 1;
    if (real<0>().cuDevicePrimaryCtxGetState == nullptr || real<0>().cuCtxGetApiVersion == nullptr) return;
    if (real<0>().cuDevicePrimaryCtxGetState(a.dev, &flags, &active) != 0 || active != 0) return;
    for (Context *context : Pairs::all()) {
      unsigned version = 0;
      if (real<0>().cuCtxGetApiVersion(context->handle, &version) != 0) Pairs::remove(*context);
    }
  }
};

}  // namespace

template <>
struct Hook<OCCATRACE_CUDA_cuDevicePrimaryCtxRelease_v2> : LeavesPrimary {};
template <>
struct Hook<OCCATRACE_CUDA_cuDevicePrimaryCtxReset_v2> : LeavesPrimary {};

// ---- names ----

template <>
struct Hook<OCCATRACE_CUDA_cuModuleGetFunction> : Always {
  template <int I>
  static void after(Call &, Args_cuModuleGetFunction &a) {
    if (a.ret == 0) kernel_names.set(*a.hfunc, occatrace_intern(a.name));
  }
};
template <>
struct Hook<OCCATRACE_CUDA_cuLibraryGetKernel> : Always {
  template <int I>
  static void after(Call &, Args_cuLibraryGetKernel &a) {
    if (a.ret == 0) kernel_names.set(*a.pKernel, occatrace_intern(a.name));
  }
};
template <>
struct Hook<OCCATRACE_CUDA_cuKernelGetFunction> : Always {
  template <int I>
  static void after(Call &, Args_cuKernelGetFunction &a) {
    if (a.ret != 0) return;
    if (const uint64_t name = kernel_names.get(a.kernel)) kernel_names.set(*a.pFunc, name);
  }
};

namespace {

// What belongs to graphics is left out by intention.
bool of_graphics(const char *symbol) {
  static constexpr const char *graphics[] = {"cuGL", "cuEGL", "cuVDPAU", "cuD3D", "cuWGL", "cuGraphics"};
  for (const char *prefix : graphics) {
    if (std::strncmp(symbol, prefix, std::strlen(prefix)) == 0) return true;
  }
  return false;
}

}  // namespace

#ifndef OCCATRACE_INJECTED

// ---- functions asked for by name ----

namespace {

struct ByName : Always {
  template <int I, class Args>
  static void result(Call &, Args &a) {
    if (a.ret != 0 || a.pfn == nullptr || *a.pfn == nullptr) return;
    void *const theirs = *a.pfn;
    *a.pfn = device::KnownFunctions::instance().ours(theirs);
    if (*a.pfn == theirs && !of_graphics(a.symbol)) device::untraced("CUDA", a.symbol);
  }
};

}  // namespace

template <>
struct Hook<OCCATRACE_CUDA_cuGetProcAddress> : ByName {};
template <>
struct Hook<OCCATRACE_CUDA_cuGetProcAddress_v2> : ByName {};

#endif

namespace {

// ---- begin ----

void after_fork_child() {
  cupti::after_fork_child();
  Timing::after_fork_child();
  kernel_names.unlock_after_fork();
  block_shapes.unlock_after_fork();
  event_queues.unlock_after_fork();
}

bool able() {
  const Dispatch &d = real<0>();
  return device::can_be_timed(
      "CUDA",
      {
          OCCATRACE_NEEDED(d, cuCtxGetCurrent),
          OCCATRACE_NEEDED(d, cuCtxPushCurrent_v2),
          OCCATRACE_NEEDED(d, cuCtxPopCurrent_v2),
          OCCATRACE_NEEDED(d, cuCtxGetDevice),
          OCCATRACE_NEEDED(d, cuDeviceGetName),
          OCCATRACE_NEEDED(d, cuStreamCreate),
          OCCATRACE_NEEDED(d, cuEventCreate),
          OCCATRACE_NEEDED(d, cuEventRecord),
          OCCATRACE_NEEDED(d, cuEventSynchronize),
          OCCATRACE_NEEDED(d, cuEventQuery),
          {"cuEventElapsedTime", d.cuEventElapsedTime != nullptr || d.cuEventElapsedTime_v2 != nullptr},
          OCCATRACE_NEEDED(d, cuCtxSynchronize),
          OCCATRACE_NEEDED(d, cuPointerGetAttribute),
      });
}

// False: this process is not traced.
bool start(occatrace_backend &backend) {
  if (!load_events()) return false;
  Pairs::wanted = occatrace_mode_of("cuda") != OCCATRACE_TALLIES && occatrace_device_time() != OCCATRACE_TIME_OFF && able();
  occatrace_backend_register(&backend);
  occatrace_kernels_have_stubs();
  return true;
}

}  // namespace

}  // namespace occatrace::cuda

#ifdef OCCATRACE_INJECTED
#include "cuda_injected.h"
#else

namespace occatrace::cuda {

namespace {

enum State {
  kUnbound,
  kUntraced,
  kTraced,
};
std::atomic<int> state{kUnbound};

bool enter();

inline bool entered(const void *from) {
  const int now = state.load(std::memory_order_acquire);
  if (__builtin_expect(now == kUnbound, 0)) return enter();
  return now == kTraced && !cupti::calls(from);
}

}  // namespace

}  // namespace occatrace::cuda

#include "cuda_exports.h"

namespace occatrace::cuda {

namespace {

occatrace_backend backend{"cuda", Timing::harvest, after_fork_child, nullptr};

// The calls are told of by CUPTI: the shim passes them on.
std::atomic<bool> yielded{false};

void bind() {
  void *library = dlopen("libcuda_real.so.1", RTLD_LAZY | RTLD_NOLOAD);
  for (const Export &e : exports) {
    void *address = dlsym(library != nullptr ? library : RTLD_NEXT, e.name);
    if (address == nullptr || address == e.ours) continue;
    std::memcpy(reinterpret_cast<char *>(&targets[e.variant]) + e.offset, &address, sizeof address);
    device::KnownFunctions::instance().add(address, e.ours);
  }
  device::KnownFunctions::instance().sort();
}

bool enter() {
  static std::once_flag once;
  std::call_once(once, [] {
    bind();
    state.store(!yielded && start(backend) ? kTraced : kUntraced, std::memory_order_release);
  });
  return state.load(std::memory_order_acquire) == kTraced;
}

}  // namespace

}  // namespace occatrace::cuda

// The driver initializes and has loaded what CUDA_INJECTION64_PATH names: whether the shim sees the program's calls. Where it
// does not, it leaves those that still come through it to CUPTI's callbacks.
extern "C" OCCATRACE_EXPORT int occatrace_cuda_shim_serves() {
  using namespace occatrace::cuda;
  if (initialized != 0) return 1;
  yielded = true;
  int traced = kTraced;
  state.compare_exchange_strong(traced, kUntraced);
  return 0;
}
#endif
