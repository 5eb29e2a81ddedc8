"""The report `overview`: the time of a run in parts that add up, from tables that every run has. No single calls are read.

Every moment of a process is given to the first part that it belongs to, so that nothing counts twice. What is known as a sum
only (waits for requests, calls that were tallied) is taken out of the host's part afterwards.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from occatrace import reports
from occatrace.core import naming
from occatrace.core.units import duration
from occatrace.errors import RunError
from occatrace.reports import machine, spans
from occatrace.reports.spans import (
    BUILDS,
    COMPUTING,
    COPIES,
    DEVICE,
    IMPORTS,
    PYTHON,
    RANKS,
    SPANS,
    TRANSFER,
    UNRECORDED,
)

if TYPE_CHECKING:
    from occatrace.core.duck import duckdb
    from occatrace.reports import Report
    from occatrace.store.tables import Store

TOP_KERNELS = 3
LEAST_NS = 1000.0  # from which a rank is above the mean; as is_imbalance in occatrace/store/_macros.sql
# Without rows in any of these nothing was recorded.
_OF = frozenset(("call_stats", "activities", "kernel_runs", "builds", "omp_regions", "mpi_messages", "python_calls"))

# What `advice` takes: at all, and for each call; it has to be less than this part of the run. Its graph needs 0.3 KB for a call.
_ADVICE_NS, _CALL_NS, _BESIDE, _MOST_CALLS = 400e6, 6e3, 50, 200_000
_MOST_WORK = 1_000_000  # activities, of which each kernel's first launch is looked for in half a second

ENDS, CALLS, HOST = "start and end of MPI", "other traced calls", "host computing"
MPI, TIME = "MPI", "time"  # of merged summaries
_OF_KERNELS = ("occa_kern_sum", "gpu_kern_sum")
# Until when each blocking call of MPI waited for others. MPI keeps the order of messages between two ranks, and of collectives
# of a communicator; a collective needs no rank that comes after it is over.
MPI_WAITS = """
CREATE OR REPLACE TEMP TABLE mpi_waits AS
WITH placed AS (
    SELECT m.*, coalesce(r.rank, p.rank) AS rank, (coalesce(c.name, ''), c.size, c.first_rank) AS comm
    FROM mpi_messages m JOIN processes p USING (process) LEFT JOIN mpi_ranks r USING (process) LEFT JOIN mpi_comms c USING (mpi_comm)
    WHERE m.state = 'complete' AND coalesce(r.rank, p.rank) IS NOT NULL
),
numbered AS (
    SELECT *, row_number() OVER (PARTITION BY rank, comm, function ORDER BY start_ns, seq) AS k
    FROM placed WHERE kind = 'collective' AND function IS NOT NULL
),
sent AS (
    SELECT *, row_number() OVER (PARTITION BY rank, partner, tag, comm ORDER BY start_ns, seq) AS k FROM placed WHERE kind = 'send'
),
received AS (
    SELECT *, row_number() OVER (PARTITION BY rank, partner, tag, comm ORDER BY start_ns, seq) AS k FROM placed WHERE kind = 'receive'
)
SELECT n.process, n.start_ns, o.start_ns AS until_ns
FROM numbered n ASOF JOIN numbered o ON o.comm = n.comm AND o.function = n.function AND o.k = n.k AND o.start_ns <= n.end_ns
UNION ALL
SELECT r.process, r.start_ns, least(s.start_ns, r.end_ns)
FROM received r JOIN sent s ON s.rank = r.partner AND s.partner = r.rank AND s.tag = r.tag AND s.comm = r.comm AND s.k = r.k
WHERE r.function IS NOT NULL
"""
# What calls of MPI wait in, where it is known by a sum only; and calls that may wait, start work or build. Tests that take a part
# of the run are made in a loop, until something has come.
_WAITING = re.compile(r"^MPI_(Wait|Test|Mprobe|Probe|Improbe|Iprobe|Win_(fence|wait|complete|lock|unlock|flush))")
_MPI_ENDS = ("MPI_Init", "MPI_Init_thread", "MPI_Finalize", "MPI_Session_init", "MPI_Session_finalize")
_DEVICE_APIS = "'opencl', 'cuda', 'cudart', 'hip', 'ze'"
_BUSY_CALLS = re.compile(
    r"Finish|Wait|Synchronize|Enqueue|[Mm]emcpy|[Mm]emset|[Ll]aunch|Query|MapBuffer|Build|Compile|Module"
)
_CREATING_CALLS = re.compile(r"Create|Destroy|Alloc|Free|Release|Retain")


@dataclass(frozen=True)
class _Process:
    """The time of one process, or of those of a rank: recorded in all, and its parts."""

    rank: int | None
    length: float
    parts: Mapping[str, float]


@dataclass(frozen=True)
class _Part:
    """A part of the time of all processes: its sum, and its share in the rank that has most of it."""

    name: str
    ns: float
    worst: float | None
    worst_rank: int | None


@dataclass(frozen=True)
class _Whole:
    """The time of all processes, of how many ranks the mean is wanted (1: the sum), and its parts."""

    total: float
    count: int
    parts: Sequence[_Part]


def rows(store: Store, _: str, made: Sequence[Report] = ()) -> list[tuple[Any, ...]]:
    """Rows of the report. `made`: reports that there are already, for the kernels."""
    con, filled = store.con, store.filled
    if not filled & _OF:
        return []
    found = _processes(con, filled)
    run = con.execute("SELECT recorded_ns(run_length())::DOUBLE").fetchall()[0][0]
    if not found:
        return []
    strongest = _strongest(store, float(run))
    parts = _together(found), float(run), _kernels(store, made)
    if strongest is None:
        return _rows(*parts, partial(_better_advice, store))
    return [*(row for row in _rows(*parts) if row[4] != "advice"), *strongest]


def notes(store: Store, _: str) -> list[str]:
    """Where the times are of more than one process, but not means of ranks."""
    counted = "SELECT count(*), count(DISTINCT rank) FROM processes WHERE end_ns > start_ns"
    processes, ranks = store.con.execute(counted).fetchall()[0]
    if not store.filled & _OF or processes < 2 or ranks > 1:
        return []
    of_work = spans.without(spans.launchers(store.con, store.filled))
    processes = store.con.execute(f"{counted} AND {of_work}").fetchall()[0][0]
    return [f"the times are sums of {processes} processes"] if processes > 1 else []


def _strongest(store: Store, run: float) -> list[tuple[Any, ...]] | None:
    """The first row of the report `advice`, if there is one; None: its single calls and its graph would take too long beside the
    run, or cannot be had, so that what the parts say has to do."""
    calls = int(
        store.con.execute(
            "SELECT coalesce(sum(calls), 0) + (SELECT count(*) FROM activities) FROM call_stats WHERE source = 'event'"
        ).fetchall()[0][0]
    )
    if not 0 < calls <= _MOST_CALLS or _ADVICE_NS + calls * _CALL_NS > run / _BESIDE:
        return None
    try:
        report = reports.make(store, "advice")
    except RunError:
        return None
    for row in report.rows[:1]:
        sign = dict(zip((column.name for column in report.columns), row, strict=True))
        words = (
            sign["advice"] if sign["gain"] is None else f"{sign['advice']} (would gain {sign['gain']:.1f} % of the run)"
        )
        return [
            (
                sign["share"],
                sign["share"] * run / 100,
                None,
                sign["rank"],
                "advice",
                sign["name"],
                sign["caller"],
                words,
            )
        ]
    return []


def by_rank(con: duckdb.DuckDBPyConnection, filled: frozenset[str]) -> list[tuple[int | None, str, float]]:
    """Rank, part and ns of each rank, and of each process without one, for merged summaries: `TIME` is the recorded time. Ranks
    of other nodes are not known there, so waiting for them is part of MPI."""
    if not filled & _OF:
        return []
    out: list[tuple[int | None, str, float]] = []
    processes = _processes(con, filled)
    for process in (*_of_ranks(processes), *(process for process in processes if process.rank is None)):
        parts = dict(process.parts)
        in_mpi = parts.pop(RANKS, 0.0) + parts.pop(TRANSFER, 0.0)
        out += [
            (process.rank, name, ns) for name, ns in (*parts.items(), (MPI, in_mpi), (TIME, process.length)) if ns > 0
        ]
    return out


def merged(rows: Sequence[tuple[Any, ...]], kernels: Sequence[Report]) -> list[tuple[Any, ...]]:
    """Rows of the report from sums of `by_rank`: name, sum, count, maximum, most of a rank and which. The worst share is by the
    mean time."""
    found = {name: (total, count, high, most, rank) for name, total, count, high, most, rank in rows}
    if TIME not in found:
        return []
    total, count, longest, _, ranked = found.pop(TIME)
    if ranked is None:  # not of several ranks
        count = 1
    mean = total / count
    parts = []
    for name, (ns, _, _, most, rank) in found.items():
        if rank is None or most - ns / count < LEAST_NS:
            parts.append(_Part(name, ns, None, None))
        else:
            parts.append(_Part(name, ns, min(100.0 * most / mean, 100.0), rank))
    top = next((_top(report) for report in kernels if report.name in _OF_KERNELS and report.rows), [])
    return _rows(_Whole(total, count, parts), longest, top)


def _kernels(store: Store, made: Sequence[Report]) -> list[tuple[str, str, float]]:
    """Name, place and time of the kernels with most of it."""
    for name in _OF_KERNELS:
        report = next((each for each in made if each.name == name), None) or reports.make(store, name)
        if report.rows:
            return _top(report)
    return []


def _top(report: Report) -> list[tuple[str, str, float]]:
    at = {column.name: place for place, column in enumerate(report.columns)}
    parts = [row for row in report.rows if "parent" not in at or row[at["parent"]] is None]
    source = at.get("source")
    found = [(row[at["name"]], row[source] if source is not None else "", row[at["total_ns"]] or 0) for row in parts]
    return sorted(found, key=lambda kernel: -kernel[2])[:TOP_KERNELS]


def _processes(con: duckdb.DuckDBPyConnection, filled: frozenset[str]) -> list[_Process]:
    """The time of each process that has a part in the means."""
    lengths = con.execute(
        "SELECT process, rank, span(start_ns, end_ns)::DOUBLE FROM processes"
        f" WHERE end_ns > start_ns AND {spans.without(spans.launchers(con, filled))} ORDER BY process"
    ).fetchall()
    found = _spans(con, filled)
    parts: dict[int, dict[str, float]] = {process: {} for process, *_ in lengths}
    if found:
        names = list(dict.fromkeys(name for name, _ in found))
        for process, times in spans.times(con, found, names).items():
            # Of what is open at a moment the first part has it.
            for open_parts, ns in times.items():
                if process in parts and open_parts:
                    name = names[(open_parts & -open_parts).bit_length() - 1]
                    parts[process][name] = parts[process].get(name, 0.0) + float(ns)
    sums = _sums(con, filled)
    by_import = _started_by_import(con, filled)
    out = []
    for process, rank, length in lengths:
        own = parts[process]
        whole = max(length - own.pop(UNRECORDED, 0.0), 0.0)
        _take_sums(own, whole, sums.get(process, {}), process in by_import)
        if whole > 0:
            out.append(_Process(rank, whole, own))
    return out


def _sums(con: duckdb.DuckDBPyConnection, filled: frozenset[str]) -> dict[int, dict[str, float]]:
    """By process, what is known as sums: of MPI without the calls that are spans, of calls that neither wait, build nor start work;
    of the thread that has most. CUDA's runtime calls its driver: the larger of the two counts. `clGetProgramInfo` compiles in PoCL:
    it is a build; where OCCA builds kernels, its builds have the calls on programs in them."""
    if "call_stats" not in filled:
        return {}
    threads: dict[tuple[int, str], dict[Any, float]] = {}
    building = set()
    if "builds" in filled:
        building = {process for (process,) in con.execute("SELECT process FROM builds WHERE api = 'occa'").fetchall()}
    for process, thread, api, function, ns in con.execute(
        f"SELECT process, thread, api, function, total_ns::DOUBLE FROM call_stats WHERE api IN ('mpi', {_DEVICE_APIS}) AND calls > 0"
    ).fetchall():
        if function in _MPI_ENDS:
            part, key = ENDS, thread
        elif api == "mpi":
            part, key = (RANKS if _WAITING.match(function) else TRANSFER), thread
        elif (of_device := _part_of(function)) and not (process in building and "Program" in function):
            part, key = of_device, (thread, api)
        else:
            continue
        known = threads.setdefault((process, part), {})
        known[key] = known.get(key, 0.0) + ns
    if "mpi_messages" in filled:
        for process, thread, ns in con.execute(
            "SELECT process, thread, sum(span(start_ns, end_ns))::DOUBLE FROM mpi_messages"
            " WHERE function IS NOT NULL AND state = 'complete' GROUP BY ALL"
        ).fetchall():
            known = threads.get((process, TRANSFER), {})
            known[thread] = max(known.get(thread, 0.0) - ns, 0.0)
    out: dict[int, dict[str, float]] = {}
    for (process, part), known in threads.items():
        out.setdefault(process, {})[part] = max(known.values(), default=0.0)
    return out


def _part_of(function: str) -> str | None:
    """To which part the time in a function of a device's API belongs; None: it waits, builds or starts work, which is known."""
    if function == "clGetProgramInfo":
        return BUILDS
    return None if _BUSY_CALLS.search(function) else CALLS


