/* How to leave a function, by its unwind table (.eh_frame, x86-64). Nothing here allocates, locks or calls the system. */
#ifndef OCCATRACE_UNWIND_H
#define OCCATRACE_UNWIND_H
#include <stdint.h>

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

/* Of the function that a return address lies in; `fde`: its entry in the table, `function`: where it begins. */
void occatrace_find_rule(struct occatrace_rule *rule, uintptr_t address, const uint8_t *fde, uintptr_t function) __attribute__((visibility("hidden")));

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
