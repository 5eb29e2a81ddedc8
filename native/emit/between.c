/* Functions of a program that stand between its own code and a GPU's runtime: a static CUDA runtime, and the stubs that nvcc and hipcc
 * make of kernels. They are known by their names, so only where a file has its symbols. Called rarely; without malloc, for it may be in
 * a handler. */
#define _GNU_SOURCE
#include <elf.h>
#include <fcntl.h>
#include <link.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "internal.h"

enum { MOST_SECTIONS = 4096,
       MOST_BYTES = 1 << 30 };

static const char stub[] = "__device_stub_", of_static[] = "libcudart_static_", helper[] = "__cudaLaunchKernel_helper";
/* Templates of the runtime's headers, which are functions of the program if they are not inlined. */
static const char *const templates[] = {"cudaMalloc", "cudaHost", "cudaMemcpy", "cudaLaunch", "cudaFunc", "cudaOccupancy", "cudaGetSymbol"};

static int begins(const char *text, const char *with) { return strncmp(text, with, strlen(with)) == 0; }

/* Memory for so many bytes, and what they are in a file; NULL: not to be had. */
static void *memory(size_t bytes) {
  void *p = bytes != 0 ? mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) : MAP_FAILED;
  return p != MAP_FAILED ? p : NULL;
}
static void *part_of(int file, uint64_t at, uint64_t bytes) {
  if (bytes > MOST_BYTES) return NULL;
  char *p = memory(bytes);
  for (size_t done = 0; p != NULL && done < bytes;) {
    const ssize_t n = pread(file, p + done, bytes - done, (off_t)(at + done));
    if (n <= 0) {
      munmap(p, bytes);
      return NULL;
    }
    done += (size_t)n;
  }
  return p;
}

static uint64_t hash_of(const char *text, size_t length) { return occatrace_hash(OCCATRACE_HASH, text, length) | 1; } /* 0: a free place */

/* The function by which the program launches the kernel of a stub, as a hash: `_Z5scalePf` of `_Z27__device_stub__Z5scalePfPf`, `spin`
 * of a C function's `_Z21__device_stub__Z4spinyy`. Both are looked for. */
static void wrappers_of(const char *name, uint64_t hashes[2]) {
  hashes[0] = hashes[1] = 0;
  const char *const found = strstr(name, stub);
  const char *digits = found;
  while (digits > name && digits[-1] >= '0' && digits[-1] <= '9') digits--;
  const size_t identifier = strtoul(digits, NULL, 10), prefix = sizeof stub - 1;
  if (identifier <= prefix || strnlen(found, identifier) < identifier) return;
  const char *const kernel = found + prefix;
  hashes[0] = hash_of(kernel, identifier - prefix);
  char *plain = NULL;
  if (!begins(kernel, "_Z")) return;
  const size_t length = strtoul(kernel + 2, &plain, 10);
  if (plain != kernel + 2 && length != 0 && plain + length <= found + identifier) hashes[1] = hash_of(plain, length);
}

struct set {
  uint64_t *of;
  size_t size; /* a power of two */
};
static void put(struct set *s, uint64_t hash) {
  if (hash == 0) return;
  size_t at = hash & (s->size - 1);
  while (s->of[at] != 0 && s->of[at] != hash) at = (at + 1) & (s->size - 1);
  s->of[at] = hash;
}
static int has(const struct set *s, uint64_t hash) {
  size_t at = hash & (s->size - 1);
  while (s->of[at] != 0 && s->of[at] != hash) at = (at + 1) & (s->size - 1);
  return s->of[at] != 0;
}

struct symbols {
  const ElfW(Sym) * all;
  size_t count;
  const char *texts;
  size_t text_size;
};

static const char *function_name(const struct symbols *s, size_t i) {
  const ElfW(Sym) *one = &s->all[i];
  if (ELF64_ST_TYPE(one->st_info) != STT_FUNC || one->st_shndx == SHN_UNDEF || one->st_size == 0 || one->st_name >= s->text_size) return NULL;
  return s->texts + one->st_name;
}

static int is_of_runtime(const char *name) {
  if (begins(name, of_static) || begins(name, "__cuda")) return 1;
  return begins(name, "cuda") && name[4] >= 'A' && name[4] <= 'Z';
}
static int is_template(const char *name) {
  if (!begins(name, "_Z")) return 0;
  for (name += 2; *name == 'L' || (*name >= '0' && *name <= '9');) name++;
  for (size_t i = 0; i < sizeof templates / sizeof *templates; i++)
    if (begins(name, templates[i])) return 1;
  return 0;
}

static void sort(struct occatrace_code *of, size_t count) {
  for (size_t gap = count / 2; gap > 0; gap /= 2) {
    for (size_t i = gap; i < count; i++) {
      const struct occatrace_code one = of[i];
      size_t at = i;
      for (; at >= gap && of[at - gap].begin > one.begin; at -= gap) of[at] = of[at - gap];
      of[at] = one;
    }
  }
}

static const struct occatrace_between none;

