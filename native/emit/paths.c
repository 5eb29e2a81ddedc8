/* Call paths (--call-paths): the stack of the program at launches, copies, allocations, builds, waits and calls of MPI.
 *
 * How to leave a function (where its caller's return address and rbp are) depends on the place in it only, and comes from its
 * unwind table (.eh_frame), read once and kept by place in a table of the thread: a stack costs a few nanoseconds a frame, without
 * locks and system calls. What those few rules cannot say (signal frames, other registers) is left to libgcc's unwinder.
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

enum { DEEPEST = 256, USUAL_DEPTH = 64, NODES = 1 << 20 };
/* Why a path begins where it does; as the model's path_end. */
enum { WHOLE, CUT, NO_TABLE };

static uint32_t wanted; /* kinds of calls */
static uint32_t depth = USUAL_DEPTH;
static const struct occatrace_unwinder *unwinder;
static void (*other)(struct occatrace_thread *self, uint32_t call_seq, uint32_t kinds);

/* ---- rules ---- */

enum { CFA_NONE, CFA_END, CFA_OTHER, CFA_RSP, CFA_RBP, CFA_AT_RBP };
enum { RBP_SAME, RBP_AT_CFA, RBP_AT_RBP };
struct rule {
  uintptr_t address; /* return address; 0: none */
  int32_t cfa_offset, rbp_offset;
  uint8_t cfa, rbp;
};

#define RULES 1024u
#define KNOWN 4096u
struct state {
  uint32_t unloads, generation;
  struct rule rules[RULES];
  struct { uint64_t hash; uint32_t path; } known[KNOWN]; /* stacks seen before */
};

#if defined(__x86_64__)
static uint64_t uleb(const uint8_t **at) {
  uint64_t value = 0;
  for (unsigned shift = 0;; shift += 7) {
    const uint8_t byte = *(*at)++;
    if (shift < 64) value |= (uint64_t)(byte & 0x7f) << shift;
    if (!(byte & 0x80)) return value;
  }
}
static int64_t sleb(const uint8_t **at) {
  int64_t value = 0;
  unsigned shift = 0;
  uint8_t byte;
  do {
    byte = *(*at)++;
    if (shift < 64) value |= (int64_t)((uint64_t)(byte & 0x7f) << shift);
    shift += 7;
  } while (byte & 0x80);
  return shift < 64 && (byte & 0x40) ? value | -(INT64_C(1) << shift) : value;
}
static uint32_t word32(const uint8_t *at) {
  uint32_t value;
  memcpy(&value, at, sizeof value);
  return value;
}
/* Bytes of an encoded pointer; 0: of a form that no compiler writes here. */
static unsigned encoded(uint8_t encoding) {
  static const uint8_t sizes[16] = {8, 0, 2, 4, 8, 0, 0, 0, 8, 0, 2, 4, 8, 0, 0, 0};
  return (encoding & 0x70) == 0x50 ? 0 : sizes[encoding & 15];
}

struct row {
  uint64_t cfa_register;
  int64_t cfa_offset, rbp_offset;
  uint8_t expression, rbp, odd, end; /* CFA is what lies at rbp + offset; odd: other rules than those that are known here */
};
struct frame_info {
  int64_t data_align;
  uint64_t code_align;
  uint8_t encoding;
};
enum { RBP = 6, RSP = 7, RETURN = 16, BREG_RBP = 0x76, DEREF = 0x06 };

static void expression_of_cfa(struct row *row, const uint8_t *at, uint64_t length) {
  const uint8_t *end = at + length;
  row->odd |= length < 3 || *at++ != BREG_RBP;
  if (row->odd) return;
  row->cfa_offset = sleb(&at);
  row->odd |= at + 1 != end || *at != DEREF;
  row->expression = 1;
}
static void expression_of(struct row *row, uint64_t number, const uint8_t *at, uint64_t length) {
  if (number != RBP) {
    row->odd |= number == RETURN || number == RSP;
    return;
  }
  const uint8_t *end = at + length;
  row->odd |= length < 2 || *at++ != BREG_RBP;
  if (row->odd) return;
  row->rbp_offset = sleb(&at);
  row->odd |= at != end;
  row->rbp = RBP_AT_RBP;
}
static void saved(struct row *row, uint64_t number, int64_t offset) {
  if (number == RBP) row->rbp = RBP_AT_CFA, row->rbp_offset = offset;
  else if (number == RETURN) row->odd |= offset != -8, row->end = 0;
  else row->odd |= number == RSP;
}

