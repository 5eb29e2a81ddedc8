// occatrace._native.Nesting and call_lines: the calls of a window as numpy columns → lines of text.
#include "arrays.h"
#include "bindings.h"

#include <pybind11/numpy.h>
#include <pybind11/stl.h>

#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

namespace py = pybind11;

namespace occatrace::python {
namespace {

constexpr uint64_t kNever = UINT64_MAX; // end of what never returned

// What is open on each thread, from one window to the next.
class Nesting {
  public:
    std::vector<uint32_t> depths(size_t rows, const uint32_t *thread, const uint64_t *start, const uint64_t *end, const bool *nests) {
        std::vector<uint32_t> out(rows);
        for (size_t row = 0; row < rows; row++) {
            auto &open = open_[thread[row]];
            while (!open.empty() && open.back() <= start[row] && open.back() != kNever) open.pop_back();
            out[row] = static_cast<uint32_t>(open.size());
            if (nests[row]) open.push_back(end[row]);
        }
        return out;
    }

  private:
    std::unordered_map<uint32_t, std::vector<uint64_t>> open_;
};

// A number in decimal, with as many leading `pad` as make it `width` wide.
void number(std::string &out, uint64_t value, size_t width, char pad) {
    char digits[20];
    size_t at = sizeof digits;
    do digits[--at] = static_cast<char>('0' + value % 10);
    while (value /= 10);
    const size_t length = sizeof digits - at;
    if (length < width) out.append(width - length, pad);
    out.append(digits + at, length);
}

// A text as it is printed: nearly all are plain ASCII, the others go to Python.
void printed(std::string &out, py::handle text, const py::function &printable) {
    if (!PyUnicode_Check(text.ptr())) throw py::value_error("texts: not a string");
    Py_ssize_t length = 0;
    const char *bytes = PyUnicode_AsUTF8AndSize(text.ptr(), &length);
    if (!bytes) throw py::error_already_set();
    bool plain = true;
    for (Py_ssize_t i = 0; i < length && plain; i++) plain = bytes[i] >= 0x20 && bytes[i] < 0x7f;
    if (plain) out.append(bytes, static_cast<size_t>(length));
    else out += py::cast<std::string>(printable(text));
}

} // namespace

void bind_listing(py::module_ &module) {
    using Numbers = Array<uint32_t>;
    using Times = Array<uint64_t>;
    py::class_<Nesting>(module, "Nesting", "How deep calls are within others.")
        .def(py::init<>())
        .def("depths",
             [](Nesting &self, const Numbers &thread, const Times &start, const Times &end, const Array<bool> &nests) {
                 const auto rows = static_cast<size_t>(thread.size());
                 const auto out = self.depths(rows, thread.data(), column(start, rows, "start"), column(end, rows, "end"),
                                              column(nests, rows, "nests"));
                 return Numbers(static_cast<py::ssize_t>(out.size()), out.data());
             });
    module.def(
        "call_lines",
        [](const Times &at, const Times &took, const Numbers &head, const std::vector<std::string> &heads,
           const std::optional<Numbers> &depth, const py::list &texts, const std::optional<py::list> &places,
           const py::function &printable) {
            const auto rows = static_cast<size_t>(at.size());
            const uint64_t *begin = at.data(), *ns = column(took, rows, "took");
            const uint32_t *which = column(head, rows, "head"), *deep = depth ? column(*depth, rows, "depth") : nullptr;
            if (texts.size() != rows || (places && places->size() != rows)) throw py::value_error("texts: not one per row");
            std::string out;
            out.reserve(rows * 128);
            for (size_t row = 0; row < rows; row++) {
                if (which[row] >= heads.size()) throw py::value_error("head: beyond the heads");
                number(out, begin[row] / 1'000'000'000, 6, ' ');
                out += '.';
                number(out, begin[row] % 1'000'000'000, 9, '0');
                out += ' ';
                if (ns[row] == kNever) out += "          …";
                else number(out, ns[row], 11, ' ');
                out += " ns ";
                out += heads[which[row]];
                out += "  ";
                if (places) {
                    out += py::cast<std::string>((*places)[row]);
                    out += "  ";
                }
                if (deep) out.append(2 * size_t(deep[row]), ' ');
                printed(out, texts[row], printable);
                out += '\n';
            }
            return out;
        },
        py::arg("at"), py::arg("took"), py::arg("head"), py::arg("heads"), py::arg("depth"), py::arg("texts"), py::arg("places"),
        py::arg("printable"));
}

} // namespace occatrace::python
