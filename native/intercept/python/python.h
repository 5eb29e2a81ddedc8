/* What the files of the Python backend share: the functions of CPython that they use, found in the process, and the thread. */
#ifndef OCCATRACE_PYTHON_H
#define OCCATRACE_PYTHON_H
#include "occatrace_core.h"
#include "python_events.h"

typedef struct _object PyObject;
typedef PyObject *(*python_function)(PyObject *self, PyObject *const *args, ptrdiff_t count);

#define PYTHON_FUNCTIONS(X) \
  X(int, PySys_AddAuditHook, (int (*)(const char *, PyObject *, void *), void *)) \
  X(const char *, Py_GetVersion, (void)) \
  X(PyObject *, PyImport_GetModuleDict, (void)) \
  X(PyObject *, PyDict_GetItemString, (PyObject *, const char *)) \
  X(int, PyDict_SetItemString, (PyObject *, const char *, PyObject *)) \
  X(PyObject *, PyDict_New, (void)) \
  X(PyObject *, PyObject_GetAttrString, (PyObject *, const char *)) \
  X(int, PyObject_SetAttrString, (PyObject *, const char *, PyObject *)) \
  X(PyObject *, PyCFunction_NewEx, (void *, PyObject *, PyObject *)) \
  X(const char *, PyUnicode_AsUTF8, (PyObject *)) \
  X(PyObject *, PyUnicode_FromString, (const char *)) \
  X(PyObject *, PyLong_FromLong, (long)) \
  X(long, PyLong_AsLong, (PyObject *)) \
  X(unsigned long long, PyLong_AsUnsignedLongLong, (PyObject *)) \
  X(PyObject *, PyCapsule_New, (void *, const char *, void (*)(PyObject *))) \
  X(void *, PyCapsule_GetPointer, (PyObject *, const char *)) \
  X(PyObject *, PyErr_Occurred, (void)) \
  X(void, PyErr_Clear, (void)) \
  X(void, PyErr_Print, (void)) \
  X(void, PyErr_SetString, (PyObject *, const char *)) \
  X(void, PyErr_Fetch, (PyObject **, PyObject **, PyObject **)) \
  X(void, PyErr_Restore, (PyObject *, PyObject *, PyObject *)) \
  X(void, Py_IncRef, (PyObject *)) \
  X(void, Py_DecRef, (PyObject *)) \
  X(int, PyGILState_Check, (void)) \
  X(void *, PyGILState_GetThisThreadState, (void)) \
  X(PyObject *, PyEval_GetFrame, (void)) \
  X(PyObject *, PyEval_GetBuiltins, (void)) \
  X(void, PyEval_SetProfile, (int (*)(PyObject *, PyObject *, int, PyObject *), PyObject *)) \
  X(PyObject *, PyFunction_GetCode, (PyObject *)) \
  X(PyObject *, PyMethod_Function, (PyObject *)) \
  X(PyObject *, PyFrame_GetCode, (PyObject *)) \
  X(int, PyCode_Addr2Line, (PyObject *, int)) \
  X(PyObject *, Py_CompileString, (const char *, const char *, int))

/* CPython's functions, not those of ours that stand before them. */
struct python {
#define X(result, name, parameters) result(*name) parameters;
  PYTHON_FUNCTIONS(X)
#undef X
  PyObject *(*PyObject_CallFunctionObjArgs)(PyObject *, ...);
  PyObject *(*PyEval_EvalCode)(PyObject *, PyObject *, PyObject *);
  PyObject *none;
  void *function_type, *method_type, *builtin_type, *code_type, *type_type;
  int minor; /* of version 3 */
  int embedded; /* by a program that called Py_Initialize */
};
extern __attribute__((visibility("hidden"))) struct python py;

/* Where they are found: libpython, where it was loaded for its user alone. */
extern __attribute__((visibility("hidden"))) void *python_home;
/* Finds both; 0: this is no CPython that is known. */
__attribute__((visibility("hidden"))) int python_find_functions(void);

/* What runs, or is imported, in a thread. */
struct python_open {
  uint64_t start, inner;
  uint64_t imports; /* of the next modules imported within an import, through whatever functions */
  uint32_t number;
  uint32_t name, source, line; /* of functions */
  const void *code;
  uint8_t kind;
};
struct python_thread {
  uint32_t tid;
  uint32_t border; /* calls from outside in flight */
  uint32_t held;   /* of one that began by asking for the GIL: how often it was asked for and not given back since */
  uint32_t used, room;
  struct python_open *open;
  struct python_sampled *sampled; /* with --python time */
};
__attribute__((visibility("hidden"))) struct python_thread *python_thread(void);
/* Begins something in the thread; NULL without memory. `end` writes it; `text` is its name where it was not interned before. */
__attribute__((visibility("hidden"))) struct python_open *python_begin(struct python_thread *t, enum occatrace_call_kind kind);
__attribute__((visibility("hidden"))) void python_end(struct python_thread *t, const char *text, int failed);
/* Loads the provider; 0 when the process runs untraced. */
__attribute__((visibility("hidden"))) int python_start_events(void);
extern __attribute__((visibility("hidden"))) const struct occatrace_python_events *python_events;
/* The interpreter has started, by a program that embeds it, or as a program. */
__attribute__((visibility("hidden"))) void python_ready(uint64_t start);
/* Installs the audit hook, by which the start of the interpreter is seen; once. */
__attribute__((visibility("hidden"))) void python_watch(void);

