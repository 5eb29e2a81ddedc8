/* MPI_THREAD_MULTIPLE: on 2 ranks, 4 threads each send 250 messages of 64 bytes there and back, each thread with its own tag,
 * half of them by requests that any thread may wait for. */
#include <mpi.h>
#include <pthread.h>
#include <stdio.h>

enum { THREADS = 4, MESSAGES = 250 };
static int rank;

static void *work(void *argument) {
  const int tag = (int)(long)argument;
  char out[64] = {0}, in[64];
  for (int i = 0; i < MESSAGES; i++) {
    if (i % 2) {
      MPI_Request requests[2];
      MPI_Irecv(in, 64, MPI_CHAR, 1 - rank, tag, MPI_COMM_WORLD, &requests[0]);
      MPI_Isend(out, 64, MPI_CHAR, 1 - rank, tag, MPI_COMM_WORLD, &requests[1]);
      MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
    } else if (rank == 0) {
      MPI_Send(out, 64, MPI_CHAR, 1, tag, MPI_COMM_WORLD);
      MPI_Recv(in, 64, MPI_CHAR, 1, tag, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    } else {
      MPI_Recv(in, 64, MPI_CHAR, 0, tag, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
      MPI_Send(out, 64, MPI_CHAR, 0, tag, MPI_COMM_WORLD);
    }
  }
  return NULL;
}

int main(int argc, char **argv) {
  int provided;
  MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  if (provided < MPI_THREAD_MULTIPLE) {
    puts("no threads");
  } else {
    pthread_t threads[THREADS];
    for (long i = 0; i < THREADS; i++) pthread_create(&threads[i], NULL, work, (void *)i);
    for (int i = 0; i < THREADS; i++) pthread_join(threads[i], NULL);
  }
  MPI_Finalize();
  return 0;
}
