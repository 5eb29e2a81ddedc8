// Spans of threads that may enclose each other. What they are for: occatrace/reports/critical/labels.py.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace occatrace {

// Columns of the same length.
struct SpanColumns {
    size_t rows = 0;
    const int32_t *thread = nullptr; // not below 0
    const int64_t *start = nullptr;
    const int64_t *end = nullptr;
    const int32_t *label = nullptr;
};

struct Spans {
    std::vector<int32_t> thread;
    std::vector<int64_t> start, end;
    std::vector<int32_t> label;
};

// The spans that begin in no other span of their thread, by thread and start. Of those that begin together the longest one counts,
// of equally long ones the first row.
Spans outermost(const SpanColumns &spans);

} // namespace occatrace
