"""Threads that allocate, launch and free, while another asks for live quantities all the time; prints the sums as JSON.

usage: threads.py THREADS ROUNDS
"""

from __future__ import annotations

import json
import sys
import threading
import time

import pyopencl as cl

import occatrace

SOURCE = "__kernel void {name}(__global int *a) {{ a[get_global_id(0)] += 1; }}"


def main() -> None:
    count, rounds = int(sys.argv[1]), int(sys.argv[2])
    device = next(d for p in cl.get_platforms() if "Portable" in p.name for d in p.get_devices())
    context = cl.Context([device])
    program = cl.Program(context, "\n".join(SOURCE.format(name=f"k{n}") for n in range(count))).build()
    kernels = [cl.Kernel(program, f"k{n}") for n in range(count)]
    occatrace.live()
    left: list[cl.Buffer] = []

    def work(number: int) -> None:
        queue = cl.CommandQueue(context)
        for turn in range(rounds):
            # All of one size, so that addresses go from thread to thread.
            buffer = cl.Buffer(context, cl.mem_flags.READ_WRITE, 4096)
            kernels[number](queue, (16,), None, buffer)
            queue.finish()
            if turn == rounds - 1:
                left.append(buffer)
            else:
                buffer.release()

    threads = [threading.Thread(target=work, args=(number,)) for number in range(count)]
    for thread in threads:
        thread.start()
    before, parts, asked = 0, 0, 0
    right = True
    while any(thread.is_alive() for thread in threads):
        now = occatrace.live()
        right = right and before <= now.kernel_count <= count * rounds and now.memory_in_use <= now.memory_high_water
        right = right and now.kernel_count == sum(kernel.count for kernel in now.kernels.values())
        before = now.kernel_count
        parts += now.since_last.kernel_count
        asked += 1
    for thread in threads:
        thread.join()
    # A driver may let go of what a command used after the queue is done with it.
    deadline = time.monotonic() + 100
    last = occatrace.live()
    parts += last.since_last.kernel_count
    while last.memory_in_use > count * 4096 and time.monotonic() < deadline:
        time.sleep(0.01)
        last = occatrace.live()
        parts += last.since_last.kernel_count
    (memory,) = last.memory
    print(
        json.dumps(
            {
                "kernels": {name: kernel.count for name, kernel in last.kernels.items()},
                "in_use": last.memory_in_use,
                "high": last.memory_high_water,
                "objects": memory.objects,
                "parts": parts,
                "right": right,
                "asked": asked,
            }
        ),
        flush=True,
    )


main()
