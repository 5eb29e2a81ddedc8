"""Tables → timeline: every slice, flow and counter value against what the events said; filters; the command."""

from __future__ import annotations

import csv
import json
import random
import tempfile
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("perfetto")
pytest.importorskip("wasmtime")

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from occatrace.cli import timeline as command
from occatrace.cli.dispatch import main
from occatrace.cli.messages import UsageError
from occatrace.core.schema import MEMORY_KINDS
from occatrace.store.tables import open_store
from occatrace.views import timeline
from tests.support.fake import MODEL, FakeThread, FakeTrace, demo_trace, run_folder
from tests.support.perfetto_check import Content, check
from tests.support.timelines import FLOWS, REALTIME, VALUES, Slice, perfetto, slices, span, write

KINDS = {1: "kernel", 2: "HtoD", 9: "marker"}


@dataclass
class Truth:
    """A trace and what its timeline must hold."""

    trace: FakeTrace = field(default_factory=FakeTrace)
    slices: Counter[Slice] = field(default_factory=Counter)
    flows: Counter[tuple[str, int, str, int]] = field(default_factory=Counter)


def random_run(source: random.Random, names: list[str]) -> Truth:
    """Threads with nested calls, queues whose work overlaps; many equal times and durations of zero."""
    truth = Truth()
    main = truth.trace.process(100)
    threads = [("main", main)] + [
        (f"worker{i}", truth.trace.thread(100, 101 + i, name=f"worker{i}")) for i in range(source.randrange(3))
    ]
    main.event("occatrace_device:device", 6, id=1, api=main.name("opencl"), name=main.name("gpu"), handle=16)
    for queue in (1, 2):
        main.event("occatrace_device:queue", 7, id=queue, device=1, handle=queue, flags=queue - 1)
    texts = {name: main.name(name) for name in names}
    for label, thread in threads:
        at = 1000
        for _ in range(source.randrange(8)):
            at = call(source, truth, label, thread, texts, at, 3) + source.randrange(3)
    return truth


def call(
    source: random.Random, truth: Truth, label: str, thread: FakeThread, texts: dict[str, int], at: int, depth: int
) -> int:
    """A call that begins at `at`, with what it calls; when it ends."""
    seq, begin = thread.take(), at
    at += source.choice((0, 0, 1, 5))
    while depth and source.random() < 0.5:
        at = call(source, truth, label, thread, texts, at, depth - 1) + source.choice((0, 0, 2))
    end = at + source.choice((0, 0, 1, 7))
    if source.random() < 0.5:
        thread.call("opencl:clEnqueueNDRangeKernel", begin, end, seq, ret=0, **{"global": [8]})
        truth.slices[begin, end - begin, "clEnqueueNDRangeKernel", label] += 1
        for _ in range(source.choice((0, 1, 1, 2))):
            kind, name = source.choice((1, 1, 2, 9)), source.choice(list(texts))
            start = begin + source.randrange(0, 9)
            stop, queue = start + source.choice((0, 3, 30)), source.choice((1, 2))
            thread.event(
                "occatrace_device:activity", stop + 99, kind=kind, corr_tid=thread.tid, corr_seq=seq, run_seq=0xFFFFFFFF,
                queue=queue, queued=begin, submitted=begin, start=start, end=stop, name=texts[name] if kind == 1 else 0,
            )  # fmt: skip
            shown = name if kind == 1 else KINDS[kind]
            track = "memory operations" if KINDS[kind] in MEMORY_KINDS else f"queue {queue}"
            track += " (out of order)" if track == "queue 2" else ""
            truth.slices[start, stop - start, shown, track] += 1
            truth.flows["clEnqueueNDRangeKernel", begin, shown, start] += 1
    else:
        ret = source.choice((0, 0, -36))
        thread.call("opencl:clCreateBuffer", begin, end, seq, ret=ret)
        truth.slices[begin, end - begin, ("✗ " if ret else "") + "clCreateBuffer", label] += 1
    return end


texts = st.lists(
    st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), min_size=1, max_size=20),
    min_size=1, max_size=4, unique=True,
)  # fmt: skip


