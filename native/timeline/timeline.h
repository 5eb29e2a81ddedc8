// Columns → a Perfetto trace: processes, threads, groups and tracks of slices with arguments and flows.
// Every track is a packet sequence of its own; what overlaps goes to sibling tracks of the same name ("lanes").
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "output.h"
#include "proto.h"

namespace occatrace {

// One argument of a batch of slices. `present` may be null: all slices have it.
struct Argument {
  enum class Kind {
    kUnsigned,
    kSigned,
    kDouble,
    kText,
    kPointer,
  };
  Kind kind;
  uint32_t name;
  const void *values;  // uint64_t, int64_t, double or uint32_t (text: a string's number)
  const bool *present;
};

// A batch of slices in the order of their starts; of two that start together, the outer one first.
struct Slices {
  size_t count = 0;
  const uint64_t *start = nullptr;  // CLOCK_MONOTONIC ns
  const uint64_t *end = nullptr;
  const uint32_t *name = nullptr;            // a string's number
  const uint32_t *category = nullptr;        // a string's number
  const bool *instant = nullptr;             // moments: they end when they start; null: none is
  const uint32_t *flow_offsets = nullptr;    // count + 1, or null
  const uint64_t *flows = nullptr;           // ids that tie slices together
  std::vector<Argument> arguments;
};

class Timeline {
 public:
  // Times are given by one clock, at least `origin`; `realtime` is CLOCK_REALTIME at that moment.
  Timeline(const std::string &path, uint64_t origin, uint64_t realtime, bool gzip);
  Timeline(const Timeline &) = delete;
  Timeline &operator=(const Timeline &) = delete;

  uint32_t string(std::string_view text);
  // Packets that follow belong to this machine; 0 is the one of a trace with no other. Small numbers make small packets.
  void machine(uint32_t id) { machine_ = id; }

  void process(uint64_t uuid, int32_t pid, std::string_view name, const std::vector<std::string> &cmdline,
               const std::vector<std::string> &labels);
  void thread(uint64_t uuid, int32_t pid, int64_t tid, std::string_view name);
  // `order` among the siblings; children of a group stand in their own order.
  void group(uint64_t uuid, uint64_t parent, std::string_view name, int32_t order);
  void track(uint64_t uuid, uint64_t parent, std::string_view name, int32_t order);
  void close();
  uint64_t bytes() const { return written_ + buffer_.size(); }  // before compression
  uint64_t slices() const { return slices_; }
  uint64_t counter_values() const { return values_; }
  uint64_t origin() const { return origin_; }
  uint32_t strings() const { return static_cast<uint32_t>(strings_.size()); }

 private:
  friend class Counter;
  friend class Lanes;
  friend class Lane;
  friend class Sequence;
  friend class StackSamples;
  uint8_t *room(size_t bytes) {
    if (buffer_.size() > kFlush) flush();
    return buffer_.room(bytes);
  }
  size_t open_packet(uint32_t sequence);
  void close_packet(size_t begin);
  size_t open_descriptor(uint64_t uuid, uint64_t parent, std::string_view name, int32_t order);
  void flush();

  static constexpr size_t kFlush = 1 << 20;
  std::unique_ptr<Output> output_;
  uint64_t origin_, realtime_;
  uint32_t sequences_ = 1;  // the first one has the descriptors
  uint32_t machine_ = 0;
  uint64_t written_ = 0, slices_ = 0, values_ = 0;
  Message buffer_;
  std::vector<std::unique_ptr<std::string>> strings_;
  std::unordered_map<std::string_view, uint32_t> numbers_;
};

// A packet sequence of its own for one track. Each time in it counts from the one before, the first from 1970: so the
// packets are small, and sequences of the same number in files that are put together know nothing of each other.
class Sequence {
 public:
  Sequence(Timeline &timeline, uint64_t uuid);
  // `defaults` writes into the message of the sequence's defaults.
  Sequence(Timeline &timeline, const std::function<void(Message &)> &defaults);
  // The start of a packet with this time, of kHead bytes at most; its contents begin kBefore bytes after `p`.
  static constexpr size_t kHead = 6 * wire::kField, kBefore = 2;
  uint8_t *head(uint8_t *p, uint64_t time) {
    std::memcpy(p, head_, sizeof head_);
    const uint64_t now = time - origin_ + realtime_;
    p = wire::varint(p + head_bytes_, now - last_);
    last_ = now;
    return p;
  }
  // A packet with this time, or without one, to be closed by the timeline.
  size_t open_packet(uint64_t time);
  size_t open_packet() { return timeline_.open_packet(number_); }

