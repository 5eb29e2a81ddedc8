/* What a program gets that asks a library for one of OpenCL's functions by dlsym with its handle (common/by_handle.c). */
#pragma once

#include "occatrace_core.h"

#ifdef __cplusplus
extern "C" {
#endif
typedef void *(*occatrace_lookup)(void *handle, const char *name);

/* In the layer, which is loaded for it. `lookup`: libc's dlsym; `asker`: an address in the code that asks. Returns `found`, or
 * what records calls of it. */
OCCATRACE_EXPORT void *occatrace_opencl_by_handle(occatrace_lookup lookup, const char *name, void *found, const void *asker);
#ifdef __cplusplus
}
#endif
