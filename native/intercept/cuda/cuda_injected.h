// The CUDA driver's calls as CUPTI tells of them: what the driver itself has loaded (CUDA_INJECTION64_PATH, cuda_injection.c)
// where a program reaches it past the shim. Part of cuda.cpp.
#pragma once

#include "cuda_callbacks.h"
#include "made_once.h"

namespace occatrace::cuda {

namespace {

// ---- frames ----

// Calls of this thread that have begun; one within another is rare, more than a few are none of the driver's. Nothing to be
// destroyed: the thread may still call the driver as it ends.
struct Begun {
  alignas(std::max_align_t) unsigned char frames[8][kFrame];
  unsigned depth;
  bool ours;  // what the thread calls now is called by us
};
thread_local Begun begun;

struct Ours {
  const bool before = begun.ours;
  Ours() { begun.ours = true; }
  ~Ours() { begun.ours = before; }
  Ours(const Ours &) = delete;
  Ours &operator=(const Ours &) = delete;
};

// ---- calls ----

// By CUPTI's numbers; null: a function that the model lacks.
std::vector<const Callback *> &by_number() {
  static std::atomic<std::vector<const Callback *> *> all;
  return device::made_once(all);
}

// The generated table, by name.
const Callback *find(const char *name) {
  static std::atomic<std::vector<const Callback *> *> made;
  const auto &sorted = device::made_once(made, [] {
    auto *all = new std::vector<const Callback *>;
    for (const Callback &callback : callbacks) all->push_back(&callback);
    std::sort(all->begin(), all->end(), [](const Callback *a, const Callback *b) { return std::strcmp(a->name, b->name) < 0; });
    return all;
  });
  const auto found = std::lower_bound(sorted.begin(), sorted.end(), name,
                                      [](const Callback *a, const char *b) { return std::strcmp(a->name, b) < 0; });
  return found != sorted.end() && std::strcmp((*found)->name, name) == 0 ? *found : nullptr;
}

bool wants(uint32_t number, const char *name) {
  if (by_number().size() <= number) by_number().resize(number + 1, nullptr);
  const Callback *callback = by_number()[number] = find(name);
  if (callback == nullptr) return !of_graphics(name);
  return callback->always || (levels[callback->function] & ~OCCATRACE_EXCLUDED) != OCCATRACE_OFF;
}

// Each is named once.
void unknown(uint32_t number, const char *name) {
  static std::mutex mutex;
  static std::atomic<std::vector<uint32_t> *> made;
  std::lock_guard<std::mutex> guard(mutex);
  auto &named = device::made_once(made);
  if (std::find(named.begin(), named.end(), number) != named.end()) return;
  named.push_back(number);
  device::untraced("CUDA", name);
}

void told(void *, int, uint32_t number, const void *data) {
  Begun &thread = begun;
  if (thread.ours || number >= by_number().size()) return;
  const Ours ours;
  const auto &call = *static_cast<const cupti::CallbackData *>(data);
  const Callback *callback = by_number()[number];
  if (callback == nullptr) {
    if (call.site == 0) unknown(number, call.function);
    return;
  }
  if (call.site == 0) {
    *call.kept = 0;
    if (thread.depth == std::size(thread.frames)) return;
    void *frame = thread.frames[thread.depth];
    cupti::calling(call.correlation);
    if (!callback->begin(frame, call.params)) return;
    ++thread.depth;
    *call.kept = reinterpret_cast<uint64_t>(frame);
    return;
  }
  // Of a call that had begun before we were there nothing is kept.
  if (thread.depth == 0 || *call.kept != reinterpret_cast<uint64_t>(thread.frames[thread.depth - 1])) return;
  callback->end(thread.frames[--thread.depth], call.returned);
}

// ---- begin ----

occatrace_backend backend{"cuda",
                          [](int final) {
                            const Ours ours;
                            Timing::harvest(final);
                          },
                          after_fork_child, nullptr};

// The program takes CUPTI.
void stop_recording() {
  occatrace_say("the program uses CUPTI itself now: from here on its calls of CUDA's driver are not recorded");
  const Ours ours;
  Timing::stop();
  Pairs::wanted = false;
}

}  // namespace

}  // namespace occatrace::cuda

// In the driver's first cuInit; `driver` is its library.
extern "C" OCCATRACE_EXPORT void occatrace_cuda_injected(void *driver) {
  using namespace occatrace::cuda;
  const Ours ours;
  for (const Callback &callback : callbacks) {
    void *address = dlsym(driver, callback.name);
    if (address != nullptr) std::memcpy(reinterpret_cast<char *>(&targets[callback.variant]) + callback.offset, &address, sizeof address);
  }
  if (!start(backend)) return;
  const occatrace::device::Source *source = nullptr;
  const char *why = nullptr;
  if (!occatrace::cupti::start_with_calls({wants, told, Pairs::wanted, stop_recording}, &source, &why)) {
    Pairs::wanted = false;
    occatrace_say("calls of CUDA's driver are not recorded: the program reaches it past our libcuda.so.1, and %s", why);
    return;
  }
  if (source != nullptr) {
    if (occatrace_device_time() == OCCATRACE_TIME_EVENTS) occatrace_say("device work is timed by CUPTI, which also tells of the calls");
    Timing::use(*source);
    record_more();
  } else if (Pairs::wanted) {
    Pairs::wanted = false;
    occatrace_say("device work is not recorded: CUPTI refuses to");
  }
}
