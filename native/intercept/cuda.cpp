// The shim of the CUDA driver: a library of its soname, found before it, with the real one behind. The exports are generated
// from the model; here is what they cannot know: device time by pairs of events, and functions that are asked for by name.
#include <dlfcn.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <string>
#include <vector>

#include "cuda_dispatch.h"
#include "engine.h"
#include "occatrace_core.h"

namespace occatrace::cuda {

// Two sets of real functions: of the legacy default stream, and of the per-thread default stream.
static Dispatch targets[2];
template <int I>
const Dispatch &real() {
  return targets[I];
}

}  // namespace occatrace::cuda

#include "cuda_wrappers.h"

namespace occatrace::cuda {

const occatrace_cuda_events *events;
uint8_t levels[OCCATRACE_CUDA_COUNT];
uint32_t first_slot;

namespace {

using device::Engine;
using device::HandleMap;
using device::Queue;
using device::Times;
using device::Work;

constexpr CUresult kNotReady = 600;
constexpr unsigned kNonBlocking = 1;
constexpr uint64_t kOrigin = uint64_t{1} << 61;
constexpr int kFirstCalibrations = 4;
constexpr uint64_t kCalibrateEvery = 100'000'000;
const CUstream kPerThread = reinterpret_cast<CUstream>(uintptr_t{2});

// Off in the mode that only tallies: no event of ours is then recorded into the program's streams.
bool device_time = false;

HandleMap kernel_names;  // CUfunction, CUkernel → interned name

// ---- structures of the header, as far as they are read ----

struct LaunchConfig {
  unsigned grid[3], block[3], shared;
  CUstream stream;
};

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

enum MemoryType : unsigned { kHost = 1, kDevice = 2, kArray = 3, kUnified = 4 };

// ---- device time ----

struct Context;

// Two events around one command.
struct Pair {
  CUevent start = nullptr;
  CUevent end = nullptr;
  Context *context = nullptr;
};

// A context and what we keep in it. Lives on after the program destroyed it: somebody may still be looking.
struct Context {
  CUcontext handle = nullptr;
  device::Device *device = nullptr;
  std::mutex mutex;
  std::vector<Pair *> free;
  CUstream stream = nullptr;     // of ours: what is recorded there waits for nothing
  CUevent reference = nullptr;   // complete, at reference_time of the device's clock
  CUevent spare = nullptr;
  uint64_t reference_time = 0;
  std::atomic<uint64_t> calibrated{0};
  std::atomic<bool> alive{true};
};

class Contexts {
 public:
  // The record of the calling thread's context, or null where it has none.
  Context *current() {
    CUcontext handle = nullptr;
    if (real<0>().cuCtxGetCurrent(&handle) != 0 || handle == nullptr) return nullptr;
    if (const uint64_t known = map_.get(handle)) return reinterpret_cast<Context *>(known);
    return add(handle);
  }
  Context *find(CUcontext handle) { return reinterpret_cast<Context *>(map_.get(handle)); }
  void remove(Context &context) {
    context.alive = false;
    map_.set(context.handle, 0);
    std::lock_guard<std::mutex> guard(mutex_);
    all_.erase(std::remove(all_.begin(), all_.end(), &context), all_.end());
  }
  std::vector<Context *> all() {
    std::lock_guard<std::mutex> guard(mutex_);
    return all_;
  }
  void after_fork_child() {
    new (&mutex_) std::mutex;
    map_.unlock_after_fork();
  }

 private:
  Context *add(CUcontext handle);

  std::mutex mutex_;
  HandleMap map_;
  std::vector<Context *> all_;
};

Contexts &contexts() {
  static auto *const all = new Contexts;
  return *all;
}

// Makes a context current for a moment, for calls from a thread that has another or none.
class Entered {
 public:
  explicit Entered(const Context &context) {
    CUcontext now = nullptr;
    real<0>().cuCtxGetCurrent(&now);
    pushed_ = now != context.handle && real<0>().cuCtxPushCurrent_v2(context.handle) == 0;
  }
  ~Entered() {
    CUcontext popped = nullptr;
    if (pushed_) real<0>().cuCtxPopCurrent_v2(&popped);
  }
  Entered(const Entered &) = delete;
  Entered &operator=(const Entered &) = delete;

