"""Partial summaries add up: of all parts together they say what the reports say of the whole."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pytest

from occatrace import reports
from occatrace.cli.report import print_partial
from occatrace.reports import partial
from occatrace.store import macros
from occatrace.store.tables import Store, connect, open_store
from tests.support.fake import MODEL, FakeTrace, run_folder
from tests.support.tools import load

ROOT = Path(__file__).resolve().parents[2]


def job(folder: Path, ranks: list[int], size: int, seed: int = 0) -> Store:
    """A run in which each rank calls kernels and functions, some of which overlap and some fail."""
    trace = FakeTrace()
    for rank in ranks:
        random = np.random.default_rng(1000 * seed + rank)
        main = trace.process(1000 + rank, rank=rank, size=size)
        names = {text: main.name(text) for text in ("Serial", "OpenMP", "a.okl", "one", "two")}
        for number, kernel in enumerate(("one", "two"), 1):
            main.record(
                "kernel",
                5,
                id=number,
                name=names[kernel],
                mode=names["Serial"],
                source=names["a.okl"],
                line=number,
                binary=0,
            )
        for _ in range(30):
            start = int(random.integers(10, 50_000))
            length = int(random.integers(1, 3000))
            main.call("occa:kernel_run", start, start + length, kernel=int(random.integers(1, 3)), launches=0, error=0)
            main.call(
                "opencl:clFinish", start, start + length // 2, command_queue=1, ret=-5 * int(random.integers(0, 2))
            )
        trace.tally(main, "opencl:clRetainMemObject", [int(v) for v in random.integers(100, 900, 50 + rank)], 60_000)
        main.record("exit", 100_000, reason=0)
    folder.mkdir(exist_ok=True)
    return open_store(run_folder(folder), model=MODEL, open_trace=trace.open)


def same(found: list[tuple[Any, ...]], expected: list[tuple[Any, ...]]) -> None:
    assert len(found) == len(expected)
    for row, wanted in zip(found, expected, strict=True):
        for value, other in zip(row, wanted, strict=True):
            if isinstance(other, float) or isinstance(value, float):
                assert value == pytest.approx(other, rel=1e-9, abs=1e-9)
            else:
                assert value == other


def test_parts_make_the_whole(tmp_path: Path) -> None:
    parts = []
    for at in (0, 3, 5):
        with job(tmp_path / f"part{at}", list(range(at, {0: 3, 3: 5, 5: 8}[at])), 8) as store:
            partial.make(store.con)
            parts.append(partial.columns(store.con))
    with job(tmp_path / "whole", list(range(8)), 8) as store, duckdb.connect() as con:
        # As a tree, in any order.
        partial.load(con, [partial.merge_columns([parts[2], parts[0]]), parts[1]])
        for name in partial.NAMES:
            expected = reports.make(store, name).rows
            assert bool(expected) == (name in ("occa_kern_sum", "api_sum", "occa_api_sum", "rank_balance")), name
            same(list(partial.report(con, name, 8).rows), list(expected))
        assert [r.name for r in partial.summary(con, 8)] == [
            r.name for r in reports.summary(store) if r.name != "rank_sum"
        ]


def test_one_balance_of_ranks(tmp_path: Path) -> None:
    """Copies of a special memory, and kernels beside those of OCCA: what tables say is what partial summaries say."""
    with job(tmp_path / "run", [0, 1], 2) as store:
        con = store.con
        for table in ("activities", "devices"):
            con.execute(f"CREATE TEMP TABLE {table} AS SELECT * FROM memory.main.{table} LIMIT 0")
        con.execute("INSERT INTO devices BY NAME SELECT 1 AS device, 'CUDA' AS api")
        con.execute(
            "INSERT INTO activities BY NAME SELECT process, 1 AS device, 1000 AS start_ns, 1000 + (rank + 1) * ns AS end_ns, 64 AS"
            " bytes, 0 AS status, kind, name, source, target FROM processes, (VALUES ('HtoD', 10000, NULL, 'pageable', 'device'),"
            " ('DtoH', 4000, NULL, 'device', 'pinned'), ('kernel', 50000, 'not of OCCA', NULL, NULL)) v(kind, ns, name, source, target)"
        )
        macros.prepare(con)
        entry = reports.definition("rank_balance")
        expected = [reports.plain(row, entry) for row in con.execute(entry.sql).fetchall()]
        partial.make(con)
        same(list(partial.report(con, "rank_balance", 2).rows), expected)
        at = [c.name for c in entry.columns].index("what")
        made = partial.summary(con, 2)[-1]
        shown: dict[str, set[str]] = {}
        for row in made.rows:
            shown.setdefault(row[at], set()).add(row[at + 1])
    # However unbalanced the calls are, kernels and memory are in the summary.
    assert shown["Kernels"] == {"one", "two", "not of OCCA"}
    assert shown["Memory"] == {"HtoD (pageable)", "DtoH (pinned)"}
    assert shown["Calls"] == {"occa::kernel::run", "clFinish", "clRetainMemObject"}


def test_overlaps_are_counted_once(tmp_path: Path) -> None:
    with job(tmp_path / "run", [0], 1) as store:
        store.con.execute(f"CREATE TEMP TABLE loaded_busy ({partial._DDL['busy']})")
        store.con.execute(
            "INSERT INTO loaded_busy BY NAME SELECT 'a' AS what, n AS name, s, e"
            " FROM (VALUES ('x', 5, 9), ('x', 1, 3), ('x', 3, 4), ('x', 6, 7), ('y', 0, 100), ('x', 20, 21)) v(n, s, e)"
        )
        partial._join_intervals(store.con, "loaded_busy")
        rows = store.con.execute("SELECT name, s, e FROM busy ORDER BY ALL").fetchall()
        assert rows == [("x", 1, 4), ("x", 5, 9), ("x", 20, 21), ("y", 0, 100)]


@pytest.mark.parametrize("fan", [512, 3])
def test_simulated_ranks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fan: int) -> None:
    """200 ranks on 13 nodes: counts are exact, the extremes are those of some rank."""
    monkeypatch.setattr(partial, "FAN", fan)
    with job(tmp_path / "job", list(range(4)), 4) as store:
        calls = dict(store.con.execute("SELECT function, sum(calls) FROM call_stats GROUP BY 1").fetchall())
    tool = load("simulate_ranks")
    monkeypatch.setattr(tool, "open_store", lambda run: open_store(run, model=MODEL))
    folders = tool.simulate(200, tmp_path / "job" / "run", tmp_path / "out", per_node=16)
    assert len(folders) == 13
    made = {report.name: report for report in tool.merge(folders, tmp_path / "merged", 200)}
    assert sorted(p.name for p in tmp_path.iterdir()) == ["job", "merged", "out"]
    names = [c.name for c in made["api_sum"].columns]
    for row in made["api_sum"].rows:
        entry = dict(zip(names, row, strict=True))
        if entry["name"] != "clRetainMemObject":  # not alike in all ranks
            assert entry["calls"] == 50 * calls[entry["name"]]
    names = [c.name for c in made["rank_balance"].columns]
    for row in made["rank_balance"].rows:
        entry = dict(zip(names, row, strict=True))
        assert entry["ranks"] == 200
        assert entry["min_ns"] < entry["avg_ns"] < entry["max_ns"]
        assert 0 <= entry["min_rank"] < 200 and 0 <= entry["max_rank"] < 200
        assert 5 < entry["imbalance"] < 200
        # The rank that is named has what is said of it.
        with connect() as con:
            folder = folders[entry["max_rank"] // 16]
            con.execute(f"CREATE VIEW s AS SELECT * FROM '{folder}/state.parquet'")
            assert con.execute(
                "SELECT count(*) FROM s WHERE name = ? AND most_rank = ? AND most = ?",
                [entry["name"], entry["max_rank"], entry["max_ns"]],
            ).fetchall() != [(0,)]


def test_a_simulated_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A run with tables of 40 ranks: every rank is a copy, with processes, threads and kernels of its own."""
    counts = "SELECT count(*), count(DISTINCT process), count(DISTINCT thread), sum(calls)::BIGINT FROM call_stats"
    kernels = "SELECT name, count(*), count(DISTINCT kernel) FROM kernel_runs JOIN kernels USING (kernel) GROUP BY 1 ORDER BY 1"
    with job(tmp_path / "job", list(range(4)), 4) as store:
        few = store.con.execute(counts).fetchall()[0]
        few_kernels = store.con.execute(kernels).fetchall()
    run = tmp_path / "job" / "run"
    (run / "run.json").write_text(json.dumps({"schema": 1, "program": ["a.out"]}))
    tool = load("simulate_ranks")
    monkeypatch.setattr(tool, "open_store", lambda run: open_store(run, model=MODEL))
    tool.simulate_run(40, run, tmp_path / "many", per_node=16)
    with open_store(tmp_path / "many", model=MODEL) as store:
        assert store.con.execute(counts).fetchall()[0] == tuple(10 * number for number in few)
        assert store.con.execute(kernels).fetchall() == [(name, 10 * n, 10 * own) for name, n, own in few_kernels]
        ranks = "SELECT rank, size, host FROM processes ORDER BY rank"
        assert store.con.execute(ranks).fetchall() == [(rank, 40, f"node{rank // 16:06}") for rank in range(40)]
        partial.make(store.con)
        parts = partial.columns(store.con)
        expected = reports.make(store, "rank_balance").rows
    with duckdb.connect() as con:
        partial.load(con, [parts])
        same(list(partial.report(con, "rank_balance", 40).rows), list(expected))
    with pytest.raises(SystemExit, match="has 4 ranks"):
        tool.simulate_run(41, run, tmp_path / "odd")


