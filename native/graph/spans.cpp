#include "spans.h"

#include "graph.h"

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
    const std::vector<uint32_t> order = grouped(spans.thread, spans.rows);
    std::vector<Span> own; // those of one thread
    Spans out;
    for (size_t at = 0; at < order.size();) {
        const int32_t thread = spans.thread[order[at]];
        own.clear();
        for (; at < order.size() && spans.thread[order[at]] == thread; at++)
            own.push_back({spans.start[order[at]], spans.end[order[at]], spans.label[order[at]]});
        if (!std::is_sorted(own.begin(), own.end(), before)) std::stable_sort(own.begin(), own.end(), before);
        int64_t until = std::numeric_limits<int64_t>::min();
        for (const Span &span : own) {
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
