"""From batches to tables: every number against its independent computation from the events as they were written."""

from __future__ import annotations

import json
import shutil
from collections import defaultdict
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import occatrace
from occatrace import reports
from occatrace.core.histogram import bucket
from occatrace.core.schema import SCHEMA_VERSION, TABLES
from occatrace.errors import StoreError
from occatrace.store import losses, tables
from occatrace.store.tables import Store, connect, open_store
from tests.support.fake import MODEL, FakeTrace, demo_trace, run_folder


def store_of(tmp_path: Path, trace: FakeTrace) -> Store:
    return open_store(run_folder(tmp_path), model=MODEL, open_trace=trace.open)


def rows(store: Store, sql: str) -> list[tuple[Any, ...]]:
    return store.con.execute(sql).fetchall()


def random_trace(seed: int, threads: int, calls: int) -> FakeTrace:
    """Calls of two functions on several threads, durations over many octaves."""
    rng = np.random.default_rng(seed)
    trace = FakeTrace(batch_rows=777)
    main = trace.process(50)
    others = [main, *(trace.thread(50, 51 + i) for i in range(threads - 1))]
    for thread in others:
        at = 1000
        for _ in range(calls):
            duration = int(rng.lognormal(8, 3))
            name = ("clCreateBuffer", "clFinish")[int(rng.integers(2))]
            ret = -30 if rng.random() < 0.1 else 0
            if name == "clFinish":
                thread.call(f"opencl:{name}", at, at + duration, command_queue=1, ret=ret)
            else:
                thread.call(f"opencl:{name}", at, at + duration, flags=1, size=int(rng.integers(1, 1 << 40)), ret=ret)
            at += duration + 10
        thread.record("progress", at, owner=thread.tid, next_seq=thread.seq + 1)
    main.record("exit", 1 << 60, reason=0)
    return trace


@pytest.mark.parametrize("threads", [1, 2, 9])
def test_call_statistics(tmp_path: Path, threads: int) -> None:
    trace = random_trace(threads, threads, 3000)
    durations: dict[tuple[int, str], list[int]] = defaultdict(list)
    failed: dict[tuple[int, str], int] = defaultdict(int)
    moved: dict[tuple[int, str], int] = defaultdict(int)
    for event, row in trace.rows:
        if event.startswith("occatrace_opencl:"):
            key = (row["tid"], event.partition(":")[2])
            durations[key].append(row["ts"] - row["start"])
            failed[key] += row["ret"] < 0
            moved[key] += row.get("size", 0) if row["ret"] >= 0 else 0
    with store_of(tmp_path, trace) as store:
        found = rows(
            store,
            "SELECT t.tid, s.function, calls, failed, total_ns, mean_ns, m2, min_ns, max_ns, bytes"
            " FROM call_stats s JOIN threads t USING (thread)",
        )
        assert {(r[0], r[1]) for r in found} == set(durations)
        for tid, function, calls, fails, total, mean, m2, low, high, size in found:
            d = np.array(durations[tid, function], np.float64)
            assert (calls, fails, total) == (len(d), failed[tid, function], sum(durations[tid, function]))
            assert (low, high, size) == (d.min(), d.max(), moved[tid, function])
            assert np.isclose(mean, d.mean(), rtol=1e-12) and np.isclose(m2, ((d - d.mean()) ** 2).sum(), rtol=1e-9)
        hist = rows(store, "SELECT t.tid, function, value_ns, calls FROM call_hist JOIN threads t USING (thread)")
        for key, took in durations.items():
            expected = np.unique(bucket(np.array(took)), return_counts=True)[1]
            counts = [c for tid, f, _, c in sorted(hist) if (tid, f) == key]
            assert counts == expected.tolist()
        # All threads together, as the report has it.
        names = [c.name for c in reports.definition("api_sum").columns]
        report = {row[names.index("name")]: row for row in reports.make(store, "api_sum").rows}
        for function in ("clFinish", "clCreateBuffer"):
            d = np.concatenate([v for (_, f), v in durations.items() if f == function]).astype(np.float64)
            row = dict(zip(names, report[function], strict=True))
            assert (row["calls"], row["total_ns"], row["min_ns"], row["max_ns"]) == (len(d), d.sum(), d.min(), d.max())
            assert row["failed"] == sum(n for (_, f), n in failed.items() if f == function)
            assert np.isclose(row["avg_ns"], d.mean()) and np.isclose(row["stddev_ns"], d.std(ddof=1), rtol=1e-9)
            assert np.isclose(row["med_ns"], np.median(d), rtol=0.01)
        assert rows(store, "SELECT * FROM losses") == []


