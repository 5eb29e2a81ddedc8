/* CPython from outside: when it has started, what it imports and how long that takes, and the functions that the user chose.
 *
 * An audit hook, added before the interpreter starts, gives control at the first import. There importlib's _find_and_load,
 * which CPython calls for each module that is not there yet, is replaced by a function that times it. When the interpreter
 * is ready the audit hook is taken out again, because each audited operation of the program would pay for it.
 *
 * A process is not made a traced one by being Python (registering with LTTng takes longer than a small script): imports wait
 * in memory until something else is recorded. Only the program that occa_prof itself started, and one that embeds Python,
 * are recorded whatever they do. */
#define _GNU_SOURCE
#include "python.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

const struct occatrace_python_events *python_events;
static uint64_t loaded_at, ready_at;
static int watching, installed, is_ready, refused;
static int own_program; /* occa_prof started it */
static uint32_t next_number = 1;
static uint64_t import_ns; /* of the outermost imports before the interpreter was ready */
static char program_name[4100]; /* a script, -c, or -m and a module; empty: none of them */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

/* ---- threads ---- */

static __thread struct python_thread *mine;
static pthread_key_t end_key;

static void thread_ended(void *data) {
  struct python_thread *t = data;
  mine = NULL;
  python_sample_ends(t);
  free(t->open);
  free(t);
}

struct python_thread *python_thread(void) {
  if (mine != NULL) return mine;
  struct python_thread *t = calloc(1, sizeof *t);
  if (t == NULL) return NULL;
  t->tid = (uint32_t)syscall(SYS_gettid);
  mine = t;
  pthread_setspecific(end_key, t);
  return t;
}

/* ---- records ---- */

/* What happened before the process was known to be traced. */
struct waiting {
  struct occatrace_python_call call;
  char *text;
};
static struct waiting *waiting;
static uint32_t waiting_used, waiting_room;
enum { MOST_WAITING = 100000 };

static void write_call(struct occatrace_python_call *call, const char *text) {
  struct occatrace_thread *self = occatrace_self();
  if (text != NULL) call->name = occatrace_intern(text);
  call->tid = self->tid;
  call->seq = occatrace_next_seq(self);
  python_events->call(call);
}

static void write_waiting(void) {
  if (__atomic_load_n(&waiting_used, __ATOMIC_ACQUIRE) == 0 || !python_start_events()) return;
  pthread_mutex_lock(&lock);
  struct waiting *const all = waiting;
  const uint32_t count = waiting_used;
  waiting = NULL;
  waiting_used = waiting_room = 0;
  pthread_mutex_unlock(&lock);
  for (uint32_t i = 0; i < count; i++) {
    write_call(&all[i].call, all[i].text);
    free(all[i].text);
  }
  free(all);
}

static void keep_call(const struct occatrace_python_call *call, const char *text) {
  pthread_mutex_lock(&lock);
  if (waiting_used == waiting_room && waiting_room < MOST_WAITING) {
    const uint32_t room = waiting_room ? waiting_room * 2 : 128;
    struct waiting *larger = realloc(waiting, room * sizeof *larger);
    if (larger != NULL) waiting = larger, waiting_room = room;
  }
  if (waiting_used < waiting_room) {
    waiting[waiting_used] = (struct waiting){*call, text != NULL ? strdup(text) : NULL};
    __atomic_store_n(&waiting_used, waiting_used + 1, __ATOMIC_RELEASE);
  }
  pthread_mutex_unlock(&lock);
}

static void note_call(struct occatrace_python_call *call, const char *text) {
  if (occatrace_capture && python_start_events()) {
    write_waiting();
    write_call(call, text);
  } else if (!is_ready || call->kind == PYTHON_IMPORT) {
    keep_call(call, text); /* whatever else is recorded begins after the interpreter */
  }
}

int python_start_events(void) {
  if (__atomic_load_n(&python_events, __ATOMIC_ACQUIRE) != NULL) return 1;
  if (refused) return 0;
  const void *events = occatrace_load_provider("python");
  if (events == NULL) refused = 1;
  __atomic_store_n(&python_events, events, __ATOMIC_RELEASE);
  return events != NULL;
}

