// The HIP runtime API, by preloaded symbols. The wrappers are generated from the model; here is what they cannot know: device
// time by pairs of events or by the records of rocprofiler-sdk or roctracer, names of kernels, and functions that are asked for by name.
#include <dlfcn.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <mutex>
#include <string>
#include <type_traits>
#include <utility>

#include "../common/arrays.h"
#include "event_pairs.h"
#include "hip_dispatch.h"
#include "known_functions.h"
#include "occatrace_core.h"
#include "rocprofiler.h"
#include "roctracer.h"
#include "tickets.h"
#include "trampoline.h"

namespace occatrace::hip {

// Two sets of real functions: of the legacy default stream, and of the per-thread default stream (`…_spt`).
static Dispatch targets[2];
template <int I>
const Dispatch &real() {
  return targets[I];
}

constexpr int kVersion6 = 60000000;
static int version = 0;  // of the runtime, as it says

// ---- structures of the headers, as far as they are read ----

struct Dim3 {
  uint32_t x, y, z;
};
inline const Dim3 &dim(const dim3 &d) { return reinterpret_cast<const Dim3 &>(d); }

struct Extent {
  size_t width, height, depth;
  size_t volume() const { return width * height * depth; }
};
struct PitchedPtr {
  void *at;
  size_t pitch, xsize, ysize;
};
struct Copy3D {
  hipArray_t from_array;
  Extent from_position;
  PitchedPtr from;
  hipArray_t to_array;
  Extent to_position;
  PitchedPtr to;
  Extent extent;
  int kind;
};
struct CopyEnd {
  size_t x, y;
  int type;
  const void *host;
  const void *device;
  hipArray_t array;
  size_t pitch;
};
struct CopyParam2D {
  CopyEnd from, to;
  size_t width, height;
};
// Of drivers' copies; HIP 5 had narrower numbers.
template <class Size>
struct DriverCopyEnd {
  Size x, y, z, level;
  int type;
  const void *host;
  const void *device;
  hipArray_t array;
  Size pitch, height;
};
template <class Size>
struct DriverCopy3D {
  DriverCopyEnd<Size> from, to;
  Size width, height, depth;
};
// What launches on several devices by one call are told in.
struct LaunchOnDevice {
  const void *function;
  Dim3 blocks, block;
  void **arguments;
  size_t shared;
  hipStream_t stream;
};
struct ModuleLaunchOnDevice {
  hipFunction_t function;
  Dim3 blocks, block;
  unsigned shared;
  hipStream_t stream;
  void **parameters;
};
struct PointerAttributes {
  int type;
  int device;
  void *device_pointer, *host_pointer;
  int managed;
  unsigned flags;
  char room[64];  // for what newer versions add
};

struct ChannelDescriptor {
  int x, y, z, w;  // bits
};

// A device is known by a place of its own.
struct Mark {
  char room[16];
};
inline const Mark *mark_of(int device) {
  static constexpr int most = 256;
  static const Mark marks[most] = {};
  return device >= 0 && device < most ? &marks[device] : nullptr;
}

// Until HIP 6 every call leaves its code as the thread's last error, ours too; what the program did last went well.
inline hipError_t quietly(hipError_t code) {
  if (code != 0 && real<0>().hipPeekAtLastError() == code) real<0>().hipGetLastError();
  return code;
}

// What the model asks of arguments.
inline const void *current_device() {
  int device = -1;
  return real<0>().hipGetDevice != nullptr && real<0>().hipGetDevice(&device) == 0 ? mark_of(device) : nullptr;
}
// The device of a stream that is one's own: the default streams are small numbers, the same for every device.
inline const Mark *device_of_own(hipStream_t stream) {
  if (reinterpret_cast<uintptr_t>(stream) <= 2 || real<0>().hipGetStreamDeviceId == nullptr) return nullptr;
  return mark_of(real<0>().hipGetStreamDeviceId(stream));
}
inline const void *device_of(hipStream_t stream) {
  const Mark *own = device_of_own(stream);
  return own != nullptr ? own : current_device();
}
inline const Extent &extent_of(const hipExtent &extent) { return reinterpret_cast<const Extent &>(extent); }
inline size_t array_bytes(const hipChannelFormatDesc *given, size_t width, size_t height, size_t depth) {
  if (given == nullptr) return 0;
  const auto &bits = *reinterpret_cast<const ChannelDescriptor *>(given);
  return array_bytes_of(width, height, depth, static_cast<size_t>(bits.x + bits.y + bits.z + bits.w) / 8);
}
inline size_t array_bytes(const HIP_ARRAY_DESCRIPTOR *given) { return array_bytes_as<ArrayDescriptor>(given); }
inline size_t array_bytes(const HIP_ARRAY3D_DESCRIPTOR *given) { return array_bytes_as<Array3DDescriptor>(given); }

// The structure that describes a copy, whichever it is, to a visitor; nothing where there is none.
template <class Visit>
void visit(const hipMemcpy3DParms *copy, Visit with) {
  if (copy != nullptr) with(*reinterpret_cast<const Copy3D *>(copy));
}
template <class Visit>
void visit(const hip_Memcpy2D *copy, Visit with) {
  if (copy != nullptr) with(*reinterpret_cast<const CopyParam2D *>(copy));
}
template <class Visit>
void visit(const HIP_MEMCPY3D *copy, Visit with) {
  if (copy == nullptr) return;
  if (version < kVersion6) {
    with(*reinterpret_cast<const DriverCopy3D<unsigned> *>(copy));
  } else {
    with(*reinterpret_cast<const DriverCopy3D<size_t> *>(copy));
  }
}
inline const void *address_of(const PitchedPtr &end) { return end.at; }
template <class End>
const void *address_of(const End &end) {
  if (end.array != nullptr && end.host == nullptr && end.device == nullptr) return nullptr;
  return end.type == (version < kVersion6 ? 0 : 1) ? end.host : end.device;
}
template <class Copy>
const void *from_of(const Copy *copy) {
  const void *found = nullptr;
  visit(copy, [&found](const auto &c) { found = address_of(c.from); });
  return found;
}
template <class Copy>
const void *to_of(const Copy *copy) {
  const void *found = nullptr;
  visit(copy, [&found](const auto &c) { found = address_of(c.to); });
  return found;
}

// HIP's library calls some of its own functions by their symbols: those calls are its own business.
static thread_local bool inside __attribute__((tls_model("initial-exec"))) = false;

template <auto Wrap, auto Real, int I>
struct Outer;
template <class R, class... A, R (*Wrap)(A...), R (*Dispatch::*Real)(A...), int I>
struct Outer<Wrap, Real, I> {
  static R call(A... a) {
    if (inside) return (real<I>().*Real)(a...);
    inside = true;
    struct Leave {
      ~Leave() { inside = false; }
    } leave;
    return Wrap(a...);
  }
};

}  // namespace occatrace::hip

