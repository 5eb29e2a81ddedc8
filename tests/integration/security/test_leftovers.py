"""The sweep of what killed runs left, and the rescue of their last events: what is not the caller's own is not touched."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from occatrace.cli.dispatch import main
from occatrace.lttng import recovery
from occatrace.record import daemon, job
from occatrace.run.folder import read_run
from tests.support.suites.security import untouched

Give = Callable[[Path], Path]
OLD = (1, 1)


@pytest.fixture
def run_id() -> str:
    return os.urandom(4).hex()


@pytest.fixture
def buffers(run_id: str) -> Iterator[Path]:
    path = Path(f"/dev/shm/occatrace-{os.geteuid()}-{run_id}")
    (path / "buffers").mkdir(parents=True)
    path.chmod(0o700)
    (path / "buffers" / "ring").write_text("events")
    yield path
    shutil.rmtree(path, ignore_errors=True)


def killed_run(folder: Path, run_id: str, **facts: Any) -> Path:
    """As everything that recorded it was killed."""
    (folder / "trace" / "h").mkdir(parents=True)
    folder.chmod(0o700)
    known = {"schema": 1, "program": ["x"], "id": run_id, "ended": None, "host": "h"}
    (folder / "run.json").write_text(json.dumps(known | facts))
    return folder


def sockets_of(place: Path, run_id: str, run: Path, uid: int | None = None) -> Path:
    folder = place / f"occatrace-{os.geteuid() if uid is None else uid}-{run_id}-aaaaaaaa"
    folder.mkdir(mode=0o700)
    (folder / "run").symlink_to(run)
    os.utime(folder, OLD)
    return folder


def notes(run: Path) -> list[str]:
    """What was noted of events from buffers."""
    found: list[str] = json.loads((run / "run.json").read_text()).get("notes", [])
    return [note for note in found if note != recovery.KILLED]


def test_the_callers_own_are_rescued_and_swept(
    tmp_path: Path, place: Path, buffers: Path, crash_tool: Path, run_id: str
) -> None:
    run = killed_run(tmp_path / "run", run_id)
    daemon.mark_buffers(buffers, run)
    sockets = sockets_of(place, run_id, run)
    daemon.sweep(place)
    assert not sockets.exists() and not buffers.exists()
    assert (run / "trace" / "h" / "ust" / "stream_0").read_text() == "found"
    assert notes(run) == ["everything was killed at once: the last 5 bytes of the trace come from its buffers"]


def test_a_run_that_is_removed_while_it_is_rescued(
    tmp_path: Path, place: Path, buffers: Path, run_id: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever sweeps is about to start a run of its own, which starts all the same."""
    run = killed_run(tmp_path / "run", run_id)
    sockets = sockets_of(place, run_id, run)

    def rescue(run: Path) -> None:
        shutil.rmtree(run)
        read_run(run)

    monkeypatch.setattr(recovery, "rescue", rescue)
    daemon.sweep(place)
    assert not sockets.exists() and not buffers.exists()


def test_folders_of_others_are_not_swept(
    tmp_path: Path, place: Path, buffers: Path, victim: Path, crash_tool: Path, run_id: str, give: Give
) -> None:
    """A stranger makes what looks like a leftover of ours, with a link to a run of his, whose trace is a link to ours."""
    run = killed_run(place / "evil", run_id)
    shutil.rmtree(run / "trace" / "h")
    (run / "trace" / "h").mkdir()
    (run / "trace" / "h" / "ust").symlink_to(victim)
    daemon.mark_buffers(buffers, run)
    sockets = give(sockets_of(place, run_id, run))
    give(run)
    os.utime(sockets, OLD)
    before = (run / "run.json").read_text()
    daemon.sweep(place)
    assert sockets.is_dir() and untouched(victim)
    assert (run / "run.json").read_text() == before
    assert (buffers / "buffers" / "ring").exists()


def test_a_link_in_the_place_of_a_leftover_is_not_followed(place: Path, victim: Path) -> None:
    link = place / f"occatrace-{os.geteuid()}-00000000-aaaaaaaa"
    link.symlink_to(victim)
    daemon.sweep(place)
    assert link.is_symlink() and untouched(victim)