static const struct occatrace_between *between(const struct symbols *s, uintptr_t base) {
  const int stubs = memmem(s->texts, s->text_size, stub, sizeof stub - 1) != NULL;
  const int is_static = memmem(s->texts, s->text_size, of_static, sizeof of_static - 1) != NULL;
  if (!stubs && !is_static) return &none;
  size_t kernels = 0;
  for (size_t i = 0; i < s->count; i++) {
    const char *name = function_name(s, i);
    kernels += name != NULL && strstr(name, stub) != NULL;
  }
  struct set wrappers = {NULL, 64};
  while (wrappers.size < 8 * kernels) wrappers.size *= 2;
  wrappers.of = memory(wrappers.size * sizeof *wrappers.of);
  if (wrappers.of == NULL) return &none;
  for (size_t i = 0; i < s->count && kernels != 0; i++) {
    const char *name = function_name(s, i);
    if (name == NULL || strstr(name, stub) == NULL) continue;
    uint64_t hashes[2];
    wrappers_of(name, hashes);
    put(&wrappers, hashes[0]);
    put(&wrappers, hashes[1]);
  }
  /* Of few of the pages is anything written. */
  struct occatrace_code *const all = memory(s->count * sizeof *all);
  size_t count = 0, apart = 0;
  for (size_t i = 0; all != NULL && i < s->count; i++) {
    const char *name = function_name(s, i);
    if (name == NULL) continue;
    const int between = (is_static && is_of_runtime(name)) || is_template(name) || strstr(name, helper) != NULL ||
                        (stubs && (strstr(name, stub) != NULL || has(&wrappers, hash_of(name, strlen(name)))));
    /* A return address is behind the call. */
    const uintptr_t begin = base + s->all[i].st_value + 1;
    if (between) all[count++] = (struct occatrace_code){begin, begin + s->all[i].st_size};
  }
  munmap(wrappers.of, wrappers.size * sizeof *wrappers.of);
  sort(all, count);
  for (size_t i = 0; i < count; i++) {
    struct occatrace_code *const last = apart != 0 ? &all[apart - 1] : NULL;
    /* Padding between two functions is nobody's. */
    if (last == NULL || all[i].begin > last->end + 16) all[apart++] = all[i];
    else if (all[i].end > last->end) last->end = all[i].end;
  }
  struct occatrace_between *const result = apart != 0 ? memory(sizeof *result + apart * sizeof *result->of) : NULL;
  if (result != NULL) {
    result->count = apart;
    memcpy(result->of, all, apart * sizeof *all);
  }
  if (all != NULL) munmap(all, s->count * sizeof *all);
  return result != NULL ? result : &none;
}

/* Whether a file has the build id of the module in memory. */
static int same_build(int file, const ElfW(Shdr) * sections, size_t count, const char *build_id) {
  char found[OCCATRACE_BUILD_ID] = "";
  for (size_t i = 0; i < count && found[0] == '\0'; i++) {
    const size_t size = sections[i].sh_size;
    void *const notes = sections[i].sh_type == SHT_NOTE ? part_of(file, sections[i].sh_offset, size) : NULL;
    if (notes == NULL) continue;
    occatrace_read_build_id(found, (uintptr_t)notes, size);
    munmap(notes, size);
  }
  return strcmp(found, build_id) == 0;
}

const struct occatrace_between *occatrace_find_between(const char *path, const char *build_id, uintptr_t base) {
  const struct occatrace_between *result = &none;
  const int file = open(path, O_RDONLY | O_CLOEXEC);
  if (file < 0) return result;
  ElfW(Ehdr) head;
  if (pread(file, &head, sizeof head, 0) == (ssize_t)sizeof head && memcmp(head.e_ident, ELFMAG, SELFMAG) == 0 &&
      head.e_ident[EI_CLASS] == ELFCLASS64 && head.e_shentsize == sizeof(ElfW(Shdr)) && head.e_shnum < MOST_SECTIONS) {
    const size_t bytes = head.e_shnum * sizeof(ElfW(Shdr));
    ElfW(Shdr) *const sections = part_of(file, head.e_shoff, bytes);
    const int same = sections != NULL && same_build(file, sections, head.e_shnum, build_id);
    for (size_t i = 0; same && i < head.e_shnum; i++) {
      if (sections[i].sh_type != SHT_SYMTAB || sections[i].sh_link >= head.e_shnum) continue;
      const ElfW(Shdr) *const texts = &sections[sections[i].sh_link];
      struct symbols s = {part_of(file, sections[i].sh_offset, sections[i].sh_size), sections[i].sh_size / sizeof(ElfW(Sym)),
                          part_of(file, texts->sh_offset, texts->sh_size), texts->sh_size};
      if (s.all != NULL && s.texts != NULL && s.texts[s.text_size - 1] == '\0') result = between(&s, base);
      if (s.all != NULL) munmap((void *)s.all, sections[i].sh_size);
      if (s.texts != NULL) munmap((void *)s.texts, texts->sh_size);
      break;
    }
    if (sections != NULL) munmap(sections, bytes);
  }
  close(file);
  return result;
}
