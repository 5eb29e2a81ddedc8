/* Where a thread is in Python, as a signal's handler finds it (--sample-stacks): by its frames as they lie in memory.
 *
 * They may be in the middle of a change, so nothing is read before it is known to be readable, and what is no code object counts
 * as the end. A code object may be gone before its sample is written (that of a module is, when it was imported): its texts are
 * copied by the handler, to memory that is never given back. */
#define _GNU_SOURCE
#include <pthread.h>
#include <stddef.h>
#include <string.h>
#include <sys/mman.h>

#include "python.h"
#include "python_layout.h"

enum {
  CODES = 1 << 14,
  PROBES = 32,
  NAME = 200,
  FILE_NAME = 792,
};
enum {
  FREE,
  BUSY,
  KNOWN,
};

struct copied {
  const void *code;
  uint32_t state;
  uint32_t name_id, source_id; /* 0: not interned yet; only by the thread that writes samples */
  uint8_t part;                /* from then on */
  uint8_t ours;
  char name[NAME], file[FILE_NAME];
};
static struct copied *codes;
static void *text_type;

struct reading {
  uintptr_t page;
};

/* A word of an object; 0: it cannot be read. */
static int read_word(struct reading *r, const void *object, int offset, uintptr_t *value) {
  const uintptr_t place = (uintptr_t)object + (uintptr_t)(intptr_t)offset;
  if (place < 4096 || !occatrace_is_readable(place, &r->page)) return 0;
  *value = *(const uintptr_t *)place;
  return 1;
}

/* Whether an object is there, of this type; what was freed has a pointer where its references were counted. From 3.14 on flags are
 * in the upper 16 bits of that word, which are zero in a pointer; the 16 below them are not. */
static int is_object(struct reading *r, const void *object, const void *type) {
  uintptr_t references, of_type;
  if (!read_word(r, object, 0, &references) || !read_word(r, object, 8, &of_type) || of_type != (uintptr_t)type) return 0;
  if (py.minor >= 14) references &= (UINT64_C(1) << 48) - 1;
  return references != 0 && references < (UINT64_C(1) << 33);
}

/* The characters of a string, as many as there is room for, in place or, where they are not ASCII, in `room_for`. */
static size_t text_of(struct reading *r, const struct python_layout *l, const void *object, char *room_for, size_t room, const char **text) {
  uintptr_t length, state;
  int width;
  if (!is_object(r, object, text_type) || !read_word(r, object, PYTHON_LENGTH, &length) || !read_word(r, object, PYTHON_STATE, &state)) return 0;
  const int begin = python_text_at(l, (unsigned)state, &width);
  if (begin == 0) return 0;
  const size_t count = length < room ? length : room - 1;
  const char *const characters = (const char *)object + begin;
  for (uintptr_t at = (uintptr_t)characters & ~(uintptr_t)7; at < (uintptr_t)characters + count * (size_t)width; at += 4096 - at % 4096)
    if (!occatrace_is_readable(at, &r->page)) return 0;
  *text = state & PYTHON_ASCII ? characters : room_for;
  return state & PYTHON_ASCII ? count : python_utf8(characters, count, width, room_for, room);
}

/* The number of a code object; 0: its texts cannot be had, or there is no room. */
static uint32_t number_of(struct reading *r, const struct python_layout *l, const void *code) {
  uintptr_t name_at, file_at;
  char wide_name[NAME], wide_file[FILE_NAME];
  const char *name = "?", *file = "?";
  if (!read_word(r, code, l->qualified, &name_at) || !read_word(r, code, l->file, &file_at)) return 0;
  size_t name_length = text_of(r, l, (const void *)name_at, wide_name, NAME, &name);
  size_t file_length = text_of(r, l, (const void *)file_at, wide_file, FILE_NAME, &file);
  if (name_length == 0) name_length = 1, name = "?";
  if (file_length == 0) file_length = 1, file = "?";
  uint32_t at = (uint32_t)((uintptr_t)code >> 4 ^ (uintptr_t)code >> 18) % CODES;
  for (int probe = 0; probe < PROBES; probe++, at = (at + 1) % CODES) {
    struct copied *const c = &codes[at];
    uint32_t state = __atomic_load_n(&c->state, __ATOMIC_ACQUIRE);
    /* Another code may come to the address of one that is gone. */
    if (state == KNOWN && c->code == code && memcmp(c->name, name, name_length) == 0 && c->name[name_length] == '\0' &&
        memcmp(c->file, file, file_length) == 0 && c->file[file_length] == '\0')
      return at + 1;
    if (state != FREE || !__atomic_compare_exchange_n(&c->state, &state, BUSY, 0, __ATOMIC_ACQ_REL, __ATOMIC_RELAXED)) continue;
    c->code = code;
    memcpy(c->name, name, name_length);
    memcpy(c->file, file, file_length);
    c->name[name_length] = c->file[file_length] = '\0';
    c->ours = file_length >= 11 && memcmp(file, "<occatrace>", 11) == 0;
    __atomic_store_n(&c->state, KNOWN, __ATOMIC_RELEASE);
    return at + 1;
  }
  return 0;
}

