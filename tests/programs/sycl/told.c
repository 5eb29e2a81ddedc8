/* What a SYCL runtime says by XPTI, with the OpenCL calls that it makes meanwhile: `told`. Two commands "scale" of the line 21, each
 * with a fill of 4096 bytes, the second after the first, a copy without code location, an allocation that is never freed.
 * With `cut` it says the begin of a command and ends. With `thrown` 40 waits begin and never end. */
#define CL_TARGET_OPENCL_VERSION 300
#include <CL/cl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void fake_start(void);
void fake_queue(uint64_t number);
void fake_tell(int stream, int point, uint64_t id, uint64_t instance, const char *name, const char *file, int line, uint64_t source,
               uint64_t target, const void *data);

enum { NODE = 4, EDGE = 6, BEGIN = 10, END = 11, SIGNAL = 16, WAIT = 22, WAITED = 23, ALLOC = 32, ALLOCATED = 33 };
#define NAME "typeinfo name for ns::scale<float>"

static cl_context context;
static cl_command_queue queue;

int main(int argc, char **argv) {
  cl_platform_id platforms[8];
  cl_device_id device;
  cl_uint count = 0;
  clGetPlatformIDs(8, platforms, &count);
  for (cl_uint at = 0; at < count; at++)
    if (clGetDeviceIDs(platforms[at], CL_DEVICE_TYPE_CPU, 1, &device, NULL) == CL_SUCCESS) break;
  context = clCreateContext(NULL, 1, &device, NULL, NULL, NULL);
  queue = clCreateCommandQueueWithProperties(context, device, NULL, NULL);
  cl_mem memory = clCreateBuffer(context, CL_MEM_READ_WRITE, 4096, NULL, NULL);
  const int zero = 0;
  int got[16];
  fake_start();

  fake_tell(2, ALLOC, 90, 1, "main", "told.cc", 11, 0, 0, NULL);
  void *shared = clSVMAlloc(context, CL_MEM_READ_WRITE, 12288, 0);
  fake_tell(2, ALLOCATED, 90, 1, "main", "told.cc", 11, 0, 0, NULL);

  for (int n = 0; argc > 1 && strcmp(argv[1], "thrown") == 0 && n < 40; n++)
    fake_tell(1, WAIT, 81, 200 + (uint64_t)n, "main", "told.cc", 15, 0, 0, NULL);
  fake_queue(7);
  for (uint64_t n = 2; n <= 3; n++) {
    fake_tell(1, NODE, 50, n, NAME, "told.cc", 21, 0, 0, NULL);
    if (n == 3) {
      /* After the event of the one before. */
      fake_tell(1, NODE, 60, 100, "virtual_node[1000]", "<unknown-file>", -1, 0, 0, NULL);
      fake_tell(1, EDGE, 61, 101, "Event[1000]", "<unknown-file>", -1, 60, 50, NULL);
    }
    fake_tell(1, BEGIN, 50, n, NAME, "told.cc", 21, 0, 0, NULL);
    if (argc > 1 && strcmp(argv[1], "cut") == 0) exit(0);
    clEnqueueFillBuffer(queue, memory, &zero, sizeof zero, 0, 4096, 0, NULL, NULL);
    fake_tell(1, SIGNAL, 50, n, NAME, "told.cc", 21, 0, 0, (void *)(uintptr_t)(0x1000 * (n - 1)));
    fake_tell(1, END, 50, n, NAME, "told.cc", 21, 0, 0, NULL);
  }
  /* Made by nobody's command. */
  clEnqueueFillBuffer(queue, memory, &zero, sizeof zero, 0, 1024, 0, NULL, NULL);
  fake_tell(1, NODE, 70, 4, "operator()", "<unknown-file>", -1, 0, 0, "memory_transfer_node::memcpy");
  fake_tell(1, BEGIN, 70, 5, "operator()", "<unknown-file>", -1, 0, 0, "memory_transfer_node::memcpy");
  clEnqueueReadBuffer(queue, memory, CL_FALSE, 0, sizeof got, got, 0, NULL, NULL);
  fake_tell(1, END, 70, 5, "operator()", "<unknown-file>", -1, 0, 0, "memory_transfer_node::memcpy");

  fake_tell(1, WAIT, 80, 6, "main", "told.cc", 31, 0, 0, NULL);
  clFinish(queue);
  fake_tell(1, WAITED, 80, 6, "main", "told.cc", 31, 0, 0, NULL);
  printf("{\"shared\": %d}\n", shared != NULL);
  clReleaseMemObject(memory);
  clReleaseCommandQueue(queue);
  clReleaseContext(context);
  return 0;
}
