"""Rows of a track for formats in which the slices of a row have to nest, or to follow each other."""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, TypeVar

Row = TypeVar("Row")
What = TypeVar("What")


class Lanes(Generic[Row, What]):
    """Gives each slice, in the order of their starts, the first row that has room for it.

    `make` makes a row from how many there are; `leave` is told of each slice that has ended: its row, end and what it is.
    """

    def __init__(
        self, nested: bool, make: Callable[[int], Row], leave: Callable[[Row, int, What], None] | None = None
    ) -> None:
        self._nested, self._make, self._leave = nested, make, leave
        self._lanes: list[tuple[Row, list[tuple[int, What]]]] = []  # what is open: its end, and what it is

    def place(self, start: int, end: int, what: What) -> Row:
        """The row of a slice."""
        for row, opened in self._lanes:
            self._close(row, opened, start)
            if not opened or (self._nested and end <= opened[-1][0]):
                opened.append((end, what))
                return row
        row = self._make(len(self._lanes))
        self._lanes.append((row, [(end, what)]))
        return row

    def finish(self) -> None:
        """Leave what is open."""
        for row, opened in self._lanes:
            self._close(row, opened, None)

    def _close(self, row: Row, opened: list[tuple[int, What]], start: int | None) -> None:
        while opened and (start is None or opened[-1][0] <= start):
            until, what = opened.pop()
            if self._leave:
                self._leave(row, until, what)
