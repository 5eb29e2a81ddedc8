// One OpenCL program with many small cases: `cases NAME [ARGUMENT]` does one thing and prints what it did, as one JSON
// object, so that a test compares the profile with the truth. What a case prints must not depend on being traced.
#define CL_TARGET_OPENCL_VERSION 300
#include <CL/cl.h>
#include <CL/cl_ext.h>
#include <time.h>
#include <unistd.h>

#include <atomic>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <map>
#include <string>
#include <thread>
#include <vector>

namespace {

using Size = std::size_t;

void check(cl_int code, const char *what) {
  if (code == CL_SUCCESS) return;
  std::fprintf(stderr, "cases: %s gave %d\n", what, code);
  std::exit(2);
}
#define CHECK(call) check((call), #call)

// Facts for the test, printed at the end.
class Truth {
 public:
  void number(const std::string &key, long long value) { add(key, std::to_string(value)); }
  void text(const std::string &key, const std::string &value) { add(key, '"' + value + '"'); }
  void print() const { std::printf("{%s}\n", text_.c_str()); }

 private:
  void add(const std::string &key, const std::string &value) {
    text_ += (text_.empty() ? "\"" : ", \"") + key + "\": " + value;
  }
  std::string text_;
};

const char *const kSource = R"(
kernel void scale(global float *x, float a) { x[get_global_id(0)] *= a; }
kernel void add(global float *x, global const float *y) { size_t i = get_global_id(0); x[i] += y[i]; }
kernel void busy(global float *x, int n) {
  float v = x[get_global_id(0)];
  for (int i = 0; i < n; ++i) v = v * 1.000001f + 1e-7f;
  x[get_global_id(0)] = v;
}
)";

template <class Info, class... Handle>
std::string text_info(Info info, Handle... handle_and_name) {
  char text[512] = "";
  info(handle_and_name..., sizeof text, text, nullptr);
  return text;
}

struct Setup {
  cl_platform_id platform = nullptr;
  cl_device_id device = nullptr;
  cl_context context = nullptr;
  cl_command_queue queue = nullptr;
  cl_program program = nullptr;

  explicit Setup(cl_device_id given = nullptr, cl_command_queue_properties properties = 0) {
    if (given == nullptr) {
      cl_platform_id platforms[8];
      cl_uint count = 0;
      CHECK(clGetPlatformIDs(8, platforms, &count));
      const char *wanted = std::getenv("CASES_PLATFORM");
      for (cl_uint at = 0; at < count; ++at) {
        const std::string name = text_info(clGetPlatformInfo, platforms[at], CL_PLATFORM_NAME);
        if (name.find(wanted != nullptr ? wanted : "Portable") != std::string::npos) platform = platforms[at];
      }
      CHECK(clGetDeviceIDs(platform, CL_DEVICE_TYPE_ALL, 1, &device, nullptr));
    } else {
      device = given;
    }
    cl_int code = 0;
    context = clCreateContext(nullptr, 1, &device, nullptr, nullptr, &code);
    check(code, "clCreateContext");
    queue = clCreateCommandQueue(context, device, properties, &code);
    check(code, "clCreateCommandQueue");
    const char *source = kSource;
    program = clCreateProgramWithSource(context, 1, &source, nullptr, &code);
    check(code, "clCreateProgramWithSource");
    CHECK(clBuildProgram(program, 1, &device, "", nullptr, nullptr));
  }

  cl_mem buffer(Size bytes, cl_mem_flags flags = CL_MEM_READ_WRITE) const {
    cl_int code = 0;
    cl_mem made = clCreateBuffer(context, flags, bytes, nullptr, &code);
    check(code, "clCreateBuffer");
    return made;
  }

  cl_kernel kernel(const char *name) const {
    cl_int code = 0;
    cl_kernel made = clCreateKernel(program, name, &code);
    check(code, "clCreateKernel");
    return made;
  }

  // scale(x, 1): correct whatever runs when.
  cl_kernel scale(cl_mem x) const {
    cl_kernel made = kernel("scale");
    const float one = 1;
    CHECK(clSetKernelArg(made, 0, sizeof x, &x));
    CHECK(clSetKernelArg(made, 1, sizeof one, &one));
    return made;
  }

  cl_kernel busy(cl_mem x, int rounds) const {
    cl_kernel made = kernel("busy");
    CHECK(clSetKernelArg(made, 0, sizeof x, &x));
    CHECK(clSetKernelArg(made, 1, sizeof rounds, &rounds));
    return made;
  }
};