 private:
  Timeline &timeline_;
  uint32_t number_;
  uint64_t last_ = 0;
  const uint64_t origin_, realtime_;
  uint8_t head_[32] = {};  // the same in all packets: up to the time's number
  size_t head_bytes_ = 0;
};

// A track of values over time.
class Counter {
 public:
  enum class Unit {
    kCount,
    kBytes,
    kOther,
  };
  Counter(Timeline &timeline, uint64_t uuid, uint64_t parent, std::string_view name, int32_t order, Unit unit,
          std::string_view unit_name);
  void add(size_t count, const uint64_t *times, const int64_t *values);
  void add(size_t count, const uint64_t *times, const double *values);

 private:
  template <typename Write>
  void add_all(size_t count, const uint64_t *times, Write write);

  Timeline &timeline_;
  uint32_t machine_;
  Sequence sequence_;
};

// One track in the file: a packet sequence whose slices are properly nested.
class Lane {
 public:
  Lane(Timeline &timeline, uint64_t uuid);
  // Whether a slice can be put here after all that was put before. Ends what ends before it.
  bool fits(uint64_t start, uint64_t end, bool nested);
  void begin(const Slices &slices, size_t row);
  void finish();

 private:
  // Texts that this sequence has named, under small numbers of its own. 0 means none.
  struct Interned {
    std::vector<uint32_t> ids;
    uint32_t last = 0;
    uint32_t of(uint32_t string) const { return ids[string]; }
    bool has(uint32_t string) const { return string < ids.size() && ids[string]; }
    bool add(uint32_t string) {
      if (string >= ids.size()) ids.resize(2 * (size_t(string) + 1));
      if (ids[string]) return false;
      ids[string] = ++last;
      return true;
    }
  };
  void end_until(uint64_t time) {
    while (!open_.empty() && open_.back() <= time) {
      end(open_.back());
      open_.pop_back();
    }
  }
  void end(uint64_t time);
  size_t unknown(const Slices &slices, size_t row) const;
  uint8_t *define(const Slices &slices, size_t row, uint8_t *p);

  Timeline &timeline_;
  Sequence sequence_;
  std::vector<uint64_t> open_;  // ends of the slices that are open, outermost first
  Interned names_, categories_, argument_names_, texts_;
};

// One track as people see it. `nested`: slices may enclose each other (calls of a thread); otherwise they exclude each
// other. What does not fit goes to the next lane.
class Lanes {
 public:
  Lanes(Timeline &timeline, uint64_t uuid, uint64_t parent, std::string name, int32_t order, bool nested, bool announced);
  // The rows from `begin` to `end` (exclusive) of a batch.
  void add(const Slices &slices, size_t begin, size_t end);
  void finish();
  size_t count() const { return lanes_.size(); }

 private:
  Lane &lane_for(uint64_t start, uint64_t end);

  Timeline &timeline_;
  uint64_t uuid_, parent_;
  std::string name_;
  int32_t order_;
  bool nested_, announced_;
  uint32_t machine_;  // of the process that the track belongs to
  uint64_t last_start_ = 0;
  std::vector<std::unique_ptr<Lane>> lanes_;
};

}  // namespace occatrace
