// What the fake GPU runtimes share: a device's clock, streams that work in order on threads of their own, events with times,
// the legacy and the per-thread default streams, capture and graphs, memory (the host's), kernels that spin as long as they
// are told. The errors are those codes on which CUDA's and HIP's interfaces agree.
#pragma once
#include <time.h>

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

namespace fake {

enum Code : int {
  kSuccess = 0,
  kInvalidValue = 1,
  kOutOfMemory = 2,
  kInvalidHandle = 400,
  kIllegalState = 401,
  kNotReady = 600,
  kIllegalAddress = 700,
  kCaptureUnsupported = 900,
  kCaptureInvalidated = 901,
  kCapturedEvent = 907,
};

// ---- time ----

inline uint64_t host_ns() {
  timespec t;
  clock_gettime(CLOCK_MONOTONIC_RAW, &t);
  return static_cast<uint64_t>(t.tv_sec) * 1000000000u + static_cast<uint64_t>(t.tv_nsec);
}

// The device's clock: another origin, and a little fast.
inline uint64_t device_ns() {
  static const uint64_t begin = host_ns();
  const uint64_t since = host_ns() - begin;
  return 1000000 + since + since / 50000;
}

inline void busy(uint64_t ns) {
  const uint64_t end = host_ns() + ns;
  if (ns > 200000) {
    const timespec t{static_cast<time_t>((ns - 150000) / 1000000000), static_cast<long>((ns - 150000) % 1000000000)};
    nanosleep(&t, nullptr);
  }
  while (host_ns() < end) {
  }
}

// ---- what works ----

struct Job {
  std::function<void()> run;
  std::vector<std::pair<std::shared_ptr<struct Lane>, uint64_t>> after;
};

// What a stream does, in order, on a thread of its own.
struct Lane : std::enable_shared_from_this<Lane> {
  std::mutex mutex;
  std::condition_variable changed;
  std::deque<Job> jobs;
  uint64_t submitted = 0;
  uint64_t done = 0;
  bool started = false;
  bool ending = false;

