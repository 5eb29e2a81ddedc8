// The device work of OpenCL's calls: what the expressions of the model name (tracepoints/opencl.yaml), and the hook of such calls.
#pragma once

#include <dlfcn.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "../common/arrays.h"
#include "engine.h"
#include "known_functions.h"
#include "made_once.h"
#include "occatrace_core.h"
#include "opencl_table.h"

namespace occatrace::opencl {

// A process may hold several loaders (a program's own, one inside a Python wheel); each has its table of real functions.
constexpr int kLoaders = 4;
constexpr size_t kSlots = sizeof(Dispatch) / sizeof(void *);
static Dispatch targets[kLoaders];
template <int I>
const Dispatch &real() {
  return targets[I];
}
inline const Dispatch &real(unsigned loader) { return targets[loader]; }

}  // namespace occatrace::opencl

#include "opencl_wrappers.h"

namespace occatrace::opencl {

namespace {

using device::Engine;
using device::HandleMap;
using device::Queue;
using device::Times;
using device::Work;

// Off in the mode that only tallies: queues are then left as the program made them.
bool device_time = false;

HandleMap kernel_names;  // cl_kernel → interned name
HandleMap mapped_bytes;  // address of a mapping → its bytes
HandleMap buffer_queues; // cl_command_buffer_khr → its first queue

// Shared virtual memory, by address: a copy's kind follows from what its two ends are.
class SharedMemory {
 public:
  void add(const void *start, size_t bytes) {
    std::lock_guard<std::mutex> guard(mutex_);
    blocks_[reinterpret_cast<uintptr_t>(start)] = bytes;
  }
  void remove(const void *const *starts, size_t count) {
    for (size_t at = 0; starts != nullptr && at < count; ++at) remove(starts[at]);
  }
  void remove(const void *start) {
    std::lock_guard<std::mutex> guard(mutex_);
    blocks_.erase(reinterpret_cast<uintptr_t>(start));
  }
  bool holds(const void *address) {
    std::lock_guard<std::mutex> guard(mutex_);
    const auto at = reinterpret_cast<uintptr_t>(address);
    auto next = blocks_.upper_bound(at);
    if (next == blocks_.begin()) return false;
    --next;
    return at - next->first < next->second;
  }
  void unlock_after_fork() { new (&mutex_) std::mutex; }

