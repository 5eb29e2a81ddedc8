"""Python that calls C++ (solver.cpp, the argument) through ctypes, which launches a kernel, and calls Python, which calls it again."""

import ctypes
import sys

CALLBACK = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_int)


def in_callback(number: int) -> int:
    return int(library.advance(field, 1, CALLBACK()))  # TRUE in_callback


def run_solver() -> int:
    return int(library.advance(field, 2, CALLBACK(in_callback)))  # TRUE run_solver


library = ctypes.CDLL(sys.argv[1])
library.make.restype, library.make.argtypes = ctypes.c_void_p, [ctypes.c_size_t]
library.advance.argtypes = [ctypes.c_void_p, ctypes.c_int, CALLBACK]
field = library.make(1024)  # TRUE make
sys.exit(run_solver())  # TRUE <module>
