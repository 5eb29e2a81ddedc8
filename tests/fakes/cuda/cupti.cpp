// A stand-in for CUPTI's activity records on the fake driver: buffers asked for and given back full, external correlation,
// flushing. FAKE_CUPTI=taken: another tool has it; =old: without a clock of the caller's and without single driver functions;
// =losing: every tenth kernel gets no record. The places of the fields are those of CUPTI 12.
#include <dlfcn.h>

#include <cstdint>
#include <map>
#include <vector>

#include "../core.h"

#define CUPTI extern "C" __attribute__((visibility("default"))) int

namespace {

using Wanted = void (*)(uint8_t **, size_t *, size_t *);
using Full = void (*)(void *, uint32_t, uint8_t *, size_t, size_t);

std::mutex &mutex = *new std::mutex;
Wanted wanted = nullptr;
Full full = nullptr;
uint64_t (*clock_of_caller)() = nullptr;
std::set<uint32_t> &enabled = *new std::set<uint32_t>;
std::set<uint32_t> &functions = *new std::set<uint32_t>;
uint8_t *buffer = nullptr;
size_t size = 0, used = 0;
std::atomic<uint32_t> last_number{0};
thread_local std::vector<uint64_t> external;

bool is(const char *what) {
  const char *text = getenv("FAKE_CUPTI");
  return text != nullptr && strcmp(text, what) == 0;
}
// CUPTI's own clock is another than ours.
uint64_t own(uint64_t monotonic) { return clock_of_caller != nullptr ? monotonic : monotonic + 5'000'000'000'000; }

size_t bytes_of(uint32_t kind) { return kind == 39 ? 24 : kind == 10 ? 208 : kind == 51 ? 48 : 96; }

template <class T>
void put(uint8_t *record, size_t at, T value) {
  memcpy(record + at, &value, sizeof value);
}

// A record in the buffer; what is full goes back, without the lock.
template <class Fill>
void add(uint32_t kind, Fill fill) {
  uint8_t *done = nullptr;
  size_t done_size = 0, done_used = 0;
  {
    std::lock_guard<std::mutex> guard(mutex);
    if (enabled.count(kind) == 0) return;
    if (buffer != nullptr && used + bytes_of(kind) > size) {
      done = buffer;
      done_size = size;
      done_used = used;
      buffer = nullptr;
    }
    if (buffer == nullptr) {
      size_t most = 0;
      used = 0;
      wanted(&buffer, &size, &most);
    }
    memset(buffer + used, 0, bytes_of(kind));
    put(buffer + used, 0, kind);
    fill(buffer + used);
    used += bytes_of(kind);
  }
  if (done != nullptr) full(nullptr, 0, done, done_size, done_used);
}

uint32_t given(int) {
  const uint32_t number = ++last_number;
  bool told = false;
  {
    std::lock_guard<std::mutex> guard(mutex);
    told = enabled.count(5) != 0 || !functions.empty();
  }
  if (told && !external.empty())
    add(39, [&](uint8_t *record) {
      put<uint32_t>(record, 4, 3);
      put<uint64_t>(record, 8, external.back());
      put<uint32_t>(record, 16, number);
    });
  return number;
}

void ran(uint32_t number, int kind, uint64_t start, uint64_t end) {
  if (kind == 10 && is("losing") && number % 10 == 0) return;
  const size_t times = kind == 51 ? 8 : 16, correlation = kind == 51 ? 4 : kind == 10 ? 92 : 44;
  add(static_cast<uint32_t>(kind), [&](uint8_t *record) {
    put(record, times, own(start));
    put(record, times + 8, own(end));
    put(record, correlation, number);
  });
}

const fake::Observer observer{given, ran};

}  // namespace

CUPTI cuptiGetVersion(uint32_t *version) {
  *version = 28;
  return 0;
}
CUPTI cuptiSubscribe(void **subscriber, void *, void *) {
  *subscriber = &mutex;
  return is("taken") ? 39 : 0;
}
CUPTI cuptiUnsubscribe(void *) { return 0; }
CUPTI cuptiGetTimestamp(uint64_t *now) {
  *now = own(fake::monotonic_ns());
  return 0;
}
CUPTI cuptiActivityRegisterTimestampCallback(uint64_t (*clock)()) {
  if (is("old")) return 14;
  clock_of_caller = clock;
  return 0;
}
CUPTI cuptiActivityEnableDriverApi(uint32_t function, uint8_t) {
  if (is("old")) return 14;
  std::lock_guard<std::mutex> guard(mutex);
  functions.insert(function);
  return 0;
}
CUPTI cuptiActivityRegisterCallbacks(Wanted buffer_wanted, Full buffer_full) {
  wanted = buffer_wanted;
  full = buffer_full;
  return 0;
}
CUPTI cuptiActivityEnable(uint32_t kind) {
  std::lock_guard<std::mutex> guard(mutex);
  enabled.insert(kind);
  if (kind == 10) {
    void *driver = dlopen("libcuda.so.1", RTLD_LAZY | RTLD_NOLOAD);
    auto *observe = reinterpret_cast<void (*)(const fake::Observer *)>(dlsym(driver != nullptr ? driver : RTLD_DEFAULT, "fake_cuda_observe"));
    if (observe == nullptr) return 999;
    observe(&observer);
  }
  return 0;
}
CUPTI cuptiActivityDisable(uint32_t kind) {
  std::lock_guard<std::mutex> guard(mutex);
  enabled.erase(kind);
  return 0;
}
CUPTI cuptiActivityGetNextRecord(uint8_t *from, size_t valid, void **record) {
  auto *at = static_cast<uint8_t *>(*record);
  if (at != nullptr) {
    uint32_t kind;
    memcpy(&kind, at, sizeof kind);
    at += bytes_of(kind);
  } else {
    at = from;
  }
  if (at >= from + valid) return 12;
  *record = at;
  return 0;
}
CUPTI cuptiActivityGetNumDroppedRecords(void *, uint32_t, size_t *dropped) {
  *dropped = 0;
  return 0;
}
CUPTI cuptiActivityFlushAll(uint32_t) {
  uint8_t *done = nullptr;
  size_t done_used = 0;
  {
    std::lock_guard<std::mutex> guard(mutex);
    std::swap(done, buffer);
    done_used = used;
  }
  if (done != nullptr) full(nullptr, 0, done, size, done_used);
  return 0;
}
CUPTI cuptiActivityPushExternalCorrelationId(int, uint64_t id) {
  external.push_back(id);
  return 0;
}
CUPTI cuptiActivityPopExternalCorrelationId(int, uint64_t *last) {
  if (external.empty()) return 12;
  *last = external.back();
  external.pop_back();
  return 0;
}