#define OCCATRACE_ENTRY(wrapper, function, variant) (&Outer<&wrapper<variant>, &Dispatch::function, variant>::call)
#include "hip_slots.h"

namespace occatrace::hip {

namespace {

using device::copy_kind;
using device::Engine;
using device::HandleMap;
using device::Queue;
using device::Work;

HandleMap kernel_names;    // hipFunction_t, host function → interned name
HandleMap array_elements;  // array → bytes of an element

// ---- device time ----

// What pairs of events need of the runtime.
struct Runtime {
  static constexpr const char *kName = "HIP";
  static constexpr const char *kVendor = "AMD";
  static constexpr hipError_t kNotReady = 600;
  using Scope = const Mark *;
  using Stream = hipStream_t;
  using Event = hipEvent_t;

  static Scope current() {
    int device = -1;
    return quietly(real<0>().hipGetDevice(&device)) == 0 ? mark_of(device) : nullptr;
  }
  static Scope scope_of(hipStream_t stream) {
    const Scope own = device_of_own(stream);
    return own != nullptr ? own : current();
  }
  static bool enter(Scope scope, Scope *before) {
    *before = current();
    return *before != scope && select(scope);
  }
  static void leave(Scope before) { select(before); }
  static int device() {
    int device = 0;
    real<0>().hipGetDevice(&device);
    return device;
  }
  static std::string name(int device) {
    char text[256] = "";
    quietly(real<0>().hipDeviceGetName(text, sizeof text - 1, device));
    return text;
  }
  static hipError_t create_stream(hipStream_t *stream) {
    constexpr unsigned non_blocking = 1;
    return quietly(real<0>().hipStreamCreateWithFlags(stream, non_blocking));
  }
  static hipError_t create_event(hipEvent_t *event) {
    // The caches of the host need not be told of it.
    static unsigned flags = 0x40000000;  // hipEventReleaseToDevice
    const hipError_t code = quietly(real<0>().hipEventCreateWithFlags(event, flags));
    if (code == 0 || flags == 0) return code;
    flags = 0;
    return quietly(real<0>().hipEventCreateWithFlags(event, flags));
  }
  static hipError_t record(hipEvent_t event, hipStream_t stream) { return quietly(real<0>().hipEventRecord(event, stream)); }
  static hipError_t synchronize(hipEvent_t event) { return quietly(real<0>().hipEventSynchronize(event)); }
  static hipError_t query(hipEvent_t event) { return quietly(real<0>().hipEventQuery(event)); }
  static hipError_t elapsed(float *ms, hipEvent_t from, hipEvent_t to) {
    return quietly(real<0>().hipEventElapsedTime(ms, from, to));
  }
  static std::string platform() {
    return device::tickets::on() ? std::string(kName) + ", device times by " + device::tickets::source()->name : kName;
  }
  static void synchronize_all() { quietly(real<0>().hipDeviceSynchronize()); }
  static bool capturing(hipStream_t stream) {
    hipStreamCaptureStatus status = 0;
    if (real<0>().hipStreamIsCapturing == nullptr) return true;
    return quietly(real<0>().hipStreamIsCapturing(stream, &status)) != 0 || status != 0;
  }

