"""A trace with events of THAPI, recorded by LTTng, as a run."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

import occatrace
from occatrace.cli.dispatch import main
from tests.support import traces

PROGRAMS = Path(__file__).parents[2] / "programs" / "foreign"


def test_a_recorded_trace(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    if why := traces.why_no_recording():
        pytest.skip(why)
    program = tmp_path / "thapi"
    command = ["gcc", "-Wall", "-Werror", f"-I{PROGRAMS}", str(PROGRAMS / "thapi.c"), "-o", str(program)]
    subprocess.run([*command, "-llttng-ust", "-ldl", "-pthread"], check=True)
    traces.record(tmp_path / "trace", events="lttng_ust_ze*", contexts=("vpid", "vtid"), program=program)
    assert main(["import", str(tmp_path / "trace"), "-o", str(tmp_path / "run")]) == 0
    with occatrace.open(tmp_path / "run") as run:
        (kernel,) = run.report("gpu_kern_sum")
        # LTTng from 2.13 cuts structures at a byte 0, so that the device has no name and its clock is known by two readings.
        assert (kernel["name"], kernel["calls"]) == ("scale", 1000) and kernel["device"] in ("device", "Test GPU")
        assert kernel["min_ns"] == kernel["max_ns"] and 4000 <= kernel["min_ns"] <= 12_000
        by_thread = "SELECT thread, gx, count(*), count(DISTINCT seq), count(DISTINCT queue) FROM activities GROUP BY ALL ORDER BY 1"
        threads = run.sql(by_thread).fetchall()
        assert [row[2:] for row in threads] == [(500, 500, 1)] * 2
        calls = {row["name"]: row["calls"] for row in run.report("api_sum")}
        assert calls == {
            "zeCommandListAppendLaunchKernel": 1000,
            "zeCommandListCreateImmediate": 2,
            "zeKernelCreate": 1,
        }
        assert not run.losses.notes
    # Who reports the trace itself is told what reads it.
    capsys.readouterr()
    main(["report", str(tmp_path / "trace")])
    said = capsys.readouterr()
    assert "are read by: occa_prof import FOLDER" in said.out + said.err
    assert main(["report", str(tmp_path / "run")]) == 0
    assert "scale" in capsys.readouterr().out
