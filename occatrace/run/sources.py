"""Source files of the profiled program, as far as they are on this machine."""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from occatrace.core import files
from occatrace.core.checked import printable
from occatrace.run.folder import moment

LARGEST = 64 << 20  # bytes of a source file


def read_source(paths: list[Path], facts: Mapping[str, Any]) -> tuple[list[str] | None, str]:
    """The text of the first of the files that can be read, and what a reader should know of it."""
    for path in paths:
        try:
            # The path comes with the run, which may be a stranger's: what is no file is not read.
            text = files.read_file(path, LARGEST).decode("utf-8", "replace")
            changed = path.stat().st_mtime > (moment(str(facts.get("started"))) or math.inf) + 1
        except OSError:
            continue
        return (
            text.splitlines(),
            f"{printable(str(path))} was changed after the run: lines may not fit" if changed else "",
        )
    return None, f"{printable(str(paths[-1]))} cannot be read here: the lines without their text"