 private:
  std::mutex mutex_;
  std::map<uintptr_t, size_t> blocks_;
};

SharedMemory &shared_memory() {
  static std::atomic<SharedMemory *> memory;
  return device::made_once(memory);
}

// ---- what the device engine needs of OpenCL ----

constexpr cl_ulong kLeastStamp = 1000;  // ns of a device's clock

template <int I>
int32_t poll(void *handle, Times *times) {
  auto *event = static_cast<cl_event>(handle);
  const auto stamp = [event](cl_profiling_info which, uint64_t *value) {
    cl_ulong read = 0;
    if (real<I>().clGetEventProfilingInfo(event, which, sizeof read, &read, nullptr) != CL_SUCCESS) return false;
    // A driver without a clock gives small numbers at any moment, before the command has ended, too: 0, 1, 2, 3 (Mesa's rusticl, 22.3).
    *value = read < kLeastStamp ? 0 : read;
    return *value != 0;
  };
  // A command has its end stamp when it is complete, and only then: mostly this spares asking for its state.
  *times = {};
  if (!stamp(CL_PROFILING_COMMAND_END, &times->end)) {
    cl_int status = CL_QUEUED;
    const cl_int code = real<I>().clGetEventInfo(event, CL_EVENT_COMMAND_EXECUTION_STATUS, sizeof status, &status, nullptr);
    if (code != CL_SUCCESS) return code;
    if (status > CL_COMPLETE) return status == CL_QUEUED ? device::kWaiting : device::kWorking;
    stamp(CL_PROFILING_COMMAND_QUEUED, &times->queued);
    return status;
  }
  stamp(CL_PROFILING_COMMAND_QUEUED, &times->queued);
  stamp(CL_PROFILING_COMMAND_SUBMIT, &times->submitted);
  stamp(CL_PROFILING_COMMAND_START, &times->start);
  return 0;
}

template <int I>
void release(void *event) {
  real<I>().clReleaseEvent(static_cast<cl_event>(event));
}

template <int I>
void retain(void *event) {
  real<I>().clRetainEvent(static_cast<cl_event>(event));
}

// With what hooks need that do not know the queue's loader.
struct Loader : device::Vendor {
  void (*retain)(void *event);
};
template <int I>
inline const Loader vendor{{poll<I>, release<I>, nullptr, true}, retain<I>};

template <class Get, class Object, class Name>
std::string text_of(Get get, Object object, Name name) {
  size_t size = 0;
  if (get == nullptr || get(object, name, 0, nullptr, &size) != CL_SUCCESS || size == 0) return {};
  std::string text(size, '\0');
  if (get(object, name, size, text.data(), nullptr) != CL_SUCCESS) return {};
  text.resize(std::strlen(text.c_str()));
  return text;
}

template <int I>
device::Device &device_of(cl_device_id id) {
  return Engine::instance().device("OpenCL", id, [id] {
    const Dispatch &cl = real<I>();
    cl_platform_id platform = nullptr;
    cl.clGetDeviceInfo(id, CL_DEVICE_PLATFORM, sizeof platform, &platform, nullptr);
    return device::DeviceNames{text_of(cl.clGetPlatformInfo, platform, CL_PLATFORM_NAME),
                               text_of(cl.clGetDeviceInfo, id, CL_DEVICE_NAME),
                               text_of(cl.clGetDeviceInfo, id, CL_DEVICE_VENDOR)};
  });
}

template <int I>
Queue &adopt_queue(cl_command_queue queue, cl_context context, cl_device_id device, uint64_t given) {
  uint32_t flags = 0;
  if (given & CL_QUEUE_OUT_OF_ORDER_EXEC_MODE_ENABLE) flags |= device::kOutOfOrder;
  if (given & CL_QUEUE_PROFILING_ENABLE) flags |= device::kProfilingAsked;
  Engine::be_first_at_exit();
  return Engine::instance().add_queue(vendor<I>, device_of<I>(device), queue, context, flags);
}

template <int I>
Queue *queue_of_event(cl_event event) {
  if (!device_time) return nullptr;
  cl_command_queue queue = nullptr;
  if (real<I>().clGetEventInfo(event, CL_EVENT_COMMAND_QUEUE, sizeof queue, &queue, nullptr) != CL_SUCCESS) return nullptr;
  return queue == nullptr ? nullptr : Engine::instance().queue(queue);
}

// ---- what each command is ----

uint32_t saturated(size_t value) { return static_cast<uint32_t>(std::min<size_t>(value, UINT32_MAX)); }

size_t volume(const size_t *region) { return region == nullptr ? 0 : region[0] * region[1] * region[2]; }

template <int I>
size_t image_bytes(cl_mem image, const size_t *region) {
  size_t element = 0;
  if (real<I>().clGetImageInfo == nullptr) return 0;
  real<I>().clGetImageInfo(image, CL_IMAGE_ELEMENT_SIZE, sizeof element, &element, nullptr);
  return element * volume(region);
}

template <int I>
uint32_t kernel_name(cl_kernel kernel) {
  if (const uint64_t known = kernel_names.get(kernel)) return static_cast<uint32_t>(known);
  const uint32_t name = occatrace_intern(text_of(real<I>().clGetKernelInfo, kernel, CL_KERNEL_FUNCTION_NAME).c_str());
  kernel_names.set(kernel, name);
  return name;
}

device::Size extent(const size_t *sizes, cl_uint dimensions) {
  const auto at = [sizes, dimensions](cl_uint which) {
    return which < dimensions && sizes != nullptr ? saturated(sizes[which]) : 0;
  };
  return {at(0), at(1), at(2)};
}

template <int I>
size_t bytes_of_objects(const cl_mem *objects, cl_uint count) {
  size_t sum = 0;
  for (cl_uint at = 0; real<I>().clGetMemObjectInfo != nullptr && at < count; ++at) {
    size_t size = 0;
    real<I>().clGetMemObjectInfo(objects[at], CL_MEM_SIZE, sizeof size, &size, nullptr);
    sum += size;
  }
  return sum;
}

// An enqueue that names no queue runs on those of the command buffer.
cl_command_queue queue_of_buffer(cl_command_buffer_khr buffer, const cl_command_queue *queues, cl_uint count) {
  if (queues != nullptr && count != 0) return queues[0];
  return reinterpret_cast<cl_command_queue>(buffer_queues.get(buffer));
}

// Of a copy whose addresses decide.
bool on_device(const void *address) { return shared_memory().holds(address); }

// ---- hooks of enqueues ----

// What a command works on, for those who want to know (--python lines): of a kernel the arguments that may be memory.
class Arguments {
 public:
  static Arguments &instance() {
    static std::atomic<Arguments *> arguments;
    return device::made_once(arguments, [] { return new Arguments; });
  }
  void set(cl_kernel kernel, cl_uint index, uint64_t value) {
    // Neither a number that is small or odd, nor more than any kernel takes.
    if (value < 65536 || value % 8 != 0) value = 0;
    if (index >= 4096) return;
    const std::lock_guard<std::mutex> guard(lock_);
    std::vector<uint64_t> &values = of_[kernel];
    if (values.size() <= index) values.resize(index + 1);
    values[index] = value;
  }
  void forget(cl_kernel kernel) {
    const std::lock_guard<std::mutex> guard(lock_);
    of_.erase(kernel);
  }
  std::vector<uint64_t> of(cl_kernel kernel) {
    const std::lock_guard<std::mutex> guard(lock_);
    const auto found = of_.find(kernel);
    return found == of_.end() ? std::vector<uint64_t>() : found->second;
  }