 private:
  static bool select(Scope scope) {
    return scope != nullptr && quietly(real<0>().hipSetDevice(static_cast<int>(scope - mark_of(0)))) == 0;
  }
};

using Pairs = device::EventPairs<Runtime>;
using Context = Pairs::Context;
using Timing = device::Timing<Pairs>;

// The names of the commands stand in a section of their own, one after the other.
extern "C" [[gnu::visibility("hidden")]] const char *const __start_occatrace_commands[];
extern "C" [[gnu::visibility("hidden")]] const char *const __stop_occatrace_commands[];

// By what device work is timed is settled when the program first uses a device: one that merely looks for some is left alone.
std::atomic<bool> unsettled{false};
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
    return roctracer::start(__start_occatrace_commands, __stop_occatrace_commands, why);
  });
  unsettled.store(false, std::memory_order_release);
}
inline void settle() {
  if (__builtin_expect(unsettled.load(std::memory_order_acquire), 0)) settle_now();
}

struct TakesDevice : Pairs::TakesScope {
  template <int I, class Args>
  static void after(Call &call, Args &a) {
    if (a.ret == 0) settle();
    Pairs::TakesScope::after<I>(call, a);
  }
};

// ---- what each command is ----

uint32_t named(const void *function, const char *text) {
  const uint32_t name = occatrace_intern(text != nullptr ? text : "kernel of unknown name");
  kernel_names.set(function, name);
  return name;
}
uint32_t kernel_name(hipFunction_t function) {
  if (const uint64_t known = kernel_names.get(function)) return static_cast<uint32_t>(known);
  return named(function, real<0>().hipKernelNameRef != nullptr ? real<0>().hipKernelNameRef(function) : nullptr);
}
// Of a function on the host, by which compilers register a kernel (`__hipRegisterFunction`): HIP knows its name.
uint32_t kernel_name(const void *function, hipStream_t stream) {
  if (const uint64_t known = kernel_names.get(function)) return static_cast<uint32_t>(known);
  const char *text = real<0>().hipKernelNameRefByPtr != nullptr ? real<0>().hipKernelNameRefByPtr(function, stream) : nullptr;
  Dl_info info;
  if (text == nullptr && dladdr(function, &info) != 0) text = info.dli_sname;
  return named(function, text);
}

