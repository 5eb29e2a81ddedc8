"""Known answers on a real device of Level Zero; skipped as a whole where there is none. On the fake driver of tests/integration/ze
these tests run with ZE_ENABLE_ALT_DRIVERS."""

from __future__ import annotations

import subprocess
from pathlib import Path
from statistics import median

import pytest

from tests.gpu.programs import build_known_ze, program
from tests.support import runs


@pytest.fixture(scope="module")
def known(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The program; without a device nothing here can run."""
    try:
        found = program("known_ze", build_known_ze, tmp_path_factory.mktemp("ze"))
    except (OSError, subprocess.CalledProcessError):
        pytest.skip("no compiler, or no headers and loader of Level Zero (libze-dev) here")
    if subprocess.run([found, "probe"], capture_output=True, check=False).returncode != 0:
        pytest.skip("no Level Zero device here")
    return found


def profiled(folder: Path, *command: object) -> runs.Run:
    """The program under occa_prof."""
    return runs.profiled(runs.Run, folder / "run", [str(word) for word in command])


def test_durations_are_those_of_the_programs_own_events(known: Path, tmp_path: Path) -> None:
    run = profiled(tmp_path, known, "copies", 100, 1 << 20)
    assert run.status == 0, run.stderr
    own = [int(line) for line in run.stdout.split()]
    rows = run.sql("SELECT end_ns - start_ns, bytes, kind FROM activities ORDER BY start_ns")
    assert len(rows) == len(own) == 100 and {row[1:] for row in rows} == {(1 << 20, "HtoD")}
    # Both read the same timestamps: the length of a cycle is rounded to ns in one of the two forms in which a driver tells it.
    worst = [abs(ours - theirs) / max(theirs, 1) for (ours, _, _), theirs in zip(rows, own, strict=True)]
    assert median(worst) <= 0.05


def test_no_command_is_missing(known: Path, tmp_path: Path) -> None:
    run = profiled(tmp_path, known, "many", 10_000)
    assert run.status == 0, run.stderr
    assert run.sql("SELECT kind, count(*), sum(bytes) FROM activities GROUP BY 1") == [("fill", 10_000, 10_000 * 4096)]
    assert run.sql("SELECT count(*) FROM losses") == [(0,)]
    assert "have no duration" not in run.stderr


def test_memory(known: Path, tmp_path: Path) -> None:
    run = profiled(tmp_path, known, "many", 1)
    assert run.sql("SELECT api, kind, bytes, free_function FROM allocations") == [("ze", "device", 4096, "zeMemFree")]
