// The device engine on its own, with stand-ins for the core and for a vendor: `units NAME` runs one check and exits 0, or
// says what is wrong.
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <deque>
#include <map>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "clock.h"
#include "engine.h"
#include "handle_map.h"

using namespace occatrace::device;

static std::mutex recorded_lock;
static std::vector<struct occatrace_activity> recorded;
static uint64_t warnings;

// The time that the host's clocks show, where a check sets it, and by how much each reading moves it on.
static uint64_t pretended;
static uint64_t pretended_step;

extern "C" {
int clock_gettime(clockid_t id, timespec *now) noexcept {
  if (pretended == 0) return static_cast<int>(syscall(SYS_clock_gettime, id, now));
  pretended += pretended_step;
  *now = {static_cast<time_t>(pretended / 1'000'000'000), static_cast<long>(pretended % 1'000'000'000)};
  return 0;
}
uint32_t occatrace_intern(const char *) { return 1; }
uint32_t occatrace_device(uint32_t, uint32_t, uint32_t, uint32_t, uint64_t) { return 1; }
uint32_t occatrace_queue(uint32_t, uint64_t, uint32_t, uint64_t) { return 1; }
void occatrace_activity(const struct occatrace_activity *activity) {
  std::lock_guard<std::mutex> guard(recorded_lock);
  recorded.push_back(*activity);
}
void occatrace_clock(uint32_t, uint64_t, uint64_t, uint64_t) {}
void occatrace_clock_warning(uint32_t, uint64_t clamped, uint64_t) { warnings = clamped; }
void occatrace_want_harvest(void) {}
uint8_t occatrace_choosing;
int occatrace_choose_queue(uint32_t, const char *, uint32_t) { return 1; }
}

static void expect(bool holds, const char *what, long long got = 0) {
  if (holds) return;
  std::printf("wrong: %s (%lld)\n", what, got);
  std::exit(1);
}

// ---- clocks ----

