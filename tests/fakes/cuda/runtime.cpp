// A CUDA runtime on the driver, for tests on machines without a GPU: the real one wants tables of the driver's that are not
// documented. It finds the driver as the real one does, by dlopen and cuGetProcAddress, and calls the same functions of it.
// A kernel of the program is registered by its name only; the fake driver knows what "running" it means.
// Linked as the real one is: soname and symbol version libcudart.so.13, -Bsymbolic.
#include <cuda.h>
#include <cuda_runtime_api.h>
#include <dlfcn.h>

#include <map>
#include <mutex>
#include <string>
#include <vector>

#define API extern "C" __attribute__((visibility("default"))) cudaError_t

namespace {

std::mutex &lock = *new std::mutex;
thread_local cudaError_t last_error = cudaSuccess;
thread_local int device = 0;
thread_local CUcontext entered = nullptr;

// A symbol of the driver.
template <class F>
F *symbol(const char *name) {
  static void *const driver = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
  return driver == nullptr ? nullptr : reinterpret_cast<F *>(dlsym(driver, name));
}

// A call of the program: the driver has tools told of it. Those within it are none.
class Told {
 public:
  explicit Told(const char *function) : function_(function) {
    if (depth++ == 0) tell(false);
  }
  ~Told() {
    if (--depth == 0) tell(true);
  }
  Told(const Told &) = delete;
  Told &operator=(const Told &) = delete;

