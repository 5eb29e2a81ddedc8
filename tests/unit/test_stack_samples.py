"""Stacks by processor time in tables and in `sample_sum`: the call that a thread is in and the idle queues, at known moments."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("duckdb")
pytest.importorskip("wasmtime")
pytest.importorskip("perfetto")

from occatrace import _native, reports
from occatrace.store.tables import open_store
from occatrace.views import timeline
from tests.support.fake import MODEL, FakeThread, FakeTrace, fake_device, launch, run_folder
from tests.support.perfetto_check import check
from tests.support.timelines import REALTIME, perfetto, span, write


def _path(thread: FakeThread, number: int, addresses: Sequence[int]) -> None:
    """A stack of these addresses, the innermost last, whose innermost frame has this number."""
    for at, address in enumerate(addresses):
        own = number - len(addresses) + 1 + at
        thread.event(
            "occatrace_process:path_frame", 50, pid=100, id=own, parent=own - 1 if at else 0, address=address, end=0
        )


def _trace() -> FakeTrace:
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
    return trace


def test_calls_and_queues_at_the_moments_of_samples(tmp_path: Path) -> None:
    trace = _trace()
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


def test_a_thread_of_a_killed_process_is_known_by_its_samples(tmp_path: Path) -> None:
    """With two processes; what the thread would have said of itself at the end is missing."""
    trace = _trace()
    trace.process(200)
    writer = trace.thread(200, 201, name="occatrace")
    writer.event("occatrace_process:stack_sample", 3000, pid=200, owner=203, time=1200, path=0, cpu=5)
    with open_store(run_folder(tmp_path), model=MODEL, open_trace=trace.open) as store:
        of = "SELECT tid, pid FROM threads JOIN processes USING (process) WHERE tid IN (102, 203) ORDER BY tid"
        assert store.con.execute(of).fetchall() == [(102, 100), (203, 200)]
        assert store.con.execute("SELECT pid FROM processes ORDER BY pid").fetchall() == [(100,), (200,)]


# Samples as Perfetto knows them: moment, thread, functions from the innermost on, with the line of each where there is one.
SAMPLES = """
SELECT s.ts, t.tid, t.name AS thread, coalesce((
    WITH RECURSIVE up AS (
        SELECT c.id, c.parent_id, c.depth, c.frame_id FROM stack_profile_callsite c WHERE c.id = s.callsite_id
        UNION ALL
        SELECT c.id, c.parent_id, c.depth, c.frame_id FROM stack_profile_callsite c JOIN up ON c.id = up.parent_id)
    SELECT group_concat(text, ' ') FROM (
        SELECT m.name || '|' || f.name || coalesce('|' || y.source_file || ':' || y.line_number, '') AS text
        FROM up JOIN stack_profile_frame f ON f.id = up.frame_id JOIN stack_profile_mapping m ON m.id = f.mapping
        LEFT JOIN stack_profile_symbol y USING (symbol_set_id) ORDER BY up.depth DESC)), '') AS stack
FROM perf_sample s JOIN thread t USING (utid) ORDER BY s.ts, t.tid, stack
"""


def _lines(con: Any) -> None:
    """Of the two places in the program, as debug information would say; the inner one has none."""
    con.execute("UPDATE call_paths SET function = 'äußere', file = '/src/a.c', line = 7 WHERE depth = 0")
    con.execute("UPDATE call_paths SET function = 'inner' WHERE depth = 1")
    con.execute("UPDATE call_sites SET module = '/bin/app'")


def test_perfetto_has_the_samples(tmp_path: Path) -> None:
    path = write(tmp_path, _trace(), prepare=_lines)
    assert check(path).problems == []
    stack = "/bin/app|inner /bin/app|äußere|/src/a.c:7"
    expected = [
        (950, 100, stack), (1005, 100, stack), (1050, 100, stack), (1050, 102, stack), (1095, 100, stack), (1500, 102, ""),
    ]  # fmt: skip
    found = perfetto(path, SAMPLES)
    assert [(r.ts - REALTIME, r.tid, r.stack) for r in found] == expected
    [(highest,)] = [
        (r.v,)
        for r in perfetto(path, "SELECT max(value) AS v FROM counter JOIN perf_counter_track t ON t.id = track_id")
    ]
    assert highest == 105  # ns of all samples
    assert {r.thread for r in found if r.tid == 102} == {"w"}  # which made no call

    part = write(tmp_path / "part", _trace(), timeline.Options(threads=("w",), window=span(0, 90)), prepare=_lines)
    assert [(r.ts - REALTIME, r.tid) for r in perfetto(part, SAMPLES)] == [(1050, 102)]
    for name, options in {
        "api": timeline.Options(apis=("opencl",)),
        "name": timeline.Options(filter_name="clFinish"),
    }.items():
        assert perfetto(write(tmp_path / name, _trace(), options, prepare=_lines), SAMPLES) == []

    # Files of pieces of time have what is theirs, and are one again when they are put together.
    write(tmp_path / "split", _trace(), timeline.Options(split=100), prepare=_lines)
    files = sorted(tmp_path.glob("split/x.*.pftrace"))
    whole = tmp_path / "whole.pftrace"
    whole.write_bytes(b"".join(file.read_bytes() for file in files))
    assert len(files) > 1 and [(r.ts - REALTIME, r.tid, r.stack) for r in perfetto(whole, SAMPLES)] == expected


def test_the_encoder_refuses_bad_samples(tmp_path: Path) -> None:
    file = _native.Timeline(str(tmp_path / "x.pftrace"), 10, 0)
    samples = file.samples(1)
    stack = samples.stack([samples.frame("f", "m", "", 0)])
    with pytest.raises(ValueError, match="not the number of a frame"):
        samples.stack([2])

    def add(*times: int, number: int = stack) -> None:
        moments, count = np.array(times, np.uint64), len(times)
        samples.add(moments, np.full(count, 1, np.uint32), np.full(count, number, np.uint32), moments)

    for times in ((9,), (12, 11)):
        with pytest.raises(ValueError, match="before the origin, or not ascending"):
            add(*times)
    with pytest.raises(ValueError, match="not the number of a stack"):
        add(10, number=2)
    add(10, 10)
    file.close()
