// Programs on the CUDA driver API that know their own truth; `cases NAME` runs one of them. They are compiled twice: linked
// with libcuda, and with -DBY_NAME asking the driver for every function, as the CUDA runtime does; the driver is then the one
// of CASES_DRIVER, a path, where that is set.
#include <cuda.h>
#include <dlfcn.h>
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <atomic>
#include <string>
#include <thread>
#include <vector>

static const char *driver_path() {
  const char *path = getenv("CASES_DRIVER");
  return path != nullptr ? path : "libcuda.so.1";
}

#ifdef BY_NAME
static void *driver_function(const char *name) {
  static const auto find = [] {
    void *library = dlopen(driver_path(), RTLD_LAZY | RTLD_LOCAL | RTLD_DEEPBIND);
    if (library == nullptr) {
      puts("no driver");
      exit(4);
    }
    return reinterpret_cast<CUresult (*)(const char *, void **, int, cuuint64_t, CUdriverProcAddressQueryResult *)>(
        dlsym(library, "cuGetProcAddress_v2"));
  }();
  void *address = nullptr;
  if (find(name, &address, 13000, 0, nullptr) != CUDA_SUCCESS) {
    printf("no %s\n", name);
    exit(5);
  }
  return address;
}
#define CU(name) reinterpret_cast<decltype(&::name)>(driver_function(#name))
#else
#define CU(name) ::name
#endif

