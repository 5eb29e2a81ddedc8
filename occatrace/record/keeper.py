"""Starting the keeper (native/session/keeper.c), with LTTng's daemon or without.

The daemon takes about as long to start as Python takes to import what reads a command line. So `begin` starts it before that,
where the words look like those of a run; `take` hands it to the run, and `drop` ends it if there is none. Imports nothing that
takes time.
"""

from __future__ import annotations

import _signal  # type: ignore[import-not-found]  # `signal` takes some ms
import _socket
import os
import time

from occatrace.core import places
from occatrace.run import native
from occatrace.run.layout import new_id

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

PRIVATE_DAEMON = ("--no-kernel", "--sig-parent")
SHM = "/dev/shm"
LOG = "daemon.log"  # in the folder of sockets
APP_TIMEOUT_S = 30
DROP_TIMEOUT_S = 5.0
_SOCKET_PATH_LIMIT = 107  # of a unix socket
_LONGEST_SOCKET = len("/.lttng/ustconsumerd64/error")  # the daemon's own, below its home


class Keeper:
    """A keeper that runs: its process id, and our end of the socket pair that it watches."""

    def __init__(self, pid: int, fd: int) -> None:
        self.pid = pid
        self.fd = fd

    def wait(self, timeout: float) -> bool:
        """Whether it ends within so many seconds."""
        end = time.monotonic() + timeout
        watched = _watch(self.pid)
        try:
            while True:
                try:
                    if os.waitpid(self.pid, os.WNOHANG)[0]:
                        return True
                except ChildProcessError:
                    return True
                left = end - time.monotonic()
                if left <= 0:
                    return False
                if watched is None:
                    time.sleep(min(left, 0.001))
                else:
                    import select

                    select.select([watched], [], [], left)
        finally:
            if watched is not None:
                os.close(watched)


class Begun:
    """A daemon that was started before the command line was read."""

    def __init__(self, run_id: str, home: str, program: str, keeper: Keeper) -> None:
        self.run_id = run_id
        self.home = home
        self.program = program
        self.keeper = keeper


_begun: Begun | None = None


def begin() -> None:
    """Start a private daemon for the run that is about to be recorded. Whatever keeps it from that is said by the run, which
    tries again."""
    global _begun
    program = native.sessiond()
    if os.getuid() == 0 or os.geteuid() == 0 or program is None or not os.access(native.KEEPER, os.X_OK):
        return
    run_id = new_id()
    home = make_folder(run_id)
    if home is None:
        return
    try:
        keeper = start(session_name(run_id), home, buffers_folder(run_id), [program, *PRIVATE_DAEMON])
    except OSError:
        for name in os.listdir(home):
            os.unlink(f"{home}/{name}")
        os.rmdir(home)
        return
    _begun = Begun(run_id, home, program, keeper)


def begun_id() -> str | None:
    """The identifier of the run for which a daemon was started, if there is one."""
    return _begun.run_id if _begun else None


def take(run_id: str, shm: str | None) -> Begun | None:
    """The daemon that was started for this run, whose buffers are in this folder; from now on it is the caller's."""
    global _begun
    begun = _begun
    if begun is None or begun.run_id != run_id:
        return None
    if shm != buffers_folder(run_id) or begun.program != native.sessiond():
        drop()
        return None
    _begun = None
    return begun


def drop() -> None:
    """End the daemon that was started and is not wanted; returns when nothing of it is left."""
    global _begun
    begun, _begun = _begun, None
    if begun is None:
        return
    try:  # noqa: SIM105  (contextlib takes some ms)
        os.write(begun.keeper.fd, b"K")
    except OSError:
        pass
    os.close(begun.keeper.fd)
    begun.keeper.wait(DROP_TIMEOUT_S)


def session_name(run_id: str) -> str:
    """LTTng's name of the session of a run."""
    return f"occatrace-{run_id}"


def buffers_folder(run_id: str, base: str = SHM) -> str:
    """The folder of a run's buffers."""
    return f"{base}/occatrace-{os.getuid()}-{run_id}"


