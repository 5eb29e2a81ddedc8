// A HIP runtime on CPU threads, for tests on machines without a GPU: the documented runtime API as far as the tests use it,
// on the core that it shares with the CUDA driver of tests/fakes/cuda. The streams' order, events, captures, the last error
// of a thread (every call leaves its own, also hipErrorNotReady, as in HIP 5 and 6) and unified addresses are HIP's.
// A kernel is a line of its module's text, or one that a compiler registered: those are named after what they do, "tick" (1 ms),
// "empty", "spin…" (as long as the first parameter says) and "fault…" (fails when it runs).
// Linked as the real one is: soname libamdhip64.so.5, versioned symbols (runtime.map), -Bsymbolic.
#define __HIP_PLATFORM_AMD__
#include <dlfcn.h>
#include <hip/hip_runtime_api.h>
#include <stdio.h>

#include "../core.h"

#define EXPORT extern "C" __attribute__((visibility("default")))
// A function whose body gives a code, which is also the thread's last error.
#define HIP(name, parameters, ...)                   \
  EXPORT hipError_t name parameters {                \
    return tell([&]() -> int { __VA_ARGS__; }());    \
  }

struct ihipStream_t : fake::Stream {};
struct ihipEvent_t : fake::Event {
  using fake::Event::Event;
};
struct ihipGraph : fake::Graph {};
struct hipGraphExec : fake::Graph {};
struct ihipModuleSymbol_t : fake::Kernel {
  std::string symbol;  // where it is not the name
};
struct ihipModule_t {
  std::map<std::string, std::unique_ptr<ihipModuleSymbol_t>> functions;
};

namespace {

struct Device : fake::Context {
  Device() { legacy = fake::make_stream<ihipStream_t>(this, 0); }
};

// Never destroyed: threads of the device go on while the process is taken down.
fake::Memory &memory = *new fake::Memory("FAKE_HIP_MEMORY");
thread_local int last_error = 0;
thread_local int current_device = 0;

int device_count() { return fake::device_count("FAKE_HIP_DEVICES"); }

hipError_t tell(int code) {
  last_error = code;
  return static_cast<hipError_t>(code);
}

std::atomic<void (*)()> at_start{nullptr};

Device *device(int ordinal) {
  static auto *const all = [] {
    if (const auto tell_of_it = at_start.load()) tell_of_it();
    fake::device_ns();
    auto *made = new std::vector<Device *>;
    for (int at = 0; at < device_count(); ++at) {
      made->push_back(new Device);
      made->back()->device = at;
    }
    return made;
  }();
  return (*all)[static_cast<size_t>(ordinal)];
}

#define NEED_DEVICE                                             \
  if (device_count() == 0) return hipErrorNoDevice;             \
  Device *const here = device(current_device);                  \
  if (const int sticky = here->error) return sticky

hipStream_t resolve(fake::Context *here, hipStream_t stream, bool per_thread) { return fake::resolve(here, stream, per_thread); }

int allocate(void **at, size_t bytes, const fake::Block &as) { return memory.allocate(at, bytes, as); }

// ---- what compilers register ----

struct Registered {
  std::mutex mutex;
  std::map<const void *, std::unique_ptr<ihipModuleSymbol_t>> kernels;
};
Registered &registered() {
  static auto *const all = new Registered;
  return *all;
}

ihipModuleSymbol_t *of_host_function(const void *function) {
  std::lock_guard<std::mutex> guard(registered().mutex);
  const auto found = registered().kernels.find(function);
  return found == registered().kernels.end() ? nullptr : found->second.get();
}

// Of HIP 6's headers.
struct fake_function_launch {
  hipFunction_t function;
  unsigned gridDimX, gridDimY, gridDimZ, blockDimX, blockDimY, blockDimZ, sharedMemBytes;
  hipStream_t hStream;
  void **kernelParams;
};

struct Configuration {
  dim3 grid, block;
  size_t shared;
  hipStream_t stream;
};
thread_local std::vector<Configuration> configurations;

// ---- commands ----

int launch(hipStream_t on, const ihipModuleSymbol_t *kernel, dim3 grid, dim3 block, void **parameters, void **extra, bool per_thread) {
  NEED_DEVICE;
  if (kernel == nullptr) return hipErrorInvalidDeviceFunction;
  if (grid.x == 0 || block.x == 0 || block.x * block.y * block.z > 1024) return hipErrorInvalidConfiguration;
  const uint64_t *first = nullptr;
  if (parameters != nullptr) first = static_cast<const uint64_t *>(parameters[0]);
  if (extra != nullptr && extra[0] == HIP_LAUNCH_PARAM_BUFFER_POINTER) first = static_cast<const uint64_t *>(extra[1]);
  const bool told = kernel->name.rfind("spin", 0) == 0;
  return fake::launch(resolve(here, on, per_thread), *kernel, told ? first : nullptr);
}

int copy(void *to, const void *from, size_t bytes, hipMemcpyKind kind, hipStream_t on, bool per_thread, bool wait) {
  NEED_DEVICE;
  if (kind < hipMemcpyHostToHost || kind > hipMemcpyDefault) return hipErrorInvalidMemcpyDirection;
  return fake::copy(resolve(here, on, per_thread), to, from, bytes, wait);
}
int copy_rows(void *to, size_t to_pitch, const void *from, size_t from_pitch, size_t width, size_t height, hipStream_t on, bool wait) {
  NEED_DEVICE;
  return fake::enqueue(resolve(here, on, false), [=] {
    for (size_t row = 0; row < height; ++row) {
      std::memmove(static_cast<char *>(to) + row * to_pitch, static_cast<const char *>(from) + row * from_pitch, width);
    }
    fake::busy(fake::copy_ns(width * height));
  }, wait, fake::kCopyKind);
}
template <class T>
int fill(void *at, T value, size_t count, hipStream_t on, bool per_thread) {
  NEED_DEVICE;
  return fake::fill(resolve(here, on, per_thread), at, value, count, false);
}

const struct {
  int code;
  const char *name;
  const char *text;
} errors[] = {
    {0, "hipSuccess", "no error"},
    {1, "hipErrorInvalidValue", "invalid argument"},
    {2, "hipErrorOutOfMemory", "out of memory"},
    {9, "hipErrorInvalidConfiguration", "invalid configuration argument"},
    {98, "hipErrorInvalidDeviceFunction", "invalid device function"},
    {100, "hipErrorNoDevice", "no ROCm-capable device is detected"},
    {101, "hipErrorInvalidDevice", "invalid device ordinal"},
    {500, "hipErrorNotFound", "named symbol not found"},
    {600, "hipErrorNotReady", "device not ready"},
    {700, "hipErrorIllegalAddress", "an illegal memory access was encountered"},
};

}  // namespace

