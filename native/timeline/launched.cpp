#include "launched.h"

namespace occatrace {

uint16_t *Launched::find(uint32_t thread, uint32_t seq) const {
  if (!last_pages_ || thread != last_thread_) {
    const auto found = threads_.find(thread);
    if (found == threads_.end()) return nullptr;
    last_thread_ = thread;
    last_pages_ = &found->second;
  }
  const size_t page = seq >> kBits;
  if (page >= last_pages_->size() || !(*last_pages_)[page]) return nullptr;
  return &(*last_pages_)[page]->kernels[seq & ((1u << kBits) - 1)];
}

size_t Launched::number(const Kernel &kernel) {
  if (last_ && kernels_[last_] == kernel) return last_;
  const auto [found, fresh] = numbers_.emplace(kernel, kernels_.size());
  if (fresh) kernels_.push_back(kernel);
  return last_ = found->second;
}

void Launched::add(uint32_t thread, uint32_t seq, const Kernel &kernel) {
  uint16_t *place = find(thread, seq);
  if (!place) {
    Pages &pages = threads_[thread];
    const size_t page = seq >> kBits;
    if (page >= pages.size()) pages.resize(page + 1);
    pages[page] = std::make_unique<Page>();
    place = find(thread, seq);
  }
  if (*place) {
    *place = kMany;
    return;
  }
  const size_t of = number(kernel);
  *place = of < kRare ? static_cast<uint16_t>(of) : kRare;
  if (of >= kRare) rare_[call(thread, seq)] = of;
}

const Launched::Kernel &Launched::of(uint32_t thread, uint32_t seq) const {
  const uint16_t *place = find(thread, seq);
  if (!place) return kernels_[0];
  return kernels_[*place == kRare ? rare_.at(call(thread, seq)) : *place];
}

} // namespace occatrace
