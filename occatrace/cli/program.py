"""Running the profiled program as a shell would: found in PATH, its status as 126, 127 and 128+n, signals untouched."""

from __future__ import annotations

import contextlib
import errno
import os
import signal
import stat
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

NOT_EXECUTABLE = 126
NOT_FOUND = 127
# Sent to us, meant for the program. From a terminal they reach it without us.
FORWARDED = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT, signal.SIGUSR1, signal.SIGUSR2)
# Python ignores these two for itself; a program expects them as they are by default.
IGNORED_BY_PYTHON = (signal.SIGPIPE, signal.SIGXFSZ)


class ProgramError(Exception):
    """The program cannot be started; a line that says why, and the status that a shell would return."""

    def __init__(self, message: str, status: int) -> None:
        super().__init__(message)
        self.status = status


class NoProcess(ProgramError):
    """No more processes are allowed."""


def find(name: str) -> Path:
    """The file that a shell would run."""
    if "/" in name:
        path = Path(name)
        _check(path, name)
        return path
    barred: ProgramError | None = None
    for folder in os.environ.get("PATH", os.defpath).split(os.pathsep):
        path = Path(folder or ".", name)
        try:
            _check(path, name)
            return path if path.is_absolute() else Path(".") / path
        except ProgramError as error:
            if error.status == NOT_EXECUTABLE and os.path.isfile(path):
                barred = error
    if barred:
        raise barred
    hint = "; give its path, or add its folder to PATH"
    if os.path.isfile(name):
        hint = f"; did you mean ./{name}?"
    elif run := _of_run(Path(name)):
        hint = f"; {run}"
    else:
        from occatrace.cli.commands import COMMANDS
        from occatrace.cli.parser import MEANT, closest

        if name in COMMANDS:
            hint = f"; `{name}` is a subcommand: its options follow it, as in `occa_prof {name} …`"
        elif meant := MEANT.get(name):
            hint = f"; did you mean `{meant}`?"
        elif alike := closest(name, COMMANDS):
            hint = f"; did you mean `occa_prof {alike}`?"
        elif report := _report(name):
            hint = f"; did you mean `occa_prof report RUN --report {report}`?"
    raise ProgramError(f"{name}: program not found{hint}", NOT_FOUND)


def _of_run(path: Path) -> str | None:
    """Where a run is given instead of a program: what to write."""
    from occatrace.run import folder

    return f"it is a run: `{folder.again(path)}` shows it" if folder.is_run(path) else None


def _report(name: str) -> str | None:
    """The report of this name, also if other profilers call it so. Spelling is not guessed: most words are no reports."""
    from occatrace import reports

    return reports.alike(name, spelling=False)


def _check(path: Path, name: str) -> None:
    try:
        mode = path.stat().st_mode
    except PermissionError:
        raise ProgramError(f"{path}: no permission to enter its folder", NOT_EXECUTABLE) from None
    except OSError:
        raise ProgramError(f"{name}: program not found: there is no such file", NOT_FOUND) from None
    if stat.S_ISDIR(mode):
        raise ProgramError(f"{path}: {_of_run(path) or 'it is a folder: give the program in it'}", NOT_EXECUTABLE)
    if not os.access(path, os.X_OK):
        raise ProgramError(
            f"{path} is not executable: chmod +x {path}, or name its interpreter before it", NOT_EXECUTABLE
        )


def cannot_be_traced(path: Path) -> str | None:
    """Why preloading will not reach a program, when that can be seen from its file."""
    try:
        mode = path.stat().st_mode
        with path.open("rb") as file:
            head = file.read(64)
            if mode & (stat.S_ISUID | stat.S_ISGID):
                return "it is setuid or setgid, and the system ignores LD_PRELOAD for such programs"
            if head[:4] != b"\x7fELF" or head[4] != 2:
                return None
            offset, size, count = (int.from_bytes(head[a:b], "little") for a, b in ((32, 40), (54, 56), (56, 58)))
            file.seek(offset)
            headers = file.read(size * count)
    except OSError:
        return None
    kinds = {int.from_bytes(headers[i : i + 4], "little") for i in range(0, len(headers), size or 1)}
    # PT_INTERP 3: without a loader nothing can be preloaded. (The loader itself names none, and can be the program.)
    return (
        None
        if 3 in kinds or path.name.startswith("ld-")
        else "it is linked statically, so nothing can be preloaded into it"
    )


def inheritable() -> frozenset[int]:
    """The descriptors that a program started now would get."""
    found = set()
    for fd in map(int, os.listdir("/proc/self/fd")):
        with contextlib.suppress(OSError):  # that of the folder itself
            if os.get_inheritable(fd):
                found.add(fd)
    return frozenset(found)


@dataclass
class SignalGuard:
    """Signals are blocked while the program runs, and read one by one, so that none is lost and none kills us."""

    before: set[signal.Signals]
    descriptors: frozenset[int]  # that the program is to inherit

    @classmethod
    def block(cls) -> SignalGuard:
        """Block what is to be forwarded. Before the first thread, so that every thread has it so."""
        # Inherited as ignored, we would never hear of the program's end.
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        before = signal.pthread_sigmask(signal.SIG_BLOCK, {*FORWARDED, signal.SIGCHLD})
        return cls({s for s in before if isinstance(s, signal.Signals)}, inheritable())

    def restore(self) -> None:
        """As before; what arrived meanwhile was for the program, which has ended."""
        while signal.sigtimedwait({*FORWARDED, signal.SIGCHLD}, 0) is not None:
            pass
        signal.pthread_sigmask(signal.SIG_SETMASK, self.before)

    def __enter__(self) -> SignalGuard:
        return self

    def __exit__(self, *_: object) -> None:
        """As before, however the context ends; without a program, what arrived is for us."""
        signal.pthread_sigmask(signal.SIG_SETMASK, self.before)


def spawn(path: Path, words: Sequence[str], environment: Mapping[str, str], guard: SignalGuard) -> int:
    """Start the program; returns its process id."""

    # Which process is the program itself, and not started by it (native/intercept/python/python.c).
    given = {**environment, "OCCATRACE_PARENT": str(os.getpid())}

    # liblttng-ctl, at work in another thread, opens sockets that any program would inherit.
    top = min(max(map(int, os.listdir("/proc/self/fd"))) + 16, os.sysconf("SC_OPEN_MAX"))
    closed = [(os.POSIX_SPAWN_CLOSE, fd) for fd in range(3, top) if fd not in guard.descriptors]

    def start(file: str, argv: list[str]) -> int:
        return os.posix_spawn(
            file, argv, given, file_actions=closed, setsigmask=guard.before, setsigdef=IGNORED_BY_PYTHON
        )

    try:
        return start(os.fspath(path), list(words))
    except OSError as error:
        if error.errno == errno.ENOEXEC and _is_text(path):
            # As execvp and shells do with a script that names no interpreter.
            return start("/bin/sh", ["/bin/sh", os.fspath(path), *words[1:]])
        if error.errno == errno.ENOENT:
            raise ProgramError(f"{path}: its interpreter or loader is missing", NOT_EXECUTABLE) from None
        kind = NoProcess if error.errno == errno.EAGAIN else ProgramError
        raise kind(f"{path}: {error.strerror}", NOT_EXECUTABLE) from None


class Waiting:
    """A thread that waits for the program and passes signals on, while the main thread does something else."""

    def __init__(self, pid: int, heard: Callable[[signal.Signals], None]) -> None:
        self._pid = pid
        self._heard = heard
        self._status: int | None = None
        self._thread = threading.Thread(target=self._wait, name="program", daemon=True)
        with contextlib.suppress(
            RuntimeError
        ):  # no more threads are allowed: the program ends as well without, and signals wait
            self._thread.start()

    def _wait(self) -> None:
        self._status = wait(self._pid, self._heard)

    def end(self) -> int:
        """The program's status, when it has ended."""
        if self._thread.ident is None:
            self._wait()
        else:
            self._thread.join()
        assert self._status is not None
        return self._status


def is_script(path: Path, error: OSError) -> bool:
    """Whether a program could not be executed because it is a script that names no interpreter."""
    return error.errno == errno.ENOEXEC and _is_text(path)


def _is_text(path: Path) -> bool:
    try:
        with path.open("rb") as file:
            return b"\0" not in file.read(256)
    except OSError:
        return False


def wait(pid: int, heard: Callable[[signal.Signals], None] | None = None) -> int:
    """Until the program ends; returns its status as a shell gives it. Signals that somebody sent to us by kill are
    passed on; those of a terminal (si_code says: from the kernel) have reached the program already."""
    status = wait_for(pid, heard, lambda: None)
    assert status is not None
    return status


def wait_for(pid: int, heard: Callable[[signal.Signals], None] | None, left: Callable[[], float | None]) -> int | None:
    """As `wait`, but None as soon as `left` says that 0 seconds are left; None of it: as long as it takes."""
    while True:
        try:
            done, status = os.waitpid(pid, os.WNOHANG)
        except ChildProcessError:
            return NOT_FOUND
        if done:
            code = os.waitstatus_to_exitcode(status)
            return code if code >= 0 else 128 - code
        seconds = left()
        if seconds == 0:
            return None
        numbers = {*FORWARDED, signal.SIGCHLD}
        info = signal.sigwaitinfo(numbers) if seconds is None else signal.sigtimedwait(numbers, seconds)
        if info is None or info.si_signo == signal.SIGCHLD:
            continue
        if info.si_code <= 0:  # SI_USER, SI_QUEUE, SI_TKILL
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, info.si_signo)
        if heard:
            heard(signal.Signals(info.si_signo))