def test_events_and_tallies_are_merged(tmp_path: Path) -> None:
    trace = FakeTrace()
    t = trace.process(7)
    for i in range(10):
        t.call("opencl:clFinish", 100 + 10 * i, 105 + 10 * i, command_queue=1, ret=0)
    # Cumulative, from two threads; the last one of each counts. Written at 2 GHz.
    u = trace.thread(7, 8)
    trace.tally(t, "opencl:clFinish", [1000], 500, hz=2 * 10**9)
    trace.tally(t, "opencl:clFinish", [1000, 3000], 600, failed=1, hz=2 * 10**9)
    trace.tally(u, "opencl:clFinish", [5000], 600, hz=2 * 10**9)
    with store_of(tmp_path, trace) as store:
        names = [c.name for c in reports.definition("api_sum").columns]
        (row,) = reports.make(store, "api_sum").rows
        got = dict(zip(names, row, strict=True))
    assert got["calls"] == 13 and got["failed"] == 1 and got["total_ns"] == 50 + 9000
    assert (got["min_ns"], got["med_ns"], got["max_ns"]) == (5, 5, 5000)
    expected = np.std([5] * 10 + [1000, 3000, 5000], ddof=1)
    assert np.isclose(got["stddev_ns"], expected, rtol=0.01)


def test_names_in_pieces_and_hostile(tmp_path: Path) -> None:
    names: list[str | bytes] = [
        "kérnel ß" * 40,
        'comma, "quote"\nline',
        "x" * 20_000,
        "\x01\x1b[31m",
        b"\xff\xfe not UTF-8",
        "nul\0in it",
    ]
    trace = FakeTrace()
    t = trace.process(7)
    numbers = [t.name(n) for n in names]
    with store_of(tmp_path, trace) as store:
        found = dict(rows(store, "SELECT id, text FROM names"))
    assert [found[n] for n in numbers[:4]] == names[:4]
    assert found[numbers[4]] == "\\xff\\xfe not UTF-8" and found[numbers[5]] == "nul\\x00in it"


def test_thread_ids_used_again(tmp_path: Path) -> None:
    """An exec (same process id, numbers begin again), and a thread id that another process' thread gets later."""
    trace = FakeTrace()
    a = trace.process(10, start=100, exe="/bin/first")
    for i in range(5):
        a.call("opencl:clFinish", 200 + i, 201 + i, command_queue=1, ret=0)
    a.record("exit", 300, reason=2)
    b = trace.process(10, start=1000, exe="/bin/second")
    name = b.name("from the second image", 1001)
    b.record("kernel", 1001, id=1, name=name, mode=0, source=0, line=1, binary=0)
    for i in range(3):
        b.call("occa:kernel_run", 2000 + i, 2001 + i, kernel=1, launches=0, error=0)
    b.record("exit", 3000, reason=0)
    c = trace.process(11, start=4000, exe="/bin/third")
    d = trace.thread(11, 10, start=4100)
    d.call("opencl:clFinish", 4200, 4201, command_queue=1, ret=0)
    c.record("exit", 5000, reason=0)
    with store_of(tmp_path, trace) as store:
        found = rows(
            store,
            "SELECT p.exe, t.tid, s.function, s.calls FROM call_stats s JOIN threads t USING (thread)"
            " JOIN processes p ON p.process = t.process ORDER BY t.start_ns",
        )
        assert found == [
            ("/bin/first", 10, "clFinish", 5),
            ("/bin/second", 10, "occa::kernel::run", 3),
            ("/bin/third", 10, "clFinish", 1),
        ]
        assert rows(store, "SELECT exe, exit FROM processes ORDER BY start_ns") == [
            ("/bin/first", "exec"), ("/bin/second", "exit"), ("/bin/third", "exit"),
        ]  # fmt: skip
        assert rows(store, "SELECT DISTINCT k.name FROM kernel_runs JOIN kernels k USING (kernel)") == [
            ("from the second image",)
        ]
        assert rows(store, "SELECT * FROM losses") == []
        store.functions()
        assert rows(
            store, "SELECT p.exe, count(*) FROM calls c JOIN processes p USING (process) GROUP BY 1 ORDER BY 1"
        ) == [("/bin/first", 5), ("/bin/second", 3), ("/bin/third", 1)]


