"""Overlap, idle time, wait states, on traces whose truth is known."""

from __future__ import annotations

import errno
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from occatrace import reports
from occatrace.reports import critical
from occatrace.reports.critical import called, labels
from occatrace.store.tables import Store, open_store
from tests.support.fake import MODEL, FakeThread, FakeTrace, fake_device, fake_rank, fake_work, launch, mpi, run_folder

if TYPE_CHECKING:
    from collections.abc import Iterator

AT = 1_000_000


@contextmanager
def opened(tmp_path: Path, trace: FakeTrace) -> Iterator[Store]:
    with open_store(run_folder(tmp_path), model=MODEL, open_trace=trace.open) as store:
        yield store


def rows_of(store: Store, name: str) -> list[dict[str, Any]]:
    report = reports.make(store, name)
    return [dict(zip((c.name for c in report.columns), row, strict=True)) for row in report.rows]


# ---- overlap_sum ----


def overlapping() -> FakeTrace:
    """Rank 0: a kernel in 100 to 500, a copy in 300 to 600, MPI in 400 to 700. Rank 1: MPI in 100 to 700 alone."""
    trace = FakeTrace()
    t = fake_rank(trace, 0, 2, AT)
    fake_device(t, AT)
    launch(t, AT, 50, 100, 500, "work", queue=1)
    launch(t, AT, 60, 300, 600, "HtoD", queue=2, kind=2)
    mpi(t, "MPI_Barrier", AT + 400, AT + 700)
    t.record("exit", AT + 1000, reason=0)
    t = fake_rank(trace, 1, 2, AT)
    mpi(t, "MPI_Barrier", AT + 100, AT + 700)
    t.record("exit", AT + 1000, reason=0)
    return trace


def test_overlap(tmp_path: Path) -> None:
    with opened(tmp_path, overlapping()) as store:
        mean, first, second = rows_of(store, "overlap_sum")
    kinds = ("computing", "copying", "mpi", "computing_copying", "computing_mpi", "copying_mpi", "all_three", "idle")
    assert [first[kind] for kind in kinds] == pytest.approx([20.0, 0.0, 10.0, 10.0, 0.0, 10.0, 10.0, 40.0])
    assert [second[kind] for kind in kinds] == pytest.approx([0.0, 0.0, 60.0, 0.0, 0.0, 0.0, 0.0, 40.0])
    assert [mean[kind] for kind in kinds] == pytest.approx([10.0, 0.0, 35.0, 5.0, 0.0, 5.0, 5.0, 40.0])
    assert [(row["rank"], row["name"], row["span_ns"]) for row in (mean, first, second)] == [
        (None, "all ranks", 1000), (0, "rank 0", 1000), (1, "rank 1", 1000),
    ]  # fmt: skip


def test_overlap_of_what_is_only_counted(tmp_path: Path) -> None:
    """Calls of MPI without times are idle time, and the report says so."""
    trace = FakeTrace()
    t = trace.process(100, start=AT)
    trace.tally(t, "mpi:MPI_Test", [1000, 2000], AT + 9_000)
    t.record("exit", AT + 10_000, reason=0)
    with opened(tmp_path, trace) as store:
        report = reports.make(store, "overlap_sum")
        (row,) = rows_of(store, "overlap_sum")
    assert row["idle"] == 100.0 and row["name"] == "run"
    assert any("only counted" in note for note in report.notes)


def test_nothing_recorded(tmp_path: Path) -> None:
    with opened(tmp_path, FakeTrace()) as store:
        assert not reports.make(store, "overlap_sum").rows


def test_kernels_of_several_processes_that_begin_at_once_are_no_copies(tmp_path: Path) -> None:
    """Processes without a rank are one row. Their kernels begin and end at the same moments."""
    trace = FakeTrace()
    for pid in (100, 200, 300):
        t = trace.process(pid, start=AT)
        fake_device(t, AT)
        for begin in range(100, 900, 100):
            launch(t, AT, begin - 10, begin, begin + 50, "work", queue=1)
        t.record("exit", AT + 1000, reason=0)
    with opened(tmp_path, trace) as store:
        (row,) = rows_of(store, "overlap_sum")
    assert (row["computing"], row["copying"], row["computing_copying"], row["idle"]) == (40.0, 0.0, 0.0, 60.0)


