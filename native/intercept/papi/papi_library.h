/* PAPI, found on the machine and opened by hand: neither its headers nor its library are needed to build us, and one library
 * of ours goes with every version since 5.4. Used in the traced process and by occa_prof, which says what cannot be counted. */
#ifndef OCCATRACE_PAPI_LIBRARY_H
#define OCCATRACE_PAPI_LIBRARY_H

#ifdef __cplusplus
extern "C" {
#endif

#include "bounds.h"

enum {
  PAPI_LIBRARY_MOST = OCCATRACE_PAPI_MOST,
  PAPI_LIBRARY_NAME = OCCATRACE_PAPI_LONGEST_NAME + 1,
};

struct papi_library {
  int (*library_init)(int version);
  int (*thread_init)(unsigned long (*id)(void));
  int (*unregister_thread)(void);
  int (*create_eventset)(int *set);
  int (*event_name_to_code)(const char *name, int *code);
  int (*add_event)(int set, int code);
  int (*start)(int set);
  int (*read)(int set, long long *values);
  int (*stop)(int set, long long *values);
  int (*cleanup_eventset)(int set);
  int (*destroy_eventset)(int *set);
  char *(*strerror)(int code);
  int version; /* as PAPI_library_init takes it */
};

struct papi_counters {
  unsigned count;
  char names[PAPI_LIBRARY_MOST][PAPI_LIBRARY_NAME];
};

/* Opens and initializes PAPI; NULL, or why there is none. */
const char *papi_open(struct papi_library *papi);
/* Whether this process has PAPI without us: one of the two can count at a time. */
int papi_is_used(void);
/* The names in a list with commas between them. What is beyond PAPI_LIBRARY_MOST, or too long, goes to `refused`. */
typedef void (*papi_refused)(void *data, const char *name, const char *why);
void papi_split(const char *list, struct papi_counters *counters, papi_refused refused, void *data);
/* An event set of the calling thread, with those that can be counted together; the others are taken out of `counters` and
 * go to `refused` (NULL: to nobody). Negative: PAPI's error. */
int papi_make_set(const struct papi_library *papi, struct papi_counters *counters, papi_refused refused, void *data);
void papi_drop_set(const struct papi_library *papi, int set);

#ifdef __cplusplus
}
#endif
#endif
