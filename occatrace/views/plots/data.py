"""Tables of a run → the numbers of its plots: bounded in size however long the run is. Draws nothing.

All times are ns since the first call, range or work of the run, as in the reports.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import duckdb

from occatrace.reports import Report

Connection = duckdb.DuckDBPyConnection

POINTS = 600  # of a curve of memory; a longer history is told by the highest moment of each of as many parts
PARTS = 240  # of the time axis of the busy curves
GROUPS = 6  # of memory, the smaller ones together
QUEUES = 12
KERNELS = 12
DISTRIBUTIONS = 8

# Memory that counts: a part of another piece does not, nor OCCA's view of memory that its backend's calls tell of, too.
_HELD = """
CREATE OR REPLACE TEMP VIEW held_memory AS
    SELECT coalesce(d.name, CASE WHEN a.api = 'occa' THEN 'OCCA ' || coalesce(a.mode, '') ELSE api_title(a.api) END)
               || CASE WHEN a.kind = 'device' OR host_mode(a.mode) THEN '' ELSE ', ' || a.kind END AS name,
           a.process, a.thread, a.seq, a.function, a.bytes::BIGINT AS bytes, a.handle, a.kind, a.device, a.call_ns,
           a.start_ns AS since, CASE WHEN a.end_ns IS NOT NULL THEN greatest(a.end_ns, a.start_ns) END AS until
    FROM allocations a LEFT JOIN devices d USING (device)
    WHERE a.bytes > 0 AND a.parent IS NULL AND a.kind NOT IN ('slice', 'wrapped')
      AND (a.api <> 'occa' OR (a.process, lower(a.mode)) NOT IN (SELECT (process, api) FROM allocations WHERE api <> 'occa'))
"""
# What keeps a place busy: queues of devices; in the modes whose work is the call itself, the threads that call.
_WORK = """
CREATE OR REPLACE TEMP VIEW busy_places AS
    SELECT 'q' || coalesce(queue, 0) || '/' || coalesce(device, 0) AS place, start_ns AS s, greatest(start_ns, end_ns) AS e
    FROM activities
    UNION ALL
    SELECT 't' || r.thread || '/' || k.mode, r.start_ns, greatest(r.start_ns, r.end_ns)
    FROM kernel_runs r JOIN kernels k USING (kernel) WHERE host_mode(k.mode)
    UNION ALL
    SELECT 't' || thread || '/' || mode, start_ns, greatest(start_ns, end_ns) FROM occa_copies WHERE host_mode(mode)
"""
_PLACES = """
WITH several AS (SELECT count(*) > 1 AS yes FROM processes)
SELECT 'q' || coalesce(a.queue, 0) || '/' || coalesce(a.device, 0),
       coalesce('queue ' || q.id || ', ', '') || CASE WHEN yes THEN coalesce('process ' || p.pid || ', ', '') ELSE '' END
           || coalesce(d.name, 'unknown device')
FROM (SELECT DISTINCT device, queue FROM activities) a LEFT JOIN devices d USING (device) LEFT JOIN queues q ON q.queue = a.queue
LEFT JOIN processes p ON p.process = coalesce(q.process, d.process), several
UNION ALL
SELECT 't' || thread || '/' || mode, 'thread ' || tid || ', OCCA ' || mode
FROM (SELECT thread, k.mode FROM kernel_runs r JOIN kernels k USING (kernel) WHERE host_mode(k.mode)
      UNION SELECT thread, mode FROM occa_copies WHERE host_mode(mode)) JOIN threads USING (thread)
