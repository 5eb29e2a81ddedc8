"""A discretization of a square by meshmode, and a kernel that loopy generates for it."""

import numpy as np
import pyopencl as cl
from meshmode.array_context import PyOpenCLArrayContext
from meshmode.discretization import Discretization
from meshmode.discretization.poly_element import PolynomialWarpAndBlendGroupFactory
from meshmode.dof_array import flatten, thaw
from meshmode.mesh.generation import generate_regular_rect_mesh

context = PyOpenCLArrayContext(cl.CommandQueue(cl.create_some_context(interactive=False)))
mesh = generate_regular_rect_mesh(a=(-0.5,) * 2, b=(0.5,) * 2, n=(8,) * 2)
nodes = Discretization(context, mesh, PolynomialWarpAndBlendGroupFactory(3))
x, y = (thaw(context, axis) for axis in nodes.nodes())
print(mesh.nelements, nodes.ndofs)
print(round(float(np.linalg.norm(context.to_numpy(flatten(x * x + y + 1)))), 9))
