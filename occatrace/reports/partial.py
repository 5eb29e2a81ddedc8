"""Partial summaries: what the reports of the summary need to know of some ranks, in a form that adds up.

Three relations: `state` (statistics per rank), `hist` (histograms, all ranks together) and `busy` (times in which
something ran, touching ones joined). Those of two sets of ranks are those of all of them after a merge, which is a
grouped sum, so that any number of parts is merged as a tree, and the result is no larger than one of them. `busy` alone
may grow; it stays with those who have all ranks on one clock, and is not kept in files.
"""

from __future__ import annotations

import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from occatrace import reports
from occatrace.core.duck import duckdb
from occatrace.core.sql import text as sql_text
from occatrace.reports import efficiency, overview, spans
from occatrace.store.macros import macros

RELATIONS = ("state", "hist", "busy")
FILES = ("state", "hist")
FAN = 512  # files of a kind that are read at once
KEY = "what, name, mode, source, parent"
Part = Mapping[str, Mapping[str, Any]]
"""The three relations as columns."""

# `what`: occa (kernels of OCCA), backend (those that they launched), gpu (kernels of devices), memory, size, api, cause, balance
# (what each rank spends; its kind in `mode`), efficiency (rank_efficiency), overview (parts of the time of each rank),
# line (of the program that made memory operations, in `source`).
_SAMPLES = """
CREATE OR REPLACE TEMP TABLE samples AS
WITH named AS (
    SELECT kernel, name, mode, source || CASE WHEN line > 0 THEN ':' || line ELSE '' END AS source FROM kernels
),
work AS (
    SELECT thread, run_seq, sum(span(start_ns, end_ns)) AS ns FROM activities
    WHERE kind = 'kernel' AND run_seq IS NOT NULL GROUP BY thread, run_seq
),
runs AS (
    SELECT r.process, coalesce(n.name, '(unknown kernel)') AS name, coalesce(n.mode, '') AS mode, coalesce(n.source, '') AS source,
           coalesce(host_mode(n.mode), false) AS on_host, r.start_ns, r.end_ns, r.error IS NOT NULL AS failed, w.ns
    FROM kernel_runs r LEFT JOIN named n USING (kernel) LEFT JOIN work w ON w.thread = r.thread AND w.run_seq = r.seq
),
launches AS (
    SELECT a.process, n.name AS parent, n.mode, n.source, a.name, a.start_ns, a.end_ns, a.status < 0 AS failed
    FROM activities a JOIN named n USING (kernel) WHERE a.kind = 'kernel'
),
copies AS (
    SELECT a.process, memory_operation(a.kind, a.source, a.target, d.api) AS kind, coalesce(api_title(d.api), '') AS mode,
           a.start_ns, a.end_ns, a.bytes, a.status < 0 AS failed
    FROM activities a LEFT JOIN devices d USING (device)
    WHERE a.kind IN ('HtoD', 'DtoH', 'DtoD', 'HtoH', 'fill', 'map', 'unmap', 'migrate')
    UNION ALL
    SELECT process, kind, mode, start_ns, end_ns, bytes, error IS NOT NULL FROM occa_copies WHERE host_mode(mode)
),
all_samples AS (
    SELECT process, 'occa' AS what, name, mode, source, '' AS parent, 1 AS n,
           CASE WHEN on_host THEN span(start_ns, end_ns) ELSE ns END AS v, 0::UBIGINT AS bytes, failed,
           CASE WHEN on_host THEN start_ns END AS s, CASE WHEN on_host THEN end_ns END AS e
    FROM runs
    UNION ALL  -- the busy time of an OCCA kernel on a device is that of its launches
    SELECT process, 'occa', parent, mode, source, '', 0, NULL, 0, false, start_ns, end_ns FROM launches
    UNION ALL
    SELECT process, 'backend', name, mode, source, parent, 1, span(start_ns, end_ns), 0, failed, start_ns, end_ns FROM launches
    UNION ALL
    SELECT a.process, 'gpu', a.name, coalesce(d.name, ''), '', '', 1, span(start_ns, end_ns), 0, status < 0, start_ns, end_ns
    FROM activities a LEFT JOIN devices d USING (device) WHERE kind = 'kernel'
    UNION ALL
    SELECT process, 'memory', kind, mode, '', '', 1, span(start_ns, end_ns), CASE WHEN failed THEN 0 ELSE bytes END, failed,
           start_ns, end_ns
    FROM copies
    UNION ALL
    SELECT process, 'size', kind, mode, '', '', 1, bytes, 0, false, NULL, NULL FROM copies WHERE NOT failed
)
SELECT p.rank, a.* EXCLUDE (process) FROM all_samples a JOIN processes p USING (process)
"""
_STATE = f"""
SELECT rank, {KEY}, sum(n)::UBIGINT AS n, count(v)::UBIGINT AS nv, count(*) FILTER (failed)::UBIGINT AS failed,
       coalesce(sum(v), 0)::DOUBLE AS total, coalesce(avg(v), 0)::DOUBLE AS mean,
       coalesce(var_pop(v::DOUBLE) * count(v), 0)::DOUBLE AS m2, min(v)::DOUBLE AS low, max(v)::DOUBLE AS high,
       sum(bytes)::DOUBLE AS bytes
FROM samples GROUP BY rank, {KEY} HAVING sum(n) > 0
UNION ALL
SELECT p.rank, 'api', c.function, c.api, '', '', sum(c.calls)::UBIGINT, sum(c.calls)::UBIGINT, sum(c.failed)::UBIGINT,
       sum(c.total_ns)::DOUBLE, m.mean, sum(c.m2 + c.calls * (c.mean_ns - m.mean) ** 2), min(c.min_ns)::DOUBLE,
       max(c.max_ns)::DOUBLE, sum(c.bytes)::DOUBLE
FROM call_stats c JOIN processes p USING (process)
JOIN (SELECT p.rank, api, function, sum(mean_ns * calls) / sum(calls) AS mean FROM call_stats JOIN processes p USING (process)
      WHERE calls > 0 GROUP BY ALL) m ON m.api = c.api AND m.function = c.function AND m.rank IS NOT DISTINCT FROM p.rank
WHERE c.calls > 0 GROUP BY p.rank, c.api, c.function, m.mean
UNION ALL
SELECT p.rank, 'cause', function, api, error, '', count(*)::UBIGINT, 0, 0, 0, 0, 0, NULL, NULL, 0
FROM failures f JOIN processes p USING (process) GROUP BY ALL
UNION ALL
SELECT p.rank, 'line', g.name, g.mode, l.source, '', count(*)::UBIGINT, count(*)::UBIGINT, 0, sum(l.ns)::DOUBLE, avg(l.ns), 0, NULL,
       NULL, sum(l.bytes)::DOUBLE
FROM memory_lines l JOIN memory_groups g USING (key) JOIN processes p USING (process) GROUP BY p.rank, g.name, g.mode, l.source
UNION ALL
SELECT rank, 'balance', name, what, '', '', 1, 1, 0, ns::DOUBLE, ns::DOUBLE, 0, ns::DOUBLE, ns::DOUBLE, 0 FROM rank_work
UNION ALL
SELECT rank, 'efficiency', name, '', '', '', count(*), count(*), 0, sum(ns), avg(ns), 0, min(ns), max(ns), 0 FROM rank_efficiency
GROUP BY rank, name
UNION ALL
SELECT rank, 'overview', name, '', '', '', count(*), count(*), 0, sum(ns), avg(ns), 0, min(ns), max(ns), 0 FROM overview_parts
GROUP BY rank, name
"""
_HIST = f"""
SELECT {KEY}, bucket_middle(bucket(v)) AS value, count(*)::UBIGINT AS n, rank FROM samples WHERE v IS NOT NULL GROUP BY ALL
UNION ALL
SELECT 'api', function, api, '', '', value_ns, sum(calls)::UBIGINT, rank FROM call_hist JOIN processes USING (process) GROUP BY ALL
"""
_INTERVALS = f"SELECT {KEY}, s, greatest(s, e) AS e FROM samples WHERE s IS NOT NULL"
_MERGED = {
    "hist": f"SELECT {KEY}, value, sum(n)::UBIGINT AS n FROM {{source}} GROUP BY ALL",
    # Statistics of each rank become those of all, with the ranks that have least and most.
    "state": f"""
        SELECT {KEY}, sum(s.n)::UBIGINT AS n, sum(s.nv)::UBIGINT AS nv, sum(s.failed)::UBIGINT AS failed, sum(s.total) AS total,
               m.mean, sum(s.m2 + s.nv * (s.mean - m.mean) ** 2) AS m2, min(s.low) AS low, max(s.high) AS high,
               sum(s.bytes) AS bytes, sum(s.ranks)::UBIGINT AS ranks, min(s.least) AS least,
               arg_min(s.least_rank, (s.least, s.least_rank)) AS least_rank, max(s.most) AS most,
               arg_max(s.most_rank, (s.most, -s.most_rank)) AS most_rank
        FROM {{source}} s JOIN (
            SELECT {KEY}, CASE WHEN sum(nv) > 0 THEN sum(total) / sum(nv) ELSE 0 END AS mean FROM {{source}} GROUP BY {KEY}
        ) m USING ({KEY})
        GROUP BY {KEY}, m.mean""",
}
# One rank's state in the form of many's.
_OF_RANK = f"""
SELECT {KEY}, n, nv, failed, total, mean, m2, low, high, bytes, CASE WHEN rank IS NULL THEN 0 ELSE 1 END::UBIGINT AS ranks,
       CASE WHEN rank IS NOT NULL THEN total END AS least, rank AS least_rank, CASE WHEN rank IS NOT NULL THEN total END AS most,
       rank AS most_rank FROM ({_STATE})
"""


