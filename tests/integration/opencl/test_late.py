"""Device work after main is recorded where the program waits for it, and counted where nothing is known of its end."""

from __future__ import annotations

import subprocess
from collections import Counter
from pathlib import Path

import pytest

import occatrace
from occatrace.run import install
from tests.support.libraries import without
from tests.support.suites.opencl import PROGRAMS, Profile, native


@pytest.fixture(scope="module")
def late(tmp_path_factory: pytest.TempPathFactory) -> Path:
    program = tmp_path_factory.mktemp("late") / "late"
    options = ["-O1", "-Wno-deprecated-declarations", "-o", str(program)]
    subprocess.run(["gcc", *options, str(PROGRAMS / "late.c"), "-lOpenCL"], check=True)
    return program


@pytest.mark.parametrize(("case", "launches"), [("handler", 3 + 7), ("destructor", 3 + 7 + 5)])
def test_work_of_exit_handlers_and_destructors(late: Path, profile: Profile, case: str, launches: int) -> None:
    if native(late, case).status != 0:
        pytest.skip("this driver does not work any more when the program ends")
    run = profile(late, case)
    assert run.status == 0, run.stderr
    assert run.kernels == Counter({"unit": launches})
    assert len(run.calls("clEnqueueNDRangeKernel")) == launches
    assert run.lost == 0
    run.check_times()
    assert "had not finished" not in run.stderr


def test_work_that_never_ends_is_counted(late: Path, profile: Profile) -> None:
    run = profile(late, "never")
    assert run.status == native(late, "never").status == 0, run.stderr
    assert run.kernels == Counter({"unit": 3})
    with occatrace.open(run.folder) as opened:
        said = [line for line in opened.losses.lines() if "had not finished" in line]
    assert len(said) == 1 and said[0].startswith("2 commands on "), said
    assert said[0].endswith("had not finished at the end of the process: not among the device work below")
    assert said[0] in " ".join(run.stderr.split())


def test_a_loader_without_what_device_time_needs(late: Path, profile: Profile, tmp_path: Path) -> None:
    loader = install.opencl_loader()
    if loader is None or not install.loader_has_layers(loader):
        pytest.skip("needs an OpenCL loader that knows layers, to make an old one of it")
    old = tmp_path / "libOpenCL.so.1"
    old.write_bytes(loader.read_bytes().replace(b"OPENCL_LAYERS", b"OPENCL_LAYER_"))
    lacking = without(old, tmp_path / "lacking", "clGetEventProfilingInfo")
    run = profile(late, "handler", LD_LIBRARY_PATH=str(lacking.parent))
    assert run.status == 0, run.stderr
    said = [line for line in run.stderr.splitlines() if "device work is not recorded" in line]
    assert said == ["occatrace: device work is not recorded: the library of OpenCL has no clGetEventProfilingInfo"]
    assert len(run.calls("clEnqueueNDRangeKernel")) == 10
    assert run.activities == []
