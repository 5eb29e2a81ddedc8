"""Calls by nesting: times of stacks against the calls as they were written."""

from __future__ import annotations

import io
import json
from pathlib import Path

import pytest

pytest.importorskip("duckdb")

from occatrace import flamegraph
from occatrace.tables import open_store
from tests.support.fake import MODEL, FakeTrace, run_folder


@pytest.fixture
def found(tmp_path: Path) -> list[flamegraph.Stacks]:
    trace = FakeTrace()
    main = trace.process(100)
    worker = trace.thread(100, 101)
    other = trace.process(200, exe="/bin/other")
    for thread in (main, worker):  # both alike: 100 ns, of which 30 and twice 10 in callees
        seq = thread.take()
        thread.call("opencl:clCreateBuffer", 1010, 1040, ret=0)
        inner = thread.take()
        thread.call("opencl:clFinish", 1050, 1060, ret=0)
        thread.call("opencl:clBuildProgram", 1045, 1065, inner, options="", ret=0)
        thread.call("opencl:clBuildProgram", 1000, 1100, seq, options="", ret=0)
    other.call("opencl:clFinish", 2000, 2005, ret=-36)
    with open_store(run_folder(tmp_path), model=MODEL, open_trace=trace.open) as store:
        return flamegraph.stacks(store)


def test_times(found: list[flamegraph.Stacks]) -> None:
    assert [tree.name for tree in found] == ["app 100", "other 200"]
    assert sorted(found[0].rows()) == [
        (["clBuildProgram"], 100),
        (["clBuildProgram", "clBuildProgram"], 20),
        (["clBuildProgram", "clBuildProgram", "clFinish"], 20),
        (["clBuildProgram", "clCreateBuffer"], 60),
    ]
    assert list(found[1].rows()) == [(["✗ clFinish"], 5)]


def test_folded(found: list[flamegraph.Stacks]) -> None:
    out = io.StringIO()
    flamegraph.folded(found, out)
    lines = out.getvalue().splitlines()
    assert "app 100;clBuildProgram;clCreateBuffer 60" in lines
    assert sum(int(line.rpartition(" ")[2]) for line in lines) == 205


def test_speedscope(found: list[flamegraph.Stacks]) -> None:
    out = io.StringIO()
    flamegraph.speedscope(found, out)
    content = json.loads(out.getvalue())
    names = [frame["name"] for frame in content["shared"]["frames"]]
    first = content["profiles"][0]
    assert first["endValue"] == sum(first["weights"]) == 200
    stacks = {tuple(names[i] for i in sample): w for sample, w in zip(first["samples"], first["weights"], strict=True)}
    assert stacks["clBuildProgram", "clCreateBuffer"] == 60
