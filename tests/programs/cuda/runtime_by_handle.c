/* Programs that open the CUDA runtime themselves and ask it for each function: `runtime_by_handle BYTES LIBRARY…`, each
 * library for as many allocations as its place, and then closed; and a name that no runtime has. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>

int main(int argc, char **argv) {
  int failed = 0, none = 0;
  for (int at = 2; at < argc; at++) {
    void *runtime = dlopen(argv[at], RTLD_NOW | RTLD_LOCAL | RTLD_DEEPBIND);
    if (runtime == NULL) {
      puts("no CUDA");
      return 4;
    }
    int (*count)(int *) = (int (*)(int *))dlsym(runtime, "cudaGetDeviceCount");
    int (*allocate)(void **, size_t) = (int (*)(void **, size_t))dlsym(runtime, "cudaMalloc");
    int (*copy)(void *, const void *, size_t, int, void *) =
        (int (*)(void *, const void *, size_t, int, void *))dlsym(runtime, "cudaMemcpyAsync");
    int (*synchronize)(void) = (int (*)(void))dlsym(runtime, "cudaDeviceSynchronize");
    int (*release)(void *) = (int (*)(void *))dlsym(runtime, "cudaFree");
    const size_t bytes = strtoul(argv[1], NULL, 0);
    void *host = calloc(1, bytes), *memory = NULL;
    int devices = 0;
    failed += count(&devices);
    for (int i = 1; i < at; i++) {
      failed += allocate(&memory, bytes) + copy(memory, host, bytes, 1, NULL) + synchronize();
      failed += release(memory);
    }
    none += dlsym(runtime, "cudaNothing") != NULL || dlsym(RTLD_DEFAULT, "cudaNothing") != NULL;
    free(host);
    dlclose(runtime);
  }
  printf("%d %d\n", failed, none);
  return 0;
}
