"""The heat equation on a grid that the ranks divide: C that Devito generates, with OpenMP, and its exchange of halos."""

import numpy as np
from devito import Eq, Grid, Operator, TimeFunction, solve

grid = Grid(shape=(100, 100))
u = TimeFunction(name="u", grid=grid, space_order=2)
u.data[:] = 0.0
u.data[0, 50, 50] = 1.0
operator = Operator(Eq(u.forward, solve(Eq(u.dt, u.laplace), u.forward)))
operator.apply(time_M=200, dt=1e-5)
print(bool(np.isfinite(u.data).all()))
