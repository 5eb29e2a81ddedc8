/* A process that has CPython from its start is known by CPython's own symbols; all else is in liboccatrace_python.so, which no
 * other process loads. Where a program loads libpython later, the trampolines of its functions load it. */
#include <dlfcn.h>

#include "internal.h"

extern int PySys_AddAuditHook(void) __attribute__((weak));

__attribute__((constructor)) static void find_python(void) {
  if (&PySys_AddAuditHook == NULL || !occatrace_capture_wanted()) return;
  void *library = occatrace_load_library("liboccatrace_python.so");
  void (*start)(void) = library == NULL ? NULL : (void (*)(void))dlsym(library, "occatrace_python_start");
  if (start != NULL) start();
}
