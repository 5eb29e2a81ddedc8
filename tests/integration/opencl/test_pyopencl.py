"""pyopencl, whose wheel brings a loader of its own, alone and beside the system's loader in one process."""

from __future__ import annotations

import sys
from collections.abc import Mapping

import pytest

from tests.support.suites.opencl import OCLGRIND, POCL, PROGRAMS, Profile, native

pytest.importorskip("pyopencl")


@pytest.mark.parametrize(("platform", "launches"), [(POCL, 500), (OCLGRIND, 5)])
def test_a_pyopencl_program(platforms: Mapping[str, str], profile: Profile, platform: str, launches: int) -> None:
    del platforms  # skips where oclgrind is missing; pyopencl's loader finds it by itself
    command = (sys.executable, PROGRAMS / "pyopencl_work.py", launches)
    run = profile(*command, CASES_PLATFORM=platform)
    expected = native(*command, CASES_PLATFORM=platform).truth
    # oclgrind gives times on a queue that was not asked for any; with us it keeps to the specification.
    assert run.truth == expected | {"not_available": True}
    assert run.kernels["twice"] == run.truth["twice"]
    assert len(run.calls("clEnqueueNDRangeKernel")) == len(run.work(kind="kernel"))
    assert run.bytes_of("map") == run.bytes_of("unmap") == 4096
    assert run.lost == 0
    run.check_times()


def test_two_loaders_in_one_process(platforms: Mapping[str, str], profile: Profile) -> None:
    del platforms
    run = profile(sys.executable, PROGRAMS / "two_loaders.py")
    assert run.bytes_of("HtoD") == run.truth["HtoD"]
    assert len(run.work(kind="HtoD")) == len(run.calls("clEnqueueWriteBuffer")) == run.truth["copies"]
    assert run.lost == 0
