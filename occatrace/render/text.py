"""Tables for people: human units, as wide as the terminal; complete in a pipe."""

from __future__ import annotations

import io
import itertools
import math
import os
import posixpath
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from textwrap import wrap
from typing import Any, Protocol, TextIO

from rich.cells import cell_len, set_cell_size

from occatrace.core import naming
from occatrace.core.apis import api_titles
from occatrace.core.checked import printable
from occatrace.core.units import SIZES, TIMES, duration, fixed, size
from occatrace.render import Document
from occatrace.render.distinct import map_distinct
from occatrace.reports import OVERVIEW, Column, Report

# Left out one after another where the terminal is too narrow, least important first.
_DISPENSABLE = ("stddev", "max", "min", "med", "busy", "source", "bytes", "device", "mode", "avg")
NUMERIC = ("percent", "ns", "bytes", "count", "number", *(u for u in (*TIMES, *SIZES) if u != "ns"))
_NAME_WIDTH = 24
_NARROWEST = 6
_FIRST = 4  # columns that are never left out
_SENTENCES = ("evidence", "advice")  # columns that go on in the next line where the terminal is too narrow
_GAP = 2
_BRIEF_ROWS = 10  # of each table of a summary; of those after it only what takes this many per cent
_BRIEF_SHARE = 1.0
_BRIEF_TABLE = 0.1  # per cent of the run: calls of an API that took less are one line of a summary
_OPTIONAL = ("failed", "bytes", "source", "device", "errors", "error", "okl", "caller", "why")
_REPEATS = {"busy_ns": "total_ns", "kernel": "name", "occa_kernel": "name"}  # a column, and the one that it may repeat
_EMPTY = ("", "-", "0")
_MEASURED = ("ns", "bytes", "percent", "number")  # units of columns that may have one value in all rows by chance only
_OVERVIEW_LINES = 12  # of the whole block
_OVERVIEW_PARTS = 7  # lines of the breakdown, and one of its rest
_OVERVIEW_LEAST = 0.1  # per cent: what is less is in the rest
_NARROW = re.compile(r"[ -~µ×]*").fullmatch  # texts of characters that take one column each
_ADDRESS = re.compile(r"0x[0-9a-f]+( \(\+\d+\))?").fullmatch  # a call site in no file
_PIPE_WIDTH = 1 << 24  # wide enough for any name: nothing is cut in a pipe


def cell(value: Any, column: Column) -> str:
    """One value as text."""
    if value is None:
        return "-" if column.unit in NUMERIC else ""
    if column.unit == "ns" and not column.fixed:
        return duration(value)
    if column.unit == "bytes" and not column.fixed:
        return size(value) if value else "-"
    if column.fixed:
        return fixed(value)
    if column.unit == "percent":
        return f"{value:.1f} %"
    if column.unit == "count":
        return f"{value:,}"
    if column.unit == "number" and isinstance(value, float):
        return f"{value:,.4g}"
    return printable(str(value))


class _Console(Protocol):
    """What tables are printed to."""

    file: TextIO

    def line(self, text: str = "", style: str = "", end: str = "\n", wrap: bool = False) -> None:
        """Print a text; `wrap`: at words, where it is wider than a terminal."""


@dataclass
class _Plain:
    """A pipe or a file: no styles, nothing is wrapped."""

    file: TextIO

    def line(self, text: str = "", style: str = "", end: str = "\n", wrap: bool = False) -> None:
        """As it is."""
        self.file.write(text + end)


def _console(out: TextIO) -> _Console:
    # rich takes 20 ms to load. Where it would add colours to a pipe, somebody has asked for them.
    if not out.isatty() and not any(os.environ.get(name) for name in ("FORCE_COLOR", "TTY_COMPATIBLE")):
        return _Plain(out)
    from occatrace.render.terminal import Terminal

    return Terminal(out, None if out.isatty() else _PIPE_WIDTH)


def render(document: Document, out: TextIO) -> None:
    """Write the document."""
    _render(document, out, _console(out))


def plain(document: Document) -> str:
    """The document as text without styles, whatever the environment wants of terminals (as ipykernel does, for its own)."""
    out = io.StringIO()
    _render(document, out, _Plain(out))
    return out.getvalue()


