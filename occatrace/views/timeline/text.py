"""Timelines as text: CSV with a row per slice, and Chrome's trace events. They take what the Perfetto encoder takes."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any, Protocol, TextIO, cast

import numpy as np
import numpy.typing as npt

from occatrace.render.csv import rows_to
from occatrace.views.timeline.lanes import Lanes
from occatrace.views.timeline.sources import ARGUMENTS

Array = npt.NDArray[Any]
Flows = tuple[Array, Array] | None
Argument = tuple[int, str, Array, Array | None]
Values = Callable[[Any], Any]

COUNTERS = "counters"  # the group of the counters of a process
_FIRST_TRACK = 1 << 30  # numbers of tracks that are no threads, beyond all thread ids


class Track(Protocol):
    """What takes slices."""

    def add(
        self,
        start: Array,
        end: Array,
        name: Array,
        category: Array,
        flows: Flows,
        arguments: Sequence[Argument],
        instant: Array | None = None,
    ) -> None: ...
    def finish(self) -> None: ...


class Series(Protocol):
    """What takes values."""

    def add(self, times: Array, values: Array) -> None: ...


class Encoder(Protocol):
    """What a format must be able to do; occatrace._native.Timeline is one."""

    @property
    def slices(self) -> int: ...
    @property
    def counter_values(self) -> int: ...
    @property
    def bytes(self) -> int: ...
    def string(self, text: str) -> int: ...
    def machine(self, id: int) -> None: ...
    def process(self, uuid: int, pid: int, name: str, cmdline: Sequence[str], labels: Sequence[str]) -> None: ...
    def thread(self, uuid: int, pid: int, tid: int, name: str) -> None: ...
    def group(self, uuid: int, parent: int, name: str, order: int) -> None: ...
    def lanes(self, uuid: int, parent: int, name: str, order: int, nested: bool, announced: bool = False) -> Track: ...
    def counter(self, uuid: int, parent: int, name: str, order: int, unit: str) -> Series: ...
    def add(
        self,
        lanes: Sequence[Any],
        bounds: Array,
        start: Array,
        end: Array,
        name: Array,
        category: Array,
        flows: Flows,
        arguments: Sequence[Argument],
        instant: Array | None = None,
    ) -> None: ...
    def close(self) -> None: ...


class Texts:
    """What all formats but Perfetto's share: texts by number, and who is below whom."""

    def __init__(self, origin: int) -> None:
        self.origin = origin
        self.slices = self.counter_values = 0
        self.bytes = 0  # not known before the end
        self.texts: list[str] = []
        self._numbers: dict[str, int] = {}
        self.names: dict[int, str] = {}  # of processes and groups
        self.parents: dict[int, int] = {}

    def string(self, text: str) -> int:
        """The number of a text."""
        number = self._numbers.setdefault(text, len(self.texts))
        if number == len(self.texts):
            self.texts.append(text)
        return number

    def machine(self, id: int) -> None:
        """Labels of processes tell the host."""

    def add(
        self,
        lanes: Sequence[Track],
        bounds: Array,
        start: Array,
        end: Array,
        name: Array,
        category: Array,
        flows: Flows,
        arguments: Sequence[Argument],
        instant: Array | None = None,
    ) -> None:
        """Slices of many tracks, those from bounds[i] to bounds[i + 1] of lanes[i]."""
        for track, (first, last) in zip(lanes, pairwise(bounds.tolist()), strict=True):
            rows = slice(first, last)
            ties = flows and (flows[0][first : last + 1] - flows[0][first], flows[1][flows[0][first] : flows[0][last]])
            given = [
                (number, kind, values[rows], None if present is None else present[rows])
                for number, kind, values, present in arguments
            ]
            moments = None if instant is None else instant[rows]
            track.add(start[rows], end[rows], name[rows], category[rows], ties, given, moments)

    def root(self, uuid: int) -> int:
        """The process that something belongs to."""
        while uuid in self.parents:
            uuid = self.parents[uuid]
        return uuid


class _Text(Texts):
    """What the text formats share."""

    def __init__(self, path: Path, origin: int, compress: bool) -> None:
        super().__init__(origin)
        self.out = _open(path, compress)

    def arguments(self, given: Sequence[Argument], count: int) -> dict[str, list[Any]]:
        """Columns of arguments, None where a slice has none."""
        out = {}
        for name, kind, values, present in given:
            column = [self.texts[i] for i in values.tolist()] if kind == "text" else values.tolist()
            if present is not None:
                column = [v if p else None for v, p in zip(column, present.tolist(), strict=True)]
            out[self.texts[name]] = column
        return out

    def close(self) -> None:
        """The end of the file."""
        self.out.close()


