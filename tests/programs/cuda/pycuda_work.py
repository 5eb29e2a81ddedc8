"""pycuda as people use it: a module and its kernels, streams, events, a memory pool, pinned, mapped and managed memory.

Each copy has a size of its own, by which it is known. The module is one for the fake driver.
"""

import sys

import numpy as np
import pycuda.driver as cuda
from pycuda.tools import DeviceMemoryPool, PageLockedMemoryPool

cuda.init()
context = cuda.Device(1).make_context()
module = cuda.module_from_buffer(b"kernel tick 1000000\nkernel empty 0\n")
tick, empty = module.get_function("tick"), module.get_function("empty")
streams = [cuda.Stream() for _ in range(2)]

device = cuda.mem_alloc(1 << 16)
pageable = np.zeros(1 << 16, np.uint8)
pinned = cuda.pagelocked_empty(1 << 16, np.uint8)
mapped = cuda.pagelocked_empty(1 << 16, np.uint8, mem_flags=cuda.host_alloc_flags.DEVICEMAP)
managed = cuda.managed_empty(1 << 16, np.uint8, mem_flags=cuda.mem_attach_flags.GLOBAL)

cuda.memcpy_htod(device, pageable[:1001])
cuda.memcpy_htod_async(device, pinned[:1002], streams[0])
cuda.memcpy_dtoh_async(mapped[:1003], device, streams[0])
cuda.memcpy_htod_async(device, pinned[5:1009], streams[0])
cuda.memcpy_dtoh(pageable[:1005], device)
cuda.memcpy_dtod_async(managed.ctypes.data, int(device), 1006, streams[0])
cuda.memset_d8_async(device, 7, 1007, streams[0])

begin, end = cuda.Event(), cuda.Event()
begin.record(streams[0])
for _ in range(5):
    tick(np.int32(1), block=(32, 1, 1), grid=(4, 1), stream=streams[0])
end.record(streams[0])
for _ in range(20):
    empty(np.int32(1), block=(64, 1, 1), grid=(2, 2), stream=streams[1])
for stream in streams:
    stream.synchronize()
took = end.time_since(begin)

pool, host_pool = DeviceMemoryPool(), PageLockedMemoryPool()
for _ in range(10):
    block = pool.allocate(5000)
    block.free()
host = host_pool.allocate((1010,), np.uint8)
cuda.memcpy_htod(device, host)
print(pool.active_blocks, pool.held_blocks, took >= 5.0)
del block, host
pool.free_held()
host_pool.free_held()
try:
    cuda.mem_alloc(1 << 50)
except cuda.MemoryError as error:
    print("too much" if "out of memory" in str(error) else error)
context.pop()
sys.stdout.flush()
