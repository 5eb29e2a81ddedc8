/* What Khronos' OpenCL loader does with layers since v2026.05.29, and a platform with Intel's unified memory: a layer of the
 * old kind for a loader of the old kind, which takes the layers of OPENCL_LAYERS below itself if, and only if, they have
 * clInitLayerWithProperties, and calls their clDeinitLayer at the end. The unified memory is the platform's SVM. */
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

static const struct {
  const char *name;
  void *function;
} unified[] = {
    {"clHostMemAllocINTEL", (void *)host_alloc},    {"clDeviceMemAllocINTEL", (void *)device_alloc},
    {"clSharedMemAllocINTEL", (void *)device_alloc}, {"clMemFreeINTEL", (void *)memory_free},
    {"clMemBlockingFreeINTEL", (void *)memory_free}, {"clSetKernelArgMemPointerINTEL", (void *)set_argument},
    {"clEnqueueMemFillINTEL", (void *)fill},         {"clEnqueueMemcpyINTEL", (void *)copy},
    {"clEnqueueMigrateMemINTEL", (void *)migrate},
};

static void *CL_API_CALL address_for(cl_platform_id platform, const char *name) {
  for (size_t at = 0; at < sizeof unified / sizeof *unified; ++at)
    if (strcmp(unified[at].name, name) == 0) return unified[at].function;
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
  char *paths = getenv("OPENCL_LAYERS") == NULL ? NULL : strdup(getenv("OPENCL_LAYERS")), *rest = NULL;
  for (char *path = paths == NULL ? NULL : strtok_r(paths, ":", &rest); path != NULL && layers < 8; path = strtok_r(NULL, ":", &rest)) add(path);
  *entries_ret = sizeof top / sizeof(void *);
  *layer_ret = &top;
  return CL_SUCCESS;
}
