/* What a program itself asks CUPTI for. CUPTI serves one tool at a time, and the program comes first (PyTorch's and JAX's
 * profilers): before its first call that takes CUPTI, occatrace releases it. Once one libcupti has served a process, the
 * driver takes no other (seen with 13.0 and 12.8): a program that opens another (Triton's proton) gets the functions of that one. */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "occatrace_core.h"

#ifdef __cplusplus
extern "C" {
#endif

struct occatrace_cupti_watch {
  void (*wanted)(void);          /* the program is about to take CUPTI; called once or more, by any thread */
  int (*take)(uint8_t *buffer);  /* whether a buffer that CUPTI gives back is occatrace's own, which keeps it then */
  void *(*library)(void);        /* the handle of the libcupti that serves this process; NULL: none yet */
  const void *code;              /* in the library whose own calls of CUPTI are none of the program's */
};

/* In liboccatrace_by_handle.so, which is preloaded. 1: the program has taken CUPTI already. */
OCCATRACE_EXPORT int occatrace_watch_cupti(const struct occatrace_cupti_watch *watch);

/* What stands in for `found`, a function that `caller` asked CUPTI's library for by handle. */
__attribute__((visibility("hidden"))) void *occatrace_in_front_of_cupti(const char *name, void *found, const void *caller);

#ifdef __cplusplus
}
#endif
