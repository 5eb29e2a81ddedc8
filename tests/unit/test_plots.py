"""Numbers of plots against the same numbers computed one by one; drawings that are well-formed whatever the names are."""

from __future__ import annotations

import random
import xml.etree.ElementTree as ElementTree
from collections.abc import Iterator
from pathlib import Path

import pytest

pytest.importorskip("duckdb")

from occatrace import reports
from occatrace.core.units import parse_range
from occatrace.reports.scope import Scope, Scoped
from occatrace.store.tables import Store, open_store
from occatrace.views import plots
from occatrace.views.plots import charts, data, draw
from occatrace.views.plots import times as over_time
from tests.support.fake import MODEL, demo_trace, run_folder

HOSTILE = "<script>alert(1)</script>\"' & \x00\x07\n\u202e\\'] + alert(2) + ['" + "x" * 524_288


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    """The demo trace; its tables may be changed."""
    with open_store(run_folder(tmp_path), model=MODEL, open_trace=demo_trace().open) as opened:
        opened.con.execute("DELETE FROM allocations")
        yield opened


Allocation = tuple[str, str, str | None, int, int, int, int | None]  # api, kind, mode, handle, bytes, start, end


def allocate(store: Store, rows: list[Allocation]) -> None:
    for api, kind, mode, handle, size, start, end in rows:
        store.con.execute(
            "INSERT INTO allocations BY NAME SELECT 1 AS process, ? AS api, ? AS kind, ? AS mode, ?::UBIGINT AS handle,"
            " ?::UBIGINT AS bytes, ?::UBIGINT AS start_ns, ?::UBIGINT AS end_ns, 'f' AS function",
            [api, kind, mode, handle, size, start, end],
        )


def held(rows: list[Allocation], at: int) -> int:
    """What is in use at a time, row by row."""
    return sum(row[4] for row in rows if row[5] <= at and (row[6] is None or row[6] > at))


def origin(store: Store) -> int:
    return int(store.con.execute("SELECT run_zero()").fetchall()[0][0])


@pytest.mark.parametrize("count", [3, 40, 3000])
def test_memory(store: Store, count: int) -> None:
    """Every point is what is held then; the peak is exact, also where there are more changes than points."""
    pick = random.Random(count)
    rows: list[Allocation] = []
    for number in range(count):
        start = pick.randrange(1000, 200_000)
        end = None if pick.random() < 0.1 else start + pick.randrange(0, 60_000)
        rows.append((pick.choice(["opencl", "cuda"]), "device", None, number, pick.randrange(1, 10**9), start, end))
    allocate(store, rows)
    found = data.memory(store.con, *over_time.axis(store.con))
    assert found is not None
    zero = origin(store)
    times = sorted({row[5] for row in rows} | {row[6] for row in rows if row[6] is not None})
    assert found.exact == (len(times) <= data.POINTS) and len(found.times) <= data.POINTS + 1
    if found.exact:
        # A piece that is given back in the very moment of its allocation changes nothing.
        assert [t + zero for t in found.times] == times
    for place, at in enumerate(found.times):
        assert sum(series[place] for series in found.bytes) == held(rows, at + zero)
    assert found.peak == max(held(rows, at) for at in times) == held(rows, found.peak_at + zero)
    assert found.peak == max(map(sum, zip(*found.bytes, strict=True)))
    assert found.left == sum(row[4] for row in rows if row[6] is None)
    by_api = {name: max(series) for name, series in zip(found.groups, found.bytes, strict=True)}
    assert set(by_api) == {row[0].replace("opencl", "OpenCL").replace("cuda", "CUDA") for row in rows}


def test_memory_counts_once(store: Store) -> None:
    """OCCA's view of memory whose backend's allocation is known does not count, nor do parts; other modes do."""
    allocate(
        store,
        [
            ("occa", "device", "OpenCL", 1, 100, 1000, 2000),
            ("opencl", "device", None, 2, 100, 1000, 2000),
            ("occa", "device", "Serial", 3, 30, 1100, 1900),
            ("occa", "slice", "OpenCL", 4, 50, 1200, 1300),
        ],
    )
    store.con.execute("UPDATE allocations SET parent = 1 WHERE handle = 4")
    found = data.memory(store.con, *over_time.axis(store.con))
    assert found is not None and found.peak == 130 and found.left == 0
    assert dict(zip(found.groups, map(max, found.bytes), strict=True)) == {"OpenCL": 100, "OCCA Serial": 30}


