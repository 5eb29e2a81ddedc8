"""Samples of the stack in Python functions and in C that they call, each of so many periods as its number."""

import _ctypes
import ctypes
import sys
import threading
from collections.abc import Callable

sys.stderr.reconfigure(encoding="utf-8")  # type: ignore[attr-defined]
library = ctypes.PyDLL(sys.argv[1])  # keeps the interpreter's lock, as most modules do
unlocked = ctypes.CDLL(sys.argv[1])
number = 0


def told() -> int:
    """The number of the next sample. Says where its caller is: module and functions with their lines, the outermost first."""
    global number
    number += 1
    frame, places = sys._getframe(1), list[str]()
    while frame is not None and frame.f_code.co_filename == __file__:
        places.append(f"{frame.f_code.co_qualname}:{frame.f_lineno}")
        frame = frame.f_back  # type: ignore[assignment]
    print(f"TRUE {number} {' '.join(reversed(places))}", file=sys.stderr)
    return number


def leaf(of: ctypes.CDLL) -> None:
    of.take_sample(told())


def recursive(depth: int) -> None:
    if depth:
        recursive(depth - 1)
    else:
        leaf(library)


def generated(count: int):  # type: ignore[no-untyped-def]
    for _ in range(count):
        leaf(unlocked)
        yield 1


class Solver:
    def step(self, key: int) -> int:
        leaf(library)
        return -key


for depth in range(5):
    recursive(depth)
print(sum(generated(2)), sorted([2, 1], key=Solver().step), [leaf(unlocked) for _ in range(2)])
gone: dict[str, object] = {}
exec(compile("def temporary(of, told):\n    of.take_sample(told())\n", __file__, "exec"), gone)
gone["temporary"](library, told)  # type: ignore[operator]
del gone["temporary"]  # before its sample is written


def über(then: Callable[[], None]) -> None:
    then()


def größe_目() -> None:
    leaf(library)


def 𐐀(depth: int = 1) -> None:
    """Python, C, Python, C, and once more."""
    library.call_back(ctypes.PYFUNCTYPE(None)(lambda: 𐐀(depth - 1) if depth else leaf(library)))


über(größe_目)
thread = threading.Thread(target=recursive, args=(2,))
thread.start()
thread.join()
ctypes.CDLL("libOpenCL.so.1").clGetPlatformIDs(0, None, ctypes.byref(ctypes.c_uint()))
# A library that was just loaded may be unknown for 0.1 s; where one is closed, all are looked at.
_ctypes.dlclose(ctypes.CDLL("libm.so.6")._handle)
𐐀()
