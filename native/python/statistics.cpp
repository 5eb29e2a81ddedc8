// occatrace._native.ThreadStatistics, CallStatistics and Sweep: batches as numpy columns in, statistics as numpy columns out.
#include "arrays.h"
#include "bindings.h"

#include "../statistics/callers.h"
#include "../statistics/sweep.h"

#include <pybind11/numpy.h>
#include <pybind11/stl.h>

#include <optional>

namespace py = pybind11;

namespace occatrace::python {

namespace {

CallColumns calls_of(const Array<int32_t> &thread, const Array<uint64_t> &start, const Array<uint64_t> &end,
                     const std::optional<Array<bool>> &failed, const std::optional<Array<uint64_t>> &bytes) {
    CallColumns batch;
    batch.rows = static_cast<size_t>(thread.size());
    batch.thread = threads_of(thread);
    batch.start = column(start, batch.rows, "start");
    batch.end = column(end, batch.rows, "end");
    if (failed) batch.failed = column(*failed, batch.rows, "failed");
    if (bytes) batch.bytes = column(*bytes, batch.rows, "bytes");
    return batch;
}

template <typename T, typename Row, typename Get> py::array_t<T> extract(const std::vector<Row> &rows, Get get) {
    py::array_t<T> out(static_cast<py::ssize_t>(rows.size()));
    T *values = out.mutable_data();
    for (size_t i = 0; i < rows.size(); i++) values[i] = static_cast<T>(get(rows[i]));
    return out;
}

} // namespace

void bind_statistics(py::module_ &module) {
    using Thread = ThreadStatistics::Thread;
    py::class_<ThreadStatistics>(module, "ThreadStatistics")
        .def(py::init<>())
        .def("add",
             [](ThreadStatistics &self, const Array<int32_t> &thread, const Array<uint32_t> &seq, const Array<uint64_t> &ts) {
                 const auto rows = static_cast<size_t>(thread.size());
                 const int32_t *threads = threads_of(thread);
                 const uint32_t *seqs = column(seq, rows, "seq");
                 const uint64_t *times = column(ts, rows, "ts");
                 const py::gil_scoped_release release;
                 self.add(rows, threads, seqs, times);
             })
        .def("columns", [](const ThreadStatistics &self) {
            const auto &t = self.threads();
            py::dict out;
            out["seen"] = extract<int64_t>(t, [](const Thread &x) { return x.seen; });
            out["max_seq"] = extract<int64_t>(t, [](const Thread &x) { return x.max_seq; });
            out["start"] = extract<uint64_t>(t, [](const Thread &x) { return x.start; });
            out["end"] = extract<uint64_t>(t, [](const Thread &x) { return x.end; });
            return out;
        });

    module.def(
        "fold_callers",
        [](const Array<int32_t> &thread, const Array<uint64_t> &caller, const Array<uint64_t> &start, const Array<uint64_t> &end,
           const std::optional<Array<bool>> &failed, const std::optional<Array<uint64_t>> &bytes) {
            const CallColumns batch = calls_of(thread, start, end, failed, bytes);
            const uint64_t *callers = column(caller, batch.rows, "caller");
            std::vector<CallerTotals> found;
            {
                const py::gil_scoped_release release;
                found = fold_callers(batch, callers);
            }
            using T = CallerTotals;
            py::dict out;
            out["slot"] = extract<int32_t>(found, [](const T &t) { return t.thread; });
            out["caller"] = extract<uint64_t>(found, [](const T &t) { return t.caller; });
            out["since"] = extract<uint64_t>(found, [](const T &t) { return t.since; });
            out["calls"] = extract<uint64_t>(found, [](const T &t) { return t.calls; });
            out["failed"] = extract<uint64_t>(found, [](const T &t) { return t.failed; });
            out["total"] = extract<uint64_t>(found, [](const T &t) { return t.total; });
            out["bytes"] = extract<uint64_t>(found, [](const T &t) { return t.bytes; });
            return out;
        },
        py::arg("thread"), py::arg("caller"), py::arg("start"), py::arg("end"), py::arg("failed") = py::none(),
        py::arg("bytes") = py::none());

    py::class_<CallStatistics>(module, "CallStatistics")
        .def(py::init<>())
        .def(
            "add",
            [](CallStatistics &self, const Array<int32_t> &thread, const Array<uint32_t> &seq, const Array<uint64_t> &start,
               const Array<uint64_t> &end, const std::optional<Array<bool>> &failed, const std::optional<Array<uint64_t>> &bytes) {
                CallColumns batch = calls_of(thread, start, end, failed, bytes);
                batch.seq = column(seq, batch.rows, "seq");
                const py::gil_scoped_release release;
                self.add(batch);
            },
            py::arg("thread"), py::arg("seq"), py::arg("start"), py::arg("end"), py::arg("failed") = py::none(),
            py::arg("bytes") = py::none())
        .def("begin",
             [](CallStatistics &self, const Array<int32_t> &thread, const Array<uint32_t> &call_seq, const Array<uint64_t> &ts) {
                 const auto rows = static_cast<size_t>(thread.size());
                 self.begin(rows, threads_of(thread), column(call_seq, rows, "call_seq"), column(ts, rows, "ts"));
             })
        .def("columns",
             [](const CallStatistics &self) {
                 const auto &t = self.threads();
                 using T = CallTotals;
                 py::dict out;
                 out["calls"] = extract<int64_t>(t, [](const T &x) { return x.calls; });
                 out["failed"] = extract<int64_t>(t, [](const T &x) { return x.failed; });
                 out["total"] = extract<uint64_t>(t, [](const T &x) { return x.total; });
                 out["mean"] = extract<double>(t, [](const T &x) { return x.mean(); });
                 out["m2"] = extract<double>(t, [](const T &x) { return x.m2(); });
                 out["min"] = extract<uint64_t>(t, [](const T &x) { return x.min; });
                 out["max"] = extract<uint64_t>(t, [](const T &x) { return x.max; });
                 out["bytes"] = extract<uint64_t>(t, [](const T &x) { return x.bytes; });
                 out["max_seq"] = extract<int64_t>(t, [](const T &x) { return x.max_seq; });
                 out["begin_seq"] = extract<int64_t>(t, [](const T &x) { return x.begin_seq; });
                 out["begin_ts"] = extract<uint64_t>(t, [](const T &x) { return x.begin_ts; });
                 return out;
             })
        .def("histogram", [](const CallStatistics &self) {
            const auto buckets = self.histogram();
            using B = CallStatistics::Bucket;
            return py::make_tuple(extract<int64_t>(buckets, [](const B &b) { return b.thread; }),
                                  extract<int64_t>(buckets, [](const B &b) { return b.bucket; }),
                                  extract<int64_t>(buckets, [](const B &b) { return b.calls; }));
        });

    py::class_<Sweep>(module, "Sweep")
        .def(py::init<bool>(), py::arg("pieces") = false)
        .def(
            "add",
            [](Sweep &self, const Array<uint32_t> &place, const Array<uint32_t> &kind, const Array<int64_t> &start,
               const Array<int64_t> &end) {
                const auto rows = static_cast<size_t>(place.size());
                const uint32_t *kinds = column(kind, rows, "kind");
                const int64_t *starts = column(start, rows, "start"), *ends = column(end, rows, "end");
                const py::gil_scoped_release release;
                self.add(rows, place.data(), kinds, starts, ends);
            },
            py::arg("place"), py::arg("kind"), py::arg("start"), py::arg("end"))
        .def("advance", py::overload_cast<int64_t>(&Sweep::advance), py::arg("until"), py::call_guard<py::gil_scoped_release>())
        .def("finish", &Sweep::finish, py::call_guard<py::gil_scoped_release>())
        .def("take_pieces",
             [](Sweep &self) {
                 const auto pieces = self.take_pieces();
                 using P = Sweep::Piece;
                 return py::make_tuple(extract<int64_t>(pieces, [](const P &p) { return p.place; }),
                                       extract<int64_t>(pieces, [](const P &p) { return p.open; }),
                                       extract<int64_t>(pieces, [](const P &p) { return p.start; }),
                                       extract<int64_t>(pieces, [](const P &p) { return p.end; }));
             })
        .def("times", [](const Sweep &self) {
            const auto times = self.times();
            using T = Sweep::Time;
            return py::make_tuple(extract<int64_t>(times, [](const T &t) { return t.place; }),
                                  extract<int64_t>(times, [](const T &t) { return t.open; }),
                                  extract<uint64_t>(times, [](const T &t) { return t.ns; }));
        });
}

} // namespace occatrace::python
