! Barriers at known depths of recursion.
program paths
  use mpi
  implicit none
  integer :: error, n
  integer, volatile :: depth = 0
  call MPI_Init(error)
  do n = 1, 3
    call step(n) ! TRUE main
  end do
  call MPI_Finalize(error)
contains
  recursive subroutine step(n)
    integer, intent(in) :: n
    if (n > 1) then
      call step(n - 1) ! TRUE outer
    else
      call MPI_Barrier(MPI_COMM_WORLD, error) ! TRUE barrier
    end if
    depth = depth + n
  end subroutine
end program
