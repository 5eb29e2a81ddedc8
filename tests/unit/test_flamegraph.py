"""Calls by nesting: times of stacks against the calls as they were written."""

from __future__ import annotations

import gzip
import io
import json
import os
import shutil
import subprocess
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

pytest.importorskip("duckdb")

from occatrace import _native
from occatrace.store.tables import open_store
from occatrace.views import flamegraph, pprof
from tests.support.fake import MODEL, FakeTrace, fake_device, launch, run_folder


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


def test_speedscope_file_is_as_its_schema_says(found: list[flamegraph.Stacks]) -> None:
    """The rules of https://www.speedscope.app/file-format-schema.json for sampled profiles, one by one."""
    found[0].weights["memory"][0] = 4096
    out = io.StringIO()
    flamegraph.speedscope(found, out)
    content = json.loads(out.getvalue())
    assert content["$schema"] == "https://www.speedscope.app/file-format-schema.json"
    assert set(content) <= {"$schema", "shared", "profiles", "name", "activeProfileIndex", "exporter"}
    assert all(set(frame) <= {"name", "file", "line", "col"} for frame in content["shared"]["frames"])
    assert len(content["profiles"]) == 3
    for profile in content["profiles"]:
        assert set(profile) == {"type", "name", "unit", "startValue", "endValue", "samples", "weights"}
        assert profile["type"] == "sampled" and profile["unit"] in (
            "none", "nanoseconds", "microseconds", "milliseconds", "seconds", "bytes",
        )  # fmt: skip
        assert len(profile["samples"]) == len(profile["weights"])
        assert all(0 <= number < len(content["shared"]["frames"]) for sample in profile["samples"] for number in sample)
    assert [p["unit"] for p in content["profiles"]] == ["nanoseconds", "nanoseconds", "bytes"]


def test_folded_is_a_line_per_stack_whatever_the_names_are() -> None:
    tree = flamegraph.Stacks("app; 1")
    node = tree.node(-1, "a;b\n\u2028c\x85d", "occa")
    tree.weights["time"][node] = 7
    out = io.StringIO()
    flamegraph.folded([tree], out)
    assert out.getvalue().splitlines() == ["app, 1;a,b  c d 7"]


@st.composite
def nested(draw: st.DrawFn) -> list[tuple[str, int, int, int]]:
    """Frames (name, start, end, number of the frame around it or -1), properly nested, with ties of every kind."""
    frames: list[tuple[str, int, int, int]] = []

    def fill(begin: int, end: int, parent: int, depth: int) -> None:
        at = begin
        for _ in range(draw(st.integers(0, 3))):
            if at >= end or depth > 4:
                return
            start = draw(st.integers(at, end - 1))
            stop = draw(st.integers(start + 1, end))
            frames.append(
                (draw(st.sampled_from(["clFinish", "clCreateBuffer", "range a", "range b"])), start, stop, parent)
            )
            fill(start, stop, len(frames) - 1, depth + 1)
            at = stop

    fill(1000, draw(st.integers(1001, 1200)), -1, 0)
    return frames


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(threads=st.lists(nested(), min_size=1, max_size=3))
def test_self_and_total_time_of_any_nesting(
    threads: list[list[tuple[str, int, int, int]]], tmp_path_factory: pytest.TempPathFactory
) -> None:
    """Against sums over the frames as they were made: own time is the duration less that of the frames right within."""
    trace = FakeTrace()
    trace.process(100)
    ranges: list[tuple[int, int, int, int, str]] = []
    own: Counter[tuple[str, ...]] = Counter()
    total: Counter[tuple[str, ...]] = Counter()
    calls: Counter[tuple[str, ...]] = Counter()
    for number, frames in enumerate(threads):
        writer = trace.thread(100, 200 + number)
        stacks: list[tuple[str, ...]] = []
        for name, start, end, parent in frames:
            seq = writer.take()
            if name.startswith("range"):
                ranges.append((200 + number, seq, start, end, name))
            elif name == "clFinish":
                writer.call("opencl:clFinish", start, end, seq, ret=0)
            else:
                writer.call("opencl:clCreateBuffer", start, end, seq, ret=0)
            stacks.append((*(stacks[parent] if parent >= 0 else ()), name))
            own[stacks[-1]] += end - start
            total[stacks[-1]] += end - start
            calls[stacks[-1]] += 1
            if parent >= 0:
                own[stacks[parent]] -= end - start
    with open_store(run_folder(tmp_path_factory.mktemp("run")), model=MODEL, open_trace=trace.open) as store:
        for tid, seq, start, end, name in ranges:
            store.con.execute(
                "INSERT INTO ranges BY NAME SELECT 1 AS process, 'nvtx' AS api, ? AS name, 'push' AS kind, thread, ? AS seq,"
                " ? AS start_ns, ? AS end_ns FROM threads WHERE tid = ?",
                [name, seq, start, end, tid],
            )
        found = flamegraph.stacks(store)
    if not any(threads):
        assert found == []
        return
    (tree,) = found
    paths: list[tuple[str, ...]] = []
    for name, parent in zip(tree.names, tree.parents, strict=True):
        paths.append((*(paths[parent] if parent >= 0 else ()), name))
    assert dict(zip(paths, tree.weights["time"], strict=True)) == own
    assert dict(zip(paths, tree.totals("time"), strict=True)) == total
    assert dict(zip(paths, tree.calls, strict=True)) == calls


