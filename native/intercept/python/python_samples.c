/* Where a thread of Python spends its processor time: in the interpreter, or in which extension module (--python time).
 *
 * A timer of the thread's own processor time interrupts it at every tick of the kernel. Calls could be watched instead, but most
 * of the work of extension modules is in no call that Python knows of: `a * b` of two arrays. A sample counts for whatever of
 * the two is innermost: the loop that runs Python code, or code of an extension module, also where that is in a function of
 * libc, or of libpython on behalf of an extension module. So that no frame has to be unwound in a signal handler, the stack is
 * searched for an address behind a call in one of them. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <link.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <ucontext.h>
#include <unistd.h>

#include "python.h"

int python_sampling;

/* ---- what lies where ---- */

struct place {
  enum occatrace_sample_part part;
  uint32_t name_id;
  char name[128];
};
struct range {
  uintptr_t begin, end;
  struct place *place;
};
/* Of the code of extension modules, in ascending order; replaced as a whole. An old one stays: a handler may be reading it. */
struct ranges {
  uint32_t count;
  struct range range[];
};
static struct ranges *extensions;
static uintptr_t python_begin_at, python_end_at;
/* The interpreter's loop: where its function begins, and another part of it, where the compiler made one. */
static struct {
  uintptr_t begin, end;
} loop[2];
static struct place in_python = {PYTHON_PART_PYTHON, 0, "Python"}, elsewhere = {PYTHON_PART_ELSEWHERE, 0, ""};
static unsigned long long libraries_loaded;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

/* The module of a library, or the library where it is one that came with a module; empty: neither. */
static void name_of(const char *path, char *name, size_t room) {
  static const char modules[] = "/lib-dynload/"; /* of the standard library */
  const char *rest = python_in_packages(path), *base = strrchr(path, '/');
  base = base != NULL ? base + 1 : path;
  if (rest == NULL && (rest = strstr(path, modules)) != NULL) rest += strlen(modules);
  const int stem = (int)strcspn(base, ".");
  char entry[256];
  snprintf(entry, sizeof entry, "PyInit_%.*s", stem, base);
  void *library = dlopen(path, RTLD_LAZY | RTLD_NOLOAD);
  const int is_module = library != NULL && dlsym(library, entry) != NULL;
  if (library != NULL) dlclose(library);
  name[0] = '\0';
  if (is_module)
    snprintf(name, room, "%.*s", (int)(base - (rest != NULL ? rest : base)) + stem, rest != NULL ? rest : base);
  else if (rest != NULL)
    snprintf(name, room, "%.*s", (int)(strstr(base, ".so") != NULL ? strstr(base, ".so") - base : (ptrdiff_t)strlen(base)), base);
  if (is_module)
    for (char *c = name; *c != '\0'; c++)
      if (*c == '/') *c = '.';
}

enum { LONGEST_CALL = 8 };

struct found {
  uintptr_t begin, end;
  char path[512];
};
struct search {
  struct found *all;
  uint32_t count, room;
  unsigned long long loaded;
};

static int count_libraries(struct dl_phdr_info *info, size_t size, void *data) {
  *(unsigned long long *)data = info->dlpi_adds;
  return 1;
}

static int find_code(struct dl_phdr_info *info, size_t size, void *data) {
  struct search *s = data;
  for (int i = 0; i < info->dlpi_phnum; i++) {
    const ElfW(Phdr) *p = &info->dlpi_phdr[i];
    if (p->p_type != PT_LOAD || !(p->p_flags & PF_X)) continue;
    if (s->count == s->room) {
      const uint32_t room = s->room ? s->room * 2 : 128;
      struct found *larger = realloc(s->all, room * sizeof *larger);
      if (larger == NULL) return 1;
      s->all = larger;
      s->room = room;
    }
    struct found *f = &s->all[s->count++];
    /* No call ends in the first bytes, and before them there may be nothing to look at. */
    f->begin = info->dlpi_addr + p->p_vaddr + LONGEST_CALL;
    f->end = info->dlpi_addr + p->p_vaddr + p->p_memsz;
    snprintf(f->path, sizeof f->path, "%s", info->dlpi_name != NULL ? info->dlpi_name : "");
  }
  return 0;
}

