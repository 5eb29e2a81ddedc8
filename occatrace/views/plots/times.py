"""What a run did over its time: tables → numbers of a bounded size, on the time axis that all plots of a page share.

All times are ns since the first call, range or work of the run. Spans of one kind in one process that overlap count once.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from occatrace.core.units import duration, size
from occatrace.reports import overview, spans
from occatrace.views.plots.data import PARTS, Connection

if TYPE_CHECKING:
    from occatrace.reports import Report
    from occatrace.reports.critical import Recorded
    from occatrace.store.tables import Store

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]

GRID = 32  # rows of a map of ranks, and ranks to a side of a map of traffic; of more, neighbours share a row
CELLS = 2000  # rectangles of a map, of neighbours of one colour together; with more, the time has fewer parts
STEPS = 5  # colours of a map
COUNTERS = 12
PIECES = 8  # names on the critical path
RANKS = 5  # with most of it

MPI = "MPI"
# In the order of the rows, with the name that the plot shows.
KINDS: Mapping[str, str] = {
    spans.COMPUTING: "computing (devices, OCCA kernels on the host)",
    spans.COPIES: "copies",
    spans.BUILDS: "kernel builds",
    spans.OPENMP: "OpenMP regions",
    MPI: "calls of MPI",
    spans.RANKS: "waiting for other ranks",
    spans.IMPORTS: "Python imports",
    spans.PYTHON: "traced Python calls",
    spans.UNRECORDED: "not recorded",
}
_WORK = (spans.COMPUTING, spans.COPIES, spans.OPENMP)

_PLACES = """
CREATE OR REPLACE TEMP TABLE time_places AS
SELECT p.process, coalesce(m.rank, p.rank) AS rank,
       (dense_rank() OVER (ORDER BY coalesce(m.rank, p.rank) NULLS FIRST) - 1)::BIGINT AS place