def test_memory_stands_where_it_was_allocated(tmp_path: Path) -> None:
    """Bytes by the stack of the allocating call: all of them, and those of the moment when most was held."""
    trace = FakeTrace()
    main = trace.process(100)
    for at in (1000, 2000, 3000):
        outer = main.take()
        main.call("opencl:clCreateBuffer", at + 10, at + 20, ret=0)
        main.call("opencl:clBuildProgram", at, at + 100, outer, options="", ret=0)
    with open_store(run_folder(tmp_path), model=MODEL, open_trace=trace.open) as store:
        store.functions()
        store.con.execute("DELETE FROM allocations")
        sizes = {1000: (100, 2500), 2000: (70, None), 3000: (40, 3100)}  # at the peak: 100 + 70
        for at, (size, end) in sizes.items():
            store.con.execute(
                "INSERT INTO allocations BY NAME SELECT 1 AS process, 'opencl' AS api, 'device' AS kind, ?::UBIGINT AS bytes,"
                " 'clCreateBuffer' AS function, thread, seq, ?::UBIGINT AS start_ns, ?::UBIGINT AS end_ns"
                " FROM calls WHERE start_ns = ?",
                [size, at + 20, end, at + 10],
            )
        store.con.execute(
            "INSERT INTO allocations BY NAME SELECT 1 AS process, 'opencl' AS api, 'svm' AS kind, 5 AS bytes,"
            " 'clSVMAlloc' AS function, 9::UBIGINT AS start_ns"
        )
        (tree,) = flamegraph.stacks(store)
    assert dict(zip(tree.names, tree.weights["memory"], strict=True)) == {
        "clBuildProgram": 0, "clCreateBuffer": 210, "clSVMAlloc": 5,
    }  # fmt: skip
    assert sorted(tree.rows("peak")) == [(["clBuildProgram", "clCreateBuffer"], 170), (["clSVMAlloc"], 5)]
    out = io.StringIO()
    flamegraph.folded([tree], out, "peak")
    assert out.getvalue().splitlines() == ["app 100;clBuildProgram;clCreateBuffer 170", "app 100;clSVMAlloc 5"]


def _pprof(content: bytes) -> Any:
    """A profile by protobuf's own reader and the message as https://github.com/google/pprof/blob/main/proto/profile.proto has it."""
    pool = pytest.importorskip("google.protobuf.descriptor_pool").DescriptorPool()
    from google.protobuf import descriptor_pb2, message_factory, unknown_fields

    kinds = descriptor_pb2.FieldDescriptorProto
    file = descriptor_pb2.FileDescriptorProto(name="profile.proto", package="perftools.profiles", syntax="proto3")
    for name, fields in {
        "ValueType": "int64 type 1, int64 unit 2",
        "Label": "int64 key 1, int64 str 2, int64 num 3, int64 num_unit 4",
        "Sample": "*uint64 location_id 1, *int64 value 2, *Label label 3",
        "Line": "uint64 function_id 1, int64 line 2",
        "Location": "uint64 id 1, uint64 mapping_id 2, uint64 address 3, *Line line 4, bool is_folded 5",
        "Function": "uint64 id 1, int64 name 2, int64 system_name 3, int64 filename 4, int64 start_line 5",
        "Profile": "*ValueType sample_type 1, *Sample sample 2, *Location location 4, *Function function 5,"
        " *string string_table 6, int64 time_nanos 9, int64 duration_nanos 10, int64 default_sample_type 14",
    }.items():
        message = file.message_type.add(name=name)
        for text in fields.split(","):
            kind, field, number = text.split()
            repeated, kind = kind.startswith("*"), kind.lstrip("*")
            scalar = getattr(kinds, f"TYPE_{kind.upper()}", None)
            message.field.add(
                name=field, number=int(number), label=kinds.LABEL_REPEATED if repeated else kinds.LABEL_OPTIONAL,
                type=scalar or kinds.TYPE_MESSAGE, type_name=None if scalar else f".perftools.profiles.{kind}",
            )  # fmt: skip
    pool.Add(file)
    read = message_factory.GetMessageClass(pool.FindMessageTypeByName("perftools.profiles.Profile"))()
    read.ParseFromString(gzip.decompress(content))
    assert not any(True for _ in unknown_fields.UnknownFieldSet(read))
    return read


