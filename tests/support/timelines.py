"""Timelines of fake traces, and what Perfetto reads in them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

from occatrace.core.units import Moment, Range
from occatrace.store.tables import open_store
from occatrace.views import timeline
from tests.support.fake import MODEL, FakeTrace, run_folder
from tests.support.trace_processor import load

REALTIME = 10**18  # of the fake traces, minus their monotonic clock

Slice = tuple[int, int, str, str]  # start (monotonic), duration, name, track

SLICES = """
SELECT s.ts, s.dur, s.name, coalesce(th.name, t.name) AS track
FROM slice s JOIN track t ON t.id = s.track_id LEFT JOIN thread_track tt ON tt.id = t.id LEFT JOIN thread th USING (utid)
"""
FLOWS = """
SELECT a.name AS source, a.ts AS start, b.name AS target, b.ts AS begin FROM flow
JOIN slice a ON a.id = slice_out JOIN slice b ON b.id = slice_in
"""
VALUES = """
SELECT c.ts, c.value, t.name, t.unit FROM counter c JOIN counter_track t ON t.id = c.track_id ORDER BY t.name, ts
"""


def span(begin: int | None, end: int | None) -> Range:
    """A part of a run, in ns since its first call."""
    return Range(None if begin is None else Moment(begin), None if end is None else Moment(end))


def write(
    folder: Path,
    trace: FakeTrace,
    options: timeline.Options | None = None,
    name: str = "x.pftrace",
    form: timeline.Format = "perfetto",
    prepare: Callable[[Any], object] = lambda con: None,
) -> Path:
    """The timeline of a fake trace; `prepare` may change its tables."""
    folder.mkdir(exist_ok=True)
    with open_store(run_folder(folder), model=MODEL, open_trace=trace.open) as store:
        prepare(store.con)
        timeline.write(store, folder / name, options or timeline.Options(), format=form)
    return folder / name


def perfetto(path: Path, sql: str) -> list[Any]:
    """Rows, from a file that Perfetto reads without complaint."""
    with load(path) as tp:
        errors = list(tp.query("SELECT name, value FROM stats WHERE severity <> 'info' AND value > 0"))
        assert [(e.name, e.value) for e in errors] == []
        return list(tp.query(sql))


def slices(path: Path) -> Counter[Slice]:
    """All but problems."""
    found = perfetto(path, SLICES)
    return Counter((r.ts - REALTIME, r.dur, r.name, r.track) for r in found if r.track != "! problems")
