// A CUDA driver on CPU threads, for tests on machines without a GPU: the documented driver API as far as the tests use it,
// with really asynchronous streams, events with times of a clock of its own, legacy and per-thread default streams, capture
// and graphs. Memory is the host's. A kernel is a line of its module's text, "kernel NAME [NANOSECONDS]"; it spins that
// long, or as long as its first parameter says where its name begins with "spin". "fault…" fails when it runs.
// CUDA_INJECTION64_PATH is served as the real one serves it; callbacks.cpp tells the stand-in for CUPTI of the calls.
// Linked as the real one is: soname libcuda.so.1, -Bsymbolic.
#define __CUDA_API_VERSION_INTERNAL
#include <cuda.h>
#include <dlfcn.h>

#include "../core.h"

#ifdef RENAMED
#include "renamed.h"
#endif

#define API extern "C" __attribute__((visibility("default"))) CUresult

struct CUevent_st : fake::Event {
  using fake::Event::Event;
};
struct CUgraph_st : fake::Graph {};
struct CUgraphExec_st : fake::Graph {};
struct CUstream_st : fake::Stream {};
struct CUctx_st : fake::Context {
  bool primary = false;
  int holders = 1;
};

struct CUfunc_st : fake::Kernel {};
struct CUmod_st {
  std::map<std::string, std::unique_ptr<CUfunc_st>> functions;
  CUdeviceptr global = 0;
};
struct CUlib_st {
  CUmod_st module;
};

namespace {

// Never destroyed: threads of the device go on while the process is taken down.
std::mutex &all_mutex = *new std::mutex;
std::set<CUcontext> &all_contexts = *new std::set<CUcontext>;
CUcontext primaries[8];
std::atomic<bool> initialized{false};
// Kept beyond the thread: exit handlers of others still call.
std::vector<CUcontext> &stack_of_thread() {
  static thread_local auto *const stack = new std::vector<CUcontext>;
  return *stack;
}
#define current_stack stack_of_thread()

fake::Memory &memory = *new fake::Memory("FAKE_CUDA_MEMORY");

int device_count() { return fake::device_count("FAKE_CUDA_DEVICES"); }

CUresult code(int of) { return static_cast<CUresult>(of); }
void *at_address(CUdeviceptr at) { return reinterpret_cast<void *>(at); }

CUcontext current() { return current_stack.empty() ? nullptr : current_stack.back(); }

#define NEED_CONTEXT                                                \
  if (!initialized) return CUDA_ERROR_NOT_INITIALIZED;              \
  CUcontext context = current();                                    \
  if (context == nullptr) return CUDA_ERROR_INVALID_CONTEXT;        \
  if (const int sticky = context->error) return static_cast<CUresult>(sticky)

CUstream resolve(CUcontext context, CUstream stream, bool per_thread) { return fake::resolve(context, stream, per_thread); }

CUresult allocate(CUdeviceptr *at, size_t bytes, unsigned type, bool managed) {
  void *block = nullptr;
  const int done = memory.allocate(&block, bytes, {bytes, type, managed});
  if (done == 0) *at = reinterpret_cast<CUdeviceptr>(block);
  return code(done);
}

CUresult load(CUmod_st &module, const void *image) {
  if (image == nullptr) return CUDA_ERROR_INVALID_VALUE;
  return fake::load(module.functions, static_cast<const char *>(image)) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_IMAGE;
}

CUcontext make_context(CUdevice device) {
  auto *context = new CUctx_st;
  context->device = device;
  context->legacy = fake::make_stream<CUstream_st>(context, 0);
  std::lock_guard<std::mutex> guard(all_mutex);
  all_contexts.insert(context);
  return context;
}

void destroy(CUcontext context) {
  fake::finish(context);
  {
    std::lock_guard<std::mutex> guard(all_mutex);
    all_contexts.erase(context);
  }
  for (fake::Stream *stream : context->streams) stream->lane->end();
  // The object itself stays: a stray use must find an error, not a crash of the test's own making.
  context->error = CUDA_ERROR_CONTEXT_IS_DESTROYED;
}

const struct {
  int code;
  const char *name;
  const char *text;
} errors[] = {
    {0, "CUDA_SUCCESS", "no error"},
    {1, "CUDA_ERROR_INVALID_VALUE", "invalid argument"},
    {2, "CUDA_ERROR_OUT_OF_MEMORY", "out of memory"},
    {3, "CUDA_ERROR_NOT_INITIALIZED", "initialization error"},
    {4, "CUDA_ERROR_DEINITIALIZED", "driver shutting down"},
    {100, "CUDA_ERROR_NO_DEVICE", "no CUDA-capable device is detected"},
    {101, "CUDA_ERROR_INVALID_DEVICE", "invalid device ordinal"},
    {200, "CUDA_ERROR_INVALID_IMAGE", "device kernel image is invalid"},
    {201, "CUDA_ERROR_INVALID_CONTEXT", "invalid device context"},
    {500, "CUDA_ERROR_NOT_FOUND", "named symbol not found"},
    {600, "CUDA_ERROR_NOT_READY", "device not ready"},
    {700, "CUDA_ERROR_ILLEGAL_ADDRESS", "an illegal memory access was encountered"},
};

}  // namespace

