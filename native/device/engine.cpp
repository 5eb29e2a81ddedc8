// The device engine: see engine.h. Commands are collected under a queue's lock and let go of outside of it, because
// letting go may run callbacks of the program that enqueue again.
#include "engine.h"

#include <pthread.h>
#include <signal.h>
#include <time.h>

#include <algorithm>

#include "records.h"

namespace occatrace::device {

namespace {

constexpr size_t kFirstRing = 64;
constexpr size_t kBatch = 64;
// A queue is harvested on the way of an enqueue when so many commands wait.
constexpr uint64_t kHarvestAt = 256;
constexpr uint64_t kGentle = 8;
constexpr uint64_t kGentleAge = 5'000'000;
constexpr long kBackgroundPeriod = 100'000'000;

uint64_t now() { return read_clock(CLOCK_MONOTONIC); }

}  // namespace

Queue::Queue(uint32_t id, const Vendor &vendor, Device &device, const void *handle, const void *context, uint32_t flags)
    : id(id), vendor(vendor), device(device), handle(handle), context(context), flags_(flags), try_at_(kHarvestAt) {
  harvested_at_.store(now(), std::memory_order_relaxed);
}

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
      try_at_ = tail_ + kHarvestAt;
    }
  }
  if (due) harvest();
}

size_t Queue::collect(Work *done, Times *times, int32_t *status, size_t room) {
  std::lock_guard<std::mutex> guard(mutex_);
  const size_t mask = ring_.size() - 1;
  const bool in_order = (flags_.load(std::memory_order_relaxed) & kOutOfOrder) == 0;
  size_t count = 0;
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
    if (in_order) break;
    if (keep != at) ring_[keep & mask] = work;
    ++keep;
  }
  if (in_order) {
    head_ = at;
  } else {
    // Pending commands were moved to the front; close the gap behind them from the back.
    const uint64_t gap = at - keep;
    for (uint64_t back = keep; back-- > head_ && gap != 0;) ring_[(back + gap) & mask] = ring_[back & mask];
    head_ += gap;
  }
  pending_.store(static_cast<uint32_t>(tail_ - head_), std::memory_order_relaxed);
  return count;
}

void Queue::record(const Work *done, const Times *times, const int32_t *status, size_t count) {
  const uint64_t seen = now();
  Activity activities[kBatch];
  {
    std::lock_guard<std::mutex> guard(device.mutex_);
    Clock &clock = device.clock_;
    for (size_t at = 0; at < count; ++at) clock.bracket(times[at].queued, done[at].before, done[at].after);
    clock.refresh();
    for (size_t at = 0; at < count; ++at) {
      Activity &activity = activities[at];
      activity.work = &done[at];
      activity.queue = id;
      activity.status = status[at];
      uint64_t *const placed[] = {&activity.queued, &activity.submitted, &activity.start, &activity.end};
      const uint64_t stamps[] = {times[at].queued, times[at].submitted, times[at].start, times[at].end};
      uint64_t earliest = done[at].before;
      uint64_t moved = 0;
      for (size_t step = 0; step < 4; ++step) {
        // A command that failed may have no stamps: it then takes no time, where the one before it was.
        const uint64_t host = stamps[step] == 0 ? earliest : clock.to_host(stamps[step]);
        const uint64_t inside = std::min(std::max(host, earliest), seen);
        moved = std::max(moved, inside > host ? inside - host : host - inside);
        *placed[step] = earliest = inside;
      }
      if (moved != 0) {
        ++device.clamped_;
        device.worst_ = std::max(device.worst_, moved);
      }
    }
  }
  for (size_t at = 0; at < count; ++at) record_activity(activities[at]);
  for (size_t at = 0; at < count; ++at) vendor.release(done[at].event);
}

