/* Call paths (--call-paths): the stack of the program at launches, copies, allocations, builds, waits and calls of MPI.
 *
 * How to leave a function (where its caller's return address and rbp are) depends on the place in it only, and comes from its
 * unwind table (.eh_frame), read once and kept by place in a table of the thread: a stack costs a few nanoseconds a frame, without
 * locks and system calls. What those few rules cannot say (signal frames, other registers) takes all registers along.
 * Nothing here allocates by malloc: a traced call may be made by a handler that interrupted it. */
#define _GNU_SOURCE
#include <ctype.h>
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/mman.h>

#include "internal.h"
#include "unwinder.h"

enum {
  DEEPEST = OCCATRACE_DEEPEST_PATH,
  NODES = 1 << 20,
};

static uint32_t wanted; /* kinds of calls */
static int sampled, no_room;
static uint32_t depth = OCCATRACE_PATH_DEPTH;
static void (*other)(struct occatrace_thread *self, uint32_t call_seq, uint32_t kinds);

/* ---- rules ---- */

#define RULES 1024u
#define KNOWN 4096u
struct state {
  uint32_t unloads, generation;
  struct occatrace_rule rules[RULES];
  struct {
    uint64_t hash;
    uint32_t path;
  } known[KNOWN]; /* stacks seen before */
};

static struct occatrace_rule rule_of(struct occatrace_thread *self, struct state *state, uintptr_t address) {
  struct occatrace_rule *const kept = &state->rules[(address ^ address >> 10 ^ address >> 20) % RULES];
  struct occatrace_rule rule;
  if (__builtin_expect(kept->address == address, 1)) {
    rule = *kept;
    __atomic_signal_fence(__ATOMIC_SEQ_CST);
    if (__builtin_expect(kept->address == address, 1)) return rule; /* no handler has put another one there meanwhile */
  }
  occatrace_rule_at(&rule, address);
  /* Generated code may be replaced by other code; a handler may come between. */
  if (!occatrace_in_module(self, address)) return rule;
  kept->address = 0;
  __atomic_signal_fence(__ATOMIC_SEQ_CST);
  memcpy((char *)kept + sizeof kept->address, (const char *)&rule + sizeof rule.address, sizeof rule - sizeof rule.address);
  __atomic_signal_fence(__ATOMIC_SEQ_CST);
  kept->address = address;
  return rule;
}

/* ---- stacks ---- */

struct stack {
  uintptr_t from; /* where on the stack the outermost recorded call begins */
  uint32_t count, end, visited;
  uintptr_t at[DEEPEST]; /* return addresses, the innermost first */
};

/* By all registers, for what return addresses and rbp alone cannot say. */
struct slow_walk {
  struct occatrace_thread *self;
  struct state *state;
  struct stack *stack;
};

static int walked(void *data, uintptr_t address, uintptr_t slot) {
  struct stack *const s = ((const struct slow_walk *)data)->stack;
  if (++s->visited > 4 * DEEPEST) { /* tables that lead in circles */
    s->end = OCCATRACE_PATH_NO_TABLE;
    return 1;
  }
  if (slot < s->from) return 0;
  if (s->count == depth) {
    s->end = OCCATRACE_PATH_CUT;
    return 1;
  }
  s->at[s->count++] = address;
  return 0;
}

static struct occatrace_rule rule_of_walk(void *data, uintptr_t address) {
  const struct slow_walk *const w = data;
  return rule_of(w->self, w->state, address);
}

__attribute__((noinline)) static void walk_slowly(struct occatrace_thread *self, struct state *state, struct stack *s) {
  struct slow_walk w = {self, state, s};
  s->count = s->visited = 0;
  s->end = OCCATRACE_PATH_WHOLE;
  const uint32_t end = (uint32_t)occatrace_unwind(walked, rule_of_walk, &w);
  if (s->end == OCCATRACE_PATH_WHOLE) s->end = end;
}

#if defined(__x86_64__)
/* Whether a place further out on the stack can be read. Tables that do not fit the code (of assembly) lead anywhere; from the
 * neighbourhood of a frame, which is on the stack, no system call is needed. */
