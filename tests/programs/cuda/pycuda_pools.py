"""pycuda's memory pools on the fake driver, and what they say of themselves, as JSON."""

import json
import os
import sys

import numpy as np
import pycuda.driver as cuda
from pycuda.tools import DeviceMemoryPool, PageLockedMemoryPool

cuda.init()
context = cuda.Device(0).make_context()
said = []


def say(pool):
    said.append([pool.managed_bytes, pool.active_bytes, pool.held_blocks, pool.active_blocks])


pool, host_pool = DeviceMemoryPool(), PageLockedMemoryPool()  # line: pools
for _ in range(5):
    block = pool.allocate(5000)  # line: block
    cuda.memcpy_htod(int(block), np.zeros(4000, np.uint8))
    del block
kept = pool.allocate(6000)  # line: kept
say(pool)
for _ in range(3):
    array = host_pool.allocate((500,), np.float64)  # line: pinned
    cuda.memcpy_htod(int(kept), array)
    view = array[10:]
    del array
    say(host_pool)
    del view
freed = pool.allocate(7000)
freed.free()
del freed
say(pool)
pool.free_held()
say(pool)
print(json.dumps(said))
sys.stdout.flush()
context.pop()
os._exit(0)
