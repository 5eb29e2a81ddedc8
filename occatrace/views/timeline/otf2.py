"""Timelines as OTF2 archives, written by the package otf2 of the Score-P project. They take what the Perfetto encoder takes."""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from occatrace.errors import StoreError
from occatrace.store.tables import Store
from occatrace.views.timeline.lanes import Lanes
from occatrace.views.timeline.otf2_mpi import Event, MpiEvents
from occatrace.views.timeline.text import Argument, Array, Flows, Series, Texts, Track

_PARADIGMS = {"mpi": "MPI", "openmp": "OPENMP", "opencl": "OPENCL", "cuda": "CUDA", "cudart": "CUDA", "hip": "HIP"}
_NONE: tuple[Sequence[Event], Sequence[Event]] = ((), ())


class Otf2Timeline(Texts):
    """A location per thread, and per lane of a queue; slices are regions that are entered and left."""

    def __init__(self, path: Path, origin: int, realtime: int, store: Store) -> None:
        super().__init__(origin)
        try:
            otf2: Any = importlib.import_module("otf2")
        except ImportError:
            raise StoreError("OTF2 is written by the package otf2: pip install 'occatrace[otf2]'") from None
        self._otf2 = otf2
        self._trace = otf2.writer.Writer(str(path), timer_resolution=1_000_000_000)
        self._shift = realtime - origin
        self._root = self._trace.definitions.system_tree_node("run")
        self._groups: dict[int, Any] = {}
        self._regions: dict[tuple[int, int], Any] = {}
        self._threads: dict[int, str] = {}
        self.mpi = MpiEvents(store, otf2, self._trace)
        self._defined = False
        self.numbers: dict[int, int] = {}  # of processes and threads, by the ids of their tracks
        self._locations: dict[int, Any] = {}  # of threads that stand for ranks, until they have events

    def process(self, uuid: int, pid: int, name: str, cmdline: Sequence[str], labels: Sequence[str]) -> None:
        """A process."""
        self.names[uuid] = f"{name} {pid}"
        self._groups[uuid] = self._trace.definitions.location_group(self.names[uuid], system_tree_parent=self._root)

    def thread(self, uuid: int, pid: int, tid: int, name: str) -> None:
        """A thread."""
        self._threads[uuid] = f"{name} {tid}".strip()

    def group(self, uuid: int, parent: int, name: str, order: int) -> None:
        """A device; its name goes before those of its tracks."""
        self.names[uuid], self.parents[uuid] = name, parent

    def lanes(self, uuid: int, parent: int, name: str, order: int, nested: bool, announced: bool = False) -> Track:
        """A track."""
        where = f"{self.names[parent]}: {name}" if parent in self.parents else name
        kinds = self._otf2.LocationType
        kind = kinds.CPU_THREAD if announced else kinds.ACCELERATOR_STREAM if parent in self.parents else kinds.UNKNOWN
        thread = self.numbers.get(uuid) if nested else None
        return _Otf2Track(self, self.root(parent), self._threads[uuid] if announced else where, kind, nested, thread)

    def counter(self, uuid: int, parent: int, name: str, order: int, unit: str) -> Series:
        """Counters are not written."""
        return _NoSeries()

    def location(self, process: int, name: str, kind: Any, thread: int | None) -> Any:
        """Where the events of a new lane go."""
        if not self._defined:
            self._defined = True
            self.mpi.define(self._of_rank)
        location = self._locations.pop(thread, None) if thread is not None else None
        if location is None:
            location = self._trace.definitions.location(name, type=kind, group=self._groups[process])
        return self._trace.event_writer_from_location(location)

    def _of_rank(self, rank: int, of: tuple[int, int, str] | None) -> Any:
        """The location of the thread that stands for a rank; an empty one, if nothing of it was recorded."""
        make, kind = self._trace.definitions, self._otf2.LocationType.CPU_THREAD
        groups = {self.numbers[uuid]: group for uuid, group in self._groups.items() if uuid in self.numbers}
        if of is None or of[1] not in groups:
            group = make.location_group(f"rank {rank} (nothing recorded)", system_tree_parent=self._root)
            return make.location(f"rank {rank}", type=kind, group=group)
        thread, process, label = of
        self._locations[thread] = make.location(label, type=kind, group=groups[process])
        return self._locations[thread]

    def region(self, name: int, category: int) -> Any:
        """What is entered and left."""
        key = (name, category)
        if key not in self._regions:
            api = self.texts[category]
            paradigm = getattr(self._otf2.Paradigm, _PARADIGMS.get(api, "NONE"))
            self._regions[key] = self._trace.definitions.region(self.texts[name], description=api, paradigm=paradigm)
        return self._regions[key]

    def at(self, time: int) -> int:
        """A moment by the clock of the file, CLOCK_REALTIME."""
        return time + self._shift

    def close(self) -> None:
        """The end of the archive."""
        self._trace.close()


class _Otf2Track:
    """A track; what does not nest goes to further locations."""

    def __init__(
        self, timeline: Otf2Timeline, process: int, name: str, kind: Any, nested: bool, thread: int | None
    ) -> None:
        self._timeline, self._process, self._name = timeline, process, name
        self._kind, self._thread = kind, thread
        self._lanes: Lanes[Any, Any] = Lanes(nested, self._row, self._leave)

    def add(
        self,
        start: Array,
        end: Array,
        name: Array,
        category: Array,
        flows: Flows,
        arguments: Sequence[Argument],
        instant: Array | None = None,
    ) -> None:
        """Events. What the format has no place for, arguments and arrows, is left out, as are moments of MPI: see MpiEvents."""
        timeline = self._timeline
        if instant is not None:
            of_mpi = np.array([text == "mpi" for text in timeline.texts], bool)[category]
            start, end, name, category = (each[~(of_mpi & instant)] for each in (start, end, name, category))
        for begin, until, text, of in zip(*(a.tolist() for a in (start, end, name, category)), strict=True):
            region = timeline.region(text, of)
            now, later = _NONE
            if self._thread is not None and timeline.texts[of] == "mpi":
                now, later = timeline.mpi.take(self._thread, begin)
            out = self._lanes.place(begin, until, (region, later))
            out.enter(timeline.at(begin), region)
            for event in now:
                event(out, timeline.at(begin))
        timeline.slices += len(start)

    def _row(self, count: int) -> Any:
        name = self._name + (f" ({count + 1})" if count else "")
        return self._timeline.location(self._process, name, self._kind, self._thread)

    def _leave(self, writer: Any, until: int, what: tuple[Any, Sequence[Event]]) -> None:
        region, events = what
        for event in events:
            event(writer, self._timeline.at(until))
        writer.leave(self._timeline.at(until), region)

    def finish(self) -> None:
        """Leave what is open."""
        self._lanes.finish()


class _NoSeries:
    def add(self, times: Array, values: Array) -> None:
        """Not in this format."""
