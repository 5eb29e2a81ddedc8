"""A run is a folder: `run.json` (what ran, how it ended, what was noticed), `trace/<host>/` and `tables/`.

This module makes such folders, and reads and writes run.json. It opens what older versions wrote.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import re
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import IO, Annotated, Any, TypedDict

from occatrace.core import checked, files
from occatrace.errors import RunError

SCHEMA = 1
FILE = "run.json"
HELD = ".recording"  # locked by the process that records
LONGEST_NAME = 100  # of a program, in the name of its run


# That of an import (occatrace/run/import_trace.py) has 16 digits. It becomes part of the names of folders.
Id = Annotated[str, checked.Text("([0-9a-f]{8}|[0-9a-f]{16})?", "the id of a run")]


class SessionFacts(TypedDict, total=False):
    """`session` of run.json."""

    state: str
    daemon: str
    buffers: Mapping[str, int]
    others: float
    shm: Annotated[str, checked.Text("/.*", "an absolute path")]


class RankFacts(TypedDict, total=False):
    """A rank in `job` of run.json."""

    rank: int
    host: str
    pid: int
    state: str
    status: int | None
    signal: int | None


class JobFacts(TypedDict, total=False):
    """`job` of run.json."""

    id: str
    launcher: str | None
    size: int | None
    nodes: list[str]
    ranks: list[RankFacts]


class ImportFacts(TypedDict, total=False):
    """`imported` of run.json: what a run was made of by `occa_prof import`."""

    format: str
    file: str
    bytes: int
    sha256: str
    product: str


@dataclass(frozen=True)
class RunInfo:
    """What run.json holds, with the types by which it is checked. Times are ISO 8601 with the zone. `exit_status` as a shell
    would give it."""

    program: tuple[str, ...]
    cwd: str = ""
    host: str = ""
    user: str = ""
    started: str = ""
    ended: str | None = None  # None: occa_prof was killed before it could say
    exit_status: int | None = None
    mode: str = "default"
    traced: tuple[str, ...] = ()  # what --trace chose; empty: no choice was made
    id: Id = ""
    version: str = ""
    session: SessionFacts = field(default_factory=SessionFacts)
    processes: tuple[int, ...] = ()
    losses: Mapping[str, Any] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    job: JobFacts = field(default_factory=JobFacts)  # of ranks that were started together
    choice: Mapping[str, str] = field(
        default_factory=dict
    )  # what was chosen to be recorded, by the variables of the options
    captures: Mapping[str, list[tuple[int, int]]] = field(
        default_factory=dict
    )  # per host, where the run did not record all the time: when it did
    clocks: Mapping[str, Mapping[str, Any]] = field(
        default_factory=dict
    )  # between nodes: what was added to each, how surely
    imported: ImportFacts = field(default_factory=ImportFacts)  # of another tool's recording; it has no trace
    schema: int = SCHEMA


@dataclass(frozen=True)
class Run:
    """A run's folder and its run.json."""

    path: Path
    info: RunInfo
    hold: IO[bytes] | None = field(default=None, compare=False, repr=False)  # of the process that records it

    def release(self) -> None:
        """Recording is over, and what is known of its end is written: others need not wait for more."""
        if self.hold and not self.hold.closed:
            with contextlib.suppress(OSError):
                os.unlink(self.path / HELD)
            with contextlib.suppress(OSError):
                fcntl.flock(self.hold, fcntl.LOCK_UN)  # processes that were forked have it as well
            self.hold.close()

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


def moment(text: str) -> float | None:
    """A moment of run.json by the wall clock; None: it is not there."""
    from datetime import datetime

    with contextlib.suppress(ValueError):
        return datetime.strptime(text, "%Y-%m-%dT%H:%M:%S%z").timestamp()
    return None


def default_folder(program: str, run_id: str) -> Path:
    """Where a run goes without -o."""
    name = re.sub(r"[^A-Za-z0-9._+-]", "_", os.path.basename(program))[:LONGEST_NAME] or "program"
    return Path(f"occatrace-{name}-{time.strftime('%Y%m%d-%H%M%S')}-{run_id[:4]}")


def buffers_in(folder: Path | None) -> SessionFacts:
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

    name = str(path)
    return f"occa_prof report {shlex.quote(f'./{name}' if name.startswith('-') else name)}"


def is_run(path: Path) -> bool:
    """Whether a folder is a run."""
    return (path / FILE).is_file()


def is_writable(run: Path) -> bool:
    """Whether results may be kept in a run: it is the caller's alone and holds no links, so that they go nowhere else. What
    `adopt` made has links to the traces, in which nothing is written."""
    return os.access(run, os.W_OK) and files.is_safe_tree(run, frozenset({run / "trace"}))


