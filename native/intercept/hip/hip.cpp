// The HIP runtime API, by preloaded symbols. The wrappers are generated from the model; here is what they cannot know: device
// time by pairs of events or by the records of rocprofiler-sdk or roctracer, names of kernels, and functions that are asked for by name.
#include "hip_work.h"

namespace occatrace::hip {

namespace {

void settle_now() {
  static std::mutex mutex;
  std::lock_guard<std::mutex> guard(mutex);
  if (!unsettled.load()) return;
  // Where this is the first that is asked of it the runtime is initialized now.
  Runtime::current();
  const auto by = occatrace_device_time();
  const bool chosen = by == OCCATRACE_TIME_ROCTRACER || by == OCCATRACE_TIME_ROCPROFILER || rocprofiler::is_taken();
  Timing::start(chosen, [by](const char **why) -> const device::Source * {
    const device::Source *found = by == OCCATRACE_TIME_ROCTRACER ? nullptr : rocprofiler::start(why);
    if (found != nullptr || by == OCCATRACE_TIME_ROCPROFILER || rocprofiler::is_taken()) return found;
    return roctracer::start(std::begin(commands), std::end(commands), why);
  });
  unsettled.store(false, std::memory_order_release);
}

}  // namespace

template <>
struct Hook<OCCATRACE_HIP_hipLaunchCooperativeKernelMultiDevice> : LaunchesSeveral<LaunchOnDevice> {};
template <>
struct Hook<OCCATRACE_HIP_hipExtLaunchMultiKernelMultiDevice> : LaunchesSeveral<LaunchOnDevice> {};
template <>
struct Hook<OCCATRACE_HIP_hipModuleLaunchCooperativeKernelMultiDevice> : LaunchesSeveral<ModuleLaunchOnDevice> {};

// ---- streams, devices, captures ----

namespace {

// A call that waited for a stream.
struct WaitsForStream : Always {
  template <int I, class Args>
  static void after(Call &call, Args &a) {
    if (a.ret == 0) Pairs::harvest_stream(Pairs::meant<I>(a.stream), call.self);
  }
};

// All that is on the current device goes, our events too.
struct ResetsDevice : Always {
  template <int I, class Args>
  static void before(Call &, Args &) {
    Pairs::close(Runtime::current());
  }
};

}  // namespace

template <>
struct Hook<OCCATRACE_HIP_hipStreamBeginCapture> : Pairs::BeginsCapture {};
template <>
struct Hook<OCCATRACE_HIP_hipStreamBeginCaptureToGraph> : Pairs::BeginsCapture {};
template <>
struct Hook<OCCATRACE_HIP_hipStreamEndCapture> : Pairs::EndsCapture {};
template <>
struct Hook<OCCATRACE_HIP_hipDeviceSynchronize> : Pairs::Synchronizes {};
template <>
struct Hook<OCCATRACE_HIP_hipCtxSynchronize> : Pairs::Synchronizes {};
template <>
struct Hook<OCCATRACE_HIP_hipStreamSynchronize> : WaitsForStream {};
template <>
struct Hook<OCCATRACE_HIP_hipStreamDestroy> : Always {
  template <int I>
  static void before(Call &, Args_hipStreamDestroy &a) {
    Pairs::retire(a.stream);
  }
};
template <>
struct Hook<OCCATRACE_HIP_hipDeviceReset> : ResetsDevice {};
template <>
struct Hook<OCCATRACE_HIP_hipSetDevice> : TakesDevice {};
template <>
struct Hook<OCCATRACE_HIP_hipMalloc> : TakesDevice {};
template <>
struct Hook<OCCATRACE_HIP_hipStreamCreate> : TakesDevice {};
template <>
struct Hook<OCCATRACE_HIP_hipStreamCreateWithFlags> : TakesDevice {};
template <>
struct Hook<OCCATRACE_HIP_hipModuleLoad> : TakesDevice {};
template <>
struct Hook<OCCATRACE_HIP_hipModuleLoadData> : TakesDevice {};

template <>
struct Hook<OCCATRACE_HIP_hipMalloc3D> : NoHook {
  template <int I>
  static void result(Call &, Args_hipMalloc3D &a) {
    if (a.ret == 0) a.address = reinterpret_cast<const PitchedPtr *>(a.pitchedDevPtr)->at;
  }
};
namespace {

// The runtime does not say of which elements an array is.
template <class Args>
size_t element_of(const Args &a) {
  const auto &bits = *reinterpret_cast<const ChannelDescriptor *>(a.desc);
  return static_cast<size_t>(bits.x + bits.y + bits.z + bits.w) / 8;
}
struct MakesArray : Always {
  template <int I, class Args>
  static void after(Call &, Args &a) {
    if (a.ret == 0) array_elements.set(*a.array, element_of(a));
  }
};

}  // namespace

template <>
struct Hook<OCCATRACE_HIP_hipMallocArray> : MakesArray {};
template <>
struct Hook<OCCATRACE_HIP_hipMalloc3DArray> : MakesArray {};
template <>
struct Hook<OCCATRACE_HIP_hipConfigureCall> : Always {
  template <int I>
  static void after(Call &, Args_hipConfigureCall &a) {
    configured = {dim(a.gridDim), dim(a.blockDim), a.stream};
  }
};

template <>
struct Hook<OCCATRACE_HIP_hipProfilerStart> : CaptureRange<OCCATRACE_RANGE_HIP, true> {};
template <>
struct Hook<OCCATRACE_HIP_hipProfilerStop> : CaptureRange<OCCATRACE_RANGE_HIP, false> {};

// ---- names ----

template <>
struct Hook<OCCATRACE_HIP_hipModuleGetFunction> : Always {
  template <int I>
  static void after(Call &, Args_hipModuleGetFunction &a) {
    if (a.ret == 0) kernel_names.set(*a.function, occatrace_intern(a.kname));
  }
};

// ---- functions asked for by name ----

template <>
struct Hook<OCCATRACE_HIP_hipGetProcAddress> : Always {
  template <int I>
  static void result(Call &, Args_hipGetProcAddress &a) {
    if (a.ret != 0 || a.pfn == nullptr || *a.pfn == nullptr) return;
    void *const theirs = *a.pfn;
    // HIP may have asked dlsym, which has given ours.
    if (occatrace_is_core(theirs)) return;
    *a.pfn = device::KnownFunctions::instance().ours(theirs);
    if (*a.pfn == theirs) device::untraced("HIP", a.symbol);
  }
};

// ---- begin ----

namespace {

void after_fork_child() {
  Timing::after_fork_child();
  kernel_names.unlock_after_fork();
  array_elements.unlock_after_fork();
}

occatrace_backend backend{"hip", Timing::harvest, after_fork_child, nullptr};

bool able(const Dispatch &d) {
  return device::can_be_timed(
      "HIP", {OCCATRACE_NEEDED(d, hipGetDevice), OCCATRACE_NEEDED(d, hipSetDevice), OCCATRACE_NEEDED(d, hipDeviceGetName),
              OCCATRACE_NEEDED(d, hipStreamCreateWithFlags), OCCATRACE_NEEDED(d, hipEventCreateWithFlags),
              OCCATRACE_NEEDED(d, hipEventRecord), OCCATRACE_NEEDED(d, hipEventQuery), OCCATRACE_NEEDED(d, hipEventSynchronize),
              OCCATRACE_NEEDED(d, hipEventElapsedTime), OCCATRACE_NEEDED(d, hipDeviceSynchronize),
              OCCATRACE_NEEDED(d, hipPeekAtLastError), OCCATRACE_NEEDED(d, hipGetLastError),
              OCCATRACE_NEEDED(d, hipPointerGetAttributes)});
}

}  // namespace

extern "C" OCCATRACE_EXPORT void occatrace_bind_hip(const occatrace_trampolines *t) {
  if (!load_events()) return;
  bind_slots(t, targets, [](void *original, void *ours) { device::KnownFunctions::instance().add(original, ours); });
  device::KnownFunctions::instance().sort();
  const Dispatch &d = real<0>();
  const auto by = occatrace_device_time();
  Pairs::wanted = occatrace_mode_of("hip") != OCCATRACE_TALLIES && by != OCCATRACE_TIME_OFF && able(d);
  unsettled.store(Pairs::wanted && by != OCCATRACE_TIME_EVENTS, std::memory_order_release);
  if (Pairs::wanted && (by == OCCATRACE_TIME_AUTO || by == OCCATRACE_TIME_ROCPROFILER))
    rocprofiler::prepare(reinterpret_cast<const void *>(d.hipGetDevice));
  // The first call that initializes the runtime.
  if (d.hipRuntimeGetVersion != nullptr) d.hipRuntimeGetVersion(&version);
  occatrace_backend_register(&backend);
  occatrace_kernels_have_stubs();
}

}  // namespace occatrace::hip
