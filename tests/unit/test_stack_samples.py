"""Stacks by processor time in tables and in `sample_sum`: the call that a thread is in and the idle queues, at known moments."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

pytest.importorskip("duckdb")

from occatrace import reports
from occatrace.store.tables import open_store
from tests.support.fake import MODEL, FakeThread, FakeTrace, fake_device, launch, run_folder


def _path(thread: FakeThread, number: int, addresses: Sequence[int]) -> None:
    """A stack of these addresses, the innermost last, whose innermost frame has this number."""
    for at, address in enumerate(addresses):
        own = number - len(addresses) + 1 + at
        thread.event(
            "occatrace_process:path_frame", 50, pid=100, id=own, parent=own - 1 if at else 0, address=address, end=0
        )


def test_calls_and_queues_at_the_moments_of_samples(tmp_path: Path) -> None:
    trace = FakeTrace()
    main = trace.process(100)
    fake_device(main, 2)
    writer = trace.thread(100, 101, name="occatrace")
    _path(writer, 2, (0x1000, 0x2000))
    for owner, time, path, cpu in (
        (100, 950, 2, 10),  # before any call
        (100, 1005, 2, 10),  # in the outer call only
        (100, 1050, 2, 30),  # in the inner one; queue 1 works
        (100, 1095, 2, 10),  # in the outer one again
        (102, 1050, 2, 40),  # a thread without calls, while queue 1 works
        (102, 1500, 0, 5),  # without a stack
    ):
        writer.event("occatrace_process:stack_sample", 3000, pid=100, owner=owner, time=time, path=path, cpu=cpu)
    for taken in (50, 95):  # the last one counts
        writer.event(
            "occatrace_process:sampled_thread", 3000 + taken, pid=100, owner=102, name="w", cpu=200,
            taken=taken, lost=7,
        )  # fmt: skip
    outer = main.take()
    launch(main, 1000, 10, 20, 80, "k")
    launch(main, 1000, 12, 300, 310, "k", queue=2)
    main.call("opencl:clFinish", 1030, 1090, ret=0)
    main.call("opencl:clBuildProgram", 1000, 1100, outer, options="", ret=0)
    with open_store(run_folder(tmp_path), model=MODEL, open_trace=trace.open) as store:
        threads = store.con.execute(
            "SELECT tid, name, s.cpu_ns, sampled_ns, lost_ns FROM sampled_threads s JOIN threads USING (process, thread)"
        ).fetchall()
        assert threads == [(102, "w", 200, 95, 7)]
        samples = store.con.execute("SELECT tid, time_ns, cpu_ns, path FROM stack_samples JOIN threads USING (thread)")
        assert sorted(samples.fetchall())[-2:] == [(102, 1050, 40, 2), (102, 1500, 5, 0)]
        assert any("7e-09 s of 2e-07 s of CPU time have no stacks" in problem for problem in store.problems)
        report = reports.make(store, "sample_sum")
    names = [column.name for column in report.definition.columns]
    [row] = [dict(zip(names, row, strict=True)) for row in report.rows]
    assert (row["self_ns"], row["total_ns"], row["samples"]) == (100, 100, 5)
    assert row["in_call"] == ""  # 50 ns in none, 30 in clFinish, 20 in clBuildProgram
    assert row["idle"] == pytest.approx(30) and row["idle_queues"] == "2"
    assert row["share"] == pytest.approx(100 * 100 / 105)
