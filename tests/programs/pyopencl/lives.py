"""Memory that is freed late, at once, or never, by lines; says when it did so (CLOCK_MONOTONIC, ns), as JSON."""

import json
import os
import sys
import time

import numpy as np
import pyopencl as cl
import pyopencl.array as cl_array
from pyopencl.tools import ImmediateAllocator, MemoryPool

platform = next(p for p in cl.get_platforms() if "Portable" in p.name)
context = cl.Context([platform.get_devices()[0]])
queue = cl.CommandQueue(context)
twice = (
    cl.Program(
        context, "kernel void twice(long n, global float *a, global float *b) { b[get_global_id(0)] = 2 * a[0]; }"
    )
    .build()
    .twice
)
now, pause = time.monotonic_ns, 0.3
said = {}


def idle(since):
    """More than half of the time since then, however long building the kernel took."""
    time.sleep(max(pause, 2e-9 * (now() - since)))


def buffer():
    return cl.Buffer(context, cl.mem_flags.READ_WRITE, 8000)


def use(one, other):
    queue.finish()
    begin = now()
    twice(queue, (2000,), None, np.int64(2000), one, other)
    queue.finish()
    return begin, now()


kept = buffer()  # line: a helper's
never = cl.Buffer(context, cl.mem_flags.READ_WRITE, 8001)  # line: never
made = now()
late, late_too = cl.Buffer(context, cl.mem_flags.READ_WRITE, 8002), kept  # line: late
for _ in range(3):
    used = use(never, late)
idle(made)
given_back = now()
del late
said["late"] = [used, given_back, now()]

soon = cl.Buffer(context, cl.mem_flags.READ_WRITE, 8003)  # line: soon
time.sleep(pause)
used = use(soon, never)
given_back = now()
del soon
said["soon"] = [used, given_back, now()]

unused = cl.Buffer(context, cl.mem_flags.READ_WRITE, 8004)  # line: unused
del unused

pool = MemoryPool(ImmediateAllocator(queue))
made = now()
block = cl_array.empty(queue, 2500, np.float32, allocator=pool)  # line: block
used = use(block.base_data, never)
idle(made)
given_back = now()
del block
said["block"] = [used, given_back, now()]
again = cl_array.empty(queue, 2500, np.float32, allocator=pool)  # line: again
use(again.base_data, never)
print(json.dumps(said))
sys.stdout.flush()
os._exit(0)
