#include "launched.h"

namespace occatrace {

void Launched::Page::set(size_t at, uint16_t kernel) {
  if (kernel > UINT8_MAX && !high) high = std::make_unique<uint8_t[]>(1u << kBits);
  low[at] = static_cast<uint8_t>(kernel);
  if (high) high[at] = static_cast<uint8_t>(kernel >> 8);
}

Launched::Page *Launched::find(uint32_t thread, uint32_t seq) const {
  if (!last_pages_ || thread != last_thread_) {
    const auto found = threads_.find(thread);
    if (found == threads_.end()) return nullptr;
    last_thread_ = thread;
    last_pages_ = &found->second;
  }
  const size_t page = seq >> kBits;
  return page < last_pages_->size() ? (*last_pages_)[page].get() : nullptr;
}

size_t Launched::number(const Kernel &kernel) {
  if (last_ && kernels_[last_] == kernel) return last_;
  const auto [found, fresh] = numbers_.emplace(kernel, kernels_.size());
  if (fresh) kernels_.push_back(kernel);
  return last_ = found->second;
}

void Launched::add(uint32_t thread, uint32_t seq, const Kernel &kernel) {
  Page *page = find(thread, seq);
  if (!page) {
    Pages &pages = threads_[thread];
    const size_t which = seq >> kBits;
    if (which >= pages.size()) pages.resize(which + 1);
    page = (pages[which] = std::make_unique<Page>()).get();
  }
  if (page->get(within(seq))) {
    page->set(within(seq), kMany);
    return;
  }
  const size_t of = number(kernel);
  page->set(within(seq), of < kRare ? static_cast<uint16_t>(of) : kRare);
  if (of >= kRare) rare_[call(thread, seq)] = of;
}

const Launched::Kernel &Launched::of(uint32_t thread, uint32_t seq) const {
  const Page *page = find(thread, seq);
  if (!page) return kernels_[0];
  const uint16_t kernel = page->get(within(seq));
  return kernels_[kernel == kRare ? rare_.at(call(thread, seq)) : kernel];
}

} // namespace occatrace