def test_calls_of_few_threads_at_a_time_give_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    trace = FakeTrace()
    main = trace.process(100, start=AT)
    fake_device(main, AT)
    threads = [main, *(trace.thread(100, tid, start=AT + 10) for tid in (101, 102, 103))]
    for number in range(40):
        t, at = threads[number % 4], 100 + 100 * number
        launch(t, AT, at + 10, at + 50, at + 80, "work", queue=1)
        t.call("opencl:clFinish", AT + at + 40, AT + at + 90, command_queue=1, ret=0)
    main.record("exit", AT + 5000, reason=0)
    read: list[list[int]] = []
    calls = labels.calls

    def counted(store: Store, known: labels.Labels, zero: int, some: list[int]) -> dict[int, labels.Spans]:
        read.append(list(some))
        return calls(store, known, zero, some)

    monkeypatch.setattr(labels, "calls", counted)
    names = ("idle_sum", "wait_states", "critical_path_sum")
    with opened(tmp_path, trace) as store:
        whole = {name: rows_of(store, name) for name in names[:2]}
        assert read == [[1, 2, 3, 4], [1, 2, 3, 4]]
        assert all(whole.values())
        read.clear()
        made = {name: rows_of(store, name) for name in reports.together(store, names)}
        assert read == [[1, 2, 3, 4]]  # of one graph
        assert {name: made[name] for name in whole} == whole
        read.clear()
        monkeypatch.setattr(called, "AT_ONCE", 45)
        with critical.shared(store):
            assert {name: rows_of(store, name) for name in whole} == whole
            assert read == []  # they are in files, and only the outermost are read for the second report
            assert sorted(file.name for file in store.scratch.glob("calls-*/*")) == ["0", "1"]
        assert not [*store.scratch.glob("calls-*")]

        def full(*_: Any) -> Iterator[Any]:
            raise OSError(errno.ENOSPC, "no space left on device")

        monkeypatch.setattr(labels, "parts_of_calls", full)
        assert {name: rows_of(store, name) for name in whole} == whole
        assert read == [[1, 2], [3, 4], [1, 2], [3, 4]]
        assert not [*store.scratch.glob("calls-*")]
    assert "graph" not in store.kept


# ---- idle_sum ----


def causes(found: list[dict[str, Any]]) -> dict[tuple[str, str, str], int]:
    return {(row["cause"], row["host"], row["name"]): row["idle_ns"] for row in found}


def test_idle_time_by_cause(tmp_path: Path) -> None:
    """Device 1 has work in 200 to 300 and in 700 to 800, device 2 in 550 to 650."""
    trace = FakeTrace()
    t = trace.process(100, start=AT)
    fake_device(t, AT, queues=1)
    fake_device(t, AT, queues=1, number=2)
    t.call("opencl:clBuildProgram", AT + 20, AT + 120, options="", ret=0)
    launch(t, AT, 150, 200, 300, "first", queue=1)  # 50 of latency
    mpi(t, "MPI_Barrier", AT + 310, AT + 400)
    launch(t, AT, 450, 550, 650, "other", queue=2)  # 100 of latency
    launch(t, AT, 500, 700, 800, "second", queue=1)  # waits for device 2 in 500 to 650, then 50 of latency
    t.call("opencl:clFinish", AT + 850, AT + 900, command_queue=1, ret=0)
    t.record("exit", AT + 1000, reason=0)
    with opened(tmp_path, trace) as store:
        found = rows_of(store, "idle_sum")
    second = next(i for i in range(1, len(found)) if found[i]["share"] > found[i - 1]["share"])
    first = causes(found[:second])
    launching = "clEnqueueNDRangeKernel"
    assert first == {
        ("waiting for another queue", "", ""): 150,
        ("launch latency", "", ""): 100,
        ("no work submitted", "kernel build", "clBuildProgram"): 100,
        ("no work submitted", "MPI", "MPI_Barrier"): 90,
        ("no work submitted", "call", "clFinish"): 50,
        ("no work submitted", "call", launching): 10,
        ("no work submitted", "host code", "before clBuildProgram"): 20,
        ("no work submitted", "host code", f"after clBuildProgram, before {launching}"): 30,
        ("no work submitted", "host code", f"after {launching}, before MPI_Barrier"): 10,
        ("no work submitted", "host code", f"after MPI_Barrier, before {launching}"): 50,
        ("no work submitted", "host code", f"after {launching}, before {launching}"): 40,
        ("no work submitted", "host code", f"after {launching}, before clFinish"): 50,
        ("no work submitted", "host code", "after clFinish"): 100,
    }
    assert sum(first.values()) == 800
    assert sum(row["share"] for row in found) == pytest.approx(200.0)