// ---- for the tests themselves ----
EXPORT long fake_hip_live_events() { return fake::live_events; }
EXPORT long fake_hip_captured_events() { return fake::captured_events; }
// Of a later version than any that is known.
EXPORT int hipOfTomorrow() { return 0; }
// For the stand-ins of profiling libraries beside this one: who looks on, and whom to tell when the first device is used.
EXPORT void fake_hip_observe(const fake::Observer *observer) { fake::observer = observer; }
EXPORT void fake_hip_at_start(void (*tell_of_it)()) { at_start = tell_of_it; }

// ---- errors ----
EXPORT const char *hipGetErrorName(hipError_t code) {
  for (const auto &e : errors) {
    if (e.code == code) return e.name;
  }
  return "hipErrorUnknown";
}
EXPORT const char *hipGetErrorString(hipError_t code) {
  for (const auto &e : errors) {
    if (e.code == code) return e.text;
  }
  return "unknown error";
}
EXPORT hipError_t hipGetLastError() {
  const int code = last_error;
  last_error = 0;
  return static_cast<hipError_t>(code);
}
EXPORT hipError_t hipPeekAtLastError() { return static_cast<hipError_t>(last_error); }
EXPORT const char *hipApiName(uint32_t) { return "unknown"; }

// ---- devices ----
HIP(hipInit, (unsigned flags), return flags != 0 ? hipErrorInvalidValue : device_count() == 0 ? hipErrorNoDevice : hipSuccess)
HIP(hipDriverGetVersion, (int *version), *version = 50221153; return 0)
HIP(hipRuntimeGetVersion, (int *version), *version = 50221153; return 0)
HIP(hipGetDeviceCount, (int *count), *count = device_count(); return *count == 0 ? hipErrorNoDevice : hipSuccess)
HIP(hipGetDevice, (int *ordinal), NEED_DEVICE; *ordinal = here->device; return 0)
HIP(hipSetDevice, (int ordinal), if (ordinal < 0 || ordinal >= device_count()) return hipErrorInvalidDevice; current_device = ordinal; return 0)
HIP(hipGetDeviceProperties, (hipDeviceProp_t * properties, int ordinal), {
  if (ordinal < 0 || ordinal >= device_count()) return hipErrorInvalidDevice;
  *properties = {};
  snprintf(properties->name, sizeof properties->name, "Fake GPU %d", ordinal);
  snprintf(properties->gcnArchName, sizeof properties->gcnArchName, "gfx90a");
  properties->totalGlobalMem = memory.size();
  properties->maxThreadsPerBlock = 1024;
  properties->warpSize = 64;
  properties->major = 9;
  properties->gcnArch = 910;
  for (int at = 0; at < 3; ++at) {
    properties->maxThreadsDim[at] = 1024;
    properties->maxGridSize[at] = 1 << 30;
  }
  return 0;
})
HIP(hipDeviceGet, (hipDevice_t * device, int ordinal), if (ordinal < 0 || ordinal >= device_count()) return hipErrorInvalidDevice; *device = ordinal; return 0)
HIP(hipDeviceGetName, (char *name, int length, hipDevice_t device), snprintf(name, static_cast<size_t>(length), "Fake GPU %d", device); return 0)
HIP(hipDeviceTotalMem, (size_t * bytes, hipDevice_t), *bytes = memory.size(); return 0)
HIP(hipDeviceGetAttribute, (int *value, hipDeviceAttribute_t, int), *value = 64; return 0)
HIP(hipDeviceComputeCapability, (int *major, int *minor, hipDevice_t), *major = 9; *minor = 0; return 0)
HIP(hipDeviceGetPCIBusId, (char *text, int length, int device), snprintf(text, static_cast<size_t>(length), "0000:%02x:00.0", device + 1); return 0)
HIP(hipDeviceSynchronize, (), NEED_DEVICE; fake::finish(here); return here->error)
HIP(hipDeviceReset, (), NEED_DEVICE; fake::finish(here); return 0)
HIP(hipDeviceCanAccessPeer, (int *can, int, int), *can = 1; return 0)
HIP(hipDeviceEnablePeerAccess, (int, unsigned), return 0)
// A context is its device's; making one makes the device the thread's.
HIP(hipCtxCreate, (hipCtx_t * context, unsigned, hipDevice_t ordinal), current_device = ordinal; *context = reinterpret_cast<hipCtx_t>(device(ordinal)); return 0)
HIP(hipCtxSetCurrent, (hipCtx_t context), current_device = reinterpret_cast<Device *>(context)->device; return 0)
HIP(hipCtxDestroy, (hipCtx_t context), fake::finish(reinterpret_cast<Device *>(context)); return 0)
HIP(hipCtxSynchronize, (), NEED_DEVICE; fake::finish(here); return here->error)
HIP(hipSetDeviceFlags, (unsigned), return device_count() == 0 ? hipErrorNoDevice : hipSuccess)
HIP(hipCtxEnablePeerAccess, (hipCtx_t, unsigned), return 0)
HIP(hipMemGetInfo, (size_t * free, size_t *total), *total = memory.size(); *free = *total - memory.used(); return 0)
EXPORT int hipGetStreamDeviceId(hipStream_t stream) {
  return reinterpret_cast<uintptr_t>(stream) <= 2 ? current_device : stream->context->device;
}
// Of HIP 6: functions by name, found in this library; and one that came later still.
HIP(hipGetProcAddress, (const char *symbol, void **address, int, uint64_t, int *status), {
  Dl_info self;
  dladdr(reinterpret_cast<void *>(&fake_hip_observe), &self);
  *address = dlsym(dlopen(self.dli_fname, RTLD_LAZY | RTLD_NOLOAD), symbol);
  if (status != nullptr) *status = *address == nullptr;
  return *address == nullptr ? hipErrorNotFound : hipSuccess;
})
HIP(hipOfTheFuture, (int *answer), *answer = 8; return 0)
HIP(hipProfilerStart, (), return 0)
HIP(hipProfilerStop, (), return 0)

