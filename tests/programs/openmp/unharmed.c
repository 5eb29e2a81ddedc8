/* What a tracer must not disturb: unharmed fork | cancel | exit | threads | tool | reductions. */
#define _GNU_SOURCE
#include <omp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static int team(void) {
  int threads = 0;
#pragma omp parallel
#pragma omp single
  threads = omp_get_num_threads();
  return threads;
}

/* The child of a program that has had teams can still run alone. */
static int forked(void) {
  printf("parent %d\n", team());
  fflush(stdout);
  const pid_t child = fork();
  if (child == 0) {
    int sum = 0;
#pragma omp parallel num_threads(1) reduction(+ : sum)
    sum += 7;
    printf("child %d\n", sum);
    fflush(stdout);
    _exit(sum);
  }
  int status = 0;
  waitpid(child, &status, 0);
  printf("child ended with %d, parent %d\n", WEXITSTATUS(status), team());
  return 3;
}

static int cancel(void) {
  int seen = 0;
  if (!omp_get_cancellation()) return 9;
#pragma omp parallel num_threads(2)
  {
#pragma omp for
    for (int i = 0; i < 1000; i++) {
#pragma omp cancellation point for
      if (i == 0 || i == 500) {
#pragma omp atomic
        seen++;
#pragma omp cancel for
      }
    }
  }
  printf("cancelled %d\n", seen >= 1 && seen <= 2);
  return 4;
}

static int reductions(void) {
  int sum = 0;
#pragma omp parallel num_threads(2) reduction(task, + : sum)
#pragma omp single
  for (int i = 0; i < 10; i++) {
#pragma omp task in_reduction(+ : sum)
    sum += i;
  }
  int loop = 0;
#pragma omp parallel num_threads(2)
#pragma omp single
#pragma omp taskloop grainsize(3) reduction(+ : loop)
  for (int i = 0; i < 10; i++) loop += i;
  printf("sums %d %d\n", sum, loop);
  return 0;
}

#ifdef TOOL
/* A tool that the program brings itself. */
static int regions;
static void begin(void) { regions++; }
static int initialize(void *(*lookup)(const char *), int device, void *data) {
  int (*set)(int, void (*)(void)) = (int (*)(int, void (*)(void)))lookup("ompt_set_callback");
  set(3, begin);
  return 1;
}
static void finalize(void *data) { printf("the program's tool saw %d\n", regions); }
struct result {
  int (*initialize)(void *(*)(const char *), int, void *);
  void (*finalize)(void *);
  long data;
};
struct result *ompt_start_tool(unsigned version, const char *runtime) {
  static struct result result = {initialize, finalize, 0};
  return &result;
}
#endif

int main(int argc, char **argv) {
  const char *what = argc > 1 ? argv[1] : "";
  if (strcmp(what, "fork") == 0) return forked();
  if (strcmp(what, "cancel") == 0) return cancel();
  if (strcmp(what, "reductions") == 0) return reductions();
  if (strcmp(what, "threads") == 0) return printf("threads %d\n", team()) < 0;
  if (strcmp(what, "exit") == 0) {
#pragma omp parallel num_threads(2)
    if (omp_get_thread_num() == 1) exit(5);
  }
  return 1;
}
