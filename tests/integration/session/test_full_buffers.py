"""A program that makes events faster than they are read: its calls are counted, until there is room again."""

from __future__ import annotations

import os
import signal
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

import occatrace
from tests.integration.session.test_command import info
from tests.integration.session.test_stream import setting
from tests.support.suites.session import OCCA_PROF, ROOT, Person, processes_named, wait_for

THREADS = 4
MANY, FEW = 400_000, 10  # pairs of calls in each thread; many are far more than the buffers hold
SUMS = "SELECT function, sum(calls)::BIGINT, sum(failed)::BIGINT FROM call_stats WHERE api = 'opencl' GROUP BY ALL"


@pytest.fixture(scope="module")
def programs() -> Iterator[Path]:
    """The folder of the traced programs, where everybody can run them."""
    with tempfile.TemporaryDirectory(prefix="occa-full-") as name:
        Path(name).chmod(0o755)
        for program in ("crowd", "amid"):
            source = ROOT / f"tests/programs/session/{program}.c"
            subprocess.run(["gcc", "-O1", "-o", Path(name) / program, source, "-lOpenCL", "-lpthread"], check=True)
        yield Path(name)


@pytest.fixture
def crowd(programs: Path) -> Path:
    """The program of the first test."""
    return programs / "crowd"


@pytest.mark.parametrize("options", [(), ("--stream",)])
def test_calls_without_room_are_counted(user: Person, folder: Path, crowd: Path, options: tuple[str, ...]) -> None:
    command = [*OCCA_PROF, "-q", "-m", "full", *options, "-o", str(folder / "run"), str(crowd)]
    running = user.start(command, env=setting(folder), stdin=subprocess.PIPE, stderr=subprocess.PIPE)
    assert running.stdin and running.stdout and running.stdout.readline() == "ready\n"

    def make(calls: int) -> None:
        assert running.stdin and running.stdout
        running.stdin.write(f"{calls}\n")
        running.stdin.flush()
        assert running.stdout.readline() == "done\n"

    run = info(folder / "run")
    (reader,) = processes_named(run["id"], "lttng-consumerd")
    make(FEW)
    os.kill(reader, signal.SIGSTOP)
    try:
        make(MANY)
    finally:
        os.kill(reader, signal.SIGCONT)

    def recording() -> bool:
        with occatrace.open(folder / "run") as partial:
            return any(line.startswith("the buffers were full") for line in partial.losses.lines())

    wait_for(recording)
    make(FEW)
    _, error = running.communicate(timeout=300)
    assert running.returncode == 0, error

    with occatrace.open(folder / "run") as opened:
        losses = opened.losses
        sums = {name: (calls, failed) for name, calls, failed in opened.sql(SUMS).fetchall()}
        finishes = opened.sql("SELECT count(*) FROM calls WHERE \"function\" = 'clFinish'").fetchall()[0]
    pairs = THREADS * (MANY + 2 * FEW)
    assert sums["clRetainContext"] == sums["clReleaseContext"] == (pairs, 0)
    assert sums["clFinish"] == (3 * THREADS, 0)
    # Those of the few calls before and after are events; of the many, at most those that came before the buffers were full.
    assert 2 * THREADS <= finishes[0] <= 3 * THREADS
    assert (losses.events, losses.unfinished) == (0, [])
    (line,) = [line for line in losses.lines() if line.startswith("the buffers were full")]
    assert "only counted" in line


@pytest.mark.parametrize(
    ("how", "status", "after_ms", "turns"),
    [
        ("_exit", 8, 200, 3),
        ("quick_exit", 8, 200, 3),
        ("return", 8, 200, 3),
        ("return", 8, 1, 20),
        ("abort", 134, 200, 3),
    ],
)
def test_the_end_amid_calls_of_other_threads(
    user: Person, folder: Path, programs: Path, how: str, status: int, after_ms: int, turns: int
) -> None:
    """A thread that is ended while it writes an event leaves a part of a buffer that nobody can read, and what lies behind it.

    One that goes on at the end must not need what the destructors take away, and one that has just begun is written of.
    """
    for turn in range(turns):
        run = folder / f"run{turn}"
        done = user.run(
            [*OCCA_PROF, "-q", "-m", "full", "-o", str(run), str(programs / "amid"), how, str(after_ms)],
            env=setting(folder),
        )
        assert done.returncode == status, done.stderr
        with occatrace.open(run) as opened:
            losses = opened.losses
        assert (losses.events, losses.killed, losses.end_unknown) == (0, [], [])


def test_the_run_after_one_that_was_killed_amid_calls(person: Person, folder: Path, programs: Path) -> None:
    """LTTng's daemon, which another run of root uses too, does not wait for ever for the buffers of the killed one to go."""
    command = [*OCCA_PROF, "-q", "-m", "full", "-o"]
    for turn in range(3):
        killed = person.run(
            [*command, str(folder / f"killed{turn}"), str(programs / "amid"), "kill", "200"], env=setting(folder)
        )
        assert killed.returncode == 137, killed.stderr
        after = person.run(
            [*command, str(folder / f"after{turn}"), str(programs / "amid"), "return", "1"], env=setting(folder)
        )
        assert after.returncode == 8
        assert "did not answer" not in after.stderr and "does not answer" not in after.stderr
        assert info(folder / f"after{turn}")["processes"]
