// Ranks that know what delays them: one takes longer than the others before each barrier. They sleep, so that a busy machine
// does not change who is late. ranks STEPS MS SLOW FACTOR: each rank takes MS milliseconds per step, rank SLOW FACTOR times that.
#define _POSIX_C_SOURCE 200809L
#include <mpi.h>

#include <stdlib.h>
#include <time.h>

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
    for (int i = 0; i < steps; i++) {
        rest(ms);
        MPI_Barrier(MPI_COMM_WORLD);
    }
    MPI_Finalize();
    return 0;
}
