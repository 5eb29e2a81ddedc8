"""Runs that were recorded in part: idle time, lengths and comparisons are of the recorded time."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import duckdb
import pytest

from occatrace.cli.dispatch import main
from occatrace.store import captures
from occatrace.store.losses import Losses
from occatrace.store.tables import open_store
from tests.support.fake import FakeTrace, recorded

# Recorded from 1,000 to 2,000 and from 9,000 to 10,000 µs; in each, ten pieces of work of 50 µs, one each 100 µs.
PERIODS = [[1_000_000, 2_000_000], [9_000_000, 10_000_000]]


def trace_of(periods: list[list[int]], work: int = 50_000) -> FakeTrace:
    trace = FakeTrace()
    t = trace.process(100)
    name = t.name("axpy")
    texts = {key: t.name(key) for key in ("opencl", "Portable", "device", "Me")}
    t.event("occatrace_device:device", 6, id=1, api=texts["opencl"], platform=texts["Portable"], name=texts["device"],
            vendor=texts["Me"], handle=0x10)  # fmt: skip
    t.event("occatrace_device:queue", 7, id=1, device=1, handle=0x20, flags=0)
    for begin, _ in periods:
        for at in range(begin, begin + 1_000_000, 100_000):
            seq = t.call("opencl:clEnqueueNDRangeKernel", at, at + 1000, **{"global": [64]}, ret=0)
            t.event("occatrace_device:activity", at + work + 5000, kind=1, corr_tid=100, corr_seq=seq, run_seq=0xFFFFFFFF, queue=1,
                    queued=at, submitted=at, start=at + 2000, end=at + 2000 + work, name=name, gx=64, gy=1, gz=1, lx=1, ly=1,
                    lz=1)  # fmt: skip
    t.record("progress", 11_900_000, owner=100, next_seq=t.seq + 1)
    t.record("exit", 12_000_000, reason=0)
    return trace


@pytest.fixture
def run(tmp_path: Path) -> Path:
    return recorded(tmp_path / "partly", trace_of(PERIODS), captures={"node0": PERIODS})


def test_gaps_and_shares_are_of_the_recorded_time(run: Path, tmp_path: Path) -> None:
    whole = recorded(tmp_path / "whole", trace_of(PERIODS))
    from occatrace import reports

    with open_store(run) as store, open_store(whole) as other:
        # From the first work to the end of the first period, and from the begin of the second to its last work.
        span = (2_000_000 - 1_002_000) + (9_952_000 - 9_000_000)
        (use, *_), (of_whole, *_) = (
            [dict(zip([c.name for c in r.columns], row, strict=True)) for row in r.rows]
            for r in (reports.make(s, "gpu_util") for s in (store, other))
        )
        assert (use["busy_ns"], use["span_ns"], use["idle_ns"]) == (1_000_000, span, span - 1_000_000)
        assert use["share"] == pytest.approx(100 * 1_000_000 / span)
        # Nine gaps within each period, and what was recorded of the time between the two.
        assert (use["gaps"], use["longest_gap_ns"], use["long_gaps"]) == (19, 48_000 + 2_000, 0)
        assert (of_whole["span_ns"], of_whole["longest_gap_ns"]) == (8_950_000, 9_002_000 - 1_952_000)
        gaps = reports.make(store, "gpu_gaps")
        assert max(row[1] for row in gaps.rows) == 50_000 and sum(row[0] for row in gaps.rows) == pytest.approx(
            100 - use["share"]
        )
        lost = store.losses({"captures": {"node0": PERIODS}})
        assert lost.captured == (2_000_000, int(store.con.execute("SELECT run_length()").fetchall()[0][0]))
        assert any(line.startswith("captured 2.000 ms of ") for line in lost.lines())


def test_runs_recorded_in_part_are_compared_by_call(
    run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    other = recorded(tmp_path / "other", trace_of(PERIODS[:1], 80_000), captures={"node0": PERIODS[:1]})
    assert main(["compare", str(run.parent / "run"), str(other), "--format", "csv", "--all-columns"]) == 0
    out, err = capsys.readouterr()
    assert "medians per call are compared" in err and "captured 2.000 ms of" in err and "captured 1.000 ms of" in err
    lines = [line.split(",") for line in out.splitlines() if line and not line.startswith("#")]
    head = next(line for line in lines if "kind" in line)
    rows = {line[1]: dict(zip(head, line, strict=True)) for line in lines if line[0] in ("total", "kernels")}
    assert "whole run" not in rows
    assert (rows["recorded time"]["total_ns_1"], rows["recorded time"]["total_ns_2"]) == ("2000000", "1000000")
    assert rows["recorded time"]["ratio_2"] == rows["all kernels"]["ratio_2"] == ""
    assert float(rows["axpy"]["ratio_2"]) == pytest.approx(1.6)


def test_periods_of_nodes_are_on_their_own_clocks() -> None:
    """Two nodes, the second a thousand seconds ahead; a process of the first chose a part of it for itself."""
    ahead = 1_000_000_000_000
    con = duckdb.connect()
    con.execute("CREATE TABLE processes (process INT, host VARCHAR, trace VARCHAR, start_ns UBIGINT, end_ns UBIGINT)")
    con.execute(
        "INSERT INTO processes VALUES (1, 'a', 'a', 100, 1000), (2, 'b', 'b', 100, 1000), (3, 'c', 'c', 100, 1000)"
    )
    con.execute("CREATE TABLE captures AS SELECT 1 AS process, 250::UBIGINT AS start_ns, 700::UBIGINT AS end_ns")
    con.execute(f"CREATE TABLE process_clocks AS SELECT 2 AS process, {ahead} AS ahead_ns, 0.0 AS drift, 0 AS since_ns")
    spans = {"a": [[200, 300], [600, 900]], "b": [[ahead + 400, ahead + 500]], "c": []}
    assert captures.make(con, {"captures": spans})
    found = con.execute("SELECT process, start_ns, end_ns FROM recorded ORDER BY ALL").fetchall()
    assert found == [(1, 250, 300), (1, 600, 700), (2, 400, 500)]
    assert captures.length(con) == 50 + 100 + 100
    missing = "SELECT unrecorded_ns(1, 100, 1000), unrecorded_ns(1, 260, 650), unrecorded_ns(2, 450, 460), unrecorded_ns(3, 5, 9)"
    assert con.execute(missing).fetchall() == [(750, 300, 0, 4)]


def test_a_run_that_always_recorded_pays_nothing() -> None:
    con = duckdb.connect()
    con.execute("CREATE TABLE captures (process INT)")
    assert not captures.make(con, {})
    assert con.execute("SELECT unrecorded_ns(1, 5, 9), recorded_ns(7)").fetchall() == [(0, 7)]
    assert not con.execute("SELECT 1 FROM duckdb_tables() WHERE table_name LIKE '%recorded'").fetchall()


@pytest.mark.parametrize(
    ("captures_of_nodes", "choice", "told"),
    [
        ({"node0": []}, {}, "the program ran for 12.00 ms and ended before recording began (--delay, --start-paused)"),
        ({"node0": [[8_000_000, 8_000_001]]}, {}, "no traced call began in the 1 ns that were recorded of 12.00 ms; record more"),
        # The program did not begin, so the run's own switch recorded nothing of it.
        ({"node0": [[90_000_000, 91_000_000]]}, {"OCCATRACE_CAPTURE_RANGE": "range:solve"},
         "the program never opened a range called 'solve' (NVTX, ROCTX, ITT, occatrace.h; --capture-range)"),
        ({"node0": [[90_000_000, 91_000_000]]}, {"OCCATRACE_CAPTURE_RANGE": "cudaProfilerApi"},
         "the program never called cudaProfilerStart or cuProfilerStart (--capture-range cudaProfilerApi)"),
        ({}, {}, "no traced API was used, or the program was not reached (occa_prof doctor)"),
    ],
)  # fmt: skip
def test_why_nothing_was_recorded(
    captures_of_nodes: dict[str, list[list[int]]],
    choice: dict[str, str],
    told: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """The cause is named where it is known; doctor cannot find it."""
    folder = recorded(tmp_path / "r", trace_of([]), captures=captures_of_nodes, choice=choice)
    assert main(["report", str(folder)]) == 0
    last = capsys.readouterr().out.splitlines()[-1]
    assert last.startswith(f"nothing was recorded: {told}"), last


def test_a_pause_that_is_too_short_to_show_is_no_warning() -> None:
    lines = [replace(Losses.none(), captured=(ns, 522_900_000)).lines() for ns in (522_899_000, 522_900_000)]
    assert lines == [[], []]
    assert replace(Losses.none(), captured=(0, 522_900_000)).lines() == [
        "captured 0 ns of 522.9 ms: what is below is of that time"
    ]
