// The Python module occatrace._native.
#include "bindings.h"

PYBIND11_MODULE(_native, module) {
    module.doc() = "Native parts of occatrace: traces as columns, columns as a timeline.";
    occatrace::python::bind_flows(module);
    occatrace::python::bind_graph(module);
    occatrace::python::bind_listing(module);
    occatrace::python::bind_papi(module);
    occatrace::python::bind_reader(module);
    occatrace::python::bind_sqlite(module);
    occatrace::python::bind_stacks(module);
    occatrace::python::bind_statistics(module);
    occatrace::python::bind_timeline(module);
}
