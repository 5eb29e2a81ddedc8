"""The rules of advice: each with a run that it is about, its numbers, and one just beside it about which it is silent."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from occatrace import reports
from occatrace.reports import advice
from occatrace.store.tables import open_store
from tests.support.fake import (
    MODEL,
    FakeThread,
    FakeTrace,
    fake_device,
    fake_rank,
    launch,
    mpi,
    python_call,
    recorded,
    run_folder,
)

NONE = 0xFFFFFFFF
US, MS = 1000, 1_000_000
KERNEL, HTOD = 1, 2


class Program:
    """A program with one device and one queue."""

    def __init__(self) -> None:
        self.trace = FakeTrace()
        self.thread: FakeThread = self.trace.process(1)
        t = self.thread
        api = t.name("OpenCL")
        t.event("occatrace_device:device", 2, id=1, api=api, platform=0, name=t.name("gpu"), vendor=0, handle=1)
        t.event("occatrace_device:queue", 2, id=1, device=1, handle=1, flags=0)
        self.now = 1000

    def idle(self, ns: int) -> None:
        self.now += ns

    def work(self, call: int, start: int, length: int, kind: int = KERNEL, size: int = 0, status: int = 0) -> int:
        """A call of this length, whose work begins `start` after it and takes `length`. Returns when that ends."""
        t = self.thread
        begin = self.now + call + start
        seq = t.call("opencl:clEnqueueNDRangeKernel", self.now, self.now + call, **{"global": [1]}, ret=0)
        name = t.name("k") if kind == KERNEL else 0
        t.event(
            "occatrace_device:activity", begin + length, kind=kind, corr_tid=1, corr_seq=seq, run_seq=NONE, queue=1, name=name,
            queued=self.now + call, submitted=self.now + call, start=begin, end=begin + length, bytes=size, status=status,
        )  # fmt: skip
        self.now += call
        return begin + length

    def call(self, function: str, ns: int, **values: int) -> None:
        self.thread.call(function, self.now, self.now + ns, **values)
        self.now += ns

    def advice(self, folder: Path) -> dict[str, str]:
        self.thread.record("exit", self.now, reason=0)
        with open_store(run_folder(folder), model=MODEL, open_trace=self.trace.open) as store:
            report = reports.make(store, "advice")
        names = [c.name for c in report.columns]
        rows = [dict(zip(names, row, strict=True)) for row in report.rows]
        assert all(re.search(r"[0-9]", row["evidence"]) and row["advice"] for row in rows)
        return {row["name"]: row["evidence"] for row in rows}


def busy_device(p: Program, kernel: int = 50 * US, n: int = 200) -> None:
    """Kernels that keep the device busy, one behind the other, and one wait at the end."""
    end = p.now
    for _ in range(n):
        end = p.work(5 * US, max(end - p.now - 5 * US, 0), kernel)
    p.call("opencl:clFinish", end - p.now, command_queue=1, ret=0)


def test_a_clean_program_gets_an_empty_list(tmp_path: Path) -> None:
    p = Program()
    p.call("occa:device_buildKernel", 500 * US, source=0, error=0)
    p.call("occa:device_malloc", 10 * US, handle=1, bytes=4096, mode=0, error=0)
    busy_device(p)
    p.call("occa:memory_free", 10 * US, handle=1, bytes=4096, mode=0, error=0)
    assert p.advice(tmp_path) == {}


def short_kernels(p: Program, n: int) -> None:
    for _ in range(n):
        p.work(10 * US, 0, 2 * US)


def waiting(p: Program, every: int, pause: int = 200 * US) -> None:
    """40 kernels of 1 ms; after every so many a wait, and 0.2 ms or another time of the host alone."""
    for number in range(1, 41):
        end = p.work(US, max(p.end_of_work - p.now - US, 0) if hasattr(p, "end_of_work") else 0, MS)
        p.end_of_work = end  # type: ignore[attr-defined]
        if number % every == 0:
            p.call("opencl:clFinish", end + 5 * US - p.now, command_queue=1, ret=0)
            p.idle(pause)


def test_one_long_pause_is_no_waiting_in_a_loop(tmp_path: Path) -> None:
    """40 waits between which the host has next to nothing to do, and one long time alone after the first of them."""
    p = Program()
    for number in range(40):
        p.call("opencl:clFinish", p.work(US, 0, MS) + 5 * US - p.now, command_queue=1, ret=0)
        p.idle(20 * MS if number == 0 else US)
    assert "waiting" not in p.advice(tmp_path)


@pytest.mark.parametrize(("gain", "named"), [(16.0, {"waiting"}), (0.4, {"idle device"})])
def test_a_wait_without_gain_is_dropped_and_explains_nothing(
    gain: float, named: set[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The idle time of a device is said where the wait that would explain it is not."""
    p = Program()
    waiting(p, 1, pause=3 * MS)
    monkeypatch.setattr(advice, "_gain", lambda *_: gain)
    assert {"waiting", "idle device"} & p.advice(tmp_path).keys() == named