def test_many_groups_are_joined(store: Store) -> None:
    kinds = [f"kind {n}" for n in range(9)]
    allocate(store, [("opencl", kind, None, n, 10 + n, 1000 + n, None) for n, kind in enumerate(kinds)])
    found = data.memory(store.con, *over_time.axis(store.con))
    assert found is not None and len(found.groups) == data.GROUPS and found.groups[-1] == "others"
    assert [series[-1] for series in found.bytes] == [18, 17, 16, 15, 14, 10 + 11 + 12 + 13]


@pytest.mark.parametrize("count", [1, 7, 2000])
def test_busy(store: Store, count: int) -> None:
    """The parts of each queue are the union of its work, moment by moment."""
    pick = random.Random(count)
    store.con.execute("DELETE FROM activities")
    store.con.execute("DELETE FROM kernel_runs")
    store.con.execute("DELETE FROM occa_copies")
    work = []
    for _ in range(count):
        start = pick.randrange(0, 24_000)
        work.append((pick.randrange(1, 3), start, start + pick.choice([0, 1, 17, 500])))
    for queue, start, end in work:
        store.con.execute(
            "INSERT INTO activities BY NAME SELECT 1 AS process, 'kernel' AS kind, 'k' AS name, 1 AS device, ? AS queue,"
            " ? AS start_ns, ? AS end_ns, 0 AS status",
            [queue, start, end],
        )
    found = data.busy(store.con, *over_time.axis(store.con))
    if found is None:
        assert all(start == end for _, start, end in work)
        return
    first = origin(store)
    assert (found.begin, found.end) == over_time.axis(store.con)
    length = found.end - found.begin
    for row in found.rows:
        own = [w for w in work if row.name.startswith(f"queue {w[0]},")]
        moments = {t - first for _, start, end in own for t in range(max(start, first), end)}
        assert row.busy_ns == len(moments)
        assert sum(row.parts) * length / data.PARTS == pytest.approx(len(moments), abs=1e-3)
        for part, fraction in enumerate(row.parts):
            low, high = part * length / data.PARTS, (part + 1) * length / data.PARTS
            busy = sum(max(0.0, min(high, t + 1) - max(low, t)) for t in moments)
            assert fraction == pytest.approx(busy * data.PARTS / length, abs=1e-6)
            if count > 1000 and part > 20:
                break


def test_serial_threads_are_busy(store: Store) -> None:
    """In modes without a device the calls are the work."""
    found = data.busy(store.con, *over_time.axis(store.con))
    assert found is not None
    rows = {row.name: row.busy_ns for row in found.rows}
    runs = sum(200 + i for i in range(10))
    assert rows["thread 100, OCCA Serial"] == runs + 4 * 50
    assert rows["queue 1, cpu-model"] == sum(700 + i for i in range(10)) + 4 * 490


def test_a_part_of_the_time(store: Store) -> None:
    """Work of the part alone, over the time of that work; memory as it was."""
    allocate(store, [("opencl", "device", None, 1, 100, 1000, 200_000)])
    zero = origin(store)
    window = parse_range("30us:60us")
    tables = plots.source(store, Scoped(store, Scope(window, "thread")))
    with tables.connection() as con:
        found = data.busy(con, *tables.axis)
    # As many pieces as begin there: of the ten rounds, 10 µs apart from 1 µs on, those of 3 (31 µs) to 5.
    starts = [row[0] for row in store.con.execute("SELECT start_ns FROM activities").fetchall()]
    inside = [s for s in starts if zero + 30_000 <= s < zero + 60_000]
    assert found is not None and 0 < len(inside) < len(starts)
    assert (found.begin, found.end) == (30_000, 60_000)
    plot = plots.make(tables, "util")
    assert plot is not None and "chosen part" in plot.about
    assert tables.memory is not None and tables.memory.peak == 100