@pytest.mark.parametrize("name", ["*", "????????", "[0-9a-f]*", "..", "0", "A"])
def test_no_name_is_a_pattern(place: Path, buffers: Path, name: str) -> None:
    """`*` in a name would have met all buffers of the user."""
    folder = place / f"occatrace-{os.geteuid()}-{name}-aaaaaaaa"
    folder.mkdir(mode=0o700)
    os.utime(folder, OLD)
    daemon.sweep(place)
    assert (buffers / "buffers" / "ring").exists()


def test_own_leftovers_that_lead_to_a_foreign_run(
    place: Path, buffers: Path, victim: Path, crash_tool: Path, run_id: str, give: Give
) -> None:
    """The run's folder was exchanged by the user who owns the folder in which it lay."""
    run = killed_run(place / "run", run_id)
    (run / "trace" / "h" / "ust").symlink_to(victim)
    daemon.mark_buffers(buffers, run)
    give(run)
    sockets = sockets_of(place, run_id, run)
    daemon.sweep(place)
    assert not sockets.exists(), "it is ours"
    assert untouched(victim) and notes(run) == []


def test_leftovers_of_jobs_of_others_are_not_swept(place: Path, monkeypatch: pytest.MonkeyPatch, give: Give) -> None:
    monkeypatch.setenv("TMPDIR", str(place))
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(place))
    name = f"{job.PREFIX}-{os.geteuid()}-{'0' * 12}-"
    ours, theirs = place / f"{name}aaaaaa", place / f"{name}bbbbbb"
    for folder in (ours, theirs):
        folder.mkdir(mode=0o700)
        (folder / "lock").touch()
    give(theirs)
    for folder in (ours, theirs):
        os.utime(folder, OLD)
    job.sweep()
    assert not ours.exists() and (theirs / "lock").exists()


@pytest.mark.parametrize(
    "run_id_of_stranger",
    ["x/../../../../root", "../../victim", "*", "ABCDEF01", "0123456", "0123456789", "0123456\n", "٠١٢٣٤٥٦٧"],
)
def test_the_id_of_a_run_is_no_path(
    tmp_path: Path, victim: Path, run_id_of_stranger: str, capsys: pytest.CaptureFixture[str]
) -> None:
    shm = tmp_path / "shm"
    (shm / f"occatrace-{os.geteuid()}-x").mkdir(parents=True)
    evil = killed_run(tmp_path / "evil", run_id_of_stranger, session={"shm": str(shm)})
    assert main(["report", str(evil)]) == 2
    said = capsys.readouterr().err
    assert said.count("\n") == 1 and "run.json is damaged: id is " in said
    assert untouched(victim)


def test_buffers_of_a_run_serve_no_other_that_has_its_id(
    tmp_path: Path, buffers: Path, crash_tool: Path, run_id: str
) -> None:
    """A copy of a run, or a run of a stranger who knows the id, neither gets them nor removes them."""
    run, copy = killed_run(tmp_path / "run", run_id), killed_run(tmp_path / "copy", run_id)
    daemon.mark_buffers(buffers, run)
    recovery.rescue(copy)
    assert (buffers / "buffers" / "ring").exists() and notes(copy) == []
    moved = run.rename(tmp_path / "moved")
    recovery.rescue(moved)
    assert not buffers.exists() and len(notes(moved)) == 1


def test_buffers_that_are_not_the_callers_are_left(
    tmp_path: Path, buffers: Path, crash_tool: Path, run_id: str, give: Give
) -> None:
    run = killed_run(tmp_path / "run", run_id)
    daemon.mark_buffers(buffers, run)
    give(buffers)
    recovery.rescue(run)
    assert (buffers / "buffers" / "ring").exists() and notes(run) == []


@pytest.mark.parametrize("where", ["trace/h", "trace/h/ust", "trace/h/ust/metadata", "trace/h/ust/stream_0"])
def test_a_run_with_links_is_not_written_to(
    tmp_path: Path, buffers: Path, victim: Path, crash_tool: Path, run_id: str, where: str
) -> None:
    run = killed_run(tmp_path / "run", run_id)
    daemon.mark_buffers(buffers, run)
    link = run / where
    if link.is_dir():
        link.rmdir()
    link.parent.mkdir(parents=True, exist_ok=True)
    link.symlink_to(victim / link.name if link.name in ("metadata", "stream_0") else victim)
    recovery.rescue(run)
    assert untouched(victim)
    # Beside a link that is the trace of another machine there may be one of this.
    assert len(notes(run)) == (where == "trace/h")
