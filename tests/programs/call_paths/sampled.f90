! Samples of the stack at known depths of recursion, each of so many periods as its depth.
program sampled
  use iso_c_binding
  implicit none
  interface
    subroutine take_sample(periods) bind(c)
      import :: c_int
      integer(c_int), value :: periods
    end subroutine
    integer(c_int) function platforms(count, found, number) bind(c, name="clGetPlatformIDs")
      import :: c_int, c_ptr
      integer(c_int), value :: count
      type(c_ptr), value :: found
      integer(c_int) :: number
    end function
  end interface
  integer :: n
  integer(c_int) :: number
  integer, volatile :: depth = 0
  if (platforms(0, c_null_ptr, number) /= 0) stop 2
  do n = 1, 3
    call step(n, n) ! TRUE main
  end do
contains
  recursive subroutine step(n, all)
    integer, intent(in) :: n, all
    if (n > 1) then
      call step(n - 1, all) ! TRUE outer
    else
      call take_sample(all) ! TRUE sample
    end if
    depth = depth + n
  end subroutine
end program