def _render(document: Document, out: TextIO, console: _Console) -> None:
    terminal = out.isatty()
    for line in document.losses.lines():
        console.line(f"! {printable(line)}", "bold red", wrap=terminal)
    width = _width(out)
    least = _run_ns(document) * _BRIEF_TABLE / 100 if document.brief else 0.0
    for report in document.reports:
        if report.name == OVERVIEW:
            console.line()
            _print_overview(console, report, width)
            continue
        # A summary shows an API that took next to nothing of the run in one line, after the others.
        parts = [(title, rows, _in_one_line(report, rows, least)) for title, rows in sections(report)]
        for number, (title, rows, _) in enumerate(part for part in parts if part[2] is None):
            console.line()
            shown = replace(report, notes=()) if number else report
            kept, more = _that_matter(report, rows) if document.brief else (rows, 0)
            _print_table(console, shown, title, kept, width, document.brief)
            if more:
                console.line(f"  {more:,} more: --all", style="dim", wrap=True)
        if folded := [(title, line) for title, _, line in parts if line is not None]:
            console.line()
            for title, line in folded:
                console.line(f"{title} ({report.name})", style="bold", end="", wrap=True)
                console.line(f"  {line}: --all")


def _width(out: TextIO) -> int | None:
    """Columns of a terminal."""
    if not out.isatty():
        return None
    from occatrace.render.terminal import Terminal

    return Terminal(out).width


def render_stream(document: Document, following: Iterator[Sequence[tuple[Any, ...]]], out: TextIO) -> None:
    """Write the result of a query of which more rows follow. Columns are as wide as the first rows want them; of what is
    wider, text is cut on a terminal, and nothing else."""
    (report,) = document.reports
    width = _width(out)
    cells = {c.name: [cell(row[at], c) for row in report.rows] for at, c in enumerate(report.columns)}
    columns, left_out, _ = _fit(report.columns, cells, width)
    widths = _widths(columns, cells, width)
    render(replace(document, reports=()), out)
    out.write(f"\n{report.definition.title} ({report.name})\n")
    out.write(_line(columns, widths, {c.name: c.title for c in columns}) + "\n")
    places = {c.name: at for at, c in enumerate(report.columns)}
    shown = [(places[c.name], c) for c in columns]
    for rows in itertools.chain([report.rows], following):
        out.write("".join(f"{line}\n" for line in _stream_lines(shown, widths, rows, width)))
        out.flush()
    if left_out:
        out.write(f"  (no room for: {', '.join(c.title for c in left_out)})\n")


def _stream_lines(
    columns: Sequence[tuple[int, Column]], widths: Mapping[str, int], rows: Sequence[tuple[Any, ...]], width: int | None
) -> list[str]:
    """The lines of some rows. `columns`: with their places in a row. Of millions of rows most values of a block come again and again,
    so each is written once."""
    if any(c.name in _SENTENCES for _, c in columns):
        return [line for row in rows for line in _single(columns, widths, row, width)]
    padded = [
        map_distinct([row[at] for row in rows], partial(_padded, column, widths[column.name])) for at, column in columns
    ]
    out = []
    for row, cells in zip(rows, zip(*padded, strict=True), strict=True):
        if None in cells:
            out += _single(columns, widths, row, width)
        else:
            out.append((" " * _GAP).join(cells).rstrip())
    return out


def _padded(column: Column, width: int, value: Any) -> str | None:
    """A cell as wide as its column; None: it is wider."""
    text = cell(value, column)
    space = width - _length(text)
    return None if space < 0 else " " * space + text if column.unit in NUMERIC else text + " " * space


def _single(
    columns: Sequence[tuple[int, Column]], widths: Mapping[str, int], row: tuple[Any, ...], width: int | None
) -> list[str]:
    """The lines of one row, some of which may be wider than its column."""
    values = {c.name: cell(row[at], c) for at, c in columns}
    wanted = {c.name: cell_len(values[c.name]) for _, c in columns if width is None or not _may_be_cut(c)}
    own = {**widths, **{name: max(widths[name], length) for name, length in wanted.items()}}
    return _lines([c for _, c in columns], own, values)