// ---- modules ----
HIP(hipModuleLoadData, (hipModule_t * module, const void *image), {
  NEED_DEVICE;
  auto made = std::make_unique<ihipModule_t>();
  if (image == nullptr || !fake::load(made->functions, static_cast<const char *>(image))) return hipErrorInvalidImage;
  *module = made.release();
  return 0;
})
HIP(hipModuleLoad, (hipModule_t * module, const char *path), {
  std::string text;
  FILE *file = fopen(path, "r");
  if (file == nullptr) return hipErrorFileNotFound;
  for (int c; (c = fgetc(file)) != EOF;) text += static_cast<char>(c);
  fclose(file);
  return hipModuleLoadData(module, text.c_str());
})
HIP(hipFuncGetAttribute, (int *value, hipFunction_attribute, hipFunction_t), *value = 1024; return 0)
HIP(hipModuleUnload, (hipModule_t module), delete module; return 0)
HIP(hipModuleGetFunction, (hipFunction_t * function, hipModule_t module, const char *name), {
  const auto found = module->functions.find(name);
  if (found == module->functions.end()) return hipErrorNotFound;
  *function = found->second.get();
  return 0;
})
EXPORT const char *hipKernelNameRef(const hipFunction_t function) {
  return function->symbol.empty() ? function->name.c_str() : function->symbol.c_str();
}
EXPORT const char *hipKernelNameRefByPtr(const void *function, hipStream_t) {
  const ihipModuleSymbol_t *kernel = of_host_function(function);
  return kernel == nullptr ? nullptr : kernel->symbol.c_str();
}
EXPORT void **__hipRegisterFatBinary(const void *) { return new void *(nullptr); }
EXPORT void __hipUnregisterFatBinary(void **) {}
EXPORT void __hipRegisterVar(void **, void *, char *, char *, int, size_t, int, int) {}
EXPORT void __hipRegisterManagedVar(void *, void **, void *, const char *, size_t, unsigned) {}
EXPORT void __hipRegisterFunction(void **, const void *host, char *, const char *name, unsigned, void *, void *, dim3 *, dim3 *, int *) {
  auto kernel = std::make_unique<ihipModuleSymbol_t>();
  // What the kernel does is told by its plain name, of which the mangled one holds the length.
  const char *plain = name;
  if (strncmp(plain, "_Z", 2) == 0) {
    for (plain += 2; *plain >= '0' && *plain <= '9';) ++plain;
  }
  kernel->name = plain;
  kernel->symbol = name;
  kernel->ns = kernel->name.rfind("tick", 0) == 0 ? 1000000 : 0;
  std::lock_guard<std::mutex> guard(registered().mutex);
  registered().kernels[host] = std::move(kernel);
}
EXPORT hipError_t __hipPushCallConfiguration(dim3 grid, dim3 block, size_t shared, hipStream_t stream) {
  configurations.push_back({grid, block, shared, stream});
  return hipSuccess;
}
EXPORT hipError_t __hipPopCallConfiguration(dim3 *grid, dim3 *block, size_t *shared, hipStream_t *stream) {
  *grid = configurations.back().grid;
  *block = configurations.back().block;
  *shared = configurations.back().shared;
  *stream = configurations.back().stream;
  configurations.pop_back();
  return hipSuccess;
}

