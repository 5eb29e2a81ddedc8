// SYCL by XPTI, the tracing interface of DPC++'s runtime: the runtime's framework loads the library that XPTI_SUBSCRIBERS names,
// this one, and tells it of each stream of events. Nothing is linked: the framework is the one that called.
#include <dlfcn.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <new>
#include <unordered_map>
#include <utility>

#include "occatrace_core.h"
#include "sycl_events.h"

namespace {

// ---- of XPTI's interface (version 1 of the framework) what is used here ----

namespace xpti {
struct Payload {  // the beginning of it
  const char *name, *stack, *file;
  uint32_t line, column;
};
struct Event {  // likewise
  uint64_t id, data_id, instance;
  uint16_t event_type, activity_type;
  uint32_t unused;
  uint64_t source, target;  // of an edge
};
enum Point : uint16_t {
  NodeCreate = 2 << 1,
  EdgeCreate = 3 << 1,
  TaskBegin = 5 << 1,
  TaskEnd = TaskBegin | 1,
  Signal = 8 << 1,
  WaitBegin = 11 << 1,
  WaitEnd = WaitBegin | 1,
  AllocBegin = 16 << 1,
  AllocEnd = AllocBegin | 1,
  ReleaseBegin = 17 << 1,
  ReleaseEnd = ReleaseBegin | 1,
};
using Callback = void (*)(uint16_t point, Event *parent, Event *event, uint64_t instance, const void *data);
uint8_t (*register_stream)(const char *name);
int32_t (*register_callback)(uint8_t stream, uint16_t point, Callback callback);
const Payload *(*query_payload)(Event *event);
int32_t (*stashed)(char **key, uint64_t *value);  // absent in older frameworks
}  // namespace xpti

static_assert(OCCATRACE_SYCL_submit == 0 && OCCATRACE_SYCL_malloc == 1 && OCCATRACE_SYCL_free == 2 && OCCATRACE_SYCL_wait == 3);

// ---- state ----

const occatrace_sycl_events *events;
uint8_t levels[OCCATRACE_SYCL_COUNT];
uint32_t first_tally;

// What is known of the commands that the program has submitted. Ids and events are used again: the last one counts.
struct Command {
  uint64_t number, created, queue;
};
constexpr size_t kMost = 1 << 16;
struct Known {
  std::mutex lock;
  std::unordered_map<uint64_t, Command> commands;           // by the id of their node
  std::unordered_map<const void *, uint64_t> producers;     // number of the command that signals an event
};
Known *known;

// What began in this thread and has not ended.
struct Open {
  uint8_t function, level;
  uint32_t seq;
  uint64_t begin, number;  // ns, or ticks of what is only counted
  uint64_t caller;
};
constexpr uint32_t kDeepest = 16;
thread_local Open open_calls[kDeepest];
thread_local uint32_t depth;

// ---- what a call is ----

struct Place {
  uint32_t function, file, line;
};

bool is(const char *text, const char *prefix) { return std::strncmp(text, prefix, std::strlen(prefix)) == 0; }

// The runtime calls kernels by what the compiler says of their type.
uint32_t name_of(const char *text) {
  constexpr char kType[] = "typeinfo name for ";
  return text == nullptr ? 0 : occatrace_intern(is(text, kType) ? text + sizeof kType - 1 : text);
}

Place place_of(const xpti::Payload *payload) {
  if (payload == nullptr || payload->file == nullptr || payload->file[0] == '\0' || payload->file[0] == '<') return {};
  return {name_of(payload->name), occatrace_intern(payload->file), payload->line == UINT32_MAX ? 0 : payload->line};
}

uint64_t queue_now() {
  char *key = nullptr;
  uint64_t value = 0;
  if (xpti::stashed == nullptr || xpti::stashed(&key, &value) != 0 || key == nullptr) return 0;
  return std::strcmp(key, "queue_id") == 0 ? value : 0;
}

// Operations of queues without a handler come with their name, a constant of the runtime; what others come with is not text.
const char *operation_of(const void *data) {
  Dl_info info;
  if (data == nullptr || dladdr(data, &info) == 0) return nullptr;
  const auto *text = static_cast<const char *>(data);
  const char *last = std::strrchr(text, ':');  // "memory_transfer_node::memset"
  return last != nullptr ? last + 1 : text;
}

// ---- calls ----

template <class Written>
Written event_of(const Open &open) {
  occatrace_thread *self = occatrace_self();
  Written e{};
  e.tid = self->tid;
  e.seq = open.seq;
  e.start = open.begin;
  e.caller = open.caller;
  static_assert(OCCATRACE_SYCL_OPERATION_SUBMIT == OCCATRACE_SYCL_submit + 1 && OCCATRACE_SYCL_OPERATION_MALLOC == OCCATRACE_SYCL_malloc + 1 &&
                OCCATRACE_SYCL_OPERATION_FREE == OCCATRACE_SYCL_free + 1 && OCCATRACE_SYCL_OPERATION_WAIT == OCCATRACE_SYCL_wait + 1);
  e.operation = static_cast<uint8_t>(open.function + 1);
  return e;
}

// Calls from here on that an exception has left: they have ended, nobody said when.
void leave(uint32_t from) {
  for (; depth > from; --depth) {
    const Open &open = open_calls[depth - 1];
    if (open.level != OCCATRACE_EVENT) continue;
    switch (open.function) {
      case OCCATRACE_SYCL_submit: {
        auto e = event_of<occatrace_sycl_submit>(open);
        e.command = open.number;
        e.last = OCCATRACE_NO_RUN;
        events->submit(&e);
        break;
      }
      case OCCATRACE_SYCL_malloc: {
        const auto e = event_of<occatrace_sycl_malloc>(open);
        events->malloc(&e);
        break;
      }
      case OCCATRACE_SYCL_free: {
        const auto e = event_of<occatrace_sycl_free>(open);
        events->free(&e);
        break;
      }
      default: {
        const auto e = event_of<occatrace_sycl_wait>(open);
        events->wait(&e);
      }
    }
  }
}

// `from` is where the runtime goes on, `slot` where on the stack that is: the program lies above the runtime's frames.
void begin(uint8_t function, uint64_t number, const void *from, const void *slot) {
  if (depth >= kDeepest) leave(0);  // nothing nests so deep
  Open &open = open_calls[depth++];
  open = {function, occatrace_level_now(levels[function]), OCCATRACE_NO_RUN, 0, number, 0};
  if (open.level == OCCATRACE_OFF) return;
  if (open.level == OCCATRACE_EVENT) {
    occatrace_thread *self = occatrace_self();
    open.caller = self->call_frame != 0 ? self->caller
                                        : occatrace_site_at(self, reinterpret_cast<uintptr_t>(from), reinterpret_cast<uintptr_t>(slot));
    open.begin = occatrace_now();
    open.seq = occatrace_next_seq(self);
    const occatrace_sycl_begin record{self->tid, occatrace_next_seq(self), open.seq};
    using Write = void (*)(const occatrace_sycl_begin *);
    const Write write[] = {events->submit_begin, events->malloc_begin, events->free_begin, events->wait_begin};
    write[function](&record);
  } else {
    open.begin = occatrace_ticks();
  }
}

// The call that ends here, if it is an event.
const Open *end(uint8_t function, uint64_t number) {
  uint32_t at = depth;
  while (at > 0 && (open_calls[at - 1].function != function || open_calls[at - 1].number != number)) --at;
  if (at == 0) return nullptr;
  leave(at);
  const Open &open = open_calls[--depth];
  if (open.level == OCCATRACE_OFF) return nullptr;
  if (open.level == OCCATRACE_EVENT) return &open;
  occatrace_tally_add(occatrace_self(), first_tally + function, occatrace_ticks() - open.begin, 0);
  return nullptr;
}

template <class Written, class Write>
void write_place(uint8_t function, xpti::Event *event, uint64_t instance, Write write) {
  const Open *open = end(function, instance);
  if (open == nullptr) return;
  auto e = event_of<Written>(*open);
  const Place place = place_of(xpti::query_payload(event));
  e.function = place.function;
  e.file = place.file;
  e.line = place.line;
  write(&e);
}

// ---- XPTI's events ----

// The return address of a callback lies above its frame.
#define RETURN_AND_SLOT __builtin_return_address(0), static_cast<void **>(__builtin_frame_address(0)) + 1

template <class Map>
void bound(Map &map) {
  if (map.size() > kMost) map.clear();
}

void created(uint16_t, xpti::Event *, xpti::Event *event, uint64_t instance, const void *) {
  const int saved = errno;
  const xpti::Payload *payload = xpti::query_payload(event);
  const bool stands_for_event = payload != nullptr && payload->name != nullptr && is(payload->name, "virtual_node[");
  const std::lock_guard<std::mutex> guard(known->lock);
  bound(known->commands);
  Command &command = known->commands[event->id];
  command = {instance, occatrace_now(), queue_now()};
  if (stands_for_event) {
    // Of the command that signals it: "virtual_node[address]".
    char *rest = nullptr;
    const uint64_t address = std::strtoull(payload->name + sizeof "virtual_node[" - 1, &rest, 16);
    const auto producer = known->producers.find(reinterpret_cast<const void *>(address));
    command.number = producer == known->producers.end() ? 0 : producer->second;
  }
  errno = saved;
}

void depends(uint16_t, xpti::Event *, xpti::Event *event, uint64_t, const void *) {
  if (!occatrace_capturing() || levels[OCCATRACE_SYCL_submit] != OCCATRACE_EVENT) return;
  const int saved = errno;
  Command from{}, to{};
  {
    const std::lock_guard<std::mutex> guard(known->lock);
    if (const auto found = known->commands.find(event->source); found != known->commands.end()) from = found->second;
    if (const auto found = known->commands.find(event->target); found != known->commands.end()) to = found->second;
  }
  if (from.number != 0 && to.number != 0) {
    occatrace_thread *self = occatrace_self();
    const occatrace_sycl_dependency record{self->tid, occatrace_next_seq(self), to.number, from.number};
    events->dependency(&record);
  }
  errno = saved;
}

void signalled(uint16_t, xpti::Event *, xpti::Event *, uint64_t instance, const void *data) {
  if (data == nullptr) return;
  const int saved = errno;
  const std::lock_guard<std::mutex> guard(known->lock);
  bound(known->producers);
  known->producers[data] = instance;
  errno = saved;
}

void task_begins(uint16_t, xpti::Event *, xpti::Event *, uint64_t instance, const void *) {
  const int saved = errno;
  begin(OCCATRACE_SYCL_submit, instance, RETURN_AND_SLOT);
  errno = saved;
}

void task_ends(uint16_t, xpti::Event *, xpti::Event *event, uint64_t instance, const void *data) {
  const int saved = errno;
  if (const Open *open = end(OCCATRACE_SYCL_submit, instance)) {
    auto e = event_of<occatrace_sycl_submit>(*open);
    const xpti::Payload *payload = xpti::query_payload(event);
    const Place place = place_of(payload);
    const char *operation = operation_of(data);
    e.command = instance;
    e.last = occatrace_self()->next_seq - 1;
    e.name = operation != nullptr ? occatrace_intern(operation) : payload != nullptr ? name_of(payload->name)
                                                                                     : 0;
    e.function = operation != nullptr ? place.function : 0;
    e.file = place.file;
    e.line = place.line;
    {
      const std::lock_guard<std::mutex> guard(known->lock);
      const auto found = known->commands.find(event->id);
      if (found != known->commands.end()) {
        // An operation without a handler makes its node and begins at once; their numbers differ.
        e.queue = found->second.queue;
        e.created = found->second.created;
        if (operation != nullptr) found->second.number = instance;
      }
    }
    events->submit(&e);
  }
  errno = saved;
}

template <uint8_t Function>
void begins(uint16_t, xpti::Event *, xpti::Event *, uint64_t instance, const void *) {
  const int saved = errno;
  begin(Function, instance, RETURN_AND_SLOT);
  errno = saved;
}

void alloc_ends(uint16_t, xpti::Event *, xpti::Event *event, uint64_t instance, const void *) {
  const int saved = errno;
  write_place<occatrace_sycl_malloc>(OCCATRACE_SYCL_malloc, event, instance, [](const auto *e) { events->malloc(e); });
  errno = saved;
}

void release_ends(uint16_t, xpti::Event *, xpti::Event *event, uint64_t instance, const void *) {
  const int saved = errno;
  write_place<occatrace_sycl_free>(OCCATRACE_SYCL_free, event, instance, [](const auto *e) { events->free(e); });
  errno = saved;
}

void wait_ends(uint16_t, xpti::Event *, xpti::Event *event, uint64_t instance, const void *) {
  const int saved = errno;
  write_place<occatrace_sycl_wait>(OCCATRACE_SYCL_wait, event, instance, [](const auto *e) { events->wait(e); });
  errno = saved;
}

// ---- start ----

// The threads that may have held the lock are not in the child.
void after_fork_child() { known = new Known; }

// At the end the call that the thread is in is seen not to return by its begin; others would be missing.
void harvest(int final) {
  if (final == 0 || depth == 0) return;
  const Open &last = open_calls[depth - 1];
  const bool in_it = last.level == OCCATRACE_EVENT && occatrace_self()->next_seq == last.seq + 2;
  if (in_it) open_calls[0] = std::exchange(open_calls[depth - 1], open_calls[0]);
  leave(in_it ? 1 : 0);
}

occatrace_backend backend{"sycl", harvest, after_fork_child, nullptr};

template <class Function>
bool find(void *framework, const char *name, Function &function) {
  function = reinterpret_cast<Function>(dlsym(framework, name));
  return function != nullptr;
}

bool start_once(const void *caller) {
  Dl_info info;
  if (dladdr(caller, &info) == 0 || info.dli_fname == nullptr) return false;
  void *framework = dlopen(info.dli_fname, RTLD_LAZY | RTLD_NOLOAD);
  if (framework == nullptr) return false;
  find(framework, "xptiGetStashedTuple", xpti::stashed);
  if (!find(framework, "xptiRegisterStream", xpti::register_stream) || !find(framework, "xptiRegisterCallback", xpti::register_callback) ||
      !find(framework, "xptiQueryPayload", xpti::query_payload)) {
    occatrace_say("this SYCL runtime's XPTI lacks functions that tracing needs; SYCL is not traced, what it calls is");
    return false;
  }
  const auto *provider = static_cast<const occatrace_sycl_events *>(occatrace_load_provider("sycl"));
  if (provider == nullptr) return false;
  static constexpr uint8_t by_mode[][4] = OCCATRACE_SYCL_LEVELS;
  static constexpr const char *names[] = OCCATRACE_SYCL_NAMES;
  occatrace_levels("sycl", levels, by_mode, names, OCCATRACE_SYCL_COUNT);
  first_tally = occatrace_register_functions("sycl", names, OCCATRACE_SYCL_COUNT);
  known = new Known;
  events = provider;
  occatrace_backend_register(&backend);
  return true;
}

}  // namespace

