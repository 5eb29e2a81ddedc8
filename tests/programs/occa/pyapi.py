"""OCCA's Python package: vector additions with copies of known sizes; prints what it did as a line of JSON.

usage: pyapi.py MODE [CALLS] [TRUTH-FILE]
"""

import json
import os
import sys

import numpy as np
import occa


def main() -> int:
    mode = sys.argv[1] if len(sys.argv) > 1 else "Serial"
    calls = int(sys.argv[2]) if len(sys.argv) > 2 else 10
    entries = 1000
    device = occa.Device(mode=mode, platform_id=0, device_id=0)
    a = np.arange(entries, dtype=np.float32)
    b = 1 - a
    ab = np.zeros(entries, dtype=np.float32)
    o_a = device.malloc(entries, dtype=np.float32)
    o_b = device.malloc(entries, dtype=np.float32)
    o_ab = device.malloc(entries, dtype=np.float32)
    source = os.path.join(os.path.dirname(os.path.abspath(__file__)), "work.okl")
    add = device.build_kernel(source, "addVectors")
    o_a.copy_from(a)
    o_b.copy_from(b)
    for _ in range(calls):
        add(np.intc(entries), o_a, o_b, o_ab)
    device.finish()
    o_ab.copy_to(ab)
    # PoCL does not survive what is freed after it at the end of the interpreter.
    for thing in (add, o_a, o_b, o_ab, device):
        thing.free()

    launched = mode not in ("Serial", "OpenMP")
    truth = {
        "program": "pyapi",
        "mode": mode,
        "kernels": {"addVectors": {"calls": calls, "launches": calls if launched else 0}},
        "copies": {
            "HtoD": {"count": 2, "bytes": 2 * a.nbytes},
            "DtoH": {"count": 1, "bytes": ab.nbytes},
        },
        "allocations": {"count": 3, "bytes": 3 * a.nbytes},
        "slices": 0,
        "builds": 1,
        "finishes": 1,
        "failed": {},
    }
    line = json.dumps(truth) + "\n"
    if len(sys.argv) > 3 and sys.argv[3] != "-":
        with open(sys.argv[3], "w") as file:
            file.write(line)
    else:
        sys.stdout.write(line)
    return 0 if (ab == 1).all() else 1


sys.exit(main())