enum { NEAR = 64 << 10 };
static int is_there(uintptr_t place, uintptr_t rsp) {
  unsigned char resident;
  if (place < rsp || place - rsp > (UINT64_C(1) << 30) || place % sizeof(void *) != 0) return 0;
  if (place - rsp < NEAR) return 1;
  const int before = errno; /* the program's */
  const int there = mincore((void *)(place & ~(uintptr_t)4095), 1, &resident) == 0;
  errno = before;
  return there;
}
#endif

/* Where the caller of this function is, and what is around it. */
__attribute__((noinline)) static void walk(struct occatrace_thread *self, struct state *state, struct stack *s) {
  s->count = 0;
#if defined(__x86_64__)
  const uintptr_t *const own = __builtin_frame_address(0);
  uintptr_t rbp = own[0], address = own[1], rsp = (uintptr_t)(own + 2);
  for (uint32_t frames = 0; frames < 2 * DEEPEST; frames++) {
    if (rsp - sizeof(void *) >= s->from) {
      if (s->count == depth) {
        s->end = OCCATRACE_PATH_CUT;
        return;
      }
      s->at[s->count++] = address;
    }
    const struct occatrace_rule rule = rule_of(self, state, address);
    uintptr_t cfa = 0;
    const uintptr_t cfa_at = rbp + (uintptr_t)(intptr_t)rule.cfa_offset, at_rbp = rbp + (uintptr_t)(intptr_t)rule.rbp_offset;
    switch (rule.cfa) {
      case OCCATRACE_CFA_RSP: cfa = rsp + (uintptr_t)(intptr_t)rule.cfa_offset; break;
      case OCCATRACE_CFA_RBP: cfa = rbp + (uintptr_t)(intptr_t)rule.cfa_offset; break;
      case OCCATRACE_CFA_AT_RBP:
        if (is_there(cfa_at, rsp)) cfa = *(const uintptr_t *)cfa_at;
        break;
      case OCCATRACE_CFA_END: s->end = OCCATRACE_PATH_WHOLE; return;
      case OCCATRACE_CFA_NONE: s->end = OCCATRACE_PATH_NO_TABLE; return;
      default: walk_slowly(self, state, s); return;
    }
    const uintptr_t returns = cfa - sizeof(void *), kept_rbp = rule.rbp == OCCATRACE_RBP_AT_CFA ? cfa + (uintptr_t)(intptr_t)rule.rbp_offset : at_rbp;
    if (cfa <= rsp || !is_there(returns, rsp) || (rule.rbp != OCCATRACE_RBP_SAME && !is_there(kept_rbp, rsp))) {
      s->end = OCCATRACE_PATH_NO_TABLE;
      return;
    }
    address = *(const uintptr_t *)returns;
    if (rule.rbp != OCCATRACE_RBP_SAME) rbp = *(const uintptr_t *)kept_rbp;
    rsp = cfa;
    if (address == 0) {
      s->end = OCCATRACE_PATH_WHOLE;
      return;
    }
  }
  s->end = OCCATRACE_PATH_CUT;
#else
  walk_slowly(self, state, s);
#endif
}

/* ---- numbers ---- */

/* Stacks are a tree: a frame and the frame around it. Of the process, by number; readers take the lock. */
struct node {
  uint64_t address;
  uint32_t parent, end;
};
static struct node *nodes;
static uint32_t *places; /* of nodes, by hash; 0: free */
static uint32_t used, generation = 1;

static uint64_t mixed(uint64_t h, uint64_t word) {
  h = (h ^ word) * UINT64_C(0x9E3779B97F4A7C15);
  return h ^ h >> 29;
}

