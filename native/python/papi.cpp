// occatrace._native.papi_refused: which counters of --papi this machine cannot count, and why.
#include "bindings.h"

#include "../intercept/papi/papi_library.h"

#include <pybind11/stl.h>

#include <string>
#include <utility>
#include <vector>

namespace py = pybind11;

namespace occatrace::python {

namespace {

using Refused = std::vector<std::pair<std::string, std::string>>;

Refused refused(const std::string &events) {
    Refused out;
    const papi_refused note = [](void *data, const char *name, const char *why) {
        static_cast<Refused *>(data)->emplace_back(name, why);
    };
    papi_counters counters;
    papi_split(events.c_str(), &counters, note, &out);
    papi_library papi;
    if (const char *why = papi_open(&papi)) return {{"", why}};
    const int set = papi_make_set(&papi, &counters, note, &out);
    if (set < 0) return {{"", papi.strerror(set)}};
    papi_drop_set(&papi, set);
    return out;
}

} // namespace

void bind_papi(py::module_ &module) {
    module.def("papi_refused", &refused, py::arg("events"),
               "Of a list of events with commas: those that cannot be counted here and why; ('', why): none of them.");
}

} // namespace occatrace::python
