"""A call of MPI below functions of Python."""

from mpi4py import MPI


def inner() -> None:
    MPI.COMM_WORLD.Barrier()  # TRUE inner


def outer() -> None:
    inner()  # TRUE outer


outer()  # TRUE <module>