def make(con: duckdb.DuckDBPyConnection) -> None:
    """The partial summary of the open tables, as temporary tables `state`, `hist` and `busy`. (After `prepare`.)"""
    make_by_rank(con)
    _merge_tables(con, "raw_")


def _merge_tables(con: duckdb.DuckDBPyConnection, prefix: str) -> None:
    """The relations from temporary tables with rows that are still to be merged."""
    for name in FILES:
        con.execute(f"CREATE OR REPLACE TEMP TABLE {name} AS {merged(name, f'{prefix}{name}')}")
    _join_intervals(con, f"{prefix}busy")
    for name in RELATIONS:
        con.execute(f"DROP TABLE {prefix}{name}")


def _join_intervals(con: duckdb.DuckDBPyConnection, source: str) -> None:
    """`busy` from intervals that may overlap. (In SQL it takes two windows, and ten times as long.)"""
    con.execute(
        f"CREATE OR REPLACE TEMP TABLE groups AS SELECT *, row_number() OVER () - 1 AS number FROM"
        f" (SELECT DISTINCT {KEY} FROM {source})"
    )
    rows = con.execute(f"SELECT number, s, e FROM {source} JOIN groups USING ({KEY}) ORDER BY number, s").fetchnumpy()
    number = rows["number"].astype(np.int64)
    if len(number):
        first = int(rows["s"].min())
        s, e = rows["s"].astype(np.int64) - first, rows["e"].astype(np.int64) - first
        span = int(e.max()) + 1
        # Groups one after the other on one axis: nothing reaches from one into the next.
        until = np.maximum.accumulate(e + number * span)
        begins = np.flatnonzero(np.r_[True, (s + number * span)[1:] > until[:-1]])
        last = np.r_[begins[1:], len(s)] - 1
        ends = until[last] - number[last] * span
        joined = {"number": number[begins], "s": s[begins] + first, "e": ends + first}
    else:
        joined = {name: np.empty(0, np.int64) for name in ("number", "s", "e")}
    con.register("batch", joined)
    con.execute(
        f"CREATE OR REPLACE TEMP TABLE busy AS SELECT {KEY}, s::UBIGINT AS s, e::UBIGINT AS e FROM batch JOIN groups USING (number)"
    )
    con.unregister("batch")
    con.execute("DROP TABLE groups")


