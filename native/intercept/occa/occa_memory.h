// Copies and memory of OCCA.
#pragma once

#include "occa_calls.h"

namespace {

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
                const void *props, const void *called_from, A... args) {
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
  Call<P> call(self, state, called_from, self->occa_depth != 0);
  call.event.nested = self->occa_depth != 0 && !call.outermost;
  P::describe(call, memory, other, static_cast<int64_t>(bytes), kind);
  fill(call);
  guarded(call, [&] { real(args...); });
}

template <unsigned Slot, bool on_host>
void copy_from_host(void *memory, const void *from, uint64_t bytes, uint64_t offset, const void *props) {
  copy_below<CopyFrom, Slot, on_host>(memory, from, bytes, offset, OCCATRACE_HTOD, props, OCCATRACE_CALLED_FROM(), memory, from, bytes, offset, props);
}
template <unsigned Slot, bool on_host>
void copy_from_memory(void *memory, const void *from, uint64_t bytes, uint64_t offset, uint64_t from_offset, const void *props) {
  copy_below<CopyFrom, Slot, on_host>(memory, from, bytes, offset, OCCATRACE_DTOD, props, OCCATRACE_CALLED_FROM(), memory, from, bytes, offset, from_offset, props);
}
template <unsigned Slot, bool on_host>
void copy_to_host(const void *memory, void *to, uint64_t bytes, uint64_t offset, const void *props) {
  copy_below<CopyTo, Slot, on_host>(memory, to, bytes, offset, OCCATRACE_DTOH, props, OCCATRACE_CALLED_FROM(), memory, to, bytes, offset, props);
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
  Call<Memcpy> call(self, state, OCCATRACE_CALLED_FROM(), self->occa_depth != 0);
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
    event.kind = std::is_same_v<E, occatrace_occa_device_umalloc> ? static_cast<uint8_t>(OCCATRACE_OCCA_MEMORY_MANAGED) : frame.memory_kind;
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
occatrace_memory_kind kind_of_memory(const void *props) {
  if (!props) return OCCATRACE_OCCA_MEMORY_DEVICE;
  if (bool_in(props, "unified", false)) return OCCATRACE_OCCA_MEMORY_MANAGED;
  return bool_in(props, second_family ? "host" : "mapped", false) ? OCCATRACE_OCCA_MEMORY_HOST : OCCATRACE_OCCA_MEMORY_DEVICE;
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
  Call<CopyFrom> call(self, state, nullptr, true);
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
  Call<Malloc> call(self, state, OCCATRACE_CALLED_FROM(), nested);
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
  Call<Malloc> call(self, state, OCCATRACE_CALLED_FROM(), nested);
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
  Call<MemoryFree> call(self, state, OCCATRACE_CALLED_FROM(), nested);
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
  Call<MemoryFree> call(self, state, OCCATRACE_CALLED_FROM(), nested);
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
  Call<PoolFree> call(self, state, OCCATRACE_CALLED_FROM());
  PoolFree::of(call, pool);
  guarded(call, [&] { real(pool); });
}

}  // namespace
