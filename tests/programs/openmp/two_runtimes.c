/* Parallel regions of the program and of libraries that it is linked with or loads for itself: two_runtimes [LIBRARY...].
 * Each region checks its team, as the library sees it. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <omp.h>
#include <stdio.h>

#ifdef LIBRARY
/* Sum of the thread numbers + 1 of a team of two; 10 more for each thread that sees another size of it. */
int region(void) {
  int sum = 0;
#pragma omp parallel num_threads(2) reduction(+ : sum)
  {
    sum += omp_get_thread_num() + 1;
    if (omp_get_num_threads() != 2) sum += 10;
#pragma omp barrier
#pragma omp critical
    sum += 0;
  }
  return sum;
}
#else
#ifdef LINKED
int region(void);
#endif
int main(int argc, char **argv) {
  int sum = 0;
#ifdef LINKED
#pragma omp parallel num_threads(2) reduction(+ : sum)
  sum += omp_get_thread_num() + 1;
  printf("program %d, library %d\n", sum, region());
#endif
  for (int round = 0; round < 3; round++)
    for (int i = 1; i < argc; i++) {
      void *library = dlopen(argv[i], RTLD_NOW | RTLD_LOCAL);
      if (library == NULL) {
        fprintf(stderr, "%s\n", dlerror());
        return 1;
      }
      int (*run)(void) = (int (*)(void))dlsym(library, "region");
      printf("loaded %d\n", run());
    }
  return 0;
}
#endif
