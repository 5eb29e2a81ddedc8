// Command buffers (cl_khr_command_buffer) by functions asked for by name: `command_buffers [before_0_9_5]`. Prints what it did, as
// a JSON object.
#include "asked.h"

namespace {

// As of version 0.9.5; headers differ.
using Buffer = cl_command_buffer_khr;
using Point = cl_sync_point_khr;
using Create = Buffer (*)(cl_uint, const cl_command_queue *, const cl_properties *, cl_int *);
using OfBuffer = cl_int (*)(Buffer);
using Enqueue = cl_int (*)(cl_uint, cl_command_queue *, Buffer, cl_uint, const cl_event *, cl_event *);
using Launch = cl_int (*)(Buffer, cl_command_queue, const cl_properties *, cl_kernel, cl_uint, const size_t *, const size_t *,
                          const size_t *, cl_uint, const Point *, Point *, void **);
using Copy = cl_int (*)(Buffer, cl_command_queue, const cl_properties *, cl_mem, cl_mem, size_t, size_t, size_t, cl_uint,
                        const Point *, Point *, void **);
using Fill = cl_int (*)(Buffer, cl_command_queue, const cl_properties *, cl_mem, const void *, size_t, size_t, size_t, cl_uint,
                        const Point *, Point *, void **);
using Barrier = cl_int (*)(Buffer, cl_command_queue, const cl_properties *, cl_uint, const Point *, Point *, void **);

using OldCopy = cl_int (*)(Buffer, cl_command_queue, cl_mem, cl_mem, size_t, size_t, size_t, cl_uint, const Point *, Point *, void **);
using OldFill = cl_int (*)(Buffer, cl_command_queue, cl_mem, const void *, size_t, size_t, size_t, cl_uint, const Point *, Point *,
                           void **);
using OldBarrier = cl_int (*)(Buffer, cl_command_queue, cl_uint, const Point *, Point *, void **);

}  // namespace

int main(int argc, char **) {
  const bool old = argc > 1;
  Device one;
  const cl_platform_id platform = one.platform;
  const cl_context context = one.context;
  cl_command_queue queue = one.queue;
  const cl_kernel kernel = one.kernel;
  cl_int code = 0;
  const size_t n = 1024, bytes = n * sizeof(int);
  cl_mem a = clCreateBuffer(context, CL_MEM_READ_WRITE, bytes, nullptr, &code);
  check(code, "clCreateBuffer");
  cl_mem b = clCreateBuffer(context, CL_MEM_READ_WRITE, bytes, nullptr, &code);
  check(code, "clCreateBuffer");

  const auto create = ask<Create>(platform, "clCreateCommandBufferKHR");
  const auto finalize = ask<OfBuffer>(platform, "clFinalizeCommandBufferKHR");
  const auto release = ask<OfBuffer>(platform, "clReleaseCommandBufferKHR");
  const auto enqueue = ask<Enqueue>(platform, "clEnqueueCommandBufferKHR");
  const auto launch = ask<Launch>(platform, "clCommandNDRangeKernelKHR");
  const auto address_of_copy = ask<Copy>(platform, "clCommandCopyBufferKHR");
  const auto address_of_fill = ask<Fill>(platform, "clCommandFillBufferKHR");
  const auto address_of_barrier = ask<Barrier>(platform, "clCommandBarrierWithWaitListKHR");

  Buffer buffer = create(1, &queue, nullptr, &code);
  check(code, "clCreateCommandBufferKHR");
  const int three = 3;
  const auto fill = [&](Point *point) {
    return old ? reinterpret_cast<OldFill>(address_of_fill)(buffer, nullptr, a, &three, sizeof three, 0, bytes, 0, nullptr, point, nullptr)
               : address_of_fill(buffer, nullptr, nullptr, a, &three, sizeof three, 0, bytes, 0, nullptr, point, nullptr);
  };
  const auto copy = [&](const Point *after) {
    return old ? reinterpret_cast<OldCopy>(address_of_copy)(buffer, nullptr, a, b, 0, 0, bytes, 1, after, nullptr, nullptr)
               : address_of_copy(buffer, nullptr, nullptr, a, b, 0, 0, bytes, 1, after, nullptr, nullptr);
  };
  const auto barrier = [&](Point *point) {
    return old ? reinterpret_cast<OldBarrier>(address_of_barrier)(buffer, nullptr, 0, nullptr, point, nullptr)
               : address_of_barrier(buffer, nullptr, nullptr, 0, nullptr, point, nullptr);
  };
  Point filled = 0, once = 0, launched = 0;
  CHECK(fill(&filled));
  CHECK(clSetKernelArg(kernel, 0, sizeof a, &a));
  CHECK(launch(buffer, nullptr, nullptr, kernel, 1, nullptr, &n, nullptr, 1, &filled, &once, nullptr));
  CHECK(launch(buffer, nullptr, nullptr, kernel, 1, nullptr, &n, nullptr, 1, &once, &launched, nullptr));
  CHECK(barrier(&launched));
  CHECK(copy(&launched));
  CHECK(finalize(buffer));
  // A command after the end is refused.
  const bool refused = fill(nullptr) != CL_SUCCESS;

  cl_event done = nullptr;
  CHECK(enqueue(0, nullptr, buffer, 0, nullptr, &done));
  CHECK(clWaitForEvents(1, &done));
  clReleaseEvent(done);
  for (int at = 0; at < 3; ++at) {
    CHECK(enqueue(1, &queue, buffer, 0, nullptr, nullptr));
    CHECK(clFinish(queue));
  }
  int first = 0;
  CHECK(clEnqueueReadBuffer(queue, b, CL_TRUE, 0, sizeof first, &first, 0, nullptr, nullptr));
  CHECK(release(buffer));
  clReleaseMemObject(a);
  clReleaseMemObject(b);
  one.release();
  std::printf("{\"first\": %d, \"refused\": %d}\n", first, refused);
  return 0;
}