def _length(text: str) -> int:
    """Columns of a terminal that a text takes: rich looks them up one by one."""
    return len(text) if _NARROW(text) else cell_len(text)


def sections(report: Report) -> list[tuple[str, list[tuple[Any, ...]]]]:
    """One table, or one per value of the column that the report is grouped by."""
    group = report.definition.group
    rows = told_once(report)
    if group is None or not rows:
        return [(report.definition.title, rows)]
    at = [column.name for column in report.columns].index(group)
    groups = itertools.groupby(rows, lambda row: row[at])
    title, titles = report.definition.title, api_titles()
    return [
        (f"{titles[key]} {title.lower()}" if key in titles else f"{title}: {key}", list(rows)) for key, rows in groups
    ]


def _run_ns(document: Document) -> float:
    """Nanoseconds that the run took, as the overview says; 0 where there is none."""
    for report in document.reports:
        if report.name == OVERVIEW:
            kind, time = (_place(report, name) for name in ("kind", "time_ns"))
            if kind is not None and time is not None:
                return float(next((row[time] for row in report.rows if row[kind] == "run"), 0.0) or 0.0)
    return 0.0


def _place(report: Report, name: str) -> int | None:
    return next((at for at, column in enumerate(report.columns) if column.name == name), None)


def _in_one_line(report: Report, rows: Sequence[tuple[Any, ...]], least: float) -> str | None:
    """What a part of a grouped report comes to, where it took less than `least` nanoseconds and no call failed."""
    total, calls, failed = (_place(report, name) for name in ("total_ns", "calls", "failed"))
    if report.definition.group is None or total is None or calls is None or not rows:
        return None
    time = sum(row[total] or 0 for row in rows)
    if time >= least or (failed is not None and any(row[failed] for row in rows)):
        return None
    number = sum(row[calls] or 0 for row in rows)
    return f"{number:,} call{'s' * (number != 1)}, {duration(time)}, less than {_BRIEF_TABLE:g} % of the run"


def _that_matter(report: Report, rows: list[tuple[Any, ...]]) -> tuple[list[tuple[Any, ...]], int]:
    """The first rows, those with a share of the whole and those that failed, each with its parts; and how many others there are."""
    places = {column.name: place for place, column in enumerate(report.columns)}
    share, parent, failed = (places.get(name) for name in ("share", "parent", "failed"))
    kept: list[tuple[Any, ...]] = []
    number, more, last = 0, 0, True
    for row in rows:
        if parent is None or row[parent] is None:
            number += 1
            large = share is not None and (row[share] or 0.0) >= _BRIEF_SHARE
            last = number <= _BRIEF_ROWS or large or (failed is not None and bool(row[failed]))
            more += not last
        if last:
            kept.append(row)
    return kept, more


def told_once(report: Report) -> list[tuple[Any, ...]]:
    """The rows without the only part of a row that has all of its numbers: it says nothing that the row does not say."""
    parent = next((place for place, column in enumerate(report.columns) if column.unit == "parent"), None)
    if parent is None:
        return list(report.rows)
    numbers = [place for place, column in enumerate(report.columns) if column.unit in NUMERIC]
    out: list[tuple[Any, ...]] = []
    whole: tuple[Any, ...] = ()
    for _, block in itertools.groupby(report.rows, lambda row: row[parent] is None):
        rows = list(block)
        if rows[0][parent] is None:
            whole = rows[-1]
        elif len(rows) == 1 and whole and all(_alike(rows[0][at], whole[at]) for at in numbers):
            continue
        out += rows
    return out


def _alike(one: Any, other: Any) -> bool:
    floats = isinstance(one, (int, float)) and isinstance(other, (int, float))
    return math.isclose(one, other, rel_tol=1e-9) if floats else bool(one == other)


