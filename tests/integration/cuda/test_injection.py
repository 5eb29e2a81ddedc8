"""Programs that reach CUDA's driver past the shim: what the driver loads by CUDA_INJECTION64_PATH has CUPTI tell of their calls."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support.suites.cuda import ROOT, Traced, compiled, headers

Run = Callable[..., Traced]
MS = 1_000_000
CALLS = (
    "SELECT function, sum(calls)::INTEGER, sum(failed)::INTEGER FROM call_stats"
    " WHERE function NOT IN ('cuInit', 'cuGetProcAddress') GROUP BY 1 ORDER BY 1"
)
WORK = (
    "SELECT kind, name, source, target, count(*), coalesce(sum(bytes), 0)::INTEGER, count(DISTINCT queue), count(DISTINCT device)"
    " FROM activities GROUP BY ALL ORDER BY ALL"
)
MEMORY = "SELECT kind, bytes, function, free_function FROM allocations ORDER BY start_ns"
NOT_SEEN = "occatrace: calls of CUDA's driver are not recorded: the program reaches it past our libcuda.so.1, and {}\n"


@pytest.fixture(scope="session")
def past(driver: Path) -> Path:
    """The program that reaches the driver by its path."""
    if not (headers() / "generated_cuda_meta.h").exists():
        pytest.skip("no headers of CUPTI: the package nvidia-cuda-cupti is not installed")
    return compiled(ROOT / "tests/programs/cuda/past_the_shim.cpp", driver / "past_the_shim", ["-ldl"])


@pytest.fixture
def by_path(traced: Run, cupti: Path, driver: Path, past: Path) -> Run:
    """Runs a program with this CUPTI that is told where the driver lies."""

    def run(*command: str | Path, options: tuple[str, ...] = (), **more: str) -> Traced:
        env = {"OCCATRACE_CUPTI": str(cupti), "OCCATRACE_DEVICE_TIME": "", "CASES_DRIVER": str(driver / "libcuda.so.1")}
        return traced(*command, options=options, env=env | more)

    return run


def test_calls_and_work_are_as_through_the_shim(by_path: Run, by_name: Path) -> None:
    for case in ("kinds", "graphs", "devices", "failures"):
        found = []
        for driver in ("libcuda.so.1", None):
            run = by_path(by_name, case, **({"CASES_DRIVER": driver} if driver else {}))
            assert run.status == 0, run.stdout + run.stderr
            found.append([run.stdout, *map(run.sql, (CALLS, WORK, MEMORY))])
            assert "are not recorded" not in run.stderr
        assert found[0] == found[1]
        assert len(found[0][1]) > 5


def test_a_driver_that_loads_tools_later_than_it_is_initialized(by_path: Run, by_name: Path) -> None:
    """The shim has seen the program's cuInit: nobody reaches the driver past it."""
    run = by_path(by_name, "series", "20", CASES_DRIVER="libcuda.so.1", FAKE_INJECTION="late")
    assert run.status == 0 and "are not recorded" not in run.stderr, run.stderr
    assert run.sql("SELECT sum(calls)::INT FROM call_stats WHERE function = 'cuInit'") == [(1,)]
    assert run.sql("SELECT count(*) FROM activities WHERE kind = 'kernel' AND end_ns > start_ns") == [(20,)]


def test_a_series_of_kernels_lies_end_to_end(by_path: Run, by_name: Path) -> None:
    run = by_path(by_name, "series", "300")
    assert (run.status, run.stdout) == (0, "done\n"), run.stderr
    rows = run.sql(
        "SELECT a.start_ns, a.end_ns, gx, gy, lx, ly, a.queued_ns, c.args.hStream != 0 FROM activities a"
        " JOIN \"cuda.cuLaunchKernel\" c ON c.thread = a.thread AND c.seq = a.seq WHERE kind = 'kernel' ORDER BY 1"
    )
    assert len(rows) == 300
    assert all(end - start >= MS for start, end, *_ in rows)
    assert all(row[2:6] == (256, 4, 64, 2) and row[7] for row in rows)
    assert all(b[0] >= a[1] for a, b in zip(rows, rows[1:], strict=False))
    assert all(row[0] >= row[6] for row in rows)
    assert run.sql("SELECT DISTINCT platform FROM devices") == [("CUDA, device times by CUPTI 28",)]
    # Of the many calls of the run none is lost, and none of ours is among them.
    assert run.sql("SELECT count(*) FROM losses") == [(0,)]


