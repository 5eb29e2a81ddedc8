"""occatrace: traces OCCA, OpenCL and other programs and tells where the time and the memory traffic went."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from occatrace.annotations import annotate, capture, capture_start, capture_stop, counter, mark

if TYPE_CHECKING:
    from occatrace._live import live
    from occatrace.api import Run
    from occatrace.run import RunError

__version__ = "0.1.0"
__all__ = [
    "Run",
    "RunError",
    "annotate",
    "capture",
    "capture_start",
    "capture_stop",
    "counter",
    "live",
    "mark",
    "open",
    "start",
    "stop",
]

start = capture_start
stop = capture_stop


def open(path: str | os.PathLike[str]) -> Run:
    """Open a recorded run: reports as rows, tables as numpy columns, SQL."""
    from occatrace.api import Run  # it brings DuckDB, which a traced program's helper processes do without

    return Run(path)


def __dir__() -> list[str]:
    """The public names, for completion; those that are loaded when asked for, too."""
    return [*__all__, "__version__"]


def load_ipython_extension(shell: object) -> None:
    """`%load_ext occatrace` in IPython and Jupyter: the magic commands %occa_prof and %%occa_prof."""
    from occatrace.cli import magics

    magics.register(shell)


def __getattr__(name: str) -> object:
    """`live`, `RunError`, what goes wrong with runs, and `Run`, for annotations: brought in when they are asked for."""
    if name == "live":
        from occatrace._live import live

        globals()["live"] = live  # from now on it is found at once
        return live
    if name == "Run":
        from occatrace.api import Run

        return Run
    if name == "RunError":
        from occatrace.run import RunError

        return RunError
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
