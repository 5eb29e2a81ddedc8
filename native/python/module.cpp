// The Python module occatrace._native.
#include "bindings.h"

PYBIND11_MODULE(_native, module) {
    module.doc() = "Native parts of occatrace: traces as columns.";
    occatrace::python::bind_reader(module);
}
