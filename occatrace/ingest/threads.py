"""Thread ids of a host, which may be used again, to threads of the run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from occatrace.ingest.reading import Slots, occurring

U64 = npt.NDArray[np.uint64]

_MAX_TID = 1 << 22  # Linux' limit of process ids; beyond it a trace is damaged


class ThreadMap:
    """Thread ids of one host to threads of the run. `reused`: when each thread of an id that occurs again began."""

    def __init__(self, first: int, reused: Mapping[int, Sequence[int]] | None = None) -> None:
        self._lut = np.full(1 << 15, -1, np.int32)
        self.first = first
        self.tids: list[int] = []
        self.starts: list[int] = []  # of each thread; 0: not told
        self._reused: dict[int, tuple[U64, npt.NDArray[np.int32]]] = {}
        for tid, starts in (reused or {}).items():
            slots = np.arange(self.end, self.end + len(starts), dtype=np.int32)
            self.tids += [tid] * len(starts)
            self.starts += list(starts)
            self._reused[tid] = (np.sort(np.asarray(starts, np.uint64)), slots)
            self._grow(tid)
            self._lut[tid] = slots[-1]

    @classmethod
    def known(cls, first: int, threads: Sequence[tuple[int, int]]) -> ThreadMap:
        """Threads that are all known, as (thread id, start), numbered in this order."""
        result = cls(first)
        of_tid: dict[int, list[tuple[int, int]]] = {}
        for slot, (tid, start) in enumerate(threads, first):
            of_tid.setdefault(tid, []).append((start, slot))
            result.tids.append(tid)
            result.starts.append(start)
            result._grow(tid)
            result._lut[tid] = slot
        for tid, instances in of_tid.items():
            if len(instances) > 1:
                starts, slots = zip(*sorted(instances), strict=True)
                result._reused[tid] = (np.array(starts, np.uint64), np.array(slots, np.int32))
        return result

    @property
    def end(self) -> int:
        """One past the last thread."""
        return self.first + len(self.tids)

    def _grow(self, tid: int) -> None:
        if tid >= len(self._lut):
            grown = np.full(1 << int(tid).bit_length(), -1, np.int32)
            grown[: len(self._lut)] = self._lut
            self._lut = grown

    def begin(self, tid: int, start: int) -> None:
        """A thread says that it has begun: where another one had its id before, it is a new one from then on."""
        if tid >= _MAX_TID:
            return
        self._grow(tid)
        own = [i for i, known in enumerate(self.tids) if known == tid] if self._lut[tid] >= 0 else []
        if any(self.starts[i] == start for i in own):
            return
        if len(own) == 1 and self.starts[own[0]] == 0:
            self.starts[own[0]] = start
            return
        self._lut[tid] = self.end
        self.tids.append(tid)
        self.starts.append(start)
        if own:
            own.append(len(self.tids) - 1)
            own.sort(key=lambda i: self.starts[i])
            starts = np.array([self.starts[i] for i in own], np.uint64)
            self._reused[tid] = (starts, np.array([self.first + i for i in own], np.int32))

    def of(self, tids: npt.NDArray[Any], ts: npt.NDArray[Any]) -> Slots:
        """The thread of each event, from its thread id and time."""
        if not len(tids):
            return np.empty(0, np.int32)
        if int(tids.max()) >= _MAX_TID:
            tids = np.where(tids < _MAX_TID, tids, 0)
        self._grow(int(tids.max()))
        slots: Slots = self._lut[tids]
        if slots.min() < 0:
            new = occurring(tids[slots < 0], len(self._lut))
            self._lut[new] = np.arange(self.end, self.end + len(new), dtype=np.int32)
            self.tids += new.tolist()
            self.starts += [0] * len(new)
            slots = self._lut[tids]
        for tid, (starts, instances) in self._reused.items():
            mask = tids == tid
            if mask.any():
                slots[mask] = instances[np.maximum(np.searchsorted(starts, ts[mask], "right") - 1, 0)]
        return slots
