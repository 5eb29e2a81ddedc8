/* OMPT: what LLVM's OpenMP runtime (and Intel's and AMD's) asks the process for as it starts. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdlib.h>

#include "internal.h"

typedef void *(*start_tool)(unsigned version, const char *runtime);

/* A runtime serves one tool. Whoever brings one of his own keeps it: one that is linked or preloaded comes after us in the
 * search for symbols; those named in OMP_TOOL_LIBRARIES are tried by the runtime when it gets NULL here, and the thread
 * sanitizer needs its own. */
OCCATRACE_EXPORT void *ompt_start_tool(unsigned version, const char *runtime) {
  const start_tool next = (start_tool)dlsym(RTLD_NEXT, "ompt_start_tool");
  void *theirs = next != NULL ? next(version, runtime) : NULL;
  if (theirs != NULL || !occatrace_capture_wanted() || !occatrace_chosen("openmp")) return theirs;
  const char *tools = getenv("OMP_TOOL_LIBRARIES");
  if (tools != NULL && *tools != '\0') {
    occatrace_say("OMP_TOOL_LIBRARIES is set: OpenMP is left to the tool named there and is not traced");
    return NULL;
  }
  if (dlsym(RTLD_DEFAULT, "__tsan_init") != NULL) return NULL;
  void *backend = occatrace_load_library("liboccatrace_openmp.so");
  const start_tool start = backend != NULL ? (start_tool)dlsym(backend, "occatrace_openmp_start_tool") : NULL;
  return start != NULL ? start(version, runtime) : NULL;
}