// ---- for the tests themselves ----
extern "C" __attribute__((visibility("default"))) long fake_cuda_live_events() { return fake::live_events; }
extern "C" __attribute__((visibility("default"))) long fake_cuda_captured_events() { return fake::captured_events; }
// For tests/fakes/cuda/runtime.cpp: tools are told of the runtime's calls through the driver.
extern "C" __attribute__((visibility("default"))) void fake_cuda_runtime_call(const char *function, bool over) {
  const fake::Observer *o = fake::observer;
  if (o != nullptr && o->runtime != nullptr) o->runtime(function, over);
}

// What the variable names is loaded by the first call of cuInit, whatever comes of it.
static void inject() {
  static std::atomic<bool> done{false};
  const char *path = getenv("CUDA_INJECTION64_PATH");
  if (done.exchange(true) || path == nullptr || *path == '\0') return;
  void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  auto *begin = library == nullptr ? nullptr : reinterpret_cast<int (*)()>(dlsym(library, "InitializeInjection"));
  if (begin != nullptr) begin();
}

// FAKE_INJECTION=late: a driver that comes to it only when CUPTI starts.
static bool injects_late() { return getenv("FAKE_INJECTION") != nullptr; }
// For tests/fakes/cuda/cupti.cpp.
extern "C" __attribute__((visibility("default"))) void fake_cuda_observe(const fake::Observer *observer) {
  fake::observer = observer;
  if (injects_late()) inject();
}

// ---- the driver itself, devices ----
static bool shut_down = false;
API cuInit(unsigned flags) {
  if (flags != 0) return CUDA_ERROR_INVALID_VALUE;
  if (device_count() == 0) return CUDA_ERROR_NO_DEVICE;
  if (!injects_late()) inject();
  fake::device_ns();
  if (!initialized) std::atexit([] { shut_down = true; });
  initialized = true;
  return CUDA_SUCCESS;
}
API cuDriverGetVersion(int *version) {
  *version = 13000;
  return CUDA_SUCCESS;
}
API cuGetErrorName(CUresult code, const char **text) {
  for (const auto &e : errors) {
    if (e.code == code) return *text = e.name, CUDA_SUCCESS;
  }
  return *text = nullptr, CUDA_ERROR_INVALID_VALUE;
}
API cuGetErrorString(CUresult code, const char **text) {
  for (const auto &e : errors) {
    if (e.code == code) return *text = e.text, CUDA_SUCCESS;
  }
  return *text = nullptr, CUDA_ERROR_INVALID_VALUE;
}
API cuDeviceGetCount(int *count) {
  if (!initialized) return CUDA_ERROR_NOT_INITIALIZED;
  *count = device_count();
  return CUDA_SUCCESS;
}
API cuDeviceGet(CUdevice *device, int ordinal) {
  if (!initialized) return CUDA_ERROR_NOT_INITIALIZED;
  if (ordinal < 0 || ordinal >= device_count()) return CUDA_ERROR_INVALID_DEVICE;
  *device = ordinal;
  return CUDA_SUCCESS;
}
API cuDeviceGetName(char *name, int length, CUdevice device) {
  snprintf(name, static_cast<size_t>(length), "Fake GPU %d", device);
  return CUDA_SUCCESS;
}
API cuDeviceTotalMem_v2(size_t *bytes, CUdevice) {
  *bytes = memory.size();
  return CUDA_SUCCESS;
}
API cuDeviceGetAttribute(int *value, CUdevice_attribute attribute, CUdevice) {
  switch (static_cast<int>(attribute)) {
    case CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK: *value = 1024; break;
    case CU_DEVICE_ATTRIBUTE_WARP_SIZE: *value = 32; break;
    case CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT: *value = 2; break;
    case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR: *value = 9; break;
    case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR: *value = 0; break;
    case CU_DEVICE_ATTRIBUTE_UNIFIED_ADDRESSING: *value = 1; break;
    case CU_DEVICE_ATTRIBUTE_MANAGED_MEMORY: *value = 1; break;
    default: *value = 64; break;
  }
  return CUDA_SUCCESS;
}
API cuDeviceComputeCapability(int *major, int *minor, CUdevice) {
  *major = 9;
  *minor = 0;
  return CUDA_SUCCESS;
}
API cuDeviceGetUuid_v2(CUuuid *uuid, CUdevice device) {
  std::memset(uuid, device + 1, sizeof *uuid);
  return CUDA_SUCCESS;
}
API cuDeviceGetPCIBusId(char *text, int length, CUdevice device) {
  snprintf(text, static_cast<size_t>(length), "0000:%02x:00.0", device + 1);
  return CUDA_SUCCESS;
}
API cuMemGetInfo_v2(size_t *free, size_t *total) {
  *total = memory.size();
  *free = *total - memory.used();
  return CUDA_SUCCESS;
}