def pageable(p: Program, pinned: bool) -> None:
    p.call("opencl:clCreateBuffer", US, flags=1, size=1 << 20, buffer=7, ret=0)
    if pinned:
        p.call("opencl:clCreateBuffer", US, flags=1 | 16, size=1 << 20, buffer=8, ret=0)
    for _ in range(20):
        p.now = p.work(US, 0, 500 * US, HTOD, 1 << 20)


def same_data(p: Program, ns: int) -> None:
    """Copies of 1 MiB from one address to one buffer; before each the host has some time."""
    for _ in range(30):
        values = {"buffer": 5, "ptr": 0x1000, "offset": 0, "size": 1 << 20, "ret": 0}
        seq = p.thread.call("opencl:clEnqueueWriteBuffer", p.now, p.now + 60 * US, **values)
        moments = {"queued": p.now + US, "submitted": p.now + US, "start": p.now + 10 * US, "end": p.now + 60 * US}
        p.thread.event(
            "occatrace_device:activity", p.now + 60 * US, kind=HTOD, corr_tid=1, corr_seq=seq, run_seq=NONE, queue=1, name=0,
            bytes=1 << 20, status=0, **moments,
        )  # fmt: skip
        p.now += 60 * US + ns


def churn(p: Program, n: int) -> None:
    for _ in range(n):
        p.call("occa:device_malloc", 20 * US, handle=1, bytes=4096, mode=0, error=0)
        p.idle(5 * US)
        p.call("occa:memory_free", 10 * US, handle=1, bytes=4096, mode=0, error=0)


def builds(p: Program, share: int) -> None:
    for _ in range(2):
        p.call("occa:device_buildKernel", share * MS, source=0, error=0)
    p.idle((100 - 2 * share) * MS)


def binaries(p: Program, ns: int) -> None:
    p.trace.tally(p.thread, "opencl:clGetProgramInfo", [0, ns], p.now + ns)
    p.idle(100 * MS)


def idle_device(p: Program, gap: int) -> None:
    for _ in range(10):
        p.now = p.work(US, 0, MS) + gap


def small_copies(p: Program, size: int) -> None:
    for _ in range(150):
        p.now = p.work(10 * US, 0, 15 * US, HTOD, size)


def slow_first(p: Program, first: int) -> None:
    for number in range(30):
        p.call("opencl:clFinish", first if number == 0 else 10 * US, command_queue=1, ret=0)
        p.idle(100 * US)


def late_launches(p: Program, first: int) -> None:
    """Three kernels, one after another, of which each begins late the first time; the host launches all of them at once."""
    ready = p.now
    for name in "abc":
        for turn in range(20):
            begin = ready + (first if turn == 0 else US)
            seq = p.thread.call("opencl:clEnqueueNDRangeKernel", p.now, p.now + US, **{"global": [1]}, ret=0)
            p.thread.event(
                "occatrace_device:activity", begin + MS, kind=1, corr_tid=p.thread.tid, corr_seq=seq, run_seq=NONE, queue=1,
                queued=p.now, submitted=p.now, start=begin, end=begin + MS, name=p.thread.name(name, p.now), bytes=8, gx=1,
            )  # fmt: skip
            p.now += US
            ready = begin + MS
    p.call("opencl:clFinish", ready - p.now, command_queue=1, ret=0)


def failing(p: Program, function: str) -> None:
    number = p.thread.name(function)
    for _ in range(3):
        p.thread.record("failure", p.now, function=number, call_seq=NONE, code=-36, text=0)
        p.idle(MS)