void launch(Work &work, uint32_t name, const Dim3 &blocks, const Dim3 &block) {
  work.kind = OCCATRACE_KERNEL;
  work.name = name;
  work.block[0] = block.x;
  work.block[1] = block.y;
  work.block[2] = block.z;
  work.grid[0] = blocks.x * block.x;
  work.grid[1] = blocks.y * block.y;
  work.grid[2] = blocks.z * block.z;
}
template <class Args>
void launch_module(Work &work, const Args &a) {
  launch(work, kernel_name(a.f), {a.gridDimX, a.gridDimY, a.gridDimZ}, {a.blockDimX, a.blockDimY, a.blockDimZ});
}
// Of functions that count the grid in work-items.
template <class Args>
void launch_items(Work &work, const Args &a) {
  launch(work, kernel_name(a.f), {1, 1, 1}, {a.localWorkSizeX, a.localWorkSizeY, a.localWorkSizeZ});
  work.grid[0] = a.globalWorkSizeX;
  work.grid[1] = a.globalWorkSizeY;
  work.grid[2] = a.globalWorkSizeZ;
}

// Kind of memory behind an address; what HIP does not know is the program's own.
bool on_device(const void *address) {
  PointerAttributes found = {};
  const auto at = reinterpret_cast<hipPointerAttribute_t *>(&found);
  if (quietly(real<0>().hipPointerGetAttributes(at, address)) != 0) return false;
  return version < kVersion6 ? found.type != 0 : found.type > 1;
}

constexpr int kByAddress = 4;  // hipMemcpyDefault

uint8_t kind_of(int kind, const void *to, const void *from) {
  switch (kind) {
    case 0: return OCCATRACE_HTOH;
    case 1: return OCCATRACE_HTOD;
    case 2: return OCCATRACE_DTOH;
    case kByAddress: return copy_kind(on_device(from), on_device(to));
    default: return OCCATRACE_DTOD;
  }
}

template <class End>
bool end_on_device(const End &end) {
  const int unified = version < kVersion6 ? 3 : 11;
  const int host = version < kVersion6 ? 0 : 1;
  return end.type == unified ? on_device(end.device) : end.type > host;
}
template <class Size>
size_t depth_of(const DriverCopy3D<Size> &copy) {
  return copy.depth;
}
inline size_t depth_of(const CopyParam2D &) { return 1; }
template <class Parameters>
void copy_of(Work &work, const Parameters *parameters) {
  visit(parameters, [&work](const auto &copy) {
    work.kind = copy_kind(end_on_device(copy.from), end_on_device(copy.to));
    work.bytes = static_cast<size_t>(copy.width) * copy.height * depth_of(copy);
  });
}
// Where an array takes part the width is in its elements.
void copy_of(Work &work, const hipMemcpy3DParms *parameters) {
  visit(parameters, [&work](const Copy3D &copy) {
    const auto is_there = [](hipArray_t array, const void *address) { return array != nullptr || on_device(address); };
    work.kind = copy.kind == kByAddress ? copy_kind(is_there(copy.from_array, copy.from.at), is_there(copy.to_array, copy.to.at))
                                        : kind_of(copy.kind, copy.to.at, copy.from.at);
    const hipArray_t array = copy.from_array != nullptr ? copy.from_array : copy.to_array;
    const uint64_t each = array != nullptr ? array_elements.get(array) : 1;
    work.bytes = copy.extent.volume() * (each != 0 ? each : 1);
  });
}

template <class Args>
void describe(const Args &a, Work &work);

// The launch that old programs prepare in pieces.
struct Configured {
  Dim3 blocks, block;
  hipStream_t stream;
};
thread_local Configured configured;

// A command's stream, where it is told; functions without one work in the default stream.
template <class Args>
auto stream_of(const Args &a, int) -> decltype(a.stream) {
  return a.stream;
}
inline hipStream_t stream_of(const Args_hipLaunchByPtr &, int) { return configured.stream; }
template <class Args>
hipStream_t stream_of(const Args &, long) {
  return nullptr;
}
// The kernel of a launch, by whatever the call names it.
inline uint32_t name_by(hipFunction_t function, hipStream_t) { return kernel_name(function); }
inline uint32_t name_by(const void *function, hipStream_t stream) { return kernel_name(function, stream); }
template <class Args>
auto name_of(const Args &a, int) -> decltype(name_by(a.f, a.stream)) {
  return name_by(a.f, a.stream);
}
template <class Args>
auto name_of(const Args &a, int) -> decltype(name_by(a.function_address, a.stream)) {
  return name_by(a.function_address, a.stream);
}
inline uint32_t name_of(const Args_hipLaunchByPtr &a, int) { return name_by(a.func, configured.stream); }

