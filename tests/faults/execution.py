"""Runs a command in a child of fork() with bounded memory and time, and judges how it ended.

The parent has imported the command's modules, so that a case costs some milliseconds instead of half a second. It never uses
DuckDB itself: a child of fork() has none of its threads.
"""

from __future__ import annotations

import os
import re
import resource
import signal
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

CPU_S = 20
WALL_S = 240.0
ADDRESS_SPACE = 6 << 30
RESIDENT = 1 << 30
CRASHED = 99  # an exception came out of the command
# Babeltrace 2.0 ends the process at some packets. It reads only what the fast decoder declines, or on request.
KNOWN_ABORT = re.compile(r"Assertion|babeltrace|bt_", re.IGNORECASE)


@dataclass(frozen=True)
class Outcome:
    """How a command ended: the exit status, or minus the signal's number; bytes; seconds of processor time."""

    status: int
    out: bytes
    err: bytes
    resident: int
    cpu: float
    late: bool = False


def execute(command: Callable[[], int], bounded: bool = True) -> Outcome:
    """Call `command` in a child. `bounded`: limit its address space (sanitizers need terabytes of it)."""
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        sys.stdout.flush()
        sys.stderr.flush()
        pid = os.fork()
        if pid == 0:
            _child(command, out.fileno(), err.fileno(), bounded)
        status, usage, late = _wait(pid)
        out.seek(0)
        err.seek(0)
        code = os.waitstatus_to_exitcode(status)
        return Outcome(code, out.read(), err.read(), usage.ru_maxrss << 10, usage.ru_utime + usage.ru_stime, late)


def _child(command: Callable[[], int], out: int, err: int, bounded: bool) -> None:
    status = CRASHED
    try:
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        os.dup2(out, 1)
        os.dup2(err, 2)
        if bounded:
            resource.setrlimit(resource.RLIMIT_AS, (ADDRESS_SPACE, ADDRESS_SPACE))
        resource.setrlimit(resource.RLIMIT_CPU, (CPU_S, CPU_S + 5))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        os.setpgid(0, 0)
        sys.stdout = sys.__stdout__ = open(1, "w", encoding="utf-8", closefd=False)  # type: ignore[misc]  # noqa: SIM115
        sys.stderr = sys.__stderr__ = open(2, "w", encoding="utf-8", closefd=False)  # type: ignore[misc]  # noqa: SIM115
        status = command()
    except SystemExit as ended:  # of argparse
        status = ended.code if isinstance(ended.code, int) else 0
    except BaseException:
        traceback.print_exc()
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except Exception:
            traceback.print_exc()
            status = CRASHED
    os._exit(status & 255)


def _wait(pid: int) -> tuple[int, resource.struct_rusage, bool]:
    end, pause, late = time.monotonic() + WALL_S, 0.001, False
    while True:
        found, status, usage = os.wait4(pid, os.WNOHANG)
        if found:
            return status, usage, late
        if time.monotonic() > end and not late:
            late = True
            os.kill(pid, signal.SIGKILL)
        time.sleep(pause)
        pause = min(pause * 1.5, 0.02)


def judge(words: Sequence[str], outcome: Outcome) -> str | None:
    """What is wrong with the end of a command that got bad input; None: nothing."""
    text = outcome.err.decode(errors="replace")
    lines = text.splitlines()
    last = (lines or [""])[-1][:300]
    if outcome.late:
        return f"still running after {WALL_S:.0f} s"
    if outcome.status < 0:
        number = signal.Signals(-outcome.status)
        if words[:2] == ("decode", "babeltrace2") and number == signal.SIGABRT and KNOWN_ABORT.search(text):
            return None
        said = f"more than {CPU_S} s of processor time" if number in (signal.SIGXCPU,) else number.name
        return f"ended by {said}: {last}"
    if "ERROR: AddressSanitizer" in text or "runtime error: " in text:
        return next(line for line in lines if "AddressSanitizer" in line or "runtime error: " in line)
    if outcome.status == CRASHED or "Traceback (most recent call last)" in text:
        place = [line.strip() for line in lines if line.startswith('  File "')][-1:]
        return f"traceback: {last} {place}"
    if outcome.status not in (0, 2) and not (words[0] == "compare" and outcome.status == 1):
        return f"status {outcome.status}: {last}"
    if outcome.status == 2 and (len(lines) != 1 or not text.startswith("occa_prof") or len(lines[0]) > 1000):
        return f"status 2 with {len(lines)} lines: {text[:400]!r}"
    if outcome.status == 2 and len(lines[0].partition(": ")[2]) < 10:
        return f"status 2 without a reason: {text!r}"
    for name, content in (("output", outcome.out), ("message", outcome.err)):
        if found := re.search(rb"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f]", content):
            return f"control character {found[0]!r} in the {name}"
    if outcome.resident > RESIDENT:
        return f"{outcome.resident >> 20} MiB of memory"
    return None


def call_in_child(work: Callable[[], None], folder: Path) -> None:
    """Call `work`, which writes files, where it may use threads and libraries that the parent must not use."""
    pid = os.fork()
    if pid == 0:
        try:
            os.chdir(folder)
            work()
            os._exit(0)
        except BaseException:
            traceback.print_exc()
            os._exit(1)
    _, status = os.waitpid(pid, 0)
    if status:
        raise RuntimeError(f"a child ended with {status}")
