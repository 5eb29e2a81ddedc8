// Programs that reach the CUDA driver by its path (the first argument), each with something of its own besides:
//   both      functions of the driver by its soname too, before and after it is initialized by path
//   cupti     a subscriber of CUPTI (the third argument) of its own, that counts launches
//   children  a child by fork before the driver is used, and one after, each with work of its own where it may
//   plugin    what an injected library of the person's own does: this file as a library counts itself in a file
#include <cuda.h>
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#ifdef PLUGIN
extern "C" int InitializeInjection() {
  fputs("injected\n", stdout);
  return 1;
}
#else

static void *driver;
template <class F>
static F by_path(F, const char *name) {
  return reinterpret_cast<F>(dlsym(driver, name));
}
#define TEXT_(x) #x
#define TEXT(x) TEXT_(x)
#define CU(name) by_path(&name, TEXT(name))
#define OK(call)                                                                    \
  do {                                                                              \
    if (const int code_ = (call)) exit((printf("%s: %d\n", #call, code_), 3));      \
  } while (0)

static int seen = 0;
struct Data {
  int site;
  const char *function;
};
static void told(void *, int, uint32_t, const void *data) {
  const auto *d = static_cast<const Data *>(data);
  if (d->site == 0 && strcmp(d->function, "cuLaunchKernel") == 0) ++seen;
}

static void work(int launches) {
  OK(CU(cuInit)(0));
  CUcontext context;
  OK(CU(cuDevicePrimaryCtxRetain)(&context, 0));
  OK(CU(cuCtxSetCurrent)(context));
  CUmodule module;
  CUfunction f;
  OK(CU(cuModuleLoadData)(&module, "kernel tick 1000000\n"));
  OK(CU(cuModuleGetFunction)(&f, module, "tick"));
  for (int i = 0; i < launches; ++i) OK(CU(cuLaunchKernel)(f, 1, 1, 1, 1, 1, 1, 0, nullptr, nullptr, nullptr));
  OK(CU(cuCtxSynchronize)());
}

int main(int argc, char **argv) {
  if (argc < 3) return 2;
  const char *what = argv[2];
  if (strcmp(what, "both") == 0) {
    void *other = dlopen("libcuda.so.1", RTLD_LAZY | RTLD_LOCAL);
    driver = dlopen(argv[1], RTLD_LAZY | RTLD_LOCAL);
    int version = 0, count = 0;
    OK(reinterpret_cast<decltype(&cuDriverGetVersion)>(dlsym(other, "cuDriverGetVersion"))(&version));
    work(7);
    const auto ask = reinterpret_cast<decltype(&cuDeviceGetCount)>(dlsym(other, "cuDeviceGetCount"));
    for (int i = 0; i < 3; ++i) OK(ask(&count));
    OK(CU(cuDeviceGetCount)(&count));
    printf("%d %d %d\n", version, count, ask != reinterpret_cast<decltype(ask)>(dlsym(driver, "cuDeviceGetCount")));
  } else if (strcmp(what, "cupti") == 0) {
    driver = dlopen(argv[1], RTLD_LAZY | RTLD_LOCAL);
    void *cupti = dlopen(argv[3], RTLD_LAZY | RTLD_LOCAL);
    void *subscriber = nullptr;
    using Subscribe = int (*)(void **, void (*)(void *, int, uint32_t, const void *), void *);
    OK(reinterpret_cast<Subscribe>(dlsym(cupti, "cuptiSubscribe"))(&subscriber, told, nullptr));
    OK(reinterpret_cast<int (*)(uint32_t, void *, int)>(dlsym(cupti, "cuptiEnableDomain"))(1, subscriber, 1));
    work(7);
    printf("%d\n", seen);
  } else if (strcmp(what, "children") == 0) {
    driver = dlopen(argv[1], RTLD_LAZY | RTLD_LOCAL);
    if (fork() == 0) {
      work(2);
      exit(0);
    }
    int status = 0;
    wait(&status);
    work(3);
    if (fork() == 0) {
      int count = 0;
      exit(CU(cuDeviceGetCount)(&count));
    }
    wait(&status);
    printf("%d\n", status);
  }
  return 0;
}
#endif
