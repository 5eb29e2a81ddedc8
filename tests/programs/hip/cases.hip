// Programs on the HIP runtime API that know their own truth; `cases NAME` runs one of them. Compiled for the host alone: what
// the kernels do is the stand-in's business (tests/fakes/hip), by their names.
#include <dlfcn.h>
#include <hip/hip_ext.h>
#include <hip/hip_runtime.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <string>
#include <thread>
#include <vector>

// Of later versions than the headers.
extern "C" hipError_t hipModuleLaunchCooperativeKernel(hipFunction_t f, unsigned x, unsigned y, unsigned z, unsigned block_x, unsigned block_y,
                                                       unsigned block_z, unsigned shared, hipStream_t stream, void **parameters);
struct FunctionLaunch {
  hipFunction_t function;
  unsigned grid[3], block[3], shared;
  hipStream_t stream;
  void **parameters;
};
extern "C" hipError_t hipModuleLaunchCooperativeKernelMultiDevice(FunctionLaunch *all, unsigned count, unsigned flags);
extern "C" hipError_t hipGetProcAddress(const char *symbol, void **address, int version, uint64_t flags, int *status);

__global__ void tick(uint64_t) {}
__global__ void empty(uint64_t) {}
__global__ void spin_long(uint64_t) {}
__global__ void fault_address(uint64_t) {}

