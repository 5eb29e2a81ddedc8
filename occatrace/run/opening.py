"""Opens what a person names as a run: a run folder, or a trace of an LTTng session of their own."""

from __future__ import annotations

from pathlib import Path

from occatrace.run.folder import NoRun, Run, read_run
from occatrace.run.import_trace import import_trace


def open_run(path: Path) -> Run:
    """The run in a folder. A folder with traces but no run.json is imported. Raises a RunError that says what is there."""
    try:
        return read_run(path)
    except NoRun:
        imported = import_trace(path)
        if imported is None:
            raise
        return imported
