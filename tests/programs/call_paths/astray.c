/* A function in assembly whose unwind table leads out of the stack, and out of memory: its caller is not found, and nothing else
 * happens. Prints errno as it was set before the call. */
#define CL_TARGET_OPENCL_VERSION 120
#include <CL/cl.h>
#include <errno.h>
#include <stdio.h>

static cl_context context;

__attribute__((used, noinline)) void allocate(void) {
  errno = 7;
  clReleaseMemObject(clCreateBuffer(context, CL_MEM_READ_WRITE, 4096, NULL, NULL));
  printf("errno %d\n", errno);
}

void astray(void);
__asm__(".text\n.type astray, @function\nastray:\n.cfi_startproc\nsub $8, %rsp\n.cfi_def_cfa_offset 0x20000000\ncall allocate\n"
        "add $8, %rsp\nret\n.cfi_endproc\n.size astray, .-astray\n");

int main(void) {
  cl_platform_id platform;
  cl_device_id device;
  if (clGetPlatformIDs(1, &platform, NULL) != CL_SUCCESS) return 2;
  if (clGetDeviceIDs(platform, CL_DEVICE_TYPE_ALL, 1, &device, NULL) != CL_SUCCESS) return 2;
  context = clCreateContext(NULL, 1, &device, NULL, NULL, NULL);
  astray();
  return 0;
}
