"""Reports: tables of a run → `Report`. One SQL file each, whose head says title, columns and units. Prints nothing."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import duckdb

_FOLDER = Path(__file__).parent
_UNITS = ("percent", "ns", "bytes", "count", "text", "source", "parent")

# What `occa_prof ./a.out` prints at the end, as far as there is something to print. api_sum has OCCA's calls too.
SUMMARY = ("occa_kern_sum", "gpu_mem_time_sum", "gpu_mem_size_sum", "api_sum")
WITHOUT_OCCA = "gpu_kern_sum"  # in place of the first one


class UnknownReport(Exception):
    """There is no report of this name."""


@dataclass(frozen=True)
class Column:
    """One column of a report."""

    name: str
    unit: str
    title: str
    help: str


@dataclass(frozen=True)
class Definition:
    """A report as its SQL file describes it."""

    name: str
    title: str
    about: str
    share: str
    group: str | None
    columns: tuple[Column, ...]
    sql: str


@dataclass(frozen=True)
class Report:
    """A report with its rows."""

    definition: Definition
    rows: Sequence[tuple[Any, ...]]

    @property
    def name(self) -> str:
        """Its name."""
        return self.definition.name

    @property
    def columns(self) -> tuple[Column, ...]:
        """Its columns."""
        return self.definition.columns


def parse(name: str, text: str) -> Definition:
    """The definition in a SQL file: head lines `-- key: value`, continued by an indent, then the query."""
    head: list[tuple[str, str]] = []
    lines = text.splitlines()
    at = 0
    while at < len(lines) and lines[at].startswith("--"):
        line = lines[at][2:]
        match = re.fullmatch(r" (\w+): (.*)", line)
        if match:
            head.append((match[1], match[2].strip()))
        elif head and line.startswith("   "):
            head[-1] = (head[-1][0], f"{head[-1][1]} {line.strip()}")
        else:
            raise ValueError(f"{name}.sql, line {at + 1}: neither `-- key: value` nor a continuation")
        at += 1
    single = dict(entry for entry in head if entry[0] != "column")
    columns = []
    for value in (value for key, value in head if key == "column"):
        match = re.fullmatch(r"(\w+) (\w+) ([^(]+?)(?: \((.*)\))?", value)
        if not match or match[2] not in _UNITS:
            raise ValueError(
                f"{name}.sql: column {value!r} is not `name unit Title (explanation)` with a unit of {_UNITS}"
            )
        columns.append(Column(match[1], match[2], match[3], match[4] or ""))
    return Definition(
        name,
        single["title"],
        single["about"],
        single.get("share", ""),
        single.get("group"),
        tuple(columns),
        "\n".join(lines[at:]),
    )


@cache
def definitions() -> Mapping[str, Definition]:
    """All reports by name."""
    files = sorted(f for f in _FOLDER.glob("*.sql") if not f.name.startswith("_"))
    return {f.stem: parse(f.stem, f.read_text(encoding="utf-8")) for f in files}


def definition(name: str) -> Definition:
    """One report."""
    try:
        return definitions()[name]
    except KeyError:
        raise UnknownReport(f"no report {name!r}; there are: {', '.join(definitions())}") from None


def macros(con: duckdb.DuckDBPyConnection) -> None:
    """Make the macros of the reports."""
    con.execute((_FOLDER / "_macros.sql").read_text(encoding="utf-8"))


def prepare(con: duckdb.DuckDBPyConnection) -> None:
    """Make what reports stand on: macros, and views over the tables, which must be there."""
    macros(con)
    con.execute((_FOLDER / "_views.sql").read_text(encoding="utf-8"))


def make(con: duckdb.DuckDBPyConnection, name: str) -> Report:
    """Run a report on the open tables of a run."""
    entry = definition(name)
    result = con.execute(entry.sql)
    order = {column[0]: i for i, column in enumerate(result.description or ())}
    picked = [(order[column.name], column) for column in entry.columns]
    return Report(entry, [tuple(_plain(row[i], column) for i, column in picked) for row in result.fetchall()])


def summary(con: duckdb.DuckDBPyConnection) -> list[Report]:
    """The reports of the end of a run: OCCA's kernels (or the device's, where there is no OCCA), memory, calls."""
    made = [make(con, name) for name in SUMMARY]
    if not made[0].rows:
        made[0] = make(con, WITHOUT_OCCA)
    return [report for report in made if report.rows]


def _plain(value: Any, column: Column) -> Any:
    """Whole amounts as int: DuckDB's divisions come as float."""
    if (
        column.unit in ("ns", "bytes", "count")
        and isinstance(value, float)
        and value.is_integer()
        and abs(value) < 2**53
    ):
        return int(value)
    return value