// Surrounds a command by two events, or by its ticket. A graph is told of by its nodes.
template <bool Waits>
struct Enqueue : Always {
  template <int I, class Args>
  static bool chosen(Args &a) {
    settle();
    return Pairs::chosen(Pairs::meant<I>(stream_of(a, 0))) && chosen_kernel(a, 0);
  }
  template <int I, class Args>
  static void before(Call &call, Args &a) {
    settle();
    Timing::begin(call, Pairs::meant<I>(stream_of(a, 0)), in_pieces(a, 0));
  }
  template <int I, class Args>
  static void after(Call &call, Args &a) {
    Timing::end(call, Pairs::meant<I>(stream_of(a, 0)), a.ret == 0, Waits, [&a](Work &work) { describe(a, work); });
  }

 private:
  // Below an OCCA kernel, that one is what people choose.
  template <class Args>
  static auto chosen_kernel(const Args &a, int) -> decltype(name_of(a, 0) != 0) {
    return occatrace_self()->run_seq != OCCATRACE_NO_RUN || occatrace_choose_kernel(name_of(a, 0));
  }
  template <class Args>
  static bool chosen_kernel(const Args &, long) {
    return true;
  }
  // Whether it may be told of in several records: a graph is by its nodes; a cooperative launch has another before it.
  template <class Args>
  static auto in_pieces(const Args &, int) -> decltype(name_of(std::declval<Args>(), 0) != 0) {
    constexpr bool cooperative = std::is_same_v<Args, Args_hipLaunchCooperativeKernel> || std::is_same_v<Args, Args_hipModuleLaunchCooperativeKernel>;
    return cooperative && device::tickets::in_pieces();
  }
  template <class Args>
  static bool in_pieces(const Args &, long) {
    return std::is_same_v<Args, Args_hipGraphLaunch> || device::tickets::in_pieces();
  }
};

// Several launches, on as many devices: each has its pair of events in its own stream. (Of records there is one id for the call,
// so by them such work has no times.)
constexpr unsigned kMostLaunches = 64;
struct Launched {
  uint64_t own, host;
};
thread_local Launched launched[kMostLaunches];

template <class Entry>
struct LaunchesSeveral : Always {
  template <int I, class Args>
  static void before(Call &call, Args &a) {
    settle();
    each(a, [&call](const Entry &entry, Launched &one) {
      Call begun = call;
      begun.own = 0;
      if (!device::tickets::on()) Timing::begin(begun, entry.stream, false);
      one = {begun.own, begun.host};
    });
  }
  template <int I, class Args>
  static void after(Call &call, Args &a) {
    each(a, [&call, &a](const Entry &entry, const Launched &one) {
      if (one.own == 0) return;
      Call ended = call;
      ended.own = one.own;
      ended.host = one.host;
      Timing::end(ended, entry.stream, a.ret == 0, false,
                  [&entry](Work &work) { launch(work, name_by(entry.function, entry.stream), entry.blocks, entry.block); });
    });
  }

 private:
  template <class Args, class Visit>
  static void each(const Args &a, Visit visit) {
    const auto *entries = reinterpret_cast<const Entry *>(a.launchParamsList);
    const auto count = entries == nullptr ? 0 : static_cast<unsigned>(a.numDevices);
    for (unsigned at = 0; at < std::min(count, kMostLaunches); ++at) visit(entries[at], launched[at]);
  }
};

}  // namespace

#define OCCATRACE_COMMAND(function, waits, ...)                                                                   \
  template <>                                                                                                     \
  struct Hook<OCCATRACE_HIP_##function> : Enqueue<waits> {};                                                      \
  namespace {                                                                                                     \
  [[gnu::section("occatrace_commands"), gnu::used]] const char *const command_##function = #function;             \
  template <>                                                                                                     \
  void describe(const Args_##function &a, Work &work) {                                                           \
    __VA_ARGS__;                                                                                                  \
  }                                                                                                               \
  }
