"""The values over time that a timeline has: memory, commands in flight, busy time, traffic, samples; in bounded memory."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from occatrace import _native
from occatrace.core.schema import MEMORY_KINDS
from occatrace.core.sql import text as sql_text
from occatrace.store.tables import Store
from occatrace.store.windows import between, cut
from occatrace.views.timeline.selection import FILE_FORMAT, WINDOW_ROWS, Columns, Selection, plain
from occatrace.views.timeline.sources import DEVICE, Options

# Kinds of counters, in the order in which they stand below the queues.
ALLOCATED, IN_FLIGHT, BUSY, TRAFFIC, SAMPLED, COUNTED = range(6)

# Shares and rates are means over windows of this many ns at least, and there are at most so many windows.
SHORTEST, MOST = 100_000, 2_000
BYTES_PER_VALUE = 17  # in the file

_KEY = "kind, process, device, label"
_AT_ONCE = 100  # processes of which the rates are found together

# A part of another allocation takes no memory of its own.
_ALLOCATED = f"""
SELECT {ALLOCATED} AS kind, process, coalesce(device, 0) AS device, 'bytes' AS unit, t, d,
       concat_ws(', ', title(api), CASE WHEN coalesce(device, 0) = 0 THEN mode END, nullif(kind, 'device')) AS label
FROM (SELECT *, start_ns AS t, bytes::BIGINT AS d FROM allocations
      UNION ALL SELECT *, end_ns, -bytes::BIGINT FROM allocations WHERE end_ns IS NOT NULL)
WHERE bytes > 0 AND parent IS NULL
"""
# What a memory pool of a Python library has, and how much of that was asked for and not given back.
_POOLED = f"""
SELECT {ALLOCATED} AS kind, s.process, 0 AS device, 'bytes' AS unit, t, d,
       format('pool {{}} {{}}, {{}}', p.id, regexp_extract(p.kind, '[^.]*$'), what) AS label
FROM (SELECT process, pool, time_ns AS t, 'held' AS what,
             bytes::BIGINT - coalesce(lag(bytes) OVER (PARTITION BY process, pool ORDER BY time_ns), 0)::BIGINT AS d FROM pool_sizes
      UNION ALL SELECT process, pool, start_ns, 'in use', asked::BIGINT FROM pool_blocks
      UNION ALL SELECT process, pool, end_ns, 'in use', -asked::BIGINT FROM pool_blocks WHERE end_ns IS NOT NULL) s
JOIN pools p ON p.process = s.process AND p.id = s.pool
"""

# Of PAPI, rates in kernels; in a process without any, in its outermost ranges.
_COUNTED = f"""
SELECT {COUNTED} AS kind, process, 0 AS device, counter AS label, '/s' AS unit, unnest([start_ns, end_ns]) AS t,
       unnest([1, -1]) * value * 1e9 / (end_ns - start_ns) AS d
FROM papi_counts JOIN (
    SELECT thread, seq, start_ns, end_ns FROM kernel_runs
    UNION ALL SELECT thread, seq, start_ns, end_ns FROM ranges
    WHERE kind = 'push' AND depth = 0 AND process NOT IN (
        SELECT process FROM papi_counts SEMI JOIN kernel_runs USING (thread, seq))
) USING (thread, seq)
WHERE end_ns > start_ns
"""


_COMMANDS = ("enqueued, not finished", "commands")

_OTHER, _MARKER = 254, 255  # instead of the number of a memory operation
_MOVED = " ".join(f"WHEN '{kind}' THEN {number}" for number, kind in enumerate(MEMORY_KINDS))
_WORK = f"""
SELECT process::UINTEGER AS process, coalesce(device, 0)::UINTEGER AS device, queued_ns::UBIGINT AS q, start_ns::UBIGINT AS s,
       end_ns::UBIGINT AS e, CASE kind {_MOVED} WHEN 'marker' THEN {_MARKER} ELSE {_OTHER} END::UTINYINT AS moved,
       coalesce(bytes, 0)::DOUBLE AS bytes
