/* A program that opens HIP's library itself and asks it for each function: `by_handle LIBRARY KERNELS`. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>

int main(int argc, char **argv) {
  if (argc < 3) return 2;
  void *hip = dlopen(argv[1], RTLD_NOW | RTLD_LOCAL | RTLD_DEEPBIND);
  if (hip == NULL) {
    puts("no HIP");
    return 4;
  }
  int (*load)(void **, const void *) = (int (*)(void **, const void *))dlsym(hip, "hipModuleLoadData");
  int (*find)(void **, void *, const char *) = (int (*)(void **, void *, const char *))dlsym(hip, "hipModuleGetFunction");
  int (*launch)(void *, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, void *, void **, void **) =
      (int (*)(void *, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, void *, void **, void **))dlsym(
          hip, "hipModuleLaunchKernel");
  int (*synchronize)(void) = (int (*)(void))dlsym(hip, "hipDeviceSynchronize");
  long (*own)(void) = (long (*)(void))dlsym(hip, "fake_hip_captured_events");
  void *module, *kernel;
  int failed = load(&module, "kernel asked 5000\n") + find(&kernel, module, "asked");
  for (int i = 0; i < atoi(argv[2]); i++) failed += launch(kernel, 2, 1, 1, 32, 1, 1, 0, NULL, NULL, NULL);
  failed += synchronize();
  /* What HIP does not have is not there, with a handle or without. */
  const int nothing = dlsym(hip, "hipNothing") != NULL || dlsym(RTLD_DEFAULT, "hipNothing") != NULL;
  /* Found, and so there is no error: programs ask by dlerror whether it was. */
  dlerror();
  const int tomorrow = dlsym(hip, "hipOfTomorrow") != NULL;
  const char *error = dlerror();
  printf("%d %d %ld %d %s\n", failed, nothing, own(), tomorrow, error != NULL ? error : "-");
  return 0;
}