uint64_t now() {
  timespec time{};
  clock_gettime(CLOCK_MONOTONIC, &time);
  return static_cast<uint64_t>(time.tv_sec) * 1000000000u + static_cast<uint64_t>(time.tv_nsec);
}

cl_uint reference_count(cl_event event) {
  cl_uint count = 0;
  CHECK(clGetEventInfo(event, CL_EVENT_REFERENCE_COUNT, sizeof count, &count, nullptr));
  return count;
}

cl_ulong stamp(cl_event event, cl_profiling_info which) {
  cl_ulong value = 0;
  CHECK(clGetEventProfilingInfo(event, which, sizeof value, &value, nullptr));
  return value;
}

constexpr Size kCount = 1024;
constexpr Size kBytes = kCount * sizeof(float);

// Every kind of copy between host and buffers, with the bytes of each kind.
void copies(Truth &truth, const char *) {
  Setup cl;
  cl_mem a = cl.buffer(kBytes);
  cl_mem b = cl.buffer(kBytes);
  std::vector<float> host(kCount, 1);
  CHECK(clEnqueueWriteBuffer(cl.queue, a, CL_TRUE, 0, kBytes, host.data(), 0, nullptr, nullptr));
  CHECK(clEnqueueWriteBuffer(cl.queue, a, CL_FALSE, 256, 512, host.data(), 0, nullptr, nullptr));
  CHECK(clEnqueueCopyBuffer(cl.queue, a, b, 0, 0, kBytes / 2, 0, nullptr, nullptr));
  const float seven = 7;
  CHECK(clEnqueueFillBuffer(cl.queue, b, &seven, sizeof seven, 0, 400, 0, nullptr, nullptr));
  CHECK(clEnqueueReadBuffer(cl.queue, b, CL_TRUE, 0, kBytes, host.data(), 0, nullptr, nullptr));
  const Size origin[3] = {0, 0, 0};
  const Size region[3] = {64, 4, 2};
  CHECK(clEnqueueWriteBufferRect(cl.queue, a, CL_TRUE, origin, origin, region, 0, 0, 0, 0, host.data(), 0, nullptr,
                                 nullptr));
  CHECK(clEnqueueReadBufferRect(cl.queue, a, CL_TRUE, origin, origin, region, 0, 0, 0, 0, host.data(), 0, nullptr,
                                nullptr));
  CHECK(clEnqueueCopyBufferRect(cl.queue, a, b, origin, origin, region, 0, 0, 0, 0, 0, nullptr, nullptr));
  CHECK(clFinish(cl.queue));
  truth.number("HtoD", kBytes + 512 + 512);
  truth.number("DtoH", kBytes + 512);
  truth.number("DtoD", kBytes / 2 + 512);
  truth.number("fill", 400);
  truth.number("first", host[0] == 1 || host[0] == 7);
}

void launches(Truth &truth, const char *argument) {
  const int count = argument != nullptr ? std::atoi(argument) : 1000;
  Setup cl;
  cl_mem x = cl.buffer(kBytes);
  cl_kernel kernel = cl.scale(x);
  const Size global = 64;
  for (int at = 0; at < count; ++at) {
    CHECK(clEnqueueNDRangeKernel(cl.queue, kernel, 1, nullptr, &global, nullptr, 0, nullptr, nullptr));
    if (at % 10000 == 9999) CHECK(clFinish(cl.queue));
  }
  CHECK(clFinish(cl.queue));
  truth.number("scale", count);
}

// The shape of a launch: dimensions, work-groups, tasks.
void shapes(Truth &truth, const char *) {
  Setup cl;
  cl_mem x = cl.buffer(kBytes);
  cl_kernel kernel = cl.scale(x);
  const Size global[3] = {16, 8, 4};
  const Size local[3] = {4, 2, 1};
  CHECK(clEnqueueNDRangeKernel(cl.queue, kernel, 3, nullptr, global, local, 0, nullptr, nullptr));
  CHECK(clEnqueueNDRangeKernel(cl.queue, kernel, 2, nullptr, global, nullptr, 0, nullptr, nullptr));
  CHECK(clEnqueueTask(cl.queue, kernel, 0, nullptr, nullptr));
  CHECK(clFinish(cl.queue));
  truth.number("scale", 3);
}

