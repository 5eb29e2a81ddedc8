/* How CPython's frames, code objects and strings lie in memory. */
#ifndef OCCATRACE_PYTHON_LAYOUT_H
#define OCCATRACE_PYTHON_LAYOUT_H

/* Offsets in bytes, of release builds on 64-bit machines; the same in every release of a minor version. */
struct python_layout {
  int minor;
  int state_frame, cframe_frame;  /* of the thread state; -1: not behind a C frame */
  int code, previous, instruction, owner; /* of a frame */
  int first_instruction, file, name, qualified, line; /* of a code object */
  int text; /* of an ASCII string */
};
enum { PYTHON_OF_C_STACK = 3, PYTHON_ASCII_BYTE = 32, PYTHON_ASCII_BITS = 0x60, PYTHON_LENGTH = 16 };
/* That of this process; NULL: it is not known. */
__attribute__((visibility("hidden"))) const struct python_layout *python_layout(void);
#endif