FROM activities
"""


@dataclass(frozen=True)
class Series:
    """One counter in one file."""

    part: int
    kind: int
    process: int
    device: int  # 0: not known
    label: str
    unit: str
    first: int  # row on disk
    rows: int
    begin: int
    before: float = 0  # what it comes to where it begins


class Counters:
    """The counters of a timeline: changes and samples sorted on disk, rates per window in memory."""

    def __init__(self, store: Store, selection: Selection, options: Options) -> None:
        self._con = store.con
        self._selection = selection
        self._options = options
        self._path = store.scratch / "timeline-values.parquet"
        self._changes: _native.Changes | None = None
        self._scratch = store.scratch
        self._changing: dict[Series, int] = {}  # the number in `_changes`
        self._rates: dict[Series, Columns] = {}
        self.series: list[Series] = []
        if not options.counters or (options.apis and DEVICE not in options.apis):
            return
        titles = " ".join(f"WHEN {sql_text(api)} THEN {sql_text(title)}" for api, title in store.model.titles.items())
        self._con.execute(
            f"CREATE OR REPLACE MACRO title(api) AS CASE api {titles or 'WHEN NULL THEN NULL'} ELSE api END"
        )
        self._sort_changes()
        self._read_work()
        self.series.sort(key=lambda series: (series.part, series.kind, series.process, series.device))

    @property
    def rows(self) -> int:
        """How many values, at most."""
        return sum(series.rows for series in self.series)

    @property
    def bytes(self) -> int:
        """Of the file, about."""
        return self.rows * BYTES_PER_VALUE

    def values(self, series: Series) -> Iterator[Columns]:
        """Windows of the values (`t`, `value`) of a counter."""
        if series in self._rates:
            yield self._rates[series]
            return
        if self._changes and series in self._changing:
            self._changes.read(self._changing[series], int(series.before))
            while len((changes := self._changes.next(WINDOW_ROWS))[0]):
                yield {"t": changes[0], "value": changes[1]}
            return
        total, held = series.before, None
        for window in _windows(self._con, self._path, series.first, series.rows, "t, d"):
            t, value = window["t"], window["d"].astype(np.float64)
            if series.kind != SAMPLED:
                value = total + np.cumsum(value)
                total = float(value[-1])
                if held:  # the last of what came together counts, also over the end of a window
                    t, value = np.append(held[0], t), np.append(held[1], value)
                last = np.append(t[1:] != t[:-1], False)
                held = (t[-1:], value[-1:])
                t, value = t[last], value[last]
            if len(t):
                yield {"t": t, "value": value}
        if held:
            yield {"t": held[0], "value": held[1]}

    def close(self) -> None:
        """Remove the files."""
        self._path.unlink(missing_ok=True)

    def _of_ranks(self) -> str:
        """Condition on a process."""
        ranks = ", ".join(map(str, self._options.ranks))
        return f"process IN (SELECT process FROM processes WHERE rank IN ({ranks}))" if ranks else "true"

    def _sort_changes(self) -> None:
        """What changes by steps, and samples, by counter and time; sorted by DuckDB, which spills: numbers only, as texts take
        several times as long."""
        begin, end = self._selection.begin, self._selection.end
        # What holds when the time that was asked for begins has its value there.
        time = f"greatest(s.t, {begin or 0})"
        part = self._selection.part.format(process="s.process", t=time)
        samples = f"""
            SELECT {SAMPLED} AS kind, process, coalesce(device, 0) AS device, name AS label, coalesce(unit, '') AS unit,
                   time_ns AS t, value AS d
            FROM counters WHERE time_ns >= {begin or 0}"""
        named = f"{_ALLOCATED} UNION ALL BY NAME {_POOLED} UNION ALL BY NAME {_COUNTED} UNION ALL BY NAME {samples}"
        self._con.execute(f"""
            CREATE OR REPLACE TEMP TABLE labels AS SELECT *, (row_number() OVER (ORDER BY label, unit))::UINTEGER AS n
            FROM (SELECT DISTINCT label, unit FROM ({named}))""")
        labels = {n: (label, unit) for label, unit, n in self._con.execute("FROM labels").fetchall()}
        if not labels:
            return
        changes = f"""
            SELECT kind, process, device, l.n AS label, t, d FROM ({named}) s
            JOIN labels l ON l.label IS NOT DISTINCT FROM s.label AND l.unit IS NOT DISTINCT FROM s.unit"""
        within = f"{self._of_ranks()} AND {'true' if end is None else f't <= {end}'}"
        self._con.execute(f"""
            COPY (SELECT *, row_number() OVER () - 1 AS rn FROM (
                      SELECT ({part})::UINTEGER AS part, kind::UTINYINT AS kind, process, device::UINTEGER AS device, label,
                             ({time})::BIGINT AS t, d::DOUBLE AS d
                      FROM ({changes}) s WHERE {within} ORDER BY {_KEY}, t))
            TO {sql_text(str(self._path))} {FILE_FORMAT}""")
        rows = self._con.execute(
            f"SELECT part, {_KEY}, min(rn), count(*), min(t), sum(d) FROM read_parquet({sql_text(str(self._path))})"
            " GROUP BY ALL ORDER BY min(rn)"
        ).fetchall()
        self._con.execute("DROP TABLE labels")
        before: dict[tuple[Any, ...], float] = {}
        for number, kind, process, device, name, first, count, begins, change in rows:
            label, unit = labels[name]
            key = (kind, process, device, name)
            self.series.append(
                Series(number, kind, process, device, label, unit, first, count, begins, before.get(key, 0))
            )
            before[key] = before.get(key, 0) + (change or 0)

    def _read_work(self) -> None:
        """Per device, the commands in flight, the share of each window in which something ran, and the bytes per ns (GB/s) of each
        kind of copy."""
        begin, end = self._selection.begin or 0, self._selection.end
        work = f"WHERE {self._of_ranks()}"
        ran = "kind <> 'marker'"
        if begin:
            ran += f" AND (end_ns > {begin} OR start_ns > {begin})"
        if end is not None:
            work += f" AND (start_ns <= {end} OR (queued_ns > 0 AND queued_ns <= {end}))"
            ran += f" AND start_ns < {end}"
        processes = [
            row[0]
            for row in self._con.execute(f"SELECT DISTINCT process FROM activities {work} ORDER BY process").fetchall()
        ]
        if not processes:
            return
        width = self._selection.width
        pieces = self._con.execute(
            f"SELECT (start_ns // {width})::BIGINT AS at, count(*), min(start_ns) FILTER ({ran})::BIGINT,"
            f" max(end_ns) FILTER ({ran})::BIGINT, max(start_ns) FILTER ({ran})::BIGINT FROM activities {work} GROUP BY 1"
        ).fetchall()
        # greatest() of the two would take as long as all else of the query.
        times = [(first, max(last, begun)) for *_, first, last, begun in pieces if first is not None]
        first, last = (min(t[0] for t in times), max(t[1] for t in times)) if times else (begin, begin)
        first, last = max(first, begin), last if end is None else min(last, end)
        span = (first, last, window_width(last - first))
        self._changes = _native.Changes(str(self._scratch / "timeline-changes"))
        for at in range(0, len(processes), _AT_ONCE):
            some = processes[at : at + _AT_ONCE]
            mine = work
            counts = [(piece, count) for piece, count, *_ in pieces]
            if len(some) < len(processes):
                mine = f"{work} AND process BETWEEN {some[0]} AND {some[-1]}"
                counts = self._count(mine, width, None, None)
            for (process, device), rates in sorted(self._rates_of(mine, counts, span).items()):
                self._keep(BUSY, process, device, "busy", "%", rates.busy, 100)
                for kind in sorted(rates.traffic):
                    label = f"traffic {MEMORY_KINDS[kind]}"
                    self._keep(TRAFFIC, process, device, label, "GB/s", rates.traffic[kind], 1)
        self._keep_changes()

    def _count(self, work: str, width: int, begin: int | None, end: int | None) -> list[tuple[int, int]]:
        """How much work begins in which piece of a time."""
        found: list[tuple[int, int]] = self._con.execute(
            f"SELECT (start_ns // {width})::BIGINT AS at, count(*) FROM activities {work} AND {between('start_ns', begin, end)}"
            " GROUP BY ALL"
        ).fetchall()
        return found

    def _rates_of(
        self, work: str, counts: Sequence[tuple[int, int]], span: tuple[int, int, int]
    ) -> dict[tuple[int, int], _Rates]:
        """Of each device of some processes, by process and device; read in windows of time, with what changes in them."""
        found: dict[tuple[int, int], _Rates] = {}
        for begin, end in cut(counts, self._selection.width, WINDOW_ROWS, partial(self._count, work)):
            rows = self._con.execute(f"{_WORK} {work} AND {between('start_ns', begin, end)}").fetchnumpy()
            of = plain(rows["process"]).astype(np.uint64) << np.uint64(32) | plain(rows["device"])
            q, s, e, moved, size = (plain(rows.pop(name)) for name in ("q", "s", "e", "moved", "bytes"))
            e = np.maximum(e, s)
            order = _native.order(of, s, e, of)
            if order is not None:
                of, q, s, e, moved, size = (values.take(order) for values in (of, q, s, e, moved, size))
            self._change(of, np.where(q == 0, s, np.minimum(q, s)), 1)  # what is not known was enqueued at its start
            self._change(of, e, -1)
            some = self._ran(s, e, moved)
            if not some.all():
                of, s, e, moved, size = (values[some] for values in (of, s, e, moved, size))
            bounds = [0, *(np.flatnonzero(of[1:] != of[:-1]) + 1).tolist(), len(of)]
            for part in (slice(*pair) for pair in pairwise(bounds)):
                if part.start < part.stop:
                    key = (int(of[part.start]) >> 32, int(of[part.start]) & 0xFFFF_FFFF)
                    rates = found.setdefault(key, _Rates(*span))
                    rates.add(s[part], e[part], moved[part], size[part])
        return found

    def _ran(
        self, s: npt.NDArray[np.uint64], e: npt.NDArray[np.uint64], moved: npt.NDArray[np.uint8]
    ) -> npt.NDArray[np.bool_]:
        """Which work ran in the part of the run that is wanted."""
        some: npt.NDArray[np.bool_] = moved != _MARKER
        if self._selection.begin:
            some &= e > np.uint64(self._selection.begin)
        if self._selection.end is not None:
            some &= s < np.uint64(self._selection.end)
        return some

    def _change(self, of: npt.NDArray[np.uint64], t: npt.NDArray[np.uint64], step: int) -> None:
        """Commands that are enqueued, or finished. What holds when the time that was asked for begins has its value there."""
        assert self._changes
        begin, end = self._selection.begin, self._selection.end
        if end is not None:
            some = t <= np.uint64(end)
            of, t = of[some], t[some]
        if begin:
            t = np.maximum(t, np.uint64(begin))
        self._changes.add(of, t, step, self._selection.part_of_time(t))

    def _keep_changes(self) -> None:
        """The counters of commands in flight."""
        assert self._changes
        label, unit = _COMMANDS
        parts: dict[int, int] = {}
        if self._options.split == "rank":
            parts = self._selection.parts_of_processes()
        before: dict[int, int] = {}
        for number, (part, owner, first, rows, change) in sorted(
            enumerate(self._changes.series()), key=lambda s: s[1][:2]
        ):
            process, device = owner >> 32, owner & 0xFFFF_FFFF
            series = Series(
                parts.get(process, part), IN_FLIGHT, process, device, label, unit, -1, rows, first, before.get(owner, 0)
            )
            before[owner] = before.get(owner, 0) + change
            self._changing[series] = number
            self.series.append(series)

    def _keep(
        self, kind: int, process: int, device: int, label: str, unit: str, windows: Windows, scale: float
    ) -> None:
        """Values where they change, cut into the files."""
        t, value = windows.changes(scale)
        if not len(t):
            return
        parts = self._selection.part_of_time(t.astype(np.uint64))
        if parts is None:
            number = self._selection.parts_of_processes()[process] if self._options.split == "rank" else 0
            parts = np.full(len(t), number, np.uint32)
        for part in np.unique(parts).tolist():
            mine = parts == part
            series = Series(part, kind, process, device, label, unit, -1, int(mine.sum()), int(t[mine][0]))
            self._rates[series] = {"t": t[mine], "value": value[mine]}
            self.series.append(series)


class _Rates:
    """What a device did over time."""

    def __init__(self, first: int, last: int, width: int) -> None:
        self._span = (first, last, width)
        self.busy = Windows(*self._span)
        self.traffic: dict[int, Windows] = {}  # by number in MEMORY_KINDS
        self._until = 0

    def add(
        self,
        s: npt.NDArray[np.uint64],
        e: npt.NDArray[np.uint64],
        moved: npt.NDArray[np.uint8],
        size: npt.NDArray[np.float64],
    ) -> None:
        """Work in the order of its begins: begins and ends, kinds of memory operations, bytes."""
        self._until = self.busy.add(s, e, None, self._until)
        some = (size > 0) & (moved < len(MEMORY_KINDS))
        for kind in np.unique(moved[some]).tolist():
            mine = some & (moved == kind)
            self.traffic.setdefault(kind, Windows(*self._span)).add(s[mine], e[mine], size[mine])


def _windows(con: Any, path: Path, first: int, rows: int, columns: str) -> Iterator[Columns]:
    """Rows of a file, so many at a time, that are not many."""
    for begin in range(first, first + rows, WINDOW_ROWS):
        yield con.execute(
            f"SELECT {columns} FROM read_parquet({sql_text(str(path))}) WHERE rn >= ? AND rn < ? ORDER BY rn",
            [begin, min(begin + WINDOW_ROWS, first + rows)],
        ).fetchnumpy()


class Windows:
    """Sums over windows of one length, of what is spread evenly over intervals."""

    def __init__(self, first: int, last: int, width: int) -> None:
        self._first, self._last, self._width = first, last, width
        count = (max(last, first + 1) - 1 - first) // width + 3
        self._sums, self._steps = np.zeros(count), np.zeros(count)

    def add(
        self,
        start: npt.NDArray[np.uint64],
        end: npt.NDArray[np.uint64],
        amount: npt.NDArray[np.float64] | None,
        until: int = 0,
    ) -> int:
        """Intervals with an amount each; None: their length after `until` and the ones before. The end of the last of these."""
        return _native.spread(self._first, self._last, self._width, self._sums, self._steps, start, end, amount, until)

    def changes(self, scale: float) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.float64]]:
        """Begins of windows and means per ns, where a mean differs from the one before; nothing where all are zero."""
        value = (self._sums + np.cumsum(self._steps)) * scale / self._width
        value[np.abs(value) < 1e-12 * np.abs(value).max(initial=0)] = 0
        at = np.flatnonzero(np.diff(value, prepend=0.0) != 0)
        return self._first + at * self._width, value[at]


def window_width(span: int) -> int:
    """Length of the windows over which shares and rates are means: 1, 2 or 5 times a power of ten."""
    width, step = SHORTEST, 0
    while width * MOST < span:
        width = SHORTEST * (1, 2, 5)[(step := step + 1) % 3] * 10 ** (step // 3)
    return width