def make_by_rank(con: duckdb.DuckDBPyConnection) -> None:
    """The same before ranks are put together: `raw_state`, `raw_hist` (with a column `rank`) and `raw_busy`."""
    con.execute(_SAMPLES)
    _parts_of_time(con)
    con.execute(f"CREATE OR REPLACE TEMP TABLE raw_state AS {_OF_RANK}")
    con.execute(f"CREATE OR REPLACE TEMP TABLE raw_hist AS {_HIST}")
    con.execute(f"CREATE OR REPLACE TEMP TABLE raw_busy AS {_INTERVALS}")
    con.execute("DROP TABLE samples")


def _parts_of_time(con: duckdb.DuckDBPyConnection) -> None:
    """What the overview needs of each process, as the table `overview_parts`."""
    filled = frozenset(table for table in _OVERVIEW_OF if con.execute(f"SELECT 1 FROM {table} LIMIT 1").fetchall())
    rows = overview.by_rank(con, filled)
    con.execute("CREATE OR REPLACE TEMP TABLE overview_parts (rank INTEGER, name VARCHAR, ns DOUBLE)")
    if rows:
        con.executemany("INSERT INTO overview_parts VALUES (?, ?, ?)", rows)


def merged(name: str, source: str) -> str:
    """The query that merges rows of one of the relations."""
    return _MERGED[name].format(source=source)