def _print_table(
    console: _Console,
    report: Report,
    title: str,
    rows: Sequence[tuple[Any, ...]],
    width: int | None,
    brief: bool = False,
) -> None:
    definition = report.definition
    columns = [column for column in report.columns if column.unit != "parent" and column.name != definition.group]
    places = {column.name: place for place, column in enumerate(report.columns)}
    parent = next((column.name for column in report.columns if column.unit == "parent"), None)
    cells = {}
    for column in columns:
        values = [cell(row[places[column.name]], column) for row in rows]
        if column.name == "name" and parent:
            values = ["  " + v if row[places[parent]] is not None else v for v, row in zip(values, rows, strict=True)]
        cells[column.name] = values
    # Columns that say nothing about any row are left out for people, in a summary also those that repeat another.
    columns = [
        c
        for c in columns
        if (c.name not in _OPTIONAL and not (brief and rows)) or any(v not in _EMPTY for v in cells[c.name])
    ]
    if brief:
        columns = [c for c in columns if cells[c.name] != cells.get(_REPEATS.get(c.name, ""))]
    folder = _shorten_sources(columns, cells) if brief or width is not None else ""
    columns, left_out, alike = _fit(columns, cells, width, whole=True)
    head = f"{title} ({definition.name})"
    share = f"  % is {definition.share}" if definition.share else ""
    apart = "\n" if width is not None and cell_len(head + share) > width else ""
    console.line(printable(head), style="bold", end="", wrap=True)
    console.line(apart + share, wrap=True)
    for note in report.notes:
        console.line(f"  {printable(note)}", style="italic", wrap=width is not None)
    if not rows:
        console.line(f"  {definition.empty or 'nothing recorded'}", style="dim")
        return
    widths = _widths(columns, cells, width)
    console.line(_line(columns, widths, {c.name: c.title for c in columns}), style="dim")
    lines = [
        line
        for row in range(len(rows))
        for line in _lines(columns, widths, {c.name: cells[c.name][row] for c in columns})
    ]
    failed = [row for row, value in enumerate(cells.get("failed", ())) if value not in ("0", "-")]
    if width is not None and failed:
        for row, line in enumerate(lines):
            console.line(line, style="red" if row in failed else "")
    else:
        # Rows without a style go out as they are: a hundred of them cost nothing.
        console.file.write("\n".join(lines) + "\n")
    if folder and any(c.unit == "source" for c in columns):
        console.line(f"  sources are in {printable(folder)}", style="dim")
    sites = [value for c in columns if c.unit == "source" for value in cells[c.name]]
    if any(map(naming.is_of_python, sites)):
        console.line("  called from Python: --python lines records its lines", style="dim")
    if any(map(_ADDRESS, sites)):
        console.line("  0x…: code that was generated while the program ran", style="dim")
    if alike:
        same = (f"{c.title} {cells[c.name][0]}" for c in alike)
        console.line(f"  (in all rows: {', '.join(same)})", style="dim", wrap=True)
    if left_out:
        console.line(f"  (no room for: {', '.join(c.title for c in left_out)})", style="dim", wrap=True)


def _shorten_sources(columns: Sequence[Column], cells: dict[str, list[str]]) -> str:
    """Take the folder that all source files of a table are in out of its cells; returns it, or nothing."""
    names = [c.name for c in columns if c.unit == "source"]
    folders = [posixpath.dirname(value) for name in names for value in cells[name] if value]
    if not folders or not all(folder.startswith("/") for folder in folders):
        return ""
    common = posixpath.commonpath(folders)
    if common == "/":
        return ""
    for name in names:
        cells[name] = [value[len(common) + 1 :] for value in cells[name]]
    return common


