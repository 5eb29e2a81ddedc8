"""Runs in the formats of other tools, read by these tools: sums are those of our reports, to the ns."""

from __future__ import annotations

import csv
import json
import re
import shutil
import sqlite3
import subprocess
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import occatrace
from occatrace import reports
from occatrace.cli.dispatch import main
from occatrace.errors import StoreError
from occatrace.store.tables import Store, open_store
from occatrace.views import other_tools, rocpd, timeline
from tests.support.fake import MODEL, demo_trace, run_folder
from tests.support.foreign import rocpd as rocpd_file
from tests.support.foreign import run_of


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with open_store(run_folder(tmp_path), model=MODEL, open_trace=demo_trace().open) as opened:
        yield opened


def sums(store: Store, name: str, keys: tuple[str, ...] = ("name", "total_ns", "calls")) -> Counter[tuple[str, str]]:
    """Total and count by name of a report."""
    report = reports.make(store, name)
    at = [next(i for i, c in enumerate(report.columns) if c.name == key) for key in keys]
    out: Counter[tuple[str, str]] = Counter()
    for row in report.rows:
        out[row[at[0]], "ns"] += row[at[1]]
        out[row[at[0]], "n"] += row[at[2]]
    return out


LINE = re.compile(r'^(ENTER|LEAVE)\s+(\d+)\s+(\d+)\s+Region: "(.*)" <\d+>')
LOCATION = re.compile(r'^LOCATION\s+(\d+)\s+Name: "(.*?)" <\d+>, Type: (\w+)')


def test_otf2(store: Store, tmp_path: Path) -> None:
    """otf2-print reads it without complaint; each region is as long and as frequent as in the reports."""
    pytest.importorskip("otf2")
    if not shutil.which("otf2-print"):
        pytest.skip("otf2-tools is not installed")
    written = timeline.write(store, tmp_path / "o", timeline.Options(names="raw"), format="otf2")

    def output(*words: str) -> list[str]:
        done = subprocess.run(
            ["otf2-print", *words, tmp_path / "o" / "traces.otf2"], capture_output=True, text=True, check=True
        )
        assert not done.stderr
        return done.stdout.splitlines()

    streams = {m[1] for line in output("-G") if (m := LOCATION.match(line)) and m[3] == "ACCELERATOR_STREAM"}
    assert len(streams) >= 2
    found: dict[bool, Counter[tuple[str, str]]] = {True: Counter(), False: Counter()}
    opened: dict[str, list[tuple[str, int]]] = {}
    entered = 0
    for match in filter(None, map(LINE.match, output())):
        kind, location, time, name = match.groups()
        if kind == "ENTER":
            entered += 1
            opened.setdefault(location, []).append((name, int(time)))
        else:
            outer, since = opened[location].pop()
            assert outer == name  # they nest
            found[location in streams][name, "ns"] += int(time) - since
            found[location in streams][name, "n"] += 1
    assert entered == written.slices and not any(opened.values())
    kernels = sums(store, "gpu_kern_sum")
    assert kernels and {key: found[True][key] for key in kernels} == dict(kernels)
    calls = {key: value for key, value in sums(store, "api_sum").items() if key[0] == "clEnqueueNDRangeKernel"}
    assert calls and {key: found[False][key] for key in calls} == calls


def test_hatchet(store: Store, tmp_path: Path) -> None:
    """The reader takes it; the roots have all of the time, and exclusive times add up to it."""
    hatchet = pytest.importorskip("hatchet")
    other_tools.hatchet(store, tmp_path / "h.json")
    graph = hatchet.GraphFrame.from_literal(json.loads((tmp_path / "h.json").read_text()))
    frame = graph.dataframe
    launches = frame[frame["name"] == "clEnqueueNDRangeKernel"]
    expected = sums(store, "api_sum")
    assert launches["time (inc)"].sum() == expected["clEnqueueNDRangeKernel", "ns"] > 0
    assert launches["calls"].sum() == expected["clEnqueueNDRangeKernel", "n"] == 20
    assert frame["time"].sum() == sum(frame.loc[root, "time (inc)"] for root in graph.graph.roots)


