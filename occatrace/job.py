"""Ranks of one job: who stands for the node, and where the nodes meet. No MPI call is made for it.

On a node the first rank to come starts the node's process (occatrace/cli/node.py), all others find its socket. The
nodes of a job meet in the folder of the run, which they find by a small file that only one of them can make.
Nothing here prints, traces or analyses.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import json
import os
import re
import shutil
import socket
import stat
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from occatrace.ranks import Place

PATIENCE_VARIABLE = "OCCATRACE_PATIENCE"  # seconds to wait for ranks and nodes that say nothing
PATIENCE_S = 60.0
ANSWER_S = 60.0  # the node's process answers within
MAX_PACKET = 1 << 16
PREFIX = "occatrace_job"
STALE_AFTER_S = 120.0
MANY_RANKS = (
    256  # from here on the report at the end is that of the partial summaries; tables are merged when asked for
)


class JobError(Exception):
    """The ranks cannot be brought together; the message says why."""


def patience(environment: Mapping[str, str] | None = None) -> float:
    """How long to wait for ranks and nodes that give no sign of life."""
    try:
        return max(float((environment or os.environ).get(PATIENCE_VARIABLE, PATIENCE_S)), 0.0)
    except ValueError:
        return PATIENCE_S


def host_name() -> str:
    """This node. Tests have several of them on one machine."""
    return os.environ.get("OCCATRACE_TEST_HOST") or os.uname().nodename


def key_of(place: Place) -> str:
    """A short name for the job, the same for all of its ranks and for no other job. A launcher that says nothing
    (MPICH's Hydra) is known by its own process on each node and the address that this was given."""
    return hashlib.sha256((place.job or _launcher_identity(os.getppid())).encode()).hexdigest()[:12]


def _launcher_identity(pid: int) -> str:
    """What is the same for all ranks below a launcher's process: the port of its mpiexec, which stands in the words of
    its proxies on all nodes, else the process itself."""
    try:
        words = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
        born = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()[19]
    except (OSError, IndexError):
        return f"{host_name()} {pid}"
    for word, value in zip(words, words[1:], strict=False):
        if word == b"--control-port":
            return value.decode("utf-8", "replace")
    return f"{os.uname().nodename} {pid} {born}"


# ---- on a node ----


@dataclass
class Desk:
    """A rank's connection to the node's process; `listener` is there in the rank that has to start that process."""

    connection: socket.socket
    folder: Path
    listener: socket.socket | None = None

    def send(self, **message: Any) -> None:
        """Say something; a node's process that has gone hears nothing."""
        with contextlib.suppress(OSError):
            self.connection.send(json.dumps(message).encode())

    def hear(self, timeout: float | None) -> dict[str, Any] | None:
        """The next message; None where there is none any more."""
        self.connection.settimeout(timeout)
        try:
            packet = self.connection.recv(MAX_PACKET)
            return dict(json.loads(packet)) if packet else None
        except (OSError, ValueError):
            return None

    def close(self) -> None:
        """Let go."""
        self.connection.close()


def find_desk(key: str) -> Desk:
    """The node's process of a job, or the duty to start it, which falls to one rank. Raises JobError."""
    name = f"{PREFIX}-{os.getuid()}-{key}-{hashlib.sha256(host_name().encode()).hexdigest()[:6]}"
    for base in (os.environ.get("XDG_RUNTIME_DIR"), os.environ.get("TMPDIR"), "/tmp", "/dev/shm"):
        if not base or len(base) + len(name) > 90:
            continue
        with contextlib.suppress(OSError):
            return _desk_in(Path(base, name))
    raise JobError("no folder in which the ranks of this node could meet: /tmp cannot be written to")


def _desk_in(folder: Path) -> Desk:
    while True:
        folder.mkdir(mode=0o700, exist_ok=True)
        there = folder.lstat()
        if not stat.S_ISDIR(there.st_mode) or there.st_uid != os.getuid():
            raise PermissionError(f"{folder} is somebody else's")
        try:
            lock = os.open(folder / "lock", os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        except FileNotFoundError:
            continue  # an earlier job of this name has just been cleared away
        try:
            fcntl.flock(lock, fcntl.LOCK_EX)
            try:
                if os.stat(folder / "lock").st_ino != os.fstat(lock).st_ino:
                    continue
            except FileNotFoundError:
                continue
            client = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
            try:
                client.connect(str(folder / "node"))
                return Desk(client, folder)
            except (FileNotFoundError, ConnectionRefusedError):
                (folder / "node").unlink(missing_ok=True)
            listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
            listener.bind(str(folder / "node"))
            listener.listen(4096)
            client.connect(str(folder / "node"))
            return Desk(client, folder, listener)
        finally:
            os.close(lock)


def clear_desk(folder: Path) -> None:
    """Remove the node's folder. A rank that comes later finds none and makes its own."""
    with contextlib.suppress(OSError):
        lock = os.open(folder / "lock", os.O_RDWR | os.O_CLOEXEC)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX)
            shutil.rmtree(folder, ignore_errors=True)
        finally:
            os.close(lock)


def clear_lost_desk(folder: Path) -> bool:
    """Remove the node's folder if nobody listens there any more; whether it was still there, which one rank finds."""
    with contextlib.suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as client:
        try:
            client.connect(str(folder / "node"))
        except (ConnectionRefusedError, FileNotFoundError):
            lock = os.open(folder / "lock", os.O_RDWR | os.O_CLOEXEC)
            try:
                fcntl.flock(lock, fcntl.LOCK_EX)
                there = (folder / "lock").exists()
                shutil.rmtree(folder, ignore_errors=True)
                return there
            finally:
                os.close(lock)
    return False


def sweep() -> None:
    """Remove what jobs have left of which everything was killed at once: nobody listens there."""
    from occatrace.daemon import deserted

    for base in {os.environ.get("XDG_RUNTIME_DIR"), os.environ.get("TMPDIR"), "/tmp", "/dev/shm"} - {None, ""}:
        for folder in deserted(Path(str(base)), f"{PREFIX}-{os.getuid()}-*", "node", STALE_AFTER_S):
            shutil.rmtree(folder, ignore_errors=True)


# ---- between nodes ----


@dataclass(frozen=True)
class Meeting:
    """How the nodes of a job find one folder: `.occatrace-<job>` beside it, made by the first of them."""

    file: Path

    @classmethod
    def of(cls, key: str, beside: Path) -> Meeting:
        """The meeting of a job."""
        return cls(beside / f".occatrace-{key}")

    def call(self) -> bool:
        """Whether it falls to us to make the folder and `tell`."""
        while True:
            try:
                os.close(os.open(self.file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))
                return True
            except FileExistsError:
                told = self._read()
                if told is None or "error" in told or not _is_over(Path(told["folder"])):
                    return False
                # Of an earlier job: launchers use their names again.
                self.end()
            except OSError as error:
                raise JobError(
                    f"cannot write to {self.file.parent}: {error.strerror}; choose another folder by -o"
                ) from None

    def tell(self, **what: str) -> None:
        """`folder` and `id` of the run, or an `error`."""
        temporary = self.file.with_name(f"{self.file.name}.{os.getpid()}")
        temporary.write_text(json.dumps(what), encoding="utf-8")
        temporary.replace(self.file)

    def wait(self, timeout: float) -> Mapping[str, str]:
        """What was told. Raises JobError."""
        end = time.monotonic() + timeout
        while (told := self._read()) is None:
            if time.monotonic() > end:
                raise JobError(f"the first node of this job did not make a folder; remove {self.file} and try again")
            time.sleep(0.02)
        if "error" in told:
            raise JobError(told["error"])
        return told

    def end(self) -> None:
        """Not needed any more."""
        self.file.unlink(missing_ok=True)

    def _read(self) -> dict[str, str] | None:
        try:
            text = self.file.read_text(encoding="utf-8")
            return dict(json.loads(text)) if text else None
        except (OSError, ValueError):
            return None


def _is_over(run: Path) -> bool:
    try:
        return json.loads((run / "run.json").read_text(encoding="utf-8"))["ended"] is not None
    except (OSError, ValueError, KeyError):
        return True


@dataclass
class RankState:
    """What became of a rank."""

    rank: int
    host: str
    pid: int = 0
    state: str = "running"  # ended; lost: its occa_prof was killed
    status: int | None = None  # as a shell gives it
    signal: int | None = None


@dataclass
class NodeState:
    """What a node tells the others, in RUN/nodes/<host>.json; told again now and then as a sign of life."""

    host: str
    ranks: list[RankState] = field(default_factory=list)
    done: bool = False
    notes: list[str] = field(default_factory=list)
    session: Mapping[str, Any] = field(default_factory=dict)
    processes: list[int] = field(default_factory=list)
    captures: list[tuple[int, int]] | None = None  # when it recorded; None: always

    def write(self, run: Path) -> None:
        """Never half a file."""
        folder = run / "nodes"
        folder.mkdir(mode=0o700, exist_ok=True)
        data = vars(self) | {"ranks": [vars(r) for r in self.ranks]}
        temporary = folder / f".{_file_name(self.host)}"
        temporary.write_text(json.dumps(data), encoding="utf-8")
        temporary.replace(folder / f"{_file_name(self.host)}.json")


def _file_name(host: str) -> str:
    return re.sub(r"[^A-Za-z0-9._-]", "_", host) or "node"


def node_tables(run: Path, host: str) -> Path:
    """Where a node puts the tables of its own ranks."""
    return run / "nodes" / _file_name(host)


def read_nodes(run: Path) -> list[NodeState]:
    """What the nodes have told so far."""
    out = []
    for file in sorted((run / "nodes").glob("*.json")):
        try:
            data = json.loads(file.read_text(encoding="utf-8"))
            out.append(NodeState(**(data | {"ranks": [RankState(**r) for r in data["ranks"]]})))
        except (OSError, ValueError, TypeError, KeyError):
            continue
    return out


def claim_merge(run: Path) -> bool:
    """Whether it falls to us to merge; one node gets a yes."""
    try:
        os.close(os.open(run / "nodes" / ".merging", os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))
    except OSError:
        return False
    return True


def remarks(states: list[RankState], expected: frozenset[int] | None) -> list[str]:
    """What is to be said of ranks that did not end well, a line for each matter."""
    out = []
    missing = sorted((expected or frozenset()) - {s.rank for s in states})
    if missing:
        out.append(f"incomplete: {some(missing)} did not come")
    groups: dict[str, list[int]] = {}
    for s in sorted(states, key=lambda s: s.rank):
        if s.state == "lost":
            groups.setdefault("cut off: occa_prof was killed there, with what the launcher ended", []).append(s.rank)
        elif s.state == "running":
            groups.setdefault("incomplete: still running when the report was made", []).append(s.rank)
        elif s.signal:
            groups.setdefault(f"ended by signal {s.signal}", []).append(s.rank)
        elif s.status:
            groups.setdefault(f"exited with status {s.status}", []).append(s.rank)
    for what, numbers in groups.items():
        out.append(f"{some(numbers)} {what}" if "incomplete" not in what else f"{what}: {some(numbers)}")
    return out


def some(numbers: list[int]) -> str:
    """`rank 3`, `ranks 0-3, 8`."""
    runs: list[list[int]] = []
    for n in numbers:
        if runs and n == runs[-1][-1] + 1:
            runs[-1][1:] = [n]
        else:
            runs.append([n])
    shown = [f"{r[0]}-{r[-1]}" if len(r) > 1 else str(r[0]) for r in runs]
    text = ", ".join(shown[:8]) + (" …" if len(shown) > 8 else "")
    return f"rank{'s' if len(numbers) > 1 else ''} {text}"