// ---- launches ----
HIP(hipLaunchKernel, (const void *f, dim3 grid, dim3 block, void **p, size_t, hipStream_t s), return launch(s, of_host_function(f), grid, block, p, nullptr, false))
HIP(hipLaunchKernel_spt, (const void *f, dim3 grid, dim3 block, void **p, size_t, hipStream_t s), return launch(s, of_host_function(f), grid, block, p, nullptr, true))
HIP(hipLaunchCooperativeKernel, (const void *f, dim3 grid, dim3 block, void **p, unsigned, hipStream_t s), return launch(s, of_host_function(f), grid, block, p, nullptr, false))
HIP(hipExtLaunchKernel, (const void *f, dim3 grid, dim3 block, void **p, size_t, hipStream_t s, hipEvent_t, hipEvent_t, int), return launch(s, of_host_function(f), grid, block, p, nullptr, false))
HIP(hipModuleLaunchKernel, (hipFunction_t f, unsigned x, unsigned y, unsigned z, unsigned bx, unsigned by, unsigned bz, unsigned, hipStream_t s, void **p, void **extra),
    return launch(s, f, dim3(x, y, z), dim3(bx, by, bz), p, extra, false))
// This one calls another of the API, through its own symbol: -Bsymbolic or not, the program called one function.
HIP(hipModuleLaunchCooperativeKernel, (hipFunction_t f, unsigned x, unsigned y, unsigned z, unsigned bx, unsigned by, unsigned bz, unsigned shared, hipStream_t s, void **p), {
  static const auto through = reinterpret_cast<decltype(&hipModuleLaunchKernel)>(dlsym(RTLD_DEFAULT, "hipModuleLaunchKernel"));
  return through(f, x, y, z, bx, by, bz, shared, s, p, nullptr);
})
// Until HIP 6 a function of C++. The grid is in work-items.
__attribute__((visibility("default"))) hipError_t hipExtModuleLaunchKernel(
    hipFunction_t f, uint32_t x, uint32_t y, uint32_t z, uint32_t bx, uint32_t by, uint32_t bz, size_t, hipStream_t s, void **p, void **extra,
    hipEvent_t start, hipEvent_t stop, uint32_t) {
  const hipStream_t on = resolve(device(current_device), s, false);
  if (start != nullptr) fake::record(start, on);
  const int code = launch(s, f, dim3(x / bx, y / by, z / bz), dim3(bx, by, bz), p, extra, false);
  if (stop != nullptr) fake::record(stop, on);
  return tell(code);
}

// The other form, of C, from HIP 6 on; and the older name.
EXPORT hipError_t ext_module_launch(hipFunction_t f, uint32_t x, uint32_t y, uint32_t z, uint32_t bx, uint32_t by, uint32_t bz, size_t shared,
                                    hipStream_t s, void **p, void **extra, hipEvent_t start, hipEvent_t stop, uint32_t flags) __asm__("hipExtModuleLaunchKernel");
