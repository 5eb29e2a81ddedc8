"""The switch of a run: a word that all its processes on a node look at, who turns it, and when it was turned.

It lies in a file beside the session's sockets, on the node itself, so that no file system that nodes share stands between a
program and what it reads at every call. `RUN/control/HOST.json` says where; commands for other nodes are left beside it
and taken up by the process that records there. `RUN/control/HOST.log` has every turn with its time (CLOCK_MONOTONIC).
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import math
import mmap
import os
import re
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from occatrace.core import checked, files
from occatrace.core.bounds import COMMANDED, ENDED, EVENTS, TIMED
from occatrace.core.bounds import SWITCH_SIZE as SIZE
from occatrace.errors import SwitchError

VARIABLE = "OCCATRACE_CONTROL"
FOLDER = "control"
_PAGE = "switch"
_SOCKETS = re.compile("occatrace-[0-9]+-[0-9a-z]+-[0-9a-f]{8}")
POLL_S = 0.1  # of the size of a trace, and for the end of waits


@dataclass(frozen=True)
class Plan:
    """What turns the switch by itself: seconds, and bytes of the trace. `repeat`: 0, to the end."""

    paused: bool = False
    delay: float = 0.0
    duration: float | None = None
    collect: tuple[float, float, int] | None = None
    max_size: int | None = None
    stream: bool = False  # then occatrace/record/rotation.py minds the size

    @property
    def timed(self) -> bool:
        """Whether the clock turns it."""
        return bool(self.delay or self.duration is not None or self.collect)

    @property
    def starts_off(self) -> bool:
        """Whether the clock has it off at the begin."""
        return bool(self.delay or (self.collect and self.collect[0]))

    @property
    def end(self) -> float:
        """When recording ends, in seconds from the begin; infinity: with the program."""
        return math.inf if self.duration is None else self.delay + self.duration

    def turns(self) -> list[tuple[float, bool]]:
        """When the clock turns it, in seconds from the begin, to on or off; a cycle without end is a million long."""
        out: list[tuple[float, bool]] = []
        if self.collect:
            wait, length, repeat = self.collect
            at = self.delay
            for _ in range(repeat or 1_000_000):
                if at >= self.end:
                    break
                out += [(at + wait, True), (at + wait + length, False)]
                at += wait + length
        elif self.delay:
            out.append((self.delay, True))
        if self.duration is not None:
            out = [*((t, on) for t, on in out if t < self.end), (self.end, False)]
        return out


class Switch:
    """The switch of this node, held by the process that records."""

    def __init__(self, run: Path, host: str, plan: Plan) -> None:
        self._folder = run / FOLDER
        self._host = host
        self._plan = plan
        self._trace = run / "trace" / host
        self._page: mmap.mmap | None = None
        self._stop = threading.Event()
        self.full = False  # --max-size was reached

    def create(self, home: Path) -> Path:
        """Make the file, in a folder of the node."""
        path = home / _PAGE
        on = bytearray(SIZE)
        on[:4] = b"\1\1\1\1"
        on[COMMANDED] = not self._plan.paused
        on[TIMED] = not self._plan.starts_off
        path.write_bytes(on)
        path.chmod(0o644)  # another user's program (su) reads it too
        self._page = _mapped(path)
        self._folder.mkdir(mode=0o700, exist_ok=True)
        place = {"file": str(path), "pid": os.getpid()}
        (self._folder / f"{self._host}.json").write_text(json.dumps(place), encoding="utf-8")
        if not _running(self._page):
            (self._folder / f"{self._host}.log").write_text("0 0\n", encoding="ascii")
        return path

    def start(self) -> None:
        """The program begins: from here the clock counts."""
        if self._plan.timed:
            threading.Thread(target=self._follow_clock, name="switch", daemon=True).start()
        if self._plan.max_size is not None and not self._plan.stream:
            threading.Thread(target=self._watch_size, name="size", daemon=True).start()

    def obey(self) -> None:
        """Take up what was commanded from another node."""
        file = self._folder / f"{self._host}.command"
        with contextlib.suppress(OSError):
            what = files.read_file(file, SIZE, follow=False, uid=os.geteuid()).decode("ascii", "replace").strip()
            file.unlink()
            if self._page:
                _turn(self._folder, self._host, self._page, what)

    def hold_events(self, held: bool) -> None:
        """Record no events one by one for a while, and go on counting."""
        if self._page:
            self._page[EVENTS] = not held

    def end(self) -> list[tuple[int, int]] | None:
        """Recording is over. Returns the times in which the run recorded, or None where it always did."""
        self._stop.set()
        (self._folder / f"{self._host}.json").unlink(missing_ok=True)
        (self._folder / f"{self._host}.command").unlink(missing_ok=True)
        spans = _spans(self._folder / f"{self._host}.log", time.monotonic_ns())
        with contextlib.suppress(OSError):
            self._folder.rmdir()
        return spans

    def _follow_clock(self) -> None:
        begin = time.monotonic()
        end = begin + self._plan.end
        for at, on in self._plan.turns():
            if self._stop.wait(max(0.0, min(begin + at, end) - time.monotonic())):
                return
            now = time.monotonic()
            on = on and now < end
            if self._page:
                _set(self._folder, self._host, self._page, TIMED, on)
            if now >= end:
                return
            # From the moment at which it was turned: this thread may get its turn late, and the next part is no shorter for that.
            begin = max(begin, time.monotonic() - at)

    def _watch_size(self) -> None:
        assert self._plan.max_size is not None
        while not self._stop.wait(POLL_S):
            if self._page and size_of(self._trace) >= self._plan.max_size:
                self.full = True
                self._page[EVENTS] = 0
                return


def _mapped(path: Path) -> mmap.mmap:
    with files.open_own(path, "r+b") as file:
        return mmap.mmap(file.fileno(), SIZE)


def size_of(folder: Path) -> int:
    """Bytes of the files in a folder and below."""
    total = 0
    for parent, _, names in os.walk(folder):
        for name in names:
            with contextlib.suppress(OSError):
                total += os.stat(os.path.join(parent, name)).st_size
    return total


def _set(folder: Path, host: str, page: mmap.mmap, byte: int, on: bool) -> None:
    """Turn one byte. The log has the state at the begin, with time 0, and every change of the whole."""
    with files.open_own(folder / f"{host}.log", "ab") as log:
        files.lock(log, fcntl.LOCK_EX)
        before = _running(page)
        begin = time.monotonic_ns()
        page[byte] = on
        after = _running(page)
        if before != after:
            # Whatever was recorded lies between the times of the log.
            at = begin if after else time.monotonic_ns()
            log.write(f"{'' if log.tell() else f'0 {before:d}{chr(10)}'}{at} {after:d}\n".encode())


def _running(page: mmap.mmap) -> bool:
    return bool(page[COMMANDED] and page[TIMED])


def _spans(log: Path, end: int) -> list[tuple[int, int]] | None:
    """The times in which the run recorded; None: always."""
    try:
        lines = files.read_file(log, checked.LARGEST).decode("ascii").splitlines()
    except OSError:
        return None
    turns = [(int(at), on == "1") for at, on in (line.split() for line in lines)]
    if not turns:
        return None
    ends = [at for at, _ in turns[1:]] + [end]
    return [(at, until) for (at, on), until in zip(turns, ends, strict=True) if on]


def _turn(folder: Path, host: str, page: mmap.mmap, what: str) -> None:
    if what == "stop":
        page[ENDED] = 1
    _set(folder, host, page, COMMANDED, what == "resume" and not page[ENDED])


@dataclass(frozen=True)
class Holder:
    """`RUN/control/HOST.json`: the process that records on a node, and where its switch is."""

    file: str
    pid: int


def _holders(run: Path) -> dict[str, Holder]:
    """By host, of those that say so well."""
    found = {}
    for file in sorted((run / FOLDER).glob("*.json")):
        with contextlib.suppress(OSError, checked.Damaged):
            found[file.stem] = checked.load(Holder, file)
    return found


def sockets_of(run: Path, host: str) -> Path | None:
    """The folder of the sockets of a node's session, if it is on this machine and of the user whose run it is."""
    holder = _holders(run).get(host)
    if holder is None:
        return None
    page = Path(holder.file)
    if page.name != _PAGE or not _SOCKETS.fullmatch(page.parent.name):
        return None
    return page.parent if files.is_private(page.parent, run.stat().st_uid) else None