static uint32_t node_of(struct occatrace_thread *self, uint32_t parent, uint32_t end, uint64_t address) {
  uint32_t at = (uint32_t)(mixed(mixed(parent, end), address) >> 16) % (2 * NODES);
  for (; places[at] != 0; at = (at + 1) % (2 * NODES)) {
    const struct node *n = &nodes[places[at]];
    if (n->address == address && n->parent == parent && n->end == end) return places[at];
  }
  if (used + 1 >= NODES) {
    if (used + 1 == NODES) occatrace_say("more than %d frames of call paths; calls on new paths have none", NODES), used++;
    return 0;
  }
  nodes[++used] = (struct node){address, parent, end};
  places[at] = used;
  const struct occatrace_process_path_frame r = {
      .tid = self->tid,
      .seq = occatrace_next_seq(self),
      .pid = occatrace_pid,
      .id = used,
      .parent = parent,
      .address = address,
      .end = (uint8_t)end,
  };
  occatrace_process->path_frame(&r);
  return used;
}

/* Parts of functions that have no symbol. */
enum { CODES = 16 };
static struct {
  uintptr_t begin, end;
  const char *function;
} codes[CODES];
static uint32_t codes_known, codes_announced;

void occatrace_name_code(uintptr_t begin, uintptr_t end, const char *function) {
  sigset_t all, signals;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &signals);
  occatrace_announcements_lock();
  uint32_t i = 0;
  while (i < codes_known && codes[i].begin != begin) i++;
  if (i == codes_known && i < CODES) {
    codes[i].begin = begin;
    codes[i].end = end;
    codes[i].function = function;
    codes_known++;
  }
  occatrace_announcements_unlock();
  pthread_sigmask(SIG_SETMASK, &signals, NULL);
}

/* Under the lock. */
static void announce_codes(struct occatrace_thread *self) {
  for (; codes_announced < codes_known; codes_announced++) {
    const struct occatrace_process_code r = {
        .tid = self->tid,
        .seq = occatrace_next_seq(self),
        .pid = occatrace_pid,
        .begin = codes[codes_announced].begin,
        .size = codes[codes_announced].end - codes[codes_announced].begin,
        .function = codes[codes_announced].function,
    };
    occatrace_process->code(&r);
  }
}