struct python_open *python_begin(struct python_thread *t, enum occatrace_call_kind kind) {
  if (t->used == t->room) {
    const uint32_t room = t->room ? t->room * 2 : 32;
    struct python_open *larger = realloc(t->open, room * sizeof *larger);
    if (larger == NULL) return NULL;
    t->open = larger;
    t->room = room;
  }
  struct python_open *open = &t->open[t->used++];
  memset(open, 0, sizeof *open);
  open->kind = (uint8_t)kind;
  open->number = __atomic_fetch_add(&next_number, 1, __ATOMIC_RELAXED);
  open->start = occatrace_now();
  return open;
}

void python_end(struct python_thread *t, const char *text, int failed) {
  const uint64_t now = occatrace_now();
  const struct python_open open = t->open[--t->used];
  struct python_open *around = t->used ? &t->open[t->used - 1] : NULL;
  uint32_t parent = around != NULL ? around->number : 0;
  if (around != NULL) around->inner += now - open.start;
  if (open.kind == PYTHON_IMPORT) {
    uint32_t i = t->used;
    while (i > 0 && t->open[i - 1].kind != PYTHON_IMPORT) i--;
    if (i > 0) {
      t->open[i - 1].imports += now - open.start;
      parent = t->open[i - 1].number;
    } else if (!is_ready) {
      import_ns += now - open.start;
    }
  }
  struct occatrace_python_call call = {
      .owner = t->tid,
      .number = open.number,
      .parent = parent,
      .kind = open.kind,
      .failed = (uint8_t)failed,
      .depth = (uint16_t)(t->used < UINT16_MAX ? t->used : UINT16_MAX),
      .name = open.name,
      .source = open.source,
      .line = open.line,
      .start = open.start,
      .end = now,
      .inner = open.kind == PYTHON_IMPORT ? open.imports : open.inner,
  };
  note_call(&call, text);
}

/* ---- imports ---- */

static PyObject *find_and_load; /* importlib's own */
static void run_inside(const char *options);

/* Modules of which the Python part of ours wants to know when they are imported. */
static PyObject *told_of_imports;
static char wanted_imports[8][64];

/* False: interrupted (Ctrl-C), as the import itself would have been. */
static int tell_of_import(const char *name, PyObject *module) {
  for (int i = 0; i < 8; i++) {
    if (strcmp(wanted_imports[i], name) != 0) continue;
    PyObject *text = py.PyUnicode_FromString(name);
    PyObject *done = py.PyObject_CallFunctionObjArgs(told_of_imports, text, module, NULL);
    py.Py_DecRef(text);
    if (done == NULL) return 0;
    py.Py_DecRef(done);
    return 1;
  }
  return 1;
}

/* importlib.import_module calls _find_and_load also for what is imported already, or is being imported: that is no import. */
static int is_imported(PyObject *name) {
  const char *text = name != NULL ? py.PyUnicode_AsUTF8(name) : NULL;
  if (text == NULL) py.PyErr_Clear();
  PyObject *modules = text != NULL ? py.PyImport_GetModuleDict() : NULL;
  PyObject *module = modules != NULL ? py.PyDict_GetItemString(modules, text) : NULL;
  return module != NULL && module != py.none;
}

/* Tells the Python part of a module that it wants to know of; it heeds each module object once. */
static PyObject *finish_import(PyObject *name, PyObject *module) {
  if (module == NULL || told_of_imports == NULL) return module;
  const char *text = name != NULL ? py.PyUnicode_AsUTF8(name) : NULL;
  if (text == NULL) py.PyErr_Clear();
  if (text == NULL || tell_of_import(text, module)) return module;
  py.Py_DecRef(module);
  return NULL;
}

