"""Renderers: reports → text, csv, json. They know units, not what a report is about."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TextIO

from occatrace.losses import Losses
from occatrace.reports import Report


@dataclass(frozen=True)
class Document:
    """What is rendered: a run, what it is missing, and reports."""

    run: Mapping[str, Any]
    losses: Losses
    reports: Sequence[Report]


def renderer(name: str) -> Callable[[Document, TextIO], None]:
    """The renderer of a format; imported when it is needed."""
    if name == "csv":
        from occatrace.render import csv

        return csv.render
    if name == "json":
        from occatrace.render import json

        return json.render
    from occatrace.render import text

    return text.render


FORMATS = ("table", "csv", "json")
