"""The report `overlap_sum`: how much of each rank's time is computing, copying and MPI, and which of them together.

Exact: at any moment what of the three has an open span. Spans of the same kind that overlap count once.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from occatrace.reports import limits, spans
from occatrace.reports.spans import COMPUTING, COPIES, OPENMP, UNRECORDED

if TYPE_CHECKING:
    from collections.abc import Sequence

    from occatrace.reports import Report
    from occatrace.store.tables import Store

# Without rows in any of these nothing was recorded.
_OF = frozenset(("call_stats", "activities", "kernel_runs", "omp_regions", "mpi_messages", "python_calls"))
_MPI = "MPI"
_KINDS = (COMPUTING, COPIES, _MPI, UNRECORDED)
# States of a row in the order of its columns, as bits: 1 computing, 2 copying, 4 MPI.
_STATES = (1, 2, 4, 3, 5, 6, 7)
_NOT_RECORDED = 8
_PLACES = """
CREATE OR REPLACE TEMP TABLE overlap_places AS
SELECT p.process, coalesce(m.rank, p.rank) AS rank, dense_rank() OVER (ORDER BY coalesce(m.rank, p.rank) NULLS FIRST) - 1 AS place,
       min(p.start_ns) OVER w AS s, max(p.end_ns) OVER w AS e
FROM processes p LEFT JOIN mpi_ranks m USING (process) WHERE p.end_ns > p.start_ns AND {}
WINDOW w AS (PARTITION BY coalesce(m.rank, p.rank))
"""


def rows(store: Store, _: str, __: Sequence[Report] = ()) -> list[tuple[Any, ...]]:
    """Rows of the report: the mean of all ranks, where there are several, then each rank."""
    if not store.filled & _OF:
        return []
    store.functions()
    con = store.con
    con.execute(_PLACES.format(spans.without(spans.launchers(con, store.filled))))
    of_tables = [
        (COMPUTING if name == OPENMP else name, sql)
        for name, table, sql in spans.SPANS
        if table in store.filled and name in (COMPUTING, COPIES, OPENMP)
    ]
    found = [
        *of_tables,
        (_MPI, "SELECT process, start_ns, end_ns FROM calls WHERE api = 'mpi'"),
        *spans.unrecorded(con),
    ]
    placed = [
        (
            name,
            f"SELECT p.place, greatest(t.s, p.s), least(t.e, p.e) FROM ({sql}) t(process, s, e) JOIN overlap_places p USING (process)",
        )
        for name, sql in found
    ]
    times: dict[int, dict[int, float]] = {}
    for place, found_times in spans.times(con, placed, _KINDS).items():
        states = times.setdefault(place, {})
        for state, ns in found_times.items():
            state = min(state, _NOT_RECORDED)  # what was not recorded counts as nothing else
            states[state] = states.get(state, 0.0) + ns
    places = con.execute("SELECT DISTINCT place, rank, (e - s)::DOUBLE FROM overlap_places ORDER BY place").fetchall()
    out = []
    sums: dict[int, float] = {}
    whole = 0.0
    for place, rank, length in places:
        own = times.get(place, {})
        recorded = length - own.get(_NOT_RECORDED, 0.0)
        if recorded <= 0:
            continue
        out.append(_row(own, recorded, rank, "run" if rank is None else f"rank {rank}"))
        whole += recorded
        for state in _STATES:
            sums[state] = sums.get(state, 0.0) + own.get(state, 0.0)
    if len(out) > 1:
        mean = _row(sums, whole, None, "all ranks" if all(rank is not None for _, rank, _ in places) else "all")
        out.insert(0, (*mean[:8], whole / len(out), *mean[9:]))
    return out


def _row(own: dict[int, float], recorded: float, rank: int | None, name: str) -> tuple[Any, ...]:
    parts = [own.get(state, 0.0) for state in _STATES]
    idle = max(recorded - sum(parts), 0.0)
    return (*(100.0 * ns / recorded for ns in (*parts, idle)), recorded, rank, name)


def notes(store: Store, _: str) -> list[str]:
    """What cannot be told."""
    out = limits.lines(
        store,
        "what ran when is not known, and all of it counts as idle",
        "what they were is missing here and counts as idle",
        "only the recorded time counts",
    )
    tallied, whole = store.con.execute(
        "SELECT coalesce(sum(total_ns), 0)::DOUBLE / 1e6, (SELECT sum(span(start_ns, end_ns)) FROM processes)::DOUBLE / 1e6"
        " FROM call_stats WHERE api = 'mpi' AND source = 'tally'"
    ).fetchall()[0]
    if tallied > 0.001 * (whole or 0.0) and not any(line.startswith("-m tally") for line in out):
        out.append(f"calls of MPI that were only counted ({tallied:,.3g} ms in all) have no times and count as idle")
    return out