static int by_address(const void *a, const void *b) {
  const struct range *x = a, *y = b;
  return x->begin < y->begin ? -1 : x->begin > y->begin;
}

/* What was there before keeps its place. */
static struct place *place_of(const struct ranges *old, const struct found *f) {
  for (uint32_t i = 0; old != NULL && i < old->count; i++)
    if (old->range[i].begin == f->begin && old->range[i].end == f->end) return old->range[i].place;
  if (f->path[0] == '\0') return NULL; /* the program */
  char name[128];
  name_of(f->path, name, sizeof name);
  struct place *place = name[0] != '\0' ? calloc(1, sizeof *place) : NULL;
  if (place == NULL) return NULL;
  place->part = PYTHON_PART_EXTENSION;
  snprintf(place->name, sizeof place->name, "%s", name);
  return place;
}

void python_samples_look(void) {
  unsigned long long loaded = 0;
  dl_iterate_phdr(count_libraries, &loaded);
  pthread_mutex_lock(&lock);
  if (loaded != libraries_loaded) {
    libraries_loaded = loaded;
    struct search s = {0};
    dl_iterate_phdr(find_code, &s);
    struct ranges *fresh = calloc(1, sizeof *fresh + s.count * sizeof fresh->range[0]);
    for (uint32_t i = 0; fresh != NULL && i < s.count; i++) {
      const uintptr_t known = (uintptr_t)py.Py_GetVersion;
      if (known >= s.all[i].begin && known < s.all[i].end) {
        python_begin_at = s.all[i].begin;
        python_end_at = s.all[i].end;
        continue;
      }
      struct place *place = place_of(extensions, &s.all[i]);
      if (place != NULL) fresh->range[fresh->count++] = (struct range){s.all[i].begin, s.all[i].end, place};
    }
    if (fresh != NULL) {
      qsort(fresh->range, fresh->count, sizeof fresh->range[0], by_address);
      __atomic_store_n(&extensions, fresh, __ATOMIC_RELEASE);
    }
    free(s.all);
  }
  pthread_mutex_unlock(&lock);
}

static struct place *find(const struct ranges *all, uintptr_t address) {
  if (all->count == 0 || address < all->range[0].begin || address >= all->range[all->count - 1].end) return NULL;
  uint32_t low = 0, high = all->count;
  while (high - low > 1) {
    const uint32_t middle = (low + high) / 2;
    if (all->range[middle].begin <= address) low = middle;
    else high = middle;
  }
  return address < all->range[low].end ? all->range[low].place : NULL;
}

/* ---- the samples ---- */

enum {
  RING = 4096,
  DEEPEST_WORD = 2048,
};

struct sample {
  uint64_t time, cpu;
  struct place *place;
};
/* Of a thread; written by the handler, which runs in it, and emptied by whoever harvests. */
struct python_sampled {
  struct python_sampled *next;
  const struct python_thread *thread;
  timer_t timer;
  uint32_t tid;
  int ended;
  uintptr_t stack_begin, stack_end;
  uint64_t last; /* processor time that is accounted for */
  uint32_t written, read;
  struct sample ring[RING];
};
static struct python_sampled *all;
static int signal_number;

static uint64_t processor_time(void) {
  struct timespec t;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
  return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static int is_in_loop(uintptr_t address) {
  return address - loop[0].begin < loop[0].end - loop[0].begin || address - loop[1].begin < loop[1].end - loop[1].begin;
}

/* Whether the instruction before this address is a call. */
static int behind_call(uintptr_t address) {
#if defined(__x86_64__)
  const uint8_t *const at = (const uint8_t *)address;
  if (at[-5] == 0xE8) return 1;
  static const int lengths[] = {2, 3, 4, 6, 7}; /* FF /2, by its operand */
  for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++)
    if (at[-lengths[i]] == 0xFF && (at[-lengths[i] + 1] & 0x38) == 0x10) return 1;
  return 0;
#elif defined(__aarch64__)
  const uint32_t word = *(const uint32_t *)(address - 4);
  return address % 4 == 0 && ((word & 0xFC000000u) == 0x94000000u || (word & 0xFFFFFC1Fu) == 0xD63F0000u);
#endif
}

