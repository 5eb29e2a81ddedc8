// The device work of CUDA's calls: what the expressions of the model name (tracepoints/cuda.yaml), and the hook of such calls.
#pragma once

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
#include "engine.h"
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
  size_t bytes() const { return width * height; }
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
  size_t bytes() const { return width * height * depth; }
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
  size_t bytes() const { return width * height * depth; }
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

struct LaunchConfig {
  device::Size blocks, block;
  unsigned shared;
  CUstream stream;
};

// A structure that a call is given, or an empty one.
template <class Structure>
const Structure &as(const void *given) {
  static constexpr Structure none{};
  return given == nullptr ? none : *static_cast<const Structure *>(given);
}

enum MemoryType : unsigned {
  kHost = 1,
  kDevice = 2,
  kArray = 3,
  kUnified = 4,
};

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

HandleMap kernel_names;  // CUfunction, CUkernel → interned name

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

// Kind of memory behind a unified address; what the driver does not know is the program's own.
bool on_device(CUdeviceptr address) {
  unsigned type = 0;
  return real<0>().cuPointerGetAttribute(&type, 2, address) == 0 && type == kDevice;
}

template <class End>
bool on_device(const End &end) {
  return end.type == kDevice || end.type == kArray || (end.type == kUnified && on_device(end.device));
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

size_t bytes_of(const CopyOfBatch &copy) {
  const size_t element = std::max<size_t>({element_of(copy.from), element_of(copy.to), 1});
  return copy.width * copy.height * copy.depth * element;
}

// What the launches of old take from the function: its blocks.
HandleMap block_shapes;
constexpr int kShapeBits = 16;

device::Size block_shape(CUfunction function) {
  const uint64_t shape = block_shapes.get(function);
  const auto side = [shape](int at) { return std::max(1u, static_cast<unsigned>(shape >> (at * kShapeBits)) & 0xffffu); };
  return {side(0), side(1), side(2)};
}

}  // namespace

// Surrounds a command by two events.
template <int F>
struct Enqueue : Always {
  template <int I, class Args>
  static CUstream stream(const Args &a) {
    return Pairs::meant<I>(Command<F>::queue(a));
  }
  template <int I, class Args>
  static bool chosen(Args &a) {
    if (!Pairs::chosen(stream<I>(a))) return false;
    if constexpr (Command<F>::is_kernel) {
      // Below an OCCA kernel, that one is what people choose.
      return occatrace_self()->run_seq != OCCATRACE_NO_RUN || occatrace_choose_kernel(Command<F>::template kernel<I>(a));
    }
    return true;
  }
  template <int I, class Args>
  static void before(Call &call, Args &a) {
    // CUPTI has a record for each of several copies.
    Timing::begin(call, stream<I>(a), Command<F>::has_parts);
  }
  template <int I, class Args>
  static void after(Call &call, Args &a) {
    Timing::end(call, stream<I>(a), a.ret == 0, Command<F>::blocking(a), [&a](Work &work) { Command<F>::template describe<I>(a, work); });
  }
};

}  // namespace occatrace::cuda

#include "cuda_commands.h"
