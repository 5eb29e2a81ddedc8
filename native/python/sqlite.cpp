// occatrace._native.SqliteNumbers: columns of whole numbers out of an SQLite file, by the system's libsqlite3.
#include "bindings.h"

#include <pybind11/numpy.h>
#include <pybind11/stl.h>

#include <dlfcn.h>

#include <stdexcept>
#include <string>
#include <vector>

namespace py = pybind11;

namespace occatrace::python {

namespace {

// Of SQLite's C interface, which is stable: https://www.sqlite.org/c3ref/intro.html
struct Library {
    int (*open)(const char *, void **, int, const char *) = nullptr;
    int (*close)(void *) = nullptr;
    int (*exec)(void *, const char *, void *, void *, void *) = nullptr;
    int (*prepare)(void *, const char *, int, void **, void *) = nullptr;
    int (*step)(void *) = nullptr;
    int (*finalize)(void *) = nullptr;
    int (*column_count)(void *) = nullptr;
    int (*column_type)(void *, int) = nullptr;
    long long (*column_int64)(void *, int) = nullptr;
    const char *(*errmsg)(void *) = nullptr;
    bool complete = false;

    Library() {
        void *const file = dlopen("libsqlite3.so.0", RTLD_NOW | RTLD_LOCAL);
        complete = file != nullptr;
        get(file, "sqlite3_open_v2", open);
        get(file, "sqlite3_close_v2", close);
        get(file, "sqlite3_exec", exec);
        get(file, "sqlite3_prepare_v2", prepare);
        get(file, "sqlite3_step", step);
        get(file, "sqlite3_finalize", finalize);
        get(file, "sqlite3_column_count", column_count);
        get(file, "sqlite3_column_type", column_type);
        get(file, "sqlite3_column_int64", column_int64);
        get(file, "sqlite3_errmsg", errmsg);
    }

  private:
    template <typename Function> void get(void *file, const char *name, Function &function) {
        if (file != nullptr) function = reinterpret_cast<Function>(dlsym(file, name));
        complete = complete && function != nullptr;
    }
};

const Library &library() {
    static const Library loaded;
    return loaded;
}

constexpr int row_there = 100, all_done = 101;   // SQLITE_ROW, SQLITE_DONE
constexpr int integer_type = 1;                  // SQLITE_INTEGER
constexpr int open_flags = 0x1 | 0x40 | 0x8000;  // READONLY, URI, NOMUTEX: one thread at a time

class SqliteNumbers {
  public:
    SqliteNumbers(const std::string &uri, const std::vector<std::string> &settings, const std::string &query, size_t rows)
        : rows_(rows) {
        if (!library().complete) throw std::runtime_error("no libsqlite3.so.0");
        const py::gil_scoped_release release;
        if (library().open(uri.c_str(), &database_, open_flags, nullptr) != 0) fail();
        for (const std::string &setting : settings) {
            if (library().exec(database_, setting.c_str(), nullptr, nullptr, nullptr) != 0) fail();
        }
        if (library().prepare(database_, query.c_str(), -1, &statement_, nullptr) != 0) fail();
        columns_ = static_cast<size_t>(library().column_count(statement_));
    }
    ~SqliteNumbers() { close(); }
    SqliteNumbers(const SqliteNumbers &) = delete;
    SqliteNumbers &operator=(const SqliteNumbers &) = delete;

    // The next rows, an array per column.
    py::list next() {
        std::vector<py::array_t<int64_t>> arrays;
        std::vector<int64_t *> places;
        if (statement_ == nullptr) throw py::stop_iteration();
        for (size_t i = 0; i < columns_; i++) {
            arrays.emplace_back(static_cast<py::ssize_t>(rows_));
            places.push_back(arrays.back().mutable_data());
        }
        size_t count = 0;
        {
            const py::gil_scoped_release release;
            count = fill(places);
        }
        if (count == 0) throw py::stop_iteration();
        py::list result;
        for (py::array_t<int64_t> &array : arrays) {
            if (count < rows_) array.resize({static_cast<py::ssize_t>(count)}, false);
            result.append(std::move(array));
        }
        return result;
    }

    void close() {
        if (statement_ != nullptr) library().finalize(statement_);
        if (database_ != nullptr) library().close(database_);
        statement_ = database_ = nullptr;
    }

  private:
    size_t fill(const std::vector<int64_t *> &places) {
        const Library &sqlite = library();
        const int columns = static_cast<int>(columns_);
        for (size_t count = 0; count < rows_; count++) {
            const int state = sqlite.step(statement_);
            if (state == all_done) {
                close();
                return count;
            }
            if (state != row_there) fail();
            for (int i = 0; i < columns; i++) {
                if (sqlite.column_type(statement_, i) != integer_type) throw std::domain_error("not a whole number");
                places[static_cast<size_t>(i)][count] = sqlite.column_int64(statement_, i);
            }
        }
        return rows_;
    }

    [[noreturn]] void fail() {
        const std::string text = database_ != nullptr ? library().errmsg(database_) : "out of memory";
        close();
        throw std::runtime_error(text);
    }

    size_t rows_;
    size_t columns_ = 0;
    void *database_ = nullptr;
    void *statement_ = nullptr;
};

} // namespace

void bind_sqlite(py::module_ &module) {
    module.def("has_sqlite", [] { return library().complete; });
    py::class_<SqliteNumbers>(module, "SqliteNumbers")
        .def(py::init<const std::string &, const std::vector<std::string> &, const std::string &, size_t>(), py::arg("uri"),
             py::arg("settings"), py::arg("query"), py::arg("rows"))
        .def("__iter__", [](py::object self) { return self; })
        .def("__next__", &SqliteNumbers::next)
        .def("close", &SqliteNumbers::close);
}

} // namespace occatrace::python
