// One OpenCL program, many problems: device PROBLEM [STEPS]. What is wrong stands in the function of that name; those of the
// names "clean_…" have nothing that advice should find. Kernels count loops and the host sleeps, so that a busy machine slows
// all of a program.
#define CL_TARGET_OPENCL_VERSION 120
#define _POSIX_C_SOURCE 200809L
#include <CL/cl.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { ITEMS = 64, LONG = 100000, BYTES = 32 << 20 };

static const char *const SOURCE =
    "#ifndef N\n#define N 0\n#endif\n"
    "float turn(float x, int n) { for (int i = 0; i < n; i++) x = x * 1.0001f + 0.5f; return x; }\n"
    "kernel void work(global float *x, int n) { size_t i = get_global_id(0); x[i] = turn(x[i], n + N); }\n"
    "kernel void other(global float *x, int n) { size_t i = get_global_id(0); x[i] = turn(x[i], n); }\n"
    "kernel void tiny(global float *x, int n) { x[0] = n; }\n";

static int steps;
static cl_device_id device;
static cl_context context;
static cl_command_queue queue, second;
static cl_program program;
static cl_kernel work, other, tiny;
static cl_mem x, y, large, pinned;
static char *data;

static void check(cl_int code, int line) {
    if (code == CL_SUCCESS) return;
    fprintf(stderr, "device: line %d: error %d\n", line, code);
    exit(1);
}
#define OK(call) check((call), __LINE__)

static void rest(double ms) {
    const struct timespec time = {(time_t)(ms / 1e3), (long)(ms * 1e6) % 1000000000};
    nanosleep(&time, NULL);
}

static void arguments(cl_kernel kernel, cl_mem memory, cl_int loops) {
    OK(clSetKernelArg(kernel, 0, sizeof memory, &memory));
    OK(clSetKernelArg(kernel, 1, sizeof loops, &loops));
}

static const size_t items = ITEMS;
#define LAUNCH(to, kernel, count, list, event) OK(clEnqueueNDRangeKernel(to, kernel, 1, NULL, &items, NULL, count, list, event))

static cl_program built(const char *options) {
    cl_int code;
    cl_program made = clCreateProgramWithSource(context, 1, (const char **)&SOURCE, NULL, &code);
    OK(code);
    OK(clBuildProgram(made, 1, &device, options, NULL, NULL)); // build
    return made;
}

static void sync_each(void) {
    arguments(work, x, LONG / 4);
    for (int i = 0; i < 4 * steps; i++) { // what a busy machine adds to the build stays the smaller part
        LAUNCH(queue, work, 0, NULL, NULL);
        clFinish(queue); // wait
        rest(0.5);
    }
}

static void event_wait_each(void) {
    arguments(work, x, LONG / 4);
    for (int i = 0; i < steps; i++) {
        cl_event event;
        LAUNCH(queue, work, 0, NULL, &event);
        clWaitForEvents(1, &event); // wait
        clReleaseEvent(event);
        rest(0.5);
    }
}

static void short_kernels(void) {
    arguments(tiny, x, 1);
    for (int i = 0; i < 600 * steps; i++) LAUNCH(queue, tiny, 0, NULL, NULL); // launch
    clFinish(queue);
}

static void builds(void) {
    for (int i = 0; i < steps / 20; i++) {
        char options[64];
        snprintf(options, sizeof options, "-DN=%d", (int)((getpid() * 64L + i) & 0xFFFFFF)); // another binary each time
        cl_program again = built(options);
        cl_kernel kernel = clCreateKernel(again, "work", NULL);
        arguments(kernel, x, 100);
        LAUNCH(queue, kernel, 0, NULL, NULL);
        clFinish(queue);
        clReleaseKernel(kernel);
        clReleaseProgram(again);
    }
}

// Kernels that no cache of the driver knows, in a program that builds in less time than they do.
#define MANY "K(0) K(1) K(2) K(3) K(4) K(5) K(6) K(7) K(8) K(9) K(10) K(11)"
static const char *const KERNELS =
    "#define K(k) kernel void many##k(global float *x, int n) { size_t i = get_global_id(0); float a = x[i];"
    " for (int j = 0; j < n; j++) { a = a * 1.0001f + k; if (a > 1e6f) a = sin(a + N); } x[i] = a; }\n" MANY "\n";

