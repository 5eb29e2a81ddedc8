! The three interfaces of Fortran in one program, on 2 ranks: each sends 1000 doubles there and back with a tag of its own,
! once by blocking and once by non-blocking calls, and sums 3 integers over both ranks.
subroutine with_mpif(rank)
  implicit none
  include 'mpif.h'
  integer :: rank, ierr, status(MPI_STATUS_SIZE), requests(2), n(3), total(3)
  double precision :: x(1000), y(1000)
  x = 1; n = rank
  if (rank == 0) then
    call MPI_Send(x, 1000, MPI_DOUBLE_PRECISION, 1, 1, MPI_COMM_WORLD, ierr)
    call MPI_Recv(y, 1000, MPI_DOUBLE_PRECISION, MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, status, ierr)
  else
    call MPI_Recv(y, 1000, MPI_DOUBLE_PRECISION, 0, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE, ierr)
    call MPI_Send(x, 1000, MPI_DOUBLE_PRECISION, 0, 1, MPI_COMM_WORLD, ierr)
  end if
  call MPI_Irecv(y, 1000, MPI_DOUBLE_PRECISION, 1 - rank, 11, MPI_COMM_WORLD, requests(1), ierr)
  call MPI_Isend(x, 1000, MPI_DOUBLE_PRECISION, 1 - rank, 11, MPI_COMM_WORLD, requests(2), ierr)
  call MPI_Waitall(2, requests, MPI_STATUSES_IGNORE, ierr)
  call MPI_Allreduce(n, total, 3, MPI_INTEGER, MPI_SUM, MPI_COMM_WORLD, ierr)
  if (any(total /= 1) .or. any(y /= 1)) stop 1
end subroutine

subroutine with_use_mpi(rank)
  use mpi
  implicit none
  integer :: rank, ierr, status(MPI_STATUS_SIZE), requests(2), n(3)
  double precision :: x(1000), y(1000)
  x = 1; n = rank
  if (rank == 0) then
    call MPI_Send(x, 1000, MPI_DOUBLE_PRECISION, 1, 2, MPI_COMM_WORLD, ierr)
    call MPI_Recv(y, 1000, MPI_DOUBLE_PRECISION, MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, status, ierr)
    if (status(MPI_TAG) /= 2) stop 2
  else
    call MPI_Recv(y, 1000, MPI_DOUBLE_PRECISION, 0, 2, MPI_COMM_WORLD, MPI_STATUS_IGNORE, ierr)
    call MPI_Send(x, 1000, MPI_DOUBLE_PRECISION, 0, 2, MPI_COMM_WORLD, ierr)
  end if
  call MPI_Irecv(y, 1000, MPI_DOUBLE_PRECISION, 1 - rank, 12, MPI_COMM_WORLD, requests(1), ierr)
  call MPI_Isend(x, 1000, MPI_DOUBLE_PRECISION, 1 - rank, 12, MPI_COMM_WORLD, requests(2), ierr)
  call MPI_Waitall(2, requests, MPI_STATUSES_IGNORE, ierr)
  call MPI_Allreduce(MPI_IN_PLACE, n, 3, MPI_INTEGER, MPI_SUM, MPI_COMM_WORLD, ierr)
  if (any(n /= 1) .or. any(y /= 1)) stop 2
end subroutine

subroutine with_mpi_f08(rank)
  use mpi_f08
  implicit none
  integer :: rank, n(3), total(3)
  double precision :: x(1000), y(1000)
  type(MPI_Status) :: status
  type(MPI_Request) :: requests(2)
  x = 1; n = rank
  if (rank == 0) then
    call MPI_Send(x, 1000, MPI_DOUBLE_PRECISION, 1, 3, MPI_COMM_WORLD)
    call MPI_Recv(y, 1000, MPI_DOUBLE_PRECISION, MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, status)
    if (status%MPI_TAG /= 3) stop 3
  else
    call MPI_Recv(y, 1000, MPI_DOUBLE_PRECISION, 0, 3, MPI_COMM_WORLD, MPI_STATUS_IGNORE)
    call MPI_Send(x, 1000, MPI_DOUBLE_PRECISION, 0, 3, MPI_COMM_WORLD)
  end if
  call MPI_Irecv(y, 1000, MPI_DOUBLE_PRECISION, 1 - rank, 13, MPI_COMM_WORLD, requests(1))
  call MPI_Isend(x, 1000, MPI_DOUBLE_PRECISION, 1 - rank, 13, MPI_COMM_WORLD, requests(2))
  call MPI_Waitall(2, requests, MPI_STATUSES_IGNORE)
  call MPI_Allreduce(n, total, 3, MPI_INTEGER, MPI_SUM, MPI_COMM_WORLD)
  if (any(total /= 1) .or. any(y /= 1)) stop 3
end subroutine

program interfaces
  use mpi
  implicit none
  integer :: rank, ierr
  call MPI_Init(ierr)
  call MPI_Comm_rank(MPI_COMM_WORLD, rank, ierr)
  call with_mpif(rank)
  call with_use_mpi(rank)
  call with_mpi_f08(rank)
  call MPI_Finalize(ierr)
end program
