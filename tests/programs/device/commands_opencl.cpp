// The device work of OpenCL's calls, each with a known answer.
#include "opencl_work.h"
//
#include "commands.h"

#define FUNCTION(name) OCCATRACE_OPENCL_##name

namespace occatrace::opencl {

using namespace known_answers;

static cl_int image_info(cl_mem, cl_image_info, size_t, void *value, size_t *) {
  return *static_cast<size_t *>(value) = 4, CL_SUCCESS;
}
static cl_int memory_info(cl_mem memory, cl_mem_info, size_t, void *value, size_t *) {
  return *static_cast<size_t *>(value) = reinterpret_cast<size_t>(memory), CL_SUCCESS;
}

static void checks() {
  targets[0].clGetImageInfo = image_info;
  targets[0].clGetMemObjectInfo = memory_info;
  const auto kernel = reinterpret_cast<cl_kernel>(0x7);
  kernel_names.set(kernel, occatrace_intern("tick"));
  const size_t global[] = {256, 15}, local[] = {64, 5}, region[] = {5, 4, 3};
  const auto memory = reinterpret_cast<cl_mem>(0x400);
  void *const mapped = reinterpret_cast<void *>(0x2000);
  char shared[100];
  shared_memory().add(shared, sizeof shared);

  KERNEL(clEnqueueNDRangeKernel, ({256, 15, 0}), ({64, 5, 0}),
         a.kernel = kernel, a.work_dim = 2, a.global_work_size = global, a.local_work_size = local)
  KERNEL(clEnqueueTask, ({1, 0, 0}), ({1, 0, 0}), a.kernel = kernel)
  CHECK(clEnqueueNativeKernel, returns, OCCATRACE_NATIVE, 0, )

  CHECK(clEnqueueReadBuffer, waits, OCCATRACE_DTOH, 100, a.size = 100, a.blocking_read = CL_TRUE)
  CHECK(clEnqueueReadBuffer, returns, OCCATRACE_DTOH, 100, a.size = 100)
  CHECK(clEnqueueReadBufferRect, waits, OCCATRACE_DTOH, 60, a.region = region, a.blocking_read = CL_TRUE)
  CHECK(clEnqueueReadImage, waits, OCCATRACE_DTOH, 240, a.region = region, a.blocking_read = CL_TRUE)
  CHECK(clEnqueueWriteBuffer, waits, OCCATRACE_HTOD, 100, a.size = 100, a.blocking_write = CL_TRUE)
  CHECK(clEnqueueWriteBufferRect, returns, OCCATRACE_HTOD, 60, a.region = region)
  CHECK(clEnqueueWriteImage, returns, OCCATRACE_HTOD, 240, a.region = region)
  CHECK(clEnqueueCopyBuffer, returns, OCCATRACE_DTOD, 100, a.size = 100)
  CHECK(clEnqueueCopyBufferRect, returns, OCCATRACE_DTOD, 60, a.region = region)
  CHECK(clEnqueueCopyImage, returns, OCCATRACE_DTOD, 240, a.region = region)
  CHECK(clEnqueueCopyImageToBuffer, returns, OCCATRACE_DTOD, 240, a.region = region)
  CHECK(clEnqueueCopyBufferToImage, returns, OCCATRACE_DTOD, 240, a.region = region)
  CHECK(clEnqueueFillBuffer, returns, OCCATRACE_FILL, 100, a.size = 100)
  CHECK(clEnqueueFillImage, returns, OCCATRACE_FILL, 240, a.region = region)

  // What is unmapped has the bytes of its mapping.
  CHECK(clEnqueueMapBuffer, waits, OCCATRACE_MAP, 100, a.size = 100, a.blocking_map = CL_TRUE, a.ret = mapped)
  CHECK(clEnqueueUnmapMemObject, returns, OCCATRACE_UNMAP, 100, a.mapped_ptr = mapped)
  CHECK(clEnqueueMapImage, returns, OCCATRACE_MAP, 240, a.region = region, a.ret = mapped)
  CHECK(clEnqueueUnmapMemObject, returns, OCCATRACE_UNMAP, 240, a.mapped_ptr = mapped)
  CHECK(clEnqueueSVMMap, waits, OCCATRACE_MAP, 77, a.size = 77, a.blocking_map = CL_TRUE, a.svm_ptr = shared)
  CHECK(clEnqueueSVMUnmap, returns, OCCATRACE_UNMAP, 77, a.svm_ptr = shared)

  const cl_mem objects[] = {memory, memory};
  const size_t sizes[] = {10, 20};
  CHECK(clEnqueueMigrateMemObjects, returns, OCCATRACE_MIGRATE, 0x800, a.num_mem_objects = 2, a.mem_objects = objects)
  CHECK(clEnqueueSVMMigrateMem, returns, OCCATRACE_MIGRATE, 30, a.num_svm_pointers = 2, a.sizes = sizes)
  CHECK(clEnqueueMigrateMemINTEL, returns, OCCATRACE_MIGRATE, 55, a.size = 55)

  CHECK(clEnqueueSVMMemcpy, waits, OCCATRACE_HTOD, 9, a.size = 9, a.blocking_copy = CL_TRUE, a.dst_ptr = shared + 5)
  CHECK(clEnqueueSVMMemcpy, returns, OCCATRACE_DTOH, 9, a.size = 9, a.src_ptr = shared + 99)
  CHECK(clEnqueueSVMMemFill, returns, OCCATRACE_FILL, 9, a.size = 9)
  CHECK(clEnqueueMemcpyINTEL, waits, OCCATRACE_DTOD, 9, a.size = 9, a.blocking = CL_TRUE, a.src_ptr = a.dst_ptr = shared)
  CHECK(clEnqueueMemsetINTEL, returns, OCCATRACE_FILL, 9, a.size = 9)
  CHECK(clEnqueueMemFillINTEL, returns, OCCATRACE_FILL, 9, a.size = 9)

  CHECK(clEnqueueMarker, returns, OCCATRACE_MARKER, 0, )
  CHECK(clEnqueueMarkerWithWaitList, returns, OCCATRACE_MARKER, 0, )
  CHECK(clEnqueueBarrierWithWaitList, returns, OCCATRACE_MARKER, 0, )
  CHECK(clEnqueueSVMFree, returns, OCCATRACE_OTHER, 0, )
  CHECK(clEnqueueMemAdviseINTEL, returns, OCCATRACE_OTHER, 0, )
  CHECK(clEnqueueAcquireGLObjects, returns, OCCATRACE_OTHER, 0, )
  CHECK(clEnqueueReleaseGLObjects, returns, OCCATRACE_OTHER, 0, )
  CHECK(clEnqueueAcquireEGLObjectsKHR, returns, OCCATRACE_OTHER, 0, )
  CHECK(clEnqueueReleaseEGLObjectsKHR, returns, OCCATRACE_OTHER, 0, )

  CHECK(clEnqueueReadGlobalVariableINTEL, waits, OCCATRACE_DTOH, 9, a.size = 9, a.blocking_read = CL_TRUE)
  CHECK(clEnqueueWriteGlobalVariableINTEL, returns, OCCATRACE_HTOD, 9, a.size = 9)
  CHECK(clEnqueueReadHostPipeINTEL, waits, OCCATRACE_DTOH, 9, a.size = 9, a.blocking_read = CL_TRUE)
  CHECK(clEnqueueWriteHostPipeINTEL, returns, OCCATRACE_HTOD, 9, a.size = 9)
  CHECK(clEnqueueWaitSemaphoresKHR, returns, OCCATRACE_MARKER, 0, )
  CHECK(clEnqueueSignalSemaphoresKHR, returns, OCCATRACE_MARKER, 0, )
  CHECK(clEnqueueAcquireExternalMemObjectsKHR, returns, OCCATRACE_OTHER, 0, )
  CHECK(clEnqueueReleaseExternalMemObjectsKHR, returns, OCCATRACE_OTHER, 0, )
  CHECK(clEnqueueCommandBufferKHR, returns, OCCATRACE_OTHER, 0, )
}

}  // namespace occatrace::opencl

int main() {
  occatrace::opencl::checks();
  return known_answers::wrong != 0;
}
