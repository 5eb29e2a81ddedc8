/* A byte to and fro between 2 ranks, and a call that MPI answers at once: ns each, of the best of 20 rounds. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

int main(int argc, char **argv) {
  MPI_Init(&argc, &argv);
  const int rounds = 20, count = argc > 1 ? atoi(argv[1]) : 5000;
  int rank, flag;
  char byte = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  double pingpong = 1e9, call = 1e9;
  for (int r = 0; r < rounds; r++) {
    MPI_Barrier(MPI_COMM_WORLD);
    double begin = MPI_Wtime();
    for (int i = 0; i < count; i++) {
      if (rank == 0) {
        MPI_Send(&byte, 1, MPI_CHAR, 1, 0, MPI_COMM_WORLD);
        MPI_Recv(&byte, 1, MPI_CHAR, 1, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
      } else {
        MPI_Recv(&byte, 1, MPI_CHAR, 0, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        MPI_Send(&byte, 1, MPI_CHAR, 0, 0, MPI_COMM_WORLD);
      }
    }
    double took = (MPI_Wtime() - begin) / count;
    if (took < pingpong) pingpong = took;
    begin = MPI_Wtime();
    for (int i = 0; i < count; i++) MPI_Initialized(&flag);
    took = (MPI_Wtime() - begin) / count;
    if (took < call) call = took;
  }
  if (rank == 0) printf("%.1f %.1f\n", 1e9 * pingpong, 1e9 * call);
  MPI_Finalize();
  return 0;
}
