"""A loader that knows no layers: the same calls are caught by preloading. The loader of the test is the system's, with
the name of the variable spoiled that it reads its layers from."""

from __future__ import annotations

from pathlib import Path

import pytest

from occatrace.run import install
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