extern "C" {

// The framework calls it once for each stream that the runtime opens.
OCCATRACE_EXPORT void xptiTraceInit(unsigned, unsigned, const char *, const char *stream) {
  const bool commands = std::strcmp(stream, "sycl") == 0, memory = std::strcmp(stream, "sycl.experimental.mem_alloc") == 0;
  if ((!commands && !memory) || !occatrace_capture_wanted()) return;
  const int saved = errno;
  static const bool started = start_once(__builtin_return_address(0));
  if (started) {
    const uint8_t id = xpti::register_stream(stream);
    const auto want = [id](uint16_t point, xpti::Callback callback) { xpti::register_callback(id, point, callback); };
    if (commands) {
      // What is only counted needs none of these.
      if (levels[OCCATRACE_SYCL_submit] == OCCATRACE_EVENT) {
        want(xpti::NodeCreate, created);
        want(xpti::EdgeCreate, depends);
        want(xpti::Signal, signalled);
      }
      want(xpti::TaskBegin, task_begins);
      want(xpti::TaskEnd, task_ends);
      want(xpti::WaitBegin, begins<OCCATRACE_SYCL_wait>);
      want(xpti::WaitEnd, wait_ends);
    } else {
      want(xpti::AllocBegin, begins<OCCATRACE_SYCL_malloc>);
      want(xpti::AllocEnd, alloc_ends);
      want(xpti::ReleaseBegin, begins<OCCATRACE_SYCL_free>);
      want(xpti::ReleaseEnd, release_ends);
    }
  }
  errno = saved;
}

OCCATRACE_EXPORT void xptiTraceFinish(const char *) {}

}  // extern "C"
