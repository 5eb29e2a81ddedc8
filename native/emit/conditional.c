/* Symbols that are only found where the library that really has them is loaded (trampoline.h). Weak references and dlsym ask
 * whether a function is there: an MPI program must not be told that its old MPI has the newest functions, and a program
 * without MPI not that it has one. */
#define _GNU_SOURCE
#include <elf.h>
#include <link.h>
#include <pthread.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "trampoline.h"

extern const char __ehdr_start[] __attribute__((visibility("hidden")));
extern ElfW(Dyn) _DYNAMIC[] __attribute__((visibility("hidden")));

/* What is needed of an object's dynamic section. */
struct object {
  ElfW(Addr) base;
  ElfW(Sym) * symbols;
  const char *texts;
  const uint32_t *gnu_hash, *hash;
};

static void read_dynamic(struct object *o, ElfW(Addr) base, const ElfW(Dyn) * d) {
  *o = (struct object){.base = base};
  for (; d->d_tag != DT_NULL; d++) {
    /* The loader has made most of them absolute, but not in objects like the vDSO. */
    const ElfW(Addr) at = d->d_un.d_ptr < base ? base + d->d_un.d_ptr : d->d_un.d_ptr;
    switch (d->d_tag) {
      case DT_SYMTAB: o->symbols = (ElfW(Sym) *)at; break;
      case DT_STRTAB: o->texts = (const char *)at; break;
      case DT_GNU_HASH: o->gnu_hash = (const uint32_t *)at; break;
      case DT_HASH: o->hash = (const uint32_t *)at; break;
    }
  }
}

static int is_defined(const struct object *o, uint32_t index, const char *name) {
  const ElfW(Sym) *s = &o->symbols[index];
  return s->st_shndx != SHN_UNDEF && s->st_value != 0 && strcmp(o->texts + s->st_name, name) == 0;
}

/* Its number, 0: there is none of this name. */
static uint32_t index_of(const struct object *o, const char *name) {
  if (o->symbols == NULL || o->texts == NULL) return 0;
  if (o->gnu_hash != NULL) {
    uint32_t h = 5381;
    for (const unsigned char *c = (const unsigned char *)name; *c; c++) h = h * 33 + *c;
    const uint32_t buckets = o->gnu_hash[0], first = o->gnu_hash[1], words = o->gnu_hash[2], shift = o->gnu_hash[3];
    const ElfW(Addr) *bloom = (const ElfW(Addr) *)(o->gnu_hash + 4);
    const unsigned bits = 8 * sizeof *bloom;
    const ElfW(Addr) word = bloom[(h / bits) % words];
    if (buckets == 0 || !((word >> (h % bits)) & (word >> ((h >> shift) % bits)) & 1)) return 0;
    const uint32_t *bucket = (const uint32_t *)(bloom + words), *chain = bucket + buckets;
    for (uint32_t i = bucket[h % buckets]; i >= first && i != 0; i++) {
      if (((chain[i - first] ^ h) >> 1) == 0 && is_defined(o, i, name)) return i;
      if (chain[i - first] & 1) break;
    }
    return 0;
  }
  if (o->hash != NULL)
    for (uint32_t i = 1; i < o->hash[1]; i++)
      if (is_defined(o, i, name)) return i;
  return 0;
}

static int defines(const struct object *o, const char *name) { return index_of(o, name) != 0; }

/* Number of symbols: behind the last chain of the hash table. */
static uint32_t symbol_count(const struct object *o) {
  if (o->gnu_hash == NULL) return o->hash == NULL ? 0 : o->hash[1];
  const uint32_t buckets = o->gnu_hash[0], first = o->gnu_hash[1], words = o->gnu_hash[2];
  const uint32_t *bucket = (const uint32_t *)((const ElfW(Addr) *)(o->gnu_hash + 4) + words), *chain = bucket + buckets;
  uint32_t last = 0;
  for (uint32_t i = 0; i < buckets; i++)
    if (bucket[i] > last) last = bucket[i];
  if (last < first) return first;
  while (!(chain[last - first] & 1)) last++;
  return last + 1;
}

enum { FEW = 64 }; /* symbols that are looked up one by one; more of them by a walk over all */

