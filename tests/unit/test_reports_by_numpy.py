"""Reports against numpy over the raw columns of a run: what they count is computed a second time, in another way."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from occatrace import reports
from occatrace.store.tables import Store, open_store
from tests.support.fake import MODEL, FakeTrace, run_folder

NONE = 0xFFFFFFFF
Columns = dict[str, npt.NDArray[Any]]


def busy_trace(seed: int = 11) -> FakeTrace:
    """Two threads of a process: calls that nest, fail and carry bytes, kernels of several sizes on two devices, copies."""
    rng = np.random.default_rng(seed)
    trace = FakeTrace(batch_rows=97)
    main = trace.process(100, start=10)
    threads = (main, trace.thread(100, 101, start=20))
    opencl, serial, error = main.name("OpenCL"), main.name("Serial"), main.name("no memory")
    names = [main.name(n) for n in ("_occa_add_0", "_occa_add_1", "native")]
    main.record("kernel", 30, id=1, name=main.name("add"), mode=opencl, source=main.name("k.okl"), line=3, binary=0)
    main.record("kernel", 30, id=2, name=main.name("scale"), mode=serial, source=0, line=0, binary=0)
    for device in (1, 2):
        main.event(
            "occatrace_device:device", 30, id=device, api=main.name("opencl"), platform=0, name=main.name(f"gpu {device}"),
            vendor=0, handle=device,
        )  # fmt: skip
        main.event("occatrace_device:queue", 30, id=device, device=device, handle=device, flags=0)
    at = 1000
    for i in range(400):
        thread = threads[i % 2]
        at += int(rng.integers(200, 2000))
        run = thread.take()
        launch = thread.call(
            "opencl:clEnqueueNDRangeKernel", at + 10, at + int(rng.integers(20, 90)), None, **{"global": [8]}, ret=0
        )
        begin = at + int(rng.integers(100, 4000))
        thread.event(
            "occatrace_device:activity", 10**7, kind=1, corr_tid=thread.tid, corr_seq=launch, run_seq=run,
            queue=int(rng.integers(1, 3)), queued=at + 15, submitted=begin, start=begin, end=begin + int(rng.integers(1, 5000)),
            name=names[i % 2], gx=int(rng.choice([64, 128])), gy=int(rng.choice([0, 2])), lx=int(rng.choice([0, 8])),
            status=-5 if rng.random() < 0.05 else 0,
        )  # fmt: skip
        thread.call("occa:kernel_run", at, at + 100, run, kernel=1, launches=1, error=0)
        thread.call("occa:kernel_run", at + 110, at + 111 + int(rng.integers(0, 60)), kernel=2, launches=0, error=0)
        thread.call(
            "opencl:clFinish",
            at + 180,
            at + 180 + int(rng.integers(0, 3000)),
            command_queue=1,
            ret=-36 if rng.random() < 0.1 else 0,
        )
        if i % 40 == 0:
            thread.call(
                "occa:device_buildKernel",
                at + 181,
                at + 182 + int(rng.integers(0, 10**5)),
                source=0,
                error=error if i == 80 else 0,
            )
        start = at + int(rng.integers(0, 9000))
        thread.event(
            "occatrace_device:activity", 10**7, kind=2, corr_tid=thread.tid, corr_seq=launch, run_seq=NONE, queue=1,
            queued=at, submitted=start, start=start, end=start + int(rng.integers(0, 3)) * 1000, bytes=int(rng.integers(0, 9999)),
            status=0,
        )  # fmt: skip
    main.record("exit", 10**8, reason=0)
    return trace


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    trace = busy_trace()
    with open_store(run_folder(tmp_path_factory.mktemp("busy")), model=MODEL, open_trace=trace.open) as opened:
        opened.functions()
        yield opened


def columns(store: Store, table: str) -> Columns:
    """A table's raw columns, without any SQL but the reading."""
    found = store.con.execute(f"FROM {table}").fetchnumpy()
    return {
        name: np.ma.filled(values, values.dtype.type(0)) if values.dtype != object else np.ma.getdata(values)
        for name, values in found.items()
    }


def rows(store: Store, name: str) -> list[dict[str, Any]]:
    report = reports.make(store, name)
    names = [c.name for c in report.columns]
    return [dict(zip(names, row, strict=True)) for row in report.rows]


def check(row: dict[str, Any], values: npt.NDArray[Any]) -> None:
    v = values.astype(np.float64)
    assert (row["calls"], row["total_ns"], row["min_ns"], row["max_ns"]) == (len(v), v.sum(), v.min(), v.max())
    assert row["avg_ns"] == pytest.approx(v.mean()) and row["med_ns"] == pytest.approx(np.median(v), rel=0.01, abs=0.5)
    assert row["stddev_ns"] == pytest.approx(v.std(ddof=1) if len(v) > 1 else 0)