// Reference counts, profiling information, queue properties and callbacks as the program sees them.
void views(Truth &truth, const char *) {
  std::vector<cl_command_queue_properties> wanted = {0, CL_QUEUE_PROFILING_ENABLE,
                                                     CL_QUEUE_OUT_OF_ORDER_EXEC_MODE_ENABLE};
  Setup cl;
  cl_mem x = cl.buffer(kBytes);
  cl_kernel kernel = cl.scale(x);
  const Size global = 64;
  int row = 0;
  const auto look = [&](cl_command_queue queue) {
    const std::string key = std::to_string(row++) + ".";
    cl_command_queue_properties properties = 0;
    CHECK(clGetCommandQueueInfo(queue, CL_QUEUE_PROPERTIES, sizeof properties, &properties, nullptr));
    truth.number(key + "properties", static_cast<long long>(properties));
    cl_queue_properties list[8] = {0};
    Size size = 0;
    truth.number(key + "array", clGetCommandQueueInfo(queue, CL_QUEUE_PROPERTIES_ARRAY, sizeof list, list, &size));
    truth.number(key + "array_size", static_cast<long long>(size));
    for (Size at = 0; at < size / sizeof list[0]; ++at) {
      truth.number(key + "array" + std::to_string(at), static_cast<long long>(list[at]));
    }
    if (size != 0) {
      truth.number(key + "array_short",
                   clGetCommandQueueInfo(queue, CL_QUEUE_PROPERTIES_ARRAY, size - 1, list, nullptr));
    }
    cl_event event = nullptr;
    CHECK(clEnqueueNDRangeKernel(queue, kernel, 1, nullptr, &global, nullptr, 0, nullptr, &event));
    CHECK(clWaitForEvents(1, &event));
    CHECK(clFinish(queue));
    usleep(20000);  // PoCL's own threads let go of an event a little later
    truth.number(key + "event_references", reference_count(event));
    cl_ulong value = 0;
    Size value_size = 0;
    truth.number(key + "profiling",
                 clGetEventProfilingInfo(event, CL_PROFILING_COMMAND_END, sizeof value, &value, &value_size));
    truth.number(key + "profiling_size", static_cast<long long>(value_size));
    truth.number(key + "stamped", value != 0);
    CHECK(clRetainEvent(event));
    truth.number(key + "event_retained", reference_count(event));
    CHECK(clReleaseEvent(event));
    CHECK(clReleaseEvent(event));
    cl_uint count = 0;
    CHECK(clGetCommandQueueInfo(queue, CL_QUEUE_REFERENCE_COUNT, sizeof count, &count, nullptr));
    truth.number(key + "queue_references", count);
    CHECK(clGetContextInfo(cl.context, CL_CONTEXT_REFERENCE_COUNT, sizeof count, &count, nullptr));
    truth.number(key + "context_references", count);
    CHECK(clGetMemObjectInfo(x, CL_MEM_REFERENCE_COUNT, sizeof count, &count, nullptr));
    truth.number(key + "mem_references", count);
    CHECK(clGetKernelInfo(kernel, CL_KERNEL_REFERENCE_COUNT, sizeof count, &count, nullptr));
    truth.number(key + "kernel_references", count);
  };
  for (const auto properties : wanted) {
    cl_int code = 0;
    cl_command_queue queue = clCreateCommandQueue(cl.context, cl.device, properties, &code);
    check(code, "clCreateCommandQueue");
    look(queue);
    CHECK(clReleaseCommandQueue(queue));
  }
  const std::vector<std::vector<cl_queue_properties>> lists = {
      {},
      {0},
      {CL_QUEUE_PROPERTIES, 0, 0},
      {CL_QUEUE_PROPERTIES, CL_QUEUE_PROFILING_ENABLE, 0},
      {CL_QUEUE_PROPERTIES, CL_QUEUE_OUT_OF_ORDER_EXEC_MODE_ENABLE, 0},
  };
  for (const auto &list : lists) {
    cl_int code = 0;
    cl_command_queue queue = clCreateCommandQueueWithProperties(cl.context, cl.device,
                                                                list.empty() ? nullptr : list.data(), &code);
    check(code, "clCreateCommandQueueWithProperties");
    look(queue);
    CHECK(clReleaseCommandQueue(queue));
  }
  cl_int code = 0;
  cl_command_queue wrong = clCreateCommandQueue(cl.context, cl.device, 1u << 20, &code);
  truth.number("wrong_queue", code);
  truth.number("wrong_queue_null", wrong == nullptr);
}

