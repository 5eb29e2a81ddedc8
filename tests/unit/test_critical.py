"""The critical path and --what-if, on traces whose truth is known."""

from __future__ import annotations

import itertools
import json
import tracemalloc
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from occatrace import _native, reports
from occatrace.cli.dispatch import main
from occatrace.errors import RunError
from occatrace.reports import critical
from occatrace.reports.critical import building, mpi, whatif
from occatrace.store.tables import Store, open_store
from tests.support import fake
from tests.support.fake import MODEL, FakeThread, FakeTrace, fake_device, python_call, recorded, run_folder

AT = 1_000_000


def begin(trace: FakeTrace, pid: int = 100, **more: Any) -> FakeThread:
    t = trace.process(pid, start=AT, **more)
    fake_device(t, AT)
    return t


def launch(t: FakeThread, *moments: Any, **more: Any) -> None:
    fake.launch(t, AT, *moments, **more)


def one_kernel() -> FakeTrace:
    """A launch at 100, its kernel in 150 to 650, a wait in 200 to 700, the end at 1000."""
    trace = FakeTrace()
    t = begin(trace)
    launch(t, 100, 150, 650, "work")
    t.call("opencl:clFinish", AT + 200, AT + 700, command_queue=1, ret=0)
    t.record("exit", AT + 1000, reason=0)
    return trace


def two_queues() -> FakeTrace:
    """A short kernel in one queue, a long one in another; the wait is for both, and ends with the long one."""
    trace = FakeTrace()
    t = begin(trace)
    launch(t, 100, 200, 300, "short", queue=1)
    launch(t, 120, 200, 800, "long", queue=2)
    t.call("opencl:clFinish", AT + 200, AT + 850, command_queue=2, ret=0)
    t.record("exit", AT + 1000, reason=0)
    return trace


def in_order() -> FakeTrace:
    """Two kernels that are launched at once and run one after the other, then a copy."""
    trace = FakeTrace()
    t = begin(trace)
    launch(t, 100, 150, 350, "first")
    launch(t, 120, 360, 660, "second")
    launch(t, 140, 660, 760, "HtoD", kind=2)
    t.call("opencl:clFinish", AT + 200, AT + 800, command_queue=1, ret=0)
    t.record("exit", AT + 1000, reason=0)
    return trace


def answer(tmp_path: Path, trace: FakeTrace, *changes: str) -> critical.Answer:
    with open_store(run_folder(tmp_path), model=MODEL, open_trace=trace.open) as store:
        return critical.Run(store).answer(whatif.parse(changes))


def by_name(found: critical.Answer) -> dict[str, int]:
    return {f"{row.kind}:{row.name}": row.time_ns for row in found.rows}


def test_one_kernel(tmp_path: Path) -> None:
    found = answer(tmp_path, one_kernel())
    assert (found.wall_ns, found.path_ns, found.predicted_ns) == (1000, 1000, None)
    assert by_name(found) == {
        "kernel:work": 500,
        "host:after clFinish": 300,
        "host:before clEnqueueNDRangeKernel": 100,
        "launch:launch latency of work": 50,
        "launch:return from waiting for the device": 50,
    }
    assert sum(row.share for row in found.rows) == pytest.approx(100.0)


@pytest.mark.parametrize(
    ("changes", "predicted"),
    [
        (["kernel:work*0.5"], 750),
        (["kernel:work*2"], 1500),
        (["kernel:w*k*0.5"], 750),  # by wildcards
        (["kernel*0"], 500),  # the wait begins at 200: no earlier end than this and the return
        (["kernel:work*0.5,kernel:work*0.5"], 625),
        (["launch:work*0"], 950),
        (["launch*3"], 1100),
        (["kernel*0.5,launch*0.5"], 725),
        (["host*0"], 600),  # 100 before the launch, 300 after the wait
        (["host:after clFinish*0.5"], 850),
    ],
)
def test_what_if(tmp_path: Path, changes: list[str], predicted: int) -> None:
    assert answer(tmp_path, one_kernel(), *changes).predicted_ns == predicted


def test_calls_that_wait_no_more(tmp_path: Path) -> None:
    """Kernels of 500 at 150 and 850, each waited for. Without the first wait the second kernel begins when the first one ends;
    the last wait stays."""
    trace = FakeTrace()
    t = begin(trace)
    for at in (0, 700):
        launch(t, 100 + at, 150 + at, 650 + at, "work")
        t.call("opencl:clFinish", AT + 200 + at, AT + 700 + at, command_queue=1, ret=0)
    t.record("exit", AT + 1500, reason=0)
    assert answer(tmp_path, trace, "wait:clFinish*0").predicted_ns == 1300


