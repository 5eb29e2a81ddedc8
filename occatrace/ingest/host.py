"""What the first pass gathers of one host before it is put together."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy.typing as npt

from occatrace import _native
from occatrace.ingest.reading import OpenReader
from occatrace.ingest.threads import ThreadMap


@dataclass
class Tally:
    """The latest state of one tally."""

    ts: int
    values: dict[str, int]
    ticks_hz: int
    buckets: npt.NDArray[Any]
    counts: npt.NDArray[Any]


@dataclass
class Host:
    """What the first pass gathered of one host."""

    name: str
    threads: ThreadMap
    stats: Any = field(default_factory=_native.ThreadStatistics)  # or sums of pieces (folded.py)
    calls: dict[str, Any] = field(default_factory=dict)  # _native.CallStatistics by event, or such sums
    next_seq: dict[int, int] = field(default_factory=dict)  # by thread
    records: dict[str, list[dict[str, Any]]] = field(default_factory=dict)
    tallies: dict[tuple[int, int], Tally] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)
    unknown: dict[str, int] = field(default_factory=dict)
    first_ns: int | None = None  # its first call, work, range or Python code begins
    owners: set[int] = field(default_factory=set)  # threads that have an `owner` record

    def begins(self, moment: int | None) -> None:
        """A call, work, a range or Python code begins then."""
        if moment is not None and (self.first_ns is None or moment < self.first_ns):
            self.first_ns = moment

    def reused(self) -> dict[int, list[int]]:
        """Thread ids that several threads had, with the times at which each began."""
        starts: dict[int, list[int]] = {}
        for record in self.records.get("thread", ()):
            starts.setdefault(int(record["tid"]), []).append(int(record["ts"]))
        return {tid: sorted(times) for tid, times in starts.items() if len(times) > 1}


@dataclass(frozen=True)
class HostTrace:
    """The trace of one host."""

    host: str
    open: OpenReader
    gathered: Callable[[], tuple[Host, set[str]]] | None = None
    """Of a trace whose pieces are tables already (occatrace/store/stream.py): what they are together, and views of raw tables."""
