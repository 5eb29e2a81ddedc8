// occatrace._native.longest_path: edges as numpy columns in, times of the nodes and the edges of the longest path out.
#include "arrays.h"
#include "bindings.h"

#include "../graph/graph.h"

#include <pybind11/numpy.h>
#include <pybind11/stl.h>

#include <tuple>
#include <utility>
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
    const Edges edges{count, source.data(), target.data(), weight.data()};
    Longest found;
    std::vector<uint32_t> path;
    {
        const py::gil_scoped_release release;
        found = longest({base.data(), base.data() + base.size()}, edges);
        path = path_to(end, found, edges);
    }
    return py::make_tuple(given(std::move(found.times)), given(std::move(path)));
}

Array<uint32_t> decided_path(const Array<uint32_t> &source, const Array<uint32_t> &target, const Array<bool> &decides, uint32_t end) {
    const auto count = static_cast<size_t>(source.size());
    const Edges edges{count, source.data(), column(target, count, "target"), nullptr};
    const auto *decide = reinterpret_cast<const uint8_t *>(column(decides, count, "decides"));
    std::vector<uint32_t> path;
    {
        const py::gil_scoped_release release;
        path = occatrace::decided_path(end, edges, decide);
    }
    return given(std::move(path));
}

py::tuple sort_edges(size_t nodes, const std::vector<std::tuple<uint8_t, Array<uint32_t>, Array<uint32_t>>> &kinds) {
    std::vector<Part> parts;
    for (const auto &[kind, source, target] : kinds) {
        const auto count = static_cast<size_t>(source.size());
        parts.push_back({kind, count, source.data(), column(target, count, "target")});
    }
    std::vector<uint32_t> first;
    {
        const py::gil_scoped_release release;
        first = forward(nodes, parts);
    }
    const auto count = static_cast<py::ssize_t>(first.back());
    Array<uint32_t> source(count), target(count);
    Array<uint8_t> kind(count);
    const Sorted out{source.mutable_data(), target.mutable_data(), kind.mutable_data()};
    {
        const py::gil_scoped_release release;
        occatrace::sort_edges(std::move(first), parts, out);
    }
    return py::make_tuple(source, target, kind);
}

Array<uint32_t> grouped(const Array<int32_t> &group) {
    std::vector<uint32_t> out;
    {
        const py::gil_scoped_release release;
        out = occatrace::grouped(group.data(), static_cast<size_t>(group.size()));
    }
    return given(std::move(out));
}

} // namespace

void bind_graph(py::module_ &module) {
    module.def("longest_path", &longest_path, py::arg("base"), py::arg("source"), py::arg("target"), py::arg("weight"), py::arg("end"),
               "Times of the nodes, and the edges that decide the time of `end`. Edges lead to nodes of higher numbers.");
    module.def("decided_path", &decided_path, py::arg("source"), py::arg("target"), py::arg("decides"), py::arg("end"),
               "The edges by which `end` was reached. Edges are in the order of their targets.");
    module.def("sort_edges", &sort_edges, py::arg("nodes"), py::arg("parts"),
               "Edges that lead to a higher number of a node, in the order of their targets.");
    module.def("grouped", &grouped, py::arg("group"), "The numbers of rows, group by group.");
}

} // namespace occatrace::python
