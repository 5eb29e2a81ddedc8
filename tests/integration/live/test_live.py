"""occatrace.live() and its quantities in logpyle against programs that know what they did, and against the run's own tables."""

from __future__ import annotations

import json
import sqlite3
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.support import runs
from tests.support.suites.occa import ProfileOcca, occa_build

PROGRAMS = runs.ROOT / "tests" / "programs" / "live"
STEPS = PROGRAMS / "steps.py"


def steps(folder: Path, *words: object, **changes: str | None) -> tuple[runs.Run, Any]:
    pytest.importorskip("pyopencl")
    run = runs.profiled(
        runs.Run, folder / "run", [sys.executable, STEPS, *words], "-q", PYOPENCL_NO_CACHE="1", **changes
    )
    assert run.status == 0, run.stderr
    return run, json.loads(run.stdout)


def test_steps_of_a_program(tmp_path: Path) -> None:
    run, told = steps(tmp_path)
    size = told["buffer"]
    assert all(now["traced"] for now in told["seen"])
    # Counting begins with the first call.
    assert told["seen"][0]["count"] == told["seen"][0]["in_use"] == 0
    for step, now in enumerate(told["seen"][1:]):
        assert now["work"] == {"kernel": [step + 2, 0], "HtoD": [1, size], "DtoH": [1, size]}
        assert {name: count for name, (count, _) in now["kernels"].items()} == {"twice": step + 1, "shift": 1}
        assert now["moved"] == 2 * size
        assert now["in_use"] == now["high"] == (step + 1) * size
        assert 0 < now["ns"] <= now["seconds"] * 1e9
        assert now["ns"] == sum(ns for _, ns in now["kernels"].values())
    total = told["total"]
    assert total["work"] == {"kernel": [20, 0], "HtoD": [5, 5 * size], "DtoH": [5, 5 * size]}
    assert total["memory"] == [["opencl", "device", "", 5 * size, 5 * size, 5]]
    assert told["after"]["memory"] == [["opencl", "device", "", 0, 5 * size, 0]]
    assert (told["after"]["in_use"], told["after"]["high"]) == (0, 5 * size)
    # What the run says afterwards, to the nanosecond.
    kernels = run.sql("SELECT name, count(*), sum(end_ns - start_ns) FROM activities WHERE kind = 'kernel' GROUP BY 1")
    assert {name: [count, ns] for name, count, ns in kernels} == total["kernels"]
    # A child counts its own.
    assert told["child"]["traced"] and told["child"]["count"] == told["child"]["in_use"] == 0


def test_threads_at_once(tmp_path: Path) -> None:
    pytest.importorskip("pyopencl")
    command = [sys.executable, PROGRAMS / "threads.py", 4, 200]
    run = runs.profiled(runs.Run, tmp_path / "run", command, "-q", PYOPENCL_NO_CACHE="1")
    assert run.status == 0, run.stderr
    told = json.loads(run.stdout)
    assert told["right"] and told["asked"] > 0
    assert told["kernels"] == {f"k{number}": 200 for number in range(4)}
    assert told["parts"] == 800
    assert (told["in_use"], told["objects"]) == (4 * 4096, 4)
    assert told["high"] >= 4 * 4096
    assert run.sql("SELECT count(*) FROM losses") == [(0,)]


def test_from_the_begin(tmp_path: Path) -> None:
    _, told = steps(tmp_path, OCCATRACE_LIVE="1")
    assert told["seen"][0]["in_use"] == told["buffer"]
    assert told["total"]["in_use"] == 6 * told["buffer"]
    assert told["after"]["in_use"] == told["buffer"]
    assert told["total"]["seconds"] > 0


