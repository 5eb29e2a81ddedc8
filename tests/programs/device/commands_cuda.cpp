// The device work of the calls of CUDA's driver, each with a known answer.
#include "cuda_work.h"
//
#include "commands.h"

#define FUNCTION(name) OCCATRACE_CUDA_##name

namespace occatrace::cuda {

using namespace known_answers;

// Above this address memory is the device's.
static constexpr CUdeviceptr kOnDevice = 0x100000;
static CUresult attribute(void *data, CUpointer_attribute, CUdeviceptr address) {
  if (address < kOnDevice) return 1;
  *static_cast<unsigned *>(data) = 2;
  return 0;
}
static CUresult name_of(const char **name, CUfunction) { return *name = "tick", 0; }
static CUresult array_of(CUDA_ARRAY3D_DESCRIPTOR *given, CUarray) {
  auto &array = *reinterpret_cast<Array3DDescriptor *>(given);
  array.format = 0x20;  // float
  array.channels = 2;
  return 0;
}

static void checks() {
  targets[0].cuPointerGetAttribute = attribute;
  targets[0].cuFuncGetName = name_of;
  targets[0].cuArray3DGetDescriptor_v2 = array_of;
  const auto f = reinterpret_cast<CUfunction>(0x7);
  const auto host = reinterpret_cast<void *>(0x1000);

#define GRID a.f = f, a.gridDimX = 4, a.gridDimY = 3, a.gridDimZ = 2, a.blockDimX = 64, a.blockDimY = 5, a.blockDimZ = 1
  KERNEL(cuLaunchKernel, ({256, 15, 2}), ({64, 5, 1}), GRID)
  KERNEL(cuLaunchCooperativeKernel, ({256, 15, 2}), ({64, 5, 1}), GRID)
  LaunchConfig config{{2, 2, 2}, {8, 4, 1}, 0, static_cast<CUstream>(kQueue)};
  KERNEL(cuLaunchKernelEx, ({16, 8, 2}), ({8, 4, 1}), queue = true, a.f = f,
         a.config = reinterpret_cast<const CUlaunchConfig *>(&config))
  block_shapes.set(f, 32 | uint64_t{2} << kShapeBits | uint64_t{1} << (2 * kShapeBits));
  KERNEL(cuLaunch, ({32, 2, 1}), ({32, 2, 1}), a.f = f)
  KERNEL(cuLaunchGrid, ({96, 10, 1}), ({32, 2, 1}), a.f = f, a.grid_width = 3, a.grid_height = 5)
  KERNEL(cuLaunchGridAsync, ({96, 10, 1}), ({32, 2, 1}), a.f = f, a.grid_width = 3, a.grid_height = 5)
  CHECK(cuGraphLaunch, returns, OCCATRACE_OTHER, 0, )

#define COPY(function, how, KIND) CHECK(function, how, KIND, 1001, a.ByteCount = 1001)
  COPY(cuMemcpyHtoD_v2, waits, OCCATRACE_HTOD)
  COPY(cuMemcpyHtoDAsync_v2, returns, OCCATRACE_HTOD)
  COPY(cuMemcpyDtoH_v2, waits, OCCATRACE_DTOH)
  COPY(cuMemcpyDtoHAsync_v2, returns, OCCATRACE_DTOH)
  COPY(cuMemcpyDtoD_v2, returns, OCCATRACE_DTOD)
  COPY(cuMemcpyDtoDAsync_v2, returns, OCCATRACE_DTOD)
  COPY(cuMemcpyHtoA, waits, OCCATRACE_HTOD)
  COPY(cuMemcpyHtoAAsync, returns, OCCATRACE_HTOD)
  COPY(cuMemcpyAtoH, waits, OCCATRACE_DTOH)
  COPY(cuMemcpyAtoHAsync, returns, OCCATRACE_DTOH)
  COPY(cuMemcpyAtoA, returns, OCCATRACE_DTOD)
  COPY(cuMemcpyHtoA_v2, waits, OCCATRACE_HTOD)
  COPY(cuMemcpyHtoAAsync_v2, returns, OCCATRACE_HTOD)
  COPY(cuMemcpyAtoH_v2, waits, OCCATRACE_DTOH)
  COPY(cuMemcpyAtoHAsync_v2, returns, OCCATRACE_DTOH)
  COPY(cuMemcpyDtoA_v2, returns, OCCATRACE_DTOD)
  COPY(cuMemcpyAtoD_v2, returns, OCCATRACE_DTOD)
  COPY(cuMemcpyAtoA_v2, returns, OCCATRACE_DTOD)
  COPY(cuMemcpyPeer, returns, OCCATRACE_DTOD)
  COPY(cuMemcpyPeerAsync, returns, OCCATRACE_DTOD)
  CHECK(cuMemcpy, waits, OCCATRACE_HTOD, 5, a.ByteCount = 5, a.src = 1, a.dst = kOnDevice)
  CHECK(cuMemcpyAsync, returns, OCCATRACE_DTOH, 5, a.ByteCount = 5, a.src = kOnDevice, a.dst = 1)

  Copy2D rows{};
  rows.from = {0, 0, kHost, host, 0, nullptr, 64};
  rows.to = {0, 0, kUnified, nullptr, kOnDevice + 5, nullptr, 64};
  rows.width = 37, rows.height = 3;
#define DESCRIBED(function, how, KIND, BYTES, copy) \
  CHECK(function, how, KIND, BYTES, a.pCopy = reinterpret_cast<decltype(a.pCopy)>(&copy))
  DESCRIBED(cuMemcpy2D_v2, waits, OCCATRACE_HTOD, 111, rows)
  DESCRIBED(cuMemcpy2DUnaligned_v2, waits, OCCATRACE_HTOD, 111, rows)
  DESCRIBED(cuMemcpy2DAsync_v2, returns, OCCATRACE_HTOD, 111, rows)
  Copy3D block{};
  block.from.type = kArray, block.to.type = kHost;
  block.width = 7, block.height = 5, block.depth = 3;
  DESCRIBED(cuMemcpy3D_v2, waits, OCCATRACE_DTOH, 105, block)
  DESCRIBED(cuMemcpy3DAsync_v2, returns, OCCATRACE_DTOH, 105, block)
  Copy3DPeer peer{};
  peer.from.type = peer.to.type = kDevice;
  peer.width = 8, peer.height = 5, peer.depth = 3;
  DESCRIBED(cuMemcpy3DPeer, waits, OCCATRACE_DTOD, 120, peer)
  DESCRIBED(cuMemcpy3DPeerAsync, returns, OCCATRACE_DTOD, 120, peer)

  CUdeviceptr from[] = {1, kOnDevice, kOnDevice, 2}, to[] = {kOnDevice, 3, kOnDevice + 9, 4};
  size_t sizes[] = {1000, 20000, 300, 4};
#define MANY a.count = 4, a.srcs = from, a.dsts = to, a.sizes = sizes
#define FOUR ({{OCCATRACE_HTOD, 1000}, {OCCATRACE_DTOH, 20000}, {OCCATRACE_DTOD, 300}, {OCCATRACE_HTOH, 4}})
  PARTS(cuMemcpyBatchAsync, FOUR, MANY)
  PARTS(cuMemcpyBatchAsync_v2, FOUR, MANY)
  CopyOfBatch boxes[2] = {};
  boxes[0].from.type = boxes[0].to.type = kPointerOfBatch;
  boxes[0].from.pointer.device = 1, boxes[0].to.pointer.device = kOnDevice;
  boxes[0].width = 10, boxes[0].height = 20, boxes[0].depth = 30;
  boxes[1].from.type = 2, boxes[1].to.type = kPointerOfBatch, boxes[1].to.pointer.device = 1;
  boxes[1].width = 7, boxes[1].height = boxes[1].depth = 1;
#define BOXES a.numOps = 2, a.opList = reinterpret_cast<decltype(a.opList)>(boxes)
#define TWO ({{OCCATRACE_HTOD, 6000}, {OCCATRACE_DTOH, 56}})
  PARTS(cuMemcpy3DBatchAsync, TWO, BOXES)
  PARTS(cuMemcpy3DBatchAsync_v2, TWO, BOXES)
#define RANGES ({{OCCATRACE_MIGRATE, 1000}, {OCCATRACE_MIGRATE, 20000}})
  PARTS(cuMemPrefetchBatchAsync, RANGES, a.count = 2, a.sizes = sizes)
  PARTS(cuMemDiscardAndPrefetchBatchAsync, RANGES, a.count = 2, a.sizes = sizes)
  CHECK(cuMemPrefetchAsync, returns, OCCATRACE_MIGRATE, 77, a.count = 77)
  CHECK(cuMemPrefetchAsync_v2, returns, OCCATRACE_MIGRATE, 77, a.count = 77)

#define FILL(function, BYTES) CHECK(function, returns, OCCATRACE_FILL, BYTES, a.N = 11)
  FILL(cuMemsetD8_v2, 11)
  FILL(cuMemsetD16_v2, 22)
  FILL(cuMemsetD32_v2, 44)
  FILL(cuMemsetD8Async, 11)
  FILL(cuMemsetD16Async, 22)
  FILL(cuMemsetD32Async, 44)
#define FILL_2D(function, BYTES) CHECK(function, returns, OCCATRACE_FILL, BYTES, a.Width = 13, a.Height = 5)
  FILL_2D(cuMemsetD2D8_v2, 65)
  FILL_2D(cuMemsetD2D16_v2, 130)
  FILL_2D(cuMemsetD2D32_v2, 260)
  FILL_2D(cuMemsetD2D8Async, 65)
  FILL_2D(cuMemsetD2D16Async, 130)
  FILL_2D(cuMemsetD2D32Async, 260)
}

}  // namespace occatrace::cuda

int main() {
  occatrace::cuda::checks();
  return known_answers::wrong != 0;
}