/* In the handler: a word for each frame, the innermost first: how many evaluations it has begun, or frames around it that are left
 * out, the number of its code, and the line. */
enum {
  ENTERED = 48,
  NUMBER = 32,
};
static uint32_t read_frames(uint64_t *words, uint32_t room) {
  const struct python_layout *const l = python_layout();
  const void *const state = py.PyGILState_GetThisThreadState();
  struct reading r = {0}, of_code = {0};
  uintptr_t frame = 0, base = 0, code, owner, instruction, units;
  if (state == NULL || !read_word(&r, state, l->state_frame, &frame)) return 0;
  if (l->base >= 0 && !read_word(&r, state, l->base, &base)) return 0;
  if (l->cframe_frame >= 0 && !read_word(&r, (const void *)frame, l->cframe_frame, &frame)) return 0;
  uint32_t count = 0;
  for (uint32_t seen = 0; frame != 0 && frame != base && seen < 4 * room; seen++) {
    const void *const f = (const void *)frame;
    const int owner_word = l->owner & ~7;
    if (!read_word(&r, f, l->code, &code) || !read_word(&r, f, owner_word, &owner) || !read_word(&r, f, l->instruction, &instruction) ||
        !read_word(&r, f, l->previous, &frame))
      break;
    code &= ~(uintptr_t)PYTHON_TAGS;
    const int of_c = (owner >> 8 * (l->owner & 7) & 0xff) >= PYTHON_OF_C_STACK;
    const uint64_t entered = l->entry >= 0 ? (owner >> 8 * (l->entry & 7) & 0xff) != 0 : of_c;
    if (count == room && l->entry >= 0) break;
    if (of_c && count > 0) words[count - 1] += entered << ENTERED;
    if (count == room) break;
    if (of_c || !is_object(&of_code, (const void *)code, py.code_type) ||
        !read_word(&of_code, (const void *)code, 16, &units))
      continue;
    const intptr_t offset = (intptr_t)(instruction - (code + (uintptr_t)l->first_instruction));
    if (offset < 0 || offset >= (intptr_t)units * 2) continue; /* not begun */
    const uint32_t number = number_of(&of_code, l, (const void *)code);
    const int left_out = number == 0 || codes[number - 1].ours;
    if (left_out && count > 0 && l->entry >= 0) words[count - 1] += entered << ENTERED;
    if (left_out) continue;
    words[count++] = (l->entry >= 0 ? entered << ENTERED : 0) | (uint64_t)number << NUMBER | (uint32_t)py.PyCode_Addr2Line((PyObject *)code, (int)offset);
  }
  return count;
}

static uint32_t announce(struct occatrace_thread *self, const uint64_t *words, uint32_t count) {
  uint32_t id = 0;
  for (uint32_t i = count; i-- > 0;) {
    struct copied *const c = &codes[(words[i] >> NUMBER & 0xffff) - 1];
    if (c->name_id == 0) c->name_id = occatrace_intern(c->name);
    if (c->source_id == 0) {
      c->source_id = occatrace_intern(c->file);
      c->part = (uint8_t)python_part(c->file);
    }
    id = python_frame(self, id, &(struct python_place){c->name_id, c->source_id, (int)(uint32_t)words[i], (int)(words[i] >> ENTERED), c->part});
  }
  return id;
}

void python_stack_samples_start(void) {
  static const struct occatrace_frames frames = {read_frames, python_start_events, announce};
  if (codes != NULL || python_layout() == NULL || py.PyGILState_GetThisThreadState == NULL) return;
  void *const room = mmap(NULL, CODES * sizeof *codes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  PyObject *const text = py.PyUnicode_FromString("");
  if (room == MAP_FAILED || text == NULL) return;
  text_type = *(void **)((char *)text + 8);
  py.Py_DecRef(text);
  codes = room;
  /* The handler calls these two: whatever a first call does is done then. */
  py.PyGILState_GetThisThreadState();
  occatrace_sample_frames(&frames);
}
