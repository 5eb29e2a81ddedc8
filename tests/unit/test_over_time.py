"""Plots over time, of ranks and of the critical path: numbers against the same numbers computed one by one, and their bounds."""

from __future__ import annotations

import io
import random
import xml.etree.ElementTree as ElementTree
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("duckdb")

from occatrace import reports
from occatrace.core.units import parse_range
from occatrace.render import Document, html, renderer
from occatrace.reports import Report, critical
from occatrace.reports.critical.labels import Label
from occatrace.reports.scope import Scope, Scoped
from occatrace.store.tables import Store, open_store
from occatrace.views import annotate, page, plots
from occatrace.views.plots import charts, draw, times
from occatrace.views.plots.data import PARTS
from tests.support.fake import MODEL, demo_trace, run_folder
from tests.unit.test_html import harmless
from tests.unit.test_waits import opened, overlapping

HOSTILE = "<script>alert(1)</script>\"' & \x07\u202e"


def ns(found: times.Activity, kind: str) -> list[float]:
    width = (found.end - found.begin) / PARTS
    return [float(row.sum() * width) for row in found.parts[kind]]


def test_activity_of_ranks(tmp_path: Path) -> None:
    """Rank 0: a kernel of 400 ns, a copy of 300 ns, MPI of 300 ns; rank 1: MPI of 600 ns, 300 of them waiting for rank 0."""
    with opened(tmp_path, overlapping()) as store:
        begin, end = times.axis(store.con)
        found = times.activity(store, begin, end)
        assert found is not None and list(found.rows) == ["rank 0", "rank 1"]
        assert ns(found, "device computing") == pytest.approx([400, 0])
        assert ns(found, "copies") == pytest.approx([300, 0])
        assert ns(found, "MPI") == pytest.approx([300, 600])
        assert ns(found, "waiting for other ranks") == pytest.approx([0, 300])
        bands, grid = found.bands(2_000), found.grid
        assert bands is not None and grid is not None
        mean = {row.name: float(np.mean(row.parts)) * (end - begin) for row in bands.rows}
        assert mean["calls of MPI"] == pytest.approx(450) and mean["copies"] == pytest.approx(150)
        told = {row.name: row.value for row in bands.rows}
        assert (told["calls of MPI"], told["copies"]) == ("22.5 %", "7.5 %"), "of the time that was named"
        maps = {title: np.array(cells) for title, cells in grid.maps}
        # Computing and copying at the same moment is still that moment: at most all of it.
        assert maps["computing and copying"].max() <= 1 and maps["in MPI"].shape[0] == 2
        # A part of the time: from 300 ns after the first call on there are 300 ns of MPI in rank 1.
        zero = int(store.con.execute("SELECT run_zero()").fetchall()[0][0]) - 1_000_000
        part = times.activity(store, 400 - zero, 700 - zero)
        assert part is not None and ns(part, "MPI") == pytest.approx([300, 300])
        assert ns(part, "device computing") == pytest.approx([100, 0])


def test_parts_of_a_curve() -> None:
    pick = random.Random(7)
    start, until, at = [], [], 0.0
    for _ in range(300):
        at += pick.choice([0, 0, 3.5, 40])
        start.append(at)
        at += pick.choice([0.5, 2, 90])
        until.append(at)
    begin, end = 100, 5000
    clipped = [(max(s, begin), min(e, end)) for s, e in zip(start, until, strict=True) if e > begin and s < end]
    found = times.binned(np.array([s for s, _ in clipped]), np.array([e for _, e in clipped]), begin, end)
    width = (end - begin) / PARTS
    for part, fraction in enumerate(found):
        low, high = begin + part * width, begin + (part + 1) * width
        exact = sum(max(0.0, min(high, e) - max(low, s)) for s, e in clipped) / width
        assert fraction == pytest.approx(exact, abs=2e-4)