def test_nsys(store: Store, tmp_path: Path) -> None:
    """The names of columns of nsys stats, the numbers of our reports."""
    assert other_tools.nsys(store, tmp_path) == ["cuda_gpu_kern_sum", "cuda_gpu_mem_time_sum", "cuda_api_sum"]
    with (tmp_path / "cuda_gpu_kern_sum.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert list(rows[0]) == [
        "Time (%)", "Total Time (ns)", "Instances", "Avg (ns)", "Med (ns)", "Min (ns)", "Max (ns)", "StdDev (ns)", "Name",
    ]  # fmt: skip
    found = {
        (row["Name"], what): int(row[of])
        for row in rows
        for what, of in (("ns", "Total Time (ns)"), ("n", "Instances"))
    }
    assert found == dict(sums(store, "gpu_kern_sum"))


def test_what_cannot_be_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(__import__("sys").modules, "otf2", None)
    with (
        open_store(run_folder(tmp_path), model=MODEL, open_trace=demo_trace().open) as opened,
        pytest.raises(StoreError, match=r"pip install 'occatrace\[otf2\]'"),
    ):
        timeline.write(opened, tmp_path / "o", format="otf2")
    assert not (tmp_path / "o").exists()
    assert main(["export", str(tmp_path), "--format", "nsys", "--calls", "-o", str(tmp_path / "n")]) == 2
    assert "--calls are not for nsys" in capsys.readouterr().err


ROUND = ("gpu_kern_sum", "gpu_mem_time_sum", "gpu_mem_size_sum", "api_sum", "range_sum", "mem_usage", "kern_exec_sum")


def told(run: Path, name: str) -> list[dict[str, Any]]:
    with occatrace.open(run) as opened:
        return list(opened.report(name))


