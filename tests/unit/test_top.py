"""The screen of `occa_prof top` at any size, and the time that work takes as the monitor adds it up."""

from __future__ import annotations

import os
import select
import signal
import sys
import termios
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from occatrace.cli.top import _LEAVE, Shown, _Terminal, screen
from occatrace.views.monitor import Busy, Device, Memory, Rank, View, Work

RANKS = [Rank(n, "node0", 100 + n, "lost" if n == 5 else "running", 1234.5, 56.7, 0.5) for n in range(12)]
VIEW = View(
    folder=Path("a-run"),
    program=("./a.out", "-n", "100"),
    mode="default",
    elapsed=3725.0,
    stretch=1.0,
    state="recording",
    status=None,
    kernels={f"kernel{n}": Work(10 * n, 1000 * n, n, 10 * n) for n in range(1, 40)},
    functions={"clFinish": Work(7, 70, 1, 10)},
    devices=[
        Device(f"a device with a long name {n}", n, 100 + n, 0.25, 0.5, Memory(1 << 20, 2 << 20, 3)) for n in range(12)
    ],
    ranks=RANKS,
    size=12,
    rates={"calls": 12345.0, "launches": 678.0, "bytes": 1 << 30, "events": 23456.0},
    trace=123456789,
    lost=0,
    threads_lost=0,
)


def lines(view: View, width: int, height: int | None, shown: Shown | None = None) -> list[str]:
    return [line.plain for line in screen(view, shown or Shown(), width, height)]


@pytest.mark.parametrize("height", [3, 6, 10, 14, 24, 50, 200])
@pytest.mark.parametrize("width", [20, 40, 80, 120, 200])
def test_sizes(width: int, height: int) -> None:
    found = lines(VIEW, width, height)
    assert len(found) == height and max(map(len, found)) <= width
    assert found[-1].startswith("q quit")
    if height >= 10 and width >= 40:
        assert any(line.startswith("kernel39") for line in found)  # most of the last interval
        assert any(line.startswith("a device") for line in found)
    if height >= 50 and width >= 120:
        text = "\n".join(found)
        assert "12 ranks, 11 running, 1 LOST" in text and "1:02:05" in text
        assert "   5  LOST" in text and "12,345 calls/s  678 launches/s  1.000 GiB/s copied" in text
        assert "Rank (12 of" not in text and "2.000 MiB" in text


def test_what_is_alarming_is_red() -> None:
    view = replace(VIEW, lost=1234, threads_lost=2)
    red = [line for line in screen(view, Shown(), 120, 40) if "red" in str(line.style)]
    assert red[0].plain.rstrip() == "LOST: 1,234 events of 2 threads: counts and times are too low"
    assert any("   5  LOST" in line.plain for line in red)
    assert not any("LOST: " in line for line in lines(VIEW, 120, 40))
    assert "PAUSED" in lines(replace(VIEW, state="paused"), 100, 24)[0]
    assert "ended, exit status 3" in lines(replace(VIEW, state="ended", status=3), 100, None)[0]


def test_order() -> None:
    view = replace(
        VIEW, devices=[], ranks=[], kernels={"b": Work(1, 500, 1, 1), "a": Work(9, 400, 0, 0), "c": Work(2, 9, 2, 9)}
    )

    def order(sort: str) -> str:
        return "".join(line[0] for line in lines(view, 80, None, Shown(sort)) if line[:2] in ("a ", "b ", "c "))

    assert [order(sort) for sort in ("time", "calls", "avg", "now", "name")] == ["bac", "acb", "bac", "cba", "abc"]
    assert any(line.startswith("clFinish") for line in lines(view, 80, 24, Shown(functions=True)))


def union(pieces: list[tuple[int, int]], begin: int = 0, end: int = 1 << 62) -> int:
    """The same by counting."""
    marked = set()
    for start, stop in pieces:
        marked |= set(range(max(start, begin), min(stop, end)))
    return len(marked)


def test_busy_time_is_a_union() -> None:
    random = np.random.default_rng(7)
    starts = np.sort(random.integers(0, 5000, 300))
    pieces = [(int(s), int(s + length)) for s, length in zip(starts, random.integers(0, 40, 300), strict=True)]
    busy = Busy()
    for at in range(0, 300, 30):
        part = pieces[at : at + 30]
        mixed = random.permutation(30)
        busy.add(np.array([part[i][0] for i in mixed]), np.array([part[i][1] for i in mixed]))
        known = pieces[: at + 30]
        assert busy.total == union(known)
        newest = part[0][0]
        assert busy.within(newest, newest + 100) == union(known, newest, newest + 100)
        busy.forget(newest - 50)  # longer than any piece: nothing later begins before it
        assert busy.total == union(known)


def test_the_terminal_is_given_back_in_the_middle_of_a_write(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(enable: bool) -> bool:
        raise RuntimeError("reentrant call inside <_io.BufferedWriter name='<stdout>'>")  # as Python does in a handler

    before = signal.getsignal(signal.SIGTSTP)
    master, slave = os.openpty()
    monkeypatch.setenv("TERM", "xterm")
    with open(slave) as keys, open(os.dup(slave), "w") as out:
        monkeypatch.setattr(sys, "stdin", keys)
        monkeypatch.setattr(sys, "stdout", out)
        settings = termios.tcgetattr(keys)
        try:
            with _Terminal() as terminal:
                assert termios.tcgetattr(keys) != settings
                monkeypatch.setattr(terminal.console, "set_alt_screen", refuse)
                terminal.leave()
                assert termios.tcgetattr(keys) == settings
        finally:
            signal.signal(signal.SIGTSTP, before)
        written = b""  # by several writes, which may come one by one
        while not written.endswith(_LEAVE) and select.select([master], [], [], 10)[0]:
            written += os.read(master, 4096)
        assert written.endswith(_LEAVE)
    os.close(master)
