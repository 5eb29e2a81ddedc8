/* Spins in C, in Fortran and in Python, in turn, and says when and for how long each really was. */
#include <stdint.h>
#include <stdio.h>
#include <time.h>

#include "spins.h"

void spin_in_fortran(int64_t ns);

static int64_t now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

static void spin_in_c(int64_t ns) {
  const int64_t begin = now();
  while (now() < begin + ns) {
  }
}

int main(void) {
  for (int i = 0; i < 20; i++) {
    const int64_t ns = (i % 4 + 1) * 500000;
    int64_t begin = now();
    spin_in_c(ns);
    printf("c %ld %ld 0\n", (long)begin, (long)now());
    begin = now();
    spin_in_fortran(ns);
    printf("fortran %ld %ld 0\n", (long)begin, (long)now());
    begin = now();
    const long inside = spin_in_python((long)ns);
    printf("python %ld %ld %ld\n", (long)begin, (long)now(), inside);
  }
  return spin_in_python(-1) == -1 ? 0 : 1;
}
