/* What Khronos' OpenCL loader does with layers since v2026.05.29, and a platform with Intel's unified memory and command
 * buffers: a layer of the old kind for a loader of the old kind, which takes the layers of OPENCL_LAYERS below itself if, and
 * only if, they have clInitLayerWithProperties, and calls their clDeinitLayer at the end. The unified memory is the platform's
 * SVM. A command buffer keeps what was recorded and enqueues it; the extension has version 0.9.5 (PoCL's own has 0.9.0). */
#define CL_TARGET_OPENCL_VERSION 300
#include <CL/cl_layer.h>
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef cl_int (*init_with_properties)(cl_uint, const cl_icd_dispatch *, cl_uint *, const cl_icd_dispatch **, const cl_properties *);

static cl_icd_dispatch driver, top;
static cl_int (*deinit[8])(void);
static unsigned layers;

/* ---- unified memory ---- */

static void *allocate(cl_context context, size_t size, cl_uint alignment, cl_int *code) {
  void *made = size == 0 ? NULL : driver.clSVMAlloc(context, CL_MEM_READ_WRITE, size, alignment);
  if (code != NULL) *code = made != NULL ? CL_SUCCESS : CL_INVALID_BUFFER_SIZE;
  return made;
}
static void *host_alloc(cl_context c, const cl_mem_properties_intel *p, size_t size, cl_uint alignment, cl_int *code) {
  (void)p;
  return allocate(c, size, alignment, code);
}
static void *device_alloc(cl_context c, cl_device_id d, const cl_mem_properties_intel *p, size_t size, cl_uint alignment, cl_int *code) {
  (void)d, (void)p;
  return allocate(c, size, alignment, code);
}
static cl_int memory_free(cl_context context, void *ptr) {
  driver.clSVMFree(context, ptr);
  return CL_SUCCESS;
}
static cl_int set_argument(cl_kernel kernel, cl_uint index, const void *value) {
  return driver.clSetKernelArgSVMPointer(kernel, index, value);
}
static cl_int fill(cl_command_queue q, void *dst, const void *pattern, size_t width, size_t size, cl_uint n, const cl_event *list, cl_event *event) {
  return driver.clEnqueueSVMMemFill(q, dst, pattern, width, size, n, list, event);
}
static cl_int copy(cl_command_queue q, cl_bool blocking, void *dst, const void *src, size_t size, cl_uint n, const cl_event *list, cl_event *event) {
  return driver.clEnqueueSVMMemcpy(q, blocking, dst, src, size, n, list, event);
}
static cl_int migrate(cl_command_queue q, const void *ptr, size_t size, cl_mem_migration_flags flags, cl_uint n, const cl_event *list, cl_event *event) {
  (void)ptr, (void)size, (void)flags;
  return driver.clEnqueueMarkerWithWaitList(q, n, list, event);
}

/* ---- command buffers ---- */

struct command {
  enum { LAUNCH, FILL, COPY } what;
  cl_kernel kernel;
  cl_mem from, to;
  size_t size, width;
  char pattern[16];
};
struct buffer {
  cl_command_queue queue;
  int final;
  unsigned count;
  struct command commands[16];
};

