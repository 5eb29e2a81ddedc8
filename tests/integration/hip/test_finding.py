"""How programs find HIP: by a handle of its library, not at all, and the vendor's own runtime without a device."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests.support.runs import ROOT, execute
from tests.support.suites.hip import HEADER, Run

PROGRAMS = ROOT / "tests/programs/hip"
CALLS = "SELECT function, calls FROM call_stats WHERE api = 'hip' ORDER BY function"


@pytest.fixture(scope="session")
def by_handle(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The program that opens HIP's library itself."""
    program = tmp_path_factory.mktemp("by_handle") / "by_handle"
    subprocess.run(["gcc", str(PROGRAMS / "by_handle.c"), "-o", str(program), "-ldl"], check=True)
    return program


def test_functions_asked_for_with_a_handle(traced: Run, runtime: Path, by_handle: Path) -> None:
    run = traced(by_handle, runtime / "libamdhip64.so.5", "20")
    assert (run.status, run.stdout) == (0, "0 0 0 1 -\n"), run.stderr
    assert run.sql("SELECT name, count(*), min(end_ns - start_ns) >= 5000 FROM activities GROUP BY name") == [
        ("asked", 20, True)
    ]
    assert run.sql(CALLS) == [
        ("hipDeviceSynchronize", 1),
        ("hipModuleGetFunction", 1),
        ("hipModuleLaunchKernel", 20),
        ("hipModuleLoadData", 1),
    ]


def test_a_preloaded_shim_of_the_programs_own_keeps_working(traced: Run, cases: Path, tmp_path: Path) -> None:
    shim = tmp_path / "preloaded.so"
    command = ["g++", "-w", "-shared", "-fPIC", str(PROGRAMS / "preloaded.cpp"), "-o", str(shim), "-ldl"]
    subprocess.run(command, check=True)
    run = traced(cases, "series", "20", env={"LD_PRELOAD": str(shim)})
    assert (run.status, run.stdout) == (0, "done\nlaunches: 20\n"), run.stderr
    assert run.sql("SELECT count(*) FROM activities WHERE name = '_Z4tickm'") == [(20,)]
    assert run.sql("SELECT calls FROM call_stats WHERE function = 'hipLaunchKernel'") == [(20,)]


def test_a_program_that_looks_for_an_absent_hip_finds_none(traced: Run, by_handle: Path, tmp_path: Path) -> None:
    run = traced(by_handle, tmp_path / "libamdhip64.so.5", "1")
    assert (run.status, run.stdout) == (4, "no HIP\n")


@pytest.mark.skipif(not HEADER.exists(), reason="needs libamdhip64-dev")
def test_the_vendors_runtime_answers_as_without_us(traced: Run, tmp_path: Path) -> None:
    program = tmp_path / "probe"
    source = str(PROGRAMS / "probe.cpp")
    subprocess.run(["g++", "-w", source, "-o", str(program), "-lamdhip64", "-ldl"], check=True)
    alone = execute([program], LD_LIBRARY_PATH=None)
    run = traced(program, env={"LD_LIBRARY_PATH": ""})
    assert (run.status, run.stdout) == (alone.returncode, alone.stdout), run.stderr
    calls = dict(run.sql(CALLS))
    assert calls == dict.fromkeys(
        ("hipGetDeviceCount", "hipGetLastError", "hipRuntimeGetVersion", "hipMalloc", "hipGetErrorName"), 1
    )
