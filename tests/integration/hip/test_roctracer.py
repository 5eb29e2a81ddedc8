"""Device times by roctracer's activity records, on a stand-in for roctracer that the runtime for tests drives."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.integration.hip.conftest import Run
from tests.support import runs
from tests.support.runs import ROOT

MS = 1_000_000
# Of prefetches roctracer tells nothing.
WORK = (
    "SELECT kind, name, count(*), coalesce(sum(bytes), 0)::INTEGER FROM activities"
    " WHERE kind != 'migrate' GROUP BY ALL ORDER BY ALL"
)
PLATFORM = "SELECT DISTINCT platform FROM devices"
TOLD = "occatrace: device work is timed by events: "


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The stand-in."""
    made = tmp_path_factory.mktemp("roctracer") / "libroctracer64.so.4"
    command = ["g++", "-std=c++17", "-O1", "-w", str(ROOT / "tests/fakes/hip/roctracer.cpp"), "-o", str(made)]
    command += ["-shared", "-fPIC", "-fvisibility=hidden", "-Wl,-soname,libroctracer64.so.4", "-lpthread", "-ldl"]
    subprocess.run(command, check=True, capture_output=True, text=True)
    return made


@pytest.fixture
def timed(traced: Run, library: Path) -> Callable[..., runs.Run]:
    """Runs a program with this roctracer. `as_`: how it behaves."""

    def run(*command: str | Path, as_: str = "", options: tuple[str, ...] = (), **env: str) -> runs.Run:
        given = {"OCCATRACE_ROCTRACER": str(library), "OCCATRACE_DEVICE_TIME": "", "FAKE_ROCTRACER": as_, **env}
        return traced(*command, options=options, env=given)

    return run


@pytest.mark.parametrize("as_", ["", "clock"])
def test_a_series_of_kernels_lies_end_to_end(timed: Run, cases: Path, as_: str) -> None:
    run = timed(cases, "series", "300", as_=as_)
    assert (run.status, run.stdout, run.stderr.count("roctracer")) == (0, "done\n", 0), run.stderr
    assert run.sql(PLATFORM) == [("HIP, device times by roctracer",)]
    rows = run.sql(
        "SELECT a.start_ns, a.end_ns, gx, gy, lx, ly, queued_ns, c.function FROM activities a"
        " LEFT JOIN calls c ON c.thread = a.thread AND c.seq = a.seq"
        " WHERE kind = 'kernel' AND name = '_Z4tickm' ORDER BY 1"
    )
    assert len(rows) == 300
    assert all(end - start >= MS for start, end, *_ in rows)
    assert all(row[2:6] == (256, 4, 64, 2) and row[7] == "hipLaunchKernel" for row in rows)
    # By a clock of roctracer's own they lie as surely as it is bracketed.
    slack = MS // 2 if as_ else 0
    assert all(later[0] >= earlier[1] - slack for earlier, later in zip(rows, rows[1:], strict=False))
    assert all(row[0] >= row[6] for row in rows)


@pytest.mark.parametrize("case", ["launches", "copies", "graphs", "threads", "devices"])
def test_the_same_work_as_by_events(timed: Run, cases: Path, case: str) -> None:
    found = []
    for how in ("roctracer", "events"):
        run = timed(cases, case, options=("--device-time", how))
        assert run.status == 0, run.stderr
        assert TOLD not in run.stderr
        # By events nothing is asked of roctracer.
        assert run.sql(PLATFORM) == [("HIP" if how == "events" else "HIP, device times by roctracer",)]
        found.append(run.sql(WORK))
    assert found[0] == found[1]


def test_a_graph_is_as_long_as_its_nodes(timed: Run, cases: Path) -> None:
    """Three kernels of 1 ms; the records are of two halves."""
    run = timed(cases, "graphs")
    assert run.stdout == "3 0\ndone\n"
    assert "no traced call" not in run.stderr
    lengths = [end - start for start, end in run.sql("SELECT start_ns, end_ns FROM activities WHERE name = 'graph'")]
    assert len(lengths) == 5 and min(lengths) >= 3 * MS


def test_many_and_none_is_lost_and_no_event_is_in_the_streams(timed: Run, cases: Path) -> None:
    run = timed(cases, "many", "8000")
    # Live events after each half, and how often a launch that went well left an error behind.
    assert run.stdout.splitlines()[0] == "0 0 0", run.stderr
    assert run.sql("SELECT count(*) FROM activities WHERE name = '_Z5emptym' AND end_ns > start_ns") == [(16600,)]
    assert run.sql("SELECT count(*) FROM losses") == [(0,)]


def test_records_that_never_come(timed: Run, cases: Path) -> None:
    """The tenth and the twentieth: the one is known to be done, but not when; of the other nothing is told any more."""
    run = timed(cases, "series", "20", as_="losing")
    assert run.status == 0
    assert run.sql("SELECT sum(calls)::INTEGER FROM call_stats WHERE function = 'hipLaunchKernel'") == [(20,)]
    assert run.sql("SELECT count(*) FROM activities WHERE end_ns - start_ns >= 1000000") == [(18,)]
    assert "roctracer did not tell when device work ran: of 1 pieces" in run.stderr


def test_taken_or_missing(timed: Run, cases: Path, library: Path) -> None:
    def said(**how: str) -> str:
        run = timed(cases, "series", "20", options=("--device-time", "roctracer"), **how)
        assert run.sql(PLATFORM) == [("HIP",)]
        assert run.sql(WORK) == [("kernel", "_Z4tickm", 20, 0)]
        (line,) = [line for line in run.stderr.splitlines() if line.startswith(TOLD)]
        return line.removeprefix(TOLD)

    assert said(as_="taken") == "another tool has roctracer"
    assert said(as_="refusing") == "roctracer refuses to record"
    assert said(OCCATRACE_ROCTRACER="/nowhere") == "libroctracer64 was not found"
    assert said(LD_PRELOAD=str(library)) == "the program has loaded roctracer itself"
    assert said(HSA_TOOLS_LIB="libtool.so") == "the environment gives the runtime another tool"
    # Where it was not asked for, nothing is said.
    run = timed(cases, "series", "20", as_="taken")
    assert TOLD not in run.stderr
    assert run.sql(WORK) == [("kernel", "_Z4tickm", 20, 0)]


def test_a_program_that_finds_no_device_is_left_alone(timed: Run, runtime: Path, tmp_path: Path) -> None:
    program = tmp_path / "probe"
    command = ["g++", "-w", str(ROOT / "tests/programs/hip/probe.cpp"), "-o", str(program)]
    subprocess.run([*command, f"-L{runtime}", "-lamdhip64", "-ldl"], check=True)
    for devices, lines in (("0", 0), ("1", 1)):
        env = {"FAKE_HIP_DEVICES": devices, "OCCATRACE_ROCTRACER": "/nowhere"}
        run = timed(program, options=("--device-time", "roctracer"), **env)
        assert run.stdout.split()[1] == devices, run.stderr
        assert run.stderr.count(TOLD) == lines, run.stderr


def test_a_crash_amid_work_leaves_what_had_finished(timed: Run, cases: Path) -> None:
    run = timed(cases, "crash")
    assert run.status == 134
    ((count,),) = run.sql("SELECT count(*) FROM activities WHERE kind = 'kernel'")
    assert 5 <= count < 1005
