/* How to leave a function, by its unwind table: the instructions of the table up to a place in the function. What compilers write
 * is known here; the rest is `odd`. The format is that of the DWARF 4 standard, section 6.4, with the System V ABI's .eh_frame. */
#define _GNU_SOURCE
#include "unwinder.h"

#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <ucontext.h>

#include "internal.h"

/* ---- libgcc ---- */

struct _Unwind_Context;
static struct {
  int (*backtrace)(int (*)(struct _Unwind_Context *, void *), void *);
  uintptr_t (*ip)(struct _Unwind_Context *);
  uintptr_t (*cfa)(struct _Unwind_Context *);
  const void *(*find_fde)(void *address, void *bases);
} libgcc;
static int found; /* 1: it is there, -1: it is not; several threads find the same */

static void find(void) {
  const int before = errno;
  sigset_t all, signals;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &signals);
  void *library = dlopen("libgcc_s.so.1", RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
  if (library != NULL) {
    libgcc.ip = (uintptr_t (*)(struct _Unwind_Context *))dlsym(library, "_Unwind_GetIP");
    libgcc.cfa = (uintptr_t (*)(struct _Unwind_Context *))dlsym(library, "_Unwind_GetCFA");
    libgcc.find_fde = (const void *(*)(void *, void *))dlsym(library, "_Unwind_Find_FDE");
    libgcc.backtrace = (int (*)(int (*)(struct _Unwind_Context *, void *), void *))dlsym(library, "_Unwind_Backtrace");
  }
  const int all_there = libgcc.ip != NULL && libgcc.cfa != NULL && libgcc.find_fde != NULL && libgcc.backtrace != NULL;
  __atomic_store_n(&found, all_there ? 1 : -1, __ATOMIC_RELEASE);
  pthread_sigmask(SIG_SETMASK, &signals, NULL);
  errno = before;
}

int occatrace_can_unwind(void) {
  if (__atomic_load_n(&found, __ATOMIC_ACQUIRE) == 0) find();
  return found > 0;
}

#if defined(__x86_64__)
/* ---- rules ---- */

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
  const uint8_t *general; /* an expression for the CFA */
  uint8_t expression, rbp, odd, end; /* CFA is what lies at rbp + offset; odd: other rules than those that are known here */
  int16_t saved[5];
};
struct frame_info {
  int64_t data_align;
  uint64_t code_align;
  uint64_t bytes; /* of the function */
  const char *augmentation;
  const uint8_t *at, *cie_end; /* instructions of the CIE */
  unsigned size;               /* of a pointer in the entry */
  uint8_t encoding;
};
enum {
  RBP = OCCATRACE_RBP,
  RSP = OCCATRACE_RSP,
  RETURN = OCCATRACE_RETURN,
  BREG_RBP = 0x76,
  DEREF = 0x06,
};

/* Place of a register in `saved`; -1: it has none. */
static int kept(uint64_t number) {
  return number == OCCATRACE_RBX ? 0 : number >= OCCATRACE_R12 && number < RETURN ? (int)(number - OCCATRACE_R12) + 1
                                                                                  : -1;
}