def test_without_occa_prof() -> None:
    pytest.importorskip("pyopencl")
    done = runs.execute([sys.executable, STEPS], PYOPENCL_NO_CACHE="1")
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    nothing = {"traced": False, "seconds": 0, "in_use": 0, "high": 0, "count": 0, "ns": 0, "moved": 0}
    for now in (*told["seen"], told["total"], told["after"], told["child"]):
        assert now == {**nothing, "work": {}, "kernels": {}, "memory": []}


@pytest.mark.parametrize("traced", [True, False])
def test_logpyle(tmp_path: Path, traced: bool) -> None:
    pytest.importorskip("logpyle")
    log = tmp_path / "log.sqlite"
    if traced:
        _, told = steps(tmp_path, log)
        size = told["buffer"]
    else:
        done = runs.execute([sys.executable, STEPS, log], PYOPENCL_NO_CACHE="1")
        assert done.returncode == 0, done.stderr
    with sqlite3.connect(log) as database:
        units = dict(database.execute("SELECT name, unit FROM quantities").fetchall())
        logged = {
            name: [value for (value,) in database.execute(f"SELECT value FROM {name} ORDER BY step")] for name in units
        }
    assert units == {
        "occa_memory_in_use": "B",
        "occa_memory_high_water": "B",
        "occa_kernel_time": "s",
        "occa_kernel_count": "1",
        "occa_bytes_moved": "B",
        "occa_kernel_time_twice": "s",
        "occa_kernel_count_twice": "1",
        "occa_kernel_time_shift": "s",
        "occa_kernel_count_shift": "1",
        "pool_held": "B",
        "pool_in_use": "B",
    }
    held, in_use = logged.pop("pool_held"), logged.pop("pool_in_use")
    assert in_use == [n * 2**16 for n in (1, 2, 3, 4)] + [0]
    assert all(kept >= used for kept, used in zip(held, in_use, strict=True)) and held[-1] >= 4 * 2**16
    if not traced:
        assert not any(value is not None for values in logged.values() for value in values)
        return
    assert logged["occa_kernel_count"] == [2, 3, 4, 5, 6]
    assert logged["occa_kernel_count_twice"] == [1, 2, 3, 4, 5]
    assert logged["occa_kernel_count_shift"] == [1] * 5
    assert logged["occa_bytes_moved"] == [2 * size] * 5
    # The program's own buffers, and what the pool holds.
    assert logged["occa_memory_in_use"] == [size * step + pool for step, pool in enumerate(held, 1)]
    assert logged["occa_memory_high_water"] == logged["occa_memory_in_use"]
    times = [logged[f"occa_kernel_time{of}"] for of in ("", "_twice", "_shift")]
    assert all(twice > 0 and shift > 0 for _, twice, shift in zip(*times, strict=True))
    assert sum(times[0]) == pytest.approx(told["total"]["ns"] / 1e9)
    assert sum(times[1]) == pytest.approx(told["total"]["kernels"]["twice"][1] / 1e9)


@pytest.mark.parametrize("mode", ["Serial", "OpenMP", "OpenCL"])
def test_occa(profile_occa: ProfileOcca, mode: str) -> None:
    run = profile_occa(occa_build("gcc"), "memory", mode, OCCATRACE_LIVE="1")
    assert run.status == 0, run.stderr
    told = json.loads(run.stdout)
    now = told["live"]
    rows = {name: sizes for name, *sizes in now["memory"]}
    assert rows[f"occa {mode}"] == [told["left"], told["most"], 1]
    if mode == "OpenCL":
        # OCCA's objects lie in OpenCL's: counted once. Device names; two launches for two outer loops.
        assert (now["in_use"], now["high"]) == tuple(rows["opencl "][:2])
        assert (now["in_use"], now["high"]) == (told["left"], told["most"])
        assert now["kernels"] == {"_occa_addVectors_0": 8, "_occa_scaleTwice_0": 1, "_occa_scaleTwice_1": 1}
    else:
        assert (now["in_use"], now["high"]) == (told["left"], told["most"])
        assert now["kernels"] == {"addVectors": 8, "scaleTwice": 1}