 private:
  void tell(bool over) const {
    static auto *const call = symbol<void(const char *, bool)>("fake_cuda_runtime_call");
    if (call != nullptr) call(function_, over);
  }
  const char *function_;
  static inline thread_local int depth = 0;
};

void *find(const char *name, cuuint64_t flags) {
  static auto *const by_name =
      symbol<CUresult(const char *, void **, int, cuuint64_t, CUdriverProcAddressQueryResult *)>("cuGetProcAddress_v2");
  void *address = nullptr;
  if (by_name == nullptr || by_name(name, &address, 13000, flags, nullptr) != CUDA_SUCCESS) return nullptr;
  return address;
}
#define CU(name)                                                                                     \
  ([] {                                                                                              \
    static const auto f = reinterpret_cast<decltype(&::name)>(find(#name, CU_GET_PROC_ADDRESS_LEGACY_STREAM)); \
    return f;                                                                                        \
  }())
#define CU_PER_THREAD(name)                                                                          \
  ([] {                                                                                              \
    static const auto f =                                                                            \
        reinterpret_cast<decltype(&::name)>(find(#name, CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM)); \
    return f;                                                                                        \
  }())

cudaError_t told(int code) {
  if (code != 0) last_error = static_cast<cudaError_t>(code);
  return static_cast<cudaError_t>(code);
}

struct Kernel {
  std::string name;
  CUfunction function = nullptr;
};
// A program with a static runtime registers its kernels before anything here is made.
std::map<const void *, Kernel> &kernels() {
  static auto &all = *new std::map<const void *, Kernel>;
  return all;
}

// The primary context of the thread's device, made when it is first needed.
int enter() {
  static const int ready = [] { return CU(cuInit) == nullptr ? static_cast<int>(cudaErrorInsufficientDriver) : static_cast<int>(CU(cuInit)(0)); }();
  if (ready != 0) return ready;
  if (entered != nullptr) return 0;
  const std::lock_guard<std::mutex> guard(lock);
  static CUcontext primaries[8];
  if (primaries[device] == nullptr) {
    // As the real one: current before it is set up.
    if (auto *const primary = symbol<CUcontext(CUdevice)>("fake_cuda_primary")) CU(cuCtxSetCurrent)(primary(device));
    if (const int code = CU(cuDevicePrimaryCtxRetain)(&primaries[device], device)) return code;
  }
  entered = primaries[device];
  return CU(cuCtxSetCurrent)(entered);
}
#define ENTER                  \
  const Told called_{__func__}; \
  if (const int code_ = enter()) return told(code_)

std::vector<CUlibrary> &libraries = *new std::vector<CUlibrary>;
int load() {
  const std::lock_guard<std::mutex> guard(lock);
  std::string image;
  for (auto &[function, kernel] : kernels()) {
    if (kernel.function == nullptr) image += "kernel " + kernel.name + " 1000\n";
  }
  if (image.empty()) return 0;
  CUlibrary library;
  if (const int code = CU(cuLibraryLoadData)(&library, image.c_str(), nullptr, nullptr, 0, nullptr, nullptr, 0)) return code;
  libraries.push_back(library);
  for (auto &[function, kernel] : kernels()) {
    CUkernel found;
    if (kernel.function != nullptr) continue;
    if (const int code = CU(cuLibraryGetKernel)(&found, library, kernel.name.c_str())) return code;
    if (const int code = CU(cuKernelGetFunction)(&kernel.function, found)) return code;
  }
  return 0;
}

cudaError_t launch(const void *key, dim3 g, dim3 b, void **args, size_t shared, cudaStream_t stream, bool per_thread = false) {
  const Told called{"cudaLaunchKernel"};
  ENTER;
  if (const int code = load()) return told(code);
  const auto found = kernels().find(key);
  if (found == kernels().end()) return told(cudaErrorInvalidDeviceFunction);
  const auto real = per_thread ? CU_PER_THREAD(cuLaunchKernel) : CU(cuLaunchKernel);
  return told(real(found->second.function, g.x, g.y, g.z, b.x, b.y, b.z, static_cast<unsigned>(shared), stream, args, nullptr));
}

cudaError_t copy(void *to, const void *from, size_t n, cudaMemcpyKind kind, cudaStream_t s, bool waits, bool per_thread = false) {
  const Told called{waits ? "cudaMemcpy" : "cudaMemcpyAsync"};
  ENTER;
  const auto d = reinterpret_cast<CUdeviceptr>(to), f = reinterpret_cast<CUdeviceptr>(from);
#define EITHER(name) (per_thread ? CU_PER_THREAD(name) : CU(name))
  if (waits) {
    switch (kind) {
      case cudaMemcpyHostToDevice: return told(CU(cuMemcpyHtoD)(d, from, n));
      case cudaMemcpyDeviceToHost: return told(CU(cuMemcpyDtoH)(to, f, n));
      case cudaMemcpyDeviceToDevice: return told(CU(cuMemcpyDtoD)(d, f, n));
      default: return told(CU(cuMemcpy)(d, f, n));
    }
  }
  switch (kind) {
    case cudaMemcpyHostToDevice: return told(EITHER(cuMemcpyHtoDAsync)(d, from, n, s));
    case cudaMemcpyDeviceToHost: return told(EITHER(cuMemcpyDtoHAsync)(to, f, n, s));
    case cudaMemcpyDeviceToDevice: return told(EITHER(cuMemcpyDtoDAsync)(d, f, n, s));
    default: return told(EITHER(cuMemcpyAsync)(d, f, n, s));
  }
}

struct Configuration {
  dim3 grid, block;
  size_t shared;
  void *stream;
};
thread_local std::vector<Configuration> configurations;

}  // namespace

// ---- what compiled programs call ----
extern "C" __attribute__((visibility("default"))) void **__cudaRegisterFatBinary(void *) {
  static void *handle;
  return &handle;
}
extern "C" __attribute__((visibility("default"))) void __cudaRegisterFatBinaryEnd(void **) {}
extern "C" __attribute__((visibility("default"))) void __cudaUnregisterFatBinary(void **) {
  for (CUlibrary library : libraries) CU(cuLibraryUnload)(library);
}
extern "C" __attribute__((visibility("default"))) char __cudaInitModule(void **) { return 0; }
extern "C" __attribute__((visibility("default"))) void __cudaRegisterFunction(void **, const char *host, char *, const char *name, int,
                                                                             void *, void *, void *, void *, int *) {
  kernels()[host].name = name;
}
extern "C" __attribute__((visibility("default"))) unsigned __cudaPushCallConfiguration(dim3 grid, dim3 block, size_t shared, void *stream) {
  configurations.push_back({grid, block, shared, stream});
  return 0;
}
API __cudaPopCallConfiguration(dim3 *grid, dim3 *block, size_t *shared, void *stream) {
  const Configuration c = configurations.back();
  configurations.pop_back();
  *grid = c.grid;
  *block = c.block;
  *shared = c.shared;
  *static_cast<void **>(stream) = c.stream;
  return cudaSuccess;
}
API __cudaGetKernel(cudaKernel_t *kernel, const void *function) {
  *kernel = reinterpret_cast<cudaKernel_t>(const_cast<void *>(function));
  return cudaSuccess;
}
API __cudaLaunchKernel(cudaKernel_t k, dim3 g, dim3 b, void **args, size_t shared, cudaStream_t s) { return launch(k, g, b, args, shared, s); }
API __cudaLaunchKernel_ptsz(cudaKernel_t k, dim3 g, dim3 b, void **args, size_t shared, cudaStream_t s) {
  return launch(k, g, b, args, shared, s, true);
}
API cudaLaunchKernel(const void *f, dim3 g, dim3 b, void **args, size_t shared, cudaStream_t s) { return launch(f, g, b, args, shared, s); }
API cudaLaunchKernelExC(const cudaLaunchConfig_t *c, const void *f, void **args) {
  return launch(f, c->gridDim, c->blockDim, args, c->dynamicSmemBytes, c->stream);
}
API cudaFuncGetName(const char **name, const void *f) {
  const auto found = kernels().find(f);
  if (found == kernels().end()) return told(cudaErrorInvalidDeviceFunction);
  *name = found->second.name.c_str();
  return cudaSuccess;
}

// ---- devices, errors ----
API cudaRuntimeGetVersion(int *version) { return *version = 13000, cudaSuccess; }
API cudaGetDeviceCount(int *count) {
  ENTER;
  return told(CU(cuDeviceGetCount)(count));
}
API cudaGetDevice(int *number) { return *number = device, cudaSuccess; }
API cudaSetDevice(int number) {
  device = number;
  entered = nullptr;
  ENTER;
  return cudaSuccess;
}
API cudaDeviceSynchronize() {
  ENTER;
  return told(CU(cuCtxSynchronize)());
}
API cudaGetLastError() {
  const cudaError_t was = last_error;
  last_error = cudaSuccess;
  return was;
}
API cudaPeekAtLastError() { return last_error; }
extern "C" __attribute__((visibility("default"))) const char *cudaGetErrorName(cudaError_t code) {
  const char *text = nullptr;
  CU(cuGetErrorName)(static_cast<CUresult>(code), &text);
  return text;
}

// ---- memory ----
API cudaMalloc(void **at, size_t n) {
  ENTER;
  return told(CU(cuMemAlloc)(reinterpret_cast<CUdeviceptr *>(at), n));
}
API cudaFree(void *at) {
  ENTER;
  return told(CU(cuMemFree)(reinterpret_cast<CUdeviceptr>(at)));
}
API cudaMallocManaged(void **at, size_t n, unsigned flags) {
  ENTER;
  return told(CU(cuMemAllocManaged)(reinterpret_cast<CUdeviceptr *>(at), n, flags));
}
API cudaMallocHost(void **at, size_t n) {
  ENTER;
  return told(CU(cuMemHostAlloc)(at, n, 0));
}
API cudaHostAlloc(void **at, size_t n, unsigned flags) {
  ENTER;
  return told(CU(cuMemHostAlloc)(at, n, flags));
}
API cudaFreeHost(void *at) {
  ENTER;
  return told(CU(cuMemFreeHost)(at));
}
API cudaMallocAsync(void **at, size_t n, cudaStream_t s) {
  ENTER;
  return told(CU(cuMemAllocAsync)(reinterpret_cast<CUdeviceptr *>(at), n, s));
}
API cudaFreeAsync(void *at, cudaStream_t s) {
  ENTER;
  return told(CU(cuMemFreeAsync)(reinterpret_cast<CUdeviceptr>(at), s));
}
API cudaMemcpy(void *to, const void *from, size_t n, cudaMemcpyKind kind) { return copy(to, from, n, kind, nullptr, true); }
API cudaMemcpyAsync(void *to, const void *from, size_t n, cudaMemcpyKind kind, cudaStream_t s) { return copy(to, from, n, kind, s, false); }
API cudaMemcpyAsync_ptsz(void *to, const void *from, size_t n, cudaMemcpyKind kind, cudaStream_t s) {
  return copy(to, from, n, kind, s, false, true);
}
API cudaMemset(void *at, int value, size_t n) {
  ENTER;
  return told(CU(cuMemsetD8)(reinterpret_cast<CUdeviceptr>(at), static_cast<unsigned char>(value), n));
}
API cudaMemsetAsync(void *at, int value, size_t n, cudaStream_t s) {
  ENTER;
  return told(CU(cuMemsetD8Async)(reinterpret_cast<CUdeviceptr>(at), static_cast<unsigned char>(value), n, s));
}

// ---- streams, capture ----
API cudaStreamCreate(cudaStream_t *s) {
  ENTER;
  return told(CU(cuStreamCreate)(s, 0));
}
API cudaStreamDestroy(cudaStream_t s) { return told(CU(cuStreamDestroy)(s)); }
API cudaStreamSynchronize(cudaStream_t s) {
  ENTER;
  return told(CU(cuStreamSynchronize)(s));
}
API cudaStreamSynchronize_ptsz(cudaStream_t s) {
  ENTER;
  return told(CU_PER_THREAD(cuStreamSynchronize)(s));
}
API cudaStreamQuery(cudaStream_t s) {
  ENTER;
  return told(CU(cuStreamQuery)(s));
}
API cudaStreamBeginCapture(cudaStream_t s, cudaStreamCaptureMode mode) {
  ENTER;
  return told(CU(cuStreamBeginCapture)(s, static_cast<CUstreamCaptureMode>(mode)));
}
API cudaStreamEndCapture(cudaStream_t s, cudaGraph_t *graph) { return told(CU(cuStreamEndCapture)(s, graph)); }
API cudaGraphInstantiate(cudaGraphExec_t *exec, cudaGraph_t graph, unsigned long long flags) {
  return told(CU(cuGraphInstantiateWithFlags)(exec, graph, flags));
}
API cudaGraphLaunch(cudaGraphExec_t exec, cudaStream_t s) { return told(CU(cuGraphLaunch)(exec, s)); }
