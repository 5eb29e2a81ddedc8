// OCCA, without its headers: hooks of its C++ members, by mangled name (tracepoints/occa.yaml), for the 1.0 and the 1.2+ family.
// The outermost call of a thread is the event. The virtual members below it are the truth for kernels, launches, copies
// and allocations, and stand in for the API members that a compiler has inlined.
#include <dlfcn.h>
#include <elf.h>
#include <execinfo.h>
#include <link.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cctype>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>
#include <map>
#include <mutex>
#include <shared_mutex>
#include <string>
#include <type_traits>
#include <unordered_map>
#include <utility>

#include "occa_errors.h"
#include "occa_events.h"
#include "occatrace_core.h"
#include "../common/site.h"

namespace {

using occatrace::current_error;
using occatrace::Silence;

// ---- what OCCA's objects look like from outside ----

// occa::kernel, memory, device, stream, streamTag, memoryPool: two links of a ring, then the object of the mode. Handles
// register their own address, so a result can be neither copied nor moved: the constructor is declared to make the type
// returned by address (as OCCA's are) and left without a body, so that a compiler that would copy fails to link.
struct Object {
  void *ring[2];
  void *object;
  Object(const Object &);
  ~Object() {}
};

// Stands for a handle when a member of the API is asked about an object of the mode.
struct Probe {
  void *ring[2];
  const void *object;
};

template <class T> uint64_t address(const T *pointer) { return reinterpret_cast<uintptr_t>(pointer); }
const void *object(const void *handle) { return handle ? static_cast<const Object *>(handle)->object : nullptr; }
uint64_t handle(const void *h) { return address(object(h)); }

using Text = const std::string &(*)(const Probe *);

struct {
  Text kernel_name, kernel_source, kernel_binary, kernel_mode, memory_mode, device_mode;
  const void *(*current_device)();
  bool (*json_bool)(const void *json, const char *key, const bool &otherwise);
  std::string (*json_text)(const void *json, const char *key, const std::string &otherwise);
  const void *(*json_at)(const void *json, const char *key);
  std::string (*json_string)(const void *json);
  uint64_t (*memory_size)(const Probe *);
  // Asked about buffers as well: what a memory pool has of these, it has as the buffer that it is.
  Text pool_mode;
  const void *(*pool_device)(const Probe *);
  const void *(*pool_properties)(const Probe *);
} ask;

// Instances of a template, which builds that hide inline functions keep to themselves: the other two are none.
std::string text_in(const void *json, const char *key, const std::string &otherwise) {
  if (ask.json_text) return ask.json_text(json, key, otherwise);
  if (!ask.json_at || !ask.json_string) return otherwise;
  const std::string text = ask.json_string(ask.json_at(json, key));
  return text.empty() ? otherwise : text;
}
bool bool_in(const void *json, const char *key, bool otherwise) {
  if (ask.json_bool) return ask.json_bool(json, key, otherwise);
  const std::string text = text_in(json, key, std::string());
  return text.empty() ? otherwise : text != "false" && text != "0";
}

// Where a kernel of the mode keeps the arguments of its next call: a std::vector whose elements have the memory object at
// `memory`. The layout differs by family; what else is known of an object is looked at before it is trusted.
struct Layout {
  size_t arguments, element, memory;
} layout;

// Where OCCA 1.2 to 2.0 keep what a memory object is of. Looked at when memory is allocated: what else is known of it stands there.
constexpr size_t kBuffer = 40, kSize = 64, kOffset = 72;
std::atomic<bool> buffers_known{true};

bool second_family; // 1.2 and later: occa::json instead of occa::properties

void *original[OCCATRACE_OCCA_SLOTS];
const occatrace_occa_events *events;
uint8_t levels[OCCATRACE_OCCA_COUNT];
uint32_t first_tally;

// ---- the calls in flight on this thread ----

enum class Kind : uint8_t { Plain, Run, Copy, Alloc, Free };

// As in the model (memory_kind).
enum MemoryKind : uint8_t { kDeviceMemory = 0, kHostMemory = 1, kManagedMemory = 2 };

// What the virtual members tell the call of the user above them.
struct Frame {
  Kind kind = Kind::Plain;
  bool filled = false;
  uint8_t copy_kind = 0, async = 0, memory_kind = kDeviceMemory;
  uint64_t bytes = 0, offset = 0;
  uint32_t mode = 0;
  const void *object = nullptr, *source = nullptr, *device = nullptr;
  Frame *above;                                       // of a nested one: the next that is nested
  void (*closed)(Frame &, uint32_t error) = nullptr; // the process ends in it
};

struct CachedKernel {
  const void *object;
  uint32_t id, generation, name;
};

// Zero is its right start: it comes from calloc and belongs to the core, which frees it with the thread.
struct State {
  Frame *outer;
  Frame *nested; // the innermost of those in flight inside it
  Frame *ending; // the call that ends memory, and its buffer if that ends with it
  bool allocating; // within X::device::malloc
  uint32_t copies; // by virtual members
  CachedKernel kernels[64];
  char mode[16];
  uint32_t mode_length, mode_id;
  uint32_t built_from; // name id of the file that a build from a string ended in
};

State *state_of(occatrace_thread *self) {
  if (__builtin_expect(self->occa == nullptr, 0)) self->occa = std::calloc(1, sizeof(State));
  return static_cast<State *>(self->occa);
}

uint32_t intern(const std::string &text) { return text.empty() ? 0 : occatrace_intern_n(text.data(), text.size()); }

// Most calls of a thread are of one mode.
uint32_t mode_name(State *state, const std::string &mode) {
  if (mode.size() >= sizeof state->mode) return intern(mode);
  if (mode.size() != state->mode_length || std::memcmp(mode.data(), state->mode, mode.size()) != 0) {
    state->mode_id = intern(mode);
    state->mode_length = static_cast<uint32_t>(mode.size());
    std::memcpy(state->mode, mode.data(), mode.size());
  }
  return state->mode_id;
}

uint32_t mode_of(State *state, Text member, const void *object) {
  if (!object || !member) return 0;
  const Probe probe{{nullptr, nullptr}, object};
  return mode_name(state, member(&probe));
}

// ---- tags: what programs say of their objects in the properties "occatrace" ----

struct Tag {
  bool given = false;   // anything at all
  bool wanted = false;  // trace: true, or a label among the wanted ones
  bool refused = false; // trace: false
  bool inherited = false; // of the device on which the object was made: the label is no name of its own
  std::string label;
};

struct Tags {
  std::shared_mutex lock;
  std::unordered_map<const void *, Tag> objects; // of the modes: kernels, memory, devices
  std::atomic<bool> any{false};
};
Tags &tags = *new Tags;

Tag tag_in(const void *properties) {
  Tag tag;
  if (!properties) return tag;
  const bool trace = bool_in(properties, "occatrace/trace", false);
  tag.refused = !trace && !bool_in(properties, "occatrace/trace", true);
  tag.label = text_in(properties, "occatrace/label", std::string());
  tag.given = trace || tag.refused || !tag.label.empty();
  tag.wanted = tag.given && !tag.refused && occatrace_label_wanted(tag.label.empty() ? nullptr : tag.label.c_str());
  return tag;
}

Tag tag_of(const void *object) {
  if (!object || !tags.any.load(std::memory_order_relaxed)) return {};
  const std::shared_lock<std::shared_mutex> guard(tags.lock);
  const auto found = tags.objects.find(object);
  return found == tags.objects.end() ? Tag() : found->second;
}

void remember_tag(const void *object, const Tag &tag) {
  if (!object || (!tag.given && !tags.any.load(std::memory_order_relaxed))) return;
  const std::unique_lock<std::shared_mutex> guard(tags.lock);
  tags.objects.erase(object); // of an earlier object at this address
  if (!tag.given) return;
  tags.objects.emplace(object, tag);
  tags.any.store(true);
  if (tag.refused) occatrace_start_choosing();
}

// Of an object's own properties, or of what it is made on.
Tag tag_in(const void *properties, const void *of) {
  Tag tag = tag_in(properties);
  if (tag.given) return tag;
  tag = tag_of(of);
  tag.inherited = true;
  return tag;
}
std::string name_by(const Tag &tag) { return tag.inherited ? std::string() : tag.label; }

// ---- kernels as their authors named them ----

struct Kernels {
  std::shared_mutex lock;
  std::unordered_map<const void *, uint32_t> ids;
  std::unordered_map<uint32_t, uint32_t> names; // of ids
  std::map<std::array<uint32_t, 5>, uint32_t> records;
  // Counts the objects that ended: an id found under an older count may belong to another object at that address.
  std::atomic<uint32_t> generation{1};
};
// What is remembered of memory for its end, when its device may be gone and OCCA can't be asked any more.
struct Memory {
  uint64_t bytes = 0;
  uint32_t mode = 0;
  // Its end is told of also where another call brings it about. Not so an occa::memory whose buffer is told of.
  bool told = false;
};
struct Memories {
  std::mutex lock;
  std::unordered_map<const void *, Memory> objects; // of the modes
};
// Handles are freed after main, so these are never destroyed.
Kernels &kernels = *new Kernels;
Memories &memories = *new Memories;

std::string read_file(const std::string &path) {
  std::ifstream file(path, std::ios::binary);
  std::string text;
  if (file) text.assign(std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>());
  return text;
}

// Comments and strings become blanks of the same length, so that nothing in them is found.
std::string code_only(std::string text) {
  enum { Code, Line, Block, Quote } in = Code;
  char quote = 0;
  for (size_t i = 0; i < text.size(); i++) {
    const char c = text[i], next = i + 1 < text.size() ? text[i + 1] : '\0';
    if (c == '\n') {
      if (in != Block) in = Code;
      continue;
    }
    if (in == Code && c == '/' && (next == '/' || next == '*')) in = next == '/' ? Line : Block;
    else if (in == Code && (c == '"' || c == '\'')) in = Quote, quote = c;
    else if (in == Code) continue;
    else if (in == Quote && c == '\\') text[i++] = ' ';
    else if (in == Quote && c == quote) in = Code;
    else if (in == Block && c == '*' && next == '/') in = Code, text[i++] = ' ';
    if (i < text.size() && text[i] != '\n') text[i] = ' ';
  }
  return text;
}

// The line of `@kernel … name(`; without OKL, that of the first `name(`. 0: not found.
uint32_t line_of(const std::string &source, const std::string &name) {
  const auto word = [](char c) { return std::isalnum(static_cast<unsigned char>(c)) || c == '_'; };
  const std::string text = code_only(source);
  const auto line = [&](size_t at) { return 1 + static_cast<uint32_t>(std::count(text.begin(), text.begin() + static_cast<long>(at), '\n')); };
  uint32_t first = 0;
  for (size_t at = text.find(name); at != std::string::npos; at = text.find(name, at + 1)) {
    if ((at > 0 && word(text[at - 1])) || (at + name.size() < text.size() && word(text[at + name.size()]))) continue;
    const size_t after = text.find_first_not_of(" \t\r\n", at + name.size());
    if (after == std::string::npos || text[after] != '(') continue;
    if (first == 0) first = line(at);
    const size_t kernel = text.rfind("@kernel", at);
    if (kernel != std::string::npos && text.find_first_of(";{}", kernel) >= at) return line(kernel);
  }
  return first;
}

std::string absolute(const std::string &path) {
  char *real = realpath(path.c_str(), nullptr);
  if (!real) return path;
  const std::string result = real;
  std::free(real);
  return result;
}

const std::string nothing;

std::string ask_kernel(Text member, const void *kernel) {
  const Probe probe{{nullptr, nullptr}, kernel};
  return member ? member(&probe) : nothing;
}

// The members before the arguments are where this layout has them, or the arguments are left alone from now on.
void check_layout(const void *kernel) {
  const Probe probe{{nullptr, nullptr}, kernel};
  const auto stands = [&](Text member, size_t offset) { return member && address(&member(&probe)) == address(kernel) + offset; };
  if (layout.arguments && !(stands(ask.kernel_name, 32) && stands(ask.kernel_source, 64) && stands(ask.kernel_binary, 96))) layout = {};
}

// What OCCA_JIT, occa::forLoop and occa::array call their kernels, whichever it is. They have no file of the program's either:
// they are told apart by the place that calls them, the innermost one outside of OCCA and of the tracer.
const char inline_kernel[] = "_occa_jit_kernel";

const void *caller_of_occa() {
  const auto library = [](const void *address) {
    Dl_info info;
    return dladdr(address, &info) ? info.dli_fbase : nullptr;
  };
  const void *const occa = library(reinterpret_cast<const void *>(ask.kernel_name)), *const ours = library(inline_kernel);
  void *frames[64];
  const int count = backtrace(frames, 64);
  for (int i = 0; i < count; i++) {
    // A return address may be the next line's.
    const void *const at = static_cast<const char *>(frames[i]) - 1;
    const void *const in = library(at);
    if (in && in != occa && in != ours) return at;
  }
  return nullptr;
}

// Announces the kernel and remembers its object. `source` is the name id of the file, `text` what to look for the line in.
uint32_t remember_kernel(State *state, const void *kernel, const std::string &name, const std::string &label, uint32_t source, const std::string &text) {
  const void *caller = name == inline_kernel ? caller_of_occa() : nullptr;
  if (caller) {
    const std::string site = occatrace::site_text(caller), own = name + " at " + site.substr(site.rfind('/') + 1);
    return remember_kernel(state, kernel, own, label, intern(site), nothing);
  }
  check_layout(kernel);
  const std::array<uint32_t, 5> record{intern(label.empty() ? name : label), mode_of(state, ask.kernel_mode, kernel), source, line_of(text, name),
                                       intern(ask_kernel(ask.kernel_binary, kernel))};
  const std::unique_lock<std::shared_mutex> guard(kernels.lock);
  uint32_t &id = kernels.records[record];
  if (id == 0) id = occatrace_kernel(record[0], record[1], record[2], record[3], record[4]);
  kernels.names[id] = intern(name);
  uint32_t &known = kernels.ids[kernel];
  if (known != 0 && known != id) kernels.generation.fetch_add(1, std::memory_order_release);
  known = id;
  return id;
}

// An object whose building was not seen: inlined into something else, or from before the tracer looked.
uint32_t remember_unknown_kernel(State *state, const void *kernel) {
  const std::string name = ask_kernel(ask.kernel_name, kernel), source = ask_kernel(ask.kernel_source, kernel);
  return remember_kernel(state, kernel, name, name_by(tag_of(kernel)), intern(absolute(source)), read_file(source));
}

uint32_t known_kernel(const void *kernel) {
  const std::shared_lock<std::shared_mutex> guard(kernels.lock);
  const auto found = kernels.ids.find(kernel);
  return found == kernels.ids.end() ? 0 : found->second;
}

CachedKernel cached_kernel(State *state, const void *kernel) {
  if (!kernel) return {};
  const uint32_t generation = kernels.generation.load(std::memory_order_acquire);
  CachedKernel &cached = state->kernels[(address(kernel) >> 5) % std::size(state->kernels)];
  if (cached.object == kernel && cached.generation == generation) return cached;
  uint32_t id = known_kernel(kernel);
  if (id == 0) id = remember_unknown_kernel(state, kernel);
  const std::shared_lock<std::shared_mutex> guard(kernels.lock);
  const auto name = kernels.names.find(id);
  cached = {kernel, id, generation, name == kernels.names.end() ? 0 : name->second};
  return cached;
}
uint32_t kernel_id(State *state, const void *kernel) { return cached_kernel(state, kernel).id; }

void forget_kernel(const void *kernel) {
  const std::unique_lock<std::shared_mutex> guard(kernels.lock);
  if (kernels.ids.erase(kernel)) kernels.generation.fetch_add(1, std::memory_order_release);
}

void remember_memory(const void *memory, const Memory &of) {
  if (!memory) return;
  const std::lock_guard<std::mutex> guard(memories.lock);
  memories.objects[memory] = of;
}

// The buffer of an occa::memory; before OCCA 1.2 there is none but the memory itself.
const void *buffer_of(const void *memory) {
  if (!memory || !second_family || !buffers_known.load(std::memory_order_relaxed)) return memory;
  return *reinterpret_cast<const void *const *>(static_cast<const char *>(memory) + kBuffer);
}

// The same of new memory, whose size is known: in a layout that is another, the memory stands for its buffer from now on.
const void *new_buffer_of(const void *memory, uint64_t bytes) {
  const auto at = [&](size_t offset) { return *reinterpret_cast<const uint64_t *>(static_cast<const char *>(memory) + offset); };
  if (memory && second_family && (at(kBuffer) == 0 || at(kSize) != bytes || at(kOffset) != 0)) buffers_known.store(false);
  return buffer_of(memory);
}

// Nothing of it is known where it was made unseen.
Memory forget_memory(const void *memory) {
  const std::lock_guard<std::mutex> guard(memories.lock);
  const auto found = memories.objects.find(memory);
  if (found == memories.objects.end()) return {};
  const Memory of = found->second;
  memories.objects.erase(found);
  return of;
}

// ---- one call, from its entry to its event ----

// What a function of the model is: its event, how it is written, what its arguments mean. The hooks below are generic.
struct Function {
  static constexpr Kind kind = Kind::Plain;
  static constexpr bool blocking = false;
  static constexpr bool always = false; // has work to do also while nothing is recorded
  // Whether the work of a call is among what the person chose, and what it is left out for; asked only where there is a choice.
  static constexpr occatrace_reason reason = OCCATRACE_BY_TAG;
  template <class... A> static bool chosen(State *, const A &...) { return true; }
  // Whether it is of a tagged object; asked only where nothing else is wanted.
  template <class... A> static bool tagged(const A &...) { return false; }
  template <class... A> static void nested(State *, const A &...) {}
};

template <class P> struct Call : Frame {
  occatrace_thread *self;
  State *state;
  typename P::Event event{};
  uint8_t level;
  bool outermost;
  uint64_t ticks = 0;
  void *counted = nullptr; // of kernel calls: reading of the counters (--papi)

  // `nested`: an event of its own inside another call.
  Call(occatrace_thread *thread, State *of, bool nested = false) : self(thread), state(of), outermost(!nested) {
    kind = P::kind;
    closed = end_of_process;
    level = occatrace_level_now(levels[P::function]);
    if (outermost) {
      self->occa_depth = 1;
      state->outer = this;
    } else {
      above = state->nested;
      state->nested = this;
    }
    if (level == OCCATRACE_EVENT) {
      event.tid = self->tid;
      event.seq = self->next_seq++;
      occatrace_calling(self, event.seq);
      if (outermost) self->scope_seq = event.seq;
      if constexpr (P::kind == Kind::Run) {
        self->run_seq = event.seq;
        self->run_launches = 0;
        if (const occatrace_counters *counts = occatrace_counts(); __builtin_expect(counts != nullptr, 0)) counted = counts->begin();
      }
      event.start = occatrace_now();
      if constexpr (P::blocking) {
        const occatrace_occa_begin begin{self->tid, self->next_seq++, event.seq};
        P::begin(begin);
      }
    } else if (level == OCCATRACE_TALLY) {
      ticks = occatrace_ticks();
    }
  }
  Call(const Call &) = delete;

  ~Call() {
    write();
    if (outermost) {
      state->outer = nullptr;
      self->occa_depth = 0;
      self->scope_seq = OCCATRACE_NO_RUN;
    } else {
      state->nested = above;
    }
  }

 private:
  void write() {
    if (level == OCCATRACE_EVENT) {
      if (__builtin_expect(counted != nullptr, 0)) occatrace_counts()->end(counted);
      P::finish(event, *this);
      P::write(event);
      if constexpr (P::kind == Kind::Run) {
        // The work of other modes is a device's.
        if (__builtin_expect(counted != nullptr, 0)) occatrace_counts()->write(counted, self, self->run_launches ? OCCATRACE_NO_RUN : event.seq);
        self->run_seq = OCCATRACE_NO_RUN;
      }
    } else if (level == OCCATRACE_TALLY) {
      occatrace_tally_add(self, first_tally + P::function, occatrace_ticks() - ticks, event.error != 0);
    }
    if (event.error != 0 && level != OCCATRACE_OFF)
      occatrace_failure(first_tally + P::function, level == OCCATRACE_EVENT ? event.seq : OCCATRACE_NO_RUN, event.error,
                        event.error);
  }

  // Nobody catches what it has thrown, or a kernel or signal handler in it has ended the process. The begin of a blocking call
  // has said already that it does not return.
  static void end_of_process(Frame &frame, uint32_t error) {
    Call &call = static_cast<Call &>(frame);
    if (P::blocking && error == 0) return;
    call.event.error = error;
    call.write();
    call.level = OCCATRACE_OFF;
  }
};

void close_calls(occatrace_thread *self) {
  const State *state = static_cast<const State *>(self->occa);
  if (!state || !state->outer) return;
  const uint32_t error = current_error();
  for (Frame *frame = state->nested; frame; frame = frame->above) frame->closed(*frame, error);
  state->outer->closed(*state->outer, error);
}

// What is not chosen is silent, with all that it calls.
enum class Voice { Same, Silent, Heard };
template <class Chosen, class Tagged> Voice voice_of(occatrace_thread *self, Chosen chosen, Tagged tagged) {
  if (!occatrace_choosing || !occatrace_running()) return Voice::Same;
  if (!self->silent) return chosen() ? Voice::Same : Voice::Silent;
  // With --only-tagged a thread is silent but for what is tagged.
  const bool by_tag = self->silent == 1 && self->silent_for == OCCATRACE_BY_TAG;
  return by_tag && tagged() && chosen() ? Voice::Heard : Voice::Same;
}
template <class P, class... A> Voice voice(occatrace_thread *self, State *state, const A &...args) {
  return voice_of(self, [&] { return P::chosen(state, args...); }, [&] { return P::tagged(args...); });
}

class Voiced {
 public:
  Voiced(occatrace_thread *self, Voice voice, occatrace_reason reason) : silence_(self, voice != Voice::Silent, reason), self_(voice == Voice::Heard ? self : nullptr) {
    if (self_) self_->silent = 0;
  }
  ~Voiced() {
    if (self_) self_->silent = 1;
  }
  Voiced(const Voiced &) = delete;
  Voiced &operator=(const Voiced &) = delete;