@settings(deadline=None, max_examples=15, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.randoms(use_true_random=False), texts)
def test_random_runs(tmp_path: Path, source: random.Random, names: list[str]) -> None:
    truth = random_run(source, names)
    path = write(Path(tempfile.mkdtemp(dir=tmp_path)), truth.trace)
    assert check(path).problems == []
    assert slices(path) == truth.slices
    found = Counter((r.source, r.start - REALTIME, r.target, r.begin - REALTIME) for r in perfetto(path, FLOWS))
    assert found == truth.flows


@pytest.mark.parametrize("seed", [9, 17])
def test_read_in_windows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int) -> None:
    """What is read in many windows of time is the same: slices, arrows, and the order of rows."""
    truth = random_run(random.Random(seed), ["a", "b"])
    assert len(truth.slices) > 60 and len(truth.flows) > 20
    whole = write(tmp_path / "whole", truth.trace, name="x.csv", form="csv").read_text(encoding="utf-8")
    monkeypatch.setattr("occatrace.views.timeline.selection.WINDOW_ROWS", 3)
    monkeypatch.setattr("occatrace.views.timeline.selection.BUCKETS", 2)
    monkeypatch.setattr("occatrace.store.windows.BUCKETS", 2)
    assert write(tmp_path / "cut", truth.trace, name="x.csv", form="csv").read_text(encoding="utf-8") == whole
    path = write(tmp_path / "perfetto", truth.trace)
    assert check(path).problems == []
    assert slices(path) == truth.slices
    found = Counter((r.source, r.start - REALTIME, r.target, r.begin - REALTIME) for r in perfetto(path, FLOWS))
    assert found == truth.flows


def test_many_arrows_of_one_call(tmp_path: Path) -> None:
    """More than fit into the byte that counts them: each leads to its own work."""
    trace = FakeTrace()
    main = trace.process(100)
    main.event("occatrace_device:device", 6, id=1, api=main.name("opencl"), name=main.name("gpu"), handle=16)
    main.event("occatrace_device:queue", 7, id=1, device=1, handle=1, flags=0)
    for begin in (100, 200):
        seq = main.call("opencl:clFinish", begin, begin + 50, ret=0)
        for number in range(300):
            main.event("occatrace_device:activity", 90, kind=1, corr_tid=main.tid, corr_seq=seq, run_seq=0xFFFFFFFF, queue=1,
                       queued=begin, submitted=begin, start=begin + 60 + 10 * number, end=begin + 65 + 10 * number,
                       name=main.name(f"kernel {begin}"))  # fmt: skip
    path = write(tmp_path, trace)
    assert check(path).problems == []
    found = Counter((r.start - REALTIME, r.target, r.begin - REALTIME) for r in perfetto(path, FLOWS))
    assert found == Counter((b, f"kernel {b}", b + 60 + 10 * n) for b in (100, 200) for n in range(300))


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write(tmp_path_factory.mktemp("demo"), demo_trace())


def arguments(content: Content, name: str) -> Iterator[dict[str, Any]]:
    return (dict(s.arguments) for s in sorted(content.slices, key=lambda s: s.start) if s.name == name)


def test_arguments(demo: Path) -> None:
    content = check(demo)
    assert content.problems == []
    assert next(arguments(content, "addVectors")) == {
        "call": "occa::kernel::run", "OCCA mode": "OpenCL", "source": "/home/me/addVectors.okl:3",
    }  # fmt: skip
    launch = next(arguments(content, "clEnqueueNDRangeKernel"))
    assert {key: launch[key] for key in launch if key != "correlation"} == {
        "kernel": "addVectors", "grid (threads)": "64 × 2 × 1", "block (threads)": "8 × 1 × 1",
    }  # fmt: skip
    # Kernels have the name, and so the colour, of the calls that launched them.
    work = next(each for each in arguments(content, "addVectors") if "backend kernel" in each)
    assert work == {
        "OCCA kernel": "addVectors", "backend kernel": "_occa_addVectors_0", "source": "/home/me/addVectors.okl:3", "waited ns": 980,
        "grid (threads)": "64 × 2 × 1", "block (threads)": "8 × 1 × 1", "correlation": launch["correlation"],
    }  # fmt: skip
    copy = next(arguments(content, "HtoD"))
    assert (copy["bytes"], round(copy["GB/s"], 3)) == (4096, round(4096 / 490, 3))
    host_copy = next(arguments(content, "occa::memory::copyFrom"))
    assert (host_copy["bytes"], host_copy["direction"], host_copy["GB/s"]) == (1 << 20, "HtoD", (1 << 20) / 50)


