"""Brings the chosen slices to the encoder, window by window, and the file to its place."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from occatrace.core import halfway
from occatrace.core.files import partial_name
from occatrace.store import memory
from occatrace.store.tables import Store
from occatrace.store.windows import ahead
from occatrace.views.timeline.counters import Counters, Series
from occatrace.views.timeline.selection import Columns, Part, Selection, plain
from occatrace.views.timeline.sources import ARGUMENTS, TEXTS, Options
from occatrace.views.timeline.stacks import Stacks
from occatrace.views.timeline.text import ChromeTimeline, CsvTimeline, Encoder
from occatrace.views.timeline.tracks import Known, Tracks, salt

Format = Literal["perfetto", "csv", "json", "otf2"]

_ALL = Options()
MOST_PARTS = 1000
_AT_ONCE = 16  # files that are written at the same time
_GIVEN_BACK = 4  # windows, after which free memory goes back to the system

Progress = Callable[[float], None]
Announce = Callable[[int], None]


class TooManyParts(Exception):
    """More files than anybody wants."""


@dataclass(frozen=True)
class Written:
    """What was written."""

    slices: int
    counter_values: int
    bytes: int  # before compression
    samples: int
    files: tuple[Path, ...]
    ranks: str = ""  # of the run, if ranks were asked for
    ranks_missing: tuple[int, ...] = ()
    note: str = ""  # of what the timeline lacks


def write(
    store: Store,
    path: Path,
    options: Options = _ALL,
    progress: Progress = lambda fraction: None,
    announce: Announce = lambda bytes_: None,
    format: Format = "perfetto",
) -> Written:
    """Write the timeline of a run to `path`, compressed where it ends in .gz; with `split` to several files beside it.

    Files are replaced only when all went well. `announce` is told the expected size before the writing begins.
    """
    partials: dict[Path, Path] = {}
    counters: Counters | None = None
    stacks: Stacks | None = None
    selection = Selection(store, options)
    try:
        counters = Counters(store, selection, options)
        stacks = Stacks(store, selection, options) if format == "perfetto" else None
        announce(selection.bytes + counters.bytes + (stacks.bytes if stacks else 0))
        asked = [name for name, _ in options.tracks]
        job = _Job(store, asked, selection, counters, stacks, format, path.suffix == ".gz", progress)
        if options.split != "rank" and len(job.parts) > MOST_PARTS:
            raise TooManyParts(f"would make {len(job.parts):,} files, more than {MOST_PARTS:,}; write a longer time")
        for first in range(0, len(job.parts), _AT_ONCE):
            files = {}
            for part in job.parts[first : first + _AT_ONCE]:
                final = part_path(path, options.split, part.number)
                files[part.number] = partials[final] = halfway.add_path(partial_name(final))
            job.write(files)
        for final, partial in partials.items():
            partial.replace(final)
    finally:
        for partial in partials.values():
            halfway.remove_path(partial)
        selection.close()
        if counters:
            counters.close()
        if stacks:
            stacks.close()
    there = {
        row[0] for row in store.con.execute("SELECT DISTINCT rank FROM processes WHERE rank IS NOT NULL").fetchall()
    }
    missing = tuple(rank for rank in options.ranks if rank not in there)
    known = f"{min(there)} to {max(there)}" if missing and there else ""
    return Written(job.slices, job.values, job.bytes, job.samples, tuple(partials), known, missing, selection.note)


def part_path(path: Path, split: int | str | None, number: int) -> Path:
    """The file of one part of a timeline: x.rank3.pftrace, x.007.pftrace."""
    if split is None:
        return path
    word = f"{number:03}" if split != "rank" else f"rank{number - 1}" if number else "norank"
    first, dot, rest = path.name.partition(".")
    return path.with_name(f"{first}.{word}{dot}{rest}")


def _encoder(format: Format, path: Path, origin: int, realtime: int, gzip: bool, store: Store) -> Encoder:
    if format == "csv":
        return CsvTimeline(path, origin, gzip)
    if format == "json":
        return ChromeTimeline(path, origin, gzip)
    if format == "otf2":
        from occatrace.views.timeline.otf2 import Otf2Timeline

        return Otf2Timeline(path, origin, realtime, store)
    from occatrace import _native

    return _native.Timeline(str(path), origin, realtime, gzip)


@dataclass(frozen=True)
class _File:
    """A file that is being written."""

    timeline: Encoder
    tracks: Tracks


class _Job:
    """The writing of all files of a timeline."""

    def __init__(
        self,
        store: Store,
        asked: Sequence[str],
        selection: Selection,
        counters: Counters,
        stacks: Stacks | None,
        format: Format,
        gzip: bool,
        progress: Progress,
    ) -> None:
        self._store, con = store, store.con
        self._selection, self._counters, self._stacks = selection, counters, stacks
        self._known = Known(con, asked)
        self._format, self._gzip, self._progress = format, gzip, progress
        run = con.execute("SELECT run FROM processes WHERE realtime_ns > 0 ORDER BY process LIMIT 1").fetchall()
        self._unique = salt(run[0][0] if run and run[0][0] else "")
        begins = [selection.origin, *(series.begin for series in counters.series)]
        self._origin = min([*begins, stacks.begin] if stacks and stacks.begin is not None else begins)
        known = {part.number: part for part in selection.parts}
        numbers = sorted({*known, *(series.part for series in counters.series), *(stacks.parts if stacks else ())}) or [
            0
        ]
        self.parts = [known.get(number, Part(number, 0)) for number in numbers]
        self._total = max(selection.rows + counters.rows + (stacks.rows if stacks else 0), 1)
        self._done = 0
        self._series: dict[Series, int] = {}
        self.slices = self.values = self.bytes = self.samples = 0

    def write(self, paths: Mapping[int, Path]) -> None:
        """Some files, by the numbers of their parts."""
        files = {number: self._file(number, path) for number, path in paths.items()}
        if not files:
            return
        # The same texts in the same order have the same numbers in all of them.
        texts = next(iter(files.values())).timeline
        strings = np.array([texts.string(text or "(no name)") for text in self._selection.texts], np.uint32)
        same = bool((strings == np.arange(len(strings))).all())  # mostly
        arguments = [(column, kind, texts.string(name)) for column, kind, name in ARGUMENTS]
        # Closed before all else is, as it reads in a thread of its own.
        with closing(ahead(self._selection.windows([*paths], by_track=self._format == "csv"))) as windows:
            for number, rows in enumerate(windows):
                if number % _GIVEN_BACK == 0:
                    memory.give_back()
                for name in TEXTS:
                    if name in rows and not (same and not isinstance(rows[name], np.ma.MaskedArray)):
                        rows[name] = _numbered(rows[name], strings)
                for of_file in _runs(rows, slice(0, len(rows["part"])), "part"):
                    _add(files[int(rows["part"][of_file.start])], rows, of_file, self._unique, arguments)
                self._advance(len(rows["kind"]))
        for number, file in files.items():
            file.tracks.finish()
            for samples in self._stacks.write(number, file.tracks) if self._stacks else ():
                self.samples += samples
                self._advance(samples)
            self._count(number, file)
            file.timeline.close()
            self.slices += int(file.timeline.slices)
            self.values += int(file.timeline.counter_values)
            self.bytes += int(file.timeline.bytes)

    def _file(self, number: int, path: Path) -> _File:
        """A file with its texts and processes."""
        timeline = _encoder(
            self._format, path, self._origin, self._selection.realtime + self._origin, self._gzip, self._store
        )
        for text in self._selection.texts:
            timeline.string(text or "(no name)")
        for _, _, name in ARGUMENTS:
            timeline.string(name)
        tracks = Tracks(self._known, timeline, self._unique, number)
        for process in self._selection.processes.get(number, ()):
            tracks.process(process)
        return _File(timeline, tracks)

    def _count(self, number: int, file: _File) -> None:
        """The counters of a file."""
        for series in self._counters.series:
            if series.part != number:
                continue
            # The files of one timeline know it by one number.
            known = self._series.setdefault(
                replace(series, part=0, first=0, rows=0, begin=0, before=0), len(self._series)
            )
            counter = file.tracks.counter(known, series)
            for window in self._counters.values(series):
                counter.add(plain(window["t"]).astype(np.uint64), _numbers(plain(window["value"])))
                self._advance(len(window["t"]))

    def _advance(self, rows: int) -> None:
        self._done += rows
        self._progress(self._done / self._total)


def _numbers(values: npt.NDArray[np.float64]) -> npt.NDArray[Any]:
    """Whole numbers take less room than others."""
    whole = values.astype(np.int64)
    return whole if (whole == values).all() else values


def _runs(rows: Columns, of: slice, *names: str) -> list[slice]:
    """The rows `of`, cut where one of some columns changes."""
    columns = [plain(rows[name])[of] for name in names]
    new = np.logical_or.reduce([column[1:] != column[:-1] for column in columns])
    bounds = [of.start, *(np.flatnonzero(new) + (of.start + 1)).tolist(), of.stop]
    return [slice(*pair) for pair in pairwise(bounds)]


def _add(file: _File, rows: Columns, part: slice, unique: int, arguments: list[tuple[str, str, int]]) -> None:
    """Hand the rows of one file to its encoder, all tracks at once: a window has few rows of each."""
    spans = _runs(rows, part, "kind", "track")
    kinds, tracks = (plain(rows[name]) for name in ("kind", "track"))
    lanes = [file.tracks.lanes(int(kinds[span.start]), int(tracks[span.start])) for span in spans]
    given = []
    for column, kind, name in arguments:
        if column not in rows:
            continue
        values = rows[column][part]
        present = _present(values)
        if present is None or present.any():
            given.append((name, kind, np.ma.getdata(values), present))
    ties = None
    if "arrows" in rows:
        offsets = rows["offsets"][part.start : part.stop + 1]
        if offsets[-1] > offsets[0]:
            ids = rows["arrows"][offsets[0] : offsets[-1]]
            # Another run's flows must not meet ours; an id is never 0 for ids begin at 2.
            ties = (offsets - offsets[0], ids ^ np.uint64(unique & ~0xFFFF_FFFF))
    instant = plain(rows["instant"][part]).astype(bool) if "instant" in rows else np.zeros(0, bool)
    file.timeline.add(
        lanes,
        np.array([*(span.start - part.start for span in spans), part.stop - part.start], np.uint64),
        plain(rows["start_ns"])[part],
        plain(rows["end_ns"])[part],
        plain(rows["name"])[part],
        plain(rows["category"])[part],
        ties,
        given,
        instant if instant.any() else None,
    )


def _numbered(values: npt.NDArray[Any], strings: npt.NDArray[np.uint32]) -> npt.NDArray[Any]:
    """Numbers of texts as those of the encoder."""
    out = strings.take(np.ma.getdata(values), mode="clip")  # what is null may be any number
    return np.ma.array(out, mask=values.mask) if isinstance(values, np.ma.MaskedArray) else out


def _present(values: npt.NDArray[Any]) -> npt.NDArray[np.bool_] | None:
    """Which rows have a value; None: all."""
    return ~np.ma.getmaskarray(values) if np.ma.is_masked(values) else None
