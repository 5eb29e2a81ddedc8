/* A program whose loader is its own. WORK: `work(count)` launches a kernel `count` times and copies its 64 numbers back.
 * LOADER: a loader as Khronos' static one is: OpenCL's functions by the tables of a driver (the environment's DRIVER) that it
 * opens at the first clGetPlatformIDs. MAIN: calls `work` of the library that its first word names, or its own. */
#define _GNU_SOURCE
#define CL_TARGET_OPENCL_VERSION 120
#include <CL/cl.h>
#include <CL/cl_icd.h>
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>

#ifdef LOADER
#ifdef HIDDEN
#pragma GCC visibility push(hidden)
#endif
#define TABLE(object) (*(cl_icd_dispatch *const *)(object))

cl_int clGetPlatformIDs(cl_uint room, cl_platform_id *platforms, cl_uint *count) {
  static cl_int (*ask)(cl_uint, cl_platform_id *, cl_uint *);
  if (ask == NULL) {
    void *driver = dlopen(getenv("DRIVER"), RTLD_NOW);
    void *(*get)(const char *) = driver == NULL ? NULL : (void *(*)(const char *))dlsym(driver, "clGetExtensionFunctionAddress");
    if (get == NULL) return CL_DEVICE_NOT_FOUND;
    ask = (cl_int(*)(cl_uint, cl_platform_id *, cl_uint *))get("clIcdGetPlatformIDsKHR");
  }
  return ask(room, platforms, count);
}
cl_int clGetDeviceIDs(cl_platform_id p, cl_device_type type, cl_uint room, cl_device_id *d, cl_uint *count) {
  return TABLE(p)->clGetDeviceIDs(p, type, room, d, count);
}
cl_context clCreateContext(const cl_context_properties *properties, cl_uint count, const cl_device_id *d,
                           void(CL_CALLBACK *notify)(const char *, const void *, size_t, void *), void *data, cl_int *code) {
  return TABLE(d[0])->clCreateContext(properties, count, d, notify, data, code);
}
cl_command_queue clCreateCommandQueue(cl_context c, cl_device_id d, cl_command_queue_properties properties, cl_int *code) {
  return TABLE(c)->clCreateCommandQueue(c, d, properties, code);
}
cl_program clCreateProgramWithSource(cl_context c, cl_uint count, const char **texts, const size_t *sizes, cl_int *code) {
  return TABLE(c)->clCreateProgramWithSource(c, count, texts, sizes, code);
}
cl_int clBuildProgram(cl_program p, cl_uint count, const cl_device_id *d, const char *options,
                      void(CL_CALLBACK *notify)(cl_program, void *), void *data) {
  return TABLE(p)->clBuildProgram(p, count, d, options, notify, data);
}
cl_kernel clCreateKernel(cl_program p, const char *name, cl_int *code) { return TABLE(p)->clCreateKernel(p, name, code); }
cl_mem clCreateBuffer(cl_context c, cl_mem_flags flags, size_t size, void *host, cl_int *code) {
  return TABLE(c)->clCreateBuffer(c, flags, size, host, code);
}
cl_int clSetKernelArg(cl_kernel k, cl_uint at, size_t size, const void *value) {
  return TABLE(k)->clSetKernelArg(k, at, size, value);
}
cl_int clEnqueueNDRangeKernel(cl_command_queue q, cl_kernel k, cl_uint dimensions, const size_t *offset, const size_t *global,
                              const size_t *local, cl_uint count, const cl_event *waits, cl_event *event) {
  return TABLE(q)->clEnqueueNDRangeKernel(q, k, dimensions, offset, global, local, count, waits, event);
}
cl_int clEnqueueReadBuffer(cl_command_queue q, cl_mem m, cl_bool blocking, size_t offset, size_t size, void *host, cl_uint count,
                           const cl_event *waits, cl_event *event) {
  return TABLE(q)->clEnqueueReadBuffer(q, m, blocking, offset, size, host, count, waits, event);
}
cl_int clReleaseMemObject(cl_mem m) { return TABLE(m)->clReleaseMemObject(m); }
/* What the layer asks of a loader. */
cl_int clGetPlatformInfo(cl_platform_id p, cl_platform_info name, size_t size, void *value, size_t *needed) {
  return TABLE(p)->clGetPlatformInfo(p, name, size, value, needed);
}
cl_int clGetDeviceInfo(cl_device_id d, cl_device_info name, size_t size, void *value, size_t *needed) {
  return TABLE(d)->clGetDeviceInfo(d, name, size, value, needed);
}
cl_int clGetEventInfo(cl_event e, cl_event_info name, size_t size, void *value, size_t *needed) {
  return TABLE(e)->clGetEventInfo(e, name, size, value, needed);
}
cl_int clGetEventProfilingInfo(cl_event e, cl_profiling_info name, size_t size, void *value, size_t *needed) {
  return TABLE(e)->clGetEventProfilingInfo(e, name, size, value, needed);
}
cl_int clRetainEvent(cl_event e) { return TABLE(e)->clRetainEvent(e); }
cl_int clReleaseEvent(cl_event e) { return TABLE(e)->clReleaseEvent(e); }
cl_int clFinish(cl_command_queue q) { return TABLE(q)->clFinish(q); }
#ifdef HIDDEN
#pragma GCC visibility pop
#endif
#endif

#ifdef WORK
int work(int count) {
  const char *source = "kernel void add(global int *a) { a[get_global_id(0)] += 1; }";
  const size_t items = 64;
  int result[64] = {0};
  cl_platform_id platform;
  cl_device_id device;
  cl_int code;
  if (clGetPlatformIDs(1, &platform, NULL) || clGetDeviceIDs(platform, CL_DEVICE_TYPE_ALL, 1, &device, NULL)) return -1;
  cl_context context = clCreateContext(NULL, 1, &device, NULL, NULL, &code);
  cl_command_queue queue = clCreateCommandQueue(context, device, 0, &code);
  cl_program program = clCreateProgramWithSource(context, 1, &source, NULL, &code);
  if (clBuildProgram(program, 1, &device, "", NULL, NULL) != CL_SUCCESS) return -2;
  cl_kernel kernel = clCreateKernel(program, "add", &code);
  cl_mem memory = clCreateBuffer(context, CL_MEM_READ_WRITE | CL_MEM_COPY_HOST_PTR, sizeof result, result, &code);
  if (clSetKernelArg(kernel, 0, sizeof memory, &memory) != CL_SUCCESS) return -3;
  for (int at = 0; at < count; at++)
    if (clEnqueueNDRangeKernel(queue, kernel, 1, NULL, &items, NULL, 0, NULL, NULL) != CL_SUCCESS) return -4;
  if (clEnqueueReadBuffer(queue, memory, CL_TRUE, 0, sizeof result, result, 0, NULL, NULL) != CL_SUCCESS) return -5;
  clReleaseMemObject(memory);
  return result[63];
}
#endif

#ifdef MAIN
int main(int count, char **words) {
#ifdef WORK
  (void)count, (void)words;
  printf("%d\n", work(11));
#else
  void *library = count > 1 ? dlopen(words[1], RTLD_LAZY) : NULL;
  int (*call)(int) = library == NULL ? NULL : (int (*)(int))dlsym(library, "work");
  if (call == NULL) return fprintf(stderr, "%s\n", dlerror()), 1;
  printf("%d\n", call(11));
#endif
  return 0;
}
#endif
