/* What liboccatrace_annotation.so offers to the preloaded libraries: ranges, marks and counters by plain text. */
#ifndef OCCATRACE_ANNOTATION_H
#define OCCATRACE_ANNOTATION_H
#include "occatrace_core.h"

#ifdef __cplusplus
extern "C" {
#endif

struct occatrace_annotations {
  int (*push)(enum occatrace_annotation_api api, const char *name, uint32_t argb, const char *values);
  int (*pop)(enum occatrace_annotation_api api);
  uint64_t (*begin)(enum occatrace_annotation_api api, const char *name, uint32_t argb, const char *values);
  void (*end)(uint64_t id);
  /* Another number for a range, of a library that gives its own; what has none is ended by ours. */
  void (*alias)(uint64_t other, uint64_t id);
  void (*end_alias)(uint64_t other);
  void (*mark)(enum occatrace_annotation_api api, const char *name, uint32_t argb, const char *values);
  void (*counter)(const char *name, double value, const char *unit);
};

/* Loads the library at its first call; without tracing all functions are NULL. */
OCCATRACE_EXPORT const struct occatrace_annotations *occatrace_annotation(void);

#ifdef __cplusplus
}
#endif
#endif
