"""Device work of real programs on PoCL and oclgrind: nothing is lost, counts and bytes are the program's own, times are
right, and what the program sees of OpenCL is what it sees without us."""

from __future__ import annotations

import json
import subprocess
from collections import Counter
from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.support.suites.opencl import OCCA_PROF, OCLGRIND, POCL, Profile, native

COPY_KINDS = ("HtoD", "DtoH", "DtoD", "fill", "map", "unmap", "migrate")


@pytest.mark.parametrize("platform", [POCL, OCLGRIND])
@pytest.mark.parametrize("case", ["copies", "sub_buffers", "maps", "images", "svm"])
def test_bytes_of_each_kind_are_those_of_the_program(
    cases: Path, platforms: Mapping[str, str], profile: Profile, platform: str, case: str
) -> None:
    if (case, platform) == ("svm", OCLGRIND):
        pytest.skip("oclgrind has no shared virtual memory")
    run = profile(cases, case, CASES_PLATFORM=platform, **platforms)
    for kind in COPY_KINDS:
        if kind in run.truth:
            assert run.bytes_of(kind) == run.truth[kind], kind
    assert run.kernels == Counter({"scale": run.truth["scale"]} if "scale" in run.truth else {})
    assert {row["device"] for row in run.activities} == {run.activities[0]["device"]}
    assert run.lost == 0
    run.check_times()


@pytest.mark.parametrize(
    "case", ["shapes", "kernels", "out_of_order", "user_event", "threads", "release_early", "unfinished"]
)
def test_every_launch_is_there_once_under_its_name(cases: Path, profile: Profile, case: str) -> None:
    run = profile(cases, case)
    wanted = {name: count for name, count in run.truth.items() if name in ("scale", "add", "busy")}
    assert run.kernels == wanted
    assert len(run.work(kind="marker")) == run.truth.get("marker", 0)
    assert len({(row["corr_tid"], row["corr_seq"]) for row in run.activities}) == len(run.activities)
    assert run.lost == 0
    run.check_times()


def test_no_launch_of_100_000_is_lost_however_often(cases: Path, profile: Profile) -> None:
    for _ in range(3):
        run = profile(cases, "launches", 100_000)
        assert run.kernels == {"scale": 100_000}
        assert len({row["corr_seq"] for row in run.activities}) == 100_000
        assert run.lost == 0


def test_twenty_runs_of_100_000_launches_give_the_same_counts(cases: Path, tmp_path: Path) -> None:
    said = tmp_path / "report.json"
    wanted = ["--format", "json", "--log-file", said, "--report", "gpu_kern_sum", "--report", "api_sum"]
    counts = set()
    for _ in range(20):
        command = [*OCCA_PROF, "--force", "-o", tmp_path / "run", *wanted, cases, "launches", "100000"]
        done = subprocess.run(list(map(str, command)), capture_output=True, text=True, timeout=300)
        assert done.returncode == 0, done.stderr
        document = json.loads(said.read_text())
        kernels, calls = (report["rows"] for report in document["reports"])
        launches = next(row["calls"] for row in calls if row["name"] == "clEnqueueNDRangeKernel")
        counts.add((kernels[0]["name"], kernels[0]["calls"], launches, document["losses"]["events"]))
    assert counts == {("scale", 100_000, 100_000, 0)}


def test_the_shape_of_a_launch_is_recorded(cases: Path, profile: Profile) -> None:
    run = profile(cases, "shapes")
    shapes = [tuple(row[k] for k in ("gx", "gy", "gz", "lx", "ly", "lz")) for row in run.work(kind="kernel")]
    assert shapes == [(16, 8, 4, 4, 2, 1), (16, 8, 0, 0, 0, 0), (1, 0, 0, 1, 0, 0)]


