"""What a timeline makes of single tables: ranges, allocations, counters, device work; ranks, hosts and files of parts."""

from __future__ import annotations

import random
import re
from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("perfetto")
pytest.importorskip("wasmtime")

from occatrace.cli import timeline as command
from occatrace.cli.dispatch import main
from occatrace.cli.messages import UsageError
from occatrace.core.units import Range, UnitError
from occatrace.store.tables import open_store
from occatrace.views import timeline
from occatrace.views.timeline import moments
from occatrace.views.timeline.counters import MOST, SHORTEST, window_width
from occatrace.views.timeline.selection import Selection, Sites
from tests.support.fake import MODEL, FakeTrace, demo_trace, fake_rank, mpi, run_folder
from tests.support.perfetto_check import check
from tests.support.timelines import FLOWS, REALTIME, SLICES, VALUES, perfetto, slices, span, write
from tests.support.trace_processor import load


def fill(table: str, *rows: dict[str, Any]) -> Callable[[Any], None]:
    """Puts rows into a table; columns that are not given are null."""

    def do(con: Any) -> None:
        for row in rows:
            names = ", ".join(row)
            con.execute(f"INSERT INTO {table} BY NAME SELECT {', '.join(f'? AS {n}' for n in row)}", list(row.values()))
            assert names

    return do


def two_calls() -> FakeTrace:
    """A thread with two calls, 1000 to 1100 and 2000 to 2050, on the first of two devices' hosts."""
    trace = FakeTrace()
    main_thread = trace.process(100)
    for number in (1, 2):
        main_thread.event(
            "occatrace_device:device",
            6,
            id=number,
            api=main_thread.name("opencl"),
            name=main_thread.name(f"gpu{number}"),
            handle=number,
        )
    main_thread.event("occatrace_device:queue", 7, id=1, device=1, handle=1, flags=0)
    main_thread.event("occatrace_device:queue", 7, id=2, device=2, handle=2, flags=0)
    main_thread.call("opencl:clFinish", 1000, 1100, ret=0)
    main_thread.call("opencl:clFinish", 2000, 2050, ret=0)
    main_thread.record("exit", 9000)
    return trace


def test_ranges(tmp_path: Path) -> None:
    """Pushed ones enclose the calls of their thread, started ones overlap in lanes, marks are moments."""
    common = {"process": 1, "thread": 1, "api": "nvtx", "domain": "", "depth": 0}
    path = write(
        tmp_path,
        two_calls(),
        prepare=fill(
            "ranges",
            {**common, "kind": "push", "name": "time step", "seq": 90, "start_ns": 900, "end_ns": 2500, "color": 0xFF00AA11},
            {**common, "kind": "push", "name": "solve", "seq": 0, "start_ns": 1000, "end_ns": 1100, "domain": "solver"},
            {**common, "kind": "mark", "name": "converged", "seq": 92, "start_ns": 1050, "end_ns": 1050, "payload": "7"},
            {**common, "kind": "start", "name": "io", "seq": 93, "start_ns": 950, "end_ns": 1500, "category": "disk"},
            {**common, "kind": "start", "name": "io", "seq": 94, "start_ns": 1400, "end_ns": 2600, "api": "roctx"},
            {**common, "kind": "push", "name": "last", "seq": 95, "start_ns": 3000, "end_ns": None},
        ),
    )  # fmt: skip
    content = check(path)
    assert content.problems == []
    assert slices(path) == Counter(
        [
            (900, 1600, "time step", "main"), (1000, 100, "solve", "main"), (1050, 0, "converged", "main"),
            (950, 550, "io", "Annotations"), (1400, 1200, "io", "Annotations"), (3000, 6000, "last", "main"),
            (1000, 100, "clFinish", "main"), (2000, 50, "clFinish", "main"),
        ]
    )  # fmt: skip
    parents = perfetto(path, "SELECT s.name, s.ts, p.name AS parent FROM slice s JOIN slice p ON p.id = s.parent_id")
    assert {(r.name, r.ts - REALTIME, r.parent) for r in parents} == {
        ("solve", 1000, "time step"), ("clFinish", 1000, "solve"), ("converged", 1050, "clFinish"),
        ("clFinish", 2000, "time step"),
    }  # fmt: skip
    found = {(s.name, s.start - REALTIME): (dict(s.arguments), s.category, s.instant) for s in content.slices}
    assert found["time step", 900] == ({"colour": "#00aa11"}, "nvtx", False)
    assert found["solve", 1000] == ({"domain": "solver"}, "nvtx", False)
    assert found["converged", 1050] == ({"payload": "7"}, "nvtx", True)
    assert found["io", 950] == ({"range category": "disk"}, "nvtx", False)
    assert found["last", 3000] == ({"note": "never ended"}, "nvtx", False)