hipError_t ext_module_launch(hipFunction_t f, uint32_t x, uint32_t y, uint32_t z, uint32_t bx, uint32_t by, uint32_t bz, size_t shared,
                             hipStream_t s, void **p, void **extra, hipEvent_t start, hipEvent_t stop, uint32_t flags) {
  return hipExtModuleLaunchKernel(f, x, y, z, bx, by, bz, shared, s, p, extra, start, stop, flags);
}
__attribute__((visibility("default"))) hipError_t hipHccModuleLaunchKernel(
    hipFunction_t f, uint32_t x, uint32_t y, uint32_t z, uint32_t bx, uint32_t by, uint32_t bz, size_t shared, hipStream_t s, void **p, void **extra,
    hipEvent_t start, hipEvent_t stop) {
  return hipExtModuleLaunchKernel(f, x, y, z, bx, by, bz, shared, s, p, extra, start, stop, 0);
}
// In pieces: a configuration, arguments one by one, the launch.
thread_local std::vector<char> arguments;
HIP(hipConfigureCall, (dim3 grid, dim3 block, size_t shared, hipStream_t s), configurations.push_back({grid, block, shared, s}); arguments.clear(); return 0)
HIP(hipSetupArgument, (const void *argument, size_t size, size_t offset), {
  arguments.resize(std::max(arguments.size(), offset + size));
  memcpy(arguments.data() + offset, argument, size);
  return 0;
})
HIP(hipLaunchByPtr, (const void *f), {
  const Configuration with = configurations.back();
  configurations.pop_back();
  void *first[] = {arguments.data()};
  return launch(with.stream, of_host_function(f), with.grid, with.block, first, nullptr, false);
})
template <class Entry>
int launch_all(const Entry *entries, unsigned count) {
  for (unsigned at = 0; at < count; ++at) {
    const Entry &e = entries[at];
    int code;
    if constexpr (std::is_same_v<Entry, hipLaunchParams>) {
      code = launch(e.stream, of_host_function(e.func), e.gridDim, e.blockDim, e.args, nullptr, false);
    } else {
      code = launch(e.hStream, e.function, dim3(e.gridDimX, e.gridDimY, e.gridDimZ), dim3(e.blockDimX, e.blockDimY, e.blockDimZ), e.kernelParams, nullptr, false);
    }
    if (code != 0) return code;
  }
  return 0;
}
HIP(hipLaunchCooperativeKernelMultiDevice, (hipLaunchParams * all, int count, unsigned), return launch_all(all, static_cast<unsigned>(count)))
HIP(hipExtLaunchMultiKernelMultiDevice, (hipLaunchParams * all, int count, unsigned), return launch_all(all, static_cast<unsigned>(count)))
HIP(hipModuleLaunchCooperativeKernelMultiDevice, (fake_function_launch * all, unsigned count, unsigned), return launch_all(all, count))
HIP(hipLaunchHostFunc, (hipStream_t s, hipHostFn_t f, void *data), NEED_DEVICE; return fake::enqueue(resolve(here, s, false), [=] { f(data); }, false))