/* Runs a table's instructions up to `target`, in bytes from the start of the function. */
static void run(struct row *row, const struct row *initial, const uint8_t *at, const uint8_t *end, const struct frame_info *info, uint64_t target) {
  struct row stack[8];
  unsigned depth_of_stack = 0;
  uint64_t here = 0, number;
  while (at < end && !row->odd) {
    const uint8_t op = *at++, low = op & 0x3f;
    uint64_t advance = 0;
    switch (op >> 6) {
      case 1: advance = low; break;
      case 2: saved(row, low, (int64_t)uleb(&at) * info->data_align); continue;
      case 3:
        if (low == RBP) row->rbp = initial->rbp, row->rbp_offset = initial->rbp_offset;
        continue;
      default:
        switch (low) {
          case 0x00: continue;
          case 0x02: advance = *at++; break;
          case 0x03: advance = (uint64_t)at[0] | (uint64_t)at[1] << 8; at += 2; break;
          case 0x04: advance = word32(at); at += 4; break;
          case 0x05: number = uleb(&at); saved(row, number, (int64_t)uleb(&at) * info->data_align); continue;
          case 0x06:
            if (uleb(&at) == RBP) row->rbp = initial->rbp, row->rbp_offset = initial->rbp_offset;
            continue;
          case 0x07: /* undefined: of the return address, nothing called this one */
          case 0x08:
            number = uleb(&at);
            if (number == RETURN) row->end = low == 0x07;
            else if (number == RBP) row->rbp = RBP_SAME;
            continue;
          case 0x09: number = uleb(&at); uleb(&at); row->odd |= number == RBP || number == RETURN || number == RSP; continue;
          case 0x0a:
            if (depth_of_stack == 8) row->odd = 1;
            else stack[depth_of_stack++] = *row;
            continue;
          case 0x0b:
            if (depth_of_stack == 0) row->odd = 1;
            else *row = stack[--depth_of_stack];
            continue;
          case 0x0c: row->cfa_register = uleb(&at); row->cfa_offset = (int64_t)uleb(&at); row->expression = 0; continue;
          case 0x0d: row->cfa_register = uleb(&at); continue;
          case 0x0e: row->cfa_offset = (int64_t)uleb(&at); continue;
          case 0x0f: number = uleb(&at); expression_of_cfa(row, at, number); at += number; continue;
          case 0x10: {
            number = uleb(&at);
            const uint64_t length = uleb(&at);
            expression_of(row, number, at, length);
            at += length;
            continue;
          }
          case 0x11: number = uleb(&at); saved(row, number, sleb(&at) * info->data_align); continue;
          case 0x12: row->cfa_register = uleb(&at); row->cfa_offset = sleb(&at) * info->data_align; row->expression = 0; continue;
          case 0x13: row->cfa_offset = sleb(&at) * info->data_align; continue;
          case 0x16: number = uleb(&at); row->odd |= number == RBP || number == RETURN || number == RSP; number = uleb(&at); at += number; continue;
          case 0x2e: uleb(&at); continue; /* GNU_args_size */
          default: row->odd = 1; continue;
        }
    }
    here += advance * info->code_align;
    if (here > target) return;
  }
}

/* How to leave the function that a return address lies in. */
static void find_rule(struct rule *rule, uintptr_t address) {
  struct { void *text, *data, *function; } bases = {NULL, NULL, NULL};
  *rule = (struct rule){.address = address, .cfa = CFA_OTHER};
  const uint8_t *const fde = unwinder->find_fde((void *)(address - 1), &bases);
  if (fde == NULL) {
    rule->cfa = CFA_NONE;
    return;
  }
  if (word32(fde) == UINT32_MAX) return;
  const uint8_t *const fde_end = fde + 4 + word32(fde), *cie = fde + 4 - (int32_t)word32(fde + 4), *at = cie + 8;
  const uint8_t *const cie_end = cie + 4 + word32(cie);
  const uint8_t version = *at++;
  const char *augmentation = (const char *)at;
  at += strlen(augmentation) + 1;
  struct frame_info info = {.encoding = 0};
  info.code_align = uleb(&at);
  info.data_align = sleb(&at);
  if ((version == 1 ? *at++ : uleb(&at)) != RETURN) return;
  if (*augmentation == 'z') {
    const uint64_t length = uleb(&at);
    const uint8_t *const instructions = at + length;
    for (const char *c = augmentation + 1; *c != '\0'; c++) {
      if (*c == 'R') info.encoding = *at++;
      else if (*c == 'L') at++;
      else if (*c == 'P') {
        const unsigned size = encoded(*at++);
        if (size == 0) return;
        at += size;
      } else return; /* signal frames among them */
    }
    at = instructions;
  } else if (*augmentation != '\0') {
    return;
  }
  const unsigned size = encoded(info.encoding);
  if (size == 0) return;
  struct row row = {.cfa_register = UINT64_MAX}, initial;
  run(&row, &row, at, cie_end, &info, 0);
  initial = row;
  at = fde + 8 + 2 * size;
  if (*augmentation == 'z') {
    const uint64_t length = uleb(&at);
    at += length;
  }
  run(&row, &initial, at, fde_end, &info, address - 1 - (uintptr_t)bases.function);
  if (row.odd) return;
  if (row.end) {
    rule->cfa = CFA_END;
    return;
  }
  if (row.cfa_offset != (int32_t)row.cfa_offset || row.rbp_offset != (int32_t)row.rbp_offset) return;
  rule->cfa_offset = (int32_t)row.cfa_offset;
  rule->rbp_offset = (int32_t)row.rbp_offset;
  rule->rbp = row.rbp;
  rule->cfa = row.expression ? CFA_AT_RBP : row.cfa_register == RSP ? CFA_RSP : row.cfa_register == RBP ? CFA_RBP : CFA_OTHER;
}