def test_where_the_shim_serves_nothing_is_told_twice(by_path: Run, linked: Path) -> None:
    run = by_path(linked, "series", "20", options=("--device-time", "cupti"))
    assert run.sql("SELECT sum(calls)::INTEGER FROM call_stats WHERE function IN ('cuLaunchKernel', 'cuInit')") == [
        (21,)
    ]
    assert run.sql("SELECT count(*) FROM activities") == [(20,)]


def test_a_part_by_the_soname_and_a_part_by_path(by_path: Run, past: Path, driver: Path) -> None:
    """CUPTI tells of both from cuInit on; the shim of what was before."""
    run = by_path(past, driver / "libcuda.so.1", "both")
    assert (run.status, run.stdout) == (0, "13000 2 1\n"), run.stderr
    assert run.sql(
        "SELECT function, sum(calls)::INTEGER FROM call_stats"
        " WHERE function IN ('cuDeviceGetCount', 'cuLaunchKernel', 'cuDriverGetVersion') GROUP BY 1 ORDER BY 1"
    ) == [("cuDeviceGetCount", 4), ("cuDriverGetVersion", 1), ("cuLaunchKernel", 7)]
    assert run.sql("SELECT name, count(*) FROM activities GROUP BY 1") == [("tick", 7)]


def test_a_function_that_nobody_knows(by_path: Run, by_name: Path) -> None:
    run = by_path(by_name, "names")
    assert (run.status, run.stdout) == (0, "6 -1 500 1\ndone\n"), run.stderr
    assert "1 function of CUDA that this version does not know" in run.stderr and "cuOfTheFuture" in run.stderr
    assert run.sql("SELECT count(*), count(DISTINCT queue) FROM activities WHERE kind = 'kernel'") == [(2, 2)]


def test_a_subscriber_of_the_programs_own_keeps_working(by_path: Run, past: Path, driver: Path, cupti: Path) -> None:
    run = by_path(past, driver / "libcuda.so.1", "cupti", cupti)
    assert (run.status, run.stdout) == (0, "7\n"), run.stderr
    assert NOT_SEEN.format("the program uses CUPTI itself") in run.stderr
    # Through the shim both are served.
    run = by_path(past, "libcuda.so.1", "cupti", cupti, options=("--device-time", "auto"))
    assert (run.status, run.stdout) == (0, "7\n"), run.stderr
    assert "not recorded" not in run.stderr
    assert run.sql("SELECT sum(calls)::INTEGER FROM call_stats WHERE function = 'cuLaunchKernel'") == [(7,)]
    assert run.sql("SELECT count(*) FROM activities") == [(7,)]


def test_an_injection_of_the_persons_own_keeps_working(by_path: Run, linked: Path, driver: Path) -> None:
    plugin = compiled(
        ROOT / "tests/programs/cuda/past_the_shim.cpp", driver / "plugin.so", ["-DPLUGIN", "-shared", "-fPIC"]
    )
    run = by_path(linked, "series", "5", CUDA_INJECTION64_PATH=str(plugin))
    assert (run.status, run.stdout) == (0, "injected\ndone\n"), run.stderr
    assert f"CUDA_INJECTION64_PATH is set to {plugin}: that tool gets the calls of CUDA's driver" in run.stderr
    assert run.sql("SELECT count(*) FROM activities WHERE name = 'tick'") == [(5,)]


