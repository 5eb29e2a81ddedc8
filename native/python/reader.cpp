// occatrace._native.Reader: the batches of native/columns as numpy arrays over the same memory.
#include "bindings.h"

#include "../columns/reader.h"

#include <pybind11/numpy.h>
#include <pybind11/stl.h>
#include <pybind11/stl/filesystem.h>

#include <cstdlib>
#include <filesystem>
#include <optional>

namespace py = pybind11;

namespace occatrace::python {

namespace {

using columns::Batch;
using columns::Column;
using columns::Field;
using columns::Kind;

constexpr unsigned signal_interval_ms = 100;

py::dtype dtype_of(Kind kind) {
    static const char *const codes[] = {"u1", "u2", "u4", "u8", "i1", "i2", "i4", "i8", "f4", "f8", "u4"};
    return py::dtype::from_args(py::str(codes[static_cast<size_t>(kind)]));
}

// Names, paths and messages for people: always text, what is not UTF-8 as \\xNN.
py::str shown(const std::string &text) {
    PyObject *decoded = PyUnicode_DecodeUTF8(text.data(), static_cast<Py_ssize_t>(text.size()), "backslashreplace");
    if (decoded == nullptr) throw py::error_already_set();
    return py::reinterpret_steal<py::str>(decoded);
}

// The array keeps the whole batch alive.
py::array over(const std::shared_ptr<Batch> &batch, const py::dtype &type, const uint8_t *data, size_t count) {
    const py::capsule owner(new std::shared_ptr<Batch>(batch),
                            [](void *kept) { delete static_cast<std::shared_ptr<Batch> *>(kept); });
    return py::array(type, {static_cast<py::ssize_t>(count)}, {type.itemsize()}, data, owner);
}

py::dict columns_of(const std::shared_ptr<Batch> &batch) {
    py::dict arrays;
    for (size_t i = 0; i < batch->columns.size(); i++) {
        const Field &field = batch->schema->fields[i];
        const Column &column = batch->columns[i];
        if (column.sequence) {
            arrays[shown(field.name)] = over(batch, dtype_of(Kind::U32), column.offsets.data(), batch->rows + 1);
            arrays[shown(field.name + ".values")] = over(batch, dtype_of(field.kind), column.data.data(), column.values);
        } else {
            arrays[shown(field.name)] = over(batch, dtype_of(field.kind), column.data.data(), batch->rows);
        }
    }
    return arrays;
}

struct PythonBatch {
    std::shared_ptr<Batch> batch;
    py::dict columns;
};

columns::DecoderChoice decoder_choice(const std::optional<std::string> &asked) {
    const char *variable = getenv("OCCATRACE_DECODER");
    const std::string name = asked ? *asked : variable != nullptr ? variable
                                                                  : "";
    if (name.empty()) return columns::DecoderChoice::Automatic;
    if (name == "fast") return columns::DecoderChoice::Fast;
    if (name == "babeltrace2") return columns::DecoderChoice::Babeltrace;
    throw py::value_error("unknown decoder \"" + name + "\": OCCATRACE_DECODER is \"fast\" or \"babeltrace2\"");
}

class PythonReader {
  public:
    PythonReader(const std::filesystem::path &path, unsigned threads, size_t batch_rows,
                 const std::optional<std::vector<std::string>> &events, const std::optional<std::string> &decoder,
                 const std::map<std::string, std::pair<uint64_t, uint64_t>> &spans, bool raw) {
        columns::ReaderOptions options;
        options.threads = threads;
        options.batch_rows = batch_rows;
        options.decoder = decoder_choice(decoder);
        options.raw = raw;
        for (const auto &[file, span] : spans) options.spans[file] = {span.first, span.second};
        // No event at all is a wish too, and not the same as no wish.
        if (events) options.events = events->empty() ? std::vector<std::string>{""} : *events;
        const py::gil_scoped_release release;
        reader_ = std::make_unique<columns::Reader>(path.string(), options);
    }

    ~PythonReader() { close(); }

    PythonBatch next() {
        std::unique_ptr<Batch> batch;
        while (!batch) {
            {
                const py::gil_scoped_release release;
                batch = reader_->next(signal_interval_ms);
            }
            if (PyErr_CheckSignals() != 0) throw py::error_already_set();
            if (!batch && reader_->done()) {
                refresh_strings();
                throw py::stop_iteration();
            }
        }
        std::shared_ptr<Batch> shared = std::move(batch);
        refresh_strings();
        py::dict arrays = columns_of(shared);
        return {std::move(shared), std::move(arrays)};
    }