def spans(table: Columns) -> npt.NDArray[np.int64]:
    return table["end_ns"].astype(np.int64) - table["start_ns"].astype(np.int64)


def zero(store: Store) -> int:
    return int(columns(store, "calls")["start_ns"].min())


def covered(starts: npt.NDArray[Any], ends: npt.NDArray[Any]) -> int:
    """Nanoseconds in which at least one runs: a counter per moment of change, summed up."""
    moments = np.concatenate([starts, ends]).astype(np.int64)
    steps = np.concatenate([np.ones(len(starts)), -np.ones(len(ends))])
    order = np.lexsort((-steps, moments))
    running = np.cumsum(steps[order])
    return int((np.diff(moments[order]) * (running[:-1] > 0)).sum())


def test_api_sums(store: Store) -> None:
    calls = columns(store, "calls")
    found = {(r["api"], r["name"]): r for r in rows(store, "api_sum")}
    assert {r["name"] for r in rows(store, "occa_api_sum")} == {name for api, name in found if api == "occa"}
    own = {r["name"]: r for r in rows(store, "occa_api_sum")}
    total: dict[str, int] = defaultdict(int)
    for (api, name), row in found.items():
        mask = (calls["api"] == api) & (calls["function"] == name)
        check(row, spans(calls)[mask])
        total[api] += int(spans(calls)[mask].sum())
        assert row["failed"] == calls["failed"][mask].sum()
        if api == "occa":
            check(own[name], spans(calls)[mask])
    for (api, _), row in found.items():
        assert row["share"] == pytest.approx(100 * row["total_ns"] / total[api])
    assert len(found) == len(set(zip(calls["api"].tolist(), calls["function"].tolist(), strict=True)))
    assert found["opencl", "clFinish"]["failed"] > 0


def test_traces(store: Store) -> None:
    work, calls = columns(store, "activities"), columns(store, "calls")
    found = rows(store, "gpu_trace")
    order = np.lexsort((work["name"].astype(str), work["end_ns"], work["start_ns"]))
    assert [r["start_ns"] for r in found] == (work["start_ns"][order].astype(np.int64) - zero(store)).tolist()
    assert [r["duration_ns"] for r in found] == spans(work)[order].tolist()
    assert [r["waited_ns"] for r in found] == (work["start_ns"].astype(np.int64) - work["queued_ns"].astype(np.int64))[
        order
    ].tolist()
    assert [r["bytes"] for r in found] == work["bytes"][order].tolist()
    for row in found:
        if row["bytes"] and row["duration_ns"]:
            assert row["gb_per_s"] == pytest.approx(row["bytes"] / row["duration_ns"])
        else:
            assert row["gb_per_s"] is None
    found = rows(store, "api_trace")
    order = np.lexsort((calls["seq"], calls["thread"], calls["start_ns"]))
    assert [r["start_ns"] for r in found] == (calls["start_ns"][order].astype(np.int64) - zero(store)).tolist()
    assert [r["name"] for r in found] == calls["function"][order].tolist()
    assert [r["duration_ns"] for r in found] == spans(calls)[order].tolist()


def test_calls_of_kernels(store: Store) -> None:
    runs, work = columns(store, "kernel_runs"), columns(store, "activities")
    per_run: dict[tuple[int, int], int] = defaultdict(int)
    for kind, thread, seq, length in zip(work["kind"], work["thread"], work["run_seq"], spans(work), strict=True):
        if kind == "kernel":
            per_run[int(thread), int(seq)] += int(length)
    found = rows(store, "occa_kern_trace")
    order = np.lexsort((runs["seq"], runs["thread"], runs["start_ns"]))
    assert [r["call_ns"] for r in found] == spans(runs)[order].tolist()
    expected = [
        per_run[int(runs["thread"][i]), int(runs["seq"][i])] if runs["kernel"][i] == 1 else int(spans(runs)[i])
        for i in order
    ]
    assert [r["work_ns"] for r in found] == expected
    assert [r["launches"] for r in found] == runs["launches"][order].tolist()


def test_kernels_by_grid_and_block(store: Store) -> None:
    work = columns(store, "activities")
    kernels = work["kind"] == "kernel"
    found = rows(store, "gpu_kern_gb_sum")
    seen = 0
    for row in found:
        grid = [int(n) for n in row["grid"].split("×")]
        block = 0 if row["block"] == "chosen by the backend" else int(row["block"])
        mask = kernels & (work["name"] == row["name"]) & (work["gx"] == grid[0]) & (work["lx"] == block)
        mask &= work["gy"] == (grid[1] if len(grid) > 1 else 0)
        check(row, spans(work)[mask])
        seen += int(mask.sum())
    assert seen == kernels.sum() and len(found) == 16
    assert sum(r["share"] for r in found) == pytest.approx(100)


