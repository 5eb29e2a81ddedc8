/* Asks whether there is a Python before and after it loads one: late LIBRARY */
#include <dlfcn.h>
#include <stdio.h>

int main(int argc, char **argv) {
  printf("%d", dlsym(RTLD_DEFAULT, "Py_InitializeEx") != NULL || dlsym(RTLD_DEFAULT, "PyObject_Call") != NULL);
  void *library = dlopen(argv[1], RTLD_NOW | RTLD_GLOBAL);
  long (*spin)(long) = library ? (long (*)(long))dlsym(library, "spin_in_python") : NULL;
  if (!spin) return puts(dlerror()), 1;
  for (int i = 0; i < 3; i++)
    if (spin(1000) < 1000) return 1;
  printf("%d\n", dlsym(RTLD_DEFAULT, "Py_InitializeEx") != NULL);
  return argc != 2;
}
