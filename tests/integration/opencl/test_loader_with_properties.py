"""Khronos' loader since v2026.05.29 takes layers only by clInitLayerWithProperties, and Intel's unified memory is reached by
functions that programs ask for by name. The loader of the test is the system's with a layer that does both (tests/fakes)."""

from __future__ import annotations

import subprocess
from collections import Counter
from collections.abc import Mapping
from pathlib import Path

import pytest

from occatrace import install

from .conftest import PROGRAMS, ROOT, Profile, native


@pytest.fixture(scope="module")
def new_loader(tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, str]:
    """The environment in which a program gets such a loader."""
    loader = install.opencl_loader()
    known = b"OPENCL_LAYERS\0"
    if loader is None or known not in loader.read_bytes():
        pytest.skip("needs an OpenCL loader that knows layers, to make a new one of it")
    folder = tmp_path_factory.mktemp("loader")
    # It takes the layer that stands for the new loader by another variable, and looks from outside as if it took ours.
    (folder / "libOpenCL.so.1").write_bytes(loader.read_bytes().replace(known, b"OPENCL_LAYER2\0") + known)
    layer = folder / "loader.so"
    source = ROOT / "tests" / "fakes" / "opencl" / "loader.c"
    subprocess.run(["gcc", "-shared", "-fPIC", "-O1", "-o", str(layer), str(source), "-ldl"], check=True)
    return {"LD_LIBRARY_PATH": str(folder), "OPENCL_LAYER2": str(layer)}


@pytest.fixture(scope="module")
def unified(tmp_path_factory: pytest.TempPathFactory) -> Path:
    program = tmp_path_factory.mktemp("unified") / "unified"
    options = ["-std=c++17", "-O1", "-o", str(program)]
    subprocess.run(["g++", *options, str(PROGRAMS / "unified.cpp"), "-lOpenCL"], check=True)
    return program


@pytest.mark.parametrize("case", ["copies", "threads"])
def test_calls_and_device_work_are_recorded(
    cases: Path, profile: Profile, new_loader: Mapping[str, str], case: str
) -> None:
    run = profile(cases, case, **new_loader)
    assert run.truth == native(cases, case, **new_loader).truth
    assert len(run.calls("clCreateContext")) == 1
    assert run.lost == 0
    run.check_times()
    for kind in ("HtoD", "DtoH", "DtoD", "fill"):
        assert run.bytes_of(kind) == run.truth.get(kind, 0)
    assert run.kernels["scale"] == run.truth.get("scale", 0)


def test_unified_memory(unified: Path, profile: Profile, new_loader: Mapping[str, str]) -> None:
    run = profile(unified, **new_loader)
    assert run.truth == native(unified, **new_loader).truth == {"first": 224, "same": 1, "failed": 1, "references": 1}
    assert run.lost == 0
    run.check_times()
    assert [row["size"] for row in run.calls("clDeviceMemAllocINTEL")] == [8192, 0]
    assert [row["errcode_ret"] for row in run.calls("clDeviceMemAllocINTEL")] == [0, -61]
    assert [row["size"] for row in run.calls("clEnqueueMemcpyINTEL")] == [4096, 4096, 256]
    assert len(run.events["opencl:clEnqueueMemcpyINTEL_begin"]) == 1  # of three one blocks
    assert run.kernels == Counter({"twice": 5})
    assert {kind: run.bytes_of(kind) for kind in ("fill", "DtoD", "DtoH", "HtoD", "migrate")} == {
        "fill": 4096,
        "DtoD": 4096,
        "DtoH": 4096,
        "HtoD": 256,
        "migrate": 512,
    }
    allocated = run.sql("select kind, bytes, free_call_ns is null from allocations where api = 'opencl' order by bytes")
    assert allocated == [("host", 4096, False), ("device", 8192, False), ("managed", 12288, True)]
