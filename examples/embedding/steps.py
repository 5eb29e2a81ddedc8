"""A step of a simulation in Python, on arrays that belong to a C or Fortran program: on the program's own memory, or on a
copy of it, element by element, there and back."""

import numpy as np
from embedded_steps import ffi


def as_array(values, count, copies):
    """A pointer as an array."""
    if copies:
        return np.array([values[i] for i in range(count)])
    return np.frombuffer(ffi.buffer(values, count * 8), np.float64)


def work(array):
    """What the step is there for."""
    array *= 0.5
    array += 1.0
    return float(array.sum())


def give_back(values, array):
    """A copied array, to where it came from."""
    for i, value in enumerate(array):
        values[i] = value


@ffi.def_extern()
def step(values, count, copies):
    """What C and Fortran call."""
    array = as_array(values, count, copies)
    result = work(array)
    if copies:
        give_back(values, array)
    return result
