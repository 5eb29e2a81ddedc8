/* Known answers: messages and collectives of known number and size. Rank 0 prints nothing that matters; what each rank did is
 * known from the code (tests/integration/mpi/test_truth.py knows it too). Meant for 4 ranks. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CHECK(what)                                               \
  do {                                                            \
    if (!(what)) {                                                \
      fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #what);  \
      MPI_Abort(MPI_COMM_WORLD, 99);                              \
    }                                                             \
  } while (0)

static int rank, size;

/* Every protocol range: nothing, one byte, eager, rendezvous. */
static void ranges(void) {
  static const int sizes[] = {0, 1, 100, 4096, 65536, 1 << 20};
  char *buffer = calloc(1 << 20, 1);
  for (int i = 0; i < 6; i++) {
    if (rank == 0) MPI_Send(buffer, sizes[i], MPI_BYTE, 1, 10 + i, MPI_COMM_WORLD);
    if (rank == 1) {
      MPI_Status status;
      /* Room for more than comes; the last one does not look at the status. */
      MPI_Recv(buffer, 1 << 20, MPI_BYTE, i % 2 ? MPI_ANY_SOURCE : 0, i % 2 ? MPI_ANY_TAG : 10 + i, MPI_COMM_WORLD,
               i == 5 ? MPI_STATUS_IGNORE : &status);
    }
  }
  free(buffer);
}

