"""The result of a query, or of a report without end, as it comes: in bounded memory, the first rows at once, whatever follows."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import chain
from typing import Any, Protocol, TextIO

from occatrace.errors import RunError
from occatrace.render import Document, csv, renderer, tsv
from occatrace.render import json as json_format
from occatrace.render import markdown as markdown_format
from occatrace.render import text as text_format
from occatrace.reports import Report
from occatrace.store.losses import Losses

MOST_ROWS = 1000  # at a time; the widths of a table's columns are those of the first ones
MOMENT_S = 0.1
PAGE_ROWS = 100_000

EACH = ("csv", "tsv", "markdown", "table")  # formats of `render_each`

Block = Sequence[tuple[Any, ...]]
Part = tuple[Report, Iterator[tuple[Block, bool]]]


class Cursor(Protocol):
    """What gives rows one by one, and None at the end."""

    def fetchone(self) -> tuple[Any, ...] | None: ...


class TooManyRows(RunError):
    """A format that needs all rows at once does not take that many."""


class Rows:
    """Rows that are made one by one, as a cursor gives them."""

    def __init__(self, rows: Iterator[tuple[Any, ...]]) -> None:
        self._rows = rows

    def fetchone(self) -> tuple[Any, ...] | None:
        """The next row."""
        return next(self._rows, None)


def blocks(cursor: Cursor) -> Iterator[tuple[Block, bool]]:
    """Rows of a result, as many as come in a moment, and whether they are the last."""
    ended = False
    while not ended:
        rows: list[tuple[Any, ...]] = []
        end = time.monotonic() + MOMENT_S
        while len(rows) < MOST_ROWS and (not rows or time.monotonic() < end):
            row = cursor.fetchone()
            if row is None:
                ended = True
                break
            rows.append(row)
        yield rows, ended


def render(document: Document, come: Iterator[tuple[Block, bool]], out: TextIO, fmt: str) -> None:
    """Write a document whose one report has the rows that come. Nothing is written before there are some."""
    (report,) = document.reports
    first, ended = next(come)
    started = replace(document, reports=[replace(report, rows=first)])
    if ended:
        renderer(fmt)(started, out)
    else:
        _FORMATS[fmt](started, (rows for rows, _ in come), out)


def render_each(document: Document, parts: Iterable[Part], out: TextIO, fmt: str) -> None:
    """Write one report after another, each as its rows come. For formats that are no more than that."""
    for number, (report, come) in enumerate(parts):
        if fmt in ("csv", "tsv"):
            out.write(("\n" if number else "") + f"# {report.name}\n")
        elif number and fmt == "markdown":
            out.write("\n")
        losses = Losses.none() if number else document.losses
        render(replace(document, losses=losses, reports=[report]), come, out, fmt)


def _csv(document: Document, following: Iterator[Block], out: TextIO) -> None:
    csv.render(document, out)
    writer = csv.rows_to(out)
    for rows in following:
        out.flush()
        writer.writerows(rows)


def _tsv(document: Document, following: Iterator[Block], out: TextIO) -> None:
    tsv.render(document, out)
    for rows in following:
        out.flush()
        tsv.write_rows(rows, out)


def _json(document: Document, following: Iterator[Block], out: TextIO) -> None:
    (report,) = document.reports
    mark = '"rows": []'  # escaped within any text
    head, _, tail = json_format.dumps(replace(document, reports=[replace(report, rows=())])).rpartition(mark)
    names = [column.name for column in report.columns]
    out.write(f'{head}"rows": [')
    separator = "\n"
    for rows in chain([report.rows], following):
        if rows:
            out.write(separator + ",\n".join(f"    {text}" for text in json_format.rows_of(names, rows)))
            separator = ",\n"
        out.flush()
    out.write(f"\n   ]{tail}\n")


def _markdown(document: Document, following: Iterator[Block], out: TextIO) -> None:
    markdown_format.render(document, out)
    for rows in following:
        out.flush()
        markdown_format.write_rows(replace(document.reports[0], rows=rows), out)


def _text(document: Document, following: Iterator[Block], out: TextIO) -> None:
    text_format.render_stream(document, following, out)


def _html(document: Document, following: Iterator[Block], out: TextIO) -> None:
    (report,) = document.reports
    rows = list(report.rows)
    for block in following:
        rows += block
        if len(rows) > PAGE_ROWS:
            raise TooManyRows(
                f"a page has room for {PAGE_ROWS:,} rows: take another --format, or add LIMIT to the query (of a report: --rows N)"
            )
    renderer("html")(replace(document, reports=[replace(report, rows=rows)]), out)


_FORMATS = {"csv": _csv, "tsv": _tsv, "json": _json, "markdown": _markdown, "table": _text, "html": _html}
