#include "spans.h"

#include <algorithm>
#include <limits>

namespace occatrace {

namespace {

struct Span {
    int64_t start, end;
    int32_t label;
};

bool before(const Span &a, const Span &b) { return a.start != b.start ? a.start < b.start : a.end > b.end; }

} // namespace

Spans outermost(const SpanColumns &spans) {
    int32_t last = -1;
    for (size_t row = 0; row < spans.rows; row++) last = std::max(last, spans.thread[row]);
    // Where the spans of each thread begin, then where the next one of it goes.
    std::vector<size_t> next(static_cast<size_t>(last) + 2);
    for (size_t row = 0; row < spans.rows; row++) next[static_cast<size_t>(spans.thread[row]) + 1]++;
    for (size_t thread = 1; thread < next.size(); thread++) next[thread] += next[thread - 1];
    std::vector<Span> all(spans.rows);
    for (size_t row = 0; row < spans.rows; row++)
        all[next[static_cast<size_t>(spans.thread[row])]++] = {spans.start[row], spans.end[row], spans.label[row]};
    Spans out;
    size_t begin = 0;
    for (int32_t thread = 0; thread <= last; thread++) {
        // By now this is where the spans of the thread end.
        const size_t end = next[static_cast<size_t>(thread)];
        const auto first = all.begin() + static_cast<std::ptrdiff_t>(begin), behind = all.begin() + static_cast<std::ptrdiff_t>(end);
        if (!std::is_sorted(first, behind, before)) std::stable_sort(first, behind, before);
        int64_t until = std::numeric_limits<int64_t>::min();
        for (; begin < end; begin++) {
            const Span &span = all[begin];
            if (span.start >= until) {
                out.thread.push_back(thread);
                out.start.push_back(span.start);
                out.end.push_back(span.end);
                out.label.push_back(span.label);
            }
            until = std::max(until, span.end);
        }
    }
    return out;
}

} // namespace occatrace