def _print_overview(console: _Console, report: Report, width: int | None) -> None:
    """The overview as one block of at most twelve lines."""
    names = [column.name for column in report.columns]
    by_kind: dict[str, list[dict[str, Any]]] = {}
    for values in report.rows:
        entry = dict(zip(names, values, strict=True))
        by_kind.setdefault(entry["kind"], []).append(entry)
    time = next(column for column in report.columns if column.name.startswith("time"))
    head = f"{report.definition.title} ({report.name})"
    run = "".join(f"  run time {cell(row[time.name], time)}" for row in by_kind.get("run", ()))
    sentences = [printable(line) for line in _overview_sentences(by_kind)]
    below = [part for line in sentences for part in _wrapped(line, width)]
    room = _OVERVIEW_LINES - 2 - len(report.notes) - len(by_kind.get("device", ())) - len(below)  # head and other parts
    parts = by_kind.get("part", [])
    shown = [row for row in parts if max(row["share"], row["worst"] or 0.0) >= _OVERVIEW_LEAST]
    shown = shown[: max(min(_OVERVIEW_PARTS, room), 1)]
    rest = parts[len(shown) :]
    if len(rest) > 1:  # a single one takes no more room by its name
        other = {"name": f"{len(rest)} other parts", "worst": None, "share": sum(r["share"] for r in rest)}
        parts = [*shown, {**other, time.name: sum(row[time.name] for row in rest)}]
    ranks = any(row["worst"] is not None for row in parts)
    times = [cell(row[time.name], time) for row in parts]
    wide, long = max(map(len, times), default=0), max((len(row["name"]) for row in parts), default=0)
    lines = []
    for row, share, text in zip(parts, _tenths([row["share"] for row in parts]), times, strict=True):
        worst = "" if row["worst"] is None else f"  worst {row['worst']:5.1f} % (rank {row['worst_rank']})"
        lines.append(f"{share:5.1f} %  {text:>{wide}}  {row['name']:<{long}}{worst}")
    for row in by_kind.get("device", ()):
        lines.append(f"{row['share']:5.1f} %  {row['name']}")
    console.line(head, style="bold", end="", wrap=True)
    console.line(f"{run}{', mean of the ranks' if ranks else ''}")
    for note in report.notes:
        console.line(f"  {printable(note)}", style="italic", wrap=width is not None)
    for line in map(printable, lines):
        cut = line if width is None or cell_len(line) <= width else set_cell_size(line, width - 1) + "…"
        console.file.write(cut.rstrip() + "\n")
    console.file.writelines(f"{part}\n" for part in below)


def _overview_sentences(by_kind: Mapping[str, Sequence[Mapping[str, Any]]]) -> list[str]:
    """The kernels and the advice of the overview."""
    sentences = []
    if kernels := [row for row in by_kind.get("kernel", ()) if row["share"] >= _OVERVIEW_LEAST]:
        told = (f"{naming.function(each['name'])} {each['share']:.1f} %" for each in kernels)
        sentences.append(f"  kernels: {', '.join(told)}")
    for row in by_kind.get("advice", ()):
        rank = f"rank {row['worst_rank']}" if row["worst_rank"] is not None and row["worst"] is None else ""
        at = ", ".join(filter(None, (rank, posixpath.basename(row["source"]))))
        sentences.append(f"  {row['name']}{f' ({at})' if at else ''}: {row['advice']}")
    return sentences


def _wrapped(line: str, width: int | None) -> list[str]:
    """An indented sentence, in lines that a terminal has room for."""
    if width is None or cell_len(line) <= width:
        return [line]
    return [f"  {part}" for part in wrap(line.strip(), max(width - 2, _NARROWEST), subsequent_indent="  ")]


def _tenths(shares: Sequence[float]) -> list[float]:
    """Shares of 100 % with one decimal that add up to 100.0 as printed: those that lose most by rounding down get what is left."""
    out = [math.floor(10 * share) for share in shares]
    left = round(10 * math.fsum(shares)) - sum(out)
    for at in sorted(range(len(out)), key=lambda at: out[at] - 10 * shares[at])[:left]:
        out[at] += 1
    return [tenths / 10 for tenths in out]


def _widths(columns: Sequence[Column], cells: dict[str, list[str]], width: int | None) -> dict[str, int]:
    """Width of each column; texts are shortened, the widest first, where a terminal asks for it."""
    widths = {c.name: max([cell_len(c.title), *map(cell_len, cells[c.name])]) for c in columns}
    excess = 0 if width is None else sum(widths.values()) + _GAP * (len(columns) - 1) - width
    while excess > 0:
        texts = [c.name for c in columns if _may_be_cut(c) and widths[c.name] > _NARROWEST]
        if not texts:
            break
        widest = max(texts, key=lambda name: widths[name])
        others = max((widths[name] for name in texts if name != widest), default=_NARROWEST)
        cut = min(excess, max(widths[widest] - max(others, _NARROWEST), 1))
        widths[widest] -= cut
        excess -= cut
    return widths