// ---- memory ----
HIP(hipMalloc, (void **at, size_t n), NEED_DEVICE; return allocate(at, n, {n, fake::kDevice, false}))
HIP(hipMallocManaged, (void **at, size_t n, unsigned), NEED_DEVICE; return allocate(at, n, {n, fake::kDevice, true}))
HIP(hipMallocPitch, (void **at, size_t *pitch, size_t width, size_t height), NEED_DEVICE; *pitch = (width + 255) / 256 * 256; return allocate(at, *pitch * height, {0, fake::kDevice, false}))
HIP(hipMallocAsync, (void **at, size_t n, hipStream_t), NEED_DEVICE; return allocate(at, n, {n, fake::kDevice, false}))
HIP(hipFree, (void *at), NEED_DEVICE; fake::finish(here); return memory.release(at, fake::kDevice))
HIP(hipFreeAsync, (void *at, hipStream_t s), NEED_DEVICE; return fake::enqueue(resolve(here, s, false), [at] { memory.release(at, fake::kDevice); }, false))
HIP(hipExtMallocWithFlags, (void **at, size_t n, unsigned flags), NEED_DEVICE; return allocate(at, n, {n, fake::kDevice, false, flags}))
HIP(hipMallocFromPoolAsync, (void **at, size_t n, hipMemPool_t pool, hipStream_t), NEED_DEVICE; if (pool == nullptr) return hipErrorInvalidValue; return allocate(at, n, {n, fake::kDevice, false}))
HIP(hipDeviceGetDefaultMemPool, (hipMemPool_t * pool, int ordinal), *pool = reinterpret_cast<hipMemPool_t>(device(ordinal)); return 0)
HIP(hipMemPoolCreate, (hipMemPool_t * pool, const hipMemPoolProps *), *pool = reinterpret_cast<hipMemPool_t>(new char); return 0)
HIP(hipMemPoolDestroy, (hipMemPool_t pool), delete reinterpret_cast<char *>(pool); return 0)
HIP(hipMalloc3D, (hipPitchedPtr * made, hipExtent extent), {
  NEED_DEVICE;
  *made = {nullptr, (extent.width + 255) / 256 * 256, extent.width, extent.height};
  return allocate(&made->ptr, made->pitch * extent.height * extent.depth, {0, fake::kDevice, false});
})
HIP(hipHostAlloc, (void **at, size_t n, unsigned flags), NEED_DEVICE; return allocate(at, n, {n, fake::kHost, false, flags}))
HIP(hipHostMalloc, (void **at, size_t n, unsigned flags), NEED_DEVICE; return allocate(at, n, {n, fake::kHost, false, flags}))
HIP(hipMallocHost, (void **at, size_t n), NEED_DEVICE; return allocate(at, n, {n, fake::kHost, false}))
HIP(hipHostFree, (void *at), return memory.release(at, fake::kHost))
HIP(hipHostRegister, (void *at, size_t n, unsigned flags), memory.enroll(at, n, flags); return 0)
HIP(hipHostUnregister, (void *at), memory.strike(at); return 0)
HIP(hipHostGetDevicePointer, (void **device, void *host, unsigned), *device = host; return 0)
HIP(hipPointerGetAttributes, (hipPointerAttribute_t * attributes, const void *at), {
  fake::Block block;
  if (!memory.find(at, &block)) return hipErrorInvalidValue;
  *attributes = {};
  attributes->memoryType = block.type == fake::kDevice ? hipMemoryTypeDevice : hipMemoryTypeHost;
  attributes->isManaged = block.managed;
  attributes->allocationFlags = block.flags;
  attributes->devicePointer = const_cast<void *>(at);
  attributes->hostPointer = block.type == fake::kHost || block.managed ? const_cast<void *>(at) : nullptr;
  return 0;
})
HIP(hipMemcpy, (void *to, const void *from, size_t n, hipMemcpyKind kind), return copy(to, from, n, kind, nullptr, false, true))
HIP(hipMemcpy_spt, (void *to, const void *from, size_t n, hipMemcpyKind kind), return copy(to, from, n, kind, nullptr, true, true))
HIP(hipMemcpyAsync, (void *to, const void *from, size_t n, hipMemcpyKind kind, hipStream_t s), return copy(to, from, n, kind, s, false, false))
HIP(hipMemcpyAsync_spt, (void *to, const void *from, size_t n, hipMemcpyKind kind, hipStream_t s), return copy(to, from, n, kind, s, true, false))
HIP(hipMemcpyWithStream, (void *to, const void *from, size_t n, hipMemcpyKind kind, hipStream_t s), return copy(to, from, n, kind, s, false, true))
HIP(hipMemcpyHtoD, (hipDeviceptr_t to, void *from, size_t n), return copy(to, from, n, hipMemcpyHostToDevice, nullptr, false, true))
HIP(hipMemcpyDtoH, (void *to, hipDeviceptr_t from, size_t n), return copy(to, from, n, hipMemcpyDeviceToHost, nullptr, false, true))
HIP(hipMemcpyDtoD, (hipDeviceptr_t to, hipDeviceptr_t from, size_t n), return copy(to, from, n, hipMemcpyDeviceToDevice, nullptr, false, false))
HIP(hipMemcpyHtoDAsync, (hipDeviceptr_t to, void *from, size_t n, hipStream_t s), return copy(to, from, n, hipMemcpyHostToDevice, s, false, false))
HIP(hipMemcpyDtoHAsync, (void *to, hipDeviceptr_t from, size_t n, hipStream_t s), return copy(to, from, n, hipMemcpyDeviceToHost, s, false, false))
HIP(hipMemcpyDtoDAsync, (hipDeviceptr_t to, hipDeviceptr_t from, size_t n, hipStream_t s), return copy(to, from, n, hipMemcpyDeviceToDevice, s, false, false))
HIP(hipMemcpyPeer, (void *to, int, const void *from, int, size_t n), return copy(to, from, n, hipMemcpyDeviceToDevice, nullptr, false, false))
HIP(hipMemcpyPeerAsync, (void *to, int, const void *from, int, size_t n, hipStream_t s), return copy(to, from, n, hipMemcpyDeviceToDevice, s, false, false))
HIP(hipMemcpy2D, (void *to, size_t tp, const void *from, size_t fp, size_t w, size_t h, hipMemcpyKind), return copy_rows(to, tp, from, fp, w, h, nullptr, true))
HIP(hipMemcpy2DAsync, (void *to, size_t tp, const void *from, size_t fp, size_t w, size_t h, hipMemcpyKind, hipStream_t s), return copy_rows(to, tp, from, fp, w, h, s, false))
HIP(hipMallocArray, (hipArray * *array, const hipChannelFormatDesc *desc, size_t width, size_t height, unsigned), {
  NEED_DEVICE;
  *array = new hipArray{};
  (*array)->width = static_cast<unsigned>(width * static_cast<size_t>(desc->x + desc->y + desc->z + desc->w) / 8);
  (*array)->height = static_cast<unsigned>(height);
  return allocate(&(*array)->data, (*array)->width * height, {0, fake::kDevice, false});
})
HIP(hipFreeArray, (hipArray * array), const int code = memory.release(array->data, fake::kDevice); delete array; return code)
HIP(hipMemcpy2DToArray, (hipArray * to, size_t, size_t, const void *from, size_t pitch, size_t width, size_t height, hipMemcpyKind),
    return copy_rows(to->data, to->width, from, pitch, width, height, nullptr, true))
