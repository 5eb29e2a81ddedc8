"""What border.c calls."""

import time


def define(ffi):
    @ffi.def_extern(onerror=lambda *_: None, error=-1)
    def spin_in_python(ns):
        begin = time.monotonic_ns()
        if ns < 0:
            raise ValueError("negative")
        while time.monotonic_ns() < begin + ns:
            pass
        return time.monotonic_ns() - begin
