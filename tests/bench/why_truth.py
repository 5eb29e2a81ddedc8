"""The critical path of programs that know what delays them; run by `python -m pytest tests/bench/why_truth.py`. Delays are sleeps, and
what is asserted are names and lower bounds
well below what the sleeps take, so that a busy machine changes nothing."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.support.runs import OCCA_PROF, ROOT, execute

PROGRAMS = ROOT / "tests" / "programs" / "why"
MPIRUN = ("mpirun.openmpi", "--allow-run-as-root", "--oversubscribe", "-n", "4")
Build = Callable[..., Path]


@pytest.fixture(scope="module")
def build(tmp_path_factory: pytest.TempPathFactory) -> Build:
    folder = tmp_path_factory.mktemp("why")

    def compiled(compiler: str, name: str, *options: str) -> Path:
        if shutil.which(compiler) is None:
            pytest.skip(f"{compiler} is not there (tools/setup --test)")
        command = [compiler, "-O1", "-g", "-o", str(folder / name), str(PROGRAMS / f"{name}.c"), *options]
        subprocess.run(command, check=True)
        return folder / name

    return compiled


def why(run: Path, *changes: str) -> dict[str, Any]:
    options = [word for change in changes for word in ("--what-if", change)]
    done = execute([*OCCA_PROF, "why", run, "--format", "json", *options])
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    assert found["path_ns"] == pytest.approx(found.get("predicted_ns", found["wall_ns"]), rel=0.01)
    return found


def recorded(run: Path, *command: object, launcher: tuple[str, ...] = ()) -> Path:
    done = execute([*launcher, *OCCA_PROF, "-q", "-o", run, *command])
    assert done.returncode == 0, done.stderr
    return run


def test_late_rank(build: Build, tmp_path: Path) -> None:
    """Rank 2 takes 300 ms before each of three barriers, the others 1 ms."""
    run = recorded(tmp_path / "run", build("mpicc.openmpi", "ranks"), 3, 1, 2, 300, launcher=MPIRUN)
    found = why(run)
    of_rank = [
        row for row in found["rows"] if row["kind"] == "host" and "MPI_Barrier" in row["name"] and row["rank"] == 2
    ]
    assert sum(row["time_ns"] for row in of_rank) >= 0.55e9
    # As long as the mean of the ranks: a quarter of it is left.
    assert why(run, "rank:2=mean")["predicted_ns"] <= found["wall_ns"] - 0.3e9
    assert why(run, "rank:2*0.5")["predicted_ns"] <= found["wall_ns"] - 0.2e9
    overview = execute([*OCCA_PROF, "report", run, "--report", "overview", "--format", "json"])
    rows = {row["name"]: row for row in json.loads(overview.stdout)["reports"][0]["rows"] if row["kind"] == "part"}
    assert sum(row["share"] for row in rows.values()) == pytest.approx(100.0, abs=0.01)
    waiting = rows["waiting for other ranks"]
    assert waiting["worst_rank"] != 2 and waiting["time_ns"] >= 0.3e9  # three of four ranks, 0.9 s each


def test_wait_states(build: Build, tmp_path: Path) -> None:
    """Every pattern of MPI, planted once with 200 ms: the culprit, and the time as planted."""
    run = recorded(tmp_path / "run", build("mpicc.openmpi", "waits"), 200, launcher=MPIRUN)
    done = execute([*OCCA_PROF, "report", run, "--report", "wait_states", "--format", "json"])
    rows = json.loads(done.stdout)["reports"][0]["rows"]
    planted = {("late sender", 0, 1), ("late receiver", 2, 3), ("early reduce", 0, 3)}
    planted |= {("wait at NxN", rank, 1) for rank in (0, 2, 3)} | {("late broadcast", rank, 2) for rank in (0, 1, 3)}
    long = {(row["name"], row["rank"], row["culprit_rank"]) for row in rows if row["total_ns"] > 0.15e9}
    assert planted <= long
    for row in rows:
        if (row["name"], row["rank"], row["culprit_rank"]) in planted and row["total_ns"] > 0.15e9:
            assert row["doing"] == "host code"


def test_late_thread(build: Build, tmp_path: Path) -> None:
    """One of four threads takes 200 ms in each of three regions."""
    run = recorded(tmp_path / "run", build("gcc", "team", "-fopenmp"), 3, 1, 2, 200)
    found = why(run)
    (region,) = (row for row in found["rows"] if row["kind"] == "function" and "team.c:" in row["source"])
    assert region["time_ns"] >= 0.35e9
    line = next(n for n, text in enumerate((PROGRAMS / "team.c").read_text().splitlines(), 1) if "omp parallel" in text)
    assert region["source"].endswith(f"team.c:{line}")
    assert why(run, "function*0.5")["predicted_ns"] <= found["wall_ns"] - 0.15e9


def test_chain_on_a_device(build: Build, tmp_path: Path) -> None:
    """Kernels, copies, a build and host code, one after the other; every change is what the path says of it."""
    run = recorded(tmp_path / "run", build("gcc", "chain", "-lOpenCL"), 5, 200_000, 20_000, 20, 2)
    found = why(run)
    names = {(row["kind"], row["name"]) for row in found["rows"]}
    assert {("kernel", "first"), ("build", "clBuildProgram")} <= names
    on_path: dict[str, int] = {}
    for row in found["rows"]:
        on_path[row["kind"]] = on_path.get(row["kind"], 0) + row["time_ns"]
    assert on_path["host"] >= 0.09e9  # five sleeps of 20 ms
    gain = found["wall_ns"] - why(run, "build*0")["predicted_ns"]
    assert gain == pytest.approx(on_path["build"], rel=0.05)
    both = why(run, "kernel*0", "build*0", "copy*0")
    assert both["predicted_ns"] <= found["wall_ns"] - gain
    assert not any(row["kind"] in ("kernel", "build", "copy") for row in both["rows"])


def test_counted_only(build: Build, tmp_path: Path) -> None:
    """-m tally: what cannot be told is said, and the rest is given."""
    run = recorded(tmp_path / "run", "-m", "tally", build("gcc", "chain", "-lOpenCL"), 2, 1000, 1000, 1, 1)
    found = why(run)
    assert any("-m tally" in note for note in found["notes"])
    assert found["rows"][0]["kind"] == "host"
