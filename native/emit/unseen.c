/* An API of which nothing was seen although its library was loaded, reported to occa_prof at the end of the process: the
 * summary would otherwise look as if it had not been used. OpenCL was used where a loader has loaded a driver and never started
 * our layer. Of the others it is not known whether they were called. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <link.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "internal.h"

enum {
  MOST_LIBRARIES = 1024,
  PATIENCE_MS = 10000,
};

static const struct rule {
  const char *file, *api;
} rules[] = {
    {"libOpenCL", "opencl"},
    {"libcuda.so", "cuda"},
    {"libamdhip64.so", "hip"},
    {"libocca.so", "occa"},
    {"libmpi.so", "mpi"},
    {"libmpich.so", "mpi"},
    {"libomp.so", "openmp"},
    {"libiomp5.so", "openmp"},
    {"libze_loader.so", "ze"},
    {"libsycl.so", "sycl"},
};
enum { RULES = sizeof rules / sizeof *rules };
static int served[RULES];

void occatrace_served(const char *api) {
  for (int at = 0; at < RULES; at++)
    if (strcmp(api, rules[at].api) == 0) served[at] = 1;
}

static int is_served(const char *api) {
  int found = 0;
  for (int at = 0; at < RULES; at++) found |= strcmp(api, rules[at].api) == 0 && served[at];
  return found;
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

/* Whether a library exports a function itself. */
static int has(const char *path, const char *name) {
  void *library = dlopen(path, RTLD_LAZY | RTLD_NOLOAD);
  void *function = library == NULL ? NULL : dlsym(library, name);
  Dl_info info;
  const int own = function != NULL && dladdr(function, &info) != 0 && info.dli_fname != NULL && strcmp(info.dli_fname, path) == 0;
  if (library != NULL) dlclose(library);
  return own;
}

/* Every driver exports this function for its loader, and nothing else but a loader does. All have "cl" in their names (libpocl,
 * libnvidia-opencl, libamdocl64, libigdrcl, libRusticlOpenCL): others are not asked. */
static int is_driver(const char *path) {
  const char *name = file_of(path);
  if (strcasestr(name, "cl") == NULL || is_loader(path) || strncmp(name, "liboccatrace", 12) == 0) return 0;
  return has(path, "clGetExtensionFunctionAddress") && (has(path, "clIcdGetPlatformIDsKHR") || !has(path, "clCreateContext"));
}

static char program[512]; /* its path; empty: not known */

