"""The device engine on its own: clocks, rings, threads (tests/programs/device/units.cpp has the checks)."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from typing import NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.generated import headers

pytestmark = pytest.mark.compiles
ROOT = Path(__file__).resolve().parents[2]
DEVICE = ROOT / "native" / "device"


CHECKS = (
    "host_clocks",
    "own_clock",
    "set_clock",
    "in_order",
    "out_of_order",
    "many_threads",
    "clamped",
    "timed_by_host",
    "handle_map",
)


def compiled(folder: Path, *more: str) -> Path:
    program = folder / "units"
    sources = [ROOT / "tests/programs/device/units.cpp", DEVICE / "clock.cpp", DEVICE / "engine.cpp"]
    options = ["-std=c++17", "-O1", "-g", "-Wall", "-Wextra", "-lpthread", *more]
    options += [f"-I{folder}" for folder in (DEVICE, ROOT / "native/emit", headers())]
    subprocess.run(["g++", "-o", str(program), *map(str, sources), *options], check=True)
    return program


@pytest.fixture(scope="session")
def units(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return compiled(tmp_path_factory.mktemp("device"))


@pytest.mark.parametrize("check", CHECKS)
def test_device_engine(units: Path, check: str) -> None:
    done = subprocess.run([units, check], capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("sanitizer", ["address,undefined", "thread"])
def test_the_engine_under_sanitizers(sanitizer: str, tmp_path: Path) -> None:
    program = compiled(tmp_path, f"-fsanitize={sanitizer}", "-fno-sanitize-recover=undefined")
    # Tables of handles that were replaced stay, as readers take no lock: leaks are no faults.
    env = {**os.environ, "ASAN_OPTIONS": "detect_leaks=0"}
    for check in CHECKS:
        # Without random addresses: ThreadSanitizer knows where things may lie.
        done = subprocess.run(
            ["setarch", "-R", program, check], capture_output=True, text=True, timeout=300, check=False, env=env
        )
        assert (done.returncode, done.stdout, done.stderr) == (0, "", ""), check


class Placed(NamedTuple):
    """One command as it was recorded, and when it really began and ended."""

    number: int
    queued: int
    start: int
    end: int
    began: int
    ended: int


def placed(units: Path, steps: list[str]) -> list[Placed]:
    """What the engine records of the commands of a queue in order; the steps are explained in units.cpp."""
    done = subprocess.run(
        [units, "placing"], input="\n".join(steps), capture_output=True, text=True, timeout=300, check=True
    )
    return [Placed(*map(int, line.split())) for line in done.stdout.splitlines()]


def test_commands_whose_clock_is_late_are_moved_together(units: Path) -> None:
    # The reading says that it was up to 4 ms later than it was: all are placed 2 ms late, beyond the moment of their harvest.
    steps = ["clock 0 4000000", *["run 1000 1000000"] * 5, "at 5005000", "harvest"]
    rows = placed(units, steps)
    assert [row.end - row.start for row in rows] == [1_000_000] * 5
    assert all(after.start >= before.end for before, after in zip(rows, rows[1:], strict=False))
    assert rows[0].start >= rows[0].queued and rows[-1].end <= rows[-1].ended


def test_commands_follow_one_that_was_placed_too_late(units: Path) -> None:
    # A better reading comes when the first has been recorded, up to 2 ms too late.
    late = ["clock 0 4000000", "run 0 1000000", "at 4000000", "harvest"]
    rows = placed(units, [*late, "clock 100 100", *["run 0 1000000"] * 3, "at 3000000", "harvest"])
    assert [row.end - row.start for row in rows] == [1_000_000] * 4
    assert all(after.start >= before.end for before, after in zip(rows, rows[1:], strict=False))


def test_a_command_recorded_long_after_keeps_its_length(units: Path) -> None:
    # It lies between a reading that is 2 ms late and good ones; those that came last are good.
    good = ["clock 100 100", "at 120000000"]
    rows = placed(units, ["clock 0 4000000", "at 10000000", "run 0 1000000", "at 110000000", *good * 4, "harvest"])
    assert [row.end - row.start for row in rows] == [1_000_000]


STEPS = st.one_of(
    st.integers(0, 5_000_000).map("at {}".format),
    st.integers(50_000_000, 150_000_000).map("at {}".format),
    st.tuples(st.integers(0, 3_000_000), st.integers(0, 3_000_000)).map(lambda ns: "clock {} {}".format(*ns)),
    st.tuples(st.sampled_from([0, 0, 1000, 100_000]), st.integers(0, 3_000_000)).map(
        lambda ns: "run {} {}".format(*ns)
    ),
    st.just("harvest"),
)


@settings(deadline=None, max_examples=300)
@given(steps=st.lists(STEPS, max_size=60))
def test_commands_of_a_queue_in_order_never_overlap(units: Path, steps: list[str]) -> None:
    rows = placed(units, ["clock 1000 1000", *steps])
    assert [row.number for row in rows] == list(range(sum(step.startswith("run") for step in steps)))
    widths = [sum(map(int, step.split()[1:])) for step in steps if step.startswith("clock")]
    unsure = 2 * max(widths, default=0) + 2000
    for before, after in zip(rows, rows[1:], strict=False):
        assert after.start >= before.end
    for row in rows:
        assert row.queued <= row.start <= row.end
        # How long it took does not depend on the readings; when it was, no more than they leave open.
        assert row.end - row.start == row.ended - row.began
        assert abs(row.start - row.began) <= unsure
