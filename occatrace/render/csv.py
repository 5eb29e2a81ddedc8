"""CSV (RFC 4180): a line of field names, plain numbers in base units. An empty line between several reports."""

from __future__ import annotations

import csv
from typing import TextIO

from occatrace.render import Document


def render(document: Document, out: TextIO) -> None:
    """Write the document. What is missing in the run has no place in CSV: the command line says it on stderr."""
    several = len(document.reports) > 1
    for number, report in enumerate(document.reports):
        if several:
            out.write(("\n" if number else "") + f"# {report.name}\n")
        writer = csv.writer(out, lineterminator="\n")
        writer.writerow([column.name for column in report.columns])
        writer.writerows(report.rows)