def test_the_longer_queue_decides(tmp_path: Path) -> None:
    names = by_name(answer(tmp_path, two_queues()))
    assert names["kernel:long"] == 600 and "kernel:short" not in names
    (tmp_path / "again").mkdir()
    assert answer(tmp_path / "again", two_queues(), "kernel:short*0").predicted_ns == 1000


def test_a_queue_in_order(tmp_path: Path) -> None:
    names = by_name(answer(tmp_path, in_order()))
    (tmp_path / "gap").mkdir()
    assert (
        by_name(answer(tmp_path / "gap", in_order(), "launch:second*4"))["launch:gap in the queue before second"] == 40
    )
    assert (names["kernel:first"], names["kernel:second"], names["copy:HtoD"]) == (200, 300, 100)
    assert names["launch:gap in the queue before second"] == 10
    for number, (changes, predicted) in enumerate(
        (
            (["copy:HtoD*0"], 900),
            (["kernel:first*0", "copy*0"], 710),
            (["kernel:second*0.5"], 850),
            (["launch:second*0"], 990),  # the gap before it
            (["launch:first*0"], 950),
        )
    ):
        (tmp_path / str(number)).mkdir()
        assert answer(tmp_path / str(number), in_order(), *changes).predicted_ns == predicted


def out_of_order() -> FakeTrace:
    """One queue without order: two kernels after each other, a third and a copy by their events. The copy is waited for."""
    trace = FakeTrace()
    t = begin(trace)
    t.event("occatrace_device:queue", AT, id=9, device=1, handle=9, flags=1)
    launch(t, 100, 150, 350, "first", queue=9)
    launch(t, 120, 160, 400, "second", queue=9)
    launch(t, 140, 405, 605, "third", queue=9)
    launch(t, 160, 610, 710, "DtoH", queue=9, kind=2)
    t.call("opencl:clFinish", AT + 200, AT + 760, command_queue=9, ret=0)
    t.record("exit", AT + 1000, reason=0)
    return trace


@pytest.mark.parametrize(
    ("change", "predicted"),
    [("kernel:third*0.5", 900), ("kernel:second*0.5", 880), ("kernel:first*0", 1000), ("copy*0", 900)],
)
def test_a_queue_without_order(change: str, predicted: int, tmp_path: Path) -> None:
    """Of the work that it waits for the last to end decides."""
    (tmp_path / "as it was").mkdir()
    names = by_name(answer(tmp_path / "as it was", out_of_order()))
    assert (names["kernel:second"], names["kernel:third"], names["copy:HtoD"]) == (240, 200, 100)
    assert answer(tmp_path, out_of_order(), change).predicted_ns == predicted


def test_a_network_that_takes_no_time_starts_as_slowly(tmp_path: Path) -> None:
    """MPI_Init takes 300, MPI_Finalize 50 once both are there, and a message comes 80 after its sender was there."""
    trace = FakeTrace()
    for rank in range(2):
        t = fake.fake_rank(trace, rank, 2, AT)
        t.call("mpi:MPI_Init", AT + 10, AT + 310, ret=0)
        t.event("occatrace_mpi:rank", AT + 310, rank=rank, size=2, library=0, abi=0)
        if rank:
            fake.mpi(t, "MPI_Recv", AT + 350, AT + 480, partner=0, tag=5, bytes=8, count=1)
        else:
            fake.mpi(t, "MPI_Send", AT + 400, AT + 410, partner=1, tag=5, bytes=8, count=1)
        t.call("mpi:MPI_Finalize", AT + (500 if rank else 420), AT + 550, ret=0)
        t.record("exit", AT + 600, reason=0)
    assert answer(tmp_path, trace, "network*0").predicted_ns == 520


