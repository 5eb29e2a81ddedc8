/* An API that the program used past us, told to occa_prof at the end of the process: what it prints would otherwise look as if
 * nothing had been used. Of OpenCL: a loader has loaded a driver, so it was called, and never started our layer. */
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

static int opencl_served;

void occatrace_served(const char *api) {
  if (strcmp(api, "opencl") == 0) opencl_served = 1;
}

static const char *file_of(const char *path) {
  const char *slash = strrchr(path, '/');
  return slash == NULL ? path : slash + 1;
}

static int is_loader(const char *path) { return strncmp(file_of(path), "libOpenCL", 9) == 0; }

struct libraries {
  const char *loader;
  unsigned count;
  const char *paths[MOST_LIBRARIES];
};

static int find_loader(struct dl_phdr_info *info, size_t size, void *data) {
  (void)size;
  struct libraries *found = data;
  if (is_loader(info->dlpi_name)) found->loader = info->dlpi_name;
  return found->loader != NULL;
}

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

__attribute__((destructor)) static void tell_unseen(void) {
  const int saved = errno;
  if (opencl_served || !occatrace_capture_wanted() || !occatrace_chosen("opencl")) return;
  static struct libraries found; /* too large for a small stack */
  dl_iterate_phdr(find_loader, &found);
  if (found.loader == NULL) return;
  dl_iterate_phdr(list, &found);
  unsigned drivers = 0;
  for (unsigned at = 0; at < found.count; at++) drivers += (unsigned)is_driver(found.paths[at]);
  const char *layers = getenv("OPENCL_LAYERS");
  const int named = layers != NULL && strstr(layers, "liboccatrace_opencl") != NULL;
  if (drivers > 0) tell("opencl", named ? "layer" : "variable", found.loader);
  errno = saved;
}
