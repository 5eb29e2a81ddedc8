"""The table of allocations: handles that are used again, ends that were not seen, parts, several frees in one call."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from occatrace import reports
from occatrace.store.tables import open_store
from tests.support.fake import MODEL, FakeThread, FakeTrace, run_folder

LATER, BY_RELEASE = 0, 1


def allocations(trace: FakeTrace, folder: Path, columns: str) -> list[tuple[Any, ...]]:
    with open_store(run_folder(folder), model=MODEL, open_trace=trace.open) as store:
        return store.con.execute(f"SELECT {columns} FROM allocations ORDER BY start_ns, handle").fetchall()


def create(thread: FakeThread, at: int, handle: int, size: int, **more: int) -> int:
    return thread.call("opencl:clCreateBuffer", at, at + 10, flags=1, size=size, buffer=handle, **{"ret": 0} | more)


def released(thread: FakeThread, at: int, handle: int, by: int = BY_RELEASE) -> None:
    thread.event("occatrace_opencl:memory_released", at, memobj=handle, by=by)


def test_a_handle_that_is_used_again(tmp_path: Path) -> None:
    """Allocated in one thread, freed in another, and again at once at the same address; every batch holds one event."""
    trace = FakeTrace(batch_rows=1)
    one = trace.process(1)
    two = trace.thread(1, 2)
    for at, size in ((100, 10), (200, 20), (300, 30)):
        create(one, at, 7, size)
        released(two, at + 50, 7, BY_RELEASE if size < 30 else LATER)
    one.record("exit", 1000, reason=0)
    rows = allocations(trace, tmp_path, "bytes, start_ns, end_ns, free_function, thread != free_thread, call_ns")
    assert rows == [
        (10, 110, 150, "clReleaseMemObject", True, 10),
        (20, 210, 250, "clReleaseMemObject", True, 10),
        (30, 310, 350, "later", True, 10),
    ]


def test_an_end_that_was_not_seen(tmp_path: Path) -> None:
    """The address was given out again, so it was free by then; what was freed twice or never allocated is nothing."""
    trace = FakeTrace()
    t = trace.process(1)
    released(t, 50, 7)
    create(t, 100, 7, 10)
    create(t, 200, 7, 20)
    released(t, 300, 7)
    released(t, 400, 7)
    create(t, 500, 8, 30)
    create(t, 600, 9, 40, ret=-30)
    t.record("exit", 1000, reason=0)
    rows = allocations(trace, tmp_path, "bytes, end_ns, free_function")
    assert rows == [(10, 200, None), (20, 300, "clReleaseMemObject"), (30, None, None)]


def test_processes_and_apis_have_handles_of_their_own(tmp_path: Path) -> None:
    trace = FakeTrace()
    for pid in (1, 2):
        t = trace.process(pid)
        create(t, 100 * pid, 7, pid)
        t.call("occa:device_malloc", 100 * pid, 100 * pid + 20, handle=7, bytes=pid, mode=0, error=0)
        if pid == 2:
            released(t, 900, 7)
        t.record("exit", 1000, reason=0)
    rows = allocations(trace, tmp_path, "api, bytes, end_ns")
    assert rows == [("opencl", 1, None), ("occa", 1, None), ("opencl", 2, 900), ("occa", 2, None)]


def test_parts_and_several_frees_in_one_call(tmp_path: Path) -> None:
    """A part knows its parent; SVM is freed by arrays, but not where the program gives a function of its own."""
    trace = FakeTrace()
    t = trace.process(1)
    for handle in (1, 2, 3):
        create(t, 100 * handle, handle, handle)
    t.call("opencl:clCreateSubBuffer", 350, 360, buffer=3, size=2, part=30, ret=0)
    t.call("opencl:clEnqueueSVMFree", 400, 410, svm_pointers=[1, 2], pfn_free_func=0, ret=0)
    t.call("opencl:clEnqueueSVMFree", 500, 510, svm_pointers=[], pfn_free_func=0, ret=0)
    t.call("opencl:clEnqueueSVMFree", 600, 610, svm_pointers=[3], pfn_free_func=99, ret=0)
    t.call("opencl:clEnqueueSVMFree", 700, 710, svm_pointers=[3], pfn_free_func=0, ret=-30)
    t.record("exit", 1000, reason=0)
    rows = allocations(trace, tmp_path, "handle, kind, parent, end_ns, free_function")
    assert rows == [
        (1, "device", None, 400, "clEnqueueSVMFree"),
        (2, "device", None, 400, "clEnqueueSVMFree"),
        (3, "device", None, None, None),
        (30, "slice", 3, None, None),
    ]


@pytest.mark.parametrize(
    ("made", "freed", "said"),
    [
        (2, 2, "everything was freed (2 allocations)"),
        (0, 0, "no allocation was recorded (at the level tally calls leave no events)"),
    ],
)
def test_nothing_left_says_why(made: int, freed: int, said: str, tmp_path: Path) -> None:
    trace = FakeTrace()
    t = trace.process(1)
    for number in range(made):
        create(t, 100 + number * 20, 7 + number, 10)
    for number in range(freed):
        released(t, 300 + number * 20, 7 + number)
    t.record("exit", 1000, reason=0)
    with open_store(run_folder(tmp_path), model=MODEL, open_trace=trace.open) as store:
        leaks = reports.make(store, "mem_leaks")
        assert (list(leaks.rows), leaks.definition.empty) == ([], said)


def test_frees_that_were_left_out_are_told_of(tmp_path: Path) -> None:
    trace = FakeTrace()
    t = trace.process(1)
    create(t, 100, 7, 10)
    t.record("exit", 1000, reason=0)
    with open_store(run_folder(tmp_path), model=MODEL, open_trace=trace.open) as store:
        leaks = reports.make(store, "mem_leaks")
        assert (len(leaks.rows), list(leaks.notes)) == (1, [])
        store.con.execute(
            "CREATE TEMP TABLE excluded AS SELECT 1 AS process, reason, '' AS name, n AS count"
            " FROM (VALUES ('function', 1500), ('kernel', 7)) v(reason, n)"
        )
        said = "1,500 calls left out by --functions or --exclude-functions: memory that these freed seems never to be freed"
        for name in reports.OF_FREES:
            assert list(reports.make(store, name).notes) == [said]
        assert list(reports.make(store, "api_sum").notes) == []