def test_ranges_are_chosen_as_apis(tmp_path: Path) -> None:
    common = {"process": 1, "thread": 1, "domain": "", "depth": 0, "start_ns": 900, "end_ns": 950}
    prepare = fill(
        "ranges",
        {**common, "kind": "push", "api": "nvtx", "name": "a", "seq": 90},
        {**common, "kind": "start", "api": "nvtx", "name": "b", "seq": 91},
        {**common, "kind": "start", "api": "roctx", "name": "c", "seq": 92},
    )
    path = write(tmp_path, two_calls(), timeline.Options(apis=("nvtx",)), prepare=prepare)
    assert {name for _, _, name, _ in slices(path)} == {"a", "b"}


def memory(start: int, end: int | None, size: int, **more: Any) -> dict[str, Any]:
    """A row of the table allocations."""
    return {
        "process": 1,
        "api": "opencl",
        "kind": "device",
        "handle": 1,
        "start_ns": start,
        "end_ns": end,
        "bytes": size,
        **more,
    }


def test_memory_in_use(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Per device and kind the sum of what is alive at each moment; parts of others count nothing."""
    monkeypatch.setattr("occatrace.views.timeline.counters.WINDOW_ROWS", 7)
    source = random.Random(5)
    rows = []
    for _ in range(200):
        start = source.randrange(1000, 2000)
        end = source.choice((None, start + source.randrange(0, 500)))
        kind, device = source.choice(("device", "svm")), source.choice((1, 2))
        rows.append(memory(start, end, source.randrange(1, 1 << 40), kind=kind, device=device))
    parts = [memory(1500, 1600, 77, kind="slice", parent=1, device=1)]
    host = [memory(1200, 1300, 640, api="occa", kind="host", mode="Serial")]
    path = write(tmp_path, two_calls(), prepare=fill("allocations", *rows, *parts, *host))
    assert check(path).problems == []
    found = perfetto(
        path,
        "SELECT c.ts, c.value, t.name, t.unit, g.name AS device FROM counter c JOIN counter_track t ON t.id = c.track_id"
        " JOIN track k ON k.id = t.id LEFT JOIN track g ON g.id = k.parent_id WHERE t.name GLOB 'memory in use*' ORDER BY c.ts",
    )
    assert {r.unit for r in found} == {"bytes"}
    tracks = {(r.name, r.device) for r in found}
    assert {name for name, _ in tracks} == {
        "memory in use (OpenCL)", "memory in use (OpenCL, svm)", "memory in use (OCCA, Serial, host)",
    }  # fmt: skip
    assert len(tracks) == 5
    checked = 0
    for name, shown in (("memory in use (OpenCL)", "device"), ("memory in use (OpenCL, svm)", "svm")):
        for device in (1, 2):
            mine = [r for r in rows if (r["kind"], r["device"]) == (shown, device)]
            begins = np.array([r["start_ns"] for r in mine])
            ends = np.array([r["end_ns"] or 1 << 60 for r in mine])
            sizes = np.array([r["bytes"] for r in mine])
            for value in (r for r in found if r.name == name and f"gpu{device}" in r.device):
                at = value.ts - REALTIME
                assert value.value == sizes[(begins <= at) & (at < ends)].sum()
                checked += 1
    assert checked > 200
    assert [(r.ts - REALTIME, r.value) for r in found if "Serial" in r.name] == [(1200, 640), (1300, 0)]


def work(con: Any, rows: Sequence[dict[str, Any]]) -> None:
    """Puts device work into the table."""
    fill("activities", *({"process": 1, "name": r["kind"], "queue": r["device"], "status": 0, **r} for r in rows))(con)


@pytest.mark.parametrize("window", [Range(), span(700_000, 1_900_000)])
def test_busy_share_and_traffic(tmp_path: Path, window: Range, monkeypatch: pytest.MonkeyPatch) -> None:
    """Against numpy, nanosecond by nanosecond."""
    monkeypatch.setattr("occatrace.views.timeline.counters.WINDOW_ROWS", 7)
    source = random.Random(7)
    span = 3_000_000
    rows: list[dict[str, Any]] = []
    for _ in range(120):
        start, kind = source.randrange(1000, span - 300_000), source.choice(("kernel", "HtoD", "DtoH", "marker"))
        end = start + source.choice((0, 10, 50_000, 250_000))
        size = source.randrange(1, 1 << 20) if kind in ("HtoD", "DtoH") else 0
        rows.append({"kind": kind, "device": source.choice((1, 2)), "start_ns": start, "end_ns": end, "bytes": size})
    path = write(tmp_path, two_calls(), timeline.Options(window), prepare=lambda con: work(con, rows))
    assert check(path).problems == []
    values = perfetto(
        path,
        "SELECT c.ts, c.value, t.name, t.unit, g.name AS device FROM counter c JOIN counter_track t ON t.id = c.track_id"
        " JOIN track k ON k.id = t.id JOIN track g ON g.id = k.parent_id ORDER BY c.ts",
    )
    assert {(r.name, r.unit) for r in values} >= {("busy", "%"), ("traffic HtoD", "GB/s"), ("traffic DtoH", "GB/s")}
    low = 1000 + round(window.begin.value) if window.begin else 0
    high = 1000 + round(window.end.value) if window.end else 1 << 40
    rows = [r for r in rows if r["kind"] != "marker" and r["end_ns"] > low and r["start_ns"] < high]
    first = max(low, min(r["start_ns"] for r in rows))
    for device in (1, 2):
        mine = [r for r in rows if r["device"] == device]
        busy = np.zeros(span + 400_000)
        traffic = {"HtoD": np.zeros(span + 400_000), "DtoH": np.zeros(span + 400_000)}
        for r in mine:
            s, e = r["start_ns"], r["end_ns"]
            busy[s:e] = 1
            if r["bytes"]:
                traffic[r["kind"]][s : max(e, s + 1)] += r["bytes"] / max(e - s, 1)
        for track in (busy, *traffic.values()):
            track[: max(low, 0)] = 0
            track[min(high, len(track)) :] = 0
        for name, truth, scale in (("busy", busy, 100), *((f"traffic {k}", v, 1) for k, v in traffic.items())):
            given = {r.ts - REALTIME: r.value for r in values if r.name == name and f"gpu{device}" in r.device}
            assert given and all((t - first) % SHORTEST == 0 for t in given)
            now = 0.0
            for begin in range(first, min(span, high - SHORTEST), SHORTEST):
                now = given.get(begin, now)
                assert now == pytest.approx(scale * truth[begin : begin + SHORTEST].mean(), rel=1e-9, abs=1e-9)


@pytest.mark.parametrize("span", [0, 1, SHORTEST * MOST, SHORTEST * MOST + 1, 10**9, 3600 * 10**9, 10**15])
def test_windows_are_bounded(span: int) -> None:
    width = window_width(span)
    assert width >= SHORTEST and span <= width * MOST
    assert width == SHORTEST or span > width * MOST / 2.5
    assert str(width).rstrip("0") in ("1", "2", "5")


def test_counters_of_the_program(tmp_path: Path) -> None:
    rows = [
        {"process": 1, "device": 1, "name": "power", "unit": "W", "time_ns": 1000 + i, "value": 100 + i / 4}
        for i in range(9)
    ] + [
        {"process": 1, "device": None, "name": "residual", "unit": None, "time_ns": 1000 + i, "value": -i}
        for i in range(9)
    ]
    path = write(tmp_path, two_calls(), prepare=fill("counters", *rows))
    assert check(path).problems == []
    found = perfetto(path, VALUES)
    for name, unit in (("power", "W"), ("residual", "")):
        expected = [(r["time_ns"], r["value"]) for r in rows if r["name"] == name]
        assert [(r.ts - REALTIME, r.value) for r in found if r.name == name] == expected
        assert {r.unit or "" for r in found if r.name == name} == {unit}


def test_names(tmp_path: Path) -> None:
    """Kernels are called as --names says; nothing else is."""
    mangled = "_Z3addIfEvPT_i"
    shown = {"demangled": "void add<float>(float*, int)", "short": "add", "raw": mangled, "okl": "add"}
    for style, name in shown.items():
        trace = demo_trace()
        kernel = {"kind": "kernel", "device": 1, "start_ns": 50, "end_ns": 60, "bytes": 0, "name": mangled}
        path = write(tmp_path / style, trace, timeline.Options(names=style), prepare=partial(work, rows=[kernel]))
        names = {s[2] for s in slices(path)}
        assert name in names and "occa::memory::copyFrom" in names
        placed = {"addVectors (addVectors.okl:3)", "scale (addVectors.okl:20)"}
        expected = {"okl": placed, "raw": {"_occa_addVectors_0", "addVectors"}}.get(style, {"addVectors"})
        assert names & {"_occa_addVectors_0", "addVectors", *placed} == expected


def test_return_values_of_failed_calls(tmp_path: Path) -> None:
    trace = demo_trace()
    rows = [
        {"process": 1, "thread": 1, "seq": int(row["seq"]), "api": event[10:].partition(":")[0], "code": code}
        for event, row in trace.rows
        if (code := row.get("ret", 0)) < 0 or (code := row.get("error", 0)) > 0
    ]
    assert {row["api"] for row in rows} == {"opencl", "occa"}
    content = check(write(tmp_path, trace, prepare=fill("failures", *rows)))
    failed = [dict(s.arguments) for s in content.slices if s.name == "✗ clFinish" and s.category == "opencl"]
    assert failed[0] == {"error": "CL_INVALID_COMMAND_QUEUE", "return value": -36}
    # An exception has no number that means anything.
    assert not any("return value" in dict(s.arguments) for s in content.slices if s.category == "occa")


PROCESSES = """
SELECT s.name, p.upid, p.pid, p.name AS process, t.name AS thread FROM slice s JOIN thread_track k ON k.id = s.track_id
JOIN thread t USING (utid) JOIN process p USING (upid)
"""


def test_exec(tmp_path: Path) -> None:
    """The program that another one became keeps its id, and is not taken for it."""
    trace = FakeTrace()
    first = trace.process(100, exe="/bin/first")
    first.call("opencl:clFinish", 10, 20, ret=0)
    first.record("exit", 50, reason=2)
    second = trace.process(100, start=60, exe="/bin/second")
    second.call("opencl:clCreateBuffer", 70, 80, ret=0, flags=0, size=8)
    path = write(tmp_path, trace)
    assert check(path).problems == []
    rows = {r.name: (r.process, r.pid) for r in perfetto(path, PROCESSES)}
    assert rows == {"clFinish": ("first", 100), "clCreateBuffer": ("second", 100)}


def test_fork(tmp_path: Path) -> None:
    trace = FakeTrace()
    parent = trace.process(100)
    parent.call("opencl:clFinish", 10, 20, ret=0)
    child = trace.process(101, start=15, exe="/bin/app", ppid=100)
    child.call("opencl:clCreateBuffer", 17, 19, ret=0, flags=0, size=8)
    rows = {r.name: r.pid for r in perfetto(write(tmp_path, trace), PROCESSES)}
    assert rows == {"clFinish": 100, "clCreateBuffer": 101}


def test_thread_id_used_again(tmp_path: Path) -> None:
    """Two threads of one process that had the same id, one after the other: two rows."""
    trace = FakeTrace()
    trace.process(100)
    for begin, name in ((10, "early"), (1000, "late")):
        thread = trace.thread(100, 101, begin, name)
        thread.call("opencl:clFinish", begin + 5, begin + 9, ret=0)
    path = write(tmp_path, trace)
    assert check(path).problems == []
    assert {(s[0], s[3]) for s in slices(path)} == {(15, "early"), (1005, "late 101")}


def hosts(folder: Path, numbers: Sequence[int | None] = (0, 1), split: Any = None, **options: Any) -> Path:
    """Processes of one id on hosts of which each booted at another time; rank i is on node i, with calls and work."""
    names = [f"node{i}" for i in range(len(numbers))]
    run = run_folder(folder, names)
    (run / "run.json").write_text('{"schema": 1, "program": ["app"]}')
    traces = {}
    for number, name in enumerate(names):
        trace = traces[name] = FakeTrace()
        boot = 1_000_000 * number
        thread = trace.process(100, start=boot + 1)
        row: dict[str, Any] = dict(trace.rows)["occatrace_process:process"]  # type: ignore[assignment]
        row["host"], row["realtime"] = trace.string(name), REALTIME + 1
        row["rank"], row["size"] = -1 if numbers[number] is None else numbers[number], 2
        thread.event(
            "occatrace_device:device",
            boot + 6,
            id=1,
            api=thread.name("opencl", boot + 2),
            name=thread.name("gpu", boot + 2),
            handle=1,
        )
        thread.event("occatrace_device:queue", boot + 7, id=1, device=1, handle=1, flags=0)
        kernel = thread.name(f"kernel{number}", boot + 2)
        for i in range(20):
            at = boot + 1000 + 100 * i + number
            seq = thread.call("opencl:clEnqueueNDRangeKernel", at, at + 50, ret=0, **{"global": [8]})
            thread.event(
                "occatrace_device:activity", at + 900, kind=1, corr_tid=100, corr_seq=seq, run_seq=0xFFFFFFFF, queue=1, queued=at + 5,
                submitted=at + 6, start=at + 10, end=at + 130, name=kernel,
            )  # fmt: skip
    path = folder / "x.pftrace"
    with open_store(run, model=MODEL, open_trace=lambda p, events: traces[p.name].open(p, events)) as store:
        timeline.write(store, path, timeline.Options(split=split, **options))
    return path


def everything(path: Path) -> tuple[Counter[Any], ...]:
    """Slices with their process, arrows, values."""
    with load(path) as tp:
        errors = list(tp.query("SELECT name, value FROM stats WHERE severity <> 'info' AND value > 0"))
        assert [(e.name, e.value) for e in errors] == []
        found = tp.query(
            "SELECT s.ts, s.dur, s.name, t.name AS track, p.name AS process FROM slice s JOIN track t ON t.id = s.track_id"
            " LEFT JOIN thread_track k ON k.id = t.id LEFT JOIN thread USING (utid)"
            " LEFT JOIN process p ON p.upid = coalesce(thread.upid, extract_arg(t.dimension_arg_set_id, 'upid'))"
        )
        rows = Counter((r.ts, r.dur, r.name, r.track, r.process) for r in found)
        flows = Counter((r.source, r.start, r.target, r.begin) for r in tp.query(FLOWS))
        return rows, flows, Counter((r.ts, r.value, r.name) for r in tp.query(VALUES))


def test_hosts_are_on_one_clock(tmp_path: Path) -> None:
    """Each host counts from its own boot; what happened together stands together."""
    path = hosts(tmp_path)
    assert check(path).problems == []
    rows = perfetto(path, SLICES)
    starts = {name: sorted(r.ts - REALTIME for r in rows if r.name == name) for name in ("kernel0", "kernel1")}
    for number in (0, 1):
        # Wall clocks are all that is known here: what they say in doubles is good to 128 ns.
        expected = [1010 + 100 * i + number for i in range(20)]
        assert starts[f"kernel{number}"] == pytest.approx(expected, rel=0, abs=0 if number == 0 else 128)
    names = {r.name for r in perfetto(path, "SELECT name FROM process WHERE name IS NOT NULL")}
    assert names == {"rank 0 app", "rank 1 app"}


def test_ranks(tmp_path: Path) -> None:
    path = hosts(tmp_path, (0, 3), ranks=(3,))
    assert {r.name for r in perfetto(path, SLICES)} == {"clEnqueueNDRangeKernel", "kernel1", *ENDED}
    assert len(perfetto(path, FLOWS)) == 20


ENDED = ["ended without notice (killed, crashed, or a program in Go)"]


@pytest.mark.parametrize("order", [1, -1])
def test_files_per_rank_are_the_whole(tmp_path: Path, order: int) -> None:
    """Put together by cat, in any order."""
    (tmp_path / "whole").mkdir()
    whole = hosts(tmp_path / "whole")
    parts = tmp_path / "parts"
    parts.mkdir()
    hosts(parts, split="rank")
    files = sorted(parts.glob("*.pftrace"))
    assert [f.name for f in files] == ["x.rank0.pftrace", "x.rank1.pftrace"]
    for number, file in enumerate(files):
        content = check(file)
        assert content.problems == []
        assert {s.name for s in content.slices} == {"clEnqueueNDRangeKernel", f"kernel{number}", *ENDED}
    both = tmp_path / "both.pftrace"
    both.write_bytes(b"".join(f.read_bytes() for f in files[::order]))
    assert check(both).problems == []
    assert everything(both) == everything(whole)


def test_files_per_time_are_the_whole(tmp_path: Path) -> None:
    """Of what runs over the end of a piece, and of overlapping work, too. Arrows over an end are left out."""
    (tmp_path / "whole").mkdir()
    whole = hosts(tmp_path / "whole")
    parts = tmp_path / "parts"
    parts.mkdir()
    hosts(parts, split=106)
    files = sorted(parts.glob("*.pftrace"))
    assert all(re.fullmatch(r"x\.\d{3}\.pftrace", f.name) for f in files)
    assert len(files) > 5
    assert [check(f).problems for f in files] == [[]] * len(files)
    both = tmp_path / "both.pftrace"
    both.write_bytes(b"".join(f.read_bytes() for f in files))
    rows, flows, values = everything(both)
    all_rows, all_flows, all_values = everything(whole)
    assert rows == all_rows
    assert values == all_values
    assert flows <= all_flows
    cut = Counter(
        {f: n for f, n in all_flows.items() if (f[1] - REALTIME - 1000) // 106 != (f[3] - REALTIME - 1000) // 106}
    )
    assert flows == all_flows - cut and cut


def test_no_files_of_what_was_before(tmp_path: Path) -> None:
    """What is in flight, and allocated, when the time that was asked for begins has its value there: in the file of that time, and
    in none of the time before, from which nothing else is written."""
    work = {"process": 1, "kind": "kernel", "name": "k", "device": 1, "queue": 1}
    write(
        tmp_path,
        two_calls(),
        timeline.Options(span(700, None), split=100),
        prepare=lambda con: (
            fill(
                "activities",
                {**work, "queued_ns": 1010, "start_ns": 1800, "end_ns": 1820},
                {**work, "queued_ns": 1120, "start_ns": 1820, "end_ns": 1830},
            )(con),
            fill(
                "allocations",
                {"process": 1, "api": "opencl", "device": 1, "bytes": 64, "start_ns": 1020, "end_ns": 1900},
            )(con),
        ),
    )
    files = sorted(tmp_path.glob("*.pftrace"))
    assert [file.name for file in files][:2] == ["x.007.pftrace", "x.008.pftrace"]
    values = [(r.ts - REALTIME, r.name, r.value) for r in perfetto(files[0], VALUES)]
    assert values == [(1700, "enqueued, not finished", 2), (1700, "memory in use (OpenCL)", 64)]


def test_too_many_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("occatrace.views.timeline.writer.MOST_PARTS", 10)
    with pytest.raises(timeline.TooManyParts, match="files"):
        hosts(tmp_path, split=1)
    assert not list(tmp_path.glob("*.pftrace*"))


def test_the_expected_size_is_near(tmp_path: Path) -> None:
    expected: list[int] = []
    with open_store(run_folder(tmp_path), model=MODEL, open_trace=demo_trace().open) as store:
        written = timeline.write(store, tmp_path / "x.pftrace", announce=expected.append)
    # Of so small a file, the names are a good part.
    assert 0.4 < expected[0] / written.bytes < 1.2


@pytest.mark.parametrize(
    ("text", "ranks"), [("3", (3,)), ("0-3,8", (0, 1, 2, 3, 8)), (" 4 , 2-2 ", (2, 4)), (None, ()), ("1-1,1", (1,))]
)
def test_lists_of_ranks(text: str | None, ranks: tuple[int, ...]) -> None:
    assert command.parse_ranks(text) == ranks


@pytest.mark.parametrize("text", ["", "x", "3-1", "-2", "1-", "1,,a", "1-99999999999"])
def test_bad_lists_of_ranks(text: str) -> None:
    with pytest.raises(UsageError):
        command.parse_ranks(text)


@pytest.mark.parametrize(("text", "split"), [("rank", "rank"), ("10s", 10**10), ("5us", 5000), (None, None)])
def test_splits(text: str | None, split: Any) -> None:
    assert command.parse_split(text) == split


@pytest.mark.parametrize("text", ["", "ranks", "0", "0ns", "-1s"])
def test_bad_splits(text: str) -> None:
    with pytest.raises(UsageError):
        command.parse_split(text)


def test_command_of_parts(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Files of an earlier, finer split do not stay among the new ones; without --force nothing is touched."""
    hosts(tmp_path)
    run, out = tmp_path / "run", tmp_path / "y.pftrace"
    for path in tmp_path.glob("x*"):
        path.unlink()
    assert main(["timeline", str(run), "-o", str(out), "--split", "200ns"]) == 0, capsys.readouterr().err
    many = sorted(tmp_path.glob("y.*"))
    assert "files" in capsys.readouterr().out
    assert main(["timeline", str(run), "-o", str(out), "--split", "1us"]) == 2
    error = capsys.readouterr().err
    assert "--force" in error and error.count("\n") == 1
    assert sorted(tmp_path.glob("y.*")) == many
    assert main(["timeline", str(run), "-o", str(out), "--split", "1us", "--force"]) == 0
    few = sorted(tmp_path.glob("y.*"))
    assert 0 < len(few) < len(many)
    assert all(check(path).problems == [] for path in few)
    assert main(["timeline", str(run), "-o", str(out), "--ranks", "7"]) == 0
    assert "rank 7 is not in this run" in capsys.readouterr().err


def test_part_of_a_run_is_not_taken_for_the_whole(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """`view` shows RUN/timeline.pftrace."""
    hosts(tmp_path)
    assert main(["timeline", str(tmp_path / "run"), "--min-duration", "60ns"]) == 0
    assert "timeline-part.pftrace" in capsys.readouterr().out
    assert not (tmp_path / "run" / "timeline.pftrace").exists()


def test_warns_of_large_files(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    hosts(tmp_path)
    monkeypatch.setattr(command, "LARGE", 100)
    assert main(["timeline", str(tmp_path / "run"), "-o", str(tmp_path / "large.pftrace")]) == 0
    assert "will be written" in (told := capsys.readouterr().err) and "--filter-time" in told and "--split" in told


def test_ranges_on_devices(tmp_path: Path) -> None:
    """From the start of the first work that was launched inside a range to the end of the last, on each device."""
    common = {"process": 1, "api": "nvtx", "domain": "", "depth": 0, "thread": 1}
    ranges = fill(
        "ranges",
        {**common, "kind": "push", "name": "step", "seq": 10, "end_thread": 1, "end_seq": 20, "start_ns": 900, "end_ns": 1500},
        {**common, "kind": "push", "name": "idle", "seq": 21, "end_thread": 1, "end_seq": 22, "start_ns": 1500, "end_ns": 1600},
        {**common, "kind": "start", "name": "all", "seq": 9, "start_ns": 800, "end_ns": 2600},
    )  # fmt: skip
    kernel = {"kind": "kernel", "thread": 1, "bytes": 0}
    rows = [
        {**kernel, "device": 1, "seq": 11, "queued_ns": 1000, "start_ns": 1100, "end_ns": 1200},
        {**kernel, "device": 1, "seq": 12, "queued_ns": 1010, "start_ns": 2000, "end_ns": 2100},
        {**kernel, "device": 2, "seq": 13, "queued_ns": 1020, "start_ns": 1300, "end_ns": 1400},
        {**kernel, "device": 2, "seq": 23, "queued_ns": 2500, "start_ns": 2550, "end_ns": 2700},
    ]

    def prepare(con: Any) -> None:
        ranges(con)
        work(con, rows)

    path = write(tmp_path, two_calls(), prepare=prepare)
    found = perfetto(
        path,
        "SELECT s.ts, s.dur, s.name, g.name AS device FROM slice s JOIN track t ON t.id = s.track_id"
        " JOIN track g ON g.id = t.parent_id WHERE t.name = 'ranges'",
    )
    assert {(r.ts - REALTIME, r.dur, r.name, r.device) for r in found} == {
        (1100, 1000, "step", "Device 0: gpu1"), (1300, 100, "step", "Device 1: gpu2"),
        (1100, 1000, "all", "Device 0: gpu1"), (1300, 1400, "all", "Device 1: gpu2"),
    }  # fmt: skip


def test_waiting_for_a_team(tmp_path: Path) -> None:
    region = {
        "process": 1,
        "thread": 1,
        "seq": 5,
        "function": "main",
        "source": "a.c:3",
        "start_ns": 1200,
        "end_ns": 1900,
    }
    part = {"process": 1, "region_thread": 1, "region_seq": 5, "thread": 1, "start_ns": 1210, "barrier_ns": 0}
    tables = (
        ("omp_regions", [region]),
        (
            "omp_threads",
            [
                {**part, "seq": 6, "end_ns": 1300, "join_ns": 500, "late_ns": 100},
                {**part, "seq": 7, "end_ns": 1900, "join_ns": 0, "late_ns": 0},
            ],
        ),
    )
    path = write(tmp_path, two_calls(), prepare=lambda con: [fill(table, *rows)(con) for table, rows in tables])
    waits = [(s.start - REALTIME, s.duration, s.category) for s in check(path).slices if s.name == "barrier wait"]
    assert waits == [(1300, 600, "openmp")]


def test_builds(tmp_path: Path) -> None:
    """Which kernel, and whether its binary was in the cache."""
    trace = FakeTrace()
    main_thread = trace.process(100)
    first, second = (
        main_thread.call("occa:device_buildKernel", 3000 + at, 3050 + at, source=main_thread.name("a.okl"), error=0)
        for at in (0, 100)
    )
    main_thread.record("exit", 9000)
    build = {"process": 1, "api": "occa", "thread": 1, "mode": "OpenCL", "function": "occa::device::buildKernel"}
    with_kernels = fill(
        "builds",
        {**build, "seq": first, "name": "slow", "cached": False, "compiler_ns": 40, "start_ns": 3000, "end_ns": 3050},
        {**build, "seq": second, "name": "quick", "cached": True, "compiler_ns": 0, "start_ns": 3100, "end_ns": 3150},
    )

    def prepare(con: Any) -> None:
        con.execute("DELETE FROM builds")
        with_kernels(con)

    content = check(write(tmp_path, trace, prepare=prepare))
    found = [dict(s.arguments) for s in content.slices if s.name == "occa::device::buildKernel"]
    assert [(each["kernel"], each["cache"], each.get("compiler CPU ns")) for each in found] == [
        ("slow", "miss", 40),
        ("quick", "hit", None),
    ]


def test_where_calls_were_made(tmp_path: Path) -> None:
    """By process and address; masked where an address is not known, or there is none."""
    trace = FakeTrace()
    for pid in (100, 200):
        trace.process(pid).call("opencl:clFinish", 1000, 1010, ret=0)
    site = {"module": "/bin/a", "build_id": "", "why": "", "offset": 0}
    rows = [(1, 5, "f", "a.c"), (1, 6, "f", "a.c"), (2, 5, "f", "b.c"), (2, 7, "g", "")]
    with open_store(run_folder(tmp_path), model=MODEL, open_trace=trace.open) as store:
        sites = [
            {**site, "process": p, "site": a, "address": a, "function": f, "file": file, "line": a if file else 0}
            for p, a, f, file in rows
        ]
        fill("call_sites", *sites)(store.con)
        selection = Selection(store, timeline.Options())
        known = Sites(store.con)
        thread, caller = np.array([1, 1, 2, 2, 1], np.uint32), np.array([5, 6, 5, 7, 5], np.uint64)
        found = known.of(thread, caller)
        assert not isinstance(found, np.ma.MaskedArray)
        texts = [selection.texts[number] for number in found]
        assert [re.split(r"[ (]", text)[0] for text in texts[:3]] == ["a.c:5", "a.c:6", "b.c:5"], texts
        assert texts[3] == "a+0x0" and texts[4] == texts[0]
        partly = known.of(np.array([1, 1, 2], np.uint32), np.array([7, 0, 5], np.uint64))
        assert np.ma.getmaskarray(partly).tolist() == [True, True, False]
        assert selection.texts[partly[2]] == texts[2]
        selection.close()


ARROWS = """
SELECT a.name AS source, a.ts AS start, p.pid AS pid, b.name AS target, b.ts AS end, q.pid AS to_pid FROM flow
JOIN slice a ON a.id = slice_out JOIN thread_track t ON t.id = a.track_id JOIN thread USING (utid) JOIN process p USING (upid)
JOIN slice b ON b.id = slice_in JOIN thread_track u ON u.id = b.track_id JOIN thread v ON v.utid = u.utid
JOIN process q ON q.upid = v.upid
"""


def ranks() -> FakeTrace:
    """Rank 0 receives what rank 1 sends later, and both meet: rank 1 is the last."""
    trace = FakeTrace()
    zero, one = (fake_rank(trace, rank, 2, 1000) for rank in (0, 1))
    mpi(one, "MPI_Send", 1400, 1420, partner=0, tag=5, bytes=8, count=1)
    mpi(zero, "MPI_Recv", 1100, 1450, partner=1, tag=5, bytes=8, count=1)
    mpi(zero, "MPI_Barrier", 1500, 1710)
    mpi(one, "MPI_Barrier", 1700, 1705)
    for t in (zero, one):
        t.record("exit", 2000, reason=0)
    return trace


@pytest.mark.parametrize("form", ["perfetto", "json"])
def test_arrows_between_ranks(tmp_path: Path, form: timeline.Format) -> None:
    """From the send to the moment of receipt, though the receiving call began first; from the last at a collective."""
    path = write(tmp_path, ranks(), form=form, name={"perfetto": "x.pftrace", "json": "x.json"}[form])
    zero = 1100 if form == "json" else -REALTIME
    found = {(r.source, r.start + zero, r.pid, r.target, r.end + zero, r.to_pid) for r in perfetto(path, ARROWS)}
    assert found == {
        ("MPI_Send", 1400, 101, "message from rank 1", 1449, 100),
        ("MPI_Barrier", 1700, 101, "rank 1 arrived", 1701, 100),
    }
    if form == "perfetto":
        content = check(path)
        assert content.problems == []
        barriers = {s.start - REALTIME: dict(s.arguments) for s in content.slices if s.name == "MPI_Barrier"}
        assert {at: (a["last rank to arrive"], a["waited for it ns"]) for at, a in barriers.items()} == {
            1500: (1, 200),
            1700: (1, 0),
        }


@pytest.mark.parametrize(
    ("options", "arrows"),
    [
        (timeline.Options(ranks=(0,)), 0),
        (timeline.Options(filter_name="Barrier"), 1),
        (timeline.Options(filter_name="Recv|rank"), 0),
        (timeline.Options(span(300, 500)), 1),
    ],
)
def test_no_arrow_has_one_end(tmp_path: Path, options: timeline.Options, arrows: int) -> None:
    path = write(tmp_path, ranks(), options)
    assert check(path).problems == []
    assert len(perfetto(path, ARROWS)) == arrows


def test_files_of_ranks_have_no_arrows_between_them(tmp_path: Path) -> None:
    write(tmp_path, ranks(), timeline.Options(split="rank"))
    files = sorted(tmp_path.glob("x.rank*.pftrace"))
    assert [file.name for file in files] == ["x.rank0.pftrace", "x.rank1.pftrace"]
    assert all(check(file).problems == [] and not perfetto(file, FLOWS) for file in files)


def test_order_of_rows(tmp_path: Path) -> None:
    """As the interface orders them: problems, annotations, devices, counters."""
    common = {"process": 1, "thread": 1, "api": "nvtx", "domain": "", "depth": 0}
    prepare = (
        fill("ranges", {**common, "kind": "start", "name": "io", "seq": 90, "start_ns": 1100, "end_ns": 1200}),
        fill("counters", {"process": 1, "name": "CPU", "unit": "%", "time_ns": 1500, "value": 1.0}),
        fill("losses", {"process": 1, "thread": 1, "expected": 9, "seen": 8, "lost": 1, "unfinished": 0}),
        lambda con: work(con, [{"kind": "kernel", "device": 1, "start_ns": 1100, "end_ns": 1200, "bytes": 0}]),
    )
    path = write(tmp_path, two_calls(), prepare=lambda con: [each(con) for each in prepare])
    rows = perfetto(
        path,
        "INCLUDE PERFETTO MODULE viz.summary.track_event; SELECT name, parent_id FROM _track_event_tracks_ordered_groups"
        " WHERE name IS NOT NULL AND parent_id IS NULL ORDER BY order_id",
    )
    assert [r.name for r in rows] == ["! problems", "Annotations", "Device 0: gpu1", "counters"]


@pytest.mark.parametrize(
    ("where", "begin", "end"),
    [
        ("gap:1", 22_500, 27_500), ("gap:2", 12_500, 17_500), ("kernel:scale", 20_000, 22_000), ("kernel:_occa_add_0", 10_000, 12_000),
        ("kernel:add", 10_000, 12_000), ("5us:7us", 6000, 8000), ("20%:40%", 21_000, 41_000),
    ],
)  # fmt: skip
def test_where_to_look(tmp_path: Path, where: str, begin: int, end: int) -> None:
    """Parts that `view --at` shows: what is looked for is inside and in the middle, the zero is that of the run."""
    trace = FakeTrace()
    thread = trace.process(100)
    thread.call("opencl:clFinish", 1000, 2000, ret=0)
    thread.record("exit", 101_000)
    kernel = {"kind": "kernel", "device": 1, "bytes": 0}
    rows = [
        {**kernel, "name": "_occa_add_0", "kernel": 7, "start_ns": 10_000, "end_ns": 12_000},
        {**kernel, "name": "scale", "start_ns": 20_000, "end_ns": 22_000},
        {**kernel, "name": "scale", "start_ns": 31_000, "end_ns": 32_000},
    ]
    with open_store(run_folder(tmp_path), model=MODEL, open_trace=trace.open) as store:
        work(store.con, rows)
        fill("kernels", {"process": 1, "kernel": 7, "id": 7, "name": "add", "mode": "OpenCL"})(store.con)
        first, last = moments.find(store, where)
        gap = where.startswith("gap")
        inside = {"gap:1": (22_000, 31_000), "gap:2": (12_000, 20_000)}.get(where, (begin, end))
        assert first - REALTIME <= inside[0] and last - REALTIME >= inside[1]
        assert last - first <= (1.6 if gap else 6.1) * (inside[1] - inside[0])
        for wrong in ("gap:3", "gap:0", "kernel:none", "99s", "soon"):
            with pytest.raises((moments.NotFound, UnitError)):
                moments.find(store, wrong)
