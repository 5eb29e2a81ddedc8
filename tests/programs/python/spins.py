"""What border.c calls."""

import time
from typing import Any


def define(ffi: Any) -> None:
    def spin_in_python(ns: int) -> int:
        begin = time.monotonic_ns()
        if ns < 0:
            raise ValueError("negative")
        while time.monotonic_ns() < begin + ns:
            pass
        return time.monotonic_ns() - begin

    ffi.def_extern(onerror=lambda *_: None, error=-1)(spin_in_python)
