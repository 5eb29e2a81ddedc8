/* Calls from C or Fortran into Python, where a program embeds libpython: its functions, in front of libpython's own.
 *
 * Only the outermost call of a thread counts, one that no Python code of that thread is around. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <link.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "python.h"

OCCATRACE_EXPORT void occatrace_python_start(void);

static void **real;
static const char *library_begin, *library_end; /* of libpython: its own calls are none across the border */

#define REAL(symbol, type) ((type)real[OCCATRACE_SLOT_##symbol])

/* ---- what is called ---- */

static const char *type_name(const void *object) {
  const char *const type = *(const char *const *)((const char *)object + 8); /* ob_type of every 64-bit CPython */
  return *(const char *const *)(type + 24);                                /* tp_name */
}
static const void *type_of(const void *object) { return *(const void *const *)((const char *)object + 8); }

/* A text of an attribute, appended. */
static size_t append_attribute(char *text, size_t room, size_t at, PyObject *object, const char *attribute) {
  PyObject *value = py.PyObject_GetAttrString(object, attribute);
  const char *word = value != NULL ? py.PyUnicode_AsUTF8(value) : NULL;
  if (word != NULL) at += (size_t)snprintf(text + at, room - at, "%s", word);
  else py.PyErr_Clear();
  if (value != NULL) py.Py_DecRef(value);
  return at < room ? at : room - 1;
}

/* Names of functions by their code, which is kept alive so that no other comes to its address. */
enum { KNOWN = 1024 };
static struct {
  const void *code;
  uint32_t name;
} known[KNOWN];

static void describe(struct python_open *open, PyObject *callable, const char *method) {
  char text[256];
  size_t n = 0;
  PyObject *function = callable;
  if (callable != NULL && method == NULL && type_of(callable) == py.method_type) function = py.PyMethod_Function(callable);
  PyObject *code = function != NULL && method == NULL && type_of(function) == py.function_type ? py.PyFunction_GetCode(function) : NULL;
  if (code != NULL) {
    const struct python_code *place = python_code(code);
    if (place != NULL) {
      open->source = place->source_id;
      open->line = place->line;
    }
    const size_t slot = ((uintptr_t)code >> 4) % KNOWN;
    if (known[slot].code == code) {
      open->name = known[slot].name;
      return;
    }
    n = append_attribute(text, sizeof text, n, function, "__module__");
    if (n > 0 && n + 1 < sizeof text) text[n++] = '.';
    n = append_attribute(text, sizeof text, n, function, "__qualname__");
    text[n] = '\0';
    open->name = occatrace_intern(text);
    if (known[slot].code == NULL) {
      py.Py_IncRef(code);
      known[slot].code = code;
      known[slot].name = open->name;
    }
    return;
  }
  if (callable == NULL)
    snprintf(text, sizeof text, "%s", method);
  else if (method != NULL)
    snprintf(text, sizeof text, "%s.%s", type_name(callable), method);
  else if (type_of(callable) == py.type_type)
    snprintf(text, sizeof text, "%s", *(const char *const *)((const char *)callable + 24));
  else if (type_of(callable) == py.builtin_type) {
    n = append_attribute(text, sizeof text, 0, callable, "__qualname__");
    text[n] = '\0';
  } else
    snprintf(text, sizeof text, "%s.__call__", type_name(callable));
  open->name = occatrace_intern(text);
}

/* ---- the border ---- */

/* Whether the call is one from outside; it has begun then. */
static struct python_thread *cross(const void *caller, PyObject *callable, const char *method) {
  if (!py.embedded || !occatrace_capture) return NULL;
  struct python_thread *t = python_thread();
  if (t == NULL || t->border > 0) return NULL;
  if ((const char *)caller >= library_begin && (const char *)caller < library_end) return NULL;
  if (!py.PyGILState_Check() || py.PyEval_GetFrame() != NULL || !python_start_events()) return NULL;
  PyObject *type, *value, *trace;
  py.PyErr_Fetch(&type, &value, &trace);
  struct python_open *open = python_begin(t, PYTHON_BORDER);
  if (open != NULL) {
    describe(open, callable, method);
    if (python_sampling) python_sample_thread(t);
    t->border = 1;
    open->start = occatrace_now();
  }
  py.PyErr_Restore(type, value, trace);
  return open != NULL ? t : NULL;
}

