"""`-o -`: standard output in place of a file, for commands that write files of their own formats."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from occatrace.cli.messages import UsageError
from occatrace.core import halfway

NAME = "-"


def is_standard(path: Path | None) -> bool:
    """Whether `-o` names standard output. `./-` does, too: pathlib shortens it."""
    return path is not None and str(path) == NAME


def write(content: bytes) -> None:
    """Write bytes to standard output. Raises UsageError where it is a terminal."""
    _refuse_terminal()
    sys.stdout.flush()
    sys.stdout.buffer.write(content)
    sys.stdout.buffer.flush()


@contextmanager
def through_file(name: str) -> Iterator[Path]:
    """A temporary file, whose content goes to standard output at the end. Raises UsageError where that is a terminal."""
    _refuse_terminal()
    with halfway.scratch() as folder:
        path = folder / name
        yield path
        sys.stdout.flush()
        with path.open("rb") as file:
            shutil.copyfileobj(file, sys.stdout.buffer)
        sys.stdout.buffer.flush()


def _refuse_terminal() -> None:
    if sys.stdout.isatty():
        raise UsageError("-o -: this is not for a terminal: redirect it to a file or a pipe")
