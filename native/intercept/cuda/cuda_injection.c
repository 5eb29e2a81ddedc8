/* What CUDA_INJECTION64_PATH names: the CUDA driver loads it in its first cuInit and calls InitializeInjection. Where the program
 * came through our libcuda.so.1 that sees its calls, and there is nothing to do. Else (the driver opened by its path) CUPTI
 * tells of them, by another library, which is loaded only then. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <link.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "occatrace_core.h"

/* Libraries that may be the driver or our shim; opened only when the list is complete, lest the loader's locks be taken in two
 * orders. */
struct list {
  unsigned count;
  char *paths[16];
};

static int note(struct dl_phdr_info *info, size_t size, void *data) {
  (void)size;
  struct list *list = data;
  const char *slash = strrchr(info->dlpi_name, '/');
  if (strncmp(slash != NULL ? slash + 1 : info->dlpi_name, "libcuda", 7) == 0 && list->count < sizeof list->paths / sizeof *list->paths)
    list->paths[list->count++] = strdup(info->dlpi_name);
  return 0;
}

/* The library at this path, if it is loaded and is the shim, or else the driver. */
static void *library_at(const char *path, int shim) {
  void *library = path != NULL ? dlopen(path, RTLD_LAZY | RTLD_NOLOAD) : NULL;
  if (library == NULL) return NULL;
  /* What a library needs is searched too, and the shim needs the driver: whose the function is has to be asked. */
  const char *mark = "occatrace_cuda_shim_serves";
  void *entry = dlsym(library, shim ? mark : "cuInit");
  Dl_info info;
  struct link_map *map = NULL;
  if (entry != NULL && dladdr(entry, &info) != 0 && dlinfo(library, RTLD_DI_LINKMAP, &map) == 0 &&
      (uintptr_t)info.dli_fbase == (uintptr_t)map->l_addr && (dlsym(library, mark) != NULL) == shim)
    return library;
  dlclose(library);
  return NULL;
}

static void *find(int shim) {
  struct list list = {0, {NULL}};
  dl_iterate_phdr(note, &list);
  void *found = NULL;
  for (unsigned i = 0; i < list.count; i++) {
    if (found == NULL) found = library_at(list.paths[i], shim);
    free(list.paths[i]);
  }
  return found;
}

OCCATRACE_EXPORT int InitializeInjection(void) {
  if (!occatrace_capture_wanted() || !occatrace_chosen("cuda")) return 1;
  void *shim = find(1);
  if (shim != NULL) {
    int (*serves)(void) = (int (*)(void))dlsym(shim, "occatrace_cuda_shim_serves");
    if (serves()) return 1;
  }
  /* The driver is who calls us, or a library beside it. */
  Dl_info caller;
  void *driver = dladdr(__builtin_return_address(0), &caller) != 0 ? library_at(caller.dli_fname, 0) : NULL;
  if (driver == NULL) driver = find(0);
  void *library = driver != NULL ? occatrace_load_library("liboccatrace_cuda_callbacks.so") : NULL;
  void (*begin)(void *) = library != NULL ? (void (*)(void *))dlsym(library, "occatrace_cuda_injected") : NULL;
  if (begin != NULL) begin(driver);
  return 1;
}
