// So many calls of one kind of the CUDA driver, for counting instructions. usage: choice_calls getter|launch|disabled N
// `disabled`: what a disabled tracepoint costs, N times: a look at a flag somewhere in memory, and a call behind it.
#include <cuda.h>

#include <cstdlib>
#include <cstring>

volatile int tracepoint_enabled;
__attribute__((noinline)) static void tracepoint(int at) { tracepoint_enabled = at; }

int main(int argc, char **argv) {
  if (argc < 3) return 1;
  const int calls = std::atoi(argv[2]);
  if (std::strcmp(argv[1], "disabled") == 0) {
    for (int at = 0; at < calls; ++at)
      if (__builtin_expect(tracepoint_enabled, 0)) tracepoint(at);
    return 0;
  }
  CUdevice device = 0;
  CUcontext context = nullptr;
  CUmodule module = nullptr;
  CUfunction kernel = nullptr;
  if (cuInit(0) != CUDA_SUCCESS || cuDeviceGet(&device, 0) != CUDA_SUCCESS) return 2;
  if (cuDevicePrimaryCtxRetain(&context, device) != CUDA_SUCCESS || cuCtxSetCurrent(context) != CUDA_SUCCESS) return 2;
  if (cuModuleLoadData(&module, "kernel empty 0\n") != CUDA_SUCCESS) return 2;
  if (cuModuleGetFunction(&kernel, module, "empty") != CUDA_SUCCESS) return 2;
  int value = 0;
  for (int at = 0; at < calls; ++at) {
    if (argv[1][0] == 'g') cuDeviceGetAttribute(&value, CU_DEVICE_ATTRIBUTE_WARP_SIZE, device);
    else cuLaunchKernel(kernel, 1, 1, 1, 1, 1, 1, 0, nullptr, nullptr, nullptr);
  }
  cuCtxSynchronize();
  return 0;
}