static struct place *innermost(const struct python_sampled *s, const ucontext_t *context) {
#if defined(__x86_64__)
  const uintptr_t now = (uintptr_t)context->uc_mcontext.gregs[REG_RIP], stack = (uintptr_t)context->uc_mcontext.gregs[REG_RSP];
#elif defined(__aarch64__)
  const uintptr_t now = context->uc_mcontext.pc, stack = context->uc_mcontext.sp;
#endif
  const struct ranges *const modules = __atomic_load_n(&extensions, __ATOMIC_ACQUIRE);
  if (is_in_loop(now)) return &in_python;
  struct place *found = find(modules, now);
  if (found != NULL) return found;
#if defined(__aarch64__)
  const uintptr_t back = context->uc_mcontext.regs[30]; /* of a function that calls none, it is nowhere else */
  if (is_in_loop(back)) return &in_python;
  if ((found = find(modules, back)) != NULL) return found;
#endif
  uintptr_t end = stack + DEEPEST_WORD * sizeof(uintptr_t);
  if (stack < s->stack_begin || stack >= s->stack_end) return &elsewhere; /* another stack (of a handler, a fiber): who knows how long */
  if (end > s->stack_end) end = s->stack_end;
  for (uintptr_t at = (stack + 7) & -(uintptr_t)8; at + 8 <= end; at += 8) {
    const uintptr_t word = *(const uintptr_t *)at;
    if (is_in_loop(word)) {
      if (behind_call(word)) return &in_python;
    } else if ((found = find(modules, word)) != NULL && behind_call(word)) {
      return found;
    }
  }
  return now >= python_begin_at && now < python_end_at ? &in_python : &elsewhere;
}

static void tick(int number, siginfo_t *info, void *context) {
  (void)number;
  if (info->si_code != SI_TIMER) return;
  struct python_sampled *const s = info->si_value.sival_ptr;
  const uint64_t cpu = processor_time(), since = s->last;
  if (!occatrace_capture || (py.embedded && s->thread->border == 0)) {
    s->last = cpu;
    return;
  }
  const uint32_t at = s->written;
  if (at - __atomic_load_n(&s->read, __ATOMIC_ACQUIRE) == RING) return; /* the next one that has room counts for it */
  s->last = cpu;
  s->ring[at % RING] = (struct sample){occatrace_now(), cpu - since, innermost(s, context)};
  __atomic_store_n(&s->written, at + 1, __ATOMIC_RELEASE);
}

void python_sample_thread(struct python_thread *t) {
  if (t->sampled != NULL || signal_number == 0) return;
  struct python_sampled *s = calloc(1, sizeof *s);
  if (s == NULL) return;
  t->sampled = s;
  s->thread = t;
  s->tid = t->tid;
  pthread_attr_t attributes;
  void *stack = NULL;
  size_t size = 0;
  if (pthread_getattr_np(pthread_self(), &attributes) == 0) {
    pthread_attr_getstack(&attributes, &stack, &size);
    pthread_attr_destroy(&attributes);
  }
  s->stack_begin = (uintptr_t)stack;
  s->stack_end = (uintptr_t)stack + size;
  s->last = processor_time();
  struct sigevent event = {.sigev_notify = SIGEV_THREAD_ID, .sigev_signo = signal_number, .sigev_value.sival_ptr = s};
  event._sigev_un._tid = (pid_t)syscall(SYS_gettid);
  const struct itimerspec every = {{0, 1000000}, {0, 1000000}}; /* the kernel makes it its tick */
  if (timer_create(CLOCK_THREAD_CPUTIME_ID, &event, &s->timer) != 0) {
    occatrace_say("no timer of processor time: --python time is not followed");
    s->ended = 1;
  } else {
    timer_settime(s->timer, 0, &every, NULL);
  }
  pthread_mutex_lock(&lock);
  s->next = all;
  all = s;
  pthread_mutex_unlock(&lock);
}

