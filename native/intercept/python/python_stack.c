/* Where a thread is in Python: its stack, read from its frames as they lie in memory, and the texts of code objects.
 *
 * Only the thread's own stack is read, which nobody else changes, so this needs no GIL: many calls that matter most (blocking
 * copies) are made after it was given up. CPython's functions would make a frame object for each frame. Where the layout is
 * not one that is known, and confirmed by a look at a known stack (occatrace/inprocess/python_hooks.py), nothing is read. */
#include <dlfcn.h>
#include <fnmatch.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "python.h"
#include "python_layout.h"

enum {
  DEEPEST = 64,
  DEEPEST_LINE = 16, /* of --python lines alone, where one of them is of the program */
};

static const struct python_layout layouts[] = {
    {11, 56, 8, 32, 48, 56, 69, 184, 112, 120, 128, 72, 48, 68, -1},
    {12, 56, 0, 0, 8, 56, 70, 192, 112, 120, 128, 68, 40, -1, -1},
    {13, 72, -1, 0, 8, 56, 70, 200, 112, 120, 128, 68, 40, -1, -1},
    {14, 72, -1, 0, 8, 56, 74, 208, 112, 120, 128, 68, 40, -1, -1},
    {15, 72, -1, 0, 8, 56, 74, 208, 112, 120, 128, 68, 40, -1, 80},
};

const struct python_layout *python_layout(void) {
  for (size_t i = 0; i < sizeof layouts / sizeof *layouts; i++)
    if (layouts[i].minor == py.minor) return &layouts[i];
  return NULL;
}

static void *word(const void *object, int offset) { return *(void *const *)((const char *)object + offset); }

/* ---- code objects ---- */

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static char *patterns; /* of --python functions, separated by commas */
static char *program_package, *program_script, *library_folders;
static struct python_code **codes;
static uint32_t codes_size, codes_used;

size_t python_utf8(const void *characters, size_t count, int width, char *text, size_t room) {
  size_t n = 0;
  for (size_t i = 0; i < count; i++) {
    uint32_t c = width == 1 ? ((const uint8_t *)characters)[i] : width == 2 ? ((const uint16_t *)characters)[i]
                                                                            : ((const uint32_t *)characters)[i];
    if ((c & 0xfffff800) == 0xd800 || c > 0x10ffff) c = '?'; /* half of a pair: a byte that was no text */
    const size_t bytes = c < 0x80 ? 1 : c < 0x800 ? 2
                                    : c < 0x10000 ? 3
                                                  : 4;
    if (n + bytes >= room) break;
    if (bytes == 1) text[n] = (char)c;
    else text[n] = (char)((0xf00u >> bytes & 0xff) | c >> 6 * (bytes - 1));
    for (size_t k = 1; k < bytes; k++) text[n + k] = (char)(0x80 | (c >> 6 * (bytes - 1 - k) & 0x3f));
    n += bytes;
  }
  text[n] = '\0';
  return n;
}

static int matches(const char *list, char separator, const char *text, int prefix) {
  char item[512];
  for (const char *at = list; *at != '\0';) {
    const char *end = strchr(at, separator);
    const size_t n = end != NULL ? (size_t)(end - at) : strlen(at);
    if (n > 0 && n < sizeof item) {
      memcpy(item, at, n);
      item[n] = '\0';
      if (prefix ? strncmp(text, item, n) == 0 : fnmatch(item, text, 0) == 0) return 1;
    }
    if (end == NULL) break;
    at = end + 1;
  }
  return 0;
}

void python_program(const char *package, const char *script, const char *folders) {
  program_package = strdup(package);
  program_script = strdup(script);
  library_folders = strdup(folders);
}

/* Whether a path is this one, which may be relative. */
static int is_path(const char *path, const char *given) {
  const size_t n = strlen(path), g = strlen(given);
  return g > 0 && n >= g && strcmp(path + n - g, given) == 0 && (n == g || path[n - g - 1] == '/');
}

const char *python_in_packages(const char *path) {
  static const char *const folders[] = {"/site-packages/", "/dist-packages/"};
  for (size_t i = 0; i < sizeof folders / sizeof *folders; i++) {
    const char *at = strstr(path, folders[i]);
    if (at != NULL) return at + strlen(folders[i]);
  }
  return NULL;
}