static void nobody(void) {
  int x = 0;
  MPI_Send(&x, 1, MPI_INT, MPI_PROC_NULL, 20, MPI_COMM_WORLD);
  MPI_Recv(&x, 1, MPI_INT, MPI_PROC_NULL, 21, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
}

/* 3 of 7 doubles in each of 5 blocks: 120 bytes move. */
static void derived(void) {
  MPI_Datatype vector;
  double x[35] = {0};
  MPI_Type_vector(5, 3, 7, MPI_DOUBLE, &vector);
  MPI_Type_commit(&vector);
  if (rank == 2) MPI_Ssend(x, 1, vector, 3, 30, MPI_COMM_WORLD);
  if (rank == 3) MPI_Recv(x, 1, vector, 2, 30, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  MPI_Type_free(&vector);
}

/* A ring of non-blocking messages, 8 of 1000 ints each to the next, completed by every kind of wait and test. */
static void ring(void) {
  enum { N = 8, COUNT = 1000 };
  int out[COUNT] = {0}, in[N][COUNT];
  MPI_Request requests[2 * N];
  const int next = (rank + 1) % size, previous = (rank + size - 1) % size;
  for (int i = 0; i < N; i++) {
    MPI_Irecv(in[i], COUNT, MPI_INT, previous, 40 + i, MPI_COMM_WORLD, &requests[i]);
    MPI_Isend(out, COUNT, MPI_INT, next, 40 + i, MPI_COMM_WORLD, &requests[N + i]);
  }
  MPI_Wait(&requests[0], MPI_STATUS_IGNORE);
  int flag = 0, index, done = 1;
  while (!flag) MPI_Test(&requests[1], &flag, MPI_STATUS_IGNORE);
  done++;
  MPI_Status status;
  MPI_Waitany(N, requests, &index, &status);
  CHECK(status.MPI_TAG == 40 + index);
  done++;
  while (done < N - 1) {
    int count, indices[N];
    MPI_Waitsome(N - 1, requests, &count, indices, MPI_STATUSES_IGNORE);
    done += count == MPI_UNDEFINED ? 0 : count;
  }
  MPI_Waitall(N + 1, requests + N - 1, MPI_STATUSES_IGNORE);
}

static void persistent(void) {
  double x[16] = {0}, y[16];
  MPI_Request requests[2];
  const int other = rank ^ 1;
  MPI_Send_init(x, 16, MPI_DOUBLE, other, 60, MPI_COMM_WORLD, &requests[0]);
  MPI_Recv_init(y, 16, MPI_DOUBLE, other, 60, MPI_COMM_WORLD, &requests[1]);
  for (int i = 0; i < 3; i++) {
    MPI_Startall(2, requests);
    MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
  }
  MPI_Request_free(&requests[0]);
  MPI_Request_free(&requests[1]);
}

/* All ranks take part: Open MPI 5 makes a communicator of its own at the first one. */
static void partitioned(void) {
#if MPI_VERSION >= 4 || (defined OMPI_MAJOR_VERSION && OMPI_MAJOR_VERSION >= 5)
  float x[4 * 25] = {0};
  MPI_Request request;
  if (rank % 2 == 0) {
    MPI_Psend_init(x, 4, 25, MPI_FLOAT, rank + 1, 70, MPI_COMM_WORLD, MPI_INFO_NULL, &request);
    MPI_Start(&request);
    for (int i = 0; i < 4; i++) MPI_Pready(i, request);
  } else {
    MPI_Precv_init(x, 4, 25, MPI_FLOAT, rank - 1, 70, MPI_COMM_WORLD, MPI_INFO_NULL, &request);
    MPI_Start(&request);
  }
  MPI_Wait(&request, MPI_STATUS_IGNORE);
  MPI_Request_free(&request);
#endif
}

static void matched(void) {
  short x[50] = {0};
  if (rank == 3) {
    MPI_Send(x, 50, MPI_SHORT, 2, 80, MPI_COMM_WORLD);
  } else if (rank == 2) {
    MPI_Message message;
    MPI_Status status;
    int flag = 0;
    while (!flag) MPI_Iprobe(3, 80, MPI_COMM_WORLD, &flag, &status);
    MPI_Mprobe(MPI_ANY_SOURCE, 80, MPI_COMM_WORLD, &message, &status);
    MPI_Mrecv(x, 50, MPI_SHORT, &message, MPI_STATUS_IGNORE);
  }
}

static void both(void) {
  int out[10] = {0}, in[20];
  const int next = (rank + 1) % size, previous = (rank + size - 1) % size;
  MPI_Sendrecv(out, 10, MPI_INT, next, 90, in, 20, MPI_INT, previous, 90, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  MPI_Sendrecv_replace(out, 10, MPI_INT, previous, 91, next, 91, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
}

/* Ranks 1 and 3 in the other order: rank 0 of it is rank 3 of the world. */
static void halves(void) {
  MPI_Comm half;
  MPI_Comm_split(MPI_COMM_WORLD, rank % 2, -rank, &half);
  MPI_Comm_set_name(half, rank % 2 ? "odd" : "even");
  int x[25] = {0}, y[50], z[50];
  MPI_Bcast(x, 25, MPI_INT, 0, half);
  MPI_Allreduce(MPI_IN_PLACE, x, 25, MPI_INT, MPI_SUM, half);
  MPI_Allgather(x, 25, MPI_INT, y, 25, MPI_INT, half);
  MPI_Alltoall(y, 25, MPI_INT, z, 25, MPI_INT, half);
  MPI_Barrier(half);
  int half_rank;
  MPI_Comm_rank(half, &half_rank);
  if (half_rank == 0) MPI_Send(x, 7, MPI_INT, 1, 100, half);
  else MPI_Recv(x, 7, MPI_INT, 0, 100, half, MPI_STATUS_IGNORE);
  MPI_Comm_free(&half);
}

static void everyone(void) {
  int x[4] = {0}, all[16], counts[] = {1, 2, 3, 4}, places[] = {0, 1, 3, 6};
  MPI_Gather(x, 2, MPI_INT, all, 2, MPI_INT, 1, MPI_COMM_WORLD);                                       /* 8 each */
  if (rank == 2) MPI_Gather(MPI_IN_PLACE, 0, MPI_INT, all, 2, MPI_INT, 2, MPI_COMM_WORLD);             /* 24 come */
  else MPI_Gather(x, 2, MPI_INT, NULL, 0, MPI_INT, 2, MPI_COMM_WORLD);
  MPI_Gatherv(x, rank + 1, MPI_INT, all, counts, places, MPI_INT, 0, MPI_COMM_WORLD);                  /* 40 come */
  MPI_Scatterv(all, counts, places, MPI_INT, x, rank + 1, MPI_INT, 0, MPI_COMM_WORLD);                 /* 40 go */
  MPI_Reduce(x, all, 3, MPI_INT, MPI_MAX, 3, MPI_COMM_WORLD);                                          /* 12 each */
  MPI_Reduce_scatter(all, x, (int[]){1, 1, 1, 1}, MPI_INT, MPI_SUM, MPI_COMM_WORLD);                   /* 16 go, 4 come */
  MPI_Exscan(x, all, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
  MPI_Request request;
  MPI_Iallreduce(x, all, 4, MPI_INT, MPI_SUM, MPI_COMM_WORLD, &request);                               /* 16 and 16 */
  MPI_Wait(&request, MPI_STATUS_IGNORE);
}

static void one_sided(void) {
  int *memory, x[5] = {0}, one = 1, before;
  MPI_Win window;
  MPI_Win_allocate(100 * sizeof(int), sizeof(int), MPI_INFO_NULL, MPI_COMM_WORLD, &memory, &window);
  MPI_Win_fence(0, window);
  if (rank == 0) MPI_Put(x, 5, MPI_INT, 2, 0, 5, MPI_INT, window);
  if (rank == 1) MPI_Get(x, 3, MPI_INT, 3, 0, 3, MPI_INT, window);
  MPI_Win_fence(0, window);
  if (rank == 2) {
    MPI_Win_lock(MPI_LOCK_EXCLUSIVE, 0, 0, window);
    MPI_Accumulate(x, 4, MPI_INT, 0, 10, 4, MPI_INT, MPI_SUM, window);
    MPI_Fetch_and_op(&one, &before, MPI_INT, 0, 20, MPI_SUM, window);
    MPI_Win_unlock(0, window);
  }
  MPI_Win_free(&window);
}

static void cancelled(void) {
  int x;
  MPI_Request request;
  MPI_Irecv(&x, 1, MPI_INT, rank, 110, MPI_COMM_SELF == MPI_COMM_NULL ? MPI_COMM_SELF : MPI_COMM_WORLD, &request);
  MPI_Cancel(&request);
  MPI_Wait(&request, MPI_STATUS_IGNORE);
}

/* More requests than fit into the memory kept for them. */
static void many(void) {
  enum { N = 100 };
  double x[N] = {0};
  MPI_Request requests[N];
  if (rank > 1) return;
  for (int i = 0; i < N; i++)
    if (rank == 0) MPI_Isend(&x[i], 1, MPI_DOUBLE, 1, 200 + i, MPI_COMM_WORLD, &requests[i]);
    else MPI_Irecv(&x[i], 1, MPI_DOUBLE, 0, 200 + i, MPI_COMM_WORLD, &requests[i]);
  if (rank == 0) {
    MPI_Waitall(N, requests, MPI_STATUSES_IGNORE);
    return;
  }
  for (int done = 0; done < N;) {
    int count, indices[N];
    MPI_Testsome(N, requests, &count, indices, MPI_STATUSES_IGNORE);
    if (count != MPI_UNDEFINED) done += count;
  }
}

/* An error that the program handles itself. */
static void erroneous(void) {
  int x = 0;
  char text[MPI_MAX_ERROR_STRING];
  int length;
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  const int error = MPI_Send(&x, 1, MPI_INT, size + 7, 120, MPI_COMM_WORLD);
  CHECK(error != MPI_SUCCESS);
  /* The first of two messages is too long for its receive. */
  if (rank == 2) {
    MPI_Send(text, 40, MPI_CHAR, 3, 121, MPI_COMM_WORLD);
    MPI_Send(text, 8, MPI_CHAR, 3, 122, MPI_COMM_WORLD);
  } else if (rank == 3) {
    MPI_Request requests[2];
    MPI_Irecv(text, 8, MPI_CHAR, 2, 121, MPI_COMM_WORLD, &requests[0]);
    MPI_Irecv(text, 8, MPI_CHAR, 2, 122, MPI_COMM_WORLD, &requests[1]);
    CHECK(MPI_Wait(&requests[0], MPI_STATUS_IGNORE) != MPI_SUCCESS);
    CHECK(MPI_Wait(&requests[1], MPI_STATUS_IGNORE) == MPI_SUCCESS);
  }
  MPI_Error_string(error, text, &length);
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_ARE_FATAL);
}

int main(int argc, char **argv) {
  int provided;
  MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  CHECK(size == 4);
  ranges();
  nobody();
  derived();
  ring();
  persistent();
  partitioned();
  matched();
  both();
  halves();
  everyone();
  one_sided();
  cancelled();
  many();
  erroneous();
  const double begin = MPI_Wtime();
  for (int i = 0; i < 999; i++) MPI_Wtime();
  CHECK(MPI_Wtime() >= begin);
  MPI_Finalize();
  return argc > 1 ? atoi(argv[1]) : 0;
}