def test_builds_and_host_kernels(tmp_path: Path) -> None:
    """What is a span of the host shrinks there, nested calls with it."""
    trace = FakeTrace()
    t = trace.process(100, start=AT)
    t.record(
        "kernel",
        AT,
        id=1,
        name=t.name("scale", AT),
        mode=t.name("Serial", AT),
        source=t.name("a.okl", AT),
        line=9,
        binary=0,
    )
    seq = t.take()
    t.call("opencl:clBuildProgram", AT + 120, AT + 280, options="", ret=0)
    t.call("occa:device_buildKernel", AT + 100, AT + 300, seq, source=t.name("a.okl", AT), error=0)
    t.call("occa:kernel_run", AT + 400, AT + 800, kernel=1, launches=0, error=0)
    t.record("exit", AT + 1000, reason=0)
    with open_store(run_folder(tmp_path), model=MODEL, open_trace=trace.open) as store:
        run = critical.Run(store)
        found = {(row.kind, row.name, row.source): row.time_ns for row in run.answer().rows}
        assert found["kernel", "scale", "a.okl:9"] == 400
        assert sum(ns for (kind, _, _), ns in found.items() if kind == "build") == 200
        assert run.answer(whatif.parse(["build*0"])).predicted_ns == 800
        assert run.answer(whatif.parse(["build*0, kernel:scale*0.5"])).predicted_ns == 600
        assert sum(row.time_ns for row in run.answer(whatif.parse(["build*0"])).rows) == 800
        trace_rows = reports.make(store, "critical_path_trace").rows
        assert [row[0] for row in trace_rows] == [-100, 0, 200, 300, 700] and sum(row[1] for row in trace_rows) == 1000
        assert sum(row[0] for row in reports.make(store, "critical_path_sum").rows) == pytest.approx(100.0)


def python_program() -> FakeTrace:
    """Python starts in 20 to 100. Its program imports two modules, one of which imports a third and makes a call; and launches."""
    trace = FakeTrace()
    t = begin(trace)
    python_call(t, 1, "start", "CPython 3.11.2", AT + 20, AT + 100)
    python_call(t, 2, "import", "site", AT + 50, AT + 90, parent=1)
    t.call("opencl:clCreateBuffer", AT + 200, AT + 240, flags=0, size=1, buffer=1, ret=0)
    python_call(t, 5, "import", "cl.devices", AT + 180, AT + 300, parent=4)
    python_call(t, 4, "import", "cl", AT + 130, AT + 330)
    python_call(t, 6, "import", "json", AT + 400, AT + 410)
    launch(t, 450, 460, 700, "work")
    t.call("opencl:clFinish", AT + 470, AT + 710, command_queue=1, ret=0)
    python_call(t, 3, "run", "program.py", AT + 100, AT + 990)
    t.record("exit", AT + 1000, reason=0)
    return trace


def test_imports_of_python(tmp_path: Path) -> None:
    """The outer ones, without calls in them."""
    found = answer(tmp_path, python_program())
    assert by_name(found) == {
        "host:before start of CPython 3.11.2": 20,
        "python:start of CPython 3.11.2": 80,
        "host:after start of CPython 3.11.2, before import cl": 30,
        "import:cl": 160,
        "call:clCreateBuffer": 40,
        "host:after import cl, before import json": 70,
        "import:json": 10,
        "host:after import json, before clEnqueueNDRangeKernel": 40,
        "launch:launch latency of work": 10,
        "kernel:work": 240,
        "launch:return from waiting for the device": 10,
        "host:after clFinish": 290,
    }


@pytest.mark.parametrize(
    ("changes", "predicted"),
    [
        (["import:cl*0"], 840),
        (["import:cl*0.5, call:clCreateBuffer*0"], 880),
        (["import*0"], 830),
        (["python*0"], 920),
        (["import*0, host*0, python*0"], 300),
    ],
)
def test_imports_that_take_less(changes: list[str], predicted: int, tmp_path: Path) -> None:
    found = answer(tmp_path, python_program(), *changes)
    assert found.predicted_ns == predicted == sum(row.time_ns for row in found.rows)


def test_a_thread_that_is_waited_for(tmp_path: Path) -> None:
    """The main thread makes no call while another thread does all of the work."""
    trace = FakeTrace()
    main_thread = begin(trace)
    main_thread.call("occa:memory_free", AT + 50, AT + 60, error=0)
    worker = trace.thread(100, 101, AT + 100)
    worker.call("opencl:clBuildProgram", AT + 200, AT + 800, options="", ret=0)
    main_thread.call("occa:memory_free", AT + 900, AT + 910, error=0)
    main_thread.record("exit", AT + 1000, reason=0)
    found = answer(tmp_path, trace)
    assert found.path_ns == found.wall_ns == 1000