// ---- contexts ----
API cuCtxCreate_v2(CUcontext *context, unsigned, CUdevice device) {
  if (!initialized) return CUDA_ERROR_NOT_INITIALIZED;
  *context = make_context(device);
  current_stack.push_back(*context);
  return CUDA_SUCCESS;
}
API cuCtxCreate_v4(CUcontext *context, CUctxCreateParams *, unsigned flags, CUdevice device) {
  return cuCtxCreate_v2(context, flags, device);
}
API cuCtxDestroy_v2(CUcontext context) {
  if (context == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
  destroy(context);
  if (current() == context) current_stack.pop_back();
  return CUDA_SUCCESS;
}
API cuCtxDetach(CUcontext context) { return cuCtxDestroy_v2(context); }
API cuCtxPushCurrent_v2(CUcontext context) {
  current_stack.push_back(context);
  return CUDA_SUCCESS;
}
API cuCtxPopCurrent_v2(CUcontext *context) {
  if (current_stack.empty()) return CUDA_ERROR_INVALID_CONTEXT;
  if (context != nullptr) *context = current_stack.back();
  current_stack.pop_back();
  return CUDA_SUCCESS;
}
API cuCtxSetCurrent(CUcontext context) {
  if (!current_stack.empty()) current_stack.pop_back();
  if (context != nullptr) current_stack.push_back(context);
  return CUDA_SUCCESS;
}
API cuCtxGetCurrent(CUcontext *context) {
  if (!initialized) return CUDA_ERROR_NOT_INITIALIZED;
  *context = current();
  return CUDA_SUCCESS;
}
API cuCtxGetDevice(CUdevice *device) {
  NEED_CONTEXT;
  *device = context->device;
  return CUDA_SUCCESS;
}
API cuCtxGetFlags(unsigned *flags) {
  *flags = 0;
  return CUDA_SUCCESS;
}
API cuCtxGetApiVersion(CUcontext context, unsigned *version) {
  std::lock_guard<std::mutex> guard(all_mutex);
  if (all_contexts.count(context) == 0) return CUDA_ERROR_INVALID_CONTEXT;
  *version = 3020;
  return CUDA_SUCCESS;
}
API cuCtxSynchronize(void) {
  NEED_CONTEXT;
  finish(context);
  return static_cast<CUresult>(context->error.load());
}
API cuDeviceCanAccessPeer(int *can, CUdevice, CUdevice) {
  *can = 1;
  return CUDA_SUCCESS;
}
API cuCtxEnablePeerAccess(CUcontext, unsigned) { return CUDA_SUCCESS; }
API cuCtxDisablePeerAccess(CUcontext) { return CUDA_SUCCESS; }
// For tests/fakes/cuda/runtime.cpp: the primary context before anybody holds it, in which nothing can be made yet.
extern "C" __attribute__((visibility("default"))) CUcontext fake_cuda_primary(CUdevice device) {
  if (primaries[device] == nullptr) {
    primaries[device] = make_context(device);
    primaries[device]->primary = true;
    primaries[device]->holders = 0;
  }
  return primaries[device];
}
API cuDevicePrimaryCtxRetain(CUcontext *context, CUdevice device) {
  if (!initialized) return CUDA_ERROR_NOT_INITIALIZED;
  ++fake_cuda_primary(device)->holders;
  *context = primaries[device];
  return CUDA_SUCCESS;
}
API cuDevicePrimaryCtxRelease_v2(CUdevice device) {
  CUcontext context = primaries[device];
  if (context == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
  if (--context->holders == 0) {
    destroy(context);
    primaries[device] = nullptr;
  }
  return CUDA_SUCCESS;
}
API cuDevicePrimaryCtxReset_v2(CUdevice device) {
  if (primaries[device] != nullptr) destroy(primaries[device]);
  primaries[device] = nullptr;
  return CUDA_SUCCESS;
}
API cuDevicePrimaryCtxGetState(CUdevice device, unsigned *flags, int *active) {
  *flags = 0;
  *active = primaries[device] != nullptr;
  return CUDA_SUCCESS;
}
API cuDevicePrimaryCtxSetFlags_v2(CUdevice, unsigned) { return CUDA_SUCCESS; }

// ---- modules ----
API cuModuleLoadData(CUmodule *module, const void *image) {
  NEED_CONTEXT;
  auto made = std::make_unique<CUmod_st>();
  const CUresult code = load(*made, image);
  if (code == CUDA_SUCCESS) *module = made.release();
  return code;
}
API cuModuleLoadDataEx(CUmodule *module, const void *image, unsigned, CUjit_option *, void **) {
  return cuModuleLoadData(module, image);
}
API cuModuleLoad(CUmodule *module, const char *path) {
  FILE *file = fopen(path, "r");
  if (file == nullptr) return CUDA_ERROR_FILE_NOT_FOUND;
  std::string text;
  for (int c; (c = fgetc(file)) != EOF;) text += static_cast<char>(c);
  fclose(file);
  return cuModuleLoadData(module, text.c_str());
}
// The module stays: OCCA 1.0.8 unloads that of a kernel with several launches once for each of them.
API cuModuleUnload(CUmodule) { return CUDA_SUCCESS; }
API cuModuleGetFunction(CUfunction *function, CUmodule module, const char *name) {
  const auto found = module->functions.find(name);
  if (found == module->functions.end()) return CUDA_ERROR_NOT_FOUND;
  *function = found->second.get();
  return CUDA_SUCCESS;
}
API cuLibraryLoadData(CUlibrary *library, const void *code, CUjit_option *, void **, unsigned, CUlibraryOption *, void **, unsigned) {
  auto made = std::make_unique<CUlib_st>();
  const CUresult status = load(made->module, code);
  if (status == CUDA_SUCCESS) *library = made.release();
  return status;
}
API cuLibraryUnload(CUlibrary library) {
  if (shut_down) return CUDA_ERROR_DEINITIALIZED;
  delete library;
  return CUDA_SUCCESS;
}
API cuLibraryGetKernel(CUkernel *kernel, CUlibrary library, const char *name) {
  CUfunction function = nullptr;
  const CUresult code = cuModuleGetFunction(&function, &library->module, name);
  if (code == CUDA_SUCCESS) *kernel = reinterpret_cast<CUkernel>(function);
  return code;
}
API cuKernelGetFunction(CUfunction *function, CUkernel kernel) {
  *function = reinterpret_cast<CUfunction>(kernel);
  return CUDA_SUCCESS;
}
API cuFuncGetName(const char **name, CUfunction function) {
  *name = function->name.c_str();
  return CUDA_SUCCESS;
}
API cuFuncSetBlockShape(CUfunction, int, int, int) { return CUDA_SUCCESS; }
API cuFuncSetSharedSize(CUfunction, unsigned) { return CUDA_SUCCESS; }
API cuFuncGetAttribute(int *value, CUfunction_attribute, CUfunction) {
  *value = 0;
  return CUDA_SUCCESS;
}

// ---- memory ----
API cuMemAlloc_v2(CUdeviceptr *at, size_t bytes) {
  NEED_CONTEXT;
  return allocate(at, bytes, CU_MEMORYTYPE_DEVICE, false);
}
API cuMemAllocManaged(CUdeviceptr *at, size_t bytes, unsigned) {
  NEED_CONTEXT;
  return allocate(at, bytes, CU_MEMORYTYPE_DEVICE, true);
}
API cuMemFree_v2(CUdeviceptr at) {
  NEED_CONTEXT;
  fake::finish(context);
  return code(memory.release(at_address(at), CU_MEMORYTYPE_DEVICE));
}
static CUresult alloc_async(CUdeviceptr *at, size_t bytes, CUstream, bool) {
  NEED_CONTEXT;
  return allocate(at, bytes, CU_MEMORYTYPE_DEVICE, false);
}
static CUresult free_async(CUdeviceptr at, CUstream stream, bool per_thread) {
  NEED_CONTEXT;
  return code(fake::enqueue(resolve(context, stream, per_thread), [at] { memory.release(at_address(at), CU_MEMORYTYPE_DEVICE); }, false));
}
struct CUmemPoolHandle_st {};
API cuMemPoolCreate(CUmemoryPool *pool, const CUmemPoolProps *) {
  *pool = new CUmemPoolHandle_st;
  return CUDA_SUCCESS;
}
API cuMemPoolDestroy(CUmemoryPool pool) {
  delete pool;
  return CUDA_SUCCESS;
}
// An array lies row by row in memory of the device.
API cuArrayCreate_v2(CUarray *array, const CUDA_ARRAY_DESCRIPTOR *d) {
  NEED_CONTEXT;
  CUdeviceptr at = 0;
  const CUresult made = allocate(&at, d->Width * std::max<size_t>(d->Height, 1) * d->NumChannels * 4, CU_MEMORYTYPE_DEVICE, false);
  *array = static_cast<CUarray>(at_address(at));
  return made;
}
API cuArrayDestroy(CUarray array) { return code(memory.release(array, CU_MEMORYTYPE_DEVICE)); }
API cuMemAdvise(CUdeviceptr, size_t, CUmem_advise, CUdevice) { return CUDA_SUCCESS; }
API cuMemHostAlloc(void **at, size_t bytes, unsigned) {
  NEED_CONTEXT;
  return allocate(reinterpret_cast<CUdeviceptr *>(at), bytes, CU_MEMORYTYPE_HOST, false);
}
API cuMemAllocHost_v2(void **at, size_t bytes) { return cuMemHostAlloc(at, bytes, 0); }
API cuMemFreeHost(void *at) { return code(memory.release(at, CU_MEMORYTYPE_HOST)); }
API cuMemHostGetDevicePointer_v2(CUdeviceptr *device, void *host, unsigned) {
  *device = reinterpret_cast<CUdeviceptr>(host);
  return CUDA_SUCCESS;
}
API cuMemHostRegister_v2(void *at, size_t bytes, unsigned flags) {
  memory.enroll(at, bytes, flags);
  return CUDA_SUCCESS;
}
API cuMemHostUnregister(void *at) {
  memory.strike(at);
  return CUDA_SUCCESS;
}
API cuPointerGetAttribute(void *value, CUpointer_attribute attribute, CUdeviceptr address) {
  fake::Block block;
  if (!memory.find(at_address(address), &block)) return CUDA_ERROR_INVALID_VALUE;
  if (attribute == CU_POINTER_ATTRIBUTE_MEMORY_TYPE) *static_cast<unsigned *>(value) = block.type;
  if (attribute == CU_POINTER_ATTRIBUTE_IS_MANAGED) *static_cast<unsigned *>(value) = block.managed;
  return CUDA_SUCCESS;
}

// ---- streams and events ----
API cuStreamCreate(CUstream *stream, unsigned flags) {
  NEED_CONTEXT;
  if (context->primary && context->holders == 0) return CUDA_ERROR_CONTEXT_IS_DESTROYED;
  *stream = fake::make_stream<CUstream_st>(context, flags);
  return CUDA_SUCCESS;
}
API cuStreamCreateWithPriority(CUstream *stream, unsigned flags, int) { return cuStreamCreate(stream, flags); }
API cuStreamDestroy_v2(CUstream stream) {
  fake::remove_stream(stream);
  delete stream;
  return CUDA_SUCCESS;
}
API cuEventCreate(CUevent *event, unsigned flags) {
  NEED_CONTEXT;
  *event = new CUevent_st(context, flags);
  return CUDA_SUCCESS;
}
API cuEventDestroy_v2(CUevent event) {
  delete event;
  return CUDA_SUCCESS;
}
static CUresult event_record(CUevent event, CUstream on, bool per_thread) {
  NEED_CONTEXT;
  return code(fake::record(event, resolve(static_cast<CUcontext>(event->context), on, per_thread)));
}
API cuEventQuery(CUevent event) { return code(fake::query(event)); }
API cuEventSynchronize(CUevent event) { return code(fake::synchronize(event)); }
API cuEventElapsedTime_v2(float *ms, CUevent from, CUevent to) { return code(fake::elapsed(ms, from, to)); }
API cuEventElapsedTime(float *ms, CUevent from, CUevent to) { return cuEventElapsedTime_v2(ms, from, to); }
static CUresult stream_synchronize(CUstream on, bool per_thread) {
  NEED_CONTEXT;
  return code(fake::synchronize(resolve(context, on, per_thread)));
}
static CUresult stream_query(CUstream on, bool per_thread) {
  NEED_CONTEXT;
  return code(fake::query(resolve(context, on, per_thread)));
}
static CUresult stream_wait_event(CUstream on, CUevent event, unsigned, bool per_thread) {
  NEED_CONTEXT;
  return code(fake::wait_event(resolve(context, on, per_thread), event));
}

// ---- capture and graphs ----
static CUresult is_capturing(CUstream on, CUstreamCaptureStatus *status, bool per_thread) {
  NEED_CONTEXT;
  CUstream stream = resolve(context, on, per_thread);
  *status = stream->capture != nullptr ? CU_STREAM_CAPTURE_STATUS_ACTIVE : CU_STREAM_CAPTURE_STATUS_NONE;
  return CUDA_SUCCESS;
}
static CUresult begin_capture(CUstream on, CUstreamCaptureMode, bool per_thread) {
  NEED_CONTEXT;
  return code(fake::begin_capture<CUgraph_st>(resolve(context, on, per_thread)));
}
static CUresult end_capture(CUstream on, CUgraph *graph, bool per_thread) {
  NEED_CONTEXT;
  return code(fake::end_capture(resolve(context, on, per_thread), graph));
}
API cuGraphGetNodes(CUgraph graph, CUgraphNode *, size_t *count) {
  *count = graph->nodes.size();
  return CUDA_SUCCESS;
}
API cuGraphInstantiateWithFlags(CUgraphExec *exec, CUgraph graph, unsigned long long) {
  *exec = new CUgraphExec_st{{graph->nodes}};
  return CUDA_SUCCESS;
}
static CUresult graph_launch(CUgraphExec exec, CUstream on, bool per_thread) {
  NEED_CONTEXT;
  return code(fake::launch_graph(*exec, resolve(context, on, per_thread)));
}
API cuGraphExecDestroy(CUgraphExec exec) {
  delete exec;
  return CUDA_SUCCESS;
}
API cuGraphDestroy(CUgraph graph) {
  delete graph;
  return CUDA_SUCCESS;
}

// ---- commands ----
static CUresult launch_kernel(CUfunction f, CUstream on, void **params, bool per_thread) {
  NEED_CONTEXT;
  if (f == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  return code(fake::launch(resolve(context, on, per_thread), *f, params == nullptr ? nullptr : static_cast<uint64_t *>(params[0])));
}
static CUresult copy_command(void *to, const void *from, size_t bytes, CUstream on, bool per_thread, bool wait) {
  NEED_CONTEXT;
  return code(fake::copy(resolve(context, on, per_thread), to, from, bytes, wait));
}
static CUresult copy_rows(const CUDA_MEMCPY2D &c, CUstream on, bool per_thread) {
  NEED_CONTEXT;
  const auto end = [](CUmemorytype type, void *host, CUdeviceptr device) { return static_cast<char *>(type == CU_MEMORYTYPE_HOST ? host : at_address(device)); };
  char *to = end(c.dstMemoryType, c.dstHost, c.dstDevice);
  const char *from = end(c.srcMemoryType, const_cast<void *>(c.srcHost), c.srcDevice);
  return code(fake::enqueue(resolve(context, on, per_thread), [=] {
    for (size_t row = 0; row < c.Height; ++row) std::memmove(to + row * c.dstPitch, from + row * c.srcPitch, c.WidthInBytes);
  }, false));
}
static CUresult copy_batch(CUdeviceptr *to, CUdeviceptr *from, const size_t *sizes, size_t count, CUstream on, bool per_thread) {
  CUresult done = count == 0 ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
  for (size_t i = 0; i < count && done == CUDA_SUCCESS; ++i)
    done = copy_command(at_address(to[i]), at_address(from[i]), sizes[i], on, per_thread, false);
  return done;
}
// Of addresses and extents in bytes, without gaps between rows.
static CUresult copy_blocks(const CUDA_MEMCPY3D_BATCH_OP *all, size_t count, CUstream on, bool per_thread) {
  CUresult done = CUDA_SUCCESS;
  for (size_t i = 0; i < count && done == CUDA_SUCCESS; ++i) {
    const CUextent3D &e = all[i].extent;
    done = copy_command(at_address(all[i].dst.op.ptr.ptr), at_address(all[i].src.op.ptr.ptr), e.width * e.height * e.depth, on, per_thread, false);
  }
  return done;
}
// Of a fault of the host CUPTI tells the instruction.
constexpr uint64_t kFaultingInstruction = 0x55d0c0ffee00;
// Pages move in blocks of 64 KiB, the first of which a fault brings where the device wants them.
static CUresult prefetch(void *at, size_t bytes, CUdevice device, CUstream on, bool per_thread) {
  NEED_CONTEXT;
  CUstream stream = resolve(context, on, per_thread);
  return code(fake::enqueue(stream, [=] {
    const fake::Observer *o = fake::observer;
    const bool to_host = device == CU_DEVICE_CPU;
    const int from = static_cast<CUcontext>(stream->context)->device;
    for (size_t done = 0; o != nullptr && o->managed != nullptr && done < bytes; done += 65536) {
      const uint64_t start = fake::monotonic_ns();
      fake::busy(20000);
      const uint64_t end = fake::monotonic_ns();
      char *block = static_cast<char *>(at) + done;
      if (done == 0) o->managed(to_host ? fake::kFaultsOfHost : fake::kFaultsOfDevice, to_host ? from : device, block, to_host ? kFaultingInstruction : 5, start, end);
      o->managed(to_host ? fake::kPagesToHost : fake::kPagesToDevice, to_host ? from : device, block, std::min<size_t>(65536, bytes - done), start, end);
    }
  }, false, fake::kCopyKind));
}
static CUresult prefetch_batch(CUdeviceptr *all, const size_t *sizes, size_t count, CUstream on, bool per_thread) {
  CUresult done = CUDA_SUCCESS;
  for (size_t i = 0; i < count && done == CUDA_SUCCESS; ++i) done = prefetch(at_address(all[i]), sizes[i], 0, on, per_thread);
  return done;
}
template <class T>
static CUresult fill_command(CUdeviceptr at, T value, size_t count, CUstream on, bool per_thread) {
  NEED_CONTEXT;
  return code(fake::fill(resolve(context, on, per_thread), at_address(at), value, count, false));
}

// Each command twice: with the legacy default stream, and with the per-thread one.
#define BOTH(name, twin, parameters, ...)                                             \
  API name parameters { constexpr bool per_thread = false; return __VA_ARGS__; } \
  API twin parameters { constexpr bool per_thread = true; return __VA_ARGS__; }
#define ASYNC(name, parameters, ...) BOTH(name, name##_ptsz, parameters, __VA_ARGS__)
#define BLOCKING(name, parameters, ...) BOTH(name, name##_ptds, parameters, __VA_ARGS__)

ASYNC(cuLaunchKernel, (CUfunction f, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, CUstream s, void **p, void **),
      launch_kernel(f, s, p, per_thread))
ASYNC(cuLaunchCooperativeKernel, (CUfunction f, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, CUstream s, void **p),
      launch_kernel(f, s, p, per_thread))
ASYNC(cuLaunchKernelEx, (const CUlaunchConfig *c, CUfunction f, void **p, void **), launch_kernel(f, c->hStream, p, per_thread))
ASYNC(cuMemcpyHtoDAsync_v2, (CUdeviceptr to, const void *from, size_t n, CUstream s), copy_command(at_address(to), from, n, s, per_thread, false))
ASYNC(cuMemcpyDtoHAsync_v2, (void *to, CUdeviceptr from, size_t n, CUstream s), copy_command(to, at_address(from), n, s, per_thread, false))
ASYNC(cuMemcpyDtoDAsync_v2, (CUdeviceptr to, CUdeviceptr from, size_t n, CUstream s), copy_command(at_address(to), at_address(from), n, s, per_thread, false))
ASYNC(cuMemcpyAsync, (CUdeviceptr to, CUdeviceptr from, size_t n, CUstream s), copy_command(at_address(to), at_address(from), n, s, per_thread, false))
BLOCKING(cuMemcpyHtoD_v2, (CUdeviceptr to, const void *from, size_t n), copy_command(at_address(to), from, n, nullptr, per_thread, true))
BLOCKING(cuMemcpyDtoH_v2, (void *to, CUdeviceptr from, size_t n), copy_command(to, at_address(from), n, nullptr, per_thread, true))
BLOCKING(cuMemcpyDtoD_v2, (CUdeviceptr to, CUdeviceptr from, size_t n), copy_command(at_address(to), at_address(from), n, nullptr, per_thread, false))
BLOCKING(cuMemcpy, (CUdeviceptr to, CUdeviceptr from, size_t n), copy_command(at_address(to), at_address(from), n, nullptr, per_thread, true))
BLOCKING(cuMemsetD8_v2, (CUdeviceptr to, unsigned char v, size_t n), fill_command(to, v, n, nullptr, per_thread))
BLOCKING(cuMemsetD32_v2, (CUdeviceptr to, unsigned v, size_t n), fill_command(to, v, n, nullptr, per_thread))
ASYNC(cuMemsetD8Async, (CUdeviceptr to, unsigned char v, size_t n, CUstream s), fill_command(to, v, n, s, per_thread))
ASYNC(cuMemsetD32Async, (CUdeviceptr to, unsigned v, size_t n, CUstream s), fill_command(to, v, n, s, per_thread))
ASYNC(cuMemPrefetchAsync, (CUdeviceptr at, size_t n, CUdevice d, CUstream s), prefetch(at_address(at), n, d, s, per_thread))
ASYNC(cuMemPrefetchAsync_v2, (CUdeviceptr at, size_t n, CUmemLocation to, unsigned, CUstream s),
      prefetch(at_address(at), n, to.type == CU_MEM_LOCATION_TYPE_DEVICE ? to.id : CU_DEVICE_CPU, s, per_thread))
ASYNC(cuMemcpyBatchAsync_v2, (CUdeviceptr *to, CUdeviceptr *from, size_t *n, size_t count, CUmemcpyAttributes *, size_t *, size_t, CUstream s),
      copy_batch(to, from, n, count, s, per_thread))
ASYNC(cuMemcpy3DBatchAsync_v2, (size_t count, CUDA_MEMCPY3D_BATCH_OP *all, unsigned long long, CUstream s), copy_blocks(all, count, s, per_thread))
ASYNC(cuMemPrefetchBatchAsync, (CUdeviceptr *all, size_t *n, size_t count, CUmemLocation *, size_t *, size_t, unsigned long long, CUstream s),
      prefetch_batch(all, n, count, s, per_thread))
ASYNC(cuMemcpyPeerAsync, (CUdeviceptr to, CUcontext, CUdeviceptr from, CUcontext, size_t n, CUstream s), copy_command(at_address(to), at_address(from), n, s, per_thread, false))
BLOCKING(cuMemcpyPeer, (CUdeviceptr to, CUcontext, CUdeviceptr from, CUcontext, size_t n), copy_command(at_address(to), at_address(from), n, nullptr, per_thread, false))
ASYNC(cuMemAllocFromPoolAsync, (CUdeviceptr *at, size_t n, CUmemoryPool, CUstream s), alloc_async(at, n, s, per_thread))
BLOCKING(cuMemcpyHtoA_v2, (CUarray to, size_t offset, const void *from, size_t n), copy_command(reinterpret_cast<char *>(to) + offset, from, n, nullptr, per_thread, true))
ASYNC(cuMemcpy2DAsync_v2, (const CUDA_MEMCPY2D *c, CUstream s), copy_rows(*c, s, per_thread))
ASYNC(cuMemAllocAsync, (CUdeviceptr *at, size_t n, CUstream s), alloc_async(at, n, s, per_thread))
ASYNC(cuMemFreeAsync, (CUdeviceptr at, CUstream s), free_async(at, s, per_thread))
ASYNC(cuEventRecord, (CUevent e, CUstream s), event_record(e, s, per_thread))
ASYNC(cuStreamSynchronize, (CUstream s), stream_synchronize(s, per_thread))
ASYNC(cuStreamQuery, (CUstream s), stream_query(s, per_thread))
ASYNC(cuStreamWaitEvent, (CUstream s, CUevent e, unsigned f), stream_wait_event(s, e, f, per_thread))
ASYNC(cuStreamIsCapturing, (CUstream s, CUstreamCaptureStatus *c), is_capturing(s, c, per_thread))
ASYNC(cuStreamBeginCapture_v2, (CUstream s, CUstreamCaptureMode m), begin_capture(s, m, per_thread))
ASYNC(cuStreamEndCapture, (CUstream s, CUgraph *g), end_capture(s, g, per_thread))
ASYNC(cuGraphLaunch, (CUgraphExec g, CUstream s), graph_launch(g, s, per_thread))

API cuLaunch(CUfunction f) { return launch_kernel(f, nullptr, nullptr, false); }
API cuLaunchGrid(CUfunction f, int, int) { return launch_kernel(f, nullptr, nullptr, false); }
API cuLaunchGridAsync(CUfunction f, int, int, CUstream s) { return launch_kernel(f, s, nullptr, false); }

API cuProfilerStart(void) { return CUDA_SUCCESS; }
API cuProfilerStop(void) { return CUDA_SUCCESS; }

// ---- by name ----
// Of a driver newer than whoever looks at it.
extern "C" __attribute__((visibility("default"))) int cuOfTheFuture(int value) {
  uint64_t kept = 0;
  int result = 2 * value;
  fake::DriverCall told{900, "cuOfTheFuture", false, nullptr, &result, &kept, 0};
  const fake::Observer *o = fake::observer;
  for (const bool over : {false, true}) {
    told.over = over;
    if (o != nullptr && o->call != nullptr) o->call(told);
  }
  return result;
}
API cuGetProcAddress_v2(const char *symbol, void **address, int version, cuuint64_t flags, CUdriverProcAddressQueryResult *status) {
  static void *self = [] {
    Dl_info info;
    dladdr(reinterpret_cast<void *>(&cuInit), &info);
    return dlopen(info.dli_fname, RTLD_LAZY | RTLD_NOLOAD);
  }();
  const bool per_thread = (flags & CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM) != 0;
  const std::string name(symbol);
  std::vector<std::string> tried;
  for (const char *suffix : {"_v4", "_v3", "_v2", ""}) {
    if (per_thread) {
      tried.push_back(name + suffix + "_ptsz");
      tried.push_back(name + suffix + "_ptds");
    }
  }
  for (const char *suffix : {"_v4", "_v3", "_v2", ""}) tried.push_back(name + suffix);
  *address = nullptr;
  for (const std::string &one : tried) {
    if ((*address = dlsym(self, one.c_str())) != nullptr) break;
  }
  if (status != nullptr) *status = *address ? CU_GET_PROC_ADDRESS_SUCCESS : CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND;
  return *address != nullptr ? CUDA_SUCCESS : CUDA_ERROR_NOT_FOUND;
}
API cuGetProcAddress(const char *symbol, void **address, int version, cuuint64_t flags) {
  return cuGetProcAddress_v2(symbol, address, version, flags, nullptr);
}
