// The CUDA driver API, twice. The shim: a library of the driver's soname, found before it, with the real one behind; its exports
// are generated from the model. And with OCCATRACE_INJECTED what the driver itself loads where the shim is not reached
// (cuda_injected.h), the calls then told of by CUPTI. Here is what both have and the generator cannot know: device time, names.
#include <dlfcn.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <mutex>
#include <string>
#include <vector>

#include "../common/arrays.h"
#include "cuda_dispatch.h"
#include "cupti.h"
#include "event_pairs.h"
#include "known_functions.h"
#include "occatrace_core.h"

namespace occatrace::cuda {

// Two sets of real functions: of the legacy default stream, and of the per-thread default stream.
static Dispatch targets[2];
template <int I>
const Dispatch &real() {
  return targets[I];
}

// ---- structures of the header, as far as they are read ----

struct CopyEnd2D {
  size_t x, y;
  unsigned type;
  const void *host;
  CUdeviceptr device;
  CUarray array;
  size_t pitch;
};
struct Copy2D {
  CopyEnd2D from, to;
  size_t width, height;
};
struct CopyEnd3D {
  size_t x, y, z, level;
  unsigned type;
  const void *host;
  CUdeviceptr device;
  CUarray array;
  void *reserved;
  size_t pitch, height;
};
struct Copy3D {
  CopyEnd3D from, to;
  size_t width, height, depth;
};
struct CopyEndPeer {
  size_t x, y, z, level;
  unsigned type;
  const void *host;
  CUdeviceptr device;
  CUarray array;
  CUcontext context;
  size_t pitch, height;
};
struct Copy3DPeer {
  CopyEndPeer from, to;
  size_t width, height, depth;
};

// An end of a copy of cuMemcpy3DBatchAsync: an address, or an array.
struct CopyEndBatch {
  unsigned type;
  union {
    struct {
      CUdeviceptr device;
      size_t row, layer;
      int location[2];
    } pointer;
    struct {
      CUarray handle;
      size_t x, y, z;
    } array;
  };
};
struct CopyOfBatch {
  CopyEndBatch from, to;
  size_t width, height, depth;
  unsigned order, flags;
};

enum MemoryType : unsigned { kHost = 1, kDevice = 2, kArray = 3, kUnified = 4 };

// What the model asks of arguments.
inline CUcontext current_context() {
  CUcontext context = nullptr;
  return real<0>().cuCtxGetCurrent != nullptr && real<0>().cuCtxGetCurrent(&context) == 0 ? context : nullptr;
}
template <class End>
CUdeviceptr address_of(const End &end) {
  if (end.type == kArray) return 0;
  return end.type == kHost ? reinterpret_cast<CUdeviceptr>(end.host) : end.device;
}
template <class Copy>
CUdeviceptr from_of(const void *copy) {
  return copy == nullptr ? 0 : address_of(static_cast<const Copy *>(copy)->from);
}
template <class Copy>
CUdeviceptr to_of(const void *copy) {
  return copy == nullptr ? 0 : address_of(static_cast<const Copy *>(copy)->to);
}
inline size_t array_bytes(const CUDA_ARRAY_DESCRIPTOR *given) { return array_bytes_as<ArrayDescriptor>(given); }
inline size_t array_bytes(const CUDA_ARRAY3D_DESCRIPTOR *given) { return array_bytes_as<Array3DDescriptor>(given); }

}  // namespace occatrace::cuda

#include "cuda_wrappers.h"

namespace occatrace::cuda {

namespace {

using device::Engine;
using device::HandleMap;
using device::Queue;
using device::Work;
using device::copy_kind;

HandleMap kernel_names;  // CUfunction, CUkernel → interned name

// ---- structures of the header, as far as they are read ----

struct LaunchConfig {
  unsigned grid[3], block[3], shared;
  CUstream stream;
};

// ---- device time ----

// What pairs of events need of the driver.
struct Driver {
  static constexpr const char *kName = "CUDA";
  static constexpr const char *kVendor = "NVIDIA";
  static constexpr CUresult kNotReady = 600;
  using Scope = CUcontext;
  using Stream = CUstream;
  using Event = CUevent;

