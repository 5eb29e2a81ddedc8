"""Device work inside ranges, by pyopencl in two threads: prints how many launches and bytes each range has."""

from __future__ import annotations

import json
import threading

import numpy as np
import pyopencl as cl

import occatrace

platform = next(p for p in cl.get_platforms() if "Portable" in p.name)
context = cl.Context([platform.get_devices()[0]])
program = cl.Program(context, "kernel void twice(global float *x) { x[get_global_id(0)] *= 2; }").build()
host = np.ones(1024, dtype=np.float32)


def work(queue: cl.CommandQueue, launches: int, copies: int) -> None:
    kernel = cl.Kernel(program, "twice")
    buffer = cl.Buffer(context, cl.mem_flags.READ_WRITE, host.nbytes)
    for _ in range(copies):
        cl.enqueue_copy(queue, buffer, host)
    for _ in range(launches):
        kernel(queue, host.shape, None, buffer)


def other() -> None:
    queue = cl.CommandQueue(context)
    with occatrace.annotate("thread"):
        work(queue, 7, 1)
    queue.finish()


queue = cl.CommandQueue(context)
with occatrace.annotate("outer"):
    work(queue, 3, 1)
    with occatrace.annotate("inner"):
        work(queue, 5, 2)
    with occatrace.annotate("inner"):
        work(queue, 2, 0)
    with occatrace.annotate("idle"):
        pass
    thread = threading.Thread(target=other)
    thread.start()
    thread.join()
    with occatrace.annotate("outer"):  # one name, one in the other: counted once
        work(queue, 1, 0)
work(queue, 4, 4)
queue.finish()
print(
    json.dumps(
        {
            "outer": {"kernels": 3 + 5 + 2 + 1, "copies": 3, "calls": 2},
            "inner": {"kernels": 7, "copies": 2, "calls": 2},
            "thread": {"kernels": 7, "copies": 1, "calls": 1},
        }
    )
)