static void *create_buffer(cl_uint n, const cl_command_queue *queues, const cl_properties *p, cl_int *code) {
  (void)p;
  struct buffer *made = n == 1 ? calloc(1, sizeof *made) : NULL;
  if (made != NULL) made->queue = queues[0];
  if (code != NULL) *code = made != NULL ? CL_SUCCESS : CL_INVALID_VALUE;
  return made;
}
static cl_int release_buffer(struct buffer *b) { return free(b), CL_SUCCESS; }
static cl_int finalize(struct buffer *b) { return b->final++ ? CL_INVALID_OPERATION : CL_SUCCESS; }
static cl_int record(struct buffer *b, struct command c, cl_uint *point) {
  if (b->final || b->count == 16) return CL_INVALID_OPERATION;
  b->commands[b->count++] = c;
  if (point != NULL) *point = b->count;
  return CL_SUCCESS;
}
static cl_int record_launch(struct buffer *b, cl_command_queue q, const cl_properties *p, cl_kernel kernel, cl_uint dim, const size_t *offset, const size_t *global, const size_t *local, cl_uint n, const cl_uint *list, cl_uint *point, void **handle) {
  (void)q, (void)p, (void)dim, (void)offset, (void)local, (void)n, (void)list, (void)handle;
  return record(b, (struct command){.what = LAUNCH, .kernel = kernel, .size = *global}, point);
}
static cl_int record_copy(struct buffer *b, cl_command_queue q, const cl_properties *p, cl_mem from, cl_mem to, size_t so, size_t to_offset, size_t size, cl_uint n, const cl_uint *list, cl_uint *point, void **handle) {
  (void)q, (void)p, (void)so, (void)to_offset, (void)n, (void)list, (void)handle;
  return record(b, (struct command){.what = COPY, .from = from, .to = to, .size = size}, point);
}
static cl_int record_fill(struct buffer *b, cl_command_queue q, const cl_properties *p, cl_mem to, const void *pattern, size_t width, size_t offset, size_t size, cl_uint n, const cl_uint *list, cl_uint *point, void **handle) {
  (void)q, (void)p, (void)offset, (void)n, (void)list, (void)handle;
  struct command c = {.what = FILL, .to = to, .size = size, .width = width};
  memcpy(c.pattern, pattern, width < sizeof c.pattern ? width : sizeof c.pattern);
  return record(b, c, point);
}
static cl_int record_barrier(struct buffer *b, cl_command_queue q, const cl_properties *p, cl_uint n, const cl_uint *list, cl_uint *point, void **handle) {
  (void)q, (void)p, (void)n, (void)list, (void)handle;
  if (point != NULL) *point = b->count;
  return b->final ? CL_INVALID_OPERATION : CL_SUCCESS;
}
static cl_int enqueue_buffer(cl_uint n, cl_command_queue *queues, struct buffer *b, cl_uint waits, const cl_event *list, cl_event *event) {
  const cl_command_queue queue = n != 0 ? queues[0] : b->queue;
  cl_int code = b->final ? CL_SUCCESS : CL_INVALID_OPERATION;
  for (unsigned at = 0; at < b->count && code == CL_SUCCESS; at++) {
    const struct command *c = &b->commands[at];
    if (c->what == LAUNCH) code = driver.clEnqueueNDRangeKernel(queue, c->kernel, 1, NULL, &c->size, NULL, 0, NULL, NULL);
    else if (c->what == FILL) code = driver.clEnqueueFillBuffer(queue, c->to, c->pattern, c->width, 0, c->size, 0, NULL, NULL);
    else code = driver.clEnqueueCopyBuffer(queue, c->from, c->to, 0, 0, c->size, 0, NULL, NULL);
  }
  return code == CL_SUCCESS ? driver.clEnqueueMarkerWithWaitList(queue, waits, list, event) : code;
}

/* The device's own extensions, but of this one the version of here. */
static cl_int CL_API_CALL device_info(cl_device_id device, cl_device_info what, size_t size, void *value, size_t *needed) {
  size_t own = 0;
  const cl_int code = driver.clGetDeviceInfo(device, what, size, value, &own);
  if (needed != NULL) *needed = own;
  if (what != CL_DEVICE_EXTENSIONS_WITH_VERSION || value == NULL || code != CL_SUCCESS) return code;
  cl_name_version *entry = value;
  for (; own >= sizeof *entry; own -= sizeof *entry, entry++)
    if (strcmp(entry->name, "cl_khr_command_buffer") == 0) entry->version = CL_MAKE_VERSION(0, 9, 5);
  return code;
}

