"""Live quantities for PyPI's logpyle: what the devices did in each time step, and the memory in use after it.

    manager = logpyle.LogManager("run.sqlite", "w")
    occatrace.logpyle.add_quantities(manager, kernels=("advect", "_occa_diffuse_0"))

Work counts to the step in which it was seen finished. In a process that is not traced all values are None.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import Protocol

try:
    from logpyle import LogManager, PostLogQuantity
except ImportError as error:
    raise ImportError("occatrace.logpyle needs logpyle: pip install logpyle") from error

from occatrace.inprocess.live import Live, Work, read

__all__ = [
    "LiveQuantity",
    "add_quantities",
    "bytes_moved",
    "kernel_count",
    "kernel_time",
    "memory_high_water",
    "memory_in_use",
    "pool_held",
    "pool_in_use",
]


class LiveQuantity(PostLogQuantity):
    """A number of `occatrace.live()`: of the moment, or of the work since it was last logged."""

    def __init__(self, name: str, unit: str, description: str, value: Callable[[Live], float]) -> None:
        super().__init__(name, unit, description)
        self._value = value
        self._last: Live | None = None

    def prepare_for_tick(self) -> None:
        """The first step begins: what was done before belongs to no step."""
        if self._last is None:
            self._last = read()

    def __call__(self) -> float | None:
        now = read()
        last, self._last = self._last, now
        if not now.traced:
            return None
        return self._value(now if last is None or last.since_ns != now.since_ns else now.since(last))


def memory_in_use(name: str = "occa_memory_in_use") -> LiveQuantity:
    """Device memory in use after the step, in bytes."""
    return LiveQuantity(name, "B", "device memory in use", lambda now: now.memory_in_use)


def memory_high_water(name: str = "occa_memory_high_water") -> LiveQuantity:
    """The most device memory in use at once so far, in bytes."""
    return LiveQuantity(name, "B", "most device memory in use at once", lambda now: now.memory_high_water)


def kernel_time(kernel: str | None = None, name: str | None = None) -> LiveQuantity:
    """Time of the kernels of the step on the device, in s; of one kernel, by its name."""
    described = f"device time of {kernel or 'kernels'}"
    return LiveQuantity(
        name or _named("occa_kernel_time", kernel), "s", described, lambda now: _of(now, kernel).ns / 1e9
    )


def kernel_count(kernel: str | None = None, name: str | None = None) -> LiveQuantity:
    """Kernels of the step; those of one name."""
    described = f"launches of {kernel or 'kernels'}"
    return LiveQuantity(name or _named("occa_kernel_count", kernel), "1", described, lambda now: _of(now, kernel).count)


def bytes_moved(kind: str | None = None, name: str | None = None) -> LiveQuantity:
    """Bytes that were copied in the step; of one kind (HtoD, DtoH, DtoD)."""

    def value(now: Live) -> float:
        return now.bytes_moved if kind is None else now.work.get(kind, Work()).bytes

    return LiveQuantity(name or _named("occa_bytes_moved", kind), "B", f"bytes copied {kind or ''}".strip(), value)


class Pool(Protocol):
    """What is asked of a memory pool of pyopencl."""

    @property
    def managed_bytes(self) -> int: ...
    @property
    def active_bytes(self) -> int: ...


class _PoolQuantity(PostLogQuantity):
    def __init__(self, name: str, description: str, value: Callable[[], int]) -> None:
        super().__init__(name, "B", description)
        self._value = value

    def __call__(self) -> float:
        return self._value()


def pool_held(pool: Pool, name: str = "pool_held") -> PostLogQuantity:
    """Memory that a pool of pyopencl holds after the step, in bytes, be it in use or kept; in untraced programs too."""
    return _PoolQuantity(name, "memory held by the pool", lambda: pool.managed_bytes)


def pool_in_use(pool: Pool, name: str = "pool_in_use") -> PostLogQuantity:
    """How much of it arrays use, in bytes."""
    return _PoolQuantity(name, "memory of the pool in use", lambda: pool.active_bytes)


def add_quantities(manager: LogManager, kernels: Iterable[str] = ()) -> None:
    """All of them, and time and number of each kernel that is named."""
    for quantity in (memory_in_use(), memory_high_water(), kernel_time(), kernel_count(), bytes_moved()):
        manager.add_quantity(quantity)
    for kernel in kernels:
        manager.add_quantity(kernel_time(kernel))
        manager.add_quantity(kernel_count(kernel))


def _of(now: Live, kernel: str | None) -> Work:
    return now.work.get("kernel", Work()) if kernel is None else now.kernels.get(kernel, Work())


def _named(quantity: str, of: str | None) -> str:
    # logpyle makes it the name of a table.
    return quantity if of is None else f"{quantity}_{re.sub('[^0-9A-Za-z_]', '_', of)}"
