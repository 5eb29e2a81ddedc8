"""What a report is: the head of its SQL file (title, columns, units, tables that it reads, how it is drawn) and its query."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from occatrace.reports import sums

_FOLDER = Path(__file__).parent
_UNITS = ("percent", "ns", "bytes", "count", "number", "text", "source", "parent")
DRAWINGS = ("bars", "line", "points", "map")


@dataclass(frozen=True)
class Column:
    """One column of a report."""

    name: str
    unit: str
    title: str
    help: str
    fixed: bool = False  # in this unit in text tables, too

    @property
    def is_number(self) -> bool:
        """Whether its values can be drawn along an axis."""
        return self.unit not in ("text", "source", "parent")


@dataclass(frozen=True)
class Drawing:
    """How a report is drawn: marks at the columns x and y, coloured by a third; in a map the third gives the colour's value."""

    kind: str
    x: str
    y: str
    by: str | None = None

    @classmethod
    def parse(cls, text: str, columns: Sequence[Column]) -> Drawing:
        """The `plot:` line of a head. Raises ValueError for what cannot be drawn."""
        kind, *names = text.split()
        known = {column.name: column for column in columns}
        if kind not in DRAWINGS or not 2 <= len(names) <= 3 or (kind == "map" and len(names) < 3):
            raise ValueError(
                f"plot {text!r} is not `KIND X Y [BY]` with a kind of {', '.join(DRAWINGS)} (map needs BY)"
            )
        for name in names:
            if name not in known:
                raise ValueError(f"plot {text!r}: no column {name!r}")
        value = known[names[2 if kind == "map" else 1]]
        if not value.is_number:
            raise ValueError(f"plot {text!r}: {value.name} has no numbers")
        return cls(kind, names[0], names[1], names[2] if len(names) > 2 else None)


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
    counts: frozenset[str] = frozenset()  # tables of what is counted, where others are only looked up; empty: all
    empty: str = ""  # what to say where it has no rows
    of: frozenset[str] = (
        frozenset()
    )  # tables of which it is made: where none of them has rows, it has none; empty: not said
    made: str = ""  # module of this package whose `rows` makes them, where no query does
    plot: Drawing | None = None  # None: bars of a column
    sums: tuple[str, ...] = ()  # what it reads of `_sums.sql`; such a report can be made of merged parts, too
    query: str = ""  # the statement in its file; `sql` has what it reads of `_sums.sql` in front


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
    query, names = "\n".join(lines[at:]), tuple(single.get("sums", "").split())
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
        sums.with_sums(names, query),
        frozenset(single.get("counts", "").split()),
        single.get("empty", ""),
        frozenset(single.get("of", "").split()),
        single.get("made", ""),
        Drawing.parse(single["plot"], columns) if "plot" in single else None,
        names,
        query,
    )


@cache
def built_in() -> Mapping[str, Definition]:
    """Our reports by name."""
    return {name: of_file(name) for name in sorted(names())}


@cache
def names() -> frozenset[str]:
    """The names of our reports, without reading them: a summary is a few of them."""
    return frozenset(f.stem for f in _FOLDER.glob("*.sql") if not f.name.startswith("_"))


@cache
def of_file(name: str) -> Definition:
    """One of our reports."""
    return parse(name, (_FOLDER / f"{name}.sql").read_text(encoding="utf-8"))
