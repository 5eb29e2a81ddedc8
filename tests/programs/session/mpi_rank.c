/* A rank of an MPI job that ends as it is told, rank by rank.
 * usage: mpi_rank [RANK:WHAT]...   WHAT: exit=N (after MPI_Finalize), kill=SIGNAL, abort=N, sleep=SECONDS (before
 * MPI_Init), run=SECONDS, quit=N (without MPI_Finalize), ping=N (to and fro between the halves of the ranks, over half a
 * second), named=FILE (goes on when a line of it has the process's number between tabs), here=FOLDER (makes the file RANK in
 * it), until=FILE (goes on when it exists); rank * is every rank. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <mpi.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char *told(int argc, char **argv, int rank, const char *what) {
  for (int i = 1; i < argc; i++) {
    const char *colon = strchr(argv[i], ':');
    if (!colon || (argv[i][0] != '*' && atoi(argv[i]) != rank)) continue;
    size_t n = strlen(what);
    if (strncmp(colon + 1, what, n) == 0 && colon[1 + n] == '=') return colon + 2 + n;
  }
  return NULL;
}

static int named_in(const char *path) {
  char line[4096], mine[32];
  int found = 0;
  snprintf(mine, sizeof mine, "\t%d\t", (int)getpid());
  FILE *file = fopen(path, "r");
  while (file && !found && fgets(line, sizeof line, file)) found = strstr(line, mine) != NULL;
  if (file) fclose(file);
  return found;
}

static void say_here(const char *folder, int rank) {
  char path[4096];
  snprintf(path, sizeof path, "%s/%d", folder, rank);
  FILE *file = fopen(path, "w");
  if (file) fclose(file);
}

static int rank_before_init(void) {
  const char *names[] = {"OMPI_COMM_WORLD_RANK", "PMI_RANK"};
  for (int i = 0; i < 2; i++)
    if (getenv(names[i])) return atoi(getenv(names[i]));
  return 0;
}

int main(int argc, char **argv) {
  const char *value;
  int rank = rank_before_init(), size;
  if ((value = told(argc, argv, rank, "sleep"))) usleep((useconds_t)(atof(value) * 1e6));
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  int (*start)(void) = (int (*)(void))dlsym(RTLD_DEFAULT, "occatrace_start");
  void *(*announce)(void) = (void *(*)(void))dlsym(RTLD_DEFAULT, "occatrace_thread_start");
  if (start && announce && start()) announce();
  if ((value = told(argc, argv, rank, "run"))) usleep((useconds_t)(atof(value) * 1e6));
  if ((value = told(argc, argv, rank, "named")))
    while (!named_in(value)) usleep(5000);
  if ((value = told(argc, argv, rank, "here"))) say_here(value, rank);
  if ((value = told(argc, argv, rank, "until")))
    while (access(value, F_OK) != 0) usleep(5000);
  if ((value = told(argc, argv, rank, "kill"))) kill(getpid(), atoi(value));
  if ((value = told(argc, argv, rank, "abort"))) MPI_Abort(MPI_COMM_WORLD, atoi(value));
  if ((value = told(argc, argv, rank, "quit"))) _exit(atoi(value));
  if ((value = told(argc, argv, rank, "ping")))
    for (int i = 0, n = atoi(value), other = (rank + size / 2) % size, word = 0; i < n; i++) {
      if (rank < size / 2) MPI_Send(&word, 1, MPI_INT, other, 3, MPI_COMM_WORLD);
      MPI_Recv(&word, 1, MPI_INT, other, 3, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
      if (rank >= size / 2) MPI_Send(&word, 1, MPI_INT, other, 3, MPI_COMM_WORLD);
      usleep(500000 / (useconds_t)n);
    }
  int sum = 0;
  MPI_Allreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
  if (rank == 0) printf("%d ranks, sum %d\n", size, sum);
  MPI_Finalize();
  return (value = told(argc, argv, rank, "exit")) ? atoi(value) : 0;
}