static PyObject *import_module(PyObject *self, PyObject *const *args, ptrdiff_t count) {
  PyObject *a = count > 0 ? args[0] : NULL, *b = count > 1 ? args[1] : NULL, *c = count > 2 ? args[2] : NULL;
  struct python_thread *t = python_thread();
  if (t == NULL || is_imported(a) || python_begin(t, PYTHON_IMPORT) == NULL) {
    PyObject *module = py.PyObject_CallFunctionObjArgs(find_and_load, a, b, c, NULL);
    return finish_import(a, module);
  }
  PyObject *module = py.PyObject_CallFunctionObjArgs(find_and_load, a, b, c, NULL);
  PyObject *type, *value, *trace;
  py.PyErr_Fetch(&type, &value, &trace);
  const char *name = a != NULL ? py.PyUnicode_AsUTF8(a) : NULL;
  if (name == NULL) py.PyErr_Clear();
  python_end(t, name != NULL ? name : "?", module == NULL);
  if (python_sampling) python_samples_look();
  /* Who imports this wants the log traced. By our handler, which knows the file too, the session needs no domain for it. */
  if (module != NULL && is_ready && name != NULL && strcmp(name, "lttngust") == 0) run_inside("logging");
  py.PyErr_Restore(type, value, trace);
  return finish_import(a, module);
}

static struct python_method import_method = {"_find_and_load", import_module, 0x80, NULL};

static void install(void) {
  PyObject *modules = py.PyImport_GetModuleDict();
  PyObject *importlib = modules != NULL ? py.PyDict_GetItemString(modules, "_frozen_importlib") : NULL;
  if (importlib == NULL) return;
  installed = 1;
  find_and_load = py.PyObject_GetAttrString(importlib, "_find_and_load");
  PyObject *ours = find_and_load != NULL ? py.PyCFunction_NewEx(&import_method, NULL, NULL) : NULL;
  if (ours == NULL || py.PyObject_SetAttrString(importlib, "_find_and_load", ours) < 0) py.PyErr_Clear();
  if (ours != NULL) py.Py_DecRef(ours);
}

/* ---- the audit hook ---- */

/* An entry of CPython's list of hooks; there is no function that takes one out. */
struct hook_entry {
  struct hook_entry *next;
  int (*hook)(const char *, PyObject *, void *);
  void *data;
};

static int audit(const char *event, PyObject *args, void *data);

/* The head of the list is a word of _PyRuntime. It is looked for by what it points to: an entry on the heap with our function.
 * Where it is not found, or not the first, the hook stays, and does nothing. */
static void stop_auditing(void) {
  void **runtime = dlsym(python_home, "_PyRuntime");
  Dl_info info;
  const void *symbol = NULL;
  if (runtime == NULL || !dladdr1(runtime, &info, (void **)&symbol, RTLD_DL_SYMENT) || symbol == NULL) return;
  if (info.dli_saddr != (void *)runtime) return;
  const size_t size = *(const uint64_t *)((const char *)symbol + 16); /* st_size of Elf64_Sym */
  const uintptr_t heap_end = (uintptr_t)sbrk(0), most = (uintptr_t)1 << 30, heap = heap_end > most ? heap_end - most : 4096;
  for (size_t i = 0; i < size / sizeof(void *); i++) {
    struct hook_entry *entry = runtime[i];
    /* Only what can be an allocation of malloc is looked into. */
    const uintptr_t at = (uintptr_t)entry;
    if (at < heap || at + sizeof *entry > heap_end || at % 16 != 0) continue;
    unsigned char there;
    if (mincore((void *)(at & -(uintptr_t)4096), 1, &there) != 0) continue;
    if (entry->hook == audit && entry->data == &watching) {
      runtime[i] = entry->next;
      return;
    }
  }
}

static int audit(const char *event, PyObject *args, void *data) {
  if (is_ready) return 0;
  if (!installed && strcmp(event, "import") == 0) install();
  if (!py.embedded && strncmp(event, "cpython.run_", 12) == 0) python_ready(loaded_at);
  return 0;
}

void python_watch(void) {
  if (watching || py.PySys_AddAuditHook == NULL) return;
  watching = 1;
  py.PySys_AddAuditHook(audit, &watching);
}

/* ---- what the Python part of ours calls (occatrace/inprocess/python_hooks.py) ---- */

