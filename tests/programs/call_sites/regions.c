// A region and a barrier of OpenMP; the comments say which is where.
#include <stdio.h>

int main(void) {
  int sum = 0;
#pragma omp parallel num_threads(2) reduction(+ : sum) // TRUE parallel
  {
    sum += 1;
#pragma omp barrier // TRUE barrier
    sum += 2;
  }
  printf("%d\n", sum);
  return 0;
}