static void expression_of_cfa(struct row *row, const uint8_t *whole, const uint8_t *at, uint64_t length) {
  const uint8_t *end = at + length;
  row->general = whole;
  row->expression = 0;
  if (length < 3 || *at++ != BREG_RBP) return;
  const int64_t offset = occatrace_sleb(&at);
  if (at + 1 != end || *at != DEREF) return;
  row->cfa_offset = offset;
  row->expression = 1;
  row->general = NULL;
}
static void expression_of(struct row *row, uint64_t number, const uint8_t *at, uint64_t length) {
  if (number != RBP) {
    row->odd |= number == RETURN || number == RSP;
    if (kept(number) >= 0) row->saved[kept(number)] = 0;
    return;
  }
  const uint8_t *end = at + length;
  row->odd |= length < 2 || *at++ != BREG_RBP;
  if (row->odd) return;
  row->rbp_offset = occatrace_sleb(&at);
  row->odd |= at != end;
  row->rbp = OCCATRACE_RBP_AT_RBP;
}
static void saved(struct row *row, uint64_t number, int64_t offset) {
  if (number == RBP) row->rbp = OCCATRACE_RBP_AT_CFA, row->rbp_offset = offset;
  else if (number == RETURN) row->odd |= offset != -8, row->end = 0;
  else if (kept(number) >= 0) row->saved[kept(number)] = (int16_t)(offset / (int64_t)sizeof(void *));
  else row->odd |= number == RSP;
}
static void restored(struct row *row, const struct row *initial, uint64_t number) {
  if (number == RBP) row->rbp = initial->rbp, row->rbp_offset = initial->rbp_offset;
  else if (kept(number) >= 0) row->saved[kept(number)] = initial->saved[kept(number)];
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
      case 2: saved(row, low, (int64_t)occatrace_uleb(&at) * info->data_align); continue;
      case 3: restored(row, initial, low); continue;
      default:
        switch (low) {
          case 0x00: continue;
          case 0x02: advance = *at++; break;
          case 0x03:
            advance = (uint64_t)at[0] | (uint64_t)at[1] << 8;
            at += 2;
            break;
          case 0x04:
            advance = word32(at);
            at += 4;
            break;
          case 0x05:
            number = occatrace_uleb(&at);
            saved(row, number, (int64_t)occatrace_uleb(&at) * info->data_align);
            continue;
          case 0x06: restored(row, initial, occatrace_uleb(&at)); continue;
          case 0x07: /* undefined: of the return address, nothing called this one */
          case 0x08:
            number = occatrace_uleb(&at);
            if (number == RETURN) row->end = low == 0x07;
            else if (number == RBP) row->rbp = OCCATRACE_RBP_SAME;
            else if (kept(number) >= 0) row->saved[kept(number)] = 0;
            continue;
          case 0x09:
            number = occatrace_uleb(&at);
            occatrace_uleb(&at);
            row->odd |= number == RBP || number == RETURN || number == RSP;
            continue;
          case 0x0a:
            if (depth_of_stack == 8) row->odd = 1;
            else stack[depth_of_stack++] = *row;
            continue;
          case 0x0b:
            if (depth_of_stack == 0) row->odd = 1;
            else *row = stack[--depth_of_stack];
            continue;
          case 0x0c:
            row->cfa_register = occatrace_uleb(&at);
            row->cfa_offset = (int64_t)occatrace_uleb(&at);
            row->expression = 0, row->general = NULL;
            continue;
          case 0x0d: row->cfa_register = occatrace_uleb(&at); continue;
          case 0x0e: row->cfa_offset = (int64_t)occatrace_uleb(&at); continue;
          case 0x0f: {
            const uint8_t *const whole = at;
            number = occatrace_uleb(&at);
            expression_of_cfa(row, whole, at, number);
            at += number;
            continue;
          }
          case 0x10: {
            number = occatrace_uleb(&at);
            const uint64_t length = occatrace_uleb(&at);
            expression_of(row, number, at, length);
            at += length;
            continue;
          }
          case 0x11:
            number = occatrace_uleb(&at);
            saved(row, number, occatrace_sleb(&at) * info->data_align);
            continue;
          case 0x12:
            row->cfa_register = occatrace_uleb(&at);
            row->cfa_offset = occatrace_sleb(&at) * info->data_align;
            row->expression = 0, row->general = NULL;
            continue;
          case 0x13: row->cfa_offset = occatrace_sleb(&at) * info->data_align; continue;
          case 0x16:
            number = occatrace_uleb(&at);
            row->odd |= number == RBP || number == RETURN || number == RSP;
            number = occatrace_uleb(&at);
            at += number;
            continue;
          case 0x2e: occatrace_uleb(&at); continue; /* GNU_args_size */
          default: row->odd = 1; continue;
        }
    }
    here += advance * info->code_align;
    if (here > target) return;
  }
}

