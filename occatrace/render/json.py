"""JSON: `{"schema": 1, "run": …, "losses": …, "reports": [{"name", "columns": [{"name", "unit"}], "rows": [{…}]}]}`;
a report has "notes" where something must be said beside it. "partial": true where the run goes on."""

from __future__ import annotations

import json
from decimal import Decimal
from typing import TextIO

from occatrace.render import Document

SCHEMA = 1


def render(document: Document, out: TextIO) -> None:
    """Write the document."""
    out.write(dumps(document) + "\n")


def dumps(document: Document) -> str:
    """The document as text."""
    reports = []
    for report in document.reports:
        names = [column.name for column in report.columns]
        reports.append(
            {
                "name": report.name,
                **({"notes": list(report.notes)} if report.notes else {}),
                "columns": [{"name": column.name, "unit": column.unit} for column in report.columns],
                "rows": [dict(zip(names, row, strict=True)) for row in report.rows],
            }
        )
    partial = {"partial": True} if document.losses.partial else {}
    content = {
        "schema": SCHEMA,
        **partial,
        "run": document.run,
        "losses": document.losses.as_json(),
        "reports": reports,
    }
    return text_of(content)


def text_of(content: object) -> str:
    """JSON as it stands in the documents."""
    return json.dumps(content, indent=1, ensure_ascii=False, default=_plain)


def _plain(value: object) -> object:
    """What SQL has and JSON has not: decimal numbers, which become numbers, and dates, bytes and the like."""
    if isinstance(value, Decimal):
        return int(value) if value == value.to_integral_value() else float(value)
    return value.decode("utf-8", "backslashreplace") if isinstance(value, bytes) else str(value)