def test_arrows_lead_from_both_calls(demo: Path) -> None:
    """Ten runs with two launches each: every launch and every OCCA call points at the work."""
    found = Counter((r.source, r.target) for r in perfetto(demo, FLOWS))
    assert found == {(source, "addVectors"): 20 for source in ("addVectors", "clEnqueueNDRangeKernel")}


def test_calls_nest(demo: Path) -> None:
    rows = perfetto(demo, "SELECT c.name, p.name AS parent FROM slice c JOIN slice p ON p.id = c.parent_id")
    assert Counter((r.name, r.parent) for r in rows) == {("clEnqueueNDRangeKernel", "addVectors"): 20}


def test_zero_is_the_first_call(demo: Path) -> None:
    """So that --filter-time means what the interface shows."""
    (bounds,) = perfetto(demo, "SELECT start_ts FROM trace_bounds")
    first = min(start for start, *_ in slices(demo))
    assert bounds.start_ts - REALTIME == first == 1000


def test_failures_stand_out(demo: Path) -> None:
    content = check(demo)
    failed = {s.name: dict(s.arguments)["error"] for s in content.slices if s.name.startswith("✗")}
    assert failed == {
        "✗ clFinish": "CL_INVALID_COMMAND_QUEUE",
        "✗ occa::memory::copyFrom": "out of bounds",
        "✗ clFinish (never returned)": "never returned",
    }
    problems = Counter(s.name for s in content.slices if content.name(s.track) == "! problems")
    assert problems == dict.fromkeys(failed, 1)


def test_losses_are_visible(tmp_path: Path) -> None:
    trace = demo_trace()
    lost = [i for i, (event, _) in enumerate(trace.rows) if event == "occatrace_opencl:clEnqueueNDRangeKernel"][:3]
    for i in reversed(lost):
        del trace.rows[i]
    # A warning takes the place and the number of the exit.
    last = dict(trace.rows)["occatrace_process:exit"]
    trace.rows = [row for row in trace.rows if row[0] != "occatrace_process:exit"]
    FakeThread(trace, 100, 100).event(
        "occatrace_device:clock_warning", 9, seq=int(last["seq"]), device=1, clamped=7, worst=2500
    )
    path = write(tmp_path, trace)
    content = check(path)
    assert content.problems == []
    problems = {s.name for s in content.slices if content.name(s.track) == "! problems"}
    # Of the three, one may be the call in which the process was killed.
    assert any(name.startswith("2 of") and name.endswith("events were lost") for name in problems), problems
    assert "7 times of cpu-model were moved in between enqueue and completion, up to 2.5 µs" in problems
    assert "its end is not recorded, as events were lost" in problems
    # The work of launches that were lost keeps its place; its arrow from the OCCA call is still there.
    assert Counter(r.source for r in perfetto(path, FLOWS)) == {"addVectors": 20, "clEnqueueNDRangeKernel": 17}


def test_counters(demo: Path) -> None:
    rows = perfetto(demo, VALUES)
    assert {r.name for r in rows} == {"enqueued, not finished", "busy", "traffic HtoD"}
    rows = [r for r in rows if r.name == "enqueued, not finished"]
    with open_store(demo.parent / "run", model=MODEL, open_trace=demo_trace().open) as store:
        work = store.con.execute("SELECT queued_ns, end_ns FROM activities").fetchall()
    for row in rows:
        at = row.ts - REALTIME
        assert row.value == sum(queued <= at < end for queued, end in work)
    assert len(rows) == len({t for pair in work for t in pair})


