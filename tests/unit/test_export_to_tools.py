"""Runs in the formats of other tools, read by these tools: sums are those of our reports, to the ns."""

from __future__ import annotations

import csv
import json
import re
import shutil
import subprocess
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from occatrace import reports
from occatrace.cli.dispatch import main
from occatrace.errors import StoreError
from occatrace.store.tables import Store, open_store
from occatrace.views import other_tools, timeline
from tests.support.fake import MODEL, demo_trace, run_folder


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
