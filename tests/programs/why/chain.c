// A chain of kernels, copies and host code whose lengths are given: chain STEPS A B HOST_MS COPIES [WAITS]
// A and B: loops of the kernels `first` and `second`. COPIES: buffers written before each step. WAITS 0: only at the end. Says how
// long the steps took, in seconds.
#define CL_TARGET_OPENCL_VERSION 120
#define _POSIX_C_SOURCE 200809L
#include <CL/cl.h>

#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum { ITEMS = 64, BYTES = 4 << 20 };

static const char *const SOURCE =
    "float turn(float x, int n) { for (int i = 0; i < n; i++) x = x * 1.0001f + 0.5f; return x; }\n"
    "kernel void first(global float *x, int n) { size_t i = get_global_id(0); x[i] = turn(x[i], n); }\n"
    "kernel void second(global float *x, int n) { size_t i = get_global_id(0); x[i] = turn(x[i], n); }\n";

static double now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}

static void rest(double ms) {
    const struct timespec time = {(time_t)(ms / 1e3), (long)(ms * 1e6) % 1000000000};
    nanosleep(&time, NULL);
}

int main(int argc, char **argv) {
    if (argc < 6) return 1;
    const int steps = atoi(argv[1]), copies = atoi(argv[5]), waits = argc > 6 ? atoi(argv[6]) : 1;
    const cl_int loops[2] = {atoi(argv[2]), atoi(argv[3])};
    const double host_ms = atof(argv[4]);
    cl_platform_id platform;
    cl_device_id device;
    if (clGetPlatformIDs(1, &platform, NULL) || clGetDeviceIDs(platform, CL_DEVICE_TYPE_ALL, 1, &device, NULL)) return 77;
    cl_context context = clCreateContext(NULL, 1, &device, NULL, NULL, NULL);
    cl_command_queue queue = clCreateCommandQueue(context, device, 0, NULL);
    cl_program program = clCreateProgramWithSource(context, 1, (const char **)&SOURCE, NULL, NULL);
    if (clBuildProgram(program, 1, &device, "", NULL, NULL)) return 1;
    cl_kernel kernels[2] = {clCreateKernel(program, "first", NULL), clCreateKernel(program, "second", NULL)};
    cl_mem x = clCreateBuffer(context, CL_MEM_READ_WRITE, ITEMS * sizeof(float), NULL, NULL);
    cl_mem y = clCreateBuffer(context, CL_MEM_READ_WRITE, BYTES, NULL, NULL);
    char *data = calloc(1, BYTES);
    const size_t items = ITEMS;
    const double begin = now();
    for (int step = 0; step < steps; step++) {
        for (int i = 0; i < copies; i++) clEnqueueWriteBuffer(queue, y, CL_FALSE, 0, BYTES, data, 0, NULL, NULL);
        for (int k = 0; k < 2; k++) {
            clSetKernelArg(kernels[k], 0, sizeof x, &x);
            clSetKernelArg(kernels[k], 1, sizeof loops[k], &loops[k]);
            clEnqueueNDRangeKernel(queue, kernels[k], 1, NULL, &items, NULL, 0, NULL, NULL);
        }
        if (waits) clFinish(queue);
        rest(host_ms);
    }
    clFinish(queue);
    printf("%.6f\n", now() - begin);
    clReleaseMemObject(x);
    clReleaseMemObject(y);
    free(data);
    for (int k = 0; k < 2; k++) clReleaseKernel(kernels[k]);
    clReleaseProgram(program);
    clReleaseCommandQueue(queue);
    clReleaseContext(context);
    return 0;
}
