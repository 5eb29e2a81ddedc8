// occatrace._native.StackFolding: frames as numpy columns in, trees of stacks as numpy columns out.
#include "arrays.h"
#include "bindings.h"

#include "../statistics/stacks.h"
#include "../timeline/order.h"

#include <pybind11/numpy.h>
#include <pybind11/stl.h>

#include <memory>
#include <optional>
#include <vector>

namespace py = pybind11;

namespace occatrace::python {

namespace {

template <typename T> Array<T> copied(const std::vector<T> &values) {
    return Array<T>(static_cast<py::ssize_t>(values.size()), values.data());
}

} // namespace

void bind_stacks(py::module_ &module) {
    using Numbers = Array<uint32_t>;
    using Times = Array<uint64_t>;
    py::class_<StackFolding>(module, "StackFolding", "Calls and ranges → a tree of stacks per process.")
        .def(py::init([](std::vector<uint32_t> owners, const std::vector<uint8_t> &kinds) {
                 std::vector<Frame> texts;
                 for (const uint8_t kind : kinds) texts.push_back(static_cast<Frame>(kind));
                 return std::make_unique<StackFolding>(std::move(owners), std::move(texts));
             }),
             py::arg("owners"), py::arg("kinds"))
        .def("busy",
             [](StackFolding &self, const Numbers &process, const Times &start, const Times &end) {
                 const auto rows = static_cast<size_t>(process.size());
                 self.busy(rows, process.data(), column(start, rows, "start"), column(end, rows, "end"));
             })
        .def("line", &StackFolding::line)
        .def("path", &StackFolding::path)
        .def("mark",
             [](StackFolding &self, const Numbers &thread, const Numbers &seq) {
                 const auto rows = static_cast<size_t>(thread.size());
                 self.mark(rows, thread.data(), column(seq, rows, "seq"));
             })
        .def(
            "add",
            [](StackFolding &self, const Numbers &thread, const Times &start, const Times &end, const Numbers &seq,
               const Numbers &text, const std::optional<Numbers> &line, const std::optional<Numbers> &path) {
                FrameColumns batch;
                batch.rows = static_cast<size_t>(thread.size());
                batch.thread = column(thread, batch.rows, "thread");
                batch.start = column(start, batch.rows, "start");
                batch.end = column(end, batch.rows, "end");
                batch.seq = column(seq, batch.rows, "seq");
                batch.text = column(text, batch.rows, "text");
                if (line) batch.line = column(*line, batch.rows, "line");
                if (path) batch.path = column(*path, batch.rows, "path");
                const py::gil_scoped_release release;
                if (batch.rows == 0) return;
                const std::vector<uint64_t> keys(batch.thread, batch.thread + batch.rows);
                const std::vector<uint64_t> numbers(batch.seq, batch.seq + batch.rows);
                const std::vector<int64_t> rows = order(batch.rows, keys.data(), batch.start, batch.end, numbers.data());
                if (!rows.empty()) batch.order = rows.data();
                self.add(batch);
            },
            py::arg("thread"), py::arg("start"), py::arg("end"), py::arg("seq"), py::arg("text"), py::arg("line") = py::none(),
            py::arg("path") = py::none())
        .def("trees",
             [](const StackFolding &self) {
                 py::dict out;
                 for (const auto &[process, tree] : self.trees()) {
                     py::dict columns;
                     columns["parent"] = copied(tree.parent);
                     columns["text"] = copied(tree.text);
                     columns["calls"] = copied(tree.calls);
                     columns["time"] = copied(tree.time);
                     columns["idle"] = copied(tree.idle);
                     out[py::int_(process)] = columns;
                 }
                 return out;
             })
        .def("take_marked", [](StackFolding &self) {
            StackFolding::Marked found = self.take_marked();
            py::dict columns;
            columns["thread"] = given(std::move(found.thread));
            columns["seq"] = given(std::move(found.seq));
            columns["node"] = given(std::move(found.node));
            return columns;
        });
}

} // namespace occatrace::python
