! What caller.c does, in Fortran.
program caller
  use iso_c_binding
  implicit none
  interface
    integer(c_int) function begin_python() bind(c)
      import
    end function
    subroutine end_python() bind(c)
    end subroutine
    integer(c_long) function spin_in_python(ns) bind(c)
      import
      integer(c_long), value :: ns
    end function
    integer(c_long) function monotonic_ns() bind(c)
      import
    end function
  end interface
  integer(c_long) :: begin, inside, i
  if (begin_python() /= 0) stop 2
  do i = 0, 11
    begin = monotonic_ns()
    inside = spin_in_python(mod(i, 3_c_long) * 400000 + 200000)
    print '(a, 3(1x, i0))', 'python', begin, monotonic_ns(), inside
  end do
  begin = monotonic_ns()
  do while (monotonic_ns() < begin + 2000000)
  end do
  print '(a, 3(1x, i0))', 'alone', begin, monotonic_ns(), 0
  call end_python()
end program