class CsvTimeline(_Text):
    """One row per slice: start (since the beginning of the run) and duration, where it stands, name, arguments."""

    COLUMNS = tuple(name for _, _, name in ARGUMENTS)

    def __init__(self, path: Path, origin: int, compress: bool = False) -> None:
        super().__init__(path, origin, compress)
        self._threads: dict[int, str] = {}
        self.rows = rows_to(self.out)
        self.rows.writerow(("start_ns", "duration_ns", "process", "track", "name", "category", *self.COLUMNS))

    def process(self, uuid: int, pid: int, name: str, cmdline: Sequence[str], labels: Sequence[str]) -> None:
        """A process."""
        self.names[uuid] = " ".join((name, str(pid), *labels))

    def thread(self, uuid: int, pid: int, tid: int, name: str) -> None:
        """A thread."""
        self._threads[uuid] = f"{name} {tid}".strip()

    def group(self, uuid: int, parent: int, name: str, order: int) -> None:
        """A device."""
        self.names[uuid], self.parents[uuid] = name, parent

    def lanes(self, uuid: int, parent: int, name: str, order: int, nested: bool, announced: bool = False) -> Track:
        """A track."""
        track = f"{self.names[parent]}: {name}" if parent in self.parents else name
        if announced:
            track = self._threads[uuid]
        return _CsvTrack(self, self.names[self.root(parent)], track)

    def counter(self, uuid: int, parent: int, name: str, order: int, unit: str) -> Series:
        """Counters are no slices."""
        return _NoSeries()


class _CsvTrack:
    """A track of the CSV."""

    def __init__(self, timeline: CsvTimeline, process: str, track: str) -> None:
        self._timeline = timeline
        self._process, self._track = process, track

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
        """Rows."""
        timeline, texts, count = self._timeline, self._timeline.texts, len(start)
        given = timeline.arguments(arguments, count)
        timeline.rows.writerows(
            zip(
                (start - np.uint64(timeline.origin)).tolist(),
                (end - start).tolist(),
                [self._process] * count,
                [self._track] * count,
                [texts[i] for i in name.tolist()],
                [texts[i] for i in category.tolist()],
                *(given.get(column, [None] * count) for column in CsvTimeline.COLUMNS),
                strict=True,
            )
        )
        timeline.slices += count

    def finish(self) -> None:
        """Nothing is open."""


class _NoSeries:
    def add(self, times: Array, values: Array) -> None:
        """Not in this format."""


class ChromeTimeline(_Text):
    """Chrome's trace events: slices are complete events in µs, arrows are flow events, tracks are threads by name."""

    def __init__(self, path: Path, origin: int, compress: bool = False) -> None:
        super().__init__(path, origin, compress)
        self._pids: dict[int, int] = {}
        self._threads: dict[int, int] = {}
        self._tracks = _FIRST_TRACK
        self._first = True
        self.out.write('{"displayTimeUnit":"ns","traceEvents":[')

    def event(self, **fields: Any) -> None:
        """One event of any kind."""
        self.raw(json.dumps(fields, ensure_ascii=False)[1:-1])

    def raw(self, fields: str) -> None:
        """One event, its fields already JSON."""
        self.out.write(("\n{" if self._first else ",\n{") + fields + "}")
        self._first = False

    def process(self, uuid: int, pid: int, name: str, cmdline: Sequence[str], labels: Sequence[str]) -> None:
        """A process. Of two hosts' processes with one id, the second gets another."""
        while pid in self._pids.values():
            pid += 1 << 24
        self._pids[uuid] = pid
        self.names[uuid] = name
        self.event(ph="M", name="process_name", pid=pid, args={"name": name})
        if labels:
            self.event(ph="M", name="process_labels", pid=pid, args={"labels": ", ".join(labels)})

    def thread(self, uuid: int, pid: int, tid: int, name: str) -> None:
        """A thread."""
        self._threads[uuid] = tid
        self.names[uuid] = name

    def group(self, uuid: int, parent: int, name: str, order: int) -> None:
        """A device; its name goes before those of its tracks."""
        self.names[uuid], self.parents[uuid] = name, parent

    def lanes(self, uuid: int, parent: int, name: str, order: int, nested: bool, announced: bool = False) -> Track:
        """A track."""
        pid = self._pids[self.root(parent)]
        if announced:
            name = self.names[uuid]
            first = self._threads[uuid]
            self.event(ph="M", name="thread_name", pid=pid, tid=first, args={"name": name})
        else:
            name = f"{self.names[parent]}: {name}" if parent in self.parents else name
            first = self.track(pid, name)
        return _ChromeTrack(self, pid, first, name, nested)

    def track(self, pid: int, name: str) -> int:
        """A further track; its number."""
        number = self._tracks
        self._tracks += 1
        self.event(ph="M", name="thread_name", pid=pid, tid=number, args={"name": name})
        self.event(ph="M", name="thread_sort_index", pid=pid, tid=number, args={"sort_index": number})
        return number

    def counter(self, uuid: int, parent: int, name: str, order: int, unit: str) -> Series:
        """A counter."""
        known = parent in self.parents and self.names[parent] != COUNTERS
        name = f"{self.names[parent]}: {name}" if known else name
        return _ChromeSeries(self, self._pids[self.root(parent)], name, unit)

    def close(self) -> None:
        """The end of the file."""
        self.out.write("\n]}\n")
        super().close()


