"""Live quantities: what `occatrace.live()` tells a program about its own device work and memory while it runs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

try:
    from occatrace import _annotate

    _PRESENT = _annotate.present()
except ImportError:  # the native layer is not built: nothing of this process is traced either
    _PRESENT = False

# As _annotate.live() gives them.
_Found = (
    tuple[
        int,
        int,
        int,
        int,
        list[tuple[str, int, int, int]],
        list[tuple[str, int, int]],
        list[tuple[str, str, str, int, int, int]],
    ]
    | None
)

_MOVES = ("HtoD", "DtoH", "DtoD", "HtoH")


@dataclass(frozen=True, slots=True)
class Work:
    """Finished device work of a kind, or of a kernel."""

    count: int = 0
    ns: int = 0  #: sum of their durations on the device, in ns
    bytes: int = 0  #: 0 for kernels

    def __sub__(self, earlier: Work) -> Work:
        return Work(self.count - earlier.count, self.ns - earlier.ns, self.bytes - earlier.bytes)


@dataclass(frozen=True, slots=True)
class Memory:
    """Memory objects of one API, kind and, of OCCA's objects, mode."""

    api: str  #: as in the model: "opencl", "cuda", "hip", "openmp", "occa"
    kind: str  #: "device", "host" (pinned), "mapped" (too), "managed", "svm", "image", "pipe", "array"
    mode: str  #: of OCCA's objects: "Serial", "OpenCL", …; else ""
    in_use: int  #: bytes
    high_water: int  #: bytes: the most in use at once
    objects: int  #: how many are in use


_NO_WORK = Work()


@dataclass(frozen=True, slots=True)
class Live:
    """What the devices have done and hold, at one moment. Times are in ns, sizes in bytes."""

    traced: bool  #: False: nothing of this process is recorded, and everything below is 0 or empty
    since_ns: int = 0  #: CLOCK_MONOTONIC from which it counts
    time_ns: int = 0  #: CLOCK_MONOTONIC of this moment
    memory_in_use: int = 0  #: bytes of device memory (not pinned host memory), of all APIs, counted once
    memory_high_water: int = 0  #: bytes: the most that has been in use at once
    work: Mapping[str, Work] = field(default_factory=dict)  #: by kind: "kernel", "HtoD", "DtoH", "fill", "map", …
    kernels: Mapping[str, Work] = field(default_factory=dict)  #: by the kernel's name
    memory: tuple[Memory, ...] = ()
    _before: _Found = field(default=None, repr=False, compare=False)

    @property
    def kernel_count(self) -> int:
        """Kernels that have finished."""
        return self.work.get("kernel", _NO_WORK).count

    @property
    def kernel_ns(self) -> int:
        """The sum of their durations, in ns."""
        return self.work.get("kernel", _NO_WORK).ns

    @property
    def bytes_moved(self) -> int:
        """Bytes of the copies that have finished, between host and devices and within them."""
        return sum(self.work[kind].bytes for kind in _MOVES if kind in self.work)

    def since(self, earlier: Live) -> Live:
        """The work between an earlier moment and this one; memory is as it is now."""
        return Live(
            self.traced,
            earlier.time_ns or self.since_ns,
            self.time_ns,
            self.memory_in_use,
            self.memory_high_water,
            _less(self.work, earlier.work),
            _less(self.kernels, earlier.kernels),
            self.memory,
        )

    @property
    def since_last(self) -> Live:
        """The work since the call of `live()` before this one (since the begin, if there was none)."""
        return self if self._before is None else self.since(_live_of(self._before))


def _less(now: Mapping[str, Work], earlier: Mapping[str, Work]) -> dict[str, Work]:
    less = {name: work - earlier[name] if name in earlier else work for name, work in now.items()}
    return {name: work for name, work in less.items() if work.count}


_UNTRACED = Live(False)
_last: _Found = None


def _live_of(found: _Found, before: _Found = None) -> Live:
    if found is None:
        return _UNTRACED
    since, now, in_use, high, works, kernels, memory = found
    return Live(
        True,
        since,
        now,
        in_use,
        high,
        {kind: Work(count, ns, size) for kind, count, ns, size in works},
        {name: Work(count, ns) for name, count, ns in kernels},
        tuple(Memory(*row) for row in memory),
        # After a fork the child counts its own.
        before if before is not None and before[0] == since else None,
    )


def read() -> Live:
    """The same as `live()` for others than the program itself: its `since_last` stays what it is."""
    return _live_of(_annotate.live() if _PRESENT else None)


def live() -> Live:
    """What the devices have done and hold now, without stopping anything; costs some microseconds.

    The first call begins to count; with OCCATRACE_LIVE=1 in the environment it is counted from the start of the process.
    """
    global _last
    before, _last = _last, _annotate.live() if _PRESENT else None
    return _live_of(_last, before)
