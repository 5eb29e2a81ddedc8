// roctracer's activity records: see roctracer.h.
#include "roctracer.h"

#include <dlfcn.h>

#include <cstdint>
#include <string>

#include "../libraries/libraries.h"

namespace occatrace::roctracer {

namespace {

// ---- facts of roctracer's headers, version 4.1 ----

enum Domain : uint32_t {
  kHipOps = 2,
  kHipApi = 3,
  kExternal = 5,
};
constexpr uint32_t kDispatch = 0, kCopy = 1;  // kinds of work; barriers are not asked for
constexpr uint32_t kExternalId = 1;

struct Record {
  uint32_t domain, kind, op;
  uint64_t correlation;
  uint64_t begin, end;  // ns
  union {
    struct {
      int device;
      uint64_t queue;
    } on;
    uint64_t external;
  };
  uint64_t bytes;  // or the kernel's name
};
static_assert(sizeof(Record) == 64, "as the library writes them");

struct Properties {
  uint32_t mode;
  size_t buffer_size;
  void (*allocate)(char **, size_t, void *);
  void *allocate_argument;
  void (*full)(const char *, const char *, void *);
  void *full_argument;
};

struct Functions {
  void *(*default_pool)();
  int (*open_pool)(const Properties *, void **);
  int (*close_pool)(void *);
  int (*op_code)(uint32_t, const char *, uint32_t *, uint32_t *);
  int (*enable)(uint32_t, uint32_t, void *);
  int (*disable)(uint32_t);
  int (*flush)(void *);
  int (*push)(uint64_t);
  int (*pop)(uint64_t *);
  int (*timestamp)(uint64_t *);
};
Functions tracer;
void *pool = nullptr;

bool bind_all(void *library) {
  return bind(library, "roctracer_default_pool", &tracer.default_pool) &&
         bind(library, "roctracer_open_pool_expl", &tracer.open_pool) &&
         bind(library, "roctracer_close_pool_expl", &tracer.close_pool) && bind(library, "roctracer_op_code", &tracer.op_code) &&
         bind(library, "roctracer_enable_op_activity_expl", &tracer.enable) &&
         bind(library, "roctracer_disable_domain_activity", &tracer.disable) &&
         bind(library, "roctracer_flush_activity_expl", &tracer.flush) &&
         bind(library, "roctracer_activity_push_external_correlation_id", &tracer.push) &&
         bind(library, "roctracer_activity_pop_external_correlation_id", &tracer.pop) &&
         bind(library, "roctracer_get_timestamp", &tracer.timestamp);
}

// ---- records ----

constexpr size_t kBuffer = 256 << 10;

void buffer_full(const char *begin, const char *end, void *) {
  const auto *last = reinterpret_cast<const Record *>(end);
  for (const auto *record = reinterpret_cast<const Record *>(begin); record < last; ++record) {
    if (record->domain == kExternal && record->op == kExternalId)
      device::tickets::told_call(record->external, record->correlation);
    if (record->domain == kHipOps) device::tickets::told_work(record->correlation, record->begin, record->end);
  }
}

bool push(uint64_t ticket) { return tracer.push(ticket) == 0; }
void pop() {
  uint64_t last = 0;
  tracer.pop(&last);
}
void flush(bool) { tracer.flush(pool); }
uint64_t stamp() {
  uint64_t now = 0;
  return tracer.timestamp(&now) == 0 ? now : 0;
}
constexpr device::Source records{"roctracer", push, pop, flush, stamp, false};

// ---- start ----

const char *const names[] = {"libroctracer64.so.4", "libroctracer64.so"};

// The program's own, where it has one: then it is its tool's. One that the runtime is told to load is as good as there.
bool is_taken(const char **why) {
  *why = "the program has loaded roctracer itself";
  if (is_loaded(names)) return true;
  *why = "the environment gives the runtime another tool";
  return setting("HSA_TOOLS_LIB") != nullptr || setting("ROCP_TOOL_LIBRARIES") != nullptr;
}

// HIP tells the external id with the record of a call: of the commands' calls records are wanted, and of their work.
bool enable_all(const char *const *commands, const char *const *end) {
  bool some = false;
  for (; commands != end; ++commands) {
    for (const char *variant : {"", "_spt"}) {
      uint32_t op = 0;
      if (tracer.op_code(kHipApi, (std::string(*commands) + variant).c_str(), &op, nullptr) == 0)
        some |= tracer.enable(kHipApi, op, pool) == 0;
    }
  }
  return some && tracer.enable(kHipOps, kDispatch, pool) == 0 && tracer.enable(kHipOps, kCopy, pool) == 0;
}

}  // namespace

const device::Source *start(const char *const *commands, const char *const *end, const char **why) {
  if (is_taken(why)) return nullptr;
  *why = "libroctracer64 was not found";
  bool found = false;
  for (const std::string &path : rocm_candidates("OCCATRACE_ROCTRACER", "", names)) {
    void *library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (library == nullptr) continue;
    *why = "this libroctracer64 lacks functions";
    if ((found = bind_all(library))) break;
  }
  if (!found) return nullptr;
  *why = "another tool has roctracer";
  if (tracer.default_pool() != nullptr) return nullptr;
  *why = "roctracer refuses to record";
  const Properties properties{0, kBuffer, nullptr, nullptr, buffer_full, nullptr};
  if (tracer.open_pool(&properties, &pool) != 0) return nullptr;
  if (enable_all(commands, end)) return &records;
  tracer.disable(kHipApi);
  tracer.disable(kHipOps);
  tracer.close_pool(pool);
  return nullptr;
}

}  // namespace occatrace::roctracer