  uint64_t push(Job job) {
    std::lock_guard<std::mutex> guard(mutex);
    if (!started) std::thread([lane = shared_from_this()] { lane->work(); }).detach();
    started = true;
    jobs.push_back(std::move(job));
    changed.notify_all();
    return ++submitted;
  }
  void wait(uint64_t ticket) {
    std::unique_lock<std::mutex> lock(mutex);
    changed.wait(lock, [&] { return done >= ticket; });
  }
  bool reached(uint64_t ticket) {
    std::lock_guard<std::mutex> guard(mutex);
    return done >= ticket;
  }
  uint64_t last() {
    std::lock_guard<std::mutex> guard(mutex);
    return submitted;
  }
  void work() {
    for (;;) {
      Job job;
      {
        std::unique_lock<std::mutex> lock(mutex);
        changed.wait(lock, [&] { return ending || !jobs.empty(); });
        if (jobs.empty()) return;
        job = std::move(jobs.front());
        jobs.pop_front();
      }
      for (auto &[lane, ticket] : job.after) lane->wait(ticket);
      job.run();
      std::lock_guard<std::mutex> guard(mutex);
      ++done;
      changed.notify_all();
    }
  }
  void end() {
    std::lock_guard<std::mutex> guard(mutex);
    ending = true;
    changed.notify_all();
  }
};

// ---- contexts, streams, graphs ----

constexpr unsigned kNonBlocking = 1;

struct Context;

struct Graph {
  std::vector<std::function<void()>> nodes;
};

struct Stream {
  Context *context;
  unsigned flags;
  std::shared_ptr<Lane> lane = std::make_shared<Lane>();
  Graph *capture = nullptr;
};

// A context, or in an API without them a device. `error` stays: every later call gives it.
struct Context {
  int device = 0;
  std::mutex mutex;
  Stream *legacy = nullptr;
  std::set<Stream *> streams;
  std::map<std::thread::id, Stream *> per_thread;
  std::vector<std::shared_ptr<Lane>> left;  // of streams that were destroyed before their work was done
  std::atomic<int> error{0};
};

template <class S>
S *make_stream(Context *context, unsigned flags) {
  auto *stream = new S{};
  stream->context = context;
  stream->flags = flags;
  std::lock_guard<std::mutex> guard(context->mutex);
  context->streams.insert(stream);
  return stream;
}

// A stream's handle as a program gives it: 0 and 1 are the legacy default stream, 2 is the per-thread one.
template <class S>
S *resolve(Context *context, S *stream, bool per_thread) {
  auto number = reinterpret_cast<uintptr_t>(stream);
  if (number == 0 && per_thread) number = 2;
  if (number > 2) return stream;
  if (number < 2) return static_cast<S *>(context->legacy);
  {
    std::lock_guard<std::mutex> guard(context->mutex);
    if (Stream *own = context->per_thread[std::this_thread::get_id()]) return static_cast<S *>(own);
  }
  S *own = make_stream<S>(context, 0);
  std::lock_guard<std::mutex> guard(context->mutex);
  context->per_thread[std::this_thread::get_id()] = own;
  return own;
}

inline void remove_stream(Stream *stream) {
  stream->lane->end();
  Context &context = *stream->context;
  std::lock_guard<std::mutex> guard(context.mutex);
  context.streams.erase(stream);
  if (!stream->lane->reached(stream->lane->last())) context.left.push_back(stream->lane);
}

inline void finish(Context *context) {
  std::vector<std::shared_ptr<Lane>> lanes;
  {
    std::lock_guard<std::mutex> guard(context->mutex);
    lanes.swap(context->left);
    for (const Stream *stream : context->streams) lanes.push_back(stream->lane);
  }
  for (const auto &lane : lanes) lane->wait(lane->last());
}

// Hands a job to a stream. The legacy default stream waits for all blocking streams, and they for it.
inline uint64_t submit(Stream *stream, std::function<void()> run) {
  Context *context = stream->context;
  Job job{std::move(run), {}};
  {
    std::lock_guard<std::mutex> guard(context->mutex);
    const auto wait_for = [&](Stream *other) {
      if (other != nullptr && other != stream && (other->flags & kNonBlocking) == 0) {
        if (const uint64_t last = other->lane->last()) job.after.emplace_back(other->lane, last);
      }
    };
    if (stream == context->legacy) {
      for (Stream *other : context->streams) wait_for(other);
    } else if ((stream->flags & kNonBlocking) == 0) {
      wait_for(context->legacy);
    }
  }
  return stream->lane->push(std::move(job));
}

// A stand-in of the vendor's profiling library may look on: it is asked for a number as a command is given, on the thread that
// gives it, and told when it ran, in CLOCK_MONOTONIC.
enum ObservedKind : int { kUnobserved = 0, kCopyKind = 1, kFillKind = 2, kKernelKind = 10, kGraphKind = 51 };
// What the driver does to managed memory by itself.
enum ManagedKind : int { kPagesToDevice = 1, kPagesToHost = 2, kFaultsOfHost = 3, kFaultsOfDevice = 4 };
// It may want to know of every call too, as it begins and when it is over.
struct DriverCall {
  int id;
  const char *name;
  bool over;
  const void *params;
  void *result;
  uint64_t *kept;
  uint32_t number;
};
struct Observer {
  uint32_t (*given)(int kind);
  void (*ran)(uint32_t number, int kind, uint64_t start, uint64_t end);
  void (*call)(DriverCall &) = nullptr;
  void (*managed)(int kind, int device, void *at, uint64_t value, uint64_t start, uint64_t end) = nullptr;
  void (*runtime)(const char *function, bool over) = nullptr;
};
inline std::atomic<const Observer *> observer{nullptr};

inline uint64_t monotonic_ns() {
  timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return static_cast<uint64_t>(t.tv_sec) * 1000000000u + static_cast<uint64_t>(t.tv_nsec);
}
inline std::function<void()> observed(std::function<void()> run, int kind) {
  const Observer *o = observer;
  if (o == nullptr || kind == kUnobserved) return run;
  return [run = std::move(run), o, kind, number = o->given(kind)] {
    const uint64_t start = monotonic_ns();
    run();
    o->ran(number, kind, start, monotonic_ns());
  };
}

// Runs, or is written into the graph that is being captured.
inline int enqueue(Stream *stream, std::function<void()> run, bool wait, int kind = kUnobserved) {
  if (stream->capture != nullptr) {
    if (wait) return kCaptureUnsupported;
    stream->capture->nodes.push_back(std::move(run));
    return kSuccess;
  }
  const uint64_t ticket = submit(stream, observed(std::move(run), kind));
  // What fails later is told by a later call.
  if (!wait) return kSuccess;
  stream->lane->wait(ticket);
  return stream->context->error;
}

inline int synchronize(Stream *stream) {
  if (stream->capture != nullptr) return kCaptureUnsupported;
  stream->lane->wait(stream->lane->last());
  return stream->context->error;
}
inline int query(Stream *stream) { return stream->lane->reached(stream->lane->last()) ? kSuccess : kNotReady; }

// A capture of the global mode forbids every thread to ask or wait for events outside of it: who does breaks it.
inline std::atomic<int> captures{0};
inline std::atomic<bool> broken{false};
inline bool breaks_capture() {
  if (captures > 0) broken = true;
  return captures > 0;
}

template <class G>
int begin_capture(Stream *stream) {
  if (stream->capture != nullptr || stream == stream->context->legacy) return kIllegalState;
  stream->capture = new G;
  if (captures++ == 0) broken = false;
  return kSuccess;
}
template <class G>
int end_capture(Stream *stream, G **graph) {
  if (stream->capture == nullptr) return kIllegalState;
  *graph = static_cast<G *>(stream->capture);
  stream->capture = nullptr;
  --captures;
  return broken ? kCaptureInvalidated : kSuccess;
}
inline int launch_graph(const Graph &graph, Stream *stream) {
  return enqueue(stream, [nodes = graph.nodes] {
    for (const auto &node : nodes) node();
  }, false, kGraphKind);
}

// ---- events ----

constexpr unsigned kDisableTiming = 2;

inline std::atomic<long> live_events{0};
inline std::atomic<long> captured_events{0};

struct Event {
  Context *context;
  unsigned flags;
  std::mutex mutex;
  std::shared_ptr<Lane> lane;
  uint64_t ticket = 0;
  bool recorded = false;
  bool captured = false;
  // Shared with the job that fills it in: the event may be gone by then.
  std::shared_ptr<std::atomic<uint64_t>> time = std::make_shared<std::atomic<uint64_t>>(0);

