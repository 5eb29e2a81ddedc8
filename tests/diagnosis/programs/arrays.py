"""pyopencl, many problems: arrays.py PROBLEM [STEPS]."""

import os
import sys
import time

import numpy as np
import pyopencl as cl
import pyopencl.array

SOURCE = """
kernel void work(global float *x, int n) {
    size_t i = get_global_id(0);
    float y = x[i];
    for (int k = 0; k < n; k++) y = y * 1.0001f + 0.5f;
    x[i] = y;
}
"""
LONG = 100_000
platform = next(p for p in cl.get_platforms() if "Portable" in p.name)
context = cl.Context([platform.get_devices()[0]])
queue = cl.CommandQueue(context)
memory = cl.array.zeros(queue, 64, np.float32)
kernel = cl.Program(context, SOURCE).build().work
large = np.zeros(1 << 24, np.float32)
buffer = cl.Buffer(context, cl.mem_flags.READ_WRITE, large.nbytes)
steps = int(sys.argv[2]) if len(sys.argv) > 2 else 200


def launch(loops):
    kernel(queue, (64,), None, memory.data, np.int32(loops))


def python_loop():
    for _ in range(steps):
        launch(LONG // 10)
        queue.flush()
        sum(k * k for k in range(60_000))  # what the device waits for


def sync_each():
    for _ in range(steps):
        launch(LONG // 4)
        queue.finish()  # wait
        time.sleep(0.0005)


def builds():
    for i in range(steps // 20):
        other = cl.Program(context, SOURCE.replace("0.5f", f"0.5f + {os.getpid()}{i}.0f")).build().work  # build
        other(queue, (64,), None, memory.data, np.int32(100))
    queue.finish()


def unchanged():
    for _ in range(steps // 4):
        cl.enqueue_copy(queue, buffer, large)  # copy
        launch(LONG // 20)
    queue.finish()


def single_values():
    for _ in range(20 * steps):
        memory[3].get()  # copy
    queue.finish()


def temporaries():
    part = large[: 1 << 21]
    for _ in range(steps):
        cl.Buffer(context, cl.mem_flags.COPY_HOST_PTR, hostbuf=part).release()  # allocation


def clean_queue():
    for _ in range(steps):
        launch(2 * LONG)
    queue.finish()


def clean_rarely():
    for i in range(steps):
        launch(2 * LONG)
        if i % 50 == 49:
            queue.finish()


def clean_blocks():
    for _ in range(4):
        for _ in range(steps // 4):
            launch(2 * LONG)
        memory.get()


def clean_prepared():
    """One long time in Python is no loop."""
    launch(LONG)
    queue.finish()
    sum(k * k for k in range(4_000_000))
    for _ in range(steps):
        launch(2 * LONG)
        queue.flush()
    queue.finish()


globals()[sys.argv[1]]()
