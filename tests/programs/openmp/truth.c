/* Regions whose times, counts and places are known: each part says on standard output what it did, and at which line. */
#define _GNU_SOURCE
#include <omp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

/* By the clock on the wall: what a thread takes is the same with and without a processor of its own. */
static void take(int ms) {
  const struct timespec t = {ms / 1000, (ms % 1000) * 1000000L};
  nanosleep(&t, NULL);
}

static void line(const char *name, int number) { printf("line %s %d\n", name, number); }

static void imbalance(void) {
  line("imbalance", __LINE__ + 1);
#pragma omp parallel num_threads(2)
  take(omp_get_thread_num() == 0 ? 20 : 240);
}

static void barriers(void) {
  line("barriers", __LINE__ + 1);
#pragma omp parallel num_threads(2)
  {
    take(omp_get_thread_num() == 0 ? 210 : 10);
#pragma omp barrier
    take(5);
#pragma omp barrier
  }
}

static void many(void) {
  line("many", __LINE__ + 2);
  for (int i = 0; i < 50; i++) {
#pragma omp parallel num_threads(2)
    __asm__ volatile("");
  }
}

static long sum;
static void loops(void) {
  long total = 0;
  line("dynamic", __LINE__ + 1);
#pragma omp parallel for num_threads(2) schedule(dynamic, 3) reduction(+ : total)
  for (int i = 0; i < 100; i++) total += i;
  line("guided", __LINE__ + 1);
#pragma omp parallel for num_threads(2) schedule(guided) reduction(+ : total)
  for (int i = 0; i < 100; i++) total += i;
  line("runtime", __LINE__ + 1);
#pragma omp parallel for num_threads(2) schedule(runtime) reduction(+ : total)
  for (int i = 0; i < 100; i++) total += i;
  line("static", __LINE__ + 1);
#pragma omp parallel for num_threads(2) schedule(static) reduction(+ : total)
  for (int i = 0; i < 100; i++) total += i;
  line("inner", __LINE__ + 1);
#pragma omp parallel num_threads(2) reduction(+ : total)
  {
#pragma omp for schedule(dynamic)
    for (int i = 0; i < 10; i++) total += i;
#pragma omp for schedule(guided) nowait
    for (int i = 0; i < 10; i++) total += i;
  }
  sum += total;
}

static void sections(void) {
  int a = 0, b = 0, c = 0;
  line("sections", __LINE__ + 1);
#pragma omp parallel sections num_threads(2)
  {
#pragma omp section
    a = 1;
#pragma omp section
    b = 2;
#pragma omp section
    c = 3;
  }
  sum += a + b + c;
}

static void single(void) {
  line("single", __LINE__ + 1);
#pragma omp parallel num_threads(2)
  {
#pragma omp single
    take(10);
  }
}

static void tasks(void) {
  int done = 0;
  line("tasks", __LINE__ + 1);
#pragma omp parallel num_threads(2)
  {
#pragma omp single
    for (int i = 0; i < 10; i++) {
#pragma omp task
      {
        take(4);
#pragma omp atomic
        done++;
      }
    }
  }
  sum += done;
}

static void taskwait(void) {
  line("taskwait", __LINE__ + 1);
#pragma omp parallel num_threads(2)
  {
#pragma omp single
    {
#pragma omp taskgroup
      for (int i = 0; i < 3; i++) {
#pragma omp task
        take(2);
      }
#pragma omp task
      take(1);
#pragma omp taskwait
    }
  }
}

static void critical(void) {
  line("critical", __LINE__ + 1);
#pragma omp parallel num_threads(2)
  for (int i = 0; i < 3; i++) {
#pragma omp critical(named)
    take(5);
  }
}

static void nested(void) {
  omp_set_max_active_levels(2);
  line("outer", __LINE__ + 1);
#pragma omp parallel num_threads(2)
  {
#pragma omp parallel num_threads(2)
    take(10);
  }
  omp_set_max_active_levels(1);
}

static void alone(void) {
  line("alone", __LINE__ + 1);
#pragma omp parallel num_threads(1)
  take(5);
}

int main(int argc, char **argv) {
  static const struct { const char *name; void (*run)(void); } parts[] = {
      {"imbalance", imbalance}, {"barriers", barriers}, {"many", many}, {"loops", loops}, {"sections", sections}, {"single", single},
      {"tasks", tasks}, {"taskwait", taskwait}, {"critical", critical}, {"nested", nested}, {"alone", alone}};
  for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++)
    for (int a = 1; a < argc; a++)
      if (strcmp(argv[a], parts[i].name) == 0) parts[i].run();
  printf("sum %ld\n", sum);
  return 0;
}
