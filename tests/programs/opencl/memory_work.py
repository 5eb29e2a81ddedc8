"""OpenCL memory with a known truth: buffers, a pinned one, one on host memory, an image, a sub-buffer that outlives its
parent's handle, SVM, a buffer that only a command still holds, a pool, a loop, and one leak. Prints its own ledger."""

import json
import os
import time
from typing import Any

import numpy as np
import pyopencl as cl
import pyopencl.tools

platform = next(p for p in cl.get_platforms() if "Portable" in p.name)
context = cl.Context([platform.get_devices()[0]])
queue = cl.CommandQueue(context)
flags = cl.mem_flags
changes: list[tuple[str, int]] = []


def note(kind: str, size: int) -> None:
    changes.append((kind, size))


def settled() -> None:
    """No command runs, and the driver has let go of what they used, which it does a moment after it says so."""
    queue.finish()
    time.sleep(0.1)


plain = cl.Buffer(context, flags.READ_WRITE, 1 << 20)
note("device", 1 << 20)
pinned = cl.Buffer(context, flags.READ_WRITE | flags.ALLOC_HOST_PTR, 1 << 18)
note("host", 1 << 18)
host = np.zeros(1000, np.float32)
wrapped = cl.Buffer(context, flags.READ_WRITE | flags.USE_HOST_PTR, hostbuf=host)
note("wrapped", host.nbytes)
image = cl.create_image(
    context, flags.READ_ONLY, cl.ImageFormat(cl.channel_order.RGBA, cl.channel_type.UNORM_INT8), shape=(64, 32)
)
note("image", 64 * 32 * 4)

# The sub-buffer holds its parent, whose own handle goes first.
part = plain.get_sub_region(0, 4096)
plain.release()
part.release()
note("device", -(1 << 20))

svm = cl.svm_empty(context, cl.svm_mem_flags.READ_WRITE, (2048,), np.dtype(np.float32))
note("svm", svm.nbytes)
del svm
note("svm", -8192)

# Released while a command that uses it has not even begun: it ends when the command has.
program = cl.Program(context, "kernel void twice(global float *x) { x[get_global_id(0)] *= 2; }").build()
kernel = cl.Kernel(program, "twice")
gate = cl.UserEvent(context)
held = cl.Buffer(context, flags.READ_WRITE, 1 << 14)
note("device", 1 << 14)
kernel.set_arg(0, held)
cl.enqueue_nd_range_kernel(queue, kernel, (16,), None, wait_for=[gate])
held.release()
early = cl.Buffer(context, flags.READ_WRITE, 1 << 13)
note("device", 1 << 13)
gate.set_status(cl.command_execution_status.COMPLETE)
settled()
note("device", -(1 << 14))
early.release()
note("device", -(1 << 13))

pool = pyopencl.tools.MemoryPool(pyopencl.tools.ImmediateAllocator(queue))
first = pool.allocate(1 << 16)
block = pool.managed_bytes  # it rounds up
note("device", block)
for _ in range(50):  # the pool gives the same block again and again
    first.release()
    first = pool.allocate(1 << 16)
second = pool.allocate(1 << 16)
assert pool.managed_bytes == 2 * block
note("device", block)
settled()
first.release()
second.release()
pool.free_held()
note("device", -block)
note("device", -block)

for _ in range(30):
    cl.Buffer(context, flags.READ_WRITE, 5000).release()
    note("device", 5000)
    note("device", -5000)

# One reference too many.
leak = cl.Buffer(context, flags.READ_WRITE, 12345)
note("device", 12345)
again: Any = cl.Buffer.from_int_ptr(leak.int_ptr, retain=True)
leak.release()

queue.finish()
image.release()
note("image", -8192)
wrapped.release()
note("wrapped", -host.nbytes)
pinned.release()
note("host", -(1 << 18))
print(json.dumps({"changes": changes, "leak": [again.int_ptr, 12345]}), flush=True)
os._exit(0)
