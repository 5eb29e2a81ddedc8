/* Emits the events of provider.h with contents that a test can compute: event n of thread t is a function of t and n.
 * usage: emit THREADS COUNT [all|calls|native]   ("native" leaves out the event with a big-endian field) */
#define LTTNG_UST_TRACEPOINT_CREATE_PROBES
#define LTTNG_UST_TRACEPOINT_DEFINE
#include "provider.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum what { ALL, CALLS, NATIVE };

struct job {
    pthread_t thread;
    uint32_t number;
    uint64_t count;
    enum what what;
};

static void emit_calls(const struct job *job) {
    for (uint64_t n = 0; n < job->count; n++) {
        struct timespec now;
        clock_gettime(CLOCK_MONOTONIC, &now);
        const uint64_t start = (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
        lttng_ust_tracepoint(columns_test, call, job->number, (uint32_t)n, start, (const void *)(uintptr_t)(0x1000 + n % 64),
                             n * 8, (int32_t)(n % 100 == 0 ? -5 : 0));
    }
}

static void emit_all(const struct job *job) {
    char text[64], padded[12];
    uint16_t shorts[4];
    int32_t ints[16];
    uint64_t longs[16];
    for (uint64_t n = 0; n < job->count; n++) {
        const uint32_t t = job->number;
        const unsigned length = (unsigned)(n % 11);
        snprintf(text, sizeof text, "name %llu of %u \xc3\xa9", (unsigned long long)(n % 100), t);
        memset(padded, 0, sizeof padded);
        snprintf(padded, sizeof padded, "%u", (unsigned)n);
        for (unsigned i = 0; i < 4; i++) shorts[i] = (uint16_t)(n + i);
        for (unsigned i = 0; i < 16; i++) {
            ints[i] = (int32_t)(i * n) * -1;
            longs[i] = n << 32 | i;
        }
        lttng_ust_tracepoint(columns_test, empty);
        if (job->what == ALL) lttng_ust_tracepoint(columns_test, scalars, t, n);
        lttng_ust_tracepoint(columns_test, native, t, n);
        lttng_ust_tracepoint(columns_test, text, t, n, text, length, padded);
        lttng_ust_tracepoint(columns_test, lists, t, n, shorts, ints, length, longs);
        lttng_ust_tracepoint(columns_test, kinds, t, n);
        lttng_ust_tracepoint(columns_test, call, t, (uint32_t)n, n, NULL, n, -1);
    }
}

static void *work(void *argument) {
    const struct job *job = argument;
    if (job->what == CALLS) {
        emit_calls(job);
    } else {
        emit_all(job);
    }
    return NULL;
}

int main(int argc, char **argv) {
    if (argc < 3) {
        fprintf(stderr, "usage: %s THREADS COUNT [all|calls|native]\n", argv[0]);
        return 2;
    }
    const unsigned threads = (unsigned)atoi(argv[1]);
    const char *name = argc > 3 ? argv[3] : "all";
    struct job *jobs = calloc(threads, sizeof *jobs);
    for (unsigned t = 0; t < threads; t++) {
        jobs[t].number = t;
        jobs[t].count = strtoull(argv[2], NULL, 10);
        jobs[t].what = strcmp(name, "calls") == 0 ? CALLS : strcmp(name, "native") == 0 ? NATIVE : ALL;
        if (pthread_create(&jobs[t].thread, NULL, work, &jobs[t]) != 0) return 1;
    }
    for (unsigned t = 0; t < threads; t++) pthread_join(jobs[t].thread, NULL);
    free(jobs);
    return 0;
}