  Event(Context *of, unsigned with) : context(of), flags(with) { ++live_events; }
  ~Event() { --live_events; }
};

inline int record(Event *event, Stream *stream) {
  if (stream->context != event->context) return kInvalidHandle;
  std::lock_guard<std::mutex> guard(event->mutex);
  if (stream->capture != nullptr) {
    ++captured_events;
    event->captured = true;
    return kSuccess;
  }
  event->captured = false;
  event->recorded = true;
  event->time = std::make_shared<std::atomic<uint64_t>>(0);
  event->lane = stream->lane;
  event->ticket = submit(stream, [time = event->time] { *time = device_ns(); });
  return kSuccess;
}
inline int query(Event *event) {
  if (breaks_capture()) return kCaptureUnsupported;
  std::lock_guard<std::mutex> guard(event->mutex);
  if (event->captured) return kCapturedEvent;
  if (const int sticky = event->context->error) return sticky;
  return !event->recorded || event->lane->reached(event->ticket) ? kSuccess : kNotReady;
}
inline int synchronize(Event *event) {
  if (breaks_capture()) return kCaptureUnsupported;
  std::shared_ptr<Lane> lane;
  uint64_t ticket = 0;
  {
    std::lock_guard<std::mutex> guard(event->mutex);
    if (!event->recorded) return kSuccess;
    lane = event->lane;
    ticket = event->ticket;
  }
  lane->wait(ticket);
  return event->context->error;
}
inline int elapsed(float *ms, const Event *from, const Event *to) {
  if (breaks_capture()) return kCaptureUnsupported;
  if ((from->flags | to->flags) & kDisableTiming) return kInvalidHandle;
  if (!from->recorded || !to->recorded) return kInvalidHandle;
  if (const int sticky = to->context->error) return sticky;
  const uint64_t begin = *from->time, end = *to->time;
  if (begin == 0 || end == 0) return kNotReady;
  *ms = static_cast<float>(static_cast<double>(static_cast<int64_t>(end - begin)) / 1e6);
  return kSuccess;
}
inline int wait_event(Stream *stream, const Event *event) {
  std::shared_ptr<Lane> lane = event->lane;
  const uint64_t ticket = event->ticket;
  if (lane == nullptr) return kSuccess;
  return enqueue(stream, [=] { lane->wait(ticket); }, false);
}

// ---- copies and kernels ----

inline uint64_t copy_ns(size_t bytes) { return 2000 + bytes / 10; }  // 10 GB/s

inline int copy(Stream *stream, void *to, const void *from, size_t bytes, bool wait) {
  return enqueue(stream, [=] {
    const uint64_t end = host_ns() + copy_ns(bytes);
    std::memmove(to, from, bytes);
    const uint64_t now = host_ns();
    if (now < end) busy(end - now);
  }, wait, kCopyKind);
}

template <class T>
int fill(Stream *stream, void *at, T value, size_t count, bool wait) {
  return enqueue(stream, [=] {
    auto *to = static_cast<T *>(at);
    std::fill(to, to + count, value);
    busy(copy_ns(count * sizeof(T)));
  }, wait, kFillKind);
}

struct Kernel {
  std::string name;
  uint64_t ns;
};

// The kernels of a module's text, "kernel NAME [NANOSECONDS]" in each line. False where there is none.
template <class K>
bool load(std::map<std::string, std::unique_ptr<K>> &kernels, const char *text) {
  std::istringstream lines(text);
  std::string line;
  while (std::getline(lines, line)) {
    std::istringstream words(line);
    std::string what, name;
    uint64_t ns = 1000;
    words >> what >> name;
    if (what != "kernel") continue;
    words >> ns;
    auto kernel = std::make_unique<K>();
    kernel->name = name;
    kernel->ns = ns;
    kernels[name] = std::move(kernel);
  }
  return !kernels.empty();
}

// Spins as long as the kernel says, or as its first parameter says where its name begins with "spin". "fault…" fails.
inline int launch(Stream *stream, const Kernel &kernel, const uint64_t *first_parameter) {
  const bool told = kernel.name.rfind("spin", 0) == 0 && first_parameter != nullptr;
  const uint64_t ns = told ? *first_parameter : kernel.ns;
  const bool faulty = kernel.name.rfind("fault", 0) == 0;
  Context *context = stream->context;
  return enqueue(stream, [=] {
    busy(ns);
    if (faulty) context->error = kIllegalAddress;
  }, false, kKernelKind);
}

// ---- memory ----

constexpr unsigned kHost = 1;
constexpr unsigned kDevice = 2;

struct Block {
  size_t bytes;
  unsigned type;  // kHost, kDevice
  bool managed;
  unsigned flags = 0;
  bool registered = false;  // the program's own
};

// What is allocated, and where. Never destroyed: threads of the device go on while the process is taken down.
class Memory {
 public:
  explicit Memory(const char *variable) : variable_(variable) {}