  static CUcontext current() {
    CUcontext context = nullptr;
    return real<0>().cuCtxGetCurrent(&context) == 0 ? context : nullptr;
  }
  static CUcontext scope_of(CUstream) { return current(); }
  static bool enter(CUcontext context, CUcontext *before) {
    *before = current();
    return *before != context && real<0>().cuCtxPushCurrent_v2(context) == 0;
  }
  static void leave(CUcontext) {
    CUcontext popped = nullptr;
    real<0>().cuCtxPopCurrent_v2(&popped);
  }
  static CUdevice device() {
    CUdevice device = 0;
    real<0>().cuCtxGetDevice(&device);
    return device;
  }
  static std::string name(CUdevice device) {
    char text[256] = "";
    real<0>().cuDeviceGetName(text, sizeof text - 1, device);
    return text;
  }
  static CUresult create_stream(CUstream *stream) {
    constexpr unsigned non_blocking = 1;
    return real<0>().cuStreamCreate(stream, non_blocking);
  }
  static CUresult create_event(CUevent *event) { return real<0>().cuEventCreate(event, 0); }
  static CUresult record(CUevent event, CUstream stream) { return real<0>().cuEventRecord(event, stream); }
  static CUresult synchronize(CUevent event) { return real<0>().cuEventSynchronize(event); }
  static CUresult query(CUevent event) { return real<0>().cuEventQuery(event); }
  static CUresult elapsed(float *ms, CUevent from, CUevent to) {
    const auto ask = real<0>().cuEventElapsedTime_v2 != nullptr ? real<0>().cuEventElapsedTime_v2 : real<0>().cuEventElapsedTime;
    return ask(ms, from, to);
  }
  static std::string platform() {
    return device::tickets::on() ? "CUDA, device times by CUPTI " + std::to_string(cupti::version()) : kName;
  }
  static void synchronize_all() { real<0>().cuCtxSynchronize(); }
  static bool capturing(CUstream stream) {
    CUstreamCaptureStatus status = 0;
    if (real<0>().cuStreamIsCapturing == nullptr) return true;
    return real<0>().cuStreamIsCapturing(stream, &status) != 0 || status != 0;
  }
};

using Pairs = device::EventPairs<Driver>;
using Context = Pairs::Context;
using Timing = device::Timing<Pairs>;

// ---- what each command is ----

uint32_t kernel_name(CUfunction function) {
  if (const uint64_t known = kernel_names.get(function)) return static_cast<uint32_t>(known);
  const char *text = nullptr;
  if (real<0>().cuFuncGetName == nullptr || real<0>().cuFuncGetName(&text, function) != 0) text = nullptr;
  const uint32_t name = occatrace_intern(text != nullptr ? text : "kernel of unknown name");
  kernel_names.set(function, name);
  return name;
}

void launch(Work &work, CUfunction function, const unsigned *grid, const unsigned *block) {
  work.kind = OCCATRACE_KERNEL;
  work.name = kernel_name(function);
  for (size_t at = 0; at < 3; ++at) {
    work.grid[at] = grid[at] * block[at];
    work.block[at] = block[at];
  }
}

// Kind of memory behind a unified address; what the driver does not know is the program's own.
bool on_device(CUdeviceptr address) {
  unsigned type = 0;
  return real<0>().cuPointerGetAttribute(&type, 2, address) == 0 && type == kDevice;
}

template <class End>
bool on_device(const End &end) {
  return end.type == kDevice || end.type == kArray || (end.type == kUnified && on_device(end.device));
}

template <class Copy>
void copy_of(const Copy *copy, size_t depth, Work &work) {
  if (copy == nullptr) return;
  work.kind = copy_kind(on_device(copy->from), on_device(copy->to));
  work.bytes = copy->width * copy->height * depth;
}

// Several copies by one call. `at(i)` is one of them.
template <class At>
void copies_of(size_t count, Work &work, At at) {
  std::vector<device::Part> parts;
  parts.reserve(count);
  for (size_t i = 0; i < count; ++i) parts.push_back(at(i));
  work.consists_of(std::move(parts));
}

constexpr unsigned kPointerOfBatch = 1;

bool on_device(const CopyEndBatch &end) { return end.type != kPointerOfBatch || on_device(end.pointer.device); }

// Bytes of what the extents of such a copy count: elements of an array, where one takes part.
size_t element_of(const CopyEndBatch &end) {
  if (end.type == kPointerOfBatch || real<0>().cuArray3DGetDescriptor_v2 == nullptr) return 0;
  Array3DDescriptor array = {};
  auto *given = reinterpret_cast<CUDA_ARRAY3D_DESCRIPTOR *>(&array);
  return real<0>().cuArray3DGetDescriptor_v2(given, end.array.handle) == 0 ? element_bytes(array.format, array.channels) : 0;
}

device::Part copy_of_batch(const CopyOfBatch &copy) {
  const size_t element = std::max<size_t>({element_of(copy.from), element_of(copy.to), 1});
  return {copy_kind(on_device(copy.from), on_device(copy.to)), copy.width * copy.height * copy.depth * element};
}

template <class Args>
void copies(const Args &a, Work &work) {
  copies_of(a.count, work, [&a](size_t at) {
    return device::Part{copy_kind(on_device(a.srcs[at]), on_device(a.dsts[at])), a.sizes[at]};
  });
}
template <class Args>
void copies_3d(const Args &a, Work &work) {
  const auto *list = reinterpret_cast<const CopyOfBatch *>(a.opList);
  copies_of(a.numOps, work, [list](size_t at) { return copy_of_batch(list[at]); });
}
template <class Args>
void migrations(const Args &a, Work &work) {
  copies_of(a.count, work, [&a](size_t at) { return device::Part{OCCATRACE_MIGRATE, a.sizes[at]}; });
}

// What the launches of old take from the function: its blocks.
HandleMap block_shapes;
constexpr int kShapeBits = 16;

void launch_of_old(Work &work, CUfunction function, int width, int height) {
  const uint64_t shape = block_shapes.get(function);
  const auto side = [shape](int at) { return std::max(1u, static_cast<unsigned>(shape >> (at * kShapeBits)) & 0xffffu); };
  const unsigned grid[] = {static_cast<unsigned>(width), static_cast<unsigned>(height), 1};
  const unsigned block[] = {side(0), side(1), side(2)};
  launch(work, function, grid, block);
}

template <class Args>
void describe(const Args &a, Work &work);

// A command's stream, where it is told; functions without one work in the default stream.
template <class Args>
auto stream_of(const Args &a, int) -> decltype(a.hStream) {
  return a.hStream;
}
inline CUstream stream_of(const Args_cuLaunchKernelEx &a, int) {
  return a.config == nullptr ? nullptr : reinterpret_cast<const LaunchConfig *>(a.config)->stream;
}
template <class Args>
CUstream stream_of(const Args &, long) {
  return nullptr;
}

// Surrounds a command by two events.
template <bool Waits, bool Pieces = false>
struct Enqueue : Always {
  template <int I, class Args>
  static bool chosen(Args &a) {
    return Pairs::chosen(Pairs::meant<I>(stream_of(a, 0))) && chosen_kernel(a, 0);
  }
  template <int I, class Args>
  static void before(Call &call, Args &a) {
    Timing::begin(call, Pairs::meant<I>(stream_of(a, 0)), Pieces);
  }
  template <int I, class Args>
  static void after(Call &call, Args &a) {
    Timing::end(call, Pairs::meant<I>(stream_of(a, 0)), a.ret == 0, Waits, [&a](Work &work) { describe(a, work); });
  }

