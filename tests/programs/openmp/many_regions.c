/* A library with 256 parallel regions (-DLIBRARY), and a program that loads it for itself, runs all of them ROUNDS times, and
 * prints their sum and, on standard error, how often anybody asked the dynamic linker for the library of an address: that takes
 * as long as the library has symbols. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>

#ifdef LIBRARY
#define ONE                                                   \
  {                                                           \
    int threads = 0;                                          \
    _Pragma("omp parallel num_threads(2) reduction(+ : threads)") threads += 1; \
    sum += threads;                                           \
  }
#define FOUR ONE ONE ONE ONE
#define SIXTEEN FOUR FOUR FOUR FOUR
#define SIXTY_FOUR SIXTEEN SIXTEEN SIXTEEN SIXTEEN
int regions(void) {
  int sum = 0;
  SIXTY_FOUR SIXTY_FOUR SIXTY_FOUR SIXTY_FOUR
  return sum;
}
#else
static long asked;
int dladdr(const void *address, Dl_info *info) {
  static int (*real)(const void *, Dl_info *);
  if (real == NULL) real = (int (*)(const void *, Dl_info *))dlsym(RTLD_NEXT, "dladdr");
  __atomic_add_fetch(&asked, 1, __ATOMIC_RELAXED);
  return real(address, info);
}
int dladdr1(const void *address, Dl_info *info, void **extra, int flags) {
  static int (*real)(const void *, Dl_info *, void **, int);
  if (real == NULL) real = (int (*)(const void *, Dl_info *, void **, int))dlsym(RTLD_NEXT, "dladdr1");
  __atomic_add_fetch(&asked, 1, __ATOMIC_RELAXED);
  return real(address, info, extra, flags);
}

int main(int argc, char **argv) {
  void *library = argc > 2 ? dlopen(argv[1], RTLD_NOW | RTLD_LOCAL) : NULL;
  if (library == NULL) return fprintf(stderr, "%s\n", dlerror()), 1;
  int (*run)(void) = (int (*)(void))dlsym(library, "regions");
  int sum = 0;
  for (int round = 0; round < atoi(argv[2]); round++) {
    sum += run();
    dlclose(dlopen(argv[1], RTLD_NOW)); /* unloads nothing */
  }
  printf("%d\n", sum);
  fprintf(stderr, "asked %ld times\n", asked);
  return 0;
}
#endif