#define OCCATRACE_COPY(function, waits, what, size) OCCATRACE_COMMAND(function, waits, work.kind = what; work.bytes = size)

OCCATRACE_COMMAND(hipLaunchKernel, false, launch(work, kernel_name(a.function_address, a.stream), dim(a.numBlocks), dim(a.dimBlocks)))
OCCATRACE_COMMAND(hipExtLaunchKernel, false, launch(work, kernel_name(a.function_address, a.stream), dim(a.numBlocks), dim(a.dimBlocks)))
OCCATRACE_COMMAND(hipLaunchCooperativeKernel, false, launch(work, kernel_name(a.f, a.stream), dim(a.gridDim), dim(a.blockDimX)))
OCCATRACE_COMMAND(hipLaunchByPtr, false, launch(work, kernel_name(a.func, configured.stream), configured.blocks, configured.block))
OCCATRACE_COMMAND(hipModuleLaunchKernel, false, launch_module(work, a))
OCCATRACE_COMMAND(hipModuleLaunchCooperativeKernel, false, launch_module(work, a))
OCCATRACE_COMMAND(hipExtModuleLaunchKernel, false, launch_items(work, a))
OCCATRACE_COMMAND(hipExtModuleLaunchKernel_cxx, false, launch_items(work, a))
OCCATRACE_COMMAND(hipHccModuleLaunchKernel, false, launch_items(work, a))
OCCATRACE_COMMAND(hipGraphLaunch, false, work.kind = OCCATRACE_OTHER; work.name = occatrace_intern("graph"))

template <>
struct Hook<OCCATRACE_HIP_hipLaunchCooperativeKernelMultiDevice> : LaunchesSeveral<LaunchOnDevice> {};
template <>
struct Hook<OCCATRACE_HIP_hipExtLaunchMultiKernelMultiDevice> : LaunchesSeveral<LaunchOnDevice> {};
template <>
struct Hook<OCCATRACE_HIP_hipModuleLaunchCooperativeKernelMultiDevice> : LaunchesSeveral<ModuleLaunchOnDevice> {};