def test_path_is_that_of_why(tmp_path: Path) -> None:
    """Each row has the time that `why` gives to its name."""
    with opened(tmp_path, overlapping()) as store:
        path = critical.recorded(store)
        assert path is not None and critical.recorded(store) is path, "computed once"
        begin, end = int(path.start.min()), times.axis(store.con)[1]
        found = times.path(path, begin, end, 2 * (end - begin))
        assert found is not None
        told: dict[str, int] = {}
        for row in path.answer.rows:
            name = Label(row.kind, row.name).shown
            told[name] = told.get(name, 0) + row.time_ns
        rows = {row.name: float(np.mean(row.parts)) * (end - begin) for row in found.rows}
        names = [name for name in rows if not name.startswith("rank ")]
        assert len(names) >= 3
        for name in names:
            assert rows[name] == pytest.approx(told[name], abs=2)
            share = next(row.value for row in found.rows if row.name == name)
            assert share == f"{100 * told[name] / (2 * (end - begin)):.1f} %"
        assert len(names) == len(rows), "all of it is in rank 0"
        turns = times.path(replace(path, rank=np.arange(len(path.rank)) % 2), begin, end, end - begin)
        assert turns is not None
        of_ranks = [float(np.mean(row.parts)) * (end - begin) for row in turns.rows if row.name.startswith("rank ")]
        assert len(of_ranks) == 2 and sum(of_ranks) == pytest.approx(end - begin, abs=2)


def test_shares_are_those_of_the_overview(tmp_path: Path) -> None:
    """A run that began 1000 ns before its first call: plots and the overview say the same of it."""
    trace = overlapping()
    with opened(tmp_path, trace) as store:
        store.con.execute("UPDATE processes SET start_ns = start_ns - 1000")
        source = plots.source(store)
        run = next(row for row in reports.make(store, "overview").rows if row[4] == "run")
        names = [column.name for column in reports.make(store, "overview").columns]
        assert source.whole == run[names.index("time_ns")] > source.axis[1] - source.axis[0]
        for name in ("timeline", "util", "critical"):
            plot = plots.make(source, name)
            assert plot is not None and "% is of the recorded time of the run." in plot.about


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    """The demo trace; its tables may be changed."""
    with open_store(run_folder(tmp_path), model=MODEL, open_trace=demo_trace().open) as opened_store:
        opened_store.__dict__["filled"] = opened_store.filled | {"counters", "mpi_messages"}
        yield opened_store


def count(store: Store, name: str, unit: str, process: int, values: list[tuple[int, float]]) -> None:
    zero = int(store.con.execute("SELECT run_zero()").fetchall()[0][0])
    for at, value in values:
        store.con.execute(
            "INSERT INTO counters BY NAME SELECT ? AS process, NULL AS device, ? AS name, ? AS unit, ? AS time_ns, ? AS value",
            [process, name, unit, zero + at, value],
        )


def test_counters_keep_their_value(store: Store) -> None:
    begin, end = times.axis(store.con)
    half = (begin + end) // 2
    count(store, "CPU", "%", 1, [(0, 40.0), (half, 80.0)])
    count(store, "level", "", 1, [(0, -2.0), (half, 2.0)])
    count(store, "RSS", "bytes", 1, [(0, 1 << 20)])
    count(store, "RSS", "bytes", 2, [(half, 3 << 20)])
    count(store, "bad", "", 1, [(0, float("nan"))])
    found = times.counters(store, begin, end)
    assert found is not None
    rows = {row.name: row for row in found.rows}
    assert set(rows) == {"CPU", "level", "RSS"}
    quarter, late = PARTS // 4, 3 * PARTS // 4

    def value(name: str, part: int) -> float:
        row = rows[name]
        return row.low + row.parts[part] * (row.high - row.low)

    assert (value("CPU", quarter), value("CPU", late)) == (40, 80) and rows["CPU"].value == "at most 80 %"
    assert (value("level", quarter), value("level", late)) == (-2, 2)
    # Of two processes the mean, as soon as there are two.
    assert (value("RSS", quarter), value("RSS", late)) == (1 << 20, 2 << 20)
    assert rows["RSS"].value == "at most 2.000 MiB, mean of 2"