def columns(con: duckdb.DuckDBPyConnection) -> Part:
    """The temporary tables as columns, to be sent somewhere."""
    # What is NULL is masked; `load` takes that as it is.
    return {name: con.execute(f"SELECT * FROM {name}").fetchnumpy() for name in RELATIONS}


def merge_columns(parts: Sequence[Part]) -> Part:
    """Several partial summaries as one."""
    with duckdb.connect() as con:
        load(con, parts)
        return columns(con)


def load(con: duckdb.DuckDBPyConnection, parts: Sequence[Part]) -> None:
    """Merged parts as the temporary tables."""
    for name in RELATIONS:
        con.execute(f"CREATE OR REPLACE TEMP TABLE loaded_{name} ({_DDL[name]})")
        for part in parts:
            if len(next(iter(part[name].values()))):
                con.register("batch", dict(part[name]))
                con.execute(f"INSERT INTO loaded_{name} BY NAME SELECT * FROM batch")
                con.unregister("batch")
    _merge_tables(con, "loaded_")


_TEXTS = "what VARCHAR, name VARCHAR, mode VARCHAR, source VARCHAR, parent VARCHAR"
_DDL = {
    "state": f"{_TEXTS}, n UBIGINT, nv UBIGINT, failed UBIGINT, total DOUBLE, mean DOUBLE, m2 DOUBLE, low DOUBLE, high DOUBLE,"
    " bytes DOUBLE, ranks UBIGINT, least DOUBLE, least_rank INTEGER, most DOUBLE, most_rank INTEGER",
    "hist": f"{_TEXTS}, value DOUBLE, n UBIGINT",
    "busy": f"{_TEXTS}, s UBIGINT, e UBIGINT",
}


# ---- in files: one set per node ----