def test_two_hosts_with_the_same_ids(tmp_path: Path) -> None:
    traces = {host: demo_trace() for host in ("a", "b")}
    run = run_folder(tmp_path, ("a", "b"))
    with open_store(run, model=MODEL, open_trace=lambda p, e: traces[p.name].open(p, e)) as store:
        assert rows(store, "SELECT count(*) FROM processes") == [(2,)]
        assert rows(store, "SELECT count(*), count(kernel), count(queue) FROM activities") == [(48, 40, 48)]
        assert dict(rows(store, "SELECT process, count(*) FROM kernel_runs GROUP BY 1")) == {1: 20, 2: 20}
        store.functions()
        assert dict(rows(store, "SELECT process, count(*) FROM calls GROUP BY 1")) == {1: 49, 2: 49}


def test_losses_and_unfinished_calls(tmp_path: Path) -> None:
    trace = demo_trace()
    lost = [i for i, (event, _) in enumerate(trace.rows) if event == "occatrace_opencl:clEnqueueNDRangeKernel"][:3]
    trace.rows = [row for i, row in enumerate(trace.rows) if i not in lost]
    with store_of(tmp_path, trace) as store:
        found = losses.read(store.con, store.problems, {"processes": [100, 4711], "notes": ["a note"]})
    assert (found.events, found.threads[0].tid, found.missing) == (3, 100, [4711])
    assert [u.function for u in found.unfinished] == ["clFinish"]
    text = "\n".join(found.lines())
    assert "3 of " in text and "never returned: clFinish" in text and "4711" in text and "a note" in text
    json.dumps(found.as_json())


@pytest.mark.parametrize(
    ("lost", "facts", "killed", "unknown"),
    [
        (0, {}, [100], []),
        (3, {}, [], [100]),  # its end may be among them
        (
            0,
            {"notes": ["no space left on device: the disk of the run was full (/x); what did not fit is missing"]},
            [],
            [100],
        ),
        (0, {"notes": ["occa_prof was killed before the recording ended: what came after that is missing"]}, [], [100]),
        (0, {"notes": ["everything was killed at once: all of the trace had been written"]}, [100], []),
        (0, {"notes": ["still running when the program ended, and not recorded from then on: process 7, 100"]}, [], []),
        (
            0,
            {
                "notes": [
                    "still running when the program ended, and not recorded from then on: process 7 (100), 100 (a)"
                ]
            },
            [],
            [],
        ),
        (
            0,
            {"notes": ["still running when the program ended, and not recorded from then on: process 7 (100) …"]},
            [100],
            [],
        ),
        (0, {"job": {"ranks": [{"pid": 1, "state": "ended", "status": 0, "signal": None}]}}, [], [100]),
        (3, {"job": {"ranks": [{"pid": 1, "state": "ended", "status": 137, "signal": 9}]}}, [100], []),
        (0, {"job": {"ranks": [{"pid": 1, "state": "lost", "status": None, "signal": None}]}}, [100], []),
    ],
)
def test_who_was_killed(
    tmp_path: Path, lost: int, facts: dict[str, Any], killed: list[int], unknown: list[int]
) -> None:
    """A process without an end was killed, unless its end may have been lost."""
    trace = demo_trace()
    calls = [i for i, (event, _) in enumerate(trace.rows) if event == "occatrace_opencl:clEnqueueNDRangeKernel"][:lost]
    trace.rows = [row for i, row in enumerate(trace.rows) if i not in calls and not row[0].endswith(":exit")]
    trace.rows = [(event, {**row, "ppid": 1} if event.endswith(":process") else row) for event, row in trace.rows]
    with store_of(tmp_path, trace) as store:
        assert rows(store, "SELECT pid, ppid FROM processes") == [(100, 1)]
        found = losses.read(store.con, store.problems, facts)
    assert (list(found.killed), list(found.end_unknown)) == (killed, unknown)
    text = "\n".join(found.lines())
    assert ("ended without notice" in text) == bool(killed)
    assert ("how it ended is not known" in text) == bool(unknown)
    assert found.as_json()["end_unknown"] == unknown


