"""Known answers on a real CUDA device; skipped as a whole where there is none."""

from __future__ import annotations

import csv
import os
import shutil
import statistics
import subprocess
from pathlib import Path

import pytest

from tests.gpu.programs import build_known, program
from tests.support import runs
from tests.support.suites.cuda import Traced


@pytest.fixture(scope="module")
def known(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The program; without a device nothing here can run."""
    found = program("known", build_known, tmp_path_factory.mktemp("gpu"))
    if subprocess.run([found, "probe"], capture_output=True, check=False).returncode != 0:
        pytest.skip("no CUDA device here")
    return found


@pytest.fixture(params=["cupti", "events"])
def how(request: pytest.FixtureRequest) -> str:
    """By what device work is timed."""
    result: str = request.param
    return result


def profiled(folder: Path, how: str, *command: object) -> Traced:
    """The program under occa_prof."""
    return runs.profiled(Traced, folder / "run", [str(word) for word in command], "--device-time", how)


def test_durations_are_those_of_the_programs_own_events(known: Path, tmp_path: Path, how: str) -> None:
    run = profiled(tmp_path, how, known, "series", 200, 1_000_000)
    assert run.status == 0, run.stdout
    # The program's events are recorded around each kernel: what lies between them is more, by little.
    own = [int(line) for line in run.stdout.split()]
    ours = [end - start for start, end in run.sql(
        "SELECT start_ns, end_ns FROM activities WHERE kind = 'kernel' AND name = 'spin' ORDER BY start_ns"
    )][1:]  # fmt: skip
    assert len(ours) == len(own) == 200
    assert min(ours) >= 990_000
    middle = sorted(abs(a - b) for a, b in zip(ours, own, strict=True))[100]
    # On the fake driver the events lie as far from the kernel as the machine takes to wake its threads.
    fake = run.sql("SELECT count(*) FROM devices WHERE name LIKE 'Fake GPU%'") != [(0,)]
    assert middle <= (500_000 if fake else 20_000)


def test_durations_are_those_of_the_vendors_own_tool(known: Path, tmp_path: Path, how: str) -> None:
    nsys = shutil.which("nsys")
    if nsys is None:
        pytest.skip("no nsys here")
    report, words = str(tmp_path / "theirs.nsys-rep"), [str(known), "series", "200", "1000000"]
    subprocess.run([nsys, "profile", "--trace=cuda", "-o", report, *words], check=True, capture_output=True)
    command = [nsys, "stats", "--report", "cuda_gpu_trace", "--format", "csv", report]
    told = subprocess.run(command, check=True, capture_output=True, text=True).stdout.splitlines()
    header = next(at for at, line in enumerate(told) if line.startswith("Start"))
    theirs = [int(row["Duration (ns)"]) for row in csv.DictReader(told[header:]) if "spin" in row["Name"]]
    run = profiled(tmp_path, how, *words)
    ours = [ns for (ns,) in run.sql("SELECT end_ns - start_ns FROM activities WHERE name = 'spin'")]
    assert len(ours) == len(theirs) >= 200
    assert abs(statistics.median(ours) - statistics.median(theirs)) <= max(1_000, 0.02 * 1_000_000)


def test_no_kernel_is_missing(known: Path, tmp_path: Path, how: str) -> None:
    run = profiled(tmp_path, how, known, "many", 100_000)
    assert run.sql("SELECT count(*) FROM activities WHERE name = 'empty'") == [(100_000,)]
    assert run.sql("SELECT count(*) FROM losses") == [(0,)]


def test_what_a_launch_costs(known: Path, tmp_path: Path, how: str) -> None:
    """Told, not judged: `-s` shows it."""
    for series in ("many", "bursts"):
        native = subprocess.run(
            [known, series, "100000"], capture_output=True, text=True, check=True, env=dict(os.environ)
        )
        run = profiled(tmp_path / series, how, known, series, 100_000)
        print(f"\nns per launch, {series}, {how}: {native.stdout.strip()} untraced, {run.stdout.strip()} traced")
        assert run.status == 0
