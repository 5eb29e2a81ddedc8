/* A tiny stand-in for cuBLAS: a few functions with the real ones' names and parameters, among them one with arguments of each
 * kind and more on the stack than any other has. What it computes, the program can check. */
#include <stddef.h>
#include <string.h>
#include <time.h>

typedef struct {
  float x, y;
} cuComplex;

__attribute__((visibility("default"))) int cublasCreate_v2(void **handle) {
  static int context;
  *handle = &context;
  return 0;
}
__attribute__((visibility("default"))) int cublasDestroy_v2(void *handle) { return handle != NULL ? 0 : 1; }
__attribute__((visibility("default"))) size_t cublasGetCudartVersion(void) { return 12090; }
__attribute__((visibility("default"))) const char *cublasGetStatusString(int status) {
  return status == 7 ? "an unsupported value" : "success";
}

/* C = alpha A B + beta C of column-major matrices; 7 (CUBLAS_STATUS_INVALID_VALUE) for negative sizes. Takes 2 ms. */
__attribute__((visibility("default"))) int cublasSgemm_v2(void *handle, int transa, int transb, int m, int n, int k,
                                                          const float *alpha, const float *a, int lda, const float *b,
                                                          int ldb, const float *beta, float *c, int ldc) {
  if (m < 0 || n < 0 || k < 0) return 7;
  for (int j = 0; j < n; j++)
    for (int i = 0; i < m; i++) {
      float sum = 0;
      for (int l = 0; l < k; l++) sum += a[i + l * lda] * b[l + j * ldb];
      c[i + j * ldc] = *alpha * sum + *beta * c[i + j * ldc];
    }
  const struct timespec length = {0, 2000000};
  nanosleep(&length, NULL);
  return 0;
}

/* As many arguments as any function of these libraries has, some of them floating, one a structure by value. */
__attribute__((visibility("default"))) int cublasGemmStridedBatchedEx(
    long a1, double d1, long a2, float f1, long a3, long a4, cuComplex by_value, long a5, long a6, long a7, long a8, long a9,
    long a10, long a11, double d2, long a12, long a13, long a14, long a15, long a16, long a17, long a18, long a19, long a20,
    long a21, long a22, long a23, long a24, long a25, long a26, long a27, long a28, long a29, long a30, double *result) {
  *result = d1 + 2 * f1 + 3 * by_value.x + 4 * by_value.y + 5 * d2 + (double)(a1 + a2 + a3 + a4 + a5 + a6 + a7 + a8 + a9 +
            a10 + a11 + a12 + a13 + a14 + a15 + a16 + a17 + a18 + a19 + a20 + a21 + a22 + a23 + a24 + a25 + a26 + a27 + a28) +
            1000.0 * (double)a29 + 1e6 * (double)a30;
  return 0;
}

