// occatrace._native.Flows, Launched, Sites, Changes, order and spread: numpy columns → the files of these names in native/timeline.
#include "arrays.h"
#include "bindings.h"

#include "../timeline/changes.h"
#include "../timeline/flows.h"
#include "../timeline/launched.h"
#include "../timeline/order.h"
#include "../timeline/sites.h"
#include "../timeline/spread.h"

#include <pybind11/numpy.h>
#include <pybind11/stl.h>

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace py = pybind11;

namespace occatrace::python {
namespace {

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
  return py::make_tuple(given(std::move(offsets)), given(std::move(ids)), given(std::move(correlations)));
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
             return given(std::move(out));
           })
      .def_property_readonly("empty", &Flows::empty);

  py::class_<Launched>(m, "Launched", "Which kernel a call launched.")
      .def(py::init<>())
      .def("add",
           [](Launched& self, const Numbers& thread, const Numbers& seq, const Numbers& name, const Numbers& grid,
              const Numbers& block) {
             const auto count = static_cast<size_t>(thread.size());
             const uint32_t *t = column(thread, count, "thread"), *s = column(seq, count, "seq");
             const uint32_t *n = column(name, count, "name"), *g = column(grid, count, "grid"), *b = column(block, count, "block");
             py::gil_scoped_release release;
             for (size_t row = 0; row < count; row++) self.add(t[row], s[row], {n[row], g[row], b[row]});
           },
           py::arg("thread"), py::arg("seq"), py::arg("name"), py::arg("grid"), py::arg("block"))
      // Of each call three numbers of texts, 0xFFFFFFFF where there is none; of each of the three whether all calls have one.
      .def("of",
           [](const Launched& self, const Numbers& thread, const Numbers& seq) {
             const auto count = static_cast<size_t>(thread.size());
             const uint32_t *t = column(thread, count, "thread"), *s = column(seq, count, "seq");
             std::vector<uint32_t> texts[3];
             bool all[3] = {true, true, true};
             {
               py::gil_scoped_release release;
               for (auto& each : texts) each.resize(count);
               for (size_t row = 0; row < count; row++) {
                 const Launched::Kernel& kernel = self.of(t[row], s[row]);
                 for (size_t i = 0; i < 3; i++) {
                   texts[i][row] = kernel[i];
                   all[i] &= kernel[i] != Launched::kNone;
                 }
               }
             }
             py::list out;
             for (size_t i = 0; i < 3; i++) out.append(py::make_tuple(given(std::move(texts[i])), all[i]));
             return out;
           },
           py::arg("thread"), py::arg("seq"));

  py::class_<Sites>(m, "Sites", "Where calls were made, as numbers of texts.")
      .def(py::init([](const Numbers& process, const Array<uint64_t>& address, const Numbers& text) {
             const auto count = static_cast<size_t>(process.size());
             const uint32_t *p = column(process, count, "process"), *t = column(text, count, "text");
             const uint64_t* a = column(address, count, "address");
             auto sites = std::make_unique<Sites>();
             for (size_t row = 0; row < count; row++) sites->add(p[row], a[row], t[row]);
             return sites;
           }),
           py::arg("process"), py::arg("address"), py::arg("text"))
      // Of each call the number of its text, 0xFFFFFFFF where none is known; and whether all are.
      .def("of",
           [](Sites& self, const Numbers& process_of, const Numbers& thread, const Array<uint64_t>& address) {
             const auto count = static_cast<size_t>(thread.size()), threads = static_cast<size_t>(process_of.size());
             const uint32_t *processes = process_of.data(), *t = column(thread, count, "thread");
             const uint64_t* a = column(address, count, "address");
             std::vector<uint32_t> texts(count);
             bool all = true;
             {
               py::gil_scoped_release release;
               for (size_t row = 0; row < count; row++) {
                 texts[row] = t[row] < threads ? self.of(processes[t[row]], a[row]) : Sites::kNone;
                 all &= texts[row] != Sites::kNone;
               }
             }
             return py::make_tuple(given(std::move(texts)), all);
           },
           py::arg("process_of"), py::arg("thread"), py::arg("address"));

  py::class_<Changes>(m, "Changes", "How many of something there are over time.")
      .def(py::init<const std::string&>(), py::arg("path"))
      .def(
          "add",
          [](Changes& self, const Array<uint64_t>& owner, const Array<uint64_t>& time, int step, const std::optional<Numbers>& part) {
            const auto count = static_cast<size_t>(owner.size());
            const uint64_t *o = column(owner, count, "owner"), *t = column(time, count, "time");
            const uint32_t* p = part ? column(*part, count, "part") : nullptr;
            py::gil_scoped_release release;
            self.add(count, p, o, t, step);
          },
          py::arg("owner"), py::arg("time"), py::arg("step"), py::arg("part") = py::none())
      .def("series",
           [](const Changes& self) {
             py::list out;
             for (const auto& each : self.series())
               out.append(py::make_tuple(each.part, each.owner, each.first, each.rows, each.change));
             return out;
           })
      .def(
          "read",
          [](Changes& self, size_t number, int64_t total) {
            if (number >= self.series().size()) throw py::value_error("not the number of a series");
            self.read(number, total);
          },
          py::arg("number"), py::arg("total"))
      .def(
          "next",
          [](Changes& self, size_t most) {
            std::vector<uint64_t> times(most);
            std::vector<int64_t> values(most);
            {
              py::gil_scoped_release release;
              const size_t made = self.next(most, times.data(), values.data());
              times.resize(made);
              values.resize(made);
            }
            return py::make_tuple(given(std::move(times)), given(std::move(values)));
          },
          py::arg("most"));

  m.def("spread",
        [](uint64_t first, uint64_t last, uint64_t width, py::array_t<double, py::array::c_style> sums,
           py::array_t<double, py::array::c_style> steps, const Array<uint64_t>& start, const Array<uint64_t>& end,
           const std::optional<Array<double>>& amount, uint64_t until) {
          const auto count = static_cast<size_t>(start.size());
          const uint64_t *s = column(start, count, "start"), *e = column(end, count, "end");
          const double* a = amount ? column(*amount, count, "amount") : nullptr;
          if (!width || last < first) throw py::value_error("windows: of no length");
          // An interval that ends at `last` at the latest has its step one window behind.
          const auto least = static_cast<py::ssize_t>((last - first) / width + 2);
          if (sums.ndim() != 1 || steps.ndim() != 1 || sums.size() < least || steps.size() < least)
            throw py::value_error("sums: fewer than windows");
          const Windows windows{first, last, width, sums.mutable_data(), steps.mutable_data()};
          spread(windows, count, s, e, a, until);
          return until;
        },
        py::arg("first"), py::arg("last"), py::arg("width"), py::arg("sums").noconvert(), py::arg("steps").noconvert(),
        py::arg("start"), py::arg("end"), py::arg("amount"), py::arg("until"));

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
          return given(std::move(rows));
        },
        py::arg("key"), py::arg("start"), py::arg("end"), py::arg("number"));
}

}  // namespace occatrace::python
