"""Renderers: reports → text, csv, json. They know units, not what a report is about."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TextIO

from occatrace.reports import Report
from occatrace.store.losses import Losses


@dataclass(frozen=True)
class Tile:
    """A number that stands at the top of a page."""

    title: str
    value: str
    more: str = ""


@dataclass(frozen=True)
class Figure:
    """A plot within a page: SVG for wide and narrow screens, CSS for dark ones, and the values that a pointer tells."""

    name: str
    title: str
    about: str
    broad: str
    narrow: str
    dark: Sequence[str] = ()
    hover: Mapping[str, Any] | None = None
    words: Sequence[str] = ()  # what it shows, for who does not see it


@dataclass(frozen=True)
class Flame:
    """A flame graph within a page: its numbers, as html_flame.js takes them, and the weights that it may have, the first one first."""

    tree: Mapping[str, Any]
    measures: Mapping[str, str]  # titles by name


@dataclass(frozen=True)
class SourceLine:
    """A line of a source file, and what it caused. `text`: None where it is not known. Times in ns."""

    number: int
    text: str | None
    device_ns: int = 0
    host_ns: int = 0
    calls: int = 0
    bytes: int = 0


@dataclass(frozen=True)
class SourceFile:
    """Lines of a source file in order; `left_out`: how many more caused something."""

    name: str
    lines: Sequence[SourceLine]
    left_out: int = 0
    note: str = ""


@dataclass(frozen=True)
class Document:
    """What is rendered: a run, what it is missing, and reports."""

    run: Mapping[str, Any]
    losses: Losses
    reports: Sequence[Report]
    # Of pages only:
    tiles: Sequence[Tile] = ()
    figures: Sequence[Figure] = ()
    facts: Sequence[tuple[str, str]] = ()
    remarks: Sequence[str] = ()
    flame: Flame | None = None
    sources: Sequence[SourceFile] = ()
    # Of tables for people only:
    brief: bool = False  # only the rows that matter


FORMATS = ("table", "csv", "tsv", "json", "markdown", "html")


def renderer(name: str) -> Callable[[Document, TextIO], None]:
    """The renderer of a format; its module is imported when it is needed."""
    module = importlib.import_module(f"occatrace.render.{'text' if name == 'table' else name}")
    render: Callable[[Document, TextIO], None] = module.render
    return render
