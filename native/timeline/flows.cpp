#include "flows.h"

#include <algorithm>

namespace occatrace {

uint8_t *Counts::find(uint64_t group, uint32_t number, Group **where) const {
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
  Group *where = nullptr;
  uint8_t *count = find(group, number, &where);
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
  Group *where = nullptr;
  const uint8_t *count = find(group, number, &where);
  if (!count) return 0;
  return *count == kMany ? where->many[number] : *count;
}

uint32_t Counts::take(uint64_t group, uint32_t number) {
  Group *where = nullptr;
  uint8_t *count = find(group, number, &where);
  if (!count || !*count) return 0;
  if (*count != kMany) return --*count;
  const uint32_t left = --where->many[number];
  if (left == kMany - 1) {
    where->many.erase(number);
    *count = static_cast<uint8_t>(left);
  }
  return left;
}

Marks::Pages *Marks::find(uint64_t group) const {
  if (!last_pages_ || last_ != group) {
    const auto found = groups_.find(group);
    if (found == groups_.end()) return nullptr;
    last_ = group;
    last_pages_ = &found->second;
  }
  return last_pages_;
}

void Marks::set(uint64_t group, uint32_t number) {
  if (!find(group)) groups_[group];
  Pages &pages = *find(group);
  const size_t page = number >> kBits;
  if (page >= pages.size()) pages.resize(page + 1);
  if (!pages[page]) pages[page] = std::make_unique<Page>();
  const uint32_t at = number & ((1u << kBits) - 1);
  pages[page]->words[at >> 6] |= uint64_t{1} << (at & 63);
}

bool Marks::has(uint64_t group, uint32_t number) const {
  const Pages *pages = find(group);
  const size_t page = number >> kBits;
  if (!pages || page >= pages->size() || !(*pages)[page]) return false;
  const uint32_t at = number & ((1u << kBits) - 1);
  return (*pages)[page]->words[at >> 6] >> (at & 63) & 1;
}

void Flows::add(uint32_t part, uint32_t thread, uint32_t seq, uint32_t run_seq, bool wanted) {
  uint64_t &highest = first_of(thread);
  for (uint32_t number : {seq, run_seq})
    if (number != kNoNumber) highest = std::max<uint64_t>(highest, number);
  if (seq != kNoNumber) correlated_.set(thread, seq);
  if (!wanted) return;
  if (seq != kNoNumber) launches_.add(group(part, thread), seq);
  if (run_seq != kNoNumber && run_seq != seq) runs_.add(group(part, thread), run_seq);
}

uint64_t Flows::place(uint32_t thread, uint32_t seq) {
  if (!placed_) {
    placed_ = true;
    std::vector<uint32_t> threads;
    for (const auto &each : first_) threads.push_back(each.first);
    std::sort(threads.begin(), threads.end());
    for (uint32_t each : threads) {
      const uint64_t count = first_[each] + 1;
      first_[each] = places_;
      places_ += count;
    }
  }
  return first_of(thread) + seq;
}

uint64_t Flows::correlation(uint32_t thread, uint32_t seq) {
  return seq != kNoNumber && correlated_.has(thread, seq) ? place(thread, seq) + 1 : 0;
}

// An id: which call, whether as a launch or as a kernel call of OCCA, and how many arrows of that call come after it.
void Flows::call(uint32_t part, uint32_t thread, uint32_t seq, std::vector<uint64_t> &ids) {
  if (seq == kNoNumber) return;
  const uint64_t where = group(part, thread);
  const uint32_t launched = launches_.get(where, seq), run = runs_.get(where, seq);
  if (!launched && !run) return;
  const uint64_t id = 2 * place(thread, seq) + 2;
  there_.set(where, seq);
  for (uint32_t k = 0; k < launched; k++) ids.push_back(id + 2 * places_ * k);
  for (uint32_t k = 0; k < run; k++) ids.push_back(id + 1 + 2 * places_ * k);
}

void Flows::work(uint32_t part, uint32_t thread, uint32_t seq, uint32_t run_seq, std::vector<uint64_t> &ids) {
  const uint64_t where = group(part, thread);
  if (seq != kNoNumber && there_.has(where, seq))
    ids.push_back(2 * place(thread, seq) + 2 + 2 * places_ * launches_.take(where, seq));
  if (run_seq != kNoNumber && run_seq != seq && there_.has(where, run_seq))
    ids.push_back(2 * place(thread, run_seq) + 3 + 2 * places_ * runs_.take(where, run_seq));
}

}  // namespace occatrace
