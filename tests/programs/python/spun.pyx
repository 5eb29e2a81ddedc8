# cython: language_level=3
import spins

cdef public long spin_in_python(long ns) noexcept with gil:
    return spins.spin(ns)
