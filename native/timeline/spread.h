// Sums over windows of time of one length, of what is spread evenly over intervals.
#pragma once

#include <cstddef>
#include <cstdint>

namespace occatrace {

struct Windows {
  uint64_t first, last, width;  // ns
  double *sums;                 // of each window
  double *steps;                // by how much the sums of this and all further ones are more
};

// Intervals with an amount each; null: their length, where they do not overlap one before. `until`: when the last one ends.
// What lies outside of the windows does not count. The sums are added up in an order that depends on the intervals only.
void spread(const Windows &windows, size_t count, const uint64_t *start, const uint64_t *end, const double *amount, uint64_t &until);

}  // namespace occatrace
