"""OCCA from Python, with a line for each kind of work: 3 allocations, 2 copies in, 4 and 2 calls of kernels, 1 copy out."""

import os
import sys

import numpy as np
import occa

entries = 1000
device = occa.Device(mode=sys.argv[1], platform_id=0, device_id=0)
host = np.arange(entries, dtype=np.float32)
source = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "occa", "work.okl")
add = device.build_kernel(source, "addVectors")


def allocate() -> occa.Memory:
    return device.malloc(entries, dtype=np.float32)  # line: allocation


a, b, c = (allocate() for _ in range(3))
for memory in (a, b):
    memory.copy_from(host)  # line: copy in
for _ in range(4):
    add(np.intc(entries), a, b, c)  # line: many
for _ in range(2):
    add(np.intc(entries), b, a, c)  # line: few
c.copy_to(host)  # line: copy out
device.finish()
for thing in (add, a, b, c, device):
    thing.free()
print("right" if host[-1] == 2 * (entries - 1) else host)
