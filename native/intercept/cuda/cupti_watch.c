/* Preloaded functions of CUPTI, by which a program takes it: see cupti_watch.h. */
#define _GNU_SOURCE
#include "cupti_watch.h"

#include <dlfcn.h>
#include <string.h>

#include "../common/library_of.h"

enum { SUBSCRIBE,
       SUBSCRIBE_V2,
       REGISTER_CALLBACKS,
       REGISTER_CLOCK,
       ENABLE,
       ENABLE_CONTEXT,
       COUNT };
static const char *const names[COUNT] = {
    "cuptiSubscribe", "cuptiSubscribe_v2", "cuptiActivityRegisterCallbacks", "cuptiActivityRegisterTimestampCallback",
    "cuptiActivityEnable", "cuptiActivityEnableContext"};
enum { NOT_INITIALIZED = 15 }; /* CUPTI_ERROR_NOT_INITIALIZED */

typedef int (*function)(void *, void *, void *, void *);
typedef void (*completed)(void *, uint32_t, uint8_t *, size_t, size_t);

extern const char __ehdr_start[] __attribute__((visibility("hidden")));
extern const char _end[] __attribute__((visibility("hidden")));

static const struct occatrace_cupti_watch *watch;
static int taken;
static void *real[COUNT];
static completed their_completed;

int occatrace_watch_cupti(const struct occatrace_cupti_watch *by) {
  __atomic_store_n(&watch, by, __ATOMIC_SEQ_CST);
  return __atomic_load_n(&taken, __ATOMIC_SEQ_CST);
}

/* The real function, for a call of the program's; CUPTI is the program's from here on. */
static function wanted(int which, const void *caller) {
  void *found = __atomic_load_n(&real[which], __ATOMIC_ACQUIRE);
  if (found == NULL) found = dlsym(RTLD_NEXT, names[which]);
  if (found == NULL) found = occatrace_find_symbol_beside(names[which], caller, __ehdr_start, _end);
  if (found == NULL) return NULL;
  __atomic_store_n(&real[which], found, __ATOMIC_RELEASE);
  __atomic_store_n(&taken, 1, __ATOMIC_SEQ_CST);
  const struct occatrace_cupti_watch *by = __atomic_load_n(&watch, __ATOMIC_SEQ_CST);
  if (by != NULL) by->wanted();
  return (function)found;
}

/* Buffers that occatrace gave may still come back. */
static void filtered(void *context, uint32_t stream, uint8_t *buffer, size_t size, size_t valid) {
  const struct occatrace_cupti_watch *by = __atomic_load_n(&watch, __ATOMIC_SEQ_CST);
  if (by == NULL || !by->take(buffer)) their_completed(context, stream, buffer, size, valid);
}

#define PASS(which, a, b, c, d) \
  const function on = wanted(which, __builtin_return_address(0)); \
  return on == NULL ? NOT_INITIALIZED : on(a, b, c, d)

OCCATRACE_EXPORT int cuptiSubscribe(void *subscriber, void *callback, void *user) { PASS(SUBSCRIBE, subscriber, callback, user, NULL); }
OCCATRACE_EXPORT int cuptiSubscribe_v2(void *subscriber, void *callback, void *user, void *parameters) {
  PASS(SUBSCRIBE_V2, subscriber, callback, user, parameters);
}
OCCATRACE_EXPORT int cuptiActivityRegisterCallbacks(void *requested, void *done) {
  if (done != NULL && __atomic_load_n(&watch, __ATOMIC_SEQ_CST) != NULL) {
    their_completed = (completed)done;
    done = (void *)filtered;
  }
  PASS(REGISTER_CALLBACKS, requested, done, NULL, NULL);
}
OCCATRACE_EXPORT int cuptiActivityRegisterTimestampCallback(void *clock) { PASS(REGISTER_CLOCK, clock, NULL, NULL, NULL); }
OCCATRACE_EXPORT int cuptiActivityEnable(uint32_t kind) { PASS(ENABLE, (void *)(uintptr_t)kind, NULL, NULL, NULL); }
OCCATRACE_EXPORT int cuptiActivityEnableContext(void *context, uint32_t kind) {
  PASS(ENABLE_CONTEXT, context, (void *)(uintptr_t)kind, NULL, NULL);
}

static void *const ours[COUNT] = {(void *)cuptiSubscribe,
                                  (void *)cuptiSubscribe_v2,
                                  (void *)cuptiActivityRegisterCallbacks,
                                  (void *)cuptiActivityRegisterTimestampCallback,
                                  (void *)cuptiActivityEnable,
                                  (void *)cuptiActivityEnableContext};

void *occatrace_in_front_of_cupti(const char *name, void *found, const void *caller) {
  const struct occatrace_cupti_watch *by = __atomic_load_n(&watch, __ATOMIC_SEQ_CST);
  /* Our own search for the real ones. */
  const char *const at = caller;
  if (occatrace_is_core(caller) || (at >= __ehdr_start && at < _end) || (by != NULL && occatrace_in_one_library(caller, by->code)))
    return found;
  void *serves = by != NULL ? by->library() : NULL;
  void *of_that = serves != NULL ? dlsym(serves, name) : NULL;
  if (of_that != NULL) found = of_that;
  int which = 0;
  while (which < COUNT && strcmp(name, names[which]) != 0) which++;
  if (which == COUNT || found == ours[which]) return found;
  /* Without one that serves, a second CUPTI of the program's is left alone. */
  void *none = NULL;
  if (!__atomic_compare_exchange_n(&real[which], &none, found, 0, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE) && none != found) return found;
  return ours[which];
}
