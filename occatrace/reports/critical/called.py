"""The outermost traced calls of the threads of a run, for questions about one thread after another. Of more calls than memory has
room for, all are read once and kept in files by threads; a thread that has too many alone is read by itself. No output."""

from __future__ import annotations

import itertools
import shutil
import tempfile
import weakref
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from occatrace.core import disk
from occatrace.reports.critical import labels
from occatrace.reports.critical.labels import Labels, Spans

if TYPE_CHECKING:
    from occatrace.store.tables import Store

AT_ONCE = 1 << 20  # calls that are held at a time
_ROW = np.dtype([("s", "<i8"), ("e", "<i8"), ("label", "<i4"), ("thread", "<i4")])


@dataclass
class _Group:
    """Threads whose calls are in one file: the calls as they came, or, once somebody asked for them, the outermost in order."""

    file: Path
    threads: Sequence[int]
    counts: dict[int, int] | None = None  # of the outermost calls of each thread, in the order of the file


class Called:
    """The outermost calls of each thread of a run."""

    def __init__(self, store: Store, named: Labels, zero: int) -> None:
        self._store, self._labels, self._zero = store, named, zero
        self._held: dict[int, Spans | None] = {}
        self._all = False
        self._groups: dict[int, _Group] | None = None

    def of(self, thread: int) -> Spans | None:
        """The outermost calls of a thread; None: it has none."""
        if thread not in self._held and not self._all:
            found = self._read(thread)
            self._held[thread] = None
            self._held.update(found)
        return self._held.get(thread)

    def hold(self, threads: Sequence[int]) -> None:
        """Keep the calls of these threads in memory, and read no others."""
        if not self._all:
            self._held.clear()  # before there are as many again
            self._held = dict(labels.calls(self._store, self._labels, self._zero, threads))
            self._all = True

    def held(self, thread: int) -> Spans | None:
        """The calls of a thread if they are in memory."""
        return self._held.get(thread)

    @cached_property
    def _counts(self) -> Mapping[int, int]:
        """How many single calls each thread has."""
        sql = "SELECT thread, sum(calls)::BIGINT FROM call_stats WHERE source = 'event' GROUP BY thread ORDER BY thread"
        return dict(self._store.con.execute(sql).fetchall())

    def _read(self, thread: int) -> dict[int, Spans]:
        """The calls of a thread, and of others that are read with it. What was held before is forgotten where it is too much."""
        if self._groups is None:
            few = [group for group in self._together() if self._count(group) <= AT_ONCE]
            self._groups = self._write(few) if len(few) > 1 else {}
        if thread in self._groups:
            group = self._groups[thread]
            self.forget(self._count(group.threads))
            return self._of_group(group)
        together = next((those for those in self._together() if thread in those), [thread])
        self.forget(self._count(together))
        return labels.calls(self._store, self._labels, self._zero, together)

    def _count(self, threads: Sequence[int]) -> int:
        return sum(self._counts.get(thread, 0) for thread in threads)

    def forget(self, coming: int = 0) -> None:
        """Make room in memory where there are too many calls, with so many that come."""
        if not self._all and coming + sum(len(spans.start) for spans in self._held.values() if spans) > AT_ONCE:
            self._held.clear()

    def _together(self) -> Iterator[list[int]]:
        """All threads, in groups of so few calls that memory has room for one."""
        group: list[int] = []
        count = 0
        for thread, calls in self._counts.items():
            if group and count + calls > AT_ONCE:
                yield group
                group, count = [], 0
            group.append(thread)
            count += calls
        if group:
            yield group

    def _write(self, together: Sequence[Sequence[int]]) -> dict[int, _Group]:
        """Write the calls of these threads into files, one for those of each group; by thread, in which they are. Nothing where the
        disk has no room: then all calls are gone through for each group."""
        folder = Path(tempfile.mkdtemp(prefix="calls-", dir=self._store.scratch))
        gone = weakref.finalize(self, shutil.rmtree, folder, ignore_errors=True)
        groups = [_Group(folder / str(number), threads) for number, threads in enumerate(together)]
        # Numbers of 16 bits are sorted in a tenth of the time.
        group_of = np.full(max(self._counts) + 1, -1, np.int16 if len(groups) < 1 << 15 else np.int32)
        for number, group in enumerate(groups):
            group_of[list(group.threads)] = number
        try:
            for start, end, label, thread in labels.parts_of_calls(self._store, self._labels, self._zero):
                rows = np.empty(len(start), _ROW)
                rows["s"], rows["e"], rows["label"], rows["thread"] = start, end, label, thread
                self._append(groups, rows, group_of[thread])
        except OSError as error:
            if not disk.is_full(error):
                raise
            gone()
            return {}
        return {thread: group for group in groups for thread in group.threads}

    @staticmethod
    def _append(groups: Sequence[_Group], rows: npt.NDArray[np.void], number: npt.NDArray[Any]) -> None:
        order = np.argsort(number, kind="stable")
        rows = rows[order]
        # What is before the first group is of none.
        first = np.searchsorted(number[order], np.arange(len(groups) + 1)).tolist()
        for group, (low, high) in zip(groups, itertools.pairwise(first), strict=True):
            if low < high:
                with group.file.open("ab") as file:
                    rows[low:high].tofile(file)

    @staticmethod
    def _of_group(group: _Group) -> dict[int, Spans]:
        """The calls of the threads of a group. At the first time its file gets the outermost ones, in order."""
        if not group.file.exists():
            return {}
        rows = np.fromfile(group.file, _ROW)
        if group.counts is None:
            out = labels.outermost(rows["thread"], rows["s"], rows["e"], rows["label"])
            group.counts = {one: len(spans.start) for one, spans in out.items()}
            kept = np.empty(sum(group.counts.values()), _ROW)
            at = 0
            for one, spans in out.items():
                own = kept[at : at + len(spans.start)]
                own["s"], own["e"], own["label"], own["thread"] = spans.start, spans.end, spans.label, one
                at += len(spans.start)
            kept.tofile(group.file)
            return out
        out, at = {}, 0
        for one, count in group.counts.items():
            own = rows[at : at + count]
            out[one] = Spans(
                np.ascontiguousarray(own["s"]), np.ascontiguousarray(own["e"]), np.ascontiguousarray(own["label"])
            )
            at += count
        return out