static const struct {
  const char *name;
  void *function;
} asked[] = {
    {"clHostMemAllocINTEL", (void *)host_alloc},    {"clDeviceMemAllocINTEL", (void *)device_alloc},
    {"clSharedMemAllocINTEL", (void *)device_alloc}, {"clMemFreeINTEL", (void *)memory_free},
    {"clMemBlockingFreeINTEL", (void *)memory_free}, {"clSetKernelArgMemPointerINTEL", (void *)set_argument},
    {"clEnqueueMemFillINTEL", (void *)fill},         {"clEnqueueMemcpyINTEL", (void *)copy},
    {"clEnqueueMigrateMemINTEL", (void *)migrate},   {"clCreateCommandBufferKHR", (void *)create_buffer},
    {"clReleaseCommandBufferKHR", (void *)release_buffer}, {"clFinalizeCommandBufferKHR", (void *)finalize},
    {"clEnqueueCommandBufferKHR", (void *)enqueue_buffer}, {"clCommandNDRangeKernelKHR", (void *)record_launch},
    {"clCommandCopyBufferKHR", (void *)record_copy}, {"clCommandFillBufferKHR", (void *)record_fill},
    {"clCommandBarrierWithWaitListKHR", (void *)record_barrier},
};

static void *CL_API_CALL address_for(cl_platform_id platform, const char *name) {
  for (size_t at = 0; at < sizeof asked / sizeof *asked; ++at)
    if (strcmp(asked[at].name, name) == 0) return asked[at].function;
  return driver.clGetExtensionFunctionAddressForPlatform(platform, name);
}

/* ---- layers ---- */

static void add(const char *path) {
  void *library = dlopen(path, RTLD_NOW);
  init_with_properties init = library == NULL ? NULL : (init_with_properties)dlsym(library, "clInitLayerWithProperties");
  const cl_icd_dispatch *made = NULL;
  cl_uint slots = 0;
  const cl_uint all = sizeof top / sizeof(void *);
  cl_icd_dispatch *below = malloc(sizeof *below);
  *below = top;
  if (init == NULL || init(all, below, &slots, &made, NULL) != CL_SUCCESS) return;
  memcpy(&top, made, (slots < all ? slots : all) * sizeof(void *));
  deinit[layers++] = (cl_int(*)(void))dlsym(library, "clDeinitLayer");
}

__attribute__((destructor)) static void end(void) {
  while (layers > 0)
    if (deinit[--layers] != NULL) deinit[layers]();
}

CL_API_ENTRY cl_int CL_API_CALL clGetLayerInfo(cl_layer_info name, size_t size, void *value, size_t *size_ret) {
  const cl_layer_api_version version = CL_LAYER_API_VERSION_100;
  if (name != CL_LAYER_API_VERSION) return CL_INVALID_VALUE;
  if (value != NULL && size >= sizeof version) memcpy(value, &version, sizeof version);
  if (size_ret != NULL) *size_ret = sizeof version;
  return CL_SUCCESS;
}

CL_API_ENTRY cl_int CL_API_CALL clInitLayer(cl_uint entries, const cl_icd_dispatch *target, cl_uint *entries_ret, const cl_icd_dispatch **layer_ret) {
  if (entries < sizeof driver / sizeof(void *)) return CL_INVALID_VALUE;
  driver = top = *target;
  top.clGetExtensionFunctionAddressForPlatform = address_for;
  top.clGetDeviceInfo = device_info;
  char *paths = getenv("OPENCL_LAYERS") == NULL ? NULL : strdup(getenv("OPENCL_LAYERS")), *rest = NULL;
  for (char *path = paths == NULL ? NULL : strtok_r(paths, ":", &rest); path != NULL && layers < 8; path = strtok_r(NULL, ":", &rest)) add(path);
  *entries_ret = sizeof top / sizeof(void *);
  *layer_ret = &top;
  return CL_SUCCESS;
}