// A device that counts one of the host's clocks is found out, and then read to within the noise of reading two clocks.
static void host_clocks() {
  for (const clockid_t id : {CLOCK_MONOTONIC, CLOCK_MONOTONIC_RAW, CLOCK_REALTIME}) {
    Clock clock;
    uint64_t narrowest = UINT64_MAX;
    for (int at = 0; at < 100; ++at) {
      const uint64_t before = read_clock(CLOCK_MONOTONIC);
      const uint64_t stamp = read_clock(id);
      const uint64_t after = read_clock(CLOCK_MONOTONIC);
      if (at % 10 == 0) clock.bracket(stamp, before, after);
      clock.refresh();
      const uint64_t host = clock.to_host(stamp);
      // A thread that loses its core between two readings makes them wide; the clock says by how much.
      const uint64_t slack = 2000 + clock.uncertainty();
      expect(host + slack > before && host < after + slack, "host clock", static_cast<long long>(host - before));
      narrowest = std::min(narrowest, clock.uncertainty());
    }
    expect(narrowest < 100'000, "uncertainty", static_cast<long long>(narrowest));
    Clock::Point point;
    expect(clock.take_point(&point), "a first point");
    expect(!clock.take_point(&point), "no second point at once");
  }
}

// A device with a clock of its own, which drifts: interpolated from brackets alone.
static void own_clock() {
  constexpr double rate = 1.0002;
  const auto device_time = [](uint64_t host) { return static_cast<uint64_t>(5e12 + static_cast<double>(host) * rate); };
  const uint64_t begin = read_clock(CLOCK_MONOTONIC);
  Clock clock;
  std::mt19937 random(1);
  for (uint64_t at = 0; at < 3'000'000'000; at += 1'000'000) {
    const uint64_t host = begin + at;
    clock.bracket(device_time(host), host - random() % 1500, host + random() % 1500);
    clock.refresh();
    // Just happened, a command of half a second ago, and one of 2 s ago.
    for (const uint64_t ago : {UINT64_C(0), UINT64_C(500'000'000), UINT64_C(2'000'000'000)}) {
      if (ago > at) continue;
      const auto off = static_cast<int64_t>(clock.to_host(device_time(host - ago)) - (host - ago));
      expect(std::llabs(off) < 6000, "own clock", off);
    }
  }
}

// A device clock that is set: the odd stamp is passed over, a new clock is taken up.
static void set_clock() {
  // On real clocks the thread may lose its core between two readings, for longer than any limit here.
  pretended = 1'000'000'000;
  pretended_step = 100;
  Clock clock;
  const auto feed = [&clock](int64_t shift, int count) {
    int64_t off = 0;
    for (int at = 0; at < count; ++at) {
      const uint64_t before = read_clock(CLOCK_MONOTONIC);
      const uint64_t stamp = read_clock(CLOCK_MONOTONIC) + static_cast<uint64_t>(shift);
      clock.bracket(stamp, before, read_clock(CLOCK_MONOTONIC));
      off = static_cast<int64_t>(clock.to_host(stamp) - before);
    }
    return off;
  };
  expect(std::llabs(feed(0, 10)) < 5000, "before");
  feed(7'000'000'000, 1);
  expect(std::llabs(feed(0, 1)) < 5000, "after one odd stamp");
  expect(std::llabs(feed(7'000'000'000, 20)) < 5000, "after a change");
  pretended = pretended_step = 0;
}

// ---- engine ----

struct FakeEvent {
  std::atomic<int> state{1};
  std::atomic<int> released{0};
  Times times;
};

static int32_t fake_poll(void *event, Times *times) {
  auto *fake = static_cast<FakeEvent *>(event);
  *times = fake->times;
  return fake->state;
}
static void fake_release(void *event) { ++static_cast<FakeEvent *>(event)->released; }
static const Vendor fake{fake_poll, fake_release};
static const Vendor fake_clockless{fake_poll, fake_release, nullptr, true};

static Work work_of(FakeEvent &event, uint32_t number) {
  Work work;
  work.event = &event;
  work.before = read_clock(CLOCK_MONOTONIC);
  const uint64_t stamp = read_clock(CLOCK_MONOTONIC);
  event.times = {stamp, stamp + 10, stamp + 20, stamp + 30};
  work.after = read_clock(CLOCK_MONOTONIC);
  work.seq = number;
  return work;
}

static Queue &new_queue(uint32_t flags, const Vendor &vendor = fake) {
  static uintptr_t handles = 1000;
  Engine &engine = Engine::instance();
  Device &device = engine.device("fake", &fake, [] { return DeviceNames{"p", "n", "v"}; });
  handles += 16;
  return engine.add_queue(vendor, device, reinterpret_cast<void *>(handles), nullptr, flags);
}

// Commands complete in any order; each is recorded once and let go of once, and those of an in-order queue in order.
static void rings(uint32_t flags) {
  Queue &queue = new_queue(flags);
  constexpr uint32_t kCount = 20'000;
  std::vector<FakeEvent> events(kCount);
  std::mt19937 random(7);
  uint32_t next_done = 0;
  for (uint32_t at = 0; at < kCount; ++at) {
    queue.push(work_of(events[at], at));
    if (flags & kOutOfOrder) {
      events[random() % (at + 1)].state = 0;
    } else if (random() % 3 != 0) {
      events[next_done++].state = random() % 50 == 0 ? -5 : 0;
    }
    if (random() % 97 == 0) queue.harvest();
  }
  const size_t early = recorded.size();
  expect(early > kCount / 4 && early < kCount, "harvested on the way", static_cast<long long>(early));
  expect(queue.holds(&events[kCount - 1]) == (events[kCount - 1].released ? 0 : 1), "holds");
  for (FakeEvent &event : events) {
    if (event.state == 1) event.state = 0;
  }
  queue.harvest();
  expect(recorded.size() == kCount, "recorded", static_cast<long long>(recorded.size()));
  std::vector<int> seen(kCount);
  for (size_t at = 0; at < recorded.size(); ++at) {
    ++seen[recorded[at].corr_seq];
    if ((flags & kOutOfOrder) == 0) expect(recorded[at].corr_seq == at, "in order", static_cast<long long>(at));
    expect(recorded[at].status == events[recorded[at].corr_seq].state, "status", recorded[at].status);
    expect(recorded[at].queued <= recorded[at].start && recorded[at].start <= recorded[at].end, "times in order");
  }
  for (uint32_t at = 0; at < kCount; ++at) {
    expect(seen[at] == 1, "recorded once", at);
    expect(events[at].released == 1, "let go of once", at);
  }
}

// Threads enqueue to one queue while another harvests.
static void many_threads() {
  Queue &queue = new_queue(0);
  constexpr uint32_t kThreads = 4;
  constexpr uint32_t kEach = 20'000;
  std::vector<FakeEvent> events(kThreads * kEach);
  std::atomic<bool> stop{false};
  std::thread harvester([&] {
    while (!stop) Engine::instance().harvest(false);
  });
  std::vector<std::thread> threads;
  for (uint32_t which = 0; which < kThreads; ++which) {
    threads.emplace_back([&, which] {
      for (uint32_t at = which * kEach; at < (which + 1) * kEach; ++at) {
        const Work work = work_of(events[at], at);
        events[at].state = 0;
        queue.push(work);
      }
    });
  }
  for (std::thread &thread : threads) thread.join();
  stop = true;
  harvester.join();
  Engine::instance().close();
  expect(recorded.size() == events.size(), "recorded", static_cast<long long>(recorded.size()));
  for (const FakeEvent &event : events) expect(event.released == 1, "let go of once");
}

// Stamps outside of [enqueue, seen] are moved inside and counted; what is no more than noise is not.
static void clamped() {
  Queue &queue = new_queue(0);
  std::vector<FakeEvent> events(3);
  Work works[3] = {work_of(events[0], 0), work_of(events[1], 1), work_of(events[2], 2)};
  events[1].times.start -= 400;
  events[2].times.end += 1'000'000'000;
  for (const Work &work : works) queue.push(work);
  for (FakeEvent &event : events) event.state = 0;
  Engine::instance().harvest(true);
  expect(warnings == 1, "one warning", static_cast<long long>(warnings));
  for (const auto &activity : recorded) {
    expect(activity.end <= read_clock(CLOCK_MONOTONIC) + 1000, "not in the future, but for noise");
    expect(activity.start >= works[activity.corr_seq].before, "not before its enqueue");
  }
}

// A device that gives no time stamps: the host's times count, in equal parts where several were seen at once.
static void timed_by_host() {
  pretended = 1'000'000;
  Queue &queue = new_queue(0, fake_clockless);
  std::vector<FakeEvent> events(5);
  const auto push = [&](uint32_t number, uint8_t kind) {
    Work work = work_of(events[number], number);
    work.kind = kind;
    events[number].times = {};
    queue.push(work);
    events[number].state = 0;
  };
  push(0, OCCATRACE_KERNEL);
  push(1, OCCATRACE_KERNEL);
  pretended = 3'000'000;
  Engine::instance().harvest(true);
  push(2, OCCATRACE_HTOD);
  push(3, OCCATRACE_MARKER);
  pretended = 4'000'000;
  Engine::instance().harvest(true);
  const uint64_t expected[4][2] = {{1'000'000, 2'000'000}, {2'000'000, 3'000'000}, {3'000'000, 4'000'000}, {4'000'000, 4'000'000}};
  for (size_t at = 0; at < 4; ++at) {
    expect(recorded[at].start == expected[at][0], "start", static_cast<long long>(recorded[at].start));
    expect(recorded[at].end == expected[at][1], "end", static_cast<long long>(recorded[at].end));
  }
  expect(warnings == 3, "three times of the host", static_cast<long long>(warnings));
}

// What happens comes by standard input, one step a line, and what is recorded goes out, for the test to judge:
//   at NS                 the host's time
//   clock BEFORE AFTER    a reading of the device's clock, which was somewhere between so many ns before and after now
//   run GAP NS            a command is enqueued; it begins GAP after the one before it (or after now), and takes NS
//   harvest               what has finished by now is recorded
// The device has a clock of its own, of the host's rate.
static void placing() {
  constexpr uint64_t kAhead = uint64_t{1} << 61;
  pretended = 1'000'000'000'000;
  Queue &queue = new_queue(0);
  std::deque<FakeEvent> events;
  std::vector<std::pair<uint64_t, uint64_t>> truth;
  const auto harvest = [&] {
    for (size_t at = 0; at < events.size(); ++at) {
      if (truth[at].second <= pretended) events[at].state = 0;
    }
    queue.harvest();
  };
  char step[16];
  unsigned long long first = 0;
  unsigned long long second = 0;
  while (std::scanf("%15s", step) == 1) {
    const std::string what = step;
    if (what == "at" && std::scanf("%llu", &first) == 1) {
      pretended += first;
    } else if (what == "clock" && std::scanf("%llu %llu", &first, &second) == 2) {
      Engine::instance().calibrate(queue.device, pretended + kAhead, pretended - first, pretended + second);
    } else if (what == "run" && std::scanf("%llu %llu", &first, &second) == 2) {
      const uint64_t start = first + (truth.empty() ? pretended : std::max(pretended, truth.back().second));
      truth.emplace_back(start, start + second);
      events.emplace_back().times = {0, 0, start + kAhead, start + second + kAhead};
      Work work;
      work.event = &events.back();
      work.before = pretended;
      work.seq = static_cast<uint32_t>(truth.size() - 1);
      queue.push(work);
    } else if (what == "harvest") {
      harvest();
    }
  }
  if (!truth.empty()) pretended = std::max(pretended, truth.back().second);
  harvest();
  for (const auto &activity : recorded) {
    const auto &[start, end] = truth[activity.corr_seq];
    std::printf("%u %llu %llu %llu %llu %llu\n", activity.corr_seq, static_cast<unsigned long long>(activity.queued),
                static_cast<unsigned long long>(activity.start), static_cast<unsigned long long>(activity.end),
                static_cast<unsigned long long>(start), static_cast<unsigned long long>(end));
  }
}

static void handle_map() {
  HandleMap map;
  std::map<uint64_t, uint64_t> truth;
  std::mt19937_64 random(3);
  for (int at = 0; at < 20'000; ++at) {
    const uint64_t key = 16 * (1 + random() % 10'000);
    map.set(reinterpret_cast<void *>(key), truth[key] = random() | 1);
  }
  for (uint64_t key = 16; key < 16 * 10'001; key += 16) {
    const auto found = truth.find(key);
    expect(map.get(reinterpret_cast<void *>(key)) == (found == truth.end() ? 0 : found->second), "value");
  }
  expect(map.get(nullptr) == 0, "null");
}

int main(int argc, char **argv) {
  const std::string name = argc > 1 ? argv[1] : "";
  if (name == "host_clocks") host_clocks();
  else if (name == "own_clock") own_clock();
  else if (name == "set_clock") set_clock();
  else if (name == "in_order") rings(0);
  else if (name == "out_of_order") rings(kOutOfOrder);
  else if (name == "many_threads") many_threads();
  else if (name == "clamped") clamped();
  else if (name == "timed_by_host") timed_by_host();
  else if (name == "placing") placing();
  else if (name == "handle_map") handle_map();
  else return 2;
  return 0;
}
