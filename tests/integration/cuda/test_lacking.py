"""A driver without a function that device time needs: calls are recorded, device work is not, and one line says so."""

from __future__ import annotations

from pathlib import Path

from tests.support.libraries import without
from tests.support.suites.cuda import Run


def test_a_driver_that_cannot_be_timed(linked: Path, driver: Path, traced: Run, tmp_path: Path) -> None:
    folder = without(driver / "libcuda.so.1", tmp_path / "lacking", "cuEventSynchronize").parent
    run = traced(linked, "series", "5", env={"LD_LIBRARY_PATH": str(folder)})
    assert run.status == 0, run.stderr
    said = [line for line in run.stderr.splitlines() if "device work is not recorded" in line]
    assert said == ["occatrace: device work is not recorded: the library of CUDA has no cuEventSynchronize"]
    assert run.sql("select count(*) from activities") == [(0,)]
    assert run.sql("select sum(calls), sum(failed) from call_stats where function = 'cuLaunchKernel'") == [(5, 0)]