FROM processes p LEFT JOIN mpi_ranks m USING (process) WHERE {}
"""


@dataclass(frozen=True)
class Band:
    """A row: for each of equal parts of the time a number from 0 to 1, and what stands for the whole row."""

    name: str
    value: str
    parts: Sequence[float]
    # Of rows whose numbers are no shares: what 0 and 1 stand for, and their unit.
    low: float = 0.0
    high: float = 1.0
    unit: str = ""


@dataclass(frozen=True)
class Bands:
    """Rows over the time from `begin` to `end`. `left_out`: rows beyond those that are shown."""

    begin: int
    end: int
    rows: Sequence[Band]
    left_out: int = 0


@dataclass(frozen=True)
class Grid:
    """Maps that share their rows and their columns: of each a title and rows of numbers from 0 to 1.

    `begin` and `end`: the time of the columns; both 0 where `columns` names them.
    """

    rows: Sequence[str]
    maps: Sequence[tuple[str, Sequence[Sequence[float]]]]
    begin: int = 0
    end: int = 0
    columns: Sequence[str] = ()


@dataclass(frozen=True)
class Activity:
    """What part of each of PARTS of the time a kind of activity covers: `parts[kind][row]`, the mean of the ranks of a row."""

    begin: int
    end: int
    rows: Sequence[str]
    weights: Sequence[int]  # ranks of each row
    parts: Mapping[str, Floats]

    def bands(self, whole: int) -> Bands | None:
        """A row for each kind that there is, the mean of all ranks. `whole`: the time (ns) that percentages are of; what was not
        recorded is no part of it."""
        rows = []
        for kind, parts in self.parts.items():
            mean = np.average(parts, axis=0, weights=self.weights)
            ns = float(mean.mean()) * (self.end - self.begin)
            value = duration(round(ns)) if kind == spans.UNRECORDED else f"{100 * ns / whole:.1f} %"
            rows.append(Band(KINDS[kind], value, mean.tolist()))
        return Bands(self.begin, self.end, rows) if rows else None

    @property
    def grid(self) -> Grid | None:
        """Rank by time: computing, and MPI. None where there are not several ranks."""
        if len(self.rows) < 2:
            return None
        found = []
        work = [self.parts[kind] for kind in _WORK if kind in self.parts]
        if work:
            found.append(("computing and copying", np.minimum(np.sum(work, axis=0), 1.0)))
        for kind, title in ((MPI, "in MPI"), (spans.RANKS, "waiting for other ranks")):
            if kind in self.parts:
                found.append((title, self.parts[kind]))
        if not found:
            return None
        maps = [(title, reduced(parts).tolist()) for title, parts in found]
        return Grid(self.rows, maps, self.begin, self.end)


def axis(con: Connection) -> tuple[int, int]:
    """The time of the run: from its first call, range or work to the end of its last process or work."""
    end = con.execute(
        "SELECT max(e)::BIGINT - run_zero()::BIGINT FROM (SELECT max(end_ns) AS e FROM processes"
        " UNION ALL SELECT max(end_ns) FROM activities)"
    ).fetchall()[0][0]
    return 0, max(int(end or 0), 1)


def recorded(con: Connection) -> int:
    """The recorded time of the run (ns), from the start of its first process: what percentages of the overview are of."""
    return max(int(con.execute("SELECT recorded_ns(run_length())").fetchall()[0][0]), 1)


def activity(store: Store, begin: int, end: int) -> Activity | None:
    """What each rank did between two moments. None where nothing is known of it."""
    con = store.con
    con.execute(_PLACES.format(spans.without(spans.launchers(con, store.filled))))
    ranks = con.execute("SELECT DISTINCT place, rank FROM time_places ORDER BY place").fetchall()
    if not ranks:
        return None
    zero = store.zero
    found = [(name, sql) for name, table, sql in spans.SPANS if name in KINDS and table in store.filled]
    if any(name == spans.RANKS for name, _ in found):
        con.execute(overview.MPI_WAITS)
    if con.execute("SELECT 1 FROM call_stats WHERE api = 'mpi' AND source = 'event' LIMIT 1").fetchall():
        store.functions()
        found.append((MPI, "SELECT process, start_ns, end_ns FROM calls WHERE api = 'mpi'"))
    found += spans.unrecorded(con)
    kinds = [kind for kind in KINDS if any(name == kind for name, _ in found)]
    if not kinds:
        return None
    placed = [
        (
            name,
            f"SELECT p.place, greatest(t.s::BIGINT - {zero}, {begin}), least(t.e::BIGINT - {zero}, {end})"
            f" FROM ({sql}) t(process, s, e) JOIN time_places p USING (process)",
        )
        for name, sql in found
    ]
    height = min(len(ranks), GRID)
    weights = [0] * height
    names: list[list[Any]] = [[] for _ in range(height)]
    for place, rank in ranks:
        row = place * height // len(ranks)
        weights[row] += 1
        names[row].append(rank)
    covered = np.zeros((len(kinds), height, PARTS))
    for place, open_kinds, start, until in spans.pieces(con, placed, kinds):
        row = place * height // len(ranks)
        for number in range(len(kinds)):
            chosen = (open_kinds >> number) & 1 == 1
            _cover(covered[number], row[chosen], start[chosen] - begin, until[chosen] - begin, end - begin)
    parts: dict[str, Floats] = {}
    for kind, own in zip(kinds, covered, strict=True):
        if own.any():
            parts[kind] = np.minimum(own / np.array(weights)[:, None], 1.0)
    return Activity(begin, end, [_ranks(own) for own in names], weights, parts) if parts else None


def _cover(out: Floats, row: Ints, start: Ints, end: Ints, length: int) -> None:
    """Add how much times cover of each part of each row; `out`: by row and part, 1: all of it."""
    width = length / PARTS
    first = np.minimum(start * PARTS // length, PARTS - 1)
    beyond = np.minimum((end * PARTS + length - 1) // length, PARTS)
    flat, size = out.reshape(-1), out.size
    whole = beyond <= first + 1
    flat += np.bincount(row[whole] * PARTS + first[whole], (end - start)[whole], size) / width
    row, start, end, first, beyond = (values[~whole] for values in (row, start, end, first, beyond))
    if not len(row):
        return
    # The two parts at the ends, and all between them, by the differences of what begins and ends to be covered.
    flat += np.bincount(row * PARTS + first, (first + 1) * width - start, size) / width
    flat += np.bincount(row * PARTS + beyond - 1, end - (beyond - 1) * width, size) / width
    edges = np.zeros((len(out), PARTS + 1))
    np.add.at(edges, (row, first + 1), 1.0)
    np.add.at(edges, (row, beyond - 1), -1.0)
    out += np.cumsum(edges, axis=1)[:, :PARTS]


def _ranks(own: Sequence[int | None]) -> str:
    known = [rank for rank in own if rank is not None]
    if len(known) < len(own):
        return "no rank" if not known else f"no rank to {known[-1]}"
    return f"rank {known[0]}" if len(known) == 1 else f"{known[0]} to {known[-1]}"


def steps(values: npt.ArrayLike) -> npt.NDArray[np.int64]:
    """The colours of numbers from 0 to 1: 0 for (almost) nothing, else 1 to STEPS."""
    shares = np.asarray(values, np.float64)
    return np.where(shares < 0.005, 0, np.minimum((shares * STEPS).astype(np.int64), STEPS - 1) + 1)


def reduced(parts: Floats) -> Floats:
    """The same over fewer parts of the time, until neighbours of one colour are at most CELLS rectangles."""
    while parts.shape[1] > 30:
        if int((np.diff(steps(parts), axis=1) != 0).sum()) + len(parts) <= CELLS:
            break
        parts = parts.reshape(len(parts), -1, 2).mean(axis=2)
    return parts


def counters(store: Store, begin: int, end: int) -> Bands | None:
    """Values over time, of counters of one name the mean of all processes; a value counts until the next one."""
    if "counters" not in store.filled:
        return None
    con = store.con
    zero = store.zero
    names = con.execute(
        f"""SELECT name, unit, device IS NOT NULL AS of_device, count(DISTINCT (process, device)), count(*) AS n FROM counters
            WHERE time_ns::BIGINT - {zero} BETWEEN {begin} AND {end} AND isfinite(value)
            GROUP BY ALL ORDER BY n DESC, name, unit, of_device"""
    ).fetchall()
    rows = []
    for name, unit, of_device, several, _ in names[:COUNTERS]:
        found = con.execute(
            f"""SELECT dense_rank() OVER (ORDER BY process, device)::BIGINT - 1 AS series,
                       least((time_ns::BIGINT - {zero} - {begin}) * {PARTS} // {end - begin}, {PARTS - 1})::BIGINT AS part,
                       avg(value) AS mean, arg_max(value, time_ns) AS last
                FROM counters WHERE name = ? AND unit = ? AND (device IS NOT NULL) = ?
                  AND time_ns::BIGINT - {zero} BETWEEN {begin} AND {end} AND isfinite(value)
                GROUP BY process, device, part ORDER BY series, part""",
            [name, unit, of_device],
        ).fetchnumpy()
        parts = _held(found, int(several))
        high, low = max(float(parts.max()), 0.0), min(float(parts.min()), 0.0)
        span = (high - low) or 1.0
        shown = f"at most {_value(high, unit)}" + (f", mean of {several}" if several > 1 else "")
        scaled = np.round((parts - low) / span, 4)
        rows.append(Band(str(name) or "(no name)", shown, scaled.tolist(), low, low + span, str(unit)))
    return Bands(begin, end, rows, max(len(names) - COUNTERS, 0)) if rows else None


def _held(found: Mapping[str, Any], several: int) -> Floats:
    """The mean of several series, each of which keeps its value until the next; before its first it is not there."""
    total, there = np.zeros(PARTS), np.zeros(PARTS)
    for series in range(several):
        own = found["series"] == series
        at = found["part"][own].astype(np.int64)
        which = np.searchsorted(at, np.arange(PARTS), "right") - 1
        known = which >= 0
        before = np.maximum(which, 0)
        exact = at[before] == np.arange(PARTS)
        total += np.where(known, np.where(exact, found["mean"][own][before], found["last"][own][before]), 0.0)
        there += known
    return np.asarray(np.divide(total, there, out=np.zeros(PARTS), where=there > 0))


def _value(value: float, unit: str) -> str:
    if unit == "bytes":
        return size(round(value))
    return f"{value:,.4g} {unit[:24]}".strip()


def traffic(report: Report) -> Grid | None:
    """Rank by rank, of the report mpi_matrix: each number is the share of the largest one. None where nothing was sent."""
    place = {column.name: at for at, column in enumerate(report.columns)}
    rows = [(row[place["source"]], row[place["target"]], row[place["total"]] or 0) for row in report.rows]
    ranks = sorted({rank for row in rows for rank in row[:2]})
    if not any(moved for _, _, moved in rows):
        return None
    side = min(len(ranks), GRID)
    number = {rank: at * side // len(ranks) for at, rank in enumerate(ranks)}
    out = np.zeros((side, side))
    for source, target, moved in rows:
        out[number[source], number[target]] += moved
    owners: list[list[int | None]] = [[] for _ in range(side)]
    for rank in ranks:
        owners[number[rank]].append(rank)
    names = [_ranks(own) for own in owners]
    return Grid(names, [("bytes", out.tolist())], columns=names)


def path(found: Recorded, begin: int, end: int, whole: int) -> Bands | None:
    """The critical path over time: the pieces with most of it, and the ranks that it goes through where there are several.
    `whole`: the time (ns) that percentages are of."""
    labels, which = np.unique(found.label, return_inverse=True)
    start = found.start.astype(np.float64)
    until = start + found.ns
    inside = (until > begin) & (start < end)
    if not inside.any():
        return None
    start, until, which = np.maximum(start[inside], begin), np.minimum(until[inside], end), which[inside]
    texts = [found.labels[number].shown for number in labels.tolist()]
    rows = _rows_of(texts, which, start, until, begin, end, whole, PIECES)
    left_out = len(set(texts)) - len(rows)
    places = found.rank[inside]
    ranks, which_rank = np.unique(places, return_inverse=True)
    if len(ranks) > 1:
        of_ranks = ["processes without a rank" if rank < 0 else f"rank {rank}" for rank in ranks.tolist()]
        rows += _rows_of(of_ranks, which_rank, start, until, begin, end, whole, RANKS)
    return Bands(begin, end, rows, max(left_out, 0))


def _rows_of(
    texts: Sequence[str], which: Any, start: Floats, until: Floats, begin: int, end: int, whole: int, most: int
) -> list[Band]:
    """Rows of the names with most time."""
    sums: dict[str, float] = {}
    for text, ns in zip(texts, np.bincount(which, weights=until - start, minlength=len(texts)).tolist(), strict=True):
        sums[text] = sums.get(text, 0.0) + ns
    chosen = sorted(
        (text for text in sums if sums[text] >= 0.0005 * (end - begin)), key=lambda text: (-sums[text], text)
    )[:most]
    of_text = np.array([chosen.index(text) if text in chosen else -1 for text in texts])[which]
    out = []
    for number, text in enumerate(chosen):
        own = of_text == number
        out.append(Band(text, f"{100 * sums[text] / whole:.1f} %", binned(start[own], until[own], begin, end)))
    return out


def binned(start: Floats, until: Floats, begin: int, end: int) -> list[float]:
    """What part of each part of the time is covered by pieces that do not overlap."""
    edges = np.linspace(begin, end, PARTS + 1)
    order = np.argsort(start)
    start, until = start[order], until[order]
    done = np.r_[0.0, np.cumsum(until - start)]
    # Covered up to each edge: all pieces that begin before it, less what of the last one lies beyond.
    begun = np.searchsorted(start, edges, "right")
    beyond = np.where(begun > 0, np.maximum(until[np.maximum(begun - 1, 0)] - edges, 0.0), 0.0)
    covered = done[begun] - beyond
    return np.round(np.clip(np.diff(covered) / ((end - begin) / PARTS), 0.0, 1.0), 4).tolist()  # type: ignore[no-any-return]
