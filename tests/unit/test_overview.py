"""The overview: parts of the run time that add up, on traces whose truth is known."""

from __future__ import annotations

import io
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from occatrace import reports
from occatrace.cli.choice import Choice
from occatrace.cli.report import print_reports
from occatrace.core.duck import duckdb
from occatrace.render import Document, renderer
from occatrace.reports import overview, spans
from occatrace.store import macros
from occatrace.store.losses import Losses
from occatrace.store.tables import Store, open_store
from occatrace.views.plots import times
from tests.support.fake import (
    MODEL,
    NONE,
    FakeTrace,
    demo_trace,
    fake_device,
    fake_work,
    python_call,
    recorded,
    run_folder,
)  # fmt: skip
from tests.unit.test_waits import overlapping


def known_trace(*calls: tuple[str, int, int], length: int = 1000) -> FakeTrace:
    """A process of 1000 ns: builds in 100 to 300, launches at 300 and 350, a kernel in 400 to 600, a copy in 550 to 700.
    `calls`: more of OpenCL, with begin and end."""
    trace = FakeTrace()
    t = trace.process(100, start=1_000_000)
    at = 1_000_000
    t.record(
        "kernel",
        at,
        id=1,
        name=t.name("add", at),
        mode=t.name("OpenCL", at),
        source=t.name("a.okl", at),
        line=7,
        binary=0,
    )
    fake_device(t, at, queues=1)
    t.call("occa:device_buildKernel", at + 100, at + 300, source=t.name("a.okl", at), error=0)
    run = t.take()
    for kind, queued, start, end in ((1, 300, 400, 600), (2, 350, 550, 700)):
        fake_work(t, at, run, queued, start, end, "_occa_add_0", kind, run=run if kind == 1 else NONE)
    t.call("occa:kernel_run", at + 300, at + 340, run, kernel=1, launches=1, error=0)
    for function, begin, end in calls:
        t.call(f"opencl:{function}", at + begin, at + end, ret=0)
    t.record("exit", at + length, reason=0)
    return trace


def rows_of(store: Store) -> list[dict[str, Any]]:
    report = reports.make(store, "overview")
    return [dict(zip((c.name for c in report.columns), row, strict=True)) for row in report.rows]


def only(rows: list[dict[str, Any]]) -> dict[str, Any] | None:
    """The row of advice, if there is one; there are not two."""
    found = [row for row in rows if row["kind"] == "advice"]
    assert len(found) <= 1
    return found[0] if found else None


def parts(rows: list[dict[str, Any]]) -> dict[str, float]:
    return {row["name"]: row["time_ns"] for row in rows if row["kind"] == "part"}


def test_every_moment_counts_once(tmp_path: Path) -> None:
    with open_store(run_folder(tmp_path), model=MODEL, open_trace=known_trace().open) as store:
        rows = rows_of(store)
        assert parts(rows) == {
            "kernel builds": 200,
            "waiting for the device": 100,  # from the first launch to the first work
            "device computing": 200,
            "copies": 100,  # the rest of it ran beside the kernel
            "host computing": 400,
        }
        assert [row["time_ns"] for row in rows if row["kind"] == "run"] == [1000]
        assert sum(row["share"] for row in rows if row["kind"] == "part") == pytest.approx(100.0)
        assert [(r["name"], r["source"], r["share"]) for r in rows if r["kind"] == "kernel"] == [
            ("add", "a.okl:7", 20.0)
        ]
        assert [row["share"] for row in rows if row["kind"] == "device"] == [30.0]
        (advice,) = (row for row in rows if row["kind"] == "advice")
        assert advice["name"] == "kernel builds" and "OCCA_CACHE_DIR" in advice["advice"]


