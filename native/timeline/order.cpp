#include "order.h"

#include <algorithm>
#include <unordered_map>
#include <utility>

namespace occatrace {

namespace {

int bits(uint64_t value) {
  int n = 0;
  for (; value; value >>= 1) n++;
  return n;
}

// Each key as its rank among all; how many there are.
size_t ranks(size_t count, const uint64_t *key, std::vector<uint32_t> &rank) {
  rank.resize(count);
  const auto [low, high] = std::minmax_element(key, key + count);
  const uint64_t span = *high - *low;
  if (span <= 2 * count) {  // numbers of threads are dense: a table of all of them
    const uint64_t first = *low;
    std::vector<uint32_t> table(span + 1);
    for (size_t i = 0; i < count; i++) table[key[i] - first] = 1;
    uint32_t keys = 0;
    for (auto &each : table) keys += std::exchange(each, keys);
    for (size_t i = 0; i < count; i++) rank[i] = table[key[i] - first];
    return keys;
  }
  std::unordered_map<uint64_t, uint32_t> known;
  std::vector<uint64_t> keys;
  for (size_t i = 0; i < count; i++) {
    if (i && key[i] == key[i - 1]) {
      rank[i] = rank[i - 1];
      continue;
    }
    auto [found, fresh] = known.emplace(key[i], static_cast<uint32_t>(keys.size()));
    if (fresh) keys.push_back(key[i]);
    rank[i] = found->second;
  }
  std::vector<uint32_t> sorted(keys.size()), to(keys.size());
  for (uint32_t i = 0; i < keys.size(); i++) sorted[i] = i;
  std::sort(sorted.begin(), sorted.end(), [&](uint32_t a, uint32_t b) { return keys[a] < keys[b]; });
  for (uint32_t i = 0; i < keys.size(); i++) to[sorted[i]] = i;
  for (auto &each : rank) each = to[each];
  return keys.size();
}

}  // namespace

void sort_starts(uint64_t *first, size_t count, uint64_t *other, int of_row) {
  constexpr size_t kRuns = 16, kFew = 64;
  size_t runs[kRuns + 1] = {0}, found = 0;
  for (size_t i = 1; i < count && found < kRuns; i++)
    if (first[i] < first[i - 1]) runs[++found] = i;
  if (!found) return;
  if (count <= kFew) {
    std::sort(first, first + count);
    return;
  }
  if (found < kRuns) {
    runs[++found] = count;
    uint64_t *from = first, *to = other;
    while (found > 1) {
      size_t left = 0;
      for (size_t run = 0; run < found; run += 2) {
        const uint64_t *a = from + runs[run], *middle = from + runs[run + 1];
        const uint64_t *b = middle, *end = run + 2 <= found ? from + runs[run + 2] : middle;
        uint64_t *out = to + runs[run];
        while (a < middle && b < end) {  // without a branch: which is less is anybody's guess
          const bool second = *b < *a;
          *out++ = second ? *b : *a;
          b += second;
          a += !second;
        }
        out = std::copy(a, middle, out);
        std::copy(b, end, out);
        runs[left++] = runs[run];
      }
      runs[left] = count;
      found = left;
      std::swap(from, to);
    }
    if (from != first) std::copy(from, from + count, first);
    return;
  }
  constexpr int kDigit = 11;
  const auto [low, high] = std::minmax_element(first, first + count);
  const uint64_t least = *low >> of_row << of_row;
  const int all = bits(*high - least);
  uint64_t *from = first, *to = other;
  for (int shift = of_row; shift < all; shift += kDigit) {
    uint32_t places[1 << kDigit] = {};
    for (size_t i = 0; i < count; i++) places[(from[i] - least) >> shift & ((1 << kDigit) - 1)]++;
    uint32_t at = 0;
    for (auto &place : places) at += std::exchange(place, at);
    for (size_t i = 0; i < count; i++) to[places[(from[i] - least) >> shift & ((1 << kDigit) - 1)]++] = from[i];
    std::swap(from, to);
  }
  if (from != first) std::copy(from, from + count, first);
}

std::vector<int64_t> order(size_t count, const uint64_t *key, const uint64_t *start, const uint64_t *end, const uint64_t *number) {
  auto inner = [&](size_t a, size_t b) {  // of two that begin together on one track
    if (end[a] != end[b]) return end[a] > end[b];
    return number[a] < number[b];
  };
  bool sorted = true;
  for (size_t i = 1; i < count && sorted; i++) {
    if (key[i] != key[i - 1]) sorted = key[i - 1] < key[i];
    else if (start[i] != start[i - 1]) sorted = start[i - 1] < start[i];
    else sorted = !inner(i, i - 1);
  }
  std::vector<int64_t> rows;
  if (sorted) return rows;
  std::vector<uint32_t> rank;
  const size_t keys = ranks(count, key, rank);
  std::vector<size_t> places(keys + 1);
  for (uint32_t each : rank) places[each + 1]++;
  for (size_t k = 0; k < keys; k++) places[k + 1] += places[k];
  const auto [low, high] = std::minmax_element(start, start + count);
  const int of_row = bits(count - 1);
  rows.resize(count);
  if (of_row + bits(*high - *low) <= 64) {
    // Rows key by key, of each its start and itself in one number; then the row alone.
    auto *const packed = reinterpret_cast<uint64_t *>(rows.data());
    std::vector<size_t> next(places.begin(), places.end() - 1);
    for (size_t i = 0; i < count; i++) packed[next[rank[i]]++] = (start[i] - *low) << of_row | i;
    size_t most = 0;
    for (size_t k = 0; k < keys; k++) most = std::max(most, places[k + 1] - places[k]);
    std::vector<uint64_t> other(most);
    const uint64_t mask = (uint64_t(1) << of_row) - 1;
    for (size_t k = 0; k < keys; k++) {
      uint64_t *const first = packed + places[k];
      const size_t rows_of_key = places[k + 1] - places[k];
      sort_starts(first, rows_of_key, other.data(), of_row);
      for (size_t i = 0, j; i < rows_of_key; i = j) {
        const uint64_t begin = first[i] >> of_row;
        for (j = i + 1; j < rows_of_key && first[j] >> of_row == begin;) j++;
        if (j - i > 1) std::stable_sort(first + i, first + j, [&](uint64_t x, uint64_t y) { return inner(x & mask, y & mask); });
      }
      for (size_t i = 0; i < rows_of_key; i++) first[i] &= mask;
    }
    return rows;
  }
  for (size_t i = 0; i < count; i++) rows[i] = static_cast<int64_t>(i);
  std::sort(rows.begin(), rows.end(), [&](int64_t a, int64_t b) {
    if (rank[a] != rank[b]) return rank[a] < rank[b];
    if (start[a] != start[b]) return start[a] < start[b];
    if (end[a] != end[b] || number[a] != number[b]) return inner(a, b);
    return a < b;
  });
  return rows;
}

}  // namespace occatrace