#define OK(call)                                             \
  do {                                                       \
    const CUresult code_ = (call);                           \
    if (code_ != CUDA_SUCCESS) {                             \
      printf("%s: %d\n", #call, static_cast<int>(code_));    \
      exit(3);                                               \
    }                                                        \
  } while (0)

static long live_events() {
  const auto count = reinterpret_cast<long (*)()>(dlsym(RTLD_DEFAULT, "fake_cuda_live_events"));
  return count == nullptr ? -1 : count();
}

static const char image[] = "kernel tick 1000000\nkernel empty 0\nkernel spin_long\nkernel fault_address\n";
static CUfunction tick, empty, spin, fault;

static CUcontext begin(int ordinal = 0) {
  OK(CU(cuInit)(0));
  CUdevice device;
  OK(CU(cuDeviceGet)(&device, ordinal));
  CUcontext context;
  OK(CU(cuDevicePrimaryCtxRetain)(&context, device));
  OK(CU(cuCtxSetCurrent)(context));
  CUmodule module;
  OK(CU(cuModuleLoadData)(&module, image));
  OK(CU(cuModuleGetFunction)(&tick, module, "tick"));
  OK(CU(cuModuleGetFunction)(&empty, module, "empty"));
  OK(CU(cuModuleGetFunction)(&spin, module, "spin_long"));
  OK(CU(cuModuleGetFunction)(&fault, module, "fault_address"));
  return context;
}
static CUstream stream(unsigned flags = CU_STREAM_NON_BLOCKING) {
  CUstream made;
  OK(CU(cuStreamCreate)(&made, flags));
  return made;
}
static void launch(CUfunction f, CUstream on, uint64_t ns = 0) {
  void *params[] = {&ns};
  OK(CU(cuLaunchKernel)(f, 4, 2, 1, 64, 2, 1, 0, on, params, nullptr));
}

static void series(int count) {
  begin();
  const CUstream s = stream();
  for (int i = 0; i < count; ++i) launch(tick, s);
  OK(CU(cuStreamSynchronize)(s));
}

static void overlap() {
  begin();
  const CUstream a = stream(), b = stream();
  // 60 ms; 30 ms beside them, with a word if they end first, which the driver knows; and 20 ms after both.
  launch(spin, a, 60000000);
  launch(spin, b, 30000000);
  OK(CU(cuStreamSynchronize)(b));
  if (CU(cuStreamQuery)(a) == CUDA_ERROR_NOT_READY) puts("beside");
  OK(CU(cuStreamSynchronize)(a));
  launch(spin, b, 20000000);
  OK(CU(cuCtxSynchronize)());
}

// A stream is waited for before anything was given to it, while another works.
static void idle() {
  begin();
  const CUstream a = stream(), b = stream();
  launch(spin, a, 30000000);
  OK(CU(cuStreamSynchronize)(b));
  launch(tick, b);
  OK(CU(cuStreamSynchronize)(b));
  OK(CU(cuStreamSynchronize)(a));
}

static void copies() {
  begin();
  const CUstream s = stream();
  const size_t n = 1 << 20;
  CUdeviceptr x, y;
  OK(CU(cuMemAlloc)(&x, n));
  OK(CU(cuMemAlloc)(&y, n));
  std::vector<char> pageable(n);
  void *pinned;
  OK(CU(cuMemHostAlloc)(&pinned, n, 0));
  OK(CU(cuMemcpyHtoD)(x, pageable.data(), 1000));
  OK(CU(cuMemcpyHtoDAsync)(x, pinned, 2000, s));
  OK(CU(cuMemcpyDtoH)(pageable.data(), x, 300));
  OK(CU(cuMemcpyDtoHAsync)(pinned, x, 400, s));
  OK(CU(cuMemcpyDtoDAsync)(y, x, 5000, s));
  OK(CU(cuMemcpyAsync)(y, reinterpret_cast<CUdeviceptr>(pinned), 60, s));
  OK(CU(cuMemcpyAsync)(reinterpret_cast<CUdeviceptr>(pageable.data()), y, 70, s));
  OK(CU(cuMemsetD8Async)(x, 1, 800, s));
  OK(CU(cuMemsetD32Async)(x, 1, 900, s));
  OK(CU(cuStreamSynchronize)(s));
  OK(CU(cuMemFree)(x));  // y is leaked
  OK(CU(cuMemFreeHost)(pinned));
}

// Each copy has a size of its own, by which it is known.
static void kinds() {
  begin();
  const CUstream s = stream();
  const size_t n = 1 << 16;
  CUdeviceptr x, managed, pooled;
  OK(CU(cuMemAlloc)(&x, n));
  OK(CU(cuMemAllocManaged)(&managed, n, CU_MEM_ATTACH_GLOBAL));
  std::vector<char> pageable(n), registered(n);
  char *pinned, *mapped;
  OK(CU(cuMemAllocHost)(reinterpret_cast<void **>(&pinned), n));
  OK(CU(cuMemHostAlloc)(reinterpret_cast<void **>(&mapped), n, CU_MEMHOSTALLOC_DEVICEMAP));
  OK(CU(cuMemHostRegister)(registered.data(), n, 0));
  OK(CU(cuMemcpyHtoDAsync)(x, pageable.data() + 7, 101, s));
  OK(CU(cuMemcpyHtoDAsync)(x, pinned + n / 2, 102, s));
  OK(CU(cuMemcpyDtoHAsync)(mapped + 5, x + 9, 103, s));
  OK(CU(cuMemcpyDtoHAsync)(registered.data() + n - 104, x, 104, s));
  OK(CU(cuMemcpyDtoDAsync)(managed, x, 105, s));
  OK(CU(cuMemcpyAsync)(x, reinterpret_cast<CUdeviceptr>(pinned), 106, s));
  OK(CU(cuMemcpyAsync)(reinterpret_cast<CUdeviceptr>(pageable.data()), x, 107, s));
  OK(CU(cuMemcpyDtoDAsync)(x, managed + 50, 108, s));
  // The same memory after it was made known no longer.
  OK(CU(cuStreamSynchronize)(s));
  OK(CU(cuMemHostUnregister)(registered.data()));
  OK(CU(cuMemcpyHtoDAsync)(x, registered.data(), 109, s));

  CUDA_ARRAY_DESCRIPTOR array = {32, 16, CU_AD_FORMAT_FLOAT, 2};
  CUarray a;
  OK(CU(cuArrayCreate)(&a, &array));
  OK(CU(cuMemcpyHtoA)(a, 0, pinned, 110));
  CUDA_MEMCPY2D rows = {};
  rows.srcMemoryType = CU_MEMORYTYPE_HOST;
  rows.srcHost = mapped;
  rows.srcPitch = rows.dstPitch = 64;
  rows.dstMemoryType = CU_MEMORYTYPE_DEVICE;
  rows.dstDevice = x;
  rows.WidthInBytes = 37;
  rows.Height = 3;
  OK(CU(cuMemcpy2DAsync)(&rows, s));
  OK(CU(cuMemcpyPeerAsync)(x, nullptr, managed, nullptr, 112, s));

  CUmemoryPool pool;
  CUmemPoolProps properties = {};
  OK(CU(cuMemPoolCreate)(&pool, &properties));
  OK(CU(cuMemAllocFromPoolAsync)(&pooled, 4096, pool, s));
  OK(CU(cuMemcpyHtoDAsync)(pooled, pinned, 113, s));
  OK(CU(cuMemFreeAsync)(pooled, s));
  OK(CU(cuMemAllocAsync)(&pooled, 8192, s));
  OK(CU(cuMemFreeAsync)(pooled, s));
  OK(CU(cuStreamSynchronize)(s));
  OK(CU(cuMemPoolDestroy)(pool));
  OK(CU(cuArrayDestroy)(a));
  OK(CU(cuMemFree)(managed));
  OK(CU(cuMemFree)(x));
  OK(CU(cuMemFreeHost)(pinned));
  OK(CU(cuMemFreeHost)(mapped));
}

// Functions by name: of each version of the asking function, for either default stream, and one that is newer than we know.
extern "C" int cuOfTheFuture(int value) __attribute__((weak));
static void names() {
  begin();
  using Ask = CUresult (*)(const char *, void **, int, cuuint64_t);
  using AskNewer = CUresult (*)(const char *, void **, int, cuuint64_t, CUdriverProcAddressQueryResult *);
  void *library = dlopen(driver_path(), RTLD_LAZY);
  const auto ask = reinterpret_cast<Ask>(dlsym(library, "cuGetProcAddress"));
  AskNewer newer = nullptr;
  OK(ask("cuGetProcAddress", reinterpret_cast<void **>(&newer), 13000, 0));
  void *found[4] = {};
  OK(ask("cuLaunchKernel", &found[0], 12000, 0));
  OK(newer("cuLaunchKernel", &found[1], 13000, CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM, nullptr));
  OK(newer("cuOfTheFuture", &found[2], 13000, 0, nullptr));
  CUdriverProcAddressQueryResult status;
  const int missing = newer("cuOfNoDriver", &found[3], 13000, 0, &status);
  uint64_t ns = 1000;
  void *params[] = {&ns};
  for (int i = 0; i < 2; ++i) OK(reinterpret_cast<decltype(&::cuLaunchKernel)>(found[i])(spin, 1, 1, 1, 1, 1, 1, 0, nullptr, params, nullptr));
  OK(CU(cuCtxSynchronize)());
  const int linked = cuOfTheFuture == nullptr ? -1 : cuOfTheFuture(4);
  printf("%d %d %d %d\n", reinterpret_cast<int (*)(int)>(found[2])(3), linked, missing, static_cast<int>(status));
}

static void failures() {
  begin();
  CUdeviceptr x;
  const int memory = CU(cuMemAlloc)(&x, size_t{1} << 40);
  CUfunction f;
  CUmodule module;
  OK(CU(cuModuleLoadData)(&module, image));
  const int name = CU(cuModuleGetFunction)(&f, module, "not_there");
  const CUstream s = stream();
  launch(spin, s, 30000000);
  const int query = CU(cuStreamQuery)(s);
  OK(CU(cuStreamSynchronize)(s));
  launch(fault, s);
  const int sync = CU(cuStreamSynchronize)(s);
  printf("%d %d %d %d\n", memory, name, query, sync);
}

static void graphs() {
  begin();
  const CUstream s = stream(), other = stream();
  launch(tick, s);
  OK(CU(cuStreamBeginCapture)(s, CU_STREAM_CAPTURE_MODE_GLOBAL));
  for (int i = 0; i < 3; ++i) launch(tick, s);
  // It goes on for a while, and another stream works meanwhile.
  for (int i = 0; i < 300; ++i) launch(tick, other);
  usleep(350000);
  CUgraph graph;
  OK(CU(cuStreamEndCapture)(s, &graph));
  size_t nodes = 0;
  OK(CU(cuGraphGetNodes)(graph, nullptr, &nodes));
  CUgraphExec exec;
  OK(CU(cuGraphInstantiateWithFlags)(&exec, graph, 0));
  for (int i = 0; i < 5; ++i) OK(CU(cuGraphLaunch)(exec, s));
  OK(CU(cuStreamSynchronize)(s));
  const auto captured = reinterpret_cast<long (*)()>(dlsym(RTLD_DEFAULT, "fake_cuda_captured_events"));
  printf("%zu %ld\n", nodes, captured == nullptr ? -1 : captured());
}

// So many, and then more: how many events are alive after each, and how many bytes are allocated.
static void many(int count, int more) {
  begin();
  const CUstream s = stream();
  long after[2];
  size_t bytes[2];
  for (int half = 0; half < 2; ++half) {
    for (int i = 0; i < (half == 0 ? count : more); ++i) {
      launch(empty, s);
      if (i % 100 == 99) OK(CU(cuStreamSynchronize)(s));
    }
    after[half] = live_events();
    bytes[half] = mallinfo2().uordblks;
  }
  printf("%ld %ld\n%zu %zu\n", after[0], after[1], bytes[0], bytes[1]);
}

static void threads() {
  const CUcontext context = begin();
  std::vector<std::thread> all;
  for (int t = 0; t < 4; ++t) {
    all.emplace_back([context] {
      OK(CU(cuCtxSetCurrent)(context));
      for (int i = 0; i < 50; ++i) launch(empty, CU_STREAM_PER_THREAD);
      OK(CU(cuStreamSynchronize)(CU_STREAM_PER_THREAD));
    });
  }
  for (std::thread &t : all) t.join();
}

static void devices() {
  for (int ordinal = 0; ordinal < 2; ++ordinal) {
    begin(ordinal);
    for (int i = 0; i <= ordinal; ++i) launch(tick, nullptr);
    // No synchronization: the last holder leaves while work is pending.
    CUdevice device;
    OK(CU(cuDeviceGet)(&device, ordinal));
    OK(CU(cuDevicePrimaryCtxRelease)(device));
  }
}

// Two contexts of one device, each with its own legacy default stream, destroyed while work is pending; then a third.
static void contexts() {
  begin();
  for (const int count : {3, 4, 5}) {
    CUcontext context;
    CUdevice device;
    OK(CU(cuDeviceGet)(&device, 0));
    OK(CU(cuCtxCreate)(&context, nullptr, 0, device));
    CUmodule module;
    CUfunction f;
    OK(CU(cuModuleLoadData)(&module, image));
    OK(CU(cuModuleGetFunction)(&f, module, "tick"));
    for (int i = 0; i < count; ++i) launch(f, nullptr);
    OK(CU(cuCtxDestroy)(context));
  }
}

// 200,000 bytes of managed memory go to the device and come back; waits of each kind.
static void managed() {
  begin();
  const CUstream a = stream(), b = stream();
  CUdeviceptr x;
  CUdevice device;
  OK(CU(cuDeviceGet)(&device, 0));
  OK(CU(cuMemAllocManaged)(&x, 1 << 20, CU_MEM_ATTACH_GLOBAL));
  OK(CU(cuMemPrefetchAsync)(x, 200000, CUmemLocation{CU_MEM_LOCATION_TYPE_DEVICE, device}, 0, a));
  OK(CU(cuStreamSynchronize)(a));
  OK(CU(cuMemPrefetchAsync)(x, 70000, CUmemLocation{CU_MEM_LOCATION_TYPE_HOST, 0}, 0, a));
  OK(CU(cuStreamSynchronize)(a));
  CUevent done;
  OK(CU(cuEventCreate)(&done, 0));
  launch(spin, a, 30000000);
  OK(CU(cuEventRecord)(done, a));
  OK(CU(cuStreamWaitEvent)(b, done, 0));
  launch(tick, b);
  OK(CU(cuEventSynchronize)(done));
  OK(CU(cuStreamSynchronize)(b));
  OK(CU(cuCtxSynchronize)());
}

// Several copies, blocks and prefetches by one call each, in sizes of their own.
static void batches() {
  begin();
  const CUstream s = stream();
  const size_t n = 1 << 20;
  CUdeviceptr x, y, managed;
  OK(CU(cuMemAlloc)(&x, n));
  OK(CU(cuMemAlloc)(&y, n));
  OK(CU(cuMemAllocManaged)(&managed, n, CU_MEM_ATTACH_GLOBAL));
  void *pinned;
  OK(CU(cuMemHostAlloc)(&pinned, n, 0));
  const auto host = reinterpret_cast<CUdeviceptr>(pinned);
  CUdeviceptr to[] = {x, host, y, host + 5000}, from[] = {host, x, x, host};
  size_t sizes[] = {1000, 20000, 300, 4};
  CUmemcpyAttributes how = {};
  how.srcAccessOrder = CU_MEMCPY_SRC_ACCESS_ORDER_STREAM;
  size_t first = 0;
  OK(CU(cuMemcpyBatchAsync)(to, from, sizes, 4, &how, &first, 1, s));
  CUDA_MEMCPY3D_BATCH_OP blocks[2] = {};
  for (CUDA_MEMCPY3D_BATCH_OP &block : blocks) {
    block.src.type = block.dst.type = CU_MEMCPY_OPERAND_TYPE_POINTER;
    block.srcAccessOrder = CU_MEMCPY_SRC_ACCESS_ORDER_STREAM;
    block.src.op.ptr.ptr = host;
    block.dst.op.ptr.ptr = x;
    block.extent = {10, 20, 30};
  }
  blocks[1].src.op.ptr.ptr = x;
  blocks[1].dst.op.ptr.ptr = host;
  blocks[1].extent = {7, 1, 1};
  OK(CU(cuMemcpy3DBatchAsync)(2, blocks, 0, s));
  CUdeviceptr moved[] = {managed, managed + 500000};
  size_t ranges[] = {111, 222};
  CUmemLocation where = {CU_MEM_LOCATION_TYPE_DEVICE, 0};
  OK(CU(cuMemPrefetchBatchAsync)(moved, ranges, 2, &where, &first, 1, 0, s));
  // One that fails moves nothing.
  if (CU(cuMemcpyBatchAsync)(to, from, sizes, 0, &how, &first, 1, s) == CUDA_SUCCESS) exit(6);
  OK(CU(cuFuncSetBlockShape)(tick, 8, 4, 2));
  OK(CU(cuLaunch)(tick));
  OK(CU(cuLaunchGrid)(tick, 3, 5));
  OK(CU(cuLaunchGridAsync)(tick, 6, 7, s));
  OK(CU(cuCtxSynchronize)());
}

// A profiler within the program, as PyTorch's: kernels before it, beside it and after it, with another thread's all the time.
// It says how many records it got of those beside it.
#ifdef LINKED_CUPTI
extern "C" {
int cuptiSubscribe(void **, void (*)(void *, int, uint32_t, const void *), void *);
int cuptiUnsubscribe(void *);
int cuptiActivityRegisterCallbacks(void (*)(uint8_t **, size_t *, size_t *), void (*)(void *, uint32_t, uint8_t *, size_t, size_t));
int cuptiActivityEnable(uint32_t);
int cuptiActivityDisable(uint32_t);
int cuptiActivityFlushAll(uint32_t);
int cuptiActivityGetNextRecord(uint8_t *, size_t, void **);
}
#define CUPTI(name) ::name
#else
template <class... Args>
static int cupti(const char *name, Args... args) {
  static void *const library = dlopen(getenv("OWN_CUPTI"), RTLD_NOW);
  return reinterpret_cast<int (*)(Args...)>(dlsym(library, name))(args...);
}
#define CUPTI(name) [](auto... args) { return cupti(#name, args...); }
#endif
static int own_records;
static std::vector<uint8_t *> own_buffers;
static void own_wanted(uint8_t **buffer, size_t *size, size_t *most) {
  *size = 1 << 16;
  *most = 0;
  own_buffers.push_back(*buffer = static_cast<uint8_t *>(aligned_alloc(8, *size)));
}
static void own_full(void *, uint32_t, uint8_t *buffer, size_t, size_t used) {
  size_t at = 0;
  while (at < own_buffers.size() && own_buffers[at] != buffer) ++at;
  if (at == own_buffers.size()) puts("a buffer of somebody else's");
  void *record = nullptr;
  while (CUPTI(cuptiActivityGetNextRecord)(buffer, used, &record) == 0) ++own_records;
}
static void own_told(void *, int, uint32_t, const void *) {}

static void profiles(int count) {
  const CUcontext context = begin();
  const CUstream s = stream(), t = stream();
  std::atomic<bool> over{false};
  int others = 0;
  std::thread other([&] {
    OK(CU(cuCtxSetCurrent)(context));
    for (; !over; ++others) {
      launch(empty, t);
      usleep(300);
    }
    OK(CU(cuStreamSynchronize)(t));
  });
  for (int i = 0; i < count; ++i) launch(tick, s);
  OK(CU(cuStreamSynchronize)(s));
  void *subscriber = nullptr;
  uint32_t kernel = 10, all = 1;
  int failed = CUPTI(cuptiSubscribe)(&subscriber, own_told, static_cast<void *>(nullptr));
  failed += CUPTI(cuptiActivityRegisterCallbacks)(own_wanted, own_full) + CUPTI(cuptiActivityEnable)(kernel);
  for (int i = 0; i < count; ++i) launch(tick, s);
  OK(CU(cuStreamSynchronize)(s));
  failed += CUPTI(cuptiActivityDisable)(kernel) + CUPTI(cuptiActivityFlushAll)(all) + CUPTI(cuptiUnsubscribe)(subscriber);
  for (int i = 0; i < count; ++i) launch(tick, s);
  OK(CU(cuStreamSynchronize)(s));
  over = true;
  other.join();
  printf("%d %d %d\n", failed, own_records, others);
}

static void crash() {
  begin();
  const CUstream s = stream();
  for (int i = 0; i < 5; ++i) launch(tick, s);
  OK(CU(cuStreamSynchronize)(s));
  for (int i = 0; i < 1000; ++i) launch(tick, s);
  abort();
}

int main(int argc, char **argv) {
  const std::string name = argc > 1 ? argv[1] : "";
  const int count = argc > 2 ? atoi(argv[2]) : 0;
  if (name == "series") series(count);
  else if (name == "overlap") overlap();
  else if (name == "idle") idle();
  else if (name == "copies") copies();
  else if (name == "kinds") kinds();
  else if (name == "names") names();
  else if (name == "failures") failures();
  else if (name == "graphs") graphs();
  else if (name == "many") many(count, argc > 3 ? atoi(argv[3]) : count);
  else if (name == "threads") threads();
  else if (name == "devices") devices();
  else if (name == "contexts") contexts();
  else if (name == "managed") managed();
  else if (name == "batches") batches();
  else if (name == "profiles") profiles(count);
  else if (name == "crash") crash();
  else return 2;
  puts("done");
  return 0;
}
