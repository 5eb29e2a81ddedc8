"""The factors of efficiency on tables whose truth is known, from tables and from merged summaries."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from occatrace import reports
from occatrace.cli.dispatch import main
from occatrace.reports import efficiency, partial
from occatrace.store.tables import open_store
from tests.support.fake import MODEL, FakeTrace, fake_device, fake_rank, launch, mpi, recorded, run_folder
from tests.support.schemas import validate
from tests.unit.test_steps import stepping

AT = 1_000_000
WORK = 1000


def imbalanced(by: float, ranks: int = 4) -> FakeTrace:
    """The last rank computes `by` longer than the others, then all meet at a barrier that takes no time of its own."""
    trace = FakeTrace()
    longest = round(WORK * (1 + by))
    for rank in range(ranks):
        t = fake_rank(trace, rank, ranks, AT, init=100)
        end = AT + 110 + longest
        own = AT + 110 + (longest if rank == ranks - 1 else WORK)
        mpi(t, "MPI_Barrier", own, end)
        t.call("mpi:MPI_Finalize", end, end + 10, ret=0)
        t.event("occatrace_mpi:rank", end, rank=rank, size=ranks, library=0, abi=0)
        t.record("exit", end + 20, reason=0)
    return trace


def values(rows: list[tuple[object, ...]]) -> dict[str, float]:
    return {str(row[2]): float(str(row[0])) for row in rows}


@pytest.mark.parametrize("by", [0.1, 0.2, 0.4])
def test_set_imbalance(tmp_path: Path, by: float) -> None:
    """Within a point of the definition: three ranks with 1, one with 1 + by."""
    expected = 100 * (3 + 1 + by) / (4 * (1 + by))
    with open_store(run_folder(tmp_path), model=MODEL, open_trace=imbalanced(by).open) as store:
        found = values(list(reports.make(store, "efficiency").rows))
        partial.make(store.con)
        merged = partial.report(store.con, "efficiency", 4)
    assert found["parallel efficiency"] == found["load balance"] == pytest.approx(expected, abs=0.1)
    assert found["communication"] == found["serialization"] == found["transfer"] == pytest.approx(100.0, abs=0.1)
    assert values(list(merged.rows)) == {
        name: found[name] for name in ("parallel efficiency", "load balance", "communication")
    }
    assert merged.notes == [efficiency.NO_REPLAY]


def test_transfer_and_serialization(tmp_path: Path) -> None:
    """Rank 0 works 400, then rank 1 works 400, and in between a message travels for 200: T is 1000, ideal 800."""
    trace = FakeTrace()
    for rank in (0, 1):
        t = fake_rank(trace, rank, 2, AT, init=100)
        if rank == 0:
            mpi(t, "MPI_Send", AT + 510, AT + 511, partner=1, tag=1, bytes=8, count=1)
            mpi(t, "MPI_Barrier", AT + 511, AT + 1111)
        else:
            mpi(t, "MPI_Recv", AT + 110, AT + 710, partner=0, tag=1, bytes=8, count=1)
            mpi(t, "MPI_Barrier", AT + 1110, AT + 1111)
        t.call("mpi:MPI_Finalize", AT + 1112, AT + 1120, ret=0)
        t.event("occatrace_mpi:rank", AT + 1112, rank=rank, size=2, library=0, abi=0)
        t.record("exit", AT + 1130, reason=0)
    with open_store(run_folder(tmp_path), model=MODEL, open_trace=trace.open) as store:
        found = values(list(reports.make(store, "efficiency").rows))
    assert found["load balance"] == pytest.approx(100.0, abs=0.1)
    assert found["communication"] == pytest.approx(40.0, abs=0.2)
    assert [found["serialization"], found["transfer"]] == pytest.approx([50.0, 80.0], abs=0.2)


def test_devices(tmp_path: Path) -> None:
    """Of 1000: kernels 400 on one device and 200 on the other, a copy of 100 apart from them on the first; the host waits 500."""
    trace = FakeTrace()
    t = trace.process(100, start=AT)
    fake_device(t, AT, queues=1)
    fake_device(t, AT, queues=1, number=2)
    launch(t, AT, 90, 100, 500, "a", queue=1)
    launch(t, AT, 100, 500, 600, "HtoD", queue=1, kind=2)
    launch(t, AT, 110, 200, 400, "b", queue=2)
    t.call("opencl:clFinish", AT + 120, AT + 620, command_queue=1, ret=0)
    t.record("exit", AT + 1000, reason=0)
    with open_store(run_folder(tmp_path), model=MODEL, open_trace=trace.open) as store:
        report = reports.make(store, "efficiency")
    found = values(list(report.rows))
    assert found == {
        "parallel efficiency": pytest.approx(47.0),  # 500 of the wait, 30 of the launches
        "device offload": pytest.approx(47.0),
        "device efficiency": pytest.approx(30.0),
        "device load balance": pytest.approx(75.0),
        "copies": pytest.approx(80.0),
        "orchestration": pytest.approx(50.0),
    }
    assert found["device efficiency"] == pytest.approx(75 * 80 * 50 / 1e4)
    assert any("one rank" in note for note in report.notes)


def test_scale(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Twice the ranks with half of the work each would take half as long; here each has as much."""
    runs = [str(recorded(tmp_path / str(ranks), imbalanced(0.2, ranks))) for ranks in (2, 4)]
    assert main(["efficiency", "--scale", *runs, "--format", "json"]) == 0
    text = capsys.readouterr().out
    validate("report", text)
    (report,) = json.loads(text)["reports"]
    rows = {row["name"].strip(): (row["run_1"], row["run_2"]) for row in report["rows"]}
    assert rows["speedup"] == pytest.approx((100.0, 100.0))
    assert rows["computation scalability"] == pytest.approx((100.0, 100 * 2.2 / 4.2))
    assert rows["load balance"] == pytest.approx((100 * 2.2 / 2.4, 100 * 4.2 / 4.8))
    assert main(["efficiency"]) == 2
    assert "no run given" in capsys.readouterr().err


