"""What of a run a report is made of: a part of the time, one rank, thread, device, stream or line, and kernels' names.

A report is SQL over tables. A scope puts views of the same names in front of them, in a connection of its own, so that
every report can be narrowed and split without knowing of it.
"""

from __future__ import annotations

import json
import weakref
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import cache, cached_property
from typing import TYPE_CHECKING, Any

from occatrace.core import disk, naming
from occatrace.core.duck import duckdb
from occatrace.core.schema import CALLS, TABLES
from occatrace.core.sql import name as sql_name
from occatrace.core.sql import text as sql_text
from occatrace.core.units import Range, UnitError, duration
from occatrace.store.macros import make_views, views

if TYPE_CHECKING:
    from occatrace.store.tables import Store


# By what reports can be split: the column of the tables, and the heading.
KEYS: Mapping[str, tuple[str, str]] = {
    "rank": ("process", "Rank"),
    "thread": ("thread", "Thread"),
    "device": ("device", "Device"),
    "stream": ("queue", "Stream"),
    "line": ("site", "Line"),
}
# Tables about what there is; all others are about what happened, and can be narrowed.
_THINGS = (
    *("processes", "threads", "names", "kernels", "devices", "queues", "clocks", "clock_warnings", "losses"),
    *("call_sites", "call_places"),
)
_COLUMNS = {table.name: tuple(c.name for c in table.columns) for table in TABLES if table.name not in _THINGS}
_COLUMNS |= {"calls": tuple(c.name for c in CALLS.columns)}
# Calls of OCCA's kernels and copies are where their device work is.
_WITH_WORK = ("kernel_runs", "occa_copies")
_ON_HOST = "host"
# Tables about calls whose places are in call_places, by the number of the call.
_PLACED = ("activities", "kernel_runs", "occa_copies", "allocations", "builds")
_NO_LINE = "no line known"
_MANY = 1 << 18  # rows of a table above which a copy in order makes a report of many parts faster
# Places are numbered within their process.
_SITE = "({0}.process::BIGINT * 4294967296 + {0}.site)"


@dataclass(frozen=True)
class Scope:
    """What of a run is wanted."""

    window: Range | None = None
    by: str | None = None
    names: str = "raw"


@dataclass(frozen=True)
class Part:
    """One part of a split run: its title, and what belongs to it. `None` in `ids`: what belongs to nothing of the kind."""

    title: str
    ids: Sequence[int | None]


@dataclass(frozen=True)
class _InOrder:
    """Where a table is read for parts of it, and, if that is an ordered copy, how many rows each part has."""

    source: str
    counts: Mapping[int | None, int] = field(default_factory=dict)


@cache
def tables_of(sql: str) -> frozenset[str]:
    """The tables of what happened that a query reads, itself or through views."""
    read: set[str] = set()
    named: set[str] = set()  # by WITH
    waiting: list[Any] = [json.loads(_serialized(sql))]
    while waiting:
        node = waiting.pop()
        if isinstance(node, dict):
            if node.get("type") == "BASE_TABLE":
                read.add(node["table_name"])
            named |= {entry["key"] for entry in (node.get("cte_map") or {}).get("map", ())}
            waiting += node.values()
        elif isinstance(node, list):
            waiting += node
    read -= named
    through = (tables_of(views()[view]) for view in read & set(views()))
    return frozenset(read & set(_COLUMNS)).union(*through)


# Of the run of which reports were made last. A connection of our own takes 20 ms to make.
_open: weakref.ref[duckdb.DuckDBPyConnection] | None = None


def _serialized(sql: str) -> str:
    """A query as DuckDB's parser reads it, in JSON."""
    query = "SELECT json_serialize_sql(?)"
    con = _open() if _open is not None else None
    if con is not None:
        with suppress(duckdb.Error), con.cursor() as own:  # it may be closed
            return str(own.execute(query, [sql]).fetchall()[0][0])
    return str(_parser().execute(query, [sql]).fetchall()[0][0])


