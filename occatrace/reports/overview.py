"""The report `overview`: the time of a run in parts that add up, from tables that every run has. No single calls are read.

Every moment of a process is given to the first part that it belongs to, so that nothing counts twice. What is known as a sum
only (waits for requests, calls that were tallied) is taken out of the host's part afterwards.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from occatrace import reports
from occatrace.core import naming
from occatrace.core.schema import HOST_MODES, MEMORY_KINDS
from occatrace.store import captures

if TYPE_CHECKING:
    from occatrace.core.duck import duckdb
    from occatrace.reports import Report
    from occatrace.store.tables import Store

TOP_KERNELS = 3
# Without rows in any of these nothing was recorded.
_OF = frozenset(("call_stats", "activities", "kernel_runs", "builds", "omp_regions", "mpi_messages", "python_calls"))

COMPUTING, COPIES, BUILDS, OPENMP = "device computing", "copies", "kernel builds", "OpenMP regions"
TRANSFER, RANKS, DEVICE = "MPI transfer", "waiting for other ranks", "waiting for the device"
ENDS, CALLS, PYTHON, HOST = "start and end of MPI", "other traced calls", "Python", "host computing"
_UNRECORDED = "not recorded"
_COPIED = f"({', '.join(repr(kind) for kind in MEMORY_KINDS)})"
_ON_HOST = f"({', '.join(repr(mode) for mode in HOST_MODES)})"

# Spans of each part as SELECT process, s, e, in the order in which a moment is given away, with the tables of which it is made.
_SPANS: Sequence[tuple[str, str, str]] = (
    (COMPUTING, "activities", "SELECT process, start_ns, end_ns FROM activities WHERE kind IN ('kernel', 'native')"),
    (
        COMPUTING,
        "kernel_runs",
        f"SELECT r.process, r.start_ns, r.end_ns FROM kernel_runs r JOIN kernels k USING (kernel) WHERE k.mode IN {_ON_HOST}",
    ),
    (COPIES, "activities", f"SELECT process, start_ns, end_ns FROM activities WHERE kind IN {_COPIED}"),
    (COPIES, "occa_copies", f"SELECT process, start_ns, end_ns FROM occa_copies WHERE mode IN {_ON_HOST}"),
    (BUILDS, "builds", "SELECT process, start_ns, end_ns FROM builds"),
    (OPENMP, "omp_regions", "SELECT process, start_ns, end_ns FROM omp_regions WHERE depth = 0"),
    (RANKS, "mpi_messages", "SELECT process, start_ns, until_ns FROM mpi_waits"),
    (
        TRANSFER,
        "mpi_messages",
        "SELECT process, start_ns, end_ns FROM mpi_messages WHERE function IS NOT NULL AND state = 'complete'",
    ),
    (
        DEVICE,
        "activities",
        "SELECT process, queued_ns, start_ns FROM activities WHERE queued_ns > 0 AND kind != 'marker'",
    ),
    (PYTHON, "python_calls", "SELECT process, start_ns, end_ns FROM python_calls WHERE parent IS NULL"),
)
# Until when each blocking call of MPI waited for others. MPI keeps the order of messages between two ranks, and of collectives
# of a communicator; a collective needs no rank that comes after it is over.
_MPI_WAITS = """
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
# What calls of MPI wait in, where it is known by a sum only; and calls that may wait, start work or build.
_WAITING = re.compile(r"^MPI_(Wait|Mprobe|Probe|Win_(fence|wait|complete|lock|unlock|flush))")
_MPI_ENDS = ("MPI_Init", "MPI_Init_thread", "MPI_Finalize", "MPI_Session_init", "MPI_Session_finalize")
_BUSY_CALLS = re.compile(
    r"Finish|Wait|Synchronize|Enqueue|[Mm]emcpy|[Mm]emset|[Ll]aunch|Query|MapBuffer|Build|Compile|Module"
)


@dataclass(frozen=True)
class _Process:
    """The time of one process: recorded in all, and its parts."""

    rank: int | None
    length: float
    parts: Mapping[str, float]