static void late_launches(void) {
    char options[64], name[16];
    cl_int code;
    snprintf(options, sizeof options, "-DN=%ld", getpid() * 64L & 0xFFFFFF);
    cl_program many = clCreateProgramWithSource(context, 1, (const char **)&KERNELS, NULL, &code);
    OK(code);
    OK(clBuildProgram(many, 1, &device, options, NULL, NULL));
    for (int k = 0; k < 12; k++) {
        snprintf(name, sizeof name, "many%d", k);
        cl_kernel kernel = clCreateKernel(many, name, &code);
        OK(code);
        arguments(kernel, x, LONG / 20);
        for (int i = 0; i < steps / 10; i++) LAUNCH(queue, kernel, 0, NULL, NULL); // launch
    }
    clFinish(queue);
}

static void unchanged(void) {
    arguments(work, x, LONG / 20);
    memset(data, 1, BYTES);
    for (int i = 0; i < steps / 2; i++) {
        OK(clEnqueueWriteBuffer(queue, large, CL_FALSE, 0, BYTES, data, 0, NULL, NULL)); // copy
        LAUNCH(queue, work, 0, NULL, NULL);
    }
    clFinish(queue);
}

static void round_trip(void) {
    arguments(work, large, LONG / 20);
    for (int i = 0; i < steps / 2; i++) {
        LAUNCH(queue, work, 0, NULL, NULL);
        OK(clEnqueueReadBuffer(queue, large, CL_FALSE, 0, BYTES, data, 0, NULL, NULL));
        OK(clEnqueueWriteBuffer(queue, large, CL_FALSE, 0, BYTES, data, 0, NULL, NULL)); // copy
    }
    clFinish(queue);
}

static void allocation(void) {
    for (int i = 0; i < steps / 2; i++) {
        cl_mem each = clCreateBuffer(context, CL_MEM_READ_WRITE | CL_MEM_COPY_HOST_PTR, BYTES, data, NULL); // allocation
        arguments(work, each, LONG / 20);
        LAUNCH(queue, work, 0, NULL, NULL);
        clFinish(queue);
        clReleaseMemObject(each);
    }
}

static void small_copies(void) {
    for (int i = 0; i < 400 * steps; i++) OK(clEnqueueWriteBuffer(queue, x, CL_FALSE, 4 * (i % ITEMS), 4, data + 4 * i, 0, NULL, NULL)); // copy
    clFinish(queue);
}

static void pageable(void) {
    arguments(work, x, LONG / 20);
    for (int i = 0; i < steps / 2; i++) {
        memset(data, i, BYTES);
        OK(clEnqueueWriteBuffer(queue, large, CL_TRUE, 0, BYTES, data, 0, NULL, NULL)); // copy
        LAUNCH(queue, work, 0, NULL, NULL);
    }
    clFinish(queue);
}

static void false_dependency(void) {
    cl_event before = NULL, event;
    arguments(work, x, LONG);
    arguments(other, y, LONG);
    for (int i = 0; i < steps / 2; i++) {
        LAUNCH(queue, work, before ? 1 : 0, before ? &before : NULL, &event);
        if (before) clReleaseEvent(before);
        LAUNCH(second, other, 1, &event, &before); // of other memory, as the next of the first queue
        clReleaseEvent(event);
        clFlush(queue);
        clFlush(second);
    }
    clFinish(queue);
    clFinish(second);
    clReleaseEvent(before);
}

static void slow_host(void) {
    arguments(work, x, LONG / 20);
    for (int i = 0; i < steps; i++) {
        LAUNCH(queue, work, 0, NULL, NULL); // launch
        clFlush(queue);
        rest(4);
    }
    clFinish(queue);
}

static void failing(void) {
    arguments(work, x, LONG);
    for (int i = 0; i < steps; i++) {
        const size_t nothing = 7;
        LAUNCH(queue, work, 0, NULL, NULL);
        clEnqueueNDRangeKernel(queue, work, 1, NULL, &items, &nothing, 0, NULL, NULL); // 64 items in groups of 7
    }
    clFinish(queue);
}

// ---- without a problem ----

static void clean_queue(void) {
    arguments(work, x, LONG);
    for (int i = 0; i < steps; i++) LAUNCH(queue, work, 0, NULL, NULL);
    clFinish(queue);
}