/* Programs of MPI's own, which look into its library and call nothing (heat and others start ompi_info as they are imported). */
static int is_tool_of_mpi(void) {
  static const char *const names[] = {"ompi_info", "oshmem_info", "mpichversion", "mpivars"};
  for (size_t at = 0; at < sizeof names / sizeof *names; at++)
    if (strncmp(file_of(program), names[at], strlen(names[at])) == 0) return 1;
  return 0;
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

static int has_driver(const struct libraries *all) {
  for (unsigned at = 0; at < all->count; at++)
    if (is_driver(all->paths[at])) return 1;
  return 0;
}

static void tell_opencl(const struct libraries *all, const char *loader) {
  const char *layers = getenv("OPENCL_LAYERS");
  const int named = layers != NULL && strstr(layers, "liboccatrace_opencl") != NULL;
  if (has_driver(all)) tell("opencl", named ? "layer" : "variable", loader);
}

static int leaving; /* by _exit, perhaps out of a handler of a signal: nothing that allocates */

/* A runtime of OpenMP asks for tools as it starts, at its first use, unless the user does not want any; likewise SYCL's. In a
 * process that has recorded something else a library that nobody calls is nothing unusual, but for OCCA: what it is used for was
 * recorded. */
static void tell_of(const struct libraries *all, const struct rule *rule, const char *path) {
  const char *tool = getenv("OMP_TOOL"), *subscriber = getenv("XPTI_SUBSCRIBERS");
  if (strcmp(rule->api, "opencl") == 0) {
    if (!leaving) tell_opencl(all, path);
  } else if (strcmp(rule->api, "openmp") == 0) {
    if (tool != NULL && strcmp(tool, "disabled") == 0) tell(rule->api, "disabled", path);
  } else if (strcmp(rule->api, "sycl") == 0) {
    if (subscriber == NULL || strstr(subscriber, "liboccatrace_sycl") == NULL) tell(rule->api, "xpti", path);
  } else if (strcmp(rule->api, "mpi") != 0 || !is_tool_of_mpi()) {
    if ((strcmp(rule->api, "occa") == 0 || !occatrace_is_recorded()) && !is_ours(path)) tell(rule->api, "silent", path);
  }
}

/* ---- libraries inside the program ---- */

/* What only the library itself defines: its shared form is a reference, or nothing. */
static const struct inside {
  const char *symbol, *api;
} insides[] = {
    {"MPI_Init", "mpi"},
    {"MPI_Init_thread", "mpi"},
    {"mpi_init_", "mpi"},
    {"_ZNK4occa6kernel3runEv", "occa"},
};

static unsigned inside; /* bits of `insides`: the program defines them */

/* A program's own symbols, where they were not stripped. `image` is its file, whose numbers are not to be trusted. */
static unsigned find_defined(const char *image, size_t size) {
  unsigned found = 0;
  const ElfW(Ehdr) *head = (const ElfW(Ehdr) *)image;
  if (size < sizeof *head || memcmp(head->e_ident, ELFMAG, SELFMAG) != 0 || head->e_shentsize != sizeof(ElfW(Shdr))) return 0;
  if (head->e_shoff > size || (size - head->e_shoff) / sizeof(ElfW(Shdr)) < head->e_shnum) return 0;
  const ElfW(Shdr) *sections = (const ElfW(Shdr) *)(image + head->e_shoff);
  for (unsigned at = 0; at < head->e_shnum; at++) {
    const ElfW(Shdr) *table = &sections[at];
    if (table->sh_type != SHT_SYMTAB || table->sh_link >= head->e_shnum) continue;
    const ElfW(Shdr) *texts = &sections[table->sh_link];
    if (table->sh_offset > size || table->sh_size > size - table->sh_offset) break;
    if (texts->sh_offset > size || texts->sh_size > size - texts->sh_offset || texts->sh_size == 0) break;
    const char *names = image + texts->sh_offset;
    if (names[texts->sh_size - 1] != '\0') break;
    const ElfW(Sym) *symbols = (const ElfW(Sym) *)(image + table->sh_offset);
    for (size_t s = 0; s < table->sh_size / sizeof *symbols; s++) {
      if (symbols[s].st_shndx == SHN_UNDEF || symbols[s].st_name >= texts->sh_size) continue;
      const char *name = names + symbols[s].st_name;
      if (*name != 'M' && *name != 'm' && *name != '_') continue;
      for (unsigned i = 0; i < sizeof insides / sizeof *insides; i++)
        if (strcmp(name, insides[i].symbol) == 0) found |= 1U << i;
    }
  }
  return found;
}

/* At the start: at the end the program may have locked itself into a sandbox in which opening a file kills it. */
static void look_inside(void) {
  struct stat about;
  const ssize_t n = readlink("/proc/self/exe", program, sizeof program - 1);
  if (n <= 0) return;
  program[n] = '\0';
  /* The tools of the system are none of these, and many. */
  if (strncmp(program, "/usr/bin/", 9) == 0 || strncmp(program, "/bin/", 5) == 0) return;
  const int fd = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
  if (fd < 0) return;
  if (fstat(fd, &about) == 0 && about.st_size > 0) {
    void *image = mmap(NULL, (size_t)about.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
    if (image != MAP_FAILED) {
      inside = find_defined(image, (size_t)about.st_size);
      munmap(image, (size_t)about.st_size);
    }
  }
  close(fd);
}

static void tell_inside(void) {
  for (unsigned i = 0; i < sizeof insides / sizeof *insides; i++) {
    if (!(inside >> i & 1) || is_served(insides[i].api) || !occatrace_chosen(insides[i].api)) continue;
    tell(insides[i].api, "static", program);
    occatrace_served(insides[i].api);
  }
}

/* ---- the end ---- */

static pid_t started; /* the process whose end it is: children of fork do not know what their parent has yet to call */
static int told;

__attribute__((constructor)) static void note_process(void) {
  const int saved = errno;
  started = getpid();
  if (occatrace_capture_wanted()) look_inside();
  errno = saved;
}

__attribute__((destructor)) static void tell_unseen(void);
void occatrace_tell_unseen_at_exit(void) {
  if (getpid() != started) return;
  leaving = 1;
  tell_unseen();
}

static void tell_unseen(void) {
  const int saved = errno;
  static struct libraries all; /* too large for a small stack */
  if (told++ || !occatrace_capture_wanted()) return;
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
  /* A driver and no loader: that is part of the program, or of a library that does not export it (opencl/opencl_loaders.cpp). */
  if (!leaving && !is_served("opencl") && occatrace_chosen("opencl") && has_driver(&all)) tell("opencl", "loader", program);
  tell_inside();
  errno = saved;
}