void python_sample_ends(struct python_thread *t) {
  struct python_sampled *const s = t->sampled;
  if (s == NULL) return;
  pthread_mutex_lock(&lock); /* who stops it all deletes it as well */
  if (!s->ended) timer_delete(s->timer); /* what is pending is delivered as this returns */
  s->thread = NULL;
  s->ended = 1;
  pthread_mutex_unlock(&lock);
}

void python_samples_start(void) {
  struct python_thread *t = python_thread();
  if (t == NULL || signal_number != 0) return;
  void *function = dlsym(python_home, "_PyEval_EvalFrameDefault");
  Dl_info info;
  const ElfW(Sym) *symbol = NULL;
  if (function == NULL || !dladdr1(function, &info, (void **)&symbol, RTLD_DL_SYMENT) || symbol == NULL) {
    occatrace_say("this Python does not tell where it runs its code: --python time is not followed");
    return;
  }
  loop[0].begin = (uintptr_t)function;
  loop[0].end = loop[0].begin + symbol->st_size;
  if (!python_loop_code(&loop[1].begin, &loop[1].end)) loop[1].begin = loop[1].end = 0;
  python_samples_look();
  /* A signal that is ignored by default: one that waits while the process becomes another program must not end that. */
  struct sigaction now;
  if (sigaction(SIGURG, NULL, &now) == 0 && (now.sa_handler == SIG_DFL || now.sa_handler == SIG_IGN)) signal_number = SIGURG;
  struct sigaction action = {.sa_sigaction = tick, .sa_flags = SA_SIGINFO | SA_RESTART | SA_ONSTACK};
  sigfillset(&action.sa_mask);
  if (extensions == NULL) return;
  if (signal_number == 0 || sigaction(signal_number, &action, NULL) != 0) {
    occatrace_say("the program uses SIGURG itself: --python time is not followed");
    signal_number = 0;
    return;
  }
  python_sampling = 1;
  occatrace_want_harvest();
  if (!py.embedded) python_sample_thread(t);
}

/* The program wants the signal for itself. */
void python_samples_stop(void) {
  pthread_mutex_lock(&lock);
  signal_number = 0;
  for (struct python_sampled *s = all; s != NULL; s = s->next) {
    if (!s->ended) timer_delete(s->timer);
    s->ended = 1;
  }
  pthread_mutex_unlock(&lock);
}

void python_samples_harvest(void) {
  if (!python_sampling || !python_start_events()) return;
  pthread_mutex_lock(&lock);
  for (struct python_sampled **link = &all; *link != NULL;) {
    struct python_sampled *const s = *link;
    const uint32_t written = __atomic_load_n(&s->written, __ATOMIC_ACQUIRE);
    struct occatrace_thread *const self = occatrace_self();
    for (; s->read != written; __atomic_store_n(&s->read, s->read + 1, __ATOMIC_RELEASE)) {
      const struct sample *const one = &s->ring[s->read % RING];
      if (one->place->name_id == 0) one->place->name_id = occatrace_intern(one->place->name);
      const struct occatrace_python_sample r = {
          .tid = self->tid,
          .seq = occatrace_next_seq(self),
          .owner = s->tid,
          .part = (uint8_t)one->place->part,
          .name = one->place->name_id,
          .time = one->time,
          .cpu = one->cpu,
      };
      python_events->sample(&r);
    }
    if (s->thread == NULL) {
      *link = s->next;
      free(s);
    } else {
      link = &s->next;
    }
  }
  pthread_mutex_unlock(&lock);
}

/* Timers are not inherited; what the parent has not written yet is the parent's. */
void python_samples_forked(struct python_thread *t) {
  pthread_mutex_init(&lock, NULL);
  all = NULL;
  if (t != NULL) t->sampled = NULL;
  if (python_sampling && t != NULL && !py.embedded) {
    python_sample_thread(t);
    /* Samples come from a signal handler, which cannot register the child, as other records do. */
    if (occatrace_start()) occatrace_want_harvest();
  }
}