def imports(p: Program, ns: int) -> None:
    """Two by the program, of which one imports a third; and one by the interpreter as it starts."""
    t, begin = p.thread, p.now
    calls = [
        (0, "start", "CPython", 0, ns),
        (1, "import", "site", 0, ns),
        (0, "import", "torch", ns, ns),
        (3, "import", "torch.nn", ns, ns // 2),
        (0, "import", "numpy", 2 * ns, ns // 4),
    ]
    for number, (parent, kind, name, at, length) in enumerate(calls, 1):
        python_call(t, number, kind, name, begin + at, begin + at + length, parent)
    p.idle(3 * ns)
    p.call("opencl:clFinish", MS, command_queue=1, ret=0)


@pytest.mark.parametrize(
    ("sign", "evidence", "program", "yes", "no"),
    [
        ("short kernels", "200 launches of k ran 2.000 µs on average, less than the 10.00 µs", short_kernels, 200, 50),
        ("waiting", "39 times in 40 pieces of work the device ran out of work while the host waited in clFinish, for 8.034 ms",
         waiting, 1, 20),
        ("pageable copies", "20 HtoD copies of 20.00 MiB in all took 10.00 ms (2.10 GB/s, 100 % of the run)", pageable, False, True),
        # 1 MiB cannot be written in 3 µs; in 5 µs it can.
        ("copies of unchanged data", "29 HtoD copies of 29.00 MiB in all took 1.450 ms", same_data, 3 * US, 5 * US),
        ("allocation in a loop", "30 allocations and 30 frees of 4,096 bytes (mode , device) took 900.0 µs", churn, 30, 10),
        ("kernel builds", "2 builds took 60.00 ms, 60 % of the run", builds, 30, 5),
        ("kernel builds", "2 calls of clGetProgramInfo took 60.00 ms, 60 % of the run: the driver compiles whole programs", binaries,
         60 * MS, 10 * MS),
        ("idle device", "gpu had work for 27 % of the 37.01 ms from its first to its last work: 9 gaps, the longest 3.001 ms",
         idle_device, 3 * MS, 100 * US),
        ("small copies", "150 HtoD copies of 8 bytes on average took the host 1.500 ms", small_copies, 8, 1 << 16),
        ("slow first call", "the first call of clFinish took 20.00 ms, the 29 others 10.00 µs on average", slow_first,
         20 * MS, 90 * US),
        ("late first launches", "3 kernels began 90.00 ms in all after their first launch, while the device had nothing else to do"
         " (60 % of the run): a 30.00 ms, b 30.00 ms, c 30.00 ms", late_launches, 30 * MS, 4 * MS),
        ("imports", "Python imported for 3.750 s (42 % of the run): torch 3.000 s, numpy 750.0 ms", imports, 3000 * MS, 1000 * MS),
        ("lost to a failed call", "3 calls of clEnqueueNDRangeKernel failed (CL_INVALID_COMMAND_QUEUE): no kernel ran",
         failing, "opencl:clEnqueueNDRangeKernel", "opencl:clGetDeviceInfo"),
    ],
)  # fmt: skip
def test_a_rule(
    sign: str, evidence: str, program: Callable[[Program, object], None], yes: object, no: object, tmp_path: Path
) -> None:
    speaks, silent = Program(), Program()
    program(speaks, yes)
    program(silent, no)
    (tmp_path / "yes").mkdir()
    (tmp_path / "no").mkdir()
    assert evidence in speaks.advice(tmp_path / "yes").get(sign, "nothing")
    assert sign not in silent.advice(tmp_path / "no")


@pytest.mark.parametrize(
    ("first", "advice"), [(30 * MS, "the driver builds or loads 3 kernels"), (MS, "give each launch more")]
)
def test_the_overview_knows_late_first_launches(first: int, advice: str, tmp_path: Path) -> None:
    """Most of the time in which the device is waited for is before the first launches, or it is not."""
    p = Program()
    late_launches(p, first)
    if first == MS:
        for _ in range(10):
            p.now = p.work(US, 10 * MS, MS)
    p.thread.record("exit", p.now, reason=0)
    with open_store(run_folder(tmp_path), model=MODEL, open_trace=p.trace.open) as store:
        report = reports.make(store, "overview")
    (row,) = (dict(zip((c.name for c in report.columns), row, strict=True)) for row in report.rows if "advice" in row)
    assert row["name"] == "waiting for the device" and row["advice"].startswith(advice)


def test_lines_of_what_is_allocated_again(tmp_path: Path) -> None:
    """Two lines that allocate, of which the second takes longer."""
    p = Program()
    for ns in (20 * US, 40 * US):
        for _ in range(15):
            p.call("occa:device_malloc", ns, handle=1, bytes=4096, mode=0, error=0)
            p.call("occa:memory_free", US, handle=1, bytes=4096, mode=0, error=0)
    p.thread.record("exit", p.now, reason=0)
    with open_store(run_folder(tmp_path), model=MODEL, open_trace=p.trace.open) as store:
        con = store.con
        con.execute("CREATE TEMP TABLE call_sites AS SELECT * FROM memory.main.call_sites LIMIT 0")
        con.execute("CREATE TEMP TABLE call_places AS SELECT * FROM memory.main.call_places LIMIT 0")
        con.execute(
            "INSERT INTO call_sites BY NAME SELECT 1 AS process, s AS site, 'app' AS module, s << 12 AS \"offset\""
            " FROM range(1, 3) r(s)"
        )
        con.execute(
            "INSERT INTO call_places BY NAME SELECT process, thread, seq, CASE WHEN call_ns = 20000 THEN 1 ELSE 2 END AS site"
            " FROM allocations"
        )
        con.execute("UPDATE call_sites SET file = '', function = ''")
        for name in ("advice", "mem_churn"):
            report = reports.make(store, name)
            callers = [dict(zip([c.name for c in report.columns], row, strict=True))["caller"] for row in report.rows]
            assert callers == ["app+0x2000 (+1)"], name


def test_lines_of_pageable_copies(tmp_path: Path) -> None:
    p = Program()
    t, library = p.thread, "/usr/lib/python3/dist-packages/pyopencl/__init__.py"
    frames = [(1, 0, "main", "/home/me/app.py", 7), (2, 1, "copy", library, 9), (3, 0, "main", "/home/me/app.py", 8)]
    for number, parent, function, source, line in frames:
        names = {"function": t.name(function), "source": t.name(source)}
        t.event("occatrace_python:frame", 2, pid=1, id=number, parent=parent, line=line, **names)
    p.call("opencl:clCreateBuffer", US, flags=1, size=1 << 20, buffer=7, ret=0)
    for frame, count, length in ((2, 20, 500 * US), (3, 5, 300 * US), (3, 5, 0)):
        for _ in range(count):
            end = p.work(US, 0, length or 10 * US, HTOD, 1 << 20 if length else 4096)
            t.event("occatrace_python:line", p.now, call_seq=t.seq - 2, frame=frame)
            p.now = end
    found = p.advice(tmp_path)["pageable copies"]
    assert found.endswith("is not pinned; most by /home/me/app.py:7 (10.00 ms), /home/me/app.py:8 (1.500 ms)"), found


def test_work_that_failed_on_the_device(tmp_path: Path) -> None:
    p = Program()
    busy_device(p)
    p.now = p.work(5 * US, 0, 50 * US, status=-5)
    assert "k ended with the error -5 on the device, 1 time" in p.advice(tmp_path)["work that failed"]


@pytest.mark.parametrize(("copy", "kernel", "gain"), [(900, 100, None), (100, 850, 6.3), (500, 500, 31.6)])
def test_work_that_waits_for_another_queue(copy: int, kernel: int, gain: float | None, tmp_path: Path) -> None:
    """20 times a copy and then, in another queue, a kernel that waits for it. The next copy begins at the end of the copy, or waits
    for the kernel, too. Where the copies take all of the time, nothing is gained without the wait; where they take turns, what is
    shorter is gained: 19 times 100 of 30,100, or 19 times 500."""
    at, trace = 1_000_000, FakeTrace()
    t = trace.process(1, start=at)
    fake_device(t, at)
    now = 100
    turns = kernel >= copy
    for step in range(20):
        launch(t, at, 20 + 2 * step, now, now + copy, "HtoD", queue=1, kind=2, seen=30_000)
        launch(t, at, 21 + 2 * step, now + copy, now + copy + kernel, "work", queue=2, seen=30_000)
        now += copy + kernel if turns else copy
    end = now + (0 if turns else kernel)
    t.call("opencl:clFinish", at + 90, at + end, command_queue=2, ret=0)
    t.record("exit", at + 30_100, reason=0)
    row = advice_of(tmp_path, trace).get("work that waits for another queue")
    assert (None if row is None else row["gain"]) == (None if gain is None else pytest.approx(gain, abs=0.2))


def test_a_late_rank(tmp_path: Path) -> None:
    """Rank 1 builds for 580 of 1000 while rank 0 waits; with the mean of both the run would be shorter by half of that."""
    at = 1_000_000
    trace = FakeTrace()
    for rank in (0, 1):
        t = fake_rank(trace, rank, 2, at, init=100)
        if rank:
            t.call("opencl:clBuildProgram", at + 120, at + 700, options="", ret=0)
        mpi(t, "MPI_Barrier", at + (700 if rank else 120), at + 702)
        t.event("occatrace_mpi:rank", at + 709, rank=rank, size=2, library=0, abi=0)
        t.call("mpi:MPI_Finalize", at + 710, at + 712, ret=0)
        t.record("exit", at + 1000, reason=0)
    with open_store(run_folder(tmp_path), model=MODEL, open_trace=trace.open) as store:
        report = reports.make(store, "advice")
    at_of = {column.name: place for place, column in enumerate(report.columns)}
    rows = {row[at_of["name"]]: row for row in report.rows}
    late = rows["late rank"]
    assert "rank 1" in late[at_of["evidence"]] and "clBuildProgram" in late[at_of["evidence"]]
    assert late[at_of["gain"]] == pytest.approx(29.0, abs=1.0)
    assert rows["kernel builds"][at_of["gain"]] == pytest.approx(58.0, abs=1.0)
    assert [row[at_of["name"]] for row in report.rows] == ["kernel builds", "late rank"]


def advice_of(folder: Path, trace: FakeTrace) -> dict[str, dict[str, object]]:
    with open_store(run_folder(folder), model=MODEL, open_trace=trace.open) as store:
        report = reports.make(store, "advice")
    names = [column.name for column in report.columns]
    return {row[names.index("name")]: dict(zip(names, row, strict=True)) for row in report.rows}


@pytest.mark.parametrize(("size", "late", "named"), [(8, 0, True), (4096, 0, False), (8, 190, False)])
def test_many_collectives_with_little_data(size: int, late: int, named: bool, tmp_path: Path) -> None:
    """1000 of 200 each in a run of 300,000; what one waits in them for a late rank is not theirs."""
    at, trace = 1_000_000, FakeTrace()
    for rank in range(2):
        t = fake_rank(trace, rank, 2, at, init=10)
        for step in range(1000):
            begin = at + 300 * step + 100
            mpi(t, "MPI_Allreduce", begin + rank * late, begin + 200, bytes=size, root=-1)
        t.record("exit", at + 301_000, reason=0)
    rows = advice_of(tmp_path, trace)
    assert ("small collectives" in rows) == named
    if named:
        words = "each of 2 ranks was in 1,000 MPI_Allreduce with 8 bytes on average, for 200.0 µs (66 % of the run)"
        assert words in str(rows["small collectives"]["evidence"]) and "ranks take turns" not in rows


@pytest.mark.parametrize(("own", "named"), [(35, True), (60, False)])
def test_ranks_take_turns_if_every_second_one_waits(own: int, named: bool, tmp_path: Path) -> None:
    """Of 100 each of four ranks works for 25 when the one before is done, and the last one for `own` before that: it waits for 40
    or for 15, the others for 75."""
    at, trace = 1_000_000, FakeTrace()
    for rank in range(4):
        t = fake_rank(trace, rank, 4, at, init=10)
        for begin in range(at + 100, at + 1100, 100):
            done = begin + 25 * rank + 24
            if rank:
                comes = begin + (own if rank == 3 else 1)
                mpi(t, "MPI_Recv", comes, begin + 25 * rank, partner=rank - 1, tag=1, bytes=8, count=1)
            if rank < 3:
                mpi(t, "MPI_Send", done - 1, done, partner=rank + 1, tag=1, bytes=8, count=1)
            mpi(t, "MPI_Barrier", done, begin + 100)
        t.event("occatrace_mpi:rank", at + 1101, rank=rank, size=4, library=0, abi=0)
        t.call("mpi:MPI_Finalize", at + 1102, at + 1103, ret=0)
        t.record("exit", at + 1104, reason=0)
    assert ("ranks take turns" in advice_of(tmp_path, trace)) == named


def test_a_first_collective_that_waits_is_not_slow(tmp_path: Path) -> None:
    """Nor is a first wait for the device: without it nothing would be gained."""
    at, trace = 1_000_000, FakeTrace()
    for rank in range(2):
        t = fake_rank(trace, rank, 2, at, init=10)
        for step in range(20):
            begin = at + 1000 + (50 * MS if step else 0) + 1000 * step
            mpi(
                t,
                "MPI_Bcast",
                begin if step or not rank else begin + 50 * MS,
                begin + (500 if step else 50 * MS + 10),
                bytes=8,
                root=1,
            )
        t.record("exit", at + 100 * MS, reason=0)
    assert "slow first call" not in advice_of(tmp_path, trace)
    p = Program()
    for step in range(20):
        end = p.work(US, 0, 20 * MS if step == 0 else US)
        p.call("opencl:clFinish", end - p.now, command_queue=1, ret=0)
    (tmp_path / "device").mkdir()
    assert "slow first call" not in p.advice(tmp_path / "device")


def ranks(late: Sequence[int]) -> FakeTrace:
    """Ranks with ten barriers, to each of which the next one of `late` comes 60 after the others."""
    at, trace = 1_000_000, FakeTrace()
    for rank in range(4):
        t = fake_rank(trace, rank, 4, at, init=10)
        for step in range(10):
            begin = at + 100 * (step + 1)
            mpi(t, "MPI_Barrier", begin + (60 if late[step % len(late)] == rank else 0), begin + 61)
        t.event("occatrace_mpi:rank", at + 1100, rank=rank, size=4, library=0, abi=0)
        t.call("mpi:MPI_Finalize", at + 1101, at + 1102, ret=0)
        t.record("exit", at + 1103, reason=0)
    return trace


def test_one_that_waits_is_enough(tmp_path: Path) -> None:
    """Of eight ranks one waits for another for a sixth of the run, a fiftieth of the time of all."""
    at, trace = 1_000_000, FakeTrace()
    for rank in range(8):
        t = fake_rank(trace, rank, 8, at, init=10)
        if rank == 1:
            mpi(t, "MPI_Send", at + 200, at + 201, partner=0, tag=1, bytes=4, count=1)
        if rank == 0:
            mpi(t, "MPI_Recv", at + 30, at + 202, partner=1, tag=1, bytes=4, count=1)
        t.call("mpi:MPI_Finalize", at + (211 if rank < 2 else 30), at + 212, ret=0)
        t.record("exit", at + 1000, reason=0)
    with open_store(run_folder(tmp_path), model=MODEL, open_trace=trace.open) as store:
        report = reports.make(store, "advice")
    at_of = {column.name: place for place, column in enumerate(report.columns)}
    assert [(row[at_of["name"]], row[at_of["rank"]]) for row in report.rows] == [("late rank", 1)]


def barriers(come: Sequence[int], leave: int = 100) -> FakeTrace:
    """Ranks that come to each of ten barriers so long after the one before."""
    at, trace = 1_000_000, FakeTrace()
    for rank, own in enumerate(come):
        t = fake_rank(trace, rank, len(come), at, init=10)
        for step in range(10):
            mpi(t, "MPI_Barrier", at + 20 + leave * step + own, at + 20 + leave * (step + 1))
        t.event("occatrace_mpi:rank", at + 1100, rank=rank, size=4, library=0, abi=0)
        t.call("mpi:MPI_Finalize", at + 1101, at + 1102, ret=0)
        t.record("exit", at + 1103, reason=0)
    return trace


@pytest.mark.parametrize(
    ("come", "named"),
    [
        ((10, 98, 99, 10), 2),  # two that compute as long: nothing is gained if only one becomes faster
        ((98, 10, 98, 99), None),  # three of four: the other one has less to do
        ((95, 97, 96, 99), None),
    ],
)
def test_several_late_ranks(come: Sequence[int], named: int | None, tmp_path: Path) -> None:
    row = advice_of(tmp_path, barriers(come)).get("late rank")
    assert (row is not None) == (named is not None)
    if row is not None:
        assert row["rank"] == named and "ranks 1 and 2 compute about as long" in str(row["evidence"])
        # With the mean of all ranks (54) instead of 99, ten times in 1103.
        assert row["gain"] == pytest.approx(100 * 10 * 45 / 1103, abs=4.0)


def test_a_rank_that_is_late_at_the_end(tmp_path: Path) -> None:
    at, trace = 1_000_000, FakeTrace()
    for rank in range(4):
        t = fake_rank(trace, rank, 4, at, init=10)
        t.event("occatrace_mpi:rank", at + 899, rank=rank, size=4, library=0, abi=0)
        t.call("mpi:MPI_Finalize", at + (900 if rank == 3 else 100), at + 910, ret=0)
        t.record("exit", at + 1000, reason=0)
    row = advice_of(tmp_path, trace)["late rank"]
    assert row["rank"] == 3 and "after MPI_Init, before MPI_Finalize" in str(row["evidence"])


@pytest.mark.parametrize(("own", "late"), [((100, 900, 100, 100), 1), ((900, 900, 900, 100), None)])
def test_ranks_that_wait_in_calls_that_are_only_counted(own: Sequence[int], late: int | None, tmp_path: Path) -> None:
    """Of 1000 each computes for so long and tests for a message in the rest: who waits for whom is not known."""
    at, trace = 1_000_000, FakeTrace()
    for rank, ns in enumerate(own):
        t = fake_rank(trace, rank, 4, at, init=10)
        trace.tally(t, "mpi:MPI_Test", [100] * ((1000 - ns) // 100), at + 1020)
        t.event("occatrace_mpi:rank", at + 1020, rank=rank, size=4, library=0, abi=0)
        t.call("mpi:MPI_Finalize", at + 1030, at + 1032, ret=0)
        t.record("exit", at + 1040, reason=0)
    found = advice_of(tmp_path, trace)
    assert ("late rank" in found) == (late is not None)
    if late is not None:
        evidence = str(found["late rank"]["evidence"])
        assert found["late rank"]["rank"] == late and "MPI_Test" in evidence and "host code: after MPI_Init" in evidence


def test_what_the_rank_that_computes_longest_does_more_than_the_others(tmp_path: Path) -> None:
    """Each computes for 500 before a call, rank 1 for 300 behind it, while the others test for a message."""
    at, trace = 1_000_000, FakeTrace()
    for rank in range(4):
        t = fake_rank(trace, rank, 4, at, init=10)
        mpi(t, "MPI_Win_lock", at + 510, at + 511)
        done = at + (811 if rank == 1 else 561)
        mpi(t, "MPI_Win_unlock", done, done + 1)
        trace.tally(t, "mpi:MPI_Test", [1] if rank == 1 else [50] * 5, at + 820)
        t.event("occatrace_mpi:rank", at + 820, rank=rank, size=4, library=0, abi=0)
        t.call("mpi:MPI_Finalize", at + 830, at + 832, ret=0)
        t.record("exit", at + 840, reason=0)
    row = advice_of(tmp_path, trace)["late rank"]
    assert row["rank"] == 1
    assert str(row["evidence"]).endswith(
        "most of the difference in host code: after MPI_Win_lock, before MPI_Win_unlock"
    )


@pytest.mark.parametrize(("late", "tests", "named"), [(500, 1000, True), (500, 100, False), (0, 1000, False)])
def test_ranks_that_test_in_a_loop_for_a_late_message(late: int, tests: int, named: bool, tmp_path: Path) -> None:
    """Rank 0 posts 20 receives, 2 ms apart, and tests for each until it is there. Rank 1 sends at once, or twice `late` µs later. A few
    tests for each message are no loop."""
    at, trace = 1_000_000, FakeTrace()
    zero, one = (fake_rank(trace, rank, 2, at, init=10) for rank in (0, 1))
    for step in range(20):
        begin = at + 2 * MS * (step + 1)
        seq = mpi(zero, "MPI_Irecv", begin, begin + US, partner=1, tag=5, count=1)
        mpi(one, "MPI_Send", begin + 2 * late * US, begin + 2 * late * US + US, partner=0, tag=5, bytes=8, count=1)
        zero.event(
            "occatrace_mpi:message", begin + 1500 * US, kind=2, state=0, call_tid=zero.tid, call_seq=seq, begin=begin, bytes=8,
            partner=1, tag=5, comm=1,
        )  # fmt: skip
    trace.tally(zero, "mpi:MPI_Test", [100] * tests, at + 50 * MS)
    for t in (zero, one):
        t.event("occatrace_mpi:rank", at + 50 * MS, rank=t.tid - 100, size=2, library=0, abi=0)
        t.call("mpi:MPI_Finalize", at + 51 * MS, at + 51 * MS + US, ret=0)
        t.record("exit", at + 52 * MS, reason=0)
    found = advice_of(tmp_path, trace).get("late rank")
    assert (found is not None) == named
    if found is not None:
        assert found["rank"] == 1
        assert "20 messages of rank 1 to rank 0 were sent 20.00 ms in all after" in str(found["evidence"])
        assert "it tested 1,000 times" in str(found["evidence"])


@pytest.mark.parametrize(("late", "named"), [([2], [2]), ([1, 3], [1, 3]), ([0, 1, 2, 3], [])])
def test_ranks_that_are_the_last_in_turn_are_not_late(late: list[int], named: list[int], tmp_path: Path) -> None:
    with open_store(run_folder(tmp_path), model=MODEL, open_trace=ranks(late).open) as store:
        report = reports.make(store, "advice")
    at = {column.name: place for place, column in enumerate(report.columns)}
    assert sorted(row[at["rank"]] for row in report.rows if row[at["name"]] == "late rank") == named


@pytest.mark.parametrize(("sends", "end", "named"), [(200, 10_000, True), (200, 25_000, False), (10, 1_000, False)])
def test_small_messages_of_a_short_run(sends: int, end: int, named: bool, tmp_path: Path) -> None:
    """1000 messages fill half of the time between MPI_Init and MPI_Finalize (400 µs), which is short beside the start of MPI."""
    at, trace = 1_000_000, FakeTrace()
    for rank in range(2):
        t = fake_rank(trace, rank, 2, at, init=10)
        for step in range(1000):
            begin = at + 100 + 400 * step
            if rank == 0:
                mpi(t, "MPI_Send", begin, begin + sends, partner=1, tag=1, bytes=4, count=1)
            else:
                mpi(t, "MPI_Recv", begin + sends, begin + sends + 10, partner=0, tag=1, bytes=4, count=1)
        t.event("occatrace_mpi:rank", at + 400_100, rank=rank, size=2, library=0, abi=0)
        t.call("mpi:MPI_Finalize", at + 400_101, at + 400_110, ret=0)
        t.record("exit", at + end * US, reason=0)
    with open_store(run_folder(tmp_path), model=MODEL, open_trace=trace.open) as store:
        report = reports.make(store, "advice")
    at_of = {column.name: place for place, column in enumerate(report.columns)}
    found = [
        (row[at_of["rank"]], row[at_of["evidence"]]) for row in report.rows if row[at_of["name"]] == "small messages"
    ]
    assert [rank for rank, _ in found] == [0] * named and all("1,000 messages of 4 bytes" in text for _, text in found)


def team(*late_tasks: tuple[int, int], occa: bool = False, **process: Any) -> FakeTrace:
    """Ten regions of 100 with two threads that have nothing to do but tasks, which run at the barrier at the end: so long, in turn.
    With `occa` each is a kernel of OCCA's OpenMP mode."""
    trace = FakeTrace()
    t = trace.process(100, start=1000, **process)
    if occa:
        t.record(
            "kernel",
            1000,
            id=1,
            name=t.name("late"),
            source=t.name("/src/late.okl"),
            mode=t.name("OpenMP"),
            line=3,
            binary=0,
        )
    worker = trace.thread(100, 101, start=1000)
    nothing = {"barriers": 0, "barrier_ns": 0, "waits": 0, "wait_ns": 0, "mutexes": 0, "mutex_ns": 0, "worksharing": 0}
    for step in range(10):
        begin, kernel, region = 1000 + 110 * step, t.take() if occa else NONE, t.take()
        for number, thread in enumerate((t, worker)):
            thread.call(
                "openmp:implicit_task", begin + 1, begin + 2, region_tid=100, region_seq=region, thread_num=number,
                tasks=0, task_ns=0, **nothing,
            )  # fmt: skip
            t.event(
                "occatrace_openmp:join_tasks", begin + 100, region_seq=region, thread_num=number, tasks=1,
                task_ns=late_tasks[step % len(late_tasks)][number],
            )  # fmt: skip
        t.call(
            "openmp:parallel", begin, begin + 100, region, site=t.name("app.c:7 f"), kind=1, runtime=1, requested=2,
            threads=2, parent_tid=0, parent_seq=NONE, run_seq=kernel, target_seq=NONE,
        )  # fmt: skip
        if occa:
            t.call("occa:kernel_run", begin, begin + 100, kernel, kernel=1, launches=0, error=0)
    t.record("exit", 2100, reason=0)
    return trace


def test_tasks_at_the_end_of_a_region_are_work(tmp_path: Path) -> None:
    """A task of 90 beside one of 5 is uneven, and its fix gains what the other thread waits; two of 90 are even."""
    found = []
    for tasks in ((5, 90), (90, 90)):
        folder = tmp_path / str(tasks[0])
        folder.mkdir()
        with open_store(run_folder(folder), model=MODEL, open_trace=team(tasks).open) as store:
            report = reports.make(store, "advice")
            path = reports.make(store, "critical_path_sum")
            states = reports.make(store, "wait_states")
        at = {column.name: place for place, column in enumerate(report.columns)}
        found.append({row[at["name"]]: row[at["gain"]] for row in report.rows})
        assert sum(row[1] for row in path.rows if row[2] == "function" and "team" not in row[3]) == 10 * 91
        if tasks == (5, 90):
            waited = [(row[1], row[10]) for row in states.rows if row[4] == "end of OpenMP region"]
            assert waited == [(10 * (98 - 5), " in thread 101")]
    assert found[1] == {}
    assert found[0]["uneven team"] == pytest.approx(35.0, abs=2.0)  # 42.5 of 100 of each region, 91 of which are work


@pytest.mark.parametrize(
    ("machine", "cpus", "rank", "evidence", "words"),
    [
        (8, "3", 0, "of 2 threads, on 1 processor to which it is bound; each", "bind it to 2 processors (mpirun"),
        (8, "3", -1, "of 2 threads, on 1 processor to which it is bound; each", "let it run on 2 processors"),
        (1, "0", -1, "of 2 threads, on 1 processor; each", "use a thread for each processor"),
        (1, "", 0, "of 2 threads, on 1 processor; each", "use a thread for each processor"),
        (8, "0-1", -1, "", ""),
        (8, "", -1, "", ""),
    ],
)
def test_threads_on_the_processors_that_they_may_use(
    machine: int, cpus: str, rank: int, evidence: str, words: str, tmp_path: Path
) -> None:
    trace = team((5, 90), cpus=cpus, rank=rank)
    for pid in range(200, 210):  # compilers and the like of the same rank, one after another
        trace.process(pid, start=1000, cpus=cpus, rank=rank).record("exit", 1010, reason=0)
    run = recorded(tmp_path, trace, session={"buffers": {"cpus": machine}})
    with open_store(run, model=MODEL) as store:
        report = reports.make(store, "advice")
    rows = [dict(zip((column.name for column in report.columns), row, strict=True)) for row in report.rows]
    found = [row for row in rows if row["name"] == "more threads than processors"]
    assert bool(found) == bool(evidence) and (found or rows[0]["name"] == "uneven team")
    assert all(evidence in row["evidence"] and row["advice"].startswith(words) for row in found)


def test_teams_of_ranks_on_the_same_processors(tmp_path: Path) -> None:
    """Two ranks of two threads, on four processors or on two of them."""
    for cpus, together in (("0-3", False), ("0-1", True)):
        trace = team((5, 90), cpus=cpus, rank=0)
        trace.process(200, start=1000, cpus=cpus, rank=1).record("exit", 2100, reason=0)
        (tmp_path / cpus).mkdir()
        run = recorded(tmp_path / cpus, trace, session={"buffers": {"cpus": 4}})
        with open_store(run, model=MODEL) as store:
            report = reports.make(store, "advice")
        at = [column.name for column in report.columns].index("evidence")
        assert any("on 2 processors, of 2 ranks" in str(row[at]) for row in report.rows) == together


def test_teams_of_an_occa_kernel_have_its_name_and_line(tmp_path: Path) -> None:
    with open_store(run_folder(tmp_path), model=MODEL, open_trace=team((5, 90), occa=True).open) as store:
        report = reports.make(store, "advice")
    at = {column.name: place for place, column in enumerate(report.columns)}
    (row,) = (row for row in report.rows if row[at["name"]] == "uneven team")
    assert row[at["gain"]] == pytest.approx(35.0, abs=6.0) and row[at["caller"]] == "/src/late.okl:3"


@pytest.mark.parametrize(
    ("tasks", "others", "named"),
    [
        (((5, 90),), 0.5, True),  # one of them each time
        (((5, 90), (90, 5)), 0.5, True),  # now this, now that one
        (((90, 90), (90, 90), (5, 90), (90, 5)), 0.5, False),  # sometimes: another program may have had its processor
        (((90, 90), (90, 90), (5, 90), (90, 5)), 0.05, True),
    ],
)
def test_teams_on_a_busy_machine(
    tasks: tuple[tuple[int, int], ...], others: float, named: bool, tmp_path: Path
) -> None:
    run = recorded(tmp_path, team(*tasks), session={"state": "recorded", "daemon": "own", "others": others})
    with open_store(run, model=MODEL) as store:
        report = reports.make(store, "advice")
    at = {column.name: place for place, column in enumerate(report.columns)}
    found = [row[at["evidence"]] for row in report.rows if row[at["name"]] == "uneven team"]
    assert len(found) == named and all(("50 % of the processors" in text) == (others == 0.5) for text in found)


def test_a_large_run_gets_no_graph(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The signs of the query stay, without predictions; a line says why."""
    p = Program()
    builds(p, 30)
    p.thread.record("exit", p.now, reason=0)
    with open_store(run_folder(tmp_path), model=MODEL, open_trace=p.trace.open) as store:
        at = [column.name for column in reports.make(store, "advice").columns].index("gain")
        assert reports.make(store, "advice").rows[0][at] == pytest.approx(60.0, abs=1.0)
        monkeypatch.setattr(advice, "_MOST", 1)
        report = reports.make(store, "advice")
    assert [row[at] for row in report.rows] == [None]
    assert any("no gains are predicted" in note for note in report.notes)
