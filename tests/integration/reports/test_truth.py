"""Calls, bytes, launches and times in the reports equal what the programs say of themselves, in each mode."""

from __future__ import annotations

import importlib.util
import json
import re
import sys
from pathlib import Path
from typing import Any

import pytest

from occatrace.store.tables import open_store
from tests.support.gaps import gaps
from tests.support.suites.reports import PROGRAMS, Built, Profile, Profiled, occa_prof

HOST = ("Serial", "OpenMP")
SHORT = ("-n", 64, "-s", 3)  # of the demo


def check(run: Profiled, truth: dict[str, Any], mode: str) -> None:
    """The reports of a run against a program's own count."""
    assert run.losses["events"] == 0, (run.losses, gaps(run.folder))
    assert not run.losses["problems"] and not run.losses["unfinished"]
    kernels = run.kernels()
    assert {name: row["calls"] - row["failed"] for name, row in kernels.items()} == {
        name: k["calls"] for name, k in truth["kernels"].items()
    }
    for name, row in kernels.items():
        assert row["mode"] == mode and re.fullmatch(r".*\.okl:\d+", row["source"]), row
        parts = [r for r in run.reports["occa_kern_sum"] if r["parent"] == name]
        assert sum(r["calls"] for r in parts) == truth["kernels"][name]["launches"]
        if mode not in HOST:
            assert row["total_ns"] == sum(r["total_ns"] for r in parts) and row["busy_ns"] <= row["total_ns"]
    moved = {r["name"]: r for r in run.reports["gpu_mem_size_sum"] if r["mode"] == mode and r["name"] != "other"}
    assert {name: (r["calls"], r["bytes"]) for name, r in moved.items()} == {
        name: (c["count"], c["bytes"]) for name, c in truth["copies"].items()
    }
    calls = {r["name"]: r for r in run.reports["occa_api_sum"]}
    allocated = calls["occa::device::malloc"]
    assert (allocated["calls"], allocated["bytes"]) == (truth["allocations"]["count"], truth["allocations"]["bytes"])
    assert sum(r["calls"] - r["failed"] for n, r in calls.items() if "buildKernel" in n) == truth["builds"]
    assert calls.get("occa::device::finish", {"calls": 0})["calls"] == truth["finishes"]
    failed = {r["name"]: r["failed"] for r in calls.values() if r["failed"]}
    assert failed == {f"occa::{name.replace('_', '::', 1)}": n for name, n in truth["failed"].items()}
    run_calls = calls["occa::kernel::run"]
    assert run_calls["calls"] == sum(row["calls"] for row in kernels.values())


@pytest.mark.parametrize("program", ["demo", "capi", "failing"])
def test_programs(profile: Profile, built: Built, tmp_path: Path, mode: str, program: str) -> None:
    file = tmp_path / "truth.json"
    words = {
        "demo": ["-m", mode, "--truth", file],
        "capi": [mode, 7, file],
        "failing": [mode, file],
    }[program]
    run = profile(built(program), *words)
    check(run, json.loads(file.read_text(encoding="utf-8")), mode)


def test_python(profile: Profile, tmp_path: Path, mode: str) -> None:
    if importlib.util.find_spec("occa") is None:
        pytest.skip("OCCA's Python package is not installed: tools/setup --test does it")
    file = tmp_path / "truth.json"
    run = profile(sys.executable, PROGRAMS / "pyapi.py", mode, 12, file)
    check(run, json.loads(file.read_text(encoding="utf-8")), mode)


def test_failures_have_names(profile: Profile, built: Built, tmp_path: Path, mode: str) -> None:
    run = profile(built("failing"), mode, tmp_path / "truth.json")
    told = occa_prof("trace", run.folder).stdout.splitlines()
    failed = [line for line in told if "occa::memory::copyFrom(" in line and "FAILED" in line]
    assert len(failed) == 1 and failed[0].rstrip()[-1:] != "D", "the error's text is there"
    assert len([line for line in told if "occa::" in line and "FAILED" in line]) == sum(
        r["failed"] for r in run.reports["occa_api_sum"]
    )


@pytest.mark.measures
def test_time_of_a_spinning_kernel(profile: Profile, built: Built, mode: str) -> None:
    run = profile(built("spin"), mode, 5, 100)
    said = json.loads(run.stdout)
    row = run.kernels()["spin"]
    assert row["calls"] == said["calls"] + said["calibrations"]
    # The last calls are those that the program timed; on a device their time is that of the device work.
    source = "kernel_runs" if mode in HOST else "activities WHERE kind = 'kernel'"
    with open_store(run.folder) as store:
        spans = store.con.execute(f"SELECT end_ns - start_ns FROM {source} ORDER BY start_ns").fetchall()
    durations = [ns for (ns,) in spans][-said["calls"] :]
    # The program's time holds the kernel's and whatever a busy machine puts beside it, but not beside all of them.
    parts = [ns / (ms * 1e6) for ns, ms in zip(durations, said["each_ms"], strict=True)]
    assert max(parts) >= 0.95 and all(part <= 1.01 for part in parts), parts
    assert row["max_ns"] >= max(durations) and row["total_ns"] >= sum(durations)


@pytest.mark.parametrize("level", ["minimal", "full", "tally"])
def test_counts_at_every_level(profile: Profile, built: Built, tmp_path: Path, mode: str, level: str) -> None:
    """The summary of the calls is exact at every recording level. (At minimal there is nothing of OpenMP's host side.)"""
    file = tmp_path / "truth.json"
    usual = profile(built("demo"), "-m", mode, *SHORT, "--truth", file)
    other = profile(built("demo"), "-m", mode, *SHORT, level=level)
    counts = [
        {
            (r["api"], r["name"]): (r["calls"], r["failed"])
            for r in run.reports["api_sum"]
            if (level, r["api"]) != ("minimal", "openmp")
        }
        for run in (usual, other)
    ]
    assert counts[0] == counts[1]
    if level != "tally":
        check(other, json.loads(file.read_text(encoding="utf-8")), mode)