@pytest.mark.parametrize(
    ("function", "begin", "end", "others"),
    [("clGetProgramInfo", 110, 290, 0), ("clGetDeviceInfo", 310, 690, 300)],
    ids=["in a build", "while work is queued"],
)
def test_a_call_takes_nothing_from_what_it_is_in(
    tmp_path: Path, function: str, begin: int, end: int, others: int
) -> None:
    """Times of calls are known as sums only. What a build calls is the build's, and a call while work is queued is waiting."""
    trace = known_trace((function, begin, end), length=900)
    with open_store(run_folder(tmp_path), model=MODEL, open_trace=trace.open) as store:
        found = parts(rows_of(store))
    known = {"kernel builds": 200, "waiting for the device": 100, "device computing": 200, "copies": 100}
    rest = {"other traced calls": others, "host computing": 300 - others}
    assert found == known | {name: ns for name, ns in rest.items() if ns}


def test_before_the_first_call(tmp_path: Path) -> None:
    """What a process does before it uses a traced API, and the start of the recording, are not its host code."""
    trace = FakeTrace()
    t = trace.process(100, start=1000)
    trace.rows[:] = [
        (event, {**row, "ts": 1500} if event == "occatrace_process:thread" else row) for event, row in trace.rows
    ]
    t.call("occa:device_buildKernel", 1600, 1800, source=t.name("a.okl", 1500), error=0)
    t.record("exit", 2000, reason=0)
    trace.rows[:] = [(event, {**row, "ts": max(int(row["ts"]), 1500)}) for event, row in trace.rows]
    with open_store(run_folder(tmp_path), model=MODEL, open_trace=trace.open) as store:
        found = parts(rows_of(store))
    assert found == {"before the first traced call": 500, "kernel builds": 200, "host computing": 300}


def test_parts_of_ranks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Mean and worst: rank 1 builds for half of its time, rank 0 never."""
    monkeypatch.setattr(overview, "LEAST_NS", 0.0)  # this run has 1 µs
    trace = FakeTrace()
    for rank in (0, 1):
        t = trace.process(100 + rank, start=1000, rank=rank, size=2)
        if rank:
            t.call("occa:device_buildKernel", 1100, 1600, source=t.name("a.okl", 1000), error=0)
        t.record("exit", 2000, reason=0)
    with open_store(run_folder(tmp_path), model=MODEL, open_trace=trace.open) as store:
        rows = {row["name"]: row for row in rows_of(store) if row["kind"] == "part"}
        built = rows["kernel builds"]
        assert (built["share"], built["worst"], built["worst_rank"], built["time_ns"]) == (25.0, 50.0, 1, 250)
        assert rows["host computing"]["share"] == 75.0 and rows["host computing"]["worst_rank"] == 0


def test_the_times_of_processes_without_ranks_are_sums(tmp_path: Path) -> None:
    """A script that starts a program for 1000 ns, and a short one that builds: together 1200 ns, of which 100 are a build."""
    trace = FakeTrace()
    for pid, length in ((100, 1000), (101, 200)):
        t = trace.process(pid, start=1000)
        t.call("occa:device_buildKernel", 1050, 1100, source=t.name("a.okl", 1000), error=0)
        t.record("exit", 1000 + length, reason=0)
    with open_store(run_folder(tmp_path), model=MODEL, open_trace=trace.open) as store:
        rows = rows_of(store)
        assert parts(rows) == {"kernel builds": 100, "host computing": 1100}
        assert next(row for row in rows if row["name"] == "kernel builds")["share"] == pytest.approx(100 * 100 / 1200)
        for report in (reports.make(store, "overview"), reports.summary(store)[0]):
            assert report.notes == ["the times are sums of 2 processes"]


def test_a_rank_has_the_time_of_all_of_its_processes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Rank 1 starts a compiler, which is a process of the same rank: the mean is that of two ranks, not of three processes."""
    monkeypatch.setattr(overview, "LEAST_NS", 0.0)  # this run has 1 µs
    trace = FakeTrace()
    for pid, rank, length in ((100, 0, 1000), (101, 1, 1000), (102, 1, 400)):
        t = trace.process(pid, start=1000, rank=rank, size=2)
        if pid != 101:
            t.call("occa:device_buildKernel", 1100, 1300, source=t.name("a.okl", 1000), error=0)
        t.record("exit", 1000 + length, reason=0)
    with open_store(run_folder(tmp_path), model=MODEL, open_trace=trace.open) as store:
        report = reports.make(store, "overview")
        rows = {row["name"]: row for row in rows_of(store) if row["kind"] == "part"}
    assert report.notes == []
    built = rows["kernel builds"]
    assert built["time_ns"] == 200 and built["share"] == pytest.approx(100 * 400 / 2400)
    assert sum(row["time_ns"] for row in rows.values()) == pytest.approx(1200)
    assert (
        rows["host computing"]["worst"] == pytest.approx(100 * 1200 / 1400)
        and rows["host computing"]["worst_rank"] == 1
    )


