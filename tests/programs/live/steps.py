"""pyopencl in time steps of known counts and bytes; prints what occatrace.live() says on the way, as JSON.

usage: steps.py [LOG]: with a file, the steps are logged by logpyle.
"""

from __future__ import annotations

import json
import os
import sys
from typing import Any

import numpy as np
import pyopencl as cl
from pyopencl.tools import ImmediateAllocator, MemoryPool

import occatrace
from occatrace.inprocess.live import Live

STEPS, ENTRIES = 5, 1 << 12
SOURCE = """
__kernel void twice(__global float *a) { a[get_global_id(0)] *= 2; }
__kernel void shift(__global float *a) { a[get_global_id(0)] += 1; }
"""


def shown(now: Live) -> dict[str, Any]:
    return {
        "traced": now.traced,
        "seconds": (now.time_ns - now.since_ns) / 1e9,
        "in_use": now.memory_in_use,
        "high": now.memory_high_water,
        "count": now.kernel_count,
        "ns": now.kernel_ns,
        "moved": now.bytes_moved,
        "work": {kind: [work.count, work.bytes] for kind, work in now.work.items()},
        "kernels": {name: [work.count, work.ns] for name, work in now.kernels.items()},
        "memory": [[m.api, m.kind, m.mode, m.in_use, m.high_water, m.objects] for m in now.memory],
    }


def main() -> None:
    device = next(d for p in cl.get_platforms() if "Portable" in p.name for d in p.get_devices())
    context = cl.Context([device])
    queue = cl.CommandQueue(context)
    program = cl.Program(context, SOURCE).build()
    twice, shift = cl.Kernel(program, "twice"), cl.Kernel(program, "shift")
    values = np.zeros(ENTRIES, np.float32)
    kept = [cl.Buffer(context, cl.mem_flags.READ_WRITE, values.nbytes)]
    manager = None
    if len(sys.argv) > 1:
        import logpyle

        from occatrace.logpyle import add_quantities, pool_held, pool_in_use

        manager = logpyle.LogManager(sys.argv[1], "w", capture_warnings=False)
        add_quantities(manager, kernels=["twice", "shift"])
        pool = MemoryPool(ImmediateAllocator(queue))
        manager.add_quantity(pool_held(pool))
        manager.add_quantity(pool_in_use(pool))
    seen = [shown(occatrace.live())]
    for step in range(STEPS):
        if manager:
            manager.tick_before()
        cl.enqueue_copy(queue, kept[0], values)
        for _ in range(step + 1):
            twice(queue, (ENTRIES,), None, kept[0])
        shift(queue, (ENTRIES,), None, kept[0])
        cl.enqueue_copy(queue, values, kept[0])
        kept.append(cl.Buffer(context, cl.mem_flags.READ_WRITE, values.nbytes))
        queue.finish()
        if manager:
            arrays = [pool.allocate(1 << 16) for _ in range(step + 1)]
            if step == STEPS - 1:
                arrays.clear()
            manager.tick_after()
        seen.append(shown(occatrace.live().since_last))
    total = shown(occatrace.live())
    for buffer in kept[1:]:
        buffer.release()
    after = shown(occatrace.live())
    if manager:
        manager.close()
    child = None
    if hasattr(os, "fork"):
        read, write = os.pipe()
        pid = os.fork()
        if pid == 0:
            os.write(write, json.dumps(shown(occatrace.live())).encode())
            os._exit(0)
        os.waitpid(pid, 0)
        child = json.loads(os.read(read, 65536))
    print(json.dumps({"seen": seen, "total": total, "after": after, "child": child, "buffer": values.nbytes}))
    sys.stdout.flush()


main()