def _most_of_calls(con: duckdb.DuckDBPyConnection) -> str:
    """The function that has half of the time in other calls; empty if none has."""
    found = [
        (ns, function)
        for function, ns in con.execute(
            f"SELECT function, sum(total_ns)::DOUBLE FROM call_stats WHERE api IN ({_DEVICE_APIS}) GROUP BY 1"
        ).fetchall()
        if _part_of(function) == CALLS
    ]
    most, function = max(found, default=(0.0, ""))
    return function if most >= sum(ns for ns, _ in found) / 2 else ""


def _better_advice(store: Store, part: str, ns: float) -> str:
    """Instead of that of `_RULES`, where the run says more. `ns`: the time of the part."""
    if part == DEVICE:
        return _late_launches(store, ns)
    if part in (RANKS, MPI, TRANSFER):
        return _crowded(store)
    most = _most_of_calls(store.con) if part == CALLS else ""
    if not most or _CREATING_CALLS.search(most):
        return ""
    return f"most of it is in {most}: see api_sum, and callsite_sum for the lines that call it"


def _late_launches(store: Store, ns: float) -> str:
    """Of a driver that builds kernels when they are launched first, which is most of these ns."""
    if (
        "activities" not in store.filled
        or store.con.execute("SELECT count(*) FROM activities").fetchall()[0][0] > _MOST_WORK
    ):
        return ""
    sql = "SELECT count(*) AS n, sum(late_ns)::DOUBLE AS late FROM late_launches GROUP BY process ORDER BY late DESC LIMIT 1"
    for count, late in store.con.execute(sql).fetchall():
        if late >= ns / 2:
            kernels = f"{count:,} kernels" if count > 1 else "a kernel"
            return (
                f"the driver builds or loads {kernels} at the first launch ({duration(late)}): keep its cache between runs, or launch"
                " them before the timed part"
            )
    return ""