OCCATRACE_COPY(hipMemcpy, true, kind_of(a.kind, a.dst, a.src), a.sizeBytes)
OCCATRACE_COPY(hipMemcpyAsync, false, kind_of(a.kind, a.dst, a.src), a.sizeBytes)
OCCATRACE_COPY(hipMemcpyWithStream, true, kind_of(a.kind, a.dst, a.src), a.sizeBytes)
OCCATRACE_COPY(hipMemcpyHtoD, true, OCCATRACE_HTOD, a.sizeBytes)
OCCATRACE_COPY(hipMemcpyHtoDAsync, false, OCCATRACE_HTOD, a.sizeBytes)
OCCATRACE_COPY(hipMemcpyDtoH, true, OCCATRACE_DTOH, a.sizeBytes)
OCCATRACE_COPY(hipMemcpyDtoHAsync, false, OCCATRACE_DTOH, a.sizeBytes)
OCCATRACE_COPY(hipMemcpyDtoD, false, OCCATRACE_DTOD, a.sizeBytes)
OCCATRACE_COPY(hipMemcpyDtoDAsync, false, OCCATRACE_DTOD, a.sizeBytes)
OCCATRACE_COPY(hipMemcpyPeer, false, OCCATRACE_DTOD, a.sizeBytes)
OCCATRACE_COPY(hipMemcpyPeerAsync, false, OCCATRACE_DTOD, a.sizeBytes)
OCCATRACE_COPY(hipMemcpyToSymbol, true, kind_of(a.kind, a.symbol, a.src), a.sizeBytes)
OCCATRACE_COPY(hipMemcpyToSymbolAsync, false, kind_of(a.kind, a.symbol, a.src), a.sizeBytes)
OCCATRACE_COPY(hipMemcpyFromSymbol, true, kind_of(a.kind, a.dst, a.symbol), a.sizeBytes)
OCCATRACE_COPY(hipMemcpyFromSymbolAsync, false, kind_of(a.kind, a.dst, a.symbol), a.sizeBytes)
OCCATRACE_COPY(hipMemcpyAtoH, true, OCCATRACE_DTOH, a.count)
OCCATRACE_COPY(hipMemcpyHtoA, true, OCCATRACE_HTOD, a.count)
OCCATRACE_COPY(hipMemcpyAtoHAsync, false, OCCATRACE_DTOH, a.ByteCount)
OCCATRACE_COPY(hipMemcpyHtoAAsync, false, OCCATRACE_HTOD, a.ByteCount)
OCCATRACE_COPY(hipMemcpyAtoD, false, OCCATRACE_DTOD, a.ByteCount)
OCCATRACE_COPY(hipMemcpyDtoA, false, OCCATRACE_DTOD, a.ByteCount)
OCCATRACE_COPY(hipMemcpyAtoA, false, OCCATRACE_DTOD, a.ByteCount)
OCCATRACE_COPY(hipMemcpyToArray, true, kind_of(a.kind, nullptr, a.src), a.count)
OCCATRACE_COPY(hipMemcpyFromArray, true, kind_of(a.kind, a.dst, nullptr), a.count)
OCCATRACE_COPY(hipMemcpy2D, true, kind_of(a.kind, a.dst, a.src), a.width * a.height)
OCCATRACE_COPY(hipMemcpy2DAsync, false, kind_of(a.kind, a.dst, a.src), a.width * a.height)
OCCATRACE_COPY(hipMemcpy2DToArray, true, kind_of(a.kind, a.dst, a.src), a.width * a.height)
OCCATRACE_COPY(hipMemcpy2DToArrayAsync, false, kind_of(a.kind, a.dst, a.src), a.width * a.height)
OCCATRACE_COPY(hipMemcpy2DFromArray, true, kind_of(a.kind, a.dst, a.src), a.width * a.height)
OCCATRACE_COPY(hipMemcpy2DFromArrayAsync, false, kind_of(a.kind, a.dst, a.src), a.width * a.height)
OCCATRACE_COPY(hipMemcpy2DArrayToArray, false, OCCATRACE_DTOD, a.width * a.height)
OCCATRACE_COMMAND(hipMemcpy3D, true, copy_of(work, a.p))
OCCATRACE_COMMAND(hipMemcpy3DAsync, false, copy_of(work, a.p))
OCCATRACE_COMMAND(hipMemcpyParam2D, true, copy_of(work, a.pCopy))
OCCATRACE_COMMAND(hipMemcpyParam2DAsync, false, copy_of(work, a.pCopy))
OCCATRACE_COMMAND(hipDrvMemcpy2DUnaligned, true, copy_of(work, a.pCopy))
OCCATRACE_COMMAND(hipDrvMemcpy3D, true, copy_of(work, a.pCopy))
OCCATRACE_COMMAND(hipDrvMemcpy3DAsync, false, copy_of(work, a.pCopy))

OCCATRACE_COPY(hipMemset, false, OCCATRACE_FILL, a.sizeBytes)
OCCATRACE_COPY(hipMemsetAsync, false, OCCATRACE_FILL, a.sizeBytes)
OCCATRACE_COPY(hipMemsetD8, false, OCCATRACE_FILL, a.count)
OCCATRACE_COPY(hipMemsetD8Async, false, OCCATRACE_FILL, a.count)
OCCATRACE_COPY(hipMemsetD16, false, OCCATRACE_FILL, a.count * 2)
OCCATRACE_COPY(hipMemsetD16Async, false, OCCATRACE_FILL, a.count * 2)
OCCATRACE_COPY(hipMemsetD32, false, OCCATRACE_FILL, a.count * 4)
OCCATRACE_COPY(hipMemsetD32Async, false, OCCATRACE_FILL, a.count * 4)
OCCATRACE_COPY(hipMemset2D, false, OCCATRACE_FILL, a.width * a.height)
OCCATRACE_COPY(hipMemset2DAsync, false, OCCATRACE_FILL, a.width * a.height)
OCCATRACE_COPY(hipMemset3D, false, OCCATRACE_FILL, extent_of(a.extent).volume())
OCCATRACE_COPY(hipMemset3DAsync, false, OCCATRACE_FILL, extent_of(a.extent).volume())
OCCATRACE_COPY(hipMemPrefetchAsync, false, OCCATRACE_MIGRATE, a.count)

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
}

}  // namespace occatrace::hip
