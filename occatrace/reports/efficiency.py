"""The report `efficiency`: the tree of factors of POP, and its extension to devices by TALP, of sums and maxima over ranks and devices.

Sums, counts and maxima of sets of ranks add up, so those of merged summaries (partial.py) are as good as those of tables. Only what
an ideal network would gain needs the graph of single calls.

With U useful time, O time outside of MPI, of P ranks in the time T; K time of kernels, B time of kernels and copies, of D devices:
parallel = sum U / PT = load balance (sum O / P max O) x communication (max O / T) x offload (sum U / sum O);
communication = serialization (max O / T ideal) x transfer (T ideal / T);
device = sum K / DT = load balance (sum K / D max K) x copies (max K / max B) x orchestration (max B / T).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from occatrace.core.sql import text as sql_text
from occatrace.reports import critical, limits, spans, steps
from occatrace.reports.critical import building, whatif

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from occatrace.core.duck import duckdb
    from occatrace.reports import Report
    from occatrace.store.tables import Store

Ints = npt.NDArray[np.int64]
Amounts = npt.NDArray[np.float64]

NAME = "efficiency"
NO_REPLAY = "communication is not divided into serialization and transfer: merged summaries have no single messages"
RUN = "run"
_END_OF = {"MPI_Init": 1, "MPI_Init_thread": 1, "MPI_Finalize": 2}


RANGES = 10  # that are listed
STEPS = 5  # likewise
_OFFLOAD = "Finish|Wait|Synchronize|Enqueue|[Mm]emcpy|[Mm]emset|[Ll]aunch"
# What counts in ranges, in the order n1 … n4 of the query.
_SPANS = (
    ("MPI", "SELECT process, start_ns, end_ns FROM calls WHERE api = 'mpi'"),
    (
        "offload",
        "SELECT process, start_ns, end_ns FROM calls WHERE api IN ('opencl', 'cuda', 'cudart', 'hip', 'ze')"
        f" AND regexp_matches(function, '{_OFFLOAD}')",
    ),
    ("kernel", "SELECT process, start_ns, end_ns FROM activities WHERE kind IN ('kernel', 'native')"),
    ("device", "SELECT process, start_ns, end_ns FROM activities WHERE kind != 'marker'"),
)


@dataclass(frozen=True)
class Sums:
    """What the factors are made of: how many ranks or devices, sums and maxima over them, in ns."""

    count: dict[str, int]
    total: dict[str, float]
    most: dict[str, float]
    ideal: float | None = None  # the time that an ideal network would take

    @staticmethod
    def of(rows: Iterable[tuple[Any, ...]]) -> Sums:
        """From rows of name, count, sum and maximum."""
        found = list(rows)
        count = {row[0]: int(row[1]) for row in found}
        total, most = ({row[0]: float(row[at] or 0) for row in found} for at in (2, 3))
        return Sums(count, total, most)

    @property
    def time(self) -> float:
        """The time of the rank that took longest."""
        return self.most.get("time", 0.0)


def factors(sums: Sums) -> list[tuple[float, int, str, str]]:
    """Value in percent, level, name and meaning of each factor; those that cannot be told are left out."""
    out: list[tuple[float, int, str, str]] = []
    time, ranks, devices = sums.time, sums.count.get("time", 0), sums.count.get("device", 0)

    def add(level: int, name: str, part: float, whole: float, meaning: str) -> None:
        if whole > 0:
            out.append((100.0 * part / whole, level, name, meaning))

    useful, outside, most = sums.total.get("useful", 0.0), sums.total.get("outside", 0.0), sums.most.get("outside", 0.0)
    add(
        0,
        "parallel efficiency",
        useful,
        ranks * time,
        "all time of ranks that is not useful: MPI, and waiting for devices",
    )
    if ranks > 1:
        add(1, "load balance", outside, ranks * most, "ranks have different amounts of work")
        add(1, "communication", most, time, "MPI takes time, also of the rank with most work")
        if sums.ideal is not None:
            ideal = min(max(sums.ideal, most), time)
            add(
                2,
                "serialization",
                most,
                ideal,
                "ranks wait for each other in turn, though their work is balanced in all",
            )
            add(2, "transfer", ideal, time, "messages and collectives take time to travel")
    if devices:
        add(1, "device offload", useful, outside, "the host launches, copies and waits for devices")
        kernel, busy = sums.most.get("kernel", 0.0), sums.most.get("device", 0.0)
        whole = sums.total.get("kernel", 0.0)
        add(0, "device efficiency", whole, devices * time, "all time of devices in which no kernel runs")
        add(1, "device load balance", whole, devices * kernel, "devices have different amounts of work")
        add(1, "copies", kernel, busy, "the device copies while no kernel runs")
        add(1, "orchestration", busy, time, "the device has nothing to do")
    return out


def of_sums(rows: Iterable[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    """Rows of the report for the whole run, from rows of name, count, sum and maximum."""
    return [(*factor, RUN) for factor in factors(Sums.of(rows))]


def of_run(store: Store) -> Sums:
    """Sums of the whole run."""
    found = Sums.of(_sums(store.con))
    return replace(found, ideal=_ideal(store)) if found.count.get("time", 0) > 1 else found


def _sums(con: duckdb.DuckDBPyConnection) -> list[tuple[Any, ...]]:
    return con.execute("SELECT name, count(*), sum(ns), max(ns) FROM rank_efficiency GROUP BY name").fetchall()


def _ideal(store: Store) -> float | None:
    """The longest time of a rank from MPI_Init to MPI_Finalize with a network that takes none, by the graph of the run; None: there are
    no single calls of MPI."""
    if "mpi_messages" not in store.filled:
        return None
    run = critical.of(store)
    g = run.graph
    if g is None or not len(g.calls["f"]):
        return None
    times = run.times(whatif.parse(["network*0"]))
    # Few of millions of calls begin and end MPI. The last one stands for nodes without a call.
    known = np.r_[np.array([_END_OF.get(name, 0) for name in g.calls["function"]], np.int8)[g.calls["f"]], np.int8(0)]
    function = known[g.leaves[g.target]]
    own = np.flatnonzero((function > 0) & (g.kind == building.HOST))
    function = function[own]
    begins: dict[int, float] = {}
    spans = []
    for edge in own[function == 1].tolist():
        begins[g.process_of.get(int(g.thread[g.target[edge]]), -1)] = float(times[g.target[edge]])
    for edge in own[function == 2].tolist():
        process = g.process_of.get(int(g.thread[g.source[edge]]), -1)
        if process in begins:
            spans.append(float(times[g.source[edge]]) - begins[process])
    return max(spans, default=None)


def rows(store: Store, _: str, __: Sequence[Report] = ()) -> list[tuple[Any, ...]]:
    """Rows of the report: the run, then the ranges with most time, then the time steps."""
    out = [(*factor, RUN) for factor in factors(of_run(store))]
    parts = [*_of_ranges(store), *_of_steps(store)]
    return out + [(*factor, name) for name, sums in parts for factor in factors(sums)]


def _of_ranges(store: Store) -> list[tuple[str, Sums]]:
    """Sums of ranges, all of one name together: their exact intervals, by single calls. The devices of a process count as one."""
    if "ranges" not in store.filled:
        return []
    con = store.con
    store.functions()
    names = con.execute(
        "SELECT name FROM ranges WHERE kind != 'mark' AND end_ns > start_ns GROUP BY name"
        f" ORDER BY sum(end_ns - start_ns) DESC, name LIMIT {RANGES}"
    ).fetchall()
    out = []
    for (name,) in names:
        within = f"SELECT process, start_ns, end_ns FROM ranges WHERE kind != 'mark' AND name = {sql_text(name)}"
        out.append((f"range {name}", _sums_of(sums[:, 0] for sums in _times(con, within).values())))
    return out


# What is summed up, in ns: the range or step itself, its parts outside of MPI and of these outside of calls that move work, and those
# with a kernel or any work on the device.
_NAMES = ("time", "outside", "useful", "kernel", "device")


def _times(
    con: duckdb.DuckDBPyConnection, within: str, steps_of: Mapping[int, Ints] | None = None
) -> dict[int, Amounts]:
    """Of the times `within`, which are process, start and end, how many ns of each are what: by process, with a row for each of
    `_NAMES` and a column for each step. `steps_of`: when the steps of each process start; None: all is one."""
    found = [("range", within), *_SPANS, *spans.unrecorded(con)]
    kinds = [*dict.fromkeys(kind for kind, _ in found)]
    unknown = 1 << kinds.index(spans.UNRECORDED) if spans.UNRECORDED in kinds else 0
    out: dict[int, Amounts] = {}
    for process, open_kinds, start, end in spans.pieces(con, found, kinds):
        inside = np.flatnonzero((open_kinds & 1 == 1) & (open_kinds & unknown == 0))
        process, open_kinds, start, ns = process[inside], open_kinds[inside], start[inside], (end - start)[inside]
        # Pieces come process by process.
        edges = (
            np.flatnonzero(np.r_[True, process[1:] != process[:-1], True]) if len(process) else np.zeros(1, np.int64)
        )
        for first, last in zip(edges[:-1].tolist(), edges[1:].tolist(), strict=True):
            one, own = int(process[first]), slice(first, last)
            starts = np.zeros(1, np.int64) if steps_of is None else steps_of[one]
            sums = out.setdefault(one, np.zeros((len(_NAMES), len(starts))))
            step = np.searchsorted(starts, start[own], "right") - 1
            low, kind = int(step[0]), open_kinds[own]
            high = int(step[-1]) + 1
            outside = kind & 2 == 0
            chosen = (True, outside, outside & (kind & 4 == 0), kind & 8 != 0, kind & 16 != 0)
            for row, those in zip(sums, chosen, strict=True):
                row[low:high] += np.bincount(step - low, np.where(those, ns[own], 0), high - low)
    return out


def _sums_of(times: Iterable[Amounts]) -> Sums:
    """Sums over processes. One that has none of a kind of time does not count for it."""
    rows = np.array(list(times)).reshape(-1, len(_NAMES))
    return Sums.of(
        [
            (name, int((column > 0).sum()), float(column.sum()), float(column.max()))
            for name, column in zip(_NAMES, rows.T, strict=True)
            if (column > 0).any()
        ]
    )


def _of_steps(store: Store) -> list[tuple[str, Sums]]:
    """Sums of all time steps together, and of the longest of them, in order."""
    con = store.con
    found = {process: own for process, _, own in steps.of_all(store)}
    if not found:
        return []
    store.functions()
    con.register(
        "_steps",
        {
            "process": np.concatenate([np.full(len(own.start), process, np.int64) for process, own in found.items()]),
            "start_ns": np.concatenate([own.start for own in found.values()]),
            "end_ns": np.concatenate([own.end for own in found.values()]),
        },
    )
    con.execute("CREATE OR REPLACE TEMP TABLE efficiency_steps AS FROM _steps WHERE end_ns > start_ns")
    con.unregister("_steps")
    those = {process: own.start for process, own in found.items()}
    times = _times(con, "SELECT process, start_ns, end_ns FROM efficiency_steps", those)
    con.execute("DROP TABLE efficiency_steps")
    count = max(own.first + len(own.start) for own in found.values())
    out = [(f"all {count:,} time steps", _sums_of(sums.sum(axis=1) for sums in times.values()))]
    most = np.zeros(count)
    for process, sums in times.items():
        own = slice(found[process].first, found[process].first + sums.shape[1])
        most[own] = np.maximum(most[own], sums[0])
    longest = [step for step in np.argsort(-most, kind="stable")[:STEPS].tolist() if most[step] > 0]
    for step in sorted(longest):
        columns = ((sums, step - found[process].first) for process, sums in times.items())
        there = (sums[:, at] for sums, at in columns if 0 <= at < sums.shape[1] and sums[0, at] > 0)
        out.append((f"time step {step}", _sums_of(there)))
    return out


def notes(store: Store, _: str) -> list[str]:
    """What cannot be told."""
    out = limits.lines(
        store,
        "devices have no efficiency, and communication is not divided",
        "the factors are those of what is there",
        "calls of MPI in all of its time count, but only of the recorded times",
    )
    ranks = store.con.execute("SELECT count(*) FROM rank_efficiency WHERE name = 'time'").fetchall()[0][0]
    if ranks == 1:
        out.append("one rank was recorded: load balance and communication are not known")
    return out


def scaling(runs: Sequence[tuple[str, Sums]]) -> list[tuple[str, list[float | None]]]:
    """Factors of several runs of the same work, as rows with a value per run, in percent; the first run is the reference.

    Computation scalability is the useful time of all ranks of the reference by that of the run; global efficiency is parallel
    efficiency times that; speedup (100 is as fast) is the reference's time by the run's.
    """
    names: dict[str, None] = {}
    tables = []
    for _, sums in runs:
        found = {"  " * level + name: value for value, level, name, _ in factors(sums)}
        names |= dict.fromkeys(found)
        tables.append(found)
    first = runs[0][1]
    scalability, speedup, whole = [], [], []
    for (_, sums), found in zip(runs, tables, strict=True):
        useful = sums.total.get("useful", 0.0)
        ratio = 100.0 * first.total.get("useful", 0.0) / useful if useful else None
        parallel = found.get("parallel efficiency")
        scalability.append(ratio)
        whole.append(None if ratio is None or parallel is None else ratio * parallel / 100.0)
        speedup.append(100.0 * first.time / sums.time if sums.time else None)
    order = sorted(names, key=lambda name: [*next(list(t) for t in tables if name in t)].index(name))
    return [
        ("speedup", speedup),
        ("global efficiency", whole),
        ("computation scalability", scalability),
        *((name, [found.get(name) for found in tables]) for name in order),
    ]
