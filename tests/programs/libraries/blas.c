/* Calls of a stand-in for cuBLAS with known counts. LOADED: the library is loaded by a module that the program opens. */
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

typedef struct {
  float x, y;
} cuComplex;
int cublasCreate_v2(void **handle);
int cublasDestroy_v2(void *handle);
size_t cublasGetCudartVersion(void);
const char *cublasGetStatusString(int status);
int cublasSgemm_v2(void *, int, int, int, int, int, const float *, const float *, int, const float *, int, const float *,
                   float *, int);
int cublasGemmStridedBatchedEx(long, double, long, float, long, long, cuComplex, long, long, long, long, long, long, long,
                               double, long, long, long, long, long, long, long, long, long, long, long, long, long, long,
                               long, long, long, long, long, double *);

static void *multiply(void *handle) {
  const float a[4] = {1, 2, 3, 4}, b[4] = {5, 6, 7, 8}, alpha = 2, beta = 1;
  float c[4] = {1, 1, 1, 1};
  for (int time = 0; time < 10; time++)
    if (cublasSgemm_v2(handle, 0, 0, 2, 2, 2, &alpha, a, 2, b, 2, &beta, c, 2) != 0) return NULL;
  return c[0] == 1 + 10 * 2 * 23 && c[3] == 1 + 10 * 2 * 46 ? handle : NULL;
}

int main(int argc, char **argv) {
  void *handle = NULL;
  if (argc > 1) {
    /* Nobody has it yet: who asks is told so. */
    printf("%d", dlsym(RTLD_DEFAULT, "cublasSgemmEx") != NULL);
    printf("%d\n", dlsym(RTLD_DEFAULT, "rocblas_sgemm") != NULL);
  }
  if (cublasCreate_v2(&handle) != 0) return 2;
  pthread_t other;
  pthread_create(&other, NULL, multiply, handle);
  void *mine = multiply(handle), *theirs = NULL;
  pthread_join(other, &theirs);
  if (mine != handle || theirs != handle) return 3;
  if (cublasSgemm_v2(handle, 0, 0, -1, 2, 2, NULL, NULL, 2, NULL, 2, NULL, NULL, 2) != 7) return 4;
  double result = 0;
  const cuComplex value = {0.5f, 0.25f};
  for (int time = 0; time < 3; time++)
    cublasGemmStridedBatchedEx(1, 0.125, 2, 1.5f, 3, 4, value, 5, 6, 7, 8, 9, 10, 11, 2.5, 12, 13, 14, 15, 16, 17, 18, 19, 20,
                               21, 22, 23, 24, 25, 26, 27, 28, 29, 30, &result);
  if (result != 0.125 + 3 + 1.5 + 1 + 12.5 + 406 + 29000 + 30e6) return 5;
  for (int time = 0; time < 1000; time++)
    if (cublasGetCudartVersion() != 12090) return 6;
  if (strcmp(cublasGetStatusString(7), "an unsupported value") != 0) return 7;
  return cublasDestroy_v2(handle);
}
