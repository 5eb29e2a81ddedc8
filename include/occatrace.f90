! Fortran's way to occatrace: ranges, moments, counters, and what is recorded. Compile it with the program; nothing to link.
!
!   use occatrace
!   call occatrace_push("assemble"); ...; call occatrace_pop()
!   call occatrace_capture_stop(); ...; call occatrace_capture_start()
!
! The functions are looked up in the preloaded library at their first use. Without occa_prof they do nothing.
!
! SPDX-License-Identifier: BSD-3-Clause
module occatrace
  use, intrinsic :: iso_c_binding
  implicit none
  private
  public :: occatrace_present, occatrace_push, occatrace_pop, occatrace_begin, occatrace_end, occatrace_mark, &
            occatrace_counter, occatrace_capture_start, occatrace_capture_stop

  interface
    function dlsym(handle, name) bind(c, name="dlsym") result(address)
      import :: c_ptr, c_funptr, c_char
      type(c_ptr), value :: handle
      character(kind=c_char), intent(in) :: name(*)
      type(c_funptr) :: address
    end function
  end interface

  abstract interface
    function range_function(name, argb, values) bind(c) result(level)
      import :: c_char, c_int32_t, c_ptr, c_int
      character(kind=c_char), intent(in) :: name(*)
      integer(c_int32_t), value :: argb
      type(c_ptr), value :: values
      integer(c_int) :: level
    end function
    function pop_function() bind(c) result(level)
      import :: c_int
      integer(c_int) :: level
    end function
    function begin_function(name, argb, values) bind(c) result(id)
      import :: c_char, c_int32_t, c_int64_t, c_ptr
      character(kind=c_char), intent(in) :: name(*)
      integer(c_int32_t), value :: argb
      type(c_ptr), value :: values
      integer(c_int64_t) :: id
    end function
    subroutine end_function(id) bind(c)
      import :: c_int64_t
      integer(c_int64_t), value :: id
    end subroutine
    subroutine mark_function(name, argb, values) bind(c)
      import :: c_char, c_int32_t, c_ptr
      character(kind=c_char), intent(in) :: name(*)
      integer(c_int32_t), value :: argb
      type(c_ptr), value :: values
    end subroutine
    subroutine counter_function(name, value, unit) bind(c)
      import :: c_char, c_double
      character(kind=c_char), intent(in) :: name(*), unit(*)
      real(c_double), value :: value
    end subroutine
    subroutine capture_function(on) bind(c)
      import :: c_int
      integer(c_int), value :: on
    end subroutine
  end interface

  ! Threads may look at the same time: they find the same.
  logical, volatile :: known = .false.
  procedure(range_function), pointer :: push => null()
  procedure(pop_function), pointer :: pop => null()
  procedure(begin_function), pointer :: begin => null()
  procedure(end_function), pointer :: end => null()
  procedure(mark_function), pointer :: mark => null()
  procedure(counter_function), pointer :: counter => null()
  procedure(capture_function), pointer :: capture => null()

contains

  subroutine find()
    type(c_funptr) :: address
    if (known) return
    address = symbol("occatrace_v1_push")
    if (c_associated(address)) call c_f_procpointer(address, push)
    address = symbol("occatrace_v1_pop")
    if (c_associated(address)) call c_f_procpointer(address, pop)
    address = symbol("occatrace_v1_begin")
    if (c_associated(address)) call c_f_procpointer(address, begin)
    address = symbol("occatrace_v1_end")
    if (c_associated(address)) call c_f_procpointer(address, end)
    address = symbol("occatrace_v1_mark")
    if (c_associated(address)) call c_f_procpointer(address, mark)
    address = symbol("occatrace_v1_counter")
    if (c_associated(address)) call c_f_procpointer(address, counter)
    address = symbol("occatrace_v1_capture")
    if (c_associated(address)) call c_f_procpointer(address, capture)
    known = .true.
  end subroutine

  function symbol(name) result(address)
    character(*), intent(in) :: name
    type(c_funptr) :: address
    address = dlsym(c_null_ptr, name // c_null_char)
  end function

  !> Whether the program runs under occatrace.
  logical function occatrace_present()
    call find()
    occatrace_present = associated(push)
  end function

  !> A range of this thread begins.
  subroutine occatrace_push(name)
    character(*), intent(in) :: name
    integer(c_int) :: ignored
    call find()
    if (associated(push)) ignored = push(trim(name) // c_null_char, 0_c_int32_t, c_null_ptr)
  end subroutine

  !> The innermost range of this thread ends.
  subroutine occatrace_pop()
    integer(c_int) :: ignored
    call find()
    if (associated(pop)) ignored = pop()
  end subroutine

  !> A range that may overlap others and end in another thread; 0 where nothing is recorded.
  function occatrace_begin(name) result(id)
    character(*), intent(in) :: name
    integer(c_int64_t) :: id
    call find()
    id = 0
    if (associated(begin)) id = begin(trim(name) // c_null_char, 0_c_int32_t, c_null_ptr)
  end function

  subroutine occatrace_end(id)
    integer(c_int64_t), intent(in) :: id
    call find()
    if (associated(end)) call end(id)
  end subroutine

  !> A moment.
  subroutine occatrace_mark(name)
    character(*), intent(in) :: name
    call find()
    if (associated(mark)) call mark(trim(name) // c_null_char, 0_c_int32_t, c_null_ptr)
  end subroutine

  !> The value of something from now on.
  subroutine occatrace_counter(name, value, unit)
    character(*), intent(in) :: name
    real(c_double), intent(in) :: value
    character(*), intent(in), optional :: unit
    call find()
    if (.not. associated(counter)) return
    if (present(unit)) then
      call counter(trim(name) // c_null_char, value, trim(unit) // c_null_char)
    else
      call counter(trim(name) // c_null_char, value, c_null_char)
    end if
  end subroutine

  !> The process records, or does not.
  subroutine occatrace_capture_start()
    call find()
    if (associated(capture)) call capture(1_c_int)
  end subroutine
  subroutine occatrace_capture_stop()
    call find()
    if (associated(capture)) call capture(0_c_int)
  end subroutine

end module occatrace
