/* Where in the program a call was made: the return address of the outermost recorded call, outside of libraries that only pass
 * calls on (OCCA's own code, loaders, language bindings), and the modules (program, libraries) in which such places are. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <link.h>
#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "internal.h"
#include "unwinder.h"

/* Libraries between the program and what is traced, by the begin of their file's name. */
static const char *const passing[] = {"libocca.", "libOpenCL.", "libOpenCL-", "liboccatrace", "libcudart.", "libmpi_mpifh.", "libmpi_usempi",
                                      "libmpifort.", "libmpichfort.", "libmpi_cxx.", "libmpicxx.", "libsycl.", "libur_", "libxptifw.",
                                      "libDPCTLSyclInterface."};
enum { DEEPEST = 40 }; /* frames of such libraries between a call and the program: SYCL's runtime has fifteen and more */

/* Never changed once it is among the known ones, and its room is never used again: readers take no lock. */
struct module {
  uintptr_t begin, end;
  uint64_t identity; /* of its path and build id */
  uint64_t turn;     /* the upper 16 bits of places in it: how many others were at its place before, and are gone */
  int passes;
  const struct occatrace_between *between; /* NULL: not looked for yet */
};
#define MODULES 512
enum { TURN_SHIFT = 48 }; /* above all addresses of programs */
static struct module room[MODULES];
static uint32_t room_used;
static const struct module *known[MODULES];
static uint32_t known_count;
static uint32_t known_unloads; /* occatrace_unloads when they were found */
/* Pages of code that are in no module, so that generated code is not looked for at each call. */
static uintptr_t pages[64];

/* What dl_iterate_phdr says of the module of an address. */
struct found {
  uintptr_t address, begin, end, base;
  char path[PATH_MAX];
  char build_id[OCCATRACE_BUILD_ID];
};

void occatrace_read_build_id(char *build_id, uintptr_t note, size_t size) {
  const uintptr_t end = note + size;
  while (note + sizeof(ElfW(Nhdr)) <= end) {
    const ElfW(Nhdr) *head = (const ElfW(Nhdr) *)note;
    const uintptr_t name = note + sizeof *head, text = name + ((head->n_namesz + 3u) & ~3u);
    if (text + head->n_descsz > end) return;
    if (head->n_type == NT_GNU_BUILD_ID && head->n_namesz == 4 && memcmp((const void *)name, "GNU", 4) == 0) {
      const unsigned char *bytes = (const unsigned char *)text;
      for (uint32_t i = 0; i < head->n_descsz && i < 32; i++) snprintf(build_id + 2 * i, 3, "%02x", bytes[i]);
      return;
    }
    note = text + ((head->n_descsz + 3u) & ~3u);
  }
}

static int look(struct dl_phdr_info *info, size_t size, void *data) {
  (void)size;
  struct found *found = data;
  uintptr_t begin = UINTPTR_MAX, end = 0;
  int inside = 0;
  for (int i = 0; i < info->dlpi_phnum; i++) {
    const ElfW(Phdr) *p = &info->dlpi_phdr[i];
    if (p->p_type != PT_LOAD) continue;
    const uintptr_t from = info->dlpi_addr + p->p_vaddr, to = from + p->p_memsz;
    if (from < begin) begin = from;
    if (to > end) end = to;
    if (found->address >= from && found->address < to) inside = 1;
  }
  if (!inside) return 0;
  found->begin = begin;
  found->end = end;
  found->base = info->dlpi_addr;
  for (int i = 0; i < info->dlpi_phnum && found->build_id[0] == '\0'; i++) {
    const ElfW(Phdr) *p = &info->dlpi_phdr[i];
    if (p->p_type == PT_NOTE) occatrace_read_build_id(found->build_id, info->dlpi_addr + p->p_vaddr, p->p_memsz);
  }
  snprintf(found->path, sizeof found->path, "%s", info->dlpi_name != NULL ? info->dlpi_name : "");
  return 1;
}

static const struct module *search(uintptr_t address) {
  if (__atomic_load_n(&known_unloads, __ATOMIC_ACQUIRE) != __atomic_load_n(&occatrace_unloads, __ATOMIC_ACQUIRE)) return NULL;
  const uint32_t count = __atomic_load_n(&known_count, __ATOMIC_ACQUIRE);
  for (uint32_t i = 0; i < count; i++) {
    const struct module *m = __atomic_load_n(&known[i], __ATOMIC_ACQUIRE);
    if (address >= m->begin && address < m->end) return m;
  }
  return NULL;
}

static int launches_by_stubs;

void occatrace_kernels_have_stubs(void) {
  /* Modules that are known are looked at again. */
  if (!__atomic_exchange_n(&launches_by_stubs, 1, __ATOMIC_ACQ_REL)) __atomic_fetch_add(&occatrace_unloads, 1, __ATOMIC_ACQ_REL);
}

