// A stand-in for CUPTI's activity records on the fake driver: buffers asked for and given back full, flushing; callbacks for
// the driver's calls, one subscriber at a time. FAKE_CUPTI=taken: another tool has it; =old: without a clock of the caller's;
// =losing: every tenth kernel gets no record. The places of the fields are those of CUPTI 12; structures of CUPTI's headers are
// used where these are there.
#define __CUDA_API_VERSION_INTERNAL
#include <cuda.h>
#include <dlfcn.h>
#if __has_include(<cupti_driver_cbid.h>) && __has_include("names.h")
#define WITH_CALLS
#define CUPTIAPI
#include <cupti_driver_cbid.h>
#endif

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "../core.h"

// cupti_records.cpp
void managed_record(uint8_t *record, int kind, uint64_t value, uint64_t start, uint64_t end, uint64_t address, uint32_t from, uint32_t to);
void wait_record(uint8_t *record, const char *function, uint64_t start, uint64_t end, uint32_t number);

#define CUPTI extern "C" __attribute__((visibility("default"))) int

namespace {

using Wanted = void (*)(uint8_t **, size_t *, size_t *);
using Full = void (*)(void *, uint32_t, uint8_t *, size_t, size_t);

std::mutex &mutex = *new std::mutex;
Wanted wanted = nullptr;
Full full = nullptr;
uint64_t (*clock_of_caller)() = nullptr;
std::set<uint32_t> &enabled = *new std::set<uint32_t>;
uint8_t *buffer = nullptr;
size_t size = 0, used = 0;
std::atomic<uint32_t> last_number{0};

bool is(const char *what) {
  const char *text = getenv("FAKE_CUPTI");
  return text != nullptr && strcmp(text, what) == 0;
}
// CUPTI's own clock is another than ours.
uint64_t own(uint64_t monotonic) { return clock_of_caller != nullptr ? monotonic : monotonic + 5'000'000'000'000; }

size_t bytes_of(uint32_t kind) { return kind == 10 ? 208 : kind == 51 ? 48 : kind == 25 ? 104 : 96; }

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

// The work of the driver's calls that a call of the runtime makes has the number of the runtime's call (seen with CUPTI 13.0).
thread_local uint32_t number_of_runtime = 0;

// The call that this thread is in.
thread_local uint32_t number_of_call = 0;

// CUPTI asks the driver, which it opens as programs do, about each kernel. It tells nobody of these calls.
thread_local bool asking = false;
void ask() {
  static auto *const version_of = reinterpret_cast<int (*)(int *)>(dlsym(dlopen("libcuda.so.1", RTLD_LAZY), "cuDriverGetVersion"));
  int version = 0;
  asking = true;
  version_of(&version);
  asking = false;
}

uint32_t given(int) {
  ask();
  return number_of_runtime != 0 ? number_of_runtime : number_of_call != 0 ? number_of_call : ++last_number;
}

void ran(uint32_t number, int kind, uint64_t start, uint64_t end) {
  static std::atomic<int> kernels{0};
  if (kind == 10 && ++kernels % 10 == 0 && is("losing")) return;
  const size_t times = kind == 51 ? 8 : 16, correlation = kind == 51 ? 4 : kind == 10 ? 92 : 44;
  add(static_cast<uint32_t>(kind), [&](uint8_t *record) {
    put(record, times, own(start));
    put(record, times + 8, own(end));
    put(record, correlation, number);
  });
}

// ---- callbacks ----

using Told = void (*)(void *, int, uint32_t, const void *);
std::atomic<Told> subscriber{nullptr};
void *subscribed_with = nullptr;
std::atomic<bool> wanted_calls[8192];
constexpr int kDriver = 1, kRuntime = 2;

// Names as CUPTI has them, with the version of the runtime that brought the function.
constexpr const char *runtime_names[] = {"cudaMalloc_v3020",          "cudaMemcpy_v3020",          "cudaMemcpyAsync_v3020",
                                         "cudaMemset_v3020",          "cudaMemsetAsync_v3020",     "cudaLaunchKernel_v7000",
                                         "cudaStreamSynchronize_v3020", "cudaDeviceSynchronize_v3020", "cudaGraphLaunch_v10000"};
std::atomic<bool> wanted_of_runtime[std::size(runtime_names)];

// As CUpti_CallbackData is.
struct CallData {
  int site;
  const char *function;
  const void *params;
  void *result;
  const char *symbol;
  void *context;
  uint32_t context_number;
  uint64_t *kept;
  uint32_t number;
};

// ---- managed memory and waits ----

struct ManagedConfig {
  uint32_t scope, kind, device, enable;
};
std::set<std::pair<uint32_t, uint32_t>> &counted = *new std::set<std::pair<uint32_t, uint32_t>>;  // device, kind

#ifdef WITH_CALLS
void moved(int kind, int device, void *at, uint64_t value, uint64_t start, uint64_t end) {
  {
    std::lock_guard<std::mutex> guard(mutex);
    if (counted.count({device, kind}) == 0) return;
  }
  constexpr uint32_t host = ~0u;
  const bool from_host = kind == fake::kPagesToDevice || kind == fake::kFaultsOfHost;
  const uint32_t from = from_host ? host : static_cast<uint32_t>(device);
  const uint32_t to = kind == fake::kPagesToDevice ? static_cast<uint32_t>(device) : host;
  add(25, [&](uint8_t *record) { managed_record(record, kind, value, own(start), own(end), reinterpret_cast<uint64_t>(at), from, to); });
}

thread_local uint64_t wait_began = 0;
void waited(const fake::DriverCall &call) {
  switch (call.id) {
    case CUPTI_DRIVER_TRACE_CBID_cuEventSynchronize:
    case CUPTI_DRIVER_TRACE_CBID_cuStreamWaitEvent:
    case CUPTI_DRIVER_TRACE_CBID_cuStreamWaitEvent_ptsz:
    case CUPTI_DRIVER_TRACE_CBID_cuStreamSynchronize:
    case CUPTI_DRIVER_TRACE_CBID_cuStreamSynchronize_ptsz:
    case CUPTI_DRIVER_TRACE_CBID_cuCtxSynchronize: break;
    default: return;
  }
  if (!call.over) {
    wait_began = fake::monotonic_ns();
    return;
  }
  const uint64_t end = fake::monotonic_ns();
  const uint32_t number = number_of_runtime != 0 ? number_of_runtime : call.number;
  add(38, [&](uint8_t *record) { wait_record(record, call.name, own(wait_began), own(end), number); });
}
#else
constexpr void (*moved)(int, int, void *, uint64_t, uint64_t, uint64_t) = nullptr;
void waited(const fake::DriverCall &) {}
#endif

void called(fake::DriverCall &call) {
  if (asking) return;
  if (!call.over) call.number = ++last_number;
  if (call.over) waited(call);
  const Told told = subscriber;
  if (told != nullptr && wanted_calls[call.id]) {
    const CallData data{call.over, call.name, call.params, call.result, nullptr, nullptr, 1, call.kept, call.number};
    told(subscribed_with, kDriver, static_cast<uint32_t>(call.id), &data);
  }
  if (!call.over) waited(call);
  number_of_call = call.over ? 0 : call.number;
}

void runtime_called(const char *function, bool over) {
  if (!over) number_of_runtime = ++last_number;
  const Told told = subscriber;
  for (uint32_t at = 0; told != nullptr && at < std::size(runtime_names); ++at) {
    const size_t length = strlen(function);
    if (strncmp(runtime_names[at], function, length) != 0 || runtime_names[at][length] != '_' || !wanted_of_runtime[at]) continue;
    uint64_t kept = 0;
    const CallData data{over, function, nullptr, nullptr, nullptr, nullptr, 1, &kept, number_of_runtime};
    told(subscribed_with, kRuntime, at + 1, &data);
  }
  if (over) number_of_runtime = 0;
}

const fake::Observer observer{given, ran, called, moved, runtime_called};

bool observe() {
  void *driver = dlopen("libcuda.so.1", RTLD_LAZY | RTLD_NOLOAD);
  auto *begin = reinterpret_cast<void (*)(const fake::Observer *)>(dlsym(driver != nullptr ? driver : RTLD_DEFAULT, "fake_cuda_observe"));
  if (begin != nullptr) begin(&observer);
  return begin != nullptr;
}

}  // namespace

