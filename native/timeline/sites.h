// Where calls were made: return addresses of processes → numbers of texts.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <unordered_map>

namespace occatrace {

class Sites {
 public:
  static constexpr uint32_t kNone = UINT32_MAX;
  void add(uint32_t process, uint64_t address, uint32_t text) { texts_[{process, address}] = text; }
  // kNone: not known.
  uint32_t of(uint32_t process, uint64_t address) {
    Recent &recent = recent_[(address ^ address >> 12 ^ process) % kRecent];
    if (!recent.there || recent.key.process != process || recent.key.address != address) {
      const auto found = texts_.find({process, address});
      recent = {{process, address}, found == texts_.end() ? kNone : found->second, true};
    }
    return recent.text;
  }

 private:
  struct Key {
    uint32_t process;
    uint64_t address;
    bool operator==(const Key &other) const { return process == other.process && address == other.address; }
  };
  struct Hash {
    size_t operator()(const Key &key) const { return std::hash<uint64_t>()(key.address * 0x9e3779b97f4a7c15u ^ key.process); }
  };
  struct Recent {
    Key key;
    uint32_t text;
    bool there;
  };
  static constexpr size_t kRecent = 1024;  // a loop calls from a few places
  std::unordered_map<Key, uint32_t, Hash> texts_;
  Recent recent_[kRecent] = {};
};

}  // namespace occatrace
