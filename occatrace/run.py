"""A run is a folder: `run.json` (what ran, how it ended, what was noticed), `trace/<host>/` and `tables/`.

This module makes such folders, and reads and writes run.json. It opens what older versions wrote.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields, replace
from pathlib import Path
from typing import Any

SCHEMA = 1
FILE = "run.json"


class RunError(Exception):
    """A run cannot be made or opened; one line that says why and what to do."""


@dataclass(frozen=True)
class RunInfo:
    """What run.json holds. Times are ISO 8601 with the zone. `exit_status` as a shell would give it."""

    program: tuple[str, ...]
    cwd: str = ""
    host: str = ""
    user: str = ""
    started: str = ""
    ended: str | None = None  # None: occa_prof was killed before it could say
    exit_status: int | None = None
    mode: str = "default"
    traced: tuple[str, ...] = ()  # what --trace chose; empty: no choice was made
    id: str = ""
    version: str = ""
    session: Mapping[str, Any] = field(default_factory=dict)
    processes: tuple[int, ...] = ()
    losses: Mapping[str, Any] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    job: Mapping[str, Any] = field(default_factory=dict)  # of ranks that were started together
    choice: Mapping[str, str] = field(
        default_factory=dict
    )  # what was chosen to be recorded, by the variables of the options
    captures: Mapping[str, Any] = field(
        default_factory=dict
    )  # per host, where the run did not record all the time: when it did
    clocks: Mapping[str, Any] = field(default_factory=dict)  # between nodes: what was added to each, how surely
    schema: int = SCHEMA


@dataclass(frozen=True)
class Run:
    """A run's folder and its run.json."""

    path: Path
    info: RunInfo

    @property
    def trace(self) -> Path:
        """CTF traces, one folder per host."""
        return self.path / "trace"

    @property
    def tables(self) -> Path:
        """What the first analysis makes of the trace."""
        return self.path / "tables"

    def updated(self, **changes: Any) -> Run:
        """The run with changes, written to run.json."""
        run = replace(self, info=replace(self.info, **changes))
        _write(run)
        return run


def now() -> str:
    """This moment, for run.json."""
    return time.strftime("%Y-%m-%dT%H:%M:%S%z")


def new_id() -> str:
    """An identifier that two runs do not share."""
    return os.urandom(4).hex()


def default_folder(program: str, run_id: str) -> Path:
    """Where a run goes without -o."""
    name = re.sub(r"[^A-Za-z0-9._+-]", "_", os.path.basename(program)) or "program"
    return Path(f"occatrace-{name}-{time.strftime('%Y%m%d-%H%M%S')}-{run_id[:4]}")


def buffers_in(folder: Path | None) -> dict[str, str]:
    """What run.json says of the session while it goes on: where its buffers are, if not in the usual place."""
    return {"shm": str(folder.resolve())} if folder else {}


def near(path: Path, place: str | None = None) -> str:
    """A path as people write it: from where they are, if it is below."""
    try:
        relative = os.path.relpath(path, place)
    except OSError:  # that folder has been removed
        return str(path)
    return str(path) if relative.startswith("..") else relative


def again(path: str | Path) -> str:
    """The command that prints a run's summary again, as a shell takes it."""
    import shlex

    return f"occa_prof report {shlex.quote(str(path))}"


def is_run(path: Path) -> bool:
    """Whether a folder is a run."""
    return (path / FILE).is_file()


def create(path: Path, info: RunInfo, *, force: bool = False) -> Run:
    """Make the folder, for its owner's eyes only. `force` replaces an older run, and nothing but a run."""
    if path.exists() or path.is_symlink():
        try:
            empty = path.is_dir() and not any(path.iterdir())
        except OSError as error:
            raise RunError(f"{path} exists and cannot be read ({error.strerror}): choose another name by -o") from None
        if not empty and not force:
            raise RunError(f"{path} exists already: choose another name by -o, or add --force to replace that run")
        if not empty and not is_run(path):
            raise RunError(
                f"{path} exists and is not a run of occa_prof, so --force does not touch it: choose another name by -o"
            )
        try:
            if not empty:
                shutil.rmtree(path)
        except OSError as error:
            raise RunError(f"cannot replace {path}: {error.strerror or error}") from None
    try:
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
        run = Run(path.resolve(), info)
        _write(run)
    except OSError as error:
        raise RunError(f"cannot write to {path}: {error.strerror or error}; choose another folder by -o") from None
    return run


def open_run(path: Path) -> Run:
    """The run in a folder, or a RunError that says what is there instead."""
    file = path / FILE
    try:
        data = json.loads(file.read_text(encoding="utf-8"))
    except FileNotFoundError:
        from occatrace.adopt import adopt

        adopted = adopt(path)
        if adopted:
            return adopted
        raise RunError(_what_is_there(path)) from None
    except NotADirectoryError:
        raise RunError(f"{path} is a file, not a run: give the folder that `occa_prof PROGRAM` made") from None
    except OSError as error:
        raise RunError(f"cannot read {file}: {error.strerror or error}") from None
    except ValueError:
        raise RunError(f"{file} is damaged: it is not JSON") from None
    if not isinstance(data, dict) or not isinstance(data.get("schema"), int):
        raise RunError(f"{file} is not of a run: it has no schema number")
    if data["schema"] > SCHEMA:
        raise RunError(
            f"{path} was written by a newer occatrace{' ' + str(data['version']) if data.get('version') else ''} (schema"
            f" {data['schema']}, this one knows {SCHEMA}): update occatrace"
        )
    known = {f.name for f in fields(RunInfo)}
    values = {key: value for key, value in data.items() if key in known}
    for key in ("program", "processes", "notes", "traced"):
        values[key] = tuple(values.get(key, ()))
    return Run(path.resolve(), RunInfo(**values))


def run_facts(path: Path) -> Mapping[str, Any]:
    """The content of run.json as it is; empty where it cannot be read."""
    try:
        facts: Mapping[str, Any] = json.loads((path / FILE).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return facts


def _what_is_there(path: Path) -> str:
    if not path.exists():
        return f"{path} does not exist: give the folder that `occa_prof PROGRAM` made"
    below = sorted(p.parent for p in path.glob(f"*/{FILE}"))
    if below:
        return f"{path} is not a run, but {below[-1]} is"
    return f"{path} is not a run: it has no {FILE}; give the folder that `occa_prof PROGRAM` made"


def _write(run: Run) -> None:
    """Never half a file: a reader, or a kill, may come at any time."""
    info = asdict(run.info)
    text = json.dumps({"schema": info.pop("schema"), **info}, indent=1) + "\n"
    temporary = run.path / f".{FILE}.{os.getpid()}"
    temporary.write_text(text, encoding="ascii")
    temporary.chmod(0o600)
    temporary.replace(run.path / FILE)
