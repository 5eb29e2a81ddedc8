// Sorting of rows that are a few sorted streams one after the other, or nearly so.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace occatrace {

// The rows of a batch by key, start, end (descending) and number; empty: they are so already.
std::vector<int64_t> order(size_t count, const uint64_t *key, const uint64_t *start, const uint64_t *end, const uint64_t *number);

// Sorts numbers whose lowest `of_row` bits say which row it is; of two that differ in these only, any may be the first. `other`:
// as much room. Where the runs of what is sorted already are few, they are merged: what is read is a few streams per thread.
void sort_starts(uint64_t *first, size_t count, uint64_t *other, int of_row);

}  // namespace occatrace
