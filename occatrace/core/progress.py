"""What an analysis is doing, for a command that shows it: phases, and how far they are. Without such a command nothing happens.

Whoever works says `with phase("…"):` and, where it is known, `update(fraction)`. `occatrace/cli/bar.py` draws it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Protocol, TypeVar

T = TypeVar("T")


class Shown(Protocol):
    """Who shows the phases."""

    def begin(self, text: str) -> None: ...
    def update(self, fraction: float | None) -> None: ...
    def end(self) -> None: ...


_shown: Shown | None = None


def show_in(shown: Shown | None) -> None:
    """From now on phases are shown there; None: nowhere."""
    global _shown
    _shown = shown


@contextmanager
def phase(text: str) -> Iterator[None]:
    """Something that may take long, and in which nothing is printed. Phases may be nested."""
    shown = _shown
    if shown is None:
        yield
        return
    shown.begin(text)
    try:
        yield
    finally:
        shown.end()


def update(fraction: float | None) -> None:
    """How far the phase is, 0 to 1; None: not known."""
    if _shown is not None:
        _shown.update(fraction)


def along(reader: Iterable[T]) -> Iterator[T]:
    """What a reader gives, with its attribute `progress` after each."""
    for each in reader:
        yield each
        if _shown is not None:
            update(getattr(reader, "progress", None))