static struct rule rule_of(struct occatrace_thread *self, struct state *state, uintptr_t address) {
  struct rule *const kept = &state->rules[(address ^ address >> 10 ^ address >> 20) % RULES];
  if (__builtin_expect(kept->address == address, 1)) return *kept;
  struct rule rule;
  find_rule(&rule, address);
  /* Generated code may be replaced by other code; a handler may come between. */
  if (!occatrace_in_module(self, address)) return rule;
  kept->address = 0;
  __atomic_signal_fence(__ATOMIC_SEQ_CST);
  kept->cfa_offset = rule.cfa_offset, kept->rbp_offset = rule.rbp_offset, kept->cfa = rule.cfa, kept->rbp = rule.rbp;
  __atomic_signal_fence(__ATOMIC_SEQ_CST);
  kept->address = address;
  return rule;
}
#endif

/* ---- stacks ---- */

struct stack {
  uintptr_t from; /* where on the stack the outermost recorded call begins */
  uint32_t count, end, visited;
  uintptr_t at[DEEPEST]; /* return addresses, the innermost first */
};

static int unwound(struct _Unwind_Context *context, void *data) {
  struct stack *s = data;
  const uintptr_t address = unwinder->ip(context);
  if (++s->visited > 4 * DEEPEST) { /* tables that lead in circles */
    s->end = NO_TABLE;
    return 5; /* _URC_END_OF_STACK */
  }
  if (address == 0 || unwinder->cfa(context) - sizeof(void *) < s->from) return 0;
  if (s->count == depth) {
    s->end = CUT;
    return 5;
  }
  s->at[s->count++] = address;
  return 0;
}

/* By libgcc, for what the rules here cannot say; it does not say whether it came to the end. */
__attribute__((noinline)) static void walk_slowly(struct stack *s) {
  s->count = s->visited = 0;
  s->end = WHOLE;
  unwinder->backtrace(unwound, s);
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
        s->end = CUT;
        return;
      }
      s->at[s->count++] = address;
    }
    const struct rule rule = rule_of(self, state, address);
    uintptr_t cfa = 0;
    const uintptr_t cfa_at = rbp + (uintptr_t)(intptr_t)rule.cfa_offset, at_rbp = rbp + (uintptr_t)(intptr_t)rule.rbp_offset;
    switch (rule.cfa) {
      case CFA_RSP: cfa = rsp + (uintptr_t)(intptr_t)rule.cfa_offset; break;
      case CFA_RBP: cfa = rbp + (uintptr_t)(intptr_t)rule.cfa_offset; break;
      case CFA_AT_RBP:
        if (is_there(cfa_at, rsp)) cfa = *(const uintptr_t *)cfa_at;
        break;
      case CFA_END: s->end = WHOLE; return;
      case CFA_NONE: s->end = NO_TABLE; return;
      default: walk_slowly(s); return;
    }
    const uintptr_t returns = cfa - sizeof(void *), kept_rbp = rule.rbp == RBP_AT_CFA ? cfa + (uintptr_t)(intptr_t)rule.rbp_offset : at_rbp;
    if (cfa <= rsp || !is_there(returns, rsp) || (rule.rbp != RBP_SAME && !is_there(kept_rbp, rsp))) {
      s->end = NO_TABLE;
      return;
    }
    address = *(const uintptr_t *)returns;
    if (rule.rbp != RBP_SAME) rbp = *(const uintptr_t *)kept_rbp;
    rsp = cfa;
    if (address == 0) {
      s->end = WHOLE;
      return;
    }
  }
  s->end = CUT;
#else
  (void)self, (void)state;
  walk_slowly(s);
#endif
}