def test_pprof_reads_the_same_sums(found: list[flamegraph.Stacks]) -> None:
    node = found[0].node(-1, "solve<(int)3> (solver.cpp:17)", flamegraph.PROGRAM)
    found[0].weights["cpu"][found[0].node(node, "step (a (copy).f90:2)", flamegraph.PROGRAM)] = 1 << 40
    found[0].weights["allocations"][0] = 3
    read = _pprof(pprof.profile(found))
    texts = list(read.string_table)
    assert texts[0] == "" and len(set(texts)) == len(texts)
    types = [(texts[t.type], texts[t.unit]) for t in read.sample_type]
    assert types == [("time", "nanoseconds"), ("allocations", "count"), ("cpu", "nanoseconds")]
    assert texts[read.default_sample_type] == "time"
    functions = {f.id: (texts[f.name], texts[f.filename]) for f in read.function}
    lines = {at.id: (*functions[at.line[0].function_id], at.line[0].line) for at in read.location}
    for tree in found:
        for column, (measure, _) in enumerate(types):
            shown = {
                tuple(lines[number][0] for number in reversed(sample.location_id)): sample.value[column]
                for sample in read.sample
                if sample.value[column] and texts[sample.label[0].str] == tree.name
            }
            if measure != "cpu":
                assert shown == {tuple(stack): weight for stack, weight in tree.rows(measure)}
            elif shown:
                assert shown == {("solve<(int)3>", "step (a (copy).f90:2)"): 1 << 40}
    assert ("solve<(int)3>", "solver.cpp", 17) in lines.values()
    assert {f.system_name for f in read.function} == {0}  # pprof takes it for a mangled one


@pytest.mark.compiles
def test_pprof_itself_shows_whole_names(found: list[flamegraph.Stacks], tmp_path: Path) -> None:
    go = shutil.which("go")
    if go is None or subprocess.run([go, "tool", "-n", "pprof"], capture_output=True, check=False).returncode:
        pytest.skip("no pprof is there (Debian: golang-go)")
    for name in ("solve<float> (solver.cpp:17)", "<module> (main.py:3)"):
        found[0].weights["cpu"][found[0].node(-1, name, flamegraph.PROGRAM)] = 1_000_000
    path = tmp_path / "x.pb.gz"
    path.write_bytes(pprof.profile(found))
    command = [go, "tool", "pprof", "-sample_index=cpu", "-top", str(path)]
    shown = subprocess.run(
        command, cwd=tmp_path, capture_output=True, text=True, check=True, env={**os.environ, "HOME": str(tmp_path)}
    )
    rows = [line.split(maxsplit=5) for line in shown.stdout.splitlines() if line.lstrip()[:1].isdigit()]
    assert {row[-1] for row in rows} == {"solve<float>", "<module>"}
    assert {row[0] for row in rows} == {"1ms"}


def test_time_while_devices_are_idle(tmp_path: Path) -> None:
    trace = FakeTrace()
    main = trace.process(100)
    fake_device(main, 2)
    outer = main.take()
    launch(main, 1000, 10, 40, 80, "k")
    main.call("opencl:clFinish", 1030, 1090, ret=0)
    main.call("opencl:clBuildProgram", 1000, 1100, outer, options="", ret=0)
    with open_store(run_folder(tmp_path), model=MODEL, open_trace=trace.open) as store:
        [tree] = flamegraph.stacks(store)
    assert {stack[-1]: weight for stack, weight in tree.rows("idle")} == {
        "clBuildProgram": 30, "clEnqueueNDRangeKernel": 10, "clFinish": 20
    }  # fmt: skip


def test_windows_change_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """However few frames are read at a time: nesting across windows, idle time, and device work."""
    trace = FakeTrace()
    for pid in (100, 200):
        main = trace.process(pid)
        fake_device(main, 2)
        for at in range(1000, 9000, 500):
            outer = main.take()
            launch(main, at, 10, 40, 80 + at // 100, "k")
            main.call("opencl:clCreateBuffer", at + 20, at + 25, ret=0)
            main.call("opencl:clFinish", at + 30, at + 90, ret=0)
            main.call("opencl:clBuildProgram", at, at + 450, outer, options="", ret=0)

    def measured(name: str, rows: int) -> list[dict[str, list[tuple[tuple[str, ...], int]]]]:
        monkeypatch.setattr(flamegraph, "_WINDOW_ROWS", rows)
        with open_store(run_folder(tmp_path / name), model=MODEL, open_trace=trace.open) as store:
            found = flamegraph.stacks(store)
        return [{m: sorted((tuple(s), w) for s, w in tree.rows(m)) for m in flamegraph.MEASURES} for tree in found]

    whole = measured("whole", 1 << 19)
    assert [len(tree["time"]) for tree in whole] == [4, 4] and whole[0]["device-time"] and whole[0]["idle"]
    assert measured("one", 1) == measured("three", 3) == whole


def test_numbers_of_nothing_are_refused() -> None:
    """What is not a thread, a text or in order would be a write out of bounds."""
    folding = _native.StackFolding([0, 1], [1])

    def numbers(*values: int) -> np.ndarray[Any, np.dtype[np.uint32]]:
        return np.array(values, np.uint32)

    times = np.array([1], np.uint64)
    for thread, text in ((2, 0), (1, 1)):
        with pytest.raises(ValueError, match="there is no such one"):
            folding.add(numbers(thread), times, times, numbers(0), numbers(text))
    with pytest.raises(ValueError, match="no such thread"):
        folding.mark(numbers(2), numbers(0))
    with pytest.raises(ValueError, match="not in order"):
        folding.mark(numbers(1, 1), numbers(3, 3))
    assert folding.trees() == {}
