"""The listing of single calls: order, nesting, names of enumerations and bits, failures, calls that never returned."""

from __future__ import annotations

import copy
from pathlib import Path

import numpy as np
import pytest

from occatrace import _native
from occatrace.core.checked import printable
from occatrace.core.model import from_json
from occatrace.store.tables import open_store
from occatrace.views import listing
from occatrace.views.listing import Line, lines
from tests.support.fake import MODEL, MODEL_JSON, SCHEMA, FakeTrace, demo_trace, run_folder


def listed(tmp_path: Path, trace: FakeTrace) -> list[Line]:
    with open_store(run_folder(tmp_path), model=MODEL, open_trace=trace.open) as store:
        return list(lines(store))


def test_demo(tmp_path: Path) -> None:
    found = listed(tmp_path, demo_trace())
    assert len(found) == 50 and [x.start_ns for x in found] == sorted(x.start_ns for x in found)
    assert found[0].text == 'occa::kernel::run(kernel="addVectors", launches=2)' and found[0].depth == 0
    assert found[1].text == "clEnqueueNDRangeKernel(global=[64, 2]) = CL_SUCCESS" and found[1].depth == 1
    texts = [x.text for x in found]
    assert "clCreateBuffer(flags=CL_MEM_READ_WRITE|CL_MEM_COPY_HOST_PTR, size=4096, buffer=0) = CL_SUCCESS" in texts
    assert "clFinish(command_queue=0x20) = CL_INVALID_COMMAND_QUEUE FAILED CL_INVALID_COMMAND_QUEUE" in texts
    copy = 'occa::memory::copyFrom(handle=0x1, bytes=1048576, kind=HtoD, mode="Serial")'
    assert texts.count(copy) == 3 and texts.count(f"{copy} FAILED out of bounds") == 1
    assert "clBuildProgram(options=\"-cl-std=CL3.0 'x'\n\") = CL_SUCCESS" in texts
    assert found[-1].text == "clFinish(…) never returned" and found[-1].duration_ns is None


def test_what_occatrace_adds_is_no_argument(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The number of the OCCA call around an allocation is for reports; OpenCL's function has no such argument."""
    event = "occatrace_opencl:clCreateBuffer"
    content = copy.deepcopy(dict(MODEL_JSON))
    function = content["apis"]["opencl"]["functions"]["clCreateBuffer"]
    function["args"].append({**function["args"][1], "name": "scope", "column": "u32"})
    function["allocates"]["scope"] = "scope"
    monkeypatch.setitem(SCHEMA, event, {**SCHEMA[event], "scope": "u32"})
    trace = FakeTrace()
    trace.process(100).call("opencl:clCreateBuffer", 1000, 1010, flags=1, size=64, ret=0, scope=72)
    with open_store(run_folder(tmp_path), model=from_json(content), open_trace=trace.open) as store:
        (line,) = lines(store)
        assert line.text == "clCreateBuffer(flags=CL_MEM_READ_WRITE, size=64, buffer=0) = CL_SUCCESS"
        assert store.con.execute('SELECT args.scope FROM "opencl.clCreateBuffer"').fetchall() == [(72,)]


@pytest.mark.parametrize("zero", (None, 0))
@pytest.mark.parametrize("nesting", (True, False))
def test_lines_of_text(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, zero: int | None, nesting: bool) -> None:
    """The text has what the rows have, however it is cut: also what never returned, and text that is not plain."""
    monkeypatch.setattr(listing, "_AT_ONCE", 7)
    trace = demo_trace()
    trace.process(7).call(
        "opencl:clBuildProgram", 12_345_678_901_234, 12_345_678_901_239, options="naïve\u2028é", ret=0
    )
    with open_store(run_folder(tmp_path), model=MODEL, open_trace=trace.open) as store:
        rows = list(lines(store))
        plain, placed = (
            "".join(listing.text(store, zero, nesting, place, printable)) for place in (None, lambda at: f"<{at}>")
        )
    begin = rows[0].start_ns if zero is None else zero
    expected = []
    for row in rows:
        at = row.start_ns - begin
        took = "          …" if row.duration_ns is None else f"{row.duration_ns:11}"
        thread = f"{row.pid}:{row.tid}"
        head = f"{at // 10**9:6}.{at % 10**9:09} {took} ns {thread:>15}  "
        expected.append((head, "  " * row.depth * nesting + printable(row.text) + "\n"))
    assert plain == "".join(head + text for head, text in expected)
    assert placed == "".join(f"{head}<{row.place}>  {text}" for row, (head, text) in zip(rows, expected, strict=True))
    assert "…" in plain and "\\u2028é" in plain


def test_lines_of_columns_that_do_not_fit() -> None:
    times, heads = np.zeros(1, np.uint64), np.zeros(1, np.uint32)
    for head, texts in ((heads, []), (heads + np.uint32(1), ["x"]), (np.zeros(2, np.uint32), ["x"]), (heads, [7])):
        with pytest.raises(ValueError):
            _native.call_lines(times, times, head, ["1:1"], None, texts, None, printable)  # type: ignore[arg-type]


def test_windows_change_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """However much of the run is read at a time: order, nesting, and what lies behind a pause."""
    trace = demo_trace()
    far = trace.process(7)
    for start in (10**12, 10**12 + 1, 10**15):
        far.call("opencl:clFinish", start, start + 5, command_queue=1, ret=0)
    whole = listed(tmp_path / "1", trace)
    monkeypatch.setattr(listing, "_FEW", 1)
    monkeypatch.setattr(listing, "_MANY", 3)
    assert listed(tmp_path / "2", trace) == whole and len(whole) == 53


def test_the_first_lines_do_not_wait_for_the_last(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(listing, "_FEW", 1)
    monkeypatch.setattr(listing, "_MANY", 1)
    with open_store(run_folder(tmp_path), model=MODEL, open_trace=demo_trace().open) as store:
        found = lines(store)
        first = next(found)
        store.con.execute("DELETE FROM threads")  # what is read now is not listed any more
        assert first.depth == 0 and len(list(found)) < 10


def test_odd_values(tmp_path: Path) -> None:
    trace = FakeTrace()
    t = trace.process(1)
    t.call("opencl:clCreateBuffer", 10, 11, flags=0, size=1, ret=-30)
    t.call("opencl:clCreateBuffer", 20, 21, flags=1 | 1 << 40, size=1 << 63, ret=-12345)
    t.call("opencl:clEnqueueNDRangeKernel", 30, 31, **{"global": []}, ret=0)
    t.call("opencl:clBuildProgram", 40, 41, options='a "b" \\', ret=0)
    assert [x.text for x in listed(tmp_path, trace)] == [
        "clCreateBuffer(flags=0, size=1, buffer=0) = CL_INVALID_VALUE FAILED CL_INVALID_VALUE",
        f"clCreateBuffer(flags=CL_MEM_READ_WRITE|0x10000000000, size={1 << 63}, buffer=0) = -12345 FAILED -12345",
        "clEnqueueNDRangeKernel(global=[]) = CL_SUCCESS",
        'clBuildProgram(options="a \\"b\\" \\\\") = CL_SUCCESS',
    ]
