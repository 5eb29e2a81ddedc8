"""What other programs used of the processors, from the counters of the system."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from occatrace.record.other_load import OtherLoad


class Clock:
    """Times as a test sets them, in seconds."""

    now = 0.0
    own = 0.0

    def monotonic(self) -> float:
        return self.now

    def times(self) -> os.times_result:
        return os.times_result((self.own, 0.0, 0.0, 0.0, self.now))


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(time, "monotonic", clock.monotonic)
    monkeypatch.setattr(os, "times", clock.times)
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 2})
    monkeypatch.setattr(os, "sysconf", lambda _: 100)
    return clock


def stat(busy: tuple[int, int, int]) -> str:
    lines = [f"cpu{n} {ticks} 0 0 9000 70 0 0 0 5 0\n" for n, ticks in enumerate(busy)]
    return f"cpu  {sum(busy)} 0 0 27000 210 0 0 0 15 0\n{''.join(lines)}intr 1\n"


@pytest.mark.parametrize(
    ("busy", "own", "share"),
    [((1000, 0, 0), 10.0, 0.0), ((1000, 999, 500), 10.0, 0.25), ((1000, 0, 1000), 0.0, 1.0), ((0, 0, 0), 3.0, 0.0)],
)
def test_what_others_used_of_our_processors(
    busy: tuple[int, int, int], own: float, share: float, clock: Clock, tmp_path: Path
) -> None:
    """Of 10 s of the processors 0 and 2; what happens on processor 1 is nothing to us."""
    path = tmp_path / "stat"
    path.write_text(stat((0, 0, 0)))
    load = OtherLoad(path)
    path.write_text(stat(busy))
    clock.now, clock.own = 10.0, own
    assert load.share() == pytest.approx(share)


@pytest.mark.parametrize("text", [None, "cpu0 1 x\n", "cpu0 1\n"])
def test_a_system_that_does_not_say(text: str | None, clock: Clock, tmp_path: Path) -> None:
    path = tmp_path / "stat"
    path.write_text(stat((0, 0, 0)))
    load = OtherLoad(path)
    clock.now = 1.0
    path.unlink() if text is None else path.write_text(text)
    assert load.share() is None
