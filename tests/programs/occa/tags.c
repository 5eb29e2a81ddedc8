/* Tagged objects by OCCA's C API. Of the first device one memory object and one kernel are tagged and one kernel refuses; of the
   second, which is tagged itself, all is.
   usage: tags MODE ROUNDS */
#include <stdio.h>
#include <stdlib.h>

#include <occa.h>

#ifndef KERNEL_FOLDER
#define KERNEL_FOLDER "."
#endif

/* OCCA 1.2 began to take a pointer. */
#ifdef OCCA_FREE_BY_POINTER
#define FREE(object) occaFree(&(object))
#else
#define FREE(object) occaFree(object)
#endif

/* And had JSON instead of properties. */
#ifdef OCCA_PROPERTIES_ARE_JSON
typedef occaJson occaProperties;
#define occaCreatePropertiesFromString occaJsonParse
#endif

enum { ENTRIES = 64, BYTES = ENTRIES * sizeof(float) };

static occaDevice device_of(const char *mode, const char *more) {
  char properties[256];
  snprintf(properties, sizeof properties, "{mode: '%s', platform_id: 0, device_id: 0%s}", mode, more);
  return occaCreateDeviceFromString(properties);
}

int main(int argc, char **argv) {
  const char *mode = argc > 1 ? argv[1] : "Serial", *file = KERNEL_FOLDER "/work.okl";
  const int rounds = argc > 2 ? atoi(argv[2]) : 10;
  float values[ENTRIES] = {0};
  occaProperties residual = occaCreatePropertiesFromString("{occatrace: {trace: true, label: 'residual'}}");
  occaProperties label = occaCreatePropertiesFromString("{\"occatrace\": {\"label\": \"sum of two\"}}");
  occaProperties never = occaCreatePropertiesFromString("{occatrace: {trace: false}}");

  occaDevice first = device_of(mode, ""), second = device_of(mode, ", occatrace: {label: 'second'}");
  occaMemory tagged = occaDeviceMalloc(first, BYTES, NULL, residual), plain = occaDeviceMalloc(first, BYTES, NULL, occaDefault);
  occaMemory half = occaMemorySlice(tagged, 0, BYTES / 2);
  occaMemory own = occaDeviceMalloc(second, BYTES, NULL, occaDefault);
  occaKernel scale = occaDeviceBuildKernel(first, file, "scaleTwice", occaDefault), add = occaDeviceBuildKernel(first, file, "addVectors", label);
  occaKernel spin = occaDeviceBuildKernel(first, file, "spin", never), other = occaDeviceBuildKernel(second, file, "scaleTwice", occaDefault);

  occaCopyPtrToMem(tagged, values, BYTES, 0, occaDefault);
  occaCopyPtrToMem(plain, values, BYTES, 0, occaDefault);
  occaCopyPtrToMem(own, values, BYTES, 0, occaDefault);
  for (int i = 0; i < rounds; ++i) {
    occaKernelRun(scale, occaInt(ENTRIES), occaFloat(1.5f), half);
    occaKernelRun(scale, occaInt(ENTRIES), occaFloat(1.5f), plain);
    occaKernelRun(add, occaInt(ENTRIES), plain, plain, plain);
    occaKernelRun(spin, occaInt(1), tagged);
    occaKernelRun(other, occaInt(ENTRIES), occaFloat(1.5f), own);
  }
  occaDeviceFinish(first);
  occaDeviceFinish(second);
  occaCopyMemToPtr(values, tagged, BYTES, 0, occaDefault);
  occaCopyMemToPtr(values, plain, BYTES, 0, occaDefault);
  FREE(half), FREE(tagged), FREE(plain), FREE(own);
  FREE(scale), FREE(add), FREE(spin), FREE(other);
  FREE(first), FREE(second);
  return 0;
}