def test_traffic_of_many_ranks(store: Store) -> None:
    """Neighbours share a row; nothing is lost."""
    definition = reports.definition("mpi_matrix")
    place = {column.name: at for at, column in enumerate(definition.columns)}
    rows = []
    for rank in range(1000):
        row: list[object] = [None] * len(place)
        row[place["source"]], row[place["target"]], row[place["total"]] = rank, (rank + 1) % 1000, 10 + rank
        rows.append(tuple(row))
    found = times.traffic(Report(definition, rows))
    assert found is not None and len(found.rows) == times.GRID == len(found.columns)
    assert found.rows[0] == "0 to 31" and found.rows[-1] == "969 to 999"
    cells = np.array(found.maps[0][1])
    assert cells.sum() == sum(10 + rank for rank in range(1000))
    assert cells[-1][0] == 10 + 999
    assert times.traffic(Report(definition, [])) is None


def test_maps_are_bounded() -> None:
    """However restless the ranks are, a map has at most so many rectangles."""
    if not draw.available():
        pytest.skip("vl-convert is not installed")
    noise = np.random.default_rng(1).random((times.GRID, PARTS))
    cells = times.reduced(noise)
    assert cells.shape[1] < PARTS and float(cells.mean()) == pytest.approx(float(noise.mean()))
    found = times.Grid(
        [f"rank {n}" for n in range(times.GRID)], [("a", cells.tolist()), ("b", cells.tolist())], 0, 10**9
    )
    text = draw.fragment(charts.grid(found, charts.WIDE, "x", ["1", "2", "3", "4", "5"]))
    assert 1000 < text.count("<path") < 2 * times.CELLS + 200 and len(text) < 450_000


def everything(store: Store) -> None:
    """Something for each plot, with names that want to be something else."""
    con = store.con
    for table, column in (("kernels", "name"), ("devices", "name"), ("call_stats", "function")):
        con.execute(f"UPDATE {table} SET {column} = ?", [HOSTILE])
    con.execute("INSERT INTO processes SELECT * REPLACE (2 AS process, 101 AS pid) FROM processes")
    con.execute("UPDATE processes SET rank = process - 1, size = 2")
    con.execute(
        "INSERT INTO mpi_messages BY NAME SELECT 1 AS process, 1 AS thread, 1 AS seq, 'MPI_Send' AS function, 'send' AS kind,"
        " 'complete' AS state, 1 AS partner, 100 AS bytes, start_ns + 5000 AS start_ns, start_ns + 9000 AS end_ns"
        " FROM processes WHERE process = 1"
    )
    con.execute("UPDATE builds SET name = ?", [HOSTILE])
    count(store, HOSTILE, HOSTILE, 1, [(0, 4.0), (5000, 8.0)])


@pytest.mark.parametrize("name", ["timeline", "counters", "ranks", "critical", "traffic"])
def test_drawings(store: Store, name: str) -> None:
    """Well-formed, with a twin for each colour in dark pages, and never more than text."""
    if not draw.available():
        pytest.skip("vl-convert is not installed")
    everything(store)
    plot = plots.make(plots.source(store), name)
    assert plot is not None and plot.words
    for width in (charts.WIDE, charts.NARROW):
        text = draw.svg(plot.chart(width))
        root = ElementTree.fromstring(text)
        tags = {element.tag.rpartition("}")[2] for element in root.iter()}
        assert tags <= {"svg", "style", "g", "path", "rect", "line", "text", "title"}, tags
        assert abs(float(root.attrib["width"]) - width) < 40
        known = {*charts.DARK, charts.PAPER, "none", "transparent", "black"}
        colors = {e.attrib[k] for e in root.iter() for k in ("fill", "stroke") if k in e.attrib}
        assert colors <= known, f"without a twin for dark pages: {colors - known}"


def test_one_axis(store: Store) -> None:
    """All plots over time show the same time: that of the run, or the chosen part of it."""
    everything(store)
    store.con.execute(
        "INSERT INTO allocations BY NAME SELECT 1 AS process, 'opencl' AS api, 'device' AS kind, 1 AS handle, 9 AS bytes,"
        " 5000 AS start_ns, 6000 AS end_ns, 'f' AS function"
    )
    over_time = ("timeline", "util", "mem", "counters", "ranks", "critical")

    def axes(tables: plots.Source, names: tuple[str, ...]) -> set[tuple[int, int]]:
        made = [plots.make(tables, name) for name in names]
        return {(plot.hover["begin"], plot.hover["end"]) for plot in made if plot and plot.hover}

    assert axes(plots.source(store), over_time) == {times.axis(store.con)}
    part = plots.source(store, Scoped(store, Scope(parse_range("30us:60us"))))
    assert axes(part, tuple(name for name in over_time if name != "mem")) == {(30_000, 60_000)}