@cache
def _parser() -> duckdb.DuckDBPyConnection:
    return duckdb.connect()


def _splits(table: str, key: str) -> bool:
    if key == "line":
        return table in _PLACED or table == "call_site_stats"
    return KEYS[key][0] in _COLUMNS[table] or (key in ("device", "stream") and table in _WITH_WORK)


def can_split(tables: frozenset[str], key: str) -> bool:
    """Whether a report that counts what is in these tables can be told for each rank, thread, device, stream or line."""
    return bool(tables) and all(_splits(table, key) for table in tables)


class Scoped:
    """The tables of a run, narrowed to a window and with names as wanted, for any number of reports."""

    def __init__(self, store: Store, scope: Scope) -> None:
        self._store = store
        self.scope = scope
        self._begin: int | None = None
        self._end: int | None = None
        self._in_order: dict[str, _InOrder] = {}
        con = store.con
        global _open
        _open = weakref.ref(con)
        database, schema = con.execute("SELECT current_database(), current_schema()").fetchall()[0]
        self._main = f"{sql_name(database)}.{sql_name(schema)}"
        if scope.window:
            self._resolve(scope.window)

    def _resolve(self, window: Range) -> None:
        zero, end, clock = self._store.con.execute(
            "SELECT run_zero(), coalesce(max(end_ns), 0), coalesce(min(realtime_ns::BIGINT - mono_ns::BIGINT), 0) FROM processes"
        ).fetchall()[0]
        self._zero, self._length = int(zero), max(int(end) - int(zero), 0)
        if window.begin:
            self._begin = max(window.begin.at(int(zero), int(end), int(clock)), 0)
        if window.end:
            self._end = max(window.end.at(int(zero), int(end), int(clock)), 0)
        if self._begin is not None and self._end is not None and self._end < self._begin:
            raise UnitError(f"--filter-time {window.text}: ends before it begins")

    @property
    def bounds(self) -> tuple[int | None, int | None]:
        """From when to when, in ns since the zero of the run; None: open."""
        begin, end = (None if at is None else at - self._zero for at in (self._begin, self._end))
        return begin, end

    @cached_property
    def plain(self) -> bool:
        """Whether it is the whole run as it is."""
        return not (self._timed or self.scope.by or self._names_differ())

    @cached_property
    def authors(self) -> Mapping[str, str]:
        """Names of OCCA's kernels for devices as their author called them, by the names as recorded; of a kernel with several outer
        loops with the number of the loop. What belongs to kernels of several names is left out."""
        rows = self._store.con.execute(
            f"SELECT DISTINCT a.name, k.name FROM {self._main}.activities a JOIN {self._main}.kernels k USING (kernel)"
            f" WHERE a.kind = 'kernel' AND starts_with(a.name, '{naming.OF_OCCA}')"
        ).fetchall()
        return naming.of_authors(rows)

    def _names_differ(self) -> bool:
        if self.scope.names in ("raw", "okl", "short"):
            return self.scope.names != "raw"
        sql = f"SELECT 1 FROM {self._main}.activities WHERE kind = 'kernel' AND regexp_matches(name, '^__?Z') LIMIT 1"
        return bool(self._store.con.execute(sql).fetchall())

    @contextmanager
    def connection(
        self, tables: frozenset[str], counted: frozenset[str], query: str | None = None
    ) -> Iterator[duckdb.DuckDBPyConnection]:
        """A connection in which the tables that a report counts are narrowed, and names are as wanted. `query`: the only one that
        is to be made there."""
        with self._connection(tables) as (con, read):
            self._narrow(con, read, counted)
            make_views(con, query)
            yield con

    def connections(
        self, tables: frozenset[str], counted: frozenset[str], parts: Iterable[Part], query: str | None = None
    ) -> Iterator[tuple[Part, duckdb.DuckDBPyConnection]]:
        """A connection in which these tables are also narrowed to one part of the run, for one part after another."""
        with self._connection(tables) as (con, read):
            for number, part in enumerate(parts):
                self._narrow(con, read, counted, part)
                if not number:
                    make_views(con, query)
                yield part, con

    @contextmanager
    def _connection(self, tables: frozenset[str]) -> Iterator[tuple[duckdb.DuckDBPyConnection, frozenset[str]]]:
        """A connection for a report, and the tables of which it gets views."""
        con = self._store.con.cursor()
        try:
            if "calls" in tables or (self._timed and tables & {*_CALL_SUMS, "failures"}):
                self._store.functions()
            tables = tables | {t for t in ("activities",) if tables & set(_WITH_WORK)}
            if self._timed and tables & {"activities", *_WITH_WORK}:
                self._place_runs(con)
            self._rename(con, "omp_regions" in tables)
            yield con, tables
        finally:
            con.close()

    def _narrow(
        self, con: duckdb.DuckDBPyConnection, tables: frozenset[str], counted: frozenset[str], part: Part | None = None
    ) -> None:
        for table in sorted(tables):
            counts = table in counted
            sql = self._narrowed(table, part if counts else None, timed=self._timed and counts)
            if not sql:
                continue
            if part is not None and counts and self._few(table, part):
                con.execute(f"CREATE OR REPLACE TEMP TABLE part_{table} AS {sql}")
                sql = f"FROM part_{table}"
            con.execute(f"CREATE OR REPLACE TEMP VIEW {table} AS {sql}")

    @property
    def _timed(self) -> bool:
        return self._begin is not None or self._end is not None

    def _within(self, column: str) -> str:
        """SQL: whether a moment lies in the window."""
        out = [f"{column} >= {self._begin}"] if self._begin is not None else []
        out += [f"{column} < {self._end}"] if self._end is not None else []
        return " AND ".join(out) or "true"

    def _place_runs(self, con: duckdb.DuckDBPyConnection) -> None:
        """Where each OCCA kernel call counts: where its first device work begins, so that its parts stay together."""
        con.execute(
            "CREATE OR REPLACE TEMP TABLE run_begins AS SELECT thread, run_seq, min(start_ns) AS begins"
            f" FROM {self._main}.activities WHERE run_seq IS NOT NULL GROUP BY ALL"
        )

    def _rename(self, con: duckdb.DuckDBPyConnection, regions: bool) -> None:
        """Names of kernels, and functions of OpenMP regions, as they are wanted, by the names as recorded."""
        if self.scope.names == "raw":
            return
        rename = naming.demangled if self.scope.names == "demangled" else naming.short
        names = list({*self._kernel_names, *(self._region_functions if regions else ())})
        con.execute(
            "CREATE OR REPLACE TEMP TABLE renamed AS SELECT unnest($raw::VARCHAR[]) AS raw, unnest($shown::VARCHAR[]) AS shown",
            {"raw": names, "shown": [rename(name) for name in names]},
        )

    @cached_property
    def _kernel_names(self) -> list[str]:
        """Names of kernels as recorded; asked for once, not again for each part."""
        return self._texts("SELECT DISTINCT name FROM {}.activities WHERE kind = 'kernel'")

    @cached_property
    def _region_functions(self) -> list[str]:
        """Functions of OpenMP regions as recorded."""
        return self._texts("SELECT DISTINCT function FROM {}.omp_regions")

    def _texts(self, sql: str) -> list[str]:
        rows = self._store.con.execute(sql.format(self._main)).fetchall()
        return [text for (text,) in rows if text is not None]

    def _narrowed(self, table: str, part: Part | None, timed: bool) -> str | None:
        """SQL of one table in this scope; None: as it is."""
        source, joins, columns = f"{self._main}.{table}", "", "t.*"
        conditions: list[str] = []
        if timed and table in _CALL_SUMS:
            query = _CALL_SUMS[table]
            lines = "python_lines" in self._store.filled
            placed = _IN_PYTHON.format(f"{self._main}.lined_calls") if lines else _NOWHERE
            source = f"({query.format(main=self._main, within=self._within('start_ns'), placed=placed)})"
        elif timed and table == "failures":
            joins = f" JOIN {self._main}.calls c USING (thread, seq)"
            conditions.append(self._within("c.start_ns"))
        elif timed and table in ("activities", *_WITH_WORK):
            seq = "run_seq" if table == "activities" else "seq"
            joins = f" LEFT JOIN run_begins b ON b.thread = t.thread AND b.run_seq = t.{seq}"
            conditions.append(self._within("coalesce(b.begins, t.start_ns)"))
        elif timed:
            moment = next((c for c in ("start_ns", "time_ns") if c in _COLUMNS[table]), None)
            conditions += [self._within(f"t.{moment}")] if moment else []
        if table == "activities" and self.scope.names != "raw":
            joins += " LEFT JOIN renamed n ON n.raw = t.name"
            shown = "coalesce(n.shown, t.name)"
            if self.scope.names == "okl":
                joins += f" LEFT JOIN {self._main}.kernels k ON k.kernel = t.kernel"
                shown = f"coalesce({_AUTHOR}, {shown})"
            columns = f"t.* REPLACE (CASE WHEN t.kind = 'kernel' THEN {shown} ELSE t.name END AS name)"
        if table == "omp_regions" and self.scope.names in ("okl", "short"):
            joins += " LEFT JOIN renamed n ON n.raw = t.function"
            columns = "t.* REPLACE (coalesce(n.shown, t.function) AS function)"
        if part is not None and self.scope.by and _splits(table, self.scope.by):
            column = KEYS[self.scope.by][0]
            conditions.append(self._belongs(table, column, part))
            if column in _COLUMNS[table] and not source.startswith("("):
                source = self._ordered(table, column)
        if not joins and not conditions and not source.startswith("("):
            return None
        return f"SELECT {columns} FROM {source} t{joins}" + (f" WHERE {' AND '.join(conditions)}" if conditions else "")

    def _ordered(self, table: str, column: str) -> str:
        """SQL of a table; of one with many rows, of a copy in the order of a column: of that a part is found without reading all."""
        if table not in self._in_order:
            self._in_order[table] = _InOrder(f"{self._main}.{table}")
            con = self._store.con
            file = self._store.scratch / f"{table}-{column}.parquet"
            # Single calls are too many to be copied.
            counts: dict[int | None, int] = {}
            if table != "calls":
                counts = dict(
                    con.execute(f"SELECT {column}, count(*) FROM {self._main}.{table} GROUP BY ALL").fetchall()
                )
            if sum(counts.values()) > _MANY:
                try:
                    con.execute(
                        f"COPY (SELECT * FROM {self._main}.{table} ORDER BY {column}) TO {sql_text(str(file))}"
                        " (FORMAT parquet)"
                    )
                    self._in_order[table] = _InOrder(f"read_parquet({sql_text(str(file))})", counts)
                except duckdb.IOException as error:
                    if not disk.is_full(error):
                        raise
                    file.unlink(missing_ok=True)
        return self._in_order[table].source

    def _few(self, table: str, part: Part) -> bool:
        """Whether there is an ordered copy of a table, and a part of it is so small that memory has room for it."""
        found = self._in_order.get(table)
        return found is not None and bool(found.counts) and sum(found.counts.get(one, 0) for one in part.ids) <= _MANY

    def _belongs(self, table: str, column: str, part: Part) -> str:
        numbers = ", ".join(str(i) for i in part.ids if i is not None)
        if self.scope.by == "line":
            places = f"SELECT 1 FROM {self._main}.call_places p WHERE p.thread = t.thread AND p.seq = t.seq"
            own = _SITE.format("t")
            tests = []
            if numbers:
                there = f"EXISTS ({places} AND {_SITE.format('p')} IN ({numbers}))"
                tests.append(f"{own} IN ({numbers})" if column in _COLUMNS[table] else there)
            if None in part.ids:
                tests.append("false" if column in _COLUMNS[table] else f"NOT EXISTS ({places})")
            return f"({' OR '.join(tests)})"
        if column in _COLUMNS[table]:
            tests = [f"t.{column} IN ({numbers})"] if numbers else []
            tests += [f"t.{column} IS NULL"] if None in part.ids else []
            return f"({' OR '.join(tests)})"
        work = f"SELECT 1 FROM {self._main}.activities w WHERE w.thread = t.thread AND w.run_seq = t.seq"
        tests = [f"EXISTS ({work} AND w.{column} IN ({numbers}))"] if numbers else []
        tests += [f"NOT EXISTS ({work} AND w.{column} IS NOT NULL)"] if None in part.ids else []
        return f"({' OR '.join(tests)})"

    def parts(self, tables: frozenset[str]) -> list[Part]:
        """The ranks, threads, devices, streams or lines of which these tables tell something."""
        by = self.scope.by
        assert by
        column = KEYS[by][0]
        if "calls" in tables:
            self._store.functions()
        con = self._store.con
        found: set[int | None] = set()
        for table in tables:
            if by == "line":
                site, joined = _SITE.format("t"), ""
                if column not in _COLUMNS[table]:
                    site, joined = _SITE.format("p"), "LEFT JOIN call_places p USING (thread, seq)"
                found |= {row[0] for row in con.execute(f"SELECT DISTINCT {site} FROM {table} t {joined}").fetchall()}
            elif column in _COLUMNS[table]:
                found |= {row[0] for row in con.execute(f"SELECT DISTINCT {column} FROM {table}").fetchall()}
            else:
                found.add(None)
        parts: dict[str, list[int | None]] = {}
        for number, title in titles(con, by):
            if number in found:
                parts.setdefault(title, []).append(number)
                found.discard(number)
        if None in found:
            title = _ON_HOST if by in ("device", "stream") else _NO_LINE if by == "line" else "none"
            parts.setdefault(title, []).append(None)
        return [Part(title, ids) for title, ids in parts.items()]

    def notes(self, tables: frozenset[str]) -> list[str]:
        """What must be said beside a report in this scope."""
        if not self._timed or not tables:
            return []
        zero = self._zero
        begin = "the beginning" if self._begin is None else duration(self._begin - zero)
        end = "the end" if self._end is None else duration(self._end - zero)
        out = [
            f"only {begin} to {end} of the run's {duration(self._length)}: what begins then, whole. {self._crossing(tables)}"
        ]
        if tables & set(_CALL_SUMS) and (n := self._tallied()):
            out.append(f"calls that were only counted have no time: those of {n} function{'s' * (n > 1)} are left out")
        return out

    def _tallied(self) -> int:
        sql = "SELECT count(DISTINCT (api, function)) FROM call_stats WHERE source = 'tally'"
        return int(self._store.con.execute(sql).fetchall()[0][0])

    def _crossing(self, tables: frozenset[str]) -> str:
        """How many calls and pieces of work cross the borders."""
        spans = {table for table in tables if {"start_ns", "end_ns"} <= set(_COLUMNS[table])}
        if tables & set(_CALL_SUMS):
            spans.add("calls")
        if "calls" in spans:
            self._store.functions()
        counts = [0, 0]
        for table in sorted(spans):
            for at, border in enumerate((self._begin, self._end)):
                if border is not None:
                    sql = f"SELECT count(*) FROM {self._main}.{table} WHERE start_ns < {border} AND end_ns > {border}"
                    if at and self._begin is not None:
                        sql += f" AND start_ns >= {self._begin}"
                    counts[at] += int(self._store.con.execute(sql).fetchall()[0][0])
        return f"{counts[0]:,} that began earlier and reach into it are left out; {counts[1]:,} end after it"