// A user event holds everything back; while it does, reference counts and states are those of a program on its own.
void user_event(Truth &truth, const char *) {
  Setup cl;
  cl_mem x = cl.buffer(kBytes);
  cl_kernel kernel = cl.scale(x);
  cl_int code = 0;
  cl_event gate = clCreateUserEvent(cl.context, &code);
  check(code, "clCreateUserEvent");
  const Size global = 64;
  std::vector<cl_event> events(600);
  for (cl_event &event : events) {
    CHECK(clEnqueueNDRangeKernel(cl.queue, kernel, 1, nullptr, &global, nullptr, 1, &gate, &event));
  }
  CHECK(clFlush(cl.queue));
  truth.number("references", reference_count(events[0]));
  std::atomic<int> called{0};
  CHECK(clSetEventCallback(
      events[0], CL_COMPLETE,
      [](cl_event, cl_int status, void *data) { *static_cast<std::atomic<int> *>(data) += status == CL_COMPLETE ? 1 : 100; },
      &called));
  truth.number("called_before", called);
  CHECK(clSetUserEventStatus(gate, CL_COMPLETE));
  CHECK(clWaitForEvents(static_cast<cl_uint>(events.size()), events.data()));
  CHECK(clFinish(cl.queue));
  for (int wait = 0; wait < 200 && called == 0; ++wait) usleep(5000);
  truth.number("called", called);
  for (cl_event event : events) CHECK(clReleaseEvent(event));
  CHECK(clReleaseEvent(gate));
  truth.number("scale", static_cast<long long>(events.size()));
}

// Commands whose gate fails are terminated with a negative state.
void terminated(Truth &truth, const char *) {
  Setup cl;
  cl_mem x = cl.buffer(kBytes);
  cl_kernel kernel = cl.scale(x);
  cl_int code = 0;
  cl_event gate = clCreateUserEvent(cl.context, &code);
  check(code, "clCreateUserEvent");
  const Size global = 64;
  cl_event event = nullptr;
  CHECK(clEnqueueNDRangeKernel(cl.queue, kernel, 1, nullptr, &global, nullptr, 1, &gate, &event));
  CHECK(clSetUserEventStatus(gate, -42));
  truth.number("wait", clWaitForEvents(1, &event));
  cl_int status = 0;
  CHECK(clGetEventInfo(event, CL_EVENT_COMMAND_EXECUTION_STATUS, sizeof status, &status, nullptr));
  truth.number("status", status);
  CHECK(clReleaseEvent(event));
  CHECK(clReleaseEvent(gate));
}

// Calls that fail, and a good one after them.
void failures(Truth &truth, const char *) {
  Setup cl;
  cl_mem x = cl.buffer(kBytes);
  cl_kernel kernel = cl.scale(x);
  std::vector<float> host(2 * kCount);
  truth.number("write_out_of_bounds",
               clEnqueueWriteBuffer(cl.queue, x, CL_TRUE, 0, 2 * kBytes, host.data(), 0, nullptr, nullptr));
  truth.number("null_queue", clFinish(nullptr));
  cl_event event = reinterpret_cast<cl_event>(&host);
  truth.number("no_dimensions",
               clEnqueueNDRangeKernel(cl.queue, kernel, 0, nullptr, nullptr, nullptr, 0, nullptr, &event));
  truth.number("event_untouched", event == reinterpret_cast<cl_event>(&host));
  cl_int code = 0;
  const char *bad = "kernel void broken( { }";
  cl_program program = clCreateProgramWithSource(cl.context, 1, &bad, nullptr, &code);
  check(code, "clCreateProgramWithSource");
  truth.number("build", clBuildProgram(program, 0, nullptr, "", nullptr, nullptr));
  cl_mem none = clCreateBuffer(cl.context, 0, 0, nullptr, &code);
  truth.number("empty_buffer", code);
  truth.number("empty_buffer_null", none == nullptr);
  none = clCreateBuffer(cl.context, 0, 0, nullptr, nullptr);
  truth.number("empty_buffer_without_code", none == nullptr);
  cl_kernel missing = clCreateKernel(cl.program, "missing", &code);
  truth.number("missing_kernel", code);
  truth.number("missing_kernel_null", missing == nullptr);
  const Size global = 64;
  CHECK(clEnqueueNDRangeKernel(cl.queue, kernel, 1, nullptr, &global, nullptr, 0, nullptr, nullptr));
  CHECK(clFinish(cl.queue));
  truth.number("scale", 1);
}

