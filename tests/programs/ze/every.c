/* Calls every function whose name it is given, once as the program finds it and once by the loader's handle, with arguments of
 * zero. Without a driver each fails. Prints how many there were and how many succeeded. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>

typedef int (*function)(void *, void *, void *, void *, void *, void *, void *, void *, void *, void *, void *, void *);

static int call(void *found) { return ((function)found)(0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0) == 0; }

int main(int count, char **names) {
  void *loader = dlopen("libze_loader.so.1", RTLD_NOW | RTLD_LOCAL);
  int there = 0, succeeded = 0;
  if (loader == NULL) return 2;
  for (int i = 1; i < count; i++) {
    void *by_handle = dlsym(loader, names[i]), *by_name = dlsym(RTLD_DEFAULT, names[i]);
    if (by_handle == NULL) continue;
    there++;
    if (by_name == NULL) by_name = by_handle;
    succeeded += call(by_handle) + call(by_name);
  }
  printf("%d %d\n", there, succeeded);
  return 0;
}
