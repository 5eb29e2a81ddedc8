"""Brings the chosen slices to the encoder, window by window, and the file to its place."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from occatrace.tables import Store
from occatrace.timeline.selection import ARGUMENTS, TEXTS, Columns, Options, Selection
from occatrace.timeline.text import ChromeTimeline, CsvTimeline, Encoder
from occatrace.timeline.tracks import Tracks, salt

BYTES_PER_SLICE = 65  # on average, before compression, with arguments and flows
BYTES_PER_VALUE = 25

Format = Literal["perfetto", "csv", "json"]

_ALL = Options()

Progress = Callable[[float], None]
Announce = Callable[[int], None]


@dataclass(frozen=True)
class Written:
    """What was written."""

    slices: int
    counter_values: int
    bytes: int  # before compression


def write(
    store: Store,
    path: Path,
    options: Options = _ALL,
    progress: Progress = lambda fraction: None,
    announce: Announce = lambda bytes_: None,
    format: Format = "perfetto",
) -> Written:
    """Write the timeline of a run to `path`, compressed where it ends in .gz.

    The file is replaced only when all went well. `announce` is told the expected size before the writing begins.
    """
    partial = path.with_name(f".{path.name}.partial-{os.getpid()}")
    selection = Selection(store, options)
    try:
        values = sum(counter[4] for counter in selection.counters)
        announce(selection.rows * BYTES_PER_SLICE + values * BYTES_PER_VALUE)
        result = _write(store.con, selection, partial, path.suffix == ".gz", format, progress)
        partial.replace(path)
    finally:
        partial.unlink(missing_ok=True)
        selection.close()
    return result


def _encoder(format: Format, path: Path, origin: int, realtime: int, unique: int, gzip: bool) -> Encoder:
    if format == "csv":
        return CsvTimeline(path, origin, gzip)
    if format == "json":
        return ChromeTimeline(path, origin, gzip)
    from occatrace import _native

    return _native.Timeline(str(path), origin, realtime, gzip)


def _write(con: Any, selection: Selection, path: Path, gzip: bool, format: Format, progress: Progress) -> Written:
    clock = con.execute(
        "SELECT realtime_ns - mono_ns::HUGEINT, run FROM processes WHERE realtime_ns > 0 ORDER BY process LIMIT 1"
    )
    offset, run = (clock.fetchall() or [(0, "")])[0]
    unique = salt(run or "")
    realtime = selection.origin + int(offset)
    timeline = _encoder(format, path, selection.origin, realtime, unique, gzip)
    strings = np.array([timeline.string(text or "(no name)") for text in selection.texts], np.uint32)
    arguments = [(column, kind, timeline.string(name)) for column, kind, name in ARGUMENTS]
    tracks = Tracks(con, timeline, unique)
    total = max(selection.rows + sum(counter[4] for counter in selection.counters), 1)
    done = 0
    for rows, flows in selection.slices():
        rows = {name: strings[plain(values)] if name in TEXTS else values for name, values in rows.items()} | {
            f"{name}?": _present(rows[name]) for name in rows
        }
        for part in _by_track(rows):
            key = (int(rows["kind"][part.start]), int(rows["track"][part.start]))
            _add(tracks.lanes(*key), rows, part, flows, unique, arguments)
        done += len(rows["rn"])
        progress(done / total)
    tracks.finish()
    first = 0
    for number, (kind, process, device, mode, count, _) in enumerate(selection.counters):
        counter = tracks.counter(number, kind, process, device, mode)
        for window in selection.values(first, count):
            counter.add(plain(window["t"]), plain(window["value"]))
            done += len(window["t"])
            progress(done / total)
        first += count
    timeline.close()
    return Written(int(timeline.slices), int(timeline.counter_values), int(timeline.bytes))


def _by_track(rows: Columns) -> list[slice]:
    """The rows of each track."""
    kind, track = plain(rows["kind"]), plain(rows["track"])
    cuts = np.flatnonzero((np.diff(kind) != 0) | (np.diff(track) != 0)) + 1
    bounds = [0, *cuts.tolist(), len(kind)]
    return [slice(*pair) for pair in pairwise(bounds)]


def _add(
    lanes: Any, rows: Columns, part: slice, flows: Columns, unique: int, arguments: list[tuple[str, str, int]]
) -> None:
    given = []
    for column, kind, name in arguments:
        present = rows[f"{column}?"][part]
        if present.any():
            given.append((name, kind, plain(rows[column][part]), None if present.all() else present))
    numbers = plain(rows["rn"])[part]
    lowest, highest = np.searchsorted(plain(flows["rn"]), (numbers[0], numbers[-1] + 1))
    ties = None
    if highest > lowest:
        offsets = np.searchsorted(plain(flows["rn"])[lowest:highest], np.append(numbers, numbers[-1] + 1))
        # Another run's flows must not meet ours; an id is never 0 for ids begin at 2.
        ties = (offsets.astype(np.uint32), plain(flows["id"])[lowest:highest] ^ np.uint64(unique & ~0xFFFF_FFFF))
    lanes.add(
        plain(rows["start_ns"])[part],
        plain(rows["end_ns"])[part],
        rows["name"][part],
        rows["category"][part],
        ties,
        given,
    )


def _present(values: npt.NDArray[Any]) -> npt.NDArray[np.bool_]:
    """Which rows have a value."""
    mask: npt.NDArray[np.bool_] = ~np.ma.getmaskarray(values)
    return mask


def plain(values: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """DuckDB hands out masked arrays where a column may be null."""
    result: npt.NDArray[Any] = values.filled(0) if isinstance(values, np.ma.MaskedArray) else values
    return result
