"""The SQL macros and views that reports stand on."""

from __future__ import annotations

import re
import weakref
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache
from pathlib import Path

from occatrace.core.duck import duckdb

_FOLDER = Path(__file__).parent
VIEWS = _FOLDER / "_views.sql"


@cache
def views() -> Mapping[str, str]:
    """The views that reports share: the query of each by its name."""
    text = VIEWS.read_text(encoding="utf-8")
    return dict(re.findall(r"CREATE OR REPLACE TEMP VIEW (\w+) AS\s+(.*?);\n", text + "\n", re.DOTALL))


_with_macros: weakref.WeakSet[duckdb.DuckDBPyConnection] = weakref.WeakSet()


def macros(con: duckdb.DuckDBPyConnection) -> None:
    """Make the macros of the reports, if they are not there yet."""
    if con not in _with_macros:
        con.execute((_FOLDER / "_macros.sql").read_text(encoding="utf-8"))
        _with_macros.add(con)


def _has_python_lines(con: duckdb.DuckDBPyConnection) -> bool:
    return bool(con.execute("SELECT 1 FROM python_lines LIMIT 1").fetchall())


def place_in_python(con: duckdb.DuckDBPyConnection) -> None:
    """Let the lines of Python that made calls, where they were recorded, be call sites."""
    if _has_python_lines(con):
        macros(con)
        _replace(con, ("call_sites", "call_places"), "_python_sites.sql")


def sum_in_python(con: duckdb.DuckDBPyConnection) -> None:
    """Let the sums by call site be those of these lines, too; the view `calls` must be there."""
    _replace(con, ("call_site_stats",), "_python_calls.sql")


# The line of each of these calls, once: windows of time would follow the stacks of Python again.
PYTHON_SOURCES = """
    CREATE OR REPLACE TEMP TABLE python_sources AS
    SELECT c.thread, c.seq, line_place(s.file, s.line, s.module, s."offset") AS source
    FROM lined_calls c JOIN call_sites s ON s.process = c.process AND s.site = python_site(c.frame)"""


@contextmanager
def places_in_files(con: duckdb.DuckDBPyConnection) -> Iterator[None]:
    """Meanwhile call sites are those in programs and libraries, where lines of Python stand for them otherwise."""
    names = ("call_sites", "call_places", "call_site_stats")
    for name in names:
        con.execute(f"CREATE OR REPLACE TEMP VIEW {name} AS FROM native_{name}")
    try:
        yield
    finally:
        for name in names:
            con.execute(f"DROP VIEW temp.{name}")


def _replace(con: duckdb.DuckDBPyConnection, names: Sequence[str], views: str) -> None:
    for name in names:
        table = con.execute("SELECT 1 FROM duckdb_tables() WHERE table_name = ? AND NOT temporary", [name]).fetchall()
        con.execute(f"ALTER {'TABLE' if table else 'VIEW'} {name} RENAME TO native_{name}")
    con.execute((_FOLDER / views).read_text(encoding="utf-8"))


def prepare(con: duckdb.DuckDBPyConnection) -> None:
    """Make what reports stand on: macros, and views over the tables, which must be there."""
    macros(con)
    make_views(con)


def make_views(con: duckdb.DuckDBPyConnection, query: str | None = None) -> None:
    """Make the views that reports share, over the tables as this connection has them. `query`: only those that it names, and
    what these stand on."""
    in_python = _has_python_lines(con)
    if query is None or in_python:
        con.execute(VIEWS.read_text(encoding="utf-8"))
    else:
        for name in _read(query):
            con.execute(f"CREATE OR REPLACE TEMP VIEW {name} AS {views()[name]}")
    # Few runs have lines of Python; planning what follows a stack of them would take its time in each report of the others.
    if in_python:
        con.execute((_FOLDER / "_python_views.sql").read_text(encoding="utf-8"))


def _read(query: str) -> list[str]:
    """The shared views that a query names, itself or through others, in the order in which they are made."""
    found: set[str] = set()
    waiting = [query]
    while waiting:
        named = (set(re.findall(r"\w+", waiting.pop())) & set(views())) - found
        found |= named
        waiting += [views()[name] for name in named]
    return [name for name in views() if name in found]
