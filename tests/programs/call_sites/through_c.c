// The same through OCCA's functions for C, which call those that are traced.
#include <occa.h>
#include <stdio.h>

#define SAY(function) fprintf(stderr, "TRUE %s %d\n", function, __LINE__)

static const char *source = "@kernel void add(const int n, float *a) { for (int i = 0; i < n; ++i; @tile(16, @outer, @inner)) { a[i] += 1; } }";

int main(int argc, char **argv) {
  float host[256] = {0};
  occaDevice device = occaCreateDevice(occaString(argv[argc - 1])); SAY("occa::device::setup");
  occaMemory memory = occaDeviceMalloc(device, sizeof host, NULL, occaDefault); SAY("occa::device::malloc");
  occaCopyPtrToMem(memory, host, occaAllBytes, 0, occaDefault); SAY("occa::memcpy");
  occaKernel kernel = occaDeviceBuildKernelFromString(device, source, "add", occaDefault); SAY("occa::device::buildKernelFromString");
  for (int i = 0; i < 3; i++) {
    occaKernelRun(kernel, occaInt(256), memory); SAY("occa::kernel::run");
  }
  occaCopyMemToPtr(host, memory, occaAllBytes, 0, occaDefault); SAY("occa::memcpy");
  occaDeviceFinish(device); SAY("occa::device::finish");
  occaFree(memory); SAY("occa::memory::free");
  return host[0] == 3.f ? 0 : 1;
}
