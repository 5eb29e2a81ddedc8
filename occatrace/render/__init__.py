"""Renderers: reports → text, csv, json. They know units, not what a report is about."""

from __future__ import annotations

import importlib
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


FORMATS = ("table", "csv", "tsv", "json", "markdown", "html")


def renderer(name: str) -> Callable[[Document, TextIO], None]:
    """The renderer of a format; its module is imported when it is needed."""
    module = importlib.import_module(f"occatrace.render.{'text' if name == 'table' else name}")
    render: Callable[[Document, TextIO], None] = module.render
    return render
