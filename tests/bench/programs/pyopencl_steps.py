"""Steps of a pyopencl program: an array from a pool, arithmetic, a kernel of a set length, a copy back now and then.

Prints the ns that the steps took and the processor time of its own thread in them. Given 0 as the length it prints one with
which the kernel takes a ms.
"""

import sys
import time

import numpy as np
import pyopencl as cl
import pyopencl.array as cl_array
from pyopencl.tools import ImmediateAllocator, MemoryPool

SPIN = """
kernel void spin(global float *a, int length) {
  float x = a[0];
  for (int i = 0; i < length; ++i) x = x * 0.999f + 0.5f;
  a[0] = x;
}"""

steps, length = int(sys.argv[1]), int(sys.argv[2])
platform = next(p for p in cl.get_platforms() if "Portable" in p.name)
context = cl.Context([platform.get_devices()[0]])
queue = cl.CommandQueue(context)
pool = MemoryPool(ImmediateAllocator(queue))
spin = cl.Program(context, SPIN).build().spin
a = cl_array.to_device(queue, np.ones(1000, np.float32), allocator=pool)


def step(number: int) -> None:
    b = a + 1
    spin(queue, (1,), None, b.data, np.int32(length))
    if number % 10 == 0:
        b.get()
    queue.finish()


if not length:
    length, took = 1000, 0
    while took < 1_000_000:
        length += length // 4
        took = 1 << 62
        for _ in range(5):
            begin = time.monotonic_ns()
            spin(queue, (1,), None, a.data, np.int32(length))
            queue.finish()
            took = min(took, time.monotonic_ns() - begin)
    print(length)
    sys.exit()
for number in range(20):
    step(number)
begin, cpu = time.monotonic_ns(), time.thread_time_ns()
for number in range(steps):
    step(number)
print(time.monotonic_ns() - begin, time.thread_time_ns() - cpu)
