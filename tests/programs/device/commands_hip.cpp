// The device work of HIP's calls, each with a known answer.
#include "hip_work.h"
//
#include "commands.h"

#define FUNCTION(name) OCCATRACE_HIP_##name

namespace occatrace::hip {

namespace {
void settle_now() {}
}  // namespace

using namespace known_answers;

// Above this address memory is the device's.
static void *const device_memory = reinterpret_cast<void *>(0x100000);
static void *const host_memory = reinterpret_cast<void *>(0x1000);
static hipError_t attributes(hipPointerAttribute_t *given, const void *address) {
  auto &found = *reinterpret_cast<PointerAttributes *>(given);
  found.type = address >= device_memory ? 2 : 0;
  return 0;
}
static const char *name_of_module(const hipFunction_t) { return "tick"; }
static const char *name_of_host(const void *, hipStream_t) { return "tick"; }
static hipError_t no_error() { return 0; }

static dim3 dimensions(uint32_t x, uint32_t y, uint32_t z) {
  dim3 made;
  const uint32_t of[] = {x, y, z};
  std::memcpy(static_cast<void *>(&made), of, sizeof of);
  return made;
}
static hipExtent extent(size_t width, size_t height, size_t depth) {
  hipExtent made;
  const size_t of[] = {width, height, depth};
  std::memcpy(static_cast<void *>(&made), of, sizeof of);
  return made;
}

static void checks() {
  version = kVersion6;
  targets[0].hipPointerGetAttributes = attributes;
  targets[0].hipKernelNameRef = name_of_module;
  targets[0].hipKernelNameRefByPtr = name_of_host;
  targets[0].hipPeekAtLastError = targets[0].hipGetLastError = no_error;
  const auto f = reinterpret_cast<hipFunction_t>(0x7);
  const auto *const host_function = reinterpret_cast<const void *>(0x9);

#define GRID a.f = f, a.gridDimX = 4, a.gridDimY = 3, a.gridDimZ = 2, a.blockDimX = 64, a.blockDimY = 5, a.blockDimZ = 1
  KERNEL(hipModuleLaunchKernel, ({256, 15, 2}), ({64, 5, 1}), GRID)
  KERNEL(hipModuleLaunchCooperativeKernel, ({256, 15, 2}), ({64, 5, 1}), GRID)
#define ITEMS                                                                         \
  a.f = f, a.globalWorkSizeX = 100, a.globalWorkSizeY = 9, a.globalWorkSizeZ = 2,     \
  a.localWorkSizeX = 10, a.localWorkSizeY = 3, a.localWorkSizeZ = 1
  KERNEL(hipExtModuleLaunchKernel, ({100, 9, 2}), ({10, 3, 1}), ITEMS)
  KERNEL(hipExtModuleLaunchKernel_cxx, ({100, 9, 2}), ({10, 3, 1}), ITEMS)
  KERNEL(hipHccModuleLaunchKernel, ({100, 9, 2}), ({10, 3, 1}), ITEMS)
#define BY_HOST a.function_address = host_function, a.numBlocks = dimensions(2, 3, 4), a.dimBlocks = dimensions(5, 6, 7)
  KERNEL(hipLaunchKernel, ({10, 18, 28}), ({5, 6, 7}), BY_HOST)
  KERNEL(hipExtLaunchKernel, ({10, 18, 28}), ({5, 6, 7}), BY_HOST)
  KERNEL(hipLaunchCooperativeKernel, ({10, 18, 28}), ({5, 6, 7}),
         a.f = host_function, a.gridDim = dimensions(2, 3, 4), a.blockDimX = dimensions(5, 6, 7))
  configured = {{2, 3, 4}, {5, 6, 7}, static_cast<hipStream_t>(kQueue)};
  KERNEL(hipLaunchByPtr, ({10, 18, 28}), ({5, 6, 7}), queue = true, a.func = host_function)
  CHECK(hipGraphLaunch, returns, OCCATRACE_OTHER, 0, )

#define COPY(function, how, KIND) CHECK(function, how, KIND, 1001, a.sizeBytes = 1001)
  COPY(hipMemcpyHtoD, waits, OCCATRACE_HTOD)
  COPY(hipMemcpyHtoDAsync, returns, OCCATRACE_HTOD)
  COPY(hipMemcpyDtoH, waits, OCCATRACE_DTOH)
  COPY(hipMemcpyDtoHAsync, returns, OCCATRACE_DTOH)
  COPY(hipMemcpyDtoD, waits, OCCATRACE_DTOD)
  COPY(hipMemcpyDtoDAsync, returns, OCCATRACE_DTOD)
  COPY(hipMemcpyPeer, waits, OCCATRACE_DTOD)
  COPY(hipMemcpyPeerAsync, returns, OCCATRACE_DTOD)
#define ARRAY(function, how, KIND) CHECK(function, how, KIND, 70, a.ByteCount = 70)
  ARRAY(hipMemcpyAtoHAsync, returns, OCCATRACE_DTOH)
  ARRAY(hipMemcpyHtoAAsync, returns, OCCATRACE_HTOD)
  ARRAY(hipMemcpyAtoD, waits, OCCATRACE_DTOD)
  ARRAY(hipMemcpyDtoA, waits, OCCATRACE_DTOD)
  ARRAY(hipMemcpyAtoA, waits, OCCATRACE_DTOD)
  CHECK(hipMemcpyAtoH, waits, OCCATRACE_DTOH, 70, a.count = 70)
  CHECK(hipMemcpyHtoA, waits, OCCATRACE_HTOD, 70, a.count = 70)

  // The direction that is given counts; without one the addresses do.
#define GIVEN(KIND) a.kind = static_cast<hipMemcpyKind>(KIND)
#define FLAT(KIND) a.sizeBytes = 33, a.src = host_memory, a.dst = device_memory, GIVEN(KIND)
  CHECK(hipMemcpy, waits, OCCATRACE_HTOD, 33, FLAT(4))
  CHECK(hipMemcpy, waits, OCCATRACE_HTOH, 33, FLAT(0))
  CHECK(hipMemcpy, waits, OCCATRACE_DTOD, 33, FLAT(3))
  CHECK(hipMemcpyAsync, returns, OCCATRACE_DTOH, 33, FLAT(2))
  CHECK(hipMemcpyWithStream, waits, OCCATRACE_HTOD, 33, FLAT(1))
  CHECK(hipMemcpyToSymbol, waits, OCCATRACE_HTOD, 33, a.sizeBytes = 33, a.src = host_memory, GIVEN(4))
  CHECK(hipMemcpyToSymbolAsync, returns, OCCATRACE_DTOD, 33, a.sizeBytes = 33, a.src = device_memory, GIVEN(4))
  CHECK(hipMemcpyFromSymbol, waits, OCCATRACE_DTOH, 33, a.sizeBytes = 33, a.dst = host_memory, GIVEN(4))
  CHECK(hipMemcpyFromSymbolAsync, returns, OCCATRACE_DTOH, 33, a.sizeBytes = 33, GIVEN(2))
  CHECK(hipMemcpyToArray, waits, OCCATRACE_HTOD, 12, a.count = 12, a.src = host_memory, GIVEN(4))
  CHECK(hipMemcpyFromArray, waits, OCCATRACE_DTOH, 12, a.count = 12, a.dst = host_memory, GIVEN(4))
#define RECTANGLE(KIND) a.width = 9, a.height = 7, GIVEN(KIND)
  CHECK(hipMemcpy2D, waits, OCCATRACE_DTOH, 63, RECTANGLE(4), a.src = device_memory, a.dst = host_memory)
  CHECK(hipMemcpy2DAsync, returns, OCCATRACE_HTOD, 63, RECTANGLE(1))
  CHECK(hipMemcpy2DToArray, waits, OCCATRACE_HTOD, 63, RECTANGLE(4), a.src = host_memory)
  CHECK(hipMemcpy2DToArrayAsync, returns, OCCATRACE_HTOD, 63, RECTANGLE(1))
  CHECK(hipMemcpy2DFromArray, waits, OCCATRACE_DTOH, 63, RECTANGLE(4), a.dst = host_memory)
  CHECK(hipMemcpy2DFromArrayAsync, returns, OCCATRACE_DTOH, 63, RECTANGLE(2))
  CHECK(hipMemcpy2DArrayToArray, waits, OCCATRACE_DTOD, 63, RECTANGLE(3))

  const auto array = reinterpret_cast<hipArray_t>(0x77);
  array_elements.set(array, 16);
  Copy3D box{};
  box.from_array = array, box.to.at = host_memory, box.extent = {5, 4, 3}, box.kind = 4;
#define DESCRIBED(function, how, KIND, BYTES, parameter, copy) \
  CHECK(function, how, KIND, BYTES, a.parameter = reinterpret_cast<decltype(a.parameter)>(&copy))
  DESCRIBED(hipMemcpy3D, waits, OCCATRACE_DTOH, 960, p, box)
  DESCRIBED(hipMemcpy3DAsync, returns, OCCATRACE_DTOH, 960, p, box)
  CopyParam2D rows{};
  rows.from.type = 1, rows.to.type = 11, rows.to.device = device_memory, rows.width = 8, rows.height = 6;
  DESCRIBED(hipMemcpyParam2D, waits, OCCATRACE_HTOD, 48, pCopy, rows)
  DESCRIBED(hipMemcpyParam2DAsync, returns, OCCATRACE_HTOD, 48, pCopy, rows)
  DESCRIBED(hipDrvMemcpy2DUnaligned, waits, OCCATRACE_HTOD, 48, pCopy, rows)
  DriverCopy3D<size_t> of_driver{};
  of_driver.from.type = 2, of_driver.to.type = 1;
  of_driver.width = 4, of_driver.height = 3, of_driver.depth = 2;
  DESCRIBED(hipDrvMemcpy3D, waits, OCCATRACE_DTOH, 24, pCopy, of_driver)
  DESCRIBED(hipDrvMemcpy3DAsync, returns, OCCATRACE_DTOH, 24, pCopy, of_driver)
  version = kVersion6 - 1;  // HIP 5 numbers memory from 0, and has narrower numbers
  DriverCopy3D<unsigned> older{};
  older.from.type = 0, older.to.type = 1;
  older.width = 4, older.height = 3, older.depth = 2;
  DESCRIBED(hipDrvMemcpy3D, waits, OCCATRACE_HTOD, 24, pCopy, older)
  version = kVersion6;

#define FILL(function, BYTES, argument) CHECK(function, returns, OCCATRACE_FILL, BYTES, a.argument = 11)
  FILL(hipMemset, 11, sizeBytes)
  FILL(hipMemsetAsync, 11, sizeBytes)
  FILL(hipMemsetD8, 11, count)
  FILL(hipMemsetD8Async, 11, count)
  FILL(hipMemsetD16, 22, count)
  FILL(hipMemsetD16Async, 22, count)
  FILL(hipMemsetD32, 44, count)
  FILL(hipMemsetD32Async, 44, count)
  CHECK(hipMemset2D, returns, OCCATRACE_FILL, 63, a.width = 9, a.height = 7)
  CHECK(hipMemset2DAsync, returns, OCCATRACE_FILL, 63, a.width = 9, a.height = 7)
  CHECK(hipMemset3D, returns, OCCATRACE_FILL, 60, a.extent = extent(5, 4, 3))
  CHECK(hipMemset3DAsync, returns, OCCATRACE_FILL, 60, a.extent = extent(5, 4, 3))
  CHECK(hipMemPrefetchAsync, returns, OCCATRACE_MIGRATE, 88, a.count = 88)
}

}  // namespace occatrace::hip

int main() {
  occatrace::hip::checks();
  return known_answers::wrong != 0;
}