def make_folder(run_id: str) -> str | None:
    """A folder for sockets, readable by its owner only, in a path short enough for them."""
    prefix = f"occatrace-{os.getuid()}-{run_id}-"
    for base in places.shared():
        if len(base) + len(prefix) + 10 + _LONGEST_SOCKET > _SOCKET_PATH_LIMIT:
            continue
        folder = f"{base}/{prefix}{os.urandom(4).hex()}"  # module tempfile takes 5 ms to load
        try:
            os.mkdir(folder, 0o700)
        except OSError:
            continue
        return folder
    return None


def start(
    session: str,
    home: str,
    buffers: str | None,
    daemon: Sequence[str] = (),
    private: bool = True,
    lock: tuple[int, str] | None = None,
) -> Keeper:
    """Start a keeper of this session, which removes both folders at its end, and with it a daemon: a `private` one, or the
    machine's, for which the keeper holds this lock (its descriptor and its file). Raises OSError."""
    pair = _socket.socketpair(_socket.AF_UNIX, _socket.SOCK_STREAM)
    ours, theirs = pair[0].detach(), pair[1].detach()
    # One descriptor per CPU and stream in the consumer, a few per traced process; more would slow its start.
    limit = 2048 + 8 * (os.cpu_count() or 1)
    words = [native.KEEPER, "-c", str(theirs), "-s", session, "-n", str(limit), "-r", home]
    given = [theirs]
    if buffers:
        words += ["-r", buffers]
    if lock:
        given.append(lock[0])
        words += ["-l", str(lock[0]), "-p", lock[1]]
    log = -1
    try:
        if daemon:
            log = os.open(f"{home}/{LOG}", os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
            given.append(log)
            words += ["-o", str(log), "-w"]
        if private and os.path.exists(native.CORE_EVENTS):
            words += ["-t", native.CORE_EVENTS]
        for fd in given:
            os.set_inheritable(fd, True)
        pid = os.posix_spawn(
            native.KEEPER,
            [*words, *daemon],
            _environment(daemon, home if private else None),
            file_actions=[(os.POSIX_SPAWN_OPEN, fd, os.devnull, os.O_RDWR, 0) for fd in range(3)],
            setsid=True,
            setsigdef=(_signal.SIGPIPE, _signal.SIGXFSZ),  # ignored by Python
        )
    except BaseException:
        os.close(ours)
        raise
    finally:
        os.close(theirs)
        if log >= 0:
            os.close(log)
        if lock:
            os.set_inheritable(lock[0], False)
    return Keeper(pid, ours)


def _environment(daemon: Sequence[str], private_home: str | None) -> dict[str, str]:
    environment = dict(os.environ)
    environment.pop("LD_PRELOAD", None)
    if daemon:
        environment.update(native.daemon_environment(daemon[0]))
        wanted = os.environ.get("OCCATRACE_DAEMON_LIBRARY") != "0"
        # In LD_PRELOAD these separate paths, or begin a word that is replaced.
        if wanted and os.path.exists(native.DAEMON_LIBRARY) and not set(native.DAEMON_LIBRARY) & set(" :$"):
            environment["LD_PRELOAD"] = native.DAEMON_LIBRARY
    # A process that does not answer in this time is given up. While it registers an API's events it cannot, which takes
    # more than the 5 s that LTTng gives it where a machine is overloaded.
    environment.setdefault("LTTNG_APP_SOCKET_TIMEOUT", str(APP_TIMEOUT_S))
    # Newer daemons write CTF 2 unless asked.
    environment["LTTNG_SESSIOND_DEFAULT_TRACE_FORMAT"] = "ctf-1.8"
    if private_home:
        environment["LTTNG_HOME"] = private_home
    return environment


def _watch(pid: int) -> int | None:
    """A descriptor that can be read when a process has ended; None where the kernel has none."""
    try:
        return os.pidfd_open(pid)
    except (AttributeError, OSError):
        return None