/* Announced before the first event that names a place in it. */
static const struct module *announce(struct occatrace_thread *self, struct found *found) {
  char real[PATH_MAX];
  const ssize_t n = found->path[0] == '\0' ? readlink("/proc/self/exe", real, sizeof real - 1) : -1;
  if (n > 0) {
    real[n] = '\0';
    /* The kernel says so if the file was removed or replaced since. Its path is what it was: which file is there now, and whether it
     * is the same, is found out by the build id. */
    static const char deleted[] = " (deleted)";
    const size_t end = (size_t)n - (sizeof deleted - 1);
    if ((size_t)n > sizeof deleted && strcmp(real + end, deleted) == 0 && access(real, F_OK) != 0) real[end] = '\0';
    snprintf(found->path, sizeof found->path, "%s", real);
  } else if (realpath(found->path, real) != NULL) {
    memcpy(found->path, real, strlen(real) + 1);
  }
  const char *name = strrchr(found->path, '/');
  name = name != NULL ? name + 1 : found->path;
  struct module fresh = {.begin = found->begin, .end = found->end};
  fresh.identity = occatrace_hash(OCCATRACE_HASH, found->path, strlen(found->path));
  fresh.identity = occatrace_hash(fresh.identity, found->build_id, strlen(found->build_id));
  for (size_t i = 0; i < sizeof passing / sizeof *passing; i++)
    if (strncmp(name, passing[i], strlen(passing[i])) == 0) fresh.passes = 1;
  occatrace_announcements_lock();
  const uint32_t unloads = __atomic_load_n(&occatrace_unloads, __ATOMIC_ACQUIRE);
  if (known_unloads != unloads) { /* another library may be where one was */
    __atomic_store_n(&known_count, 0, __ATOMIC_RELEASE);
    __atomic_store_n(&known_unloads, unloads, __ATOMIC_RELEASE);
  }
  const struct module *result = search(found->address);
  int again = 0; /* it was known before some library was let go of */
  for (uint32_t i = 0; i < room_used && result == NULL; i++) {
    const struct module *m = &room[i];
    again = m->begin == fresh.begin && m->end == fresh.end && m->identity == fresh.identity;
    if (again) result = m;
  }
  if (result == NULL && room_used < MODULES) {
    for (uint32_t i = 0; i < room_used; i++) fresh.turn += room[i].begin < fresh.end && fresh.begin < room[i].end;
    fresh.turn <<= TURN_SHIFT;
    if (!fresh.passes || occatrace_paths_wanted()) {
      const struct occatrace_process_module r = {
          .tid = self->tid,
          .seq = occatrace_next_seq(self),
          .pid = occatrace_pid,
          .begin = found->begin | fresh.turn,
          .size = found->end - found->begin,
          .base = found->base | fresh.turn,
          .path = found->path,
          .build_id = found->build_id,
      };
      occatrace_process->module(&r);
    }
    room[room_used] = fresh;
    result = &room[room_used++];
    again = 1;
  }
  if (result != NULL && !result->passes && result->between == NULL && __atomic_load_n(&launches_by_stubs, __ATOMIC_ACQUIRE))
    __atomic_store_n(&room[result - room].between, occatrace_find_between(found->path, found->build_id, found->base), __ATOMIC_RELEASE);
  if (again) {
    __atomic_store_n(&known[known_count], result, __ATOMIC_RELEASE);
    __atomic_store_n(&known_count, known_count + 1, __ATOMIC_RELEASE);
  }
  occatrace_announcements_unlock();
  return result;
}

/* In the child of a fork everything is announced again. */
void occatrace_forget_modules(void) {
  room_used = known_count = 0;
}

/* Its large frame is for the first call from a module only. */
__attribute__((noinline)) static const struct module *find_module(struct occatrace_thread *self, uintptr_t address) {
  const int before = errno; /* the program's */
  /* A handler of the program that makes calls would wait for itself. */
  sigset_t all, signals;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &signals);
  struct found found;
  found.address = address;
  found.path[0] = found.build_id[0] = '\0';
  const struct module *m = dl_iterate_phdr(look, &found) ? announce(self, &found) : NULL;
  pthread_sigmask(SIG_SETMASK, &signals, NULL);
  errno = before;
  return m;
}

/* The module of an address; NULL: none (generated code), or too many. */
static const struct module *module_of(struct occatrace_thread *self, uintptr_t address) {
  const struct module *m = search(address);
  if (m != NULL) return m;
  uintptr_t *const page = &pages[(address >> 12) % (sizeof pages / sizeof *pages)];
  if (__atomic_load_n(page, __ATOMIC_RELAXED) == address >> 12) return NULL;
  m = find_module(self, address);
  if (m == NULL) __atomic_store_n(page, address >> 12, __ATOMIC_RELAXED);
  return m;
}

int occatrace_in_module(struct occatrace_thread *self, uintptr_t address) { return module_of(self, address) != NULL; }

uint64_t occatrace_place(uintptr_t address) {
  const struct module *m = search(address);
  return address | (m != NULL ? m->turn : 0);
}

/* ---- out of what passes calls on ---- */

