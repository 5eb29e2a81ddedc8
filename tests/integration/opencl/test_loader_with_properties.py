"""Khronos' loader since v2026.05.29 takes layers only by clInitLayerWithProperties, and Intel's unified memory is reached by
functions that programs ask for by name. The loader of the test is the system's with a layer that does both (tests/fakes)."""

from __future__ import annotations

import subprocess
from collections import Counter
from collections.abc import Mapping
from pathlib import Path

import pytest

from occatrace.cli import doctor, findings
from occatrace.run import install
from tests.support.suites.opencl import PROGRAMS, ROOT, Profile, Run, native


@pytest.fixture(scope="module")
def new_loader(tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, str]:
    """The environment in which a program gets such a loader."""
    loader = install.opencl_loader()
    known = b"OPENCL_LAYERS\0"
    if loader is None or known not in loader.read_bytes():
        pytest.skip("needs an OpenCL loader that knows layers, to make a new one of it")
    folder = tmp_path_factory.mktemp("loader")
    # It takes the layer that stands for the new loader by another variable, and looks as if it took ours: the text of ours stands
    # where one is that a loader answers when it is asked who made it.
    vendor = b"OCL Icd free software\0"
    image = loader.read_bytes().replace(known, b"OPENCL_LAYER2\0")
    assert vendor in image
    (folder / "libOpenCL.so.1").write_bytes(image.replace(vendor, known.ljust(len(vendor), b"\0")))
    layer = folder / "loader.so"
    source = ROOT / "tests" / "fakes" / "opencl" / "loader.c"
    subprocess.run(["gcc", "-shared", "-fPIC", "-O1", "-o", str(layer), str(source), "-ldl"], check=True)
    return {"LD_LIBRARY_PATH": str(folder), "OPENCL_LAYER2": str(layer)}


def built(folder: Path, name: str) -> Path:
    program = folder / name
    options = ["-std=c++17", "-O1", "-o", str(program)]
    subprocess.run(["g++", *options, str(PROGRAMS / f"{name}.cpp"), "-lOpenCL"], check=True)
    return program


@pytest.fixture(scope="module")
def unified(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return built(tmp_path_factory.mktemp("unified"), "unified")


@pytest.fixture(scope="module")
def command_buffers(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return built(tmp_path_factory.mktemp("command_buffers"), "command_buffers")


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
    assert run.truth == native(unified, **new_loader).truth == {"first": 224, "same": 1, "failed": 1}
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


def check_commands(run: Run) -> None:
    recorded = Counter(name for name, rows in run.events.items() if name.startswith("opencl:clCommand") for _ in rows)
    assert recorded == {
        "opencl:clCommandNDRangeKernelKHR": 2,
        "opencl:clCommandFillBufferKHR": 2,
        "opencl:clCommandCopyBufferKHR": 1,
        "opencl:clCommandBarrierWithWaitListKHR": 1,
    }
    assert [row["ret"] for row in run.calls("clCommandFillBufferKHR")] == [0, -59]
    assert [(row["pattern_size"], row["pattern"]) for row in run.calls("clCommandFillBufferKHR")] == [
        (4, [3, 0, 0, 0])
    ] * 2
    assert [row["size"] for row in run.calls("clCommandCopyBufferKHR")] == [4096]
    first, second = run.calls("clCommandNDRangeKernelKHR")
    assert second["sync_point_wait_list"] == [first["sync_point"]] and second["global_work_size"] == [1024]
    # Each enqueue is device work of the queue, also that which leaves the queue to the buffer.
    assert len(run.calls("clEnqueueCommandBufferKHR")) == len(run.work(kind="other", name="command buffer")) == 4
    assert len(run.events["device:queue"]) == 1
    assert run.sql("select name, count(*) from activities group by name order by 2 desc") == [
        ("command buffer", 4),
        ("DtoH", 1),
    ]


def test_command_buffers(command_buffers: Path, profile: Profile, new_loader: Mapping[str, str]) -> None:
    run = profile(command_buffers, **new_loader)
    assert run.truth == native(command_buffers, **new_loader).truth == {"first": 12, "refused": 1}
    assert run.lost == 0
    run.check_times()
    check_commands(run)


def test_command_buffers_without_properties(command_buffers: Path, profile: Profile) -> None:
    """Before 0.9.5, as in PoCL 3.1, most commands had an argument less: all that follow would be shifted."""
    alone = native(command_buffers, "before_0_9_5")
    if alone.status == 3:
        pytest.skip("this PoCL has no command buffers")
    run = profile(command_buffers, "before_0_9_5")
    assert run.truth == alone.truth == {"first": 12, "refused": 1}
    assert run.lost == 0
    run.check_times()
    check_commands(run)


def unseen(stderr: str) -> list[str]:
    return [line for line in stderr.splitlines() if "OpenCL was used and is not recorded" in line]


def test_a_loader_that_refuses_the_layer_is_named(cases: Path, profile: Profile, new_loader: Mapping[str, str]) -> None:
    folder = new_loader["LD_LIBRARY_PATH"]
    run = profile(cases, "copies", LD_LIBRARY_PATH=folder)
    assert run.truth == native(cases, "copies", LD_LIBRARY_PATH=folder).truth
    (line,) = unseen(run.stderr)
    assert f"its loader {folder}/libOpenCL.so.1 did not start occatrace's layer" in line
    assert "made no call" not in run.stderr
    (line,) = unseen(profile("env", "-u", "OPENCL_LAYERS", cases, "copies").stderr)
    assert line.endswith("OPENCL_LAYERS did not name occatrace's layer any more when it ended")


def test_a_loader_that_is_not_called_is_not_named(
    profile: Profile, new_loader: Mapping[str, str], tmp_path: Path
) -> None:
    source = tmp_path / "linked.c"
    source.write_text("int main(void) { return 0; }")
    program = tmp_path / "linked"
    subprocess.run(["gcc", "-o", program, source, "-Wl,--no-as-needed", "-lOpenCL"], check=True)
    run = profile(program, LD_LIBRARY_PATH=new_loader["LD_LIBRARY_PATH"])
    assert run.status == 0
    assert unseen(run.stderr) == [] and "it made no call of an API that is traced" in run.stderr


def test_the_doctor_tries_the_loader(new_loader: Mapping[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LD_LIBRARY_PATH", new_loader["LD_LIBRARY_PATH"])
    loader = install.opencl_loader()
    assert loader is not None and str(loader.parent) == new_loader["LD_LIBRARY_PATH"]
    # From outside it looks as if it took layers of ours, and it takes none.
    refused = doctor.try_loader(loader)
    assert (refused.state, "was not seen" in refused.detail) == (findings.MISSING, True)
    assert "not recorded" in refused.cost
    monkeypatch.setenv("OPENCL_LAYER2", new_loader["OPENCL_LAYER2"])
    assert doctor.try_loader(loader).state == findings.OK
