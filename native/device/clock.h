// Where a device's time stamps lie on the host's clock (CLOCK_MONOTONIC, ns): calibrated while the program runs, never
// assumed. Every enqueue brackets the stamp that the device gave it; a device that turns out to count one of the host's
// own clocks is then read directly, which is exact at any moment.
#pragma once

#include <time.h>

#include <cstddef>
#include <cstdint>

namespace occatrace::device {

uint64_t read_clock(clockid_t clock);

class Clock {
 public:
  struct Point {
    uint64_t device = 0;
    int64_t offset = 0;  // host minus device
    uint64_t uncertainty = 0;
    uint64_t host() const { return device + static_cast<uint64_t>(offset); }
  };

  Clock();

  // The device stamped `device` at some moment between two readings of the host's clock.
  void bracket(uint64_t device, uint64_t before, uint64_t after);

  // Call before converting a batch, so that it lies between two points; also from time to time when nothing happens.
  void refresh();

  uint64_t to_host(uint64_t device) const;

  // By how much two conversions, one earlier and one now, may contradict each other.
  uint64_t uncertainty() const;
  // And how far the conversion of this stamp may be off, by the readings on both sides of it.
  uint64_t uncertainty(uint64_t device) const;

  // The newest point, when one is due to be recorded (the first, then about one a second); `last` asks for it regardless.
  bool take_point(Point *point, bool last = false);

 private:
  static constexpr size_t kCandidates = 4;
  static constexpr size_t kPoints = 64;

  struct Pair {
    int64_t offset = 0;
    uint64_t host = 0;
    uint64_t uncertainty = 0;
  };

  static Pair read_pair(clockid_t clock);
  void identify(uint64_t device, uint64_t before, uint64_t after);
  void add_point(const Point &point);
  void close_segment();
  Point open_segment() const;

  // One of the host's clocks that the device counts, or -1.
  int host_clock_ = -1;
  bool identified_ = false;
  unsigned doubts_ = 0;
  Pair base_[kCandidates];

  Point points_[kPoints];
  size_t count_ = 0;
  uint64_t recorded_host_ = 0;

  // Brackets since the last point: their offsets lie in [low_, high_].
  bool segment_open_ = false;
  int64_t low_ = 0;
  int64_t high_ = 0;
  uint64_t first_ = 0;
  uint64_t latest_ = 0;
};

}  // namespace occatrace::device