def rows(store: Store, _: str, made: Sequence[Report] = ()) -> list[tuple[Any, ...]]:
    """Rows of the report. `made`: reports that there are already, for the kernels."""
    con, filled = store.con, store.filled
    if not filled & _OF:
        return []
    found, run = _processes(con, filled)
    return _rows(found, run, _kernels(store, made)) if found else []


def _kernels(store: Store, made: Sequence[Report]) -> list[tuple[str, str, float]]:
    """Name, place and time of the kernels with most of it."""
    for name in ("occa_kern_sum", "gpu_kern_sum"):
        report = next((each for each in made if each.name == name), None) or reports.make(store, name)
        if report.rows:
            at = {column.name: place for place, column in enumerate(report.columns)}
            parts = [row for row in report.rows if "parent" not in at or row[at["parent"]] is None]
            source = at.get("source")
            found = [
                (row[at["name"]], row[source] if source is not None else "", row[at["total_ns"]] or 0) for row in parts
            ]
            return sorted(found, key=lambda kernel: -kernel[2])[:TOP_KERNELS]
    return []


def _processes(con: duckdb.DuckDBPyConnection, filled: frozenset[str]) -> tuple[list[_Process], float]:
    """The time of each process, and that of the run."""
    lengths = con.execute(
        "SELECT process, rank, span(start_ns, end_ns)::DOUBLE, recorded_ns(max(end_ns) OVER ()::BIGINT - min(start_ns) OVER ()::BIGINT)"
        " FROM processes WHERE end_ns > start_ns ORDER BY process"
    ).fetchall()
    spans = _spans(con, filled)
    parts: dict[int, dict[str, float]] = {process: {} for process, *_ in lengths}
    if spans:
        names = list(dict.fromkeys(name for name, _ in spans))
        for process, part, ns in con.execute(_sweep(spans, names)).fetchall():
            if process in parts and part is not None and ns:
                parts[process][names[part]] = float(ns)
    sums = _sums(con, filled)
    out = []
    for process, rank, length, _ in lengths:
        own = parts[process]
        whole = max(length - own.pop(_UNRECORDED, 0.0), 0.0)
        _take_sums(own, whole, sums.get(process, {}))
        if whole > 0:
            out.append(_Process(rank, whole, own))
    return out, float(lengths[0][3]) if lengths else 0.0


def _sums(con: duckdb.DuckDBPyConnection, filled: frozenset[str]) -> dict[int, dict[str, float]]:
    """By process, what is known as sums: of MPI without the calls that are spans, of calls that neither wait, build nor start work;
    of the thread that has most. CUDA's runtime calls its driver: the larger of the two counts."""
    if "call_stats" not in filled:
        return {}
    apis = "'mpi', 'opencl', 'cuda', 'cudart', 'hip'"
    threads: dict[tuple[int, str], dict[Any, float]] = {}
    for process, thread, api, function, ns in con.execute(
        f"SELECT process, thread, api, function, total_ns::DOUBLE FROM call_stats WHERE api IN ({apis}) AND calls > 0"
    ).fetchall():
        if function in _MPI_ENDS:
            part, key = ENDS, thread
        elif api == "mpi":
            part, key = (RANKS if _WAITING.match(function) else TRANSFER), thread
        elif not _BUSY_CALLS.search(function):
            part, key = CALLS, (thread, api)
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


def _take_sums(own: dict[str, float], whole: float, sums: Mapping[str, float]) -> None:
    """Add what is known as sums, out of what is left of the host's time; the rest is the host's own."""
    for name in (RANKS, TRANSFER, ENDS, CALLS):
        left = max(whole - sum(ns for part, ns in own.items() if part not in (PYTHON, DEVICE)), 0.0)
        taken = min(sums.get(name, 0.0), left)
        own[name] = own.get(name, 0.0) + taken
        for lower in (DEVICE, PYTHON):
            over = max(sum(own.values()) - whole, 0.0)
            own[lower] = max(own.get(lower, 0.0) - over, 0.0)
    own[HOST] = max(whole - sum(own.values()), 0.0)


def _spans(con: duckdb.DuckDBPyConnection, filled: frozenset[str]) -> list[tuple[str, str]]:
    if "mpi_messages" in filled:
        con.execute(_MPI_WAITS)
    spans = [(name, sql) for name, table, sql in _SPANS if table in filled]
    if captures.partly(con):
        clipped = (
            "SELECT process, greatest(u.start_ns, p.start_ns), least(u.end_ns, p.end_ns)"
            " FROM unrecorded u JOIN processes p USING (process)"
        )
        spans.insert(0, (_UNRECORDED, clipped))
    return spans