    void close() {
        const py::gil_scoped_release release;
        reader_->close();
    }

    // One list for ever: what was taken from it stays valid while it grows.
    py::list strings() {
        refresh_strings();
        return strings_;
    }

    py::dict schema() const {
        py::dict events;
        for (const auto &schema : reader_->output().schemas()) {
            py::dict fields;
            for (const Field &field : schema->fields) fields[shown(field.name)] = field.kind_name();
            events[shown(schema->event)] = fields;
        }
        return events;
    }

    py::list traces() const {
        py::list list;
        for (const columns::TraceInfo &info : reader_->traces()) {
            py::dict trace;
            trace["path"] = shown(info.path);
            trace["decoder"] = info.decoder;
            trace["declined"] = shown(info.declined);
            trace["env"] = text_map(info);
            trace["clock_offset"] = info.clock_offset;
            trace["clock_frequency"] = info.clock_frequency;
            list.append(trace);
        }
        return list;
    }

    py::dict env() const { return text_map(reader_->traces().front()); }
    int64_t clock_offset() const { return reader_->traces().front().clock_offset; }
    py::list problems() const {
        py::list list;
        for (const std::string &problem : reader_->output().problems()) list.append(shown(problem));
        return list;
    }
    std::optional<double> progress() const {
        const double fraction = reader_->progress();
        return fraction < 0 ? std::nullopt : std::optional<double>(fraction);
    }
    unsigned threads() const { return reader_->threads(); }

  private:
    static py::object text_of(std::string_view text) {
        PyObject *decoded = PyUnicode_DecodeUTF8(text.data(), static_cast<Py_ssize_t>(text.size()), nullptr);
        if (decoded != nullptr) return py::reinterpret_steal<py::object>(decoded);
        PyErr_Clear();
        return py::bytes(text.data(), text.size());
    }

    static py::dict text_map(const columns::TraceInfo &info) {
        py::dict map;
        for (const auto &entry : info.env) map[shown(entry.first)] = shown(entry.second);
        return map;
    }

    void refresh_strings() {
        fresh_.clear();
        reader_->output().strings().copy_from(strings_.size(), fresh_);
        for (const std::string_view text : fresh_) strings_.append(text_of(text));
    }

    std::unique_ptr<columns::Reader> reader_;
    py::list strings_;
    std::vector<std::string_view> fresh_;
};

} // namespace

void bind_reader(py::module_ &module) {
    static py::exception<columns::TraceError> trace_error(module, "TraceError", PyExc_RuntimeError);
    py::register_exception_translator([](std::exception_ptr pointer) {
        try {
            if (pointer) std::rethrow_exception(pointer);
        } catch (const columns::TraceError &error) {
            PyErr_SetObject(trace_error.ptr(), shown(error.what()).ptr());
        }
    });

    module.def("babeltrace_version", &columns::babeltrace_version);
    py::class_<PythonBatch>(module, "Batch")
        .def_property_readonly("event", [](const PythonBatch &self) { return shown(self.batch->schema->event); })
        .def_property_readonly("trace", [](const PythonBatch &self) { return self.batch->trace; })
        .def_property_readonly("columns", [](const PythonBatch &self) { return self.columns; })
        .def("__len__", [](const PythonBatch &self) { return self.batch->rows; });

    py::class_<PythonReader>(module, "Reader")
        .def(py::init<const std::filesystem::path &, unsigned, size_t, const std::optional<std::vector<std::string>> &,
                      const std::optional<std::string> &,
                      const std::map<std::string, std::pair<uint64_t, uint64_t>> &, bool>(),
             py::arg("path"), py::arg("threads") = 0, py::arg("batch_rows") = 1'000'000, py::arg("events") = py::none(),
             py::arg("decoder") = py::none(), py::arg("spans") = py::dict(), py::arg("raw") = false)
        .def("__iter__", [](py::object self) { return self; })
        .def("__next__", &PythonReader::next)
        .def("__enter__", [](py::object self) { return self; })
        .def("__exit__", [](PythonReader &self, const py::args &) { self.close(); })
        .def("close", &PythonReader::close)
        .def_property_readonly("strings", &PythonReader::strings)
        .def_property_readonly("schema", &PythonReader::schema)
        .def_property_readonly("traces", &PythonReader::traces)
        .def_property_readonly("trace_env", &PythonReader::env)
        .def_property_readonly("clock_offset", &PythonReader::clock_offset)
        .def_property_readonly("problems", &PythonReader::problems)
        .def_property_readonly("progress", &PythonReader::progress)
        .def_property_readonly("threads", &PythonReader::threads);
}

} // namespace occatrace::python
