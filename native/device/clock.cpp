// Calibration of device clocks. See clock.h for the idea.
#include "clock.h"

#include <algorithm>

namespace occatrace::device {

namespace {

constexpr clockid_t kHostClocks[] = {CLOCK_MONOTONIC, CLOCK_MONOTONIC_RAW, CLOCK_REALTIME, CLOCK_BOOTTIME};

// How far a stamp may lie outside of its bracket when it is compared with a host clock read some time later: the clocks
// of one host drift against each other by up to 500 ppm while they are slewed.
constexpr int64_t kTolerance = 20'000;
constexpr uint64_t kSegment = 100'000'000;
constexpr uint64_t kSpacing = 5'000'000;
constexpr uint64_t kRecordEvery = 1'000'000'000;

int64_t distance(int64_t value, int64_t low, int64_t high) {
  return value < low ? low - value : value > high ? value - high
                                                  : 0;
}

}  // namespace

uint64_t read_clock(clockid_t clock) {
  timespec now{};
  clock_gettime(clock, &now);
  return static_cast<uint64_t>(now.tv_sec) * 1'000'000'000u + static_cast<uint64_t>(now.tv_nsec);
}

Clock::Clock() {
  for (size_t at = 0; at < kCandidates; ++at) base_[at] = read_pair(kHostClocks[at]);
}

// Host and other clock at the same moment: the best of three, for the thread may lose its core between the readings.
Clock::Pair Clock::read_pair(clockid_t clock) {
  Pair best;
  best.uncertainty = UINT64_MAX;
  for (int attempt = 0; attempt < 3; ++attempt) {
    const uint64_t before = read_clock(CLOCK_MONOTONIC);
    const uint64_t there = read_clock(clock);
    const uint64_t after = read_clock(CLOCK_MONOTONIC);
    const uint64_t half = (after - before) / 2;
    if (half < best.uncertainty) {
      best = {static_cast<int64_t>(before + half - there), before + half, half};
    }
  }
  if (clock == CLOCK_MONOTONIC) best = {0, best.host, 0};
  return best;
}

void Clock::identify(uint64_t device, uint64_t before, uint64_t after) {
  const bool first_time = !identified_;
  identified_ = true;
  host_clock_ = -1;
  count_ = 0;
  int64_t best = kTolerance;
  const int64_t low = static_cast<int64_t>(before - device);
  const int64_t high = static_cast<int64_t>(after - device);
  for (size_t at = 0; at < kCandidates; ++at) {
    const Pair pair = read_pair(kHostClocks[at]);
    const int64_t off = distance(pair.offset, low, high);
    if (off < best) {
      best = off;
      host_clock_ = kHostClocks[at];
      const Pair &base = base_[at];
      count_ = 0;
      if (first_time) add_point({base.host - static_cast<uint64_t>(base.offset), base.offset, base.uncertainty});
      add_point({pair.host - static_cast<uint64_t>(pair.offset), pair.offset, pair.uncertainty});
    }
  }
}

void Clock::bracket(uint64_t device, uint64_t before, uint64_t after) {
  if (device == 0 || after < before) return;
  if (!identified_) identify(device, before, after);
  const int64_t low = static_cast<int64_t>(before - device);
  const int64_t high = static_cast<int64_t>(after - device);
  if (host_clock_ >= 0) {
    const int64_t off = distance(static_cast<int64_t>(to_host(device) - device), low, high);
    doubts_ = off > kTolerance ? doubts_ + 1 : 0;
    // A single stamp may be odd (a clock that was set); three in a row are another clock.
    if (doubts_ < 3) return;
    doubts_ = 0;
    identify(device, before, after);
    if (host_clock_ >= 0) return;
  }
  if (segment_open_ && (std::max(low, low_) > std::min(high, high_) || device - first_ > kSegment)) close_segment();
  if (!segment_open_) {
    segment_open_ = true;
    low_ = low;
    high_ = high;
    first_ = latest_ = device;
    return;
  }
  low_ = std::max(low, low_);
  high_ = std::min(high, high_);
  latest_ = std::max(device, latest_);
}

Clock::Point Clock::open_segment() const {
  const auto width = static_cast<uint64_t>(high_ - low_);
  return {first_ + (latest_ - first_) / 2, low_ + static_cast<int64_t>(width / 2), width / 2};
}

void Clock::close_segment() {
  add_point(open_segment());
  segment_open_ = false;
}

void Clock::add_point(const Point &point) {
  if (count_ > 0 && point.device <= points_[count_ - 1].device) return;
  if (count_ == kPoints) {
    // Thin out the older half: long commands need old points, but not many of them.
    size_t kept = 0;
    for (size_t at = 0; at < kPoints; ++at) {
      if (at >= kPoints / 2 || at % 2 == 0) points_[kept++] = points_[at];
    }
    count_ = kept;
  }
  points_[count_++] = point;
}

void Clock::refresh() {
  if (host_clock_ < 0) return;
  if (count_ > 0 && read_clock(CLOCK_MONOTONIC) - points_[count_ - 1].host() < kSpacing) return;
  const Pair pair = read_pair(host_clock_);
  add_point({pair.host - static_cast<uint64_t>(pair.offset), pair.offset, pair.uncertainty});
}

uint64_t Clock::to_host(uint64_t device) const {
  Point after{};
  bool has_after = false;
  if (segment_open_ && host_clock_ < 0) {
    after = open_segment();
    has_after = true;
    if (device >= after.device || count_ == 0) return device + static_cast<uint64_t>(after.offset);
  }
  for (size_t at = count_; at-- > 0;) {
    const Point &before = points_[at];
    if (device < before.device) {
      after = before;
      has_after = true;
      continue;
    }
    if (!has_after) return device + static_cast<uint64_t>(before.offset);
    const auto part = static_cast<double>(device - before.device) / static_cast<double>(after.device - before.device);
    const double offset = static_cast<double>(after.offset - before.offset) * part;
    return device + static_cast<uint64_t>(before.offset + static_cast<int64_t>(offset));
  }
  return has_after ? device + static_cast<uint64_t>(after.offset) : device;
}

uint64_t Clock::uncertainty() const {
  uint64_t sum = segment_open_ && host_clock_ < 0 ? open_segment().uncertainty : 0;
  for (size_t at = count_; at-- > 0 && at + 2 >= count_;) sum += points_[at].uncertainty;
  return sum;
}

uint64_t Clock::uncertainty(uint64_t device) const {
  uint64_t after = segment_open_ && host_clock_ < 0 ? open_segment().uncertainty : 0;
  for (size_t at = count_; at-- > 0;) {
    if (points_[at].device <= device) return points_[at].uncertainty + after;
    after = points_[at].uncertainty;
  }
  return after;
}

bool Clock::take_point(Point *point, bool last) {
  if (count_ == 0 && !segment_open_) return false;
  *point = segment_open_ && host_clock_ < 0 ? open_segment() : points_[count_ - 1];
  const uint64_t host = point->host();
  if (recorded_host_ != 0 && (host <= recorded_host_ || (!last && host - recorded_host_ < kRecordEvery))) return false;
  recorded_host_ = host;
  return true;
}

}  // namespace occatrace::device
