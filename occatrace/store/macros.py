"""The SQL macros and views that reports stand on."""

from __future__ import annotations

from pathlib import Path

from occatrace.core.duck import duckdb

_FOLDER = Path(__file__).parent
VIEWS = _FOLDER / "_views.sql"


def macros(con: duckdb.DuckDBPyConnection) -> None:
    """Make the macros of the reports."""
    con.execute((_FOLDER / "_macros.sql").read_text(encoding="utf-8"))


def prepare(con: duckdb.DuckDBPyConnection) -> None:
    """Make what reports stand on: macros, and views over the tables, which must be there."""
    macros(con)
    con.execute((_FOLDER / "_views.sql").read_text(encoding="utf-8"))
