// numpy arrays as the parts of occatrace._native take them.
#pragma once

#include <pybind11/numpy.h>

#include <string>

namespace occatrace::python {

// One after the other in memory; other types are converted.
template <typename T> using Array = pybind11::array_t<T, pybind11::array::c_style | pybind11::array::forcecast>;

// The values of a column that has to have so many rows.
template <typename T> const T *column(const Array<T> &array, size_t rows, const char *name) {
    if (array.ndim() != 1 || static_cast<size_t>(array.size()) != rows)
        throw pybind11::value_error(std::string(name) + ": not as long as the other columns");
    return array.data();
}

} // namespace occatrace::python
