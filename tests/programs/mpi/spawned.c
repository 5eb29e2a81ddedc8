/* Ranks that start two others of this program, and send one of them ten numbers; the others compute for 0.1 s. */
#include <mpi.h>
#include <stdio.h>
#include <unistd.h>

int main(int argc, char **argv) {
  MPI_Comm parent, others;
  int rank, number = 7;
  MPI_Init(&argc, &argv);
  MPI_Comm_get_parent(&parent);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  if (parent == MPI_COMM_NULL) {
    MPI_Comm_spawn(argv[0], MPI_ARGV_NULL, 2, MPI_INFO_NULL, 0, MPI_COMM_WORLD, &others, MPI_ERRCODES_IGNORE);
    for (int i = 0; rank == 0 && i < 10; i++) MPI_Send(&number, 1, MPI_INT, 1, 3, others);
    MPI_Barrier(MPI_COMM_WORLD);
  } else {
    others = parent;
    for (int i = 0; rank == 1 && i < 10; i++) MPI_Recv(&number, 1, MPI_INT, 0, 3, others, MPI_STATUS_IGNORE);
    if (rank == 1) usleep(100000);
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == 1) printf("%d\n", number);
    fflush(stdout);
  }
  MPI_Comm_disconnect(&others);
  MPI_Finalize();
}
