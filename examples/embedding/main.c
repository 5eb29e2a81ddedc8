/* Calls a step in Python on an array of its own: ./main_c view|copy [calls] [elements] */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "steps.h"

int main(int argc, char **argv) {
  const int copies = argc > 1 && strcmp(argv[1], "copy") == 0;
  const long calls = argc > 2 ? atol(argv[2]) : 100, count = argc > 3 ? atol(argv[3]) : 10000;
  double *values = calloc((size_t)count, sizeof *values), sum = 0;
  for (long i = 0; i < calls; i++) sum = step(values, count, copies);
  printf("%.6f\n", sum / (double)count);
  free(values);
  return 0;
}
