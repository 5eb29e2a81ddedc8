"""LTTng's daemon for a run: a private one for an ordinary user, the machine's for root, and the keeper that ends it.

Nothing here knows of sessions or events. Whatever happens to this process, the keeper (native/session/keeper.c)
destroys the session, ends the daemon that we started and removes our folders.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import re
import socket
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from occatrace.core import files
from occatrace.errors import DaemonError, RunError
from occatrace.record import keeper
from occatrace.run import install
from occatrace.run.layout import RUN_MARK

LOCK_FILE = Path("/run/occatrace.lock")
PID_FILE = Path("/run/lttng/lttng-sessiond.pid")
START_TIMEOUT_S = 20.0
END_TIMEOUT_S = 20.0
STALE_AFTER_S = 60.0
RUN_LINK = "run"  # in the folder of sockets: to the run's folder


def private_folder(run_id: str) -> Path:
    """A folder for sockets, readable by its owner only, in a path short enough for them."""
    folder = keeper.make_folder(run_id)
    if folder is None:
        raise DaemonError(
            "no folder for sockets: /tmp cannot be written to, and TMPDIR is unset, too long, not writable, or others may"
            " replace what is in it"
        )
    return Path(folder)


def mark_buffers(buffers: Path, run: Path) -> None:
    """Write down of which run a folder of buffers is. Its name alone does not say so: a copy of a run has the same id, and
    a run of somebody else may have any."""
    with files.open_own(buffers / RUN_MARK, "xb") as file:
        file.write(b"%d" % os.stat(run).st_ino)


def sweep(base: Path) -> None:
    """Remove what runs have left of which everything was killed at once, keeper and all: nobody listens there. Their last
    events go into their traces before. What belongs to others is left alone, whatever its name."""
    for folder in deserted(base, f"occatrace-{os.getuid()}-", "[0-9a-z]+-[0-9a-f]{8}", "register", STALE_AFTER_S):
        from occatrace.lttng import recovery

        with contextlib.suppress(
            OSError, RunError
        ):  # the run may be removed meanwhile: no matter of the run that starts
            recovery.rescue(Path(os.readlink(folder / RUN_LINK)).resolve())
        files.remove_tree(folder)
        buffers = Path("/dev/shm", folder.name.rpartition("-")[0])
        if files.is_private(buffers):
            files.remove_tree(buffers)


def deserted(base: Path, prefix: str, rest: str, socket_name: str, age_s: float) -> Iterator[Path]:
    """Folders of this age, the caller's own, at whose socket of that name nobody listens any more. `rest`: a regular
    expression of what follows the prefix in their names."""
    try:
        # /tmp may have thousands of entries: Path.glob would take milliseconds.
        found = [entry for entry in os.listdir(base) if entry.startswith(prefix)]
    except OSError:
        return
    for folder in (base / entry for entry in found if re.fullmatch(rest, entry.removeprefix(prefix))):
        try:
            with files.folder_below(folder) as opened:
                status = opened.stat()
                if status.st_uid != os.geteuid() or time.time() - status.st_mtime < age_s:
                    continue
                if not _answers(opened / socket_name):
                    yield folder
        except OSError:
            continue


def _answers(path: Path) -> bool:
    try:
        files.connect(path).close()
    except (ConnectionRefusedError, FileNotFoundError):
        return False
    return True


def sees(pid: int, folder: Path, proc: Path = Path("/proc")) -> bool:
    """Whether a process finds this folder, and not another one, under its path: it may be in another mount namespace.
    What cannot be read (a process of another pid namespace) counts as yes."""
    root = proc / str(pid) / "root"
    try:
        root.stat()
    except OSError:
        return True
    try:
        return os.path.samestat((root / folder.absolute().relative_to("/")).stat(), folder.stat())
    except FileNotFoundError:
        return False
    except OSError:
        return True


def machines_daemon() -> int | None:
    """The process of root's daemon."""
    try:
        pid = int(PID_FILE.read_text())
        return pid if Path(f"/proc/{pid}/comm").read_text().startswith("lttng-sessiond") else None
    except (OSError, ValueError):
        return None


class Lock:
    """Held shared by every run that uses the machine's daemon; the keeper of the run that started the daemon takes it
    exclusively, ends the daemon, and removes the file. A lock on a removed file is no lock: try again."""

    def __init__(self, path: Path = LOCK_FILE) -> None:
        self.path = path
        while True:
            try:
                self.fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
            except OSError as error:
                raise DaemonError(f"cannot lock {path}: {error.strerror}") from None
            fcntl.flock(self.fd, fcntl.LOCK_SH)  # waits while a daemon is being ended
            try:
                if os.stat(path).st_ino == os.fstat(self.fd).st_ino:
                    return
            except FileNotFoundError:
                pass
            os.close(self.fd)

    def close(self) -> None:
        """Let go; the keeper may hold on."""
        os.close(self.fd)