/* A function begins. 0: it is none of those wanted. */
static int function_begins(const void *code, enum occatrace_call_kind kind) {
  if (!occatrace_capture && !is_ready) return 0;
  const struct python_code *found = python_code(code);
  if (found == NULL || !found->wanted) return 0;
  struct python_thread *t = python_thread();
  struct python_open *open = t != NULL ? python_begin(t, kind) : NULL;
  if (open == NULL) return 1;
  open->code = code;
  open->name = found->name_id;
  open->source = found->source_id;
  open->line = found->line;
  return 1;
}

static void function_ends(const void *code, int failed) {
  struct python_thread *t = mine;
  if (t == NULL || t->used == 0 || t->open[t->used - 1].code != code) return;
  python_end(t, NULL, failed);
}

static PyObject *native_begin(PyObject *self, PyObject *const *args, ptrdiff_t count) {
  const int wanted = count > 0 && function_begins(args[0], PYTHON_FUNCTION);
  PyObject *result = wanted ? py.none : self; /* self: sys.monitoring.DISABLE */
  py.Py_IncRef(result);
  return result;
}
static PyObject *native_resume(PyObject *self, PyObject *const *args, ptrdiff_t count) {
  const int wanted = count > 0 && function_begins(args[0], PYTHON_RESUMPTION);
  PyObject *result = wanted ? py.none : self;
  py.Py_IncRef(result);
  return result;
}
static PyObject *native_end(PyObject *self, PyObject *const *args, ptrdiff_t count) {
  const struct python_code *found = count > 0 ? python_code(args[0]) : NULL;
  const int wanted = found != NULL && found->wanted;
  if (wanted) function_ends(args[0], 0);
  PyObject *result = wanted ? py.none : self;
  py.Py_IncRef(result);
  return result;
}
static PyObject *native_unwind(PyObject *self, PyObject *const *args, ptrdiff_t count) {
  if (count > 0) function_ends(args[0], 1);
  return nothing();
}
static PyObject *native_throw(PyObject *self, PyObject *const *args, ptrdiff_t count) {
  if (count > 0) function_begins(args[0], PYTHON_RESUMPTION);
  return nothing();
}

/* Before 3.12: what PyEval_SetProfile tells. A generator that goes on is a call that does not begin at its first instruction. */
static int profile(PyObject *self, PyObject *frame, int what, PyObject *value) {
  if (what != 0 && what != 3) return 0; /* PyTrace_CALL, PyTrace_RETURN; not those of C functions */
  PyObject *code = py.PyFrame_GetCode(frame);
  if (what == 0) {
    enum occatrace_call_kind kind = PYTHON_FUNCTION;
    const struct python_code *found = python_code(code);
    if (found != NULL && found->wanted) {
      PyObject *last = py.PyObject_GetAttrString(frame, "f_lasti"), *flags = py.PyObject_GetAttrString(code, "co_flags");
      /* Generators begin by an instruction that makes them, which is no step of theirs. */
      const long generator = flags != NULL ? py.PyLong_AsLong(flags) & 0x2A0 : 0;
      if (generator && last != NULL && py.PyLong_AsLong(last) > 8) kind = PYTHON_RESUMPTION;
      if (last != NULL) py.Py_DecRef(last);
      if (flags != NULL) py.Py_DecRef(flags);
    }
    function_begins(code, kind);
  } else {
    function_ends(code, value == NULL);
  }
  py.Py_DecRef(code);
  return 0;
}
static PyObject *native_profile(PyObject *self, PyObject *const *args, ptrdiff_t count) {
  py.PyEval_SetProfile(profile, NULL);
  return nothing();
}

