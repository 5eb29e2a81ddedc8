// Which kernel a call launched: its name and sizes, as numbers of texts. A byte per call, or two where there are more kernels: most
// are launched many times.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <unordered_map>
#include <vector>

#include "paged.h"

namespace occatrace {

class Launched {
 public:
  using Kernel = std::array<uint32_t, 3>; // name, grid, block
  static constexpr uint32_t kNone = UINT32_MAX;

  void add(uint32_t thread, uint32_t seq, const Kernel &kernel);
  // That of a call that launched exactly one; otherwise kNone.
  const Kernel &of(uint32_t thread, uint32_t seq) const;

 private:
  static constexpr uint32_t kBits = 12;
  static constexpr uint16_t kMany = 1, kRare = UINT16_MAX; // kRare: in `rare_`
  struct Page {
    uint8_t low[1u << kBits] = {}; // of the number of a kernel; 0: none
    std::unique_ptr<uint8_t[]> high;
    uint16_t get(size_t at) const { return static_cast<uint16_t>(low[at] | (high ? high[at] << 8 : 0)); }
    void set(size_t at, uint16_t kernel);
  };
  size_t number(const Kernel &kernel);
  static uint64_t call(uint32_t thread, uint32_t seq) { return uint64_t(thread) << 32 | seq; }

  std::vector<Kernel> kernels_ = {{kNone, kNone, kNone}, {kNone, kNone, kNone}};
  std::map<Kernel, size_t> numbers_;
  size_t last_ = 0; // the kernel that was added last
  std::unordered_map<uint64_t, size_t> rare_;
  Paged<Page, kBits> pages_; // by thread
};

} // namespace occatrace