/* Texts of a code object, interned; without the GIL only what can be read without it. */
struct python_code {
  const void *code;
  const void *name, *file; /* the objects: another code may come to the same address */
  uint32_t name_id, source_id, line;
  uint8_t wanted; /* by --python functions */
  uint8_t ours;   /* of occatrace/inprocess */
  uint8_t part;   /* enum occatrace_frame_part */
};
__attribute__((visibility("hidden"))) struct python_code *python_code(const void *code);
/* `on_call` of the core: notes where the calling thread is in Python. */
__attribute__((visibility("hidden"))) void python_line(struct occatrace_thread *self, uint32_t call_seq, uint32_t kinds);
/* Only of calls that have their stack, and as many frames as a sample has: these lines are part of one path with those of C. */
extern __attribute__((visibility("hidden"))) int python_lines_at_paths;
/* `on_use` of the core. */
__attribute__((visibility("hidden"))) void python_use(struct occatrace_thread *self, uint32_t call_seq, uint64_t memory);
/* Called by code of Python: from where to where the code of the interpreter's loop goes that runs it. A compiler may have put it apart
 * from where the loop's function begins (gcc's hot and cold parts), where a stripped file has no name for it. */
__attribute__((visibility("hidden"))) int python_loop_code(uintptr_t *begin, uintptr_t *end);
/* The places of the thread's own stack as "address:line ...", for the check of the layout. */
__attribute__((visibility("hidden"))) int python_stack_text(char *text, size_t room);
__attribute__((visibility("hidden"))) void python_stack_forked(void);
/* --python time: samples of where threads spend their processor time. `look` learns of libraries that were loaded. */
extern __attribute__((visibility("hidden"))) int python_sampling;
__attribute__((visibility("hidden"))) void python_samples_start(void);
__attribute__((visibility("hidden"))) void python_samples_stop(void);
__attribute__((visibility("hidden"))) void python_samples_look(void);
__attribute__((visibility("hidden"))) void python_samples_harvest(void);
__attribute__((visibility("hidden"))) void python_samples_forked(struct python_thread *t);
__attribute__((visibility("hidden"))) void python_sample_thread(struct python_thread *t);
__attribute__((visibility("hidden"))) void python_sample_ends(struct python_thread *t);
/* The place of the calling thread, announced, by its number; 0: none, or how frames lie in memory was not confirmed. */
__attribute__((visibility("hidden"))) uint32_t python_here(struct occatrace_thread *self);
extern __attribute__((visibility("hidden"))) int python_stack_confirmed;
/* A place in a function, whose texts are interned. */
struct python_place {
  uint32_t function, source;
  int line, entered;
  uint8_t part; /* enum occatrace_frame_part */
};
/* The number of a place within the frame `parent` (0: none), announced. */
__attribute__((visibility("hidden"))) uint32_t python_frame(struct occatrace_thread *self, uint32_t parent, const struct python_place *place);
/* From now on samples of stacks have frames of Python. */
__attribute__((visibility("hidden"))) void python_stack_samples_start(void);

/* ---- what functions for the Python part of ours (occatrace/inprocess) are made of ---- */

/* An argument as text; "" where there is none. */
static inline const char *text_at(PyObject *const *args, ptrdiff_t count, ptrdiff_t at) {
  const char *text = at < count ? py.PyUnicode_AsUTF8(args[at]) : NULL;
  if (text == NULL) py.PyErr_Clear();
  return text != NULL ? text : "";
}

static inline PyObject *nothing(void) {
  py.Py_IncRef(py.none);
  return py.none;
}

/* PyMethodDef: the same in every CPython 3. */
struct python_method {
  const char *name;
  python_function function;
  int flags; /* METH_FASTCALL is 0x80 */
  const char *doc;
};
/* Of memory pools and builds, for occatrace/inprocess/python_pools.py. */
extern __attribute__((visibility("hidden"))) struct python_method python_pool_methods[];
__attribute__((visibility("hidden"))) void python_pools_forked(void);
/* Which functions --python functions wants: patterns, or those of the program. */
__attribute__((visibility("hidden"))) void python_want(const char *patterns);
/* What the program is: an installed package, where it is one, and the script that only calls it. What lies below the folders
 * (separated by colons) is of libraries. */
__attribute__((visibility("hidden"))) void python_program(const char *package, const char *script, const char *folders);
/* The part of a path within the folder of installed packages; NULL: it is of none. */
__attribute__((visibility("hidden"))) const char *python_in_packages(const char *path);
/* Whose code the file is. */
__attribute__((visibility("hidden"))) enum occatrace_frame_part python_part(const char *file);
#endif
