// Folds columns of calls of one function into sums per thread and place that made them, one batch at a time.
#pragma once

#include "statistics.h"

namespace occatrace {

struct CallerTotals {
    int32_t thread = 0;
    uint64_t caller = 0, since = UINT64_MAX; // `since`: the first of the calls ended then
    uint64_t calls = 0, failed = 0, total = 0, bytes = 0;
};

// In the order in which they first appear; calls of no known place (0) are left out.
std::vector<CallerTotals> fold_callers(const CallColumns &batch, const uint64_t *caller);

} // namespace occatrace