def test_commas_in_names_of_cpp_divide_no_changes() -> None:
    found = whatif.parse(["kernel:add<float, 2>*0.5, build*0,network*0,", "launch:f(int, rank)*2"])
    assert [(change.kind, change.name, change.factor) for change in found] == [
        ("kernel", "add<float, 2>", 0.5),
        ("build", None, 0.0),
        ("network", None, 0.0),
        ("launch", "f(int, rank)", 2.0),
    ]


@pytest.mark.parametrize(
    "text",
    [
        "kernel",
        "kernel:x*",
        "kernel:x*-1",
        "kernel:*0.5",
        "nosuch*0",
        "rank*0",
        "rank:x=mean",
        "network:x*0",
        "build*inf",
        "copy:x*nan",
        "wait:clFinish*0.5",
        "",
        " ",
        ",build*0",
        "build*0,,network*0",
    ],
)
def test_what_cannot_be_meant(text: str) -> None:
    with pytest.raises(RunError, match="--what-if"):
        whatif.parse([text])


@pytest.mark.parametrize(
    "text", ["kernel:nosuch*0", "rank:7*0", "copy*0", "wait:clFlush*0", "launch:nosuch*0", "network*0"]
)
def test_what_is_not_there(tmp_path: Path, text: str) -> None:
    with pytest.raises(RunError, match="no such"):
        answer(tmp_path, one_kernel(), text)


def test_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = recorded(tmp_path, one_kernel())
    assert main(["why", str(run), "--format", "json", "--what-if", "kernel:work*0.5"]) == 0
    content = json.loads(capsys.readouterr().out)
    assert (content["wall_ns"], content["path_ns"], content["predicted_ns"]) == (1000, 750, 750)
    assert set(content["rows"][0]) == {"kind", "name", "source", "rank", "time_ns", "share"}
    assert main(["why", str(run)]) == 0
    assert "work" in capsys.readouterr().out
    assert main(["why", str(run), "--what-if", "kernel:other*0"]) == 2
    error = capsys.readouterr().err
    assert "no such kernel; there are: work" in error and error.count("\n") == 1


def test_nothing_recorded(tmp_path: Path) -> None:
    with open_store(run_folder(tmp_path), model=MODEL, open_trace=FakeTrace().open) as store:
        assert critical.Run(store).graph is None
        assert not reports.make(store, "critical_path_sum").rows and not reports.make(store, "critical_path_trace").rows


def test_longest_path_by_brute_force() -> None:
    rng = np.random.default_rng(5)
    for _ in range(50):
        nodes, count = int(rng.integers(2, 9)), int(rng.integers(0, 20))
        ends = np.sort(rng.integers(0, nodes, (count, 2)), axis=1)
        ends = ends[ends[:, 0] < ends[:, 1]]
        weight = rng.integers(0, 100, len(ends)).astype(float)
        base = rng.integers(0, 50, nodes).astype(float)
        expected = base.copy()
        for node in range(nodes):
            into = [expected[a] + w for (a, b), w in zip(ends.tolist(), weight, strict=True) if b == node]
            expected[node] = max([base[node], *into])
        source, target = (ends[:, side].astype(np.uint32) for side in (0, 1))
        times, path = _native.longest_path(base, source, target, weight, nodes - 1)
        assert times.tolist() == expected.tolist()
        assert all(ends[path[i], 1] == ends[path[i + 1], 0] for i in range(len(path) - 1))
    with pytest.raises(ValueError, match="higher node"):
        _native.longest_path(np.zeros(2), np.array([1]), np.array([0]), np.zeros(1), 1)


def test_edges_in_the_order_of_their_targets_by_brute_force() -> None:
    rng = np.random.default_rng(6)
    for _ in range(50):
        nodes = int(rng.integers(1, 9))
        parts, later = (
            [
                (kind, *rng.integers(0, nodes, (2, int(rng.integers(0, 9)))).astype(np.uint32))
                for kind in range(first, first + int(rng.integers(0, 4)))
            ]
            for first in (0, 6)
        )
        along = rng.integers(0, nodes, int(rng.integers(0, 9))).astype(np.uint32)
        ends = np.unique(rng.integers(0, len(along) + 1, 3)).astype(np.uint32)
        chains = [along[low:high].tolist() for low, high in itertools.pairwise([0, *ends.tolist()])]
        every = [
            (t, s, kind)
            for kind, source, target in (*parts, *((5, chain[:-1], chain[1:]) for chain in chains), *later)
            for s, t in zip(map(int, source), map(int, target), strict=True)
        ]
        order = sorted((at for at, (t, s, _) in enumerate(every) if s < t), key=lambda at: every[at][0])
        source, target, kind = _native.sort_edges(nodes, parts, (5, along, ends), later)
        assert list(zip(target.tolist(), source.tolist(), kind.tolist(), strict=True)) == [every[at] for at in order]
    one, none = np.array([1], np.uint32), np.array([], np.uint32)
    with pytest.raises(ValueError, match="no node"):
        _native.sort_edges(1, [(0, one - one, one)], (5, none, none), [])
    with pytest.raises(ValueError, match="target"):
        _native.sort_edges(2, [], (5, none, none), [(0, one, none)])
    with pytest.raises(ValueError, match="behind the nodes"):
        _native.sort_edges(2, [], (5, none, one), [])


