"""What pytools does for each kernel that it generates an invoker for, many times; then a build and a block of a pool."""

import sys
from importlib import import_module

import pyopencl as cl
from pyopencl.tools import ImmediateAllocator, MemoryPool

context = cl.create_some_context(interactive=False)
pool = MemoryPool(ImmediateAllocator(cl.CommandQueue(context)))
for _ in range(int(sys.argv[1])):
    import_module("pyopencl._cl")
    import_module("pyopencl")
cl.Program(context, "kernel void one(global int *x) { x[0] = 7; }").build()
pool.allocate(1000).release()
print("ok")