def test_a_range(tmp_path: Path) -> None:
    """Rank 0 is 100 of 400 in MPI, rank 1 300 of 400; what is outside of the range does not count."""
    trace = FakeTrace()
    for rank in (0, 1):
        t = fake_rank(trace, rank, 2, AT)
        mpi(t, "MPI_Barrier", AT + 50, AT + 90)
        mpi(t, "MPI_Barrier", AT + (400 if rank == 0 else 200), AT + 500)
        t.record("exit", AT + 1000, reason=0)
    with open_store(run_folder(tmp_path), model=MODEL, open_trace=trace.open) as store:
        store.con.execute(
            "CREATE OR REPLACE TEMP TABLE ranges AS SELECT process, NULL AS thread, '' AS domain, 'step' AS name, 'push' AS kind,"
            f" 0 AS depth, {AT + 100} AS start_ns, {AT + 500} AS end_ns FROM processes"
        )
        store.filled = store.filled | {"ranges"}
        found = values([row for row in reports.make(store, "efficiency").rows if row[4] == "range step"])
    assert found == {
        "parallel efficiency": pytest.approx(50.0),
        "load balance": pytest.approx(100 * 400 / 600),
        "communication": pytest.approx(75.0),
    }


def test_time_steps(tmp_path: Path) -> None:
    """Ten steps of 100 with kernels for 60; the seventh takes 160 with 120 of kernels, and the last one ends with its last kernel."""
    with open_store(run_folder(tmp_path), model=MODEL, open_trace=stepping().open) as store:
        rows = reports.make(store, "efficiency").rows
    found = {str(row[4]): row[0] for row in rows if row[2] == "device efficiency"}
    assert found.pop("run") is not None
    assert found == {
        "all 10 time steps": pytest.approx(100 * 660 / (8 * 100 + 160 + 64)),
        **{f"time step {n}": pytest.approx(60.0) for n in range(4)},
        "time step 7": pytest.approx(100 * 120 / 160),
    }


def test_time_steps_of_ranks(tmp_path: Path) -> None:
    """In step n, of four, rank 1 computes for 100, rank 0 for 100 (n + 1) / 4; then they meet."""
    trace = FakeTrace()
    for rank in (0, 1):
        t = fake_rank(trace, rank, 2, AT)
        for step in range(4):
            begin = AT + 1000 + 200 * step
            mpi(t, "MPI_Barrier", begin + (25 * (step + 1) if rank == 0 else 100), begin + 100)
        t.record("exit", AT + 5000, reason=0)
    with open_store(run_folder(tmp_path), model=MODEL, open_trace=trace.open) as store:
        store.con.execute(
            "CREATE OR REPLACE TEMP TABLE ranges AS SELECT process, thread, '' AS domain, 'step' AS name, 'push' AS kind, 0 AS depth,"
            f" {AT + 1000} + 200 * n AS start_ns, {AT + 1100} + 200 * n AS end_ns FROM threads, range(4) t(n)"
        )
        store.filled = store.filled | {"ranges"}
        rows = [row for row in reports.make(store, "efficiency").rows if row[2] == "load balance"]
    found = {str(row[4]): row[0] for row in rows if "time step" in str(row[4])}
    assert found == {
        "all 4 time steps": pytest.approx(100 * (250 + 400) / (2 * 400)),
        **{f"time step {n}": pytest.approx(100 * (25 * (n + 1) + 100) / 200) for n in range(4)},
    }
