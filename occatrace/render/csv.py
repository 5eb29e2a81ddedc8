"""CSV (RFC 4180): a line of field names, plain numbers in base units. An empty line between several reports."""

from __future__ import annotations

import csv
from typing import Any, TextIO

from occatrace.render import Document


class _Lines:
    """Ends rows by a line feed."""

    def __init__(self, out: TextIO) -> None:
        self._out = out

    def write(self, row: str) -> int:
        return self._out.write(row.removesuffix("\r\n") + "\n")


def rows_to(out: TextIO) -> Any:
    """A csv.writer for lines that end as on Unix. Python quotes a carriage return only when it is part of the line end."""
    return csv.writer(_Lines(out), lineterminator="\r\n")


def render(document: Document, out: TextIO) -> None:
    """Write the document. What is missing in the run has no place in CSV: the command line says it on stderr."""
    several = len(document.reports) > 1
    for number, report in enumerate(document.reports):
        if several:
            out.write(("\n" if number else "") + f"# {report.name}\n")
        writer = rows_to(out)
        writer.writerow([column.name for column in report.columns])
        writer.writerows(report.rows)
