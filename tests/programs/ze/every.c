/* Calls every function whose name it is given, once as the program finds it and once by the loader's handle: with arguments of
 * zero, or of `+name` with pointers to memory of zeros, which are 0 where a number of 32 bits is wanted. Prints how many there were
 * and how many calls succeeded. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

typedef int (*function)(void *, void *, void *, void *, void *, void *, void *, void *, void *, void *, void *, void *);

enum { SIZE = 1 << 16 };
static char *memory;

static int call(void *found, void *with) {
  memset(memory, 0, SIZE);
  return ((function)found)(with, with, with, with, with, with, with, with, with, with, with, with) == 0;
}

int main(int count, char **names) {
  void *loader = dlopen("libze_loader.so.1", RTLD_NOW | RTLD_LOCAL);
  int there = 0, succeeded = 0;
  memory = mmap((void *)(1ul << 32), SIZE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
  if (loader == NULL || memory != (void *)(1ul << 32)) return 2;
  for (int i = 1; i < count; i++) {
    const int given = names[i][0] == '+';
    void *by_handle = dlsym(loader, names[i] + given), *by_name = dlsym(RTLD_DEFAULT, names[i] + given);
    if (by_handle == NULL) continue;
    there++;
    if (by_name == NULL) by_name = by_handle;
    succeeded += call(by_handle, given ? memory : NULL) + call(by_name, given ? memory : NULL);
  }
  printf("%d %d\n", there, succeeded);
  return 0;
}
