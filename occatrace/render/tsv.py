"""Tab-separated values: one line per row whatever is in it; tab, newline, carriage return and backslash are escaped."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, TextIO

from occatrace.render import Document

_ESCAPES = str.maketrans({"\\": "\\\\", "\t": "\\t", "\n": "\\n", "\r": "\\r"})


def render(document: Document, out: TextIO) -> None:
    """Write the document; an empty line and `# name` between several reports."""
    several = len(document.reports) > 1
    for number, report in enumerate(document.reports):
        if several:
            out.write(("\n" if number else "") + f"# {report.name}\n")
        out.write("\t".join(column.name for column in report.columns) + "\n")
        write_rows(report.rows, out)


def write_rows(rows: Iterable[Sequence[Any]], out: TextIO) -> None:
    """A line for each row."""
    for row in rows:
        out.write("\t".join(map(_field, row)) + "\n")


def _field(value: Any) -> str:
    return "" if value is None else str(value).translate(_ESCAPES)
