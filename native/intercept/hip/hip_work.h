// The device work of HIP's calls: what the expressions of the model name (tracepoints/hip.yaml), and the hook of such calls.
#pragma once

#include <dlfcn.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <iterator>
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

using Dim3 = device::Size;
inline const Dim3 &dim(const dim3 &d) { return reinterpret_cast<const Dim3 &>(d); }

struct Extent {
  size_t width, height, depth;
  size_t volume() const { return width * height * depth; }
};
struct PitchedPtr {
  void *at;
  size_t pitch, xsize, ysize;
};
// An end of a copy: an array, or an address.
struct ArrayOrAddress {
  hipArray_t array;
  const void *address;
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
  ArrayOrAddress source() const { return {from_array, from.at}; }
  ArrayOrAddress target() const { return {to_array, to.at}; }
};
inline const Copy3D &parameters_of(const hipMemcpy3DParms *given) {
  static constexpr Copy3D none{};
  return given == nullptr ? none : *reinterpret_cast<const Copy3D *>(given);
}
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

// By what device work is timed is settled when the program first uses a device: one that merely looks for some is left alone.
std::atomic<bool> unsettled{false};
void settle_now();
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

// Kind of memory behind an address; what HIP does not know is the program's own.
bool on_device(const void *address) {
  PointerAttributes found = {};
  const auto at = reinterpret_cast<hipPointerAttribute_t *>(&found);
  if (quietly(real<0>().hipPointerGetAttributes(at, address)) != 0) return false;
  return version < kVersion6 ? found.type != 0 : found.type > 1;
}

constexpr int kByAddress = 4;  // hipMemcpyDefault

bool is_directed(int kind) { return kind != kByAddress; }
uint8_t directed(int kind) {
  switch (kind) {
    case 0: return OCCATRACE_HTOH;
    case 1: return OCCATRACE_HTOD;
    case 2: return OCCATRACE_DTOH;
    default: return OCCATRACE_DTOD;
  }
}

bool on_device(const ArrayOrAddress &end) { return end.array != nullptr || on_device(end.address); }

// Where an array takes part the width is in its elements.
size_t bytes_of(const Copy3D &copy) {
  const hipArray_t array = copy.from_array != nullptr ? copy.from_array : copy.to_array;
  const uint64_t each = array != nullptr ? array_elements.get(array) : 1;
  return copy.extent.volume() * (each != 0 ? each : 1);
}

// Of a structure whose layout depends on the version: an end, as far as its kind of memory is asked for; the bytes.
struct End {
  int type = 0;
  const void *device = nullptr;
};
template <class Parameters>
End source_of(const Parameters *parameters) {
  End end;
  visit(parameters, [&end](const auto &copy) { end = {copy.from.type, copy.from.device}; });
  return end;
}
template <class Parameters>
End target_of(const Parameters *parameters) {
  End end;
  visit(parameters, [&end](const auto &copy) { end = {copy.to.type, copy.to.device}; });
  return end;
}
bool on_device(const End &end) {
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
size_t bytes_of(const Parameters *parameters) {
  size_t bytes = 0;
  visit(parameters, [&bytes](const auto &copy) { bytes = static_cast<size_t>(copy.width) * copy.height * depth_of(copy); });
  return bytes;
}

// The launch that old programs prepare in pieces.
struct Configured {
  Dim3 blocks, block;
  hipStream_t stream;
};
thread_local Configured configured;

// The kernel of a launch, by whatever the call names it.
inline uint32_t name_by(hipFunction_t function, hipStream_t) { return kernel_name(function); }
inline uint32_t name_by(const void *function, hipStream_t stream) { return kernel_name(function, stream); }
}  // namespace

// Surrounds a command by two events, or by its ticket. A graph is told of by its nodes.
template <int F>
struct Enqueue : Always {
  template <int I, class Args>
  static hipStream_t stream(const Args &a) {
    return Pairs::meant<I>(Command<F>::queue(a));
  }
  template <int I, class Args>
  static bool chosen(Args &a) {
    settle();
    if (!Pairs::chosen(stream<I>(a))) return false;
    if constexpr (Command<F>::is_kernel) {
      // Below an OCCA kernel, that one is what people choose.
      return occatrace_self()->run_seq != OCCATRACE_NO_RUN || occatrace_choose_kernel(Command<F>::template kernel<I>(a));
    }
    return true;
  }
  template <int I, class Args>
  static void before(Call &call, Args &a) {
    settle();
    Timing::begin(call, stream<I>(a), in_pieces());
  }
  template <int I, class Args>
  static void after(Call &call, Args &a) {
    Timing::end(call, stream<I>(a), a.ret == 0, Command<F>::blocking(a), [&a](Work &work) { Command<F>::template describe<I>(a, work); });
  }

 private:
  // Whether it may be told of in several records: a graph is by its nodes; a cooperative launch has another before it.
  static bool in_pieces() {
    if constexpr (F == OCCATRACE_HIP_hipGraphLaunch) return true;
    constexpr bool cooperative = F == OCCATRACE_HIP_hipLaunchCooperativeKernel || F == OCCATRACE_HIP_hipModuleLaunchCooperativeKernel;
    return (cooperative || !Command<F>::is_kernel) && device::tickets::in_pieces();
  }
};

namespace {

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
                  [&entry](Work &work) {
                    work.kind = OCCATRACE_KERNEL;
                    work.name = name_by(entry.function, entry.stream);
                    work.in_blocks(entry.blocks, entry.block);
                  });
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

}  // namespace occatrace::hip

#include "hip_commands.h"
