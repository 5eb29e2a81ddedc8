"""Spends processor time in Python, in the extension module of spinning.c and in a child, and says how much of each."""

import os
import sys
import time

import spinning  # type: ignore[import-not-found]


def in_python(seconds: float) -> float:
    begin = time.thread_time()
    total = 0
    while time.thread_time() - begin < seconds:
        for i in range(10000):
            total += i * i
    return time.thread_time() - begin


child = os.fork()
if child == 0:
    print("child", in_python(0.2), spinning.spin("own", 0.1), flush=True)
    sys.exit(0)
os.waitpid(child, 0)
print("parent", in_python(0.3), sum(spinning.spin(where, 0.15) for where in ("own", "libc", "python")))
