/* Preloaded symbols: finding the real functions, and loading the backend of an API at the first call of one of them. */
#define _GNU_SOURCE
#include "trampoline.h"

#include <dlfcn.h>
#include <link.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "samples.h"

/* Of the linker: where this library begins and ends. (dladdr would search a symbol table each time.) */
extern const char __ehdr_start[] __attribute__((visibility("hidden")));
extern const char _end[] __attribute__((visibility("hidden")));

static int is_ours(const void *address) { return (const char *)address >= __ehdr_start && (const char *)address < _end; }

int occatrace_is_core(const void *address) { return is_ours(address); }

static void *in_object(const char *file, const char *symbol, const char *begin, const char *end) {
  void *handle = dlopen(file, RTLD_LAZY | RTLD_NOLOAD);
  if (handle == NULL) return NULL;
  void *found = dlsym(handle, symbol); /* also searches what the object depends on */
  dlclose(handle);
  if ((const char *)found >= begin && (const char *)found < end) return NULL;
  return found != NULL && !is_ours(found) ? found : NULL;
}

void *occatrace_next_symbol(const char *symbol) {
  void *found = dlsym(RTLD_NEXT, symbol);
  return found != NULL && !is_ours(found) ? found : NULL;
}

void *occatrace_find_symbol(const char *symbol, const void *near) {
  void *found = occatrace_next_symbol(symbol);
  return found != NULL ? found : occatrace_find_symbol_beside(symbol, near, __ehdr_start, _end);
}

void *occatrace_find_symbol_beside(const char *symbol, const void *near, const void *begin, const void *end) {
  void *found;
  /* Loaded RTLD_LOCAL (a Python extension): through the caller's object, then through every object. */
  Dl_info info;
  struct link_map *map = NULL;
  if (near != NULL && dladdr1(near, &info, (void **)&map, RTLD_DL_LINKMAP) && map != NULL && map->l_name[0]) {
    found = in_object(map->l_name, symbol, begin, end);
    if (found != NULL) return found;
  }
  void *program = dlopen(NULL, RTLD_LAZY);
  if (program == NULL || dlinfo(program, RTLD_DI_LINKMAP, &map) != 0) return NULL;
  for (; map != NULL; map = map->l_next) {
    if (map->l_name == NULL || map->l_name[0] == '\0') continue;
    found = in_object(map->l_name, symbol, begin, end);
    if (found != NULL) return found;
  }
  return NULL;
}

static void no_such_function(void) {
  occatrace_say("a preloaded function was called that no loaded library has; please report this");
  abort();
}

static pthread_mutex_t bind_lock = PTHREAD_RECURSIVE_MUTEX_INITIALIZER_NP;

/* A symbol of an API: of the library that was asked for it by handle, else the one that the caller means. */
static void *find_original(const struct occatrace_trampolines *t, const char *symbol, const void *caller) {
  Dl_info info;
  void *found = t->chosen != NULL && dladdr(t->chosen, &info) ? in_object(info.dli_fname, symbol, __ehdr_start, _end) : NULL;
  return found != NULL ? found : occatrace_find_symbol(symbol, caller);
}

/* Libraries that the program's environment preloads beside ours: what they put before an API is meant to be called. */
enum { SHIMS = 8 };
static int find_shims(void *shims[SHIMS]) {
  const char *at = getenv("LD_PRELOAD");
  int count = 0;
  while (at != NULL && *at != '\0' && count < SHIMS) {
    const size_t length = strcspn(at, ": ");
    char file[4096];
    snprintf(file, sizeof file, "%.*s", (int)length, at);
    at += length + (at[length] != '\0');
    if (length == 0 || strstr(file, "liboccatrace") != NULL) continue;
    shims[count] = dlopen(file, RTLD_LAZY | RTLD_NOLOAD);
    if (shims[count] != NULL) count++;
  }
  return count;
}
static void *in_shim(void *const *shims, int count, const char *symbol) {
  for (int i = 0; i < count; i++) {
    Dl_info info;
    struct link_map *map = NULL;
    void *found = dlsym(shims[i], symbol); /* also searches what it depends on */
    if (found != NULL && dladdr1(found, &info, (void **)&map, RTLD_DL_LINKMAP) && (void *)map == shims[i]) return found;
  }
  return NULL;
}

/* The real functions of all symbols, given that of one. What an API offers comes in one object (and what it needs): only
 * there is looked, because a search of every object for every symbol of every version of an API takes a while. */
static void find_originals(struct occatrace_trampolines *t, uint64_t known, const void *caller) {
  Dl_info info;
  const void *inside = t->anchor != NULL ? find_original(t, t->anchor, caller) : NULL;
  if (inside == NULL) inside = t->original[known];
  void *home = dladdr(inside, &info) ? dlopen(info.dli_fname, RTLD_LAZY | RTLD_NOLOAD) : NULL;
  void *shims[SHIMS];
  const int count = home != NULL && t->chosen == NULL ? find_shims(shims) : 0;
  for (uint32_t i = 0; i < t->count; i++) {
    if (i == known) continue;
    void *found = home != NULL ? dlsym(home, t->symbols[i]) : occatrace_find_symbol(t->symbols[i], caller);
    void *before = found != NULL && count > 0 ? in_shim(shims, count, t->symbols[i]) : NULL;
    if (before != NULL) found = before;
    /* A part of it in a library of its own (a mode of OCCA's), linked with the program. */
    if (found == NULL && t->anchor == NULL) found = occatrace_next_symbol(t->symbols[i]);
    t->original[i] = found != NULL && !is_ours(found) ? found : NULL;
  }
  for (int i = 0; i < count; i++) dlclose(shims[i]);
  if (home != NULL) dlclose(home);
}

