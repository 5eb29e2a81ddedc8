// Ranks that know what delays them: one takes longer than the others before each barrier. They sleep, so that a busy machine
// does not change who is late. ranks STEPS MS SLOW FACTOR: each rank takes MS milliseconds per step, rank SLOW FACTOR times that. Rank 0 says how long
// the steps took, in seconds.
#define _POSIX_C_SOURCE 200809L
#include <mpi.h>

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
    int rank;
    if (argc < 5) return 1;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    const int steps = atoi(argv[1]), slow = atoi(argv[3]);
    const double ms = atof(argv[2]) * (rank == slow ? atof(argv[4]) : 1);
    MPI_Barrier(MPI_COMM_WORLD);
    const double begin = now();
    for (int i = 0; i < steps; i++) {
        rest(ms);
        MPI_Barrier(MPI_COMM_WORLD);
    }
    if (rank == 0) printf("%.6f\n", now() - begin);
    MPI_Finalize();
    return 0;
}
