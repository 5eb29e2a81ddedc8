"""Traces that were recorded without occa_prof, by an LTTng session of the user's own: a run's folder is made around
them, beside the trace, or in the cache where one may not write there."""

from __future__ import annotations

import os
import time
from pathlib import Path

from occatrace.core import files
from occatrace.errors import RunError
from occatrace.run import folder as runs

DEEPEST = 8  # folders between what is given and the streams


def find_traces(folder: Path) -> list[Path]:
    """The sessions below a folder: folders whose `ust/…` holds the streams, or that hold streams themselves."""
    found: set[Path] = set()
    top = len(folder.parts)
    for place, below, names in os.walk(folder):
        below.sort()
        if len(Path(place).parts) - top > DEEPEST:
            below.clear()
        if "metadata" in names:
            path = Path(place)
            parts = path.relative_to(folder).parts
            at = parts.index("ust") if "ust" in parts else len(parts)
            found.add(folder.joinpath(*parts[:at]))
            below.clear()
    return sorted(found)


def import_trace(folder: Path) -> runs.Run | None:
    """The run around a trace, made at the first time and when the trace has changed since; None for other folders."""
    folder = folder.resolve()
    traces = find_traces(folder) if folder.is_dir() else []
    if not traces:
        return None
    stamp = _stamp(traces)
    path = _place(folder)
    try:
        run = runs.read_run(path)
        if run.info.id == stamp:
            return run
        if len(run.info.id) != len(stamp):  # no import
            return None
        import shutil  # a run that is only recorded needs none

        shutil.rmtree(path)
    except RunError:
        pass
    changed = time.strftime("%Y-%m-%dT%H:%M:%S%z", time.localtime(folder.stat().st_mtime))
    info = runs.RunInfo(program=(folder.name,), cwd=str(folder.parent), started=changed, ended=changed, id=stamp)
    run = runs.create(path, info)
    run.trace.mkdir(mode=0o700)
    for number, trace in enumerate(traces):
        name = trace.name if len({t.name for t in traces}) == len(traces) else f"{number}-{trace.name}"
        (run.trace / name).symlink_to(trace, target_is_directory=True)
    return run


def _stamp(traces: list[Path]) -> str:
    """Tells one state of the traces from another."""
    import hashlib  # with OpenSSL: no run needs it, only an import of a trace

    digest = hashlib.sha256()
    for trace in traces:
        for file in sorted(trace.rglob("*")):
            if file.is_file():
                about = file.stat()
                digest.update(f"{file} {about.st_size} {about.st_mtime_ns}\n".encode())
    return digest.hexdigest()[:16]


def _place(folder: Path) -> Path:
    beside = folder.with_name(f"{folder.name}.occatrace")
    if os.path.lexists(beside):
        if files.is_private(beside):
            return beside
    elif os.access(folder.parent, os.W_OK) and folder.parent.stat().st_uid in (0, os.geteuid()):
        return beside
    cache = os.environ.get("OCCATRACE_CACHE") or os.path.join(
        os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache"), "occatrace"
    )
    import hashlib

    return Path(cache, "traces", f"{folder.name}-{hashlib.sha256(str(folder).encode()).hexdigest()[:12]}")
