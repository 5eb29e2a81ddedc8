"""What must be undone when a signal ends a command half-way: temporary files are removed, a terminal is given back.

Whoever makes such a thing says so here; `occatrace/cli/ending.py` sees to it.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator
from pathlib import Path

from occatrace.core import files
from occatrace.core.scratch import prefix

_ATTEMPTS = 50  # other threads may still make files in a folder that is being removed
_paths: list[Path] = []
_calls: list[Callable[[], object]] = []


def add_path(path: Path) -> Path:
    """A file or folder that must not outlive the command."""
    _paths.append(path)
    return path


def keep_path(path: Path) -> None:
    """It is complete: it stays."""
    with contextlib.suppress(ValueError):
        _paths.remove(path)


def remove_path(path: Path) -> None:
    """Remove it, if it is there."""
    with contextlib.suppress(OSError):
        if path.is_dir() and not path.is_symlink():
            files.remove_tree(path)
        else:
            path.unlink(missing_ok=True)
    keep_path(path)


def make_folder(place: Path | None = None, name: str = "occatrace-") -> Path:
    """A new folder for its owner only: in a place, or where temporary files of this user go. `remove_path` removes it."""
    if place is None:
        import tempfile  # with `random`: a run that is only recorded needs neither

        place = Path(tempfile.gettempdir())
    path = add_path(Path(place, f"{name}{os.urandom(8).hex()}"))
    path.mkdir(mode=0o700)
    return path


@contextlib.contextmanager
def scratch(place: Path | None = None) -> Iterator[Path]:
    """A folder for temporary files: in a place, or where those of this user go."""
    folder = make_folder(place, "occatrace-" if place is None else prefix())
    try:
        yield folder
    finally:
        remove_path(folder)


@contextlib.contextmanager
def undoing(call: Callable[[], object]) -> Iterator[None]:
    """To be called when a signal comes within this context."""
    _calls.append(call)
    try:
        yield
    finally:
        _calls.remove(call)


def forget() -> None:
    """In a process that has been forked: all this is the parent's."""
    _paths.clear()
    _calls.clear()


def undo() -> None:
    """Undo everything, the last first. For who ends the process then."""
    for call in reversed(_calls):
        with contextlib.suppress(Exception):
            call()
    for path in reversed(_paths):
        for _ in range(_ATTEMPTS):
            if path.is_dir() and not path.is_symlink():
                files.remove_tree(path)
            else:
                with contextlib.suppress(OSError):
                    path.unlink(missing_ok=True)
            if not path.exists():
                break
