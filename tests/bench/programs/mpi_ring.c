/* Each rank sends to both neighbours and receives from them; every fifth round all sum. Argument: the rounds. */
#include <mpi.h>
#include <stdlib.h>

int main(int argc, char **argv) {
  MPI_Init(&argc, &argv);
  const int rounds = argc > 1 ? atoi(argv[1]) : 1000;
  int rank, size;
  char from_left[64], from_right[64], own[32] = {0};
  double part = 1, sum;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  const int left = (rank + size - 1) % size, right = (rank + 1) % size;
  for (int i = 0; i < rounds; i++) {
    MPI_Request requests[4];
    MPI_Irecv(from_left, 64, MPI_CHAR, left, 0, MPI_COMM_WORLD, requests);
    MPI_Irecv(from_right, 64, MPI_CHAR, right, 1, MPI_COMM_WORLD, requests + 1);
    MPI_Isend(own, 32, MPI_CHAR, right, 0, MPI_COMM_WORLD, requests + 2);
    MPI_Isend(own, 32, MPI_CHAR, left, 1, MPI_COMM_WORLD, requests + 3);
    MPI_Waitall(4, requests, MPI_STATUSES_IGNORE);
    if (i % 5 == 0) MPI_Allreduce(&part, &sum, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
  }
  MPI_Finalize();
  return 0;
}