/* Whether the code at an address only passes calls on; if not, from where to where in its module that is so. */
static int passes_on(const struct module *m, uintptr_t address, struct occatrace_code *own) {
  *own = (struct occatrace_code){m->begin, m->end};
  const struct occatrace_between *const b = __atomic_load_n(&m->between, __ATOMIC_ACQUIRE);
  if (m->passes || b == NULL || b->count == 0) return m->passes;
  size_t from = 0, to = b->count; /* the first range behind the address */
  while (from < to) {
    const size_t middle = (from + to) / 2;
    if (b->of[middle].begin <= address) from = middle + 1;
    else to = middle;
  }
  if (from != 0) {
    if (address < b->of[from - 1].end) return 1;
    own->begin = b->of[from - 1].end;
  }
  if (from != b->count) own->end = b->of[from].begin;
  return 0;
}

struct step {
  uintptr_t address, slot; /* the frame that is left: its return address, and where on the stack that is (0: anywhere) */
  uintptr_t caller, caller_slot;
  int state, frames;
};
static int unwound(void *data, uintptr_t address, uintptr_t slot) {
  struct step *s = data;
  if (s->state == 1) {
    s->caller = address;
    s->caller_slot = slot;
    s->state = 2;
    return 1;
  }
  if (address == s->address && (s->slot == 0 || s->slot == slot)) s->state = 1;
  return ++s->frames > 64;
}

/* How far the caller's return address is from that of a place, in bytes: mostly always the same. A word each, the address in the
 * upper 47 bits and an eighth of the distance in the lower 17, so that they are read and written at once. */
#define STEPS 1024
static uint64_t steps[STEPS];
/* Which callers a place had: a distance that depends on more (alloca) leads to another one, or to what is none. */
static uint64_t pairs[4 * STEPS];
enum { VARIES = 0x1ffff };

static uint64_t mixed(uint64_t a, uint64_t b) {
  uint64_t h = (a * UINT64_C(0x9E3779B97F4A7C15)) ^ (b * UINT64_C(0xC2B2AE3D27D4EB4F));
  return (h ^ (h >> 29)) * UINT64_C(0x9E3779B97F4A7C15);
}

static int is_pair(uintptr_t address, uintptr_t caller) {
  const uint64_t pair = mixed(address, caller);
  return __atomic_load_n(&pairs[pair % (4 * STEPS)], __ATOMIC_RELAXED) == pair;
}

static int leave(struct step *s) {
  uint64_t *const at = &steps[mixed(s->address, 0) % STEPS];
  const uint64_t word = __atomic_load_n(at, __ATOMIC_RELAXED);
  const int learned = s->slot != 0 && word >> 17 == s->address;
  const uintptr_t distance = (uintptr_t)(word & VARIES) * 8;
  if (learned && (word & VARIES) != VARIES) {
    s->caller_slot = s->slot + distance;
    s->caller = *(const uintptr_t *)s->caller_slot;
    if (is_pair(s->address, s->caller)) return 1;
  }
  s->state = s->frames = 0;
  occatrace_unwind(unwound, NULL, s);
  if (s->state != 2) return 0;
  if (s->slot == 0) return 1;
  const uintptr_t true_distance = s->caller_slot - s->slot;
  uint64_t kept = true_distance / 8;
  if (kept >= VARIES || (learned && distance != true_distance)) kept = VARIES;
  __atomic_store_n(at, (uint64_t)s->address << 17 | kept, __ATOMIC_RELAXED);
  const uint64_t pair = mixed(s->address, s->caller);
  if (kept != VARIES) __atomic_store_n(&pairs[pair % (4 * STEPS)], pair, __ATOMIC_RELAXED);
  return 1;
}

uint64_t occatrace_site_slow(struct occatrace_thread *self, uintptr_t address, uintptr_t slot) {
  const uint32_t unloads = __atomic_load_n(&occatrace_unloads, __ATOMIC_ACQUIRE);
  /* The same step as before, into the same module: most calls through such a library. */
  const uint32_t at = (uint32_t)(address ^ address >> 6) % (sizeof self->through / sizeof *self->through);
  if (slot != 0 && self->through[at].address == address && self->module_unloads == unloads) {
    const uintptr_t caller = *(const uintptr_t *)(slot + self->through[at].distance);
    if (caller - self->module_begin < self->module_size && (caller == self->through[at].caller || is_pair(address, caller))) {
      self->through[at].caller = caller;
      return caller | self->module_turn;
    }
  }
  struct step s = {.address = address, .slot = slot};
  if (s.address == 0 || occatrace_process == NULL) return 0;
  for (int depth = 0; depth < DEEPEST; depth++) {
    const struct module *m = module_of(self, s.address);
    if (m == NULL) break;
    struct occatrace_code own;
    if (!passes_on(m, s.address, &own)) {
      self->module_begin = own.begin;
      self->module_size = own.end - own.begin;
      self->module_turn = m->turn;
      self->module_unloads = unloads;
      if (depth == 1 && slot != 0 && is_pair(address, s.address)) {
        self->through[at].address = address;
        self->through[at].distance = s.slot - slot;
        self->through[at].caller = s.address;
      }
      return s.address | m->turn;
    }
    if (!leave(&s)) break;
    s.address = s.caller;
    s.slot = s.slot != 0 ? s.caller_slot : 0;
  }
  return s.address;
}