def test_what_mpi_starts_for_a_single_rank_has_no_part(tmp_path: Path) -> None:
    """Without mpirun Open MPI starts orted, which asks OpenCL for devices and waits for the rank."""
    trace = FakeTrace()
    t = trace.process(100, start=1000, rank=0, size=1)
    t.call("occa:device_buildKernel", 1050, 1100, source=t.name("a.okl", 1000), error=0)
    t.record("exit", 2000, reason=0)
    t = trace.process(101, start=1200)
    t.call("opencl:clGetDeviceInfo", 1300, 1310, ret=0)
    python_call(t, 1, "run", "torchrun", 1300, 1900)  # another launcher, in Python
    t.record("exit", 1900, reason=0)
    with open_store(run_folder(tmp_path), model=MODEL, open_trace=trace.open) as store:
        assert parts(rows_of(store)) == {"kernel builds": 50, "host computing": 950}
        assert reports.make(store, "overview").notes == []


@pytest.mark.parametrize(
    ("words", "name"),
    [
        ("app.py 10", "app.py"),
        ("-B -X utf8 -W ignore tool", "tool"),
        ("-u -m package.worker x", "-m package.worker"),
        ("-B -c from multiprocessing.spawn import spawn_main", "-c"),
        ("", "Python"),
    ],
)
@pytest.mark.parametrize("killed", [True, False])
def test_the_program_of_a_killed_interpreter(words: str, name: str, killed: bool, tmp_path: Path) -> None:
    """Its run is written as it ends; what was killed ran until its last event."""
    trace = FakeTrace()
    python = "/usr/bin/python3.11"
    t = trace.process(100, start=1000, exe=python, cmdline=f"{python} {words}".strip())
    python_call(t, 1, "start", "CPython 3.11.2", 1000, 1200)
    python_call(t, 2, "import", "numpy", 1300, 1500)
    t.call("opencl:clGetDeviceInfo", 1600, 1900, ret=0)
    if not killed:
        python_call(t, 3, "run", "script", 1200, 1950)
        t.record("exit", 2000, reason=0)
    with open_store(run_folder(tmp_path), model=MODEL, open_trace=trace.open) as store:
        runs = store.con.execute(
            "SELECT number, name, start_ns - 1000, end_ns - start_ns FROM python_calls WHERE kind = 'run'"
        ).fetchall()
    assert runs == [(3, name, 200, 700) if killed else (3, "script", 200, 750)]


def test_imports_in_functions_are_imports(tmp_path: Path) -> None:
    """With --python functions the first import is within a function; those within another import are part of it."""
    trace = FakeTrace()
    t = trace.process(100, start=1000)
    python_call(t, 1, "function", "main", 1000, 2000)
    python_call(t, 2, "import", "numpy", 1100, 1500, parent=1)
    python_call(t, 3, "function", "numpy.<module>", 1110, 1490, parent=2)
    python_call(t, 4, "import", "numpy.core", 1200, 1400, parent=2)
    t.record("exit", 2000, reason=0)
    with open_store(run_folder(tmp_path), model=MODEL, open_trace=trace.open) as store:
        assert parts(rows_of(store)) == {"Python imports": 400, "Python": 600}


