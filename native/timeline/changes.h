// How many of something there are over time, from when each comes and goes, in any order. Only counts of rows are kept in memory:
// what a batch adds is sorted and put on disk, and the batches are merged when they are read.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <unordered_map>
#include <vector>

namespace occatrace {

class Changes {
 public:
  // Of one owner in one part (file) of a timeline.
  struct Series {
    uint32_t part;
    uint64_t owner;
    uint64_t first = UINT64_MAX;  // the earliest time
    uint64_t rows = 0;
    int64_t change = 0;  // by how many there are more in the end
  };

  // `path`: a file that is made, and gone when this is.
  explicit Changes(const std::string &path);
  ~Changes();
  Changes(const Changes &) = delete;
  Changes &operator=(const Changes &) = delete;

  // `step` more of each row's owner at its time, which is below 2^63. `part`: null: 0.
  void add(size_t count, const uint32_t *part, const uint64_t *owner, const uint64_t *time, int step);
  // In the order of their first rows.
  const std::vector<Series> &series() const { return series_; }
  // Reading of a series begins, with `total` of them before.
  void read(size_t number, int64_t total);
  // What follows, at most `most` values: of each moment the last. Fewer: it ends there.
  size_t next(size_t most, uint64_t *times, int64_t *values);

 private:
  static constexpr size_t kBuffer = 1 << 13;  // times of a run that are in memory
  struct Run {  // sorted times of one series and batch
    size_t at;  // in the file, in times
    size_t rows;
    uint64_t first;
    int step;
  };
  struct Cursor {
    Run left;  // what has not been read from the file
    std::vector<uint64_t> times;
    size_t place = 0;
  };
  struct Recent {
    uint64_t owner;
    uint32_t part;
    bool there;
    size_t number;
  };
  static constexpr size_t kRecent = 64;  // devices take turns
  size_t number(uint32_t part, uint64_t owner);
  bool fill(Cursor &cursor);

  int file_;
  size_t written_ = 0;
  std::vector<Series> series_;
  std::vector<std::vector<Run>> runs_;  // of each series
  std::unordered_map<uint64_t, std::unordered_map<uint32_t, size_t>> numbers_;  // by owner and part
  Recent recent_[kRecent] = {};
  std::vector<Run> coming_;  // of the series that is read: those that begin last are first
  std::vector<Cursor> open_;
  int64_t total_ = 0;
};

}  // namespace occatrace
