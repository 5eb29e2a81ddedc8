/* ROCTX: its functions, in front of its library, which they call. Preloaded only where there is a library of ROCTX. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <link.h>
#include <stdint.h>

#include "annotation.h"

/* The real function: the next one in the search order or, where a Python extension brought its library RTLD_LOCAL, what the
 * calling object depends on. Looked up at the first call; NULL where there is none. */
static void *real(void **known, const char *symbol, const void *caller) {
  void *found = __atomic_load_n(known, __ATOMIC_ACQUIRE);
  if (found != NULL) return found == (void *)known ? NULL : found;
  Dl_info info;
  struct link_map *map = NULL;
  found = dlsym(RTLD_NEXT, symbol);
  if (found == NULL && dladdr1(caller, &info, (void **)&map, RTLD_DL_LINKMAP) && map != NULL && map->l_name[0]) {
    void *object = dlopen(map->l_name, RTLD_LAZY | RTLD_NOLOAD);
    if (object != NULL) found = dlsym(object, symbol);
  }
  __atomic_store_n(known, found != NULL ? found : (void *)known, __ATOMIC_RELEASE);
  return found;
}
#define REAL(symbol) \
  static void *known; \
  __typeof__(&symbol) next = (__typeof__(&symbol))real(&known, #symbol, __builtin_return_address(0))

OCCATRACE_EXPORT void roctxMarkA(const char *message) {
  const struct occatrace_annotations *f = occatrace_annotation();
  if (f->mark) f->mark(OCCATRACE_API_ROCTX, message, 0, NULL);
  REAL(roctxMarkA);
  if (next != NULL) next(message);
}

/* What the program gets is the library's answer; where it gives none (no tool of its own), ours. */
OCCATRACE_EXPORT int roctxRangePushA(const char *message) {
  const struct occatrace_annotations *f = occatrace_annotation();
  const int level = f->push ? f->push(OCCATRACE_API_ROCTX, message, 0, NULL) : -1;
  REAL(roctxRangePushA);
  const int theirs = next != NULL ? next(message) : -1;
  return theirs >= 0 ? theirs : level;
}

OCCATRACE_EXPORT int roctxRangePop(void) {
  const struct occatrace_annotations *f = occatrace_annotation();
  const int level = f->pop ? f->pop(OCCATRACE_API_ROCTX) : -1;
  REAL(roctxRangePop);
  const int theirs = next != NULL ? next() : -1;
  return theirs >= 0 ? theirs : level;
}

OCCATRACE_EXPORT uint64_t roctxRangeStartA(const char *message) {
  REAL(roctxRangeStartA);
  const uint64_t theirs = next != NULL ? next(message) : 0;
  const struct occatrace_annotations *f = occatrace_annotation();
  if (f->begin == NULL) return theirs;
  const uint64_t id = f->begin(OCCATRACE_API_ROCTX, message, 0, NULL);
  if (theirs == 0) return id;
  f->alias(theirs, id);
  return theirs;
}

OCCATRACE_EXPORT void roctxRangeStop(uint64_t id) {
  const struct occatrace_annotations *f = occatrace_annotation();
  if (f->end_alias) f->end_alias(id);
  REAL(roctxRangeStop);
  if (next != NULL) next(id);
}

/* Of the profiler's control: the whole process, whatever the thread. */
OCCATRACE_EXPORT int roctxProfilerPause(uint64_t thread) {
  occatrace_set_capture(0);
  REAL(roctxProfilerPause);
  return next != NULL ? next(thread) : 0;
}

OCCATRACE_EXPORT int roctxProfilerResume(uint64_t thread) {
  occatrace_set_capture(1);
  REAL(roctxProfilerResume);
  return next != NULL ? next(thread) : 0;
}