@pytest.mark.parametrize(
    ("options", "keep"),
    [
        (timeline.Options(filter_name="^clFin|HtoD"), lambda s: "clFin" in s[2] or s[2] == "HtoD"),
        (timeline.Options(min_duration=100), lambda s: s[1] >= 100),
        (timeline.Options(apis=("occa",)), lambda s: s[3] == "main" and "cl" not in s[2][:4]),
        (timeline.Options(apis=("device",)), lambda s: s[3] != "main"),
        (timeline.Options(apis=("opencl", "device")), lambda s: s[3] != "main" or "cl" in s[2][:4]),
        (timeline.Options(threads=("ma*",)), lambda s: True),
        (timeline.Options(threads=("100",)), lambda s: True),
        (timeline.Options(threads=("99", "other")), lambda s: False),
        (timeline.Options(span(20_000, 30_000)), lambda s: s[0] <= 31_000 and s[0] + s[1] >= 21_000),
        (timeline.Options(span(None, 5_000)), lambda s: s[0] <= 6_000),
    ],
)
def test_filters(demo: Path, tmp_path: Path, options: timeline.Options, keep: Any) -> None:
    path = write(tmp_path / "filtered", demo_trace(), options)
    assert check(path).problems == []
    expected = Counter({s: n for s, n in slices(demo).items() if keep(s)})
    assert expected or options.threads
    assert slices(path) == expected


def test_runs_can_be_put_together(tmp_path: Path) -> None:
    """Two runs, one file: by cat."""
    paths = []
    for number in (1, 2):
        trace = FakeTrace()
        main = trace.process(100 * number)
        dict(trace.rows)["occatrace_process:process"]["run"] = trace.string(f"run {number}")  # type: ignore[index]
        main.event("occatrace_device:device", 6, id=1, api=main.name("opencl"), name=main.name("gpu"), handle=16)
        main.event("occatrace_device:queue", 7, id=1, device=1, handle=1, flags=0)
        seq = main.call("opencl:clEnqueueNDRangeKernel", 10, 20, ret=0, **{"global": [8]})
        main.event("occatrace_device:activity", 90, kind=1, corr_tid=main.tid, corr_seq=seq, run_seq=0xFFFFFFFF, queue=1,
                   queued=15, submitted=16, start=18, end=30, name=main.name(f"kernel {number}"))  # fmt: skip
        paths.append(write(tmp_path / str(number), trace))
    both = tmp_path / "both.pftrace"
    both.write_bytes(b"".join(path.read_bytes() for path in paths))
    assert check(both).problems == []
    assert slices(both) == slices(paths[0]) + slices(paths[1])
    assert sorted(r.target for r in perfetto(both, FLOWS)) == ["kernel 1", "kernel 2"]


def test_several_hosts(tmp_path: Path) -> None:
    """The same process id on two hosts: two processes, and nothing is lost."""
    folder = run_folder(tmp_path, ("node0", "node1"))
    traces = {}
    for host in ("node0", "node1"):
        trace = traces[host] = FakeTrace()
        main = trace.process(100)
        dict(trace.rows)["occatrace_process:process"]["host"] = trace.string(host)  # type: ignore[index]
        main.call("opencl:clFinish", 10, 20, ret=0)
    path = tmp_path / "x.pftrace"
    with open_store(folder, model=MODEL, open_trace=lambda p, events: traces[p.name].open(p, events)) as store:
        timeline.write(store, path)
    assert check(path).problems == []
    rows = perfetto(
        path,
        "SELECT s.name, p.upid, p.pid FROM slice s JOIN thread_track k ON k.id = s.track_id JOIN thread USING (utid)"
        " JOIN process p USING (upid) WHERE s.name = 'clFinish'",
    )
    assert len({r.upid for r in rows}) == 2
    assert [r.pid for r in rows] == [100, 100]


def test_nothing_recorded(tmp_path: Path) -> None:
    trace = FakeTrace()
    trace.process(1).record("exit", 9)
    assert check(write(tmp_path, trace)).problems == []


