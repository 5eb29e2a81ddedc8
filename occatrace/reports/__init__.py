"""Reports: tables of a run → `Report`. One SQL file each, whose head says title, columns and units. Prints nothing."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import duckdb

from occatrace.run import RunError

if TYPE_CHECKING:
    from occatrace.tables import Store

_FOLDER = Path(__file__).parent
_UNITS = ("percent", "ns", "bytes", "count", "number", "text", "source", "parent")

# What `occa_prof ./a.out` prints at the end, as far as there is something to print. api_sum has OCCA's calls too.
SUMMARY = ("occa_kern_sum", "gpu_mem_time_sum", "gpu_mem_size_sum", "api_sum")
WITHOUT_OCCA = "gpu_kern_sum"  # in place of the first one
# Of a parallel job, the summary ends with its ranks, where they are few, and with what is unbalanced most.
RANKS_SHOWN = 32
BALANCE_ROWS = 12


class UnknownReport(RunError):
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
    needs_calls: bool  # it is about single calls, which are opened only for those who ask
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
        single.get("needs") == "calls",
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


@dataclass(frozen=True)
class Selection:
    """Which rows of a report are wanted, and in which order."""

    rows: int | None = None
    sort: str | None = None
    name: str | None = None

    def apply(self, report: Report) -> Report:
        """The report with these rows. A part stays with the row that it belongs to."""
        places = {column.name: place for place, column in enumerate(report.columns)}
        blocks: list[list[tuple[Any, ...]]] = []
        for row in report.rows:
            if "parent" in places and row[places["parent"]] is not None and blocks:
                blocks[-1].append(row)
            else:
                blocks.append([row])
        if self.name is not None and "name" in places:
            try:
                pattern = re.compile(self.name)
            except re.error as error:
                raise RunError(f"--filter-name {self.name!r} is not a regular expression: {error}") from None
            at = places["name"]
            blocks = [block for block in blocks if any(pattern.search(str(row[at])) for row in block)]
        if self.sort is not None:
            if self.sort not in places:
                raise RunError(f"{report.name} has no column {self.sort!r}; it has {', '.join(places)}")
            by = places[self.sort]
            there = [block for block in blocks if block[0][by] is not None]
            missing = [block for block in blocks if block[0][by] is None]
            text = report.columns[by].unit in ("text", "source", "parent")
            blocks = sorted(there, key=lambda block: block[0][by], reverse=not text) + missing
        if self.rows is not None:
            blocks = blocks[: max(self.rows, 0)]
        return Report(report.definition, [row for block in blocks for row in block])


def macros(con: duckdb.DuckDBPyConnection) -> None:
    """Make the macros of the reports."""
    con.execute((_FOLDER / "_macros.sql").read_text(encoding="utf-8"))


def prepare(con: duckdb.DuckDBPyConnection) -> None:
    """Make what reports stand on: macros, and views over the tables, which must be there."""
    macros(con)
    con.execute((_FOLDER / "_views.sql").read_text(encoding="utf-8"))


def make(store: Store, name: str) -> Report:
    """Run a report on the tables of a run."""
    entry = definition(name)
    if entry.needs_calls:
        store.functions()
    result = store.con.execute(entry.sql)
    order = {column[0]: i for i, column in enumerate(result.description or ())}
    picked = [(order[column.name], column) for column in entry.columns]
    return Report(entry, [tuple(_plain(row[i], column) for i, column in picked) for row in result.fetchall()])


def summary(store: Store) -> list[Report]:
    """The reports of the end of a run: OCCA's kernels (or the device's, where there is no OCCA), memory, calls."""
    made = [make(store, name) for name in SUMMARY]
    if not made[0].rows:
        made[0] = make(store, WITHOUT_OCCA)
    ranks = store.con.execute("SELECT count(DISTINCT rank) FROM processes").fetchall()[0][0]
    if ranks > 1:
        if ranks <= RANKS_SHOWN:
            made.append(make(store, "rank_sum"))
        made.append(Selection(rows=BALANCE_ROWS).apply(make(store, "rank_balance")))
    return [report for report in made if report.rows]


def of_query(result: duckdb.DuckDBPyConnection) -> Report:
    """The result of somebody's own query in the form of a report."""
    columns = tuple(
        Column(name, "text" if "VARCHAR" in str(kind) else "number", name, "")
        for name, kind, *_ in result.description or ()
    )
    return Report(Definition("query", "Query", "the result of a query", "", None, True, columns, ""), result.fetchall())


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


def markdown() -> str:
    """The page docs/reports.md."""
    out = [
        "# Reports",
        "",
        "Generated by `python -m occatrace.reports` from the SQL files in `occatrace/reports/`; do not edit.",
        "",
        "`occa_prof report RUN --report NAME`, `occatrace.open(RUN).report(NAME)`. Units are those of csv, tsv, json and",
        "Python; tables for people have units that fit. Medians come from histograms of 64 buckets per octave (within 1 %),",
        "everything else is exact. A report with single calls reads the whole trace at its first use.",
        "",
    ]
    for entry in definitions().values():
        out += [f"## {entry.name}", "", f"{entry.title}: {entry.about}."]
        if entry.share:
            out += [f"The percentage is {entry.share}."]
        if entry.needs_calls:
            out += ["Needs single calls."]
        out += ["", "| field | unit | shown as | |", "|---|---|---|---|"]
        out += [f"| `{c.name}` | {c.unit} | {c.title} | {c.help} |" for c in entry.columns]
        out += [""]
    return "\n".join(out)