 private:
  // Below an OCCA kernel, that one is what people choose.
  template <class Args>
  static auto chosen_kernel(const Args &a, int) -> decltype(a.f != nullptr) {
    return occatrace_self()->run_seq != OCCATRACE_NO_RUN || occatrace_choose_kernel(kernel_name(a.f));
  }
  template <class Args>
  static bool chosen_kernel(const Args &, long) {
    return true;
  }
};

}  // namespace

#define OCCATRACE_COMMAND_AS(function, how, ...)        \
  template <>                                           \
  struct Hook<OCCATRACE_CUDA_##function> : how {};      \
  namespace {                                           \
  template <>                                           \
  void describe(const Args_##function &a, Work &work) { \
    __VA_ARGS__;                                        \
  }                                                     \
  }
#define OCCATRACE_COMMAND(function, waits, ...) OCCATRACE_COMMAND_AS(function, Enqueue<waits>, __VA_ARGS__)
// Several copies by one call, of which CUPTI tells one by one.
using EnqueueBatch = Enqueue<false, true>;
#define OCCATRACE_BATCH(function, ...) OCCATRACE_COMMAND_AS(function, EnqueueBatch, __VA_ARGS__)
#define OCCATRACE_COPY(function, waits, what) \
  OCCATRACE_COMMAND(function, waits, work.kind = what; work.bytes = a.ByteCount)

namespace {
template <class Args>
void launch(Work &work, const Args &a) {
  const unsigned grid[] = {a.gridDimX, a.gridDimY, a.gridDimZ};
  const unsigned block[] = {a.blockDimX, a.blockDimY, a.blockDimZ};
  launch(work, a.f, grid, block);
}
}  // namespace

OCCATRACE_COMMAND(cuLaunchKernel, false, launch(work, a))
OCCATRACE_COMMAND(cuLaunchCooperativeKernel, false, launch(work, a))
OCCATRACE_COMMAND(cuLaunchKernelEx, false, {
  const auto *config = reinterpret_cast<const LaunchConfig *>(a.config);
  launch(work, a.f, config->grid, config->block);
})
OCCATRACE_COMMAND(cuLaunch, false, launch_of_old(work, a.f, 1, 1))
OCCATRACE_COMMAND(cuLaunchGrid, false, launch_of_old(work, a.f, a.grid_width, a.grid_height))
OCCATRACE_COMMAND(cuLaunchGridAsync, false, launch_of_old(work, a.f, a.grid_width, a.grid_height))
OCCATRACE_COMMAND(cuGraphLaunch, false, work.kind = OCCATRACE_OTHER; work.name = occatrace_intern("graph"))

OCCATRACE_COPY(cuMemcpyHtoD_v2, true, OCCATRACE_HTOD)
OCCATRACE_COPY(cuMemcpyHtoDAsync_v2, false, OCCATRACE_HTOD)
OCCATRACE_COPY(cuMemcpyDtoH_v2, true, OCCATRACE_DTOH)
OCCATRACE_COPY(cuMemcpyDtoHAsync_v2, false, OCCATRACE_DTOH)
OCCATRACE_COPY(cuMemcpyDtoD_v2, false, OCCATRACE_DTOD)
OCCATRACE_COPY(cuMemcpyDtoDAsync_v2, false, OCCATRACE_DTOD)
OCCATRACE_COPY(cuMemcpyHtoA, true, OCCATRACE_HTOD)
OCCATRACE_COPY(cuMemcpyHtoAAsync, false, OCCATRACE_HTOD)
OCCATRACE_COPY(cuMemcpyAtoH, true, OCCATRACE_DTOH)
OCCATRACE_COPY(cuMemcpyAtoHAsync, false, OCCATRACE_DTOH)
OCCATRACE_COPY(cuMemcpyAtoA, false, OCCATRACE_DTOD)
OCCATRACE_COPY(cuMemcpyHtoA_v2, true, OCCATRACE_HTOD)
OCCATRACE_COPY(cuMemcpyHtoAAsync_v2, false, OCCATRACE_HTOD)
OCCATRACE_COPY(cuMemcpyAtoH_v2, true, OCCATRACE_DTOH)
OCCATRACE_COPY(cuMemcpyAtoHAsync_v2, false, OCCATRACE_DTOH)
OCCATRACE_COPY(cuMemcpyDtoA_v2, false, OCCATRACE_DTOD)
OCCATRACE_COPY(cuMemcpyAtoD_v2, false, OCCATRACE_DTOD)
OCCATRACE_COPY(cuMemcpyAtoA_v2, false, OCCATRACE_DTOD)
OCCATRACE_COPY(cuMemcpyPeer, false, OCCATRACE_DTOD)
OCCATRACE_COPY(cuMemcpyPeerAsync, false, OCCATRACE_DTOD)
OCCATRACE_COPY(cuMemcpy, true, copy_kind(on_device(a.src), on_device(a.dst)))
OCCATRACE_COPY(cuMemcpyAsync, false, copy_kind(on_device(a.src), on_device(a.dst)))
OCCATRACE_COMMAND(cuMemcpy2D_v2, true, copy_of(reinterpret_cast<const Copy2D *>(a.pCopy), 1, work))
OCCATRACE_COMMAND(cuMemcpy2DUnaligned_v2, true, copy_of(reinterpret_cast<const Copy2D *>(a.pCopy), 1, work))
OCCATRACE_COMMAND(cuMemcpy2DAsync_v2, false, copy_of(reinterpret_cast<const Copy2D *>(a.pCopy), 1, work))
OCCATRACE_COMMAND(cuMemcpy3D_v2, true, {
  const auto *copy = reinterpret_cast<const Copy3D *>(a.pCopy);
  copy_of(copy, copy->depth, work);
})
OCCATRACE_COMMAND(cuMemcpy3DAsync_v2, false, {
  const auto *copy = reinterpret_cast<const Copy3D *>(a.pCopy);
  copy_of(copy, copy->depth, work);
})
OCCATRACE_COMMAND(cuMemcpy3DPeer, true, {
  const auto *copy = reinterpret_cast<const Copy3DPeer *>(a.pCopy);
  copy_of(copy, copy->depth, work);
})
OCCATRACE_COMMAND(cuMemcpy3DPeerAsync, false, {
  const auto *copy = reinterpret_cast<const Copy3DPeer *>(a.pCopy);
  copy_of(copy, copy->depth, work);
})

#define OCCATRACE_FILL_1D(function, size) \
  OCCATRACE_COMMAND(function, false, work.kind = OCCATRACE_FILL; work.bytes = a.N * size)
#define OCCATRACE_FILL_2D(function, size) \
  OCCATRACE_COMMAND(function, false, work.kind = OCCATRACE_FILL; work.bytes = a.Width * a.Height * size)
OCCATRACE_FILL_1D(cuMemsetD8_v2, 1)
OCCATRACE_FILL_1D(cuMemsetD16_v2, 2)
OCCATRACE_FILL_1D(cuMemsetD32_v2, 4)
OCCATRACE_FILL_1D(cuMemsetD8Async, 1)
OCCATRACE_FILL_1D(cuMemsetD16Async, 2)
OCCATRACE_FILL_1D(cuMemsetD32Async, 4)
OCCATRACE_FILL_2D(cuMemsetD2D8_v2, 1)
OCCATRACE_FILL_2D(cuMemsetD2D16_v2, 2)
OCCATRACE_FILL_2D(cuMemsetD2D32_v2, 4)
OCCATRACE_FILL_2D(cuMemsetD2D8Async, 1)
OCCATRACE_FILL_2D(cuMemsetD2D16Async, 2)
OCCATRACE_FILL_2D(cuMemsetD2D32Async, 4)
OCCATRACE_COMMAND(cuMemPrefetchAsync, false, work.kind = OCCATRACE_MIGRATE; work.bytes = a.count)
OCCATRACE_COMMAND(cuMemPrefetchAsync_v2, false, work.kind = OCCATRACE_MIGRATE; work.bytes = a.count)
OCCATRACE_BATCH(cuMemcpyBatchAsync, copies(a, work))
OCCATRACE_BATCH(cuMemcpyBatchAsync_v2, copies(a, work))
OCCATRACE_BATCH(cuMemcpy3DBatchAsync, copies_3d(a, work))
OCCATRACE_BATCH(cuMemcpy3DBatchAsync_v2, copies_3d(a, work))
OCCATRACE_BATCH(cuMemPrefetchBatchAsync, migrations(a, work))
OCCATRACE_BATCH(cuMemDiscardAndPrefetchBatchAsync, migrations(a, work))

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

// How many calls of cuInit are in the shim now.
std::atomic<int> initializing{0};

}  // namespace

