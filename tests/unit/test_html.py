"""The page of a run as a file: what is in it, what can never be in it, and how large it may become."""

from __future__ import annotations

import base64
import dataclasses
import hashlib
import io
import json
import re
import shutil
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path

import pytest

pytest.importorskip("duckdb")

from occatrace import reports
from occatrace.cli.dispatch import main
from occatrace.core.units import duration
from occatrace.render import Document, html, renderer
from occatrace.render.text import cell
from occatrace.reports import Report, parse
from occatrace.store.losses import Losses
from occatrace.store.tables import Store, open_store
from occatrace.views import flame_page, flamegraph, page
from occatrace.views.plots import draw
from tests.support.fake import MODEL, FakeTrace, demo_trace, run_folder
from tests.unit.test_plots import HOSTILE

FACTS = {
    "program": ["app", HOSTILE],
    "mode": "default",
    "host": HOSTILE,
    "started": "2026-11-21T10:00:00+0000",
    "exit_status": 0,
}


class Page(HTMLParser):
    """What a reader of HTML finds."""

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=True)
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.open: list[str] = []
        self.scripts: list[str] = []
        self.names: list[str | None] = []  # of the reports of the tables
        self.tables: list[list[list[str]]] = []
        self.values: list[list[list[str | None]]] = []
        self.text = ""
        self.feed(text)
        self.close()
        assert self.open == [], f"left open: {self.open}"

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag not in ("meta", "link", "input", "br"):
            self.open.append(tag)
        if tag == "script":
            self.scripts.append("")
        if tag == "section":
            self.section = dict(attrs).get("data-report")
        if tag == "table":
            self.names.append(self.section)
            self.tables.append([])
            self.values.append([])
        if tag == "tr":
            self.tables[-1].append([])
            self.values[-1].append([])
        if tag in ("td", "th"):
            self.tables[-1][-1].append("")
            self.values[-1][-1].append(dict(attrs).get("data-v"))

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag, f"</{tag}> closes something else"

    def handle_data(self, data: str) -> None:
        if self.open and self.open[-1] == "script":
            self.scripts[-1] += data
        elif self.open and self.open[-1] != "style":
            self.text += data
            if "table" in self.open and {"td", "th"} & set(self.open):
                self.tables[-1][-1][-1] += data


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with open_store(run_folder(tmp_path), model=MODEL, open_trace=demo_trace().open) as opened:
        yield opened


def written(document: Document) -> str:
    out = io.StringIO()
    renderer("html")(document, out)
    return out.getvalue()


def harmless(text: str) -> Page:
    """Nothing from elsewhere, one script of ours, no handlers, no control characters."""
    found = Page(text)
    assert not re.search(r"[\x00-\x08\x0b-\x1f\x7f\u202e]", text)
    for tag, attributes in found.tags:
        assert tag not in ("iframe", "object", "embed", "form", "base", "img", "foreignobject", "use")
        assert not [name for name in attributes if name.startswith("on")]
        for name in ("src", "href", "xlink:href", "action"):
            value = attributes.get(name)
            assert value is None or value.startswith(("#", "data:,")), value
    policy = next(a["content"] or "" for t, a in found.tags if t == "meta" and a.get("http-equiv"))
    kinds = [a.get("type") for t, a in found.tags if t == "script"]
    (code,) = [script for script, kind in zip(found.scripts, kinds, strict=True) if kind is None]
    digest = base64.b64encode(hashlib.sha256(code.encode()).digest()).decode()
    assert "default-src 'none'" in policy and f"script-src 'sha256-{digest}'" in policy
    for script, kind in zip(found.scripts, kinds, strict=True):
        if kind == "application/json":
            json.loads(script)
    assert "url(" not in text and "@import" not in text
    return found


