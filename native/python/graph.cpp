// occatrace._native.longest_path: edges as numpy columns in, times of the nodes and the edges of the longest path out.
#include "arrays.h"
#include "bindings.h"

#include "../graph/graph.h"

#include <pybind11/numpy.h>

#include <algorithm>
#include <string>
#include <vector>

namespace py = pybind11;

namespace occatrace::python {

namespace {

py::tuple longest_path(const Array<double> &base, const Array<uint32_t> &source, const Array<uint32_t> &target,
                       const Array<double> &weight, uint32_t end) {
    const auto count = static_cast<size_t>(source.size());
    if (static_cast<size_t>(target.size()) != count || static_cast<size_t>(weight.size()) != count)
        throw py::value_error("source, target and weight are not equally long");
    if (end >= static_cast<size_t>(base.size())) throw py::value_error("end: no such node");
    const std::vector<double> begins(base.data(), base.data() + base.size());
    const Edges edges{count, source.data(), target.data(), weight.data()};
    Longest found;
    std::vector<uint32_t> path;
    {
        const py::gil_scoped_release release;
        found = longest(begins, edges);
        path = path_to(end, found, edges);
    }
    py::array_t<double> times(static_cast<py::ssize_t>(found.times.size()));
    std::copy(found.times.begin(), found.times.end(), times.mutable_data());
    py::array_t<uint32_t> steps(static_cast<py::ssize_t>(path.size()));
    std::copy(path.begin(), path.end(), steps.mutable_data());
    return py::make_tuple(times, steps);
}

} // namespace

void bind_graph(py::module_ &module) {
    module.def("longest_path", &longest_path, py::arg("base"), py::arg("source"), py::arg("target"), py::arg("weight"), py::arg("end"),
               "Times of the nodes, and the edges that decide the time of `end`. Edges lead to nodes of higher numbers.");
}

} // namespace occatrace::python
