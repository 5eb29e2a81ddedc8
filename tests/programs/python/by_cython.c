/* Python started by its own functions, with a module of Cython that was linked in (spun.pyx): its `public` function is what is called. */
#include <Python.h>
#include <time.h>

#include "caller.h"

PyMODINIT_FUNC PyInit_spun(void);

long monotonic_ns(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return t.tv_sec * 1000000000L + t.tv_nsec;
}
int begin_python(void) {
  if (PyImport_AppendInittab("spun", PyInit_spun) != 0) return 1;
  Py_InitializeEx(0);
  PyObject *path = PySys_GetObject("path"), *folder = PyUnicode_FromString(FOLDER);
  PyList_Insert(path, 0, folder);
  Py_DECREF(folder);
  PyObject *module = PyImport_ImportModule("spun");
  if (module == NULL) PyErr_Print();
  return module == NULL;
}
void end_python(void) { Py_FinalizeEx(); }