def test_idle_by_dependency(tmp_path: Path) -> None:
    """Work of queue 2 is enqueued at 50 and waits for work that is enqueued at 400 in queue 1."""
    trace = FakeTrace()
    t = trace.process(100, start=AT)
    fake_device(t, AT)
    launch(t, AT, 50, 600, 700, "later", queue=2)
    launch(t, AT, 400, 450, 600, "sooner", queue=1)
    t.record("exit", AT + 1000, reason=0)
    with opened(tmp_path, trace) as store:
        found = causes(rows_of(store, "idle_sum"))
    assert found["dependency", "", ""] == 350 and found["launch latency", "", ""] == 50
    assert sum(found.values()) == 750


# ---- wait_states ----


def four_ways() -> FakeTrace:
    """Rank 1 is late: as a sender by 300, at a barrier by 200, as a root by 150, at the reduction of another root by 100."""
    trace = FakeTrace()
    zero, one = (fake_rank(trace, rank, 2, AT) for rank in (0, 1))
    one.call("opencl:clBuildProgram", AT + 110, AT + 390, options="", ret=0)
    mpi(one, "MPI_Send", AT + 400, AT + 420, partner=0, tag=5, bytes=8, count=1)
    mpi(zero, "MPI_Recv", AT + 100, AT + 450, partner=1, tag=5, bytes=8, count=1)
    mpi(zero, "MPI_Barrier", AT + 500, AT + 710)
    mpi(one, "MPI_Barrier", AT + 700, AT + 710)
    mpi(zero, "MPI_Bcast", AT + 750, AT + 910, root=1)
    mpi(one, "MPI_Bcast", AT + 900, AT + 905, root=1)
    mpi(zero, "MPI_Reduce", AT + 950, AT + 1060, root=0)
    mpi(one, "MPI_Reduce", AT + 1050, AT + 1055, root=0)
    # A large message: the receiver comes 80 later. A small one does not wait.
    mpi(zero, "MPI_Send", AT + 1100, AT + 1190, partner=1, tag=6, bytes=100_000, count=1)
    mpi(one, "MPI_Recv", AT + 1180, AT + 1195, partner=0, tag=6, bytes=100_000, count=1)
    mpi(zero, "MPI_Send", AT + 1200, AT + 1210, partner=1, tag=7, bytes=8, count=1)
    mpi(one, "MPI_Recv", AT + 1250, AT + 1260, partner=0, tag=7, bytes=8, count=1)
    # Of an exchange in which all wait for the last: 40.
    mpi(zero, "MPI_Allreduce", AT + 1300, AT + 1350, root=-1)
    mpi(one, "MPI_Allreduce", AT + 1340, AT + 1350, root=-1)
    for t in (zero, one):
        t.record("exit", AT + 2000, reason=0)
    return trace


def test_waits_for_what_was_posted_before(tmp_path: Path) -> None:
    """What a wait completed is recorded after it has returned."""
    trace = FakeTrace()
    zero, one = (fake_rank(trace, rank, 2, AT) for rank in (0, 1))
    seq = mpi(zero, "MPI_Irecv", AT + 100, AT + 110, partner=1, tag=5, count=1)
    mpi(zero, "MPI_Wait", AT + 120, AT + 500)
    zero.event(
        "occatrace_mpi:message", AT + 505, kind=2, state=0, call_tid=zero.tid, call_seq=seq, begin=AT + 100, bytes=8, partner=1,
        tag=5, comm=1,
    )  # fmt: skip
    mpi(one, "MPI_Send", AT + 400, AT + 420, partner=0, tag=5, bytes=8, count=1)
    for t in (zero, one):
        t.record("exit", AT + 1000, reason=0)
    with opened(tmp_path, trace) as store:
        found = rows_of(store, "wait_states")
    assert [(row["name"], row["function"], row["total_ns"]) for row in found] == [("late sender", "MPI_Wait", 280)]


