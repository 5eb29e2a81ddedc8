/* Python's way to occatrace.h. The decisions are in occatrace/inprocess/annotations.py; here is what has to be quick. */
#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include "occatrace.h"

/* name, colour, values or None: what push, begin and mark take. */
static int note(PyObject *const *args, Py_ssize_t count, const char **name, uint32_t *argb, const char **values) {
  if (count != 3) {
    PyErr_SetString(PyExc_TypeError, "expected name, colour and values");
    return 0;
  }
  *name = PyUnicode_AsUTF8(args[0]);
  *argb = *name == NULL ? 0 : (uint32_t)PyLong_AsUnsignedLongMask(args[1]);
  *values = args[2] == Py_None ? NULL : PyUnicode_AsUTF8(args[2]);
  return !PyErr_Occurred();
}

static PyObject *push(PyObject *self, PyObject *const *args, Py_ssize_t count) {
  const char *name, *values;
  uint32_t argb;
  if (!note(args, count, &name, &argb, &values)) return NULL;
  occatrace_push_with(name, argb, values);
  Py_RETURN_NONE;
}

static PyObject *pop(PyObject *self, PyObject *unused) {
  occatrace_pop();
  Py_RETURN_NONE;
}

static PyObject *begin(PyObject *self, PyObject *const *args, Py_ssize_t count) {
  const char *name, *values;
  uint32_t argb;
  if (!note(args, count, &name, &argb, &values)) return NULL;
  return PyLong_FromUnsignedLongLong(occatrace_begin_with(name, argb, values));
}

static PyObject *end(PyObject *self, PyObject *id) {
  const unsigned long long value = PyLong_AsUnsignedLongLong(id);
  if (PyErr_Occurred()) return NULL;
  occatrace_end(value);
  Py_RETURN_NONE;
}

static PyObject *mark(PyObject *self, PyObject *const *args, Py_ssize_t count) {
  const char *name, *values;
  uint32_t argb;
  if (!note(args, count, &name, &argb, &values)) return NULL;
  occatrace_mark_with(name, argb, values);
  Py_RETURN_NONE;
}

static PyObject *counter(PyObject *self, PyObject *const *args, Py_ssize_t count) {
  if (count != 3) {
    PyErr_SetString(PyExc_TypeError, "expected name, value and unit");
    return NULL;
  }
  const char *name = PyUnicode_AsUTF8(args[0]), *unit = PyUnicode_AsUTF8(args[2]);
  const double value = name == NULL || unit == NULL ? 0 : PyFloat_AsDouble(args[1]);
  if (PyErr_Occurred()) return NULL;
  occatrace_counter(name, value, unit);
  Py_RETURN_NONE;
}

static PyObject *capture(PyObject *self, PyObject *on) {
  const int wanted = PyObject_IsTrue(on);
  if (wanted < 0) return NULL;
  if (wanted)
    occatrace_capture_start();
  else
    occatrace_capture_stop();
  Py_RETURN_NONE;
}

/* (since, now, memory in use, its high water, [(kind, count, ns, bytes)], [(kernel, count, ns)], [(api, kind, mode, bytes in use,
 * high water, objects)]), or None in a process of which nothing is recorded. */
static PyObject *live(PyObject *self, PyObject *unused) {
  struct occatrace_live now;
  struct occatrace_live_kernel few[64], *kernels = few;
  struct occatrace_live_memory memory[64];
  uint32_t room = sizeof few / sizeof *few;
  int known;
  for (;;) {
    /* Taking in what has finished may run callbacks of the program. */
    Py_BEGIN_ALLOW_THREADS
        known = occatrace_live_with(&now, kernels, room, memory, sizeof memory / sizeof *memory);
    Py_END_ALLOW_THREADS if (!known || now.kernels <= room) break;
    room = 2 * now.kernels;
    if (kernels != few) PyMem_Free(kernels);
    kernels = PyMem_Malloc(room * sizeof *kernels);
    if (kernels == NULL) return PyErr_NoMemory();
  }
  PyObject *result = NULL, *works = NULL, *calls = NULL, *objects = NULL;
  if (!known) {
    result = Py_NewRef(Py_None);
    goto done;
  }
  works = PyList_New(now.kinds);
  calls = PyList_New(now.kernels);
  objects = PyList_New(now.memories);
  if (works == NULL || calls == NULL || objects == NULL) goto done;
#define FILL(list, at, ...) \
  do { \
    PyObject *const entry = Py_BuildValue(__VA_ARGS__); \
    if (entry == NULL) goto done; \
    PyList_SET_ITEM(list, at, entry); \
  } while (0)
#define NUMBER(value) (unsigned long long)(value)
  for (uint32_t i = 0; i < now.kinds; i++)
    FILL(works, i, "(sKKK)", now.work[i].kind, NUMBER(now.work[i].count), NUMBER(now.work[i].ns), NUMBER(now.work[i].bytes));
  for (uint32_t i = 0; i < now.kernels; i++)
    FILL(calls, i, "(NKK)", PyUnicode_DecodeUTF8(kernels[i].name, (Py_ssize_t)strlen(kernels[i].name), "replace"), NUMBER(kernels[i].count), NUMBER(kernels[i].ns));
  for (uint32_t i = 0; i < now.memories; i++)
    FILL(objects, i, "(sssKKK)", memory[i].api, memory[i].kind, memory[i].mode, NUMBER(memory[i].in_use), NUMBER(memory[i].high), NUMBER(memory[i].count));
  result = Py_BuildValue("(KKKKOOO)", NUMBER(now.since), NUMBER(now.now), NUMBER(now.memory_in_use), NUMBER(now.memory_high), works, calls, objects);
done:
  Py_XDECREF(works);
  Py_XDECREF(calls);
  Py_XDECREF(objects);
  if (kernels != few) PyMem_Free(kernels);
  return result;
}

static PyObject *present(PyObject *self, PyObject *unused) { return PyBool_FromLong(occatrace_present()); }

#define FAST(function) {#function, (PyCFunction)(void (*)(void))function, METH_FASTCALL, NULL}
static PyMethodDef methods[] = {
    FAST(push),
    FAST(begin),
    FAST(mark),
    FAST(counter),
    {"pop", pop, METH_NOARGS, NULL},
    {"end", end, METH_O, NULL},
    {"capture", capture, METH_O, NULL},
    {"live", live, METH_NOARGS, NULL},
    {"present", present, METH_NOARGS, NULL},
    {NULL, NULL, 0, NULL},
};
static struct PyModuleDef module = {PyModuleDef_HEAD_INIT, .m_name = "_annotate", .m_size = 0, .m_methods = methods};

PyMODINIT_FUNC PyInit__annotate(void) { return PyModuleDef_Init(&module); }
