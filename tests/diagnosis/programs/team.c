// Teams of OpenMP, many problems: team PROBLEM [STEPS]. Computing is sleeping, so that a busy machine makes no thread late.
#define _POSIX_C_SOURCE 200809L
#include <omp.h>

#include <stdlib.h>
#include <string.h>
#include <time.h>

static void rest(double ms) {
    const struct timespec time = {(time_t)(ms / 1e3), (long)(ms * 1e6) % 1000000000};
    nanosleep(&time, NULL);
}

static void imbalance(int steps) {
    for (int i = 0; i < steps; i++) {
#pragma omp parallel num_threads(2)
        rest(omp_get_thread_num() == 1 ? 40 : 8);
    }
}

static void triangle(int steps) {
    for (int i = 0; i < steps; i++) {
#pragma omp parallel for num_threads(2) schedule(static)
        for (int k = 0; k < 8; k++) rest(1.5 * k);
    }
}

static void lock(int steps) {
    for (int i = 0; i < steps; i++) {
#pragma omp parallel num_threads(2)
        for (int k = 0; k < 4; k++) {
#pragma omp critical
            rest(5);
        }
    }
}

static void inner_barrier(int steps) {
    for (int i = 0; i < steps; i++) {
#pragma omp parallel num_threads(2)
        {
            rest(omp_get_thread_num() == 0 ? 25 : 3);
#pragma omp barrier
            rest(omp_get_thread_num() == 1 ? 25 : 3);
        }
    }
}

static void short_regions(int steps) {
    static double sums[2];
    for (int i = 0; i < 2000 * steps; i++) {
#pragma omp parallel num_threads(2)
        sums[omp_get_thread_num()] += i;
    }
}

static void too_many(int steps) {
    static volatile double sums[64 * 8];
    for (int i = 0; i < 20 * steps; i++) {
#pragma omp parallel num_threads(8 * omp_get_num_procs())
        for (int k = 0; k < 200000; k++) sums[8 * (omp_get_thread_num() % 64)] += k;
    }
}

static void big_task(int steps) {
    for (int i = 0; i < steps; i++) {
#pragma omp parallel num_threads(2)
#pragma omp single
        for (int k = 0; k < 8; k++) {
#pragma omp task
            rest(k == 7 ? 40 : 2);
        }
    }
}

static void master_inside(int steps) {
    for (int i = 0; i < steps; i++) {
#pragma omp parallel num_threads(2)
        {
            rest(10);
#pragma omp master
            rest(30);
#pragma omp barrier
        }
    }
}

static void clean_even(int steps) {
    for (int i = 0; i < steps; i++) {
#pragma omp parallel num_threads(2)
        rest(40);
    }
}

static void clean_dynamic(int steps) {
    for (int i = 0; i < steps; i++) {
#pragma omp parallel for num_threads(2) schedule(dynamic)
        for (int k = 0; k < 16; k++) rest(4);
    }
}

static void clean_lock(int steps) {
    int count = 0;
    for (int i = 0; i < steps; i++) {
#pragma omp parallel num_threads(2)
        {
            rest(40);
#pragma omp critical
            count++;
        }
    }
}

static void clean_tasks(int steps) {
    for (int i = 0; i < steps; i++) {
#pragma omp parallel num_threads(2)
#pragma omp single
        for (int k = 0; k < 40; k++) {
#pragma omp task
            rest(2);
        }
    }
}

static void clean_alone(int steps) {
    for (int i = 0; i < steps; i++) {
        rest(20);
#pragma omp parallel num_threads(2)
        rest(20);
    }
}

int main(int argc, char **argv) {
    static const struct { const char *name; void (*run)(int); } problems[] = {
        {"imbalance", imbalance}, {"triangle", triangle}, {"lock", lock}, {"inner_barrier", inner_barrier},
        {"short_regions", short_regions}, {"too_many", too_many}, {"clean_even", clean_even}, {"clean_dynamic", clean_dynamic},
        {"clean_lock", clean_lock}, {"clean_alone", clean_alone}, {"big_task", big_task}, {"master_inside", master_inside},
        {"clean_tasks", clean_tasks}};
    for (size_t i = 0; i < sizeof problems / sizeof *problems; i++)
        if (argc > 1 && !strcmp(argv[1], problems[i].name)) {
            problems[i].run(argc > 2 ? atoi(argv[2]) : 20);
            return 0;
        }
    return 2;
}
