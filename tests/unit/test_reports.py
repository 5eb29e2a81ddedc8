"""Reports against independent computations in numpy, and their definitions against each other."""

from __future__ import annotations

import itertools
from collections import defaultdict
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from occatrace import reports
from occatrace.core.schema import MEMORY_KINDS
from occatrace.reports import parse
from occatrace.store import macros
from occatrace.store.tables import Store, connect, open_store
from tests.support.fake import MODEL, FakeTrace, demo_trace, run_folder

NONE = 0xFFFFFFFF


def table(store: Store, name: str) -> list[dict[str, Any]]:
    report = reports.make(store, name)
    names = [c.name for c in report.columns]
    return [dict(zip(names, row, strict=True)) for row in report.rows]


def union(intervals: list[tuple[int, int]]) -> int:
    """Length of the union, by marking elementary intervals."""
    points = sorted({p for i in intervals for p in i})
    return sum(b - a for a, b in itertools.pairwise(points) if any(s <= a and b <= e for s, e in intervals))


def check(row: dict[str, Any], values: list[int], unit: str = "ns") -> None:
    v = np.array(values, np.float64)
    total = row["bytes"] if unit == "bytes" else row["total_ns"]
    assert (row["calls"], total, row[f"min_{unit}"], row[f"max_{unit}"]) == (len(v), v.sum(), v.min(), v.max())
    assert np.isclose(row[f"avg_{unit}"], v.mean()) and np.isclose(row[f"med_{unit}"], np.median(v), rtol=0.01)
    assert np.isclose(row[f"stddev_{unit}"], v.std(ddof=1) if len(v) > 1 else 0, atol=1e-6)


def work_trace(seed: int) -> FakeTrace:
    """Kernels and copies that overlap on several queues of two devices, in OpenCL, Serial and OpenMP mode."""
    rng = np.random.default_rng(seed)
    trace = FakeTrace(batch_rows=50)
    t = trace.process(100)
    names = {
        n: t.name(n)
        for n in ("alpha", "beta", "OpenCL", "Serial", "OpenMP", "k.okl", "_occa_alpha_0", "_occa_alpha_1", "native")
    }
    opencl = t.name("opencl")
    for number, (name, mode, line) in enumerate(
        (("alpha", "OpenCL", 3), ("alpha", "Serial", 3), ("beta", "OpenMP", 0)), 1
    ):
        t.record("kernel", 5, id=number, name=names[name], mode=names[mode], source=names["k.okl"], line=line, binary=0)
    for device in (1, 2):
        t.event(
            "occatrace_device:device",
            6,
            id=device,
            api=opencl,
            platform=0,
            name=t.name(f"device {device}"),
            vendor=0,
            handle=device,
        )
        t.event("occatrace_device:queue", 7, id=device, device=device, handle=device, flags=0)
    for _ in range(300):
        at = int(rng.integers(1000, 100_000))
        run = t.take()
        for backend in ("_occa_alpha_0", "_occa_alpha_1"):
            duration = int(rng.integers(1, 3000))
            t.event(
                "occatrace_device:activity", at + 200_000, kind=1, corr_tid=100, corr_seq=0, run_seq=run,
                queue=int(rng.integers(1, 3)), queued=at, submitted=at, start=at + 10, end=at + 10 + duration,
                name=names[backend], gx=1, status=-5 if rng.random() < 0.02 else 0,
            )  # fmt: skip
        t.call("occa:kernel_run", at, at + 100, run, kernel=1, launches=2, error=0)
        t.call("occa:kernel_run", at, at + int(rng.integers(1, 500)), kernel=2, launches=0, error=0)
        t.call(
            "occa:kernel_run",
            at,
            at + int(rng.integers(1, 500)),
            kernel=3,
            launches=0,
            error=names["native"] if rng.random() < 0.1 else 0,
        )
        for kind in rng.integers(2, 11, 3).tolist():
            start = int(rng.integers(1000, 10**6))
            t.event(
                "occatrace_device:activity", start + 10**6, kind=kind, corr_tid=100, corr_seq=0, run_seq=NONE, queue=1,
                queued=start, submitted=start, start=start, end=start + int(rng.integers(0, 5000)),
                bytes=int(rng.integers(0, 1 << 33)), status=0,
            )  # fmt: skip
        t.call("occa:memory_copyFrom", at, at + 7, handle=1, bytes=10, kind=3, mode=names["Serial"], error=0)
    t.record("exit", 1 << 40, reason=0)
    return trace