def test_the_report_of_very_many_ranks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What the last node prints: from the nodes' partial summaries, without their tables."""
    with job(tmp_path / "job", list(range(4)), 4):
        pass
    tool = load("simulate_ranks")
    monkeypatch.setattr(tool, "open_store", lambda run: open_store(run, model=MODEL))
    run = tmp_path / "many"
    for folder in tool.simulate(300, tmp_path / "job" / "run", tmp_path / "out", per_node=100):
        target = run / "nodes" / folder.name / "summary"
        target.parent.mkdir(parents=True)
        folder.rename(target)
    (run / "run.json").write_text(
        json.dumps({"schema": 1, "program": ["a.out"], "notes": ["rank 7 ended by signal 9"]})
    )
    out = io.StringIO()
    print_partial(run, out, "json", 300)
    said = json.loads(out.getvalue())
    assert said["losses"]["notes"] == ["rank 7 ended by signal 9"]
    found = {report["name"]: report["rows"] for report in said["reports"]}
    assert sum(row["calls"] for row in found["occa_kern_sum"]) == 300 * 30
    assert {row["ranks"] for row in found["rank_balance"]} == {300}
    parts = [row for row in found["overview"] if row["kind"] == "part"]
    assert sum(row["share"] for row in parts) == pytest.approx(100.0, abs=0.01)
    assert {row["name"] for row in found["efficiency"]} >= {"parallel efficiency", "load balance"}
    assert sorted(p.name for p in run.iterdir()) == ["nodes", "run.json"]