enum occatrace_frame_part python_part(const char *file) {
  /* Others of this kind are made on the way (<string>: by namedtuple and others), or part of the interpreter (<frozen ...>). */
  static const char *const typed[] = {"<stdin>", "<ipython-input", "<doctest "};
  if (file[0] == '<') {
    for (size_t i = 0; i < sizeof typed / sizeof *typed; i++)
      if (strncmp(file, typed[i], strlen(typed[i])) == 0) return PYTHON_FRAME_OF_PROGRAM;
    return PYTHON_FRAME_OF_LIBRARY;
  }
  const char *const at = python_in_packages(file);
  if (at != NULL) {
    const size_t n = program_package != NULL ? strlen(program_package) : 0;
    return n > 0 && strncmp(at, program_package, n) == 0 && (at[n] == '/' || at[n] == '.') ? PYTHON_FRAME_OF_PACKAGE : PYTHON_FRAME_OF_LIBRARY;
  }
  if (program_script != NULL && is_path(file, program_script)) return PYTHON_FRAME_OF_LIBRARY;
  return library_folders != NULL && matches(library_folders, ':', file, 1) ? PYTHON_FRAME_OF_LIBRARY : PYTHON_FRAME_OF_PROGRAM;
}

/* Whether --python functions wants it: by its name, by file.name, or by the path of its file. Without patterns: what is of the
 * program. */
static int is_wanted(const char *name, const char *file, uint8_t part) {
  if (patterns == NULL || strncmp(file, "<occatrace>", 11) == 0) return 0;
  if (patterns[0] == '\0') return part != PYTHON_FRAME_OF_LIBRARY;
  const char *slash = strrchr(file, '/'), *base = slash != NULL ? slash + 1 : file;
  const char *dot = strrchr(base, '.');
  char full[1024];
  snprintf(full, sizeof full, "%.*s.%s", dot != NULL ? (int)(dot - base) : (int)strlen(base), base, name);
  return matches(patterns, ',', name, 0) || matches(patterns, ',', full, 0) || matches(patterns, ',', file, 0);
}

static int text_of(const void *object, int gil, char *text, size_t room) {
  const struct python_layout *l = python_layout();
  int width;
  if (object == NULL) return 0;
  if (l != NULL) { /* without the GIL, too */
    const int at = python_text_at(l, ((const unsigned char *)object)[PYTHON_STATE], &width);
    if (at != 0) {
      python_utf8((const char *)object + at, *(const size_t *)((const char *)object + PYTHON_LENGTH), width, text, room);
      return 1;
    }
  }
  const char *bytes = gil ? py.PyUnicode_AsUTF8((PyObject *)object) : NULL;
  if (gil && bytes == NULL) py.PyErr_Clear();
  if (bytes == NULL) return 0;
  snprintf(text, room, "%s", bytes);
  return 1;
}

static void describe(struct python_code *c, int gil) {
  const struct python_layout *l = python_layout();
  char name[512] = "", file[1024] = "";
  if (l != NULL) {
    text_of(word(c->code, l->qualified), gil, name, sizeof name);
    text_of(word(c->code, l->file), gil, file, sizeof file);
    c->line = *(const uint32_t *)((const char *)c->code + l->line);
  } else if (gil) {
    PyObject *code = (PyObject *)c->code;
    const char *const attributes[] = {py.minor >= 11 ? "co_qualname" : "co_name", "co_filename", "co_firstlineno"};
    for (int i = 0; i < 3; i++) {
      PyObject *value = py.PyObject_GetAttrString(code, attributes[i]);
      if (value == NULL) py.PyErr_Clear();
      else if (i == 2) c->line = (uint32_t)py.PyLong_AsLong(value);
      else text_of(value, 1, i == 0 ? name : file, i == 0 ? sizeof name : sizeof file);
      if (value != NULL) py.Py_DecRef(value);
    }
  }
  c->name_id = occatrace_intern(name[0] != '\0' ? name : "?");
  c->source_id = occatrace_intern(file[0] != '\0' ? file : "?");
  c->part = (uint8_t)python_part(file);
  c->wanted = (uint8_t)is_wanted(name, file, c->part);
  c->ours = strncmp(file, "<occatrace>", 11) == 0;
}

