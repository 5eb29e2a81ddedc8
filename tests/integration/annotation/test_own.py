"""occatrace.h and occatrace.annotate against programs that know what they marked."""

from __future__ import annotations

import json
import math
import re
import signal
import statistics
import subprocess
import sys
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path

import pytest

from tests.support.suites.annotation import OCCA_PROF, PROGRAMS, Profile

Build = Callable[..., Path]


def test_ranges_marks_and_counters(build: Build, profile: Profile) -> None:
    run = profile(build("own.c"), "ranges")
    assert run.status == 0, run.stderr
    assert run.counts == {
        ("occatrace", "", "push", "outer"): 1,
        ("occatrace", "", "push", "inner"): 10,
        ("occatrace", "", "push", "in thread"): 5,
        ("occatrace", "", "start", "crossing"): 1,
        ("occatrace", "", "start", "a"): 1,
        ("occatrace", "", "start", "b"): 1,
        ("occatrace", "", "mark", "done"): 1,
        ("occatrace", "", "push", "end outside"): 1,
        ("occatrace", "", "push", "begin outside"): 2,
        ("occatrace", "", "push", "x" * 2999): 1,
        ("occatrace", "", "mark", ""): 1,
        ("occatrace", "", "mark", 'a "quoted", name\nof two lines ä'): 1,
    }
    outer = run.named("outer")[0]
    inner = run.named("inner")
    assert outer["depth"] == 0 and {r["depth"] for r in inner} == {1}
    assert all(r["ms"] >= 2 and r["color"] == 0xFF00FF00 and r["payload"] == "even=no" for r in inner)
    assert all(outer["start_ns"] < r["start_ns"] < r["end_ns"] < outer["end_ns"] for r in inner)
    assert all(a["end_ns"] <= b["start_ns"] for a, b in zip(inner, inner[1:], strict=False))
    a, b, crossing = (run.named(name)[0] for name in ("a", "b", "crossing"))
    assert a["ms"] >= 10 and b["ms"] >= 20 and a["start_ns"] < b["start_ns"] < a["end_ns"] < b["end_ns"]
    assert crossing["ms"] >= 20 and crossing["end_thread"] != crossing["thread"] == outer["thread"]
    assert {r["thread"] for r in run.named("in thread")} == {crossing["end_thread"]}
    done = run.named("done")[0]
    assert (done["start_ns"], done["payload"], done["color"]) == (done["end_ns"], "n=10", 0x102030)
    # A range that is in the trace has its end, also when recording had stopped; one begun before has its begin.
    assert run.named("end outside")[0]["end_ns"] is not None
    late = [r for r in run.named("begin outside") if r["seq"] is None]
    assert len(late) == 1 and late[0]["ms"] >= 5
    counters = run.rows("SELECT name, unit, value FROM counters ORDER BY time_ns")
    assert [(c["name"], c["unit"], c["value"]) for c in counters] == [("progress", "%", i / 2) for i in range(10)]
    assert run.rows("SELECT * FROM losses") == []

    summary = run.report("range_sum")
    assert summary["inner"]["calls"] == 10 and summary["inner"]["total_ns"] == sum(
        r["end_ns"] - r["start_ns"] for r in inner
    )
    assert summary["done"]["total_ns"] is None and summary["done"]["calls"] == 1
    lengths = [r["end_ns"] - r["start_ns"] for r in inner]
    assert math.isclose(summary["inner"]["stddev_ns"], statistics.stdev(lengths), rel_tol=1e-6)
    assert summary["inner"]["busy_ns"] == summary["inner"]["total_ns"]
    counted = run.report("counter_sum")["progress"]
    assert (counted["samples"], counted["first"], counted["last"], counted["mean"]) == (10, 0, 4.5, 2.25)
    assert "inner" in run.stderr  # the summary at the end has them


def test_the_trace_as_text(build: Build, profile: Profile) -> None:
    run = profile(build("own.c"), "ranges")
    done = subprocess.run([*OCCA_PROF, "trace", run.folder], text=True, capture_output=True, check=True)
    lines = [line.split(None, 4)[4] if line.split()[1] != "…" else line for line in done.stdout.splitlines()]
    assert lines[0] == 'range "outer" [occatrace]' and lines.count('range "inner" (even=no) [occatrace]') == 10
    assert 'mark "done" (n=10) [occatrace]' in lines and len(lines) == len(run.ranges)
    after_thread = [re.sub(r"^.*? \d+:\d+  ", "", line) for line in done.stdout.splitlines()]
    assert sum(line.startswith('  range "inner"') for line in after_thread) == 10
    assert 'range "outer" [occatrace]' in after_thread


