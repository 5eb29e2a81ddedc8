// rocprofiler-sdk's records: see rocprofiler.h.
#include "rocprofiler.h"

#include <dlfcn.h>
#include <link.h>
#include <unistd.h>

#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "../libraries/libraries.h"

namespace occatrace::rocprofiler {

namespace {

namespace tickets = device::tickets;

// ---- facts of its headers, the same in versions 0.4 (ROCm 6.2) to 1.0 ----

struct Handle {
  uint64_t handle;
};
struct Header {
  uint32_t category, kind;
  void *record;
};
// What records of kernels and of copies begin with.
struct Record {
  uint64_t size;
  uint32_t kind, operation;
  uint64_t correlation, external;
  uint64_t thread;
  uint64_t start, end;
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
using Configure = Tool *(*)(uint32_t, const char *, uint32_t, Client *);

constexpr uint32_t kTracing = 1;  // a category of records
constexpr int kLossless = 2;
constexpr int kHsa = 1 << 1;  // the library that gives commands to devices

struct Functions {
  int (*is_initialized)(int *);
  int (*force_configure)(Configure);
  int (*create_context)(Handle *);
  int (*start_context)(Handle);
  int (*stop_context)(Handle);
  int (*create_buffer)(Handle, size_t, size_t, int, void (*)(Handle, Handle, Header **, size_t, void *, uint64_t), void *, Handle *);
  int (*flush_buffer)(Handle);
  int (*kind_name)(int, const char **, uint64_t *);
  int (*trace)(Handle, int, const int32_t *, size_t, Handle);
  int (*ask_for_ids)(Handle, const int *, size_t, int (*)(uint64_t, Handle, int, int32_t, uint64_t, uint64_t *, void *), void *);
  int (*at_tables)(void (*)(int, uint64_t, uint64_t, void **, uint64_t, void *), int, void *);
  int (*timestamp)(uint64_t *);
};
Functions sdk;

bool bind_all(void *library) {
  return bind(library, "rocprofiler_is_initialized", &sdk.is_initialized) &&
         bind(library, "rocprofiler_force_configure", &sdk.force_configure) &&
         bind(library, "rocprofiler_create_context", &sdk.create_context) &&
         bind(library, "rocprofiler_start_context", &sdk.start_context) &&
         bind(library, "rocprofiler_stop_context", &sdk.stop_context) &&
         bind(library, "rocprofiler_create_buffer", &sdk.create_buffer) &&
         bind(library, "rocprofiler_flush_buffer", &sdk.flush_buffer) &&
         bind(library, "rocprofiler_query_buffer_tracing_kind_name", &sdk.kind_name) &&
         bind(library, "rocprofiler_configure_buffer_tracing_service", &sdk.trace) &&
         bind(library, "rocprofiler_configure_external_correlation_id_request_service", &sdk.ask_for_ids) &&
         bind(library, "rocprofiler_at_intercept_table_registration", &sdk.at_tables) &&
         bind(library, "rocprofiler_get_timestamp", &sdk.timestamp);
}

Handle context{0};
Handle buffer{0};
int kinds[2];                        // kernels, copies
std::atomic<bool> reported{false};   // the runtime has handed its functions to the library
std::atomic<bool> finalized{false};  // at the end of the process
bool recording = false;
bool taken = false;
const char *reason = "";

// ---- records ----

constexpr size_t kBuffer = 256 << 10;

void buffer_full(Handle, Handle, Header **headers, size_t count, void *, uint64_t dropped) {
  for (size_t at = 0; at < count; ++at) {
    const Header &header = *headers[at];
    if (header.category != kTracing || (header.kind != static_cast<uint32_t>(kinds[0]) && header.kind != static_cast<uint32_t>(kinds[1])))
      continue;
    const auto &record = *static_cast<const Record *>(header.record);
    if (record.size >= sizeof record) tickets::told(record.external, record.start, record.end);
  }
  static std::atomic<uint64_t> said{0};
  if (dropped > said.exchange(dropped))
    occatrace_say("rocprofiler-sdk had no room for %llu records: as many pieces of device work have no times",
                  static_cast<unsigned long long>(dropped));
}

// The library asks for the id on the thread that gives the command, so what is pushed need not go there. (What it keeps itself
// would also reach commands that the runtime's own threads give meanwhile.)
thread_local uint64_t pushed __attribute__((tls_model("initial-exec"))) = 0;
int external_id(uint64_t, Handle, int, int32_t, uint64_t, uint64_t *id, void *) {
  *id = pushed;
  return 0;
}
bool push(uint64_t ticket) {
  pushed = ticket;
  return true;
}
void pop() { pushed = 0; }
void flush(bool) {
  if (!finalized.load(std::memory_order_acquire)) sdk.flush_buffer(buffer);
}
uint64_t stamp() {
  uint64_t now = 0;
  return sdk.timestamp(&now) == 0 ? now : 0;
}
constexpr device::Source records{"rocprofiler-sdk", push, pop, flush, stamp, true};

// ---- as a tool of it ----

void table_registered(int, uint64_t, uint64_t, void **, uint64_t, void *) { reported.store(true, std::memory_order_release); }

// Numbers of kinds are of the version: they are asked for by name.
int kind_of(const char *wanted) {
  constexpr int most = 256;
  for (int kind = 1; kind < most; ++kind) {
    const char *name = nullptr;
    if (sdk.kind_name(kind, &name, nullptr) != 0) return 0;
    if (name != nullptr && std::strcmp(name, wanted) == 0) return kind;
  }
  return 0;
}

int initialize(void (*)(Client), void *) {
  kinds[0] = kind_of("KERNEL_DISPATCH");
  kinds[1] = kind_of("MEMORY_COPY");
  recording = kinds[0] != 0 && kinds[1] != 0 && sdk.create_context(&context) == 0 &&
              sdk.create_buffer(context, kBuffer, kBuffer / 2, kLossless, buffer_full, nullptr, &buffer) == 0 &&
              sdk.trace(context, kinds[0], nullptr, 0, buffer) == 0 && sdk.trace(context, kinds[1], nullptr, 0, buffer) == 0 &&
              sdk.ask_for_ids(context, nullptr, 0, external_id, nullptr) == 0 && sdk.at_tables(table_registered, kHsa, nullptr) == 0 &&
              sdk.start_context(context) == 0;
  return recording ? 0 : -1;
}

void finalize(void *) { finalized.store(true, std::memory_order_release); }

Tool *configure(uint32_t, const char *, uint32_t, Client *client) {
  static Tool tool{sizeof(Tool), initialize, finalize, nullptr};
  client->name = "occatrace";
  return &tool;
}

// ---- start ----

const char *const names[] = {"librocprofiler-sdk.so.1", "librocprofiler-sdk.so.0", "librocprofiler-sdk.so"};

// Tools are found by this function of theirs, in whatever is loaded. (Opened only when the list is complete: in the walk the
// loader's locks would be taken in another order than by who loads a library meanwhile.)
bool has_tool() {
  constexpr const char *mark = "rocprofiler_configure";
  if (dlsym(RTLD_DEFAULT, mark) != nullptr) return true;
  std::vector<std::string> paths;
  dl_iterate_phdr(
      [](dl_phdr_info *info, size_t, void *all) {
        if (info->dlpi_name[0] != '\0') static_cast<std::vector<std::string> *>(all)->emplace_back(info->dlpi_name);
        return 0;
      },
      &paths);
  for (const std::string &path : paths) {
    void *library = dlopen(path.c_str(), RTLD_LAZY | RTLD_NOLOAD);
    if (library == nullptr) continue;
    const bool found = dlsym(library, mark) != nullptr;
    dlclose(library);
    if (found) return true;
  }
  return false;
}

bool left_to(const char *whom) {
  reason = whom;
  taken = true;
  return true;
}
// The program's own, where it has one: then it is its tool's.
bool is_theirs() {
  if (setting("ROCP_TOOL_LIBRARIES") != nullptr) return left_to("the environment gives the runtime another tool");
  if (is_loaded(names)) return left_to("the program has loaded rocprofiler-sdk itself");
  return has_tool() && left_to("the program has a tool of rocprofiler-sdk's");
}

std::string folder_of(const void *function) {
  Dl_info info;
  if (dladdr(function, &info) == 0 || info.dli_fname == nullptr) return {};
  const std::string path = info.dli_fname;
  return path.substr(0, path.rfind('/') + 1);
}

}  // namespace

void prepare(const void *hip) {
  // Where nothing is to be timed the program need not load a library.
  reason = "there is no AMD device";
  if (setting("OCCATRACE_ROCPROFILER") == nullptr && access("/dev/kfd", F_OK) != 0) return;
  if (is_theirs()) return;
  reason = "librocprofiler-sdk was not found";
  for (const std::string &path : rocm_candidates("OCCATRACE_ROCPROFILER", folder_of(hip), names)) {
    // The runtime looks for its functions among everybody's.
    void *library = dlopen(path.c_str(), RTLD_NOW | RTLD_GLOBAL);
    if (library == nullptr) continue;
    reason = "this librocprofiler-sdk lacks functions";
    if (!bind_all(library)) continue;
    reason = "rocprofiler-sdk refuses to record";
    int status = 0;
    if (sdk.is_initialized(&status) != 0 || status != 0 || sdk.force_configure(configure) != 0)
      left_to("another tool has rocprofiler-sdk");
    return;
  }
}

const device::Source *start(const char **why) {
  *why = reason;
  if (!recording) return nullptr;
  if (reported.load(std::memory_order_acquire)) return &records;
  sdk.stop_context(context);
  *why = "the HIP runtime does not report to rocprofiler-sdk";
  return nullptr;
}

bool is_taken() { return taken; }

}  // namespace occatrace::rocprofiler