static PyObject *native_want(PyObject *self, PyObject *const *args, ptrdiff_t count) {
  python_want(text_at(args, count, 0));
  return nothing();
}
/* package, script, folders of libraries */
static PyObject *native_program(PyObject *self, PyObject *const *args, ptrdiff_t count) {
  python_program(text_at(args, count, 0), text_at(args, count, 1), text_at(args, count, 2));
  return nothing();
}
static PyObject *native_start(PyObject *self, PyObject *const *args, ptrdiff_t count) {
  return py.PyLong_FromLong(python_start_events());
}
static PyObject *native_stack(PyObject *self, PyObject *const *args, ptrdiff_t count) {
  char text[4096];
  return py.PyUnicode_FromString(python_stack_text(text, sizeof text) ? text : "");
}
static PyObject *native_lines(PyObject *self, PyObject *const *args, ptrdiff_t count) {
  occatrace_want_calls(python_line);
  __atomic_store_n(&occatrace_on_use, python_use, __ATOMIC_RELEASE);
  return nothing();
}
static PyObject *native_paths(PyObject *self, PyObject *const *args, ptrdiff_t count) {
  python_lines_at_paths = 1;
  return native_lines(self, args, count);
}
static PyObject *native_time(PyObject *self, PyObject *const *args, ptrdiff_t count) {
  python_samples_start();
  return nothing();
}
/* function, modules: it is called with the name of each of them, and the module, whenever that was imported or asked for */
static PyObject *native_on_import(PyObject *self, PyObject *const *args, ptrdiff_t count) {
  if (count == 0 || told_of_imports != NULL) return nothing();
  for (ptrdiff_t i = 1; i < count && i <= 8; i++)
    snprintf(wanted_imports[i - 1], sizeof wanted_imports[0], "%s", text_at(args, count, i));
  py.Py_IncRef(args[0]);
  told_of_imports = args[0];
  return nothing();
}
static PyObject *native_confirmed(PyObject *self, PyObject *const *args, ptrdiff_t count) {
  uintptr_t begin, end;
  python_stack_confirmed = 1;
  if (python_loop_code(&begin, &end)) occatrace_name_code(begin, end, "_PyEval_EvalFrameDefault");
  return nothing();
}
static PyObject *native_samples(PyObject *self, PyObject *const *args, ptrdiff_t count) {
  python_stack_samples_start();
  return nothing();
}
static PyObject *native_untime(PyObject *self, PyObject *const *args, ptrdiff_t count) {
  python_samples_stop();
  return nothing();
}
static PyObject *native_say(PyObject *self, PyObject *const *args, ptrdiff_t count) {
  occatrace_say("%s", text_at(args, count, 0));
  return nothing();
}
/* level, its name, logger, file, line, function, text */
static PyObject *native_message(PyObject *self, PyObject *const *args, ptrdiff_t count) {
  if (count < 7 || !python_start_events() || !occatrace_capture) return nothing();
  char text[8192];
  snprintf(text, sizeof text, "%s", text_at(args, count, 6));
  size_t n = strlen(text);
  if (n + 1 == sizeof text) /* cut: no half character */
    while (n > 0 && (text[n - 1] & 0xC0) == 0x80) text[--n] = '\0';
  if (n > 0 && (text[n - 1] & 0xC0) == 0xC0) text[n - 1] = '\0';
  struct occatrace_python_message m = {
      .level = (uint32_t)py.PyLong_AsLong(args[0]),
      .level_name = occatrace_intern(text_at(args, count, 1)),
      .logger = occatrace_intern(text_at(args, count, 2)),
      .source = occatrace_intern(text_at(args, count, 3)),
      .line = (uint32_t)py.PyLong_AsLong(args[4]),
      .function = occatrace_intern(text_at(args, count, 5)),
      .text = text,
  };
  py.PyErr_Clear();
  struct occatrace_thread *self_thread = occatrace_self();
  m.tid = self_thread->tid;
  m.seq = occatrace_next_seq(self_thread);
  python_events->message(&m);
  return nothing();
}

static struct python_method natives[] = {
    // clang-format off
    {"begin", native_begin, 0x80, NULL},   {"resume", native_resume, 0x80, NULL}, {"end", native_end, 0x80, NULL},
    {"unwind", native_unwind, 0x80, NULL}, {"throw", native_throw, 0x80, NULL},   {"profile", native_profile, 0x80, NULL},
    {"want", native_want, 0x80, NULL},     {"start", native_start, 0x80, NULL},   {"stack", native_stack, 0x80, NULL},
    {"lines", native_lines, 0x80, NULL},   {"say", native_say, 0x80, NULL},       {"message", native_message, 0x80, NULL},
    {"time", native_time, 0x80, NULL},     {"untime", native_untime, 0x80, NULL},
    {"on_import", native_on_import, 0x80, NULL}, {"confirmed", native_confirmed, 0x80, NULL},
    {"samples", native_samples, 0x80, NULL},     {"paths", native_paths, 0x80, NULL},
    {"program", native_program, 0x80, NULL},
    {NULL, NULL, 0, NULL}};
