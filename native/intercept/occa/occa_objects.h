// OCCA's objects as they look from outside, what is known of them, and the kernels as their authors named them.
#pragma once

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

enum class Kind : uint8_t {
  Plain,
  Run,
  Copy,
  Alloc,
  Free,
};

// What the virtual members tell the call of the user above them.
struct Frame {
  Kind kind = Kind::Plain;
  bool filled = false;
  uint8_t copy_kind = 0, async = 0, memory_kind = OCCATRACE_OCCA_MEMORY_DEVICE;
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
  enum {
    Code,
    Line,
    Block,
    Quote,
  } in = Code;
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

}  // namespace
