"""Device work from known lines, called in several ways."""

import logging
import threading
from typing import Any

import numpy as np
import pyopencl as cl

context = cl.create_some_context(interactive=False)
queue = cl.CommandQueue(context)
program = cl.Program(context, "kernel void twice(global float *a) { a[get_global_id(0)] *= 2; }").build()


def copy_in(buffer: Any, array: Any) -> None:
    cl.enqueue_copy(queue, buffer, array)  # line: copy in


def launch(buffer: Any, count: int) -> None:
    program.twice(queue, (count,), None, buffer)  # line: launch


def step(count: int) -> None:
    array = np.ones(count, np.float32)
    buffer = cl.Buffer(context, cl.mem_flags.READ_WRITE, array.nbytes)  # line: allocation
    copy_in(buffer, array)
    for _ in range(3):
        launch(buffer, count)
    cl.enqueue_copy(queue, array, buffer)  # line: copy out
    assert (array == 8).all()


for _ in range(2):
    step(1024)
thread = threading.Thread(target=step, args=(512,))
thread.start()
thread.join()
logging.getLogger("lines").warning("about to end")
print("right")