 private:
  Silence silence_;
  occatrace_thread *self_;
};

// Calls the real function; an exception is noted and goes on its way.
template <class C, class F> auto guarded(C &call, F function) -> decltype(function()) {
  try {
    return function();
  } catch (...) {
    call.event.error = current_error();
    throw;
  }
}

// Results that are objects are built where the caller wants them: one variable, returned by name, nothing else returned.
template <class P, unsigned Slot, class R, class... A> R traced(occatrace_thread *self, State *state, A... args) {
  const Voiced voiced(self, voice<P>(self, state, args...), P::reason);
  Call<P> call(self, state);
  P::enter(call, args...);
  R result = guarded(call, [&]() -> R { return reinterpret_cast<R (*)(A...)>(original[Slot])(args...); });
  P::leave(call, result, args...);
  return result;
}
template <class P, unsigned Slot, class... A> void traced_void(occatrace_thread *self, State *state, A... args) {
  const Voiced voiced(self, voice<P>(self, state, args...), P::reason);
  Call<P> call(self, state);
  P::enter(call, args...);
  guarded(call, [&] { reinterpret_cast<void (*)(A...)>(original[Slot])(args...); });
  P::leave(call, args...);
}

// A member of the API: an event when it is the outermost one.
template <class P, unsigned Slot, class R, class... A> struct Api {
  static R hook(A... args) {
    if (!occatrace_running() && !P::always) return reinterpret_cast<R (*)(A...)>(original[Slot])(args...);
    occatrace_thread *self = occatrace_self();
    State *state = state_of(self);
    if (!state) return reinterpret_cast<R (*)(A...)>(original[Slot])(args...);
    if (self->occa_depth) {
      P::nested(state, args...);
      return reinterpret_cast<R (*)(A...)>(original[Slot])(args...);
    }
    if constexpr (std::is_void_v<R>)
      traced_void<P, Slot, A...>(self, state, args...);
    else
      return traced<P, Slot, R, A...>(self, state, args...);
  }
};

#define OCCA_FUNCTION(name)                                                  \
  using Event = occatrace_occa_##name;                                       \
  static constexpr unsigned function = OCCATRACE_OCCA_##name;                \
  static void write(const Event &event) { events->name(&event); }
#define OCCA_BLOCKING(name)                                                  \
  OCCA_FUNCTION(name)                                                        \
  static constexpr bool blocking = true;                                     \
  static void begin(const occatrace_occa_begin &b) { events->name##_begin(&b); }

// ---- kernels ----

constexpr uint32_t kNotKnown = UINT32_MAX;

uint64_t size_of(const void *memory) {
  if (!memory || !ask.memory_size) return 0;
  const Probe probe{{nullptr, nullptr}, memory};
  return ask.memory_size(&probe);
}

// The distinct memory objects among the arguments of the call that has just been made, and their bytes.
template <class E> void count_memory(const void *mode_kernel, E &event) {
  event.memory_args = kNotKnown;
  if (!layout.arguments || !mode_kernel) return;
  const char *const *vector = reinterpret_cast<const char *const *>(static_cast<const char *>(mode_kernel) + layout.arguments);
  const char *const first = vector[0], *const last = vector[1];
  const size_t length = static_cast<size_t>(last - first);
  // What OCCA itself allows is less; something else stands there.
  if (first > last || last > vector[2] || length % layout.element != 0 || length / layout.element > 512) return;
  const void *seen[512];
  uint32_t count = 0;
  uint64_t bytes = 0;
  for (const char *at = first; at < last; at += layout.element) {
    const void *const memory = *reinterpret_cast<const void *const *>(at + layout.memory);
    if (!memory || std::find(seen, seen + count, memory) != seen + count) continue;
    seen[count++] = memory;
    bytes += size_of(memory);
  }
  event.memory_args = count;
  event.memory_bytes = bytes;
}

struct KernelRun : Function {
  OCCA_FUNCTION(kernel_run)
  static constexpr Kind kind = Kind::Run;
  static constexpr occatrace_reason reason = OCCATRACE_BY_KERNEL;
  template <class... A> static bool chosen(State *state, const void *kernel, const A &...) { return kernel_chosen(state, object(kernel)); }
  static bool kernel_chosen(State *state, const void *mode_kernel) {
    const uint32_t name = cached_kernel(state, mode_kernel).name;
    if (!tag_of(mode_kernel).refused) return occatrace_choose_kernel(name);
    occatrace_exclude_kernel(name);
    return false;
  }
  // Its own tag, or that of memory which it is given: what operator() passes on are vectors of arguments.
  static bool tagged(const void *kernel) { return kernel_tagged(object(kernel)); }
  template <class... A> static bool tagged(const void *kernel, const A *...arguments) {
    if (tag_of(object(kernel)).wanted) return true;
    const bool taken[] = {takes_tagged(static_cast<const char *>(static_cast<const void *>(arguments)))...};
    return std::find(std::begin(taken), std::end(taken), true) != std::end(taken);
  }
  static bool kernel_tagged(const void *mode_kernel) {
    if (tag_of(mode_kernel).wanted) return true;
    return layout.arguments && mode_kernel && takes_tagged(static_cast<const char *>(mode_kernel) + layout.arguments);
  }
  static bool takes_tagged(const char *arguments) {
    if (!layout.arguments || !arguments || !tags.any.load(std::memory_order_relaxed)) return false;
    const char *const *vector = reinterpret_cast<const char *const *>(arguments);
    const char *const first = vector[0], *const last = vector[1];
    const size_t length = static_cast<size_t>(last - first);
    if (first > last || last > vector[2] || length % layout.element != 0 || length / layout.element > 512) return false;
    for (const char *at = first; at < last; at += layout.element)
      if (tag_of(*reinterpret_cast<const void *const *>(at + layout.memory)).wanted) return true;
    return false;
  }
  template <class... A> static void enter(Call<KernelRun> &call, const void *kernel, A...) { of(call, object(kernel)); }
  static void of(Call<KernelRun> &call, const void *mode_kernel) {
    call.object = mode_kernel;
    if (call.level == OCCATRACE_EVENT) call.event.kernel = kernel_id(call.state, mode_kernel);
  }
  template <class... A> static void leave(Call<KernelRun> &, A...) {}
  static void finish(Event &event, Frame &frame) {
    event.launches = static_cast<Call<KernelRun> &>(frame).self->run_launches;
    if (event.error == 0)
      count_memory(frame.object, event);
    else
      event.memory_args = kNotKnown;
  }
};

// serial::kernel::run and launchedModeKernel_t::run: the user's call itself when operator() has swallowed kernel::run.
template <unsigned Slot> void run_kernel(const void *mode_kernel) {
  const auto real = reinterpret_cast<void (*)(const void *)>(original[Slot]);
  if (!occatrace_running()) return real(mode_kernel);
  occatrace_thread *self = occatrace_self();
  if (self->occa_depth) return real(mode_kernel);
  State *state = state_of(self);
  if (!state) return real(mode_kernel);
  const Voice voice = voice_of(self, [&] { return KernelRun::kernel_chosen(state, mode_kernel); }, [&] { return KernelRun::kernel_tagged(mode_kernel); });
  const Voiced voiced(self, voice, OCCATRACE_BY_KERNEL);
  Call<KernelRun> call(self, state);
  KernelRun::of(call, mode_kernel);
  guarded(call, [&] { real(mode_kernel); });
}

// X::kernel::deviceRun: exactly one launch of the backend.
template <unsigned Slot> void run_on_device(const void *mode_kernel) {
  if (occatrace_running()) occatrace_self()->run_launches++;
  reinterpret_cast<void (*)(const void *)>(original[Slot])(mode_kernel);
}

struct KernelFree : Function {
  OCCA_FUNCTION(kernel_free)
  static void enter(Call<KernelFree> &call, const void *kernel) { call.event.kernel = known_kernel(object(kernel)); }
  static void leave(Call<KernelFree> &, const void *) {}
  static void finish(Event &, Frame &) {}
};

// The deleting destructor of a mode's kernel: its address may be another kernel's soon.
template <unsigned Slot> void delete_kernel(void *mode_kernel) {
  const auto real = reinterpret_cast<void (*)(void *)>(original[Slot]);
  const uint32_t id = known_kernel(mode_kernel);
  forget_kernel(mode_kernel);
  // Launchers and device kernels end inside the kernel that they belong to.
  if (!occatrace_running() || id == 0) return real(mode_kernel);
  occatrace_thread *self = occatrace_self();
  State *state = self->occa_depth ? nullptr : state_of(self);
  if (!state) return real(mode_kernel);
  Call<KernelFree> call(self, state);
  call.event.kernel = id;
  guarded(call, [&] { real(mode_kernel); });
}

// ---- building ----

// The three ways to build; `Source` says what the first argument is.
enum class Source { File, Text, Binary };

// What compilers leave behind: OCCA runs them as child processes and waits for them.
struct Children {
  uint64_t ns, faults;
  static Children now() {
    rusage r{};
    getrusage(RUSAGE_CHILDREN, &r);
    const auto ns = [](const timeval &t) { return static_cast<uint64_t>(t.tv_sec) * 1000000000u + static_cast<uint64_t>(t.tv_usec) * 1000u; };
    return {ns(r.ru_utime) + ns(r.ru_stime), static_cast<uint64_t>(r.ru_minflt + r.ru_majflt)};
  }
};

// A file that was there before: its time stamp is older than `ns` ago, by more than a tick of the kernel's clock.
bool older_than(const std::string &file, uint64_t ns) {
  struct stat s{};
  timespec now{};
  if (stat(file.c_str(), &s) != 0) return false;
  clock_gettime(CLOCK_REALTIME, &now);
  const auto in_ns = [](const timespec &t) { return static_cast<int64_t>(t.tv_sec) * 1000000000 + t.tv_nsec; };
  return in_ns(now) - in_ns(s.st_mtim) > static_cast<int64_t>(ns) + 10000000;
}

template <class E, Source source> struct Build : Function {
  using Event = E;
  static constexpr bool blocking = true, always = true;
  template <class C> static void begin_build(C &call) {
    call.state->built_from = 0;
    const Children children = Children::now();
    call.bytes = children.faults;
    call.offset = children.ns;
  }
  template <class C> static void end_build(C &call, const void *kernel) {
    const Children children = Children::now();
    call.event.compiler = children.ns - call.offset;
    // Programs of no child ran: nothing was compiled. A child alone does not tell: OCCA also tries out the compiler.
    call.event.cached = children.faults == call.bytes ||
                        (call.event.start && older_than(ask_kernel(ask.kernel_binary, kernel), occatrace_now() - call.event.start));
  }
  static bool tagged(const void *device, const std::string &, const std::string &, const void *props) { return tag_in(props, object(device)).wanted; }
  static bool tagged(const std::string &, const std::string &, const void *props) { return tag_in(props).wanted; }
  template <class C> static void enter(C &call, const void *device, const std::string &, const std::string &name, const void *) {
    begin_build(call);
    call.event.device = handle(device);
    call.event.function = intern(name);
    call.event.mode = mode_of(call.state, ask.device_mode, object(device));
  }
  static void nested(State *state, const void *, const std::string &file, const std::string &, const void *) {
    if (source == Source::File && state->outer) state->built_from = intern(file);
  }
  template <class C>
  static void leave(C &call, const Object &result, const void *device, const std::string &given, const std::string &name, const void *props) {
    if (!result.object) return;
    end_build(call, result.object);
    const Tag tag = tag_in(props, object(device));
    remember_tag(result.object, tag);
    if (source != Source::Text)
      call.event.source = intern(absolute(given));
    else if (call.state->built_from)
      call.event.source = call.state->built_from;
    else
      call.event.source = intern(ask_kernel(ask.kernel_source, result.object));
    call.event.kernel = remember_kernel(call.state, result.object, name, name_by(tag), call.event.source,
                                        source == Source::Text ? given : source == Source::File ? read_file(given) : nothing);
    if (name == inline_kernel) call.event.function = cached_kernel(call.state, result.object).name;
  }
  static void finish(Event &, Frame &) {}
};

// The functions of namespace occa work on the current device. There is one once they have succeeded.
const void *current_device() { return ask.current_device ? ask.current_device() : nullptr; }

template <class P> struct OnCurrentDevice : P {
  template <class C> static void enter(C &call, const std::string &, const std::string &name, const void *) {
    P::begin_build(call);
    call.event.function = intern(name);
  }
  static void nested(State *state, const std::string &file, const std::string &name, const void *props) {
    P::nested(state, nullptr, file, name, props);
  }
  template <class C>
  static void leave(C &call, const Object &result, const std::string &given, const std::string &name, const void *props) {
    call.event.device = handle(current_device());
    call.event.mode = mode_of(call.state, ask.kernel_mode, result.object);
    P::leave(call, result, nullptr, given, name, props);
  }
};

struct BuildKernel : Build<occatrace_occa_device_buildKernel, Source::File> {
  OCCA_BLOCKING(device_buildKernel)
};
struct BuildKernelFromString : Build<occatrace_occa_device_buildKernelFromString, Source::Text> {
  OCCA_BLOCKING(device_buildKernelFromString)
};
struct BuildKernelFromBinary : Build<occatrace_occa_device_buildKernelFromBinary, Source::Binary> {
  OCCA_BLOCKING(device_buildKernelFromBinary)
};

// ---- copies ----

template <class E> struct Copy : Function {
  using Event = E;
  static constexpr Kind kind = Kind::Copy;
  static void finish(Event &event, Frame &frame) {
    if (!frame.filled) return;
    event.offset = frame.offset;
    if (frame.copy_kind) event.kind = frame.copy_kind;
    event.async = frame.async;
    event.bytes = event.error ? 0 : frame.bytes;
  }
  template <class C>
  static void describe(C &call, const void *memory, const void *ptr, int64_t count, occatrace_activity_kind kind) {
    call.event.handle = address(memory);
    call.event.ptr = address(ptr);
    call.event.count = count;
    call.event.kind = static_cast<uint8_t>(kind);
    if (call.level == OCCATRACE_EVENT) call.event.mode = mode_of(call.state, ask.memory_mode, memory);
  }
  template <class C, class... A> static void leave(C &, A...) {}
};

// A tagged memory object at either end.
template <class... A> bool tagged_end(const void *handle, const A &...) { return tag_of(object(handle)).wanted; }
template <class... A> bool tagged_end(const void *handle, Object *const &other, const A &...) {
  return tag_of(object(handle)).wanted || tag_of(object(other)).wanted;
}
bool tagged_object(Object *const &handle) { return tag_of(object(handle)).wanted; }
template <class T> bool tagged_object(const T &) { return false; }

struct CopyFrom : Copy<occatrace_occa_memory_copyFrom> {
  template <class... A> static bool tagged(const void *memory, const A &...args) { return tagged_end(memory, args...); }
  OCCA_FUNCTION(memory_copyFrom)
};
struct CopyTo : Copy<occatrace_occa_memory_copyTo> {
  template <class... A> static bool tagged(const void *memory, const A &...args) { return tagged_end(memory, args...); }
  OCCA_FUNCTION(memory_copyTo)
};
struct Memcpy : Copy<occatrace_occa_memcpy> {
  template <class A, class B, class... C> static bool tagged(const A &to, const B &from, const C &...) { return tagged_object(to) || tagged_object(from); }
  OCCA_FUNCTION(memcpy)
};

// The overloads, by what they are given; `props` is the last argument of each. occa::memory arrives by address.
struct CopyFromHost : CopyFrom {
  template <class C> static void enter(C &call, void *memory, const void *from, const void *) { describe(call, object(memory), from, -1, OCCATRACE_HTOD); }
  template <class C> static void enter(C &call, void *memory, const void *from, int64_t count, int64_t, const void *) {
    describe(call, object(memory), from, count, OCCATRACE_HTOD);
  }
};
struct CopyFromMemory : CopyFrom {
  template <class C> static void enter(C &call, void *memory, Object *from, const void *) { describe(call, object(memory), object(from), -1, OCCATRACE_DTOD); }
  template <class C> static void enter(C &call, void *memory, Object *from, int64_t count, int64_t, int64_t, const void *) {
    describe(call, object(memory), object(from), count, OCCATRACE_DTOD);
  }
};
struct CopyToHost : CopyTo {
  template <class C> static void enter(C &call, const void *memory, void *to, const void *) { describe(call, object(memory), to, -1, OCCATRACE_DTOH); }
  template <class C> static void enter(C &call, const void *memory, void *to, int64_t count, int64_t, const void *) {
    describe(call, object(memory), to, count, OCCATRACE_DTOH);
  }
};
struct CopyToMemory : CopyTo {
  template <class C> static void enter(C &call, const void *memory, Object *to, const void *) { describe(call, object(memory), object(to), -1, OCCATRACE_DTOD); }
  template <class C> static void enter(C &call, const void *memory, Object *to, int64_t count, int64_t, int64_t, const void *) {
    describe(call, object(memory), object(to), count, OCCATRACE_DTOD);
  }
};
struct MemcpyToMemory : Memcpy {
  template <class C> static void enter(C &call, Object *to, const void *from, const void *) { describe(call, object(to), from, -1, OCCATRACE_HTOD); }
  template <class C> static void enter(C &call, Object *to, const void *from, int64_t count, int64_t, const void *) {
    describe(call, object(to), from, count, OCCATRACE_HTOD);
  }
};
struct MemcpyToHost : Memcpy {
  template <class C> static void enter(C &call, void *to, Object *from, const void *) { describe(call, object(from), to, -1, OCCATRACE_DTOH); }
  template <class C> static void enter(C &call, void *to, Object *from, int64_t count, int64_t, const void *) {
    describe(call, object(from), to, count, OCCATRACE_DTOH);
  }
};
struct MemcpyInDevice : Memcpy {
  template <class C> static void enter(C &call, Object *to, Object *from, const void *) { describe(call, object(to), object(from), -1, OCCATRACE_DTOD); }
  template <class C> static void enter(C &call, Object *to, Object *from, int64_t count, int64_t, int64_t, const void *) {
    describe(call, object(to), object(from), count, OCCATRACE_DTOD);
  }
};
// Unified addresses (1.0): what it is shows below; nothing below means that host memory was copied.
struct MemcpyUnified : Memcpy {
  template <class C> static void enter(C &call, void *, const void *from, const void *) { describe(call, nullptr, from, -1, OCCATRACE_HTOH); }
  template <class C> static void enter(C &call, void *, const void *from, int64_t count, const void *) {
    describe(call, nullptr, from, count, OCCATRACE_HTOH);
    if (count > 0) call.event.bytes = static_cast<uint64_t>(count);
  }
};

// A virtual copy: tells the call above it what moves, or is an event of its own where no copy of the user is above.
template <class P, unsigned Slot, bool on_host, class... A>
void copy_below(const void *memory, const void *other, uint64_t bytes, uint64_t offset, occatrace_activity_kind kind,
                const void *props, A... args) {
  const auto real = reinterpret_cast<void (*)(A...)>(original[Slot]);
  if (!occatrace_running()) return real(args...);
  occatrace_thread *self = occatrace_self();
  State *state = state_of(self);
  if (!state) return real(args...);
  const auto fill = [&](Frame &frame) {
    frame.filled = true;
    frame.bytes = bytes;
    frame.offset = offset;
    frame.copy_kind = static_cast<uint8_t>(kind);
    // In host modes a copy is over when the call is.
    if (!on_host) frame.async = bool_in(props, "async", false);
  };
  state->copies++;
  Frame *outer = state->outer;
  if (outer && outer->kind == Kind::Copy && !outer->filled) {
    fill(*outer);
    return real(args...);
  }
  Call<P> call(self, state, self->occa_depth != 0);
  call.event.nested = self->occa_depth != 0 && !call.outermost;
  P::describe(call, memory, other, static_cast<int64_t>(bytes), kind);
  fill(call);
  guarded(call, [&] { real(args...); });
}

template <unsigned Slot, bool on_host>
void copy_from_host(void *memory, const void *from, uint64_t bytes, uint64_t offset, const void *props) {
  copy_below<CopyFrom, Slot, on_host>(memory, from, bytes, offset, OCCATRACE_HTOD, props, memory, from, bytes, offset, props);
}
template <unsigned Slot, bool on_host>
void copy_from_memory(void *memory, const void *from, uint64_t bytes, uint64_t offset, uint64_t from_offset, const void *props) {
  copy_below<CopyFrom, Slot, on_host>(memory, from, bytes, offset, OCCATRACE_DTOD, props, memory, from, bytes, offset, from_offset, props);
}
template <unsigned Slot, bool on_host>
void copy_to_host(const void *memory, void *to, uint64_t bytes, uint64_t offset, const void *props) {
  copy_below<CopyTo, Slot, on_host>(memory, to, bytes, offset, OCCATRACE_DTOH, props, memory, to, bytes, offset, props);
}

// X::memoryPool::memcpy: what is reserved in a pool moves to another buffer.
template <unsigned Slot, bool on_host>
void move_in_pool(void *pool, void *to, int64_t offset, void *from, int64_t from_offset, uint64_t bytes) {
  const auto real = reinterpret_cast<void (*)(void *, void *, int64_t, void *, int64_t, uint64_t)>(original[Slot]);
  const auto call_real = [&] { real(pool, to, offset, from, from_offset, bytes); };
  if (!occatrace_running()) return call_real();
  occatrace_thread *self = occatrace_self();
  State *state = state_of(self);
  if (!state) return call_real();
  Call<Memcpy> call(self, state, self->occa_depth != 0);
  call.event.nested = !call.outermost;
  call.event.handle = address(to);
  call.event.ptr = address(from);
  call.event.count = static_cast<int64_t>(bytes);
  call.event.mode = mode_of(state, ask.pool_mode, pool);
  call.filled = true;
  call.bytes = bytes;
  call.offset = static_cast<uint64_t>(offset);
  call.copy_kind = OCCATRACE_DTOD;
  call.async = !on_host;
  guarded(call, call_real);
}

// ---- memory ----

template <class E> struct Alloc : Function {
  using Event = E;
  static constexpr Kind kind = Kind::Alloc;
  static constexpr bool always = true; // what is allocated unseen is freed without a size
  template <class... A> static const void *last(const A &...args) {
    const void *const all[] = {reinterpret_cast<const void *>(args)...};
    return all[sizeof...(A) - 1];
  }
  template <class... A> static bool tagged(const void *device, int64_t bytes, const A &...args) { return tag_in(last(bytes, args...), object(device)).wanted; }
  template <class... A> static bool tagged(int64_t bytes, const A &...args) { return tag_in(last(bytes, args...)).wanted; }
  template <class C, class... A> static void enter(C &call, const void *device, A...) {
    call.event.device = handle(device);
  }
  template <class C, class... A> static void leave(C &, A &&...) {}
  static void finish(Event &event, Frame &frame) {
    if (frame.device) event.device = address(frame.device);
    if (!event.nested) event.scope = OCCATRACE_NO_RUN;
    event.mode = frame.mode;
    event.kind = std::is_same_v<E, occatrace_occa_device_umalloc> ? static_cast<uint8_t>(kManagedMemory) : frame.memory_kind;
    event.bytes = frame.bytes;
    event.handle = address(frame.object);
    event.source = address(frame.source);
    if constexpr (std::is_same_v<E, occatrace_occa_device_malloc>) event.memory = frame.offset;
  }
};

struct Malloc : Alloc<occatrace_occa_device_malloc> {
  OCCA_FUNCTION(device_malloc)
};
struct UMalloc : Alloc<occatrace_occa_device_umalloc> {
  OCCA_FUNCTION(device_umalloc)
};
// occa::malloc, occa::umalloc: the device shows below.
template <class P> struct AllocOnCurrentDevice : P {
  template <class C, class... A> static void enter(C &, A...) {}
};

// By the properties that choose it: `mapped` in the first family, `host` and `unified` in the second.
MemoryKind kind_of_memory(const void *props) {
  if (!props) return kDeviceMemory;
  if (bool_in(props, "unified", false)) return kManagedMemory;
  return bool_in(props, second_family ? "host" : "mapped", false) ? kHostMemory : kDeviceMemory;
}

// Sets a field of the state for as long as it lives.
template <class T> class Within {
 public:
  Within(T &field, T value) : field_(field), before_(field) { field_ = value; }
  ~Within() { field_ = before_; }
  Within(const Within &) = delete;
  Within &operator=(const Within &) = delete;

 private:
  T &field_, before_;
};

// The copy that fills new memory of the second family, where the compiler has made a direct call of the virtual member and the
// linker has bound it (-Bsymbolic). It takes what the allocation takes.
void tell_of_filling(occatrace_thread *self, State *state, const void *memory, const void *source, uint64_t bytes, uint64_t start) {
  Call<CopyFrom> call(self, state, true);
  call.event.nested = 1;
  CopyFrom::describe(call, memory, source, static_cast<int64_t>(bytes), OCCATRACE_HTOD);
  if (start) call.event.start = start;
  call.filled = true;
  call.bytes = bytes;
}

// X::device::malloc
template <unsigned Slot, bool on_host> void *allocate(void *device, uint64_t bytes, const void *source, const void *props) {
  const auto real = reinterpret_cast<void *(*)(void *, uint64_t, const void *, const void *)>(original[Slot]);
  occatrace_thread *self = occatrace_self();
  State *state = state_of(self);
  if (!state) return real(device, bytes, source, props);
  const bool filled = source && second_family && !bool_in(props, "use_host_pointer", false);
  const uint64_t start = filled ? occatrace_now() : 0;
  const uint32_t copies = state->copies;
  const auto make = [&] {
    const Within<bool> allocating(state->allocating, true);
    return real(device, bytes, source, props);
  };
  const auto fill = [&](Frame &frame, const void *memory) {
    const void *buffer = new_buffer_of(memory, bytes);
    frame.filled = true;
    frame.bytes = bytes;
    frame.object = buffer;
    frame.offset = address(memory);
    frame.source = source;
    frame.device = device;
    frame.mode = mode_of(state, ask.device_mode, device);
    if (!on_host) frame.memory_kind = kind_of_memory(props);
    remember_memory(memory, {0, frame.mode, false});
    remember_memory(buffer, {bytes, frame.mode, true});
    remember_tag(memory, tag_in(props, device));
    if (filled && state->copies == copies) tell_of_filling(self, state, memory, source, bytes, start);
  };
  Frame *outer = state->outer;
  if (outer && outer->kind == Kind::Alloc && !outer->filled) {
    void *memory = make();
    fill(*outer, memory);
    return memory;
  }
  const bool nested = self->occa_depth != 0;
  Call<Malloc> call(self, state, nested);
  call.event.nested = nested;
  call.event.scope = self->scope_seq;
  void *memory = guarded(call, make);
  fill(call, memory);
  return memory;
}

// X::buffer::malloc: a memory pool grows, where it is not a part of X::device::malloc.
template <unsigned Slot, bool on_host> void grow(void *buffer, uint64_t bytes) {
  const auto real = reinterpret_cast<void (*)(void *, uint64_t)>(original[Slot]);
  occatrace_thread *self = occatrace_self();
  State *state = state_of(self);
  if (!state || state->allocating) return real(buffer, bytes);
  const Probe probe{{nullptr, nullptr}, buffer};
  const bool nested = self->occa_depth != 0;
  Call<Malloc> call(self, state, nested);
  call.event.nested = nested;
  call.event.scope = self->scope_seq;
  call.mode = mode_of(state, ask.pool_mode, buffer);
  if (ask.pool_device) call.device = ask.pool_device(&probe);
  if (!on_host && ask.pool_properties) call.memory_kind = kind_of_memory(ask.pool_properties(&probe));
  call.bytes = bytes;
  call.object = buffer;
  guarded(call, [&] { real(buffer, bytes); });
  remember_memory(buffer, {bytes, call.mode, true});
}

struct WrapMemory : Function {
  OCCA_FUNCTION(device_wrapMemory)
  static void enter(Call<WrapMemory> &call, const void *device, const void *pointer, int64_t, const void *, const void *) {
    call.event.device = handle(device);
    call.event.source = address(pointer);
    call.event.mode = mode_of(call.state, ask.device_mode, object(device));
  }
  template <class... A> static void leave(Call<WrapMemory> &call, const Object &result, A...) {
    call.event.handle = address(result.object);
    call.event.bytes = size_of(result.object);
    remember_memory(result.object, {0, call.event.mode, true});
  }
  static void finish(Event &, Frame &) {}
};

struct MemoryFree : Function {
  OCCA_FUNCTION(memory_free)
  static constexpr Kind kind = Kind::Free;
  static bool tagged(const void *memory) { return tag_of(object(memory)).wanted; }
  static void enter(Call<MemoryFree> &call, const void *memory) {
    call.object = object(memory);
    if (call.level == OCCATRACE_EVENT) call.mode = mode_of(call.state, ask.memory_mode, call.object);
  }
  static void leave(Call<MemoryFree> &, const void *) {}
  static void finish(Event &event, Frame &frame) {
    event.handle = address(frame.object);
    event.buffer = address(frame.source);
    event.bytes = frame.bytes;
    event.mode = frame.mode;
  }
};

// The deleting destructor of a mode's memory: where every way to free ends. Its buffer, and with it the device, may be gone.
template <unsigned Slot> void delete_memory(void *memory) {
  const auto real = reinterpret_cast<void (*)(void *)>(original[Slot]);
  const Memory known = forget_memory(memory);
  if (!occatrace_running()) return real(memory);
  occatrace_thread *self = occatrace_self();
  State *state = state_of(self);
  if (!state) return real(memory);
  Frame *outer = state->outer;
  if (outer && outer->kind == Kind::Free && outer->object == memory) {
    outer->bytes = known.bytes;
    const Within<Frame *> ending(state->ending, outer);
    return real(memory);
  }
  const bool nested = self->occa_depth != 0;
  if (nested && !known.told) return real(memory);
  Call<MemoryFree> call(self, state, nested);
  call.event.nested = nested;
  call.object = memory;
  call.bytes = known.bytes;
  call.mode = known.mode;
  const Within<Frame *> ending(state->ending, &call);
  guarded(call, [&] { real(memory); });
}

// The deleting destructor of a mode's buffer, which lives as long as the last occa::memory of it, its device or its pool.
template <unsigned Slot> void delete_buffer(void *buffer) {
  const auto real = reinterpret_cast<void (*)(void *)>(original[Slot]);
  const Memory known = forget_memory(buffer);
  if (!occatrace_running() || !known.told) return real(buffer);
  occatrace_thread *self = occatrace_self();
  State *state = state_of(self);
  if (!state) return real(buffer);
  // What else it takes along ends by itself.
  const Within<Frame *> none(state->ending, state->ending);
  if (Frame *ending = std::exchange(state->ending, nullptr)) {
    ending->bytes = known.bytes;
    ending->source = buffer;
    return real(buffer);
  }
  const bool nested = self->occa_depth != 0;
  Call<MemoryFree> call(self, state, nested);
  call.event.nested = nested;
  call.object = buffer;
  call.bytes = known.bytes;
  call.mode = known.mode;
  guarded(call, [&] { real(buffer); });
}

struct Slice : Function {
  OCCA_FUNCTION(memory_slice)
  template <class... A> static bool tagged(const void *memory, const A &...) { return tag_of(object(memory)).wanted; }
  static void enter(Call<Slice> &call, const void *memory, int64_t offset, int64_t count) {
    enter(call, memory, offset);
    call.event.count = count;
  }
  static void enter(Call<Slice> &call, const void *memory, int64_t offset) {
    call.event.handle = handle(memory);
    call.event.offset = offset;
    call.event.count = -1;
  }
  template <class... A> static void leave(Call<Slice> &call, const Object &result, const void *memory, A...) {
    call.event.slice = address(result.object);
    remember_tag(result.object, tag_of(object(memory)));
    if (call.level != OCCATRACE_EVENT) return;
    call.event.buffer = second_family ? address(buffer_of(result.object)) : call.event.handle;
    call.event.bytes = size_of(result.object);
    call.event.mode = mode_of(call.state, ask.memory_mode, result.object);
    remember_memory(result.object, {0, call.event.mode, true});
  }
  static void finish(Event &, Frame &) {}
};

struct Clone : Function {
  OCCA_FUNCTION(memory_clone)
  static void enter(Call<Clone> &call, const void *memory) { call.event.handle = handle(memory); }
  static void leave(Call<Clone> &call, const Object &result, const void *) { call.event.clone = address(result.object); }
  static void finish(Event &, Frame &) {}
};

struct CreateMemoryPool : Function {
  OCCA_FUNCTION(device_createMemoryPool)
  static void enter(Call<CreateMemoryPool> &call, const void *device, const void *) {
    call.event.device = handle(device);
    call.event.mode = mode_of(call.state, ask.device_mode, object(device));
  }
  static void leave(Call<CreateMemoryPool> &call, const Object &result, const void *, const void *) { call.event.pool = address(result.object); }
  static void finish(Event &, Frame &) {}
};

struct Reserve : Function {
  OCCA_FUNCTION(memoryPool_reserve)
  static void enter(Call<Reserve> &call, const void *pool, int64_t entries, const void *) {
    call.event.pool = handle(pool);
    call.event.entries = entries;
  }
  static void leave(Call<Reserve> &call, const Object &result, const void *, int64_t, const void *) {
    call.event.handle = address(result.object);
    if (call.level != OCCATRACE_EVENT) return;
    call.event.bytes = size_of(result.object);
    call.event.mode = mode_of(call.state, ask.memory_mode, result.object);
    remember_memory(result.object, {0, call.event.mode, true});
  }
  static void finish(Event &, Frame &) {}
};

// Of a memory pool; what it makes of its memory shows below.
template <class E> struct OfPool : Function {
  using Event = E;
  template <class C> static void enter(C &call, const void *pool) { of(call, object(pool)); }
  template <class C> static void of(C &call, const void *mode_pool) {
    call.event.pool = address(mode_pool);
    if (call.level == OCCATRACE_EVENT) call.event.mode = mode_of(call.state, ask.pool_mode, mode_pool);
  }
  template <class C, class... A> static void leave(C &, A...) {}
  static void finish(Event &, Frame &) {}
};
struct PoolResize : OfPool<occatrace_occa_memoryPool_resize> {
  OCCA_FUNCTION(memoryPool_resize)
  static void enter(Call<PoolResize> &call, const void *pool, uint64_t bytes) {
    of(call, object(pool));
    call.event.bytes = bytes;
  }
};
struct PoolShrinkToFit : OfPool<occatrace_occa_memoryPool_shrinkToFit> {
  OCCA_FUNCTION(memoryPool_shrinkToFit)
};
struct PoolSetAlignment : OfPool<occatrace_occa_memoryPool_setAlignment> {
  OCCA_FUNCTION(memoryPool_setAlignment)
  static void enter(Call<PoolSetAlignment> &call, const void *pool, uint64_t alignment) {
    of(call, object(pool));
    call.event.alignment = alignment;
  }
};
struct PoolFree : OfPool<occatrace_occa_memoryPool_free> {
  OCCA_FUNCTION(memoryPool_free)
};

// The deleting destructor of a mode's memory pool: the end of its last handle, where no other call is above.
template <unsigned Slot> void delete_pool(void *pool) {
  const auto real = reinterpret_cast<void (*)(void *)>(original[Slot]);
  if (!occatrace_running()) return real(pool);
  occatrace_thread *self = occatrace_self();
  State *state = self->occa_depth ? nullptr : state_of(self);
  if (!state) return real(pool);
  Call<PoolFree> call(self, state);
  PoolFree::of(call, pool);
  guarded(call, [&] { real(pool); });
}

// ---- devices and streams ----

// Of a device, and of no other argument worth a field.
template <class E> struct OfDevice : Function {
  using Event = E;
  template <class C, class... A> static void enter(C &call, const void *device, A...) {
    call.event.device = handle(device);
    call.event.mode = mode_of(call.state, ask.device_mode, object(device));
  }
  template <class C, class... A> static void leave(C &, A...) {}
  static void finish(Event &, Frame &) {}
};

struct Setup : OfDevice<occatrace_occa_device_setup> {
  OCCA_BLOCKING(device_setup)
  // Before it, the handle is empty or not even constructed.
  static bool tagged(const void *, const void *const &props) { return tag_in(props).wanted; }
  template <class... A> static bool tagged(const A &...) { return false; }
  template <class C, class... A> static void enter(C &, A...) {}
  template <class C, class... A> static void leave(C &call, const void *device, A...) { OfDevice::enter(call, device); }
  template <class C> static void leave(C &call, const void *device, const void *props) {
    remember_tag(object(device), tag_in(props));
    OfDevice::enter(call, device);
  }
};
struct Finish : OfDevice<occatrace_occa_device_finish> {
  OCCA_BLOCKING(device_finish)
};
// occa::finish
struct FinishCurrent : Finish {
  template <class C> static void enter(C &) {}
  template <class C> static void leave(C &call) { OfDevice::enter(call, current_device()); }
};
struct FinishAll : OfDevice<occatrace_occa_device_finishAll> {
  OCCA_BLOCKING(device_finishAll)
};
struct DeviceFree : OfDevice<occatrace_occa_device_free> {
  OCCA_BLOCKING(device_free)
};
struct CreateStream : OfDevice<occatrace_occa_device_createStream> {
  OCCA_FUNCTION(device_createStream)
  static void leave(Call<CreateStream> &call, const Object &result, const void *, const void *) { call.event.stream = address(result.object); }
};

struct WrapStream : OfDevice<occatrace_occa_device_wrapStream> {
  OCCA_FUNCTION(device_wrapStream)
  static void leave(Call<WrapStream> &call, const Object &result, const void *, void *, const void *) { call.event.stream = address(result.object); }
};

struct SetStream : Function {
  OCCA_FUNCTION(device_setStream)
  static void enter(Call<SetStream> &call, const void *device, Object *stream) {
    call.event.device = handle(device);
    call.event.stream = handle(stream);
  }
  static void leave(Call<SetStream> &, const void *, Object *) {}
  static void finish(Event &, Frame &) {}
};
struct TagStream : Function {
  OCCA_FUNCTION(device_tagStream)
  static void enter(Call<TagStream> &call, const void *device) { call.event.device = handle(device); }
  static void leave(Call<TagStream> &call, const Object &result, const void *) { call.event.tag = address(result.object); }
  static void finish(Event &, Frame &) {}
};
struct WaitFor : Function {
  OCCA_BLOCKING(device_waitFor)
  static void enter(Call<WaitFor> &call, const void *device, Object *tag) {
    call.event.device = handle(device);
    call.event.tag = handle(tag);
  }
  static void leave(Call<WaitFor> &, const void *, Object *) {}
  static void finish(Event &, Frame &) {}
};
struct TimeBetween : Function {
  OCCA_BLOCKING(device_timeBetween)
  static void enter(Call<TimeBetween> &call, const void *device, const void *first, const void *last) {
    call.event.device = handle(device);
    call.event.first = handle(first);
    call.event.last = handle(last);
  }
  static void leave(Call<TimeBetween> &call, double seconds, const void *, const void *, const void *) { call.event.seconds = seconds; }
  static void finish(Event &, Frame &) {}
};

template <class E> struct OfStream : Function {
  using Event = E;
  template <class C> static void enter(C &call, const void *stream) { call.event.stream = handle(stream); }
  template <class C> static void leave(C &, const void *) {}
  static void finish(Event &, Frame &) {}
};
struct StreamFinish : OfStream<occatrace_occa_stream_finish> {
  OCCA_BLOCKING(stream_finish)
};
struct StreamFree : OfStream<occatrace_occa_stream_free> {
  OCCA_FUNCTION(stream_free)
};

// ---- which hook stands for which symbol ----

#define SLOT(symbol) OCCATRACE_SLOT_##symbol
#define API(symbol, policy, ...) {SLOT(symbol), reinterpret_cast<void *>(&Api<policy, SLOT(symbol), __VA_ARGS__>::hook)}
#define VIRTUAL(symbol, ...) {SLOT(symbol), reinterpret_cast<void *>(&__VA_ARGS__)}
// The same in both families: the properties are the last argument.
#define API2(prefix, policy, ...) \
  API(prefix##RKNS_10propertiesE, policy, __VA_ARGS__), API(prefix##RKNS_4jsonE, policy, __VA_ARGS__)

using Handle = const void *;
using Props = const void *;
using Name = const std::string &;

struct Hook {
  unsigned slot;
  void *function;
};

// The members of a mode; the second family has modes that the first lacks.
#define MODE_MEMORY(mode, props, on_host)                                                                                        \
  VIRTUAL(_ZN4occa##mode##6memory8copyFromEPKvmmRKNS_##props, copy_from_host<SLOT(_ZN4occa##mode##6memory8copyFromEPKvmmRKNS_##props), on_host>), \
  VIRTUAL(_ZN4occa##mode##6memory8copyFromEPKNS_12modeMemory_tEmmmRKNS_##props,                                                  \
          copy_from_memory<SLOT(_ZN4occa##mode##6memory8copyFromEPKNS_12modeMemory_tEmmmRKNS_##props), on_host>),                \
  VIRTUAL(_ZNK4occa##mode##6memory6copyToEPvmmRKNS_##props, copy_to_host<SLOT(_ZNK4occa##mode##6memory6copyToEPvmmRKNS_##props), on_host>), \
  VIRTUAL(_ZN4occa##mode##6device6mallocEmPKvRKNS_##props, allocate<SLOT(_ZN4occa##mode##6device6mallocEmPKvRKNS_##props), on_host>)
#define MODE_ENDS(mode)                                                                          \
  VIRTUAL(_ZN4occa##mode##6kernelD0Ev, delete_kernel<SLOT(_ZN4occa##mode##6kernelD0Ev)>),        \
  VIRTUAL(_ZN4occa##mode##6memoryD0Ev, delete_memory<SLOT(_ZN4occa##mode##6memoryD0Ev)>)
#define MODE_RUN(mode) VIRTUAL(_ZNK4occa##mode##6kernel9deviceRunEv, run_on_device<SLOT(_ZNK4occa##mode##6kernel9deviceRunEv)>)
// Of 1.2 and later.
#define MODE_BUFFERS(mode, on_host)                                                                                                 \
  VIRTUAL(_ZN4occa##mode##6buffer6mallocEm, grow<SLOT(_ZN4occa##mode##6buffer6mallocEm), on_host>),                                 \
  VIRTUAL(_ZN4occa##mode##6bufferD0Ev, delete_buffer<SLOT(_ZN4occa##mode##6bufferD0Ev)>),                                           \
  VIRTUAL(_ZN4occa##mode##10memoryPoolD0Ev, delete_pool<SLOT(_ZN4occa##mode##10memoryPoolD0Ev)>),                                   \
  VIRTUAL(_ZN4occa##mode##10memoryPool6memcpyEPNS_12modeBuffer_tElS3_lm,                                                            \
          move_in_pool<SLOT(_ZN4occa##mode##10memoryPool6memcpyEPNS_12modeBuffer_tElS3_lm), on_host>)
#define MODE(mode) MODE_MEMORY(mode, 4jsonE, false), MODE_ENDS(mode), MODE_RUN(mode), MODE_BUFFERS(mode, false)

const Hook hooks[] = {
  API(_ZNK4occa6kernel3runEv, KernelRun, void, Handle),
  VIRTUAL(_ZNK4occa20launchedModeKernel_t3runEv, run_kernel<SLOT(_ZNK4occa20launchedModeKernel_t3runEv)>),
  VIRTUAL(_ZNK4occa6serial6kernel3runEv, run_kernel<SLOT(_ZNK4occa6serial6kernel3runEv)>),
  API(_ZN4occa6kernel4freeEv, KernelFree, void, Handle),

  API2(_ZN4occa6memory8copyFromEPKv, CopyFromHost, void, void *, const void *, Props),
  API2(_ZN4occa6memory8copyFromEPKvll, CopyFromHost, void, void *, const void *, int64_t, int64_t, Props),
  API2(_ZN4occa6memory8copyFromES0_, CopyFromMemory, void, void *, Object *, Props),
  API2(_ZN4occa6memory8copyFromES0_lll, CopyFromMemory, void, void *, Object *, int64_t, int64_t, int64_t, Props),
  API2(_ZNK4occa6memory6copyToEPv, CopyToHost, void, Handle, void *, Props),
  API2(_ZNK4occa6memory6copyToEPvll, CopyToHost, void, Handle, void *, int64_t, int64_t, Props),
  API2(_ZNK4occa6memory6copyToES0_, CopyToMemory, void, Handle, Object *, Props),
  API2(_ZNK4occa6memory6copyToES0_lll, CopyToMemory, void, Handle, Object *, int64_t, int64_t, int64_t, Props),
  API2(_ZN4occa6memcpyENS_6memoryEPKv, MemcpyToMemory, void, Object *, const void *, Props),
  API2(_ZN4occa6memcpyENS_6memoryEPKvll, MemcpyToMemory, void, Object *, const void *, int64_t, int64_t, Props),
  API2(_ZN4occa6memcpyENS_6memoryES0_, MemcpyInDevice, void, Object *, Object *, Props),
  API2(_ZN4occa6memcpyENS_6memoryES0_lll, MemcpyInDevice, void, Object *, Object *, int64_t, int64_t, int64_t, Props),
  API2(_ZN4occa6memcpyEPvNS_6memoryE, MemcpyToHost, void, void *, Object *, Props),
  API2(_ZN4occa6memcpyEPvNS_6memoryEll, MemcpyToHost, void, void *, Object *, int64_t, int64_t, Props),
  API(_ZN4occa6memcpyEPvPKvRKNS_10propertiesE, MemcpyUnified, void, void *, const void *, Props),
  API(_ZN4occa6memcpyEPvPKvlRKNS_10propertiesE, MemcpyUnified, void, void *, const void *, int64_t, Props),

  API(_ZN4occa6device6mallocElNS_6memoryERKNS_10propertiesE, Malloc, Object, Handle, int64_t, Object *, Props),
  API(_ZN4occa6device6mallocElPKvRKNS_10propertiesE, Malloc, Object, Handle, int64_t, const void *, Props),
  API(_ZN4occa6device6mallocElRKNS_10propertiesE, Malloc, Object, Handle, int64_t, Props),
  API2(_ZN4occa6device6mallocElRKNS_7dtype_tENS_6memoryE, Malloc, Object, Handle, int64_t, const void *, Object *, Props),
  API2(_ZN4occa6device6mallocElRKNS_7dtype_tEPKv, Malloc, Object, Handle, int64_t, const void *, const void *, Props),
  API2(_ZN4occa6device6mallocElRKNS_7dtype_tE, Malloc, Object, Handle, int64_t, const void *, Props),
  API(_ZN4occa6device7umallocElNS_6memoryERKNS_10propertiesE, UMalloc, void *, Handle, int64_t, Object *, Props),
  API(_ZN4occa6device7umallocElPKvRKNS_10propertiesE, UMalloc, void *, Handle, int64_t, const void *, Props),
  API(_ZN4occa6device7umallocElRKNS_10propertiesE, UMalloc, void *, Handle, int64_t, Props),
  API(_ZN4occa6device7umallocElRKNS_7dtype_tENS_6memoryERKNS_10propertiesE, UMalloc, void *, Handle, int64_t, const void *, Object *, Props),
  API(_ZN4occa6device7umallocElRKNS_7dtype_tEPKvRKNS_10propertiesE, UMalloc, void *, Handle, int64_t, const void *, const void *, Props),
  API(_ZN4occa6device7umallocElRKNS_7dtype_tERKNS_10propertiesE, UMalloc, void *, Handle, int64_t, const void *, Props),
  API2(_ZN4occa6mallocElRKNS_7dtype_tEPKv, AllocOnCurrentDevice<Malloc>, Object, int64_t, const void *, const void *, Props),
  API(_ZN4occa6mallocElPKvRKNS_10propertiesE, AllocOnCurrentDevice<Malloc>, Object, int64_t, const void *, Props),
  API(_ZN4occa7umallocElPKvRKNS_10propertiesE, AllocOnCurrentDevice<UMalloc>, void *, int64_t, const void *, Props),
  API(_ZN4occa7umallocElRKNS_7dtype_tEPKvRKNS_10propertiesE, AllocOnCurrentDevice<UMalloc>, void *, int64_t, const void *, const void *, Props),
  API(_ZN4occa6device10wrapMemoryEPKvlRKNS_7dtype_tERKNS_4jsonE, WrapMemory, Object, Handle, const void *, int64_t, const void *, Props),
  API(_ZN4occa6memory4freeEv, MemoryFree, void, Handle),
  API(_ZN4occa6memory6detachEv, MemoryFree, void, Handle),
  API(_ZNK4occa6memory5sliceEll, Slice, Object, Handle, int64_t, int64_t),
  API(_ZNK4occa6memoryplEl, Slice, Object, Handle, int64_t),
  API(_ZNK4occa6memory5cloneEv, Clone, Object, Handle),
  API(_ZN4occa6device16createMemoryPoolERKNS_4jsonE, CreateMemoryPool, Object, Handle, Props),
  API(_ZN4occa10memoryPool7reserveElRKNS_7dtype_tE, Reserve, Object, Handle, int64_t, const void *),
  API(_ZN4occa10memoryPool6resizeEm, PoolResize, void, Handle, uint64_t),
  API(_ZN4occa10memoryPool11shrinkToFitEv, PoolShrinkToFit, void, Handle),
  API(_ZN4occa10memoryPool12setAlignmentEm, PoolSetAlignment, void, Handle, uint64_t),
  API(_ZN4occa10memoryPool4freeEv, PoolFree, void, Handle),

  API2(_ZN4occa6device5setupE, Setup, void, Handle, Props),
  API(_ZN4occa6device5setupERKNSt7__cxx1112basic_stringIcSt11char_traitsIcESaIcEEE, Setup, void, Handle, Name),
  API2(_ZN4occa6deviceC1E, Setup, void, Handle, Props),
  API(_ZN4occa6deviceC1ERKNSt7__cxx1112basic_stringIcSt11char_traitsIcESaIcEEE, Setup, void, Handle, Name),
  API(_ZN4occa6deviceC1ESt16initializer_listINS_12jsonKeyValueEE, Setup, void, Handle, const void *, size_t),
  API2(_ZNK4occa6device11buildKernelERKNSt7__cxx1112basic_stringIcSt11char_traitsIcESaIcEEES8_, BuildKernel, Object, Handle, Name, Name, Props),
  API2(_ZNK4occa6device21buildKernelFromStringERKNSt7__cxx1112basic_stringIcSt11char_traitsIcESaIcEEES8_, BuildKernelFromString, Object, Handle,
       Name, Name, Props),
  API2(_ZNK4occa6device21buildKernelFromBinaryERKNSt7__cxx1112basic_stringIcSt11char_traitsIcESaIcEEES8_, BuildKernelFromBinary, Object, Handle,
       Name, Name, Props),
  API2(_ZN4occa11buildKernelERKNSt7__cxx1112basic_stringIcSt11char_traitsIcESaIcEEES7_, OnCurrentDevice<BuildKernel>, Object, Name, Name, Props),
  API2(_ZN4occa21buildKernelFromStringERKNSt7__cxx1112basic_stringIcSt11char_traitsIcESaIcEEES7_, OnCurrentDevice<BuildKernelFromString>, Object,
       Name, Name, Props),
  API2(_ZN4occa21buildKernelFromBinaryERKNSt7__cxx1112basic_stringIcSt11char_traitsIcESaIcEEES7_, OnCurrentDevice<BuildKernelFromBinary>, Object,
       Name, Name, Props),
  API(_ZN4occa6finishEv, FinishCurrent, void),
  API(_ZN4occa6device6finishEv, Finish, void, Handle),
  API(_ZN4occa6device9finishAllEv, FinishAll, void, Handle),
  API(_ZN4occa6device4freeEv, DeviceFree, void, Handle),
  API(_ZN4occa6stream6finishEv, StreamFinish, void, Handle),
  API(_ZN4occa6stream4freeEv, StreamFree, void, Handle),
  API2(_ZN4occa6device12createStreamE, CreateStream, Object, Handle, Props),
  API(_ZN4occa6device10wrapStreamEPvRKNS_4jsonE, WrapStream, Object, Handle, void *, Props),
  API(_ZN4occa6device9setStreamENS_6streamE, SetStream, void, Handle, Object *),
  API(_ZN4occa6device9tagStreamEv, TagStream, Object, Handle),
  API(_ZN4occa6device7waitForENS_9streamTagE, WaitFor, void, Handle, Object *),
  API(_ZN4occa6device11timeBetweenERKNS_9streamTagES3_, TimeBetween, double, Handle, Handle, Handle),

  MODE_MEMORY(6serial, 10propertiesE, true), MODE_MEMORY(6serial, 4jsonE, true), MODE_ENDS(6serial), MODE_BUFFERS(6serial, true),
  MODE_MEMORY(6opencl, 10propertiesE, false), MODE_MEMORY(4cuda, 10propertiesE, false),
  MODE(6opencl), MODE(4cuda), MODE(3hip), MODE(5dpcpp), MODE(5metal),
};

// operator() with 0, 1, 2 … arguments, all of them references; their slots follow each other.
constexpr unsigned kCalls = 129, kFirstCall = SLOT(_ZNK4occa6kernelclEv);
static_assert(kFirstCall + kCalls == SLOT(_ZNK4occa20launchedModeKernel_t3runEv), "operator() stands in another order");

template <unsigned> using Argument = const void *;
template <unsigned Slot, unsigned... I> void *call_hook(std::integer_sequence<unsigned, I...>) {
  return reinterpret_cast<void *>(&Api<KernelRun, Slot, void, Handle, Argument<I>...>::hook);
}
template <unsigned... N> std::array<Hook, sizeof...(N)> call_hooks(std::integer_sequence<unsigned, N...>) {
  return {Hook{kFirstCall + N, call_hook<kFirstCall + N>(std::make_integer_sequence<unsigned, N>())}...};
}

// ---- binding ----

const char *const vtables[] = {
  "_ZTVN4occa6serial6kernelE", "_ZTVN4occa6serial6memoryE", "_ZTVN4occa6serial6deviceE", "_ZTVN4occa6serial6bufferE", "_ZTVN4occa6serial10memoryPoolE",
  "_ZTVN4occa6openmp6deviceE",
  "_ZTVN4occa6opencl6kernelE", "_ZTVN4occa6opencl6memoryE", "_ZTVN4occa6opencl6deviceE", "_ZTVN4occa6opencl6bufferE", "_ZTVN4occa6opencl10memoryPoolE",
  "_ZTVN4occa4cuda6kernelE", "_ZTVN4occa4cuda6memoryE", "_ZTVN4occa4cuda6deviceE", "_ZTVN4occa4cuda6bufferE", "_ZTVN4occa4cuda10memoryPoolE",
  "_ZTVN4occa3hip6kernelE", "_ZTVN4occa3hip6memoryE", "_ZTVN4occa3hip6deviceE", "_ZTVN4occa3hip6bufferE", "_ZTVN4occa3hip10memoryPoolE",
  "_ZTVN4occa5dpcpp6kernelE", "_ZTVN4occa5dpcpp6memoryE", "_ZTVN4occa5dpcpp6deviceE", "_ZTVN4occa5dpcpp6bufferE", "_ZTVN4occa5dpcpp10memoryPoolE",
  "_ZTVN4occa5metal6kernelE", "_ZTVN4occa5metal6memoryE", "_ZTVN4occa5metal6deviceE", "_ZTVN4occa5metal6bufferE", "_ZTVN4occa5metal10memoryPoolE",
};

struct Protection {
  uintptr_t page, length;
  bool read_only;
};

// After start-up the dynamic linker makes the RELRO part of an object read-only.
int find_protection(dl_phdr_info *info, size_t, void *data) {
  auto *wanted = static_cast<Protection *>(data);
  for (int i = 0; i < info->dlpi_phnum; i++) {
    const ElfW(Phdr) &segment = info->dlpi_phdr[i];
    const uintptr_t start = info->dlpi_addr + segment.p_vaddr;
    if (segment.p_type != PT_GNU_RELRO || wanted->page + wanted->length <= start || wanted->page >= start + segment.p_memsz) continue;
    wanted->read_only = true;
    return 1;
  }
  return 0;
}

void write_slot(void **slot, void *hook) {
  const uintptr_t size = static_cast<uintptr_t>(sysconf(_SC_PAGESIZE));
  Protection p{address(slot) & ~(size - 1), size, false};
  dl_iterate_phdr(find_protection, &p);
  if (p.read_only && mprotect(reinterpret_cast<void *>(p.page), p.length, PROT_READ | PROT_WRITE) != 0) {
    occatrace_say("cannot write to OCCA's vtables; some kernels and copies will be missing");
    return;
  }
  __atomic_store_n(slot, hook, __ATOMIC_RELEASE);
  if (p.read_only) mprotect(reinterpret_cast<void *>(p.page), p.length, PROT_READ);
}

// Slots that the dynamic linker has not led to our trampolines (-Bsymbolic), found by the address in them.
void patch_vtables(void *library, void *const *slots) {
  for (const char *name : vtables) {
    void *table = dlsym(library, name);
    Dl_info info;
    const ElfW(Sym) *symbol = nullptr;
    if (!table || !dladdr1(table, &info, reinterpret_cast<void **>(const_cast<ElfW(Sym) **>(&symbol)), RTLD_DL_SYMENT) || !symbol) continue;
    void **words = static_cast<void **>(table);
    for (size_t i = 0; i < symbol->st_size / sizeof(void *); i++) {
      for (const Hook &hook : hooks) {
        if (original[hook.slot] && words[i] == original[hook.slot] && slots[hook.slot] != original[hook.slot]) {
          write_slot(&words[i], slots[hook.slot]);
          break;
        }
      }
    }
  }
}

template <class F> void find(F &function, void *library, const char *symbol) {
  function = reinterpret_cast<F>(dlsym(library, symbol));
}

} // namespace

extern "C" OCCATRACE_EXPORT void occatrace_bind_occa(const occatrace_trampolines *trampolines) {
  static const uint8_t table[][4] = OCCATRACE_OCCA_LEVELS;
  static const char *const names[] = OCCATRACE_OCCA_NAMES;
  static_assert(std::size(hooks) + kCalls == SLOT(occaCreateDevice), "a symbol of the model has no hook, or two");
  events = static_cast<const occatrace_occa_events *>(occatrace_load_provider("occa"));
  if (!events) return;
  std::copy_n(trampolines->original, OCCATRACE_OCCA_SLOTS, original);
  Dl_info info;
  void *library = nullptr;
  for (void *function : original)
    if (function && dladdr(function, &info)) {
      // Kept for good: hooks and vtables lead into it.
      library = dlopen(info.dli_fname, RTLD_LAZY | RTLD_NOLOAD | RTLD_NODELETE);
      break;
    }
  if (!library) library = dlopen(nullptr, RTLD_LAZY);
  find(ask.kernel_name, library, "_ZN4occa6kernel4nameB5cxx11Ev");
  find(ask.kernel_source, library, "_ZN4occa6kernel14sourceFilenameB5cxx11Ev");
  find(ask.kernel_binary, library, "_ZN4occa6kernel14binaryFilenameB5cxx11Ev");
  find(ask.kernel_mode, library, "_ZNK4occa6kernel4modeB5cxx11Ev");
  find(ask.memory_mode, library, "_ZNK4occa6memory4modeB5cxx11Ev");
  find(ask.device_mode, library, "_ZNK4occa6device4modeB5cxx11Ev");
  find(ask.current_device, library, "_ZN4occa9getDeviceEv");
  find(ask.json_bool, library, "_ZNK4occa4json3getIbEET_PKcRKS2_");
  find(ask.json_text, library, "_ZNK4occa4json3getINSt7__cxx1112basic_stringIcSt11char_traitsIcESaIcEEEEET_PKcRKS8_");
  find(ask.json_at, library, "_ZNK4occa4jsonixEPKc");
  find(ask.json_string, library, "_ZNK4occa4json8toStringB5cxx11Ev");
  find(ask.pool_mode, library, "_ZNK4occa10memoryPool4modeB5cxx11Ev");
  find(ask.pool_device, library, "_ZNK4occa10memoryPool13getModeDeviceEv");
  find(ask.pool_properties, library, "_ZNK4occa10memoryPool10propertiesEv");
  // 2.0 counts entries in size().
  find(ask.memory_size, library, "_ZNK4occa6memory9byte_sizeEv");
  if (!ask.memory_size) find(ask.memory_size, library, "_ZNK4occa6memory4sizeEv");
  second_family = dlsym(library, "_ZN4occa6device5setupERKNS_4jsonE") != nullptr;
  // 1.2 and later, 1.1, 1.0.
  if (second_family)
    layout = {464, 64, 56};
  else
    layout = dlsym(library, "_ZN4occa6kernel4hashEv") ? Layout{448, 32, 0} : Layout{360, 32, 0};
  occatrace_levels("occa", levels, table, names, OCCATRACE_OCCA_COUNT);
  first_tally = occatrace_register_functions("occa", names, OCCATRACE_OCCA_COUNT);
  occatrace_on_end = close_calls;
  for (const Hook &hook : hooks)
    if (original[hook.slot]) trampolines->slots[hook.slot] = hook.function;
  for (const Hook &hook : call_hooks(std::make_integer_sequence<unsigned, kCalls>()))
    if (original[hook.slot]) trampolines->slots[hook.slot] = hook.function;
  patch_vtables(library, trampolines->slots);
}