def _crowded(store: Store) -> str:
    """Of one machine that has fewer processors than ranks: an MPI that waits keeps its processor, or has to get one again."""
    for group in machine.shared(store):
        ranks, count = len(group.ranks), group.count
        if 0 < count < ranks:
            share = f"{ranks} ranks share {count} processor{'s' if count > 1 else ''} and wait for each other's turns"
            return (
                f"{share}: {'bind ranks to different processors' if group.bound else 'start a rank for each processor'}"
            )
    return ""


def _started_by_import(con: duckdb.DuckDBPyConnection, filled: frozenset[str]) -> set[int]:
    """Processes in which an import starts MPI, as that of mpi4py.MPI does."""
    if not {"mpi_ranks", "python_calls"} <= filled:
        return set()
    rows = con.execute(
        "SELECT process FROM mpi_ranks m SEMI JOIN python_calls i ON i.process = m.process AND i.kind = 'import'"
        " AND m.start_ns BETWEEN i.start_ns AND i.end_ns"
    ).fetchall()
    return {process for (process,) in rows}


def _take_sums(own: dict[str, float], whole: float, sums: Mapping[str, float], by_import: bool = False) -> None:
    """Add what is known as sums, out of what is left of the host's time; the rest is the host's own. Waiting for a device comes
    after MPI and before other calls, Python after both. `by_import`: an import started MPI."""
    for name in (RANKS, TRANSFER, ENDS, BUILDS, CALLS):
        python = (IMPORTS, PYTHON) if name == ENDS and by_import else (PYTHON, IMPORTS)
        after = python if name in (BUILDS, CALLS) else (DEVICE, *python)
        left = max(whole - sum(ns for part, ns in own.items() if part not in after), 0.0)
        taken = min(sums.get(name, 0.0), left)
        own[name] = own.get(name, 0.0) + taken
        for lower in after:
            over = max(sum(own.values()) - whole, 0.0)
            own[lower] = max(own.get(lower, 0.0) - over, 0.0)
    own[HOST] = max(whole - sum(own.values()), 0.0)


