#include "flows.h"

#include <algorithm>

namespace occatrace {

uint8_t* Counts::find(uint64_t group, uint32_t number, Group** where) const {
  if (!last_group_ || last_ != group) {
    auto found = groups_.find(group);
    if (found == groups_.end()) return nullptr;
    last_ = group;
    last_group_ = &found->second;
  }
  *where = last_group_;
  const size_t page = number >> kBits;
  if (page >= last_group_->pages.size() || !last_group_->pages[page]) return nullptr;
  return &last_group_->pages[page]->counts[number & ((1u << kBits) - 1)];
}

void Counts::add(uint64_t group, uint32_t number) {
  Group* where = nullptr;
  uint8_t* count = find(group, number, &where);
  if (!count) {
    if (!where) {
      where = last_group_ = &groups_[group];
      last_ = group;
    }
    const size_t page = number >> kBits;
    if (page >= where->pages.size()) where->pages.resize(page + 1);
    where->pages[page] = std::make_unique<Page>();
    count = &where->pages[page]->counts[number & ((1u << kBits) - 1)];
  }
  if (*count < kMany - 1) {
    ++*count;
    return;
  }
  if (*count == kMany - 1) {
    *count = kMany;
    where->many[number] = kMany;
    return;
  }
  ++where->many[number];
}

uint32_t Counts::get(uint64_t group, uint32_t number) const {
  Group* where = nullptr;
  const uint8_t* count = find(group, number, &where);
  if (!count) return 0;
  return *count == kMany ? where->many[number] : *count;
}

uint32_t Counts::take(uint64_t group, uint32_t number) {
  Group* where = nullptr;
  uint8_t* count = find(group, number, &where);
  if (!count || !*count) return 0;
  if (*count != kMany) return --*count;
  const uint32_t left = --where->many[number];
  if (left == kMany - 1) {
    where->many.erase(number);
    *count = static_cast<uint8_t>(left);
  }
  return left;
}

void Flows::add(uint32_t part, uint32_t thread, uint32_t seq, uint32_t run_seq, bool wanted) {
  uint64_t& highest = first_[thread];
  for (uint32_t number : {seq, run_seq})
    if (number != kNoNumber) highest = std::max<uint64_t>(highest, number);
  if (seq != kNoNumber && !correlated_.get(thread, seq)) correlated_.add(thread, seq);
  if (!wanted) return;
  if (seq != kNoNumber) launches_.add(group(part, thread), seq);
  if (run_seq != kNoNumber && run_seq != seq) runs_.add(group(part, thread), run_seq);
}

uint64_t Flows::place(uint32_t thread, uint32_t seq) {
  if (!placed_) {
    placed_ = true;
    std::vector<uint32_t> threads;
    for (const auto& each : first_) threads.push_back(each.first);
    std::sort(threads.begin(), threads.end());
    for (uint32_t each : threads) {
      const uint64_t count = first_[each] + 1;
      first_[each] = places_;
      places_ += count;
    }
  }
  return first_[thread] + seq;
}

uint64_t Flows::correlation(uint32_t thread, uint32_t seq) {
  return seq != kNoNumber && correlated_.get(thread, seq) ? place(thread, seq) + 1 : 0;
}

// An id: which call, whether as a launch or as a kernel call of OCCA, and how many arrows of that call come after it.
void Flows::call(uint32_t part, uint32_t thread, uint32_t seq, std::vector<uint64_t>& ids) {
  if (seq == kNoNumber) return;
  const uint64_t where = group(part, thread);
  const uint32_t launched = launches_.get(where, seq), run = runs_.get(where, seq);
  if (!launched && !run) return;
  const uint64_t id = 2 * place(thread, seq) + 2;
  there_.add(where, seq);
  for (uint32_t k = 0; k < launched; k++) ids.push_back(id + 2 * places_ * k);
  for (uint32_t k = 0; k < run; k++) ids.push_back(id + 1 + 2 * places_ * k);
}

void Flows::work(uint32_t part, uint32_t thread, uint32_t seq, uint32_t run_seq, std::vector<uint64_t>& ids) {
  const uint64_t where = group(part, thread);
  if (seq != kNoNumber && there_.get(where, seq))
    ids.push_back(2 * place(thread, seq) + 2 + 2 * places_ * launches_.take(where, seq));
  if (run_seq != kNoNumber && run_seq != seq && there_.get(where, run_seq))
    ids.push_back(2 * place(thread, run_seq) + 3 + 2 * places_ * runs_.take(where, run_seq));
}

namespace {

int bits(uint64_t value) {
  int n = 0;
  for (; value; value >>= 1) n++;
  return n;
}

// Each key as its rank among all; how many there are.
size_t ranks(size_t count, const uint64_t* key, std::vector<uint32_t>& rank) {
  rank.resize(count);
  const auto [low, high] = std::minmax_element(key, key + count);
  const uint64_t span = *high - *low;
  if (span <= 2 * count) {  // numbers of threads are dense: a table of all of them
    const uint64_t first = *low;
    std::vector<uint32_t> table(span + 1);
    for (size_t i = 0; i < count; i++) table[key[i] - first] = 1;
    uint32_t keys = 0;
    for (auto& each : table) keys += std::exchange(each, keys);
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
  for (auto& each : rank) each = to[each];
  return keys.size();
}

// Numbers of a start and a row, sorted, those of one key. `other`: as much room. Where the runs of what is sorted already are
// few, they are merged: what is read is a few streams per thread.
void sort_starts(uint64_t* first, size_t count, uint64_t* other, int of_row) {
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
        uint64_t* out = to + runs[run];
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
    for (auto& place : places) at += std::exchange(place, at);
    for (size_t i = 0; i < count; i++) to[places[(from[i] - least) >> shift & ((1 << kDigit) - 1)]++] = from[i];
    std::swap(from, to);
  }
  if (from != first) std::copy(from, from + count, first);
}

}  // namespace

std::vector<int64_t> order(size_t count, const uint64_t* key, const uint64_t* start, const uint64_t* end, const uint64_t* number) {
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
    auto* const packed = reinterpret_cast<uint64_t*>(rows.data());
    std::vector<size_t> next(places.begin(), places.end() - 1);
    for (size_t i = 0; i < count; i++) packed[next[rank[i]]++] = (start[i] - *low) << of_row | i;
    size_t most = 0;
    for (size_t k = 0; k < keys; k++) most = std::max(most, places[k + 1] - places[k]);
    std::vector<uint64_t> other(most);
    const uint64_t mask = (uint64_t(1) << of_row) - 1;
    for (size_t k = 0; k < keys; k++) {
      uint64_t* const first = packed + places[k];
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
