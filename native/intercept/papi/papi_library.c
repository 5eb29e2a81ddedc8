#define _GNU_SOURCE
#include "papi_library.h"

#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

/* A library takes only its own version; of these releases each has one. */
static const struct {
  int major, last_minor;
} releases[] = {{7, 9}, {6, 9}, {5, 9}};
enum { RELEASES = sizeof releases / sizeof *releases };

/* Opens one of the names under which distributions and modules have it, the newest first. */
static void *open_any(int flags) {
  char name[32];
  for (int i = 0; i < RELEASES; i++) {
    for (int minor = releases[i].last_minor; minor >= -1; minor--) {
      if (minor >= 0) snprintf(name, sizeof name, "libpapi.so.%d.%d", releases[i].major, minor);
      else snprintf(name, sizeof name, "libpapi.so.%d", releases[i].major);
      void *library = dlopen(name, flags);
      if (library != NULL) return library;
    }
  }
  return dlopen("libpapi.so", flags);
}

int papi_is_used(void) {
  if (dlsym(RTLD_DEFAULT, "PAPI_library_init") != NULL) return 1;
  void *library = open_any(RTLD_LAZY | RTLD_NOLOAD);
  if (library != NULL) dlclose(library);
  return library != NULL;
}

const char *papi_open(struct papi_library *papi) {
  void *library = open_any(RTLD_NOW | RTLD_LOCAL);
  if (library == NULL) return "there is no PAPI (libpapi.so) here: on Debian and Ubuntu install libpapi-dev or papi-tools";
  const struct {
    void **function;
    const char *name;
  } functions[] = {
      {(void **)&papi->library_init, "PAPI_library_init"},
      {(void **)&papi->thread_init, "PAPI_thread_init"},
      {(void **)&papi->unregister_thread, "PAPI_unregister_thread"},
      {(void **)&papi->create_eventset, "PAPI_create_eventset"},
      {(void **)&papi->event_name_to_code, "PAPI_event_name_to_code"},
      {(void **)&papi->add_event, "PAPI_add_event"},
      {(void **)&papi->start, "PAPI_start"},
      {(void **)&papi->read, "PAPI_read"},
      {(void **)&papi->stop, "PAPI_stop"},
      {(void **)&papi->cleanup_eventset, "PAPI_cleanup_eventset"},
      {(void **)&papi->destroy_eventset, "PAPI_destroy_eventset"},
      {(void **)&papi->strerror, "PAPI_strerror"},
  };
  for (size_t i = 0; i < sizeof functions / sizeof *functions; i++)
    if ((*functions[i].function = dlsym(library, functions[i].name)) == NULL) return "the PAPI here lacks functions that all versions have";
  for (int i = 0; i < RELEASES; i++)
    for (int minor = releases[i].last_minor; minor >= 0; minor--) {
      papi->version = releases[i].major << 24 | minor << 16;
      if (papi->library_init(papi->version) == papi->version) return NULL;
    }
  return "PAPI does not start here, or is of a version that is not known";
}

void papi_split(const char *list, struct papi_counters *counters, papi_refused refused, void *data) {
  counters->count = 0;
  while (*list != '\0') {
    const size_t length = strcspn(list, ",");
    char name[PAPI_LIBRARY_NAME];
    snprintf(name, sizeof name, "%.*s", (int)length, list);
    if (length >= sizeof name) refused(data, name, "no event has so long a name");
    else if (counters->count == PAPI_LIBRARY_MOST) refused(data, name, "too many events at a time");
    else if (length > 0) memcpy(counters->names[counters->count++], name, sizeof name);
    list += length;
    if (*list == ',') list++;
  }
}

int papi_make_set(const struct papi_library *papi, struct papi_counters *counters, papi_refused refused, void *data) {
  int set = -1; /* PAPI_NULL */
  const int made = papi->create_eventset(&set);
  if (made < 0) return made;
  unsigned kept = 0;
  for (unsigned i = 0; i < counters->count; i++) {
    int code = 0, error = papi->event_name_to_code(counters->names[i], &code);
    if (error >= 0) error = papi->add_event(set, code);
    if (error >= 0) {
      if (kept != i) memcpy(counters->names[kept], counters->names[i], PAPI_LIBRARY_NAME);
      kept++;
    } else if (refused != NULL) {
      refused(data, counters->names[i], papi->strerror(error));
    }
  }
  counters->count = kept;
  return set;
}

void papi_drop_set(const struct papi_library *papi, int set) {
  papi->cleanup_eventset(set);
  papi->destroy_eventset(&set);
}