HIP(hipMalloc3DArray, (hipArray * *array, const hipChannelFormatDesc *desc, hipExtent extent, unsigned flags), {
  const int code = hipMallocArray(array, desc, extent.width, extent.height * extent.depth, flags);
  if (code == 0) (*array)->height = static_cast<unsigned>(extent.height), (*array)->depth = static_cast<unsigned>(extent.depth);
  return code;
})
// An array's rows are its width in bytes apart; where one takes part the extent is in its elements.
int copy_volume(const hipMemcpy3DParms *p, hipStream_t on, bool wait) {
  const hipArray *array = p->srcArray != nullptr ? p->srcArray : p->dstArray;
  const size_t each = array == nullptr ? 1 : 4;
  const size_t width = p->extent.width * each;
  const auto end = [](const hipArray *array, const hipPitchedPtr &given) {
    return array != nullptr ? hipPitchedPtr{array->data, array->width, array->width, array->height} : given;
  };
  const hipPitchedPtr from = end(p->srcArray, p->srcPtr), to = end(p->dstArray, p->dstPtr);
  for (size_t z = 0; z < p->extent.depth; ++z) {
    const int code = copy_rows(static_cast<char *>(to.ptr) + z * to.pitch * to.ysize, to.pitch, static_cast<const char *>(from.ptr) + z * from.pitch * from.ysize,
                               from.pitch, width, p->extent.height, on, wait);
    if (code != 0) return code;
  }
  return 0;
}
HIP(hipMemcpy3D, (const hipMemcpy3DParms *p), return copy_volume(p, nullptr, true))
HIP(hipMemcpy3DAsync, (const hipMemcpy3DParms *p, hipStream_t s), return copy_volume(p, s, false))
HIP(hipMemcpyParam2D, (const hip_Memcpy2D *p), {
  const void *from = p->srcMemoryType == hipMemoryTypeHost ? p->srcHost : p->srcDevice;
  void *to = p->dstMemoryType == hipMemoryTypeHost ? p->dstHost : p->dstDevice;
  return copy_rows(to, p->dstPitch, from, p->srcPitch, p->WidthInBytes, p->Height, nullptr, true);
})
HIP(hipDrvMemcpy3DAsync, (const HIP_MEMCPY3D *p, hipStream_t s), {
  hipMemcpy3DParms as = {};
  as.srcPtr = {p->srcMemoryType == hipMemoryTypeHost ? const_cast<void *>(p->srcHost) : p->srcDevice, p->srcPitch, p->WidthInBytes, p->srcHeight};
  as.dstPtr = {p->dstMemoryType == hipMemoryTypeHost ? p->dstHost : p->dstDevice, p->dstPitch, p->WidthInBytes, p->dstHeight};
  as.extent = {p->WidthInBytes, p->Height, p->Depth};
  return copy_volume(&as, s, false);
})
HIP(hipMemcpy2DFromArray, (void *to, size_t pitch, hipArray_const_t from, size_t, size_t, size_t width, size_t height, hipMemcpyKind),
    return copy_rows(to, pitch, from->data, from->width, width, height, nullptr, true))
