"""Pages that come from the code are what the code says now (the examples of docs/python.md run in test_api.py)."""

from __future__ import annotations

from pathlib import Path

from occatrace import reports
from occatrace.core import schema

DOCS = Path(__file__).parents[2] / "docs"


def test_pages_are_up_to_date() -> None:
    assert (DOCS / "schema.md").read_text(encoding="utf-8") == schema.markdown(), "python -m occatrace.core.schema"
    assert (DOCS / "reports.md").read_text(encoding="utf-8") == reports.markdown(), "python -m occatrace.reports"
