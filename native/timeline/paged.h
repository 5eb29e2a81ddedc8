// Values by group and number, in pages, as numbers of calls are dense.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <unordered_map>
#include <vector>

namespace occatrace {

// Pages are there where something was set. `Page` has the values of 1 << `kBits` numbers; `within` is a number's place there.
template <class Page, uint32_t kBits>
class Paged {
 public:
  static constexpr uint32_t kSize = 1u << kBits;
  static uint32_t within(uint32_t number) { return number & (kSize - 1); }

  Page *find(uint64_t group, uint32_t number) const {
    if (!last_pages_ || last_ != group) {
      const auto found = groups_.find(group);
      if (found == groups_.end()) return nullptr;
      last_ = group;
      last_pages_ = &found->second;
    }
    const size_t page = number >> kBits;
    return page < last_pages_->size() ? (*last_pages_)[page].get() : nullptr;
  }

  Page &at(uint64_t group, uint32_t number) {
    if (Page *known = find(group, number)) return *known;
    Pages &pages = groups_[group];
    const size_t page = number >> kBits;
    if (page >= pages.size()) pages.resize(page + 1);
    return *(pages[page] = std::make_unique<Page>());
  }

  bool empty() const { return groups_.empty(); }

 private:
  using Pages = std::vector<std::unique_ptr<Page>>;
  std::unordered_map<uint64_t, Pages> groups_;
  mutable uint64_t last_ = 0;  // calls of a group come one after the other
  mutable const Pages *last_pages_ = nullptr;
};

}  // namespace occatrace
