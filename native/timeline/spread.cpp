#include "spread.h"

#include <algorithm>
#include <vector>

namespace occatrace {
namespace {

struct Long {  // runs over the end of a window
  uint64_t left, right;
  double first, last, whole;
};

}  // namespace

void spread(const Windows &windows, size_t count, const uint64_t *start, const uint64_t *end, const double *amount, uint64_t &until) {
  const uint64_t first = windows.first, width = windows.width;
  if (amount)
    for (size_t i = 0; i < count; i++)
      if (end[i] <= start[i] && start[i] >= first && start[i] <= windows.last) windows.sums[(start[i] - first) / width] += amount[i];
  std::vector<Long> more;
  for (size_t i = 0; i < count; i++) {
    uint64_t begin = start[i];
    if (!amount) {
      begin = std::max(begin, until);
      until = std::max(until, end[i]);
    }
    // The amount per ns is that of the whole interval, of which a part may lie outside.
    const double density = amount ? amount[i] / static_cast<double>(end[i] > begin ? end[i] - begin : 1) : 1.0;
    const uint64_t from = std::max(begin, first), to = std::min(end[i], windows.last);
    if (to <= from) continue;
    const uint64_t s = from - first, e = to - first, left = s / width, right = (e - 1) / width;
    if (left == right) {
      windows.sums[left] += static_cast<double>(e - s) * density;
    } else {
      more.push_back({left, right, static_cast<double>((left + 1) * width - s) * density,
                      static_cast<double>(e - right * width) * density, static_cast<double>(width) * density});
    }
  }
  for (const Long &each : more) windows.sums[each.left] += each.first;
  for (const Long &each : more) windows.sums[each.right] += each.last;
  for (const Long &each : more) windows.steps[each.left + 1] += each.whole;
  for (const Long &each : more) windows.steps[each.right] -= each.whole;
}

}  // namespace occatrace