def test_a_killed_program_shows_where_it_was(build: Build, profile: Profile) -> None:
    run = profile(build("own.c"), "kill")
    assert run.status == 128 + signal.SIGKILL
    assert [(r["name"], r["end_ns"] is None) for r in run.ranges] == [
        ("first", False),
        ("killed", True),
        ("killed too", True),
    ]
    assert run.report("range_sum")["killed"]["open"] == 1


def test_fork(build: Build, profile: Profile) -> None:
    run = profile(build("own.c"), "fork")
    pids = run.rows("SELECT r.name, p.pid, p.ppid, r.end_ns FROM ranges r JOIN processes p USING (process)")
    by_name = {r["name"]: r for r in pids}
    assert len(pids) == 2 and all(r["end_ns"] for r in pids)
    assert by_name["child"]["ppid"] == by_name["parent"]["pid"]


@pytest.mark.parametrize(
    ("options", "traced"),
    [
        ((), "1"),
        (("-O2", "-fno-pie", "-no-pie"), "1"),
        (("-O2", "-fPIC", "-Wl,-z,now"), "1"),
        (("-std=c99", "-Wpedantic"), "1"),
        (("-static",), "0"),
    ],
)
def test_however_a_program_is_linked(build: Build, profile: Profile, options: tuple[str, ...], traced: str) -> None:
    program = build("own.c", *options, name="own" + "".join(options).replace(",", ""))
    alone = subprocess.run([program, "present"], text=True, capture_output=True, check=True)
    assert alone.stdout == "0\n"
    assert profile(program, "present").stdout == f"{traced}\n"
    assert subprocess.run([program, "ranges"]).returncode == 0
    assert bool(profile(program, "ranges").ranges if traced == "1" else []) == (traced == "1")


def test_the_header_in_cpp_and_with_clang(build: Build, profile: Profile, tmp_path: Path) -> None:
    source = tmp_path / "scope.cpp"
    source.write_text('#include <occatrace.h>\nint main() { occatrace::scope s("scope", 0xff112233, "k=1"); }\n')
    for compiler in ("g++", "clang++-19"):
        program = tmp_path / compiler
        command = [compiler, "-std=c++11", "-Wall", "-Wextra", "-Werror", f"-I{PROGRAMS.parents[2] / 'include'}"]
        try:
            subprocess.run([*command, source, "-o", program], check=True)
        except FileNotFoundError:
            continue
        run = profile(program)
        assert [(r["name"], r["color"], r["payload"]) for r in run.ranges] == [("scope", 0xFF112233, "k=1")]


def test_python(profile: Profile) -> None:
    alone = subprocess.run([sys.executable, PROGRAMS / "python_ranges.py"], text=True, capture_output=True)
    assert (alone.stdout, alone.stderr) == ("right\n", "")
    run = profile(sys.executable, PROGRAMS / "python_ranges.py")
    assert (run.status, run.stdout) == (0, "right\n"), run.stderr
    assert run.counts == {
        ("occatrace", "", "push", "plain"): 1,
        ("occatrace", "", "start", "generator"): 1,
        ("occatrace", "", "push", "raises"): 1,
        ("occatrace", "", "push", "Thing.method"): 1,
        ("occatrace", "", "push", "recursive"): 5,
        ("occatrace", "", "push", "shared"): 2,
        ("occatrace", "", "start", "coroutine"): 2,
        ("occatrace", "", "start", "one"): 1,
        ("occatrace", "", "start", "two"): 1,
        ("occatrace", "", "start", "async generator"): 2,
        ("occatrace", "", "push", "outer"): 1,
        ("occatrace", "", "push", "inner"): 1,
        ("occatrace", "", "mark", "moment"): 1,
    }
    assert all(r["end_ns"] is not None for r in run.ranges)
    plain = run.named("plain")[0]
    assert plain["ms"] >= 10 and plain["payload"] == "n=3" and plain["color"] == 0xFF43A047
    assert sorted(r["depth"] for r in run.named("recursive")) == [0, 1, 2, 3, 4]
    # Tasks in turns: each range is as long as its own task, whichever ended first.
    shorter, longer = sorted(r["ms"] for r in run.named("coroutine"))
    assert 10 <= shorter < longer and longer >= 30
    assert run.named("one")[0]["ms"] >= 30 and 10 <= run.named("two")[0]["ms"] < run.named("one")[0]["ms"]
    assert run.named("one")[0]["payload"] == "task=one"
    assert [run.named(n)[0]["color"] for n in ("outer", "inner")] == [0xFF102030, 0xFFFF0000]
    assert run.named("moment")[0]["payload"] == "iteration=17"
    values = [r["value"] for r in run.rows("SELECT value FROM counters WHERE name = 'loss' ORDER BY time_ns")]
    assert values == [1 / (i + 1) for i in range(5)]


