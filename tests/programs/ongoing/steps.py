"""Does as many steps as the file FOLDER/steps says, says in FOLDER/done.RANK how many are done, and waits for more; ends when
the file says "end". A step: one write and one read of 64 KiB, the kernel "once" once, the kernel "twice" twice."""

import os
import sys
import time
from pathlib import Path

import numpy as np
import pyopencl as cl

SOURCE = """
kernel void once(global float *a) { a[get_global_id(0)] += 1; }
kernel void twice(global float *a) { for (int i = 0; i < 100; i++) a[get_global_id(0)] += 1; }
"""

folder = Path(sys.argv[1])
rank = os.environ.get("PMI_RANK") or os.environ.get("OMPI_COMM_WORLD_RANK") or "0"
platform = next(p for p in cl.get_platforms() if "Portable Computing Language" in p.name)
context = cl.Context(platform.get_devices()[:1])
queue = cl.CommandQueue(context)
program = cl.Program(context, SOURCE).build()
once, twice = cl.Kernel(program, "once"), cl.Kernel(program, "twice")
values = np.zeros(16384, np.float32)
buffer = cl.Buffer(context, cl.mem_flags.READ_WRITE, values.nbytes)
done = 0
while (wanted := (folder / "steps").read_text().strip()) != "end":
    while done < int(wanted or 0):
        cl.enqueue_copy(queue, buffer, values)
        once(queue, values.shape, None, buffer)
        for _ in range(2):
            twice(queue, values.shape, None, buffer)
        cl.enqueue_copy(queue, values, buffer)
        done += 1
    (folder / f"new.{rank}").write_text(f"{done} {os.getpid()}")
    os.replace(folder / f"new.{rank}", folder / f"done.{rank}")
    time.sleep(0.01)
assert values[0] == done * 201, values[0]
sys.stdout.write(f"steps {done}\n")
