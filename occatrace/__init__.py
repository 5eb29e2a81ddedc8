"""occatrace: traces OCCA, OpenCL and other programs and tells where the time and the memory traffic went."""

from __future__ import annotations

# Nothing else is imported here: every command passes through, and is to hear signals from its first moment.
TYPE_CHECKING = False
if TYPE_CHECKING:
    import os

    from occatrace.api import Run
    from occatrace.errors import RunError
    from occatrace.inprocess.annotations import annotate, capture, capture_start, capture_stop, counter, mark
    from occatrace.inprocess.live import live

    start = capture_start
    stop = capture_stop

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

# Where each name is found when it is first asked for. `Run` brings DuckDB, which a traced program's helper processes do
# without.
_PLACES = {
    "Run": "api:Run",
    "RunError": "errors:RunError",
    "annotate": "inprocess.annotations:annotate",
    "capture": "inprocess.annotations:capture",
    "capture_start": "inprocess.annotations:capture_start",
    "capture_stop": "inprocess.annotations:capture_stop",
    "counter": "inprocess.annotations:counter",
    "live": "inprocess.live:live",
    "mark": "inprocess.annotations:mark",
    "start": "inprocess.annotations:capture_start",
    "stop": "inprocess.annotations:capture_stop",
}


def open(path: str | os.PathLike[str]) -> Run:
    """Open a recorded run: reports as rows, tables as numpy columns, SQL."""
    from occatrace.api import Run

    return Run(path)


def __dir__() -> list[str]:
    """The public names, for completion; those that are loaded when asked for, too."""
    return [*__all__, "__version__"]


def load_ipython_extension(shell: object) -> None:
    """`%load_ext occatrace` in IPython and Jupyter: the magic commands %occa_prof and %%occa_prof."""
    from occatrace.cli import magics

    magics.register(shell)


def __getattr__(name: str) -> object:
    """A name of `_PLACES`, imported when it is first asked for."""
    if name not in _PLACES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    module, _, attribute = _PLACES[name].partition(":")
    found: object = getattr(import_module(f"occatrace.{module}"), attribute)
    globals()[name] = found  # from now on it is found at once
    return found
