// A stand-in for rocprofiler-sdk on the fake runtime: tools by rocprofiler_force_configure, contexts, buffers, records of kernels
// and copies whose structures begin with their size, ids that the tool is asked for on the thread that gives a command, and the
// runtime's tables, which are registered when it is initialized after the library. As with the real one copies and graphs are
// told of by the pieces that reach the device, fills are kernels, and stamps are of CLOCK_BOOTTIME.
// FAKE_ROCPROFILER=taken: another tool has it; =refusing: no records can be had; =late: the runtime was initialized before; =clock:
// stamps are of a clock of its own; =losing: every tenth kernel gets no record.
#include <dlfcn.h>

#include <cstdint>
#include <map>
#include <vector>

#include "../core.h"

#define ROCPROFILER extern "C" __attribute__((visibility("default")))

namespace {

struct Id {
  uint64_t handle;
};
struct Client {
  size_t size;
  const char *name;
  uint32_t handle;
};
struct Tool {
  size_t size;
  int (*initialize)(void (*)(Client), void *);
  void (*finalize)(void *);
  void *data;
};
struct Header {
  uint32_t category, kind;
  void *payload;
};
struct Begin {
  uint64_t size;
  uint32_t kind, operation;
  uint64_t internal, external;
  uint64_t thread, start, end;
};
struct CopyRecord {
  Begin begin;
  uint64_t to_agent, from_agent, bytes;
};
struct KernelRecord {
  Begin begin;
  uint64_t dispatch_size, agent, queue, kernel, dispatch;
  uint32_t segments[2], workgroup[3], grid[3];
  char room[56];
};
union Record {
  CopyRecord copy;
  KernelRecord kernel;
};

enum Kind : int { kCopies = 10, kKernels = 11 };
const char *const kind_names[] = {"NONE",           "HSA_CORE_API",     "HSA_AMD_EXT_API",    "HSA_IMAGE_EXT_API",
                                  "HSA_FINALIZE_EXT_API", "HIP_RUNTIME_API", "HIP_COMPILER_API", "MARKER_CORE_API",
                                  "MARKER_CONTROL_API", "MARKER_NAME_API", "MEMORY_COPY",        "KERNEL_DISPATCH"};

using OnRecords = void (*)(Id, Id, Header **, size_t, void *, uint64_t);
using OnTable = void (*)(int, uint64_t, uint64_t, void **, uint64_t, void *);
using AskForId = int (*)(uint64_t, Id, int, int32_t, uint64_t, uint64_t *, void *);

struct State {
  std::mutex mutex;
  int status = 0;
  Tool *tool = nullptr;
  OnRecords on_records = nullptr;
  OnTable on_table = nullptr;
  AskForId ask = nullptr;
  size_t size = 0;
  std::set<int> traced;
  bool started = false;
  std::vector<Record> records;
  std::map<uint32_t, uint64_t> external;
  std::mutex delivering;
};
State &state = *new State;
std::atomic<uint32_t> last_number{0};

bool is(const char *what) {
  const char *text = getenv("FAKE_ROCPROFILER");
  return text != nullptr && strcmp(text, what) == 0;
}

uint64_t boot_ns() {
  timespec t;
  clock_gettime(CLOCK_BOOTTIME, &t);
  return static_cast<uint64_t>(t.tv_sec) * 1000000000u + static_cast<uint64_t>(t.tv_nsec);
}
uint64_t own(uint64_t monotonic) {
  static const uint64_t apart = is("clock") ? 5'000'000'000'000 : boot_ns() - fake::monotonic_ns();
  return monotonic + apart;
}

void deliver() {
  std::lock_guard<std::mutex> one(state.delivering);
  std::vector<Record> done;
  {
    std::lock_guard<std::mutex> guard(state.mutex);
    done.swap(state.records);
  }
  if (done.empty()) return;
  std::vector<Header> headers;
  std::vector<Header *> at;
  for (Record &record : done) headers.push_back({1, record.copy.begin.kind, &record});
  for (Header &header : headers) at.push_back(&header);
  state.on_records({1}, {1}, at.data(), at.size(), nullptr, 0);
}

void add(Kind kind, uint32_t number, uint64_t external, uint64_t start, uint64_t end) {
  bool is_full = false;
  {
    std::lock_guard<std::mutex> guard(state.mutex);
    if (!state.started || state.traced.count(kind) == 0) return;
    Record record = {};
    const uint64_t size = kind == kKernels ? sizeof(KernelRecord) : sizeof(CopyRecord);
    record.copy.begin = {size, static_cast<uint32_t>(kind), 2, number, external, 0, own(start), own(end)};
    if (kind == kKernels) record.kernel.dispatch_size = sizeof(KernelRecord) - offsetof(KernelRecord, dispatch_size);
    state.records.push_back(record);
    is_full = state.records.size() * sizeof(Record) > state.size;
  }
  if (is_full) deliver();
}

uint32_t given(int) {
  const uint32_t number = ++last_number;
  uint64_t external = 0;
  if (state.ask != nullptr) state.ask(0, {1}, 11, 0, number, &external, nullptr);
  std::lock_guard<std::mutex> guard(state.mutex);
  state.external[number] = external;
  return number;
}

void ran(uint32_t number, int kind, uint64_t start, uint64_t end) {
  uint64_t external = 0;
  {
    std::lock_guard<std::mutex> guard(state.mutex);
    external = state.external[number];
    state.external.erase(number);
  }
  const uint64_t middle = start + (end - start) / 2;
  if (kind == fake::kKernelKind) {
    if (!is("losing") || number % 10 != 0) add(kKernels, number, external, start, end);
    return;
  }
  const Kind as = kind == fake::kCopyKind ? kCopies : kKernels;
  add(as, number, external, start, middle);
  add(as, number, external, middle, end);
}

const fake::Observer observer{given, ran};

void runtime_starts() {
  void *tables[1] = {nullptr};
  if (state.on_table != nullptr) state.on_table(1, 10000, 0, tables, 1, nullptr);
}

}  // namespace

