"""JSON: `{"schema": 1, "run": …, "losses": …, "reports": [{"name", "columns": [{"name", "unit"}], "rows": [{…}]}]}`;
a report has "notes" where something must be said beside it. "partial": true where the run goes on."""

from __future__ import annotations

import json
from collections.abc import Sequence
from decimal import Decimal
from json.encoder import encode_basestring
from typing import Any, TextIO

from occatrace.render import Document
from occatrace.render.distinct import map_distinct

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


def rows_of(names: Sequence[str], rows: Sequence[tuple[Any, ...]]) -> list[str]:
    """Rows as objects, as they stand in the documents, each on lines of its own without the indent of the first and the last."""
    if not names:
        return ["{}"] * len(rows)
    keys = [f"\n     {text_of(name)}: " for name in names]
    texts = [[key + text for text in map_distinct([row[at] for row in rows], _value)] for at, key in enumerate(keys)]
    return ["{" + ",".join(row) + "\n    }" for row in zip(*texts, strict=True)]


def _value(value: object) -> str:
    """A value of a row."""
    if isinstance(value, str):
        return encode_basestring(value)
    return text_of(value).replace("\n", "\n     ")


def text_of(content: object) -> str:
    """JSON as it stands in the documents."""
    return json.dumps(content, indent=1, ensure_ascii=False, default=_plain)


def _plain(value: object) -> object:
    """What SQL has and JSON has not: decimal numbers, which become numbers, and dates, bytes and the like."""
    if isinstance(value, Decimal):
        return int(value) if value == value.to_integral_value() else float(value)
    return value.decode("utf-8", "backslashreplace") if isinstance(value, bytes) else str(value)