static void cross_back(struct python_thread *t, int failed) {
  t->border = 0;
  python_end(t, NULL, failed);
}

/* Whether a call may be one from outside. */
static int outside(void) {
  const struct python_thread *t = py.embedded && occatrace_capture ? python_thread() : NULL;
  return t != NULL && t->border == 0 && py.PyGILState_Check();
}

/* A name that is wanted only there. */
static const char *method_name(PyObject *name) {
  const char *text = outside() ? py.PyUnicode_AsUTF8(name) : NULL;
  return text != NULL ? text : "";
}

#define CROSS(callable, method, call) \
  struct python_thread *t = cross(__builtin_return_address(0), (callable), (method)); \
  PyObject *result = call; \
  if (t != NULL) cross_back(t, result == NULL); \
  return result;

typedef PyObject *(*one)(PyObject *);
typedef PyObject *(*two)(PyObject *, PyObject *);
typedef PyObject *(*three)(PyObject *, PyObject *, PyObject *);

static PyObject *call_Call(PyObject *f, PyObject *args, PyObject *names) {
  CROSS(f, NULL, REAL(PyObject_Call, three)(f, args, names))
}
static PyObject *call_CallObject(PyObject *f, PyObject *args) { CROSS(f, NULL, REAL(PyObject_CallObject, two)(f, args)) }
static PyObject *call_CallNoArgs(PyObject *f) { CROSS(f, NULL, REAL(PyObject_CallNoArgs, one)(f)) }
static PyObject *call_CallOneArg(PyObject *f, PyObject *a) { CROSS(f, NULL, REAL(PyObject_CallOneArg, two)(f, a)) }

typedef PyObject *(*vector)(PyObject *, PyObject *const *, size_t, PyObject *);
static PyObject *call_Vectorcall(PyObject *f, PyObject *const *args, size_t count, PyObject *names) {
  CROSS(f, NULL, REAL(PyObject_Vectorcall, vector)(f, args, count, names))
}
static PyObject *call_VectorcallMethod(PyObject *name, PyObject *const *args, size_t count, PyObject *names) {
  const char *method = method_name(name);
  CROSS(args[0], method, REAL(PyObject_VectorcallMethod, vector)(name, args, count, names))
}

/* Functions with any number of arguments: all registers that may carry one, and some words of the stack, are passed on. */
#if defined(__aarch64__)
#define WORDS long a0, long a1, long a2, long a3, long a4, long a5, long a6, long a7
#define PASS a0, a1, a2, a3, a4, a5, a6, a7
#else
#define WORDS long a0, long a1, long a2, long a3, long a4, long a5
#define PASS a0, a1, a2, a3, a4, a5
#endif
#define VARIADIC \
  WORDS, double d0, double d1, double d2, double d3, double d4, double d5, double d6, double d7, long s0, long s1, long s2, \
      long s3, long s4, long s5, long s6, long s7, long s8, long s9, long s10, long s11
#define ALL PASS, d0, d1, d2, d3, d4, d5, d6, d7, s0, s1, s2, s3, s4, s5, s6, s7, s8, s9, s10, s11
typedef PyObject *(*variadic)(long, ...);

static PyObject *call_CallFunction(VARIADIC) { CROSS((PyObject *)a0, NULL, REAL(PyObject_CallFunction, variadic)(ALL)) }
static PyObject *call_CallFunctionObjArgs(VARIADIC) {
  CROSS((PyObject *)a0, NULL, REAL(PyObject_CallFunctionObjArgs, variadic)(ALL))
}
static PyObject *call_CallMethod(VARIADIC) {
  CROSS((PyObject *)a0, (const char *)a1, REAL(PyObject_CallMethod, variadic)(ALL))
}
static PyObject *call_CallMethodObjArgs(VARIADIC) {
  const char *method = method_name((PyObject *)a1);
  CROSS((PyObject *)a0, method, REAL(PyObject_CallMethodObjArgs, variadic)(ALL))
}