/* What an entry says of itself and by its CIE, whose instructions begin at `at`; 0: it is of a form that is not read here. */
static int described(const uint8_t *fde, struct frame_info *info) {
  if (word32(fde) == UINT32_MAX) return 0;
  const uint8_t *const cie = fde + 4 - (int32_t)word32(fde + 4), *at = cie + 8;
  info->cie_end = cie + 4 + word32(cie);
  const uint8_t version = *at++;
  info->augmentation = (const char *)at;
  at += strlen(info->augmentation) + 1;
  info->code_align = occatrace_uleb(&at);
  info->data_align = occatrace_sleb(&at);
  if ((version == 1 ? *at++ : occatrace_uleb(&at)) != RETURN) return 0;
  if (*info->augmentation == 'z') {
    const uint64_t length = occatrace_uleb(&at);
    const uint8_t *const instructions = at + length;
    for (const char *c = info->augmentation + 1; *c != '\0'; c++) {
      if (*c == 'R') info->encoding = *at++;
      else if (*c == 'L') at++;
      else if (*c == 'P') {
        const unsigned size = encoded(*at++);
        if (size == 0) return 0;
        at += size;
      } else return 0; /* signal frames among them */
    }
    at = instructions;
  } else if (*info->augmentation != '\0') {
    return 0;
  }
  info->at = at;
  info->size = encoded(info->encoding);
  if (info->size == 0) return 0;
  info->bytes = 0; /* x86-64 is little endian */
  memcpy(&info->bytes, fde + 8 + info->size, info->size);
  return 1;
}

void occatrace_find_rule(struct occatrace_rule *rule, uintptr_t address, const uint8_t *fde, uintptr_t function) {
  *rule = (struct occatrace_rule){.address = address, .cfa = OCCATRACE_CFA_OTHER};
  if (fde == NULL) {
    rule->cfa = OCCATRACE_CFA_NONE;
    return;
  }
  struct frame_info info = {.encoding = 0};
  if (!described(fde, &info)) return;
  struct row row = {.cfa_register = UINT64_MAX}, initial;
  run(&row, &row, info.at, info.cie_end, &info, 0);
  initial = row;
  if (address - 1 - function >= info.bytes) {
    rule->cfa = OCCATRACE_CFA_NONE;
    return;
  }
  const uint8_t *const fde_end = fde + 4 + word32(fde), *at = fde + 8 + 2 * info.size;
  if (*info.augmentation == 'z') {
    const uint64_t length = occatrace_uleb(&at);
    at += length;
  }
  run(&row, &initial, at, fde_end, &info, address - 1 - function);
  if (row.odd) return;
  if (row.end) {
    rule->cfa = OCCATRACE_CFA_END;
    return;
  }
  memcpy(rule->saved, row.saved, sizeof rule->saved);
  if (row.general != NULL) {
    if (row.rbp != OCCATRACE_RBP_SAME) return;
    rule->expression = row.general;
    rule->cfa = OCCATRACE_CFA_EXPRESSION;
    return;
  }
  if (row.cfa_offset != (int32_t)row.cfa_offset || row.rbp_offset != (int32_t)row.rbp_offset) return;
  rule->cfa_offset = (int32_t)row.cfa_offset;
  rule->rbp_offset = (int32_t)row.rbp_offset;
  rule->rbp = row.rbp;
  rule->number = row.cfa_register < RETURN ? (uint8_t)row.cfa_register : RETURN;
  if (row.expression) rule->cfa = OCCATRACE_CFA_AT_RBP;
  else if (row.cfa_register == RSP) rule->cfa = OCCATRACE_CFA_RSP;
  else if (row.cfa_register == RBP) rule->cfa = OCCATRACE_CFA_RBP;
  else if (row.cfa_register < RETURN) rule->cfa = OCCATRACE_CFA_REGISTER;
}
void occatrace_rule_at(struct occatrace_rule *rule, uintptr_t address) {
  struct {
    void *text, *data, *function;
  } bases = {NULL, NULL, NULL};
  const uint8_t *const fde = occatrace_can_unwind() ? libgcc.find_fde((void *)(address - 1), &bases) : NULL;
  occatrace_find_rule(rule, address, fde, (uintptr_t)bases.function);
}

struct around {
  uintptr_t place, address;
};
static int below(void *data, uintptr_t address, uintptr_t slot) {
  struct around *const a = data;
  if (slot > a->place) return 1;
  a->address = address;
  return 0;
}

int occatrace_code_around(const void *on_stack, uintptr_t *begin, uintptr_t *end) {
  struct around a = {(uintptr_t)on_stack, 0};
  struct {
    void *text, *data, *function;
  } bases = {NULL, NULL, NULL};
  struct frame_info info = {.encoding = 0};
  if (!occatrace_can_unwind()) return 0;
  occatrace_unwind(below, NULL, &a);
  const uint8_t *const fde = a.address > 1 ? libgcc.find_fde((void *)(a.address - 1), &bases) : NULL;
  if (fde == NULL || !described(fde, &info)) return 0;
  *begin = (uintptr_t)bases.function;
  *end = *begin + info.bytes;
  return a.address - 1 - *begin < info.bytes;
}