def _sweep(spans: Sequence[tuple[str, str]], names: Sequence[str]) -> str:
    """Per process the time of each part: at any moment the first one of which a span is open."""
    place = {name: number for number, name in enumerate(names)}
    marks = " UNION ALL ".join(
        f"SELECT process, unnest([s, e])::BIGINT AS t, unnest([1, -1]) AS d, {place[name]} AS part FROM ({sql}) t(process, s, e)"
        " WHERE s < e"
        for name, sql in spans
    )
    counts = ", ".join(f"sum(CASE part WHEN {n} THEN d ELSE 0 END) OVER w AS n{n}" for n in place.values())
    first = " ".join(f"WHEN n{n} > 0 THEN {n}" for n in place.values())
    return f"""
        WITH running AS (
            SELECT process, t, lead(t) OVER w AS until, {counts} FROM ({marks})
            WINDOW w AS (PARTITION BY process ORDER BY t ROWS UNBOUNDED PRECEDING)
        )
        SELECT process, CASE {first} END AS part, sum(until - t) FROM running GROUP BY ALL"""


def _rows(found: Sequence[_Process], run: float, kernels: Sequence[tuple[str, str, float]]) -> list[tuple[Any, ...]]:
    """share, time_ns, worst, worst_rank, kind, name, source, advice."""
    total = sum(process.length for process in found)
    ranks = [process for process in found if process.rank is not None]
    several = len({process.rank for process in ranks}) > 1
    rows: list[tuple[Any, ...]] = [(100.0, run, None, None, "run", "run time", "", "")]
    order = [*dict.fromkeys(name for name, _, _ in _SPANS), ENDS, CALLS, HOST]
    device = sum(process.parts.get(name, 0.0) for process in found for name in (COMPUTING, COPIES))
    parts: list[tuple[Any, ...]] = []
    for name in order:
        ns = sum(process.parts.get(name, 0.0) for process in found)
        if ns <= 0:
            continue
        worst = max(ranks, key=lambda p: p.parts.get(name, 0.0) / p.length) if several else None
        most = None if worst is None else 100.0 * worst.parts.get(name, 0.0) / worst.length
        whose = None if worst is None else worst.rank
        parts.append((100.0 * ns / total, ns / len(found), most, whose, "part", name, "", ""))
    rows += sorted(parts, key=lambda row: -row[0])
    if device:
        rows.append((100.0 * device / total, device / len(found), None, None, "device", "device busy", "", ""))
    for name, source, ns in kernels:
        shown = naming.demangled(name)
        rows.append((100.0 * ns / total, ns / len(found), None, None, "kernel", shown, source, ""))
    rows += _advice({row[5]: row for row in parts})
    return rows


# From which share of the run (of the worst rank) a part is worth a word, and which.
_RULES: Sequence[tuple[str, float, str]] = (
    (BUILDS, 20.0, "keep OCCA_CACHE_DIR or the driver's cache between runs, or build before the timed part"),
    (RANKS, 10.0, "balance the ranks: see rank_balance and mpi_imbalance for the one that comes last"),
    (TRANSFER, 20.0, "send fewer and larger messages, or compute while they travel"),
    (COPIES, 20.0, "keep data on the device between kernels; copy only what changed, from pinned memory"),
    (DEVICE, 10.0, "give each launch more work, or enqueue the next work before waiting"),
    (CALLS, 20.0, "create contexts, queues and memory once, not in a loop: see api_sum"),
)


def _advice(parts: Mapping[str, tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    """The part that costs most of those against which something can be done."""
    signs = []
    for name, limit, words in _RULES:
        if name in parts:
            share, worst = parts[name][0], parts[name][2]
            if max(share, worst or 0.0) >= limit:
                signs.append((max(share, worst or 0.0), parts[name], words))
    if not signs:
        return []
    _, part, advice = max(signs, key=lambda sign: sign[0])
    return [(*part[:4], "advice", part[5], "", advice)]