static int run_SimpleString(const char *text, void *flags) {
  struct python_thread *t = cross(__builtin_return_address(0), NULL, "PyRun_SimpleString");
  const int result = REAL(PyRun_SimpleStringFlags, int (*)(const char *, void *))(text, flags);
  if (t != NULL) cross_back(t, result != 0);
  return result;
}
static PyObject *run_String(const char *text, int start, PyObject *globals, PyObject *locals, void *flags) {
  CROSS(NULL, "PyRun_String",
        REAL(PyRun_StringFlags, PyObject * (*)(const char *, int, PyObject *, PyObject *, void *))(text, start, globals, locals, flags))
}
static int run_SimpleFile(void *file, const char *name, int close, void *flags) {
  struct python_thread *t = cross(__builtin_return_address(0), NULL, "PyRun_SimpleFile");
  const int result = REAL(PyRun_SimpleFileExFlags, int (*)(void *, const char *, int, void *))(file, name, close, flags);
  if (t != NULL) cross_back(t, result != 0);
  return result;
}
static PyObject *run_File(void *file, const char *name, int start, PyObject *globals, PyObject *locals, int close, void *flags) {
  CROSS(NULL, "PyRun_File",
        REAL(PyRun_FileExFlags, PyObject * (*)(void *, const char *, int, PyObject *, PyObject *, int, void *))(
            file, name, start, globals, locals, close, flags))
}
static PyObject *eval_Code(PyObject *code, PyObject *globals, PyObject *locals) {
  char text[256] = "PyEval_EvalCode";
  if (outside()) {
    const size_t n = (size_t)snprintf(text, sizeof text, "PyEval_EvalCode ");
    append_attribute(text, sizeof text, n, code, "co_filename");
  }
  CROSS(NULL, text, REAL(PyEval_EvalCode, three)(code, globals, locals))
}
static PyObject *import_ImportModule(const char *name) {
  char text[256];
  snprintf(text, sizeof text, "import %.240s", name);
  CROSS(NULL, text, REAL(PyImport_ImportModule, PyObject * (*)(const char *))(name))
}
static PyObject *import_Import(PyObject *name) {
  char text[256];
  snprintf(text, sizeof text, "import %.240s", method_name(name));
  CROSS(NULL, text, REAL(PyImport_Import, one)(name))
}

/* ---- functions of Cython ---- */

/* A `public` function of Cython is C to whoever calls it, and what it does in Python needs no function that could be seen. One
 * that may be called from everywhere (`with gil`) asks for the GIL as it begins, and gives it back as it ends. */

/* Whether an object has a module of Cython: all of them have this word. */
static int has_cython(struct dl_phdr_info *info, size_t size, void *data) {
  const char **const found = data; /* an address in the object; NULL when it has */
  const char *const at = *found;
  int here = 0;
  for (int i = 0; i < info->dlpi_phnum; i++) {
    const ElfW(Phdr) *p = &info->dlpi_phdr[i];
    const char *const begin = (const char *)info->dlpi_addr + p->p_vaddr;
    here = here || (p->p_type == PT_LOAD && at >= begin && at < begin + p->p_memsz);
  }
  for (int i = 0; here && i < info->dlpi_phnum; i++) {
    const ElfW(Phdr) *p = &info->dlpi_phdr[i];
    const char *const begin = (const char *)info->dlpi_addr + p->p_vaddr;
    if (p->p_type == PT_LOAD && (p->p_flags & PF_R) && !(p->p_flags & PF_W) && memmem(begin, p->p_memsz, "cython_runtime", 14) != NULL)
      *found = NULL;
  }
  return here;
}

/* The function of a program that exports none, from the file's own table. */
static int name_in_file(const char *path, uintptr_t offset, char *name, size_t room) {
  FILE *const file = fopen(path, "re");
  ElfW(Ehdr) head;
  ElfW(Shdr) *sections = NULL;
  int found = 0;
  if (file == NULL || fread(&head, sizeof head, 1, file) != 1 || head.e_shentsize != sizeof *sections) goto done;
  sections = calloc(head.e_shnum, sizeof *sections);
  if (sections == NULL || fseek(file, (long)head.e_shoff, SEEK_SET) != 0 || fread(sections, sizeof *sections, head.e_shnum, file) != head.e_shnum)
    goto done;
  for (unsigned i = 0; i < head.e_shnum && !found; i++) {
    const ElfW(Shdr) *const table = &sections[i];
    if (table->sh_type != SHT_SYMTAB || table->sh_link >= head.e_shnum || fseek(file, (long)table->sh_offset, SEEK_SET) != 0) continue;
    ElfW(Sym) symbol;
    for (uint64_t n = table->sh_size / sizeof symbol; n > 0 && fread(&symbol, sizeof symbol, 1, file) == 1; n--) {
      if ((symbol.st_info & 0xF) != STT_FUNC || symbol.st_info >> 4 == STB_LOCAL || offset < symbol.st_value || offset >= symbol.st_value + symbol.st_size)
        continue;
      if (fseek(file, (long)(sections[table->sh_link].sh_offset + symbol.st_name), SEEK_SET) == 0) {
        const size_t length = fread(name, 1, room - 1, file);
        name[length] = '\0';
        found = name[0] != '\0';
      }
      break;
    }
  }
done:
  free(sections);
  if (file != NULL) fclose(file);
  return found;
}

