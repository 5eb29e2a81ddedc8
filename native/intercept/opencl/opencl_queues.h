// Queues and events of OpenCL: profiling is always on, and the program sees what it asked for.
#pragma once

#include "opencl_work.h"

namespace occatrace::opencl {

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
struct Hook<OCCATRACE_OPENCL_clCreateCommandQueue> : ByLoader {
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
struct Hook<OCCATRACE_OPENCL_clCreateCommandQueueWithProperties> : ByLoader {
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

}  // namespace occatrace::opencl