// CUPTI is taken when the driver stands and no context does.
template <>
struct Hook<OCCATRACE_CUDA_cuInit> : Always {
  template <int I>
  static void before(Call &, Args_cuInit &) {
    ++initializing;
  }
  template <int I>
  static void after(Call &, Args_cuInit &a) {
    --initializing;
    static std::atomic<bool> tried{false};
    const auto wanted = occatrace_device_time();
    if (a.ret != 0 || wanted == OCCATRACE_TIME_EVENTS || tried.exchange(true)) return;
    Timing::start(wanted == OCCATRACE_TIME_CUPTI, cupti::start);
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
      "CUDA", {OCCATRACE_NEEDED(d, cuCtxGetCurrent), OCCATRACE_NEEDED(d, cuCtxPushCurrent_v2), OCCATRACE_NEEDED(d, cuCtxPopCurrent_v2),
               OCCATRACE_NEEDED(d, cuCtxGetDevice), OCCATRACE_NEEDED(d, cuDeviceGetName), OCCATRACE_NEEDED(d, cuStreamCreate),
               OCCATRACE_NEEDED(d, cuEventCreate), OCCATRACE_NEEDED(d, cuEventRecord), OCCATRACE_NEEDED(d, cuEventSynchronize),
               OCCATRACE_NEEDED(d, cuEventQuery),
               {"cuEventElapsedTime", d.cuEventElapsedTime != nullptr || d.cuEventElapsedTime_v2 != nullptr},
               OCCATRACE_NEEDED(d, cuCtxSynchronize), OCCATRACE_NEEDED(d, cuPointerGetAttribute)});
}

// False: this process is not traced.
bool start(occatrace_backend &backend) {
  if (!load_events()) return false;
  Pairs::wanted = occatrace_mode_of("cuda") != OCCATRACE_TALLIES && occatrace_device_time() != OCCATRACE_TIME_OFF && able();
  occatrace_backend_register(&backend);
  return true;
}

}  // namespace

}  // namespace occatrace::cuda

#ifdef OCCATRACE_INJECTED
#include "cuda_injected.h"
#else

namespace occatrace::cuda {

namespace {

enum State { kUnbound, kUntraced, kTraced };
std::atomic<int> state{kUnbound};

bool enter();

inline bool entered() {
  const int now = state.load(std::memory_order_acquire);
  return __builtin_expect(now != kUnbound, 1) ? now == kTraced : enter();
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
  if (initializing != 0) return 1;
  yielded = true;
  int traced = kTraced;
  state.compare_exchange_strong(traced, kUntraced);
  return 0;
}
#endif
