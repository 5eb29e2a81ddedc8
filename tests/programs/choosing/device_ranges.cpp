// Three ranges with one, two and three launches of `tick`, five of `empty` before each and after the last. Compiled for CUDA's
// driver, with NVTX, and with -DHIP for HIP, with ROCTX.
//
// usage: device_ranges profiler|library|own     by the API's own functions, by NVTX or ROCTX, by occatrace.h
#include <cstdio>
#include <cstdlib>
#include <cstring>

#ifdef HIP
#include <hip/hip_runtime_api.h>
extern "C" int roctxRangePushA(const char *message);
extern "C" int roctxRangePop(void);
#define API(name) hip##name
#define OK_CODE hipSuccess
using Function = hipFunction_t;
using Module = hipModule_t;
#else
#include <cuda.h>
#include <cudaProfiler.h>
#include <nvtx3/nvToolsExt.h>
#define API(name) cu##name
#define OK_CODE CUDA_SUCCESS
using Function = CUfunction;
using Module = CUmodule;
#endif

#include "occatrace.h"

#define OK(call) \
  if ((call) != OK_CODE) std::printf("%s failed\n", #call), std::exit(3)

static void launch(Function f) {
  unsigned long ns = 0;
  void *parameters[] = {&ns};
#ifdef HIP
  OK(hipModuleLaunchKernel(f, 4, 1, 1, 64, 1, 1, 0, nullptr, parameters, nullptr));
#else
  OK(cuLaunchKernel(f, 4, 1, 1, 64, 1, 1, 0, nullptr, parameters, nullptr));
#endif
}

static void range(const char *by, bool begins) {
  if (std::strcmp(by, "own") == 0) return begins ? occatrace_push("solve") : occatrace_pop();
  if (std::strcmp(by, "library") == 0) {
#ifdef HIP
    if (begins) roctxRangePushA("solve");
    else roctxRangePop();
#else
    if (begins) nvtxRangePushA("solve");
    else nvtxRangePop();
#endif
    return;
  }
  if (begins) {
    OK(API(ProfilerStart)());
  } else {
    OK(API(ProfilerStop)());
  }
}

int main(int argc, char **argv) {
  const char *by = argc > 1 ? argv[1] : "own";
#ifndef HIP
  CUdevice device;
  CUcontext context;
  OK(cuInit(0));
  OK(cuDeviceGet(&device, 0));
  OK(cuDevicePrimaryCtxRetain(&context, device));
  OK(cuCtxSetCurrent(context));
#endif
  Module module;
  Function tick, empty;
  OK(API(ModuleLoadData)(&module, "kernel tick 1000\nkernel empty 0\n"));
  OK(API(ModuleGetFunction)(&tick, module, "tick"));
  OK(API(ModuleGetFunction)(&empty, module, "empty"));
  int inside = 0, outside = 0;
  for (int i = 1; i <= 4; i++) {
    for (int n = 0; n < 5; n++, outside++) launch(empty);
    if (i == 4) break;
    range(by, true);
    for (int n = 0; n < i; n++, inside++) launch(tick);
    range(by, false);
  }
#ifdef HIP
  OK(hipDeviceSynchronize());
#else
  OK(cuCtxSynchronize());
#endif
  std::printf("%d %d\n", inside, outside);
}