def test_untraced_annotations_cost_next_to_nothing(build: Build) -> None:
    """Far above what they cost (a test of a pointer; in Python two calls of nothing), far below what a record would."""
    program = build("own.c", "-O2", name="own-O2")
    out = [float(subprocess.run([program, "cost"], text=True, capture_output=True).stdout) for _ in range(5)]
    assert min(out) < 20  # ns, a pair
    code = "import occatrace\ndef f(): pass\nassert occatrace.annotate('x')(f) is f"
    subprocess.run([sys.executable, "-c", code], check=True)


@pytest.mark.parametrize("mode", ["default", "minimal", "full", "tally"])
def test_every_mode_has_them(build: Build, profile: Profile, mode: str) -> None:
    run = profile(build("own.c"), "fork", mode=mode)
    assert {r["name"] for r in run.ranges} == {"parent", "child"}


def test_device_work_of_ranges(profile: Profile) -> None:
    pytest.importorskip("pyopencl")
    run = profile(sys.executable, PROGRAMS / "device_ranges.py", PYOPENCL_NO_CACHE="1")
    assert run.status == 0, run.stderr
    truth = json.loads(run.stdout)
    rows = run.report("range_gpu_proj_sum")
    # Python's own garbage does nothing on the device, an idle range has no row.
    assert {n: {k: rows[n][k] for k in truth[n]} for n in truth} == truth and set(rows) == set(truth)
    assert rows["inner"]["bytes"] == 2 * 4096
    # The same by hand: what was launched by the thread of the range, between its times.
    for name, row in rows.items():
        work = run.rows(
            f"""SELECT DISTINCT a.thread, a.seq, a.start_ns, a.end_ns FROM activities a JOIN ranges r
            ON a.thread = r.thread AND a.queued_ns BETWEEN r.start_ns AND r.end_ns WHERE r.name = '{name}'"""
        )
        assert row["work_ns"] == sum(w["end_ns"] - w["start_ns"] for w in work)
        intervals, busy, until = sorted((w["start_ns"], w["end_ns"]) for w in work), 0, 0
        for start, end in intervals:
            busy += max(0, end - max(start, until))
            until = max(until, end)
        assert row["busy_ns"] == busy
        assert row["range_ns"] == sum(r["end_ns"] - r["start_ns"] for r in run.named(name))


@pytest.mark.parametrize("mode", ["Serial", "OpenMP", "OpenCL"])
def test_occa_kernels_in_ranges(profile: Profile, mode: str) -> None:
    if find_spec("occa") is None:  # importing it fails where OCCA_DIR is set
        pytest.skip("OCCA's Python package is not installed")
    run = profile(sys.executable, PROGRAMS / "occa_ranges.py", mode)
    assert run.status == 0, run.stderr
    truth = json.loads(run.stdout)
    rows = run.report("range_gpu_proj_sum")
    assert rows["solve"]["kernels"] == truth["solve"] and rows["scale"]["kernels"] == truth["scale"]
    if mode == "OpenCL":
        assert (rows["setup"]["copies"], rows["setup"]["bytes"]) == (2, truth["copied"])


def test_turns_in_one_thread(profile: Profile) -> None:
    """Generators, tasks and threads: each range lies between the moments that the program took before, in and after it."""
    run = profile(sys.executable, PROGRAMS / "python_turns.py")
    assert run.status == 0, run.stderr
    told: dict[str, list[list[int]]] = {}
    for line in run.stdout.splitlines():
        *name, before, begun, ending, after = line.split(" ")
        key = "both" if name[0] == "thread" else " ".join(name)
        told.setdefault(key, []).append([int(before), int(begun), int(ending), int(after)])
    assert {name: len(all_) for name, all_ in told.items()} == {
        **dict.fromkeys(("first", "second", "across", "left early", "plain", "task long", "task short", "task fails"), 1),
        **dict.fromkeys(("numbers", "numbers, left early", "stacked"), 1), "shared": 2, "both": 20,
    }  # fmt: skip
    for which, moments in told.items():
        ranges = [(r["start_ns"], r["end_ns"]) for r in run.named(which)]
        assert len(ranges) == len(moments)
        for first, started, last, left in moments:
            fitting = [(s, e) for s, e in ranges if first <= s <= started and last <= e <= left]
            assert len(fitting) == 1, (which, moments, ranges)
    assert len(run.named("step")) == 2 + 3 + 1
    assert {r["kind"] for name in ("across", "plain", "both") for r in run.named(name)} == {"push"}
    assert all(r["end_ns"] is not None for r in run.ranges) and run.rows("SELECT * FROM losses") == []