CUPTI cuptiGetVersion(uint32_t *version) {
  *version = 28;
  return 0;
}
CUPTI cuptiSubscribe(void **handle, Told told, void *with) {
  if (is("taken") || subscriber.load() != nullptr) return 39;
  // Where one libcupti has served a process, the driver refuses another for good (seen with 13.0 and 12.8).
  const std::string me = std::to_string(reinterpret_cast<uintptr_t>(&mutex));
  const char *served = getenv("FAKE_CUPTI_SERVED");
  if (served != nullptr && me != served) return 39;
  setenv("FAKE_CUPTI_SERVED", me.c_str(), 1);
  subscribed_with = with;
  subscriber = told;
  *handle = &mutex;
  return observe() ? 0 : 999;
}
CUPTI cuptiUnsubscribe(void *) {
  subscriber = nullptr;
  for (auto &one : wanted_of_runtime) one = false;
  for (auto &one : wanted_calls) one = false;
  return 0;
}
CUPTI cuptiEnableCallback(uint32_t on, void *, int domain, uint32_t number) {
  if (domain == kRuntime && number >= 1 && number <= std::size(runtime_names)) {
    wanted_of_runtime[number - 1] = on != 0;
    return 0;
  }
  if (domain != kDriver || number >= std::size(wanted_calls)) return 1;
  wanted_calls[number] = on != 0;
  return 0;
}
CUPTI cuptiEnableDomain(uint32_t on, void *, int domain) {
  if (domain != kDriver) return 1;
  for (auto &one : wanted_calls) one = on != 0;
  return 0;
}
CUPTI cuptiGetCallbackName(int domain, uint32_t number, const char **name) {
  if (domain == kRuntime && number >= 1 && number <= std::size(runtime_names)) {
    *name = runtime_names[number - 1];
    return 0;
  }
  if (domain != kDriver) return 1;
#ifdef WITH_CALLS
  switch (number) {
#define FUNCTION(name_) \
  case CUPTI_DRIVER_TRACE_CBID_##name_: *name = #name_; return 0;
#define FUNCTION_WITHOUT(name_) FUNCTION(name_)
#include "names.h"
    case 900: *name = "cuOfTheFuture"; return 0;
    default: break;
  }
#endif
  return 1;
}
CUPTI cuptiGetTimestamp(uint64_t *now) {
  *now = own(fake::monotonic_ns());
  return 0;
}
CUPTI cuptiActivityRegisterTimestampCallback(uint64_t (*clock)()) {
  if (is("old")) return 14;
  clock_of_caller = clock;
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
  if (kind == 10 && !observe()) return 999;
  return 0;
}
CUPTI cuptiActivityConfigureUnifiedMemoryCounter(ManagedConfig *configs, uint32_t count) {
  std::lock_guard<std::mutex> guard(mutex);
  for (uint32_t i = 0; i < count; ++i) {
    if (configs[i].scope != 1) return 1;
    if (configs[i].enable != 0) counted.insert({configs[i].device, configs[i].kind});
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
