"""Partial summaries: what the reports of the summary need to know of some ranks, in a form that adds up.

Three relations: `state` (statistics per rank), `hist` (histograms, all ranks together) and `busy` (times in which
something ran, touching ones joined). Those of two sets of ranks are those of all of them after a merge, which is a
grouped sum, so that any number of parts is merged as a tree, and the result is no larger than one of them. `busy` alone
may grow; it stays with those who have all ranks on one clock, and is not kept in files.

What is added up, and the queries of the reports, are those of the tables (`_sums.sql`, the reports' own files). A part has all
processes of its ranks: what is compared between ranks (`BY_RANK`) is right only then. All else may be cut anywhere, as long as
what refers to each other stays together.
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
from occatrace.reports import efficiency, overview, spans, sums
from occatrace.reports.scope import tables_of
from occatrace.store.macros import macros
from occatrace.store.made import check_files

RELATIONS = ("state", "hist", "busy")
FILES = ("state", "hist")
FAN = 512  # files of a kind that are read at once
_SUMS = {name: each for name, each in sums.all_sums().items() if not each.given}
_KEYS = tuple(dict.fromkeys(("name", "mode", "source", *(key for each in _SUMS.values() for key in each.keys))))
KEY = ", ".join(("what", *_KEYS))
_MORE: Mapping[str, str] = {
    "bytes": "sum",
    "failed": "sum",
    **{column: how for each in _SUMS.values() for column, how in each.more.items()},
}
Part = Mapping[str, Mapping[str, Any]]
"""The three relations as columns."""

# `what`: those of `_sums.sql`, and call (of call_stats: tallies have no single values), cause (of failed calls; the error in
# `source`), balance (what each rank spends; its kind in `mode`), ranks (the ranks of the part), efficiency (rank_efficiency),
# overview (parts of the time of each rank), line (of the program that made memory operations, in `source`), rows (of the
# tables of reports that are not made of parts).
_CALLS = """
SELECT 'call' AS what, p.rank, c.function AS name, c.api, sum(c.calls)::UBIGINT AS n, sum(c.calls)::UBIGINT AS nv,
       sum(c.failed)::DOUBLE AS failed, sum(c.total_ns)::DOUBLE AS total, m.mean,
       sum(c.m2 + c.calls * (c.total_ns / c.calls - m.mean) ** 2) AS m2, min(c.min_ns)::DOUBLE AS low, max(c.max_ns)::DOUBLE AS high,
       sum(c.bytes)::DOUBLE AS bytes
FROM call_stats c JOIN processes p USING (process)
JOIN (SELECT p.rank, api, function, sum(total_ns) / sum(calls) AS mean FROM call_stats JOIN processes p USING (process)
      WHERE calls > 0 GROUP BY ALL) m ON m.api = c.api AND m.function = c.function AND m.rank IS NOT DISTINCT FROM p.rank