def test_a_launcher_has_no_part_in_means_of_ranks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The process that started the ranks calls OpenCL as mpirun does, waits, and lasts longest; another one without a rank works."""
    monkeypatch.setattr(overview, "LEAST_NS", 0.0)  # this run has 1 µs
    trace = overlapping()
    t = trace.process(300, start=1_000_000)
    t.call("opencl:clGetDeviceInfo", 1_000_100, 1_000_200, ret=0)
    t.record("exit", 1_009_000, reason=0)
    with open_store(run_folder(tmp_path), model=MODEL, open_trace=trace.open) as store:
        found = {row["name"]: row for row in rows_of(store) if row["kind"] == "part"}
        assert sum(row["time_ns"] for row in found.values()) == pytest.approx(1000)
        assert found["waiting for other ranks"]["share"] == pytest.approx(15.0)  # 300 of 1000 ns of one rank of two
        assert all(row["share"] <= row["worst"] + 1e-9 for row in found.values())
        overlap = reports.make(store, "overlap_sum")
        name = [column.name for column in overlap.columns].index("name")
        assert [row[name] for row in overlap.rows] == ["all ranks", "rank 0", "rank 1"]
        waits = reports.make(store, "wait_states")
        assert waits.rows[0][:2] == pytest.approx((15.0, 300))  # of the time of the ranks
        activity = times.activity(store, *times.axis(store.con))
        assert activity is not None and list(activity.rows) == ["rank 0", "rank 1"]
        assert spans.launchers(store.con, store.filled) == {3}
        store.con.execute("CREATE TEMP TABLE more AS SELECT * REPLACE (3 AS process) FROM activities")
        store.con.execute("CREATE OR REPLACE TEMP VIEW activities AS FROM more")
        assert not spans.launchers(store.con, store.filled)


class Wide(io.StringIO):
    """A terminal."""

    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize("width", [45, 70, 80, 200])
def test_it_is_short_on_a_narrow_terminal(width: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Kernels and advice go on in the next line, and fewer parts have one of their own. Those that are shown add up."""
    monkeypatch.setenv("COLUMNS", str(width))
    definition = reports.definition("overview")
    shares = (30.0, 20.0, 15.0, 10.0, 9.0, 7.0, 5.0, 3.0, 0.96, 0.04)
    rows: list[tuple[Any, ...]] = [(100.0, 1e9, None, None, "run", "run time", "", "")]
    rows += [(share, 1e7 * share, None, None, "part", f"part {at}", "", "") for at, share in enumerate(shares)]
    rows.append((30.0, 3e8, None, None, "device", "device busy", "", ""))
    rows += [(10.0, 1e8, None, None, "kernel", f"a kernel with a long name {at}", "", "") for at in range(3)]
    rows.append(
        (30.0, 3e8, None, None, "advice", "kernel builds", "", "keep the cache of built kernels " * 2 + "at hand")
    )
    out = Wide()
    report = reports.Report(definition, rows, ["a note"])
    renderer("table")(Document({}, Losses.none(), [report]), out)
    lines = re.sub(r"\x1b\[[0-9;]*m", "", out.getvalue()).strip().splitlines()
    assert lines[0].startswith("Overview") and len(lines) <= 12 and max(map(len, lines)) <= width
    shown = [float(line.split()[0]) for line in lines if " part" in line]
    assert len(shown) >= 2 and sum(shown) == pytest.approx(100.0)
    assert lines[-1].endswith("at hand")


