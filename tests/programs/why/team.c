// A team that knows what delays it: one thread of four works longer. team STEPS MS SLOW FACTOR [ALONE_MS]. Says how long the steps took,
// in seconds.
#define _POSIX_C_SOURCE 200809L
#include <omp.h>

#include <stdio.h>
#include <stdlib.h>
#include <time.h>

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
    if (argc < 5) return 1;
    const int steps = atoi(argv[1]), slow = atoi(argv[3]);
    const double ms = atof(argv[2]), factor = atof(argv[4]), alone = argc > 5 ? atof(argv[5]) : ms;
    const double begin = now();
    for (int i = 0; i < steps; i++) {
        rest(alone);
#pragma omp parallel num_threads(4)
        rest(omp_get_thread_num() == slow ? ms * factor : ms);
    }
    printf("%.6f\n", now() - begin);
    return 0;
}