"""
# Of each piece of work what no earlier one covers: pieces that do not overlap, and together are the busy time.
_PIECES = """
CREATE OR REPLACE TEMP TABLE busy_pieces AS
    WITH clipped AS (
        SELECT place, greatest(s::BIGINT, $begin) AS s, least(e::BIGINT, $end) AS e FROM busy_places
        WHERE e::BIGINT >= $begin AND s::BIGINT <= $end
    ),
    ordered AS (
        SELECT place, s, e, max(e) OVER (PARTITION BY place ORDER BY s, e ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS until
        FROM clipped
    )
    SELECT place, greatest(s, coalesce(until, s))::BIGINT AS s, e::BIGINT AS e FROM ordered WHERE until IS NULL OR e > until
"""


@dataclass(frozen=True)
class Memory:
    """Memory in use over time. `bytes[g][i]` is what group `g` holds from `times[i]` on."""

    times: Sequence[int]
    groups: Sequence[str]
    bytes: Sequence[Sequence[int]]
    begin: int
    end: int
    peak: int
    peak_at: int
    left: int  # at the end
    exact: bool  # every change is a point


@dataclass(frozen=True)
class Row:
    """A queue, or a thread that works itself: what part of each part of the time it was busy."""

    name: str
    busy_ns: int
    parts: Sequence[float]


@dataclass(frozen=True)
class Busy:
    """Busy time of queues over time."""

    begin: int
    end: int
    rows: Sequence[Row]
    left_out: int


@dataclass(frozen=True)
class Kernel:
    """One kernel's part of all kernels' time."""

    name: str
    total_ns: int
    calls: int
    share: float


@dataclass(frozen=True)
class Shares:
    """Kernels by time, the largest first."""

    kernels: Sequence[Kernel]
    others: Kernel | None  # all that are smaller, with their number in the name


@dataclass(frozen=True)
class Distribution:
    """How long the calls of a kernel took: calls by quarters of an octave."""

    name: str
    calls: int
    median_ns: float | None
    buckets: Sequence[tuple[float, float, int]]  # from, below, calls


def memory(con: Connection, begin: int, end: int) -> Memory | None:
    """Memory between two moments, which are those of the run. None where no memory was allocated."""
    prepare(con)
    con.execute("""
        CREATE OR REPLACE TEMP TABLE memory_changes AS
        SELECT t::BIGINT - run_zero()::BIGINT AS t, name, sum(d)::BIGINT AS d
        FROM (SELECT since AS t, name, bytes AS d FROM held_memory
              UNION ALL SELECT until, name, -bytes FROM held_memory WHERE until IS NOT NULL)
        GROUP BY ALL""")
    con.execute("""
        CREATE OR REPLACE TEMP TABLE memory_totals AS
        SELECT t, sum(sum(d)) OVER (ORDER BY t)::BIGINT AS v FROM memory_changes GROUP BY t""")
    count, peak, at, left, first, last = con.execute(
        "SELECT count(*), max(v), arg_max(t, (v, -t)), arg_max(v, t), min(t), max(t) FROM memory_totals"
    ).fetchall()[0]
    if not count:
        return None
    # Damaged traces may have changes beyond the run.
    begin, end = min(begin, first), max(end, last)
    part = f"((t - {begin}) * {POINTS} // {end - begin + 1})"
    chosen = "SELECT t FROM memory_totals" if count <= POINTS else (
        f"SELECT arg_max(t, v) AS t FROM memory_totals GROUP BY {part} UNION SELECT max(t) FROM memory_totals"
    )  # fmt: skip
    by_size = con.execute("""
        SELECT name FROM (SELECT name, sum(d) OVER (PARTITION BY name ORDER BY t) AS v FROM memory_changes)
        GROUP BY name ORDER BY max(v) DESC, name""").fetchall()
    names = [row[0] for row in by_size]
    points = con.execute(f"""
        WITH running AS (SELECT name, t, sum(d) OVER (PARTITION BY name ORDER BY t)::BIGINT AS v FROM memory_changes),
        wanted AS (SELECT t, name FROM ({chosen}), (SELECT DISTINCT name FROM memory_changes))
        SELECT w.t, w.name, coalesce(r.v, 0) FROM wanted w ASOF LEFT JOIN running r ON r.name = w.name AND r.t <= w.t
        ORDER BY w.t""").fetchall()
    times = sorted({row[0] for row in points})
    place = {t: i for i, t in enumerate(times)}
    kept = names if len(names) <= GROUPS else names[: GROUPS - 1]
    groups = [*kept, *(["others"] if len(kept) < len(names) else [])]
    values = [[0] * len(times) for _ in groups]
    for t, name, value in points:
        values[kept.index(name) if name in kept else -1][place[t]] += value
    con.execute("DROP TABLE memory_changes")
    con.execute("DROP TABLE memory_totals")
    return Memory(times, groups, values, begin, end, int(peak), int(at), int(left), count <= POINTS)


def busy(con: Connection, begin: int, end: int) -> Busy | None:
    """Work between two moments. None where nothing worked."""
    origin = int(con.execute("SELECT run_zero()").fetchall()[0][0])
    prepare(con)
    con.execute(_PIECES, {"begin": origin + begin, "end": origin + end})
    totals = con.execute(
        "SELECT place, sum(e - s)::BIGINT AS busy FROM busy_pieces GROUP BY place ORDER BY busy DESC, place"
    ).fetchall()
    if not totals:
        return None
    length = end - begin
    width = length / PARTS
    names = dict(con.execute(_PLACES).fetchall())
    found: dict[str, list[float]] = {place: [0.0] * PARTS for place, _ in totals[:QUEUES]}
    pieces = con.execute(
        f"""
        WITH pieces AS (
            SELECT place, s - {origin + begin} AS s, e - {origin + begin} AS e,
                   least((s - {origin + begin}) * {PARTS} // {length}, {PARTS - 1}) AS first,
                   least(((e - {origin + begin}) * {PARTS} + {length - 1}) // {length}, {PARTS}) AS beyond
            FROM busy_pieces WHERE place IN ?
        ),
        -- Most lie within one part; only the others are cut.
        cut AS (SELECT place, s, e, unnest(range(first, beyond)) AS part FROM pieces WHERE beyond > first + 1)
        SELECT place, first, sum(e - s)::DOUBLE FROM pieces WHERE beyond <= first + 1 GROUP BY ALL
        UNION ALL
        SELECT place, part,
               sum(least(e::DOUBLE, (part + 1) * {width}::DOUBLE) - greatest(s::DOUBLE, part * {width}::DOUBLE))
        FROM cut GROUP BY ALL""",
        [list(found)],
    ).fetchall()
    for place, part, ns in pieces:
        found[place][part] = min(found[place][part] + float(ns) / width, 1.0)
    con.execute("DROP TABLE busy_pieces")
    # In the order of the reports: by device and queue.
    rows = [Row(names.get(place, "unknown queue"), int(total), found[place]) for place, total in totals[:QUEUES]]
    return Busy(begin, end, sorted(rows, key=lambda row: row.name), max(len(totals) - QUEUES, 0))


def shares(report: Report) -> Shares | None:
    """Of the rows of the report occa_kern_sum or gpu_kern_sum; None where it has none."""
    at = {column.name: place for place, column in enumerate(report.columns)}
    rows = [
        Kernel(row[at["name"]], int(row[at["total_ns"]] or 0), int(row[at["calls"]]), float(row[at["share"]] or 0))
        for row in report.rows
        if "parent" not in at or row[at["parent"]] is None
    ]
    if not rows:
        return None
    shown = rows if len(rows) <= KERNELS else rows[: KERNELS - 1]
    rest = rows[len(shown) :]
    others = Kernel(f"{len(rest)} others", *(sum(k.total_ns for k in rest), sum(k.calls for k in rest)),
                    sum(k.share for k in rest)) if rest else None  # fmt: skip
    return Shares(shown, others)


def distributions(con: Connection) -> Sequence[Distribution]:
    """Of the kernels with the most time."""
    rows = con.execute(f"""
        WITH work AS (
            SELECT thread, run_seq, sum(span(start_ns, end_ns)) AS ns FROM activities
            WHERE kind = 'kernel' AND run_seq IS NOT NULL GROUP BY ALL
        ),
        samples AS (
            SELECT k.name, CASE WHEN host_mode(k.mode) THEN span(r.start_ns, r.end_ns) ELSE w.ns END AS v
            FROM kernel_runs r JOIN kernels k USING (kernel) LEFT JOIN work w ON w.thread = r.thread AND w.run_seq = r.seq
            UNION ALL
            SELECT name, span(start_ns, end_ns) FROM activities
            WHERE kind = 'kernel' AND (SELECT count(*) FROM kernel_runs) = 0
        ),
        fine AS (SELECT name, bucket(v) AS b, count(*) AS n, sum(v) AS total, min(v) AS lowest, max(v) AS highest
                 FROM samples WHERE v IS NOT NULL GROUP BY ALL),
        chosen AS (SELECT name, sum(total) AS total, sum(n) AS calls, min(lowest) AS lowest, max(highest) AS highest
                   FROM fine GROUP BY name ORDER BY total DESC, name LIMIT {DISTRIBUTIONS})
        SELECT c.name, c.calls, f.b, f.n, c.lowest::DOUBLE, c.highest::DOUBLE FROM fine f JOIN chosen c USING (name)
        ORDER BY c.total DESC, c.name, f.b
        """).fetchall()
    out: list[Distribution] = []
    for name in dict.fromkeys(row[0] for row in rows):
        own = [row for row in rows if row[0] == name]
        calls, lowest, highest = int(own[0][1]), *own[0][4:]
        quarters: dict[float, tuple[float, int]] = {}
        seen, middles = 0, []
        for _, _, b, n, _, _ in own:
            low, high = _quarter(_middle(b))
            quarters[low] = (high, quarters.get(low, (high, 0))[1] + int(n))
            # As in the macro medians: between the two calls in the middle.
            middles += [_middle(b) for at in ((calls + 1) // 2, calls // 2 + 1) if seen < at <= seen + int(n)]
            seen += int(n)
        median = min(max(sum(middles) / len(middles), lowest), highest) if middles else None
        out.append(Distribution(name, calls, median, [(low, high, n) for low, (high, n) in sorted(quarters.items())]))
    return out


def _middle(b: int) -> float:
    """As in the macro bucket_middle."""
    if b < 128:
        return float(b)
    shift = 2.0 ** (b // 64 - 1)
    return float((64 + b % 64) * shift + (shift - 1) / 2)


def _quarter(value: float) -> tuple[float, float]:
    """The quarter of an octave around a value; below 1 ns there is only one."""
    if value < 1:
        return 0.5, 1.0
    quarter = math.floor(4 * math.log2(value))
    return 2.0 ** (quarter / 4), 2.0 ** ((quarter + 1) / 4)


def prepare(con: Connection) -> None:
    """Make the views `held_memory` and `busy_places`."""
    con.execute(_HELD)
    con.execute(_WORK)
