// NVTX: the library that NVTX_INJECTION64_PATH names. Each copy of NVTX in a process (it is a header) asks at its first call
// for its functions to be filled in; what is not filled in does nothing, as without a tool.
#include <cwchar>
#include <map>
#include <mutex>

#include "annotations.h"

namespace {

using namespace occatrace::annotation;

// ---- of NVTX's interface for tools: table 1 holds a function that gives the slots of a module ----

using Slot = void (*)();
struct Callbacks {
  size_t size;
  int (*module)(int module, Slot **(*slots), unsigned *count);
};
using ExportTable = const void *(*)(uint32_t table);
constexpr uint32_t kCallbacks = 1;
enum Module {
  kCore = 1,
  kCore2 = 5,
};

struct Attributes {
  uint16_t version, size;
  uint32_t category;
  int32_t color_type;
  uint32_t color;
  int32_t payload_type;
  int32_t reserved;
  union {
    uint64_t u64;
    int64_t i64;
    double f64;
    uint32_t u32;
    int32_t i32;
    float f32;
  } payload;
  int32_t message_type;
  union {
    const char *ascii;
    const wchar_t *wide;
    const void *registered;
  } message;
};
enum Message {
  kAscii = 1,
  kWide = 2,
  kRegistered = 3,
};

// ---- domains ----

struct Domain {
  uint32_t name = 0;                        // interned
  std::map<uint32_t, uint32_t> categories;  // names, interned
};

// Leaked, as programs annotate to the end.
struct State {
  std::mutex lock;
  Domain standard;
  std::map<std::string, Domain *> domains;
};
State *state = new State;

void after_fork_child() {
  // Another thread may have been at it: domains keep their handles, which are in the program's hands.
  new (&state->lock) std::mutex;
}

Domain &domain_of(void *handle) { return handle ? *static_cast<Domain *>(handle) : state->standard; }

uint32_t category_name(Domain &domain, uint32_t category) {
  const std::lock_guard<std::mutex> guard(state->lock);
  uint32_t &name = domain.categories[category];
  if (!name) name = occatrace_intern(std::to_string(category).c_str());
  return name;
}

void name_category(void *handle, uint32_t category, const char *name) {
  const uint32_t id = occatrace_intern(name ? name : "");
  const std::lock_guard<std::mutex> guard(state->lock);
  domain_of(handle).categories[category] = id;
}

// ---- notes ----

Note plain(const char *text) { return {OCCATRACE_API_NVTX, 0, 0, text, 0, 0, OCCATRACE_PAYLOAD_NONE, 0, nullptr}; }

uint64_t bits(double value) {
  uint64_t out;
  __builtin_memcpy(&out, &value, sizeof out);
  return out;
}

// A note of the program's attributes; `wide` keeps a converted text.
Note note_of(void *handle, const Attributes *a, std::string &wide) {
  Domain &domain = domain_of(handle);
  Note note{OCCATRACE_API_NVTX, domain.name, 0, nullptr, 0, 0, OCCATRACE_PAYLOAD_NONE, 0, nullptr};
  if (!a || a->size < offsetof(Attributes, message)) return note;
  if (a->message_type == kAscii) {
    note.text = a->message.ascii;
  } else if (a->message_type == kWide) {
    wide = narrow(a->message.wide);
    note.text = wide.c_str();
  } else if (a->message_type == kRegistered) {
    note.name = static_cast<uint32_t>(reinterpret_cast<uintptr_t>(a->message.registered));
  }
  if (a->category) note.category = category_name(domain, a->category);
  if (a->color_type == 1) note.color = a->color;
  switch (a->payload_type) {
    case 1: note.payload_type = OCCATRACE_PAYLOAD_U64, note.payload = a->payload.u64; break;
    case 2: note.payload_type = OCCATRACE_PAYLOAD_I64, note.payload = a->payload.u64; break;
    case 3: note.payload_type = OCCATRACE_PAYLOAD_F64, note.payload = a->payload.u64; break;
    case 4: note.payload_type = OCCATRACE_PAYLOAD_U64, note.payload = a->payload.u32; break;
    case 5: note.payload_type = OCCATRACE_PAYLOAD_I64, note.payload = static_cast<uint64_t>(int64_t{a->payload.i32}); break;
    case 6: note.payload_type = OCCATRACE_PAYLOAD_F64, note.payload = bits(a->payload.f32); break;
    default: break; /* none, or a schema of the payload extension */
  }
  return note;
}

// ---- what the program calls ----

void mark_ex(void *domain, const Attributes *a) {
  std::string wide;
  mark(note_of(domain, a, wide));
}
uint64_t start_ex(void *domain, const Attributes *a) {
  std::string wide;
  return begin(note_of(domain, a, wide));
}
int push_ex(void *domain, const Attributes *a) {
  std::string wide;
  return push(note_of(domain, a, wide));
}
int pop_of(void *domain) { return pop(OCCATRACE_API_NVTX, domain_of(domain).name); }
void end_of(void *, uint64_t id) { end(id); }

void *create_domain(const char *name) {
  const std::string key = name ? name : "";
  const uint32_t id = occatrace_intern(key.c_str());
  const std::lock_guard<std::mutex> guard(state->lock);
  Domain *&domain = state->domains[key];
  if (!domain) {
    domain = new Domain;
    domain->name = id;
  }
  return domain;
}

void *register_string(void *, const char *text) {
  return reinterpret_cast<void *>(static_cast<uintptr_t>(occatrace_intern(text ? text : "")));
}

template <class Function>
Slot slot(Function *function) {
  return reinterpret_cast<Slot>(function);
}

void fill(const Callbacks &callbacks, Module module, std::initializer_list<std::pair<unsigned, Slot>> functions) {
  Slot **slots = nullptr;
  unsigned count = 0;
  if (!callbacks.module(module, &slots, &count) || !slots) return;
  for (const auto &[index, function] : functions)
    if (index < count && slots[index]) *slots[index] = function;
}

}  // namespace