def is_running(run: Path) -> bool:
    """Whether a folder is of a run that is being recorded."""
    return any((run / FOLDER).glob("*.json"))


def holders(run: Path) -> list[int]:
    """The processes that record a run, as it says; they remove the note as they end."""
    return [holder.pid for holder in _holders(run).values()]


def state(run: Path) -> str:
    """What a run that is being recorded does, by the switch of this node: recording, paused, stopped (for good), or full
    (--max-size: calls are only counted)."""
    for host in _holders(run):
        sockets = sockets_of(run, host)
        if sockets is None:
            continue
        with contextlib.suppress(OSError, IndexError):
            page = files.read_file(sockets / _PAGE, SIZE, follow=False)
            if page[ENDED]:
                return "stopped"
            if not (page[COMMANDED] and page[TIMED]):
                return "paused"
            return "recording" if page[EVENTS] else "full"
    return "recording"


def command(run: Path, what: str, host: str) -> Sequence[str]:
    """`pause`, `resume` or `stop` a run that is being recorded, on all its nodes; `host` is this one. Returns the nodes that
    will hear of it within a second or two, where they are others."""
    folder = run / FOLDER
    hosts = sorted(place.stem for place in folder.glob("*.json"))
    if not hosts:
        raise SwitchError(f"{run} is not being recorded: there is nothing to {what}")
    if not files.is_safe_tree(folder):
        raise SwitchError(f"{folder} belongs to another user, or holds links: only the user who records may {what}")
    others = []
    for there in hosts:
        if there != host:
            with files.open_own(folder / f"{there}.command", "wb") as file:
                file.write(what.encode())
            others.append(there)
            continue
        sockets = sockets_of(run, there)
        try:
            if sockets is None:
                raise FileNotFoundError(folder / f"{there}.json")
            with _mapped(sockets / _PAGE) as page:
                if page[ENDED] and what != "stop":
                    raise SwitchError(f"recording of {run} was ended by `occa_prof stop`: there is nothing to {what}")
                _turn(folder, there, page, what)
        except (OSError, ValueError) as error:
            raise SwitchError(f"{run} is not being recorded any more: there is nothing to {what}") from error
    return others