void *occatrace_trampoline_resolve(struct occatrace_trampolines *t, uint64_t index, const void *caller) {
  pthread_mutex_lock(&bind_lock);
  if (t->original[index] == NULL) {
    t->original[index] = find_original(t, t->symbols[index], caller);
    if (t->original[index] == NULL) no_such_function();
    if (t->bound) {
      /* Somewhere else than the others: called, but not traced. */
      __atomic_store_n(&t->slots[index], t->original[index], __ATOMIC_RELEASE);
    } else {
      /* The first call of any symbol binds them all. What has no original keeps its resolver. */
      t->bound = 1;
      find_originals(t, index, caller);
      void **slots = malloc(t->count * sizeof *slots);
      if (slots == NULL) abort();
      for (uint32_t i = 0; i < t->count; i++) slots[i] = t->original[i] != NULL ? t->original[i] : t->slots[i];
      struct occatrace_trampolines copy = *t;
      copy.slots = slots;
      char file[64], bind[64];
      snprintf(file, sizeof file, "liboccatrace_%s.so", t->api);
      snprintf(bind, sizeof bind, "occatrace_bind_%s", t->api);
      /* Where nothing is recorded a call only has to go where it belongs: for that, too, the backend may be needed. */
      const int wanted = (occatrace_capture_wanted() && occatrace_chosen(t->api)) || (t->per_caller && occatrace_next_symbol(t->symbols[index]) == NULL);
      void *backend = wanted ? occatrace_load_library(file) : NULL;
      void (*bind_backend)(const struct occatrace_trampolines *) =
          backend == NULL ? NULL : (void (*)(const struct occatrace_trampolines *))dlsym(backend, bind);
      if (bind_backend != NULL) bind_backend(&copy);
      for (uint32_t i = 0; i < t->count; i++) __atomic_store_n(&t->slots[i], slots[i], __ATOMIC_RELEASE);
      free(slots);
      t->bound = 2;
    }
  }
  /* Called by the backend itself while it binds: the slots still lead here. */
  void *next = t->bound == 1 ? t->original[index] : t->slots[index];
  pthread_mutex_unlock(&bind_lock);
  return next;
}

int occatrace_leads_to(const void *ours, const void *real) {
  struct occatrace_trampolines *const *all = occatrace_all_trampolines;
  uint64_t index = 0;
  for (; *all != NULL; all++) {
    index = (uint64_t)((const char *)ours - (*all)->begin) / OCCATRACE_TRAMPOLINE_SIZE;
    if ((*all)->begin != NULL && index < (*all)->count) break;
  }
  struct occatrace_trampolines *const t = *all;
  if (t == NULL) return 0;
  pthread_mutex_lock(&bind_lock);
  Dl_info asked, chosen;
  int same = t->original[index] == real;
  if (t->bound == 0) {
    /* What calls without a handle find comes first: all go to one library. */
    const void *found = occatrace_next_symbol(t->symbols[index]);
    if (found == NULL) found = t->chosen != NULL ? t->chosen : real;
    same = dladdr(real, &asked) && dladdr(found, &chosen) && asked.dli_fbase == chosen.dli_fbase;
    /* It stays, whoever closes it: calls of others would go to where it was. */
    if (same && t->chosen == NULL) dlopen(asked.dli_fname, RTLD_LAZY | RTLD_NOLOAD);
    if (same) t->chosen = real;
  }
  pthread_mutex_unlock(&bind_lock);
  return same;
}

/* ---- libraries that go ---- */

uint32_t occatrace_unloads;

static int read_unloads(struct dl_phdr_info *info, size_t size, void *data) {
  (void)size;
  *(unsigned long long *)data = info->dlpi_subs;
  return 1; /* of the process, the same for each library */
}

/* Most calls unload nothing: others have the library open too (our own searches open one that is there, and close it). */
static void count_unloads(void) {
  static unsigned long long known;
  unsigned long long now = 0;
  dl_iterate_phdr(read_unloads, &now);
  if (__atomic_exchange_n(&known, now, __ATOMIC_ACQ_REL) != now) __atomic_add_fetch(&occatrace_unloads, 1, __ATOMIC_RELEASE);
}

OCCATRACE_EXPORT int dlclose(void *handle) {
  static int (*real)(void *);
  if (real == NULL) real = (int (*)(void *))dlsym(RTLD_NEXT, "dlclose");
  const int sampling = __atomic_load_n(&occatrace_sampling, __ATOMIC_ACQUIRE);
  if (sampling) occatrace_sample_closing();
  const int result = real(handle);
  if (sampling) occatrace_sample_closed();
  count_unloads();
  return result;
}