@pytest.mark.parametrize("how", ["killed", "at exit"])
def test_calls_in_flight_are_not_lost(tmp_path: Path, how: str) -> None:
    """A call that is still running at the end has taken a number; calls within it are there."""
    trace = FakeTrace()
    t = trace.process(9)
    t.call("opencl:clFinish", 10, 20, command_queue=1, ret=0)
    if how == "killed":
        t.take()  # the enclosing call
        t.call("opencl:clFinish", 30, 40, command_queue=1, ret=0)
    else:
        worker = trace.thread(9, 10)
        worker.call("opencl:clFinish", 10, 20, command_queue=1, ret=0)
        worker.take()
        t.record("progress", 50, owner=10, next_seq=worker.seq)
        t.record("progress", 50, owner=9, next_seq=t.seq + 2)
        t.record("exit", 60, reason=0)
    with store_of(tmp_path, trace) as store:
        assert rows(store, "SELECT * FROM losses") == []


def test_missing_records_do_not_lose_calls(tmp_path: Path) -> None:
    """A trace whose beginning was cut: no process, no thread record."""
    trace = demo_trace()
    trace.rows = [row for row in trace.rows if not row[0].endswith((":process", ":thread"))]
    with store_of(tmp_path, trace) as store:
        assert rows(store, "SELECT sum(calls) FROM call_stats WHERE source = 'event'") == [(49,)]
        assert rows(store, "SELECT count(*) FROM processes") == [(1,)]


