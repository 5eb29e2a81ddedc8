/* empty_region N: the time of N empty parallel regions on two threads, in ns each, and of N barriers, critical sections and
 * tasks of one thread of such a team, as JSON. */
#define _GNU_SOURCE
#include <omp.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

static double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return t.tv_sec * 1e9 + t.tv_nsec;
}

int main(int argc, char **argv) {
  const int count = argc > 1 ? atoi(argv[1]) : 10000;
  double region = 0, critical = 0, task = 0;
#pragma omp parallel num_threads(2)
  __asm__ volatile("");
  double start = now();
  for (int i = 0; i < count; i++) {
#pragma omp parallel num_threads(2)
    __asm__ volatile("");
  }
  region = (now() - start) / count;
#pragma omp parallel num_threads(1)
  {
    start = now();
    for (int i = 0; i < count; i++) {
#pragma omp critical
      __asm__ volatile("");
    }
    critical = (now() - start) / count;
    start = now();
    for (int i = 0; i < count; i++) {
#pragma omp task
      __asm__ volatile("");
    }
    task = (now() - start) / count;
  }
  printf("{\"region_ns\": %.1f, \"critical_ns\": %.1f, \"task_ns\": %.1f}\n", region, critical, task);
  return 0;
}