extern "C" OCCATRACE_EXPORT int InitializeInjectionNvtx2(ExportTable table) {
  const auto *callbacks = static_cast<const Callbacks *>(table(kCallbacks));
  if (!callbacks || callbacks->size < sizeof(Callbacks) || !start()) return 0;
  static const bool once = (after_fork(after_fork_child), true);
  (void)once;
  fill(*callbacks, kCore,
       {{1, slot(+[](const Attributes *a) { mark_ex(nullptr, a); })},
        {2, slot(+[](const char *text) { mark(plain(text)); })},
        {3, slot(+[](const wchar_t *text) { mark(plain(narrow(text).c_str())); })},
        {4, slot(+[](const Attributes *a) { return start_ex(nullptr, a); })},
        {5, slot(+[](const char *text) { return begin(plain(text)); })},
        {6, slot(+[](const wchar_t *text) { return begin(plain(narrow(text).c_str())); })},
        {7, slot(+[](uint64_t id) { end(id); })},
        {8, slot(+[](const Attributes *a) { return push_ex(nullptr, a); })},
        {9, slot(+[](const char *text) { return push(plain(text)); })},
        {10, slot(+[](const wchar_t *text) { return push(plain(narrow(text).c_str())); })},
        {11, slot(+[] { return pop_of(nullptr); })},
        {12, slot(+[](uint32_t category, const char *name) { name_category(nullptr, category, name); })},
        {13, slot(+[](uint32_t category, const wchar_t *name) { name_category(nullptr, category, narrow(name).c_str()); })}});
  fill(*callbacks, kCore2,
       {{1, slot(mark_ex)},
        {2, slot(start_ex)},
        {3, slot(end_of)},
        {4, slot(push_ex)},
        {5, slot(pop_of)},
        {8, slot(name_category)},
        {9, slot(+[](void *domain, uint32_t category, const wchar_t *name) {
           name_category(domain, category, narrow(name).c_str());
         })},
        {10, slot(register_string)},
        {11, slot(+[](void *domain, const wchar_t *text) { return register_string(domain, narrow(text).c_str()); })},
        {12, slot(create_domain)},
        {13, slot(+[](const wchar_t *name) { return create_domain(narrow(name).c_str()); })}});
  return 1;
}
