// What this room gives to the module occatrace._native.
#pragma once

#include <pybind11/pybind11.h>

namespace occatrace {

void bind_timeline(pybind11::module_& module);

}  // namespace occatrace