def test_hostile_page(store: Store) -> None:
    everything(store)
    out = io.StringIO()
    renderer("html")(page.collect(store, {"program": [HOSTILE]}), out)
    found = harmless(out.getvalue())
    figures = {a["id"] for t, a in found.tags if t == "figure"}
    if draw.available():
        assert {f"plot-{name}" for name in ("timeline", "counters", "ranks", "critical", "traffic")} <= figures
    assert "graph" in {a.get("id") for _, a in found.tags}


def test_page_of_a_large_run(store: Store) -> None:
    """2,000 ranks, 100,000 pieces of work, 40 counters, 30,000 lines of source: the page stays small."""
    if not draw.available():
        pytest.skip("vl-convert is not installed")
    con = store.con
    con.execute(
        "INSERT INTO processes SELECT p.* REPLACE ((n + 2)::UINTEGER AS process, (n + 2)::UINTEGER AS pid)"
        " FROM processes p, range(1999) t(n)"
    )
    con.execute("UPDATE processes SET rank = process - 1, size = 2000")
    con.execute(
        "INSERT INTO activities BY NAME SELECT (n % 2000 + 1)::UINTEGER AS process, 'kernel' AS kind, 'k' || n % 5000 AS name,"
        " 1 AS device, 1 AS queue, (z + hash(n) % 100000)::UBIGINT AS start_ns, (z + hash(n) % 100000 + 90)::UBIGINT AS end_ns,"
        " 0 AS status FROM range(100000) t(n), (SELECT run_zero() AS z)"
    )
    con.execute(
        "INSERT INTO counters BY NAME SELECT 1 AS process, NULL AS device, 'c' || n % 40 AS name, '' AS unit,"
        " (z + n)::UBIGINT AS time_ns, (hash(n) % 1000)::DOUBLE AS value FROM range(40000) t(n), (SELECT run_zero() AS z)"
    )
    tables = plots.source(store)
    found = [
        page._figure(plot) for name in ("timeline", "ranks", "counters", "util") if (plot := plots.make(tables, name))
    ]
    assert [figure.name for figure in found] == ["timeline", "ranks", "counters", "util"]
    known = {f"/src/{n}.c": {line: annotate.Line(1, 5, 7, 9) for line in range(1, 3001)} for n in range(10)}
    sources = annotate.page(known, None)
    assert len(sources) == annotate.PAGE_FILES and sources[0].left_out == 3000 - annotate.PAGE_LINES
    out = io.StringIO()
    html.render(Document({}, store.losses({}), [], figures=found, sources=sources), out)
    assert 100_000 < len(out.getvalue()) < 1_500_000


def test_source_text_is_asked_for(tmp_path: Path) -> None:
    """Paths may be a stranger's: nothing is read unasked, and never what is no source file."""
    asked = []

    def read(path: str) -> tuple[list[str], str]:
        asked.append(path)
        return ["int x;", "call();", "</code><script>alert(1)</script>"], ""

    known = {"/a/x.c": {2: annotate.Line(3, 50, 70, 9)}, "/home/me/.ssh/id_rsa": {1: annotate.Line(1, 1, 1, 1)}}
    assert [line.text for file in annotate.page(known, None) for line in file.lines] == [None, None]
    found = annotate.page(known, read)
    assert asked == ["/a/x.c"]
    assert [(line.number, line.text, line.calls) for line in found[0].lines] == [
        (1, "int x;", 0), (2, "call();", 3), (3, "</code><script>alert(1)</script>", 0),
    ]  # fmt: skip
    out = io.StringIO()
    from occatrace.store.losses import Losses

    html.render(Document({}, Losses.none(), [], sources=found), out)
    assert "<script>alert(1)" not in out.getvalue() and "&lt;script&gt;alert(1)" in out.getvalue()


def test_ranks_have_their_time_in_mpi(tmp_path: Path) -> None:
    with opened(tmp_path, overlapping()) as store:
        report = reports.make(store, "rank_sum")
        at = [column.name for column in report.columns]
        assert {row[at.index("rank")]: row[at.index("mpi_ns")] for row in report.rows} == {0: 300, 1: 600}