class _ChromeTrack:
    """A track of Chrome's format; what overlaps goes to further ones."""

    def __init__(self, timeline: ChromeTimeline, pid: int, first: int, name: str, nested: bool) -> None:
        self._timeline = timeline
        self._pid, self._nested = pid, nested
        self._lanes: Lanes[int, None] = Lanes(nested, lambda count: timeline.track(pid, name) if count else first)

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
        """Events."""
        timeline = self._timeline
        quoted: list[str] = [""] * len(timeline.texts)

        def quote(number: int) -> str:
            if not quoted[number]:
                quoted[number] = json.dumps(timeline.texts[number], ensure_ascii=False)
            return quoted[number]

        starts, ends, names, categories = (a.tolist() for a in (start, end, name, category))
        given = timeline.arguments(arguments, len(starts))
        moments = [False] * len(starts) if instant is None else instant.tolist()
        offsets, ids = (flows[0].tolist(), flows[1].tolist()) if flows else ([0] * (len(starts) + 1), [])
        for row, (s, e) in enumerate(zip(starts, ends, strict=True)):
            tid = self._lanes.place(s, e, None)
            at = f'"pid":{self._pid},"tid":{tid},"ts":{_microseconds(s - timeline.origin)}'
            present = {k: v[row] for k, v in given.items() if v[row] is not None}
            more = f',"args":{json.dumps(present, ensure_ascii=False)}' if present else ""
            what = f'"cat":{quote(categories[row])},"name":{quote(names[row])}'
            shape = '"ph":"i","s":"t",' if moments[row] else f'"ph":"X","dur":{_microseconds(e - s)},'
            timeline.raw(f"{shape}{at},{what}{more}")
            kind = '"s"' if self._nested and not moments[row] else '"f","bp":"e"'
            for flow in ids[offsets[row] : offsets[row + 1]]:
                timeline.raw(f'"ph":{kind},"id":"{flow:x}",{at},"cat":"launch","name":"launch"')
        timeline.slices += len(starts)

    def finish(self) -> None:
        """Events are complete."""


class _ChromeSeries:
    """A counter of Chrome's format."""

    def __init__(self, timeline: ChromeTimeline, pid: int, name: str, unit: str) -> None:
        self._timeline = timeline
        self._head = f'"ph":"C","pid":{pid},"name":{json.dumps(name, ensure_ascii=False)},"args":{{{json.dumps(unit)}:'

    def add(self, times: Array, values: Array) -> None:
        """Values."""
        for time, value in _pairs(times, values):
            self._timeline.raw(f'{self._head}{value}}},"ts":{_microseconds(time - self._timeline.origin)}')
        self._timeline.counter_values += len(times)


def _pairs(times: Array, values: Array) -> Iterator[tuple[int, int]]:
    return zip(times.tolist(), values.tolist(), strict=True)


def _microseconds(ns: int) -> str:
    return f"{ns // 1000}.{ns % 1000:03}"


def _open(path: Path, compress: bool) -> TextIO:
    path.touch(mode=0o600)
    if compress:
        return cast(TextIO, gzip.open(path, "wt", compresslevel=3, encoding="utf-8", newline=""))
    return path.open("w", encoding="utf-8", newline="")