def _spans(con: duckdb.DuckDBPyConnection, filled: frozenset[str]) -> list[tuple[str, str]]:
    if "mpi_messages" in filled:
        con.execute(MPI_WAITS)
    return [*spans.unrecorded(con), *((name, sql) for name, table, sql in SPANS if table in filled)]


def _together(found: Sequence[_Process]) -> _Whole:
    """The sums of the processes, with the rank of which each part takes the largest share."""
    ranks = _of_ranks(found)
    several = len(ranks) > 1
    count = len(ranks) if several else 1
    parts = []
    for name in dict.fromkeys(name for process in found for name in process.parts):
        worst = max(ranks, key=lambda p: p.parts.get(name, 0.0) / p.length) if several else None
        total = sum(process.parts.get(name, 0.0) for process in found)
        if worst is not None and worst.parts.get(name, 0.0) - total / count < LEAST_NS:
            worst = None
        most = None if worst is None else 100.0 * worst.parts.get(name, 0.0) / worst.length
        parts.append(_Part(name, total, most, None if worst is None else worst.rank))
    return _Whole(sum(process.length for process in found), count, parts)


def _of_ranks(found: Sequence[_Process]) -> list[_Process]:
    """The time of each rank: that of its processes together."""
    by_rank: dict[int, _Process] = {}
    for process in found:
        if process.rank is None:
            continue
        known = by_rank.get(process.rank, _Process(process.rank, 0.0, {}))
        names = dict.fromkeys((*known.parts, *process.parts))
        parts = {name: known.parts.get(name, 0.0) + process.parts.get(name, 0.0) for name in names}
        by_rank[process.rank] = _Process(process.rank, known.length + process.length, parts)
    return list(by_rank.values())


