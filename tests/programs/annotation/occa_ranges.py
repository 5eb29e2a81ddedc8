"""OCCA kernels inside ranges of occatrace.annotate; prints the kernel calls of each range. usage: occa_ranges.py MODE"""

from __future__ import annotations

import json
import os
import sys

import numpy as np
import occa

import occatrace

mode = sys.argv[1]
entries = 1000
device = occa.Device(mode=mode, platform_id=0, device_id=0)
a = np.arange(entries, dtype=np.float32)
memory = [device.malloc(entries, dtype=np.float32) for _ in range(3)]
source = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "occa", "work.okl")
add = device.build_kernel(source, "addVectors")
scale = device.build_kernel(source, "scaleTwice")
with occatrace.annotate("setup"):
    memory[0].copy_from(a)
    memory[1].copy_from(a)
with occatrace.annotate("solve"):
    for _ in range(5):
        add(np.intc(entries), *memory)
        with occatrace.annotate("scale"):
            scale(np.intc(entries), np.float32(1.5), memory[2])
add(np.intc(entries), *memory)
device.finish()
# PoCL does not survive what is freed after it at the end of the interpreter.
for thing in (add, scale, *memory, device):
    thing.free()
launched = 2 if mode == "OpenCL" else 1
print(json.dumps({"solve": 5 + 5 * launched, "scale": 5 * launched, "copied": 2 * a.nbytes}))
