#include "changes.h"

#include "order.h"
#include "output.h"

#include <algorithm>
#include <cerrno>
#include <fcntl.h>
#include <unistd.h>

namespace occatrace {
namespace {

void read_all(int file, uint64_t *times, size_t count, size_t from) {
  char *data = reinterpret_cast<char *>(times);
  auto at = static_cast<off_t>(from * sizeof *times);
  for (size_t left = count * sizeof *times; left;) {
    const ssize_t n = ::pread(file, data, left, at);
    if (n < 0 && errno == EINTR) continue;
    if (n == 0) errno = EIO;
    if (n <= 0) fail("reading what changes in a timeline");
    data += n;
    at += n;
    left -= static_cast<size_t>(n);
  }
}

}  // namespace

Changes::Changes(const std::string &path) : file_(::open(path.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600)) {
  if (file_ < 0) fail(path.c_str());
  ::unlink(path.c_str());
}

Changes::~Changes() { ::close(file_); }

size_t Changes::number(uint32_t part, uint64_t owner) {
  Recent &recent = recent_[(owner ^ owner >> 32 ^ part) % kRecent];
  if (recent.there && recent.owner == owner && recent.part == part) return recent.number;
  const auto [found, fresh] = numbers_[owner].emplace(part, series_.size());
  if (fresh) {
    series_.push_back({part, owner});
    runs_.emplace_back();
  }
  recent = {owner, part, true, found->second};
  return found->second;
}

void Changes::add(size_t count, const uint32_t *part, const uint64_t *owner, const uint64_t *time, int step) {
  std::vector<uint32_t> of(count);
  for (size_t i = 0; i < count; i++) {
    const bool again = i && owner[i] == owner[i - 1] && (!part || part[i] == part[i - 1]);
    of[i] = again ? of[i - 1] : static_cast<uint32_t>(number(part ? part[i] : 0, owner[i]));
  }
  std::vector<size_t> places(series_.size() + 1);
  for (const uint32_t each : of) places[each + 1]++;
  for (size_t k = 0; k < series_.size(); k++) places[k + 1] += places[k];
  std::vector<uint64_t> times(count), other(count);
  std::vector<size_t> next(places.begin(), places.end() - 1);
  for (size_t i = 0; i < count; i++) times[next[of[i]]++] = time[i];
  for (size_t k = 0; k < series_.size(); k++) {
    const size_t rows = places[k + 1] - places[k];
    if (!rows) continue;
    uint64_t *const first = times.data() + places[k];
    sort_starts(first, rows, other.data(), 0);
    runs_[k].push_back({written_ + places[k], rows, *first, step});
    Series &series = series_[k];
    series.first = std::min(series.first, *first);
    series.rows += rows;
    series.change += step * static_cast<int64_t>(rows);
  }
  write_all(file_, reinterpret_cast<const uint8_t *>(times.data()), count * sizeof times[0], "writing what changes in a timeline");
  written_ += count;
}

void Changes::read(size_t number, int64_t total) {
  open_.clear();
  coming_ = runs_.at(number);
  std::sort(coming_.begin(), coming_.end(), [](const Run &a, const Run &b) { return a.first > b.first; });
  total_ = total;
}

// Whether there is more of a run.
bool Changes::fill(Cursor &cursor) {
  if (cursor.place < cursor.times.size()) return true;
  const size_t rows = std::min(cursor.left.rows, kBuffer);
  cursor.times.resize(rows);
  cursor.place = 0;
  read_all(file_, cursor.times.data(), rows, cursor.left.at);
  cursor.left.at += rows;
  cursor.left.rows -= rows;
  return rows > 0;
}

size_t Changes::next(size_t most, uint64_t *times, int64_t *values) {
  size_t made = 0;
  while (made < most) {
    uint64_t now = UINT64_MAX;
    for (const Cursor &each : open_) now = std::min(now, each.times[each.place]);
    // Only the runs that have begun are looked at: batches follow each other in time, so these are few.
    while (!coming_.empty() && coming_.back().first <= now) {
      now = coming_.back().first;
      open_.push_back({coming_.back(), {}, 0});
      coming_.pop_back();
      fill(open_.back());
    }
    if (open_.empty()) break;
    for (size_t i = 0; i < open_.size();) {
      Cursor &each = open_[i];
      bool more = true;
      while (more && each.times[each.place] == now) {
        total_ += each.left.step;
        each.place++;
        more = fill(each);
      }
      if (more) {
        i++;
        continue;
      }
      std::swap(each, open_.back());
      open_.pop_back();
    }
    times[made] = now;
    values[made++] = total_;
  }
  return made;
}

}  // namespace occatrace
