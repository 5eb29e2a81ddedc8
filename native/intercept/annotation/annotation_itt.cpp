// Intel ITT: the library that INTEL_LIBITTNOTIFY64 names. The part of ITT that is linked into a program hands over the list
// of its functions at its first call; what has no function of ours goes on to do nothing.
#include <dlfcn.h>
#include <pthread.h>

#include <array>
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>
#include <string_view>

#include "annotations.h"

namespace {

using namespace occatrace::annotation;

// ---- of ITT's interface for tools; the program's objects have members for our use ----

struct Domain {
  volatile int flags;
  const char *name;
  void *wide;
  int ours;  // its name, interned
  void *extra;
  Domain *next;
};
struct String {
  const char *text;
  void *wide;
  int ours;
  void *extra;
  String *next;
};
struct Counter {
  const char *name;
  void *wide;
  const char *domain;
  void *wide_domain;
  int type;
  long index;
  int extra;
  void *more;
  Counter *next;
};
struct Id {
  unsigned long long a, b, c;
};
struct Function {
  const char *name;
  void **pointer;
  void *first;  // loads the tool
  void *none;
  int group;
};
struct Global {
  unsigned char magic[8];
  unsigned long major, minor, build;
  volatile long initialized, mutex_initialized, counter;
  pthread_mutex_t mutex;
  void *library, *error_handler;
  const char **paths;
  Function *functions;
};
constexpr unsigned char kMagic[8] = {0xED, 0xAB, 0xAB, 0xEC, 0x0D, 0xEE, 0xDA, 0x30};

// ---- names ----

template <class Object>
uint32_t interned(Object *object, const char *text) {
  int id = __atomic_load_n(&object->ours, __ATOMIC_RELAXED);
  if (id == 0) __atomic_store_n(&object->ours, id = static_cast<int>(occatrace_intern(text ? text : "")), __ATOMIC_RELAXED);
  return static_cast<uint32_t>(id);
}

uint32_t domain_name(const Domain *domain) {
  return domain ? interned(const_cast<Domain *>(domain), domain->name) : 0;
}

Note note(const Domain *domain, String *name) {
  return {OCCATRACE_API_ITT, domain_name(domain), name ? interned(name, name->text) : 0, "", 0, 0, OCCATRACE_PAYLOAD_NONE, 0, nullptr};
}

Note named(const Domain *domain, const char *name) {
  return {OCCATRACE_API_ITT, domain_name(domain), 0, name, 0, 0, OCCATRACE_PAYLOAD_NONE, 0, nullptr};
}

// ---- ranges that the program ends by a key of its own ----

enum Family {
  kTask,
  kFrame,
  kRegion,
  kEvent,
};
using Key = std::array<uint64_t, 5>;
struct State {
  std::mutex lock;
  std::map<Key, uint64_t> open;
  std::map<const void *, double> values;  // of counters that are only added to
  std::map<int, std::string> events;
  // What the program is given for its names, for good.
  std::map<std::string, Domain *> domains;
  std::map<std::string, String *> strings;
  std::map<std::string, Counter *> counters;
};
State *state = new State;

void after_fork_child() {
  // The lock may have been held and a map half changed by a thread that the child does not have: left behind. The objects
  // that the program holds stay where they are.
  state = new State;
}

Key key(Family family, const Domain *domain, const Id *id) {
  return {static_cast<uint64_t>(family), reinterpret_cast<uintptr_t>(domain), id ? id->a : 0, id ? id->b : 0, id ? id->c : 0};
}

void begin_keyed(const Key &k, const Note &n) {
  const uint64_t id = begin(n);
  const std::lock_guard<std::mutex> guard(state->lock);
  const auto [place, fresh] = state->open.emplace(k, id);
  if (!fresh) place->second = id;  // begun twice: the first one never ends
}

void end_keyed(const Key &k) {
  uint64_t id = 0;
  {
    const std::lock_guard<std::mutex> guard(state->lock);
    const auto found = state->open.find(k);
    if (found == state->open.end()) return;
    id = found->second;
    state->open.erase(found);
  }
  end(id);
}

// ---- what the program calls ----

void task_begin(const Domain *domain, Id, Id, String *name) { push(note(domain, name)); }
void task_begin_fn(const Domain *domain, Id, Id, void *) { push(named(domain, "task")); }
void task_end(const Domain *domain) { pop(OCCATRACE_API_ITT, domain_name(domain)); }
void task_begin_overlapped(const Domain *domain, Id id, Id, String *name) {
  begin_keyed(key(kTask, domain, &id), note(domain, name));
}
void task_end_overlapped(const Domain *domain, Id id) { end_keyed(key(kTask, domain, &id)); }
void frame_begin(const Domain *domain, Id *id) { begin_keyed(key(kFrame, domain, id), named(domain, "frame")); }
void frame_end(const Domain *domain, Id *id) { end_keyed(key(kFrame, domain, id)); }
void frame_submit(const Domain *domain, Id *, unsigned long long from, unsigned long long to) {
  span(named(domain, "frame"), to > from ? to - from : 0);
}
void region_begin(const Domain *domain, Id id, Id, String *name) {
  begin_keyed(key(kRegion, domain, &id), note(domain, name));
}
void region_end(const Domain *domain, Id id) { end_keyed(key(kRegion, domain, &id)); }
void marker(const Domain *domain, Id, String *name, int) { mark(note(domain, name)); }
unsigned long long timestamp() { return occatrace_now(); }

int event_create(const char *name, int length) {
  const std::lock_guard<std::mutex> guard(state->lock);
  const int id = static_cast<int>(state->events.size()) + 1;
  state->events[id] = std::string(name ? name : "", name && length > 0 ? strnlen(name, static_cast<size_t>(length)) : 0);
  return id;
}
int event_start(int event) {
  std::string name;
  {
    const std::lock_guard<std::mutex> guard(state->lock);
    name = state->events[event];
  }
  const Id id{static_cast<unsigned long long>(event), 0, 0};
  begin_keyed(key(kEvent, nullptr, &id), named(nullptr, name.c_str()));
  return 0;
}
int event_end(int event) {
  const Id id{static_cast<unsigned long long>(event), 0, 0};
  end_keyed(key(kEvent, nullptr, &id));
  return 0;
}

const char *kept(const char *text) { return strdup(text ? text : ""); }

// oneTBB marks each of its algorithms and tasks, for its own use: several marks for a small loop, and 3 µs each.
bool wanted(std::string_view domain) {
  static const bool tbb = std::getenv("OCCATRACE_TRACE") != nullptr && occatrace_chosen("tbb") != 0;
  return tbb || (domain != "tbb" && domain.substr(0, 4) != "tbb.");
}

// Programs look at `flags` before each call.
Domain *domain_create(const char *name) {
  if (!name) return nullptr;
  const std::lock_guard<std::mutex> guard(state->lock);
  Domain *&domain = state->domains[name];
  if (!domain) domain = new Domain{wanted(name) ? 1 : 0, kept(name), nullptr, 0, nullptr, nullptr};
  return domain;
}
String *string_create(const char *text) {
  if (!text) return nullptr;
  const std::lock_guard<std::mutex> guard(state->lock);
  String *&string = state->strings[text];
  if (!string) string = new String{kept(text), nullptr, 0, nullptr, nullptr};
  return string;
}
Counter *counter_create_typed(const char *name, const char *domain, int type) {
  if (!name) return nullptr;
  const std::lock_guard<std::mutex> guard(state->lock);
  Counter *&counter = state->counters[std::string(domain ? domain : "") + '\0' + name];
  if (!counter) counter = new Counter{kept(name), nullptr, kept(domain), nullptr, type, 0, 0, nullptr, nullptr};
  return counter;
}
Counter *counter_create(const char *name, const char *domain) { return counter_create_typed(name, domain, 1); }

void put(const Counter *c, double value) { counter(occatrace_intern(c->name), 0, value); }

void add(const Counter *c, double delta) {
  if (!c) return;
  double now;
  {
    const std::lock_guard<std::mutex> guard(state->lock);
    now = state->values[c] += delta;
  }
  put(c, now);
}

template <class T>
double read(const void *value) {
  T v;
  memcpy(&v, value, sizeof v);
  return static_cast<double>(v);
}

void counter_set(const Counter *c, const void *value) {
  if (!c || !value) return;
  switch (c->type) {
    case 2: return put(c, read<int64_t>(value));
    case 3: return put(c, read<uint32_t>(value));
    case 4: return put(c, read<int32_t>(value));
    case 5: return put(c, read<uint16_t>(value));
    case 6: return put(c, read<int16_t>(value));
    case 7: return put(c, read<float>(value));
    case 8: return put(c, read<double>(value));
    default: return put(c, read<uint64_t>(value));
  }
}
void counter_inc(const Counter *c) { add(c, 1); }
void counter_dec(const Counter *c) { add(c, -1); }
void counter_inc_delta(const Counter *c, unsigned long long n) { add(c, static_cast<double>(n)); }
void counter_dec_delta(const Counter *c, unsigned long long n) { add(c, -static_cast<double>(n)); }

void pause() { occatrace_set_capture(0); }
void resume() { occatrace_set_capture(1); }

struct Ours {
  std::string_view name;
  void *function;
};
template <class Signature>
Ours ours(std::string_view name, Signature *function) {
  return {name, reinterpret_cast<void *>(function)};
}
const Ours kOurs[] = {
    ours("__itt_domain_create", domain_create),
    ours("__itt_string_handle_create", string_create),
    ours("__itt_counter_create", counter_create),
    ours("__itt_counter_create_typed", counter_create_typed),
    ours("__itt_task_begin", task_begin),
    ours("__itt_task_begin_fn", task_begin_fn),
    ours("__itt_task_end", task_end),
    ours("__itt_task_begin_overlapped", task_begin_overlapped),
    ours("__itt_task_end_overlapped", task_end_overlapped),
    ours("__itt_frame_begin_v3", frame_begin),
    ours("__itt_frame_end_v3", frame_end),
    ours("__itt_frame_submit_v3", frame_submit),
    ours("__itt_region_begin", region_begin),
    ours("__itt_region_end", region_end),
    ours("__itt_marker", marker),
    ours("__itt_get_timestamp", timestamp),
    ours("__itt_event_create", event_create),
    ours("__itt_event_start", event_start),
    ours("__itt_event_end", event_end),
    ours("__itt_counter_set_value", counter_set),
    ours("__itt_counter_inc", counter_inc),
    ours("__itt_counter_dec", counter_dec),
    ours("__itt_counter_inc_delta", counter_inc_delta),
    ours("__itt_counter_dec_delta", counter_dec_delta),
    ours("__itt_pause", pause),
    ours("__itt_resume", resume),
};

// LLVM's OpenMP runtime tells ITT of every region and barrier, as frames. OMPT tells more of them, and they are nobody's marks.
bool is_openmp_runtime(const void *address) {
  Dl_info info;
  if (!dladdr(address, &info) || !info.dli_fname) return false;
  const char *slash = strrchr(info.dli_fname, '/');
  const char *file = slash ? slash + 1 : info.dli_fname;
  return strncmp(file, "libomp", 6) == 0 || strncmp(file, "libiomp", 7) == 0;
}

}  // namespace

extern "C" OCCATRACE_EXPORT void __itt_api_init(Global *global, int) {
  if (!global || memcmp(global->magic, kMagic, sizeof kMagic) != 0 || !global->functions) return;
  const bool traced = !is_openmp_runtime(global) && start();
  static const bool once = traced && (after_fork(after_fork_child), true);
  (void)once;
  for (Function *f = global->functions; f->name; f++) {
    *f->pointer = f->none;
    if (!traced) continue;
    for (const Ours &o : kOurs)
      if (o.name == f->name) *f->pointer = o.function;
  }
}
