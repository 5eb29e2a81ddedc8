/* Four calls of MPI: init, rank, barrier, finalize. Rank 0 prints how long MPI_Init took. */
#include <mpi.h>
#include <stdio.h>
#include <time.h>

static double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec * 1e3 + (double)t.tv_nsec * 1e-6;
}

int main(int argc, char **argv) {
  const double start = now();
  MPI_Init(&argc, &argv);
  const double first = now() - start;
  int rank;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Barrier(MPI_COMM_WORLD);
  MPI_Finalize();
  if (rank == 0) printf("first %.1f ms\nall %.1f ms\n", first, now() - start);
  return 0;
}