struct python_code *python_code(const void *code) {
  if (!python_start_events()) return NULL;
  const struct python_layout *l = python_layout();
  const void *name = l != NULL ? word(code, l->qualified) : NULL, *file = l != NULL ? word(code, l->file) : NULL;
  pthread_mutex_lock(&lock);
  if (codes_used * 2 >= codes_size) {
    const uint32_t size = codes_size ? codes_size * 2 : 1024;
    struct python_code **larger = calloc(size, sizeof *larger);
    if (larger == NULL) {
      pthread_mutex_unlock(&lock);
      return NULL;
    }
    for (uint32_t i = 0; i < codes_size; i++)
      if (codes[i] != NULL) {
        uint32_t at = (uint32_t)((uintptr_t)codes[i]->code >> 4) & (size - 1);
        while (larger[at] != NULL) at = (at + 1) & (size - 1);
        larger[at] = codes[i];
      }
    free(codes);
    codes = larger;
    codes_size = size;
  }
  uint32_t at = (uint32_t)((uintptr_t)code >> 4) & (codes_size - 1);
  while (codes[at] != NULL && codes[at]->code != code) at = (at + 1) & (codes_size - 1);
  struct python_code *found = codes[at];
  if (found == NULL || found->name != name || found->file != file) {
    const int gil = py.PyGILState_Check();
    struct python_code *fresh = found != NULL ? found : calloc(1, sizeof *fresh);
    if (fresh != NULL) {
      fresh->code = code;
      fresh->name = name;
      fresh->file = file;
      describe(fresh, gil);
      /* Kept, so that no other comes to its address. */
      if (gil && found == NULL) py.Py_IncRef((PyObject *)code);
      if (found == NULL) codes[at] = fresh, codes_used++;
      found = fresh;
    }
  }
  pthread_mutex_unlock(&lock);
  return found;
}

void python_want(const char *wanted) {
  patterns = strdup(wanted);
  pthread_mutex_lock(&lock);
  for (uint32_t i = 0; i < codes_size; i++)
    if (codes[i] != NULL) codes[i]->name = NULL; /* looked at again */
  pthread_mutex_unlock(&lock);
}

/* ---- stacks ---- */

struct place {
  const void *code;
  int line, entered;
};

/* The places of the calling thread, the innermost first. */
static int walk(struct place *places, int room) {
  const struct python_layout *l = python_layout();
  const void *state = l != NULL && py.PyGILState_GetThisThreadState != NULL ? py.PyGILState_GetThisThreadState() : NULL;
  if (state == NULL) return 0;
  const void *frame = word(state, l->state_frame);
  const void *const base = l->base >= 0 ? word(state, l->base) : NULL;
  if (l->cframe_frame >= 0 && frame != NULL) frame = word(frame, l->cframe_frame);
  int n = 0;
  for (; frame != base && frame != NULL && n < room; frame = word(frame, l->previous)) {
    const void *code = (const void *)((uintptr_t)word(frame, l->code) & ~(uintptr_t)PYTHON_TAGS);
    const int of_c = ((const char *)frame)[l->owner] >= PYTHON_OF_C_STACK;
    if (n > 0 && of_c) places[n - 1].entered++;
    if (of_c || code == NULL || word(code, 8) != py.code_type) continue;
    const long offset = (const char *)word(frame, l->instruction) - ((const char *)code + l->first_instruction);
    if (offset < 0) continue; /* not begun */
    places[n].code = code;
    places[n].entered = l->entry >= 0 && ((const char *)frame)[l->entry] != 0;
    places[n++].line = py.PyCode_Addr2Line((PyObject *)code, (int)offset);
  }
  return n;
}

int python_stack_text(char *text, size_t room) {
  struct place places[DEEPEST_LINE];
  const int count = walk(places, DEEPEST_LINE);
  size_t n = 0;
  text[0] = '\0';
  for (int i = 0; i < count && n + 64 < room; i++)
    n += (size_t)snprintf(text + n, room - n, "%lu:%d ", (unsigned long)(uintptr_t)places[i].code, places[i].line);
  return count > 0;
}

/* Stacks as a tree: a frame is a place and the frame around it. */
struct frame {
  struct python_place place;
  uint32_t parent, id;
};
static struct frame *frames;
static uint32_t frames_size, frames_used;
static pthread_mutex_t frames_lock = PTHREAD_MUTEX_INITIALIZER;

static uint32_t hash_of(const struct frame *f) {
  const struct python_place *p = &f->place;
  return ((p->function * 31 + p->source) * 31 + (uint32_t)p->line * 2 + (uint32_t)p->entered) * 2246822519u + f->parent * 2654435761u;
}

