"""Tagged objects by OCCA's Python package: as tags.c, without a slice. usage: tags.py MODE ROUNDS"""

import os
import sys

import numpy as np
import occa

mode, rounds = sys.argv[1], int(sys.argv[2])
entries = 64
file = os.path.join(os.path.dirname(os.path.abspath(__file__)), "work.okl")
values = np.zeros(entries, dtype=np.float32)

first = occa.Device(mode=mode, platform_id=0, device_id=0)
second = occa.Device(mode=mode, platform_id=0, device_id=0, occatrace={"label": "second"})
tagged = first.malloc(entries, dtype=np.float32, props={"occatrace": {"trace": True, "label": "residual"}})
plain = first.malloc(entries, dtype=np.float32)
own = second.malloc(entries, dtype=np.float32)
scale = first.build_kernel(file, "scaleTwice")
add = first.build_kernel(file, "addVectors", props={"occatrace": {"label": "sum of two"}})
spin = first.build_kernel(file, "spin", props={"occatrace": {"trace": False}})
other = second.build_kernel(file, "scaleTwice")

for memory in (tagged, plain, own):
    memory.copy_from(values)
for _ in range(rounds):
    scale(np.intc(entries), np.float32(1.5), tagged)
    scale(np.intc(entries), np.float32(1.5), plain)
    add(np.intc(entries), plain, plain, plain)
    spin(np.intc(1), tagged)
    other(np.intc(entries), np.float32(1.5), own)
first.finish()
second.finish()
for memory in (tagged, plain):
    memory.copy_to(values)
# PoCL does not survive what is freed after it at the end of the interpreter.
for thing in (scale, add, spin, other, tagged, plain, own, first, second):
    thing.free()