// clang-format on

static void put_methods(PyObject *into, struct python_method *methods, PyObject *self) {
  for (struct python_method *m = methods; m->name != NULL; m++) {
    PyObject *function = py.PyCFunction_NewEx(m, self, NULL);
    py.PyDict_SetItemString(into, m->name, function);
    py.Py_DecRef(function);
  }
}

/* Runs a function of occatrace/inprocess/python_hooks.py, which lies beside the folder of the libraries; `options` as in OCCATRACE_PYTHON. */
static void run_inside(const char *options) {
  Dl_info info;
  char path[4096];
  if (!dladdr((const void *)python_ready, &info) || info.dli_fname == NULL) return;
  const char *slash = strrchr(info.dli_fname, '/');
  snprintf(path, sizeof path, "%.*s/../inprocess/python_hooks.py", slash != NULL ? (int)(slash - info.dli_fname) : 1,
           slash != NULL ? info.dli_fname : ".");
  FILE *file = fopen(path, "re");
  char *source = file != NULL ? calloc(1, 1 << 16) : NULL;
  if (source == NULL || fread(source, 1, (1 << 16) - 1, file) == 0) {
    occatrace_say("%s cannot be read; --python is not followed", path);
  } else {
    PyObject *names = py.PyDict_New(), *native = py.PyDict_New();
    PyObject *disable = NULL, *monitoring = py.minor >= 12 ? dlsym(python_home, "PySys_GetObject") : NULL;
    if (monitoring != NULL) {
      PyObject *(*get)(const char *) = (PyObject * (*)(const char *)) monitoring;
      PyObject *module = get("monitoring");
      disable = module != NULL ? py.PyObject_GetAttrString(module, "DISABLE") : NULL;
    }
    put_methods(native, natives, disable != NULL ? disable : py.none);
    put_methods(native, python_pool_methods, py.none);
    PyObject *words = py.PyUnicode_FromString(options), *place = py.PyUnicode_FromString(path);
    PyObject *program = py.PyUnicode_FromString(program_name);
    if (program == NULL) { /* a name in no encoding of text */
      py.PyErr_Clear();
      program = py.PyUnicode_FromString("");
    }
    py.PyDict_SetItemString(names, "__builtins__", py.PyEval_GetBuiltins());
    py.PyDict_SetItemString(names, "native", native);
    py.PyDict_SetItemString(names, "options", words);
    py.PyDict_SetItemString(names, "place", place);
    py.PyDict_SetItemString(names, "program", program);
    PyObject *code = py.Py_CompileString(source, "<occatrace>", 257); /* Py_file_input */
    PyObject *done = code != NULL ? py.PyEval_EvalCode(code, names, names) : NULL;
    if (done == NULL) py.PyErr_Print();
    if (code != NULL) py.Py_DecRef(code);
    if (done != NULL) py.Py_DecRef(done);
    py.Py_DecRef(words);
    py.Py_DecRef(place);
    py.Py_DecRef(program);
    py.Py_DecRef(native);
    py.Py_DecRef(names);
  }
  free(source);
  if (file != NULL) fclose(file);
}

/* ---- start and end ---- */