def _lines(columns: Sequence[Column], widths: dict[str, int], values: dict[str, str]) -> list[str]:
    """One line, or more where sentences go on."""
    wrapped = {c.name: wrap(values[c.name], widths[c.name]) or [""] for c in columns if c.name in _SENTENCES}
    if not wrapped:
        return [_line(columns, widths, values)]
    out = []
    for at in range(max(map(len, wrapped.values()))):
        rest = {name: lines[at] if at < len(lines) else "" for name, lines in wrapped.items()}
        first = values if at == 0 else dict.fromkeys(values, "")
        out.append(_line(columns, widths, {**first, **rest}))
    return out


def _line(columns: Sequence[Column], widths: dict[str, int], values: dict[str, str]) -> str:
    parts = []
    for column in columns:
        value, width = values[column.name], widths[column.name]
        length = cell_len(value)
        if length > width:
            value = _shortened(value, width, column)
            length = cell_len(value)
        space = " " * (width - length)
        parts.append(space + value if column.unit in NUMERIC else value + space)
    return (" " * _GAP).join(parts).rstrip()


def _may_be_cut(column: Column) -> bool:
    return column.unit not in NUMERIC and not column.name.startswith("verdict")


def _shortened(value: str, width: int, column: Column) -> str:
    """Of a path the end is kept, of a long name both ends: there it often says which of several it is. A C++ function goes without
    its return type and its parameters."""
    if value.startswith("void "):
        value = naming.with_templates(value)
        if cell_len(value) <= width:
            return value
    wide = width >= _NAME_WIDTH // 2
    tail = width - 1 if column.unit == "source" else width // 3 if wide else 0
    end = ""
    while tail and cell_len(end) < tail:
        end = value[len(value) - len(end) - 1 :]
    end = end[1:] if cell_len(end) > max(tail, 0) else end
    return set_cell_size(value, max(width - 1 - cell_len(end), 0)) + "…" + end


def _fit(
    columns: Sequence[Column], cells: dict[str, list[str]], width: int | None, whole: bool = False
) -> tuple[list[Column], list[Column], list[Column]]:
    """Columns that fit, names shortened if need be; those that do not; and those left out that have one value in all rows. Columns
    that say least go first: empty ones, repeats of others, one value in all rows. `whole`: `cells` has all rows."""
    kept, left_out = list(columns), []
    if width is None:
        return kept, [], []

    full = {c.name: max([cell_len(c.title), *map(cell_len, cells[c.name])]) for c in columns}

    def needed() -> int:
        """Width with long texts shortened."""
        return taken(lambda c: (2 if c.name == "name" else 1) * _NAME_WIDTH if _may_be_cut(c) else full[c.name])

    def taken(most: Callable[[Column], int]) -> int:
        return sum(min(full[c.name], most(c)) for c in kept) + _GAP * (len(kept) - 1)

    def cuts() -> bool:
        return taken(lambda c: full[c.name]) > width

    alike: list[Column] = []
    empty: list[Column] = []
    if whole:
        names = {c.name for c in columns}
        empty = [c for c in columns if all(v in _EMPTY for v in cells[c.name])]
        repeats = [c for c in columns if _REPEATS.get(c.name) in names and cells[c.name] == cells[_REPEATS[c.name]]]
        alike = [c for c in columns if c.unit not in _MEASURED and len({*cells[c.name]}) == 1 < len(cells[c.name])]
        for column in dict.fromkeys((*empty, *repeats, *alike)):
            # They also make room for long names.
            if cuts() and column.name != "name":
                kept.remove(column)
                left_out.append(column)
    for word in _DISPENSABLE:
        if needed() <= width:
            break
        for column in [c for c in kept if c.name.split("_")[0] == word]:
            kept.remove(column)
            left_out.append(column)
    # What was left out before a wider column was: perhaps there is room for it now.
    for column in [c for c in reversed(left_out) if c not in empty]:
        kept.append(column)
        if needed() > width or (column in alike and cuts()):
            kept.pop()
    kept.sort(key=list(columns).index)
    # Of tables of many columns the first ones and the name.
    for column in reversed(columns[_FIRST:]):
        if needed() <= width:
            break
        if column in kept and column.name != "name":
            kept.remove(column)
            left_out.append(column)
    left_out.sort(key=list(columns).index)
    gone = [column for column in left_out if column not in kept]
    same = [column for column in gone if column in alike and cells[column.name][0] not in _EMPTY]
    return kept, [column for column in gone if column not in same], same