def test_a_native_kernel_that_spins_has_the_time_it_spun(cases: Path, profile: Profile) -> None:
    run = profile(cases, "native", 50)
    work = run.work(kind="native")
    assert len(work) == run.truth["native"]
    # At least that: a busy machine may stop it before it begins to spin, and after.
    assert 0.999 * run.truth["ns"] <= sum(row["end"] - row["start"] for row in work) <= 2 * run.truth["ns"]


@pytest.mark.parametrize(("platform", "rounds"), [(POCL, 200_000), (OCLGRIND, 2_000)])
def test_times_are_those_of_the_programs_own_profiling(
    cases: Path, platforms: Mapping[str, str], profile: Profile, platform: str, rounds: int
) -> None:
    run = profile(cases, "timed", rounds, CASES_PLATFORM=platform, **platforms)
    assert sum(row["end"] - row["start"] for row in run.work(name="busy")) == pytest.approx(run.truth["ns"], rel=0.001)
    run.check_times()
    assert "device:clock_warning" not in run.events


def test_platforms_and_devices_of_one_process_are_told_apart(
    cases: Path, platforms: Mapping[str, str], profile: Profile
) -> None:
    run = profile(cases, "platforms", **platforms)
    assert len(run.truth) >= 2
    assert Counter(row["device"] for row in run.activities) == run.truth
    assert run.lost == 0
    run.check_times()


@pytest.mark.parametrize("case", ["views", "user_event", "terminated", "failures", "extensions", "maps", "sub_buffers"])
@pytest.mark.parametrize("mode", ["default", "minimal", "full", "tally"])
def test_the_program_sees_what_it_sees_without_us(cases: Path, profile: Profile, case: str, mode: str) -> None:
    assert profile(cases, case, mode=mode).truth == native(cases, case).truth


def test_a_terminated_command_carries_its_error(cases: Path, profile: Profile) -> None:
    run = profile(cases, "terminated")
    assert [row["status"] for row in run.work(name="scale")] == [run.truth["status"]]
    assert run.truth["status"] < 0


def test_failed_calls_are_failed_and_nothing_after_them_is_wrong(cases: Path, profile: Profile) -> None:
    run = profile(cases, "failures")
    truth = run.truth
    assert [row["ret"] for row in run.calls("clEnqueueWriteBuffer")] == [truth["write_out_of_bounds"]]
    assert run.calls("clFinish")[0]["ret"] == truth["null_queue"]
    assert run.calls("clEnqueueNDRangeKernel")[0]["ret"] == truth["no_dimensions"]
    assert run.calls("clBuildProgram")[1]["ret"] == truth["build"]
    # Known also where the program does not ask for the code.
    empty = truth["empty_buffer"]
    assert [row["errcode_ret"] for row in run.calls("clCreateBuffer")] == [0, empty, empty]
    assert [row["errcode_ret"] for row in run.calls("clCreateKernel")] == [0, truth["missing_kernel"]]
    assert len(run.activities) == 1
    assert run.kernels == {"scale": 1}


def test_minimal_keeps_device_work_and_tallies_calls(cases: Path, profile: Profile) -> None:
    timed = profile(cases, "timed", mode="minimal")
    assert sum(row["end"] - row["start"] for row in timed.work(name="busy")) == pytest.approx(
        timed.truth["ns"], rel=0.001
    )
    assert "device:clock_warning" not in timed.events
    run = profile(cases, "copies", mode="minimal")
    assert run.bytes_of("HtoD") == run.truth["HtoD"]
    assert not run.calls("clEnqueueWriteBuffer")
    names = {row["id"]: row["text"] for row in run.events["process:name"]}
    tallies = {names[row["function"]]: row["count"] for row in run.events["process:tally"]}
    assert tallies["opencl:clEnqueueWriteBuffer"] == 2


def test_tally_leaves_queues_alone(cases: Path, profile: Profile) -> None:
    run = profile(cases, "copies", mode="tally")
    assert run.truth
    assert "device:activity" not in run.events
    assert not any(name.startswith("opencl:") for name in run.events)