void out_of_order(Truth &truth, const char *) {
  Setup cl(nullptr, CL_QUEUE_OUT_OF_ORDER_EXEC_MODE_ENABLE);
  cl_mem x = cl.buffer(kBytes);
  cl_kernel kernel = cl.scale(x);
  cl_int code = 0;
  cl_event gate = clCreateUserEvent(cl.context, &code);
  check(code, "clCreateUserEvent");
  const Size global = 64;
  cl_event held = nullptr;
  CHECK(clEnqueueNDRangeKernel(cl.queue, kernel, 1, nullptr, &global, nullptr, 1, &gate, &held));
  std::vector<cl_event> free_events(500);
  for (cl_event &event : free_events) {
    CHECK(clEnqueueNDRangeKernel(cl.queue, kernel, 1, nullptr, &global, nullptr, 0, nullptr, &event));
  }
  CHECK(clWaitForEvents(static_cast<cl_uint>(free_events.size()), free_events.data()));
  CHECK(clSetUserEventStatus(gate, CL_COMPLETE));
  CHECK(clEnqueueMarkerWithWaitList(cl.queue, 0, nullptr, nullptr));
  CHECK(clEnqueueBarrierWithWaitList(cl.queue, 0, nullptr, nullptr));
  CHECK(clFinish(cl.queue));
  for (cl_event event : free_events) CHECK(clReleaseEvent(event));
  CHECK(clReleaseEvent(held));
  CHECK(clReleaseEvent(gate));
  truth.number("scale", 501);
  truth.number("marker", 2);
}

void sub_buffers(Truth &truth, const char *) {
  Setup cl;
  cl_mem x = cl.buffer(64 * 1024);
  const cl_buffer_region region{16384, 8192};
  cl_int code = 0;
  cl_mem part = clCreateSubBuffer(x, CL_MEM_READ_WRITE, CL_BUFFER_CREATE_TYPE_REGION, &region, &code);
  check(code, "clCreateSubBuffer");
  std::vector<char> host(8192, 3);
  CHECK(clEnqueueWriteBuffer(cl.queue, part, CL_TRUE, 0, 8192, host.data(), 0, nullptr, nullptr));
  std::vector<char> back(64 * 1024);
  CHECK(clEnqueueReadBuffer(cl.queue, x, CL_TRUE, 0, back.size(), back.data(), 0, nullptr, nullptr));
  truth.number("right", back[16384] == 3 && back[16384 + 8191] == 3);
  truth.number("HtoD", 8192);
  truth.number("DtoH", 64 * 1024);
  CHECK(clReleaseMemObject(part));
  CHECK(clReleaseMemObject(x));
}

void maps(Truth &truth, const char *) {
  Setup cl;
  cl_mem x = cl.buffer(kBytes);
  cl_int code = 0;
  void *mapped = clEnqueueMapBuffer(cl.queue, x, CL_TRUE, CL_MAP_WRITE, 0, kBytes, 0, nullptr, nullptr, &code);
  check(code, "clEnqueueMapBuffer");
  std::memset(mapped, 0, kBytes);
  CHECK(clEnqueueUnmapMemObject(cl.queue, x, mapped, 0, nullptr, nullptr));
  CHECK(clEnqueueMigrateMemObjects(cl.queue, 1, &x, 0, 0, nullptr, nullptr));
  CHECK(clFinish(cl.queue));
  truth.number("map", kBytes);
  truth.number("unmap", kBytes);
  truth.number("migrate", kBytes);
}

