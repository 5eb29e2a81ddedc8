/* The stack of what a signal has interrupted, without locks, memory of its own or the loader: by a table of the process's files
 * of code that is made outside of handlers, and replaced as libraries come and go. */
#define _GNU_SOURCE
#include <errno.h>
#include <link.h>
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <ucontext.h>
#include <unistd.h>

#include "samples.h"

struct file {
  uintptr_t begin, end, tables;
};
struct files {
  size_t size; /* of the mapping */
  uint32_t version, count;
  struct file at[];
};
static struct files *current; /* NULL: there is none at this moment */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static uint32_t closing, version;
static unsigned long long adds, subs;

/* Who reads a table says so in one of two counters; who has replaced it waits for those that began before. */
static uint32_t epoch, readers[2];

static uint32_t enter(void) {
  for (;;) {
    const uint32_t e = __atomic_load_n(&epoch, __ATOMIC_SEQ_CST) & 1;
    __atomic_add_fetch(&readers[e], 1, __ATOMIC_SEQ_CST);
    if ((__atomic_load_n(&epoch, __ATOMIC_SEQ_CST) & 1) == e) return e;
    __atomic_sub_fetch(&readers[e], 1, __ATOMIC_SEQ_CST);
  }
}
static void leave(uint32_t e) { __atomic_sub_fetch(&readers[e], 1, __ATOMIC_SEQ_CST); }
/* Under the lock. Handlers do not wait, so this ends soon. */
static void replace(struct files *next) {
  struct files *const old = __atomic_exchange_n(&current, next, __ATOMIC_SEQ_CST);
  const uint32_t e = __atomic_fetch_add(&epoch, 1, __ATOMIC_SEQ_CST) & 1;
  while (__atomic_load_n(&readers[e], __ATOMIC_SEQ_CST) != 0) sched_yield();
  if (old != NULL) munmap(old, old->size);
}

struct seen {
  struct files *files;
  uint32_t room, count;
  unsigned long long adds, subs;
  int changed;
};

static int look(struct dl_phdr_info *info, size_t size, void *data) {
  struct seen *const s = data;
  (void)size;
  if (s->count == 0 && s->adds == info->dlpi_adds && s->subs == info->dlpi_subs) return 1;
  s->changed = 1;
  s->adds = info->dlpi_adds;
  s->subs = info->dlpi_subs;
  uintptr_t begin = UINTPTR_MAX, end = 0, tables = 0;
  for (int i = 0; i < info->dlpi_phnum; i++) {
    const ElfW(Phdr) *p = &info->dlpi_phdr[i];
    const uintptr_t from = info->dlpi_addr + p->p_vaddr;
    if (p->p_type == PT_GNU_EH_FRAME) tables = from;
    if (p->p_type != PT_LOAD) continue;
    if (from < begin) begin = from;
    if (from + p->p_memsz > end) end = from + p->p_memsz;
  }
  const uint32_t at = s->count++;
  if (at < s->room) s->files->at[at] = (struct file){begin, end, tables};
  return 0;
}

static int by_begin(const void *a, const void *b) {
  const struct file *x = a, *y = b;
  return x->begin < y->begin ? -1 : x->begin > y->begin;
}

static void block(sigset_t *before) {
  sigset_t all;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, before);
}

void occatrace_sample_modules(void) {
  for (uint32_t room = 256;; room *= 2) {
    const uint32_t seen_version = __atomic_load_n(&version, __ATOMIC_ACQUIRE);
    const size_t size = sizeof(struct files) + room * sizeof(struct file);
    struct files *const files = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (files == MAP_FAILED) return;
    files->size = size;
    const int there = __atomic_load_n(&current, __ATOMIC_ACQUIRE) != NULL;
    struct seen s = {files, room, 0, there ? adds : ~0ull, there ? subs : ~0ull, 0};
    dl_iterate_phdr(look, &s);
    if (!s.changed || s.count > room) {
      munmap(files, size);
      if (!s.changed) return;
      continue;
    }
    files->count = s.count;
    qsort(files->at, files->count, sizeof *files->at, by_begin);
    sigset_t signals;
    block(&signals);
    pthread_mutex_lock(&lock);
    if (closing == 0 && seen_version == version) {
      files->version = ++version;
      adds = s.adds;
      subs = s.subs;
      replace(files);
    } else {
      munmap(files, size);
    }
    pthread_mutex_unlock(&lock);
    pthread_sigmask(SIG_SETMASK, &signals, NULL);
    return;
  }
}

/* The tables of a library that goes must not be read any more. Its destructors may do anything: no lock meanwhile. */
void occatrace_sample_closing(void) {
  sigset_t signals;
  block(&signals);
  pthread_mutex_lock(&lock);
  closing++;
  version++;
  replace(NULL);
  pthread_mutex_unlock(&lock);
  pthread_sigmask(SIG_SETMASK, &signals, NULL);
}

void occatrace_sample_closed(void) {
  sigset_t signals;
  block(&signals);
  pthread_mutex_lock(&lock);
  closing--;
  version++;
  pthread_mutex_unlock(&lock);
  pthread_sigmask(SIG_SETMASK, &signals, NULL);
  occatrace_sample_modules();
}

/* The other threads, which may have been anywhere, are not there in the child. */
void occatrace_sample_modules_forked(void) {
  pthread_mutex_init(&lock, NULL);
  closing = 0;
  version++;
  readers[0] = readers[1] = 0;
}

/* ---- the stack ---- */

