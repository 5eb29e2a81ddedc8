"""Tables on a terminal: styles, and lines as wide as it is. By rich, which only terminals need."""

from __future__ import annotations

from typing import TextIO

from rich.console import Console
from rich.text import Text


class _Console(Console):
    """Of a reader that has gone the caller hears; rich itself would end the program with a status of its own."""

    def on_broken_pipe(self) -> None:
        """While a BrokenPipeError is handled."""
        raise BrokenPipeError


class Terminal:
    """A terminal, or what is to be taken for one."""

    def __init__(self, file: TextIO, width: int | None = None) -> None:
        self.file = file
        self._console = _Console(
            file=file,
            width=width,
            highlight=False,
            emoji=False,
            markup=False,
            force_jupyter=False,  # in a notebook it would show what is only to be text
        )

    @property
    def width(self) -> int:
        """Its columns."""
        return self._console.width

    def line(self, text: str = "", style: str = "", end: str = "\n", wrap: bool = False) -> None:
        """Print a text; `wrap`: at words, where it is wider than the terminal."""
        self._console.print(Text(text, style=style), end=end, soft_wrap=not wrap)
