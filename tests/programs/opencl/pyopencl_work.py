"""A pyopencl program: kernels, copies, a map, device arrays and its own profiling; prints what it did as JSON."""

import json
import os
import sys

import numpy as np
import pyopencl as cl
import pyopencl.array

launches = int(sys.argv[1]) if len(sys.argv) > 1 else 50
wanted = os.environ.get("CASES_PLATFORM", "Portable")
platform = next(p for p in cl.get_platforms() if wanted in p.name)
context = cl.Context([platform.get_devices()[0]])
queue = cl.CommandQueue(context)
program = cl.Program(
    context, "kernel void twice(global float *x) { size_t i = get_global_id(0); x[i] = 2 * x[i]; }"
).build()
kernel = cl.Kernel(program, "twice")

host = np.ones(1024, dtype=np.float32)
buffer = cl.Buffer(context, cl.mem_flags.READ_WRITE, host.nbytes)
cl.enqueue_copy(queue, buffer, host)
for _ in range(launches):
    kernel(queue, host.shape, None, buffer)
back = np.empty_like(host)
cl.enqueue_copy(queue, back, buffer)
mapped, _ = cl.enqueue_map_buffer(queue, buffer, cl.map_flags.READ, 0, host.shape, host.dtype)
same = bool((mapped == back).all())
mapped.base.release(queue)
queue.finish()

asked = cl.CommandQueue(context, properties=cl.command_queue_properties.PROFILING_ENABLE)
event = kernel(asked, host.shape, None, buffer)
event.wait()
try:
    unasked = kernel(queue, host.shape, None, buffer)
    unasked.wait()
    seen = unasked.profile.end
    not_available = False
except cl.RuntimeError:
    not_available = True
array = cl.array.to_device(queue, host)
total = float((array + array).get().sum())
print(
    json.dumps(
        {
            "twice": launches + 2,
            "same": same,
            "profiled": event.profile.end > event.profile.start,
            "properties": int(queue.properties),
            "not_available": not_available,
            "sum": total,
        }
    )
)