 private:
  std::mutex lock_;
  std::unordered_map<cl_kernel, std::vector<uint64_t>> of_;
};

template <int F, class Args>
void record_uses(const Call &call, const Args &a) {
  std::vector<uint64_t> used;
  if constexpr (Command<F>::is_kernel) {
    used = Arguments::instance().of(a.kernel);
  } else {
    Command<F>::memory(a, [&used](uint64_t memory) { used.push_back(memory); });
  }
  std::sort(used.begin(), used.end());
  used.erase(std::unique(used.begin(), used.end()), used.end());
  for (const uint64_t memory : used)
    if (memory != 0) occatrace_on_use(call.self, call.seq, memory);
}

}  // namespace

// Gives every command an event: the program's where it asked for one, else one of ours.
template <int F>
struct Enqueue {
  static constexpr bool always = true;
  static constexpr bool by_loader = false;

  template <int I, class Args>
  static bool chosen(Args &a) {
    const Queue *queue = Engine::instance().queue(Command<F>::queue(a));
    if (queue != nullptr && !queue->wanted) return occatrace_self()->excluded[OCCATRACE_BY_QUEUE]++, false;
    if constexpr (Command<F>::is_kernel) {
      // Below an OCCA kernel, that one is what people choose.
      return occatrace_self()->run_seq != OCCATRACE_NO_RUN || occatrace_choose_kernel(Command<F>::template kernel<I>(a));
    }
    return true;
  }

  template <int I, class Args>
  static void before(Call &call, Args &a) {
    if (!device_time || !call.work) return;
    call.host = call.level == OCCATRACE_EVENT ? call.start : occatrace_now();
    auto &event = Command<F>::event(a);
    // Where it is required a call without one is an error, and stays one.
    if (!Command<F>::event_required && event == nullptr && Engine::instance().queue(Command<F>::queue(a)) != nullptr) {
      event = reinterpret_cast<cl_event *>(&call.own);
    }
  }

  template <int I, class Args>
  static void result(Call &, Args &) {}

  template <int I, class Args>
  static void after(Call &call, Args &a) {
    if (occatrace_uses_wanted() && call.level == OCCATRACE_EVENT && !failed(a)) record_uses<F>(call, a);
    // What began while nothing was recorded is not, what began while something was is complete.
    cl_event *const event = Command<F>::event(a);
    if (call.host == 0 || event == nullptr || failed(a)) return;
    Queue *queue = Engine::instance().queue(Command<F>::queue(a));
    const bool ours = event == reinterpret_cast<cl_event *>(&call.own);
    if (queue == nullptr) {
      if (ours) real<I>().clReleaseEvent(*event);
      return;
    }
    Work work = device::work_of(call, *event);
    if (!ours) static_cast<const Loader &>(queue->vendor).retain(*event);
    if (queue->wants_bracket()) work.after = occatrace_now();
    Command<F>::template describe<I>(a, work);
    queue->push(work);
    if (!queue->used.load(std::memory_order_relaxed) && !queue->used.exchange(true)) Engine::be_first_at_exit();
    if (Command<F>::blocking(a)) queue->harvest(true);
  }
};

}  // namespace occatrace::opencl

#include "opencl_commands.h"
