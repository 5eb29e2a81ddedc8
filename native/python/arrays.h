// numpy arrays as the parts of occatrace._native take them.
#pragma once

#include <pybind11/numpy.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace occatrace::python {

// One after the other in memory; other types are converted.
template <typename T> using Array = pybind11::array_t<T, pybind11::array::c_style | pybind11::array::forcecast>;

// The values of a column that has to have so many rows.
template <typename T> const T *column(const Array<T> &array, size_t rows, const char *name) {
    if (array.ndim() != 1 || static_cast<size_t>(array.size()) != rows)
        throw pybind11::value_error(std::string(name) + ": not as long as the other columns");
    return array.data();
}

// Threads are numbers of ours, so they are small; a negative one would be a write out of bounds.
inline const int32_t *threads_of(const Array<int32_t> &thread) {
    const int32_t *values = thread.data();
    for (pybind11::ssize_t i = 0; i < thread.size(); i++)
        if (values[i] < 0) throw pybind11::value_error("thread: negative");
    return values;
}

// The values as an array that owns them, without a copy.
template <typename T> Array<T> given(std::vector<T> &&values) {
    auto kept = std::make_unique<std::vector<T>>(std::move(values));
    const auto count = static_cast<pybind11::ssize_t>(kept->size());
    const T *data = kept->data();
    pybind11::capsule owner(kept.get(), [](void *of) { delete static_cast<std::vector<T> *>(of); });
    kept.release();
    return Array<T>(count, data, owner);
}

} // namespace occatrace::python