/* What is known of those who ask for the GIL; id 0: no function of Cython that others may call. */
static struct {
  const void *caller;
  uint32_t name;
} askers[256];

static uint32_t asker(const void *caller) {
  const size_t first = ((uintptr_t)caller >> 2) % 256;
  for (size_t i = 0; i < 8; i++) {
    const size_t at = (first + i) % 256;
    if (askers[at].caller == caller) return askers[at].name;
    if (askers[at].caller != NULL) continue;
    const char *object = caller;
    char name[256] = "";
    Dl_info info;
    struct link_map *map = NULL;
    dl_iterate_phdr(has_cython, &object);
    if (object == NULL && dladdr1(caller, &info, (void **)&map, RTLD_DL_LINKMAP)) {
      if (info.dli_sname != NULL) snprintf(name, sizeof name, "%s", info.dli_sname);
      else name_in_file(map->l_name[0] != '\0' ? map->l_name : "/proc/self/exe", (uintptr_t)caller - map->l_addr, name, sizeof name);
    }
    askers[at].name = name[0] != '\0' ? occatrace_intern(name) : 0;
    askers[at].caller = caller;
    return askers[at].name;
  }
  return 0;
}

static int gil_Ensure(void) {
  const void *const caller = __builtin_return_address(0);
  const int state = REAL(PyGILState_Ensure, int (*)(void))();
  struct python_thread *t = py.embedded ? python_thread() : NULL;
  if (t == NULL) return state;
  if (t->held > 0) {
    t->held++;
  } else if (occatrace_capture && t->border == 0 && !((const char *)caller >= library_begin && (const char *)caller < library_end) &&
             py.PyEval_GetFrame() == NULL && python_start_events()) {
    const uint32_t name = asker(caller);
    struct python_open *open = name != 0 ? python_begin(t, PYTHON_BORDER) : NULL;
    if (open != NULL) {
      open->name = name;
      if (python_sampling) python_sample_thread(t);
      t->border = t->held = 1;
      open->start = occatrace_now();
    }
  }
  return state;
}
static void gil_Release(int state) {
  struct python_thread *t = py.embedded ? python_thread() : NULL;
  if (t != NULL && t->held > 0 && --t->held == 0) cross_back(t, py.PyErr_Occurred() != NULL);
  REAL(PyGILState_Release, void (*)(int))(state);
}

/* ---- start and end ---- */

static int starts; /* the interpreter is being started, or has a main program of its own */

static void initialized(uint64_t begin) {
  if (!(*(int (*)(void))dlsym(python_home, "Py_IsInitialized"))()) return;
  python_ready(begin);
}

static uint64_t initializing(void) {
  struct python_thread *t = python_thread();
  if (!starts) py.embedded = 1;
  if (t != NULL) t->border++; /* what libpython calls as it starts comes from inside */
  return occatrace_now();
}
static void initialize_ends(uint64_t begin) {
  struct python_thread *t = python_thread();
  if (py.embedded) initialized(begin);
  if (t != NULL) t->border--;
}

static void init_Initialize(void) {
  const uint64_t begin = initializing();
  REAL(Py_Initialize, void (*)(void))();
  initialize_ends(begin);
}
static void init_InitializeEx(int signals) {
  const uint64_t begin = initializing();
  REAL(Py_InitializeEx, void (*)(int))(signals);
  initialize_ends(begin);
}
/* PyStatus: four words, returned through memory of the caller. */
struct status {
  long words[4];
};
static struct status init_FromConfig(const void *config) {
  const uint64_t begin = initializing();
  const struct status result = REAL(Py_InitializeFromConfig, struct status (*)(const void *))(config);
  initialize_ends(begin);
  return result;
}
static int main_Main(int count, void *words) {
  starts = 1;
  return REAL(Py_Main, int (*)(int, void *))(count, words);
}
static int main_BytesMain(int count, void *words) {
  starts = 1;
  return REAL(Py_BytesMain, int (*)(int, void *))(count, words);
}