def result(run: Path, name: str) -> Path:
    """Where a command puts its result unless it is told. Raises a RunError where nothing may be written."""
    if not is_writable(run):
        raise RunError(f"{run} is read-only, of another user, or has links in it: choose a place for {name} by -o")
    return run / name


def create(path: Path, info: RunInfo, *, force: bool = False, hold: bool = False) -> Run:
    """Make the folder, for its owner's eyes only. `force` replaces an older run, and nothing but a run. `hold`: the caller
    records it, and calls `release` when run.json says how that ended."""
    there = _make_room(path, force)
    made = False
    try:
        if there:
            _take_over(path)
        else:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.mkdir(mode=0o700)
            made = True
        run = Run(path.resolve(), info, _hold(path) if hold else None)
        _write(run)
    except OSError as error:
        if made:
            files.remove_tree(path)
        raise RunError(f"cannot write to {path}: {error.strerror or error}; choose another folder by -o") from None
    return run


def _hold(path: Path) -> IO[bytes] | None:
    """Locked until the process ends, however it does; None where there is no room for a file, or no locks."""
    try:
        held = files.open_own(path / HELD, "ab")
        try:
            fcntl.flock(held, fcntl.LOCK_EX)
        except OSError:
            held.close()
            raise
    except OSError:
        return None
    return held


def check_room(path: Path, force: bool) -> bool:
    """Whether there is an empty folder, or nothing: a run can be put there. An older run has to go first (False), where `force`
    says so; anything else is refused with a RunError."""
    if not os.path.lexists(path):
        return True
    try:
        empty = path.is_dir() and not any(path.iterdir())
    except OSError as error:
        raise RunError(f"{path} exists and cannot be read ({error.strerror}): choose another name by -o") from None
    if empty:
        return True
    if not force:
        raise RunError(f"{path} exists already: choose another name by -o, or add --force to replace that run")
    if not is_run(path):
        raise RunError(
            f"{path} exists and is not a run of occa_prof, so --force does not touch it: choose another name by -o"
        )
    return False


def _make_room(path: Path, force: bool) -> bool:
    """Whether there is an empty folder. An older run is removed where `force` says so; anything else is refused."""
    if check_room(path, force):
        return os.path.lexists(path)
    import shutil

    try:
        shutil.rmtree(path)
    except OSError as error:
        raise RunError(f"cannot replace {path}: {error.strerror or error}") from None
    return False


def put(made: Path, path: Path, force: bool) -> None:
    """A run that was made beside its place into it."""
    if _make_room(path, force):
        path.rmdir()
    made.rename(path)


def _take_over(path: Path) -> None:
    """Close an empty folder to others: what is recorded is for its owner only."""
    fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        uid = os.fstat(fd).st_uid
        if uid != os.geteuid():
            raise RunError(f"{path} belongs to another user (uid {uid}): choose another folder by -o")
        os.fchmod(fd, 0o700)
    finally:
        os.close(fd)


def _facts(path: Path) -> tuple[dict[str, Any], RunInfo]:
    """run.json as it is, and what it says. Raises an OSError, or a RunError for one that cannot be used."""
    file = path / FILE
    try:
        data = checked.read(file)
        schema = data.get("schema")
        if not isinstance(schema, int) or isinstance(schema, bool):
            raise RunError(f"{file} is not of a run: it has no schema number")
        if schema > SCHEMA:
            version = f" {data['version']}" if isinstance(data.get("version"), str) else ""
            raise RunError(
                f"{path} was written by a newer occatrace{version} (schema {schema}, this one knows {SCHEMA}):"
                " update occatrace"
            )
        return data, checked.made(RunInfo, data)
    except checked.Damaged as error:
        raise RunError(f"{file} is damaged: {error}") from None


class NoRun(RunError):
    """The folder has no run.json."""


def read_run(path: Path) -> Run:
    """The run in a folder, by its run.json. Raises NoRun where there is none, and RunError."""
    try:
        return Run(path.resolve(), _facts(path)[1])
    except FileNotFoundError:
        raise NoRun(_what_is_there(path)) from None
    except NotADirectoryError:
        raise RunError(f"{path} is a file, not a run: give the folder that `occa_prof PROGRAM` made") from None
    except OSError as error:
        raise RunError(f"cannot read {path / FILE}: {error.strerror or error}") from None


def run_facts(path: Path) -> Mapping[str, Any]:
    """The content of run.json as it is, checked; empty where it cannot be read. Raises a RunError for a damaged one."""
    try:
        return _facts(path)[0]
    except OSError:
        return {}


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
    files.replace(run.path / FILE, text.encode("ascii"))