def _rows(
    found: _Whole,
    run: float,
    kernels: Sequence[tuple[str, str, float]],
    better_advice: Callable[[str, float], str] = lambda part, ns: "",
) -> list[tuple[Any, ...]]:
    """share, time_ns, worst, worst_rank, kind, name, source, advice. `better_advice`: what this run says of a part, or nothing."""
    rows: list[tuple[Any, ...]] = [(100.0, run, None, None, "run", "run time", "", "")]
    order = [*dict.fromkeys(name for name, _, _ in SPANS), MPI, ENDS, CALLS, HOST]
    parts: list[tuple[Any, ...]] = [
        (100.0 * part.ns / found.total, part.ns / found.count, part.worst, part.worst_rank, "part", part.name, "", "")
        for part in sorted(found.parts, key=lambda part: order.index(part.name))
        if part.ns > 0
    ]
    rows += sorted(parts, key=lambda row: -row[0])
    device = sum(part.ns for part in found.parts if part.name in (COMPUTING, COPIES))
    if device:
        rows.append((100.0 * device / found.total, device / found.count, None, None, "device", "device busy", "", ""))
    for name, source, ns in kernels:
        shown = naming.demangled(name)
        rows.append((100.0 * ns / found.total, ns / found.count, None, None, "kernel", shown, source, ""))
    rows += _advice({row[5]: row for row in parts}, any(source for _, source, _ in kernels), better_advice)
    return rows


# From which share of the run (of the worst rank) a part is worth a word, and which.
_RULES: Sequence[tuple[str, float, str]] = (
    (BUILDS, 20.0, "keep the cache of built kernels between runs, or build before the timed part"),
    (RANKS, 10.0, "balance the ranks: see rank_balance and mpi_imbalance for the one that comes last"),
    (MPI, 20.0, "balance the ranks (rank_balance, efficiency), or send fewer and larger messages"),
    (TRANSFER, 20.0, "send fewer and larger messages, or compute while they travel"),
    (COPIES, 20.0, "keep data on the device between kernels; copy only what changed, from pinned memory"),
    (DEVICE, 10.0, "give each launch more work, or enqueue the next work before waiting"),
    (CALLS, 20.0, "create contexts, queues and memory once, not in a loop: see api_sum"),
)


def _advice(
    parts: Mapping[str, tuple[Any, ...]], has_occa: bool, better_advice: Callable[[str, float], str]
) -> list[tuple[Any, ...]]:
    """The part that costs most of those against which something can be done. `has_occa`: kernels are those of OCCA, which has a
    cache of its own."""
    signs = []
    for name, limit, words in _RULES:
        if name in parts:
            share, worst = parts[name][0], parts[name][2]
            if max(share, worst or 0.0) >= limit:
                signs.append((max(share, worst or 0.0), parts[name], words))
    if not signs:
        return []
    _, part, advice = max(signs, key=lambda sign: sign[0])
    if part[5] == BUILDS and has_occa:
        advice = advice.replace("the cache of built kernels", "OCCA_CACHE_DIR or the driver's cache")
    advice = better_advice(part[5], part[1]) or advice
    return [(*part[:4], "advice", part[5], "", advice)]
