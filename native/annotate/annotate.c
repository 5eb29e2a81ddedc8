/* Python's way to occatrace.h. The decisions are in occatrace/annotations.py; here is what has to be quick. */
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

static PyObject *present(PyObject *self, PyObject *unused) { return PyBool_FromLong(occatrace_present()); }

#define FAST(function) {#function, (PyCFunction)(void (*)(void))function, METH_FASTCALL, NULL}
static PyMethodDef methods[] = {
    FAST(push), FAST(begin), FAST(mark), FAST(counter),
    {"pop", pop, METH_NOARGS, NULL},
    {"end", end, METH_O, NULL},
    {"capture", capture, METH_O, NULL},
    {"present", present, METH_NOARGS, NULL},
    {NULL, NULL, 0, NULL},
};
static struct PyModuleDef module = {PyModuleDef_HEAD_INIT, .m_name = "_annotate", .m_size = 0, .m_methods = methods};

PyMODINIT_FUNC PyInit__annotate(void) { return PyModuleDef_Init(&module); }