@pytest.mark.parametrize(
    ("start", "seen"), [("MPI_Iallreduce", True), ("MPI_Ibarrier", True), ("MPI_Iallreduce", False)]
)
def test_a_nonblocking_collective_waits_in_the_call_that_completes_it(start: str, seen: bool, tmp_path: Path) -> None:
    """Of rank 0 in MPI_Wait, or in a test that was only counted: then it is not known from when it waited."""
    trace = FakeTrace()
    zero, one = (fake_rank(trace, rank, 2, AT) for rank in (0, 1))
    for t, come, wait in ((zero, AT + 100, AT + 120), (one, AT + 400, AT + 430)):
        seq = mpi(t, start, come, come + 10, bytes=8, root=-1, request=1)
        if seen or t is one:
            mpi(t, "MPI_Wait", wait, AT + 440)
        t.event(
            "occatrace_mpi:message", AT + 445, kind=6, state=0, call_tid=t.tid, call_seq=seq, begin=come, bytes=8, partner=-1,
            tag=0, comm=1,
        )  # fmt: skip
        t.record("exit", AT + 1000, reason=0)
    with opened(tmp_path, trace) as store:
        found = rows_of(store, "wait_states")
        path = rows_of(store, "critical_path_sum")
    name = "wait at barrier" if start == "MPI_Ibarrier" else "wait at NxN"
    expected = [(name, 0, "MPI_Wait", 280, 1)] if seen else []
    assert [(r["name"], r["rank"], r["function"], r["total_ns"], r["culprit_rank"]) for r in found] == expected
    # Rank 1 is on the path until it came.
    assert not seen or sum(row["time_ns"] for row in path if row["rank"] == 1) >= 400


@pytest.mark.parametrize("function", ["MPI_Win_fence", "MPI_File_open", "MPI_Comm_split"])
def test_collectives_of_unknown_communicators(function: str, tmp_path: Path) -> None:
    """The first of each rank belong together, and so on; not where ranks have different numbers, or one leaves before another comes."""
    for case, (second, more) in enumerate(((AT + 500, 0), (AT + 700, 0), (AT + 500, 1))):
        trace = FakeTrace()
        zero, one = (fake_rank(trace, rank, 2, AT) for rank in (0, 1))
        for begin, end in ((AT + 100, AT + 310), (AT + 400, AT + 610)):
            zero.call(f"mpi:{function}", begin, end, ret=0)
        for begin in (AT + 300, second, *(AT + 800 for _ in range(more))):
            one.call(f"mpi:{function}", begin, max(begin + 10, AT + 310), ret=0)
        for t in (zero, one):
            t.record("exit", AT + 1000, reason=0)
        folder = tmp_path / str(case)
        folder.mkdir()
        with opened(folder, trace) as store:
            found = rows_of(store, "wait_states")
        name = "wait at barrier" if function == "MPI_Win_fence" else "wait at NxN"
        expected = [[200, 100], [200], []][case]
        assert [r["total_ns"] for r in found] == expected
        assert all((r["name"], r["rank"], r["culprit_rank"]) == (name, 0, 1) for r in found)


def test_a_scan_waits_for_the_ranks_before(tmp_path: Path) -> None:
    trace = FakeTrace()
    for rank, (come, leave) in enumerate(((AT + 100, AT + 110), (AT + 400, AT + 410), (AT + 200, AT + 420))):
        t = fake_rank(trace, rank, 3, AT)
        mpi(t, "MPI_Scan", come, leave, bytes=8, root=-1)
        t.record("exit", AT + 1000, reason=0)
    with opened(tmp_path, trace) as store:
        found = rows_of(store, "wait_states")
    assert [(r["name"], r["rank"], r["total_ns"], r["culprit_rank"]) for r in found] == [("early scan", 2, 200, 1)]


@pytest.mark.parametrize(
    ("function", "ends", "waited"),
    [
        ("MPI_Ssend", (210, 410, 610), 450),  # all wait for the receive
        ("MPI_Ssend", (210,), 150),
        ("MPI_Send", (210, 410, 610), 450),  # none was over before its receive began
        ("MPI_Send", (210, 410), 0),  # too few to say so
        ("MPI_Send", (210, 260, 610), 0),  # one did not wait
    ],
)
def test_short_sends_that_wait_for_the_receiver(
    function: str, ends: tuple[int, ...], waited: int, tmp_path: Path
) -> None:
    trace = FakeTrace()
    zero, one = (fake_rank(trace, rank, 2, AT) for rank in (0, 1))
    for number, end in enumerate(ends):
        mpi(zero, function, AT + 50 + 200 * number, AT + end, partner=1, tag=5, bytes=8, count=1)
        mpi(one, "MPI_Recv", AT + 200 * (number + 1), AT + 220 + 200 * number, partner=0, tag=5, bytes=8, count=1)
    for t in (zero, one):
        t.record("exit", AT + 1000, reason=0)
    with opened(tmp_path, trace) as store:
        found = rows_of(store, "wait_states")
    assert sum(row["total_ns"] for row in found) == waited
    assert {row["name"] for row in found} == ({"late receiver"} if waited else set())


