/* Target constructs whose counts and bytes are known. */
#include <omp.h>
#include <stdio.h>
#include <stdlib.h>

enum { N = 1000 };

int main(void) {
  static double a[N], b[N];
  double sum = 0;
  printf("devices %d\n", omp_get_num_devices());
#pragma omp target data map(to : a) map(from : b)
  {
    for (int i = 0; i < 3; i++) {
      printf("line target %d\n", __LINE__ + 1);
#pragma omp target teams distribute parallel for num_threads(2)
      for (int k = 0; k < N; k++) b[k] = a[k] + k;
    }
#pragma omp target update from(b)
  }
#pragma omp target enter data map(to : a)
#pragma omp target map(tofrom : sum)
  for (int k = 0; k < N; k++) sum += a[k] + 1;
#pragma omp target exit data map(delete : a)
  const int device = omp_get_default_device(), host = omp_get_initial_device();
  double *memory = omp_target_alloc(N * sizeof *memory, device);
  omp_target_memcpy(memory, b, sizeof b, 0, 0, device, host);
  omp_target_memcpy(a, memory, sizeof a, 0, 0, host, device);
  omp_target_free(memory, device);
  printf("sum %g %g\n", sum, a[N - 1]);
  return 0;
}
