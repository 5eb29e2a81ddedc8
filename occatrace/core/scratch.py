"""Temporary folders in a run. Their names say whose they are, so that the next to come clears away what somebody left who was
killed."""

from __future__ import annotations

import os
from pathlib import Path

from occatrace.core import files

_HERE = f".scratch-{os.uname().nodename}-"
PLACES = ("", "nodes", "trace")  # of a run, where there may be some


def prefix() -> str:
    """How the names of ours begin."""
    return f"{_HERE}{os.getpid()}-"


def clear(run: Path) -> None:
    """Remove those of processes of this machine that have ended."""
    for place in PLACES:
        for left in (run / place).glob(f"{_HERE}*-*"):
            pid = left.name.removeprefix(_HERE).partition("-")[0]
            if pid.isdigit() and not os.path.exists(f"/proc/{pid}"):
                files.remove_tree(left)
