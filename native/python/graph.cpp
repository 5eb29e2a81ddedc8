// occatrace._native.longest_path and what else the graph of a run needs: edges and spans as numpy columns in and out.
#include "arrays.h"
#include "bindings.h"

#include "../graph/graph.h"
#include "../graph/spans.h"

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

using Kinds = std::vector<std::tuple<uint8_t, Array<uint32_t>, Array<uint32_t>>>;

std::vector<Part> parts_of(const Kinds &kinds) {
    std::vector<Part> parts;
    for (const auto &[kind, source, target] : kinds) {
        const auto count = static_cast<size_t>(source.size());
        parts.push_back({kind, count, source.data(), column(target, count, "target")});
    }
    return parts;
}

py::tuple sort_edges(size_t nodes, const Kinds &parts, const std::tuple<uint8_t, Array<uint32_t>, Array<uint32_t>> &chains,
                     const Kinds &later) {
    const auto &[chained, along, ends] = chains;
    for (py::ssize_t i = 0; i < ends.size(); i++)
        if (ends.data()[i] > static_cast<size_t>(along.size())) throw py::value_error("a chain ends behind the nodes");
    const Unsorted edges{parts_of(parts), {chained, static_cast<size_t>(ends.size()), ends.data(), along.data()}, parts_of(later)};
    std::vector<uint32_t> first;
    {
        const py::gil_scoped_release release;
        first = forward(nodes, edges);
    }
    const auto count = static_cast<py::ssize_t>(first.back());
    Array<uint32_t> source(count), target(count);
    Array<uint8_t> kind(count);
    const Sorted out{source.mutable_data(), target.mutable_data(), kind.mutable_data()};
    {
        const py::gil_scoped_release release;
        occatrace::sort_edges(std::move(first), edges, out);
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

py::tuple outermost(const Array<int32_t> &thread, const Array<int64_t> &start, const Array<int64_t> &end, const Array<int32_t> &label) {
    SpanColumns spans;
    spans.rows = static_cast<size_t>(thread.size());
    spans.thread = threads_of(thread);
    spans.start = column(start, spans.rows, "start");
    spans.end = column(end, spans.rows, "end");
    spans.label = column(label, spans.rows, "label");
    Spans found;
    {
        const py::gil_scoped_release release;
        found = occatrace::outermost(spans);
    }
    return py::make_tuple(given(std::move(found.thread)), given(std::move(found.start)), given(std::move(found.end)),
                          given(std::move(found.label)));
}

} // namespace

void bind_graph(py::module_ &module) {
    module.def("longest_path", &longest_path, py::arg("base"), py::arg("source"), py::arg("target"), py::arg("weight"), py::arg("end"),
               "Times of the nodes, and the edges that decide the time of `end`. Edges lead to nodes of higher numbers.");
    module.def("decided_path", &decided_path, py::arg("source"), py::arg("target"), py::arg("decides"), py::arg("end"),
               "The edges by which `end` was reached. Edges are in the order of their targets.");
    module.def("sort_edges", &sort_edges, py::arg("nodes"), py::arg("parts"), py::arg("chains"), py::arg("later"),
               "Edges that lead to a higher number of a node, in the order of their targets.");
    module.def("grouped", &grouped, py::arg("group"), "The numbers of rows, group by group.");
    module.def("outermost", &outermost, py::arg("thread"), py::arg("start"), py::arg("end"), py::arg("label"),
               "The spans that begin in no other one of their thread, by thread and start.");
}

} // namespace occatrace::python