/* ---- numbers ---- */

/* Stacks are a tree: a frame and the frame around it. Of the process, by number; readers take the lock. */
struct node { uintptr_t address; uint32_t parent, end; };
static struct node *nodes;
static uint32_t *places; /* of nodes, by hash; 0: free */
static uint32_t used, generation = 1;

static uint64_t mixed(uint64_t h, uint64_t word) {
  h = (h ^ word) * UINT64_C(0x9E3779B97F4A7C15);
  return h ^ h >> 29;
}

static uint32_t node_of(struct occatrace_thread *self, uint32_t parent, uint32_t end, uintptr_t address) {
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
      .tid = self->tid, .seq = self->next_seq++, .pid = occatrace_pid, .id = used, .parent = parent, .address = address, .end = (uint8_t)end};
  occatrace_process->path_frame(&r);
  return used;
}

/* Its large frame is for stacks that are new to the thread. */
__attribute__((noinline)) static uint32_t number_of(struct occatrace_thread *self, const struct stack *s) {
  for (uint32_t i = 0; i < s->count; i++) occatrace_in_module(self, s->at[i]); /* announced before it is named */
  sigset_t all, signals;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &signals);
  occatrace_announcements_lock();
  uint32_t path = 0;
  if (nodes == NULL) {
    nodes = mmap(NULL, NODES * sizeof *nodes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    places = mmap(NULL, 2 * NODES * sizeof *places, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (nodes == MAP_FAILED || places == MAP_FAILED) wanted = 0;
  }
  for (uint32_t i = s->count; i-- > 0 && wanted != 0;) {
    path = node_of(self, path, path == 0 ? s->end : WHOLE, s->at[i]);
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
  used = 0;
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
  uint32_t path = state->known[at].path;
  if (__builtin_expect(state->known[at].hash != hash, 0)) {
    path = number_of(self, &s);
    state->known[at].hash = 0;
    __atomic_signal_fence(__ATOMIC_SEQ_CST);
    state->known[at].path = path;
    __atomic_signal_fence(__ATOMIC_SEQ_CST);
    state->known[at].hash = hash;
  }
  if (path == 0) return;
  const struct occatrace_process_call_path r = {.tid = self->tid, .seq = self->next_seq++, .call_seq = call_seq, .path = path};
  occatrace_process->call_path(&r);
}

/* ---- what is wanted ---- */

void (*occatrace_on_call)(struct occatrace_thread *self, uint32_t call_seq, uint32_t kinds);

void occatrace_want_calls(void (*told)(struct occatrace_thread *self, uint32_t call_seq, uint32_t kinds)) {
  __atomic_store_n(&other, told, __ATOMIC_RELEASE);
  if (wanted == 0) __atomic_store_n(&occatrace_on_call, told, __ATOMIC_RELEASE);
}

int occatrace_paths_wanted(void) { return wanted != 0; }

/* DEPTH, kinds of calls, or both, with commas between them; occa_prof has checked them. */
void occatrace_paths_start(void) {
  static const struct { const char *name; uint32_t kind; } names[] = {
      {"launch", OCCATRACE_LAUNCHES}, {"copy", OCCATRACE_COPIES}, {"alloc", OCCATRACE_ALLOCATES},
      {"build", OCCATRACE_BUILDS}, {"wait", OCCATRACE_WAITS}, {"mpi", OCCATRACE_IS_MPI}};
  const char *text = getenv("OCCATRACE_CALL_PATHS");
  if (text == NULL || *text == '\0') return;
  uint32_t kinds = 0;
  while (*text != '\0') {
    const size_t n = strcspn(text, ",");
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
      if (strlen(names[i].name) == n && strncasecmp(text, names[i].name, n) == 0) kinds |= names[i].kind;
    if (isdigit((unsigned char)*text)) depth = (uint32_t)strtoul(text, NULL, 10);
    text += text[n] == ',' ? n + 1 : n;
  }
  if (depth < 1 || depth > DEEPEST) depth = USUAL_DEPTH;
  unwinder = occatrace_unwinder();
  if (unwinder == NULL || unwinder->find_fde == NULL) {
    occatrace_say("libgcc_s.so.1 is missing: no call paths");
    return;
  }
  wanted = kinds != 0 ? kinds : OCCATRACE_LAUNCHES | OCCATRACE_COPIES | OCCATRACE_ALLOCATES | OCCATRACE_BUILDS | OCCATRACE_WAITS | OCCATRACE_IS_MPI;
  __atomic_store_n(&other, occatrace_on_call, __ATOMIC_RELEASE);
  __atomic_store_n(&occatrace_on_call, on_call, __ATOMIC_RELEASE);
}