ROCPROFILER int rocprofiler_is_initialized(int *status) {
  *status = is("taken") ? 1 : state.status;
  return 0;
}
ROCPROFILER int rocprofiler_force_configure(Tool *(*configure)(uint32_t, const char *, uint32_t, Client *)) {
  if (is("taken") || state.status != 0) return 16;
  state.status = -1;
  Client client{sizeof client, nullptr, 1};
  Tool *tool = configure(10000, "1.0.0", 0, &client);
  if (client.name != nullptr && tool != nullptr && tool->size == sizeof(Tool) && tool->initialize(nullptr, tool->data) == 0) {
    state.tool = tool;
    atexit([] { state.tool->finalize(state.tool->data); });
    void *runtime = dlopen("libamdhip64.so.5", RTLD_LAZY | RTLD_NOLOAD);
    reinterpret_cast<void (*)(const fake::Observer *)>(dlsym(runtime, "fake_hip_observe"))(&observer);
    if (!is("late")) reinterpret_cast<void (*)(void (*)())>(dlsym(runtime, "fake_hip_at_start"))(runtime_starts);
  }
  state.status = 1;
  return 0;
}
ROCPROFILER int rocprofiler_create_context(Id *context) {
  if (context->handle != 0) return 13;
  context->handle = 1;
  return 0;
}
ROCPROFILER int rocprofiler_start_context(Id context) {
  state.started = context.handle == 1;
  return state.started ? 0 : 2;
}
ROCPROFILER int rocprofiler_stop_context(Id) {
  state.started = false;
  return 0;
}
ROCPROFILER int rocprofiler_create_buffer(Id, size_t size, size_t watermark, int, OnRecords on_records, void *, Id *buffer) {
  state.size = watermark == 0 ? size : watermark;
  state.on_records = on_records;
  buffer->handle = 1;
  return 0;
}
ROCPROFILER int rocprofiler_flush_buffer(Id buffer) {
  if (buffer.handle != 1) return 3;
  deliver();
  return 0;
}
ROCPROFILER int rocprofiler_query_buffer_tracing_kind_name(int kind, const char **name, uint64_t *) {
  if (kind < 0 || kind >= static_cast<int>(std::size(kind_names))) return 4;
  *name = kind_names[kind];
  return 0;
}
ROCPROFILER int rocprofiler_configure_buffer_tracing_service(Id context, int kind, const int32_t *, size_t, Id buffer) {
  if (is("refusing") || state.status > 0) return 16;
  if (context.handle != 1 || buffer.handle != 1) return 2;
  return state.traced.insert(kind).second ? 0 : 15;
}
ROCPROFILER int rocprofiler_configure_external_correlation_id_request_service(Id, const int *, size_t, AskForId ask, void *) {
  if (state.status > 0) return 16;
  state.ask = ask;
  return 0;
}
ROCPROFILER int rocprofiler_at_intercept_table_registration(OnTable callback, int libraries, void *) {
  if (state.status > 0) return 16;
  if (libraries & 2) state.on_table = callback;
  return 0;
}
ROCPROFILER int rocprofiler_get_timestamp(uint64_t *now) {
  *now = own(fake::monotonic_ns());
  return 0;
}