class Daemon:
    """What a run needs of the daemon. `start` returns at once; `socket` says "R" when our daemon is ready."""

    def __init__(self, session: str, run_id: str, shm: Path | None) -> None:
        self.session = session
        begun = keeper.take(run_id, str(shm))
        self.home = Path(begun.home) if begun else private_folder(run_id)
        sweep(self.home.parent)
        self.shm = shm
        self.shared = os.getuid() == 0  # as root LTTng has one daemon, whatever LTTNG_HOME says
        self.private_home = None if self.shared else self.home
        self.log = self.home / keeper.LOG
        self.started_ours = False
        self._lock: Lock | None = None
        self._keeper: keeper.Keeper | None = None
        self.socket: socket.socket | None = None
        if begun:
            self._keep(begun.keeper)

    def start(self) -> None:
        """Use the machine's daemon when there is one (root), else start one under a keeper."""
        from occatrace import _session

        try:
            if self.shared:
                self._lock = Lock()
            else:
                _session.use_home(str(self.home))
            if self._keeper:  # it was begun before the command line was read
                self.started_ours = True
            elif not self.shared or not _session.daemon_alive():
                program = install.sessiond()
                if program is None:
                    raise DaemonError("lttng-sessiond is not installed (Debian: apt install lttng-tools)")
                self._spawn([str(program), *keeper.PRIVATE_DAEMON])
                self.started_ours = True
            else:
                self._spawn()
        except BaseException:
            self.close()
            raise

    def check_folders(self, *folders: Path) -> None:
        """Raise DaemonError where a daemon that others started would write somewhere else."""
        if self.started_ours or (pid := machines_daemon()) is None:
            return
        for folder in folders:
            if not sees(pid, folder):
                raise DaemonError(
                    f"LTTng's daemon (process {pid}) runs in another mount namespace, where {folder} is another folder "
                    "or none: give a folder that both have by -o, or end that daemon"
                )

    def _spawn(self, daemon: Sequence[str] = ()) -> None:
        lock = (self._lock.fd, str(self._lock.path)) if self._lock else None
        buffers = str(self.shm) if self.shm else None
        try:
            self._keep(keeper.start(self.session, str(self.home), buffers, daemon, not self.shared, lock))
        except OSError as error:
            raise DaemonError(f"cannot start {install.KEEPER}: {error.strerror}") from None

    def _keep(self, started: keeper.Keeper) -> None:
        self._keeper = started
        self.socket = socket.socket(fileno=started.fd)

    def failure(self) -> str:
        """What the daemon said last, for a message."""
        try:
            lines = [line for line in self.log.read_text(errors="replace").splitlines() if line.strip()]
        except OSError:
            lines = []
        said = lines[-1].strip() if lines else "it said nothing"
        return f"LTTng's daemon ended as it started: {said}"

    def prime(self) -> None:
        """Have the buffers of this user made before the first process asks for them, when the session has started."""
        if self.socket and self.private_home:
            with contextlib.suppress(OSError):
                self.socket.send(b"P")

    def wait_alive(self, timeout: float) -> bool:
        """Whether a daemon answers within a time: another run's, started in the same moment as ours, serves as well."""
        from occatrace import _session

        end = time.monotonic() + timeout
        while not _session.daemon_alive():
            if time.monotonic() > end:
                return False
            time.sleep(0.005)
        return True

    def release(self, session_destroyed: bool, all_written: bool = False) -> None:
        """Tell the keeper that we need it no longer. It ends what is to be ended while we go on. `all_written`: a daemon
        of this run alone need not end by itself, which takes 0.1 s."""
        if self.socket:
            if session_destroyed:
                with contextlib.suppress(OSError):
                    self.socket.send(b"K" if all_written and not self.shared else b"D")
            self.socket.close()
            self.socket = None
        if self._lock:
            self._lock.close()
            self._lock = None

    def close(self) -> None:
        """Return when nothing of us is left: processes, sockets, folders. A keeper that waits for other users of the
        machine's daemon is not waited for."""
        self.release(session_destroyed=False)
        if self._keeper:
            self._keeper.wait(0.5 if self.shared else END_TIMEOUT_S)
            self._keeper = None
        else:
            files.remove_tree(self.home)
            if self.shm:
                files.remove_tree(self.shm)
