/* OCCA loaded at run time, with dlopen and RTLD_LOCAL as a plug-in would, and closed again, ROUNDS times.
   usage: loaded LIBOCCA ROUNDS KERNEL-FILE */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>

#include <occa.h>

#define LOAD(name) __typeof__(name) *p_##name = (__typeof__(name) *) dlsym(library, #name)

static int work(const char *file, const char *kernels) {
  void *library = dlopen(file, RTLD_NOW | RTLD_LOCAL);
  if (!library) {
    fprintf(stderr, "loaded: %s\n", dlerror());
    return 1;
  }
  LOAD(occaCreateDeviceFromString);
  LOAD(occaDeviceMalloc);
  LOAD(occaDeviceBuildKernel);
  LOAD(occaCopyPtrToMem);
  LOAD(occaCopyMemToPtr);
  LOAD(occaKernelRunN);
  LOAD(occaInt);
  const occaType *fallback = (const occaType *) dlsym(library, "occaDefault");
  float values[16] = {0}, result[16] = {0};
  occaDevice device = p_occaCreateDeviceFromString("{mode: 'Serial'}");
  occaMemory memory = p_occaDeviceMalloc(device, sizeof values, NULL, *fallback);
  occaKernel kernel = p_occaDeviceBuildKernel(device, kernels, "addVectors", *fallback);
  int i, wrong = 0;
  for (i = 0; i < 16; ++i) {
    values[i] = (float) i;
  }
  p_occaCopyPtrToMem(memory, values, sizeof values, 0, *fallback);
  p_occaKernelRunN(kernel, 4, p_occaInt(16), memory, memory, memory);
  p_occaCopyMemToPtr(result, memory, sizeof result, 0, *fallback);
  for (i = 0; i < 16; ++i) {
    wrong += result[i] != 2.0f * (float) i;
  }
  dlclose(library);
  return wrong;
}

int main(int argc, char **argv) {
  int round, wrong = 0;
  if (argc < 4) {
    return 2;
  }
  for (round = 0; round < atoi(argv[2]); ++round) {
    wrong += work(argv[1], argv[3]);
  }
  return wrong ? 1 : 0;
}
