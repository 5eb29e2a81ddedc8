"""Which part of a timeline to look at: a gap of a device, a kernel, a time."""

from __future__ import annotations

import re

from occatrace.core import naming
from occatrace.core.units import Range, UnitError, parse_moment, parse_range
from occatrace.store.tables import Store

_AROUND = 5  # of what is looked for, so many times its length is shown
_SHORTEST_NS = 1000
_MOMENT_NS = 10_000_000  # that is shown of a run around a single moment


class NotFound(Exception):
    """The run has no such thing."""


def find(store: Store, where: str) -> tuple[int, int]:
    """Begin and end of the part, by the clock of the trace (CLOCK_REALTIME)."""
    zero, end, realtime = (
        int(value)
        for value in store.con.execute(
            "SELECT run_zero(), coalesce(max(end_ns), 0), coalesce(arg_min(realtime_ns::BIGINT - mono_ns::BIGINT, process)"
            " FILTER (realtime_ns > 0), 0) FROM processes"
        ).fetchall()[0]
    )
    kind, colon, what = where.partition(":")
    if colon and kind in ("gap", "kernel"):
        begin, last = _gap(store, what) if kind == "gap" else _kernel(store, what)
        margin = max(_AROUND * (last - begin) // 2, _SHORTEST_NS) if kind == "kernel" else max((last - begin) // 4, 1)
    else:
        begin, last, margin = _time(where, zero, end, realtime)
    # The interface ignores a part that is not wholly in the trace.
    first, final = max(begin - margin, zero), min(last + margin, end)
    if final <= first:
        raise NotFound("lies outside of the run")
    return first + realtime, final + realtime


def _gap(store: Store, what: str) -> tuple[int, int]:
    if not re.fullmatch(r"[1-9]\d{0,9}", what):
        raise NotFound("write gap:1 for the longest gap, gap:2 for the next")
    rows = store.con.execute(
        """
        WITH work AS (
            SELECT device, start_ns AS s,
                   max(greatest(start_ns, end_ns)) OVER (PARTITION BY device ORDER BY start_ns, end_ns
                                                         ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS until, process
            FROM activities WHERE device IS NOT NULL
        )
        SELECT until, s FROM work WHERE s > until AND s - until > unrecorded_ns(process, until, s)
        ORDER BY s - until - unrecorded_ns(process, until, s) DESC, s LIMIT 1 OFFSET ?""",
        [int(what) - 1],
    ).fetchall()
    if not rows:
        raise NotFound("no device has so many gaps (report gpu_gaps)")
    return int(rows[0][0]), int(rows[0][1])


def _kernel(store: Store, what: str) -> tuple[int, int]:
    """The first launch of a kernel, by its name in the source or as it was recorded."""
    names = [
        name
        for (name,) in store.con.execute("SELECT DISTINCT name FROM activities WHERE kind = 'kernel'").fetchall()
        if name and what in (name, naming.short(name), naming.demangled(name))
    ]
    rows = store.con.execute(
        """
        SELECT start_ns, end_ns FROM (
            SELECT a.start_ns, a.end_ns FROM activities a LEFT JOIN kernels k USING (kernel)
            WHERE a.kind = 'kernel' AND (k.name = $what OR list_contains($names::VARCHAR[], a.name))
            UNION ALL
            SELECT r.start_ns, r.end_ns FROM kernel_runs r JOIN kernels k USING (kernel) WHERE k.name = $what AND host_mode(k.mode)
        ) ORDER BY start_ns LIMIT 1""",
        {"what": what, "names": names},
    ).fetchall()
    if not rows:
        raise NotFound("no kernel of this name ran (report gpu_kern_sum or occa_kern_sum)")
    return int(rows[0][0]), int(rows[0][1])


def _time(where: str, zero: int, end: int, realtime: int) -> tuple[int, int, int]:
    try:
        moment = parse_moment(where).at(zero, end, realtime)
    except UnitError:
        if ":" not in where:
            raise
    else:
        return moment, moment, _MOMENT_NS
    window: Range = parse_range(where, "--at")
    begin = window.begin.at(zero, end, realtime) if window.begin else zero
    return begin, window.end.at(zero, end, realtime) if window.end else end, 0
