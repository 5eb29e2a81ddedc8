/* Emits what THAPI would of 1000 kernels of two threads: each lasts 100 cycles of 80 ns. */
#define LTTNG_UST_TRACEPOINT_CREATE_PROBES
#define LTTNG_UST_TRACEPOINT_DEFINE
#include "thapi.h"
#include "thapi_devices.h"
#include "thapi_times.h"

#include <level_zero/ze_api.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define CYCLE 80
#define DEVICE 0xde

static uint64_t cycles(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return ((uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec) / CYCLE;
}

static void *launches(void *argument) {
    const uintptr_t list = (uintptr_t)argument;
    const uint32_t groups[3] = {10, 2, 1};
    lttng_ust_tracepoint(lttng_ust_ze, zeCommandListCreateImmediate_entry, DEVICE);
    lttng_ust_tracepoint(lttng_ust_ze, zeCommandListCreateImmediate_exit, 0, list);
    for (unsigned i = 0; i < 500; i++) {
        const uintptr_t event = list + 1 + i % 2;
        lttng_ust_tracepoint(lttng_ust_ze, zeCommandListAppendLaunchKernel_entry, list, 0xa, (const uint8_t *)groups, event);
        lttng_ust_tracepoint(lttng_ust_ze_profiling, event_profiling, event);
        lttng_ust_tracepoint(lttng_ust_ze, zeCommandListAppendLaunchKernel_exit, 0);
        const uint64_t start = cycles() + 1;
        lttng_ust_tracepoint(lttng_ust_ze_profiling, event_profiling_results, event, start & 0xffffffffu, (start + 100) & 0xffffffffu);
    }
    return NULL;
}

int main(void) {
    ze_device_properties_t properties;
    memset(&properties, 0, sizeof properties);
    properties.stype = ZE_STRUCTURE_TYPE_DEVICE_PROPERTIES;
    properties.timerResolution = CYCLE;
    properties.kernelTimestampValidBits = 32;
    strcpy(properties.name, "Test GPU");
    lttng_ust_tracepoint(lttng_ust_ze_properties, device, DEVICE, (const uint8_t *)&properties, sizeof properties);
    lttng_ust_tracepoint(lttng_ust_ze_properties, device_timer, DEVICE, 0, cycles());
    lttng_ust_tracepoint(lttng_ust_ze, zeKernelCreate_entry, "scale");
    lttng_ust_tracepoint(lttng_ust_ze, zeKernelCreate_exit, 0, 0xa);
    pthread_t threads[2];
    for (uintptr_t i = 0; i < 2; i++) pthread_create(&threads[i], NULL, launches, (void *)(0x100 * (i + 1)));
    for (unsigned i = 0; i < 2; i++) pthread_join(threads[i], NULL);
    // LTTng 2.13 cuts the structure at its first byte 0: two readings tell the clock's frequency.
    usleep(50000);
    lttng_ust_tracepoint(lttng_ust_ze_properties, device_timer, DEVICE, 0, cycles());
    return 0;
}
