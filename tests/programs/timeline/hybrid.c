/* A time step as many programs have it: ranges around messages, a collective and a parallel region; a counter. For 2 ranks. */
#include <mpi.h>
#include <stdlib.h>
#include <time.h>

#include "occatrace.h"

static void sleep_ms(int ms) {
  struct timespec t = {0, ms * 1000000L};
  nanosleep(&t, NULL);
}

int main(int argc, char **argv) {
  int rank;
  double x[1000] = {0}, y[1000], sum = 0;
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  for (int step = 0; step < 3; step++) {
    occatrace_push("time step");
    occatrace_counter("residual", 1.0 / (step + 1), "1");
    uint64_t exchange = occatrace_begin("exchange");
    MPI_Sendrecv(x, 1000, MPI_DOUBLE, 1 - rank, 7, y, 1000, MPI_DOUBLE, 1 - rank, 7, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
#pragma omp parallel num_threads(2)
    sleep_ms(2);
    occatrace_end(exchange);
    MPI_Allreduce(MPI_IN_PLACE, &sum, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
    occatrace_mark("done");
    occatrace_pop();
  }
  MPI_Finalize();
  return 0;
}
