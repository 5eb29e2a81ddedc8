// Python started by pybind11's scoped_interpreter; its function is that of the file named by CALLED.
#include <pybind11/embed.h>

#include <ctime>
#include <memory>

#include "caller.h"

namespace py = pybind11;
static std::unique_ptr<py::scoped_interpreter> interpreter;
static py::object spin;

extern "C" long monotonic_ns() {
    timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * 1000000000L + t.tv_nsec;
}
extern "C" int begin_python() {
    interpreter = std::make_unique<py::scoped_interpreter>();
    py::module_::import("sys").attr("path").attr("insert")(0, FOLDER);
    spin = py::module_::import("spins").attr("spin");
    return 0;
}
extern "C" void end_python() {
    spin = py::object();
    interpreter.reset();
}
extern "C" long spin_in_python(long ns) { return spin(ns).cast<long>(); }
