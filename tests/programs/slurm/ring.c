/* ring SECONDS: 100 messages of 1,000 bytes from each rank to the next, a barrier, "ready" from each rank, and the end after
 * some time. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

int main(int count, char **words) {
  int rank, size;
  char out[1000] = {0}, in[1000];
  MPI_Init(&count, &words);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  for (int i = 0; i < 100; i++)
    MPI_Sendrecv(out, sizeof out, MPI_BYTE, (rank + 1) % size, 0, in, sizeof in, MPI_BYTE, (rank + size - 1) % size, 0,
                 MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  MPI_Barrier(MPI_COMM_WORLD);
  puts("ready");
  fflush(stdout);
  // MPI may handle signals that end a pause.
  for (unsigned left = (unsigned)atoi(words[1]); left;) left = sleep(left);
  MPI_Finalize();
  return 0;
}
