// The device engine: see engine.h. Commands are collected under a queue's lock and let go of outside of it, because
// letting go may run callbacks of the program that enqueue again.
#include "engine.h"

#include <time.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <map>
#include <new>
#include <string>

#include "made_once.h"

namespace occatrace::device {

namespace {

constexpr size_t kFirstRing = 64;
constexpr size_t kBatch = 64;
// A queue is harvested on the way of an enqueue when so many commands wait.
constexpr uint64_t kHarvestAt = 256;
constexpr uint32_t kGentle = 8;
constexpr uint64_t kGentleAge = 5'000'000;
// Stamps are this coarse at best (oclgrind keeps them in doubles: 256 ns): moving one so little says nothing.
constexpr uint64_t kNoise = 1'000;
// At exit: how long to wait for work that is being done, and for how long nothing may seem to be done between two commands.
constexpr uint64_t kLastWait = 1'000'000'000;
constexpr uint64_t kLastPause = 5'000'000;

}  // namespace

void Work::consists_of(std::vector<Part> of) {
  bytes = 0;
  for (const Part &part : of) bytes += part.bytes;
  if (of.empty()) return;
  kind = of.front().kind;
  parts = new std::vector<Part>(std::move(of));
}

namespace {

// Of the copies of one command only the time of all is known.
void record(struct occatrace_activity &activity, const std::vector<Part> *parts) {
  if (parts == nullptr) {
    ::occatrace_activity(&activity);
    return;
  }
  const uint64_t begin = activity.start;
  const auto length = static_cast<double>(activity.end - begin);
  const auto whole = static_cast<double>(std::max<uint64_t>(activity.bytes, 1));
  uint64_t copied = 0;
  for (const Part &part : *parts) {
    activity.kind = part.kind;
    activity.bytes = part.bytes;
    copied += part.bytes;
    activity.end = begin + static_cast<uint64_t>(length * (static_cast<double>(copied) / whole));
    ::occatrace_activity(&activity);
    activity.start = activity.end;
  }
  delete parts;
}

}  // namespace

Queue::Queue(const Vendor &functions, Device &on, const void *number, const void *of, uint32_t flags)
    : vendor(functions),
      device(on),
      handle(number),
      context(of),
      id(occatrace_queue(on.id, reinterpret_cast<uint64_t>(number), flags, reinterpret_cast<uint64_t>(of))),
      flags_(flags),
      try_at_(kHarvestAt),
      harvested_at_(occatrace_now()) {}

void Queue::ask_profiling(bool asked) {
  if (asked) {
    flags_.fetch_or(kProfilingAsked, std::memory_order_relaxed);
  } else {
    flags_.fetch_and(~kProfilingAsked, std::memory_order_relaxed);
  }
}

void Queue::grow() {
  std::vector<Work> larger(ring_.empty() ? kFirstRing : 2 * ring_.size());
  for (uint64_t at = head_; at != tail_; ++at) larger[at & (larger.size() - 1)] = ring_[at & (ring_.size() - 1)];
  ring_.swap(larger);
}

void Queue::push(const Work &work) {
  bool due = false;
  {
    std::lock_guard<std::mutex> guard(mutex_);
    if (tail_ - head_ == ring_.size()) grow();
    ring_[tail_ & (ring_.size() - 1)] = work;
    ++tail_;
    pending_.store(static_cast<uint32_t>(tail_ - head_), std::memory_order_relaxed);
    if (tail_ >= try_at_) {
      due = true;
      // Twice as far when nothing completes: looking at all that wait must not become the work.
      try_at_ = tail_ + std::max(kHarvestAt, tail_ - head_);
    }
  }
  Engine &engine = Engine::instance();
  if (!engine.busy()) engine.busy_.store(true);
  if (due) harvest();
}

// Under the queue's lock.
size_t Queue::collect(Work *done, Times *times, int32_t *status, size_t room) {
  const size_t mask = ring_.size() - 1;
  const bool in_order = (flags_.load(std::memory_order_relaxed) & kOutOfOrder) == 0;
  size_t count = 0;
  bool working = false;
  uint64_t keep = head_;
  uint64_t at = head_;
  for (; at != tail_ && count < room; ++at) {
    const Work &work = ring_[at & mask];
    const int32_t state = vendor.poll(work.event, &times[count]);
    if (state <= 0) {
      done[count] = work;
      status[count++] = state;
      continue;
    }
    working = working || state == kWorking;
    if (in_order) break;
    if (keep != at) ring_[keep & mask] = work;
    ++keep;
  }
  working_.store(working, std::memory_order_relaxed);
  if (in_order) {
    head_ = at;
  } else {
    // What is pending was moved to the front: move it up, over what is done.
    const uint64_t gap = at - keep;
    for (uint64_t back = keep; gap != 0 && back-- > head_;) ring_[(back + gap) & mask] = ring_[back & mask];
    head_ += gap;
  }
  pending_.store(static_cast<uint32_t>(tail_ - head_), std::memory_order_relaxed);
  return count;
}

// Threads that enqueue to one queue at the same time may hand in their commands in another order than the device got them.
void Queue::sort(Work *done, Times *times, int32_t *status, size_t count) {
  for (size_t next = 1; next < count; ++next) {
    for (size_t at = next; at > 0 && times[at].end != 0 && times[at].end < times[at - 1].end; --at) {
      std::swap(done[at], done[at - 1]);
      std::swap(times[at], times[at - 1]);
      std::swap(status[at], status[at - 1]);
    }
  }
}

// Commands of one harvest, on the host's clock. How long one took is the device's own count and known better than when it
// was: what the clock's brackets leave open moves commands as a whole, and none of a queue in order before the end of
// another.
void Queue::place(const Work *done, const Times *times, const int32_t *status, size_t count,
                  struct occatrace_activity *activities) {
  const bool in_order = (flags_.load(std::memory_order_relaxed) & kOutOfOrder) == 0;
  const uint64_t seen = occatrace_now();
  Clock &clock = device.clock_;
  for (size_t at = 0; at < count; ++at) {
    if (done[at].after != 0) clock.bracket(times[at].queued, done[at].before, done[at].after);
  }
  clock.refresh();
  const uint64_t noise = std::max(kNoise, clock.uncertainty());
  uint64_t lengths[kBatch];
  uint64_t latest[kBatch];
  uint64_t unsure[kBatch];
  // When each would be by the clock alone.
  for (size_t at = 0; at < count; ++at) {
    const Work &work = done[at];
    struct occatrace_activity &a = activities[at];
    a = {};
    a.kind = work.kind;
    a.status = status[at];
    a.corr_tid = work.tid;
    a.corr_seq = work.seq;
    a.run_seq = work.run_seq;
    a.queue = id;
    a.name = work.name;
    std::copy(work.grid, work.grid + 3, a.grid);
    std::copy(work.block, work.block + 3, a.block);
    a.bytes = work.bytes;
    uint64_t stamps[] = {times[at].queued, times[at].submitted, times[at].start, times[at].end};
    device.stamped_ |= stamps[3] != 0;
    if (in_order && stamps[3] != 0) {
      // What a command waited for the one before it is not its own time.
      if (stamps[2] < ended_stamp_ && ended_stamp_ <= stamps[3]) stamps[2] = ended_stamp_;
      ended_stamp_ = stamps[3];
    }
    uint64_t *const placed[] = {&a.queued, &a.submitted, &a.start, &a.end};
    uint64_t earliest = work.before;
    uint64_t moved = 0;
    for (size_t step = 0; step < 4; ++step) {
      // A command that failed may have no stamps: it then takes no time, where the one before it was.
      const uint64_t host = stamps[step] == 0 ? earliest : clock.to_host(stamps[step]);
      const uint64_t inside = std::min(std::max(host, earliest), seen);
      moved = std::max(moved, inside > host ? inside - host : host - inside);
      *placed[step] = earliest = inside;
    }
    lengths[at] = a.end - a.start;
    unsure[at] = noise;
    if (stamps[2] != 0 && stamps[3] > stamps[2]) {
      const uint64_t by_clock = clock.to_host(stamps[3]) - clock.to_host(stamps[2]);
      // Readings of then may have been worse than those of now.
      unsure[at] = std::max({noise, clock.uncertainty(stamps[2]), clock.uncertainty(stamps[3])});
      const uint64_t least = by_clock - std::min(unsure[at], by_clock);
      const uint64_t length = std::clamp(stamps[3] - stamps[2], least, by_clock + unsure[at]);
      lengths[at] = std::min(length, seen - std::min(a.submitted, seen));
    }
    if (moved > noise) {
      ++device.clamped_;
      device.worst_ = std::max(device.worst_, moved);
    }
  }
  // When each has to begin at the latest, for all to have ended when that was seen.
  uint64_t until = seen;
  for (size_t at = count; at-- > 0;) {
    latest[at] = until - std::min(lengths[at], until);
    if (in_order) until = latest[at];
  }
  // Of a device that has no clock the host knows when work was launched, and when it was seen complete. How long each took of those
  // that were seen at once nobody knows: in order, each has an equal part.
  const auto is_timed_by_host = [&](size_t at) {
    return vendor.may_lack_clock && !device.stamped_ && status[at] >= 0 && done[at].kind != OCCATRACE_MARKER && done[at].kind != OCCATRACE_OTHER;
  };
  for (size_t at = 0; at < count; ++at) {
    struct occatrace_activity &a = activities[at];
    if (is_timed_by_host(at)) {
      uint64_t together = 1;
      while (in_order && at + together < count && is_timed_by_host(at + together)) ++together;
      a.start = std::min(in_order ? std::max(a.submitted, ended_) : a.submitted, seen);
      a.end = a.start + (seen - a.start) / together;
      ended_ = std::max(ended_, a.end);
      ++device.clamped_;  // by nothing: the worst stays 0, as no stamp was moved
      continue;
    }
    const uint64_t by_clock = a.start;
    const uint64_t earliest = in_order ? std::max(a.submitted, ended_) : a.submitted;
    a.start = std::max(std::min(by_clock, latest[at]), earliest);
    // One that was recorded too late pushes those behind it, until the queue has a pause.
    ended_unsure_ = a.start > by_clock ? std::max(unsure[at], ended_unsure_) : unsure[at];
    a.end = std::max(a.start, std::min(a.start + lengths[at], seen + (in_order ? ended_unsure_ : 0)));
    ended_ = std::max(ended_, a.end);
  }
}

void Queue::harvest(bool gently) {
  const uint32_t pending = pending_.load(std::memory_order_relaxed);
  if (pending == 0) return;
  const uint64_t now = occatrace_now();
  if (gently && pending < kGentle && now - harvested_at_.load(std::memory_order_relaxed) < kGentleAge) return;
  harvested_at_.store(now, std::memory_order_relaxed);
  Work done[kBatch];
  Times times[kBatch];
  int32_t status[kBatch];
  struct occatrace_activity activities[kBatch];
  for (;;) {
    size_t count = 0;
    {
      // Both locks: what is collected first is placed first, whichever thread harvests.
      std::unique_lock<std::mutex> collecting(mutex_);
      count = collect(done, times, status, kBatch);
      if (count != 0) {
        std::lock_guard<std::mutex> placing(device.mutex_);
        collecting.unlock();
        if ((flags_.load(std::memory_order_relaxed) & kOutOfOrder) == 0) sort(done, times, status, count);
        place(done, times, status, count, activities);
      }
    }
    for (size_t at = 0; at < count; ++at) record(activities[at], done[at].parts);
    for (size_t at = 0; at < count; ++at) vendor.release(done[at].event);
    if (count < kBatch) return;
  }
}

unsigned Queue::holds(const void *event) {
  std::lock_guard<std::mutex> guard(mutex_);
  unsigned found = 0;
  for (uint64_t at = head_; at != tail_; ++at) found += ring_[at & (ring_.size() - 1)].event == event ? 1 : 0;
  return found;
}

Engine &Engine::instance() {
  static std::atomic<Engine *> engine;
  return made_once(engine, [] { return new Engine; });
}

Device &Engine::add_device(const char *api, const void *handle, const DeviceNames &names) {
  std::lock_guard<std::mutex> guard(mutex_);
  if (const uint64_t known = devices_.get(handle)) return *reinterpret_cast<Device *>(known);
  const uint32_t id =
      occatrace_device(occatrace_intern(api), occatrace_intern(names.platform.c_str()),
                       occatrace_intern(names.name.c_str()), occatrace_intern(names.vendor.c_str()),
                       reinterpret_cast<uint64_t>(handle));
  auto *device = new Device(id, names.name);
  all_devices_.push_back(device);
  devices_.set(handle, reinterpret_cast<uint64_t>(device));
  return *device;
}

Queue &Engine::add_queue(const Vendor &vendor, Device &device, const void *handle, const void *context,
                         uint32_t flags) {
  // The address of a queue that is gone is handed out again; its record, if it is still there, is done with.
  if (Queue *before = queue(handle)) retire(*before);
  auto *queue = new Queue(vendor, device, handle, context, flags);
  queue->wanted = occatrace_choosing == 0 || occatrace_choose_queue(device.id, device.name.c_str(), queue->id) != 0;
  {
    std::lock_guard<std::mutex> guard(mutex_);
    live_.push_back(queue);
  }
  queues_.set(handle, reinterpret_cast<uint64_t>(queue));
  occatrace_want_harvest();
  return *queue;
}

void Engine::calibrate(Device &device, uint64_t stamp, uint64_t before, uint64_t after) {
  std::lock_guard<std::mutex> guard(device.mutex_);
  device.clock_.bracket(stamp, before, after);
}

void Engine::retire(Queue &queue) { queue.retired_.store(true); }

std::vector<Queue *> Engine::snapshot() {
  std::lock_guard<std::mutex> guard(mutex_);
  const auto gone = [](Queue *queue) {
    if (!queue->retired_ || queue->pending_.load(std::memory_order_relaxed) != 0) return false;
    // The record itself stays, small: a thread of the program may still be looking at it.
    std::lock_guard<std::mutex> inner(queue->mutex_);
    if (queue->tail_ != queue->head_) return false;
    std::vector<Work>().swap(queue->ring_);
    return true;
  };
  live_.erase(std::remove_if(live_.begin(), live_.end(), gone), live_.end());
  return live_;
}

void Engine::harvest_all() {
  if (closed() || !busy_.exchange(false)) return;
  bool left = false;
  for (Queue *queue : snapshot()) {
    queue->harvest();
    left = left || queue->pending_.load(std::memory_order_relaxed) != 0;
  }
  if (left) busy_.store(true);
}

void Engine::harvest_context(const void *context) {
  if (closed()) return;
  for (Queue *queue : snapshot()) {
    if (queue->context == context) queue->harvest();
  }
}

void Engine::record_clocks(bool last) {
  std::vector<Device *> devices;
  {
    std::lock_guard<std::mutex> guard(mutex_);
    devices = all_devices_;
  }
  for (Device *device : devices) {
    Clock::Point point;
    bool due = false;
    uint64_t clamped = 0;
    uint64_t worst = 0;
    {
      std::lock_guard<std::mutex> guard(device->mutex_);
      device->clock_.refresh();
      due = device->clock_.take_point(&point, last);
      if (device->clamped_ != device->reported_) {
        clamped = device->reported_ = device->clamped_;
        worst = device->worst_;
      }
    }
    if (due) occatrace_clock(device->id, point.host(), point.device, point.uncertainty);
    if (clamped != 0) occatrace_clock_warning(device->id, clamped, worst);
  }
}

void Engine::collect(bool last) {
  const Vendor *told = nullptr;
  for (const Queue *queue : snapshot()) {
    if (queue->vendor.collect == nullptr || &queue->vendor == told) continue;
    told = &queue->vendor;
    told->collect(last);
  }
}

void Engine::take_all(bool final) {
  if (final || busy()) collect(final);
  if (final) busy_.store(true);
  harvest_all();
  record_clocks(final);
}

void Engine::harvest(bool final) {
  if (!closed()) take_all(final);
  if (final) tell_unfinished();
}

void Engine::tell_unfinished() {
  std::map<const Device *, uint64_t> left;
  for (const Queue *queue : snapshot()) {
    if (const uint32_t pending = queue->pending_.load(std::memory_order_relaxed)) left[&queue->device] += pending;
  }
  for (const auto &[device, commands] : left) {
    occatrace_intern(("unfinished device work " + std::to_string(commands) + " " + device->name).c_str());
  }
}

void Engine::close() {
  if (closed()) return;
  const uint64_t begin = occatrace_now();
  for (uint64_t now = begin, worked = begin; now - begin < kLastWait && now - worked < kLastPause;) {
    busy_.store(true);
    collect(false);
    harvest_all();
    if (!busy()) break;
    now = occatrace_now();
    for (const Queue *queue : snapshot()) {
      if (queue->working_.load(std::memory_order_relaxed)) worked = now;
    }
    const timespec moment{0, 500'000};
    nanosleep(&moment, nullptr);
  }
  take_all(true);
  closed_.store(true);
}

void Engine::be_first_at_exit() {
  std::atexit([] { instance().close(); });
}

// The child has none of the parent's threads, and its commands are the parent's to report.
void Engine::after_fork_child() {
  new (&mutex_) std::mutex;
  devices_.unlock_after_fork();
  queues_.unlock_after_fork();
  for (Device *device : all_devices_) new (&device->mutex_) std::mutex;
  for (Queue *queue : live_) {
    new (&queue->mutex_) std::mutex;
    queue->head_ = queue->tail_;
    queue->pending_.store(0);
  }
  busy_.store(false);
}

}  // namespace occatrace::device
