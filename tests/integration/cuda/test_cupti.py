"""Device times by CUPTI's activity records, on a stand-in for CUPTI that the driver for tests drives; and --device-time."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.integration.cuda.test_truth import check_batches
from tests.support.suites.cuda import ROOT, Traced, compiled

Run = Callable[..., Traced]
MS = 1_000_000
WORK = "SELECT kind, name, count(*), coalesce(sum(bytes), 0)::INTEGER FROM activities GROUP BY ALL ORDER BY ALL"
PLATFORM = "SELECT DISTINCT platform FROM devices"


@pytest.fixture
def timed(traced: Run, cupti: Path) -> Run:
    """Runs a program with this CUPTI. `as_`: how CUPTI behaves."""

    def run(*command: str | Path, as_: str = "", options: tuple[str, ...] = ()) -> Traced:
        env = {"OCCATRACE_CUPTI": str(cupti), "OCCATRACE_DEVICE_TIME": "", "FAKE_CUPTI": as_}
        return traced(*command, options=options, env=env)

    return run


@pytest.mark.parametrize("as_", ["", "old"])
def test_a_series_of_kernels_lies_end_to_end(timed: Run, by_name: Path, as_: str) -> None:
    run = timed(by_name, "series", "300", as_=as_)
    assert (run.status, run.stdout) == (0, "done\n"), run.stderr
    assert run.sql(PLATFORM) == [("CUDA, device times by CUPTI 28",)]
    rows = run.sql(
        "SELECT a.start_ns, a.end_ns, gx, lx, queued_ns, c.function FROM activities a"
        " LEFT JOIN calls c ON c.thread = a.thread AND c.seq = a.seq WHERE kind = 'kernel' AND name = 'tick' ORDER BY 1"
    )
    assert len(rows) == 300
    assert all(end - start >= MS for start, end, *_ in rows)
    assert all(row[2:4] == (256, 64) and row[5] == "cuLaunchKernel" for row in rows)
    # By a clock of CUPTI's own they lie as surely as it is bracketed.
    slack = MS // 2 if as_ else 0
    assert all(later[0] >= earlier[1] - slack for earlier, later in zip(rows, rows[1:], strict=False))
    assert all(row[0] >= row[4] for row in rows)


def test_the_same_work_as_by_events(timed: Run, linked: Path) -> None:
    for case in ("idle", "copies", "graphs", "threads", "devices"):
        found = []
        for how in ("cupti", "events"):
            run = timed(linked, case, options=("--device-time", how))
            assert run.status == 0, run.stderr
            assert "timed by events" not in run.stderr
            found.append(run.sql(WORK))
        assert found[0] == found[1]
    # None of our events is in the program's streams.
    assert timed(linked, "many", "500").stdout.splitlines()[0] == "0 0"


def test_several_copies_by_one_call(timed: Run, linked: Path) -> None:
    """Of each of them comes a record."""
    run = timed(linked, "batches")
    assert (run.status, run.stdout) == (0, "done\n"), run.stderr
    assert run.sql(PLATFORM) == [("CUDA, device times by CUPTI 28",)]
    check_batches(run)


def test_many_and_none_is_lost(timed: Run, linked: Path) -> None:
    run = timed(linked, "many", "20000")
    assert run.sql("SELECT count(*) FROM activities WHERE name = 'empty'") == [(40000,)]
    assert run.sql("SELECT count(*) FROM losses") == [(0,)]


def test_choosing(timed: Run, linked: Path) -> None:
    """The work of a launch goes with its call, whoever tells the times."""
    run = timed(linked, "series", "20", options=("--exclude-kernels", "tick"))
    assert run.sql(PLATFORM) == [("CUDA, device times by CUPTI 28",)]
    assert run.sql("SELECT count(*) FROM activities WHERE name = 'tick'") == [(0,)]
    assert run.sql("SELECT count(*) FROM calls WHERE function = 'cuLaunchKernel'") == [(0,)]


def test_records_that_never_come(timed: Run, linked: Path) -> None:
    """The tenth and the twentieth: the one is known to be done, but not when; of the other nothing is told any more."""
    run = timed(linked, "series", "20", as_="losing")
    assert run.status == 0
    assert run.sql("SELECT sum(calls)::INTEGER FROM call_stats WHERE function = 'cuLaunchKernel'") == [(20,)]
    assert run.sql("SELECT count(*) FROM activities WHERE name = 'tick' AND end_ns - start_ns >= 1000000") == [(18,)]
    assert "CUPTI did not tell when device work ran: of 1 pieces" in run.stderr


def test_taken_or_missing(timed: Run, traced: Run, linked: Path) -> None:
    told = "occatrace: device work is timed by events: "
    run = timed(linked, "series", "20", as_="taken", options=("--device-time", "cupti"))
    assert f"{told}another tool has CUPTI\n" in run.stderr
    assert run.sql(PLATFORM) == [("CUDA",)]
    assert run.sql(WORK) == [("kernel", "tick", 20, 0)]
    run = timed(linked, "series", "20", as_="taken")
    assert told not in run.stderr
    assert run.sql(WORK) == [("kernel", "tick", 20, 0)]
    run = traced(linked, "series", "20", options=("--device-time", "cupti"), env={"OCCATRACE_CUPTI": "/nowhere"})
    assert f"{told}libcupti was not found\n" in run.stderr


def test_a_program_with_its_own_cupti_keeps_it(traced: Run, linked: Path, cupti: Path, tmp_path: Path) -> None:
    tool = compiled(ROOT / "tests/programs/cuda/own_cupti.cpp", tmp_path / "own.so", ["-shared", "-fPIC", "-ldl"])
    library = str(cupti)
    changes = {"LD_PRELOAD": str(tool), "OWN_CUPTI": library, "OCCATRACE_CUPTI": library, "OCCATRACE_DEVICE_TIME": ""}
    run = traced(linked, "series", "20", env=changes)
    # All records are the program's, and what ours tells of the kernels comes from events.
    assert (run.status, run.stdout) == (0, "done\nkernels: 20\n"), run.stderr
    assert run.sql(PLATFORM) == [("CUDA",)]
    assert run.sql("SELECT count(*) FROM activities WHERE name = 'tick' AND end_ns - start_ns >= 1000000") == [(20,)]


@pytest.mark.parametrize("how", ["linked", "by handle", "loaded", "another"])
def test_a_program_may_take_cupti_when_it_wants(
    traced: Run, driver: Path, cupti: Path, tmp_path: Path, how: str
) -> None:
    program = tmp_path / "cases"
    options = [f"-L{driver}", "-lcuda", "-lpthread", "-ldl"]
    command: list[str | Path] = [program, "profiles", "50"]
    own = cupti
    if how == "another":
        own = Path(shutil.copy(cupti, tmp_path / "libcupti.so.11"))
    elif how != "by handle":
        options += ["-DLINKED_CUPTI", str(cupti), f"-Wl,-rpath,{cupti.parent}"]
    if how == "loaded":
        # As PyTorch's library by Python: what it brings is no other library's to see.
        options += ["-shared", "-fPIC"]
        lines = (
            "import ctypes, sys",
            "words = [word.encode() for word in sys.argv[1:]]",
            "sys.exit(ctypes.CDLL(sys.argv[1]).main(len(words), (ctypes.c_char_p * len(words))(*words)))",
        )
        (tmp_path / "load.py").write_text("\n".join(lines))
        command = [sys.executable, tmp_path / "load.py", *command]
    compiled(ROOT / "tests/programs/cuda/cases.cpp", program, options)
    env = {"OWN_CUPTI": str(own), "OCCATRACE_CUPTI": str(cupti), "OCCATRACE_DEVICE_TIME": ""}
    run = traced(*command, env=env)
    assert run.status == 0, run.stderr
    failed, records, others = map(int, run.stdout.splitlines()[0].split())
    # Its calls of CUPTI succeed, and it gets its own records and no other.
    assert failed == 0 and records >= 50 and run.stdout.endswith("done\n"), run.stdout
    assert "the program uses CUPTI itself now: from here on its device work is timed by events" in run.stderr
    # Nothing is missing in ours, before, beside and after, and each kernel lasts as long as it does.
    assert run.sql(PLATFORM) == [("CUDA, device times by CUPTI 28",)]
    assert run.sql("SELECT name, count(*) FROM activities GROUP BY 1 ORDER BY 1") == [("empty", others), ("tick", 150)]
    rows = run.sql("SELECT start_ns, end_ns FROM activities WHERE name = 'tick' ORDER BY start_ns")
    short = [(at, end - start) for at, (start, end) in enumerate(rows) if end - start < MS]
    assert not short
    assert all(later[0] >= earlier[1] for earlier, later in zip(rows[:50], rows[1:50], strict=False))
    assert run.sql("SELECT count(*) FROM losses") == [(0,)]


def test_off(timed: Run, linked: Path) -> None:
    run = timed(linked, "many", "500", options=("--device-time", "off"))
    assert run.stdout.splitlines()[0] == "0 0"
    assert run.sql("SELECT sum(calls)::INTEGER FROM call_stats WHERE function = 'cuLaunchKernel'") == [(1000,)]
    assert run.sql("SELECT count(*) FROM activities") == [(0,)]


def test_a_crash_amid_work_leaves_what_had_finished(timed: Run, linked: Path) -> None:
    run = timed(linked, "crash")
    assert run.status == 134
    ((count,),) = run.sql("SELECT count(*) FROM activities WHERE name = 'tick'")
    assert 5 <= count < 1005