def test_launches(store: Store) -> None:
    work, calls = columns(store, "activities"), columns(store, "calls")
    call_of = {(int(t), int(s)): i for i, (t, s) in enumerate(zip(calls["thread"], calls["seq"], strict=True))}
    expected: dict[str, list[tuple[int, int, int]]] = defaultdict(list)
    for i in np.flatnonzero(work["kind"] == "kernel"):
        call = call_of[int(work["thread"][i]), int(work["seq"][i])]
        waited = int(work["start_ns"][i]) - int(work["queued_ns"][i])
        expected[work["name"][i]].append((int(spans(calls)[call]), waited, int(spans(work)[i])))
    found = {r["name"]: r for r in rows(store, "kern_exec_sum")}
    assert set(found) == set(expected)
    whole = sum(sum(triple) for triples in expected.values() for triple in triples)
    for name, triples in expected.items():
        api, queue, kernel = np.array(triples).T
        row = found[name]
        assert (row["calls"], row["api_ns"], row["queue_ns"], row["kernel_ns"]) == (
            len(api),
            api.sum(),
            queue.sum(),
            kernel.sum(),
        )
        assert row["kernel_avg_ns"] == pytest.approx(kernel.mean()) and row["function"] == "clEnqueueNDRangeKernel"
        assert row["share"] == pytest.approx(100 * (api.sum() + queue.sum() + kernel.sum()) / whole)


def test_first_calls(store: Store, request: pytest.FixtureRequest) -> None:
    assert not [r for r in rows(store, "first_call") if r["name"].startswith("scale")], "its first call was a quick one"
    first = "SELECT min(start_ns) FROM kernel_runs WHERE kernel = 2"
    longer = f"UPDATE kernel_runs SET end_ns = end_ns + {{}} WHERE kernel = 2 AND start_ns = ({first})"
    store.con.execute(longer.format(20))
    request.addfinalizer(lambda: store.con.execute(longer.format(-20)))
    calls, runs, work = columns(store, "calls"), columns(store, "kernel_runs"), columns(store, "activities")
    found = {r["name"]: r for r in rows(store, "first_call")}
    for name in set(calls["function"].tolist()) - {"occa::kernel::run"}:
        mask = calls["function"] == name
        lengths = spans(calls)[mask][np.argsort(calls["start_ns"][mask], kind="stable")]
        if len(lengths) < 2 or lengths[0] <= np.median(lengths[1:]):
            assert name not in found, "no penalty"
            continue
        row = found[name]
        assert (row["first_ns"], row["calls"]) == (lengths[0], len(lengths))
        assert row["med_ns"] == pytest.approx(np.median(lengths[1:]), rel=0.01, abs=0.5)
        assert row["penalty_ns"] == pytest.approx(row["first_ns"] - row["med_ns"])
    host = runs["kernel"] == 2
    lengths = spans(runs)[host][np.argsort(runs["start_ns"][host], kind="stable")]
    (name,) = [n for n in found if n.startswith("scale")]
    assert (found[name]["first_ns"], found[name]["calls"]) == (lengths[0], len(lengths))
    assert found[name]["med_ns"] == pytest.approx(np.median(lengths[1:]), rel=0.01, abs=0.5)
    assert len(work["name"]) == 800


def test_histograms(store: Store) -> None:
    calls, work = columns(store, "calls"), columns(store, "activities")
    values: dict[str, list[int]] = defaultdict(list)
    for name, length in zip(calls["function"], spans(calls), strict=True):
        values[name].append(int(length))
    for name, kind, length in zip(work["name"], work["kind"], spans(work), strict=True):
        if kind == "kernel":
            values[name].append(int(length))
    found = rows(store, "hist")
    assert {r["name"] for r in found} == set(values)
    for name, lengths in values.items():
        own = [r for r in found if r["name"] == name]
        assert sum(r["calls"] for r in own) == len(lengths) and sum(r["share"] for r in own) == pytest.approx(100)
        for row in own:
            inside = sum(row["from_ns"] <= v < row["to_ns"] for v in lengths)
            assert row["calls"] == inside, (name, row)


def test_use_of_devices(store: Store) -> None:
    work = columns(store, "activities")
    found = {r["name"]: r for r in rows(store, "gpu_util")}
    devices = columns(store, "devices")
    for number, name in zip(devices["device"], devices["name"], strict=True):
        mask = work["device"] == number
        starts, ends = (
            work["start_ns"][mask].astype(np.int64),
            np.maximum(work["end_ns"], work["start_ns"])[mask].astype(np.int64),
        )
        row = found[name]
        assert (row["calls"], row["total_ns"], row["busy_ns"]) == (
            mask.sum(),
            (ends - starts).sum(),
            covered(starts, ends),
        )
        assert row["span_ns"] == ends.max() - starts.min() and row["idle_ns"] == row["span_ns"] - row["busy_ns"]
        assert row["overlap"] == pytest.approx((ends - starts).sum() / covered(starts, ends))
        assert row["share"] == pytest.approx(100 * row["busy_ns"] / row["span_ns"])
