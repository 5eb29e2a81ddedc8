"""Reports about single calls, memory, use of devices and advice, on runs with known truths."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from occatrace import reports
from occatrace.errors import RunError
from occatrace.store.tables import Store, open_store
from tests.support.fake import MODEL, FakeTrace, demo_trace, run_folder

NONE = 0xFFFFFFFF


def table(store: Store, name: str) -> list[dict[str, Any]]:
    report = reports.make(store, name)
    names = [c.name for c in report.columns]
    return [dict(zip(names, row, strict=True)) for row in report.rows]


def opened(tmp_path: Path, trace: FakeTrace) -> Store:
    return open_store(run_folder(tmp_path), model=MODEL, open_trace=trace.open)


def test_two_queues_that_overlap(tmp_path: Path) -> None:
    """Kernels of 100 µs on two queues, the second 25 µs behind the first, every 400 µs."""
    trace = FakeTrace()
    t = trace.process(1)
    name = t.name("k")
    t.event(
        "occatrace_device:device", 2, id=1, api=t.name("opencl"), platform=0, name=t.name("gpu"), vendor=0, handle=1
    )
    for queue in (1, 2):
        t.event("occatrace_device:queue", 2, id=queue, device=1, handle=queue, flags=0)
    for i in range(10):
        for queue in (1, 2):
            start = 10**6 + i * 400_000 + (queue - 1) * 25_000
            launch = t.call("opencl:clEnqueueNDRangeKernel", start - 9000, start - 4000, **{"global": [8]}, ret=0)
            t.event(
                "occatrace_device:activity", 10**9, kind=1, corr_tid=1, corr_seq=launch, run_seq=NONE, queue=queue,
                queued=start - 5000, submitted=start, start=start, end=start + 100_000, name=name, gx=64 * queue, lx=8,
            )  # fmt: skip
    t.record("exit", 10**9 + 1, reason=0)
    with opened(tmp_path, trace) as store:
        device, first, second = table(store, "gpu_util")
        assert (device["total_ns"], device["busy_ns"], device["calls"], device["gaps"]) == (2_000_000, 1_250_000, 20, 9)
        assert device["overlap"] == 1.6 and device["longest_gap_ns"] == 275_000
        assert (device["gaps_10us"], device["gaps_100us"], device["gaps_1ms"], device["long_gaps"]) == (0, 0, 9, 0)
        assert device["span_ns"] == 9 * 400_000 + 125_000 and device["idle_ns"] == device["span_ns"] - 1_250_000
        for one in (first, second):
            assert (one["total_ns"], one["busy_ns"], one["overlap"]) == (1_000_000, 1_000_000, 1)
        (exec_row,) = table(store, "kern_exec_sum")
        assert (exec_row["api_avg_ns"], exec_row["queue_avg_ns"], exec_row["kernel_avg_ns"]) == (5000, 5000, 100_000)
        assert [(r["grid"], r["block"], r["calls"]) for r in table(store, "gpu_kern_gb_sum")] == [
            ("64", "8", 10), ("128", "8", 10),
        ]  # fmt: skip
        trace_rows = table(store, "gpu_trace")
        assert [r["start_ns"] for r in trace_rows] == sorted(r["start_ns"] for r in trace_rows) and len(
            trace_rows
        ) == 20


def test_gaps_and_the_calls_in_them(tmp_path: Path) -> None:
    """Three pieces of work of 1 ms: 10 ms apart, 8 of them in a build (7 of its in the backend's); 2 ms apart, in no call."""
    trace = FakeTrace()
    t, ms = trace.process(1), 1_000_000
    other = trace.thread(1, 2)
    t.event(
        "occatrace_device:device", 2, id=1, api=t.name("opencl"), platform=0, name=t.name("gpu"), vendor=0, handle=1
    )
    t.event("occatrace_device:queue", 2, id=1, device=1, handle=1, flags=0)

    def work(start: int) -> None:
        seq = t.call("opencl:clEnqueueNDRangeKernel", start - 2000, start - 1000, **{"global": [8]}, ret=0)
        t.event(
            "occatrace_device:activity", start + ms, kind=1, corr_tid=1, corr_seq=seq, run_seq=NONE, queue=1,
            queued=start - 1500, submitted=start, start=start, end=start + ms, name=t.name(f"at{start // ms}"), gx=8,
        )  # fmt: skip

    work(1 * ms)
    t.call("opencl:clBuildProgram", 4 * ms, 11 * ms, options="", ret=0)
    t.call("occa:device_buildKernel", 3 * ms + ms // 2, 11 * ms + ms // 2, source=0, error=0)
    work(12 * ms)
    work(15 * ms)
    other.call("opencl:clFinish", 1 * ms, 16 * ms, command_queue=2, ret=0)  # another thread's wait is not the reason
    t.record("exit", 17 * ms, reason=0)
    with opened(tmp_path, trace) as store:
        device, queue = table(store, "gpu_util")
        assert (device["longest_gap_ns"], device["call"], device["call_share"]) == (
            10 * ms,
            "occa::device::buildKernel",
            80,
        )
        assert (device["gaps"], device["gaps_10ms"], device["long_gaps"]) == (2, 1, 1)
        assert queue["call"] == device["call"]
        first, second = table(store, "gpu_gaps")
        assert (first["gap_ns"], first["call"], first["call_share"]) == (10 * ms, "occa::device::buildKernel", 80)
        assert (first["after"], first["before"], second["after"], second["before"]) == ("at1", "at12", "at12", "at15")
        assert (second["gap_ns"], second["call"], second["share"]) == (2 * ms, "", 100 * 2 / 15)
        assert second["call_share"] is None


def memory_trace() -> FakeTrace:
    """Two allocations, one of them kept; a loop of 30; a failed one; another mode."""
    trace = FakeTrace()
    t = trace.process(1, start=100)
    serial, cuda, error = t.name("Serial"), t.name("CUDA"), t.name("no memory")
    t.call("occa:device_malloc", 1000, 1100, handle=1, bytes=1 << 20, mode=serial, error=0)
    t.call("occa:device_malloc", 1200, 1300, handle=2, bytes=1 << 10, mode=serial, error=0)
    t.call("occa:device_malloc", 1300, 1400, handle=0, bytes=1 << 40, mode=serial, error=error)
    t.call("occa:memory_free", 1500, 1600, handle=1, bytes=1 << 20, mode=serial, error=0)
    at = 2000
    for _ in range(30):
        t.call("occa:device_malloc", at, at + 50, handle=1, bytes=4096, mode=serial, error=0)
        t.call("occa:memory_free", at + 100, at + 120, handle=1, bytes=4096, mode=serial, error=0)
        at += 200
    t.call("occa:device_malloc", at, at + 10, handle=7, bytes=77, mode=cuda, error=0)
    t.record("exit", at + 100, reason=0)
    return trace


def test_memory(tmp_path: Path) -> None:
    with opened(tmp_path, memory_trace()) as store:
        usage = {r["name"]: r for r in table(store, "mem_usage")}
        serial = usage["Serial"]
        assert (serial["high_water_bytes"], serial["high_water_at_ns"]) == ((1 << 20) + 1024, 300)
        assert (serial["in_use_bytes"], serial["allocations"], serial["frees"]) == (1024, 32, 31)
        assert serial["bytes"] == (1 << 20) + 1024 + 30 * 4096 and serial["largest_bytes"] == 1 << 20
        assert (usage["CUDA"]["high_water_bytes"], usage["CUDA"]["frees"]) == (77, 0)
        leaks = table(store, "mem_leaks")
        assert [(r["bytes"], r["handle"], r["device"]) for r in leaks] == [(1024, "0x2", "Serial"), (77, "0x7", "CUDA")]
        (churn,) = table(store, "mem_churn")
        assert (churn["allocations"], churn["frees"], churn["bytes"]) == (30, 30, 4096)
        assert churn["saved_ns"] == pytest.approx(29 * 70)
        signs = {r["name"]: r["evidence"] for r in table(store, "advice")}
        assert "30 allocations and 30 frees of 4,096 bytes (mode Serial, device) took" in signs["allocation in a loop"]


def test_first_calls_and_builds(tmp_path: Path) -> None:
    trace = FakeTrace()
    t = trace.process(1)
    t.record("kernel", 2, id=1, name=t.name("k"), mode=t.name("Serial"), source=0, line=0, binary=0)
    t.call("occa:device_buildKernel", 10, 10_010, source=t.name("k"), error=0)
    inner = t.take()
    t.call("opencl:clBuildProgram", 20_100, 27_100, inner, options="", ret=0)
    t.call("occa:device_buildKernel", 20_000, 28_000, source=t.name("k"), error=0)
    at = 30_000
    for i in range(11):
        duration = 900 if i == 0 else 100 + i
        t.call("occa:kernel_run", at, at + duration, kernel=1, launches=0, error=0)
        at += 1000
    t.record("exit", at, reason=0)
    with opened(tmp_path, trace) as store:
        row = next(r for r in table(store, "first_call") if r["name"] == "k [Serial]")
        assert (row["first_ns"], row["calls"]) == (900, 11) and row["med_ns"] == pytest.approx(105.5, rel=0.01)
        (build,) = table(store, "occa_kern_build_sum")
        assert (build["builds"], build["total_ns"], build["compiler_ns"]) == (2, 18_000, 7000)
        assert "kernel builds" in {r["name"] for r in table(store, "advice")}
        hist = [r for r in table(store, "hist") if r["name"] == "occa::kernel::run"]
        assert sum(r["calls"] for r in hist) == 11 and sum(r["share"] for r in hist) == pytest.approx(100)
        assert {(r["from_ns"], r["calls"]) for r in hist} == {(64, 10), (512, 1)}


def test_traces_in_time_order(tmp_path: Path) -> None:
    with opened(tmp_path, demo_trace()) as store:
        calls = table(store, "api_trace")
        assert len(calls) == 49 and [r["start_ns"] for r in calls] == sorted(r["start_ns"] for r in calls)
        runs = table(store, "occa_kern_trace")
        assert [r["work_ns"] for r in runs if r["name"] == "addVectors"] == [1400 + 2 * i for i in range(10)]
        assert [r["work_ns"] for r in runs if r["name"] == "scale"] == [200 + i for i in range(10)]


def test_a_clean_program_gets_no_advice(tmp_path: Path) -> None:
    trace = FakeTrace()
    t = trace.process(1)
    at = 1000
    for _ in range(200):
        t.call("opencl:clFinish", at, at + 10, command_queue=1, ret=0)
        at += 10_000
    t.record("exit", at, reason=0)
    with opened(tmp_path, trace) as store:
        assert table(store, "advice") == []


def test_choosing_rows(tmp_path: Path) -> None:
    with opened(tmp_path, demo_trace()) as store:
        report = reports.make(store, "occa_kern_sum")
        names = [c.name for c in report.columns]

        def chosen(**wanted: Any) -> list[str]:
            return [row[names.index("name")] for row in reports.Selection(**wanted).apply(report).rows]

        assert chosen(rows=1) == ["addVectors", "_occa_addVectors_0", "_occa_addVectors_1"]
        assert chosen(name="^scale$") == ["scale"]
        assert chosen(sort="name")[0] == "addVectors" and chosen(sort="min_ns", rows=1)[0] == "addVectors"
        assert chosen(name="_1$") == chosen(rows=1), "a part brings what it belongs to"
        with pytest.raises(RunError, match="no column 'x'"):
            chosen(sort="x")
        with pytest.raises(RunError, match="regular expression"):
            chosen(name="(")
