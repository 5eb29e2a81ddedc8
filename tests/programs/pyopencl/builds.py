"""Programs that are built again and again, through pyopencl's own cache and past it, and one that cannot be."""

import numpy as np
import pyopencl as cl
import pyopencl.array as cl_array
import pyopencl.characterize

platform = next(p for p in cl.get_platforms() if "Portable" in p.name)
context = cl.Context([platform.get_devices()[0]])
queue = cl.CommandQueue(context)
TWICE = "kernel void twice(global float *a) { a[get_global_id(0)] *= 2; }"
TWO = """
/* kernel void none(global float *a) is in a comment */
__kernel void one(global float *a) { a[get_global_id(0)] += 1; }
__kernel __attribute__((reqd_work_group_size(1, 1, 1))) void two(global float *a) { a[get_global_id(0)] *= 2; }
"""

a = cl_array.to_device(queue, np.ones(1, np.float32))
for _ in range(2):
    program = cl.Program(context, TWICE).build()  # line: left to the driver
program.twice(queue, (1,), None, a.data)

# pyopencl leaves caching to drivers that cache sources, as PoCL does.
pyopencl.characterize.has_src_build_cache = lambda device: False
for _ in range(3):
    program = cl.Program(context, TWO).build(cache_dir=None)  # line: cached
program.one(queue, (1,), None, a.data)
try:
    cl.Program(context, "kernel void wrong() { this is none; }").build()  # line: wrong
except cl.RuntimeError:
    print(a.get()[0])
