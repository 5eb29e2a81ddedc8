/* empty_region N: N empty parallel regions on two threads and on one, N critical sections and tasks of a thread by itself, in ns
 * each, as JSON: the median of parts of a hundred, so that a part in which others had the processor does not count. */
#define _GNU_SOURCE
#include <omp.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum { PART = 100 };

static double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return t.tv_sec * 1e9 + t.tv_nsec;
}

static int by_size(const void *a, const void *b) {
  const double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

#define MEASURE(result, work)                       \
  for (int part = 0; part < parts; part++) {        \
    const double start = now();                     \
    for (int i = 0; i < PART; i++) {                \
      work                                          \
    }                                               \
    times[part] = (now() - start) / PART;           \
  }                                                 \
  qsort(times, parts, sizeof *times, by_size);      \
  result = times[parts / 2];

int main(int argc, char **argv) {
  const int parts = (argc > 1 ? atoi(argv[1]) : 10000) / PART;
  double *times = calloc(parts, sizeof *times);
  double region, one, critical = 0, task = 0;
  MEASURE(region, _Pragma("omp parallel num_threads(2)") __asm__ volatile("");)
  MEASURE(one, _Pragma("omp parallel num_threads(1)") __asm__ volatile("");)
#pragma omp parallel num_threads(1)
  {
    MEASURE(critical, _Pragma("omp critical") __asm__ volatile("");)
    MEASURE(task, _Pragma("omp task") __asm__ volatile("");)
  }
  printf("{\"region_ns\": %.1f, \"one_ns\": %.1f, \"critical_ns\": %.1f, \"task_ns\": %.1f}\n", region, one, critical, task);
  free(times);
  return 0;
}
