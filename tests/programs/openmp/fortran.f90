! Regions of a Fortran program, with their lines on standard output.
program fortran
  use omp_lib
  implicit none
  integer :: i, total
  total = 0
  print '(a)', 'line loop 8'
  !$omp parallel do num_threads(2) schedule(dynamic) reduction(+:total)
  do i = 1, 10
    total = total + i
  end do
  !$omp end parallel do
  print '(a)', 'line tasks 14'
  !$omp parallel num_threads(2)
  !$omp single
  do i = 1, 4
    !$omp task
    !$omp critical
    total = total + 1
    !$omp end critical
    !$omp end task
  end do
  !$omp end single
  !$omp end parallel
  print '(a,i0)', 'total ', total
end program fortran