static struct python_thread *finalizing(void) {
  struct python_thread *t = py.embedded && occatrace_capture && python_start_events() ? python_thread() : NULL;
  if (t == NULL || t->border > 0 || python_begin(t, PYTHON_FINALIZE) == NULL) return NULL;
  t->border = 1;
  return t;
}
static void end_Finalize(void) {
  struct python_thread *t = finalizing();
  REAL(Py_Finalize, void (*)(void))();
  if (t != NULL) t->border = 0, python_end(t, "Py_Finalize", 0);
}
static int end_FinalizeEx(void) {
  struct python_thread *t = finalizing();
  const int result = REAL(Py_FinalizeEx, int (*)(void))();
  if (t != NULL) t->border = 0, python_end(t, "Py_FinalizeEx", result != 0);
  return result;
}

/* ---- in front of libpython ---- */

static int find_library(struct dl_phdr_info *info, size_t size, void *data) {
  const char *const address = data;
  for (int i = 0; i < info->dlpi_phnum; i++) {
    const ElfW(Phdr) *p = &info->dlpi_phdr[i];
    const char *const begin = (const char *)info->dlpi_addr + p->p_vaddr;
    if (p->p_type != PT_LOAD || address < begin || address >= begin + p->p_memsz) continue;
    library_begin = begin;
    library_end = begin + p->p_memsz;
    return 1;
  }
  return 0;
}

OCCATRACE_EXPORT void occatrace_bind_python(const struct occatrace_trampolines *t) {
  real = malloc(t->count * sizeof *real);
  if (real == NULL) return;
  memcpy(real, t->original, t->count * sizeof *real);
  py.PyObject_CallFunctionObjArgs = REAL(PyObject_CallFunctionObjArgs, PyObject * (*)(PyObject *, ...));
  py.PyEval_EvalCode = REAL(PyEval_EvalCode, three);
  Dl_info info;
  void *home = dladdr(real[OCCATRACE_SLOT_PyObject_Call], &info) ? dlopen(info.dli_fname, RTLD_LAZY | RTLD_NOLOAD) : NULL;
  if (home != NULL) python_home = home;
  occatrace_python_start();
  if (py.PyFrame_GetCode == NULL) return; /* no CPython that we know */
  dl_iterate_phdr(find_library, real[OCCATRACE_SLOT_PyObject_Call]);
#define HOOK(symbol, function) \
  if (real[OCCATRACE_SLOT_##symbol] != NULL) t->slots[OCCATRACE_SLOT_##symbol] = (void *)function
  HOOK(Py_Initialize, init_Initialize);
  HOOK(Py_InitializeEx, init_InitializeEx);
  HOOK(Py_InitializeFromConfig, init_FromConfig);
  HOOK(Py_Finalize, end_Finalize);
  HOOK(Py_FinalizeEx, end_FinalizeEx);
  HOOK(Py_Main, main_Main);
  HOOK(Py_BytesMain, main_BytesMain);
  HOOK(PyObject_Call, call_Call);
  HOOK(PyObject_CallObject, call_CallObject);
  HOOK(PyObject_CallNoArgs, call_CallNoArgs);
  HOOK(PyObject_CallOneArg, call_CallOneArg);
  HOOK(PyObject_CallFunction, call_CallFunction);
  HOOK(PyObject_CallMethod, call_CallMethod);
  HOOK(PyObject_CallFunctionObjArgs, call_CallFunctionObjArgs);
  HOOK(PyObject_CallMethodObjArgs, call_CallMethodObjArgs);
  HOOK(PyObject_Vectorcall, call_Vectorcall);
  HOOK(PyObject_VectorcallMethod, call_VectorcallMethod);
  HOOK(PyRun_SimpleStringFlags, run_SimpleString);
  HOOK(PyRun_StringFlags, run_String);
  HOOK(PyRun_SimpleFileExFlags, run_SimpleFile);
  HOOK(PyRun_FileExFlags, run_File);
  HOOK(PyEval_EvalCode, eval_Code);
  HOOK(PyImport_ImportModule, import_ImportModule);
  HOOK(PyImport_Import, import_Import);
  HOOK(PyGILState_Ensure, gil_Ensure);
  HOOK(PyGILState_Release, gil_Release);
}