WHERE c.calls > 0 GROUP BY p.rank, c.api, c.function, m.mean
"""
_CALL_HIST = """
SELECT 'call' AS what, function AS name, api, value_ns AS value, sum(calls)::UBIGINT AS n, rank
FROM call_hist JOIN processes USING (process) GROUP BY ALL
"""
# Those of which single values are sums already, or which only count.
_OTHERS = (
    "SELECT 'cause' AS what, p.rank, c.name, c.api, c.error AS source, sum(c.n)::UBIGINT AS n"
    " FROM (SELECT process, api, function AS name, error, count(*) AS n FROM failures GROUP BY ALL) c"
    " JOIN processes p USING (process) GROUP BY ALL",
    "SELECT 'line' AS what, p.rank, g.name, g.mode, l.source, count(*)::UBIGINT AS n, count(*)::UBIGINT AS nv,"
    " sum(l.ns)::DOUBLE AS total, sum(l.bytes)::DOUBLE AS bytes"
    " FROM memory_lines l JOIN memory_groups g USING (key) JOIN processes p USING (process) GROUP BY p.rank, g.name, g.mode, l.source",
    "SELECT 'balance' AS what, rank, coalesce(name, '') AS name, what AS mode, 1 AS n, 1 AS nv, ns::DOUBLE AS total,"
    " ns::DOUBLE AS mean FROM rank_work",
    "SELECT 'ranks' AS what, rank, 1 AS n FROM (SELECT DISTINCT rank FROM processes WHERE rank IS NOT NULL)",
    *(
        f"SELECT '{what}' AS what, rank, name, count(*) AS n, count(*) AS nv, sum(ns) AS total, avg(ns) AS mean, min(ns) AS low,"
        f" max(ns) AS high FROM {table} GROUP BY rank, name"
        for what, table in (("efficiency", "rank_efficiency"), ("overview", "overview_parts"))
    ),
)
# Reports of the summary that do not add up, with the tables of which they are.
LEFT_OUT: Mapping[str, tuple[str, str]] = {
    "rank_sum": ("", "a row of each rank"),
    "python_sum": ("python_calls", "the first call of each name, by the clocks of all nodes"),
    "python_time_sum": ("python_samples", "samples, scaled by the time of all threads"),
    "python_line_sum": ("python_lines", "the line that most of the calls come through"),
    "log_sum": ("messages", "the text of the first message, by the clocks of all nodes"),
    "counters": ("counters", "rows of single processes and devices"),
}
_COLUMNS = (
    "n UBIGINT, nv UBIGINT DEFAULT 0, total DOUBLE DEFAULT 0, mean DOUBLE DEFAULT 0, m2 DOUBLE DEFAULT 0, low DOUBLE"
)
_COLUMNS += ", high DOUBLE"
_TEXTS = "what VARCHAR, " + ", ".join(f"{key} VARCHAR DEFAULT ''" for key in _KEYS)
_DDL = {
    "state": f"{_TEXTS}, {_COLUMNS}, {', '.join(f'{column} DOUBLE' for column in _MORE)}, ranks UBIGINT, least DOUBLE,"
    " least_rank INTEGER, most DOUBLE, most_rank INTEGER, first_rank INTEGER, lacking_rank INTEGER",
    "hist": f"{_TEXTS}, value DOUBLE, n UBIGINT",
    "busy": f"{_TEXTS}, s UBIGINT, e UBIGINT",
}
_MERGED = {
    "hist": f"SELECT {KEY}, value, sum(n)::UBIGINT AS n FROM {{source}} GROUP BY ALL",
    # Statistics of each rank become those of all, with the ranks that have least and most. A rank is in one part: parts are told
    # apart by their first rank. What a part has nothing of, its first rank lacks.
    "state": f"""
        WITH source AS (SELECT * FROM {{source}}),
        means AS (SELECT {KEY}, CASE WHEN sum(nv) > 0 THEN sum(total) / sum(nv) ELSE 0 END AS mean FROM source GROUP BY {KEY}),
        parts AS (SELECT coalesce(list(DISTINCT first_rank), []) AS first FROM source WHERE what = 'ranks')
        SELECT {KEY}, sum(s.n)::UBIGINT AS n, sum(s.nv)::UBIGINT AS nv, sum(s.total) AS total, m.mean,
               sum(s.m2 + s.nv * (s.mean - m.mean) ** 2) AS m2, min(s.low) AS low, max(s.high) AS high,
               {", ".join(f"{how}(s.{column}) AS {column}" for column, how in _MORE.items())},
               sum(s.ranks)::UBIGINT AS ranks, min(s.least) AS least, arg_min(s.least_rank, (s.least, s.least_rank)) AS least_rank,
               max(s.most) AS most, arg_max(s.most_rank, (s.most, -s.most_rank)) AS most_rank,
               (SELECT list_min(first) FROM parts) AS first_rank,
               CASE WHEN what = 'balance' THEN least(min(s.lacking_rank),
                   list_min(list_filter((SELECT first FROM parts), lambda part: NOT list_contains(list(s.first_rank), part)))) END
                   AS lacking_rank
        FROM source s JOIN means m USING ({KEY})
        GROUP BY {KEY}, m.mean""",
}
# One rank's state in the form of many's.
_OF_RANK = """
    UPDATE raw_state SET ranks = CASE WHEN rank IS NULL THEN 0 ELSE 1 END, least = CASE WHEN rank IS NOT NULL THEN total END,
        least_rank = rank, most = CASE WHEN rank IS NOT NULL THEN total END, most_rank = rank, first_rank = rank
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
    for name in RELATIONS:
        rank = "" if name == "busy" else ", rank INTEGER"
        con.execute(f"CREATE OR REPLACE TEMP TABLE raw_{name} ({_DDL[name]}{rank})")
    for each in _SUMS.values():
        con.execute(
            f"CREATE OR REPLACE TEMP TABLE samples AS SELECT p.rank, s.* EXCLUDE (process) FROM ({each.samples}) s"
            " JOIN processes p USING (process)"
        )
        if con.execute("SELECT 1 FROM samples LIMIT 1").fetchall():
            _add_samples(con, each)
    con.execute("DROP TABLE samples")
    _parts_of_time(con)
    for query in (_CALLS, *_OTHERS):
        con.execute(f"INSERT INTO raw_state BY NAME {query}")
    for table, _ in LEFT_OUT.values():
        if table:
            con.execute(
                f"INSERT INTO raw_state BY NAME SELECT 'rows' AS what, '{table}' AS name, p.rank, count(*) AS n FROM {table}"
                " JOIN processes p USING (process) GROUP BY p.rank"
            )
    con.execute(f"INSERT INTO raw_hist BY NAME {_CALL_HIST}")
    con.execute(_OF_RANK)


