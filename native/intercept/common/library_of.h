/* Whether two addresses lie in one library. */
#pragma once

#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <dlfcn.h>

static inline int occatrace_in_one_library(const void *a, const void *b) {
  Dl_info of_a, of_b;
  return dladdr(a, &of_a) && dladdr(b, &of_b) && of_a.dli_fbase == of_b.dli_fbase;
}