def test_numbers_are_the_reports(store: Store) -> None:
    """Every table of the page is its report, cell by cell, with the exact value for sorting."""
    found = harmless(written(page.collect(store, {"program": ["app"]})))
    checked = 0
    for name, rows, values in zip(found.names, found.tables, found.values, strict=True):
        if name is None:
            continue  # the lines of the source
        report = reports.make(store, name)
        if report.definition.group:
            continue
        assert len(rows) == len(report.rows) + 1
        for row, shown, exact in zip(report.rows, rows[1:], values[1:], strict=True):
            for title, content, value in zip(rows[0], shown, exact, strict=True):
                place = next(i for i, c in enumerate(report.columns) if c.title == title)
                if value is not None:
                    assert content == cell(row[place], report.columns[place])
                    assert value == "" if row[place] is None else float(value) == pytest.approx(row[place])
                    checked += 1
    assert {"occa_kern_sum", "gpu_util", "gpu_mem_time_sum", "api_sum"} <= set(found.names) and checked > 60


def test_summary_of_the_run(store: Store) -> None:
    found = harmless(
        written(page.collect(store, {"program": ["app"], "mode": "default", "started": "2026-11-21T10:00:00"}))
    )
    assert "Kernels" in found.text and "Device busy" in found.text and "4 failed" not in found.text
    assert "never returned: clFinish in process 100" in found.text and "nothing was lost" not in found.text
    if draw.available():
        figures = [a["id"] for t, a in found.tags if t == "figure"]
        assert (
            figures[:2] == ["plot-timeline", "plot-util"] and "plot-kernels" in figures and "plot-durations" in figures
        )


def test_hostile_names(store: Store) -> None:
    for table, column in (("kernels", "name"), ("kernels", "source"), ("devices", "name"), ("devices", "vendor"), ("processes", "exe"),
                          ("activities", "name"), ("call_stats", "function"), ("failures", "error")):  # fmt: skip
        store.con.execute(f"UPDATE {table} SET {column} = ?", [HOSTILE])
    document = page.collect(store, FACTS)
    text = written(document)
    found = harmless(text)
    assert "<script>alert(1)</script>" in found.text, "it is there, as text"
    assert "characters)" in found.text and len(found.text) < 100_000
    kept = json.loads(next(script for script in found.scripts if script.startswith("[")))
    assert HOSTILE in kept and len(set(kept)) == len(kept), "each once"
    # The same of a page of single reports, and of a comparison.
    harmless(written(Document({"program": [HOSTILE]}, Losses.none(), document.reports)))


def test_long_tables_are_cut_and_say_so(store: Store) -> None:
    about = "things, " * 60
    head = f"-- title: Things\n-- about: {about}and more\n-- column: total_ns ns Total\n-- column: name text Name\nSELECT 1\n"
    rows = [(n, f"name {n}") for n in range(5000)]
    text = written(Document({}, Losses.none(), [Report(parse("things", head), rows)]))
    found = harmless(text)
    assert len(found.tables[0]) == html.ROWS + 1
    assert f"{about[1:]}and more." in found.text, "our own sentences are whole"
    assert "The first 200 of 5,000 rows." in found.text and "--report things --format csv" in found.text


def test_losses_are_told_first() -> None:
    losses = dataclasses.replace(Losses.none(), problems=("<b>damaged</b>",))
    found = harmless(written(Document({"program": ["app"]}, losses, [])))
    assert "<b>damaged</b>" in found.text


def test_empty_run(tmp_path: Path) -> None:
    trace = FakeTrace()
    trace.process(100)
    with open_store(run_folder(tmp_path), model=MODEL, open_trace=trace.open) as store:
        found = harmless(written(page.collect(store, {"program": ["app"]})))
    assert "Process 100" in found.text and "nothing was recorded" in found.text.lower()


