"""A loader that knows no layers: the same calls are caught by preloading, or in the place of the loader's functions where a
program opens it itself or brings one. The loader of the test is the system's, with the name of the variable spoiled that it
reads its layers from."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from occatrace.run import install
from tests.support import runs
from tests.support.suites.opencl import PROGRAMS, Profile, native


@pytest.fixture
def old_loader(tmp_path: Path) -> Path:
    loader = install.opencl_loader()
    if loader is None or not install.loader_has_layers(loader):
        pytest.skip("needs an OpenCL loader that knows layers, to make one of it that does not")
    folder = tmp_path / "loader"
    folder.mkdir()
    (folder / "libOpenCL.so.1").write_bytes(loader.read_bytes().replace(b"OPENCL_LAYERS", b"OPENCL_LAYER_"))
    return folder


@pytest.mark.parametrize("case", ["copies", "views", "failures", "threads"])
def test_calls_and_device_work_are_caught_all_the_same(
    cases: Path, profile: Profile, old_loader: Path, case: str
) -> None:
    run = profile(cases, case, LD_LIBRARY_PATH=str(old_loader))
    assert run.truth == native(cases, case, LD_LIBRARY_PATH=str(old_loader)).truth
    assert len(run.calls("clCreateContext")) == 1
    assert run.lost == 0
    run.check_times()
    for kind in ("HtoD", "DtoH", "DtoD", "fill"):
        assert run.bytes_of(kind) == run.truth.get(kind, 0)
    assert case == "views" or run.kernels["scale"] == run.truth.get("scale", 0)


PYOPENCL = """
import numpy, pyopencl as cl
context = cl.Context(dev_type=cl.device_type.CPU)
queue = cl.CommandQueue(context)
kernel = cl.Program(context, "__kernel void twice(__global float *x) { x[get_global_id(0)] *= 2; }").build().twice
x = numpy.ones(1024, numpy.float32)
buffer = cl.Buffer(context, cl.mem_flags.READ_WRITE | cl.mem_flags.COPY_HOST_PTR, hostbuf=x)
for _ in range(5):
    kernel(queue, x.shape, None, buffer)
cl.enqueue_copy(queue, x, buffer)
print(x[7])
"""


def test_a_program_with_a_loader_of_its_own_that_has_layers(old_loader: Path, tmp_path: Path) -> None:
    """Of a wheel of pyopencl: each call is recorded once."""
    pytest.importorskip("pyopencl")
    (tmp_path / "work.py").write_text(PYOPENCL)
    command = [sys.executable, str(tmp_path / "work.py")]
    run = runs.profiled(runs.Run, tmp_path / "run", command, LD_LIBRARY_PATH=str(old_loader))
    assert (run.status, run.stdout) == (0, "32.0\n"), run.stderr
    assert run.sql(
        "SELECT function, sum(calls)::INT FROM call_stats"
        " WHERE function IN ('clEnqueueNDRangeKernel', 'clCreateBuffer') GROUP BY 1 ORDER BY 1"
    ) == [("clCreateBuffer", 1), ("clEnqueueNDRangeKernel", 5)]
    assert run.sql("SELECT kind, count(*), min(end_ns - start_ns) > 0 FROM activities GROUP BY 1 ORDER BY 1") == [
        ("DtoH", 1, True), ("kernel", 5, True)
    ]  # fmt: skip


def test_two_loaders_and_one_is_opened_by_hand(old_loader: Path, profile: Profile) -> None:
    """pyopencl's own has layers; the one that ctypes opens has none. Each copy is recorded once."""
    pytest.importorskip("pyopencl")
    run = profile(sys.executable, PROGRAMS / "two_loaders.py", LD_LIBRARY_PATH=str(old_loader))
    assert run.bytes_of("HtoD") == run.truth["HtoD"]
    assert len(run.work(kind="HtoD")) == run.truth["copies"]
    assert run.lost == 0


def compiled(output: Path, *words: str | Path) -> Path:
    command = ["gcc", "-O1", "-Wno-deprecated-declarations", str(PROGRAMS / "own_loader.c"), "-o", str(output)]
    subprocess.run([*command, *map(str, words), "-ldl"], check=True)
    return output


def driver() -> str:
    pocl = Path("/etc/OpenCL/vendors/pocl.icd")
    if not pocl.exists():
        pytest.skip("needs PoCL")
    return pocl.read_text().strip()


CALLS = {
    "clGetDeviceIDs": 1,
    "clCreateContext": 1,
    "clCreateCommandQueue": 1,
    "clCreateProgramWithSource": 1,
    "clBuildProgram": 1,
    "clCreateKernel": 1,
    "clCreateBuffer": 1,
    "clSetKernelArg": 1,
    "clEnqueueNDRangeKernel": 11,
    "clEnqueueReadBuffer": 1,
    "clReleaseMemObject": 1,
}


@pytest.mark.parametrize(("where", "binding"), [("inside", "lazy"), ("inside", "now"), ("beside", "now")])
def test_a_library_that_brings_its_loader(old_loader: Path, tmp_path: Path, where: str, binding: str) -> None:
    """Inside of the library, as in LightGBM's wheel, or beside it under a name of its own, as auditwheel puts it. The call by
    which the loader opens its drivers has begun before the loader is known, and is not recorded."""
    program = compiled(tmp_path / "program", "-DMAIN")
    words: list[str | Path] = ["-shared", "-fPIC", "-DWORK", f"-Wl,-z,{binding}", "-Wl,-z,relro"]
    if where == "inside":
        library = compiled(tmp_path / "libwork.so", *words, "-DLOADER")
    else:
        named = (old_loader / "libOpenCL.so.1").read_bytes().replace(b"libOpenCL.so.1\0", b"libOpenCL-1.so\0")
        beside = tmp_path / "libOpenCL-1.so"
        beside.write_bytes(named)
        library = compiled(tmp_path / "libwork.so", *words, beside, "-Wl,-rpath,$ORIGIN")
    run = runs.profiled(runs.Run, tmp_path / "run", [str(program), str(library)], DRIVER=driver())
    assert (run.status, run.stdout) == (0, "11\n"), run.stderr
    assert "not recorded" not in run.stderr
    counts = run.sql("SELECT function, sum(calls)::INT FROM call_stats WHERE api = 'opencl' GROUP BY 1")
    assert dict(counts) == CALLS
    assert run.sql("SELECT kind, name, count(*)::INT FROM activities GROUP BY ALL ORDER BY 1") == [
        ("DtoH", "DtoH", 1), ("kernel", "add", 11)
    ]  # fmt: skip
    # A call's place is the library's code, not the loader's.
    assert run.sql("SELECT DISTINCT function, module FROM call_sites") == [("work", str(library))]


def test_a_loader_that_nobody_can_see_is_named(tmp_path: Path) -> None:
    """Linked into the program without its names."""
    program = compiled(tmp_path / "program", "-DMAIN", "-DWORK", "-DLOADER", "-DHIDDEN", "-fvisibility=hidden")
    run = runs.profiled(runs.Run, tmp_path / "run", [str(program)], DRIVER=driver())
    assert (run.status, run.stdout) == (0, "11\n"), run.stderr
    assert f"a loader inside {program} or one of its libraries called the driver" in run.stderr