static void clean_pinned(void) {
    char *mapped = clEnqueueMapBuffer(queue, pinned, CL_TRUE, CL_MAP_READ | CL_MAP_WRITE, 0, BYTES, 0, NULL, NULL, NULL);
    arguments(work, x, 2 * LONG);
    for (int i = 0; i < steps / 20; i++) {
        memset(mapped, i, BYTES / 64);
        OK(clEnqueueWriteBuffer(queue, large, CL_FALSE, 0, BYTES / 64, mapped, 0, NULL, NULL));
        for (int k = 0; k < 10; k++) LAUNCH(queue, work, 0, NULL, NULL);
        clFinish(queue);
    }
}

static void clean_blocks(void) {
    arguments(work, x, LONG);
    for (int i = 0; i < steps / 20; i++) {
        for (int k = 0; k < 20; k++) LAUNCH(queue, work, 0, NULL, NULL);
        clFinish(queue);
        rest(0.2);
    }
}

static void clean_two_kernels(void) {
    arguments(work, x, LONG);
    arguments(other, x, LONG / 2);
    for (int i = 0; i < steps; i++) {
        LAUNCH(queue, work, 0, NULL, NULL);
        LAUNCH(queue, other, 0, NULL, NULL);
        if (i % 50 == 49) {
            float residual;
            OK(clEnqueueReadBuffer(queue, x, CL_TRUE, 0, sizeof residual, &residual, 0, NULL, NULL));
        }
    }
    clFinish(queue);
}

static void clean_memory(void) {
    for (int i = 0; i < 4; i++) {
        cl_mem each = clCreateBuffer(context, CL_MEM_READ_WRITE, BYTES, NULL, NULL);
        arguments(work, each, LONG);
        for (int k = 0; k < steps / 4; k++) LAUNCH(queue, work, 0, NULL, NULL);
        clFinish(queue);
        clReleaseMemObject(each);
    }
}

int main(int argc, char **argv) {
    static const struct { const char *name; void (*run)(void); } problems[] = {
        {"sync_each", sync_each}, {"event_wait_each", event_wait_each}, {"short_kernels", short_kernels}, {"builds", builds},
        {"late_launches", late_launches},
        {"unchanged", unchanged}, {"round_trip", round_trip}, {"allocation", allocation}, {"small_copies", small_copies},
        {"pageable", pageable}, {"false_dependency", false_dependency}, {"slow_host", slow_host}, {"failing", failing},
        {"clean_queue", clean_queue}, {"clean_pinned", clean_pinned}, {"clean_blocks", clean_blocks},
        {"clean_two_kernels", clean_two_kernels}, {"clean_memory", clean_memory}};
    cl_platform_id platform;
    steps = argc > 2 ? atoi(argv[2]) : 200;
    if (clGetPlatformIDs(1, &platform, NULL) || clGetDeviceIDs(platform, CL_DEVICE_TYPE_ALL, 1, &device, NULL)) return 77;
    context = clCreateContext(NULL, 1, &device, NULL, NULL, NULL);
    queue = clCreateCommandQueue(context, device, 0, NULL);
    second = clCreateCommandQueue(context, device, 0, NULL);
    program = built("");
    work = clCreateKernel(program, "work", NULL);
    other = clCreateKernel(program, "other", NULL);
    tiny = clCreateKernel(program, "tiny", NULL);
    x = clCreateBuffer(context, CL_MEM_READ_WRITE, ITEMS * sizeof(float), NULL, NULL);
    y = clCreateBuffer(context, CL_MEM_READ_WRITE, ITEMS * sizeof(float), NULL, NULL);
    large = clCreateBuffer(context, CL_MEM_READ_WRITE, BYTES, NULL, NULL);
    if (argc > 1 && !strcmp(argv[1], "clean_pinned")) pinned = clCreateBuffer(context, CL_MEM_ALLOC_HOST_PTR, BYTES, NULL, NULL);
    data = calloc(1, BYTES);
    for (size_t i = 0; i < sizeof problems / sizeof *problems; i++)
        if (argc > 1 && !strcmp(argv[1], problems[i].name)) {
            problems[i].run();
            return 0;
        }
    fprintf(stderr, "device: no such problem\n");
    return 2;
}
