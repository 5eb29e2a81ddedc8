// The OpenCL layer: the loader hands us its dispatch table and calls ours. The wrappers are generated from the model;
// here is what they cannot know: device time for every command, and that the program sees nothing of how we get it.
#define CL_TARGET_OPENCL_VERSION 300
#define CL_USE_DEPRECATED_OPENCL_1_0_APIS
#define CL_USE_DEPRECATED_OPENCL_1_1_APIS
#define CL_USE_DEPRECATED_OPENCL_1_2_APIS
#define CL_USE_DEPRECATED_OPENCL_2_0_APIS
#define CL_USE_DEPRECATED_OPENCL_2_1_APIS
#define CL_USE_DEPRECATED_OPENCL_2_2_APIS
#include <CL/cl_layer.h>
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

#include "engine.h"
#include "known_functions.h"
#include "occatrace_core.h"

namespace occatrace::opencl {

using Dispatch = cl_icd_dispatch;

// A process may hold several loaders (a program's own, one inside a Python wheel); each has its table of real functions.
constexpr int kLoaders = 4;
constexpr size_t kSlots = sizeof(Dispatch) / sizeof(void *);
static Dispatch targets[kLoaders];
template <int I>
const Dispatch &real() {
  return targets[I];
}

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

// Shared virtual memory, by address: a copy's kind follows from what its two ends are.
class SharedMemory {
 public:
  void add(const void *start, size_t bytes) {
    std::lock_guard<std::mutex> guard(mutex_);
    blocks_[reinterpret_cast<uintptr_t>(start)] = bytes;
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
  static auto *const memory = new SharedMemory;
  return *memory;
}

// ---- what the device engine needs of OpenCL ----

template <int I>
int32_t poll(void *handle, Times *times) {
  auto *event = static_cast<cl_event>(handle);
  const auto stamp = [event](cl_profiling_info which, uint64_t *value) {
    cl_ulong read = 0;
    if (real<I>().clGetEventProfilingInfo(event, which, sizeof read, &read, nullptr) != CL_SUCCESS) return false;
    *value = read;
    return read != 0;
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
inline const Loader vendor{{poll<I>, release<I>}, retain<I>};

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

template <int I>
void describe(const Args_clEnqueueNDRangeKernel &a, Work &work) {
  work.kind = OCCATRACE_KERNEL;
  work.name = kernel_name<I>(a.kernel);
  for (cl_uint at = 0; at < std::min(a.work_dim, 3u); ++at) {
    work.grid[at] = saturated(a.global_work_size != nullptr ? a.global_work_size[at] : 0);
    work.block[at] = saturated(a.local_work_size != nullptr ? a.local_work_size[at] : 0);
  }
}
template <int I>
void describe(const Args_clEnqueueTask &a, Work &work) {
  work.kind = OCCATRACE_KERNEL;
  work.name = kernel_name<I>(a.kernel);
  work.grid[0] = work.block[0] = 1;
}
template <int I>
void describe(const Args_clEnqueueNativeKernel &, Work &work) {
  work.kind = OCCATRACE_NATIVE;
}

template <int I>
void describe(const Args_clEnqueueReadBuffer &a, Work &work) {
  work.kind = OCCATRACE_DTOH;
  work.bytes = a.size;
}
template <int I>
void describe(const Args_clEnqueueReadBufferRect &a, Work &work) {
  work.kind = OCCATRACE_DTOH;
  work.bytes = volume(a.region);
}
template <int I>
void describe(const Args_clEnqueueReadImage &a, Work &work) {
  work.kind = OCCATRACE_DTOH;
  work.bytes = image_bytes<I>(a.image, a.region);
}
template <int I>
void describe(const Args_clEnqueueWriteBuffer &a, Work &work) {
  work.kind = OCCATRACE_HTOD;
  work.bytes = a.size;
}
template <int I>
void describe(const Args_clEnqueueWriteBufferRect &a, Work &work) {
  work.kind = OCCATRACE_HTOD;
  work.bytes = volume(a.region);
}
template <int I>
void describe(const Args_clEnqueueWriteImage &a, Work &work) {
  work.kind = OCCATRACE_HTOD;
  work.bytes = image_bytes<I>(a.image, a.region);
}
template <int I>
void describe(const Args_clEnqueueCopyBuffer &a, Work &work) {
  work.kind = OCCATRACE_DTOD;
  work.bytes = a.size;
}
template <int I>
void describe(const Args_clEnqueueCopyBufferRect &a, Work &work) {
  work.kind = OCCATRACE_DTOD;
  work.bytes = volume(a.region);
}
template <int I>
void describe(const Args_clEnqueueCopyImage &a, Work &work) {
  work.kind = OCCATRACE_DTOD;
  work.bytes = image_bytes<I>(a.src_image, a.region);
}
template <int I>
void describe(const Args_clEnqueueCopyImageToBuffer &a, Work &work) {
  work.kind = OCCATRACE_DTOD;
  work.bytes = image_bytes<I>(a.src_image, a.region);
}
template <int I>
void describe(const Args_clEnqueueCopyBufferToImage &a, Work &work) {
  work.kind = OCCATRACE_DTOD;
  work.bytes = image_bytes<I>(a.dst_image, a.region);
}

template <int I>
void describe(const Args_clEnqueueFillBuffer &a, Work &work) {
  work.kind = OCCATRACE_FILL;
  work.bytes = a.size;
}
template <int I>
void describe(const Args_clEnqueueFillImage &a, Work &work) {
  work.kind = OCCATRACE_FILL;
  work.bytes = image_bytes<I>(a.image, a.region);
}
template <int I>
void describe(const Args_clEnqueueMapBuffer &a, Work &work) {
  work.kind = OCCATRACE_MAP;
  work.bytes = a.size;
  mapped_bytes.set(a.ret, a.size);
}
template <int I>
void describe(const Args_clEnqueueMapImage &a, Work &work) {
  work.kind = OCCATRACE_MAP;
  work.bytes = image_bytes<I>(a.image, a.region);
  mapped_bytes.set(a.ret, work.bytes);
}
template <int I>
void describe(const Args_clEnqueueUnmapMemObject &a, Work &work) {
  work.kind = OCCATRACE_UNMAP;
  work.bytes = mapped_bytes.get(a.mapped_ptr);
}
template <int I>
void describe(const Args_clEnqueueMigrateMemObjects &a, Work &work) {
  work.kind = OCCATRACE_MIGRATE;
  for (cl_uint at = 0; real<I>().clGetMemObjectInfo != nullptr && at < a.num_mem_objects; ++at) {
    size_t size = 0;
    real<I>().clGetMemObjectInfo(a.mem_objects[at], CL_MEM_SIZE, sizeof size, &size, nullptr);
    work.bytes += size;
  }
}

template <int I>
void describe(const Args_clEnqueueMarker &, Work &work) {
  work.kind = OCCATRACE_MARKER;
}
template <int I>
void describe(const Args_clEnqueueMarkerWithWaitList &, Work &work) {
  work.kind = OCCATRACE_MARKER;
}
template <int I>
void describe(const Args_clEnqueueBarrierWithWaitList &, Work &work) {
  work.kind = OCCATRACE_MARKER;
}

template <int I>
void describe(const Args_clEnqueueSVMMemcpy &a, Work &work) {
  work.kind = device::copy_kind(shared_memory().holds(a.src_ptr), shared_memory().holds(a.dst_ptr));
  work.bytes = a.size;
}
template <int I>
void describe(const Args_clEnqueueSVMMemFill &a, Work &work) {
  work.kind = OCCATRACE_FILL;
  work.bytes = a.size;
}
template <int I>
void describe(const Args_clEnqueueSVMMap &a, Work &work) {
  work.kind = OCCATRACE_MAP;
  work.bytes = a.size;
  mapped_bytes.set(a.svm_ptr, a.size);
}
template <int I>
void describe(const Args_clEnqueueSVMUnmap &a, Work &work) {
  work.kind = OCCATRACE_UNMAP;
  work.bytes = mapped_bytes.get(a.svm_ptr);
}
template <int I>
void describe(const Args_clEnqueueSVMMigrateMem &a, Work &work) {
  work.kind = OCCATRACE_MIGRATE;
  for (cl_uint at = 0; a.sizes != nullptr && at < a.num_svm_pointers; ++at) work.bytes += a.sizes[at];
}
template <int I>
void describe(const Args_clEnqueueSVMFree &a, Work &work) {
  work.kind = OCCATRACE_OTHER;
  for (cl_uint at = 0; a.svm_pointers != nullptr && at < a.num_svm_pointers; ++at) {
    shared_memory().remove(a.svm_pointers[at]);
  }
}
template <int I>
void describe(const Args_clEnqueueMemsetINTEL &a, Work &work) {
  work.kind = OCCATRACE_FILL;
  work.bytes = a.size;
}
template <int I>
void describe(const Args_clEnqueueMemFillINTEL &a, Work &work) {
  work.kind = OCCATRACE_FILL;
  work.bytes = a.size;
}
template <int I>
void describe(const Args_clEnqueueMemcpyINTEL &a, Work &work) {
  work.kind = device::copy_kind(shared_memory().holds(a.src_ptr), shared_memory().holds(a.dst_ptr));
  work.bytes = a.size;
}
template <int I>
void describe(const Args_clEnqueueMigrateMemINTEL &a, Work &work) {
  work.kind = OCCATRACE_MIGRATE;
  work.bytes = a.size;
}
// Sharing with OpenGL and EGL: a place on the queue, no bytes.
template <int I, class Args>
void describe(const Args &, Work &work) {
  work.kind = OCCATRACE_OTHER;
}

// ---- hooks of enqueues ----

template <class Args, class = void>
struct Code {
  static cl_int of(const Args &a) { return a.ret; }
};
template <class Args>
struct Code<Args, std::void_t<decltype(Args::errcode_ret)>> {
  static cl_int of(const Args &a) { return *a.errcode_ret; }
};

// What a command works on, for those who want to know (--python lines): of a kernel the arguments that may be memory.
class Arguments {
 public:
  static Arguments &instance() {
    static Arguments *const arguments = new Arguments;  // the program may launch until the end
    return *arguments;
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

#define OCCATRACE_MEMORY_IN(field)                                              \
  template <class Args>                                                         \
  auto memory_in_##field(const Args &a, int) -> decltype((uint64_t)a.field) {   \
    return (uint64_t)a.field;                                                   \
  }                                                                             \
  template <class Args>                                                         \
  uint64_t memory_in_##field(const Args &, long) {                              \
    return 0;                                                                   \
  }
OCCATRACE_MEMORY_IN(buffer)
OCCATRACE_MEMORY_IN(image)
OCCATRACE_MEMORY_IN(memobj)
OCCATRACE_MEMORY_IN(src_buffer)
OCCATRACE_MEMORY_IN(dst_buffer)
OCCATRACE_MEMORY_IN(src_image)
OCCATRACE_MEMORY_IN(dst_image)
OCCATRACE_MEMORY_IN(svm_ptr)
OCCATRACE_MEMORY_IN(src_ptr)
OCCATRACE_MEMORY_IN(dst_ptr)
#undef OCCATRACE_MEMORY_IN

template <class Args>
void say_uses(const Call &call, const Args &a) {
  std::vector<uint64_t> used;
  if constexpr (std::is_same_v<Args, Args_clEnqueueNDRangeKernel> || std::is_same_v<Args, Args_clEnqueueTask>) {
    used = Arguments::instance().of(a.kernel);
  } else {
    used = {memory_in_buffer(a, 0),     memory_in_image(a, 0),     memory_in_memobj(a, 0),  memory_in_src_buffer(a, 0),
            memory_in_dst_buffer(a, 0), memory_in_src_image(a, 0), memory_in_dst_image(a, 0), memory_in_svm_ptr(a, 0),
            memory_in_src_ptr(a, 0),    memory_in_dst_ptr(a, 0)};
  }
  std::sort(used.begin(), used.end());
  used.erase(std::unique(used.begin(), used.end()), used.end());
  for (const uint64_t memory : used)
    if (memory != 0) occatrace_on_use(call.self, call.seq, memory);
}

// Gives every command an event: the program's where it asked for one, else one of ours.
template <bool EventIsOptional>
struct Enqueue {
  static constexpr bool always = true;

  template <int I, class Args>
  static bool chosen(Args &a) {
    const Queue *queue = Engine::instance().queue(a.command_queue);
    if (queue != nullptr && !queue->wanted) return occatrace_self()->excluded[OCCATRACE_BY_QUEUE]++, false;
    if constexpr (std::is_same_v<Args, Args_clEnqueueNDRangeKernel> || std::is_same_v<Args, Args_clEnqueueTask>) {
      // Below an OCCA kernel, that one is what people choose.
      return occatrace_self()->run_seq != OCCATRACE_NO_RUN || occatrace_choose_kernel(kernel_name<I>(a.kernel));
    }
    return true;
  }

  template <int I, class Args>
  static void before(Call &call, Args &a) {
    if (!device_time || !call.work) return;
    call.host = call.level == OCCATRACE_EVENT ? call.start : occatrace_now();
    if (EventIsOptional && a.event == nullptr && Engine::instance().queue(a.command_queue) != nullptr) {
      a.event = reinterpret_cast<cl_event *>(&call.own);
    }
  }

  template <int I, class Args>
  static void result(Call &, Args &) {}

  template <int I, class Args>
  static void after(Call &call, Args &a) {
    if (occatrace_uses_wanted() && call.level == OCCATRACE_EVENT && Code<Args>::of(a) == CL_SUCCESS) say_uses(call, a);
    // What began while nothing was recorded is not, what began while something was is complete.
    if (call.host == 0 || a.event == nullptr || Code<Args>::of(a) != CL_SUCCESS) return;
    Queue *queue = Engine::instance().queue(a.command_queue);
    const bool ours = a.event == reinterpret_cast<cl_event *>(&call.own);
    if (queue == nullptr) {
      if (ours) real<I>().clReleaseEvent(*a.event);
      return;
    }
    Work work = device::work_of(call, *a.event);
    if (!ours) static_cast<const Loader &>(queue->vendor).retain(*a.event);
    if (queue->wants_bracket()) work.after = occatrace_now();
    describe<I>(a, work);
    queue->push(work);
    if (!queue->used.load(std::memory_order_relaxed) && !queue->used.exchange(true)) Engine::be_first_at_exit();
    if (blocking(a)) queue->harvest(true);
  }

 private:
  template <class Args>
  static bool blocking(const Args &a) {
    if constexpr (std::is_same_v<Args, Args_clEnqueueSVMMemcpy>) {
      return a.blocking_copy != CL_FALSE;
    } else if constexpr (std::is_same_v<Args, Args_clEnqueueMemcpyINTEL>) {
      return a.blocking != CL_FALSE;
    } else {
      return blocking_flag(a, 0);
    }
  }
  template <class Args>
  static auto blocking_flag(const Args &a, int) -> decltype(a.blocking_read != CL_FALSE) {
    return a.blocking_read != CL_FALSE;
  }
  template <class Args>
  static auto blocking_flag(const Args &a, int) -> decltype(a.blocking_write != CL_FALSE) {
    return a.blocking_write != CL_FALSE;
  }
  template <class Args>
  static auto blocking_flag(const Args &a, int) -> decltype(a.blocking_map != CL_FALSE) {
    return a.blocking_map != CL_FALSE;
  }
  template <class Args>
  static bool blocking_flag(const Args &, long) {
    return false;
  }
};

}  // namespace

#define OCCATRACE_ENQUEUE(name) \
  template <>                   \
  struct Hook<OCCATRACE_OPENCL_##name> : Enqueue<true> {}
OCCATRACE_ENQUEUE(clEnqueueNDRangeKernel);
OCCATRACE_ENQUEUE(clEnqueueTask);
OCCATRACE_ENQUEUE(clEnqueueNativeKernel);
OCCATRACE_ENQUEUE(clEnqueueReadBuffer);
OCCATRACE_ENQUEUE(clEnqueueReadBufferRect);
OCCATRACE_ENQUEUE(clEnqueueReadImage);
OCCATRACE_ENQUEUE(clEnqueueWriteBuffer);
OCCATRACE_ENQUEUE(clEnqueueWriteBufferRect);
OCCATRACE_ENQUEUE(clEnqueueWriteImage);
OCCATRACE_ENQUEUE(clEnqueueCopyBuffer);
OCCATRACE_ENQUEUE(clEnqueueCopyBufferRect);
OCCATRACE_ENQUEUE(clEnqueueCopyImage);
OCCATRACE_ENQUEUE(clEnqueueCopyImageToBuffer);
OCCATRACE_ENQUEUE(clEnqueueCopyBufferToImage);
OCCATRACE_ENQUEUE(clEnqueueFillBuffer);
OCCATRACE_ENQUEUE(clEnqueueFillImage);
OCCATRACE_ENQUEUE(clEnqueueMapBuffer);
OCCATRACE_ENQUEUE(clEnqueueMapImage);
OCCATRACE_ENQUEUE(clEnqueueUnmapMemObject);
OCCATRACE_ENQUEUE(clEnqueueMigrateMemObjects);
OCCATRACE_ENQUEUE(clEnqueueMarkerWithWaitList);
OCCATRACE_ENQUEUE(clEnqueueBarrierWithWaitList);
OCCATRACE_ENQUEUE(clEnqueueSVMFree);
OCCATRACE_ENQUEUE(clEnqueueSVMMemcpy);
OCCATRACE_ENQUEUE(clEnqueueSVMMemFill);
OCCATRACE_ENQUEUE(clEnqueueSVMMap);
OCCATRACE_ENQUEUE(clEnqueueSVMUnmap);
OCCATRACE_ENQUEUE(clEnqueueSVMMigrateMem);
OCCATRACE_ENQUEUE(clEnqueueAcquireGLObjects);
OCCATRACE_ENQUEUE(clEnqueueReleaseGLObjects);
OCCATRACE_ENQUEUE(clEnqueueAcquireEGLObjectsKHR);
OCCATRACE_ENQUEUE(clEnqueueReleaseEGLObjectsKHR);
OCCATRACE_ENQUEUE(clEnqueueMemsetINTEL);
OCCATRACE_ENQUEUE(clEnqueueMemFillINTEL);
OCCATRACE_ENQUEUE(clEnqueueMemcpyINTEL);
OCCATRACE_ENQUEUE(clEnqueueMigrateMemINTEL);
OCCATRACE_ENQUEUE(clEnqueueMemAdviseINTEL);
#undef OCCATRACE_ENQUEUE
// Without an event this call is an error, and stays one.
template <>
struct Hook<OCCATRACE_OPENCL_clEnqueueMarker> : Enqueue<false> {};

// ---- queues: profiling is always on, and the program sees what it asked for ----

namespace {

// The properties of a queue to create, with profiling on.
struct QueueRequest {
  const cl_queue_properties *original;
  std::vector<cl_queue_properties> list;
  uint64_t given = 0;
  bool profiled = false;

  explicit QueueRequest(const cl_queue_properties *properties) : original(properties) {
    bool found = false;
    for (; properties != nullptr && properties[0] != 0; properties += 2) {
      list.insert(list.end(), {properties[0], properties[1]});
      if (properties[0] != CL_QUEUE_PROPERTIES) continue;
      found = true;
      given = properties[1];
      list.back() |= CL_QUEUE_PROFILING_ENABLE;
    }
    if (!found) list.insert(list.end(), {CL_QUEUE_PROPERTIES, CL_QUEUE_PROFILING_ENABLE});
    list.push_back(0);
  }

  // Queues of the device itself are not the host's to enqueue to.
  bool wanted() const { return device_time && (given & CL_QUEUE_ON_DEVICE) == 0; }

  template <int I>
  void created(cl_command_queue made, cl_context context, cl_device_id device) const {
    Queue &queue = adopt_queue<I>(made, context, device, given);
    if (queue.profiling_asked()) return;
    if (original != nullptr) queue.given_properties.assign(original, original + zero_terminated_pairs(original));
    queue.properties_changed = true;
  }
};

}  // namespace

template <>
struct Hook<OCCATRACE_OPENCL_clCreateCommandQueue> : Always {
  template <int I>
  static void before(Call &call, Args_clCreateCommandQueue &a) {
    call.own = a.properties;
    if (device_time) a.properties |= CL_QUEUE_PROFILING_ENABLE;
  }
  template <int I>
  static void result(Call &call, Args_clCreateCommandQueue &a) {
    const bool changed = a.properties != call.own;
    a.properties = call.own;
    // A driver that refuses profiling gets the queue that the program wanted; it is left alone.
    call.own = 0;
    if (a.ret == nullptr && changed) {
      a.ret = real<I>().clCreateCommandQueue(a.context, a.device, a.properties, a.errcode_ret);
    } else {
      call.own = a.ret != nullptr && device_time;
    }
  }
  template <int I>
  static void after(Call &call, Args_clCreateCommandQueue &a) {
    if (call.own != 0) adopt_queue<I>(a.ret, a.context, a.device, a.properties);
  }
};

template <>
struct Hook<OCCATRACE_OPENCL_clCreateCommandQueueWithProperties> : Always {
  template <int I>
  static void before(Call &call, Args_clCreateCommandQueueWithProperties &a) {
    auto *request = new QueueRequest(a.properties);
    call.own = reinterpret_cast<uint64_t>(request);
    if (request->wanted()) a.properties = request->list.data();
  }
  template <int I>
  static void result(Call &call, Args_clCreateCommandQueueWithProperties &a) {
    auto *request = reinterpret_cast<QueueRequest *>(call.own);
    a.properties = request->original;
    if (!request->wanted()) return;
    if (a.ret == nullptr) {
      a.ret = real<I>().clCreateCommandQueueWithProperties(a.context, a.device, a.properties, a.errcode_ret);
    } else {
      request->profiled = true;
    }
  }
  template <int I>
  static void after(Call &call, Args_clCreateCommandQueueWithProperties &a) {
    const auto *request = reinterpret_cast<const QueueRequest *>(call.own);
    if (request->profiled) request->created<I>(a.ret, a.context, a.device);
    delete request;
  }
};

template <>
struct Hook<OCCATRACE_OPENCL_clRetainCommandQueue> : Always {
  template <int I>
  static void after(Call &, Args_clRetainCommandQueue &a) {
    if (a.ret != CL_SUCCESS) return;
    if (Queue *queue = Engine::instance().queue(a.command_queue)) ++queue->references;
  }
};

template <>
struct Hook<OCCATRACE_OPENCL_clReleaseCommandQueue> : Always {
  template <int I>
  static void before(Call &, Args_clReleaseCommandQueue &a) {
    Queue *queue = Engine::instance().queue(a.command_queue);
    if (queue == nullptr) return;
    queue->harvest();
    // Before the call: afterwards the address may already belong to a new queue.
    if (--queue->references == 0) Engine::instance().retire(*queue);
  }
};

template <>
struct Hook<OCCATRACE_OPENCL_clSetCommandQueueProperty> : Always {
  template <int I>
  static void before(Call &call, Args_clSetCommandQueueProperty &a) {
    call.own = a.properties;
    if (a.enable == CL_FALSE && Engine::instance().queue(a.command_queue) != nullptr) {
      a.properties &= ~static_cast<cl_command_queue_properties>(CL_QUEUE_PROFILING_ENABLE);
    }
  }
  template <int I>
  static void result(Call &call, Args_clSetCommandQueueProperty &a) {
    a.properties = call.own;
    Queue *queue = Engine::instance().queue(a.command_queue);
    if (queue == nullptr || a.ret != CL_SUCCESS) return;
    if (a.old_properties != nullptr && !queue->profiling_asked()) {
      *a.old_properties &= ~static_cast<cl_command_queue_properties>(CL_QUEUE_PROFILING_ENABLE);
    }
    if (a.properties & CL_QUEUE_PROFILING_ENABLE) queue->ask_profiling(a.enable != CL_FALSE);
  }
};

template <>
struct Hook<OCCATRACE_OPENCL_clGetCommandQueueInfo> : Always {
  template <int I>
  static void before(Call &call, Args_clGetCommandQueueInfo &a) {
    Queue *queue = Engine::instance().queue(a.command_queue);
    if (queue == nullptr) return;
    if (a.param_name == CL_QUEUE_REFERENCE_COUNT) queue->harvest();
    if (a.param_name == CL_QUEUE_PROPERTIES_ARRAY && queue->properties_changed) {
      // Only whether the driver can tell; the answer is the list of the program.
      call.own = reinterpret_cast<uint64_t>(a.param_value);
      a.param_value = nullptr;
    }
  }
  template <int I>
  static void result(Call &call, Args_clGetCommandQueueInfo &a) {
    if (a.ret != CL_SUCCESS) return;
    const Queue *queue = Engine::instance().queue(a.command_queue);
    if (queue == nullptr || queue->profiling_asked()) return;
    if (a.param_name == CL_QUEUE_PROPERTIES && a.param_value != nullptr) {
      *static_cast<cl_command_queue_properties *>(a.param_value) &=
          ~static_cast<cl_command_queue_properties>(CL_QUEUE_PROFILING_ENABLE);
    }
    if (a.param_name == CL_QUEUE_PROPERTIES_ARRAY && queue->properties_changed) {
      a.param_value = reinterpret_cast<void *>(call.own);
      const size_t size = queue->given_properties.size() * sizeof(cl_queue_properties);
      if (a.param_value_size_ret != nullptr) *a.param_value_size_ret = size;
      if (a.param_value == nullptr) return;
      if (a.param_value_size < size) {
        a.ret = CL_INVALID_VALUE;
      } else if (size != 0) {
        std::memcpy(a.param_value, queue->given_properties.data(), size);
      }
    }
  }
};

// ---- events ----

template <>
struct Hook<OCCATRACE_OPENCL_clGetEventProfilingInfo> : Always {
  template <int I>
  static void before(Call &call, Args_clGetEventProfilingInfo &a) {
    const Queue *queue = queue_of_event<I>(a.event);
    if (queue == nullptr || queue->profiling_asked()) return;
    call.own = 1;
    a.param_value_size = 0;
    a.param_value = nullptr;
    a.param_value_size_ret = nullptr;
  }
  template <int I>
  static void result(Call &call, Args_clGetEventProfilingInfo &a) {
    if (call.own != 0 && a.ret == CL_SUCCESS) a.ret = CL_PROFILING_INFO_NOT_AVAILABLE;
  }
};

template <>
struct Hook<OCCATRACE_OPENCL_clGetEventInfo> : Always {
  template <int I>
  static void before(Call &call, Args_clGetEventInfo &a) {
    if (a.param_name != CL_EVENT_REFERENCE_COUNT) return;
    if (Queue *queue = queue_of_event<I>(a.event)) {
      queue->harvest();
      call.own = reinterpret_cast<uint64_t>(queue);
    }
  }
  template <int I>
  static void result(Call &call, Args_clGetEventInfo &a) {
    if (call.own == 0 || a.ret != CL_SUCCESS || a.param_value == nullptr) return;
    *static_cast<cl_uint *>(a.param_value) -= reinterpret_cast<Queue *>(call.own)->holds(a.event);
  }
};

template <>
struct Hook<OCCATRACE_OPENCL_clWaitForEvents> : Always {
  template <int I>
  static void after(Call &, Args_clWaitForEvents &a) {
    if (a.num_events == 0 || a.event_list == nullptr || !Engine::instance().busy()) return;
    // The first and the last speak for the list; what others left is found from the background.
    Queue *first = queue_of_event<I>(a.event_list[0]);
    Queue *last = a.num_events == 1 ? nullptr : queue_of_event<I>(a.event_list[a.num_events - 1]);
    if (first != nullptr) first->harvest(true);
    if (last != nullptr && last != first) last->harvest(true);
  }
};

template <>
struct Hook<OCCATRACE_OPENCL_clFinish> : Always {
  template <int I>
  static void after(Call &, Args_clFinish &a) {
    if (Queue *queue = Engine::instance().queue(a.command_queue)) queue->harvest();
  }
};

// ---- holds of ours that a program could count ----

template <>
struct Hook<OCCATRACE_OPENCL_clReleaseContext> : Always {
  template <int I>
  static void before(Call &, Args_clReleaseContext &a) {
    if (Engine::instance().busy()) Engine::instance().harvest_context(a.context);
  }
};

namespace {

// An event of ours must not outlive what its command used: the memory would be freed later than without us, and there are
// drivers (oclgrind) that then touch it after it is gone.
struct UsedObject : Always {
  template <int I, class Args>
  static void before(Call &, Args &) {
    if (Engine::instance().busy()) Engine::instance().harvest_all();
  }
};

template <cl_uint ReferenceCount>
struct CountedObject : Always {
  template <int I, class Args>
  static void before(Call &, Args &a) {
    if (a.param_name == ReferenceCount) Engine::instance().harvest_all();
  }
};

}  // namespace

// ---- the life of memory objects ----

namespace {

// What this thread releases. As in the model (releasing).
enum Releasing : uint8_t { kLater = 0, kReleaseMemObject = 1, kReleaseKernel = 2 };
thread_local uint8_t releasing = kLater;

template <uint8_t What>
struct Release : UsedObject {
  template <int I, class Args>
  static void before(Call &call, Args &a) {
    UsedObject::before<I>(call, a);
    releasing = What;
  }
  template <int I, class Args>
  static void after(Call &, Args &) {
    releasing = kLater;
  }
};

// The driver calls it when the object ends: whoever held the last reference, and after the program's own callbacks.
void CL_CALLBACK memory_ends(cl_mem memory, void *) {
  // Also while nothing is recorded: the allocation is in the trace, and would seem to be there for good.
  occatrace_thread *self = occatrace_self();
  const occatrace_opencl_memory_released event{self->tid, self->next_seq++, reinterpret_cast<uint64_t>(memory), releasing};
  events->memory_released(&event);
}

// Reference counts cannot tell the end (kernels and commands hold objects too), and would have to be read at each release.
template <int I>
void watch_memory(const Call &call, cl_mem memory) {
  if (call.level != OCCATRACE_EVENT || memory == nullptr) return;
  const auto watch = real<I>().clSetMemObjectDestructorCallback;
  if (watch != nullptr && watch(memory, memory_ends, nullptr) == CL_SUCCESS) return;
  static std::atomic<bool> said{false};
  if (!said.exchange(true)) {
    occatrace_say("this OpenCL does not tell when a memory object ends; memory reports will show such objects as never freed");
  }
}

struct MemoryObject : Always {
  template <int I, class Args>
  static void after(Call &call, Args &a) {
    watch_memory<I>(call, a.ret);
  }
};
struct Image : MemoryObject {
  template <int I, class Args>
  static void result(Call &call, Args &a) {
    if (call.level != OCCATRACE_EVENT || a.ret == nullptr || real<I>().clGetMemObjectInfo == nullptr) return;
    real<I>().clGetMemObjectInfo(a.ret, CL_MEM_SIZE, sizeof a.bytes, &a.bytes, nullptr);
  }
};

}  // namespace

template <>
struct Hook<OCCATRACE_OPENCL_clReleaseMemObject> : Release<kReleaseMemObject> {};
template <>
struct Hook<OCCATRACE_OPENCL_clReleaseKernel> : Release<kReleaseKernel> {};
template <>
struct Hook<OCCATRACE_OPENCL_clCreateBuffer> : MemoryObject {};
template <>
struct Hook<OCCATRACE_OPENCL_clCreateBufferWithProperties> : MemoryObject {};
template <>
struct Hook<OCCATRACE_OPENCL_clCreateSubBuffer> : MemoryObject {};
template <>
struct Hook<OCCATRACE_OPENCL_clCreatePipe> : MemoryObject {};
template <>
struct Hook<OCCATRACE_OPENCL_clCreateImage> : Image {};
template <>
struct Hook<OCCATRACE_OPENCL_clCreateImage2D> : Image {};
template <>
struct Hook<OCCATRACE_OPENCL_clCreateImage3D> : Image {};
template <>
struct Hook<OCCATRACE_OPENCL_clCreateImageWithProperties> : Image {};
template <>
struct Hook<OCCATRACE_OPENCL_clGetContextInfo> : CountedObject<CL_CONTEXT_REFERENCE_COUNT> {};
template <>
struct Hook<OCCATRACE_OPENCL_clGetMemObjectInfo> : CountedObject<CL_MEM_REFERENCE_COUNT> {};
template <>
struct Hook<OCCATRACE_OPENCL_clGetKernelInfo> : CountedObject<CL_KERNEL_REFERENCE_COUNT> {};

struct Build : Always {
  template <int I, class Args>
  static void after(Call &, Args &) {
    if (device_time) Engine::be_first_at_exit();
  }
};
template <>
struct Hook<OCCATRACE_OPENCL_clBuildProgram> : Build {};
template <>
struct Hook<OCCATRACE_OPENCL_clCompileProgram> : Build {};
template <>
struct Hook<OCCATRACE_OPENCL_clLinkProgram> : Build {};

// ---- arguments of kernels ----

template <>
struct Hook<OCCATRACE_OPENCL_clSetKernelArg> : NoHook {
  template <int I>
  static void after(Call &, Args_clSetKernelArg &a) {
    if (!occatrace_uses_wanted() || a.ret != CL_SUCCESS) return;
    uint64_t value = 0;
    if (a.arg_size == sizeof value && a.arg_value != nullptr) std::memcpy(&value, a.arg_value, sizeof value);
    Arguments::instance().set(a.kernel, a.arg_index, value);
  }
};
template <>
struct Hook<OCCATRACE_OPENCL_clSetKernelArgSVMPointer> : NoHook {
  template <int I>
  static void after(Call &, Args_clSetKernelArgSVMPointer &a) {
    if (!occatrace_uses_wanted() || a.ret != CL_SUCCESS) return;
    Arguments::instance().set(a.kernel, a.arg_index, reinterpret_cast<uint64_t>(a.arg_value));
  }
};
// ---- names of kernels, extent of shared memory ----

template <>
struct Hook<OCCATRACE_OPENCL_clCreateKernel> : Always {
  template <int I>
  static void after(Call &, Args_clCreateKernel &a) {
    if (a.ret == nullptr) return;
    kernel_names.set(a.ret, occatrace_intern(a.kernel_name));
    if (occatrace_uses_wanted()) Arguments::instance().forget(a.ret);  // of another that lay there
  }
};

template <>
struct Hook<OCCATRACE_OPENCL_clCreateKernelsInProgram> : Always {
  template <int I>
  static void after(Call &, Args_clCreateKernelsInProgram &a) {
    if (a.ret != CL_SUCCESS || a.kernels == nullptr) return;
    cl_uint count = 0;
    real<I>().clCreateKernelsInProgram(a.program, 0, nullptr, &count);
    for (cl_uint at = 0; at < std::min(count, a.num_kernels); ++at) {
      kernel_names.set(a.kernels[at], 0);
      kernel_name<I>(a.kernels[at]);
    }
  }
};

template <>
struct Hook<OCCATRACE_OPENCL_clCloneKernel> : Always {
  template <int I>
  static void after(Call &, Args_clCloneKernel &a) {
    if (a.ret != nullptr) kernel_names.set(a.ret, kernel_name<I>(a.source_kernel));
  }
};

template <>
struct Hook<OCCATRACE_OPENCL_clSVMAlloc> : Always {
  template <int I>
  static void after(Call &, Args_clSVMAlloc &a) {
    if (a.ret != nullptr) shared_memory().add(a.ret, a.size);
  }
};

template <>
struct Hook<OCCATRACE_OPENCL_clSVMFree> : Always {
  template <int I>
  static void before(Call &, Args_clSVMFree &a) {
    if (Engine::instance().busy()) Engine::instance().harvest_all();
    shared_memory().remove(a.svm_pointer);
  }
};

// ---- Intel's unified memory ----

namespace {

// What a device works on with its own memory or with memory that moves to it; memory of the host is a copy's other end.
struct OnDevice : Always {
  template <int I, class Args>
  static void after(Call &, Args &a) {
    if (a.ret != nullptr) shared_memory().add(a.ret, a.size);
  }
};
struct FreesUnified : Always {
  template <int I, class Args>
  static void before(Call &, Args &a) {
    if (Engine::instance().busy()) Engine::instance().harvest_all();
    shared_memory().remove(a.ptr);
  }
};

}  // namespace

template <>
struct Hook<OCCATRACE_OPENCL_clDeviceMemAllocINTEL> : OnDevice {};
template <>
struct Hook<OCCATRACE_OPENCL_clSharedMemAllocINTEL> : OnDevice {};
template <>
struct Hook<OCCATRACE_OPENCL_clMemFreeINTEL> : FreesUnified {};
template <>
struct Hook<OCCATRACE_OPENCL_clMemBlockingFreeINTEL> : FreesUnified {};
template <>
struct Hook<OCCATRACE_OPENCL_clSetKernelArgMemPointerINTEL> : NoHook {
  template <int I>
  static void after(Call &, Args_clSetKernelArgMemPointerINTEL &a) {
    if (!occatrace_uses_wanted() || a.ret != CL_SUCCESS) return;
    Arguments::instance().set(a.kernel, a.arg_index, reinterpret_cast<uint64_t>(a.arg_value));
  }
};

// ---- functions asked for by name ----

namespace {

Dispatch tables[kLoaders];

using CreateQueueKHR = cl_command_queue(CL_API_CALL *)(cl_context, cl_device_id, const cl_queue_properties *, cl_int *);
constexpr size_t kKhrPlatforms = 8;
std::mutex asked_mutex;
CreateQueueKHR khr_real[kKhrPlatforms];

// An extension's function has an address per platform, and nothing in its arguments that names the platform.
template <int I, size_t Which>
cl_command_queue CL_API_CALL create_queue_khr(cl_context context, cl_device_id device,
                                              const cl_queue_properties *properties, cl_int *code) {
  const CreateQueueKHR create = khr_real[Which];
  const QueueRequest request(properties);
  if (request.wanted()) {
    if (cl_command_queue queue = create(context, device, request.list.data(), code)) {
      request.created<I>(queue, context, device);
      return queue;
    }
  }
  return create(context, device, properties, code);
}

template <int I, size_t... Which>
void *wrap_khr(void *address, std::index_sequence<Which...>) {
  static constexpr CreateQueueKHR wrappers[] = {create_queue_khr<I, Which>...};
  std::lock_guard<std::mutex> guard(asked_mutex);
  for (size_t at = 0; at < kKhrPlatforms; ++at) {
    if (khr_real[at] == nullptr) khr_real[at] = reinterpret_cast<CreateQueueKHR>(address);
    if (khr_real[at] == reinterpret_cast<CreateQueueKHR>(address)) return reinterpret_cast<void *>(wrappers[at]);
  }
  return address;
}

template <int I>
void *wrapped(const char *name, void *address) {
  if (address == nullptr || name == nullptr) return address;
  if (std::strcmp(name, "clCreateCommandQueueWithPropertiesKHR") == 0) {
    return wrap_khr<I>(address, std::make_index_sequence<kKhrPlatforms>());
  }
  for (const Place &place : places) {
    if (std::strcmp(name, place.name) != 0) continue;
    void *ours = nullptr;
    std::memcpy(&ours, reinterpret_cast<const char *>(&tables[I]) + place.offset, sizeof ours);
    return ours != nullptr ? ours : address;
  }
  void *ours = nullptr;
  {
    const std::lock_guard<std::mutex> guard(asked_mutex);
    ours = wrapped_extension(name, address, std::make_integer_sequence<int, kPlatforms>());
  }
  static std::atomic<bool> said{false};
  if (ours == nullptr && !said.exchange(true)) {
    occatrace_say("more than %d OpenCL platforms have %s; the calls to the others are not traced", kPlatforms, name);
  }
  return ours != nullptr ? ours : address;
}

}  // namespace

template <>
struct Hook<OCCATRACE_OPENCL_clGetExtensionFunctionAddress> : Always {
  template <int I>
  static void result(Call &, Args_clGetExtensionFunctionAddress &a) {
    a.ret = wrapped<I>(a.func_name, a.ret);
  }
};

template <>
struct Hook<OCCATRACE_OPENCL_clGetExtensionFunctionAddressForPlatform> : Always {
  template <int I>
  static void result(Call &, Args_clGetExtensionFunctionAddressForPlatform &a) {
    a.ret = wrapped<I>(a.func_name, a.ret);
  }
};

// ---- the layer ----

namespace {

void harvest(int final) { Engine::instance().harvest(final != 0); }

void after_fork_child() {
  Engine::instance().after_fork_child();
  kernel_names.unlock_after_fork();
  mapped_bytes.unlock_after_fork();
  shared_memory().unlock_after_fork();
  new (&asked_mutex) std::mutex;
}

occatrace_backend backend{"opencl", harvest, after_fork_child, nullptr};

// Wrappers call into the loader's code and drivers keep pointers to ours: neither may be unmapped any more.
void keep_loaded(const void *address) {
  Dl_info info;
  if (dladdr(address, &info) != 0 && info.dli_fname != nullptr) dlopen(info.dli_fname, RTLD_LAZY | RTLD_NOLOAD | RTLD_NODELETE);
}

bool start() {
  static const bool started = [] {
    if (!load_events()) return false;
    device_time = occatrace_mode_of("opencl") != OCCATRACE_TALLIES && occatrace_device_time() != OCCATRACE_TIME_OFF;
    occatrace_backend_register(&backend);
    keep_loaded(reinterpret_cast<const void *>(&harvest));
    return true;
  }();
  return started;
}

bool able(const Dispatch &d) {
  return device::can_be_timed(
      "OpenCL", {OCCATRACE_NEEDED(d, clGetEventProfilingInfo), OCCATRACE_NEEDED(d, clGetEventInfo), OCCATRACE_NEEDED(d, clRetainEvent),
                 OCCATRACE_NEEDED(d, clReleaseEvent), OCCATRACE_NEEDED(d, clGetDeviceInfo), OCCATRACE_NEEDED(d, clGetPlatformInfo)});
}

template <int I>
const Dispatch *install(const Dispatch *target, size_t slots) {
  std::memcpy(static_cast<void *>(&targets[I]), target, slots * sizeof(void *));
  // One answer for all loaders: a queue that is timed may meet calls of any of them.
  device_time = device_time && able(targets[I]);
  tables[I] = targets[I];
  fill<I>(tables[I]);
  return &tables[I];
}

template <int... I>
const Dispatch *install_at(int loader, const Dispatch *target, size_t slots, std::integer_sequence<int, I...>) {
  const Dispatch *table = nullptr;
  ((loader == I ? void(table = install<I>(target, slots)) : void()), ...);
  return table;
}

}  // namespace

}  // namespace occatrace::opencl

extern "C" {

OCCATRACE_EXPORT cl_int CL_API_CALL clGetLayerInfo(cl_layer_info name, size_t size, void *value, size_t *size_ret) {
  const cl_layer_api_version version = CL_LAYER_API_VERSION_100;
  static const char layer[] = "occatrace";
  const void *answer = nullptr;
  size_t needed = 0;
  switch (name) {
    case CL_LAYER_API_VERSION:
      answer = &version;
      needed = sizeof version;
      break;
    case CL_LAYER_NAME:
      answer = layer;
      needed = sizeof layer;
      break;
    default:
      return CL_INVALID_VALUE;
  }
  if (value != nullptr) {
    if (size < needed) return CL_INVALID_VALUE;
    std::memcpy(value, answer, needed);
  }
  if (size_ret != nullptr) *size_ret = needed;
  return CL_SUCCESS;
}

// Called once by each loader of the process.
OCCATRACE_EXPORT cl_int CL_API_CALL clInitLayer(cl_uint entries, const cl_icd_dispatch *target, cl_uint *entries_ret,
                                                const cl_icd_dispatch **layer_ret) {
  using namespace occatrace::opencl;
  if (target == nullptr || entries_ret == nullptr || layer_ret == nullptr) return CL_INVALID_VALUE;
  const size_t slots = std::min<size_t>(entries, kSlots);
  static std::atomic<int> loaders{0};
  *entries_ret = static_cast<cl_uint>(slots);
  *layer_ret = target;
  if (!start()) return CL_SUCCESS;
  const int loader = loaders.fetch_add(1);
  if (loader >= kLoaders) {
    occatrace_say("more than %d OpenCL loaders in one process; the calls of this one are not traced", kLoaders);
    return CL_SUCCESS;
  }
  keep_loaded(reinterpret_cast<const void *>(target->clGetPlatformIDs));
  *layer_ret = install_at(loader, target, slots, std::make_integer_sequence<int, kLoaders>());
  return CL_SUCCESS;
}

// The only entry point that Khronos' loader takes since v2026.05.29. Declared here, because older headers lack it.
OCCATRACE_EXPORT cl_int CL_API_CALL clInitLayerWithProperties(cl_uint entries, const cl_icd_dispatch *target,
                                                              cl_uint *entries_ret, const cl_icd_dispatch **layer_ret,
                                                              const cl_properties *) {
  return clInitLayer(entries, target, entries_ret, layer_ret);
}

// Such a loader unloads the drivers right after this call: nothing of theirs may be called any more.
OCCATRACE_EXPORT cl_int CL_API_CALL clDeinitLayer(void) {
  occatrace::device::Engine::instance().close();
  return CL_SUCCESS;
}

}  // extern "C"
