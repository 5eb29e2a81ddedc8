"""Programs run under occa_prof, and the tables of their runs as rows."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import occatrace

ROOT = Path(__file__).resolve().parents[2]
OCCA_PROF = (sys.executable, "-m", "occatrace.cli")
# Seconds after which something hangs. A busy machine may take many times what a quiet one does: never a measure of speed.
PATIENCE = 300.0

Row = dict[str, Any]


@dataclass(frozen=True)
class Run:
    """A traced program: what it said, and what its run says."""

    folder: Path
    status: int
    stdout: str
    stderr: str

    def sql(self, text: str) -> list[tuple[Any, ...]]:
        """Rows of a query over the run's tables."""
        with occatrace.open(self.folder) as run:
            found: list[tuple[Any, ...]] = run.sql(text).fetchall()
            return found

    def rows(self, text: str) -> list[Row]:
        """The same by the names of the columns."""
        with occatrace.open(self.folder) as run:
            result = run.sql(text)
            names = [column[0] for column in result.description or ()]
            return [dict(zip(names, row, strict=True)) for row in result.fetchall()]


AnyRun = TypeVar("AnyRun", bound=Run)
Measured = TypeVar("Measured")


def measured(measure: Callable[[], Measured], check: Callable[[Measured], object], times: int = 6) -> None:
    """Checks a measurement that a busy machine may spoil, though not several in a row."""
    for left in reversed(range(times)):
        try:
            check(measure())
            return
        except AssertionError:
            if not left:
                raise


def until(condition: Callable[[], Any], what: str) -> Any:
    """What the condition gives, once it gives something; it is waited for, however busy the machine is."""
    end = time.monotonic() + PATIENCE
    while not (found := condition()):
        assert time.monotonic() < end, f"waited in vain for {what}"
        time.sleep(0.01)
    return found


def execute(command: Sequence[object], **changes: str | None) -> subprocess.CompletedProcess[str]:
    """A command with its output, in our own environment with changes: a variable that is None is unset."""
    words = [str(word) for word in command]
    env = {name: value for name, value in {**os.environ, **changes}.items() if value is not None}
    return subprocess.run(words, text=True, capture_output=True, env=env, timeout=PATIENCE, check=False)


def next_folder(parent: Path) -> Path:
    """A name that nothing has there."""
    return parent / f"run{len(list(parent.iterdir()))}"


def profiled(
    kind: type[AnyRun], folder: Path, command: Sequence[object], *options: str, **changes: str | None
) -> AnyRun:
    """The command under occa_prof, in our own environment with changes."""
    done = execute([*OCCA_PROF, *options, "-o", folder, *command], **changes)
    return kind(folder, done.returncode, done.stdout, done.stderr)