#define OK(call)                                          \
  do {                                                    \
    const hipError_t code_ = (call);                      \
    if (code_ != hipSuccess) {                            \
      printf("%s: %d\n", #call, static_cast<int>(code_)); \
      exit(3);                                            \
    }                                                     \
  } while (0)

static long counted(const char *what) {
  const auto count = reinterpret_cast<long (*)()>(dlsym(RTLD_DEFAULT, what));
  return count == nullptr ? -1 : count();
}

static hipStream_t stream(unsigned flags = hipStreamNonBlocking) {
  hipStream_t made;
  OK(hipStreamCreateWithFlags(&made, flags));
  return made;
}

static void series(int count) {
  const hipStream_t s = stream();
  for (int i = 0; i < count; ++i) tick<<<dim3(4, 2), dim3(64, 2), 0, s>>>(0);
  OK(hipStreamSynchronize(s));
}

static void overlap() {
  const hipStream_t a = stream(), b = stream();
  // 60 ms; 30 ms that begin meanwhile; and 20 ms after both.
  spin_long<<<1, 64, 0, a>>>(60000000);
  spin_long<<<1, 64, 0, b>>>(30000000);
  OK(hipStreamSynchronize(a));
  OK(hipStreamSynchronize(b));
  spin_long<<<1, 64, 0, b>>>(20000000);
  OK(hipDeviceSynchronize());
}

// All ways to launch the same.
static void launches() {
  const hipStream_t s = stream();
  hipModule_t module;
  OK(hipModuleLoadData(&module, "kernel of_module 2000\n"));
  hipFunction_t f;
  OK(hipModuleGetFunction(&f, module, "of_module"));
  uint64_t zero = 0;
  void *args[] = {&zero};
  empty<<<2, 64, 0, s>>>(0);
  OK(hipLaunchKernel(reinterpret_cast<const void *>(&empty), dim3(3), dim3(64), args, 0, s));
  OK(hipExtLaunchKernel(reinterpret_cast<const void *>(&empty), dim3(4), dim3(64), args, 0, s, nullptr, nullptr, 0));
  OK(hipLaunchCooperativeKernel(reinterpret_cast<const void *>(&empty), dim3(5), dim3(64), args, 0, s));
  OK(hipModuleLaunchKernel(f, 6, 1, 1, 64, 1, 1, 0, s, args, nullptr));
  size_t size = sizeof zero;
  void *extra[] = {HIP_LAUNCH_PARAM_BUFFER_POINTER, &zero, HIP_LAUNCH_PARAM_BUFFER_SIZE, &size, HIP_LAUNCH_PARAM_END};
  OK(hipModuleLaunchKernel(f, 7, 1, 1, 64, 1, 1, 0, s, nullptr, extra));
  OK(hipExtModuleLaunchKernel(f, 8 * 64, 1, 1, 64, 1, 1, 0, s, args, nullptr, nullptr, nullptr, 0));
  OK(hipModuleLaunchCooperativeKernel(f, 9, 1, 1, 64, 1, 1, 0, s, args));
  OK(hipStreamSynchronize(s));
}

// Where each kernel is launched by one function alone.
static void all_launches() {
  const hipStream_t s = stream();
  hipModule_t module;
  OK(hipModuleLoadData(&module, "kernel spin_module 1000\n"));
  hipFunction_t f;
  OK(hipModuleGetFunction(&f, module, "spin_module"));
  uint64_t ns = 3000000;
  void *args[] = {&ns};
  // The form of C++, that of C which came later, the older name.
  OK(hipExtModuleLaunchKernel(f, 2 * 64, 1, 1, 64, 1, 1, 0, s, args, nullptr, nullptr, nullptr, 0));
  using Launch = hipError_t (*)(hipFunction_t, uint32_t, uint32_t, uint32_t, uint32_t, uint32_t, uint32_t, size_t, hipStream_t, void **, void **,
                                hipEvent_t, hipEvent_t, uint32_t);
  OK(reinterpret_cast<Launch>(dlsym(RTLD_DEFAULT, "hipExtModuleLaunchKernel"))(f, 3 * 64, 1, 1, 64, 1, 1, 0, s, args, nullptr, nullptr, nullptr, 0));
  OK(hipHccModuleLaunchKernel(f, 4 * 64, 1, 1, 64, 1, 1, 0, s, args, nullptr, nullptr, nullptr));
  OK(hipConfigureCall(dim3(5), dim3(64), 0, s));
  OK(hipSetupArgument(&ns, sizeof ns, 0));
  OK(hipLaunchByPtr(reinterpret_cast<const void *>(&spin_long)));
  int called = 0;
  OK(hipLaunchHostFunc(s, [](void *at) { ++*static_cast<int *>(at); }, &called));
  OK(hipStreamSynchronize(s));
  // On two devices by one call.
  OK(hipSetDevice(1));
  const hipStream_t other = stream();
  OK(hipSetDevice(0));
  void *const spin = reinterpret_cast<void *>(&spin_long);
  hipLaunchParams both[] = {{spin, dim3(6), dim3(64), args, 0, s}, {spin, dim3(7), dim3(64), args, 0, other}};
  OK(hipLaunchCooperativeKernelMultiDevice(both, 2, 0));
  both[0].gridDim = dim3(8);
  both[1].gridDim = dim3(9);
  OK(hipExtLaunchMultiKernelMultiDevice(both, 2, 0));
  FunctionLaunch of_module[] = {{f, {10, 1, 1}, {64, 1, 1}, 0, s, args}, {f, {11, 1, 1}, {64, 1, 1}, 0, other, args}};
  OK(hipModuleLaunchCooperativeKernelMultiDevice(of_module, 2, 0));
  both[0].gridDim = dim3(0);
  const int failed = hipLaunchCooperativeKernelMultiDevice(both, 2, 0);
  OK(hipStreamSynchronize(s));
  OK(hipStreamSynchronize(other));
  int now = -1;
  OK(hipGetDevice(&now));
  printf("%d %d %d\n", called, failed, now);
}

// Copies of rows and of volumes, whose rows lie apart; arrays of elements of four bytes.
static void volumes() {
  const hipStream_t s = stream();
  std::vector<char> pageable(1 << 16);
  char *pitched;
  size_t pitch;
  OK(hipMallocPitch(reinterpret_cast<void **>(&pitched), &pitch, 100, 30));
  hipPitchedPtr volume;
  OK(hipMalloc3D(&volume, make_hipExtent(100, 5, 4)));
  OK(hipMemcpy2DAsync(pitched, pitch, pageable.data(), 200, 100, 30, hipMemcpyHostToDevice, s));
  hipMemcpy3DParms p = {};
  p.srcPtr = make_hipPitchedPtr(pageable.data(), 128, 100, 5);
  p.dstPtr = volume;
  p.extent = make_hipExtent(100, 5, 4);
  p.kind = hipMemcpyHostToDevice;
  OK(hipMemcpy3D(&p));
  std::swap(p.srcPtr, p.dstPtr);
  p.extent.depth = 3;
  p.kind = hipMemcpyDefault;
  OK(hipMemcpy3DAsync(&p, s));
  hipArray_t array, cube;
  const hipChannelFormatDesc format = {32, 0, 0, 0, hipChannelFormatKindFloat};
  OK(hipMalloc3DArray(&cube, &format, make_hipExtent(10, 6, 3), 0));
  OK(hipMallocArray(&array, &format, 30, 40, hipArrayDefault));
  hipMemcpy3DParms to_array = {};
  to_array.srcPtr = make_hipPitchedPtr(pageable.data(), 40, 40, 6);
  to_array.dstArray = cube;
  to_array.extent = make_hipExtent(10, 6, 2);
  to_array.kind = hipMemcpyDefault;
  OK(hipMemcpy3D(&to_array));
  OK(hipMemcpy2DFromArray(pageable.data(), 120, array, 0, 0, 120, 7, hipMemcpyDeviceToHost));
  OK(hipMemcpyHtoA(array, 0, pageable.data(), 44));
  OK(hipMemcpyAtoH(pageable.data(), array, 8, 32));
  hip_Memcpy2D rows = {};
  rows.srcMemoryType = hipMemoryTypeDevice;
  rows.srcDevice = pitched;
  rows.srcPitch = pitch;
  rows.dstMemoryType = hipMemoryTypeHost;
  rows.dstHost = pageable.data();
  rows.dstPitch = 90;
  rows.WidthInBytes = 90;
  rows.Height = 11;
  OK(hipMemcpyParam2D(&rows));
  HIP_MEMCPY3D driver = {};
  driver.srcMemoryType = hipMemoryTypeHost;
  driver.srcHost = pageable.data();
  driver.srcPitch = driver.dstPitch = 64;
  driver.srcHeight = driver.dstHeight = 3;
  driver.dstMemoryType = hipMemoryTypeDevice;
  driver.dstDevice = pitched;
  driver.WidthInBytes = 50;
  driver.Height = 3;
  driver.Depth = 2;
  OK(hipDrvMemcpy3DAsync(&driver, s));
  OK(hipMemset2DAsync(pitched, pitch, 0, 70, 13, s));
  OK(hipMemcpyPeer(pitched, 0, volume.ptr, 1, 77));
  OK(hipStreamSynchronize(s));
  OK(hipFreeArray(array));
  OK(hipFree(pitched));
  OK(hipFree(volume.ptr));  // the cube is left
}

// What is in use, when: each kind of memory, with its flags.
static void kinds() {
  const hipStream_t s = stream();
  void *at[8];
  hipMemPool_t pool;
  OK(hipDeviceGetDefaultMemPool(&pool, 0));
  OK(hipMalloc(&at[0], 1000));
  OK(hipMallocAsync(&at[1], 2000, s));
  OK(hipMallocFromPoolAsync(&at[2], 4000, pool, s));
  OK(hipExtMallocWithFlags(&at[3], 8000, hipDeviceMallocFinegrained));
  OK(hipFreeAsync(at[1], s));
  OK(hipMalloc(&at[1], 500));
  OK(hipFree(at[0]));
  OK(hipFreeAsync(at[2], s));
  OK(hipHostMalloc(&at[4], 100, hipHostMallocDefault));
  OK(hipHostMalloc(&at[5], 300, hipHostMallocMapped | hipHostMallocPortable));
  OK(hipHostAlloc(&at[6], 700, hipHostMallocWriteCombined));
  OK(hipMallocManaged(&at[7], 900, hipMemAttachHost));
  std::vector<char> own(5000);
  OK(hipHostRegister(own.data(), 5000, hipHostRegisterMapped));
  OK(hipMemcpyAsync(at[3], static_cast<char *>(at[5]) + 100, 50, hipMemcpyHostToDevice, s));
  OK(hipMemcpyAsync(at[4], at[3], 60, hipMemcpyDeviceToHost, s));
  OK(hipStreamSynchronize(s));
  const int failed = hipMalloc(&at[0], size_t{1} << 40);
  OK(hipHostUnregister(own.data()));
  OK(hipHostFree(at[4]));
  OK(hipHostFree(at[6]));
  OK(hipFree(at[7]));
  printf("%d\n", failed);  // at[1], at[3], at[5] are left
}

static void copies() {
  const hipStream_t s = stream();
  const size_t n = 1 << 20;
  char *x, *y, *managed;
  void *pinned;
  OK(hipMalloc(reinterpret_cast<void **>(&x), n));
  OK(hipMallocAsync(reinterpret_cast<void **>(&y), n, s));
  OK(hipMallocManaged(reinterpret_cast<void **>(&managed), 1000, hipMemAttachGlobal));
  OK(hipHostMalloc(&pinned, n, hipHostMallocMapped));
  std::vector<char> pageable(n), registered(5000);
  OK(hipHostRegister(registered.data(), 5000, hipHostRegisterDefault));
  OK(hipMemcpy(x, pageable.data(), 1000, hipMemcpyHostToDevice));
  OK(hipMemcpyAsync(x, pinned, 2000, hipMemcpyHostToDevice, s));
  OK(hipMemcpyHtoD(x, pageable.data(), 11));
  OK(hipMemcpy(pageable.data(), x, 300, hipMemcpyDeviceToHost));
  OK(hipMemcpyDtoHAsync(pinned, x, 400, s));
  OK(hipMemcpyDtoDAsync(y, x, 5000, s));
  OK(hipMemcpyPeerAsync(y, 0, x, 0, 70, s));
  // Of addresses alone.
  OK(hipMemcpyAsync(y, pinned, 60, hipMemcpyDefault, s));
  OK(hipMemcpyAsync(pageable.data(), y, 7, hipMemcpyDefault, s));
  OK(hipMemcpy2D(y, 100, pageable.data(), 200, 50, 4, hipMemcpyHostToDevice));
  OK(hipMemcpyAsync(managed, registered.data() + 100, 21, hipMemcpyDefault, s));
  hipArray_t array;
  const hipChannelFormatDesc format = {32, 0, 0, 0, hipChannelFormatKindFloat};
  OK(hipMallocArray(&array, &format, 30, 40, hipArrayDefault));
  OK(hipMemcpy2DToArray(array, 0, 0, pageable.data(), 120, 120, 3, hipMemcpyHostToDevice));
  OK(hipFreeArray(array));
  OK(hipMemsetAsync(x, 1, 800, s));
  OK(hipMemsetD32Async(x, 1, 900, s));
  OK(hipMemPrefetchAsync(managed, 1000, 0, s));
  OK(hipStreamSynchronize(s));
  OK(hipFree(x));  // y is leaked
  OK(hipHostUnregister(registered.data()));
  OK(hipHostFree(pinned));
  OK(hipFree(managed));
}

static void failures() {
  void *x;
  const int memory = hipMalloc(&x, size_t{1} << 40);
  hipModule_t module;
  OK(hipModuleLoadData(&module, "kernel one\n"));
  hipFunction_t f;
  const int name = hipModuleGetFunction(&f, module, "not_there");
  empty<<<1, 4096>>>(0);
  const int configuration = hipGetLastError();
  const hipStream_t s = stream();
  spin_long<<<1, 64, 0, s>>>(30000000);
  const int query = hipStreamQuery(s);
  OK(hipStreamSynchronize(s));
  fault_address<<<1, 64, 0, s>>>(0);
  const int sync = hipStreamSynchronize(s);
  printf("%d %d %d %d %d\n", memory, name, configuration, query, sync);
}

static void graphs() {
  const hipStream_t s = stream(), other = stream();
  tick<<<1, 64, 0, s>>>(0);
  OK(hipStreamBeginCapture(s, hipStreamCaptureModeGlobal));
  for (int i = 0; i < 3; ++i) tick<<<1, 64, 0, s>>>(0);
  // It goes on for a while, and another stream works meanwhile.
  for (int i = 0; i < 300; ++i) tick<<<1, 64, 0, other>>>(0);
  usleep(350000);
  hipGraph_t graph;
  OK(hipStreamEndCapture(s, &graph));
  size_t nodes = 0;
  OK(hipGraphGetNodes(graph, nullptr, &nodes));
  hipGraphExec_t exec;
  OK(hipGraphInstantiate(&exec, graph, nullptr, nullptr, 0));
  for (int i = 0; i < 5; ++i) OK(hipGraphLaunch(exec, s));
  OK(hipStreamSynchronize(s));
  printf("%zu %ld\n", nodes, counted("fake_hip_captured_events"));
}

// The last error is the program's own, however often ours ask for what is not ready.
static void many(int count) {
  const hipStream_t s = stream();
  long after[2];
  int errors = 0;
  for (int half = 0; half < 2; ++half) {
    for (int i = 0; i < count; ++i) {
      empty<<<1, 64, 0, s>>>(0);
      errors += hipGetLastError() != hipSuccess;
      if (i % 100 == 99) OK(hipStreamSynchronize(s));
    }
    after[half] = counted("fake_hip_live_events");
  }
  // Work that is long under way when its queue is looked at.
  spin_long<<<1, 64, 0, s>>>(50000000);
  for (int i = 0; i < 600; ++i) {
    empty<<<1, 64, 0, s>>>(0);
    errors += hipPeekAtLastError() != hipSuccess;
  }
  OK(hipStreamSynchronize(s));
  printf("%ld %ld %d\n", after[0], after[1], errors);
}

static void threads() {
  std::vector<std::thread> all;
  for (int t = 0; t < 4; ++t) {
    all.emplace_back([] {
      for (int i = 0; i < 50; ++i) empty<<<1, 64, 0, hipStreamPerThread>>>(0);
      OK(hipStreamSynchronize(hipStreamPerThread));
    });
  }
  for (std::thread &t : all) t.join();
}

// A stream belongs to its device, whichever is the thread's at the moment.
static void devices() {
  std::vector<hipStream_t> streams;
  for (int ordinal = 0; ordinal < 2; ++ordinal) {
    OK(hipSetDevice(ordinal));
    streams.push_back(stream());
  }
  OK(hipSetDevice(0));
  // Memory in the order of a stream is its device's.
  void *here, *there, *other;
  OK(hipMallocAsync(&here, 1000, streams[0]));
  OK(hipMallocAsync(&there, 3000, streams[1]));
  OK(hipSetDevice(1));
  OK(hipMalloc(&other, 5000));
  OK(hipSetDevice(0));
  tick<<<1, 64, 0, streams[0]>>>(0);
  tick<<<1, 64, 0, streams[1]>>>(0);
  OK(hipSetDevice(1));
  tick<<<1, 64>>>(0);
  int now = -1;
  OK(hipStreamSynchronize(streams[0]));
  OK(hipStreamSynchronize(streams[1]));
  OK(hipDeviceSynchronize());
  OK(hipGetDevice(&now));
  printf("%d\n", now);
}

// A device's flags, and contexts, each with its own, in which work is given in turn.
static void contexts() {
  OK(hipSetDeviceFlags(hipDeviceScheduleYield | hipDeviceMapHost));
  hipCtx_t made[2];
  OK(hipCtxCreate(&made[0], hipDeviceScheduleSpin, 0));
  OK(hipCtxCreate(&made[1], hipDeviceScheduleBlockingSync, 1));
  for (int i = 0; i < 6; ++i) {
    OK(hipCtxSetCurrent(made[i % 2]));
    tick<<<1 + i, 64>>>(0);
  }
  for (const hipCtx_t each : made) {
    OK(hipCtxSetCurrent(each));
    OK(hipCtxSynchronize());
  }
  OK(hipCtxDestroy(made[1]));
}

// A range by HIP's own functions: three launches of twelve.
static void range() {
  for (int i = 0; i < 4; ++i) empty<<<1, 64>>>(0);
  OK(hipProfilerStart());
  for (int i = 0; i < 3; ++i) tick<<<1, 64>>>(0);
  OK(hipDeviceSynchronize());
  OK(hipProfilerStop());
  for (int i = 0; i < 5; ++i) empty<<<1, 64>>>(0);
  OK(hipDeviceSynchronize());
}

// Functions by name: one of the model, one that came later, one that is not there.
static void names() {
  hipError_t (*allocate)(void **, size_t);
  hipError_t (*newer)(int *);
  void *none = nullptr, *at = nullptr;
  int answer = 0;
  OK(hipGetProcAddress("hipMalloc", reinterpret_cast<void **>(&allocate), 60300000, 0, nullptr));
  OK(hipGetProcAddress("hipOfTheFuture", reinterpret_cast<void **>(&newer), 60300000, 0, nullptr));
  const int missing = hipGetProcAddress("hipNowhere", &none, 60300000, 0, nullptr);
  OK(allocate(&at, 4096));
  OK(newer(&answer));
  printf("%d %d %d\n", at != nullptr, answer, missing);
}

static void crash() {
  const hipStream_t s = stream();
  for (int i = 0; i < 5; ++i) tick<<<1, 64, 0, s>>>(0);
  OK(hipStreamSynchronize(s));
  for (int i = 0; i < 1000; ++i) tick<<<1, 64, 0, s>>>(0);
  abort();
}

int main(int argc, char **argv) {
  const std::string name = argc > 1 ? argv[1] : "";
  const int count = argc > 2 ? atoi(argv[2]) : 0;
  if (name == "series") series(count);
  else if (name == "overlap") overlap();
  else if (name == "launches") launches();
  else if (name == "all_launches") all_launches();
  else if (name == "volumes") volumes();
  else if (name == "kinds") kinds();
  else if (name == "copies") copies();
  else if (name == "failures") failures();
  else if (name == "graphs") graphs();
  else if (name == "many") many(count);
  else if (name == "threads") threads();
  else if (name == "devices") devices();
  else if (name == "contexts") contexts();
  else if (name == "range") range();
  else if (name == "names") names();
  else if (name == "crash") crash();
  else return 2;
  puts("done");
  return 0;
}
