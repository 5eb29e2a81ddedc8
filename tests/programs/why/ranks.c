// Ranks that know what delays them: one computes longer than the others before each barrier.
// ranks STEPS MS SLOW FACTOR: each rank spins MS milliseconds per step, rank SLOW that many times as long.
#define _POSIX_C_SOURCE 200809L
#include <mpi.h>

#include <stdio.h>
#include <stdlib.h>
#include <time.h>

// Processor time, so that what others do on the machine is not counted as work.
static void spin(double ms) {
    struct timespec begin, now;
    clock_gettime(CLOCK_MONOTONIC, &begin);
    do {
        clock_gettime(CLOCK_MONOTONIC, &now);
    } while ((now.tv_sec - begin.tv_sec) * 1e3 + (now.tv_nsec - begin.tv_nsec) / 1e6 < ms);
}

int main(int argc, char **argv) {
    int rank;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    const int steps = atoi(argv[1]), slow = atoi(argv[3]);
    const double ms = atof(argv[2]) * (rank == slow ? atof(argv[4]) : 1);
    for (int i = 0; i < steps; i++) {
        spin(ms);
        MPI_Barrier(MPI_COMM_WORLD);
    }
    MPI_Finalize();
    return 0;
}