 private:
  bool pushed_ = false;
};

// ns between two events that are complete. A float of milliseconds: exact to 1 ns up to 16 ms, to 60 ns up to a second.
bool elapsed(CUevent from, CUevent to, int64_t *ns) {
  float ms = 0;
  const auto ask = real<0>().cuEventElapsedTime_v2 != nullptr ? real<0>().cuEventElapsedTime_v2 : real<0>().cuEventElapsedTime;
  if (ask(&ms, from, to) != 0) return false;
  *ns = std::llround(static_cast<double>(ms) * 1e6);
  return true;
}

// Moves the reference to now, so that the distances to it stay small, and brackets the device's clock by the host's.
void calibrate(Context &context) {
  std::lock_guard<std::mutex> guard(context.mutex);
  if (context.spare == nullptr) return;
  const uint64_t before = occatrace_now();
  if (real<0>().cuEventRecord(context.spare, context.stream) != 0) return;
  if (real<0>().cuEventSynchronize(context.spare) != 0) return;
  const uint64_t after = occatrace_now();
  int64_t moved = 0;
  if (context.reference == nullptr) {
    // The origin is ours to choose: far from every clock of the host, lest it be taken for one of them.
    context.reference_time = kOrigin;
    if (real<0>().cuEventCreate(&context.reference, 0) != 0) context.reference = nullptr;
  } else {
    if (!elapsed(context.reference, context.spare, &moved)) return;
    context.reference_time += static_cast<uint64_t>(moved);
  }
  std::swap(context.reference, context.spare);
  context.calibrated.store(after, std::memory_order_relaxed);
  Engine::instance().calibrate(*context.device, context.reference_time, before, after);
}

std::string device_name(CUdevice device) {
  char name[256] = "";
  real<0>().cuDeviceGetName(name, sizeof name - 1, device);
  return name;
}

Context *Contexts::add(CUcontext handle) {
  auto *context = new Context;
  {
    std::lock_guard<std::mutex> guard(mutex_);
    if (const uint64_t known = map_.get(handle)) {
      delete context;
      return reinterpret_cast<Context *>(known);
    }
    context->handle = handle;
    CUdevice device = 0;
    real<0>().cuCtxGetDevice(&device);
    context->device = &Engine::instance().device("CUDA", reinterpret_cast<const void *>(static_cast<uintptr_t>(device) + 1), [device] {
      return device::DeviceNames{"CUDA", device_name(device), "NVIDIA"};
    });
    all_.push_back(context);
    map_.set(handle, reinterpret_cast<uint64_t>(context));
  }
  if (device_time && real<0>().cuStreamCreate(&context->stream, kNonBlocking) == 0 &&
      real<0>().cuEventCreate(&context->spare, 0) == 0) {
    // The first brackets are wide: drivers set themselves up.
    for (int time = 0; time < kFirstCalibrations; ++time) calibrate(*context);
  }
  return context;
}

Pair *take(Context &context) {
  {
    std::lock_guard<std::mutex> guard(context.mutex);
    if (!context.free.empty()) {
      Pair *pair = context.free.back();
      context.free.pop_back();
      return pair;
    }
  }
  auto *pair = new Pair;
  pair->context = &context;
  if (real<0>().cuEventCreate(&pair->start, 0) != 0 || real<0>().cuEventCreate(&pair->end, 0) != 0) {
    delete pair;
    return nullptr;
  }
  return pair;
}

void give(Pair *pair) {
  Context &context = *pair->context;
  if (!context.alive) {
    delete pair;
    return;
  }
  std::lock_guard<std::mutex> guard(context.mutex);
  context.free.push_back(pair);
}

int32_t poll(void *handle, Times *times) {
  const Pair &pair = *static_cast<Pair *>(handle);
  Context &context = *pair.context;
  *times = {};
  if (!context.alive) return -1;
  const Entered inside(context);
  const CUresult state = real<0>().cuEventQuery(pair.end);
  if (state == kNotReady) return device::kWorking;
  if (state != 0) return -state;
  std::lock_guard<std::mutex> guard(context.mutex);
  int64_t since = 0;
  int64_t length = 0;
  if (context.reference == nullptr || !elapsed(context.reference, pair.start, &since) || !elapsed(pair.start, pair.end, &length)) {
    return 0;  // complete, without stamps
  }
  times->start = context.reference_time + static_cast<uint64_t>(since);
  times->end = times->start + static_cast<uint64_t>(std::max<int64_t>(length, 0));
  return 0;
}

void release(void *handle) { give(static_cast<Pair *>(handle)); }

const device::Vendor vendor{poll, release};

// Handlers run in reverse order; the driver registers its own when it is initialized, so ours is registered after it.
void be_first_at_exit() {
  std::atexit([] { Engine::instance().close(); });
}

// Streams by a number that is theirs alone: the default streams are small numbers, the same in every context.
Queue *queue_of(const Context &context, CUstream stream, const occatrace_thread *self) {
  const auto number = reinterpret_cast<uintptr_t>(stream);
  const void *key = stream;
  if (number == 2) key = reinterpret_cast<const char *>(self) + 2;
  if (number < 2) key = reinterpret_cast<const char *>(context.handle) + 1;
  if (Queue *known = Engine::instance().queue(key)) {
    if (known->context == context.handle) return known;
  }
  static std::mutex mutex;
  std::lock_guard<std::mutex> guard(mutex);
  if (Queue *known = Engine::instance().queue(key)) {
    if (known->context == context.handle) return known;
  }
  be_first_at_exit();
  return &Engine::instance().add_queue(vendor, *context.device, key, context.handle, 0);
}

// While a stream is being captured into a graph, nothing of ours may be recorded into it.
std::atomic<int> captures{0};

bool captured(CUstream stream) {
  if (captures.load(std::memory_order_relaxed) <= 0) return false;
  CUstreamCaptureStatus status = 0;
  return real<0>().cuStreamIsCapturing(stream, &status) != 0 || status != 0;
}

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

uint8_t copy_kind(bool from_device, bool to_device) {
  static constexpr uint8_t kinds[2][2] = {{OCCATRACE_HTOH, OCCATRACE_HTOD}, {OCCATRACE_DTOH, OCCATRACE_DTOD}};
  return kinds[from_device][to_device];
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
template <bool Waits>
struct Enqueue {
  static constexpr bool always = true;

  template <int I, class Args>
  static CUstream target(const Args &a) {
    const CUstream stream = stream_of(a, 0);
    return I == 1 && stream == nullptr ? kPerThread : stream;
  }

  template <int I, class Args>
  static void before(Call &call, Args &a) {
    if (!device_time || occatrace_capture == 0) return;
    const CUstream stream = target<I>(a);
    if (captured(stream)) return;
    Context *context = contexts().current();
    if (context == nullptr) return;
    Pair *pair = take(*context);
    if (pair == nullptr) return;
    call.host = call.level == OCCATRACE_EVENT ? call.start : occatrace_now();
    if (real<0>().cuEventRecord(pair->start, stream) != 0) {
      give(pair);
      return;
    }
    call.own = reinterpret_cast<uint64_t>(pair);
  }

  template <int I, class Args>
  static void result(Call &, Args &) {}

  template <int I, class Args>
  static void after(Call &call, Args &a) {
    auto *pair = reinterpret_cast<Pair *>(call.own);
    if (pair == nullptr) return;
    const CUstream stream = target<I>(a);
    if (a.ret != 0 || real<0>().cuEventRecord(pair->end, stream) != 0) {
      give(pair);
      return;
    }
    Queue *queue = queue_of(*pair->context, stream, call.self);
    Work work;
    work.event = pair;
    work.before = call.host;
    if (call.level == OCCATRACE_EVENT) work.seq = call.seq;
    work.tid = call.self->tid;
    work.run_seq = call.self->run_seq;
    describe(a, work);
    queue->push(work);
    if (Waits) queue->harvest(true);
  }
};

}  // namespace

#define OCCATRACE_COMMAND(function, waits, ...)               \
  template <>                                                 \
  struct Hook<OCCATRACE_CUDA_##function> : Enqueue<waits> {}; \
  namespace {                                                 \
  template <>                                                 \
  void describe(const Args_##function &a, Work &work) {       \
    __VA_ARGS__;                                              \
  }                                                           \
  }
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
OCCATRACE_COMMAND(cuGraphLaunch, false, work.kind = OCCATRACE_OTHER; work.name = occatrace_intern("graph"))

OCCATRACE_COPY(cuMemcpyHtoD_v2, true, OCCATRACE_HTOD)
OCCATRACE_COPY(cuMemcpyHtoDAsync_v2, false, OCCATRACE_HTOD)
OCCATRACE_COPY(cuMemcpyDtoH_v2, true, OCCATRACE_DTOH)
OCCATRACE_COPY(cuMemcpyDtoHAsync_v2, false, OCCATRACE_DTOH)
OCCATRACE_COPY(cuMemcpyDtoD_v2, false, OCCATRACE_DTOD)
OCCATRACE_COPY(cuMemcpyDtoDAsync_v2, false, OCCATRACE_DTOD)
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

// ---- streams, contexts, captures ----

namespace {

struct Always : NoHook {
  static constexpr bool always = true;
};

void harvest_stream(CUstream stream, const occatrace_thread *self) {
  if (!Engine::instance().busy()) return;
  if (Context *context = contexts().current()) queue_of(*context, stream, self)->harvest();
}

struct EndsCapture : Always {
  template <int I, class Args>
  static void after(Call &, Args &) {
    captures.fetch_sub(1, std::memory_order_relaxed);
  }
};
struct BeginsCapture : Always {
  // Before the call: a launch of another thread must not slip in between.
  template <int I, class Args>
  static void before(Call &, Args &) {
    captures.fetch_add(1, std::memory_order_relaxed);
  }
  template <int I, class Args>
  static void after(Call &, Args &a) {
    if (a.ret != 0) captures.fetch_sub(1, std::memory_order_relaxed);
  }
};

// The driver waits for the work of a context before it destroys it; we need its times before.
void finish(Context &context) {
  {
    const Entered inside(context);
    if (Engine::instance().busy()) {
      real<0>().cuCtxSynchronize();
      Engine::instance().harvest_context(context.handle);
    }
  }
}

}  // namespace

template <>
struct Hook<OCCATRACE_CUDA_cuStreamBeginCapture_v2> : BeginsCapture {};
template <>
struct Hook<OCCATRACE_CUDA_cuStreamBeginCaptureToGraph> : BeginsCapture {};
template <>
struct Hook<OCCATRACE_CUDA_cuStreamEndCapture> : EndsCapture {};

template <>
struct Hook<OCCATRACE_CUDA_cuCtxSynchronize> : Always {
  template <int I>
  static void after(Call &, Args_cuCtxSynchronize &) {
    if (!Engine::instance().busy()) return;
    if (Context *context = contexts().current()) Engine::instance().harvest_context(context->handle);
  }
};
template <>
struct Hook<OCCATRACE_CUDA_cuStreamSynchronize> : Always {
  template <int I>
  static void after(Call &call, Args_cuStreamSynchronize &a) {
    harvest_stream(I == 1 && a.hStream == nullptr ? kPerThread : a.hStream, call.self);
  }
};
template <>
struct Hook<OCCATRACE_CUDA_cuStreamDestroy_v2> : Always {
  template <int I>
  static void before(Call &, Args_cuStreamDestroy_v2 &a) {
    Queue *queue = Engine::instance().queue(a.hStream);
    if (queue == nullptr) return;
    queue->harvest();
    Engine::instance().retire(*queue);
  }
};
namespace {

// What we keep in a context is made when the program makes or takes it, not in the time of its first command.
struct TakesContext : Always {
  template <int I, class Args>
  static void after(Call &, Args &a) {
    if (device_time && a.ret == 0) contexts().current();
  }
};

}  // namespace

template <>
struct Hook<OCCATRACE_CUDA_cuCtxCreate> : TakesContext {};
template <>
struct Hook<OCCATRACE_CUDA_cuCtxCreate_v2> : TakesContext {};
template <>
struct Hook<OCCATRACE_CUDA_cuCtxCreate_v3> : TakesContext {};
template <>
struct Hook<OCCATRACE_CUDA_cuCtxCreate_v4> : TakesContext {};
template <>
struct Hook<OCCATRACE_CUDA_cuCtxSetCurrent> : TakesContext {};
template <>
struct Hook<OCCATRACE_CUDA_cuCtxPushCurrent_v2> : TakesContext {};

template <>
struct Hook<OCCATRACE_CUDA_cuCtxDestroy_v2> : Always {
  template <int I>
  static void before(Call &call, Args_cuCtxDestroy_v2 &a) {
    Context *context = contexts().find(a.ctx);
    if (context == nullptr) return;
    finish(*context);
    contexts().remove(*context);
  }
};

namespace {

// A primary context goes with its last holder, whom we cannot know: look afterwards whether it is still there.
struct LeavesPrimary : Always {
  template <int I, class Args>
  static void before(Call &call, Args &a) {
    for (Context *context : contexts().all()) {
      const Entered inside(*context);
      CUdevice device = -1;
      if (real<0>().cuCtxGetDevice(&device) == 0 && device == a.dev) finish(*context);
    }
  }
  template <int I, class Args>
  static void after(Call &, Args &a) {
    unsigned flags = 0;
    int active = 1;
    if (real<0>().cuDevicePrimaryCtxGetState(a.dev, &flags, &active) != 0 || active != 0) return;
    for (Context *context : contexts().all()) {
      unsigned version = 0;
      if (real<0>().cuCtxGetApiVersion(context->handle, &version) != 0) contexts().remove(*context);
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

// ---- functions asked for by name ----

namespace {

void *translated(void *address);

struct ByName : Always {
  template <int I, class Args>
  static void result(Call &, Args &a) {
    if (a.ret == 0 && a.pfn != nullptr && *a.pfn != nullptr) *a.pfn = translated(*a.pfn);
  }
};

}  // namespace

template <>
struct Hook<OCCATRACE_CUDA_cuGetProcAddress> : ByName {};
template <>
struct Hook<OCCATRACE_CUDA_cuGetProcAddress_v2> : ByName {};

namespace {

// ---- begin ----

void harvest(int final) {
  if (!final) {
    const uint64_t now = occatrace_now();
    for (Context *context : contexts().all()) {
      if (!Engine::instance().busy() || now - context->calibrated.load(std::memory_order_relaxed) < kCalibrateEvery) continue;
      const Entered inside(*context);
      calibrate(*context);
    }
  }
  Engine::instance().harvest(final != 0);
}

void after_fork_child() {
  // A child of a process that uses CUDA cannot use it; nothing of the driver is touched.
  Engine::instance().after_fork_child();
  contexts().after_fork_child();
  kernel_names.unlock_after_fork();
}

occatrace_backend backend{"cuda", harvest, after_fork_child, nullptr};

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

struct Known {
  void *address;
  void *ours;
};
std::vector<Known> &known() {
  static auto *const all = new std::vector<Known>;
  return *all;
}

// Ours for an address that the driver gave; what we do not know passes through.
void *translated(void *address) {
  const auto &all = known();
  const auto found = std::lower_bound(all.begin(), all.end(), address, [](const Known &k, void *a) { return k.address < a; });
  return found != all.end() && found->address == address ? found->ours : address;
}

void bind() {
  void *library = dlopen("libcuda_real.so.1", RTLD_LAZY | RTLD_NOLOAD);
  for (const Export &e : exports) {
    void *address = dlsym(library != nullptr ? library : RTLD_NEXT, e.name);
    if (address == nullptr || address == e.ours) continue;
    std::memcpy(reinterpret_cast<char *>(&targets[e.variant]) + e.offset, &address, sizeof address);
    known().push_back({address, e.ours});
  }
  std::sort(known().begin(), known().end(), [](const Known &a, const Known &b) { return a.address < b.address; });
}

bool start() {
  events = static_cast<const occatrace_cuda_events *>(occatrace_load_provider("cuda"));
  if (events == nullptr) return false;
  static constexpr uint8_t by_mode[][4] = OCCATRACE_CUDA_LEVELS;
  static constexpr const char *names[] = OCCATRACE_CUDA_NAMES;
  occatrace_levels(levels, by_mode, OCCATRACE_CUDA_COUNT);
  first_slot = occatrace_register_functions("cuda", names, OCCATRACE_CUDA_COUNT);
  device_time = occatrace_mode() != OCCATRACE_TALLIES;
  occatrace_backend_register(&backend);
  return true;
}

bool enter() {
  static std::once_flag once;
  std::call_once(once, [] {
    bind();
    state.store(start() ? kTraced : kUntraced, std::memory_order_release);
  });
  return state.load(std::memory_order_acquire) == kTraced;
}

}  // namespace

}  // namespace occatrace::cuda
