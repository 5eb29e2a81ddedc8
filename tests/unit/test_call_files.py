"""Files of single calls: a window of time is read from those that have calls in it, and the timeline is the same."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from occatrace.core.duck import duckdb
from occatrace.store import call_files
from occatrace.store.tables import open_store
from occatrace.views import timeline
from tests.support.fake import MODEL, FakeTrace, run_folder


def write(folder: Path, view: str, *files: list[int]) -> None:
    """Files of calls that begin then."""
    (folder / view).mkdir(parents=True)
    for number, starts in enumerate(files):
        rows = f"SELECT unnest({starts})::UBIGINT AS start_ns, 1::UINTEGER AS thread"
        duckdb.connect().execute(f"COPY ({rows}) TO '{folder / view}/{number:04}.parquet' (FORMAT parquet)")


@pytest.mark.parametrize(
    ("begin", "end", "numbers"),
    [(None, 11, [0]), (20, 30, [0, 1]), (21, None, [1, 2]), (100, 101, [2]), (101, None, [0]), (31, 40, [0])],
)
def test_files_of_a_window(tmp_path: Path, begin: int | None, end: int | None, numbers: list[int]) -> None:
    """The end is not part of a window. Where no file has calls, one is read that has none of these."""
    write(tmp_path, "mpi.several", [10, 20], [20, 30], [40, 100])
    write(tmp_path, "mpi.one", [10])
    found = call_files.find(duckdb.connect(), tmp_path)
    names = ", ".join(f"'{tmp_path}/mpi.several/{number:04}.parquet'" for number in numbers)
    assert found.rows("mpi.several", begin, end) == f"read_parquet([{names}])"
    assert found.rows("mpi.one", begin, end) == '"mpi.one"'
    assert found.rows("mpi.several", None, None) == '"mpi.several"'


def calls() -> FakeTrace:
    """Calls of two functions, some within others, that fail now and then."""
    source = random.Random(5)
    trace = FakeTrace()
    thread = trace.process(100)
    at = 1000
    for _ in range(200):
        outer = thread.take()
        begin, at = at, at + source.randrange(3)
        for _ in range(source.randrange(3)):
            thread.call("opencl:clCreateBuffer", at, at + 1, ret=source.choice((0, -36)))
            at += source.randrange(1, 4)
        thread.call("opencl:clFinish", begin, at, outer, ret=0)
        at += 1
    return trace


def test_a_timeline_opens_few_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of each function there are files of ten calls; windows of forty slices read a few of them each."""
    monkeypatch.setattr("occatrace.views.timeline.selection.WINDOW_ROWS", 40)
    monkeypatch.setattr("occatrace.views.timeline.selection.BUCKETS", 64)
    opened: list[int] = []
    real = call_files.CallFiles.rows

    def rows(self: call_files.CallFiles, view: str, begin: int | None, end: int | None) -> str:
        sql = real(self, view, begin, end)
        opened.append(sql.count(".parquet"))
        return sql

    monkeypatch.setattr(call_files.CallFiles, "rows", rows)
    written = []
    trace = calls()
    with open_store(run_folder(tmp_path), model=MODEL, open_trace=trace.open) as store:
        for name in ("whole.csv", "parts.csv"):
            if name == "parts.csv":
                for view in store.functions():
                    (whole,) = (store.path / "calls" / view).glob("*.parquet")
                    count = store.con.execute(f"SELECT count(*) FROM '{whole}'").fetchall()[0][0]
                    for number in range((count + 9) // 10):
                        part = whole.with_name(f"1{number:03}.parquet")
                        some = f"FROM '{whole}' ORDER BY start_ns LIMIT 10 OFFSET {10 * number}"
                        store.con.execute(f"COPY ({some}) TO '{part}' (FORMAT parquet)")
                    whole.unlink()
                opened.clear()
            timeline.write(store, tmp_path / name, format="csv")
            written.append((tmp_path / name).read_text(encoding="utf-8"))
    assert written[0] == written[1] and written[0].count("\n") > 350
    assert len(opened) > 20 and max(opened) <= 10  # of forty: those that failed are far apart
