/* Preloaded symbols: finding the real functions, and loading the backend of an API at the first call of one of them. */
#define _GNU_SOURCE
#include "trampoline.h"

#include <dlfcn.h>
#include <link.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "internal.h"

static int is_ours(const void *address) {
  Dl_info here, there;
  return dladdr((const void *)occatrace_find_symbol, &here) && dladdr(address, &there) &&
         here.dli_fbase == there.dli_fbase;
}

static void *in_object(const char *file, const char *symbol) {
  void *handle = dlopen(file, RTLD_LAZY | RTLD_NOLOAD);
  if (handle == NULL) return NULL;
  void *found = dlsym(handle, symbol); /* also searches what the object depends on */
  dlclose(handle);
  return found != NULL && !is_ours(found) ? found : NULL;
}

void *occatrace_find_symbol(const char *symbol, const void *near) {
  void *found = dlsym(RTLD_NEXT, symbol);
  if (found != NULL && !is_ours(found)) return found;
  /* Loaded RTLD_LOCAL (a Python extension): through the caller's object, then through every object. */
  Dl_info info;
  struct link_map *map = NULL;
  if (near != NULL && dladdr1(near, &info, (void **)&map, RTLD_DL_LINKMAP) && map != NULL && map->l_name[0]) {
    found = in_object(map->l_name, symbol);
    if (found != NULL) return found;
  }
  void *program = dlopen(NULL, RTLD_LAZY);
  if (program == NULL || dlinfo(program, RTLD_DI_LINKMAP, &map) != 0) return NULL;
  for (; map != NULL; map = map->l_next) {
    if (map->l_name == NULL || map->l_name[0] == '\0') continue;
    found = in_object(map->l_name, symbol);
    if (found != NULL) return found;
  }
  return NULL;
}

static void no_such_function(void) {
  occatrace_say("a preloaded function was called that no loaded library has; please report this");
  abort();
}

static pthread_mutex_t bind_lock = PTHREAD_RECURSIVE_MUTEX_INITIALIZER_NP;

void *occatrace_trampoline_resolve(struct occatrace_trampolines *t, uint64_t index, const void *caller) {
  pthread_mutex_lock(&bind_lock);
  /* The first call of any symbol binds them all; `original` of this symbol tells whether that was done. */
  if (t->original[index] == NULL) {
    void **slots = calloc(t->count, sizeof *slots);
    for (uint32_t i = 0; i < t->count; i++) {
      t->original[i] = occatrace_find_symbol(t->symbols[i], caller);
      if (slots != NULL) slots[i] = t->original[i] != NULL ? t->original[i] : (void *)no_such_function;
    }
    if (t->original[index] == NULL) no_such_function();
    struct occatrace_trampolines copy = *t;
    copy.slots = slots;
    if (slots != NULL) {
      char file[64], bind[64];
      snprintf(file, sizeof file, "liboccatrace_%s.so", t->api);
      snprintf(bind, sizeof bind, "occatrace_bind_%s", t->api);
      void *backend = occatrace_capture_wanted() ? occatrace_load_library(file) : NULL;
      void (*bind_backend)(const struct occatrace_trampolines *) =
          backend == NULL ? NULL : (void (*)(const struct occatrace_trampolines *))dlsym(backend, bind);
      if (bind_backend != NULL) bind_backend(&copy);
      for (uint32_t i = 0; i < t->count; i++) __atomic_store_n(&t->slots[i], slots[i], __ATOMIC_RELEASE);
      free(slots);
    } else {
      for (uint32_t i = 0; i < t->count; i++)
        if (t->original[i] != NULL) __atomic_store_n(&t->slots[i], t->original[i], __ATOMIC_RELEASE);
    }
  }
  pthread_mutex_unlock(&bind_lock);
  return t->slots[index];
}
