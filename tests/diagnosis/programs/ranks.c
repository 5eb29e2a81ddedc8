// Ranks of MPI, many problems: ranks PROBLEM [STEPS]. Computing is sleeping, so that a busy machine makes no rank late.
#define _POSIX_C_SOURCE 200809L
#include <mpi.h>

#include <stdlib.h>
#include <string.h>
#include <time.h>

static int rank, size;
static char block[1 << 20];

static void rest(double ms) {
    const struct timespec time = {(time_t)(ms / 1e3), (long)(ms * 1e6) % 1000000000};
    nanosleep(&time, NULL);
}

static void late_at_barrier(int steps) {
    for (int i = 0; i < steps; i++) {
        rest(rank == 2 ? 60 : 20);
        MPI_Barrier(MPI_COMM_WORLD);
    }
}

static void imbalance(int steps) {
    int sum = 0;
    for (int i = 0; i < steps; i++) {
        rest(20 + 15 * rank); // the last has most
        MPI_Allreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    }
}

static void late_sender(int steps) {
    int value = 0;
    for (int i = 0; i < steps; i++) {
        rest(rank == 1 ? 60 : 15);
        if (rank == 1) MPI_Send(&value, 1, MPI_INT, 0, 1, MPI_COMM_WORLD);
        if (rank == 0) MPI_Recv(&value, 1, MPI_INT, 1, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    }
}

static void late_root(int steps) {
    for (int i = 0; i < steps; i++) {
        rest(rank == 3 ? 60 : 15);
        MPI_Bcast(block, 1 << 10, MPI_CHAR, 3, MPI_COMM_WORLD);
    }
}

static void taking_turns(int steps) {
    int token = 0;
    for (int i = 0; i < steps; i++) {
        if (i || rank) MPI_Recv(&token, 1, MPI_INT, (rank + size - 1) % size, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        rest(20);
        if (i < steps - 1 || rank < size - 1) MPI_Send(&token, 1, MPI_INT, (rank + 1) % size, 1, MPI_COMM_WORLD);
    }
}

static void master_and_workers(int steps) { // rank 0 prepares all that the others do
    double item[64] = {0};
    for (int i = 0; i < steps; i++) {
        for (int worker = 1; worker < size && !rank; worker++) {
            rest(20);
            MPI_Send(item, 64, MPI_DOUBLE, worker, 1, MPI_COMM_WORLD);
        }
        for (int worker = 1; worker < size && !rank; worker++) MPI_Recv(item, 64, MPI_DOUBLE, MPI_ANY_SOURCE, 2, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        if (rank) {
            MPI_Recv(item, 64, MPI_DOUBLE, 0, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
            rest(3);
            MPI_Send(item, 64, MPI_DOUBLE, 0, 2, MPI_COMM_WORLD);
        }
    }
}

static void root_computes(int steps) {
    for (int i = 0; i < steps; i++) {
        rest(10);
        MPI_Gather(block, 1 << 10, MPI_CHAR, block, 1 << 10, MPI_CHAR, 0, MPI_COMM_WORLD);
        if (rank == 0) rest(60);
        MPI_Bcast(block, 1 << 10, MPI_CHAR, 0, MPI_COMM_WORLD);
    }
}

static void pipeline(int steps) {
    for (int i = 0; i < steps; i++) {
        if (rank) MPI_Recv(block, 1 << 10, MPI_CHAR, rank - 1, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        rest(20);
        if (rank < size - 1) MPI_Send(block, 1 << 10, MPI_CHAR, rank + 1, 1, MPI_COMM_WORLD);
        MPI_Barrier(MPI_COMM_WORLD);
    }
}

static void late_for_posted(int steps) {
    MPI_Request request;
    for (int i = 0; i < steps; i++) {
        if (rank == 3) {
            rest(60);
            for (int to = 0; to < 3; to++) MPI_Send(block, 100, MPI_CHAR, to, 1, MPI_COMM_WORLD);
        } else {
            MPI_Irecv(block, 100, MPI_CHAR, 3, 1, MPI_COMM_WORLD, &request);
            rest(10);
            MPI_Wait(&request, MPI_STATUS_IGNORE);
        }
        MPI_Barrier(MPI_COMM_WORLD);
    }
}

static void small_messages(int steps) {
    int value = 0;
    for (int i = 0; i < 2000 * steps; i++) {
        if (rank == 0) MPI_Send(&value, 1, MPI_INT, 1, 1, MPI_COMM_WORLD);
        if (rank == 1) MPI_Recv(&value, 1, MPI_INT, 0, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    }
    MPI_Barrier(MPI_COMM_WORLD);
}

static void late_for_probe(int steps) { // as mpi4py receives objects: a blocking probe, then the message that it found
    MPI_Message message;
    int value = 0;
    for (int i = 0; i < steps; i++) {
        rest(rank == 2 ? 60 : 10);
        if (rank) MPI_Send(&value, 1, MPI_INT, 0, 1, MPI_COMM_WORLD);
        for (int other = 1; other < size && !rank; other++) {
            MPI_Mprobe(other, 1, MPI_COMM_WORLD, &message, MPI_STATUS_IGNORE);
            MPI_Mrecv(&value, 1, MPI_INT, &message, MPI_STATUS_IGNORE);
        }
    }
}

static void small_sums(int steps) {
    double value = 1, sum = 0;
    for (int i = 0; i < 1000 * steps; i++) MPI_Allreduce(&value, &sum, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
}

static void clean_even(int steps) {
    for (int i = 0; i < steps; i++) {
        rest(50);
        MPI_Barrier(MPI_COMM_WORLD);
    }
}

static void clean_sum(int steps) {
    int sum = 0;
    for (int i = 0; i < steps; i++) {
        rest(60);
        MPI_Allreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    }
}

static void clean_halo(int steps) {
    static char other[1 << 20];
    for (int i = 0; i < steps; i++) {
        rest(50);
        MPI_Sendrecv(block, 1 << 16, MPI_CHAR, (rank + 1) % size, 1, other, 1 << 16, MPI_CHAR, (rank + size - 1) % size, 1,
                     MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    }
}

static void clean_turns(int steps) { // each rank is the last one now and then
    int sum = 0;
    for (int i = 0; i < 2 * steps; i++) {
        rest(rank == i % size ? 24 : 20);
        MPI_Allreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    }
}

// Begins to send the block to the next rank, and to receive that of the one before.
static void exchange(MPI_Request requests[2]) {
    static char other[1 << 20];
    MPI_Irecv(other, sizeof other, MPI_CHAR, (rank + size - 1) % size, 1, MPI_COMM_WORLD, requests);
    MPI_Isend(block, sizeof block, MPI_CHAR, (rank + 1) % size, 1, MPI_COMM_WORLD, requests + 1);
}

static void clean_overlap(int steps) {
    for (int i = 0; i < steps; i++) {
        MPI_Request requests[2];
        exchange(requests);
        rest(50);
        MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
    }
}

static void tested(MPI_Request *request) {
    for (int there = 0;;) {
        MPI_Test(request, &there, MPI_STATUS_IGNORE);
        if (there) return;
        rest(0.2);
    }
}

// All test for the message of rank 2, which computes longer.
static void late_for_tests(int steps) {
    for (int i = 0; i < steps; i++) {
        MPI_Request request;
        if (rank != 2) MPI_Irecv(block, sizeof block, MPI_CHAR, 2, 1, MPI_COMM_WORLD, &request);
        rest(rank == 2 ? 50 : 5);
        for (int to = 0; rank == 2 && to < size; to++)
            if (to != 2) MPI_Send(block, sizeof block, MPI_CHAR, to, 1, MPI_COMM_WORLD);
        if (rank != 2) tested(&request);
    }
}

// In each step another rank computes longer, and the others do nothing but test for its message.
static void polling(int steps) {
    for (int i = 0; i < steps; i++) {
        MPI_Request requests[16];
        int n = 0, from = i % size;
        if (rank != from) MPI_Irecv(block, 64, MPI_CHAR, from, 1, MPI_COMM_WORLD, &requests[n++]);
        rest(rank == from ? 30 : 5);
        for (int to = 0; rank == from && to < size; to++)
            if (to != from) MPI_Isend(block, 64, MPI_CHAR, to, 1, MPI_COMM_WORLD, &requests[n++]);
        for (int there = 0; !there;) MPI_Testall(n, requests, &there, MPI_STATUSES_IGNORE);
    }
}

// All send before they compute, so that nobody has to test for long.
static void clean_tests(int steps) {
    for (int i = 0; i < steps; i++) {
        MPI_Request requests[2];
        exchange(requests);
        for (int k = 0, there; k < 5; k++) {
            rest(10);
            MPI_Testall(2, requests, &there, MPI_STATUSES_IGNORE);
        }
        for (int k = 0; k < 2; k++) tested(requests + k);
    }
}

int main(int argc, char **argv) {
    static const struct { const char *name; void (*run)(int); } problems[] = {
        {"late_at_barrier", late_at_barrier}, {"imbalance", imbalance}, {"late_sender", late_sender}, {"late_root", late_root},
        {"taking_turns", taking_turns}, {"small_messages", small_messages}, {"clean_even", clean_even}, {"clean_sum", clean_sum},
        {"clean_halo", clean_halo}, {"clean_overlap", clean_overlap}, {"master_and_workers", master_and_workers},
        {"root_computes", root_computes}, {"pipeline", pipeline}, {"late_for_posted", late_for_posted}, {"clean_turns", clean_turns},
        {"late_for_probe", late_for_probe}, {"small_sums", small_sums},
        {"late_for_tests", late_for_tests}, {"clean_tests", clean_tests}, {"polling", polling}};
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    for (size_t i = 0; i < sizeof problems / sizeof *problems; i++)
        if (argc > 1 && !strcmp(argv[1], problems[i].name)) problems[i].run(argc > 2 ? atoi(argv[2]) : 20);
    MPI_Finalize();
    return 0;
}