def test_it_is_first_and_short(tmp_path: Path) -> None:
    run = recorded(tmp_path, demo_trace())
    out = io.StringIO()
    print_reports(run, out)
    block = next(each for each in out.getvalue().split("\n\n") if each.startswith("Overview")).splitlines()
    assert block[0].startswith("Overview (overview)  run time") and len(block) <= 12
    again = io.StringIO()
    print_reports(run, again, chosen=Choice(by="thread"))
    assert "Overview" not in again.getvalue()  # it is about the whole run


@pytest.mark.parametrize(
    ("builds", "waits", "strongest"),
    [(200, 2, ("kernel builds", 50.0)), (200, 0, ("kernel builds", 50.0)), (30, 0, None)],
)
def test_the_strongest_advice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, builds: int, waits: int, strongest: tuple[str, float] | None
) -> None:
    """It is the first of the report `advice`, as long as that costs little beside the run."""
    trace = FakeTrace()
    t = trace.process(100, start=1000)
    t.call("opencl:clBuildProgram", 1000, 1000 + builds, options="", ret=0)
    for number in range(waits):
        t.call("opencl:clFinish", 1200 + 10 * number, 1205 + 10 * number, command_queue=1, ret=0)
    t.record("exit", 1400, reason=0)
    monkeypatch.setattr(overview, "_CALL_NS", 0)
    with open_store(run_folder(tmp_path), model=MODEL, open_trace=trace.open) as store:
        first = only(rows_of(store))
        assert (first is None) == (strongest is None)  # by the parts
        assert first is None or "gain" not in first["advice"]
        monkeypatch.setattr(overview, "_ADVICE_NS", 1)
        rows = rows_of(store)
        report = reports.make(store, "overview")
        monkeypatch.setattr(overview, "_MOST_CALLS", 0)
        again = [row for row in rows_of(store) if row["kind"] == "advice"]
    found = only(rows)
    assert again == ([] if first is None else [first])
    if strongest is None:
        assert found is None
        return
    assert found is not None
    assert (found["name"], found["share"]) == strongest and "would gain 50.0 % of the run" in found["advice"]
    out = io.StringIO()
    renderer("table")(Document({}, Losses.none(), [report]), out)
    assert "  kernel builds: " in out.getvalue()