def test_rocpd_and_back(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A recording of two ranks with ranges, memory and copies, written as rocpd and imported again: the same numbers."""
    first = run_of(rocpd_file(tmp_path / "first.db"))
    assert main(["export", str(first), "--format", "rocpd", "-o", str(tmp_path / "second.db")]) == 0
    assert main(["import", str(tmp_path / "second.db"), "-o", str(tmp_path / "again")]) == 0
    for name in ROUND:
        assert told(first, name) and told(tmp_path / "again", name) == told(first, name)
    with occatrace.open(tmp_path / "again") as run:
        rows = run.sql("SELECT pid, ppid, host, rank, size FROM processes ORDER BY rank").fetchall()
        assert rows == [(500 + rank, 10, "mi300", rank, 2) for rank in (0, 1)]
        assert run.losses.notes == []


# As the views of rocprofv3 join its tables: a row without one of the others would be missing.
VIEWS = {
    "kernel_dispatch": "JOIN rocpd_info_agent a ON a.id = k.agent_id JOIN rocpd_info_kernel_symbol s ON s.id = k.kernel_id"
    " JOIN rocpd_string r ON r.id = k.region_name_id JOIN rocpd_info_queue q ON q.id = k.queue_id"
    " JOIN rocpd_info_stream st ON st.id = k.stream_id JOIN rocpd_info_code_object c ON c.id = s.code_object_id",
    "memory_copy": "JOIN rocpd_info_agent a ON a.id = k.dst_agent_id JOIN rocpd_info_agent b ON b.id = k.src_agent_id"
    " JOIN rocpd_string n ON n.id = k.name_id JOIN rocpd_info_queue q ON q.id = k.queue_id",
    "region": "JOIN rocpd_string n ON n.id = k.name_id",
    "memory_allocate": "JOIN rocpd_info_agent a ON a.id = k.agent_id",
}


def test_rocpd_of_our_run(store: Store, tmp_path: Path) -> None:
    """Sums of kernels, copies and calls as in the reports, by joins over all tables."""
    count = rocpd.write(store, tmp_path / "r.db")
    with sqlite3.connect(tmp_path / "r.db") as db:
        rows = 0
        for table, joins in VIEWS.items():
            whole = (
                f"SELECT count(*) FROM rocpd_{table} k {joins} JOIN rocpd_event e ON e.id = k.event_id AND e.guid = k.guid"
                " JOIN rocpd_string o ON o.id = e.category_id JOIN rocpd_info_process p ON p.id = k.pid"
                " JOIN rocpd_info_thread t ON t.id = k.tid JOIN rocpd_info_node h ON h.id = k.nid"
            )
            ((joined,),), ((there,),) = db.execute(whole), db.execute(f"SELECT count(*) FROM rocpd_{table}")
            assert joined == there, table
            rows += there
        assert rows == count
        kernels = Counter[tuple[str, str]]()
        for name, time, n in db.execute(
            "SELECT kernel_name, sum(end - start), count(*) FROM rocpd_kernel_dispatch k"
            " JOIN rocpd_info_kernel_symbol s ON s.id = k.kernel_id GROUP BY 1"
        ):
            kernels[name, "ns"], kernels[name, "n"] = time, n
        assert kernels == sums(store, "gpu_kern_sum") and len(kernels) == 4
        # Each dispatch has the stack id of the call that launched it.
        assert db.execute(
            "SELECT n.string, count(*) FROM rocpd_kernel_dispatch k JOIN rocpd_event e ON e.id = k.event_id"
            " JOIN rocpd_region r JOIN rocpd_event c ON c.id = r.event_id AND c.stack_id = e.stack_id"
            " JOIN rocpd_string n ON n.id = r.name_id GROUP BY 1"
        ).fetchall() == [("clEnqueueNDRangeKernel", 20)]
    db.close()


def test_extrap(store: Store, tmp_path: Path) -> None:
    """A value of each path and metric for each run: sums are those of the reports; what one run lacks is 0 there."""
    ours = other_tools.measured(store)
    assert ours.processes == 1
    other = other_tools.Measured(2, {("app->more", "time"): 7})
    other_tools.extrap([({"n": 1}, ours), ({"n": 2}, other)], tmp_path / "x.jsonl")
    lines = [json.loads(line) for line in (tmp_path / "x.jsonl").read_text().splitlines()]
    assert {tuple(line["params"].items()) for line in lines} == {(("n", 1),), (("n", 2),)}
    keys = Counter((line["callpath"], line["metric"]) for line in lines)
    assert set(keys.values()) == {2}
    # Of memory, which nothing of it allocated, there is no line.
    assert {line["metric"] for line in lines} == {"time", "device time", "bytes moved", "visits"}

    def total(metric: str, last: str, n: int) -> int:
        return sum(
            line["value"]
            for line in lines
            if line["metric"] == metric and line["params"]["n"] == n and line["callpath"].split("->")[-1] == last
        )

    for name, time in ((name, value) for (name, what), value in sums(store, "gpu_kern_sum").items() if what == "ns"):
        assert total("device time", name, 1) == time and total("device time", name, 2) == 0
    assert total("visits", "clEnqueueNDRangeKernel", 1) == 20
    assert (total("time", "more", 1), total("time", "more", 2)) == (0, 7)


def lines_of(path: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in Path(path).read_text().splitlines()]


def test_extrap_of_several_runs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run, out = str(run_of(rocpd_file(tmp_path / "first.db"))), str(tmp_path / "x.jsonl")
    command = ["export", run, run, "--format", "extrap", "-o", out]
    assert main(command) == 0
    assert {line["params"]["processes"] for line in lines_of(out)} == {2}
    assert main([*command, "--force", "--parameter", "n=1,2", "--parameter", "p=4,4.5"]) == 0
    found = {tuple(line["params"].values()) for line in lines_of(out)}
    assert found == {(1, 4), (2, 4.5)}
    capsys.readouterr()
    for words, said in (
        ([*command, "--force", "--parameter", "n=1"], "n has 1 values for 2 runs"),
        (["export", run, run, "--format", "rocpd", "-o", str(tmp_path / "r")], "made of one run"),
        (["export", run, "--format", "rocpd", "--parameter", "n=1", "-o", str(tmp_path / "r")], "for --format extrap"),
    ):
        assert main(words) == 2
        err = capsys.readouterr().err
        assert said in err and err.count("\n") == 1
    with pytest.raises(SystemExit):
        main([*command, "--force", "--parameter", "n=1,x"])
    assert "invalid NAME=NUMBER,…: 'n=1,x'" in capsys.readouterr().err
