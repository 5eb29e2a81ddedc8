"""Runs that were cut off: each is read, or its message says what became of it; what was left in them goes."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from occatrace import errors
from occatrace.core import scratch
from occatrace.lttng import recovery
from occatrace.run import folder as runs
from occatrace.store import tables
from tests.support import ctf

NOBODY = int(Path("/proc/sys/kernel/pid_max").read_text()) + 1  # no process has this number


def make(folder: Path, **facts: Any) -> runs.Run:
    return runs.create(folder / "run", runs.RunInfo(program=("p",), id="00000000", **facts))


def read(run: Path) -> dict[str, Any]:
    with tables.open_store(run) as store:
        return dict(store.losses(runs.run_facts(run)).as_json())


def without_events(trace: Path) -> None:
    """What LTTng leaves of a process that ended before its first event."""
    trace.mkdir(parents=True)
    (trace / "metadata").write_text(ctf.HEAD)
    (trace / "occatrace_0").write_bytes(b"")


def test_a_process_that_ended_before_its_first_event(tmp_path: Path) -> None:
    run = make(tmp_path, ended="now", processes=(7,))
    without_events(run.trace / "host" / "ust/uid/0/64-bit")
    lost = read(run.path)
    assert (lost["missing"], lost["problems"], lost["killed"], lost["notes"]) == ([7], [], [], [])


def test_a_process_that_ended_before_lttng_made_a_trace(tmp_path: Path) -> None:
    run = make(tmp_path, ended="now", processes=(7,))
    (run.trace / "host" / "ust").mkdir(parents=True)
    lost = read(run.path)
    assert (lost["missing"], lost["problems"]) == ([7], [])
    with tables.open_store(run.path) as store:
        assert store.functions() == ()


def test_killed_before_anything_was_recorded(tmp_path: Path) -> None:
    run = make(tmp_path)
    with pytest.raises(errors.StoreError, match="occa_prof was killed before the program's first traced call"):
        tables.open_store(run.path)


def test_killed_while_it_recorded(tmp_path: Path) -> None:
    run = make(tmp_path)
    without_events(run.trace / "host" / "ust/uid/0/64-bit")
    for _ in range(2):
        assert read(run.path)["notes"] == [recovery.KILLED]


def test_a_trace_that_was_removed(tmp_path: Path) -> None:
    run = make(tmp_path, ended="now", processes=(7,))
    with pytest.raises(errors.StoreError, match="neither tables nor a trace in it"):
        tables.open_store(run.path)


def test_what_a_killed_analysis_left_goes(tmp_path: Path) -> None:
    run = make(tmp_path, ended="now", processes=(7,))
    without_events(run.trace / "host" / "ust/uid/0/64-bit")
    (run.path / "nodes").mkdir()
    others = run.path / f".scratch-elsewhere-{NOBODY}-x"
    places = [run.path / place for place in scratch.PLACES]
    names = [scratch.prefix().rpartition("-")[0].rpartition("-")[0] + f"-{NOBODY}-{what}" for what in ("abc", "tables")]
    for left in (others, *(place / name for place in places for name in names)):
        left.mkdir()
    tables.open_store(run.path).close()
    assert [path for path in run.path.rglob(".*") if path.is_dir()] == [others]


def test_nothing_of_an_analysis_is_left_when_it_is_killed_and_made_again(tmp_path: Path) -> None:
    """Killed where the tables are written, and where they replace older ones."""
    run = make(tmp_path, ended="now", processes=(7,))
    without_events(run.trace / "host" / "ust/uid/0/64-bit")
    for place in ("captures.make", "tables._put_in_place"):
        script = f"""if True:
            import os, sys
            from pathlib import Path
            from occatrace.store import captures, tables
            def killed(*words):
                os.kill(os.getpid(), 9)
            {place} = killed
            tables.open_store(Path(sys.argv[1]))
        """
        done = subprocess.run([sys.executable, "-c", script, run.path], capture_output=True, timeout=300)
        assert done.returncode == -9, done.stderr
        assert any(run.path.glob(".scratch-*"))
        tables.open_store(run.path).close()
        assert sorted(path.name for path in run.path.iterdir()) == [".tables.lock", "run.json", "tables", "trace"]
        subprocess.run(["rm", "-r", run.tables], check=True)