def test_a_run_of_tallies_has_the_advice_of_its_parts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The report `advice` knows next to nothing of it."""
    trace = FakeTrace()
    t = trace.process(100, start=1000)
    trace.tally(t, "opencl:clCreateBuffer", [400_000], 900_000)
    t.record("exit", 1_001_000, reason=0)
    monkeypatch.setattr(overview, "_ADVICE_NS", 0)
    with open_store(run_folder(tmp_path), model=MODEL, open_trace=trace.open) as store:
        assert [row["name"] for row in rows_of(store) if row["kind"] == "advice"] == ["other traced calls"]


@pytest.mark.parametrize(
    ("function", "part", "words"),
    [
        ("clCreateBuffer", "other traced calls", "create contexts, queues and memory once"),
        ("clSetKernelArg", "other traced calls", "most of it is in clSetKernelArg"),
        ("clGetProgramInfo", "kernel builds", "keep the cache of built kernels"),
    ],
)
def test_other_calls_have_a_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, function: str, part: str, words: str
) -> None:
    """PoCL compiles in clGetProgramInfo."""
    trace = FakeTrace()
    t = trace.process(100, start=1000)
    trace.tally(t, f"opencl:{function}", [400_000], 900_000)
    trace.tally(t, "opencl:clReleaseMemObject", [10_000], 900_000)
    t.record("exit", 1_001_000, reason=0)
    monkeypatch.setattr(overview, "_ADVICE_NS", 0)
    with open_store(run_folder(tmp_path), model=MODEL, open_trace=trace.open) as store:
        (row,) = [row for row in rows_of(store) if row["kind"] == "advice"]
    assert row["name"] == part and row["advice"].startswith(words)


@pytest.mark.parametrize(
    ("processors", "bound", "words"),
    [
        (2, ("", "", "", ""), "4 ranks share 2 processors and wait for each other's turns: start a rank"),
        (2, ("0-1", "0-1", "0-1", "0-1"), "4 ranks share 2 processors and wait for each other's turns: start a rank"),
        (4, ("", "", "", ""), "balance the ranks"),
        (4, ("0", "1", "2", "3"), "balance the ranks"),
        (4, ("0-3", "0-3", "0-3", "0-3"), "balance the ranks"),
        (8, ("0", "0", "1", "2"), "2 ranks share 1 processor and wait for each other's turns: bind ranks to different"),
        (8, ("0,4", "0,4", "0,4", "1"), "3 ranks share 2 processors and wait for each other's turns: bind ranks"),
    ],
)
def test_more_ranks_than_processors(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, processors: int, bound: tuple[str, ...], words: str
) -> None:
    trace = FakeTrace()
    for rank, cpus in enumerate(bound):
        t = trace.process(100 + rank, start=1000, rank=rank, size=4, cpus=cpus)
        trace.tally(t, "mpi:MPI_Wait", [400_000], 900_000)
        t.record("exit", 1_001_000, reason=0)
    monkeypatch.setattr(overview, "_ADVICE_NS", 0)
    run = recorded(tmp_path, trace, session={"buffers": {"cpus": processors}})
    with open_store(run, model=MODEL) as store:
        (row,) = [row for row in rows_of(store) if row["kind"] == "advice"]
    assert row["name"] == "waiting for other ranks"
    assert row["advice"].startswith(words)


def test_no_terminal_is_too_narrow(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "40")
    with open_store(run_folder(tmp_path), model=MODEL, open_trace=known_trace().open) as store:
        report = reports.make(store, "overview")

    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    out = Terminal()
    renderer("table")(Document({}, Losses.none(), [report]), out)
    body = out.getvalue().strip().splitlines()[1:]
    assert body and max(map(len, body)) <= 40


def test_the_breakdown_adds_up_as_it_is_printed(tmp_path: Path) -> None:
    """Six parts of a seventh each and a rest would print as 14.3 and add up to 100.1."""
    with open_store(run_folder(tmp_path), model=MODEL, open_trace=known_trace().open) as store:
        report = reports.make(store, "overview")
    names = [column.name for column in report.columns]

    def part(number: int, share: float) -> tuple[Any, ...]:
        values: dict[str, Any] = {"kind": "part", "name": f"part {number}", "share": share, "time_ns": 1000}
        return tuple(values.get(name) for name in names)

    for shares in ([100 / 7] * 7, [100 / 3] * 3, [66.66, 33.33, 0.01], [99.97, 0.01, 0.01, 0.01], [100.0]):
        out = io.StringIO()
        rows = [part(number, share) for number, share in enumerate(shares)]
        renderer("table")(Document({}, Losses.none(), [replace(report, rows=rows)]), out)
        printed = re.findall(r"^ *([0-9.]+) %.* part", out.getvalue(), re.MULTILINE)
        assert sum(round(10 * float(each)) for each in printed) == 1000, out.getvalue()


def many_functions() -> reports.Report:
    entry = reports.definition("occa_api_sum")
    names = [column.name for column in entry.columns]

    def row(number: int) -> tuple[Any, ...]:
        values: dict[str, Any] = {
            "share": 2.0 if number == 15 else 0.01,
            "failed": 1 if number == 17 else 0,
            "name": f"f{number}",
        }
        return tuple(values.get(name, 0) for name in names)

    return reports.Report(entry, [row(number) for number in range(20)])


@pytest.mark.parametrize("brief", [True, False])
def test_rows_that_matter(brief: bool) -> None:
    """Of a long table the first ten, what takes 1 % and what failed."""
    out = io.StringIO()
    renderer("table")(Document({}, Losses.none(), [many_functions()], brief=brief), out)
    shown = [line.split()[-1] for line in out.getvalue().splitlines() if line.rstrip()[-2:].lstrip("f").isdigit()]
    if brief:
        assert [n for n in range(20) if any(name == f"f{n}" for name in shown)] == [*range(10), 15, 17]
        assert "  8 more: --all" in out.getvalue()
    else:
        assert "more: --all" not in out.getvalue() and "f19" in out.getvalue()


def test_the_overview_of_a_summary_is_whole(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """What chooses rows and their order is about the tables after it."""
    run = recorded(tmp_path, demo_trace())
    shown = []
    for chosen in (Choice(), Choice(rows=1), Choice(sort="calls"), Choice(name="clFinish")):
        out = io.StringIO()
        print_reports(run, out, chosen=chosen)
        shown.append(next(each for each in out.getvalue().split("\n\n") if each.startswith("Overview")))
    assert len(set(shown)) == 1
    assert "overview" not in capsys.readouterr().err


def block_of(*shares: float) -> list[str]:
    """The lines of an overview whose parts have these shares."""
    rows: list[tuple[Any, ...]] = [(100.0, 1e9, None, None, "run", "run time", "", "")]
    rows += [(share, 1e7 * share, None, None, "part", f"part {at}", "", "") for at, share in enumerate(shares)]
    out = io.StringIO()
    renderer("table")(Document({}, Losses.none(), [reports.Report(reports.definition("overview"), rows)]), out)
    return out.getvalue().strip().splitlines()


def test_a_single_small_part_has_its_name() -> None:
    assert block_of(99.96, 0.04)[-1].endswith("part 1")
    assert block_of(99.94, 0.04, 0.02)[-1].endswith("2 other parts")
    many = block_of(20.0, 18.0, 16.0, 14.0, 12.0, 10.0, 9.0, 1.0)
    assert not any("1 other" in line for line in many), many


def two_ranks(difference: int) -> overview._Whole:
    """Ranks of 1 ms, one of which computes for so many ns more."""
    parts = [{overview.HOST: 500_000.0 + more} for more in (0, difference)]
    return overview._together([overview._Process(rank, 1e6, part) for rank, part in enumerate(parts)])


def test_ranks_that_differ_by_nothing_worth_a_word() -> None:
    """The mean of two ranks is half of their difference away."""
    assert [(part.worst, part.worst_rank) for part in two_ranks(1_998).parts] == [(None, None)]
    assert [(part.worst, part.worst_rank) for part in two_ranks(2_000).parts] == [(50.2, 1)]

    def merged(most: float) -> list[Any]:
        sums = [(overview.TIME, 2e6, 2, 1e6, 1e6, 0), (overview.HOST, 1e6, 2, most, most, 1)]
        return [row[2:4] for row in overview.merged(sums, []) if row[4] == "part"]

    assert merged(500_999.0) == [(None, None)]
    assert merged(501_000.0) == [(pytest.approx(50.1), 1)]


def test_one_limit_for_sql_and_python() -> None:
    with duckdb.connect() as con:
        macros.macros(con)
        limit = overview.LEAST_NS
        assert con.execute("SELECT is_imbalance(?), is_imbalance(?)", [limit - 1, limit]).fetchall() == [(False, True)]


def test_the_balance_of_ranks_leaves_noise_out() -> None:
    """Rows of which the slowest rank is 999 and 1,000 ns above the mean."""
    with duckdb.connect() as con:
        macros.macros(con)
        con.execute(
            "CREATE TABLE balance_sums AS SELECT 'Calls' AS what, name, 2 AS size, 2 AS ranks, 2e6 AS total, 1e6 - above AS low,"
            " 0 AS low_rank, 1e6 + above AS high, 1 AS high_rank FROM (VALUES ('noise', 999), ('late', 1000)) v(name, above)"
        )
        # The definition has the sums in it; the file has only what is made of them.
        text = Path(reports.__file__).with_name("rank_balance.sql").read_text(encoding="utf-8")
        assert [row[-1] for row in con.execute(text).fetchall()] == ["late"]