def test_run_that_recorded_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A program that used nothing that is traced leaves no trace: its page says that, and so does every other view."""
    facts = {
        "schema": 1,
        "program": ["true"],
        "started": "a",
        "ended": "b",
        "exit_status": 0,
        "processes": [],
        "notes": ["nothing"],
    }
    (tmp_path / "run.json").write_text(json.dumps(facts), encoding="utf-8")
    path = tmp_path / "x.html"
    assert main(["report", str(tmp_path), "--format", "html", "-o", str(path)]) == 0
    found = harmless(path.read_text(encoding="utf-8"))
    assert "Nothing was recorded" in found.text and "trace is gone" not in found.text
    assert main(["flamegraph", str(tmp_path), "-o", str(tmp_path / "f.html")]) == 0
    assert "No single calls were recorded" in harmless((tmp_path / "f.html").read_text(encoding="utf-8")).text
    assert main(["report", str(tmp_path), "--plot", "mem"]) == 2
    assert "no allocation was recorded" in capsys.readouterr().err
    # One whose trace was lost is another matter.
    facts["processes"] = [100]
    (tmp_path / "run.json").write_text(json.dumps(facts), encoding="utf-8")
    shutil.rmtree(tmp_path / "tables")
    assert main(["report", str(tmp_path), "--format", "html", "-o", str(tmp_path / "y.html")]) == 2
    assert "neither tables nor a trace" in capsys.readouterr().err and not (tmp_path / "y.html").exists()
    assert [f.name for f in tmp_path.glob(".y.html*")] == []


def test_without_the_library(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without it the page has no plots and says why; a single plot is refused in one line."""
    monkeypatch.setitem(__import__("sys").modules, "vl_convert", None)
    found = harmless(written(page.collect(store, {"program": ["app"]})))
    assert "figure" not in {tag for tag, _ in found.tags} and "pip install vl-convert-python" in found.text
    with pytest.raises(draw.NoPlots, match="pip install"):
        draw.svg({})


def test_the_tile_of_the_run_has_what_came_before_the_processes(store: Store) -> None:
    """The first sample of --sample may be older than the first process, and is zero of the time axis then."""
    store.con.execute("UPDATE processes SET start_ns = start_ns + 2000, end_ns = end_ns + 2000")
    [(begin, end)] = store.con.execute("SELECT min(start_ns)::BIGINT, max(end_ns)::BIGINT FROM processes").fetchall()
    for first in (begin + 10, begin - 1_000):
        store.con.execute("UPDATE processes SET first_ns = ?", [first])
        [tile] = [tile for tile in page.collect(store, {"program": ["app"]}).tiles if tile.title == "Run"]
        assert tile.value == duration(end - min(begin, first))


def test_flame_graph_page(store: Store) -> None:
    found = flamegraph.stacks(store)
    out = io.StringIO()
    flame_page.render(found, FACTS, Losses.none(), out)
    read = harmless(out.getvalue())
    tree = json.loads(read.scripts[0])
    names = [tree["names"][node[1]] for node in tree["nodes"]]
    assert names[0] == "all" and names[1] == "app 100" and "clBuildProgram" in names
    assert tree["totals"]["time"] == sum(sum(t.weights["time"]) for t in found)


def test_small_frames_are_joined(monkeypatch: pytest.MonkeyPatch) -> None:
    """A graph of very many stacks is bounded, and loses no time."""
    tree = flamegraph.Stacks("app")
    for outer in range(100):
        a = tree.node(-1, f"outer {outer}", "occa")
        for inner in range(100):
            b = tree.node(a, f"inner {inner}", "opencl")
            tree.weights["time"][b] += 1 + (inner if outer < 3 else 0)
            tree.calls[b] += 1
    monkeypatch.setattr(flame_page, "NODES", 900)
    drawn = flame_page.graph([tree])
    assert len(drawn["nodes"]) < 1000
    assert drawn["totals"]["time"] == sum(tree.weights["time"])
    assert sum(node[3] for node in drawn["nodes"]) == 10_000
    assert flame_page.SMALLER in drawn["names"]


def test_functions(store: Store) -> None:
    """Self times add up; a function within itself counts once in its total."""
    tree = flamegraph.Stacks("app")
    a = tree.node(-1, "f", "occa")
    b = tree.node(a, "g", "occa")
    c = tree.node(b, "f", "occa")
    for node, time in ((a, 5), (b, 7), (c, 11)):
        tree.weights["time"][node] = time
        tree.calls[node] = 1
    rows = {row[0]: row for row in flame_page.functions([tree]).rows}
    assert rows["f"][2:5] == (16, 23, 2) and rows["g"][2:5] == (7, 18, 1)
    assert sum(row[1] for row in rows.values()) == pytest.approx(100)
