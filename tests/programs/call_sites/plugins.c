/* Libraries that come to the same place one after the other. With -DPLUGIN=NAME one of them; else the program, which uses those that are
 * its arguments in turn, ROUNDS times. Prints how many places their functions had.
 *   plugins ROUNDS LIBRARY... */
#define CL_TARGET_OPENCL_VERSION 120
#include <CL/cl.h>

#ifdef PLUGIN
void use(cl_context context);
static __attribute__((noinline)) void PLUGIN(cl_context context) {
  clReleaseMemObject(clCreateBuffer(context, CL_MEM_READ_WRITE, SIZE, NULL, NULL));
}
void use(cl_context context) {
  for (int i = 0; i < CALLS; i++) PLUGIN(context);
}
#else
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>

int main(int argc, char **argv) {
  cl_platform_id platform;
  cl_device_id device;
  if (argc < 3 || clGetPlatformIDs(1, &platform, NULL) != CL_SUCCESS || clGetDeviceIDs(platform, CL_DEVICE_TYPE_ALL, 1, &device, NULL) != CL_SUCCESS) return 2;
  cl_context context = clCreateContext(NULL, 1, &device, NULL, NULL, NULL);
  int places = 0;
  for (int round = 0, rounds = atoi(argv[1]); round < rounds; round++) {
    void *before = NULL;
    for (int i = 2; i < argc; i++) {
      void *library = dlopen(argv[i], RTLD_NOW | RTLD_LOCAL);
      void (*use)(cl_context) = library == NULL ? NULL : (void (*)(cl_context))dlsym(library, "use");
      if (use == NULL) return 3;
      use(context);
      places += (void *)use != before;
      before = (void *)use;
      dlclose(library);
    }
  }
  clReleaseContext(context);
  printf("%d\n", places);
  return 0;
}
#endif
