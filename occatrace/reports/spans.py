"""What a process did when, as spans from tables that every run has, and how many of each kind are open at any moment. No output."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from occatrace.core.schema import HOST_MODES, MEMORY_KINDS
from occatrace.store import captures

if TYPE_CHECKING:
    from occatrace.core.duck import duckdb

COMPUTING, COPIES, BUILDS, OPENMP = "device computing", "copies", "kernel builds", "OpenMP regions"
TRANSFER, RANKS, DEVICE = "MPI transfer", "waiting for other ranks", "waiting for the device"
PYTHON, START = "Python", "before the first traced call"
UNRECORDED = "not recorded"
_COPIED = f"({', '.join(repr(kind) for kind in MEMORY_KINDS)})"
_ON_HOST = f"({', '.join(repr(mode) for mode in HOST_MODES)})"

# Spans of each part as SELECT process, s, e, in the order in which a moment is given away, with the tables of which it is made.
SPANS: Sequence[tuple[str, str, str]] = (
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
    # The program before it uses a traced API, and the start of the recording with its first call.
    (
        START,
        "threads",
        "SELECT process, p.start_ns, min(t.start_ns) FROM threads t JOIN processes p USING (process) GROUP BY ALL",
    ),
)


def unrecorded(con: duckdb.DuckDBPyConnection) -> list[tuple[str, str]]:
    """Spans in which the run did not record; none where it recorded all the time."""
    if not captures.partly(con):
        return []
    clipped = (
        "SELECT process, greatest(u.start_ns, p.start_ns), least(u.end_ns, p.end_ns)"
        " FROM unrecorded u JOIN processes p USING (process)"
    )
    return [(UNRECORDED, clipped)]


def running(spans: Sequence[tuple[str, str]], names: Sequence[str]) -> str:
    """A query: between any two marks of a process, whether a span of each name is open. Columns process, t, until, and n0, n1, …
    (0 or 1) in the order of the names. `spans`: names with queries of process, start and end; a name may have several.

    Spans of a name that overlap are made one first, so that one running sum of bits tells of all names: a running sum for each
    took three times as long on a million launches. All names go through the same windows: windows for each of five names took
    20 ms of processor time on a run without much in it, which is what a short run waits for."""
    place = {name: number for number, name in enumerate(names)}
    every = " UNION ALL ".join(f"SELECT {place[name]} AS n, * FROM ({sql}) t(process, s, e)" for name, sql in spans)
    open_now = ", ".join(f"(open >> {n}) & 1 AS n{n}" for n in place.values())
    return f"""
        SELECT process, t, until, {open_now} FROM (
            SELECT process, t, lead(t) OVER w AS until, (sum(d) OVER w)::BIGINT AS open FROM (
                SELECT process, unnest([s, e]) AS t, unnest([1, -1]) * (1::BIGINT << n) AS d FROM ({_joined(every)}))
            WINDOW w AS (PARTITION BY process ORDER BY t ROWS UNBOUNDED PRECEDING))"""


def _joined(sql: str) -> str:
    """A query: spans of a process and a name that overlap or meet as one; columns process, n, s, e. `sql`: the same columns."""
    return f"""
        SELECT process, n, min(s) AS s, max(e) AS e FROM (
            SELECT process, n, s, e, sum((s > coalesce(before, -1))::BIGINT) OVER (w ROWS UNBOUNDED PRECEDING) AS k FROM (
                SELECT *, max(e) OVER (w ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS before
                FROM (SELECT process, n, s::BIGINT AS s, e::BIGINT AS e FROM ({sql}) WHERE s < e)
                WINDOW w AS (PARTITION BY process, n ORDER BY s))
            WINDOW w AS (PARTITION BY process, n ORDER BY s))
        GROUP BY process, n, k"""