@pytest.fixture(params=[1, 2])
def work(request: pytest.FixtureRequest, tmp_path: Path) -> Any:
    trace = work_trace(request.param)
    with open_store(run_folder(tmp_path), model=MODEL, open_trace=trace.open) as store:
        yield trace, store


def test_okl_kernels(work: tuple[FakeTrace, Store]) -> None:
    trace, store = work
    runs: dict[int, list[Any]] = defaultdict(list)
    per_run: dict[int, int] = defaultdict(int)
    parts: dict[str, list[tuple[int, int]]] = defaultdict(list)
    backends = {number: text.decode() for (_, text), number in trace.interned.items()}
    failures = 0
    for event, row in trace.rows:
        if event.endswith("kernel_run"):
            runs[row["kernel"]].append(row)
        elif event.endswith(":activity") and row["kind"] == 1:
            per_run[row["run_seq"]] += row["end"] - row["start"]
            parts[backends[row["name"]]].append((row["start"], row["end"]))
            failures += row["status"] < 0
    rows = table(store, "occa_kern_sum")
    tops = {(r["name"], r["mode"]): r for r in rows if r["parent"] is None}
    assert set(tops) == {("alpha", "OpenCL"), ("alpha", "Serial"), ("beta", "OpenMP")}
    check(tops["alpha", "OpenCL"], [per_run[r["seq"]] for r in runs[1]])
    assert tops["alpha", "OpenCL"]["busy_ns"] == union([i for p in parts.values() for i in p])
    for key, number in ((("alpha", "Serial"), 2), (("beta", "OpenMP"), 3)):
        check(tops[key], [r["ts"] - r["start"] for r in runs[number]])
        assert tops[key]["busy_ns"] == union([(r["start"], r["ts"]) for r in runs[number]])
        assert tops[key]["failed"] == sum(r["error"] != 0 for r in runs[number])
    assert tops["alpha", "OpenCL"]["source"] == "k.okl:3" and tops["beta", "OpenMP"]["source"] == "k.okl"
    assert np.isclose(sum(r["share"] for r in tops.values()), 100)
    below = [r for r in rows if r["parent"] is not None]
    assert {r["parent"] for r in below} == {"alpha"} and {r["name"] for r in below} == set(parts)
    for row in below:
        check(row, [e - s for s, e in parts[row["name"]]])
        assert row["busy_ns"] == union(parts[row["name"]])
    assert sum(r["failed"] for r in below) == failures
    # Backend kernels follow the kernel that launched them.
    at = rows.index(tops["alpha", "OpenCL"])
    assert [r["parent"] for r in rows[at + 1 : at + 3]] == ["alpha", "alpha"]


def test_device_kernels(work: tuple[FakeTrace, Store]) -> None:
    trace, store = work
    backends = {number: text.decode() for (_, text), number in trace.interned.items()}
    expected: dict[tuple[str, str], list[tuple[int, int]]] = defaultdict(list)
    for event, row in trace.rows:
        if event.endswith(":activity") and row["kind"] == 1:
            expected[backends[row["name"]], f"device {row['queue']}"].append((row["start"], row["end"]))
    found = {(r["name"], r["device"]): r for r in table(store, "gpu_kern_sum")}
    assert set(found) == set(expected)
    for key, intervals in expected.items():
        check(found[key], [e - s for s, e in intervals])
        assert found[key]["busy_ns"] == union(intervals)


def test_memory_operations(work: tuple[FakeTrace, Store]) -> None:
    trace, store = work
    kinds = {2: "HtoD", 3: "DtoH", 4: "DtoD", 5: "HtoH", 6: "fill", 7: "map", 8: "unmap", 9: "marker", 10: "migrate"}
    expected: dict[tuple[str, str], list[Any]] = defaultdict(list)
    for event, row in trace.rows:
        if event.endswith(":activity") and kinds.get(row["kind"]) in MEMORY_KINDS:
            expected[kinds[row["kind"]], "OpenCL"].append((row["start"], row["end"], row["bytes"]))
        elif event.endswith("memory_copyFrom"):
            expected["DtoH", "Serial"].append((row["start"], row["ts"], row["bytes"]))
    times = {(r["name"], r["mode"]): r for r in table(store, "gpu_mem_time_sum")}
    sizes = {(r["name"], r["mode"]): r for r in table(store, "gpu_mem_size_sum")}
    assert set(times) == set(sizes) == set(expected)
    for key, work_done in expected.items():
        check(times[key], [e - s for s, e, _ in work_done])
        check(sizes[key], [b for *_, b in work_done], "bytes")
        assert times[key]["busy_ns"] == union([(s, e) for s, e, _ in work_done])


