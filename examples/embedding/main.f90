! Calls a step in Python on an array of its own: ./main_f view|copy [calls] [elements]
program main
  use iso_c_binding
  implicit none
  interface
    real(c_double) function step(values, count, copies) bind(c)
      import
      real(c_double), intent(inout) :: values(*)
      integer(c_long), value :: count
      integer(c_int), value :: copies
    end function
  end interface
  character(len=32) :: word
  integer(c_long) :: calls = 100, count = 10000, i
  real(c_double), allocatable :: values(:)
  real(c_double) :: total = 0
  integer(c_int) :: copies
  call get_command_argument(1, word)
  copies = merge(1, 0, word == 'copy')
  call get_command_argument(2, word)
  if (word /= '') read (word, *) calls
  call get_command_argument(3, word)
  if (word /= '') read (word, *) count
  allocate (values(count), source=0.0_c_double)
  do i = 1, calls
    total = step(values, count, copies)
  end do
  print '(f8.6)', total / real(count, c_double)
end program
