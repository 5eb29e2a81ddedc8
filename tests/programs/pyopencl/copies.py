"""Copies from and to every kind of memory that the host has with OpenCL, each of a size of its own."""

import numpy as np
import pyopencl as cl

platform = next(p for p in cl.get_platforms() if "Portable" in p.name)
context = cl.Context([platform.get_devices()[0]])
queue = cl.CommandQueue(context)
flags = cl.mem_flags
device, other = (cl.Buffer(context, flags.READ_WRITE, 1 << 16) for _ in range(2))


def seen_by_host(buffer):
    array, _ = cl.enqueue_map_buffer(queue, buffer, cl.map_flags.READ | cl.map_flags.WRITE, 0, (1 << 16,), np.uint8)
    return array


pageable = np.zeros(1 << 16, np.uint8)
pinned_buffer = cl.Buffer(context, flags.READ_WRITE | flags.ALLOC_HOST_PTR, 1 << 16)
own = np.zeros(1 << 16, np.uint8)
registered_buffer = cl.Buffer(context, flags.READ_WRITE | flags.USE_HOST_PTR, hostbuf=own)
pinned, registered, mapped = (seen_by_host(buffer) for buffer in (pinned_buffer, registered_buffer, other))

cl.enqueue_copy(queue, device, pageable[:1001])
cl.enqueue_copy(queue, pageable[:1002], device)
cl.enqueue_copy(queue, device, pinned[:1003])
cl.enqueue_copy(queue, pinned[100:1104], device)
cl.enqueue_copy(queue, device, registered[7:1012])
cl.enqueue_copy(queue, device, mapped[:1006])
cl.enqueue_copy(queue, pageable[:1007], device)
image = cl.create_image(
    context, flags.READ_WRITE, cl.ImageFormat(cl.channel_order.RGBA, cl.channel_type.UNSIGNED_INT8), shape=(16, 16)
)
cl.enqueue_copy(queue, image, pageable[:1024].copy(), origin=(0, 0), region=(16, 16))
svm, more = (cl.SVMAllocation(context, size, 0, cl.svm_mem_flags.READ_WRITE, queue=queue) for size in (1009, 1010))
cl.enqueue_copy(queue, svm, pageable[:1009])
cl.enqueue_copy(queue, pageable[:1010], more)
queue.finish()
for array in (pinned, registered, mapped):
    array.base.release(queue)
# Memory that lies where a mapping was is the host's again when that buffer has gone.
del pinned, registered, mapped
pinned_buffer.release()
cl.enqueue_copy(queue, device, pageable[:1011])
queue.finish()
print("done")