def test_outermost_spans_by_brute_force() -> None:
    """By thread and start; of those that begin together the longest, of equal ones the first. Spans of a thread may be in order,
    and they may overlap."""
    rng = np.random.default_rng(7)
    for turn in range(60):
        thread = rng.integers(0, 4, int(rng.integers(0, 30))).astype(np.int32)
        start = rng.integers(0, 60, len(thread))
        if turn % 3 == 0:
            start.sort()
        end = start + rng.integers(1, 20, len(thread))
        label = np.arange(len(thread), dtype=np.int32)
        expected, until = [], dict.fromkeys(range(4), -1)
        for one, s, e, number in sorted(zip(*(c.tolist() for c in (thread, start, -end, label)), strict=True)):
            if s >= until[one]:
                expected.append((one, s, -e, number))
            until[one] = max(until[one], -e)
        found = _native.outermost(thread, start, end, label)
        assert list(zip(*(column.tolist() for column in found), strict=True)) == expected
    with pytest.raises(ValueError, match="negative"):
        _native.outermost(np.array([-1], np.int32), np.zeros(1, np.int64), np.ones(1, np.int64), np.zeros(1, np.int32))


def test_rows_by_group() -> None:
    group = np.array([2, -1, 0, 2, 0, -1], np.int32)
    assert _native.grouped(group).tolist() == [2, 4, 0, 3]
    assert not len(_native.grouped(np.array([-1], np.int32))) and not len(_native.grouped(np.array([], np.int32)))


def repeated(launches: int, queues: int = 2, wait: int = 4) -> FakeTrace:
    """Kernels in turn in several queues, each launched while the one before runs; after every `wait` launches one waits."""
    trace = FakeTrace()
    t = begin(trace)
    for at in range(launches):
        start = 100 * at
        launch(t, start + 10, start + 60 + at % 3, start + 150, f"k{at % 3}", queue=1 + at % queues)
        if at % wait == wait - 1:
            t.call("opencl:clFinish", AT + start + 20, AT + start + 155, command_queue=1, ret=0)
    t.record("exit", AT + 100 * launches + 500, reason=0)
    return trace


@pytest.mark.parametrize("trace", [one_kernel, two_queues, in_order, lambda: repeated(50)])
def test_the_recorded_path_is_that_of_its_weights(tmp_path: Path, trace: Any) -> None:
    with open_store(run_folder(tmp_path), model=MODEL, open_trace=trace().open) as store:
        g = critical.Run(store).graph
        assert g is not None
        every = np.arange(len(g.kind))
        times, path = _native.longest_path(g.base, g.source, g.target, g.lags(every) + g.works(every), g.end)
        assert times.tolist() == g.time.tolist()
        assert path.tolist() == _native.decided_path(g.source, g.target, g.decides, g.end).tolist()


def test_the_answer_does_not_depend_on_how_much_is_read_at_a_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def answers(store: Store) -> list[critical.Answer]:
        return [critical.Run(store).answer(whatif.parse(words)) for words in ([], ["kernel*0.5"])]

    with open_store(run_folder(tmp_path), model=MODEL, open_trace=repeated(60, queues=3).open) as store:
        whole = answers(store)
        monkeypatch.setattr(critical.graph, "AT_ONCE", 7)
        monkeypatch.setattr(critical, "_AT_ONCE", 7)
        monkeypatch.setattr(critical.called, "AT_ONCE", 7)
        monkeypatch.setattr(critical.labels, "_AT_ONCE", 7)
        assert len(critical.graph._slices(store)) > 3
        assert answers(store) == whole


