// ns of CPU time per CUDA driver call of the launching thread, the smallest of many rounds: a getter, and a launch with its
// share of a synchronization every 100. Linked with whatever driver is found: tests/fakes/cuda, or a real one.
#include <cuda.h>
#include <time.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>

static uint64_t now() {
  timespec time{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return static_cast<uint64_t>(time.tv_sec) * 1000000000u + static_cast<uint64_t>(time.tv_nsec);
}

template <class Call>
static void measure(const char *name, int rounds, int calls, Call call) {
  double least = 1e18;
  for (int round = 0; round < rounds; ++round) {
    const uint64_t begin = now();
    for (int at = 0; at < calls; ++at) call(at);
    least = std::min(least, static_cast<double>(now() - begin) / calls);
  }
  std::printf("%s %.1f\n", name, least);
}

int main() {
  CUdevice device = 0;
  CUcontext context = nullptr;
  CUmodule module = nullptr;
  CUfunction kernel = nullptr;
  CUstream stream = nullptr;
  if (cuInit(0) != CUDA_SUCCESS || cuDeviceGet(&device, 0) != CUDA_SUCCESS) return 2;
  if (cuDevicePrimaryCtxRetain(&context, device) != CUDA_SUCCESS || cuCtxSetCurrent(context) != CUDA_SUCCESS) return 2;
  if (cuModuleLoadData(&module, "kernel empty 0\n") != CUDA_SUCCESS) return 2;
  if (cuModuleGetFunction(&kernel, module, "empty") != CUDA_SUCCESS) return 2;
  if (cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING) != CUDA_SUCCESS) return 2;
  int value = 0;
  measure("getter", 200, 1000, [&](int) { cuDeviceGetAttribute(&value, CU_DEVICE_ATTRIBUTE_WARP_SIZE, device); });
  measure("launch", 200, 100, [&](int at) {
    cuLaunchKernel(kernel, 1, 1, 1, 1, 1, 1, 0, stream, nullptr, nullptr);
    if (at == 99) cuStreamSynchronize(stream);
  });
  return 0;
}
