"""The program is started where processes are scarce: those of LTTng's daemon that have just ended still count."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, cast

import pytest

from occatrace.cli import program, run


class Scarce:
    """No process is to be had for so many times."""

    def __init__(self, times: int) -> None:
        self.left = times

    def spawn(self, path: Path, *_: Any) -> int:
        self.left -= 1
        if self.left >= 0:
            raise program.NoProcess(f"{path}: Resource temporarily unavailable", program.NOT_EXECUTABLE)
        return 4711


@pytest.mark.parametrize("times", [0, 1, 3])
def test_a_process_is_had_later(monkeypatch: pytest.MonkeyPatch, times: int) -> None:
    monkeypatch.setattr(program, "spawn", Scarce(times).spawn)
    assert run.spawn_alone(Path("app"), ["app"], cast(program.SignalGuard, None)) == 4711


def test_a_process_is_never_had(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run, "_ENDED_S", 0.1)
    monkeypatch.setattr(program, "spawn", Scarce(1 << 20).spawn)
    with pytest.raises(program.NoProcess):
        run.spawn_alone(Path("app"), ["app"], cast(program.SignalGuard, None))


def test_another_error_is_one_at_once(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    tries = []

    def fails(path: Path, *_: Any) -> int:
        tries.append(path)
        raise program.ProgramError(f"{path}: {os.strerror(13)}", program.NOT_EXECUTABLE)

    monkeypatch.setattr(program, "spawn", fails)
    with pytest.raises(program.ProgramError):
        run.spawn_alone(tmp_path / "app", ["app"], cast(program.SignalGuard, None))
    assert len(tries) == 1


def test_a_child_that_has_ended_makes_room(monkeypatch: pytest.MonkeyPatch) -> None:
    """It counts as a process until somebody has waited for it: the keeper of a daemon may end after we have stopped waiting."""
    child = os.posix_spawn("/bin/true", ["true"], {})

    def spawn(path: Path, *_: Any) -> int:
        if Path(f"/proc/{child}").exists():
            raise program.NoProcess(f"{path}: Resource temporarily unavailable", program.NOT_EXECUTABLE)
        return 4711

    monkeypatch.setattr(program, "spawn", spawn)
    assert run.spawn_alone(Path("app"), ["app"], cast(program.SignalGuard, None)) == 4711
