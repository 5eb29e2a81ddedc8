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
import socket
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from occatrace.core import checked, files
from occatrace.errors import RunError
from occatrace.run.nodes import host_name
from occatrace.run.opening import open_run
from occatrace.run.ranks import Place

PATIENCE_VARIABLE = "OCCATRACE_PATIENCE"  # seconds to wait for ranks and nodes that say nothing
PATIENCE_S = 60.0
ANSWER_S = 60.0  # the node's process answers within
MAX_PACKET = 1 << 16
PREFIX = "occatrace_job"
STALE_AFTER_S = 120.0
DYING_S = 1.0  # after which a process that was killed listens no more
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
    why = "/tmp cannot be written to"
    for base in files.shared_places():
        if len(str(base)) + len(name) > 90:
            continue
        try:
            return _desk_in(base / name)
        except files.ForeignError as error:
            why = f"{error.filename} {error.strerror}"
        except OSError:
            continue
    raise JobError(f"no folder in which the ranks of this node could meet: {why}")


def _desk_in(folder: Path) -> Desk:
    while True:
        folder.mkdir(mode=0o700, exist_ok=True)
        try:
            files.check_private(folder)
        except FileNotFoundError:
            continue  # an earlier job of this name has just been cleared away
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
            try:
                return Desk(files.connect(folder / "node"), folder)
            except (FileNotFoundError, ConnectionRefusedError):
                (folder / "node").unlink(missing_ok=True)
            listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
            listener.bind(str(folder / "node"))
            listener.listen(4096)
            return Desk(files.connect(folder / "node"), folder, listener)
        finally:
            os.close(lock)


def clear_desk(folder: Path) -> None:
    """Remove the node's folder. A rank that comes later finds none and makes its own."""
    with contextlib.suppress(OSError):
        lock = os.open(folder / "lock", os.O_RDWR | os.O_CLOEXEC)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX)
            files.remove_tree(folder)
        finally:
            os.close(lock)


def clear_lost_desk(folder: Path) -> bool:
    """Remove the node's folder if nobody listens there any more; whether it was still there, which one rank finds."""
    with contextlib.suppress(OSError):
        if _listens(folder / "node"):
            return False
        lock = os.open(folder / "lock", os.O_RDWR | os.O_CLOEXEC)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX)
            there = (folder / "lock").exists()
            files.remove_tree(folder)
            return there
        finally:
            os.close(lock)
    return False


def _listens(path: Path) -> bool:
    """Whether a process is there. Of one that is killed the kernel may close the connections first: what it listens at then still
    takes others for a moment, and hangs up."""
    try:
        with files.connect(path) as connection:
            connection.settimeout(DYING_S)
            return bool(connection.recv(1))
    except TimeoutError:
        return True
    except (ConnectionRefusedError, ConnectionResetError, FileNotFoundError):
        return False


def sweep() -> None:
    """Remove what jobs have left of which everything was killed at once: nobody listens there."""
    from occatrace.record.daemon import deserted

    for base in set(files.shared_places()):
        for folder in deserted(base, f"{PREFIX}-{os.getuid()}-", "[0-9a-f]{12}-[0-9a-f]{6}", "node", STALE_AFTER_S):
            files.remove_tree(folder)


# ---- between nodes ----


@dataclass(frozen=True)
class Told:
    """What the first node of a job tells the others."""

    folder: str = ""
    id: str = ""
    error: str = ""


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
                if told is None or told.error or not _is_over(Path(told.folder)):
                    return False
                # Of an earlier job: launchers use their names again.
                self.end()
            except OSError as error:
                raise JobError(
                    f"cannot write to {self.file.parent}: {error.strerror}; choose another folder by -o"
                ) from None

    def tell(self, **what: str) -> None:
        """`folder` and `id` of the run, or an `error`."""
        files.replace(self.file, json.dumps(what).encode())

    def wait(self, timeout: float) -> Told:
        """What was told. Raises JobError."""
        end = time.monotonic() + timeout
        while (told := self._read()) is None:
            if time.monotonic() > end:
                raise JobError(f"the first node of this job did not make a folder; remove {self.file} and try again")
            time.sleep(0.02)
        if told.error:
            raise JobError(told.error)
        return told

    def end(self) -> None:
        """Not needed any more."""
        self.file.unlink(missing_ok=True)

    def _read(self) -> Told | None:
        """None: nothing is there yet. Raises JobError for a file of another user."""
        try:
            text = files.read_file(self.file, MAX_PACKET, follow=False, uid=os.geteuid())
            return checked.made(Told, json.loads(text)) if text else None
        except files.ForeignError as error:
            raise JobError(f"{self.file} {error.strerror}: choose a folder of your own by -o") from None
        except (OSError, ValueError):
            return None


def _is_over(run: Path) -> bool:
    try:
        return open_run(run).info.ended is not None
    except RunError:
        return True
