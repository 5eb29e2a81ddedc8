/* Counters of PAPI are read by liboccatrace_papi.so, which only those processes load for which the person wants some. */
#include <dlfcn.h>
#include <stdlib.h>

#include "internal.h"

const struct occatrace_counters *occatrace_counting;

void occatrace_counting_start(void) {
  static int begun;
  const char *wanted = getenv("OCCATRACE_PAPI");
  if (wanted == NULL || *wanted == '\0' || __atomic_exchange_n(&begun, 1, __ATOMIC_ACQ_REL)) return;
  const void *provider = occatrace_provider("papi");
  void *library = provider == NULL ? NULL : occatrace_load_library("liboccatrace_papi.so");
  const struct occatrace_counters *(*start)(const void *, const char *) =
      library == NULL ? NULL : (const struct occatrace_counters *(*)(const void *, const char *))dlsym(library, "occatrace_papi_start");
  if (start != NULL) __atomic_store_n(&occatrace_counting, start(provider, wanted), __ATOMIC_RELEASE);
}
