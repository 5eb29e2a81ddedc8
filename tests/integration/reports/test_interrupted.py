"""Ctrl-C, or SIGTERM, while the tables of a run are made or its pages are written: nothing is left half done."""

from __future__ import annotations

import contextlib
import fcntl
import signal
import subprocess
import sys
import termios
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support import runs

COMMANDS = {
    "report": ("report",),
    "query": ("query", "SELECT count(*) FROM processes"),
    "timeline": ("timeline", "-o"),
    "export": ("export", "-o"),
}
SIGNALS = {signal.SIGINT: 130, signal.SIGTERM: 143}


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run without tables."""
    folder = tmp_path_factory.mktemp("recorded") / "run"
    run = runs.profiled(runs.Run, folder, [sys.executable, "-c", "import json"], "-q")
    assert run.status == 0, run.stderr
    return folder


def start(*words: object) -> subprocess.Popen[str]:
    command = [*runs.OCCA_PROF, *map(str, words)]
    return subprocess.Popen(command, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE)


def until(condition: Callable[[], object], process: subprocess.Popen[str]) -> None:
    end = time.monotonic() + runs.PATIENCE
    while not condition():
        assert process.poll() is None and time.monotonic() < end
        time.sleep(0.01)


def has_open(process: subprocess.Popen[str], file: Path) -> bool:
    """Whether a process has a file open."""
    found = []
    for link in Path(f"/proc/{process.pid}/fd").iterdir():
        with contextlib.suppress(OSError):
            found.append(link.readlink())
    return file.resolve() in found


def interrupt(process: subprocess.Popen[str], number: signal.Signals) -> None:
    process.send_signal(number)
    _, errors = process.communicate(timeout=runs.PATIENCE)
    assert process.returncode == SIGNALS[number], errors
    assert "Traceback" not in errors


@pytest.mark.parametrize("number", SIGNALS)
@pytest.mark.parametrize("command", COMMANDS)
def test_before_the_tables(recorded: Path, tmp_path: Path, command: str, number: signal.Signals) -> None:
    name, *rest = COMMANDS[command]
    out = tmp_path / "out"
    words = [name, recorded, *rest, *([out] if rest == ["-o"] else [])]
    with (recorded / ".tables.lock").open("w") as lock:
        # Another one makes the tables: it is waited for.
        fcntl.flock(lock, fcntl.LOCK_EX)
        process = start(*words)
        until(lambda: has_open(process, recorded / ".tables.lock"), process)
        interrupt(process, number)
    assert not out.exists()
    assert not (recorded / "tables").exists()
    assert not list(recorded.glob(".scratch*")) and not list(recorded.glob("tables*"))


def test_while_it_writes(recorded: Path) -> None:
    # A page is larger than a pipe, and nobody reads it.
    process = start("report", recorded, "--format", "html")
    assert process.stdout
    pipe = process.stdout.fileno()
    capacity = fcntl.fcntl(pipe, fcntl.F_SETPIPE_SZ, 4096)

    def is_full() -> bool:
        waiting = fcntl.ioctl(pipe, termios.FIONREAD, b"\0" * 4)
        return int.from_bytes(waiting, sys.byteorder) == capacity

    until(is_full, process)
    interrupt(process, signal.SIGINT)
    assert not list(recorded.glob(".scratch*"))
    # The tables were complete.
    done = runs.execute([*runs.OCCA_PROF, "query", recorded, "SELECT count(*) AS n FROM processes", "--format", "csv"])
    assert done.stdout.split() == ["n", "1"], done.stderr