def _add_samples(con: duckdb.DuckDBPyConnection, each: sums.Sums) -> None:
    """The states, histograms and intervals of the table `samples`."""
    keys = ", ".join(each.keys)
    con.execute(f"INSERT INTO raw_state BY NAME {each.state('samples')}")
    if each.median:
        con.execute(
            f"INSERT INTO raw_hist BY NAME SELECT '{each.name}' AS what, {keys}, bucket_middle(bucket(v)) AS value,"
            " count(*)::UBIGINT AS n, rank FROM samples WHERE v IS NOT NULL AND n > 0 GROUP BY ALL"
        )
    if each.busy:
        con.execute(
            f"INSERT INTO raw_busy BY NAME SELECT '{each.name}' AS what, {keys}, s, greatest(s, e) AS e FROM samples"
            " WHERE s IS NOT NULL"
        )


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
    for folder in folders:
        check_files(folder)
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

# What the reports read, where that is no statistics of single values. (api_rows is made of the others.)
_CALL_KEYS = ("api", "name")
_GIVEN: Mapping[str, str] = {
    "call_sums": sums.of_merged("call", _CALL_KEYS, ("bytes", "failed")),
    "call_causes": "SELECT api, name, source AS error, n FROM state WHERE what = 'cause'",
    "memory_callers": "SELECT name, mode, main_line(source, total) AS by_time, main_line(source, bytes) AS by_bytes FROM state"
    " WHERE what = 'line' GROUP BY name, mode",
    "balance_sums": """
        WITH ranks AS (SELECT n AS size FROM state WHERE what = 'ranks')
        SELECT mode AS what, name, total, CASE WHEN ranks = size THEN least ELSE 0 END AS low,
               CASE WHEN ranks = size THEN least_rank ELSE lacking_rank END AS low_rank, most AS high, most_rank AS high_rank,
               ranks, size
        FROM state, ranks WHERE what = 'balance' AND ranks > 0""",
}
# A report that reads sums and no table.
NAMES = tuple(name for name, entry in reports.built_in().items() if entry.sums and not tables_of(entry.query))
MADE = (*NAMES, efficiency.NAME)
BY_RANK = ("rank_balance", efficiency.NAME, reports.OVERVIEW)
_OVERVIEW_OF = sorted({"call_stats", *(table for _, table, _ in spans.SPANS)})


def report(con: duckdb.DuckDBPyConnection, name: str, ranks: int = 0) -> reports.Report:
    """One of `MADE` from the merged parts; `ranks` is the size of the job."""
    macros(con)
    entry = reports.definition(name)
    if name == efficiency.NAME:
        rows = con.execute("SELECT name, n, total, high FROM state WHERE what = 'efficiency'").fetchall()
        return reports.Report(entry, efficiency.of_sums(rows), [efficiency.NO_REPLAY] if ranks > 1 else ())
    for each in entry.sums:
        made = sums.all_sums()[each]
        view = each if made.given else f"{each}_sums"
        query = _GIVEN.get(each, made.samples) if made.given else made.merged
        con.execute(f"CREATE OR REPLACE TEMP VIEW {view} AS {query}")
    return reports.Report(entry, reports.rows_of(con.execute(entry.query), entry))


def summary(con: duckdb.DuckDBPyConnection, ranks: int = 0) -> list[reports.Report]:
    """The summary of the merged parts, as reports.summary makes it of tables, with a note of what is missing in it."""
    made = [report(con, name) for name in reports.SUMMARY]
    if not made[0].rows:
        made[0] = report(con, reports.WITHOUT_OCCA)
    if ranks > 1:
        made.append(reports.BALANCE.apply(report(con, "rank_balance")))
    made += [report(con, name) for name in (*reports.ANNOTATED, "papi_sum")]
    entry = reports.definition(reports.OVERVIEW)
    found = con.execute(
        "SELECT name, total, n, high, most, CASE WHEN ranks > 1 THEN most_rank END FROM state WHERE what = 'overview' ORDER BY name"
    ).fetchall()
    first = [reports.plain(row, entry) for row in overview.merged(found, made)]
    return [report for report in (reports.Report(entry, first, _left_out(con)), *made) if report.rows]


def _left_out(con: duckdb.DuckDBPyConnection) -> list[str]:
    """Reports of a summary of tables that have something to say, and are not made of parts."""
    there = {name for (name,) in con.execute("SELECT name FROM state WHERE what = 'rows' AND n > 0").fetchall()}
    names = [name for name, (table, _) in LEFT_OUT.items() if table in there]
    return (
        [f"not in a summary of merged parts: {', '.join(names)} (--report makes them of the tables)"] if names else []
    )


def summarize(con: duckdb.DuckDBPyConnection, folder: Path) -> None:
    """Make the partial summary of the tables of a connection and write it into a folder."""
    make(con)
    write(con, folder)