  size_t size() const {
    const char *text = getenv(variable_);
    return text != nullptr ? strtoull(text, nullptr, 10) : size_t{1} << 30;
  }
  size_t used() {
    std::lock_guard<std::mutex> guard(mutex_);
    return used_;
  }
  int allocate(void **at, size_t bytes, const Block &as) {
    if (bytes == 0) return kInvalidValue;
    std::lock_guard<std::mutex> guard(mutex_);
    if (as.type == kDevice) {
      if (used_ + bytes > size()) return kOutOfMemory;
      used_ += bytes;
    }
    if (posix_memalign(at, 256, bytes) != 0) return kOutOfMemory;
    blocks_[address(*at)] = as;
    blocks_[address(*at)].bytes = bytes;
    return kSuccess;
  }
  int release(void *at, unsigned type) {
    if (at == nullptr) return kSuccess;
    std::lock_guard<std::mutex> guard(mutex_);
    const auto found = blocks_.find(address(at));
    if (found == blocks_.end() || found->second.type != type) return kInvalidValue;
    if (type == kDevice) used_ -= found->second.bytes;
    blocks_.erase(found);
    free(at);
    return kSuccess;
  }
  void enroll(void *at, size_t bytes, unsigned flags) {
    std::lock_guard<std::mutex> guard(mutex_);
    blocks_[address(at)] = Block{bytes, kHost, false, flags, true};
  }
  void strike(void *at) {
    std::lock_guard<std::mutex> guard(mutex_);
    blocks_.erase(address(at));
  }
  // The block that an address lies in; `begin` may be null.
  bool find(const void *at, Block *block, void **begin = nullptr) {
    std::lock_guard<std::mutex> guard(mutex_);
    auto found = blocks_.upper_bound(address(at));
    if (found == blocks_.begin()) return false;
    --found;
    if (address(at) - found->first >= found->second.bytes) return false;
    *block = found->second;
    if (begin != nullptr) *begin = reinterpret_cast<void *>(found->first);
    return true;
  }

 private:
  static uintptr_t address(const void *at) { return reinterpret_cast<uintptr_t>(at); }
  const char *variable_;
  std::mutex mutex_;
  std::map<uintptr_t, Block> blocks_;
  size_t used_ = 0;
};

// Number of devices: of a variable, at most 8, else two.
inline int device_count(const char *variable) {
  const char *text = getenv(variable);
  return text != nullptr ? std::min(atoi(text), 8) : 2;
}

}  // namespace fake