/* Its large frame is for stacks that are new to the thread. */
__attribute__((noinline)) uint32_t occatrace_path_of(struct occatrace_thread *self, const uintptr_t *at, uint32_t count, uint32_t end) {
  for (uint32_t i = 0; i < count; i++) occatrace_in_module(self, at[i]); /* announced before it is named */
  sigset_t all, signals;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &signals);
  occatrace_announcements_lock();
  uint32_t path = 0;
  if (nodes == NULL) {
    nodes = mmap(NULL, NODES * sizeof *nodes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    places = mmap(NULL, 2 * NODES * sizeof *places, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (nodes == MAP_FAILED || places == MAP_FAILED) wanted = 0, no_room = 1;
  }
  announce_codes(self);
  for (uint32_t i = count; i-- > 0 && !no_room;) {
    path = node_of(self, path, path == 0 ? end : OCCATRACE_PATH_WHOLE, occatrace_place(at[i]));
    if (path == 0) break;
  }
  occatrace_announcements_unlock();
  pthread_sigmask(SIG_SETMASK, &signals, NULL);
  return path;
}

static struct state *state_of(struct occatrace_thread *self) {
  struct state *state = self->paths;
  if (state == NULL) {
    void *room = mmap(NULL, sizeof *state, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (room == MAP_FAILED) return NULL;
    state = self->paths = room;
  }
  const uint32_t unloads = __atomic_load_n(&occatrace_unloads, __ATOMIC_ACQUIRE);
  if (__builtin_expect(state->unloads != unloads || state->generation != generation, 0)) {
    memset(state, 0, sizeof *state);
    state->unloads = unloads;
    state->generation = generation;
  }
  return state;
}

void occatrace_paths_free(struct occatrace_thread *ended) {
  if (ended->paths != NULL) munmap(ended->paths, sizeof(struct state));
}

/* In the child of a fork the frames are announced again. */
void occatrace_forget_paths(void) {
  generation++;
  used = codes_announced = 0;
  if (places != NULL) madvise(places, 2 * NODES * sizeof *places, MADV_DONTNEED);
}

static void on_call(struct occatrace_thread *self, uint32_t call_seq, uint32_t kinds) {
  void (*const also)(struct occatrace_thread *, uint32_t, uint32_t) = __atomic_load_n(&other, __ATOMIC_ACQUIRE);
  if (also != NULL) also(self, call_seq, kinds);
  struct state *const state = (kinds & wanted) != 0 ? state_of(self) : NULL;
  if (state == NULL) return;
  struct stack s;
  s.from = self->call_frame;
  walk(self, state, &s);
  if (s.count == 0) return;
  uint64_t hash = s.end + 1;
  for (uint32_t i = 0; i < s.count; i++) hash = mixed(hash, s.at[i]);
  const uint32_t at = (uint32_t)(hash >> 32) % KNOWN;
  /* A handler may come between, and a call that it makes has the stack of this one: the number counts if it stood beside this hash
   * before and after. */
  int is_known = state->known[at].hash == hash;
  __atomic_signal_fence(__ATOMIC_SEQ_CST);
  uint32_t path = state->known[at].path;
  __atomic_signal_fence(__ATOMIC_SEQ_CST);
  is_known &= state->known[at].hash == hash;
  if (__builtin_expect(!is_known, 0)) {
    path = occatrace_path_of(self, s.at, s.count, s.end);
    state->known[at].hash = 0;
    __atomic_signal_fence(__ATOMIC_SEQ_CST);
    state->known[at].path = path;
    __atomic_signal_fence(__ATOMIC_SEQ_CST);
    state->known[at].hash = hash;
  }
  if (path == 0) return;
  const struct occatrace_process_call_path r = {.tid = self->tid, .seq = occatrace_next_seq(self), .call_seq = call_seq, .path = path};
  occatrace_process->call_path(&r);
}

/* ---- what is wanted ---- */

void (*occatrace_on_call)(struct occatrace_thread *self, uint32_t call_seq, uint32_t kinds);

void occatrace_want_calls(void (*told)(struct occatrace_thread *self, uint32_t call_seq, uint32_t kinds)) {
  __atomic_store_n(&other, told, __ATOMIC_RELEASE);
  if (wanted == 0) __atomic_store_n(&occatrace_on_call, told, __ATOMIC_RELEASE);
}

uint32_t occatrace_path_kinds(void) { return wanted; }

int occatrace_paths_wanted(void) { return wanted != 0 || sampled; }

void occatrace_paths_for_samples(void) { sampled = 1; }

/* DEPTH, kinds of calls, or both, with commas between them; occa_prof has checked them. */
void occatrace_paths_start(void) {
  static const char *const names[] = OCCATRACE_PATH_KIND_NAMES; /* by bit of occatrace_call_effect */
  enum { NAMES = sizeof names / sizeof *names };
  _Static_assert(1 << (NAMES - 1) == OCCATRACE_IS_MPI, "a name for each kind of calls with paths");
  const char *text = getenv("OCCATRACE_CALL_PATHS");
  if (text == NULL || *text == '\0') return;
  uint32_t kinds = 0;
  while (*text != '\0') {
    const size_t n = strcspn(text, ",");
    for (uint32_t i = 0; i < NAMES; i++)
      if (strlen(names[i]) == n && strncasecmp(text, names[i], n) == 0) kinds |= 1u << i;
    if (isdigit((unsigned char)*text)) depth = (uint32_t)strtoul(text, NULL, 10);
    text += text[n] == ',' ? n + 1 : n;
  }
  if (depth < 1 || depth > DEEPEST) depth = OCCATRACE_PATH_DEPTH;
  if (!occatrace_can_unwind()) {
    occatrace_say("libgcc_s.so.1 is missing: no call paths");
    return;
  }
  wanted = kinds != 0 ? kinds : (1u << NAMES) - 1;
  __atomic_store_n(&other, occatrace_on_call, __ATOMIC_RELEASE);
  __atomic_store_n(&occatrace_on_call, on_call, __ATOMIC_RELEASE);
}
