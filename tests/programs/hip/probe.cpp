// A program that looks what there is, with whatever runtime of HIP this machine has.
#define __HIP_PLATFORM_AMD__
#include <dlfcn.h>
#include <hip/hip_runtime_api.h>
#include <stdio.h>

int main() {
  int count = -1, version = -1;
  const int counted = hipGetDeviceCount(&count);
  const int last = hipGetLastError();
  const int versioned = hipRuntimeGetVersion(&version);
  void *at = nullptr;
  const int allocated = hipMalloc(&at, 4);
  printf("%d %d %d %d %d %d %s %d\n", counted, count, last, versioned, version, allocated,
         hipGetErrorName(static_cast<hipError_t>(counted)), dlsym(RTLD_DEFAULT, "hipNothing") != nullptr);
}