void Queue::harvest(bool gently) {
  const uint32_t pending = pending_.load(std::memory_order_relaxed);
  if (pending == 0) return;
  const uint64_t time = now();
  if (gently && pending < kGentle && time - harvested_at_.load(std::memory_order_relaxed) < kGentleAge) return;
  harvested_at_.store(time, std::memory_order_relaxed);
  Work done[kBatch];
  Times times[kBatch];
  int32_t status[kBatch];
  for (;;) {
    const size_t count = collect(done, times, status, kBatch);
    if (count != 0) record(done, times, status, count);
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
  static Engine *const engine = [] {
    auto *made = new Engine;
    pthread_atfork(nullptr, nullptr, [] { instance().forget_after_fork(); });
    return made;
  }();
  return *engine;
}

Device &Engine::add_device(const char *api, const void *handle, const DeviceNames &names) {
  std::lock_guard<std::mutex> guard(mutex_);
  if (const uint64_t known = devices_.get(handle)) return *reinterpret_cast<Device *>(known);
  auto *device = new Device(static_cast<uint32_t>(all_devices_.size() + 1), handle);
  all_devices_.push_back(device);
  record_device(*device, api, names);
  devices_.set(handle, reinterpret_cast<uint64_t>(device));
  return *device;
}

Queue &Engine::add_queue(const Vendor &vendor, Device &device, const void *handle, const void *context,
                         uint32_t flags) {
  static std::atomic<uint32_t> next_id{1};
  auto *queue = new Queue(next_id.fetch_add(1), vendor, device, handle, context, flags);
  record_queue(*queue, flags);
  {
    std::lock_guard<std::mutex> guard(mutex_);
    live_.push_back(queue);
  }
  queues_.set(handle, reinterpret_cast<uint64_t>(queue));
  start_background();
  return *queue;
}

void Engine::retire(Queue &queue) {
  queue.harvest();
  std::lock_guard<std::mutex> guard(mutex_);
  queue.retired_ = true;
}

std::vector<Queue *> Engine::snapshot() {
  std::lock_guard<std::mutex> guard(mutex_);
  const auto gone = [](Queue *queue) {
    if (!queue->retired_ || queue->pending_.load(std::memory_order_relaxed) != 0) return false;
    std::lock_guard<std::mutex> inner(queue->mutex_);
    std::vector<Work>().swap(queue->ring_);
    return true;
  };
  live_.erase(std::remove_if(live_.begin(), live_.end(), gone), live_.end());
  return live_;
}

void Engine::harvest_all() {
  for (Queue *queue : snapshot()) queue->harvest();
}

void Engine::harvest_context(const void *context) {
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
    if (due) record_clock(*device, point);
    if (clamped != 0) record_clock_warning(*device, clamped, worst);
  }
}

void Engine::finish() {
  harvest_all();
  record_clocks(true);
}

void Engine::start_background() {
  if (background_running_.exchange(true)) return;
  // The thread must not take signals that are meant for the program.
  sigset_t all;
  sigset_t before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  pthread_t thread{};
  pthread_attr_t attributes;
  pthread_attr_init(&attributes);
  pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
  if (pthread_create(&thread, &attributes, &Engine::background, this) == 0) {
    pthread_setname_np(thread, "occatrace");
  } else {
    background_running_.store(false);
  }
  pthread_attr_destroy(&attributes);
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

void *Engine::background(void *self) {
  auto *engine = static_cast<Engine *>(self);
  for (;;) {
    const timespec period{0, kBackgroundPeriod};
    nanosleep(&period, nullptr);
    engine->harvest_all();
    engine->record_clocks(false);
  }
  return nullptr;
}

// The child has none of the parent's threads, and its commands are the parent's to report.
void Engine::forget_after_fork() {
  new (&mutex_) std::mutex;
  devices_.unlock_after_fork();
  queues_.unlock_after_fork();
  for (Device *device : all_devices_) new (&device->mutex_) std::mutex;
  for (Queue *queue : live_) {
    new (&queue->mutex_) std::mutex;
    queue->head_ = queue->tail_;
    queue->pending_.store(0);
  }
  background_running_.store(false);
}

}  // namespace occatrace::device