void images(Truth &truth, const char *) {
  Setup cl;
  const cl_image_format format{CL_RGBA, CL_FLOAT};
  cl_image_desc description{};
  description.image_type = CL_MEM_OBJECT_IMAGE2D;
  description.image_width = 32;
  description.image_height = 16;
  cl_int code = 0;
  cl_mem image = clCreateImage(cl.context, CL_MEM_READ_WRITE, &format, &description, nullptr, &code);
  check(code, "clCreateImage");
  cl_mem buffer = cl.buffer(32 * 16 * 16);
  std::vector<float> host(32 * 16 * 4, 1);
  const Size origin[3] = {0, 0, 0};
  const Size region[3] = {32, 16, 1};
  CHECK(clEnqueueWriteImage(cl.queue, image, CL_TRUE, origin, region, 0, 0, host.data(), 0, nullptr, nullptr));
  CHECK(clEnqueueCopyImageToBuffer(cl.queue, image, buffer, origin, region, 0, 0, nullptr, nullptr));
  CHECK(clEnqueueReadImage(cl.queue, image, CL_TRUE, origin, region, 0, 0, host.data(), 0, nullptr, nullptr));
  CHECK(clFinish(cl.queue));
  truth.number("HtoD", 32 * 16 * 16);
  truth.number("DtoD", 32 * 16 * 16);
  truth.number("DtoH", 32 * 16 * 16);
}

void svm(Truth &truth, const char *) {
  Setup cl;
  void *a = clSVMAlloc(cl.context, CL_MEM_READ_WRITE, kBytes, 0);
  void *b = clSVMAlloc(cl.context, CL_MEM_READ_WRITE, kBytes, 0);
  std::vector<char> host(kBytes, 1);
  CHECK(clEnqueueSVMMemcpy(cl.queue, CL_TRUE, a, host.data(), kBytes, 0, nullptr, nullptr));
  CHECK(clEnqueueSVMMemcpy(cl.queue, CL_TRUE, b, a, 1000, 0, nullptr, nullptr));
  CHECK(clEnqueueSVMMemcpy(cl.queue, CL_TRUE, host.data(), static_cast<char *>(b) + 16, 100, 0, nullptr, nullptr));
  const int pattern = 5;
  CHECK(clEnqueueSVMMemFill(cl.queue, a, &pattern, sizeof pattern, 512, 0, nullptr, nullptr));
  CHECK(clEnqueueSVMMap(cl.queue, CL_TRUE, CL_MAP_READ, a, kBytes, 0, nullptr, nullptr));
  CHECK(clEnqueueSVMUnmap(cl.queue, a, 0, nullptr, nullptr));
  cl_kernel kernel = cl.kernel("scale");
  const float one = 1;
  CHECK(clSetKernelArgSVMPointer(kernel, 0, a));
  CHECK(clSetKernelArg(kernel, 1, sizeof one, &one));
  const Size global = 64;
  CHECK(clEnqueueNDRangeKernel(cl.queue, kernel, 1, nullptr, &global, nullptr, 0, nullptr, nullptr));
  CHECK(clFinish(cl.queue));
  clSVMFree(cl.context, a);
  clSVMFree(cl.context, b);
  truth.number("HtoD", kBytes);
  truth.number("DtoD", 1000);
  truth.number("DtoH", 100);
  truth.number("fill", 512);
  truth.number("map", kBytes);
  truth.number("scale", 1);
}

struct Spin {
  uint64_t ns;
  std::atomic<uint64_t> *spent;
};

// A native kernel that spins for a set time, and says how long it really was at it.
void native(Truth &truth, const char *argument) {
  Setup cl;
  std::atomic<uint64_t> spent{0};
  Spin spin{1000000ull * static_cast<unsigned>(argument != nullptr ? std::atoi(argument) : 20), &spent};
  const auto function = [](void *data) {
    const auto *what = static_cast<Spin *>(data);
    const uint64_t begun = now();
    while (now() < begun + what->ns) {
    }
    *what->spent += now() - begun;
  };
  for (int at = 0; at < 5; ++at) {
    CHECK(clEnqueueNativeKernel(cl.queue, function, &spin, sizeof spin, 0, nullptr, nullptr, 0, nullptr, nullptr));
    CHECK(clFinish(cl.queue));
  }
  truth.number("native", 5);
  truth.number("ns", static_cast<long long>(spent));
}

// The program's own profiling is the truth for the time of a kernel.
void timed(Truth &truth, const char *argument) {
  Setup cl(nullptr, CL_QUEUE_PROFILING_ENABLE);
  cl_mem x = cl.buffer(kBytes);
  cl_kernel kernel = cl.busy(x, argument != nullptr ? std::atoi(argument) : 200000);
  const Size global = 16;
  cl_ulong total = 0;
  for (int at = 0; at < 6; ++at) {
    cl_event event = nullptr;
    CHECK(clEnqueueNDRangeKernel(cl.queue, kernel, 1, nullptr, &global, nullptr, 0, nullptr, &event));
    CHECK(clWaitForEvents(1, &event));
    total += stamp(event, CL_PROFILING_COMMAND_END) - stamp(event, CL_PROFILING_COMMAND_START);
    CHECK(clReleaseEvent(event));
  }
  truth.number("busy", 6);
  truth.number("ns", static_cast<long long>(total));
}

