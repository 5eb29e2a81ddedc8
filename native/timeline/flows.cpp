#include "flows.h"

#include <algorithm>

namespace occatrace {

void Counts::add(uint64_t group, uint32_t number) {
  Page &page = pages_.at(group, number);
  uint8_t &count = page.counts[pages_.within(number)];
  if (count < kMany - 1) {
    ++count;
    return;
  }
  if (count == kMany - 1) {
    count = kMany;
    page.many[number] = kMany;
    return;
  }
  ++page.many[number];
}

uint32_t Counts::get(uint64_t group, uint32_t number) const {
  const Page *page = pages_.find(group, number);
  if (!page) return 0;
  const uint8_t count = page->counts[pages_.within(number)];
  return count == kMany ? page->many.at(number) : count;
}

uint32_t Counts::take(uint64_t group, uint32_t number) {
  Page *page = pages_.find(group, number);
  if (!page) return 0;
  uint8_t &count = page->counts[pages_.within(number)];
  if (!count) return 0;
  if (count != kMany) return --count;
  const uint32_t left = --page->many[number];
  if (left == kMany - 1) {
    page->many.erase(number);
    count = static_cast<uint8_t>(left);
  }
  return left;
}

void Marks::set(uint64_t group, uint32_t number) { pages_.at(group, number).set(pages_.within(number)); }

bool Marks::has(uint64_t group, uint32_t number) const {
  const Page *page = pages_.find(group, number);
  return page && page->test(pages_.within(number));
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