def titles(con: duckdb.DuckDBPyConnection, by: str) -> list[tuple[int, str]]:
    """Number and title of all ranks' processes, threads, devices, streams or lines, in order."""
    rows: list[tuple[Any, ...]] = con.execute(_TITLES[by]).fetchall()
    often = [row[1] for row in rows]
    if by in ("device", "stream"):
        # The same device of several processes: each says whose it is.
        return [(n, f"{title} ({whose})" if often.count(title) > 1 else title) for n, title, whose in rows]
    return [(row[0], row[1]) for row in rows]


_WHOSE = "CASE WHEN p.rank IS NULL THEN 'process ' || p.pid ELSE 'rank ' || p.rank END"
_TITLES = {
    "rank": "SELECT process, coalesce(rank::VARCHAR, 'none') FROM processes ORDER BY rank NULLS LAST, process",
    "thread": """
        SELECT t.thread, CASE WHEN (SELECT count(DISTINCT rank) FROM processes) > 1 THEN coalesce(p.rank || ': ', '') ELSE '' END
                         || p.pid || ':' || t.tid
        FROM threads t JOIN processes p USING (process) ORDER BY t.thread""",
    "device": f"""
        SELECT d.device, d.name || CASE WHEN d.id > 1 AND n > 1 THEN ' #' || d.id ELSE '' END, {_WHOSE}
        FROM (SELECT *, count(*) OVER (PARTITION BY process, name) AS n FROM devices) d
        JOIN processes p USING (process) ORDER BY d.device""",
    "stream": f"""
        SELECT q.queue, coalesce(d.name, 'unknown device') || ', queue ' || q.id, {_WHOSE}
        FROM queues q LEFT JOIN devices d USING (device) JOIN processes p ON p.process = q.process ORDER BY q.queue""",
    "line": f"""
        SELECT {_SITE.format("s")}, line_place(file, line, module, "offset") FROM call_sites s
        ORDER BY file = '', file, line, module, "offset", process, site""",
}

