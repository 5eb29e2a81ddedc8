/* How a program with MPI may end: an error that nobody handles, MPI_Abort, or an exit status without MPI_Finalize. And a tool
 * of the program's own, which stands between its calls and MPI; and an error handler of its own, which says what MPI tells it. */
#include <mpi.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int sends;

int MPI_Bsend(const void *buffer, int count, MPI_Datatype type, int dest, int tag, MPI_Comm comm) {
  sends++;
  return PMPI_Send(buffer, count, type, dest, tag, comm);
}

static void tell(MPI_Comm *comm, int *error, ...) {
  char text[MPI_MAX_ERROR_STRING];
  int length;
  (void)comm;
  MPI_Error_string(*error, text, &length);
  const char *function = "";
#ifdef OPEN_MPI
  va_list more;
  va_start(more, error);
  function = va_arg(more, const char *);  // MPICH has it in the text
  va_end(more);
#endif
  printf("told: %s %s\n", function, text);
}

int main(int argc, char **argv) {
  int rank, x = 0;
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  const char *how = argv[1];
  if (strcmp(how, "error") == 0 && rank == 0) MPI_Send(&x, 1, MPI_INT, 1000, 0, MPI_COMM_WORLD);
  if (strcmp(how, "abort") == 0 && rank == 0) MPI_Abort(MPI_COMM_WORLD, 7);
  if (strcmp(how, "null") == 0 && rank == 0) MPI_Send(&x, 1, MPI_INT, 0, 0, MPI_COMM_NULL);
  if (strcmp(how, "told") == 0) {
    MPI_Errhandler handler;
    MPI_Comm_create_errhandler(tell, &handler);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, handler);
    if (rank == 0) MPI_Send(&x, 1, MPI_INT, 1000, 0, MPI_COMM_WORLD);
    if (rank == 0) MPI_Send(&x, 1, MPI_INT, 0, 0, MPI_COMM_NULL);
    MPI_Errhandler_free(&handler);
  }
  if (strcmp(how, "tool") == 0) {
    if (rank == 0) MPI_Bsend(&x, 1, MPI_INT, 1, 5, MPI_COMM_WORLD);
    else MPI_Recv(&x, 1, MPI_INT, 0, 5, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    if (rank == 0) printf("%d sends\n", sends);
  }
  MPI_Barrier(MPI_COMM_WORLD);
  MPI_Finalize();
  return 0;
}
