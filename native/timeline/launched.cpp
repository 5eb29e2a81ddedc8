#include "launched.h"

namespace occatrace {

void Launched::Page::set(size_t at, uint16_t kernel) {
  if (kernel > UINT8_MAX && !high) high = std::make_unique<uint8_t[]>(1u << kBits);
  low[at] = static_cast<uint8_t>(kernel);
  if (high) high[at] = static_cast<uint8_t>(kernel >> 8);
}

size_t Launched::number(const Kernel &kernel) {
  if (last_ && kernels_[last_] == kernel) return last_;
  const auto [found, fresh] = numbers_.emplace(kernel, kernels_.size());
  if (fresh) kernels_.push_back(kernel);
  return last_ = found->second;
}

void Launched::add(uint32_t thread, uint32_t seq, const Kernel &kernel) {
  Page &page = pages_.at(thread, seq);
  const size_t place = pages_.within(seq);
  if (page.get(place)) {
    page.set(place, kMany);
    return;
  }
  const size_t of = number(kernel);
  page.set(place, of < kRare ? static_cast<uint16_t>(of) : kRare);
  if (of >= kRare) rare_[call(thread, seq)] = of;
}

const Launched::Kernel &Launched::of(uint32_t thread, uint32_t seq) const {
  const Page *page = pages_.find(thread, seq);
  if (!page) return kernels_[0];
  const uint16_t kernel = page->get(pages_.within(seq));
  return kernels_[kernel == kRare ? rare_.at(call(thread, seq)) : kernel];
}

} // namespace occatrace