@pytest.mark.parametrize(
    ("steps", "early", "waited"),
    [
        (3, False, {"late receiver": 570}),
        (2, False, {}),
        (3, True, {}),
    ],  # 2: too few to say so; early: one did not wait
)
def test_messages_that_move_while_the_receiver_is_in_mpi(
    steps: int, early: bool, waited: dict[str, int], tmp_path: Path
) -> None:
    """Rank 1 posts its receive before it computes and sends nothing; rank 0 waits in MPI_Wait until rank 1 is in MPI again."""
    trace = FakeTrace()
    zero, one = (fake_rank(trace, rank, 2, AT) for rank in (0, 1))
    for step in range(steps):
        at = AT + 300 * step
        for t, start, wait, kind in ((one, "MPI_Irecv", 250, 2), (zero, "MPI_Isend", 60, 1)):
            come = at + (10 if t is one else 50)
            seq = mpi(t, start, come, come + 2, partner=1 - (t is one), tag=5, count=1)
            end = at + (100 if early and not step and t is zero else 260)
            mpi(t, "MPI_Wait", at + wait, end)
            t.event(
                "occatrace_mpi:message", end + 1, kind=kind, state=0, call_tid=t.tid, call_seq=seq, begin=come, bytes=8000,
                partner=1 - (t is one), tag=5, comm=1,
            )  # fmt: skip
    for t in (zero, one):
        t.record("exit", AT + 1000, reason=0)
    with opened(tmp_path, trace) as store:
        found = rows_of(store, "wait_states")
    sums: dict[str, int] = {}
    for row in found:
        sums[row["name"]] = sums.get(row["name"], 0) + row["total_ns"]
    assert sums == waited


def test_processes_of_several_jobs_do_not_wait_for_each_other(tmp_path: Path) -> None:
    """Singletons are all rank 0."""
    trace = FakeTrace()
    for number in range(2):
        t = trace.process(100 + number, start=AT, rank=0, size=1)
        t.call("mpi:MPI_Finalize", AT + 100 + 500 * number, AT + 610, ret=0)
        t.record("exit", AT + 1000, reason=0)
    with opened(tmp_path, trace) as store:
        assert not rows_of(store, "wait_states")


def test_a_probe_waits_for_the_message_of_the_next_receive(tmp_path: Path) -> None:
    """mpi4py receives objects so. Two messages; another one with another tag was found before and is received in between."""
    trace = FakeTrace()
    zero, one = (fake_rank(trace, rank, 2, AT) for rank in (0, 1))
    values = {"partner": 1, "tag": 5}
    mpi(zero, "MPI_Probe", AT + 20, AT + 30, partner=1, tag=6, waiting=8)
    mpi(zero, "MPI_Mprobe", AT + 100, AT + 450, waiting=8, **values)
    mpi(zero, "MPI_Recv", AT + 451, AT + 452, partner=1, tag=6, bytes=8, count=1)
    mpi(zero, "MPI_Mrecv", AT + 460, AT + 470, bytes=8, count=1, **values)
    mpi(zero, "MPI_Mprobe", AT + 500, AT + 650, waiting=8, **values)
    mpi(zero, "MPI_Mrecv", AT + 660, AT + 670, bytes=8, count=1, **values)
    mpi(one, "MPI_Send", AT + 10, AT + 11, partner=0, tag=6, bytes=8, count=1)
    mpi(one, "MPI_Send", AT + 400, AT + 420, partner=0, tag=5, bytes=8, count=1)
    mpi(one, "MPI_Send", AT + 600, AT + 620, partner=0, tag=5, bytes=8, count=1)
    for t in (zero, one):
        t.record("exit", AT + 1000, reason=0)
    with opened(tmp_path, trace) as store:
        found = rows_of(store, "wait_states")
        path = rows_of(store, "critical_path_sum")
    assert [(row["name"], row["function"], row["total_ns"], row["times"]) for row in found] == [
        ("late sender", "MPI_Mprobe", 400, 2)
    ]
    # Rank 0 waits until the second message is sent; what it does before is not on the path.
    assert sum(row["time_ns"] for row in path if row["rank"] == 1) == 600


