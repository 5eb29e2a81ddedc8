// The OpenCL layer: the loader hands us its dispatch table and calls ours. The wrappers are generated from the model;
// here is what they cannot know: device time for every command, and that the program sees nothing of how we get it.
#include "opencl_loader.h"
#include "opencl_older.h"
#include "opencl_queues.h"
#include "opencl_work.h"

namespace occatrace::opencl {

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

// What this thread releases: an occatrace_releasing.
thread_local uint8_t releasing = OCCATRACE_RELEASED_BY_LATER;

template <uint8_t What>
struct Release : UsedObject {
  template <int I, class Args>
  static void before(Call &call, Args &a) {
    UsedObject::before<I>(call, a);
    releasing = What;
  }
  template <int I, class Args>
  static void after(Call &, Args &) {
    releasing = OCCATRACE_RELEASED_BY_LATER;
  }
};

// The driver calls it when the object ends: whoever held the last reference, and after the program's own callbacks.
void CL_CALLBACK memory_ends(cl_mem memory, void *) {
  // Also while nothing is recorded: the allocation is in the trace, and would seem to be there for good.
  occatrace_thread *self = occatrace_self();
  const occatrace_opencl_memory_released event{self->tid, occatrace_next_seq(self), reinterpret_cast<uint64_t>(memory), releasing};
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
struct Hook<OCCATRACE_OPENCL_clReleaseMemObject> : Release<OCCATRACE_RELEASED_BY_CLRELEASEMEMOBJECT> {};
template <>
struct Hook<OCCATRACE_OPENCL_clReleaseKernel> : Release<OCCATRACE_RELEASED_BY_CLRELEASEKERNEL> {};
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

template <>
struct Hook<OCCATRACE_OPENCL_clEnqueueSVMFree> : Enqueue<OCCATRACE_OPENCL_clEnqueueSVMFree> {
  template <int I>
  static void after(Call &call, Args_clEnqueueSVMFree &a) {
    if (!failed(a)) shared_memory().remove(a.svm_pointers, a.num_svm_pointers);
    Enqueue::template after<I>(call, a);
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

// ---- other memory of extensions ----

template <>
struct Hook<OCCATRACE_OPENCL_clCreateBufferWithPropertiesINTEL> : MemoryObject {};
template <>
struct Hook<OCCATRACE_OPENCL_clImportMemoryARM> : MemoryObject {};
template <>
struct Hook<OCCATRACE_OPENCL_clSVMAllocWithPropertiesKHR> : OnDevice {};
template <>
struct Hook<OCCATRACE_OPENCL_clSVMFreeWithPropertiesKHR> : FreesUnified {};
template <>
struct Hook<OCCATRACE_OPENCL_clSetKernelArgDevicePointerEXT> : NoHook {
  template <int I>
  static void after(Call &, Args_clSetKernelArgDevicePointerEXT &a) {
    if (occatrace_uses_wanted() && a.ret == CL_SUCCESS) Arguments::instance().set(a.kernel, a.arg_index, a.arg_value);
  }
};

// ---- command buffers ----

template <>
struct Hook<OCCATRACE_OPENCL_clCreateCommandBufferKHR> : Always {
  template <int I>
  static void after(Call &, Args_clCreateCommandBufferKHR &a) {
    if (a.num_queues == 0 || a.queues == nullptr) return;
    if (a.ret != nullptr) buffer_queues.set(a.ret, reinterpret_cast<uint64_t>(a.queues[0]));
    constexpr cl_int kIncompatibleQueue = -1138;
    if (*a.errcode_ret != kIncompatibleQueue) return;
    const Queue *queue = Engine::instance().queue(a.queues[0]);
    if (queue == nullptr || queue->profiling_asked()) return;
    static std::atomic<bool> said{false};
    if (said.exchange(true)) return;
    occatrace_say(
        "this OpenCL refuses command buffers for a queue with profiling, which device times need; "
        "--device-time off leaves queues as they are");
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
void *wrapped(const char *name, void *address, cl_platform_id platform) {
  if (address == nullptr || name == nullptr) return address;
  if (std::strcmp(name, "clCreateCommandQueueWithPropertiesKHR") == 0) {
    return wrap_khr<I>(address, std::make_index_sequence<kKhrPlatforms>());
  }
  if (const Place *place = place_of(places, name)) {
    void *ours = at(std::as_const(tables[I]), *place);
    return ours != nullptr ? ours : address;
  }
  const bool older = is_older<I>(name, platform);
  void *ours = nullptr;
  {
    const std::lock_guard<std::mutex> guard(asked_mutex);
    constexpr std::make_integer_sequence<int, kPlatforms> all;
    ours = older ? wrapped_older(name, address, all) : wrapped_extension(name, address, all);
  }
  static std::atomic<bool> said{false};
  if (ours == nullptr && !said.exchange(true)) {
    occatrace_say("more than %d OpenCL platforms have %s; the calls to the others are not traced", kPlatforms, name);
  }
  return ours != nullptr ? ours : address;
}

}  // namespace

template <>
struct Hook<OCCATRACE_OPENCL_clGetExtensionFunctionAddress> : ByLoader {
  template <int I>
  static void result(Call &, Args_clGetExtensionFunctionAddress &a) {
    a.ret = wrapped<I>(a.func_name, a.ret, nullptr);
  }
};

template <>
struct Hook<OCCATRACE_OPENCL_clGetExtensionFunctionAddressForPlatform> : ByLoader {
  template <int I>
  static void result(Call &, Args_clGetExtensionFunctionAddressForPlatform &a) {
    a.ret = wrapped<I>(a.func_name, a.ret, a.platform);
  }
};

// ---- the layer ----

namespace {

void harvest(int final) { Engine::instance().harvest(final != 0); }

void after_fork_child() {
  Engine::instance().after_fork_child();
  kernel_names.unlock_after_fork();
  mapped_bytes.unlock_after_fork();
  buffer_queues.unlock_after_fork();
  shared_memory().unlock_after_fork();
  new (&asked_mutex) std::mutex;
  loaders_after_fork_child();
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