def test_occa_calls_are_a_part_of_all_calls(tmp_path: Path) -> None:
    with open_store(run_folder(tmp_path), model=MODEL, open_trace=demo_trace().open) as store:
        everything = table(store, "api_sum")
        assert table(store, "occa_api_sum") == [
            {k: v for k, v in r.items() if k != "api"} for r in everything if r["api"] == "occa"
        ]
        assert {r["api"] for r in everything} == {"occa", "opencl"}
        assert [r["name"] for r in everything if r["failed"]] == [
            "occa::memory::copyFrom",
            "clFinish",
            "clGetDeviceInfo",
        ]
        # A failed copy moved nothing.
        assert next(r["bytes"] for r in everything if r["name"] == "occa::memory::copyFrom") == 3 << 20


def test_empty_run(tmp_path: Path) -> None:
    trace = FakeTrace()
    trace.process(1).record("exit", 5, reason=0)
    with open_store(run_folder(tmp_path), model=MODEL, open_trace=trace.open) as store:
        for name in reports.definitions():
            assert reports.make(store, name).rows == [], name
        assert reports.summary(store) == []


def test_definitions() -> None:
    assert set(reports.SUMMARY) | {reports.WITHOUT_OCCA} <= set(reports.definitions())
    for entry in reports.definitions().values():
        assert entry.title and entry.about and entry.columns
        names = [c.name for c in entry.columns]
        assert len(set(names)) == len(names)
        assert any(c.unit == "percent" for c in entry.columns) == bool(entry.share), entry.name
        assert entry.group is None or entry.group in names
    for other, ours in (("cuda_gpu_kern_sum", "gpu_kern_sum"), ("gpukernsum", "gpu_kern_sum"), ("nvtx_sum", "range_sum"),
                        ("occa_kern_summ", "occa_kern_sum"), ("API-SUM", "api_sum")):  # fmt: skip
        with pytest.raises(reports.UnknownReport, match=f"did you mean {ours}\\?"):
            reports.definition(other)
    assert set(reports.OTHERS.values()) <= set(reports.definitions())
    count = len(reports.definitions())
    with pytest.raises(reports.UnknownReport, match=f"no report 'x'; `occa_prof report --list` lists all {count}$"):
        reports.definition("x")
    found = "no report 'mpi'; did you mean one of mpi_event_sum, mpi_imbalance, mpi_matrix, mpi_msg_size_sum\\?"
    with pytest.raises(reports.UnknownReport, match=found):
        reports.definition("mpi")
    with pytest.raises(reports.UnknownReport, match="`--all` prints the whole summary"):
        reports.definition("all")
    with pytest.raises(ValueError, match="line 2"):
        parse("x", "-- title: t\n--nonsense\nSELECT 1")
    with pytest.raises(ValueError, match="unit"):
        parse("x", "-- title: t\n-- about: a\n-- column: n furlong N\nSELECT 1")


intervals = st.lists(st.tuples(st.integers(0, 2), st.integers(0, 30), st.integers(0, 12)), min_size=1, max_size=40)


_CON = connect()
macros.macros(_CON)


@settings(deadline=None)
@given(intervals)
def test_busy_and_medians(given_intervals: list[tuple[int, int, int]]) -> None:
    con = _CON
    con.register("i", {
        "key": np.array([k for k, _, _ in given_intervals]),
        "s": np.array([s for _, s, _ in given_intervals], np.uint64),
        "e": np.array([s + d for _, s, d in given_intervals], np.uint64),
        "v": np.array([d for _, _, d in given_intervals], np.uint64),
    })  # fmt: skip
    busy = dict(con.execute("SELECT * FROM busy(i)").fetchall())
    medians = dict(con.execute("SELECT key, median FROM statistics(i)").fetchall())
    for key in busy:
        own = [(s, s + d) for k, s, d in given_intervals if k == key]
        assert busy[key] == union(own)
        assert medians[key] == np.median([e - s for s, e in own])
