"""Runs cut into parts: what reports of the whole say, and what they say of the merged partial summaries of the parts."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import duckdb
import numpy as np
import pytest

from occatrace import reports
from occatrace.core.schema import TABLES
from occatrace.core.sql import text as sql_text
from occatrace.reports import efficiency, partial
from occatrace.store.macros import macros, prepare

Connection = Any
Rows = list[tuple[Any, ...]]
COLUMNS = {table.name: tuple(column.name for column in table.columns) for table in TABLES}
# Which thread decides to which part a row belongs: what is about a region of OpenMP stays with it.
_THREAD = {"omp_threads": "region_thread"}
# Reports of what threads of a process do to each other: a range may have work of any thread of its process.
OF_PROCESSES = ("range_gpu_proj_sum",)


def _columns(row: Mapping[str, Any]) -> tuple[str, ...]:
    return tuple(row)


def tables(content: Mapping[str, Sequence[Mapping[str, Any]]]) -> Connection:
    """A connection with the tables of a run, from rows."""
    con = duckdb.connect()
    con.execute("SET threads = 1")
    for table in TABLES:
        columns = ", ".join(f'"{column.name}" {column.type}' for column in table.columns)
        con.execute(f"CREATE TABLE {table.name} ({columns})")
        rows = sorted(content.get(table.name, ()), key=_columns)
        for names, group in itertools.groupby(rows, key=_columns):
            values = ", ".join(f"({', '.join(map(_literal, row.values()))})" for row in group)
            con.execute(f"INSERT INTO {table.name} ({', '.join(names)}) VALUES {values}")
    prepare(con)
    return con


def _literal(value: Any) -> str:
    return "NULL" if value is None else sql_text(value) if isinstance(value, str) else repr(value)


def of_whole(con: Connection, name: str) -> Rows:
    """The rows of a report from tables."""
    entry = reports.definition(name)
    if name == efficiency.NAME:
        return list(efficiency.of_sums(efficiency._sums(con)))
    return reports.rows_of(con.execute(entry.sql), entry)


def by(con: Connection, key: str, count: int, seed: int) -> Iterator[Connection]:
    """The run's tables in random parts of its ranks, or of its threads: one after the other."""
    column = {"rank": "process", "thread": "thread"}[key]
    source = "processes" if key == "rank" else "threads"
    numbers = [row[0] for row in con.execute(f"SELECT {column} FROM memory.main.{source} ORDER BY 1").fetchall()]
    of_rank = dict(
        con.execute("SELECT process, coalesce(rank, -1 - process::INTEGER) FROM memory.main.processes").fetchall()
    )
    whole = {number: of_rank[number] if key == "rank" else number for number in numbers}
    random = np.random.default_rng(seed)
    place = {each: int(random.integers(count)) for each in sorted(set(whole.values()))}
    for at in range(count):
        wanted = ", ".join(str(number) for number in numbers if place[whole[number]] == at) or "NULL"
        own = con.cursor()
        for table, columns in COLUMNS.items():
            kept = _THREAD.get(table, column) if key == "thread" else column
            if kept in columns and (table, key) != ("threads", "thread"):
                own.execute(f"CREATE TEMP VIEW {table} AS SELECT * FROM memory.main.{table} WHERE {kept} IN ({wanted})")
        prepare(own)
        yield own
        own.close()


def merged(parts: Iterator[Connection], seed: int) -> Connection:
    """The merged partial summaries of parts, as a random tree."""
    found = []
    for con in parts:
        partial.make(con)
        found.append(partial.columns(con))
    random = np.random.default_rng(seed)
    while len(found) > 2:
        first, second = sorted(random.choice(len(found), 2, replace=False).tolist())
        found.append(partial.merge_columns([found.pop(second), found.pop(first)]))
    con = duckdb.connect()
    macros(con)
    partial.load(con, found)
    return con


def same(found: Rows, expected: Rows, name: str) -> None:
    """Equal, but for the last digits of what is computed in floating point."""
    assert len(found) == len(expected), name
    for row, wanted in zip(found, expected, strict=True):
        for column, value, other in zip(reports.definition(name).columns, row, wanted, strict=True):
            if isinstance(value, (int, float)) and isinstance(other, (int, float)):
                assert value == pytest.approx(other, rel=1e-9, abs=1e-6), (name, column.name, row, wanted)
            else:
                assert value == other, (name, column.name, row, wanted)


def check(con: Connection, names: Sequence[str], key: str, count: int, seed: int) -> set[str]:
    """Each of the reports is of the whole what it is of merged parts. Returns those that have rows."""
    filled = set()
    together = merged(by(con, key, count, seed), seed)
    for name in names:
        expected = of_whole(con, name)
        same(list(partial.report(together, name).rows), expected, name)
        if expected:
            filled.add(name)
    together.close()
    return filled