def test_shares_are_the_reports(store: Store) -> None:
    found = plots.source(store).kernels
    report = reports.make(store, "occa_kern_sum")
    at = {column.name: place for place, column in enumerate(report.columns)}
    rows = [row for row in report.rows if row[at["parent"]] is None]
    assert found is not None and found.others is None
    assert [(k.name, k.total_ns, k.calls, k.share) for k in found.kernels] == [
        (row[at["name"]], row[at["total_ns"]], row[at["calls"]], row[at["share"]]) for row in rows
    ]


def test_small_kernels_are_joined(store: Store) -> None:
    store.con.execute("DELETE FROM kernel_runs")
    store.con.execute("DELETE FROM activities")
    for n in range(30):
        store.con.execute(
            "INSERT INTO activities BY NAME SELECT 1 AS process, 'kernel' AS kind, ? AS name, 1 AS device, 1 AS queue,"
            " 1000 AS start_ns, ? AS end_ns, 0 AS status",
            [f"k{n}", 1100 + n],
        )
    found = plots.source(store).kernels
    assert found is not None and found.others is not None
    assert len(found.kernels) == data.KERNELS - 1 and found.others.name == f"{30 - len(found.kernels)} others"
    assert found.others.total_ns == sum(100 + n for n in range(30 - len(found.kernels)))
    assert sum(k.share for k in found.kernels) + found.others.share == pytest.approx(100)


def test_distributions(store: Store) -> None:
    found = {row.name: row for row in data.distributions(store.con)}
    assert {name: row.calls for name, row in found.items()} == {"addVectors": 10, "scale": 10}
    ((low, high, calls),) = found["scale"].buckets
    assert calls == 10 and low <= 200 and high > 209  # 200 to 209 ns
    assert found["scale"].median_ns == pytest.approx(204, rel=0.01)
    assert sum(n for _, _, n in found["addVectors"].buckets) == 10


def test_nothing(tmp_path: Path) -> None:
    from tests.support.fake import FakeTrace

    trace = FakeTrace()
    trace.process(100)
    with open_store(run_folder(tmp_path), model=MODEL, open_trace=trace.open) as store:
        assert [plots.make(plots.source(store), name) for name in plots.PLOTS] == [None] * len(plots.PLOTS)
        with pytest.raises(plots.UnknownPlot, match="timeline, util, mem, counters, ranks, critical, kernels"):
            plots.make(plots.source(store), "nope")


@pytest.mark.parametrize("name", ["util", "mem", "kernels", "durations"])
def test_drawings(store: Store, name: str) -> None:
    """Well-formed, bounded and without scripts, with a name that wants to be something else."""
    if not draw.available():
        pytest.skip("vl-convert is not installed")
    store.con.execute("UPDATE kernels SET name = ?", [HOSTILE])
    store.con.execute("UPDATE devices SET name = ?", [HOSTILE])
    allocate(
        store, [("opencl", "device", None, 1, 5 << 20, 1000, 5000), ("opencl", "host", None, 2, 1 << 20, 1500, None)]
    )
    store.con.execute("UPDATE allocations SET device = 1")
    plot = plots.make(plots.source(store), name)
    assert plot is not None
    for width in (charts.WIDE, charts.NARROW):
        text = draw.svg(plot.chart(width))
        root = ElementTree.fromstring(text)
        tags = {element.tag.rpartition("}")[2] for element in root.iter()}
        assert tags <= {"svg", "style", "g", "path", "rect", "line", "text", "title"}, tags
        assert "<script" not in text and len(text) < 200_000
        assert abs(float(root.attrib["width"]) - width) < 40
        shown = "".join(element.text or "" for element in root.iter() if element.tag.endswith("text"))
        assert "<script>alert(1)</script>" in shown or "…" in shown
        known = {*charts.DARK, charts.PAPER, "none", "transparent", "black"}
        colors = {e.attrib[k] for e in root.iter() for k in ("fill", "stroke") if k in e.attrib}
        assert colors <= known, f"without a twin for dark pages: {colors - known}"
    picture = draw.png(plot.chart(charts.WIDE))
    assert picture.startswith(b"\x89PNG") and len(picture) < 300_000
