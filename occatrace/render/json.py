"""JSON: `{"schema": 1, "run": …, "losses": …, "reports": [{"name", "columns": [{"name", "unit"}], "rows": [{…}]}]}`;
a report has "notes" where something must be said beside it. "partial": true where the run goes on."""

from __future__ import annotations

import json
from typing import TextIO

from occatrace.render import Document

SCHEMA = 1


def render(document: Document, out: TextIO) -> None:
    """Write the document."""
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
    json.dump(content, out, indent=1, ensure_ascii=False)
    out.write("\n")