def write(con: duckdb.DuckDBPyConnection, folder: Path) -> None:
    """The temporary tables as `state.parquet` and `hist.parquet`."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    for name in FILES:
        con.execute(f"COPY {name} TO {sql_text(str(folder / f'{name}.parquet'))} (FORMAT parquet, COMPRESSION zstd)")


def merge_files(folders: Sequence[Path], out: Path, con: duckdb.DuckDBPyConnection, level: int = 0) -> None:
    """The partial summary of many folders in the folder `out`."""
    if len(folders) > FAN:
        levels = []
        try:
            for at in range(0, len(folders), FAN):
                levels.append(out.with_name(f"{out.name}.level{level}-{at // FAN:06}"))
                merge_files(folders[at : at + FAN], levels[-1], con, level + 1)
            merge_files(levels, out, con, level + 1)
        finally:
            for folder in levels:
                shutil.rmtree(folder, ignore_errors=True)
        return
    out.mkdir(mode=0o700, parents=True, exist_ok=True)
    for name in FILES:
        files = ", ".join(sql_text(str(folder / f"{name}.parquet")) for folder in folders)
        query = merged(name, f"read_parquet([{files}])")
        con.execute(f"COPY ({query}) TO {sql_text(str(out / f'{name}.parquet'))} (FORMAT parquet, COMPRESSION zstd)")


def open_files(folder: Path, con: duckdb.DuckDBPyConnection) -> None:
    """A partial summary in files as views."""
    for name in FILES:
        file = sql_text(str(folder / f"{name}.parquet"))
        con.execute(f"CREATE OR REPLACE TEMP VIEW {name} AS SELECT * FROM read_parquet({file})")
    con.execute(f"CREATE OR REPLACE TEMP TABLE busy ({_DDL['busy']})")


# ---- reports ----

_STATISTICS = f"""
WITH numbered AS (SELECT *, row_number() OVER () AS key FROM state WHERE what = $what),
hists AS (SELECT k.key, h.value, h.n FROM hist h JOIN numbered k USING ({KEY})),
intervals AS (SELECT k.key, b.s, b.e FROM busy b JOIN numbered k USING ({KEY})),
rows AS (
    SELECT k.*, least(greatest(median, low), high) AS median,
           CASE WHEN nv > 1 THEN sqrt(greatest(m2, 0) / (nv - 1)) ELSE 0 END AS deviation, b.busy
    FROM numbered k LEFT JOIN medians(hists) USING (key) LEFT JOIN busy(intervals) b USING (key)
)
"""
_NS = "total AS total_ns, n AS calls, mean AS avg_ns, median AS med_ns, low AS min_ns, high AS max_ns, deviation AS stddev_ns"
_TIMES = f"SELECT share(total, sum(total) OVER ()) AS share, {_NS}, busy AS busy_ns, failed"
_LINE = (
    "coalesce((SELECT main_line(l.source, l.{weight}) FROM state l WHERE l.what = 'line' AND l.name = rows.name"
    " AND l.mode = rows.mode), '') AS caller"
)
_REPORTS: Mapping[str, tuple[str, str]] = {
    "gpu_mem_time_sum": (
        "memory",
        f"{_TIMES}, mode, name, {_LINE.format(weight='total')} FROM rows ORDER BY total DESC, name, mode",
    ),
    "gpu_mem_size_sum": (
        "size",
        "SELECT share(total, sum(total) OVER ()) AS share, total AS bytes, n AS calls, mean AS avg_bytes, median AS med_bytes,"
        " low AS min_bytes, high AS max_bytes, deviation AS stddev_bytes, mode, name,"
        f" {_LINE.format(weight='bytes')} FROM rows ORDER BY total DESC, name, mode",
    ),
    "gpu_kern_sum": ("gpu", f"{_TIMES}, mode AS device, name FROM rows ORDER BY total DESC, name, mode"),
    "api_sum": (
        "api",
        f"""SELECT share(total, sum(total) OVER (PARTITION BY mode)) AS share, {_NS}, bytes, failed, mode AS api, name,
        coalesce((SELECT string_agg(c.source || CASE WHEN c.n > 1 THEN ' ×' || c.n ELSE '' END, ', ' ORDER BY c.n DESC, c.source)
                  FROM state c WHERE c.what = 'cause' AND c.name = rows.name AND c.mode = rows.mode), '') AS errors
        FROM rows ORDER BY sum(total) OVER (PARTITION BY mode) DESC, mode, total DESC, name""",
    ),
}
_BALANCE = """
WITH rows AS (
    SELECT mode AS what, name, ranks, total, total / $ranks AS mean, CASE WHEN ranks = $ranks THEN least ELSE 0 END AS low,
           CASE WHEN ranks = $ranks THEN least_rank END AS low_rank, most AS high, most_rank AS high_rank
    FROM state WHERE what = 'balance' AND ranks > 0
)
SELECT CASE WHEN mean > 0 THEN 100.0 * (high / mean - 1) ELSE 0.0 END AS imbalance, high - mean AS excess_ns, total AS total_ns,
       mean AS avg_ns, low AS min_ns, low_rank AS min_rank, high AS max_ns, high_rank AS max_rank, ranks, what, name
