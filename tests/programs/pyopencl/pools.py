"""Memory pools of pyopencl of both kinds; says what they say of themselves, as JSON."""

import json

import numpy as np
import pyopencl as cl
import pyopencl.array as cl_array
from pyopencl.tools import ImmediateAllocator, MemoryPool, SVMAllocator, SVMPool

platform = next(p for p in cl.get_platforms() if "Portable" in p.name)
context = cl.Context([platform.get_devices()[0]])
queue = cl.CommandQueue(context)
said = []


def say(pool):
    said.append([pool.managed_bytes, pool.active_bytes, pool.held_blocks, pool.active_blocks])


pool = MemoryPool(ImmediateAllocator(queue))  # line: pool
blocks = [pool.allocate(5000) for _ in range(4)]  # line: first
say(pool)
blocks[0].release()
blocks[1].release()
say(pool)
blocks[:2] = [pool(4500), pool(5100)]  # line: second
say(pool)
array = cl_array.zeros(queue, 2500, np.float32, allocator=pool)  # line: array
for _ in range(10):
    array = array + 1  # line: sums
say(pool)
total = float(array.get().sum())
del array
say(pool)
pool.free_held()
say(pool)

shared = SVMPool(SVMAllocator(context, flags=cl.svm_mem_flags.READ_WRITE, queue=queue))
for _ in range(3):
    block = shared(3000)  # line: shared
    del block
say(shared)
print(
    json.dumps(
        {"said": said, "sum": total, "same class": type(pool) is MemoryPool and isinstance(pool, cl.tools.MemoryPool)}
    )
)
del blocks, shared
pool.stop_holding()
del pool
