// The parts of occatrace._native: each binds itself in a file of its own, module.cpp calls them all.
#pragma once

#include <pybind11/pybind11.h>

namespace occatrace::python {

void bind_flows(pybind11::module_ &module);
void bind_graph(pybind11::module_ &module);
void bind_listing(pybind11::module_ &module);
void bind_papi(pybind11::module_ &module);
void bind_reader(pybind11::module_ &module);
void bind_sqlite(pybind11::module_ &module);
void bind_stacks(pybind11::module_ &module);
void bind_statistics(pybind11::module_ &module);
void bind_timeline(pybind11::module_ &module);

} // namespace occatrace::python
