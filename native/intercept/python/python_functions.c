/* The functions and types of the CPython of this process. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

#include "python.h"

struct python py;
void *python_home = RTLD_DEFAULT;

int python_find_functions(void) {
#define X(result, name, parameters) py.name = (result(*) parameters)dlsym(python_home, #name);
  PYTHON_FUNCTIONS(X)
#undef X
  if (py.PyObject_CallFunctionObjArgs == NULL) {
    py.PyObject_CallFunctionObjArgs = (PyObject * (*)(PyObject *, ...)) dlsym(python_home, "PyObject_CallFunctionObjArgs");
    py.PyEval_EvalCode = (PyObject * (*)(PyObject *, PyObject *, PyObject *)) dlsym(python_home, "PyEval_EvalCode");
  }
  py.none = dlsym(python_home, "_Py_NoneStruct");
  py.function_type = dlsym(python_home, "PyFunction_Type");
  py.method_type = dlsym(python_home, "PyMethod_Type");
  py.builtin_type = dlsym(python_home, "PyCFunction_Type");
  py.code_type = dlsym(python_home, "PyCode_Type");
  py.type_type = dlsym(python_home, "PyType_Type");
  int major = 0;
  /* PyPy has some of these names, and other objects behind them. */
  if (py.Py_GetVersion == NULL || py.none == NULL || py.PyCode_Addr2Line == NULL || py.PyFrame_GetCode == NULL ||
      py.PyCFunction_NewEx == NULL || py.PySys_AddAuditHook == NULL)
    return 0;
  /* Objects of these have other heads. */
  if (strstr(py.Py_GetVersion(), "free-threading") != NULL || dlsym(python_home, "_Py_PrintReferences") != NULL) return 0;
  if (sscanf(py.Py_GetVersion(), "%d.%d", &major, &py.minor) != 2 || major != 3 || py.minor < 10) return 0;
  return 1;
}