def test_the_end_of_a_process_is_known_without_its_first_events(tmp_path: Path) -> None:
    """Its main thread's number is the process's, also where what says so is lost: it did not "end without notice"."""
    trace = FakeTrace()
    for pid in (100, 200):
        main = trace.process(pid)
        main.event("occatrace_python:line", 3)
        trace.thread(pid, pid + 1, 5)
        main.record("exit", 50, reason=0)
    # The main threads' first events never came.
    trace.rows = [row for row in trace.rows if row[1]["tid"] % 100 or row[0].endswith((":line", ":exit"))]
    store = store_of(tmp_path, trace)
    assert rows(store, "SELECT pid, exit FROM processes ORDER BY pid") == [(100, "exit"), (200, "exit")]
    assert rows(store, "SELECT tid, pid FROM threads JOIN processes USING (process) ORDER BY tid") == [
        (tid, tid // 100 * 100) for tid in (100, 101, 200, 201)
    ]


def test_single_calls_with_arguments(tmp_path: Path) -> None:
    trace = demo_trace()
    long = trace.thread(100, 101)
    long.call("opencl:clEnqueueNDRangeKernel", 10, 20, **{"global": list(range(40))}, ret=-30)
    with store_of(tmp_path, trace) as store:
        assert "opencl.clEnqueueNDRangeKernel" in store.functions()
        found = rows(store, 'SELECT error, args FROM "opencl.clEnqueueNDRangeKernel" ORDER BY start_ns LIMIT 2')
        assert found[0] == ("CL_INVALID_VALUE", {"global": list(range(40)), "ret": -30})
        assert found[1] == (None, {"global": [64, 2], "ret": 0})
        assert rows(store, 'SELECT args.options FROM "opencl.clBuildProgram"') == [("-cl-std=CL3.0 'x'\n",)]
        assert rows(store, "SELECT DISTINCT args.mode, args.error FROM \"occa.memory_copyFrom\" ORDER BY 2") == [
            ("Serial", "out of bounds"), ("Serial", None),
        ]  # fmt: skip
        assert rows(store, "SELECT error, count(*) FROM calls WHERE failed GROUP BY 1 ORDER BY 1") == [
            ("CL_INVALID_COMMAND_QUEUE", 1), ("CL_INVALID_VALUE", 1), ("out of bounds", 1),
        ]  # fmt: skip


def test_moments_of_single_calls_are_stored_as_differences(tmp_path: Path) -> None:
    """They take a quarter less room, and half of the time to read."""
    trace = FakeTrace()
    thread = trace.process(100)
    for at in range(1000, 3000):
        thread.call("opencl:clFinish", 7 * at, 7 * at + at % 5, ret=0)
    with store_of(tmp_path, trace) as store:
        store.functions()
        files = store.path / "calls" / "opencl.clFinish" / "*.parquet"
        found = rows(
            store,
            f"SELECT DISTINCT path_in_schema, encodings FROM parquet_metadata('{files}')"
            " WHERE path_in_schema IN ('start_ns', 'end_ns') ORDER BY 1",
        )
        assert found == [("end_ns", "DELTA_BINARY_PACKED"), ("start_ns", "DELTA_BINARY_PACKED")]
        assert rows(store, 'SELECT sum(start_ns), sum(end_ns) FROM "opencl.clFinish"') == [
            (sum(7 * at for at in range(1000, 3000)), sum(7 * at + at % 5 for at in range(1000, 3000)))
        ]


def test_written_once_then_reopened(tmp_path: Path) -> None:
    trace = demo_trace()
    run = run_folder(tmp_path)
    with open_store(run, model=MODEL, open_trace=trace.open) as store:
        store.functions()
        first = {t.name: sorted(rows(store, f"SELECT * FROM {t.name}"), key=str) for t in TABLES}
        calls = rows(store, "SELECT * FROM calls ORDER BY ALL")

    def no_trace(*_: object) -> Any:
        raise AssertionError("the trace was read again")

    with open_store(run, model=MODEL, open_trace=no_trace) as store:
        store.functions()
        assert {t.name: sorted(rows(store, f"SELECT * FROM {t.name}"), key=str) for t in TABLES} == first
        assert rows(store, "SELECT * FROM calls ORDER BY ALL") == calls
    assert not [p.name for p in run.iterdir() if "partial" in p.name]


def test_bad_stores(tmp_path: Path) -> None:
    run = run_folder(tmp_path)
    open_store(run, model=MODEL, open_trace=demo_trace().open).close()
    kernels = run / "tables" / "kernels.parquet"
    kernels.write_bytes(b"nonsense")
    with pytest.raises(StoreError, match=r"kernels\.parquet is damaged.*remove"):
        open_store(run, model=MODEL)
    kernels.unlink()
    with pytest.raises(StoreError, match=r"is missing.*remove"):
        open_store(run, model=MODEL)
    for text, said in (("{", "damaged"), ("{}", "damaged"), ('{"schema": "two"}', "damaged"), ("[]", "damaged")):
        (run / "tables" / "tables.json").write_text(text, encoding="utf-8")
        with pytest.raises(StoreError, match=f"{said}.*remove"):
            open_store(run, model=MODEL)
    empty = tmp_path / "empty"
    empty.mkdir()
    with pytest.raises(StoreError, match="neither tables nor a trace"):
        open_store(empty, model=MODEL)


def make_older(run: Path) -> None:
    """The tables as version 1 had them: without some tables, and without some columns."""
    tables = run / "tables"
    for name in ("allocations", "ranges", "counters"):
        (tables / f"{name}.parquet").unlink()
    con = connect()
    columns = "process, host, pid, ppid, exe, cmdline, run, mode, version, start_ns, end_ns, realtime_ns, mono_ns, exit, trace"
    con.execute(f"CREATE TABLE p AS SELECT {columns} FROM '{tables}/processes.parquet'")
    con.execute(f"COPY p TO '{tables}/processes.parquet'")
    (tables / "tables.json").write_text('{"schema": 1, "problems": ["told then"]}', encoding="utf-8")


def test_older_tables_are_made_again_from_the_trace(tmp_path: Path) -> None:
    run = run_folder(tmp_path)
    open_store(run, model=MODEL, open_trace=demo_trace().open).close()
    make_older(run)
    with open_store(run, model=MODEL, open_trace=demo_trace().open) as store:
        assert rows(store, "SELECT first_ns IS NOT NULL FROM processes") == [(True,)]
        assert store.problems == []
    manifest = json.loads((run / "tables" / "tables.json").read_text(encoding="utf-8"))
    assert manifest["schema"] == SCHEMA_VERSION and manifest["version"] == occatrace.__version__
    assert [p.name for p in run.iterdir() if p.name.startswith("tables")] == ["tables"]


def test_older_tables_without_a_trace_open_as_far_as_they_go(tmp_path: Path) -> None:
    run = run_folder(tmp_path)
    with open_store(run, model=MODEL, open_trace=demo_trace().open) as store:
        before = reports.make(store, "gpu_kern_sum").rows
    make_older(run)
    shutil.rmtree(run / "trace")
    with open_store(run, model=MODEL) as store:
        assert rows(store, "SELECT count(*) FROM allocations") == [(0,)]
        assert rows(store, "SELECT first_ns, rank FROM processes") == [(None, None)]
        assert store.problems[0] == "told then"
        assert (
            "version 1" in store.problems[1]
            and "nothing is known of allocations, ranges, counters" in store.problems[1]
        )
        assert reports.make(store, "gpu_kern_sum").rows == before
        with pytest.raises(StoreError, match="the trace is gone"):
            reports.make(store, "api_trace")


def test_newer_tables_say_who_made_them(tmp_path: Path) -> None:
    run = run_folder(tmp_path)
    open_store(run, model=MODEL, open_trace=demo_trace().open).close()
    (run / "tables" / "tables.json").write_text('{"schema": 99, "version": "7.1"}', encoding="utf-8")
    with pytest.raises(StoreError, match=r"made by occatrace 7\.1 \(tables of version 99.*update occatrace"):
        open_store(run, model=MODEL)


def test_a_small_run_may_have_links(tmp_path: Path) -> None:
    """Its trace may be elsewhere; links that lead in circles end nothing but this question."""
    elsewhere = tmp_path / "elsewhere"
    run = tmp_path / "run"
    elsewhere.mkdir()
    (run / "trace").mkdir(parents=True)
    (run / "trace" / "host").symlink_to(elsewhere)
    (elsewhere / "stream").write_bytes(bytes(tables.SMALL - 65536))
    assert tables.is_small(run)
    (elsewhere / "more").write_bytes(bytes(65536))
    assert not tables.is_small(run)
    circles = tmp_path / "circles"
    (circles / "trace").mkdir(parents=True)
    for number in range(8):
        (circles / "trace" / str(number)).symlink_to(circles / "trace")
    assert not tables.is_small(circles)


@pytest.mark.parametrize("small", [False, True])
def test_no_join_compares_all_rows_for_a_wrong_estimate(small: bool) -> None:
    """The left side is estimated at 6 rows, which says little about the rows that it has."""
    with connect(small=small) as con:
        con.execute("CREATE TABLE a AS SELECT range AS t, range % 7 AS k, range % 11 AS m FROM range(2000)")
        con.execute("CREATE TABLE b AS SELECT range AS t, range % 7 AS k FROM range(6000)")
        found = "SELECT x.* FROM a x JOIN a y USING (t, k, m) WHERE x.m = 3 AND x.k = 2"
        plan = con.execute(
            f"EXPLAIN SELECT count(*) FROM ({found}) l ASOF LEFT JOIN b ON b.k = l.k AND b.t <= l.t"
        ).fetchall()[0][1]
    assert "Nested Loop" not in plan and "Asof Join" in plan