@pytest.mark.parametrize("at_once", [1, 2, 3, 100])
def test_outermost_calls_by_parts(at_once: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A call that encloses those of later parts hides them."""
    trace = FakeTrace()
    t = begin(trace)
    t.call("opencl:clBuildProgram", AT + 100, AT + 500, options="", ret=0)
    for at in (120, 220, 320, 420, 520, 620, 720):
        t.call("opencl:clFinish", AT + at, AT + at + 30, command_queue=1, ret=0)
    t.record("exit", AT + 1000, reason=0)
    monkeypatch.setattr(critical.labels, "_AT_ONCE", at_once)
    with open_store(run_folder(tmp_path), model=MODEL, open_trace=trace.open) as store:
        known = critical.labels.Labels()
        ((thread,),) = store.con.execute("SELECT thread FROM threads").fetchall()
        spans = critical.labels.calls(store, known, AT, [thread])[thread]
    assert [*zip(spans.start.tolist(), spans.end.tolist(), strict=True)] == [
        (100, 500),
        (520, 550),
        (620, 650),
        (720, 750),
    ]
    assert [known.all[number].name for number in spans.label] == ["clBuildProgram", *["clFinish"] * 3]


def test_work_that_ends_at_one_moment_has_an_order(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    trace = FakeTrace()
    for pid in (100, 200, 300):
        t = begin(trace, pid)
        for at in range(5):
            launch(t, 100 * at + 10, 100 * at + 20, 100 * at + 90, f"k{pid}")
        t.record("exit", AT + 700, reason=0)
    with open_store(run_folder(tmp_path), model=MODEL, open_trace=trace.open) as store:
        first = critical.Run(store).graph
        # Rows in another order, as DuckDB's threads may give them.
        numbers = building.numbers_of
        monkeypatch.setattr(
            critical.graph, "numbers_of", lambda *words: {n: c[::-1] for n, c in numbers(*words).items()}
        )
        monkeypatch.setattr(critical.graph, "AT_ONCE", 2)  # less than end at one moment
        work = critical.graph._work(store, first.zero) if first else {}
        assert first
        every = slice(None)
        known = first.activities | {"s": first.starts(every), "launched": first.launched(every)}
        assert all(work[name].tolist() == known[name].tolist() for name in work.keys() - {"unordered"})


def test_the_graph_is_small(tmp_path: Path) -> None:
    launches = 4000
    with open_store(run_folder(tmp_path), model=MODEL, open_trace=repeated(launches, queues=1, wait=64).open) as store:
        g = critical.Run(store).graph
        assert g is not None and len(g.activities["e"]) == launches
        columns = [*vars(g).values(), *g.activities.values()]
        held = sum(c.nbytes for c in columns if isinstance(c, np.ndarray) and c.strides != (0,))
    # 5 million launches are 0.5 GB at 100 bytes.
    assert held < 100 * launches


def test_messages_are_arrays(tmp_path: Path) -> None:
    """Each of two ranks sends to the other one and receives, again and again; the tags alternate."""
    rounds = 2000
    trace = FakeTrace()
    for rank in (0, 1):
        t = fake.fake_rank(trace, rank, 2, AT)
        for at in range(AT + 1000, AT + 1000 + 100 * rounds, 100):
            tag = (at // 100) % 3
            fake.mpi(t, "MPI_Send", at + 10 * rank, at + 10 * rank + 5, partner=1 - rank, tag=tag, bytes=8, count=1)
            fake.mpi(t, "MPI_Recv", at + 30, at + 60 + rank, partner=1 - rank, tag=tag, bytes=8, count=1)
        t.record("exit", AT + 2000 + 100 * rounds, reason=0)
    with open_store(run_folder(tmp_path), model=MODEL, open_trace=trace.open) as store:
        functions = store.functions()
        tracemalloc.start()
        calls = mpi.nodes(store, building.Builder(), AT, functions)["calls"]
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
    sent, got = calls["sent"]
    assert len(sent) == 2 * rounds and calls["unmatched"] == 0
    # The n-th send of a rank was received by the n-th receive of the other one.
    assert set((calls["s"][got] - calls["s"][sent]).tolist()) == {20, 30}
    assert set((calls["thread"][got] - calls["thread"][sent]).tolist()) == {1, -1}
    # 4 million messages and 5 million calls are 1 GB at 220 bytes of each.
    assert peak < 220 * 8 * rounds
