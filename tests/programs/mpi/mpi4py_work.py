"""Messages of mpi4py on 2 ranks; prints what came, so that it can be compared with a run that is not traced."""

from __future__ import annotations

import numpy as np
from mpi4py import MPI

world = MPI.COMM_WORLD
rank, other = world.rank, 1 - world.rank

out, into = np.full(500, rank, np.float64), np.empty(500)
if rank == 0:
    world.Send(out, dest=1, tag=1)
    world.Recv(into, source=1, tag=1)
else:
    world.Recv(into, source=0, tag=1)
    world.Send(out, dest=0, tag=1)
requests = [world.Irecv(into, source=other, tag=2), world.Isend(out, dest=other, tag=2)]
MPI.Request.Waitall(requests)
told = world.sendrecv({"rank": rank}, dest=other, source=other)
total = np.zeros(1, np.int32)
world.Allreduce(np.array([rank + 1], np.int32), total)
half = world.Split(rank)
lines = world.gather(f"{rank} {into.sum():g} {told} {total[0]} {half.size} {MPI.Get_version()[0] >= 3}")
if lines is not None:
    print("\n".join(lines))
