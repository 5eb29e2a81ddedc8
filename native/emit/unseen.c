/* An API of which nothing was seen although its library was loaded, reported to occa_prof at the end of the process: the
 * summary would otherwise look as if it had not been used. OpenCL was used where a loader has loaded a driver and never started
 * our layer. Of the others it is not known whether they were called. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <link.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "internal.h"

enum { MOST_LIBRARIES = 1024, PATIENCE_MS = 10000 };

static const struct rule { const char *file, *api; } rules[] = {
    {"libOpenCL", "opencl"},      {"libcuda.so", "cuda"},  {"libamdhip64.so", "hip"}, {"libocca.so", "occa"},
    {"libmpi.so", "mpi"},         {"libmpich.so", "mpi"},  {"libomp.so", "openmp"},   {"libiomp5.so", "openmp"},
    {"libze_loader.so", "ze"},
};
enum { RULES = sizeof rules / sizeof *rules };
static int served[RULES];

void occatrace_served(const char *api) {
  for (int at = 0; at < RULES; at++)
    if (strcmp(api, rules[at].api) == 0) served[at] = 1;
}

static const char *file_of(const char *path) {
  const char *slash = strrchr(path, '/');
  return slash == NULL ? path : slash + 1;
}

static int is_loader(const char *path) { return strncmp(file_of(path), "libOpenCL", 9) == 0; }

struct libraries {
  unsigned count;
  const char *paths[MOST_LIBRARIES];
};

static int list(struct dl_phdr_info *info, size_t size, void *data) {
  (void)size;
  struct libraries *found = data;
  if (found->count < MOST_LIBRARIES) found->paths[found->count++] = info->dlpi_name;
  return 0;
}

/* Every driver exports this function for its loader, and nothing else but a loader does. */
static int is_driver(const char *path) {
  if (*path == '\0' || is_loader(path) || strncmp(file_of(path), "liboccatrace", 12) == 0) return 0;
  void *library = dlopen(path, RTLD_LAZY | RTLD_NOLOAD);
  void *function = library == NULL ? NULL : dlsym(library, "clGetExtensionFunctionAddress");
  Dl_info info;
  const int own = function != NULL && dladdr(function, &info) != 0 && info.dli_fname != NULL && strcmp(info.dli_fname, path) == 0;
  if (library != NULL) dlclose(library);
  return own;
}

/* Waits for the answer: with this process occa_prof may end, and would then not read it. */
static void tell(const char *api, const char *why, const char *path) {
  const char *place = getenv("OCCATRACE_SOCKET");
  struct sockaddr_un address = {.sun_family = AF_UNIX};
  if (place == NULL || *place == '\0' || strlen(place) >= sizeof address.sun_path) return;
  strcpy(address.sun_path, place);
  const int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
  if (fd < 0) return;
  char text[256];
  int n = snprintf(text, sizeof text, "UNSEEN %ld %ld %s %s %s", (long)getpid(), (long)getuid(), api, why, path);
  if (n >= (int)sizeof text) n = sizeof text - 1;
  struct pollfd answer = {.fd = fd, .events = POLLIN};
  if (connect(fd, (struct sockaddr *)&address, sizeof address) == 0 && occatrace_is_of_our_run(fd) &&
      send(fd, text, (size_t)n, MSG_NOSIGNAL) == n)
    poll(&answer, 1, PATIENCE_MS);
  close(fd);
}

/* Libraries of ours that stand for one of an API's (shims). */
static int is_ours(const char *path) {
  Dl_info info;
  if (!dladdr((const void *)occatrace_served, &info) || info.dli_fname == NULL) return 0;
  return strncmp(path, info.dli_fname, (size_t)(file_of(info.dli_fname) - info.dli_fname)) == 0;
}

static void tell_opencl(const struct libraries *all, const char *loader) {
  unsigned drivers = 0;
  for (unsigned at = 0; at < all->count; at++) drivers += (unsigned)is_driver(all->paths[at]);
  const char *layers = getenv("OPENCL_LAYERS");
  const int named = layers != NULL && strstr(layers, "liboccatrace_opencl") != NULL;
  if (drivers > 0) tell("opencl", named ? "layer" : "variable", loader);
}

/* A runtime of OpenMP asks for tools as it starts, at its first use, unless the user does not want any. In a process that has
 * recorded something else a library that nobody calls is nothing unusual, but for OCCA: what it is used for was recorded. */
static void tell_of(const struct libraries *all, const struct rule *rule, const char *path) {
  const char *tool = getenv("OMP_TOOL");
  if (strcmp(rule->api, "opencl") == 0) tell_opencl(all, path);
  else if (strcmp(rule->api, "openmp") == 0) {
    if (tool != NULL && strcmp(tool, "disabled") == 0) tell(rule->api, "disabled", path);
  } else if ((strcmp(rule->api, "occa") == 0 || !occatrace_is_recorded()) && !is_ours(path)) tell(rule->api, "silent", path);
}

__attribute__((destructor)) static void tell_unseen(void) {
  const int saved = errno;
  static struct libraries all; /* too large for a small stack */
  if (!occatrace_capture_wanted()) return;
  dl_iterate_phdr(list, &all);
  for (unsigned at = 0; at < all.count; at++) {
    const char *name = file_of(all.paths[at]);
    if (strncmp(name, "lib", 3) != 0) continue;
    for (int r = 0; r < RULES; r++) {
      if (served[r] || strncmp(name, rules[r].file, strlen(rules[r].file)) != 0 || !occatrace_chosen(rules[r].api)) continue;
      tell_of(&all, &rules[r], all.paths[at]);
      occatrace_served(rules[r].api); /* once */
    }
  }
  errno = saved;
}
