"""A loader that knows no layers: the same calls are caught by preloading. The loader of the test is the system's, with
the name of the variable spoiled that it reads its layers from."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from occatrace.run import install
from tests.support import runs
from tests.support.suites.opencl import Profile, native


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
