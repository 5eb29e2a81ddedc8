/* Time of posix_spawn + wait of a command, natively and with LD_PRELOAD, in turn. usage: spawn PRELOAD COUNT COMMAND… ; prints "native traced" ns per round. */
#define _GNU_SOURCE
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>

extern char **environ;

static long run(char **argv, char **env) {
  struct timespec a, b;
  pid_t pid;
  int status;
  clock_gettime(CLOCK_MONOTONIC, &a);
  if (posix_spawn(&pid, argv[0], NULL, NULL, argv, env) != 0) exit(2);
  waitpid(pid, &status, 0);
  clock_gettime(CLOCK_MONOTONIC, &b);
  if (status != 0) exit(3);
  return (b.tv_sec - a.tv_sec) * 1000000000L + b.tv_nsec - a.tv_nsec;
}

int main(int argc, char **argv) {
  if (argc < 4) return 2;
  int n = 0;
  while (environ[n]) n++;
  char **traced = calloc((size_t)n + 2, sizeof *traced);
  memcpy(traced, environ, (size_t)n * sizeof *traced);
  if (asprintf(&traced[n], "LD_PRELOAD=%s", argv[1]) < 0) return 2;
  for (int i = 0, rounds = atoi(argv[2]); i < rounds; i++) {
    const long native = run(argv + 3, environ);
    printf("%ld %ld\n", native, run(argv + 3, traced));
  }
  return 0;
}