HIP(hipMemcpyAtoH, (void *to, hipArray * from, size_t offset, size_t n), return copy(to, static_cast<char *>(from->data) + offset, n, hipMemcpyDeviceToHost, nullptr, false, true))
HIP(hipMemcpyHtoA, (hipArray * to, size_t offset, const void *from, size_t n), return copy(static_cast<char *>(to->data) + offset, from, n, hipMemcpyHostToDevice, nullptr, false, true))
HIP(hipMemset2DAsync, (void *at, size_t pitch, int value, size_t width, size_t height, hipStream_t s), {
  NEED_DEVICE;
  return fake::enqueue(resolve(here, s, false), [=] {
    for (size_t row = 0; row < height; ++row) memset(static_cast<char *>(at) + row * pitch, value, width);
    fake::busy(fake::copy_ns(width * height));
  }, false, fake::kFillKind);
})
HIP(hipMemset, (void *at, int value, size_t n), return fill(at, static_cast<unsigned char>(value), n, nullptr, false))
HIP(hipMemsetAsync, (void *at, int value, size_t n, hipStream_t s), return fill(at, static_cast<unsigned char>(value), n, s, false))
HIP(hipMemsetD32Async, (hipDeviceptr_t at, int value, size_t n, hipStream_t s), return fill(at, value, n, s, false))
HIP(hipMemPrefetchAsync, (const void *, size_t n, int, hipStream_t s), NEED_DEVICE; return fake::enqueue(resolve(here, s, false), [n] { fake::busy(fake::copy_ns(n)); }, false))

// ---- streams and events ----
HIP(hipStreamCreateWithFlags, (hipStream_t * stream, unsigned flags), NEED_DEVICE; *stream = fake::make_stream<ihipStream_t>(here, flags); return 0)
HIP(hipStreamCreate, (hipStream_t * stream), NEED_DEVICE; *stream = fake::make_stream<ihipStream_t>(here, 0); return 0)
HIP(hipStreamCreateWithPriority, (hipStream_t * stream, unsigned flags, int), NEED_DEVICE; *stream = fake::make_stream<ihipStream_t>(here, flags); return 0)
HIP(hipStreamDestroy, (hipStream_t stream), fake::remove_stream(stream); delete stream; return 0)
HIP(hipStreamSynchronize, (hipStream_t s), NEED_DEVICE; return fake::synchronize(resolve(here, s, false)))
HIP(hipStreamSynchronize_spt, (hipStream_t s), NEED_DEVICE; return fake::synchronize(resolve(here, s, true)))
HIP(hipStreamQuery, (hipStream_t s), NEED_DEVICE; return fake::query(resolve(here, s, false)))
HIP(hipStreamWaitEvent, (hipStream_t s, hipEvent_t event, unsigned), NEED_DEVICE; return fake::wait_event(resolve(here, s, false), event))
HIP(hipEventCreateWithFlags, (hipEvent_t * event, unsigned flags), NEED_DEVICE; *event = new ihipEvent_t(here, flags & hipEventDisableTiming); return 0)
HIP(hipEventCreate, (hipEvent_t * event), NEED_DEVICE; *event = new ihipEvent_t(here, 0); return 0)
HIP(hipEventDestroy, (hipEvent_t event), delete event; return 0)
HIP(hipEventRecord, (hipEvent_t event, hipStream_t s), NEED_DEVICE; return fake::record(event, resolve(here, s, false)))
HIP(hipEventRecord_spt, (hipEvent_t event, hipStream_t s), NEED_DEVICE; return fake::record(event, resolve(here, s, true)))
HIP(hipEventQuery, (hipEvent_t event), return fake::query(event))
HIP(hipEventSynchronize, (hipEvent_t event), return fake::synchronize(event))
HIP(hipEventElapsedTime, (float *ms, hipEvent_t from, hipEvent_t to), return fake::elapsed(ms, from, to))

// ---- capture and graphs ----
HIP(hipStreamIsCapturing, (hipStream_t s, hipStreamCaptureStatus *status), {
  NEED_DEVICE;
  *status = resolve(here, s, false)->capture != nullptr ? hipStreamCaptureStatusActive : hipStreamCaptureStatusNone;
  return 0;
})
HIP(hipStreamBeginCapture, (hipStream_t s, hipStreamCaptureMode), NEED_DEVICE; return fake::begin_capture<ihipGraph>(resolve(here, s, false)))
HIP(hipStreamEndCapture, (hipStream_t s, hipGraph_t *graph), NEED_DEVICE; return fake::end_capture(resolve(here, s, false), graph))
HIP(hipGraphGetNodes, (hipGraph_t graph, hipGraphNode_t *, size_t *count), *count = graph->nodes.size(); return 0)
HIP(hipGraphInstantiate, (hipGraphExec_t * exec, hipGraph_t graph, hipGraphNode_t *, char *, size_t), *exec = new hipGraphExec{{graph->nodes}}; return 0)
HIP(hipGraphLaunch, (hipGraphExec_t exec, hipStream_t s), NEED_DEVICE; return fake::launch_graph(*exec, resolve(here, s, false)))
HIP(hipGraphExecDestroy, (hipGraphExec_t exec), delete exec; return 0)
HIP(hipGraphDestroy, (hipGraph_t graph), delete graph; return 0)
