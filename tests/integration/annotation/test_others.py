"""NVTX, ROCTX and ITT: what the program marked by them, and that it behaves as without us."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from occatrace.run import install
from tests.support.suites.annotation import PROGRAMS, Profile, nvtx_headers

Build = Callable[..., Path]


@pytest.fixture(scope="session")
def nvtx(build: Build) -> Path:
    headers = nvtx_headers()
    if headers is None:
        pytest.skip("needs NVTX's headers: PyPI's nvidia-nvtx-cu12")
    return build("nvtx.cpp", "-std=c++17", f"-isystem{headers}")


def test_nvtx(nvtx: Path, profile: Profile) -> None:
    run = profile(nvtx)
    assert (run.status, run.stdout) == (0, "right\n"), run.stderr
    assert run.counts == {
        ("nvtx", "", "push", "outer"): 1,
        ("nvtx", "", "push", "wide ä"): 1,
        ("nvtx", "physics", "push", "registered"): 100,
        ("nvtx", "", "mark", "payload"): 5,
        ("nvtx", "physics", "push", "x"): 1,
        ("nvtx", "second", "push", "y"): 1,
        ("nvtx", "", "start", "handed over"): 1,
        ("nvtx", "", "start", "never ended"): 1,
        ("nvtx", "solver", "push", "cpp"): 3,
        ("nvtx", "solver", "mark", "tick"): 3,
        ("occatrace", "", "push", "own"): 3,
    }
    registered = run.named("registered")
    assert {(r["category"], r["color"]) for r in registered} == {("seven", 0xFF112233)}
    assert [r["payload"] for r in registered] == [str(-i) for i in range(100)]
    marks = run.named("payload")
    assert [r["payload"] for r in marks] == [str(2**64 - 1), "0.1", str(2**32 - 1), "-5", "0.5"]
    assert {r["category"] for r in marks} == {"12"}
    x, y = run.named("x")[0], run.named("y")[0]
    assert x["start_ns"] < y["start_ns"] < x["end_ns"] < y["end_ns"] and x["depth"] == y["depth"] == 0
    handed = run.named("handed over")[0]
    assert handed["end_thread"] not in (None, handed["thread"])
    assert run.named("never ended")[0]["end_ns"] is None
    cpp = run.named("cpp")
    assert [(r["payload"], r["color"]) for r in cpp] == [(str(i), 0xFF00FF00) for i in range(3)]
    assert run.rows("SELECT * FROM losses") == []


def test_nvtx_in_c(build: Build, profile: Profile) -> None:
    headers = nvtx_headers()
    if headers is None:
        pytest.skip("needs NVTX's headers: PyPI's nvidia-nvtx-cu12")
    run = profile(build("nvtx.c", f"-isystem{headers}", name="nvtx_c"))
    assert (run.status, run.stdout) == (0, "0 0\n"), run.stderr
    assert run.counts == {
        ("nvtx", "", "start", "started"): 1,
        ("nvtx", "c", "start", "written ä"): 2,
        ("nvtx", "c", "mark", "written ä"): 1,
        ("nvtx", "", "mark", "plain"): 1,
        ("nvtx", "", "mark", "broad"): 1,
        ("nvtx", "", "start", "broad range"): 1,
        ("nvtx", "", "push", "attributes"): 1,
    }
    # Names of categories are those of their domain.
    categories = {name: {r["category"] for r in run.named(name)} for name in ("started", "written ä", "attributes")}
    assert categories == {"started": {"input"}, "written ä": {"output ä"}, "attributes": {"broad category"}}
    assert {(r["color"], r["payload"]) for r in run.ranges if r["category"]} == {(0xFF00AA11, "-7")}
    one, two = run.named("written ä", kind="start")
    assert one["start_ns"] < two["start_ns"] < one["end_ns"] < two["end_ns"]
    assert all(r["end_ns"] is not None for r in run.ranges)


def test_python_packages(profile: Profile) -> None:
    pytest.importorskip("nvtx")
    pytest.importorskip("ittapi")
    run = profile(sys.executable, PROGRAMS / "python_ranges.py", "nvtx", "ittapi")
    assert (run.status, run.stdout) == (0, "right\n"), run.stderr
    others = {key: n for key, n in run.counts.items() if key[0] != "occatrace"}
    assert others == {
        ("nvtx", "app", "push", "nvtx range"): 1,
        ("nvtx", "app", "mark", "nvtx mark"): 1,
        ("nvtx", "app", "start", "nvtx started"): 1,
        ("nvtx", "", "push", "nvtx pushed"): 1,
        ("itt", "itt app", "push", "itt task"): 1,
        ("itt", "itt app", "start", "itt overlapped"): 1,
    }
    row = run.named("nvtx range")[0]
    assert (row["category"], row["payload"], row["color"] & 0xFFFFFF) == ("io", "5", 0xFF0000)
    assert all(r["end_ns"] is not None for r in run.ranges)


def test_a_tool_of_the_user_stays(nvtx: Path, build: Build, profile: Profile, tmp_path: Path) -> None:
    source = tmp_path / "tool.c"
    source.write_text(
        '#include <stdio.h>\nint InitializeInjectionNvtx2(void *t) { puts("their tool"); fflush(stdout); return 0; }\n'
        'void __itt_api_init(void *g, int n) { puts("their tool"); }\n'
    )
    tool = tmp_path / "tool.so"
    subprocess.run(["gcc", "-shared", "-fPIC", source, "-o", tool], check=True)
    run = profile(nvtx, NVTX_INJECTION64_PATH=str(tool))
    assert run.stdout.startswith("their tool\n")
    assert {r["api"] for r in run.ranges} == {"occatrace"}
    said = [line for line in run.stderr.splitlines() if "NVTX_INJECTION64_PATH" in line]
    assert len(said) == 1 and "NVTX ranges" in said[0]


def test_roctx(build: Build, profile: Profile, tmp_path: Path) -> None:
    library = tmp_path / "libroctx64.so.4"
    soname = "-Wl,-soname,libroctx64.so.4"
    subprocess.run(["gcc", "-shared", "-fPIC", soname, PROGRAMS / "roctx64.c", "-o", library], check=True)
    (tmp_path / "libroctx64.so").symlink_to(library.name)
    program = tmp_path / "roctx"
    subprocess.run(["gcc", PROGRAMS / "roctx.c", "-o", program, f"-L{tmp_path}", "-lroctx64"], check=True)
    path = {"LD_LIBRARY_PATH": str(tmp_path)}
    alone = subprocess.run([program], text=True, capture_output=True, env=os.environ | path)
    run = profile(program, **path)
    # The library is called as before, and its answers are the program's.
    assert (run.stdout, "library saw 22 calls" in run.stderr) == (alone.stdout, True) and alone.stdout == "1111 1\n"
    assert run.counts == {
        ("roctx", "", "push", "outer"): 1,
        ("roctx", "", "push", "inner"): 4,
        ("roctx", "", "mark", "tick"): 4,
        ("roctx", "", "start", "a"): 1,
        ("roctx", "", "start", "b"): 1,
        # The one that came while the profiler was paused is not there.
        ("roctx", "", "mark", "resumed"): 1,
    }
    a, b = run.named("a")[0], run.named("b")[0]
    assert a["start_ns"] < b["start_ns"] < a["end_ns"] < b["end_ns"]
    assert all(
        r["end_ns"] is not None and r["depth"] == (r["name"] == "inner") for r in run.ranges if r["kind"] == "push"
    )


def test_an_absent_roctx_stays_absent(build: Build, profile: Profile) -> None:
    if install.roctx_library():
        pytest.skip("this system has ROCTX")
    assert profile(build("weak.c")).stdout == "0 0\n"


def test_marks_of_onetbb_where_they_are_asked_for(build: Build, profile: Profile) -> None:
    run = profile("--trace", "tbb", build("itt.c", "-Wno-cast-function-type"))
    assert (run.status, run.stdout) == (0, "right\n"), run.stderr
    assert {domain: n for (_, domain, _, name), n in run.counts.items() if name == "work"} == {
        "engine": 6,
        "tbb": 1,
        "tbb.flow": 1,
        "tbby": 1,
    }


def test_itt(build: Build, profile: Profile) -> None:
    program = build("itt.c", "-Wno-cast-function-type")
    assert subprocess.run([program], text=True, capture_output=True).stdout == "no tool\n"
    run = profile(program)
    assert (run.status, run.stdout) == (0, "right\n"), run.stderr
    assert run.counts == {
        ("itt", "engine", "start", "frame"): 6,
        ("itt", "engine", "push", "work"): 6,
        ("itt", "engine", "start", "split"): 2,
        ("itt", "engine", "start", "phase"): 1,
        ("itt", "engine", "mark", "here"): 2,
        ("itt", "", "start", "old event"): 1,
        # Not oneTBB's own marks.
        ("itt", "tbby", "push", "work"): 1,
    }
    assert all(r["end_ns"] is not None for r in run.ranges)
    tasks = [r for r in run.named("work") if r["domain"] == "engine"]
    for frame, task in zip(run.named("frame"), tasks, strict=True):
        assert frame["start_ns"] < task["start_ns"] < task["end_ns"] < frame["end_ns"]
    counters = run.rows("SELECT name, value FROM counters ORDER BY time_ns")
    assert [(c["name"], c["value"]) for c in counters] == [
        ("bytes", 100),
        ("bytes", 200),
        ("bytes", 300),
        ("level", -2.5),
    ]
