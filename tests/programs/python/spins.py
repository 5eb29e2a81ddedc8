"""What border.c and caller.c call."""

import time
from typing import Any


def spin(ns: int) -> int:
    begin = time.monotonic_ns()
    while time.monotonic_ns() < begin + ns:
        pass
    return time.monotonic_ns() - begin


def define(ffi: Any) -> None:
    def spin_in_python(ns: int) -> int:
        if ns < 0:
            raise ValueError("negative")
        return spin(ns)

    ffi.def_extern(onerror=lambda *_: None, error=-1)(spin_in_python)