static void make_indirect(ElfW(Sym) * s, ElfW(Addr) begin, ElfW(Addr) size) {
  if (s->st_value - begin >= size || s->st_shndx == SHN_UNDEF) return;
  s->st_value += OCCATRACE_LOOKUP_OFFSET;
  s->st_info = ELF64_ST_INFO(ELF64_ST_BIND(s->st_info), STT_GNU_IFUNC);
}

void occatrace_make_conditional(const struct occatrace_conditional *c) {
  /* The same for every API; constructors run one after another. */
  static struct object o;
  static uint32_t count;
  const ElfW(Addr) base = (ElfW(Addr))__ehdr_start;
  if (count == 0) {
    read_dynamic(&o, base, _DYNAMIC);
    count = symbol_count(&o);
  }
  if (o.symbols == NULL || count == 0) return;
  const uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
  const uintptr_t from = (uintptr_t)o.symbols & -page, to = ((uintptr_t)(o.symbols + count) + page - 1) & -page;
  /* Refused: they stay what they are, which only those notice who ask for what is not there. */
  if (mprotect((void *)from, to - from, PROT_READ | PROT_WRITE) != 0) return;
  const ElfW(Addr) begin = (ElfW(Addr))c->begin - base, size = (ElfW(Addr))(c->end - c->begin);
  if (c->count < FEW && o.gnu_hash != NULL) {
    for (uint32_t k = 0; k < c->count; k++) make_indirect(&o.symbols[index_of(&o, c->symbols[k])], begin, size);
  } else {
    for (uint32_t i = 1; i < count; i++) make_indirect(&o.symbols[i], begin, size);
  }
  mprotect((void *)from, to - from, PROT_READ);
}

struct search {
  const char *anchor;
  struct object found;
  int there;
  unsigned long long adds, subs; /* objects loaded and unloaded up to the last look */
  int same;
};

static int look(struct dl_phdr_info *info, size_t size, void *data) {
  struct search *s = data;
  if (size >= offsetof(struct dl_phdr_info, dlpi_subs) + sizeof info->dlpi_subs) {
    if (info->dlpi_adds == s->adds && info->dlpi_subs == s->subs) return s->same = 1;
  }
  if (info->dlpi_addr == (ElfW(Addr))__ehdr_start) return 0;
  for (int i = 0; i < info->dlpi_phnum; i++) {
    if (info->dlpi_phdr[i].p_type != PT_DYNAMIC) continue;
    struct object o;
    read_dynamic(&o, info->dlpi_addr, (const ElfW(Dyn) *)(info->dlpi_addr + info->dlpi_phdr[i].p_vaddr));
    if (defines(&o, s->anchor)) {
      s->found = o;
      return s->there = 1;
    }
  }
  return 0;
}

static int counters(struct dl_phdr_info *info, size_t size, void *data) {
  struct search *s = data;
  s->adds = info->dlpi_adds;
  s->subs = info->dlpi_subs;
  return 1;
}

const void *occatrace_conditional_lookup(const struct occatrace_conditional *c, uint32_t index) {
  /* Where the library of each API is. One more API than there is room for only takes longer. */
  static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
  static struct search known[8];
  pthread_mutex_lock(&lock);
  size_t place = 0;
  while (place + 1 < sizeof known / sizeof *known && known[place].anchor != NULL && known[place].anchor != c->anchor) place++;
  struct search *const last = &known[place];
  last->same = 0;
  if (last->anchor != c->anchor) *last = (struct search){.anchor = c->anchor, .adds = ~0ull};
  struct search next = *last;
  next.there = 0;
  dl_iterate_phdr(look, &next);
  if (!next.same) {
    dl_iterate_phdr(counters, &next);
    *last = next;
  }
  int found = last->there && defines(&last->found, c->symbols[index]);
  pthread_mutex_unlock(&lock);
  if (!found && c->several) {
    struct search other = {.anchor = c->symbols[index], .adds = ~0ull};
    dl_iterate_phdr(look, &other);
    found = other.there;
  }
  return found ? c->begin + (size_t)index * OCCATRACE_TRAMPOLINE_SIZE : NULL;
}
