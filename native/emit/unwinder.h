/* How to leave a function, by its unwind table (.eh_frame, x86-64), and the stack of the calling thread. libgcc says where tables
 * are; elsewhere than on x86-64 it also reads them. There it aborts on what it does not expect, and tables may be the program's. */
#ifndef OCCATRACE_UNWIND_H
#define OCCATRACE_UNWIND_H
#include <stdint.h>

#include "occatrace_core.h"

/* Where the caller's frame (CFA) is. REGISTER: at a register other than rsp and rbp; EXPRESSION: by an expression of the table;
 * OTHER: nothing that is known here (signal frames among it). */
enum {
  OCCATRACE_CFA_NONE,
  OCCATRACE_CFA_END,
  OCCATRACE_CFA_OTHER,
  OCCATRACE_CFA_RSP,
  OCCATRACE_CFA_RBP,
  OCCATRACE_CFA_AT_RBP,
  OCCATRACE_CFA_REGISTER,
  OCCATRACE_CFA_EXPRESSION
};
enum {
  OCCATRACE_RBP_SAME,
  OCCATRACE_RBP_AT_CFA,
  OCCATRACE_RBP_AT_RBP,
};
/* The table's numbers of registers. */
enum {
  OCCATRACE_RBX = 3,
  OCCATRACE_RBP = 6,
  OCCATRACE_RSP = 7,
  OCCATRACE_R12 = 12,
  OCCATRACE_RETURN = 16,
};

struct occatrace_rule {
  uintptr_t address; /* return address; 0: none */
  union {
    struct {
      int32_t cfa_offset, rbp_offset;
    };
    const uint8_t *expression; /* its length and its operations */
  };
  uint8_t cfa, rbp, number; /* number: of the register */
  int16_t saved[5];         /* where rbx and r12 to r15 of the caller are, in words from the CFA; 0: as they were */
};

/* A frame: its registers by the table's numbers; RETURN: the place in the function at which it goes on. */
struct occatrace_frame {
  uintptr_t r[OCCATRACE_RETURN + 1];
  uintptr_t page;  /* the last one that could be read, 0 at first */
  int interrupted; /* by a signal, before the instruction at this place */
};
/* The address by which a frame is known: the one before it is in the instruction that it is at. */
static inline uintptr_t occatrace_place_of(const struct occatrace_frame *frame) {
  return frame->r[OCCATRACE_RETURN] + (frame->interrupted ? 1 : 0);
}

#pragma GCC visibility push(hidden)
/* Of the function that a return address lies in; `fde`: its entry in the table, `function`: where it begins. No locks, no calls. */
void occatrace_find_rule(struct occatrace_rule *rule, uintptr_t address, const uint8_t *fde, uintptr_t function);
/* The same, with the table that libgcc finds. */
void occatrace_rule_at(struct occatrace_rule *rule, uintptr_t address);
/* What a signal has interrupted; `context`: a ucontext_t. */
void occatrace_interrupted_frame(struct occatrace_frame *frame, const void *context);
/* Goes on to the caller of a frame, by its rule: a path_end where there is none, or -1. Calls the system only to ask whether memory
 * can be read; changes errno. */
int occatrace_leave_frame(struct occatrace_frame *frame, const struct occatrace_rule *rule);

/* The frames of the calling thread, from a function of ours outward: `each` gets the address by which a frame is known, and the place
 * on the stack of the address itself, and returns not 0 to end there. `rule_of` may keep rules; NULL: they are read
 * from the table. Returns a path_end; WHOLE, too, where
 * `each` ended it. */
int occatrace_unwind(int (*each)(void *data, uintptr_t address, uintptr_t slot), struct occatrace_rule (*rule_of)(void *data, uintptr_t address), void *data);
/* Whether libgcc is there, opened at the first call of this. */
int occatrace_can_unwind(void);
#pragma GCC visibility pop

static inline uint64_t occatrace_uleb(const uint8_t **at) {
  uint64_t value = 0;
  for (unsigned shift = 0;; shift += 7) {
    const uint8_t byte = *(*at)++;
    if (shift < 64) value |= (uint64_t)(byte & 0x7f) << shift;
    if (!(byte & 0x80)) return value;
  }
}
static inline int64_t occatrace_sleb(const uint8_t **at) {
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
#endif