def test_compressed_is_the_same(demo: Path, tmp_path: Path) -> None:
    path = write(tmp_path, demo_trace(), name="x.pftrace.gz")
    assert path.read_bytes()[:2] == b"\x1f\x8b"
    assert path.stat().st_size < demo.stat().st_size / 2
    assert slices(path) == slices(demo)


@settings(deadline=None, max_examples=15, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.randoms(use_true_random=False), texts)
def test_csv(tmp_path: Path, source: random.Random, names: list[str]) -> None:
    truth = random_run(source, names)
    path = write(Path(tempfile.mkdtemp(dir=tmp_path)), truth.trace, name="x.csv", form="csv")
    with path.open(encoding="utf-8", newline="") as file:
        rows = [row for row in csv.DictReader(file) if row["track"] != "! problems"]
    origin = min((s[0] for s in truth.slices), default=0)
    found = Counter(
        (
            int(r["start_ns"]) + origin,
            int(r["duration_ns"]),
            r["name"],
            r["track"].removeprefix("Device 0: gpu: ") if r["category"] != "opencl" else r["track"].rpartition(" ")[0],
        )
        for r in rows
    )
    assert found == truth.slices


def test_json(demo: Path, tmp_path: Path) -> None:
    """Perfetto reads the same slices, arrows and values from Chrome's format."""
    path = write(tmp_path, demo_trace(), name="x.json", form="json")
    everything = "SELECT ts, dur, name FROM slice"
    assert Counter((r.ts + 1000, r.dur, r.name) for r in perfetto(path, everything)) == Counter(
        (r.ts - REALTIME, r.dur, r.name) for r in perfetto(demo, everything)
    )
    ends = [Counter((r.source, r.target) for r in perfetto(p, FLOWS)) for p in (path, demo)]
    assert ends[0] == ends[1]
    values = "SELECT value FROM counter ORDER BY ts"
    assert [r.value for r in perfetto(path, values)] == [r.value for r in perfetto(demo, values)]
    arguments = next(
        e["args"]
        for e in json.loads(path.read_text())["traceEvents"]
        if e["name"] == "addVectors" and "backend kernel" in e.get("args", ())
    )
    assert arguments["OCCA kernel"] == "addVectors"
    assert arguments["source"] == "/home/me/addVectors.okl:3"


def test_a_failed_write_leaves_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "x.pftrace"
    path.write_text("old")

    def fail(*_: object) -> None:
        raise OSError("no")

    monkeypatch.setattr("occatrace.views.timeline.writer._add", fail)
    with pytest.raises(OSError):
        write(tmp_path, demo_trace())
    assert path.read_text() == "old"
    assert {p.name for p in tmp_path.iterdir()} == {"run", "x.pftrace"}


@pytest.mark.parametrize(
    ("text", "ns"),
    [
        ("1.5s", 1_500_000_000),
        ("200ms", 2 * 10**8),
        ("30us", 30_000),
        ("8ns", 8),
        (".5", 5 * 10**8),
        ("2h", 72 * 10**11),
    ],
)
def test_times(text: str, ns: int) -> None:
    assert command.parse_time(text, "--x") == ns


@pytest.mark.parametrize("text", ["", "x", "1d", "-3s", "1.2.3", "s"])
def test_bad_times(text: str) -> None:
    with pytest.raises(UsageError):
        command.parse_time(text, "--x")


def test_command_refuses(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """One line each that says what to do."""
    run = tmp_path / "run"
    run.mkdir()
    (run / "run.json").write_text('{"schema": 1, "program": ["x"]}')
    there = tmp_path / "there"
    there.write_text("")
    for words, told in (
        ((tmp_path / "no",), "does not exist"),
        ((run, "-o", there), "--force"),
        ((run, "-o", tmp_path), "is a folder"),
        ((run, "-o", tmp_path / "no" / "x"), "does not exist"),
        ((run, "--apis", "fortran"), "unknown; there are"),
        ((run, "--filter-name", "("), "not a regular expression"),
        ((run, "--filter-time", "1"), "BEGIN:END"),
        ((run,), "neither tables nor a trace"),
    ):
        assert main(["timeline", *map(str, words)]) == 2
        error = capsys.readouterr().err
        assert told in error and error.count("\n") == 1, error
