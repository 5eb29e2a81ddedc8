"""Calls of MPI from known lines, as many as they say."""

import numpy as np
from mpi4py import MPI

sent = np.ones(100)
received = np.empty(100)


def add() -> None:
    MPI.COMM_WORLD.Allreduce(sent, received)  # line: add


for _ in range(5):
    add()
for _ in range(3):
    MPI.COMM_WORLD.Barrier()  # line: barrier
MPI.COMM_WORLD.Allreduce(sent, received)  # line: once
