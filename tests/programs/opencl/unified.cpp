// Intel's unified memory through functions asked for by name: `unified [count]`. Prints what it did, as a JSON object.
#include "asked.h"

#define ASK(name) ask<name##_fn>(platform, #name)

int main() {
  Device one;
  const cl_platform_id platform = one.platform;
  const cl_device_id device = one.device;
  const cl_context context = one.context;
  const cl_command_queue queue = one.queue;
  const cl_kernel kernel = one.kernel;
  cl_int code = 0;

  const auto host_alloc = ASK(clHostMemAllocINTEL);
  const auto device_alloc = ASK(clDeviceMemAllocINTEL);
  const auto shared_alloc = ASK(clSharedMemAllocINTEL);
  const auto release = ASK(clMemFreeINTEL);
  const auto blocking_release = ASK(clMemBlockingFreeINTEL);
  const auto copy = ASK(clEnqueueMemcpyINTEL);
  const auto fill = ASK(clEnqueueMemFillINTEL);
  const auto migrate = ASK(clEnqueueMigrateMemINTEL);
  const auto argument = ASK(clSetKernelArgMemPointerINTEL);
  const bool same = ASK(clEnqueueMemcpyINTEL) == copy;

  const size_t n = 1024;
  int *host = static_cast<int *>(host_alloc(context, nullptr, n * sizeof(int), 0, &code));
  check(code, "clHostMemAllocINTEL");
  int *on_device = static_cast<int *>(device_alloc(context, device, nullptr, 2 * n * sizeof(int), 0, nullptr));
  int *shared = static_cast<int *>(shared_alloc(context, device, nullptr, 3 * n * sizeof(int), 0, nullptr));
  const bool failed = device_alloc(context, device, nullptr, 0, 0, &code) == nullptr && code == CL_INVALID_BUFFER_SIZE;

  const int seven = 7;
  CHECK(fill(queue, on_device, &seven, sizeof seven, n * sizeof(int), 0, nullptr, nullptr));
  CHECK(argument(kernel, 0, on_device));
  for (int at = 0; at < 5; ++at) CHECK(clEnqueueNDRangeKernel(queue, kernel, 1, nullptr, &n, nullptr, 0, nullptr, nullptr));
  CHECK(migrate(queue, shared, 512, CL_MIGRATE_MEM_OBJECT_HOST, 0, nullptr, nullptr));
  CHECK(copy(queue, CL_FALSE, shared, on_device, n * sizeof(int), 0, nullptr, nullptr));
  cl_event done = nullptr;
  CHECK(copy(queue, CL_FALSE, host, on_device, n * sizeof(int), 0, nullptr, &done));
  CHECK(clWaitForEvents(1, &done));
  const int first = host[0];
  CHECK(copy(queue, CL_TRUE, on_device, host, 256, 0, nullptr, nullptr));
  clFinish(queue);
  clReleaseEvent(done);
  CHECK(release(context, host));
  CHECK(blocking_release(context, on_device));
  // `shared` is never freed.
  one.release();
  std::printf("{\"first\": %d, \"same\": %d, \"failed\": %d}\n", first, same, failed);
  return 0;
}
