"""--capture-range on the stand-ins of CUDA's driver and HIP's runtime: the API's own functions, NVTX, ROCTX and our ranges."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests.support.runs import ROOT, Run, profiled
from tests.support.suites import cuda
from tests.support.suites.annotation import PROGRAMS as ANNOTATIONS
from tests.support.suites.annotation import nvtx_headers
from tests.support.suites.cuda import driver
from tests.support.suites.hip import clang
from tests.support.suites.hip import runtime as hip_runtime

__all__ = ["clang", "driver", "hip_runtime"]
SOURCE = ROOT / "tests" / "programs" / "choosing" / "device_ranges.cpp"
INSIDE = {"stop": 1, "repeat:2": 1 + 2, "repeat": 1 + 2 + 3}


@pytest.fixture(scope="session")
def on_cuda(driver: Path) -> Path:
    headers = nvtx_headers()
    if not headers:
        pytest.skip("needs NVTX's headers: PyPI's nvidia-nvtx-cu12")
    options = [f"-I{ROOT / 'include'}", f"-isystem{headers}", f"-L{driver}", "-lcuda", "-ldl"]
    return cuda.compiled(SOURCE, driver / "device_ranges", options)


@pytest.fixture(scope="session")
def on_hip(hip_runtime: Path) -> Path:
    roctx = hip_runtime / "libroctx64.so.4"
    words = ["gcc", "-shared", "-fPIC", "-Wl,-soname,libroctx64.so.4", ANNOTATIONS / "roctx64.c", "-o", roctx]
    subprocess.run([str(w) for w in words], check=True)
    target = hip_runtime / "device_ranges"
    words = [
        "g++",
        "-std=c++17",
        "-w",
        "-DHIP",
        "-D__HIP_PLATFORM_AMD__",
        f"-I{ROOT / 'include'}",
        SOURCE,
        "-o",
        target,
    ]
    words += [f"-L{hip_runtime}", "-lamdhip64", f"-l:{roctx.name}", "-lpthread", "-ldl"]
    subprocess.run([str(w) for w in words], check=True)
    return target


@pytest.mark.parametrize(
    ("api", "by", "what"),
    [
        ("cuda", "profiler", "cudaProfilerApi"),
        ("cuda", "library", "range:solve"),
        ("cuda", "own", "range:solve"),
        ("hip", "profiler", "hipProfilerApi"),
        ("hip", "library", "range:solve"),
        ("hip", "own", "range:solve"),
    ],
)
def test_launches_in_ranges(api: str, by: str, what: str, request: pytest.FixtureRequest, tmp_path: Path) -> None:
    program: Path = request.getfixturevalue(f"on_{api}")
    changes = {"LD_LIBRARY_PATH": str(program.parent), "OCCATRACE_DEVICE_TIME": "events"}
    launches = {"cuda": "cuLaunchKernel", "hip": "hipModuleLaunchKernel"}[api]
    for end, inside in INSIDE.items() if by == "profiler" else [("repeat:2", 3)]:
        options = ("--capture-range", what, "--capture-range-end", end)
        run = profiled(Run, tmp_path / end, [program, by], *options, **changes)
        assert (run.status, run.stdout) == (0, "6 20\n"), run.stderr
        assert run.sql("SELECT name, count(*) FROM activities GROUP BY name") == [("tick", inside)]
        calls = f"SELECT sum(calls)::BIGINT FROM call_stats WHERE function = '{launches}'"
        assert run.sql(calls) == [(inside,)]
        ranges = {"stop": 1, "repeat:2": 2, "repeat": 3}[end]
        assert run.sql("SELECT count(*) FROM captures") == [(ranges,)]
        assert "captured " in run.stderr
    if by != "profiler":
        return
    # Where nothing of the kind is captured, they change nothing.
    run = profiled(Run, tmp_path / "none", [program, by], "--capture-range", "none", **changes)
    assert dict(run.sql("SELECT name, count(*) FROM activities GROUP BY name")) == {"tick": 6, "empty": 20}
    assert run.sql("SELECT count(*) FROM captures") == [(0,)]
