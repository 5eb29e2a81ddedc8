! Calls of MPI from Fortran; the comments say which is where.
program calls
  implicit none
  include 'mpif.h'
  integer :: error, rank, values(10), i
  call MPI_Init(error)
  call MPI_Comm_rank(MPI_COMM_WORLD, rank, error)
  values = rank
  do i = 1, 3
    call MPI_Allreduce(MPI_IN_PLACE, values, 10, MPI_INTEGER, MPI_SUM, MPI_COMM_WORLD, error) ! TRUE MPI_Allreduce
  end do
  call MPI_Barrier(MPI_COMM_WORLD, error) ! TRUE MPI_Barrier
  call MPI_Finalize(error)
end program
