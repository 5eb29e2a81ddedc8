/* The OCCA C API: vector additions with copies of known sizes; prints what it did as a line of JSON.
   usage: capi MODE [CALLS] [TRUTH-FILE] */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

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

int main(int argc, char **argv) {
  const char *mode = argc > 1 ? argv[1] : "Serial";
  const int calls = argc > 2 ? atoi(argv[2]) : 10;
  const int entries = 1000, bytes = entries * (int) sizeof(float);
  const int launched = strcmp(mode, "Serial") != 0 && strcmp(mode, "OpenMP") != 0;
  float a[1000], b[1000], ab[1000];
  char properties[128];
  int i, wrong = 0;
  FILE *truth = stdout;

  for (i = 0; i < entries; ++i) {
    a[i] = (float) i;
    b[i] = (float) (1 - i);
    ab[i] = 0;
  }
  snprintf(properties, sizeof properties, "{mode: '%s', platform_id: 0, device_id: 0}", mode);
  occaDevice device = occaCreateDeviceFromString(properties);
  occaMemory o_a = occaDeviceMalloc(device, bytes, NULL, occaDefault);
  occaMemory o_b = occaDeviceMalloc(device, bytes, NULL, occaDefault);
  occaMemory o_ab = occaDeviceMalloc(device, bytes, NULL, occaDefault);
  occaKernel add = occaDeviceBuildKernel(device, KERNEL_FOLDER "/work.okl", "addVectors", occaDefault);

  occaCopyPtrToMem(o_a, a, bytes, 0, occaDefault);
  occaCopyPtrToMem(o_b, b, bytes, 0, occaDefault);
  for (i = 0; i < calls; ++i) {
    occaKernelRun(add, occaInt(entries), o_a, o_b, o_ab);
  }
  /* The first half by way of the device, then the whole of it to the host. */
  occaCopyMemToMem(o_a, o_ab, bytes / 2, 0, 0, occaDefault);
  occaDeviceFinish(device);
  occaCopyMemToPtr(ab, o_ab, bytes, 0, occaDefault);
  for (i = 0; i < entries; ++i) {
    wrong += ab[i] != 1.0f;
  }
  FREE(add);
  FREE(o_a);
  FREE(o_b);
  FREE(o_ab);
  FREE(device);

  if (argc > 3 && strcmp(argv[3], "-") != 0 && !(truth = fopen(argv[3], "w"))) {
    perror(argv[3]);
    return 2;
  }
  fprintf(truth,
          "{\"program\": \"capi\", \"mode\": \"%s\", \"kernels\": {\"addVectors\": {\"calls\": %d, \"launches\": %d}}, "
          "\"copies\": {\"HtoD\": {\"count\": 2, \"bytes\": %d}, \"DtoH\": {\"count\": 1, \"bytes\": %d}, "
          "\"DtoD\": {\"count\": 1, \"bytes\": %d}}, \"allocations\": {\"count\": 3, \"bytes\": %d}, "
          "\"slices\": 0, \"builds\": 1, \"finishes\": 1, \"failed\": {}}\n",
          mode, calls, launched ? calls : 0, 2 * bytes, bytes, bytes / 2, 3 * bytes);
  if (truth != stdout) {
    fclose(truth);
  }
  return wrong ? 1 : 0;
}
