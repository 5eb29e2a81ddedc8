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
  int entry; /* of a frame: that it began an evaluation; -1: the frame around it says so */
  int base; /* of the thread state: a frame around all, which begins no evaluation; -1: there is none */
};
enum {
  PYTHON_OF_C_STACK = 3, /* owners from this one on: frames of the interpreter's own */
  PYTHON_TAGS = 3,       /* in the lowest bits of a frame's word for its code, from 3.14 on */
  PYTHON_LENGTH = 16,
  PYTHON_STATE = 32,
  PYTHON_COMPACT = 0x20,
  PYTHON_ASCII = 0x40,
};
/* Of a string by its state: where its characters begin, with those bytes each; 0: it has none at hand. */
static inline int python_text_at(const struct python_layout *l, unsigned state, int *width) {
  *width = state & PYTHON_ASCII ? 1 : (int)(state >> 2 & 7);
  if (!(state & PYTHON_COMPACT) || (*width != 1 && *width != 2 && *width != 4)) return 0;
  return state & PYTHON_ASCII ? l->text : l->text + (l->minor == 11 ? 24 : 16);
}
/* Characters of these bytes each as UTF-8, without a part of one at the end: how many bytes those are. `text` ends with '\0'. */
__attribute__((visibility("hidden"))) size_t python_utf8(const void *characters, size_t count, int width, char *text, size_t room);
/* That of this process; NULL: it is not known. */
__attribute__((visibility("hidden"))) const struct python_layout *python_layout(void);
#endif
