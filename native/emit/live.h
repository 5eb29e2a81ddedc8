/* What is counted in the process while it runs, for occatrace.live(). The providers tell of memory and of OCCA's kernel calls,
 * so that all APIs are counted in one place; nothing is while nobody has asked. */
#ifndef OCCATRACE_LIVE_H
#define OCCATRACE_LIVE_H
#include <stdint.h>

struct occatrace_live_sink {
  uint8_t on;
  /* `api` is the same pointer for all events of an API; `kind` as in the model; `mode`: an interned text or 0. */
  void (*allocated)(const char *api, uint64_t handle, uint64_t bytes, const char *kind, uint32_t mode);
  /* `start`: when the call that frees began. */
  void (*freed)(const char *api, const uint64_t *handles, uint32_t count, uint64_t start);
  /* A call of an OCCA kernel that ends now, without device work of its own. */
  void (*called)(uint32_t kernel, uint64_t start);
};
#endif
