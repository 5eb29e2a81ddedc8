// Which calls launched which device work, for the arrows of a timeline: a byte per call for how many pieces of work it launched, and
// bits for what is known of it.
#pragma once

#include <bitset>
#include <cstdint>
#include <unordered_map>
#include <vector>

#include "paged.h"

namespace occatrace {

constexpr uint32_t kNoNumber = UINT32_MAX;  // of a call: none

// A number per (group, call's number), small for most.
class Counts {
 public:
  void add(uint64_t group, uint32_t number);
  uint32_t get(uint64_t group, uint32_t number) const;
  uint32_t take(uint64_t group, uint32_t number);  // one less from now on; the result is what is left

 private:
  static constexpr uint32_t kBits = 12;
  static constexpr uint8_t kMany = UINT8_MAX;  // the number is in `many`
  struct Page {
    uint8_t counts[1u << kBits] = {};
    std::unordered_map<uint32_t, uint32_t> many;
  };
  Paged<Page, kBits> pages_;
};

// Whether something holds of a (group, call's number).
class Marks {
 public:
  void set(uint64_t group, uint32_t number);
  bool has(uint64_t group, uint32_t number) const;
  bool empty() const { return pages_.empty(); }

 private:
  static constexpr uint32_t kBits = 15;
  using Page = std::bitset<1u << kBits>;
  Paged<Page, kBits> pages_;
};

// First all work is added, then calls are tied, then work: an arrow has an id of its own, and never one end only.
class Flows {
 public:
  // Device work in the part (file) `part` of a timeline: launched by call `seq` of `thread`, within the OCCA kernel call
  // `run_seq` or kNoNumber. What is not `wanted` gets no arrow, but its launch has the same correlation.
  void add(uint32_t part, uint32_t thread, uint32_t seq, uint32_t run_seq, bool wanted);
  // The ids of the arrows that begin at a call, appended to `ids`; from now on the call is there.
  void call(uint32_t part, uint32_t thread, uint32_t seq, std::vector<uint64_t> &ids);
  // The ids of the arrows that end at a piece of work.
  void work(uint32_t part, uint32_t thread, uint32_t seq, uint32_t run_seq, std::vector<uint64_t> &ids);
  // What a call and its work have in common, at least 1; 0 where no work is known.
  uint64_t correlation(uint32_t thread, uint32_t seq);
  bool empty() const { return correlated_.empty(); }

 private:
  uint64_t place(uint32_t thread, uint32_t seq);
  uint64_t &first_of(uint32_t thread) {
    if (!last_first_ || thread != last_thread_) {
      last_thread_ = thread;
      last_first_ = &first_[thread];
    }
    return *last_first_;
  }
  static uint64_t group(uint32_t part, uint32_t thread) { return uint64_t(part) << 32 | thread; }

  Counts launches_, runs_;
  Marks correlated_, there_;
  std::unordered_map<uint32_t, uint64_t> first_;  // of each thread: highest number, later the first place
  uint32_t last_thread_ = 0;
  uint64_t *last_first_ = nullptr;
  bool placed_ = false;
  uint64_t places_ = 0;
};

}  // namespace occatrace
