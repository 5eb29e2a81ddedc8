/* How to leave a function, by its unwind table: the instructions of the table up to a place in the function. What compilers write
 * is known here; the rest is `odd`. The format is that of the DWARF 4 standard, section 6.4, with the System V ABI's .eh_frame. */
#include "unwinder.h"

#include <string.h>

#if defined(__x86_64__)
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

void occatrace_find_rule(struct occatrace_rule *rule, uintptr_t address, const uint8_t *fde, uintptr_t function) {
  *rule = (struct occatrace_rule){.address = address, .cfa = OCCATRACE_CFA_OTHER};
  if (fde == NULL) {
    rule->cfa = OCCATRACE_CFA_NONE;
    return;
  }
  if (word32(fde) == UINT32_MAX) return;
  const uint8_t *const fde_end = fde + 4 + word32(fde), *cie = fde + 4 - (int32_t)word32(fde + 4), *at = cie + 8;
  const uint8_t *const cie_end = cie + 4 + word32(cie);
  const uint8_t version = *at++;
  const char *augmentation = (const char *)at;
  at += strlen(augmentation) + 1;
  struct frame_info info = {.encoding = 0};
  info.code_align = occatrace_uleb(&at);
  info.data_align = occatrace_sleb(&at);
  if ((version == 1 ? *at++ : occatrace_uleb(&at)) != RETURN) return;
  if (*augmentation == 'z') {
    const uint64_t length = occatrace_uleb(&at);
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
  uint64_t bytes = 0; /* of the function; x86-64 is little endian */
  memcpy(&bytes, fde + 8 + size, size);
  if (address - 1 - function >= bytes) {
    rule->cfa = OCCATRACE_CFA_NONE;
    return;
  }
  at = fde + 8 + 2 * size;
  if (*augmentation == 'z') {
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
#else
typedef int occatrace_no_tables;
#endif
