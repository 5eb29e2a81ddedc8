"""Whether a run is still being recorded, and by which processes."""

from __future__ import annotations

import fcntl
import os
import re
import socket
import time
from collections.abc import Iterator
from pathlib import Path

from occatrace.core import files
from occatrace.errors import RunError
from occatrace.run import control
from occatrace.run import folder as runs
from occatrace.run.nodes import host_name

SILENCE_S = 60.0  # after which a node of several is taken for dead
NODE_MARK = "([0-9a-f]{4})?"  # of a job on several nodes each has its own session
_SOCKETS = "-[0-9a-f]{8}"  # behind the session in the name of the folder of its sockets


def is_recorded(run: Path) -> bool:
    """Whether the program of a run is being recorded at this moment."""
    info = unended(run)
    return info is not None and (
        any(_answers(folder / "register") for folder in _sockets(run, info.id + NODE_MARK))
        or _is_recorded_elsewhere(run)
    )


def is_held(run: Path) -> bool:
    """Whether the process that records a run is there: it has only begun, goes on, or writes down how it ended."""
    try:
        fd = os.open(run / runs.HELD, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOFOLLOW)
    except OSError:
        return False
    try:
        fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except OSError as error:
        return isinstance(error, BlockingIOError)
    finally:
        os.close(fd)
    return False


def _sockets(run: Path, session: str) -> Iterator[Path]:
    """Where they are for this process; or, with another TMPDIR, as the run says."""
    yield from sockets_of(run, session)
    told = control.sockets_of(run, host_name())
    if told is not None:
        yield told


def _is_recorded_elsewhere(run: Path) -> bool:
    """Whether another node has begun to record and has not said that it ended: it cannot be asked from here. One of several
    gives signs of life."""
    for place in (run / control.FOLDER).glob("*.json"):
        if place.stem == host_name():
            continue
        try:
            if time.time() - (run / "nodes" / place.name).stat().st_mtime < SILENCE_S:
                return True
        except OSError:
            return True
    return False


def unended(run: Path) -> runs.RunInfo | None:
    """What is known of a run that has not said how it ended."""
    try:
        info = runs.read_run(run).info if runs.is_run(run) else None
    except RunError:
        return None
    return info if info and info.id and info.ended is None else None


def sockets_of(run: Path, session: str) -> Iterator[Path]:
    """Folders of the sockets of sessions (a regular expression of their ids), of the user whose run it is."""
    uid = run.stat().st_uid
    name = re.compile(f"occatrace-{uid}-{session}{_SOCKETS}")
    for base in dict.fromkeys(files.shared_places()):
        yield from (folder for folder in named_folders(base, name) if files.is_private(folder, uid))


def named_folders(base: Path, name: re.Pattern[str]) -> list[Path]:
    try:
        return sorted(base / entry for entry in os.listdir(base) if name.fullmatch(entry))
    except OSError:
        return []


def _answers(path: Path) -> bool:
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as client:
        try:
            client.connect(str(path))
        except OSError:
            return False
    return True


def is_running(pid: int) -> bool:
    """Whether a process is there and has not ended."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return False
    return stat.rpartition(")")[2].split()[0] not in ("Z", "X")
