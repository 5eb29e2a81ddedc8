/* An extension module that spends a known processor time: in its own code, in libc, and in CPython's functions. */
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <string.h>
#include <time.h>

static double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static PyObject *spin(PyObject *self, PyObject *args) {
  static char room[1 << 20];
  double seconds;
  const char *where;
  volatile unsigned long x = 1;
  if (!PyArg_ParseTuple(args, "sd", &where, &seconds)) return NULL;
  const double begin = now();
  double end = begin;
  for (; end - begin < seconds; end = now()) {
    if (where[0] == 'o')
      for (int i = 0; i < 100000; i++) x = x * 3 + 1;
    else if (where[0] == 'l')
      for (int i = 0; i < 20; i++) {
        memset(room, (int)x, sizeof room);
        __asm__ volatile("" ::: "memory");
      }
    else
      for (int i = 0; i < 1000; i++) {
        PyObject *text = PyUnicode_FromFormat("%d and %d", i, i), *list = text ? PyUnicode_Split(text, NULL, -1) : NULL;
        Py_XDECREF(text);
        Py_XDECREF(list);
      }
  }
  return PyFloat_FromDouble(end - begin);
}

static PyMethodDef functions[] = {{"spin", spin, METH_VARARGS, NULL}, {NULL, NULL, 0, NULL}};
static struct PyModuleDef module = {PyModuleDef_HEAD_INIT, "spinning", NULL, -1, functions, NULL, NULL, NULL, NULL};
PyMODINIT_FUNC PyInit_spinning(void) { return PyModule_Create(&module); }
