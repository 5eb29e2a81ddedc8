// Annotations: the open ranges of each thread and of the process, and their events. What NVTX, ITT and ROCTX call stands in
// the files beside this one.
#include <pthread.h>

#include <cstdlib>
#include <cstring>
#include <new>
#include <unordered_map>
#include <vector>

#include "annotation_events.h"
#include "annotations.h"

namespace occatrace::annotation {
namespace {

constexpr size_t kTextRoom = 112;          // longer names are interned
constexpr uint32_t kMostLongTexts = 65536;  // of which so many are kept; the others are cut
constexpr uint32_t kDeepest = 1 << 16;      // ranges that a thread pushes and never pops
constexpr size_t kValuesRoom = 1024;
enum Kind : uint8_t {
  kPush,
  kStart,
  kMark,
};

const occatrace_annotation_events *events;

// A range in flight.
struct Open {
  uint64_t start;
  uint32_t tid, seq;  // of its begin; seq is OCCATRACE_NO_RUN when that was not recorded
  uint32_t domain, name;
  uint16_t depth;
  uint8_t api, kind, captured;  // the last: one of the ranges that --capture-range names
  void *counted;                // reading of the counters (--papi)
  char text[kTextRoom];
};

// The pushed ranges of a thread; from malloc, because the core frees it.
struct Stack {
  uint32_t used, room;
  uint32_t overflow;  // pushed beyond kDeepest
  Open entries[];
};

struct Process {
  pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
  std::unordered_map<uint64_t, Open> open;
  std::unordered_map<uint64_t, uint64_t> aliases;
};
Process *process;
uint64_t next_id = 1;
uint32_t long_texts;
std::vector<void (*)()> *forked;

void after_fork_child() {
  // The lock may have been held and the map half changed by a thread that the child does not have: left behind.
  process = new Process;
  if (forked)
    for (const auto function : *forked) function();
}

Stack *stack_of(occatrace_thread *self, bool more) {
  auto *stack = static_cast<Stack *>(self->annotation);
  if (stack && (!more || stack->used < stack->room)) return stack;
  if (!more) return nullptr;
  const uint32_t room = stack ? stack->room * 2 : 8;
  if (room > kDeepest) return nullptr;
  auto *larger = static_cast<Stack *>(realloc(stack, sizeof(Stack) + room * sizeof(Open)));
  if (!larger) return nullptr;
  if (!stack) larger->used = larger->overflow = 0;
  larger->room = room;
  self->annotation = larger;
  return larger;
}

// Copies at most `room` bytes with the final 0, never half a UTF-8 character; false when it had to cut.
bool copy_text(char *to, size_t room, const char *text) {
  const size_t length = strnlen(text, room);
  size_t n = length < room ? length : room - 1;
  if (n < length)
    while (n > 0 && (text[n] & 0xC0) == 0x80) n--;
  memcpy(to, text, n);
  to[n] = '\0';
  return n == length;
}

// Fills in what begin and end have in common.
void describe(Open &open, occatrace_thread *self, const Note &note, uint8_t kind) {
  open.tid = self->tid;
  open.seq = OCCATRACE_NO_RUN;
  open.domain = note.domain;
  open.name = note.name;
  open.depth = 0;
  open.api = note.api;
  open.kind = kind;
  open.captured = 0;
  open.counted = nullptr;
  open.text[0] = '\0';
  if (!note.name && !copy_text(open.text, sizeof open.text, note.text ? note.text : "") &&
      __atomic_fetch_add(&long_texts, 1, __ATOMIC_RELAXED) < kMostLongTexts) {
    open.name = occatrace_intern(note.text);
    open.text[0] = '\0';
  }
  if (__builtin_expect(occatrace_captured_name != nullptr, 0) && kind != kMark) {
    open.captured = note.name ? note.name == occatrace_intern(occatrace_captured_name)
                              : note.text && std::strcmp(note.text, occatrace_captured_name) == 0;
    if (open.captured) occatrace_capture_range(OCCATRACE_RANGE_NAMED, 1);
  }
}

void write_begin(Open &open, occatrace_thread *self, const Note &note) {
  open.start = occatrace_now();
  if (!occatrace_capturing()) return;
  char values[kValuesRoom];
  values[0] = '\0';
  if (note.values) copy_text(values, sizeof values, note.values);
  open.seq = occatrace_next_seq(self);
  const occatrace_annotation_range_begin e = {
      open.tid, open.seq, open.api, open.kind, open.depth, open.domain, open.name,
      open.text, note.category, note.color, note.payload_type, note.payload, values};
  events->range_begin(&e);
  if (const occatrace_counters *counts = occatrace_counts(); __builtin_expect(counts != nullptr, 0) && open.kind != kMark)
    open.counted = counts->begin();
}

void write_end(const Open &open, occatrace_thread *self) {
  // A thread reads only its own counters: a range that ends in another one has no counts.
  const bool counted = __builtin_expect(open.counted != nullptr, 0) && open.tid == self->tid;
  if (counted) occatrace_counts()->end(open.counted);
  if (open.captured) occatrace_capture_range(OCCATRACE_RANGE_NAMED, 0);
  // Also after the program has stopped the capture, so that a range which is in the trace has an end.
  if (!occatrace_capturing() && open.seq == OCCATRACE_NO_RUN) return;
  const occatrace_annotation_range_end e = {self->tid, occatrace_next_seq(self), open.api, open.kind, open.depth,
                                            open.domain, open.name, open.text, open.tid, open.seq, open.start};
  events->range_end(&e);
  if (__builtin_expect(open.counted != nullptr, 0)) occatrace_counts()->write(open.counted, self, counted ? open.seq : OCCATRACE_NO_RUN);
}

bool start_once() {
  events = static_cast<const occatrace_annotation_events *>(occatrace_load_provider("annotation"));
  if (!events) return false;
  process = new Process;
  static occatrace_backend backend = {"annotation", nullptr, after_fork_child, nullptr};
  occatrace_backend_register(&backend);
  return true;
}

}  // namespace

bool start() {
  static const bool started = start_once();
  return started;
}

void after_fork(void (*function)()) {
  if (!forked) forked = new std::vector<void (*)()>;
  forked->push_back(function);
}

int push(const Note &note) {
  occatrace_thread *self = occatrace_self();
  Stack *stack = stack_of(self, true);
  if (!stack) {
    if ((stack = stack_of(self, false))) return static_cast<int>(stack->used + stack->overflow++);
    return -1;
  }
  Open &open = stack->entries[stack->used];
  describe(open, self, note, kPush);
  uint16_t level = 0;
  for (uint32_t i = 0; i < stack->used; i++)
    level += stack->entries[i].api == note.api && stack->entries[i].domain == note.domain;
  open.depth = level;
  stack->used++;
  write_begin(open, self, note);
  return level;
}

int pop(occatrace_annotation_api api, uint32_t domain) {
  occatrace_thread *self = occatrace_self();
  Stack *stack = stack_of(self, false);
  if (!stack) return -1;
  if (stack->overflow) return static_cast<int>(stack->used + --stack->overflow);
  for (uint32_t i = stack->used; i-- > 0;) {
    Open &open = stack->entries[i];
    if (open.api != api || open.domain != domain) continue;
    write_end(open, self);
    const int level = open.depth;
    if (i + 1 < stack->used) memmove(&open, &open + 1, (stack->used - i - 1) * sizeof open);
    stack->used--;
    return level;
  }
  return -1;
}

uint64_t begin(const Note &note) {
  occatrace_thread *self = occatrace_self();
  Open open;
  describe(open, self, note, kStart);
  write_begin(open, self, note);
  const uint64_t id = __atomic_fetch_add(&next_id, 1, __ATOMIC_RELAXED);
  pthread_mutex_lock(&process->lock);
  process->open.emplace(id, open);
  pthread_mutex_unlock(&process->lock);
  return id;
}

void end(uint64_t id) {
  occatrace_thread *self = occatrace_self();
  pthread_mutex_lock(&process->lock);
  const auto found = process->open.find(id);
  if (found == process->open.end()) {
    pthread_mutex_unlock(&process->lock);
    return;
  }
  const Open open = found->second;
  process->open.erase(found);
  pthread_mutex_unlock(&process->lock);
  write_end(open, self);
}

void span(const Note &note, uint64_t duration) {
  if (!occatrace_capturing()) return;
  occatrace_thread *self = occatrace_self();
  Open open;
  describe(open, self, note, kStart);
  open.start = occatrace_now() - duration;
  write_end(open, self);
}

void mark(const Note &note) {
  if (!occatrace_capturing()) return;
  occatrace_thread *self = occatrace_self();
  Open open;
  describe(open, self, note, kMark);
  write_begin(open, self, note);
}

void counter(uint32_t name, uint32_t unit, double value) {
  if (!occatrace_capturing()) return;
  occatrace_thread *self = occatrace_self();
  const occatrace_annotation_counter e = {self->tid, occatrace_next_seq(self), name, unit, value};
  events->counter(&e);
}

std::string narrow(const wchar_t *text) {
  std::string out;
  for (; text && *text; text++) {
    const auto c = static_cast<uint32_t>(*text);
    if (c < 0x80) {
      out += static_cast<char>(c);
    } else if (c < 0x800) {
      out += {static_cast<char>(0xC0 | c >> 6), static_cast<char>(0x80 | (c & 63))};
    } else if (c < 0x10000) {
      out += {static_cast<char>(0xE0 | c >> 12), static_cast<char>(0x80 | (c >> 6 & 63)), static_cast<char>(0x80 | (c & 63))};
    } else {
      out += {static_cast<char>(0xF0 | (c >> 18 & 7)), static_cast<char>(0x80 | (c >> 12 & 63)),
              static_cast<char>(0x80 | (c >> 6 & 63)), static_cast<char>(0x80 | (c & 63))};
    }
  }
  return out;
}

namespace {

Note plain(occatrace_annotation_api api, const char *name, uint32_t argb, const char *values) {
  return {api, 0, 0, name, 0, argb, OCCATRACE_PAYLOAD_NONE, 0, values};
}

const occatrace_annotations functions = {
    [](occatrace_annotation_api api, const char *name, uint32_t argb, const char *values) {
      return push(plain(api, name, argb, values));
    },
    [](occatrace_annotation_api api) { return pop(api, 0); },
    [](occatrace_annotation_api api, const char *name, uint32_t argb, const char *values) {
      return begin(plain(api, name, argb, values));
    },
    [](uint64_t id) { end(id); },
    [](uint64_t other, uint64_t id) {
      pthread_mutex_lock(&process->lock);
      process->aliases[other] = id;
      pthread_mutex_unlock(&process->lock);
    },
    [](uint64_t other) {
      pthread_mutex_lock(&process->lock);
      const auto found = process->aliases.find(other);
      const uint64_t id = found == process->aliases.end() ? other : found->second;
      if (found != process->aliases.end()) process->aliases.erase(found);
      pthread_mutex_unlock(&process->lock);
      end(id);
    },
    [](occatrace_annotation_api api, const char *name, uint32_t argb, const char *values) {
      mark(plain(api, name, argb, values));
    },
    [](const char *name, double value, const char *unit) {
      if (occatrace_capturing()) counter(occatrace_intern(name), unit && *unit ? occatrace_intern(unit) : 0, value);
    },
};

}  // namespace
}  // namespace occatrace::annotation

// For the preloaded libraries; NULL when this process is not traced.
extern "C" OCCATRACE_EXPORT const occatrace_annotations *occatrace_annotations() {
  return occatrace::annotation::start() ? &occatrace::annotation::functions : nullptr;
}