@pytest.mark.parametrize(
    ("more", "why"),
    [
        ({"OCCATRACE_CUPTI": "/nowhere"}, "libcupti was not found"),
        ({"FAKE_CUPTI": "taken"}, "another tool has CUPTI"),
    ],
)
def test_without_cupti_the_program_is_as_it_was(by_path: Run, by_name: Path, more: dict[str, str], why: str) -> None:
    run = by_path(by_name, "series", "5", **more)
    assert (run.status, run.stdout) == (0, "done\n")
    assert NOT_SEEN.format(why) in run.stderr


def test_device_time_and_modes(by_path: Run, by_name: Path) -> None:
    launches = "SELECT sum(calls)::INTEGER FROM call_stats WHERE function = 'cuLaunchKernel'"
    for options, work in (
        (("--device-time", "off"), 0),
        (("-m", "tally"), 0),
        (("-m", "full", "--device-time", "events"), 20),
    ):
        run = by_path(by_name, "series", "20", options=options)
        assert run.sql(launches) == [(20,)], run.stderr
        assert run.sql("SELECT count(*) FROM activities") == [(work,)]
        assert ("timed by CUPTI, which also tells" in run.stderr) == ("events" in options)


def test_choosing(by_path: Run, by_name: Path) -> None:
    run = by_path(by_name, "series", "20", options=("--exclude-kernels", "tick"))
    assert run.status == 0
    assert run.sql("SELECT count(*) FROM activities") == [(0,)]
    assert run.sql("SELECT count(*) FROM calls WHERE function = 'cuLaunchKernel'") == [(0,)]
    run = by_path(by_name, "series", "20", options=("--trace", "opencl"))
    assert run.stdout == "done\n"
    assert run.sql("SELECT count(*) FROM call_stats") == [(0,)]


def test_children(by_path: Run, past: Path, driver: Path) -> None:
    run = by_path(past, driver / "libcuda.so.1", "children")
    assert (run.status, run.stdout) == (0, "0\n"), run.stderr
    assert run.sql(
        "SELECT sum(calls)::INTEGER FROM call_stats WHERE function = 'cuLaunchKernel' GROUP BY process ORDER BY 1"
    ) == [(2,), (3,)]
    assert run.sql("SELECT count(*) FROM activities WHERE end_ns - start_ns >= 1000000") == [(5,)]


def test_a_crash_amid_work_leaves_what_had_finished(by_path: Run, by_name: Path) -> None:
    run = by_path(by_name, "crash")
    assert run.status == 134
    ((count,),) = run.sql("SELECT count(*) FROM activities WHERE name = 'tick'")
    assert 5 <= count < 1005


def test_arguments_lie_as_in_cuptis_headers() -> None:
    """The model's arguments, of each function that CUPTI has a structure for, in its order and by its types."""
    meta = headers() / "generated_cuda_meta.h"
    if not meta.exists():
        pytest.skip("no headers of CUPTI: the package nvidia-cuda-cupti is not installed")
    sys.path.insert(0, str(ROOT / "tools"))
    try:
        from generator.parse import parse_folder
    finally:
        sys.path.pop(0)
    found = re.findall(r"typedef struct \w+_params_st \{(.*?)\} (\w+)_params;", meta.read_text(encoding="utf-8"), re.S)
    theirs = {name: [typed(field) for field in body.split(";") if field.strip()] for body, name in found}
    (api,) = (api for api in parse_folder(ROOT / "tracepoints").apis if api.name == "cuda")
    ours = {name: [typed(a.declaration) for a in f.args] for f in api.functions for name in f.exports if f.args}
    assert set(ours) - set(theirs) == {"cuProfilerInitialize"}  # of a header of its own
    ours.pop("cuProfilerInitialize")
    assert len(ours) > 570
    assert ours == {name: theirs[name] for name in ours}


def typed(declaration: str) -> str:
    """The type of a parameter, however it is written."""
    text = re.sub(r"\bconst\b|\w+\s*$", "", declaration.strip()).replace("unsigned int", "unsigned")
    return re.sub(r"\s+", "", text)
