"""Markdown tables, with the human units of the text format."""

from __future__ import annotations

from typing import TextIO

from occatrace.core.checked import printable
from occatrace.render import Document
from occatrace.render.text import NUMERIC, cell
from occatrace.reports import Report

# What Markdown or the HTML in it would take for its own.
_ESCAPES = str.maketrans({c: f"\\{c}" for c in "\\`*_{}[]<>|#~$"} | {"&": "&amp;"})


def render(document: Document, out: TextIO) -> None:
    """Write the document."""
    for line in document.losses.lines():
        out.write(f"> {_line(line)}\n\n")
    for number, report in enumerate(document.reports):
        columns = [(place, column) for place, column in enumerate(report.columns) if column.unit != "parent"]
        out.write(("\n" if number else "") + f"### {report.definition.title}\n\n")
        if report.definition.share:
            out.write(f"% is {report.definition.share}\n\n")
        for note in report.notes:
            out.write(f"{_line(note)}\n\n")
        if not report.rows:
            out.write(f"{(report.definition.empty or 'nothing recorded').translate(_ESCAPES)}\n")
            continue
        out.write("| " + " | ".join(column.title for _, column in columns) + " |\n")
        out.write("|" + "|".join("--:" if column.unit in NUMERIC else "---" for _, column in columns) + "|\n")
        write_rows(report, out)


def write_rows(report: Report, out: TextIO) -> None:
    """The rows of a table whose head has been written."""
    columns = [(place, column) for place, column in enumerate(report.columns) if column.unit != "parent"]
    for row in report.rows:
        cells = (cell(row[place], column).translate(_ESCAPES) for place, column in columns)
        out.write("| " + " | ".join(cells) + " |\n")


def _line(text: str) -> str:
    return printable(" ".join(text.split())).translate(_ESCAPES)
