// Four ranks that wait for each other in every way that the report wait_states knows: the late one sleeps MS milliseconds.
#define _POSIX_C_SOURCE 200809L
#include <mpi.h>

#include <stdlib.h>
#include <time.h>

static void rest(double ms) {
    const struct timespec time = {(time_t)(ms / 1e3), (long)(ms * 1e6) % 1000000000};
    nanosleep(&time, NULL);
}

int main(int argc, char **argv) {
    enum { LARGE = 1 << 20 };
    static char block[LARGE];
    int rank, value = 1, sum = 0;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    const double ms = argc > 1 ? atof(argv[1]) : 100;

    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == 1) { // late sender
        rest(ms);
        MPI_Send(&value, 1, MPI_INT, 0, 1, MPI_COMM_WORLD);
    }
    if (rank == 0) MPI_Recv(&value, 1, MPI_INT, 1, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);

    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == 2) MPI_Send(block, LARGE, MPI_CHAR, 3, 2, MPI_COMM_WORLD);
    if (rank == 3) { // late receiver
        rest(ms);
        MPI_Recv(block, LARGE, MPI_CHAR, 2, 2, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    }

    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == 1) rest(ms); // late at an NxN collective
    MPI_Allreduce(&value, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);

    if (rank == 2) rest(ms); // late root
    MPI_Bcast(&value, 1, MPI_INT, 2, MPI_COMM_WORLD);

    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == 3) rest(ms); // early reduce: the root waits
    MPI_Reduce(&value, &sum, 1, MPI_INT, MPI_SUM, 0, MPI_COMM_WORLD);
    MPI_Finalize();
    return 0;
}
