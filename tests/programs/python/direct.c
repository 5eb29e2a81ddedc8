/* Embeds Python without help of a package: every way to call, with results that must be right; threads of its own too. */
#include <Python.h>
#include <pthread.h>
#include <stdio.h>

static PyObject *module;
static int wrong;

static void expect(PyObject *result, const char *what, double value) {
  if (result == NULL || PyFloat_AsDouble(result) != value) {
    PyErr_Print();
    printf("%s is wrong\n", what);
    wrong = 1;
  }
  Py_XDECREF(result);
}

static void *thread(void *unused) {
  for (int i = 0; i < 10; i++) {
    PyGILState_STATE state = PyGILState_Ensure();
    expect(PyObject_CallMethod(module, "total", "i", i), "thread", i);
    PyGILState_Release(state);
  }
  return NULL;
}

int main(void) {
  Py_InitializeEx(0);
  if (PyRun_SimpleString("import sys, types\n"
                         "m = types.ModuleType('mine')\n"
                         "exec('def total(*a, k=0): return float(sum(a)) + k\\n"
                         "def nested(f): return f(1) + total(2)\\n"
                         "class Thing:\\n  def method(self, x): return 2.0 * x\\n"
                         "def fails(): raise KeyError', m.__dict__)\n"
                         "sys.modules['mine'] = m\n") != 0)
    return 2;
  module = PyImport_ImportModule("mine");
  PyObject *total = PyObject_GetAttrString(module, "total");
  PyObject *args = Py_BuildValue("(ddd)", 1.0, 2.0, 3.0), *names = Py_BuildValue("{s:i}", "k", 4);
  expect(PyObject_Call(total, args, names), "PyObject_Call", 10);
  expect(PyObject_CallObject(total, args), "PyObject_CallObject", 6);
  expect(PyObject_CallFunction(total, "dididididididididdd", 1.5, 1, 2.5, 2, 3.5, 3, 4.5, 4, 5.5, 5, 6.5, 6, 7.5, 7, 8.5, 8, 9.5, 10.5, 11.5),
         "PyObject_CallFunction", 1.5 + 1 + 2.5 + 2 + 3.5 + 3 + 4.5 + 4 + 5.5 + 5 + 6.5 + 6 + 7.5 + 7 + 8.5 + 8 + 9.5 + 10.5 + 11.5);
  expect(PyObject_CallMethod(module, "total", "dd", 0.25, 0.5), "PyObject_CallMethod", 0.75);
  expect(PyObject_CallFunctionObjArgs(total, PyTuple_GetItem(args, 0), PyTuple_GetItem(args, 2), NULL), "ObjArgs", 4);
  PyObject *thing = PyObject_CallMethod(module, "Thing", NULL), *method = PyObject_GetAttrString(thing, "method");
  expect(PyObject_CallFunction(method, "d", 4.0), "method", 8);
  expect(PyObject_CallFunctionObjArgs(PyObject_GetAttrString(module, "nested"), total, NULL), "nested", 3);
  if (PyObject_CallMethod(module, "fails", NULL) != NULL || !PyErr_ExceptionMatches(PyExc_KeyError)) wrong = 1;
  PyErr_Clear();
  PyThreadState *mine = PyEval_SaveThread();
  pthread_t threads[4];
  for (int i = 0; i < 4; i++) pthread_create(&threads[i], NULL, thread, NULL);
  for (int i = 0; i < 4; i++) pthread_join(threads[i], NULL);
  PyEval_RestoreThread(mine);
  if (Py_FinalizeEx() < 0) wrong = 1;
  puts(wrong ? "wrong" : "right");
  return wrong;
}