// Everything is let go of while work is pending.
void release_early(Truth &truth, const char *) {
  const Size global = 16;
  {
    Setup cl;
    cl_mem x = cl.buffer(kBytes);
    cl_kernel kernel = cl.busy(x, 2000000);
    for (int at = 0; at < 3; ++at) {
      CHECK(clEnqueueNDRangeKernel(cl.queue, kernel, 1, nullptr, &global, nullptr, 0, nullptr, nullptr));
    }
    CHECK(clFlush(cl.queue));
    CHECK(clReleaseKernel(kernel));
    CHECK(clReleaseMemObject(x));
    CHECK(clReleaseProgram(cl.program));
    CHECK(clReleaseCommandQueue(cl.queue));
    CHECK(clReleaseContext(cl.context));
  }
  usleep(600000);
  Setup again;
  cl_mem x = again.buffer(kBytes);
  cl_kernel kernel = again.scale(x);
  CHECK(clEnqueueNDRangeKernel(again.queue, kernel, 1, nullptr, &global, nullptr, 0, nullptr, nullptr));
  CHECK(clFinish(again.queue));
  truth.number("busy", 3);
  truth.number("scale", 1);
}

// The program ends while its commands run, and waits for none.
void unfinished(Truth &truth, const char *) {
  Setup cl;
  cl_mem x = cl.buffer(kBytes);
  // The last harvest waits a second for all of them, also where a core does half of what others do.
  cl_kernel kernel = cl.busy(x, 2000);
  const Size global = 16;
  for (int at = 0; at < 10; ++at) {
    CHECK(clEnqueueNDRangeKernel(cl.queue, kernel, 1, nullptr, &global, nullptr, 0, nullptr, nullptr));
  }
  CHECK(clFlush(cl.queue));
  truth.number("busy", 10);
}

// A thread per queue and one queue for all.
void threads(Truth &truth, const char *) {
  Setup cl;
  constexpr int kThreads = 8;
  constexpr int kEach = 500;
  std::vector<std::thread> workers;
  for (int at = 0; at < kThreads; ++at) {
    workers.emplace_back([&] {
      cl_int code = 0;
      cl_command_queue own = clCreateCommandQueue(cl.context, cl.device, 0, &code);
      check(code, "clCreateCommandQueue");
      cl_mem x = cl.buffer(kBytes);
      cl_kernel kernel = cl.scale(x);
      const Size global = 16;
      for (int round = 0; round < kEach; ++round) {
        CHECK(clEnqueueNDRangeKernel(own, kernel, 1, nullptr, &global, nullptr, 0, nullptr, nullptr));
        CHECK(clEnqueueNDRangeKernel(cl.queue, kernel, 1, nullptr, &global, nullptr, 0, nullptr, nullptr));
      }
      CHECK(clFinish(own));
      CHECK(clFinish(cl.queue));
      CHECK(clReleaseKernel(kernel));
      CHECK(clReleaseMemObject(x));
      CHECK(clReleaseCommandQueue(own));
    });
  }
  for (std::thread &worker : workers) worker.join();
  CHECK(clFinish(cl.queue));
  truth.number("scale", 2 * kThreads * kEach);
}

// Every device of every platform, each with its own number of launches: 3, 4, 5, …
void platforms(Truth &truth, const char *) {
  cl_platform_id found[8];
  cl_uint count = 0;
  CHECK(clGetPlatformIDs(8, found, &count));
  int launches_here = 3;
  for (cl_uint at = 0; at < count; ++at) {
    cl_device_id devices[8];
    cl_uint device_count = 0;
    CHECK(clGetDeviceIDs(found[at], CL_DEVICE_TYPE_ALL, 8, devices, &device_count));
    for (cl_uint which = 0; which < device_count; ++which) {
      Setup cl(devices[which]);
      cl_mem x = cl.buffer(kBytes);
      cl_kernel kernel = cl.scale(x);
      const Size global = 16;
      for (int round = 0; round < launches_here; ++round) {
        CHECK(clEnqueueNDRangeKernel(cl.queue, kernel, 1, nullptr, &global, nullptr, 0, nullptr, nullptr));
      }
      CHECK(clFinish(cl.queue));
      truth.number(text_info(clGetDeviceInfo, devices[which], CL_DEVICE_NAME), launches_here++);
    }
  }
}