/* Whether memory can be read, once for each page: the kernel reads a mask of signals there, and refuses what it is to do with it. */
int occatrace_is_readable(uintptr_t place, uintptr_t *page) {
  if (place >> 12 == *page) return 1;
  if (place % sizeof(void *) != 0) return 0;
  if (syscall(SYS_rt_sigprocmask, ~0, (const void *)place, NULL, 8) == -1 && errno == EFAULT) return 0;
  *page = place >> 12;
  return 1;
}

#if defined(__x86_64__)
static const struct file *file_of(const struct files *files, uintptr_t address) {
  uint32_t low = 0, high = files->count;
  while (low < high) {
    const uint32_t middle = (low + high) / 2;
    if (files->at[middle].begin <= address) low = middle + 1;
    else high = middle;
  }
  return low > 0 && address < files->at[low - 1].end ? &files->at[low - 1] : NULL;
}

/* The entry for an address in the sorted table of .eh_frame_hdr (Linux Standard Base, 10.6.2), as linkers write it. */
static const uint8_t *entry_of(const struct file *file, uintptr_t address, uintptr_t *function) {
  const uint8_t *const head = (const uint8_t *)file->tables;
  struct pair {
    int32_t begin, entry;
  } pair;
  uint32_t count, low = 0;
  if (head == NULL || head[0] != 1 || head[2] != 0x03 || head[3] != 0x3b || (head[1] & 0x0f) != 0x0b) return NULL;
  memcpy(&count, head + 8, sizeof count);
  const int64_t wanted = (int64_t)(address - file->tables);
  for (uint32_t high = count; low < high;) {
    const uint32_t middle = low + (high - low) / 2;
    memcpy(&pair, head + 12 + middle * sizeof pair, sizeof pair);
    if (pair.begin <= wanted) low = middle + 1;
    else high = middle;
  }
  if (low == 0) return NULL;
  memcpy(&pair, head + 12 + (low - 1) * sizeof pair, sizeof pair);
  *function = file->tables + (uintptr_t)(intptr_t)pair.begin;
  return head + pair.entry;
}

static uint32_t walk(const struct files *files, const ucontext_t *context, struct occatrace_rules *kept, uintptr_t *at, uint32_t *end) {
  struct occatrace_frame frame;
  uint32_t count = 0;
  occatrace_interrupted_frame(&frame, context);
  for (;;) {
    const uintptr_t address = occatrace_place_of(&frame);
    if (address <= 1) {
      *end = frame.interrupted ? OCCATRACE_PATH_NO_TABLE : OCCATRACE_PATH_WHOLE;
      return count;
    }
    if (count == OCCATRACE_SAMPLE_DEPTH) {
      *end = OCCATRACE_PATH_CUT;
      return count;
    }
    at[count++] = address;
    struct occatrace_rule *const rule = &kept->rules[(address ^ address >> 10 ^ address >> 20) % OCCATRACE_SAMPLE_RULES];
    if (rule->address != address) {
      const struct file *const file = file_of(files, address - 1);
      uintptr_t function = 0;
      const uint8_t *const entry = file != NULL ? entry_of(file, address - 1, &function) : NULL;
      if (file == NULL) {
        *end = OCCATRACE_PATH_NO_TABLE;
        return count;
      }
      occatrace_find_rule(rule, address, entry, function);
    }
    const int ended = occatrace_leave_frame(&frame, rule);
    if (ended >= 0) {
      *end = (uint32_t)ended;
      return count;
    }
  }
}
#elif defined(__aarch64__)
/* By frame pointers, which compilers keep there: a frame begins with the one around it and the return address. */
static uint32_t walk(const struct files *files, const ucontext_t *context, struct occatrace_rules *kept, uintptr_t *at, uint32_t *end) {
  (void)files, (void)kept;
  uintptr_t frame = context->uc_mcontext.regs[29], page = 0;
  uint32_t count = 0;
  at[count++] = context->uc_mcontext.pc + 1;
  *end = OCCATRACE_PATH_WHOLE;
  while (frame != 0 && frame % 16 == 0 && occatrace_is_readable(frame, &page) && occatrace_is_readable(frame + 8, &page)) {
    const uintptr_t *const record = (const uintptr_t *)frame;
    if (record[1] == 0) break;
    if (count == OCCATRACE_SAMPLE_DEPTH) {
      *end = OCCATRACE_PATH_CUT;
      break;
    }
    at[count++] = record[1];
    if (record[0] <= frame) break;
    frame = record[0];
  }
  return count;
}
#else
static uint32_t walk(const struct files *files, const ucontext_t *context, struct occatrace_rules *kept, uintptr_t *at, uint32_t *end) {
  (void)files, (void)context, (void)kept, (void)at;
  *end = OCCATRACE_PATH_NO_TABLE;
  return 0;
}
#endif

uint32_t occatrace_walk_interrupted(void *context, struct occatrace_rules *kept, uintptr_t *at, uint32_t *end) {
  const uint32_t e = enter();
  const struct files *const files = __atomic_load_n(&current, __ATOMIC_SEQ_CST);
  static const struct files none = {.count = 0};
  uint32_t count;
  if (files == NULL) {
    kept->version = 0;
    memset(kept->rules, 0, sizeof kept->rules);
    count = walk(&none, context, kept, at, end);
  } else {
    if (kept->version != files->version) {
      memset(kept->rules, 0, sizeof kept->rules);
      kept->version = files->version;
    }
    count = walk(files, context, kept, at, end);
  }
  leave(e);
  return count;
}
