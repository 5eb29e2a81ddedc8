"""occatrace: traces OCCA, OpenCL and other programs and tells where the time and the memory traffic went."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from occatrace.annotations import annotate, capture_start, capture_stop, counter, mark

if TYPE_CHECKING:
    from occatrace.api import Run

__version__ = "0.1.0"
__all__ = ["annotate", "capture_start", "capture_stop", "counter", "mark", "open"]


def open(path: str | os.PathLike[str]) -> Run:
    """Open a recorded run: reports as rows, tables as numpy columns, SQL."""
    from occatrace.api import Run  # it brings DuckDB, which a traced program's helper processes do without

    return Run(path)