_PLACE = "parse_filename(k.source) || CASE WHEN k.line > 0 THEN ':' || k.line ELSE '' END"
_AUTHOR = f"k.name || CASE WHEN k.source <> '' THEN ' (' || {_PLACE} || ')' ELSE '' END"

# Statistics as the first pass makes them, of the single calls of a window.
_STATS = """
    SELECT process, thread, api, function, 'event' AS source, count(*) AS calls, count(*) FILTER (failed) AS failed,
           sum(span(start_ns, end_ns)) AS total_ns, avg(span(start_ns, end_ns)) AS mean_ns,
           coalesce(var_pop(span(start_ns, end_ns)), 0) * count(*) AS m2, min(span(start_ns, end_ns)) AS min_ns,
           max(span(start_ns, end_ns)) AS max_ns, sum(bytes) FILTER (failed IS NOT true) AS bytes
    FROM {main}.calls WHERE {within} GROUP BY ALL
"""
_HIST = """
    SELECT process, thread, api, function, bucket_middle(bucket(span(start_ns, end_ns))) AS value_ns, count(*) AS calls
    FROM {main}.calls WHERE {within} GROUP BY ALL
"""
_IN_PYTHON = "SELECT thread, seq, python_site(frame) AS site FROM {}"
_NOWHERE = "SELECT 0::UINTEGER AS thread, 0::UINTEGER AS seq, 0::UINTEGER AS site WHERE false"
_SITE_STATS = """
    SELECT c.process, c.thread, c.api, c.function, coalesce(p.site, s.site) AS site, count(*) AS calls,
           count(*) FILTER (c.failed) AS failed, sum(span(c.start_ns, c.end_ns)) AS total_ns,
           sum(c.bytes) FILTER (c.failed IS NOT true) AS bytes
    FROM {main}.calls c LEFT JOIN ({placed}) p USING (thread, seq)
    LEFT JOIN {main}.call_sites s ON s.process = c.process AND s.address = c.caller
    WHERE coalesce(p.site, s.site) IS NOT NULL AND {within} GROUP BY ALL
"""
_CALL_SUMS = {"call_stats": _STATS, "call_hist": _HIST, "call_site_stats": _SITE_STATS}