/* By the interpreter's arguments, in which several options of one letter may be one word. */
static void name_program(void) {
  char words[4096];
  FILE *file = fopen("/proc/self/cmdline", "re");
  if (file == NULL) return;
  const size_t length = fread(words, 1, sizeof words - 1, file);
  fclose(file);
  words[length] = '\0';
  const char *const end = words + length;
  for (const char *word = words + strlen(words) + 1; word < end; word += strlen(word) + 1) {
    const char *const next = word + strlen(word) + 1;
    if (strcmp(word, "-") == 0) return;
    if (word[0] != '-') {
      snprintf(program_name, sizeof program_name, "%s", word);
      return;
    }
    const char *const option = word[1] == '-' ? NULL : strpbrk(word, "mcWX"); /* the first that takes what follows */
    if (option != NULL && *option == 'c') {
      snprintf(program_name, sizeof program_name, "-c");
      return;
    }
    const char *const value = option != NULL && option[1] != '\0' ? option + 1 : next;
    if (option != NULL && *option == 'm') {
      if (value < end) snprintf(program_name, sizeof program_name, "-m %s", value);
      return;
    }
    if ((option != NULL && value == next) || strcmp(word, "--check-hash-based-pycs") == 0) word = next;
    if (word >= end) return;
  }
}

void python_ready(uint64_t start) {
  if (is_ready) return;
  const uint64_t now = occatrace_now();
  struct python_thread *t = python_thread();
  if (t == NULL) return;
  char text[64];
  snprintf(text, sizeof text, "CPython %.40s", py.Py_GetVersion());
  char *space = strchr(text + 8, ' ');
  if (space != NULL) *space = '\0';
  stop_auditing();
  if (own_program || py.embedded) python_start_events();
  const uint32_t number = __atomic_fetch_add(&next_number, 1, __ATOMIC_RELAXED);
  struct occatrace_python_call call = {
      .owner = t->tid, .number = number, .kind = PYTHON_START, .start = start, .end = now, .inner = import_ns};
  note_call(&call, text);
  ready_at = now;
  is_ready = 1;
  if (!py.embedded) name_program();
  const char *asked = getenv("OCCATRACE_PYTHON"), *paths = getenv("OCCATRACE_CALL_PATHS");
  char options[4096];
  snprintf(options, sizeof options, "%s%s%s", asked != NULL ? asked : "", paths != NULL && *paths != '\0' ? ";paths" : "",
           occatrace_samples_stacks() ? ";samples" : "");
  if (*options != '\0') run_inside(options);
}

static void harvest(int final) {
  if (!is_ready) return;
  if (!final) {
    if (occatrace_capture) write_waiting();
    python_samples_harvest();
    return;
  }
  write_waiting();
  python_samples_harvest();
  if (python_events == NULL || py.embedded) return;
  const uint32_t number = __atomic_fetch_add(&next_number, 1, __ATOMIC_RELAXED);
  struct occatrace_python_call call = {
      .owner = (uint32_t)getpid(), .number = number, .kind = PYTHON_RUN, .start = ready_at, .end = occatrace_now()};
  char text[204]; /* that is enough to know it by */
  snprintf(text, sizeof text, "%.203s", program_name[0] != '\0' ? program_name : "Python");
  write_call(&call, text);
}

static void after_fork_child(void) {
  pthread_mutex_init(&lock, NULL);
  for (uint32_t i = 0; i < waiting_used; i++) free(waiting[i].text);
  waiting_used = 0;
  own_program = 0;
  ready_at = occatrace_now();
  if (mine != NULL) {
    mine->tid = (uint32_t)getpid();
    for (uint32_t i = 0; i < mine->used; i++) mine->open[i].start = ready_at;
  }
  python_stack_forked();
  python_samples_forked(mine);
  python_pools_forked();
}

/* Called as the process starts where it has CPython from the start, else when one of its functions is called. */
OCCATRACE_EXPORT void occatrace_python_start(void) {
  static int once;
  if (once++) return;
  const char *options = getenv("OCCATRACE_PYTHON"), *parent = getenv("OCCATRACE_PARENT");
  if ((options != NULL && strcmp(options, "off") == 0) || !python_find_functions()) return;
  loaded_at = occatrace_now();
  own_program = parent != NULL && atol(parent) == (long)getppid();
  pthread_key_create(&end_key, thread_ended);
  pthread_atfork(NULL, NULL, after_fork_child);
  static struct occatrace_backend backend = {"python", harvest, NULL, NULL};
  occatrace_backend_register(&backend);
  python_watch();
}
