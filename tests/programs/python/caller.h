/* What caller.c and caller.f90 call; behind it pybind11 (by_pybind11.cpp) or Cython (by_cython.c, spun.pyx). */
#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default)
int begin_python(void);
void end_python(void);
long spin_in_python(long ns); /* how long it really was there */
long monotonic_ns(void);
#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif
