"""The LTTng session of one run: started beside the program, stopped after it, read by the analysis.

`start` returns at once; a thread brings the daemon up, starts the session, and answers traced processes, which ask
through OCCATRACE_SOCKET before they load LTTng ("REG pid uid") and go on when they read "OK". Nothing here prints.
"""

from __future__ import annotations

import contextlib
import os
import re
import selectors
import socket
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from occatrace.core import disk, events, files
from occatrace.core.apis import VARIABLE, Traced, api_titles
from occatrace.errors import DaemonError
from occatrace.lttng.packets import restore_metadata
from occatrace.record import keeper, shims
from occatrace.record.daemon import RUN_LINK, START_TIMEOUT_S, Daemon, mark_buffers
from occatrace.record.filters import Choosing
from occatrace.run import install, limits
from occatrace.run.control import VARIABLE as SWITCH_VARIABLE
from occatrace.run.control import Switch

if TYPE_CHECKING:
    from occatrace.record.rotation import Rotation

CHANNEL = "occatrace"
SUBBUFFERS = 4
LARGEST_SUBBUFFER = 4 << 20
SMALLEST_SUBBUFFER = 16 << 10
COMFORTABLE_SUBBUFFER = 512 << 10  # below this, bursts may be lost: say so
MOST_MEMORY = 256 << 20
SPACE_PARTS = 32  # of a limited address space, one is for the buffers
SHM = Path(keeper.SHM)
DATA_TIMEOUT_S = 30.0
ANSWER_TIMEOUT_S = 30.0
# Daemons of MPI's launchers, which a program that is started without one starts for itself. They end a moment after it.
_HELPERS = frozenset(("orted", "prted", "hydra_pmi_proxy"))
_HELPER_S = 2.0
REGISTER_TIMEOUT_MS = 30_000
# By which the libraries of annotations and CUDA's driver find a tool, ours, and what is not seen when they find another.
INJECTIONS = {
    "NVTX_INJECTION64_PATH": ("nvtx", install.ANNOTATION, "NVTX ranges"),
    "INTEL_LIBITTNOTIFY64": ("itt", install.ANNOTATION, "ITT tasks"),
    "CUDA_INJECTION64_PATH": (
        "cuda",
        install.CUDA_INJECTION,
        "calls of CUDA's driver that bypass the shim of libcuda.so.1",
    ),
}
# Likewise of SYCL's runtime. The framework lies beside the runtime, which finds it by its run path.
XPTI = {"XPTI_TRACE_ENABLE": "1", "XPTI_FRAMEWORK_DISPATCHER": "libxptifw.so", "XPTI_SUBSCRIBERS": ""}


@dataclass(frozen=True)
class Buffers:
    """The ring buffers of a session: per possible CPU, `count` sub-buffers and the one being read."""

    cpus: int
    size: int
    count: int
    folder: Path
    note: str | None = None

    @property
    def total(self) -> int:
        """Bytes of shared memory."""
        return self.cpus * self.size * (self.count + 1)


def possible_cpus(text: str | None = None) -> int:
    """CPUs that LTTng makes a buffer for: those that may ever be there, not only those online."""
    if text is None:
        try:
            text = Path("/sys/devices/system/cpu/possible").read_text(encoding="ascii")
        except OSError:
            return os.cpu_count() or 1
    return max(int(part.split("-")[-1]) for part in text.strip().split(",")) + 1


def plan_buffers(cpus: int, free: int, folder: Path = SHM, space: int | None = None) -> Buffers:
    """Sub-buffers as large as serves, in at most a quarter of what is free: LTTng says nothing when it is too much. Each
    process maps them all: not more than a part of the address space that it may have."""
    budget = min(MOST_MEMORY, free // 4)
    why = f"{folder} has {free >> 20} MiB free"
    if space is not None and space // SPACE_PARTS < budget:
        budget = space // SPACE_PARTS
        why = f"a process may map only {space >> 20} MiB (ulimit -v)"
    size = LARGEST_SUBBUFFER
    while size > SMALLEST_SUBBUFFER and cpus * size * (SUBBUFFERS + 1) > budget:
        size //= 2
    count = SUBBUFFERS
    while count > 2 and cpus * size * (count + 1) > budget:
        count //= 2
    need = cpus * size * (count + 1)
    if need > free // 2:
        raise DaemonError(
            f"{folder} has {free >> 10} KiB free, the trace buffers of {cpus} CPUs need {need >> 10} KiB:"
            " free some, or give another folder by --shm-path"
        )
    note = None
    if size < COMFORTABLE_SUBBUFFER and budget < MOST_MEMORY:
        note = (
            f"small trace buffers ({size >> 10} KiB × {count} on each of {cpus} CPUs): {why}; bursts of events may be lost"
            " (--shm-path FOLDER uses another place)"
        )
    return Buffers(cpus, size, count, folder, note)


@dataclass(frozen=True)
class Registered:
    """A process that asked to be traced and was told to go on."""

    pid: int
    uid: int


@dataclass(frozen=True)
class Limited:
    """A process that lacks what tracing takes, as it says itself (native/emit/core_registration.h)."""

    pid: int
    what: str  # of limits.LACKING
    has: int
    need: int


@dataclass(frozen=True)
class Unseen:
    """A process that saw nothing of an API whose library it had loaded, as it says itself at its end (native/emit/unseen.c)."""

    pid: int
    api: str
    why: str  # of _UNSEEN
    library: str


@dataclass
class Outcome:
    """What became of the session."""

    state: str = "unused"  # unused: no process asked; recorded; failed
    processes: list[Registered] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    problem: str | None = None
    buffers: Buffers | None = None
    daemon: str = "none"  # own, machine
    captures: list[tuple[int, int]] | None = None  # when the run recorded; None: always
    unseen: list[Unseen] = field(default_factory=list)
    limited: list[Limited] = field(default_factory=list)
    apart: list[int] = field(default_factory=list)  # processes in other PID namespaces

    @property
    def past_us(self) -> bool:
        """Whether an API is known to have been used past us."""
        return bool(self.limited or self.apart) or any(u.why in ("layer", "variable") for u in self.unseen)


class Session:
    """Life of a session: start, environment, stop, close. Each may be called once; `close` always."""

    def __init__(
        self,
        *,
        run_id: str,
        output: Path,
        mode: str,
        shm_path: Path | None = None,
        traced: Traced | None = None,
        choosing: Choosing | None = None,
        switch: Switch | None = None,
        patterns: Sequence[str] = (events.PATTERN,),
    ) -> None:
        """`traced`: the APIs, None: all that are traced unasked. `patterns`: names among which the mode chooses the events to
        enable."""
        self.run_id = run_id
        self.output = output
        self.mode = mode
        self.traced = traced
        self.choosing = choosing or Choosing()
        self.switch = switch
        self._switch_file: Path | None = None
        self._patterns = patterns
        self.name = keeper.session_name(run_id)
        self.outcome = Outcome()
        shm_base = shm_path or SHM
        self.shm = Path(keeper.buffers_folder(run_id, str(shm_base)))
        self._shm_base = shm_base
        self._daemon = Daemon(self.name, run_id, self.shm)
        self._listener: socket.socket | None = None
        self._wake, self._wake_end = socket.socketpair()
        self._closing = threading.Event()
        self._settled = threading.Event()  # started or failed
        self._waiting: list[tuple[socket.socket, Registered]] = []
        self._created = False
        self._destroyed = False
        self._all_written = False
        self._thread: threading.Thread | None = None
        self._rotation: Rotation | None = None
        self._reserve = disk.Reserve(output.parent.parent, output.name)
        if self.choosing.plan.stream:
            from occatrace.record.rotation import Rotation

            run, limit = output.parent.parent, self.choosing.plan.max_size
            self._rotation = Rotation(self.name, run, output.name, limit, switch, lambda: bool(self.outcome.processes))

    # ---- in the main thread ----

    @property
    def socket_path(self) -> Path:
        """Where traced processes ask."""
        return self._daemon.home / "register"

    def start(self) -> None:
        """Start the daemon and the thread that does the rest. Raises DaemonError when there is no tracing to be had."""
        limits.check(possible_cpus())
        room = os.statvfs(self._shm_base)
        free = room.f_bavail * room.f_frsize
        self.outcome.buffers = plan_buffers(possible_cpus(), free, self._shm_base, limits.address_space())
        limits.check_files(self.outcome.buffers.size * self.outcome.buffers.count)
        if self.outcome.buffers.note:
            self.outcome.notes.append(self.outcome.buffers.note)
        run = self.output.parent.parent
        self.shm.mkdir(mode=0o700)
        mark_buffers(self.shm, run)
        (self._daemon.home / RUN_LINK).symlink_to(run.absolute())
        if self._daemon.shared:
            # Another user's program (su, setuid) may register with root's daemon too, if it was started below the run.
            self._daemon.home.chmod(0o711)
        listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        listener.bind(str(self.socket_path))
        if self._daemon.shared:
            self.socket_path.chmod(0o666)
        listener.listen(1024)
        if self.switch:
            self._switch_file = self.switch.create(self._daemon.home)
        listener.setblocking(False)
        self._listener = listener
        self._daemon.start()
        self._daemon.check_folders(run, self.shm)
        self.outcome.daemon = "own" if self._daemon.started_ours else "machine"
        thread = threading.Thread(target=self._run, name="occatrace session", daemon=True)
        thread.start()  # RuntimeError where no more threads are allowed
        self._thread = thread

    def environment(self, inherited: Mapping[str, str]) -> dict[str, str]:
        """The program's environment: the inherited one and what tracing needs."""
        env = self.choosing.environment(
            program_environment(inherited, self.mode, self._daemon.home, self.traced, self.choosing.samples_stacks)
        )
        if self._switch_file:
            env[SWITCH_VARIABLE] = str(self._switch_file)
        for variable, (part, ours, what) in INJECTIONS.items():
            theirs = inherited.get(variable) if self.traced is None or part in self.traced else None
            if theirs and Path(theirs) != ours:
                self.outcome.notes.append(
                    f"{variable} is set to {theirs}: that tool gets the {what}, occatrace does not"
                )
        env["OCCATRACE_SOCKET"] = str(self.socket_path)
        env["OCCATRACE_RUN"] = self.run_id
        if self._daemon.private_home:
            env["LTTNG_HOME"] = str(self._daemon.private_home)
        return env

    def for_ranks(self) -> dict[str, str]:
        """What another process needs to start a program into this session (cli/rank.py)."""
        there = {"home": str(self._daemon.home), "socket": str(self.socket_path)}
        if self._switch_file:
            there["switch"] = str(self._switch_file)
        return there | ({"lttng_home": str(self._daemon.private_home)} if self._daemon.private_home else {})

    def wait_started(self, timeout: float = 2 * START_TIMEOUT_S) -> bool:
        """Until the session has started, or cannot."""
        return self._settled.wait(timeout)

    def stop(self, early: bool = False) -> Outcome:
        """After the program has ended, or `early`, while it goes on: everything that was emitted is in the trace when this
        returns."""
        self._closing.set()
        self._wake.send(b"x")
        answers = True
        if self._thread:
            self._thread.join(ANSWER_TIMEOUT_S)
            answers = not self._thread.is_alive()
        if self._listener:
            self._listener.close()
            self._listener = None
        if self._rotation and self._created:
            self._rotation.stop()
        if self._created and answers:
            if not early:  # whoever asks for that says why
                self._note_survivors()
            # In a thread, because a daemon that hangs would hold us for ever, and the program's status with us.
            stopping = threading.Thread(target=self._stop_session, name="stop", daemon=True)
            try:
                stopping.start()
            except RuntimeError:  # no more threads are allowed
                self._stop_session()
            else:
                stopping.join(DATA_TIMEOUT_S + ANSWER_TIMEOUT_S)
                answers = not stopping.is_alive()
        if self._rotation:
            self._rotation.finish()
            self.outcome.notes += self._rotation.notes
        if self._created and answers:
            self._seal()
        if not answers:
            self.outcome.notes.append("LTTng's daemon does not answer any more: the trace may be incomplete")
        if self.switch:
            self.outcome.captures = self.switch.end()
            if self.switch.full:
                self.outcome.notes.append("the trace reached --max-size: from then on calls were only counted")
        self._reserve.release()
        self._daemon.release(self._destroyed, self._all_written)
        self.outcome.notes += limited_lines(self.outcome.limited)
        if self.outcome.apart:
            why = "it is in a PID namespace of its own (a container); run occa_prof inside of it"
            self.outcome.notes.append(f"{_processes(self.outcome.apart)} not recorded: {why}")
        self.outcome.notes += unseen_lines(self.outcome.unseen)
        if self.outcome.problem:
            self.outcome.state = "failed"
        elif self.outcome.processes:
            self.outcome.state = "recorded"
        return self.outcome

    def close(self) -> None:
        """Return when nothing is left behind."""
        if not self._closing.is_set():
            self.stop()
        self._daemon.close()
        self._wake.close()
        self._wake_end.close()

    def _note_survivors(self) -> None:
        if not self.outcome.processes:
            return
        from occatrace.run.liveness import is_running

        def survivors() -> dict[int, str]:
            pids = {p.pid for p in self.outcome.processes if is_running(p.pid)} | forked(self.run_id, self.shm)
            return {pid: program_of(pid) for pid in sorted(pids)}

        alive = survivors()
        until = time.monotonic() + _HELPER_S
        while any(name in _HELPERS for name in alive.values()) and time.monotonic() < until:
            time.sleep(_HELPER_S / 100)
            alive = survivors()
        if alive:
            some = [f"{pid} ({name})" if name else str(pid) for pid, name in alive.items()]
            shown = ", ".join(some[:8]) + (" …" if len(some) > 8 else "")
            self.outcome.notes.append(
                f"still running when the program ended, and not recorded from then on: process {shown}"
            )

    def _stop_session(self) -> None:
        from occatrace import _session

        try:
            _session.stop(self.name)
            end = time.monotonic() + DATA_TIMEOUT_S
            pause = 0.0005
            written = True
            while _session.data_pending(self.name):
                if time.monotonic() > end:
                    written = False
                    self.outcome.notes.append(
                        f"LTTng still had data to write after {DATA_TIMEOUT_S:.0f} s: the trace is incomplete"
                    )
                    break
                time.sleep(pause)
                pause = min(pause * 1.5, 0.02)
            full = self._reserve.is_full(self._daemon.log)
            if full:
                self._make_readable()
            elif any(not file.stat().st_size for file in self.output.glob("ust/*/*/*/metadata")):
                self._save("LTTng's consumer went away before the end")
            if self._rotation and not full:
                self._rotation.cut()
            _session.destroy(self.name)
            self._destroyed = True
            self._all_written = written and not full and self._rotation is None
        except _session.Error as error:
            self._save(f"LTTng's daemon went away before the end ({error})")

    def _make_readable(self) -> None:
        """The disk was full: what was written till then can be read, with its metadata."""
        self.outcome.notes.append(
            f"{disk.WORDS}: the disk of the run was full ({disk.mount_of(self.output)}); what did not fit is missing below"
        )
        self._reserve.release()
        try:
            restore_metadata(self.shm / "buffers", self.output)
        except OSError as error:
            self.outcome.notes.append(
                f"the trace cannot be read, as its metadata could not be written: {error.strerror}"
            )

    def _seal(self) -> None:
        """All is written: from here on damage can be told."""
        from occatrace.run import checksums

        try:
            checksums.write(self.output)
        except OSError as error:
            self.outcome.notes.append(f"no checksums were written: {error.strerror}")

    def _save(self, why: str) -> None:
        from occatrace.lttng import recovery

        self.outcome.notes.append(f"{why}: {recovery.save(self.shm, self.output)}")

    # ---- in the thread ----

    def _run(self) -> None:
        from occatrace import _session

        try:
            with selectors.DefaultSelector() as selector:
                assert self._listener and self._daemon.socket
                selector.register(self._wake_end, selectors.EVENT_READ, "wake")
                selector.register(self._listener, selectors.EVENT_READ, "listener")
                try:
                    self._wait_for_daemon(selector)
                    if self._closing.is_set() and not self._waiting:
                        return
                    self._create()
                except (DaemonError, _session.Error) as error:
                    # LTTng does not say why its consumer could not make a folder.
                    full = disk.is_used_up(self.output)
                    self.outcome.problem = disk.needs_room(self.output) if full else str(error)
                self._settled.set()
                for client, who in self._waiting:
                    self._answer(client, who)
                self._waiting.clear()
                while not self._closing.is_set():
                    self._serve(selector, None)
                for _ in range(2):  # what a process said at its end, and did not wait for: it is let in, and heard
                    self._serve(selector, 0)
        except Exception as error:  # this thread's end must not leave a program waiting
            self.outcome.problem = f"{type(error).__name__}: {error}"
        finally:
            self._settled.set()  # whoever waits for a start that does not come any more
            for client, _ in self._waiting:
                client.close()

    def _wait_for_daemon(self, selector: selectors.BaseSelector) -> None:
        """Until our daemon says that it is ready, taking in processes that ask meanwhile."""
        if not self._daemon.started_ours:
            return
        assert self._daemon.socket
        selector.register(self._daemon.socket, selectors.EVENT_READ, "daemon")
        end = time.monotonic() + START_TIMEOUT_S
        try:
            while True:
                left = end - time.monotonic()
                if left < 0:
                    raise DaemonError(f"LTTng's daemon was not ready within {START_TIMEOUT_S:.0f} s")
                said = self._serve(selector, left)
                if said == b"R":
                    return
                if said is not None:
                    # As root two runs may have started one at once; the other's serves us.
                    if self._daemon.shared and self._daemon.wait_alive(5):
                        return
                    raise DaemonError(self._daemon.failure())
                if self._closing.is_set() and not self._waiting:
                    return
        finally:
            selector.unregister(self._daemon.socket)

    def _create(self) -> None:
        from occatrace import _session

        assert self.outcome.buffers
        self.output.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._reserve.make()
        _session.create(self.name, str(self.output))
        self._created = True
        # A folder that LTTng makes itself: it waits for ever for one of ours to go when no process made buffers in it.
        _session.set_shm_path(self.name, str(self.shm / "buffers"))
        _session.add_channel(
            self.name, CHANNEL, subbuf_size=self.outcome.buffers.size, subbuf_count=self.outcome.buffers.count
        )
        if self._daemon.shared:
            _session.track_only(self.name)
        _session.enable_events(self.name, CHANNEL, list(self._patterns), self.choosing.loglevel(self.mode))
        _session.start(self.name)
        self._daemon.prime()
        if self._rotation:
            self._rotation.start()

    def _serve(self, selector: selectors.BaseSelector, timeout: float | None) -> bytes | None:
        """One round: whoever asks is answered, or waits until the session is settled. Returns the keeper's word."""
        said: bytes | None = None
        for key, _ in selector.select(timeout):
            if key.data == "wake":
                self._wake_end.recv(16)
            elif key.data == "daemon":
                assert self._daemon.socket
                said = self._daemon.socket.recv(1)
            elif key.data == "listener":
                self._accept(selector)
            else:
                selector.unregister(key.fileobj)
                self._hear(key.data)
        return said

    def _accept(self, selector: selectors.BaseSelector) -> None:
        assert self._listener
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            client.setblocking(False)
            selector.register(client, selectors.EVENT_READ, client)

    def _hear(self, client: socket.socket) -> None:
        try:
            words = client.recv(256).split(maxsplit=5)
            pid, uid = int(words[1]), int(words[2])
            peer, other = files.peer(client)
        except (OSError, ValueError, IndexError):
            client.close()
            return
        if words[0] not in (b"REG", b"UNSEEN", b"LIMIT") or other != uid or not self._is_of_run(peer, uid):
            client.close()
            return
        if words[0] == b"UNSEEN":
            self._note_unseen(client, pid, [os.fsdecode(word) for word in words[3:]])
            return
        if words[0] == b"LIMIT":
            self._note_limit(client, pid, words[3:])
            return
        if peer != pid:
            self._note_namespace(client, peer)
            return
        who = Registered(pid, uid)
        if self._settled.is_set():
            self._answer(client, who)
        else:
            self._waiting.append((client, who))

    def _is_of_run(self, pid: int, uid: int) -> bool:
        """Whether a process may be recorded: it is the caller's own or root's, or was started below this run. Every user of
        the machine reaches the socket of root's runs."""
        if uid in (0, os.geteuid()):
            return True
        variable = f"OCCATRACE_SOCKET={self.socket_path}".encode()
        while (pid := parent_of(pid)) > 1:
            if pid == os.getpid():
                return True
            try:
                process = Path(f"/proc/{pid}")
                if process.stat().st_uid == os.geteuid() and variable in (process / "environ").read_bytes().split(
                    b"\0"
                ):
                    return True
            except OSError:
                continue
        return False

    def _note_unseen(self, client: socket.socket, pid: int, words: Sequence[str]) -> None:
        if len(words) == 3 and words[0] in api_titles() and words[1] in _UNSEEN:
            self.outcome.unseen.append(Unseen(pid, *words))
        with contextlib.suppress(OSError), client:
            client.send(b"OK")

    def _note_namespace(self, client: socket.socket, pid: int) -> None:
        """LTTng's daemon knows a process by the number that the process has for itself, and would take it for another one."""
        self.outcome.apart.append(pid)
        with contextlib.suppress(OSError), client:
            client.send(b"NO")

    def _note_limit(self, client: socket.socket, pid: int, words: Sequence[bytes]) -> None:
        if (
            len(words) == 3
            and words[0].decode("ascii", "replace") in limits.LACKING
            and all(map(bytes.isdigit, words[1:]))
        ):
            self.outcome.limited.append(Limited(pid, words[0].decode(), int(words[1]), int(words[2])))
        with contextlib.suppress(OSError), client:
            client.send(b"NO")

    def _answer(self, client: socket.socket, who: Registered) -> None:
        from occatrace import _session

        answer = "OK"
        if self.outcome.problem:
            answer = f"NO {self.outcome.problem}"
        elif self._daemon.shared:
            try:
                _session.track(self.name, who.pid)
            except _session.Error as error:
                answer = f"NO {error}"
        try:
            client.send(answer.encode()[:1024])
            if answer == "OK":
                self.outcome.processes.append(who)
        except OSError:
            pass  # it has died
        finally:
            client.close()


def forked(run_id: str, buffers: Path) -> set[int]:
    """Processes of the run that have its buffers mapped: also children of fork that have recorded nothing so far, and so
    have not asked."""
    found = set()
    wanted, mapped = f"OCCATRACE_RUN={run_id}".encode(), bytes(buffers) + b"/"
    for pid in filter(str.isdecimal, os.listdir("/proc")):
        try:
            if wanted not in Path("/proc", pid, "environ").read_bytes().split(b"\0"):
                continue
            if mapped in Path("/proc", pid, "maps").read_bytes():
                found.add(int(pid))
        except OSError:
            continue  # it has ended, or is none of ours
    return found


def program_of(pid: int) -> str:
    """The name of a process's program, in plain letters; empty where it is not known."""
    try:
        name = Path(f"/proc/{pid}/comm").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
    return re.sub(r"[^\w.+:-]", "_", name.rstrip("\n"), flags=re.ASCII)


def parent_of(pid: int) -> int:
    """The parent of a process; 0 where there is none."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
        return int(stat.rpartition(")")[2].split()[1])
    except (OSError, ValueError, IndexError):
        return 0


def limited_lines(limited: Sequence[Limited]) -> list[str]:
    """A line for each limit."""
    lines = []
    for what, has, need in dict.fromkeys((each.what, each.has, each.need) for each in limited):
        pids = [each.pid for each in limited if (each.what, each.has, each.need) == (what, has, need)]
        lines.append(f"{_processes(pids)} not recorded: {limits.lacking(what, has, need)}")
    return lines


def _processes(pids: Sequence[int]) -> str:
    return f"process {', '.join(map(str, pids[:8]))}{' …' if len(pids) > 8 else ''}"


_UNSEEN = {
    "layer": "{api} was used and is not recorded in {who}:"
    " its loader {library} did not start occatrace's layer (`occa_prof doctor` tries the loader)",
    "variable": "{api} was used and is not recorded in {who}: OPENCL_LAYERS did not name occatrace's layer any more when it ended",
    "disabled": "{api} is not recorded in {who}: OMP_TOOL=disabled keeps tools away from {library}",
    "xpti": "{api}: {who} loaded {library}, and its commands are not recorded: the XPTI_ variables of the environment are not"
    " occatrace's",
    "static": "{api}: {who} has the library linked into {library}, and its calls are not recorded: link the shared library",
    "loader": "{api} was used and is not recorded in {who}: a loader inside {library} or one of its libraries called the driver; use"
    " a build with the shared libOpenCL.so.1",
    "silent": "{api}: {who} loaded {library}, and no call of it was seen",
}


def unseen_lines(unseen: Sequence[Unseen]) -> list[str]:
    """A line for each library and reason."""
    lines = []
    for api, library, why in dict.fromkeys((u.api, u.library, u.why) for u in unseen):
        pids = [u.pid for u in unseen if (u.api, u.library, u.why) == (api, library, why)]
        lines.append(_UNSEEN[why].format(api=api_titles()[api], who=_processes(pids), library=library))
    return lines


def program_environment(
    inherited: Mapping[str, str], mode: str, links: Path, traced: Traced | None = None, sampled: bool = False
) -> dict[str, str]:
    """What the traced program is given, whatever the session: the preloaded library and the layers of what is traced.
    `links` is a folder for links where a path of ours cannot stand in LD_PRELOAD. `sampled`: with --sample-stacks."""
    env = dict(inherited)
    # The core looks for the functions of libc behind itself.
    preload = [*([install.SIGNALS] if sampled else ()), install.PRELOAD]

    def wanted(name: str) -> bool:
        return traced is None or name in traced

    if wanted("opencl") and install.OPENCL_LAYER.exists():
        env["OPENCL_LAYERS"] = ":".join(filter(None, [inherited.get("OPENCL_LAYERS"), str(install.OPENCL_LAYER)]))
        loader = install.opencl_loader()
        if loader and install.OPENCL_PRELOAD.exists() and not install.loader_has_layers(loader):
            preload.append(install.OPENCL_PRELOAD)
    if wanted("roctx") and install.ROCTX_PRELOAD.exists() and install.roctx_library():
        preload.append(install.ROCTX_PRELOAD)
    # There is one where this system has a driver of CUDA.
    shimmed = shims.environment(inherited, links, wanted) if links.is_dir() else {}
    by_handle = (
        (wanted("hip") and install.hip_library())
        or (wanted("cudart") and shimmed)
        or (wanted("ze") and install.ze_library())
        or (wanted("opencl") and install.OPENCL_LAYER.exists())
        or wanted("mpi")
    )
    if by_handle and install.BY_HANDLE.exists():
        preload.append(install.BY_HANDLE)
    if traced is not None:
        preload += [install.LIB / f"liboccatrace_{name}.so" for name in sorted(traced.libraries)]
    for variable, (part, ours, _) in INJECTIONS.items():
        # One that the user has set is his own tool's.
        if wanted(part) and ours.exists() and not inherited.get(variable):
            env[variable] = str(ours)
    # By which SYCL's runtime finds a tool. One setting of the user's is a tool of the user's.
    if wanted("sycl") and install.SYCL.exists() and not any(inherited.get(name) for name in XPTI):
        env.update(XPTI, XPTI_SUBSCRIBERS=str(install.SYCL))
    names = [str(_plain(path, links)) for path in preload]
    env["LD_PRELOAD"] = ":".join(filter(None, [*names, inherited.get("LD_PRELOAD")]))
    env["OCCATRACE_MODE"] = mode
    env.pop(VARIABLE, None)
    if traced is not None:
        env[VARIABLE] = traced.variable
    env["LTTNG_UST_REGISTER_TIMEOUT"] = str(REGISTER_TIMEOUT_MS)
    # The library of gcc's address sanitizer refuses to start behind a preloaded one. For all: children may be built with it.
    env["ASAN_OPTIONS"] = ":".join(filter(None, ["verify_asan_link_order=0", inherited.get("ASAN_OPTIONS")]))
    env.update(shimmed)
    return env


def _plain(path: Path, links: Path) -> Path:
    """The path, or a link to it where it holds what LD_PRELOAD takes for a separator."""
    if not set(str(path)) & set(" \t\n:;$"):
        return path
    link = links / path.name
    if not link.exists() and links.is_dir():
        link.symlink_to(path)
    return link
