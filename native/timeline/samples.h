// Samples of stacks in a Perfetto trace: a packet sequence for each process, each frame and each stack written once.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "timeline.h"

namespace occatrace {

class StackSamples {
 public:
  static constexpr uint32_t kNoStack = 0;

  StackSamples(Timeline &timeline, int32_t pid);
  // A frame's number. `module`: its file; `file` empty: its line is not known.
  uint32_t frame(std::string_view function, std::string_view module, std::string_view file, uint32_t line);
  // A stack's number; frames from the outermost on.
  uint32_t stack(const std::vector<uint32_t> &frames);
  // Samples in the order of their times: threads, the numbers of stacks (kNoStack: not known), and the processor time (ns) for
  // which each stands, whose sum is a counter.
  void add(size_t count, const uint64_t *times, const uint32_t *threads, const uint32_t *stacks, const uint64_t *cpu);
  // What Perfetto takes from a table of symbols: the lines.
  void finish();
  uint32_t stacks() const { return stacks_; }

 private:
  struct Symbol {
    uint64_t address;
    std::string function, file;
    uint32_t line;
  };
  uint32_t text(std::unordered_map<std::string, uint32_t> &known, uint32_t field, std::string_view text);

  Timeline &timeline_;
  uint32_t machine_;
  int32_t pid_;
  Sequence sequence_;
  Message interned_;  // what comes with the next packet
  std::unordered_map<std::string, uint32_t> functions_, paths_, files_, mappings_;
  std::unordered_map<std::string, std::vector<Symbol>> symbols_;  // by module
  uint32_t frames_ = 0, stacks_ = 0;
  uint64_t cpu_ = 0;
};

}  // namespace occatrace
