! occatrace.f90: what is between start and stop is recorded; the rest is not.
program ranges
  use occatrace
  implicit none
  integer :: i
  call occatrace_push("before")
  call occatrace_pop()
  call occatrace_capture_start()
  do i = 1, 3
    call occatrace_push("inside")
    call occatrace_counter("value", real(i, 8), "m")
    call occatrace_pop()
  end do
  call occatrace_mark("here")
  call occatrace_capture_stop()
  call occatrace_push("after")
  call occatrace_pop()
  print '(l1)', occatrace_present()
end program