def test_waits_for_other_ranks(tmp_path: Path) -> None:
    with opened(tmp_path, four_ways()) as store:
        found = rows_of(store, "wait_states")
    assert {(row["name"], row["function"]): row["total_ns"] for row in found} == {
        ("late sender", "MPI_Recv"): 300,
        ("wait at barrier", "MPI_Barrier"): 200,
        ("late broadcast", "MPI_Bcast"): 150,
        ("early reduce", "MPI_Reduce"): 100,
        ("late receiver", "MPI_Send"): 80,
        ("wait at NxN", "MPI_Allreduce"): 40,
    }
    assert {(row["rank"], row["culprit_rank"], row["times"]) for row in found} == {(0, 1, 1)}
    assert (found[0]["doing"], found[0]["culprit"]) == ("kernel build", "clBuildProgram")
    assert (found[1]["doing"], found[1]["culprit"]) == ("host code", "after MPI_Send, before MPI_Barrier")
    assert found[0]["share"] == pytest.approx(100 * 300 / 4000)


def late_with_a_kernel(until: int) -> tuple[FakeTrace, FakeThread, int]:
    """Rank 0 waits at a barrier for rank 1, which waits for a kernel until this moment: with the thread and the call that waits."""
    trace = FakeTrace()
    zero, one = (fake_rank(trace, rank, 2, AT) for rank in (0, 1))
    fake_device(one, AT)
    launch(one, AT, 100, 150, 650, "slow")
    seq = one.call("opencl:clFinish", AT + 200, AT + until, command_queue=1, ret=0)
    mpi(zero, "MPI_Barrier", AT + 100, AT + 760)
    mpi(one, "MPI_Barrier", AT + 750, AT + 760)
    for t in (zero, one):
        t.record("exit", AT + 1000, reason=0)
    return trace, one, seq


def test_a_late_rank_that_waits_for_its_device(tmp_path: Path) -> None:
    """The culprit is the kernel, and the late rank itself waits for it."""
    trace, _, _ = late_with_a_kernel(700)
    with opened(tmp_path, trace) as store:
        found = {row["name"]: row for row in rows_of(store, "wait_states")}
    assert (found["wait at barrier"]["total_ns"], found["wait for device"]["total_ns"]) == (650, 450)
    for row in found.values():
        assert (row["culprit_rank"], row["doing"], row["culprit"]) == (1, "kernel", "slow")
    assert found["wait for device"]["function"] == "clFinish"


def test_a_late_rank_that_reads_the_result_of_a_kernel(tmp_path: Path) -> None:
    """The call enqueues a short copy and waits for it, and so for the kernel before it in its queue."""
    trace, one, seq = late_with_a_kernel(710)
    fake_work(one, AT, seq, 200, 660, 700, "DtoH", kind=2)
    with opened(tmp_path, trace) as store:
        found = {row["name"]: row for row in rows_of(store, "wait_states")}
    row = found["wait at barrier"]
    assert (row["culprit_rank"], row["doing"], row["culprit"]) == (1, "kernel", "slow")


def test_a_queue_that_waits(tmp_path: Path) -> None:
    trace = FakeTrace()
    t = trace.process(100, start=AT)
    fake_device(t, AT)
    launch(t, AT, 100, 150, 600, "first", queue=1)
    launch(t, AT, 200, 610, 700, "second", queue=2)
    t.record("exit", AT + 1000, reason=0)
    with opened(tmp_path, trace) as store:
        (row,) = rows_of(store, "wait_states")
    assert (row["name"], row["thread"], row["function"], row["culprit"]) == (
        "wait for queue",
        "queue 2",
        "second",
        "first",
    )
    assert (row["total_ns"], row["times"], row["max_ns"]) == (400, 1, 400)


def test_a_queue_without_order_waits_for_no_other(tmp_path: Path) -> None:
    trace = FakeTrace()
    t = trace.process(100, start=AT)
    fake_device(t, AT)
    t.event("occatrace_device:queue", AT, id=9, device=1, handle=9, flags=1)
    launch(t, AT, 100, 150, 600, "first", queue=9)
    launch(t, AT, 200, 610, 700, "second", queue=9)
    t.record("exit", AT + 1000, reason=0)
    with opened(tmp_path, trace) as store:
        assert not [row for row in rows_of(store, "wait_states") if row["name"] == "wait for queue"]


def test_one_rank_waits_for_no_other(tmp_path: Path) -> None:
    trace = FakeTrace()
    t = fake_rank(trace, 0, 4, AT)
    mpi(t, "MPI_Barrier", AT + 100, AT + 500)
    t.record("exit", AT + 1000, reason=0)
    with opened(tmp_path, trace) as store:
        report = reports.make(store, "wait_states")
    assert not report.rows and report.notes == ["one rank was recorded: waits for other ranks are not known"]
