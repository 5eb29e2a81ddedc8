// occatrace._native.Flows and order: numpy columns → native/timeline/flows.h.
#include "arrays.h"
#include "bindings.h"

#include "../timeline/flows.h"

#include <pybind11/numpy.h>
#include <pybind11/stl.h>

#include <optional>

namespace py = pybind11;

namespace occatrace::python {
namespace {

template <typename T>
Array<T> given(const std::vector<T>& values) {
  return Array<T>(static_cast<py::ssize_t>(values.size()), values.data());
}

// Arrows of each row as offsets and ids, and correlations (0: none).
template <typename Tie>
py::tuple tie(Flows& flows, size_t count, const uint32_t* thread, const uint32_t* seq, Tie of_row) {
  std::vector<uint32_t> offsets{0};
  std::vector<uint64_t> ids, correlations;
  {
    py::gil_scoped_release release;
    offsets.reserve(count + 1);
    correlations.reserve(count);
    for (size_t row = 0; row < count; row++) {
      of_row(row, ids);
      offsets.push_back(static_cast<uint32_t>(ids.size()));
      correlations.push_back(flows.correlation(thread[row], seq[row]));
    }
  }
  return py::make_tuple(given(offsets), given(ids), given(correlations));
}

}  // namespace

void bind_flows(py::module_& m) {
  using Numbers = Array<uint32_t>;
  py::class_<Flows>(m, "Flows", "Which calls launched which device work: the arrows of a timeline.")
      .def(py::init<>())
      .def("add",
           [](Flows& self, const Numbers& part, const Numbers& thread, const Numbers& seq, const Numbers& run_seq,
              const std::optional<Array<bool>>& wanted) {
             const auto count = static_cast<size_t>(part.size());
             const uint32_t *p = column(part, count, "part"), *t = column(thread, count, "thread");
             const uint32_t *s = column(seq, count, "seq"), *r = column(run_seq, count, "run_seq");
             const bool* w = wanted ? column(*wanted, count, "wanted") : nullptr;
             py::gil_scoped_release release;
             for (size_t row = 0; row < count; row++) self.add(p[row], t[row], s[row], r[row], !w || w[row]);
           },
           py::arg("part"), py::arg("thread"), py::arg("seq"), py::arg("run_seq"), py::arg("wanted") = py::none())
      .def("calls",
           [](Flows& self, const Numbers& part, const Numbers& thread, const Numbers& seq) {
             const auto count = static_cast<size_t>(part.size());
             const uint32_t *p = column(part, count, "part"), *t = column(thread, count, "thread"), *s = column(seq, count, "seq");
             return tie(self, count, t, s, [&](size_t row, std::vector<uint64_t>& ids) { self.call(p[row], t[row], s[row], ids); });
           })
      .def("work",
           [](Flows& self, const Numbers& part, const Numbers& thread, const Numbers& seq, const Numbers& run_seq) {
             const auto count = static_cast<size_t>(part.size());
             const uint32_t *p = column(part, count, "part"), *t = column(thread, count, "thread");
             const uint32_t *s = column(seq, count, "seq"), *r = column(run_seq, count, "run_seq");
             return tie(self, count, t, s,
                        [&](size_t row, std::vector<uint64_t>& ids) { self.work(p[row], t[row], s[row], r[row], ids); });
           })
      .def("correlations",
           [](Flows& self, const Numbers& thread, const Numbers& seq) {
             const auto count = static_cast<size_t>(thread.size());
             const uint32_t *t = column(thread, count, "thread"), *s = column(seq, count, "seq");
             std::vector<uint64_t> out(count);
             for (size_t row = 0; row < count; row++) out[row] = self.correlation(t[row], s[row]);
             return given(out);
           })
      .def_property_readonly("empty", &Flows::empty);

  m.def("order",
        [](const Array<uint64_t>& key, const Array<uint64_t>& start, const Array<uint64_t>& end, const Array<uint64_t>& number)
            -> std::optional<Array<int64_t>> {
          const auto count = static_cast<size_t>(key.size());
          const uint64_t *k = column(key, count, "key"), *s = column(start, count, "start");
          const uint64_t *e = column(end, count, "end"), *n = column(number, count, "number");
          std::vector<int64_t> rows;
          {
            py::gil_scoped_release release;
            rows = order(count, k, s, e, n);
          }
          if (rows.empty()) return std::nullopt;
          return given(rows);
        },
        py::arg("key"), py::arg("start"), py::arg("end"), py::arg("number"));
}

}  // namespace occatrace::python
