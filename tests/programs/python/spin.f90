subroutine spin_in_fortran(ns) bind(c)
  use iso_c_binding
  implicit none
  integer(c_int64_t), value :: ns
  integer(c_int64_t) :: begin, now, rate
  call system_clock(begin, rate)
  do
    call system_clock(now)
    if (now - begin >= ns * (rate / 1000) / 1000000) exit
  end do
end subroutine