FROM rows
ORDER BY max(high - mean) OVER (PARTITION BY what) DESC, what, excess_ns DESC, total DESC, name
"""
NAMES = ("occa_kern_sum", *_REPORTS, "rank_balance")
MADE = (*NAMES, efficiency.NAME)
_OVERVIEW_OF = sorted({"call_stats", *(table for _, table, _ in spans.SPANS)})


def report(con: duckdb.DuckDBPyConnection, name: str, ranks: int = 0) -> reports.Report:
    """A report of the summary from the merged parts; `ranks` is the size of the job."""
    macros(con)
    entry = reports.definition(name)
    if name == "occa_kern_sum":
        return reports.Report(entry, _occa_rows(con, entry))
    if name == efficiency.NAME:
        rows = con.execute("SELECT name, n, total, high FROM state WHERE what = 'efficiency'").fetchall()
        return reports.Report(entry, efficiency.of_sums(rows), [efficiency.NO_REPLAY] if ranks > 1 else ())
    if name == "rank_balance":
        result = con.execute(_BALANCE, {"ranks": ranks})
    else:
        what, query = _REPORTS[name]
        result = con.execute(_STATISTICS + query, {"what": what})
    return reports.Report(entry, reports.rows_of(result, entry))


def summary(con: duckdb.DuckDBPyConnection, ranks: int = 0) -> list[reports.Report]:
    """The summary of the merged parts, as reports.summary makes it of tables."""
    made = [report(con, name) for name in reports.SUMMARY if name in NAMES]
    if not made[0].rows:
        made[0] = report(con, reports.WITHOUT_OCCA)
    if ranks > 1:
        made.append(reports.BALANCE.apply(report(con, "rank_balance", ranks)))
    entry = reports.definition(reports.OVERVIEW)
    sums = con.execute(
        "SELECT name, total, n, high, most, CASE WHEN ranks > 1 THEN most_rank END FROM state WHERE what = 'overview' ORDER BY name"
    ).fetchall()
    first = [reports.plain(row, entry) for row in overview.merged(sums, made)]
    return [report for report in (reports.Report(entry, first), *made) if report.rows]


def _occa_rows(con: duckdb.DuckDBPyConnection, entry: reports.Definition) -> list[tuple[Any, ...]]:
    """Kernels, each followed by what it launched."""
    shape = f"{_TIMES}, mode, name, source, NULL AS parent FROM rows ORDER BY total DESC NULLS LAST, name, mode, source"
    kernels = con.execute(_STATISTICS + shape, {"what": "occa"})
    named = [c[0] for c in kernels.description or ()]
    order = [named.index(c.name) for c in entry.columns]
    rows = [tuple(row[i] for i in order) for row in kernels.fetchall()]
    at = {c.name: i for i, c in enumerate(entry.columns)}
    whole = sum(row[at["total_ns"]] or 0 for row in rows)
    part = f"{_TIMES}, mode, name, source, parent FROM rows ORDER BY total DESC, name"
    launched: dict[tuple[Any, ...], list[tuple[Any, ...]]] = {}
    for row in con.execute(_STATISTICS + part, {"what": "backend"}).fetchall():
        values = [row[i] for i in order]
        launched.setdefault((values[at["parent"]], values[at["mode"]], values[at["source"]]), []).append(tuple(values))
    out = []
    for row in rows:
        # Without device work of a kernel there is no time, rather than none of it.
        out.append(row)
        for child in launched.get((row[at["name"]], row[at["mode"]], row[at["source"]]), ()):
            values = list(child)
            values[at["share"]] = 100.0 * values[at["total_ns"]] / whole if whole else 0.0
            values[at["source"]] = ""
            out.append(tuple(values))
    return [reports.plain(row, entry) for row in out]


def summarize(con: duckdb.DuckDBPyConnection, folder: Path) -> None:
    """Make the partial summary of the tables of a connection and write it into a folder."""
    make(con)
    write(con, folder)
