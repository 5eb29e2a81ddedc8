"""The critical path in the timeline, as Perfetto's trace processor reads it."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("duckdb")
pytest.importorskip("wasmtime")
pytest.importorskip("perfetto")

from occatrace import reports
from occatrace.store.tables import open_store
from occatrace.views import timeline
from tests.support.fake import MODEL, FakeTrace, demo_trace, fake_rank, mpi, run_folder
from tests.support.timelines import REALTIME, perfetto, span, write

AT = 1_000_000
PIECES = """
SELECT s.ts, s.dur, s.name, s.category, s.depth, p.pid
FROM slice s JOIN process_track t ON t.id = s.track_id JOIN process p USING (upid)
WHERE t.name = '! critical path' ORDER BY s.ts
"""
ARROWS = """
SELECT a.name AS source, pa.pid AS source_pid, b.name AS target, pb.pid AS target_pid, a.ts + a.dur <= b.ts AS forward FROM flow
JOIN slice a ON a.id = slice_out JOIN slice b ON b.id = slice_in
JOIN process_track ta ON ta.id = a.track_id JOIN process pa ON pa.upid = ta.upid
JOIN process_track tb ON tb.id = b.track_id JOIN process pb ON pb.upid = tb.upid
WHERE ta.name = '! critical path' AND tb.name = '! critical path' ORDER BY a.ts
"""


def two_ranks() -> FakeTrace:
    """Rank 1 keeps rank 0 waiting at a barrier until 790; what rank 0 does after it ends last."""
    trace = FakeTrace()
    t = fake_rank(trace, 0, 2, AT)
    mpi(t, "MPI_Barrier", AT + 300, AT + 800)
    mpi(t, "MPI_Barrier", AT + 1200, AT + 1210)
    t.record("exit", AT + 1300, reason=0)
    t = fake_rank(trace, 1, 2, AT)
    mpi(t, "MPI_Barrier", AT + 790, AT + 800)
    mpi(t, "MPI_Barrier", AT + 900, AT + 1210)
    t.record("exit", AT + 1220, reason=0)
    return trace


def test_track_and_arrows(tmp_path: Path) -> None:
    file = write(tmp_path, two_ranks(), timeline.Options(critical_path=True))
    with open_store(tmp_path / "run", model=MODEL) as store:
        (zero,) = store.con.execute("SELECT run_zero()::BIGINT").fetchall()[0]
        told = reports.make(store, "critical_path_trace").rows
    known = []
    for start, ns, kind, name, _, rank in told:
        until = start + ns
        if until > 0:
            known.append((max(start, 0) + zero, until - max(start, 0), name or kind, kind, 100 + rank))
    found = perfetto(file, PIECES)
    assert [(r.ts - REALTIME, r.dur, r.name, r.category, r.pid) for r in found] == known
    assert {r.depth for r in found} == {0} and {r.pid for r in found} == {100, 101}
    arrows = perfetto(file, ARROWS)
    pids = [row[4] for row in known]
    crossings = [(pids[n], pids[n + 1]) for n in range(len(pids) - 1) if pids[n] != pids[n + 1]]
    assert crossings == [(101, 100)]
    assert [(a.source_pid, a.target_pid, bool(a.forward)) for a in arrows] == [(101, 100, True)]


def test_only_where_it_is_asked_for(tmp_path: Path) -> None:
    assert perfetto(write(tmp_path, two_ranks()), PIECES) == []


def test_a_part_of_it(tmp_path: Path) -> None:
    """The filters of slices hold for it."""
    trace = two_ranks()
    long = perfetto(write(tmp_path / "a", trace, timeline.Options(critical_path=True, min_duration=100)), PIECES)
    assert long and all(r.dur >= 100 for r in long)
    early = perfetto(write(tmp_path / "b", trace, timeline.Options(span(0, 200), critical_path=True)), PIECES)
    assert early and {r.pid for r in early} == {101}
    of_rank = perfetto(write(tmp_path / "c", trace, timeline.Options(ranks=(0,), critical_path=True)), PIECES)
    assert {r.pid for r in of_rank} == {100}


def test_one_process_has_no_arrows(tmp_path: Path) -> None:
    file = write(tmp_path, demo_trace(), timeline.Options(critical_path=True))
    assert len(perfetto(file, PIECES)) > 20 and perfetto(file, ARROWS) == []


@pytest.mark.parametrize(("form", "name"), [("csv", "x.csv"), ("json", "x.json")])
def test_as_text(tmp_path: Path, form: timeline.Format, name: str) -> None:
    file = write(tmp_path, two_ranks(), timeline.Options(critical_path=True), name, form)
    assert file.read_text(encoding="utf-8").count("critical path") >= 2


def test_nothing_recorded(tmp_path: Path) -> None:
    with open_store(run_folder(tmp_path), model=MODEL, open_trace=FakeTrace().open) as store:
        written = timeline.write(store, tmp_path / "x.pftrace", timeline.Options(critical_path=True))
    assert written.slices == 0 and "no critical path" in written.note
