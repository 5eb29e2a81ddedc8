"""Reports of a part of a run: windows add up to the whole, parts belong to their rank, thread, device or stream, and
kernels have the names that were asked for. Each against a computation over the raw events."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from occatrace import reports
from occatrace.core.units import UnitError, parse_range
from occatrace.errors import RunError
from occatrace.reports import scope as scopes
from occatrace.reports.scope import Scope, Scoped, can_split, tables_of
from occatrace.store.tables import Store, open_store
from tests.support.fake import MODEL, FakeTrace, run_folder

NONE = 0xFFFFFFFF
MANGLED = "_Z4axpyIfEvPT_S1_"


def two_ranks(seed: int = 3) -> FakeTrace:
    """Two processes (ranks 1 and 0) of two threads; a device of two queues in each; OCCA kernels on it and on the host."""
    rng = np.random.default_rng(seed)
    trace = FakeTrace(batch_rows=64)
    for pid, rank in ((100, 1), (200, 0)):
        main = trace.process(pid, start=500, rank=rank, size=2)
        other = trace.thread(pid, pid + 1, start=600)
        text = main.name
        opencl, serial, source = text("OpenCL"), text("Serial"), text("/home/me/vectors.okl")
        names = [text(MANGLED), text("_occa_add_1")]
        main.record("kernel", 700, id=1, name=text("add"), mode=opencl, source=source, line=7, binary=0)
        main.record("kernel", 700, id=2, name=text("scale"), mode=serial, source=source, line=0, binary=0)
        main.event(
            "occatrace_device:device", 700, id=1, api=text("opencl"), platform=0, name=text("gpu"), vendor=0, handle=1
        )
        for queue in (1, 2):
            main.event("occatrace_device:queue", 700, id=queue, device=1, handle=queue, flags=0)
        for _ in range(150):
            for thread in (main, other):
                at = int(rng.integers(1000, 900_000))
                run = thread.take()
                for place, name in enumerate(names):
                    launch = thread.call(
                        "opencl:clEnqueueNDRangeKernel",
                        at + 10 * place,
                        at + 10 * place + 5,
                        None,
                        **{"global": [8]},
                        ret=0,
                    )
                    begin = at + int(rng.integers(50, 9000))
                    thread.event(
                        "occatrace_device:activity", 10**6, kind=1, corr_tid=thread.tid, corr_seq=launch, run_seq=run,
                        queue=int(rng.integers(1, 3)), queued=at, submitted=at, start=begin,
                        end=begin + int(rng.integers(1, 4000)), name=name, gx=1, status=0,
                    )  # fmt: skip
                thread.call("occa:kernel_run", at, at + 40, run, kernel=1, launches=2, error=0)
                at = int(rng.integers(1000, 900_000))
                thread.call("occa:kernel_run", at, at + int(rng.integers(1, 900)), kernel=2, launches=0, error=0)
        main.record("exit", 10**6, reason=0)
        trace.tally(main, "opencl:clGetDeviceInfo", [20, 30], 10**6)
    return trace


@pytest.fixture
def run(tmp_path: Path) -> Iterator[tuple[FakeTrace, Store]]:
    trace = two_ranks()
    with open_store(run_folder(tmp_path), model=MODEL, open_trace=trace.open) as store:
        yield trace, store


def rows(
    store: Store, name: str, window: str | None = None, by: str | None = None, names: str = "raw"
) -> list[dict[str, Any]]:
    scope = Scope(parse_range(window) if window else None, by, names)
    report = reports.make(store, name, Scoped(store, scope))
    columns = [c.name for c in report.columns]
    return [dict(zip(columns, row, strict=True)) for row in report.rows]


def work(trace: FakeTrace) -> list[dict[str, Any]]:
    return [dict(row) for event, row in trace.rows if event.endswith(":activity")]


def test_windows_add_up_to_the_whole(run: tuple[FakeTrace, Store]) -> None:
    _, store = run
    borders = ["", "123us", "300us", "301us", "37%", "end-200us", ""]
    windows = [f"{a}:{b}" for a, b in zip(borders, borders[1:], strict=False)]
    for name in ("gpu_kern_sum", "occa_kern_sum", "gpu_trace", "occa_kern_trace", "api_trace", "kern_exec_sum"):
        whole: dict[Any, Any] = defaultdict(int)
        summed: dict[Any, Any] = defaultdict(int)
        for out, parts in ((whole, [None]), (summed, windows)):
            for window in parts:
                for row in rows(store, name, window):
                    key = (row["name"], row.get("mode"), row.get("parent"), row.get("device"))
                    for column in ("calls", "total_ns", "duration_ns", "work_ns", "api_ns", "queue_ns", "kernel_ns"):
                        out[key, column] += row.get(column) or 0
                    out[key, "rows"] += 1 if name.endswith("trace") else 0
        assert whole == summed and whole, name


def test_a_window_counts_what_begins_in_it(run: tuple[FakeTrace, Store]) -> None:
    trace, store = run
    starts = [
        row["start"] for event, row in trace.rows if event.split(":")[0] in ("occatrace_occa", "occatrace_opencl")
    ]
    zero = min(starts)
    begin, end = zero + 200_000, zero + 450_000
    calls = [row for event, row in trace.rows if event.endswith("NDRangeKernel") and begin <= row["start"] < end]
    (found,) = [r for r in rows(store, "api_sum", "200us:450us") if r["name"] == "clEnqueueNDRangeKernel"]
    durations = np.array([row["ts"] - row["start"] for row in calls])
    assert (found["calls"], found["total_ns"]) == (len(calls), durations.sum())
    assert found["stddev_ns"] == pytest.approx(durations.std(ddof=1))
    # The work of an OCCA kernel call counts where the first of it begins.
    first: dict[Any, int] = {}
    for row in work(trace):
        key = (row["tid"], row["run_seq"])
        first[key] = min(first.get(key, 1 << 60), row["start"])
    chosen = [row for row in work(trace) if begin <= first[row["tid"], row["run_seq"]] < end]
    found_work = rows(store, "gpu_kern_sum", "200us:450us")
    assert sum(r["calls"] for r in found_work) == len(chosen)
    assert sum(r["total_ns"] for r in found_work) == sum(r["end"] - r["start"] for r in chosen)
    assert all(200_000 <= r["start_ns"] < 460_000 for r in rows(store, "gpu_trace", "200us:450us"))


def test_what_crosses_the_border_is_told(run: tuple[FakeTrace, Store]) -> None:
    trace, store = run
    zero = min(row["start"] for event, row in trace.rows if event.startswith("occatrace_o"))
    begin, end = zero + 200_000, zero + 450_000
    early = sum(row["start"] < begin < row["end"] for row in work(trace))
    late = sum(begin <= row["start"] < end < row["end"] for row in work(trace))
    assert early and late
    report = reports.make(store, "gpu_kern_sum", Scoped(store, Scope(parse_range("200us:450us"))))
    assert f"{early} that began earlier and reach into it are left out; {late} end after it" in report.notes[0]
    assert "only 200.0 µs to 450.0 µs of the run's" in report.notes[0]
    tallied = reports.make(store, "api_sum", Scoped(store, Scope(parse_range("200us:"))))
    assert "those of 1 function are left out" in tallied.notes[1]
    assert "clGetDeviceInfo" not in {r["name"] for r in rows(store, "api_sum", "0:")}
    assert reports.make(store, "gpu_kern_sum", Scoped(store, Scope())).notes == ()


def test_a_window_beside_the_run(run: tuple[FakeTrace, Store]) -> None:
    _, store = run
    assert rows(store, "gpu_kern_sum", "5s:6s") == [] and rows(store, "api_sum", "5s:6s") == []
    with pytest.raises(UnitError, match="ends before it begins"):
        rows(store, "gpu_kern_sum", "90%:end-900us")


def test_by_rank_and_thread(run: tuple[FakeTrace, Store]) -> None:
    trace, store = run

    def key_of(by: str, tid: int) -> str:
        rank = "1" if tid < 200 else "0"
        return rank if by == "rank" else f"{rank}: {tid // 100 * 100}:{tid}"

    for by in ("rank", "thread"):
        expected: dict[tuple[str, str], list[int]] = defaultdict(list)
        names = {number: text.decode() for (pid, text), number in trace.interned.items() if pid == 200}
        for row in work(trace):
            expected[key_of(by, row["tid"]), names[row["name"]]].append(row["end"] - row["start"])
        found = {(r[by], r["name"]): r for r in rows(store, "gpu_kern_sum", by=by)}
        assert {k: (r["calls"], r["total_ns"]) for k, r in found.items()} == {
            k: (len(v), sum(v)) for k, v in expected.items()
        }
        shares: dict[str, float] = defaultdict(float)
        for (key, _), r in found.items():
            shares[key] += r["share"]
        assert all(share == pytest.approx(100) for share in shares.values()), "% is of this rank's or thread's"
    assert [r["rank"] for r in rows(store, "gpu_kern_sum", by="rank")] == ["0", "0", "1", "1"], "in the order of ranks"


def test_by_device_and_stream(run: tuple[FakeTrace, Store]) -> None:
    trace, store = run
    expected: dict[str, int] = defaultdict(int)
    devices: dict[str, int] = defaultdict(int)
    for row in work(trace):
        rank = "rank 1" if row["tid"] < 200 else "rank 0"
        expected[f"gpu, queue {row['queue']} ({rank})"] += row["end"] - row["start"]
        devices[f"gpu ({rank})"] += 1
    by_stream: dict[str, int] = defaultdict(int)
    for r in rows(store, "gpu_kern_sum", by="stream"):
        by_stream[r["stream"]] += r["total_ns"]
    assert by_stream == expected
    by_device: dict[str, int] = defaultdict(int)
    for r in rows(store, "gpu_kern_sum", by="device"):
        by_device[r["device"]] += r["calls"]
    assert by_device == devices
    # Kernels that run on the host have no device.
    kernels = {
        (r["device"], r["name"]): r["calls"] for r in rows(store, "occa_kern_sum", by="device") if not r["parent"]
    }
    assert kernels == {("gpu (rank 1)", "add"): 300, ("gpu (rank 0)", "add"): 300, ("host", "scale"): 600}


def test_what_cannot_be_split_says_so(run: tuple[FakeTrace, Store]) -> None:
    _, store = run
    report = reports.make(store, "api_sum", Scoped(store, Scope(by="device")))
    assert report.rows == reports.make(store, "api_sum").rows
    assert report.notes == ["not by device: some of what it counts has none; it can be by rank or thread"]
    for name in ("rank_sum", "rank_balance"):
        whole = reports.make(store, name)
        again = reports.make(store, name, Scoped(store, Scope(by="rank")))
        assert again.rows == whole.rows and again.columns == whole.columns, "they compare the ranks themselves"
    for name, entry in reports.definitions().items():
        if entry.made:
            continue  # by a module, of the whole run
        assert tables_of(entry.sql), f"{name} is made of nothing that happened"
        assert can_split(tables_of(entry.sql), "rank"), name


def test_every_report_in_every_scope(run: tuple[FakeTrace, Store]) -> None:
    _, store = run
    for name in reports.definitions():
        for by, window, names in ((None, "10%:90%", "okl"), ("thread", None, "raw"), ("stream", ":50%", "short")):
            report = reports.make(store, name, Scoped(store, Scope(parse_range(window) if window else None, by, names)))
            assert all(len(row) == len(report.columns) for row in report.rows)


def test_names(run: tuple[FakeTrace, Store]) -> None:
    trace, store = run
    everything = sum(row["end"] - row["start"] for row in work(trace))
    shown = {
        "raw": {MANGLED, "_occa_add_1"},
        "demangled": {"void axpy<float>(float*, float*)", "add (outer loop 2)"},
        "short": {"axpy", "add (outer loop 2)"},
        "okl": {"add (vectors.okl:7)"},
    }
    for names, expected in shown.items():
        found = rows(store, "gpu_kern_sum", names=names)
        assert {r["name"] for r in found} == expected
        assert sum(r["total_ns"] for r in found) == everything
        assert {r["name"] for r in rows(store, "kern_exec_sum", names=names)} == expected
    with_parts = {(r["name"], r["parent"]) for r in rows(store, "occa_kern_sum", names="short")}
    assert with_parts == {("add", None), ("axpy", "add"), ("_occa_add_1", "add"), ("scale", None)}
    assert {r["name"] for r in rows(store, "occa_kern_sum", names="okl")} == {"add", "scale"}
    assert store.con.execute("SELECT count(*) FROM activities WHERE name = ?", [MANGLED]).fetchall()[0][0] == 600


def test_choosing_rows_of_a_split_report(run: tuple[FakeTrace, Store]) -> None:
    _, store = run
    report = reports.make(store, "gpu_kern_sum", Scoped(store, Scope(by="thread")))
    first = reports.Selection(rows=1).apply(report)
    assert len({row[0] for row in first.rows}) == len(first.rows) == 4, "one of each thread"
    longest = reports.Selection(rows=1, sort="max_ns").apply(report).rows
    at = [c.name for c in report.columns].index("max_ns")
    assert longest[0][at] == max(row[at] for row in report.rows) and len(longest) == 1
    ordered = reports.Selection(sort="thread:desc,calls:asc").apply(report).rows
    assert [row[0] for row in ordered] == sorted((row[0] for row in report.rows), reverse=True)
    titles = reports.Selection(sort="Total:asc").apply(report).rows
    total = [c.name for c in report.columns].index("total_ns")
    assert [row[total] for row in titles] == sorted(row[total] for row in report.rows)
    with pytest.raises(RunError, match="write calls:asc or calls:desc"):
        reports.Selection(sort="calls:up").apply(report)


@pytest.mark.parametrize("by", ["rank", "thread", "stream"])
@pytest.mark.parametrize("many", [0, 100, 1000])
def test_parts_of_long_tables_are_as_of_short_ones(
    by: str, many: int, run: tuple[FakeTrace, Store], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Long tables are copied in the order of the parts; parts with few rows of them are held in memory."""
    _, store = run
    names = ("gpu_kern_sum", "gpu_mem_time_sum", "occa_kern_sum", "api_sum")
    chosen = Scope(by=by, window=parse_range("100us:700us"), names="okl")

    def made(scoped: Scoped) -> dict[str, list[tuple[Any, ...]]]:
        """Rows by report. A deviation is a sum of fractions, of which the last digits depend on the order."""
        rows = {name: reports.make(store, name, scoped).rows for name in names}
        return {
            name: [tuple(round(v, 6) if isinstance(v, float) else v for v in row) for row in rows[name]]
            for name in names
        }

    expected = made(Scoped(store, chosen))
    assert all(expected[name] for name in ("gpu_kern_sum", "api_sum"))
    assert not [*store.scratch.glob("activities-*")]
    monkeypatch.setattr(scopes, "_MANY", many)
    assert made(Scoped(store, chosen)) == expected
    assert (store.scratch / f"activities-{scopes.KEYS[by][0]}.parquet").exists()


def test_parts_of_long_tables_where_a_copy_has_no_room(
    run: tuple[FakeTrace, Store], monkeypatch: pytest.MonkeyPatch
) -> None:
    _, store = run
    expected = reports.make(store, "gpu_kern_sum", Scoped(store, Scope(by="thread"))).rows
    monkeypatch.setattr(scopes, "_MANY", 100)
    (store.scratch / "activities-thread.parquet").symlink_to("/dev/full")
    assert reports.make(store, "gpu_kern_sum", Scoped(store, Scope(by="thread"))).rows == expected
