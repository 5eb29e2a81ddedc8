/* Products of matrices by CLBlast. */
#define CL_TARGET_OPENCL_VERSION 120
#include <CL/cl.h>
#include <clblast_c.h>
#include <stdio.h>

enum { SIZE = 256, TIMES = 10 };
static float host[SIZE * SIZE];

int main(void) {
    cl_platform_id platform;
    cl_device_id device;
    if (clGetPlatformIDs(1, &platform, NULL) || clGetDeviceIDs(platform, CL_DEVICE_TYPE_ALL, 1, &device, NULL)) return 77;
    cl_context context = clCreateContext(NULL, 1, &device, NULL, NULL, NULL);
    cl_command_queue queue = clCreateCommandQueue(context, device, 0, NULL);
    for (int i = 0; i < SIZE * SIZE; i++) host[i] = (float)(i % 7);
    const cl_mem_flags copied = CL_MEM_READ_WRITE | CL_MEM_COPY_HOST_PTR;
    cl_mem a = clCreateBuffer(context, copied, sizeof host, host, NULL), b = clCreateBuffer(context, copied, sizeof host, host, NULL);
    cl_mem c = clCreateBuffer(context, CL_MEM_READ_WRITE, sizeof host, NULL, NULL);
    for (int i = 0; i < TIMES; i++) {
        cl_event event;
        const CLBlastStatusCode status = CLBlastSgemm(CLBlastLayoutRowMajor, CLBlastTransposeNo, CLBlastTransposeYes, SIZE, SIZE, SIZE,
                                                      1, a, 0, SIZE, b, 0, SIZE, 0, c, 0, SIZE, &queue, &event);
        if (status != CLBlastSuccess) return 1;
        clWaitForEvents(1, &event);
        clReleaseEvent(event);
    }
    if (clEnqueueReadBuffer(queue, c, CL_TRUE, 0, sizeof host, host, 0, NULL, NULL)) return 2;
    double sum = 0;
    for (int i = 0; i < SIZE * SIZE; i++) sum += host[i];
    printf("%.1f\n", sum);
    return 0;
}
