// A team that knows what delays it: one thread of four works longer. team STEPS MS SLOW FACTOR
#define _POSIX_C_SOURCE 200809L
#include <omp.h>

#include <stdlib.h>
#include <time.h>

static void rest(double ms) {
    const struct timespec time = {(time_t)(ms / 1e3), (long)(ms * 1e6) % 1000000000};
    nanosleep(&time, NULL);
}

int main(int argc, char **argv) {
    if (argc < 5) return 1;
    const int steps = atoi(argv[1]), slow = atoi(argv[3]);
    const double ms = atof(argv[2]), factor = atof(argv[4]);
    for (int i = 0; i < steps; i++) {
        rest(ms); // alone
#pragma omp parallel num_threads(4)
        rest(omp_get_thread_num() == slow ? ms * factor : ms);
    }
    return 0;
}