// Kernels come from all the calls that make one.
void kernels(Truth &truth, const char *) {
  Setup cl;
  cl_kernel made[3];
  cl_uint count = 0;
  CHECK(clCreateKernelsInProgram(cl.program, 3, made, &count));
  cl_mem x = cl.buffer(kBytes);
  const Size global = 16;
  for (cl_kernel kernel : made) {
    const std::string name = text_info(clGetKernelInfo, kernel, CL_KERNEL_FUNCTION_NAME);
    CHECK(clSetKernelArg(kernel, 0, sizeof x, &x));
    const float one = 1;
    const int rounds = 1;
    if (name == "add") CHECK(clSetKernelArg(kernel, 1, sizeof x, &x));
    if (name == "scale") CHECK(clSetKernelArg(kernel, 1, sizeof one, &one));
    if (name == "busy") CHECK(clSetKernelArg(kernel, 1, sizeof rounds, &rounds));
    CHECK(clEnqueueNDRangeKernel(cl.queue, kernel, 1, nullptr, &global, nullptr, 0, nullptr, nullptr));
    truth.number(name, 1);
  }
  CHECK(clFinish(cl.queue));
}

// Functions asked for by name go the same way as those that are linked.
void extensions(Truth &truth, const char *) {
  Setup cl;
  using Enqueue = cl_int (*)(cl_command_queue, cl_kernel, cl_uint, const Size *, const Size *, const Size *, cl_uint,
                             const cl_event *, cl_event *);
  using CreateQueue = cl_command_queue (*)(cl_context, cl_device_id, const cl_queue_properties *, cl_int *);
  auto enqueue = reinterpret_cast<Enqueue>(
      clGetExtensionFunctionAddressForPlatform(cl.platform, "clEnqueueNDRangeKernel"));
  auto create = reinterpret_cast<CreateQueue>(
      clGetExtensionFunctionAddressForPlatform(cl.platform, "clCreateCommandQueueWithPropertiesKHR"));
  truth.number("unknown", clGetExtensionFunctionAddressForPlatform(cl.platform, "clNoSuchFunction") == nullptr);
  truth.number("enqueue", enqueue != nullptr);
  truth.number("create", create != nullptr);
  cl_mem x = cl.buffer(kBytes);
  cl_kernel kernel = cl.scale(x);
  const Size global = 16;
  int done = 0;
  if (enqueue != nullptr) {
    CHECK(enqueue(cl.queue, kernel, 1, nullptr, &global, nullptr, 0, nullptr, nullptr));
    ++done;
  }
  if (create != nullptr) {
    cl_int code = 0;
    cl_command_queue queue = create(cl.context, cl.device, nullptr, &code);
    check(code, "clCreateCommandQueueWithPropertiesKHR");
    CHECK(clEnqueueNDRangeKernel(queue, kernel, 1, nullptr, &global, nullptr, 0, nullptr, nullptr));
    CHECK(clFinish(queue));
    ++done;
  }
  CHECK(clFinish(cl.queue));
  truth.number("scale", done);
}

}  // namespace

int main(int argc, char **argv) {
  const std::map<std::string, std::function<void(Truth &, const char *)>> cases = {
      {"copies", copies},           {"launches", launches},     {"shapes", shapes},
      {"views", views},             {"user_event", user_event}, {"terminated", terminated},
      {"failures", failures},       {"out_of_order", out_of_order}, {"sub_buffers", sub_buffers},
      {"maps", maps},               {"images", images},         {"svm", svm},
      {"native", native},           {"timed", timed},           {"release_early", release_early},
      {"threads", threads},         {"platforms", platforms},   {"kernels", kernels},
      {"extensions", extensions},   {"unfinished", unfinished},
  };
  const auto found = argc > 1 ? cases.find(argv[1]) : cases.end();
  if (found == cases.end()) {
    std::fprintf(stderr, "usage: cases NAME [ARGUMENT]; names:");
    for (const auto &each : cases) std::fprintf(stderr, " %s", each.first.c_str());
    std::fprintf(stderr, "\n");
    return 2;
  }
  Truth truth;
  found->second(truth, argc > 2 ? argv[2] : nullptr);
  truth.print();
  return 0;
}
