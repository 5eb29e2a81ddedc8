// A stand-in for roctracer's activity records on the fake runtime: pools, records of calls and of work, external correlation,
// flushing. As with the real one a call's external id is told when the call ends, so perhaps after its work; records of work
// have a correlation only where those of calls are wanted too; a graph is told of by its nodes; and the clock cannot be read
// before the runtime is up. FAKE_ROCTRACER=taken: another tool has it; =refusing: no records can be had; =clock: stamps are of
// a clock of its own; =losing: every tenth kernel gets no record.
#include <dlfcn.h>

#include <cstdint>
#include <map>
#include <vector>

#include "../core.h"

#define ROCTRACER extern "C" __attribute__((visibility("default")))

namespace {

struct Record {
  uint32_t domain, kind, op;
  uint64_t correlation, begin, end;
  uint64_t external, queue;
  uint64_t bytes;
};
static_assert(sizeof(Record) == 64, "");

struct Properties {
  uint32_t mode;
  size_t buffer_size;
  void (*allocate)(char **, size_t, void *);
  void *allocate_argument;
  void (*full)(const char *, const char *, void *);
  void *full_argument;
};

struct Pool {
  Properties properties;
  std::mutex mutex;
  std::vector<Record> records;
};

std::mutex &mutex = *new std::mutex;
std::set<std::pair<uint32_t, uint32_t>> &enabled = *new std::set<std::pair<uint32_t, uint32_t>>;
std::vector<std::string> &functions = *new std::vector<std::string>;
std::atomic<Pool *> pool{nullptr};
std::atomic<uint64_t> last_number{0};
thread_local std::vector<uint64_t> external;
thread_local uint64_t call = 0;

bool is(const char *what) {
  const char *text = getenv("FAKE_ROCTRACER");
  return text != nullptr && strcmp(text, what) == 0;
}
uint64_t own(uint64_t monotonic) { return is("clock") ? monotonic + 5'000'000'000'000 : monotonic; }

bool is_enabled(uint32_t domain, uint32_t op) {
  std::lock_guard<std::mutex> guard(mutex);
  return enabled.count({domain, op}) != 0;
}
bool tells_calls() {
  std::lock_guard<std::mutex> guard(mutex);
  const auto first = enabled.lower_bound({3, 0});
  return first != enabled.end() && first->first == 3;
}

void deliver(Pool &to) {
  std::vector<Record> done;
  {
    std::lock_guard<std::mutex> guard(to.mutex);
    done.swap(to.records);
  }
  const auto *begin = reinterpret_cast<const char *>(done.data());
  if (!done.empty()) to.properties.full(begin, begin + done.size() * sizeof(Record), to.properties.full_argument);
}
void add(const Record &record) {
  Pool &to = *pool;
  bool is_full = false;
  {
    std::lock_guard<std::mutex> guard(to.mutex);
    to.records.push_back(record);
    is_full = (to.records.size() + 1) * sizeof(Record) > to.properties.buffer_size;
  }
  if (is_full) deliver(to);
}

uint32_t given(int) {
  const uint64_t number = ++last_number;
  call = tells_calls() ? number : 0;
  return static_cast<uint32_t>(call);
}

void work(uint32_t number, uint32_t op, uint64_t start, uint64_t end) {
  if (is_enabled(2, op)) add({2, 0, op, number, own(start), own(end), 0, 0, 0});
}
void ran(uint32_t number, int kind, uint64_t start, uint64_t end) {
  work(number, 2, start - 1'000'000'000, end);  // a barrier
  if (kind == fake::kGraphKind) {
    const uint64_t middle = start + (end - start) / 2;
    work(number, 0, start, middle);
    work(number, 0, middle, end);
  } else if (kind == fake::kKernelKind) {
    if (!is("losing") || number % 10 != 0) work(number, 0, start, end);
  } else {
    work(number, 1, start, end);
  }
}

const fake::Observer observer{given, ran};

}  // namespace

ROCTRACER void *roctracer_default_pool() { return is("taken") ? &mutex : nullptr; }
ROCTRACER int roctracer_open_pool_expl(const Properties *properties, void **made) {
  pool = new Pool;
  pool.load()->properties = *properties;
  *made = pool;
  return 0;
}
ROCTRACER int roctracer_close_pool_expl(void *) { return 0; }
ROCTRACER int roctracer_op_code(uint32_t domain, const char *name, uint32_t *op, uint32_t *) {
  void *runtime = dlopen("libamdhip64.so.5", RTLD_LAZY | RTLD_NOLOAD);
  if (domain != 3) return -2;
  if (runtime == nullptr || dlsym(runtime, name) == nullptr) return -3;
  functions.push_back(name);
  *op = static_cast<uint32_t>(functions.size());
  return 0;
}
ROCTRACER int roctracer_enable_op_activity_expl(uint32_t domain, uint32_t op, void *) {
  if (is("refusing")) return -1;
  std::lock_guard<std::mutex> guard(mutex);
  enabled.insert({domain, op});
  void *runtime = dlopen("libamdhip64.so.5", RTLD_LAZY | RTLD_NOLOAD);
  auto *observe = reinterpret_cast<void (*)(const fake::Observer *)>(dlsym(runtime, "fake_hip_observe"));
  observe(&observer);
  return 0;
}
ROCTRACER int roctracer_disable_domain_activity(uint32_t) {
  std::lock_guard<std::mutex> guard(mutex);
  enabled.clear();
  return 0;
}
ROCTRACER int roctracer_flush_activity_expl(void *) {
  deliver(*pool);
  return 0;
}
ROCTRACER int roctracer_activity_push_external_correlation_id(uint64_t id) {
  external.push_back(id);
  return 0;
}
ROCTRACER int roctracer_activity_pop_external_correlation_id(uint64_t *last) {
  if (external.empty()) return -7;
  *last = external.back();
  external.pop_back();
  // The call is over.
  if (call != 0) add({5, 0, 1, call, 0, 0, *last, 0, 0});
  call = 0;
  return 0;
}
ROCTRACER int roctracer_get_timestamp(uint64_t *now) {
  static std::atomic<int> asked{0};
  *now = asked++ == 0 ? 0 : own(fake::monotonic_ns());
  return 0;
}