/* ---- frames ---- */

enum { RED_ZONE = 128 };
static const uint8_t returns_from_signal[] = {0x48, 0xc7, 0xc0, 0x0f, 0x00, 0x00, 0x00, 0x0f, 0x05}; /* mov $15, %rax; syscall */

void occatrace_interrupted_frame(struct occatrace_frame *frame, const void *context) {
  static const int order[RETURN + 1] = {REG_RAX, REG_RDX, REG_RCX, REG_RBX, REG_RSI, REG_RDI, REG_RBP, REG_RSP, REG_R8,
                                        REG_R9, REG_R10, REG_R11, REG_R12, REG_R13, REG_R14, REG_R15, REG_RIP};
  const ucontext_t *const u = context;
  for (int i = 0; i <= RETURN; i++) frame->r[i] = (uintptr_t)u->uc_mcontext.gregs[order[i]];
  frame->page = 0;
  frame->interrupted = 1;
}

/* Where a caller's frame is by an expression, as linkers write it for their stubs of calls; 0: it has something else. */
static uintptr_t by_expression(const uint8_t *at, const uintptr_t *r) {
  uintptr_t stack[8];
  unsigned n = 0;
  const uint64_t length = occatrace_uleb(&at);
  for (const uint8_t *const end = at + length; at < end;) {
    const uint8_t op = *at++;
    if (op >= 0x30 && op <= 0x4f && n < 8) stack[n++] = op - 0x30u;
    else if (op >= 0x70 && op <= 0x80 && n < 8) stack[n] = r[op - 0x70] + (uintptr_t)occatrace_sleb(&at), n++;
    else if (op == 0x23 && n > 0) stack[n - 1] += occatrace_uleb(&at);
    else if (n < 2) return 0;
    else {
      const uintptr_t b = stack[--n], a = stack[n - 1];
      switch (op) {
        case 0x1a: stack[n - 1] = a & b; break;
        case 0x1c: stack[n - 1] = a - b; break;
        case 0x22: stack[n - 1] = a + b; break;
        case 0x24: stack[n - 1] = b < 64 ? a << b : 0; break;
        case 0x2a: stack[n - 1] = (intptr_t)a >= (intptr_t)b; break;
        case 0x2b: stack[n - 1] = (intptr_t)a > (intptr_t)b; break;
        default: return 0;
      }
    }
  }
  return n == 1 ? stack[0] : 0;
}

int occatrace_leave_frame(struct occatrace_frame *frame, const struct occatrace_rule *rule) {
  uintptr_t *const r = frame->r, *const page = &frame->page;
  const uintptr_t stack = r[RSP], offset = (uintptr_t)(intptr_t)rule->cfa_offset, address = rule->address;
  uintptr_t cfa = 0;
  switch (rule->cfa) {
    case OCCATRACE_CFA_RSP: cfa = stack + offset; break;
    case OCCATRACE_CFA_RBP: cfa = r[RBP] + offset; break;
    case OCCATRACE_CFA_REGISTER: cfa = r[rule->number] + offset; break;
    case OCCATRACE_CFA_EXPRESSION: cfa = by_expression(rule->expression, r); break;
    case OCCATRACE_CFA_AT_RBP:
      if (r[RBP] + offset >= stack - RED_ZONE && occatrace_is_readable(r[RBP] + offset, page)) cfa = *(const uintptr_t *)(r[RBP] + offset);
      break;
    case OCCATRACE_CFA_END: return OCCATRACE_PATH_WHOLE;
    case OCCATRACE_CFA_OTHER:
      if (memcmp((const void *)(address - 1), returns_from_signal, sizeof returns_from_signal) == 0 ||
          memcmp((const void *)address, returns_from_signal, sizeof returns_from_signal) == 0) {
        /* A handler of the program: what it has interrupted lies there. */
        uintptr_t last = 0;
        const ucontext_t *const outer = (const ucontext_t *)stack;
        if (!occatrace_is_readable(stack, page) || !occatrace_is_readable((uintptr_t)&outer->uc_mcontext.gregs[REG_CR2] & ~(uintptr_t)7, &last)) return OCCATRACE_PATH_NO_TABLE;
        occatrace_interrupted_frame(frame, outer);
        return -1;
      }
      return OCCATRACE_PATH_NO_TABLE;
    default: return OCCATRACE_PATH_NO_TABLE;
  }
  if (cfa <= stack || cfa - stack > (UINT64_C(1) << 30) || !occatrace_is_readable(cfa - sizeof(void *), page)) return OCCATRACE_PATH_NO_TABLE;
  const uintptr_t returns = *(const uintptr_t *)(cfa - sizeof(void *));
  static const uint8_t numbers[5] = {OCCATRACE_RBX, OCCATRACE_R12, OCCATRACE_R12 + 1, OCCATRACE_R12 + 2, OCCATRACE_R12 + 3};
  for (int i = 0; i < 5; i++) {
    const uintptr_t place = cfa + (uintptr_t)((intptr_t)rule->saved[i] * (intptr_t)sizeof(void *));
    if (rule->saved[i] != 0 && place >= stack - RED_ZONE && occatrace_is_readable(place, page)) r[numbers[i]] = *(const uintptr_t *)place;
  }
  if (rule->cfa != OCCATRACE_CFA_EXPRESSION && rule->rbp != OCCATRACE_RBP_SAME) {
    const uintptr_t place = (rule->rbp == OCCATRACE_RBP_AT_CFA ? cfa : r[RBP]) + (uintptr_t)(intptr_t)rule->rbp_offset;
    if (place < stack - RED_ZONE || !occatrace_is_readable(place, page)) return OCCATRACE_PATH_NO_TABLE;
    r[RBP] = *(const uintptr_t *)place;
  }
  r[RSP] = cfa;
  r[RETURN] = returns;
  frame->interrupted = 0;
  return -1;
}