/* Under the lock. */
static uint32_t frame_of(struct occatrace_thread *self, uint32_t parent, const struct python_place *p) {
  if (frames_used * 2 >= frames_size) {
    const uint32_t size = frames_size ? frames_size * 2 : 1024;
    struct frame *larger = calloc(size, sizeof *larger);
    if (larger == NULL) return 0;
    for (uint32_t i = 0; i < frames_size; i++)
      if (frames[i].id != 0) {
        uint32_t at = hash_of(&frames[i]) & (size - 1);
        while (larger[at].id != 0) at = (at + 1) & (size - 1);
        larger[at] = frames[i];
      }
    free(frames);
    frames = larger;
    frames_size = size;
  }
  const struct frame wanted = {*p, parent, 0};
  uint32_t at = hash_of(&wanted) & (frames_size - 1);
  for (; frames[at].id != 0; at = (at + 1) & (frames_size - 1)) {
    const struct python_place *f = &frames[at].place;
    if (f->function == p->function && f->source == p->source && frames[at].parent == parent && f->line == p->line && f->entered == p->entered) return frames[at].id;
  }
  frames[at] = wanted;
  frames[at].id = ++frames_used;
  const struct occatrace_python_frame r = {
      .tid = self->tid,
      .seq = occatrace_next_seq(self),
      .pid = (uint32_t)getpid(),
      .id = frames[at].id,
      .parent = parent,
      .function = p->function,
      .source = p->source,
      .line = (uint32_t)p->line,
      .part = p->part,
      .entered = (uint16_t)p->entered,
  };
  python_events->frame(&r);
  return frames[at].id;
}

uint32_t python_frame(struct occatrace_thread *self, uint32_t parent, const struct python_place *place) {
  pthread_mutex_lock(&frames_lock);
  const uint32_t id = frame_of(self, parent, place);
  pthread_mutex_unlock(&frames_lock);
  return id;
}

int python_loop_code(uintptr_t *begin, uintptr_t *end) {
  const struct python_layout *const l = python_layout();
  const void *const state = l != NULL && py.PyGILState_GetThisThreadState != NULL ? py.PyGILState_GetThisThreadState() : NULL;
  if (state == NULL) return 0;
  const void *frame = word(state, l->state_frame);
  if (l->cframe_frame < 0) /* else it is the C frame */
    while (frame != NULL && ((const char *)frame)[l->owner] < PYTHON_OF_C_STACK) frame = word(frame, l->previous);
  return frame != NULL && occatrace_code_around(frame, begin, end);
}

int python_stack_confirmed;

int python_lines_at_paths;

static uint32_t place_of(struct occatrace_thread *self, int deepest) {
  struct place places[DEEPEST];
  int count = python_stack_confirmed ? walk(places, deepest) : 0;
  if (count == 0 || !python_start_events()) return 0;
  const struct python_code *code[DEEPEST];
  for (int known = 0, in_library = 1;;) {
    for (; known < count; known++) {
      if ((code[known] = python_code(places[known].code)) == NULL) return 0;
      in_library &= code[known]->part == PYTHON_FRAME_OF_LIBRARY;
    }
    if (!in_library || count < deepest || deepest == DEEPEST) break;
    count = walk(places, deepest = DEEPEST); /* the line that reports name is further out */
  }
  pthread_mutex_lock(&frames_lock);
  uint32_t id = 0;
  for (int i = 0, inner = -1; i < count; i++) { /* what ours have entered counts for the frame within them */
    if (!code[i]->ours) inner = i;
    else if (inner >= 0) places[inner].entered += places[i].entered;
  }
  for (int i = count - 1; i >= 0; i--)
    if (!code[i]->ours)
      id = frame_of(self, id, &(struct python_place){code[i]->name_id, code[i]->source_id, places[i].line, places[i].entered, code[i]->part});
  pthread_mutex_unlock(&frames_lock);
  return id;
}

uint32_t python_here(struct occatrace_thread *self) { return place_of(self, DEEPEST_LINE); }

void python_line(struct occatrace_thread *self, uint32_t call_seq, uint32_t kinds) {
  const uint32_t with_path = kinds & occatrace_path_kinds();
  if (python_lines_at_paths && !with_path) return;
  const uint32_t id = place_of(self, with_path ? DEEPEST : DEEPEST_LINE);
  if (id == 0) return;
  const struct occatrace_python_line r = {self->tid, occatrace_next_seq(self), call_seq, id};
  python_events->line(&r);
}

void python_use(struct occatrace_thread *self, uint32_t call_seq, uint64_t memory) {
  if (!python_start_events()) return;
  const struct occatrace_python_use r = {self->tid, occatrace_next_seq(self), call_seq, memory};
  python_events->use(&r);
}

void python_stack_forked(void) {
  pthread_mutex_init(&lock, NULL);
  pthread_mutex_init(&frames_lock, NULL);
  /* Numbers are those of a process: the child says them again. */
  if (frames != NULL) memset(frames, 0, frames_size * sizeof *frames);
  frames_used = 0;
}
