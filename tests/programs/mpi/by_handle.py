"""Calls of an MPI that the program opens for itself: by_handle.py LIBRARY. Two ranks; the first prints the sum of an Allreduce."""

import ctypes
import sys

mpi = ctypes.CDLL(sys.argv[1])


def handle(mpich: int, name: str) -> "ctypes.c_int | ctypes.c_void_p":
    """Of MPICH's ABI a number, of Open MPI's the address of an object."""
    if hasattr(mpi, "ompi_mpi_comm_world"):
        return ctypes.c_void_p(ctypes.addressof(ctypes.c_char.in_dll(mpi, name)))
    return ctypes.c_int(mpich)


world = handle(0x44000000, "ompi_mpi_comm_world")
double = handle(0x4C00080B, "ompi_mpi_double")
total = handle(0x58000003, "ompi_mpi_op_sum")
no_status = ctypes.c_void_p(0 if isinstance(world, ctypes.c_void_p) else 1)
rank, sent, received = ctypes.c_int(), ctypes.c_double(), ctypes.c_double()
mpi.MPI_Init(None, None)
mpi.MPI_Comm_rank(world, ctypes.byref(rank))
sent.value = rank.value + 1
for _ in range(50):
    mpi.MPI_Allreduce(ctypes.byref(sent), ctypes.byref(received), 1, double, total, world)
numbers = (ctypes.c_double * 1000)()
if rank.value == 0:
    mpi.MPI_Send(numbers, 1000, double, 1, 7, world)
else:
    mpi.MPI_Recv(numbers, 1000, double, 0, 7, world, no_status)
mpi.MPI_Finalize()
if rank.value == 0:
    print(received.value)
