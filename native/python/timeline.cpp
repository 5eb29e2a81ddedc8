// occatrace._native.Timeline: numpy columns → the encoder of native/timeline, without copies.
#include "arrays.h"
#include "bindings.h"

#include "../timeline/samples.h"
#include "../timeline/timeline.h"

#include <pybind11/numpy.h>
#include <pybind11/stl.h>

#include <memory>
#include <optional>
#include <system_error>

namespace py = pybind11;

namespace occatrace::python {
namespace {

// Checks numbers once, so that the encoder need not.
void check_strings(const Timeline& timeline, const Array<uint32_t>& numbers, const char* what) {
  const uint32_t count = timeline.strings();
  const uint32_t* values = numbers.data();
  bool wrong = false;  // without a branch per value this takes an eighth of the time
  for (py::ssize_t i = 0; i < numbers.size(); i++) wrong |= values[i] >= count;
  if (wrong) throw py::value_error(std::string(what) + ": not the number of a string");
}

// An argument from Python: (name, kind, values, present or None).
using PyArgument = std::tuple<uint32_t, std::string, py::array, std::optional<Array<bool>>>;

using PyFlows = std::optional<std::pair<Array<uint32_t>, Array<uint64_t>>>;

// Columns as the encoder takes them, checked; converted ones live as long as this.
struct Batch {
  Slices slices;
  std::vector<py::object> keep;
};

Batch checked(const Timeline& timeline, const Array<uint64_t>& start, const Array<uint64_t>& end, const Array<uint32_t>& name,
              const Array<uint32_t>& category, const PyFlows& flows, const std::vector<PyArgument>& arguments,
              const std::optional<Array<bool>>& instant) {
  Batch batch;
  Slices& s = batch.slices;
  s.count = static_cast<size_t>(start.size());
  s.start = column(start, s.count, "start");
  s.end = column(end, s.count, "end");
  s.name = column(name, s.count, "name");
  s.category = column(category, s.count, "category");
  check_strings(timeline, name, "name");
  check_strings(timeline, category, "category");
  bool early = false, reversed = false;
  for (size_t i = 0; i < s.count; i++) {
    early |= s.start[i] < timeline.origin();
    reversed |= s.end[i] < s.start[i];
  }
  if (early) throw py::value_error("start: before the origin");
  if (reversed) throw py::value_error("end: before its start");
  if (instant) s.instant = column(*instant, s.count, "instant");
  if (flows) {
    s.flow_offsets = column(flows->first, s.count + 1, "flow offsets");
    bool descends = false;
    for (size_t i = 0; i < s.count; i++) descends |= s.flow_offsets[i] > s.flow_offsets[i + 1];
    if (descends) throw py::value_error("flow offsets: not ascending");
    if (s.flow_offsets[s.count] > static_cast<size_t>(flows->second.size())) throw py::value_error("flow offsets: beyond the flows");
    s.flows = flows->second.data();
  }
  for (const auto& [number, kind, values, present] : arguments) {
    if (number >= timeline.strings()) throw py::value_error("argument: not the number of a string");
    Argument a{};
    a.name = number;
    auto convert = [&](auto example, Argument::Kind as) {
      auto array = Array<decltype(example)>::ensure(values);
      if (!array) throw py::error_already_set();
      a.kind = as;
      a.values = column<decltype(example)>(array, s.count, "argument");
      batch.keep.push_back(array);
    };
    if (kind == "uint") convert(uint64_t{}, Argument::Kind::kUnsigned);
    else if (kind == "int") convert(int64_t{}, Argument::Kind::kSigned);
    else if (kind == "float") convert(double{}, Argument::Kind::kDouble);
    else if (kind == "pointer") convert(uint64_t{}, Argument::Kind::kPointer);
    else if (kind == "text") {
      convert(uint32_t{}, Argument::Kind::kText);
      check_strings(timeline, py::cast<Array<uint32_t>>(batch.keep.back()), "argument");
    } else throw py::value_error("argument: unknown kind " + kind);
    if (present) a.present = column(*present, s.count, "argument");
    s.arguments.push_back(a);
  }
  return batch;
}

Counter::Unit unit_of(const std::string& unit) {
  if (unit == "count") return Counter::Unit::kCount;
  return unit == "bytes" ? Counter::Unit::kBytes : Counter::Unit::kOther;
}

template <typename T>
void add_values(Counter& counter, const Timeline& timeline, const Array<uint64_t>& times, const Array<T>& values) {
  const auto count = static_cast<size_t>(times.size());
  const uint64_t* t = column(times, count, "times");
  const T* v = column(values, count, "values");
  for (size_t i = 0; i < count; i++)
    if (t[i] < timeline.origin() || (i && t[i] < t[i - 1])) throw py::value_error("times: before the origin, or not ascending");
  py::gil_scoped_release release;
  counter.add(count, t, v);
}

struct PyCounter {
  Timeline& timeline;
  Counter counter;
};

struct PySamples {
  Timeline& timeline;
  StackSamples samples;
};

void add_samples(PySamples& self, const Array<uint64_t>& times, const Array<uint32_t>& threads, const Array<uint32_t>& stacks,
                 const Array<uint64_t>& cpu) {
  const auto count = static_cast<size_t>(times.size());
  const uint64_t* t = column(times, count, "times");
  const uint32_t* of = column(threads, count, "threads");
  const uint32_t* numbers = column(stacks, count, "stacks");
  const uint64_t* ns = column(cpu, count, "cpu");
  for (size_t i = 0; i < count; i++) {
    if (t[i] < self.timeline.origin() || (i && t[i] < t[i - 1])) throw py::value_error("times: before the origin, or not ascending");
    if (numbers[i] > self.samples.stacks()) throw py::value_error("stacks: not the number of a stack");
  }
  py::gil_scoped_release release;
  self.samples.add(count, t, of, numbers, ns);
}

// Lanes that know their timeline, for the checks.
struct PyLanes {
  Timeline& timeline;
  Lanes lanes;
};

}  // namespace

void bind_timeline(py::module_ &m) {
  py::register_local_exception_translator([](std::exception_ptr thrown) {
    try {
      if (thrown) std::rethrow_exception(thrown);
    } catch (const std::system_error& error) {
      py::object value = py::reinterpret_steal<py::object>(
          PyObject_CallFunction(PyExc_OSError, "is", error.code().value(), error.code().message().c_str()));
      if (value) PyErr_SetObject(reinterpret_cast<PyObject*>(Py_TYPE(value.ptr())), value.ptr());
    }
  });
  py::class_<PyLanes>(m, "Lanes", "One track as people see it; what overlaps goes to further lanes.")
      .def(
          "add",
          [](PyLanes& self, const Array<uint64_t>& start, const Array<uint64_t>& end, const Array<uint32_t>& name,
             const Array<uint32_t>& category, const PyFlows& flows, const std::vector<PyArgument>& arguments,
             const std::optional<Array<bool>>& instant) {
            Batch batch = checked(self.timeline, start, end, name, category, flows, arguments, instant);
            py::gil_scoped_release release;
            self.lanes.add(batch.slices, 0, batch.slices.count);
          },
          py::arg("start"), py::arg("end"), py::arg("name"), py::arg("category"), py::arg("flows") = py::none(),
          py::arg("arguments") = std::vector<PyArgument>{}, py::arg("instant") = py::none())
      .def("finish", [](PyLanes& self) { self.lanes.finish(); })
      .def_property_readonly("count", [](const PyLanes& self) { return self.lanes.count(); });

  py::class_<PyCounter>(m, "Counter", "A track of values over time.")
      .def("add", [](PyCounter& self, const Array<uint64_t>& times, const py::array& values) {
        if (values.dtype().kind() == 'f') add_values<double>(self.counter, self.timeline, times, values);
        else add_values<int64_t>(self.counter, self.timeline, times, values);
      });

  py::class_<PySamples>(m, "StackSamples", "Stacks of the threads of a process at moments.")
      .def(
          "frame",
          [](PySamples& self, const std::string& function, const std::string& module, const std::string& file, uint32_t line) {
            return self.samples.frame(function, module, file, line);
          },
          py::arg("function"), py::arg("module"), py::arg("file"), py::arg("line"))
      .def("stack", [](PySamples& self, const std::vector<uint32_t>& frames) { return self.samples.stack(frames); })
      .def("add", add_samples)
      .def("finish", [](PySamples& self) { self.samples.finish(); });

  py::class_<Timeline>(m, "Timeline", "Writes a Perfetto trace.")
      .def(py::init<const std::string&, uint64_t, uint64_t, bool>(), py::arg("path"), py::arg("origin"), py::arg("realtime"),
           py::arg("gzip") = false)
      .def("string", &Timeline::string)
      .def("machine", &Timeline::machine)
      .def("process", &Timeline::process, py::arg("uuid"), py::arg("pid"), py::arg("name"), py::arg("cmdline"), py::arg("labels"))
      .def("thread", &Timeline::thread, py::arg("uuid"), py::arg("pid"), py::arg("tid"), py::arg("name"))
      .def("group", &Timeline::group, py::arg("uuid"), py::arg("parent"), py::arg("name"), py::arg("order"))
      .def(
          "lanes",
          [](Timeline& self, uint64_t uuid, uint64_t parent, std::string name, int32_t order, bool nested, bool announced) {
            return std::unique_ptr<PyLanes>(
                new PyLanes{self, Lanes(self, uuid, parent, std::move(name), order, nested, announced)});
          },
          py::arg("uuid"), py::arg("parent"), py::arg("name"), py::arg("order"), py::arg("nested"), py::arg("announced") = false,
          py::keep_alive<0, 1>())
      .def(
          "counter",
          [](Timeline& self, uint64_t uuid, uint64_t parent, const std::string& name, int32_t order, const std::string& unit) {
            return std::unique_ptr<PyCounter>(
                new PyCounter{self, Counter(self, uuid, parent, name, order, unit_of(unit), unit)});
          },
          py::arg("uuid"), py::arg("parent"), py::arg("name"), py::arg("order"), py::arg("unit"), py::keep_alive<0, 1>())
      .def(
          "add",
          [](Timeline& self, const std::vector<PyLanes*>& lanes, const Array<uint64_t>& bounds, const Array<uint64_t>& start,
             const Array<uint64_t>& end, const Array<uint32_t>& name, const Array<uint32_t>& category, const PyFlows& flows,
             const std::vector<PyArgument>& arguments, const std::optional<Array<bool>>& instant) {
            Batch batch = checked(self, start, end, name, category, flows, arguments, instant);
            const uint64_t* bound = column(bounds, lanes.size() + 1, "bounds");
            for (size_t i = 0; i < lanes.size(); i++) {
              if (!lanes[i] || &lanes[i]->timeline != &self) throw py::value_error("lanes: not of this timeline");
              if (bound[i] > bound[i + 1]) throw py::value_error("bounds: not ascending");
            }
            if (bound[lanes.size()] > batch.slices.count) throw py::value_error("bounds: beyond the slices");
            py::gil_scoped_release release;
            for (size_t i = 0; i < lanes.size(); i++) lanes[i]->lanes.add(batch.slices, bound[i], bound[i + 1]);
          },
          py::arg("lanes"), py::arg("bounds"), py::arg("start"), py::arg("end"), py::arg("name"), py::arg("category"),
          py::arg("flows") = py::none(), py::arg("arguments") = std::vector<PyArgument>{}, py::arg("instant") = py::none())
      .def(
          "samples", [](Timeline& self, int32_t pid) { return std::unique_ptr<PySamples>(new PySamples{self, StackSamples(self, pid)}); },
          py::arg("pid"), py::keep_alive<0, 1>())
      .def("close", &Timeline::close)
      .def_property_readonly("bytes", &Timeline::bytes)
      .def_property_readonly("slices", &Timeline::slices)
      .def_property_readonly("counter_values", &Timeline::counter_values);
}

}  // namespace occatrace::python