__attribute__((noinline)) int occatrace_unwind(int (*each)(void *data, uintptr_t address, uintptr_t slot),
                                               struct occatrace_rule (*rule_of)(void *data, uintptr_t address), void *data) {
  struct occatrace_frame frame = {.interrupted = 1};
  /* Where this is, and the registers that functions keep. */
  __asm__ volatile(
      "movq %%rbx, 24(%0)\n\tmovq %%rbp, 48(%0)\n\tmovq %%rsp, 56(%0)\n\tmovq %%r12, 96(%0)\n\tmovq %%r13, 104(%0)\n\t"
      "movq %%r14, 112(%0)\n\tmovq %%r15, 120(%0)\n\tleaq 0(%%rip), %%rax\n\tmovq %%rax, 128(%0)"
      :
      : "r"(frame.r)
      : "rax", "memory");
  const int before = errno; /* the program's */
  int ended = -1;
  while (ended < 0) {
    const uintptr_t address = occatrace_place_of(&frame);
    if (address <= 1) {
      ended = frame.interrupted ? OCCATRACE_PATH_NO_TABLE : OCCATRACE_PATH_WHOLE;
    } else if (each(data, address, frame.r[RSP] - sizeof(void *))) {
      ended = OCCATRACE_PATH_WHOLE;
    } else {
      struct occatrace_rule rule;
      if (rule_of != NULL) rule = rule_of(data, address);
      else occatrace_rule_at(&rule, address);
      ended = occatrace_leave_frame(&frame, &rule);
    }
  }
  errno = before;
  return ended;
}
#else
void occatrace_rule_at(struct occatrace_rule *rule, uintptr_t address) {
  *rule = (struct occatrace_rule){.address = address, .cfa = OCCATRACE_CFA_NONE}; /* libgcc keeps its own */
}

int occatrace_code_around(const void *on_stack, uintptr_t *begin, uintptr_t *end) {
  (void)on_stack, (void)begin, (void)end;
  return 0;
}

struct walk {
  int (*each)(void *data, uintptr_t address, uintptr_t slot);
  void *data;
};
static int unwound(struct _Unwind_Context *context, void *data) {
  const struct walk *const w = data;
  return w->each(w->data, libgcc.ip(context), libgcc.cfa(context) - sizeof(void *)) ? 5 /* _URC_END_OF_STACK */ : 0;
}
/* libgcc does not say whether it came to the end. */
int occatrace_unwind(int (*each)(void *data, uintptr_t address, uintptr_t slot), struct occatrace_rule (*rule_of)(void *data, uintptr_t address), void *data) {
  (void)rule_of;
  struct walk w = {each, data};
  if (occatrace_can_unwind()) libgcc.backtrace(unwound, &w);
  return OCCATRACE_PATH_WHOLE;
}
#endif
