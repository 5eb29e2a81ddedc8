"""The encoder on its own: whatever overlaps, the official schema and Perfetto read the slices that were written."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("perfetto")
pytest.importorskip("wasmtime")

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from occatrace import _native
from occatrace.views.timeline.text import Texts
from tests.support.perfetto_check import check
from tests.support.trace_processor import load

ORIGIN, REALTIME = 1_000_000, 1_700_000_000_000_000_000
PROCESS = 1

Row = tuple[int, int, str]  # start, duration, name

# Small times, so that many are equal; many durations of zero; names of every kind that text has.
times = st.integers(0, 40)
durations = st.one_of(st.just(0), st.integers(0, 40), st.integers(0, 2**40))
names = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=12)
tracks = st.lists(
    st.tuples(st.booleans(), st.lists(st.tuples(times, durations, names), max_size=25)), min_size=1, max_size=4
)


def write(path: Path, given_tracks: list[tuple[bool, list[Row]]], cut: int = 1 << 30, gzip: bool = False) -> list[int]:
    """Tracks "0", "1", …, in batches of `cut` rows. How many lanes each took."""
    timeline = _native.Timeline(str(path), ORIGIN, REALTIME, gzip=gzip)
    timeline.process(PROCESS, 4711, "app", [], [])
    category = timeline.string("test")
    lanes = []
    for number, (nested, rows) in enumerate(given_tracks):
        lane = timeline.lanes(10 + number, PROCESS, str(number), number, nested=nested)
        lanes.append(lane)
        ordered = sorted(rows, key=lambda row: (row[0], -row[1]))
        for at in range(0, len(ordered), cut):
            part = ordered[at : at + cut]
            start = np.array([ORIGIN + row[0] for row in part], np.uint64)
            end = start + np.array([row[1] for row in part], np.uint64)
            numbers = np.array([timeline.string(row[2]) for row in part], np.uint32)
            lane.add(start, end, numbers, np.full(len(part), category, np.uint32))
    for lane in lanes:
        lane.finish()
    timeline.close()
    return [lane.count for lane in lanes]


def expected(given_tracks: list[tuple[bool, list[Row]]]) -> Counter[tuple[int, int, str, str]]:
    return Counter((*row, str(number)) for number, (_, rows) in enumerate(given_tracks) for row in rows)


@settings(deadline=None, max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(tracks, st.integers(1, 30), st.booleans())
def test_schema_gives_back_what_was_written(
    tmp_path: Path, given_tracks: list[tuple[bool, list[Row]]], cut: int, gzip: bool
) -> None:
    path = tmp_path / "x.pftrace"
    write(path, given_tracks, cut, gzip)
    content = check(path)
    assert content.problems == []
    found = Counter((s.start - REALTIME, s.duration, s.name, content.name(s.track)) for s in content.slices)
    assert found == expected(given_tracks)


@settings(deadline=None, max_examples=15, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(tracks)
def test_trace_processor_gives_back_what_was_written(
    tmp_path: Path, given_tracks: list[tuple[bool, list[Row]]]
) -> None:
    # Perfetto's own texts end at a zero byte.
    given_tracks = [(n, [(s, d, name.replace("\0", "0")) for s, d, name in rows]) for n, rows in given_tracks]
    path = tmp_path / "x.pftrace"
    write(path, given_tracks)
    assert perfetto_slices(path) == expected(given_tracks)


def perfetto_slices(path: Path) -> Counter[tuple[int, int, str, str]]:
    with load(path) as tp:
        errors = list(tp.query("SELECT name, value FROM stats WHERE severity <> 'info' AND value > 0"))
        assert [(e.name, e.value) for e in errors] == []
        rows = tp.query("SELECT s.ts, s.dur, s.name, t.name AS track FROM slice s JOIN track t ON t.id = s.track_id")
        return Counter((row.ts - REALTIME, row.dur, row.name, row.track) for row in rows)


def test_lanes() -> None:
    """What excludes each other takes one lane, what overlaps no more than it needs."""
    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "x"
        in_order = [(10 * i, 10, "a") for i in range(100)]
        three_at_a_time = [(10 * i, 30, "a") for i in range(100)]
        nested = [(0, 100, "a"), (0, 100, "b"), (5, 10, "c"), (5, 5, "d"), (10, 5, "e"), (100, 0, "f")]
        crossing = [(0, 10, "a"), (5, 10, "b")]
        cases = [(False, in_order), (False, three_at_a_time), (True, nested), (True, crossing), (False, nested)]
        assert write(path, cases) == [1, 3, 1, 2, 4]


def test_arguments_counters_and_flows(tmp_path: Path) -> None:
    path = tmp_path / "x.pftrace"
    timeline = _native.Timeline(str(path), ORIGIN, REALTIME)
    timeline.process(PROCESS, 4711, "app", ["app", "-x"], ["host here"])
    timeline.thread(2, 4711, 4712, "worker")
    names = np.array([timeline.string(text) for text in ("launch", "copy")], np.uint32)
    category = np.full(2, timeline.string("call"), np.uint32)
    texts = np.array([timeline.string(text) for text in ("8 × 1", "4 × 2")], np.uint32)
    present = np.array([True, False])
    arguments: list[Any] = [
        (timeline.string("bytes"), "uint", np.array([2**63 + 5, 0], np.uint64), present),
        (timeline.string("delta"), "int", np.array([-3, -(2**62)]), None),
        (timeline.string("GB/s"), "float", np.array([1.5, 0.0]), present),
        (timeline.string("address"), "pointer", np.array([0xDEAD, 1], np.uint64), None),
        (timeline.string("block"), "text", texts, None),
    ]
    start = np.array([ORIGIN + 10, ORIGIN + 20], np.uint64)
    flows = (np.array([0, 2, 2], np.uint32), np.array([2**64 - 1, 7], np.uint64))
    calls = timeline.lanes(2, PROCESS, "worker", 0, nested=True, announced=True)
    calls.add(start, start + np.uint64(5), names, category, flows, arguments)
    work = timeline.lanes(3, PROCESS, "queue", 1, nested=False)
    ends = (np.array([0, 1, 2], np.uint32), np.array([2**64 - 1, 7], np.uint64))
    work.add(start + np.uint64(100), start + np.uint64(105), names, category, ends)
    counter = timeline.counter(4, PROCESS, "memory", 2, "bytes")
    counter.add(np.array([ORIGIN, ORIGIN + 9], np.uint64), np.array([-5, 2**62]))
    timeline.counter(5, PROCESS, "busy", 3, "%").add(np.array([ORIGIN + 3], np.uint64), np.array([0.25]))
    calls.finish()
    work.finish()
    timeline.close()
    assert (timeline.slices, timeline.counter_values, timeline.bytes) == (4, 3, path.stat().st_size)

    content = check(path)
    assert content.problems == []
    first = next(s for s in content.slices if s.track == 2 and s.name == "launch")
    assert first.arguments == (
        ("bytes", 2**63 + 5), ("delta", -3), ("GB/s", 1.5), ("address", 0xDEAD), ("block", "8 × 1"),
    )  # fmt: skip
    assert content.values == [(4, REALTIME, -5), (4, REALTIME + 9, 2**62), (5, REALTIME + 3, 0.25)]
    with load(path) as tp:
        pairs = tp.query(
            "SELECT a.name AS source, b.name AS target, b.ts - a.ts AS delay FROM flow"
            " JOIN slice a ON a.id = slice_out JOIN slice b ON b.id = slice_in ORDER BY b.ts"
        )
        assert [(p.source, p.target, p.delay) for p in pairs] == [("launch", "launch", 100), ("launch", "copy", 110)]
        (process,) = tp.query("SELECT name FROM process WHERE pid = 4711")
        assert process.name == "app"
        (thread,) = tp.query("SELECT name FROM thread WHERE tid = 4712")
        assert thread.name == "worker"
        values = [(v.ts - REALTIME, v.value) for v in tp.query("SELECT ts, value FROM counter ORDER BY ts")]
        assert values == [(0, -5), (3, 0.25), (9, 2**62)]


def test_moments(tmp_path: Path) -> None:
    """They stand within what runs, and end nothing."""
    path = tmp_path / "x.pftrace"
    timeline = _native.Timeline(str(path), ORIGIN, REALTIME)
    timeline.process(PROCESS, 4711, "app", [], [])
    lanes = timeline.lanes(3, PROCESS, "main", 1, nested=True)
    start = np.array([0, 5, 5, 10, 20], np.uint64) + np.uint64(ORIGIN)
    end = np.array([10, 5, 9, 10, 20], np.uint64) + np.uint64(ORIGIN)
    names = np.array([timeline.string(text) for text in ("outer", "mark", "inner", "edge", "late")], np.uint32)
    lanes.add(start, end, names, np.full(5, names[0]), instant=np.array([False, True, False, True, True]))
    lanes.finish()
    timeline.close()
    assert lanes.count == 1
    content = check(path)
    assert content.problems == []
    assert {s.name for s in content.slices if s.instant} == {"mark", "edge", "late"}
    with load(path) as tp:
        rows = tp.query(
            "SELECT s.ts, s.dur, s.name, p.name AS parent FROM slice s LEFT JOIN slice p ON p.id = s.parent_id"
        )
        assert [(r.ts - REALTIME, r.dur, r.name, r.parent) for r in rows] == [
            (0, 10, "outer", None), (5, 0, "mark", "outer"), (5, 4, "inner", "outer"), (10, 0, "edge", None),
            (20, 0, "late", None),
        ]  # fmt: skip


def test_files_put_together_in_any_order(tmp_path: Path) -> None:
    """Their packet sequences have the same numbers, and one begins before the other."""
    parts = []
    for number, begin in ((1, 5000), (2, 0)):
        path = tmp_path / str(number)
        timeline = _native.Timeline(str(path), ORIGIN, REALTIME + begin)
        timeline.process(number, number, f"app{number}", [], [])
        lanes = timeline.lanes(10 + number, number, f"queue {number}", 0, nested=False)
        name = np.array([timeline.string(f"work{number}"), timeline.string("same")], np.uint32)
        start = np.array([ORIGIN + 1, ORIGIN + 7], np.uint64)
        lanes.add(start, start + np.uint64(3), name, name)
        lanes.finish()
        timeline.close()
        parts.append(path.read_bytes())
    expected = Counter(
        (begin + at, 3, name, f"queue {number}")
        for number, begin in ((1, 5000), (2, 0))
        for at, name in ((1, f"work{number}"), (7, "same"))
    )
    for order in (parts, parts[::-1]):
        whole = tmp_path / "whole"
        whole.write_bytes(b"".join(order))
        assert check(whole).problems == []
        assert perfetto_slices(whole) == expected


def test_machines(tmp_path: Path) -> None:
    """One process id on two hosts is two processes."""
    path = tmp_path / "x.pftrace"
    timeline = _native.Timeline(str(path), ORIGIN, REALTIME)
    for number in (1, 2):
        timeline.machine(number)
        timeline.process(number, 100, f"app{number}", [], [])
        timeline.thread(10 + number, 100, 100, f"main{number}")
        lanes = timeline.lanes(10 + number, number, "", 0, nested=True, announced=True)
        name = np.array([timeline.string(f"work{number}")], np.uint32)
        lanes.add(np.array([ORIGIN], np.uint64), np.array([ORIGIN + 5], np.uint64), name, name)
        lanes.finish()
    timeline.close()
    assert check(path).problems == []
    with load(path) as tp:
        rows = tp.query(
            "SELECT s.name, p.name AS process, t.name AS thread FROM slice s JOIN thread_track k ON k.id = s.track_id"
            " JOIN thread t USING (utid) JOIN process p USING (upid) ORDER BY s.name"
        )
        assert [(r.name, r.process, r.thread) for r in rows] == [
            ("work1", "app1", "main1"),
            ("work2", "app2", "main2"),
        ]


def test_tracks_at_once_are_those_one_by_one(tmp_path: Path) -> None:
    """One call with the rows of all tracks writes what a call per track writes: slices, arguments, flows, moments."""
    random = np.random.default_rng(1)
    bounds = np.array([0, 5, 5, 9, 20], np.uint64)
    start = np.concatenate([ORIGIN + np.sort(random.integers(0, 50, n)) for n in (5, 0, 4, 11)]).astype(np.uint64)
    end = start + random.integers(0, 40, 20).astype(np.uint64)
    present, instant = random.random(20) < 0.5, random.random(20) < 0.2
    end[instant] = start[instant]
    offsets = np.concatenate([[0], np.cumsum(random.integers(0, 3, 20))]).astype(np.uint32)
    ids = np.arange(10, 10 + int(offsets[-1]), dtype=np.uint64)

    def written(at_once: bool) -> bytes:
        path = tmp_path / str(at_once)
        timeline = _native.Timeline(str(path), ORIGIN, REALTIME)
        texts = np.array([timeline.string(f"text {i}") for i in range(20)], np.uint32)
        tracks = [timeline.lanes(10 + i, 0, str(i), i, nested=True) for i in range(4)]
        arguments: list[tuple[int, str, Any, Any]] = [(1, "text", texts, present), (2, "uint", start, None)]
        if at_once:
            timeline.add(tracks, bounds, start, end, texts, texts, (offsets, ids), arguments, instant)
        else:
            every = Texts(ORIGIN)
            every.add(tracks, bounds, start, end, texts, texts, (offsets, ids), arguments, instant)
        for track in tracks:
            track.finish()
        timeline.close()
        return path.read_bytes()

    assert written(True) == written(False)


def test_bad_input_is_refused(tmp_path: Path) -> None:
    timeline = _native.Timeline(str(tmp_path / "x"), ORIGIN, REALTIME)
    lanes = timeline.lanes(3, 0, "queue", 1, nested=False)
    good = np.array([ORIGIN + 10], np.uint64)
    name = np.array([timeline.string("x")], np.uint32)
    lanes.add(good, good, name, name)
    for start, end, number in (
        (good - np.uint64(11), good, name),  # before the origin
        (good, good - np.uint64(1), name),  # ends before it starts
        (good - np.uint64(1), good, name),  # before the last one
        (good, np.append(good, good), name),  # lengths
        (good, good, name + np.uint32(1)),  # no such string
    ):
        with pytest.raises(ValueError):
            lanes.add(start, end, number, name)
    other = _native.Timeline(str(tmp_path / "other"), ORIGIN, REALTIME)
    for tracks_, bounds in (
        ([lanes], [0, 2]),  # beyond the slices
        ([lanes, lanes], [0, 1, 0]),  # descending
        ([lanes], [0]),  # one too few
        ([other.lanes(3, 0, "queue", 1, nested=False)], [0, 1]),
    ):
        with pytest.raises(ValueError):
            timeline.add(tracks_, np.array(bounds, np.uint64), good, good, name, name)
    timeline.close()
    with pytest.raises(RuntimeError, match="closed"):
        timeline.close()
    with pytest.raises(OSError, match="No such file"):
        _native.Timeline(str(tmp_path / "no" / "x"), ORIGIN, REALTIME)


def test_full_disk_is_told() -> None:
    timeline = _native.Timeline("/dev/full", 0, 0)
    with pytest.raises(OSError, match="No space left"):
        timeline.close()


@pytest.mark.parametrize("keys", [1, 3, 200, 1 << 40])
@pytest.mark.parametrize("runs", [1, 2, 5, 15, 16, 900])
@pytest.mark.parametrize("span", [30, 1 << 20, 1 << 63])
def test_order_of_rows_that_are_nearly_sorted(keys: int, runs: int, span: int) -> None:
    """By key, start, end (the later first) and number, as sorting the rows one by one: of dense keys and of few among many, of
    rows in a few sorted runs per key and of shuffled ones, of times that leave no room for a row in the same number."""
    random = np.random.default_rng(runs)
    count = 900 if keys == 3 else 4000
    key = random.integers(0, min(keys, 50), count).astype(np.uint64) * np.uint64(max(keys // 50, 1))
    start = random.integers(0, span, count).astype(np.uint64)
    for part in np.array_split(np.arange(count), runs):
        start[part] = np.sort(start[part])
    end = start + random.integers(0, 3, count).astype(np.uint64)
    number = random.integers(0, 2, count).astype(np.uint64)
    wanted = np.lexsort((number, ~end, start, key))
    found = _native.order(key, start, end, number)
    assert (np.arange(count) if found is None else found).tolist() == wanted.tolist()


@pytest.mark.parametrize("owners", [1, 3, 700])
@pytest.mark.parametrize("parts", [1, 4])
def test_changes_come_back_in_order(tmp_path: Path, owners: int, parts: int) -> None:
    """What comes and goes in batches that overlap in time, more than is kept in memory of a batch: of each moment the last value,
    however few are read at a time, and going on from the part before."""
    random = np.random.default_rng(owners)
    changes = _native.Changes(str(tmp_path / "changes"))
    assert list(tmp_path.iterdir()) == []  # what is killed leaves nothing
    rows: list[tuple[int, int, int, int]] = []
    for batch in range(5):
        count = 20_000
        owner = (random.integers(0, owners, count) << 33).astype(np.uint64)
        time = random.integers(batch * 10_000, batch * 10_000 + 30_000, count).astype(np.uint64)
        part = (time // np.uint64(60_000 // parts)).astype(np.uint32)
        step = -1 if batch % 2 else 1
        changes.add(owner, time, step, part if parts > 1 else None)
        if parts == 1:
            part[:] = 0
        rows += zip(part.tolist(), owner.tolist(), time.tolist(), [step] * count, strict=True)
    wanted: dict[tuple[int, int], list[tuple[int, int]]] = {}
    for number, of, at, step in sorted(rows):
        wanted.setdefault((number, of), []).append((at, step))
    found = changes.series()
    assert {series[:2] for series in found} == {*wanted}
    for index, (number, of, first, count, change) in enumerate(found):
        steps = wanted[number, of]
        assert (first, count, change) == (steps[0][0], len(steps), sum(step for _, step in steps))
        values: dict[int, int] = {}
        total = 7
        for at, step in steps:
            values[at] = total = total + step
        changes.read(index, 7)
        read: list[tuple[int, int]] = []
        while len((window := changes.next(999))[0]):
            read += zip(window[0].tolist(), window[1].tolist(), strict=True)
        assert read == [*values.items()]
    with pytest.raises(ValueError, match="not the number of a series"):
        changes.read(len(found), 0)
    with pytest.raises(ValueError, match="not as long"):
        changes.add(np.zeros(2, np.uint64), np.zeros(3, np.uint64), 1)
    with pytest.raises(OSError):
        _native.Changes(str(tmp_path / "none" / "changes"))


@pytest.mark.parametrize("kernels", [3, 70_000])
def test_kernels_of_calls(kernels: int) -> None:
    """Of each call that launched one kernel its texts: of so many different ones that they need more room, too. Not of calls that
    launched several, none, or are not known."""
    launched = _native.Launched()
    count = 80_000
    number = np.arange(count, dtype=np.uint32)
    thread, seq = number % np.uint32(3), number * np.uint32(2)
    name, grid, block = number % np.uint32(kernels), number % np.uint32(2), np.full(count, 0xFFFF_FFFF, np.uint32)
    launched.add(thread, seq, name, grid, block)
    launched.add(thread[:2], seq[:2], name[2:4], grid[2:4], block[2:4])
    names, grids, blocks = launched.of(thread[2:], seq[2:])
    assert names[1] and grids[1] and not blocks[1]
    assert (names[0] == name[2:]).all() and (grids[0] == grid[2:]).all() and (blocks[0] == block[2:]).all()
    for of_thread, of_seq in ((0, 0), (1, 2), (0, 7), (3, 6), (0, 1 << 31)):
        for text, all_known in launched.of(np.array([of_thread], np.uint32), np.array([of_seq], np.uint32)):
            assert (text.tolist(), all_known) == ([0xFFFF_FFFF], False)
    with pytest.raises(ValueError, match="not as long"):
        launched.add(thread, seq, name, grid, block[1:])


@pytest.mark.parametrize("amounts", [True, False])
def test_spread_over_windows(amounts: bool) -> None:
    """Against sums nanosecond by nanosecond: of intervals that begin before the first window and end after the last one, of no
    length, and (without amounts) of such that overlap each other."""
    random = np.random.default_rng(5)
    first, last, width, count = 1_000, 3_950, 100, 300
    start = np.sort(random.integers(0, 5_000, count)).astype(np.uint64)
    end = start + random.integers(0, 400, count).astype(np.uint64)
    amount = random.random(count) if amounts else None
    sums, steps = np.zeros(33), np.zeros(33)
    until = 0
    for rows in (slice(0, 100), slice(100, None)):
        until = _native.spread(
            first, last, width, sums, steps, start[rows], end[rows], None if amount is None else amount[rows], until
        )
    truth = np.zeros(6_000)
    for row, (s, e) in enumerate(zip(start.tolist(), end.tolist(), strict=True)):
        if amount is None:
            truth[s : min(e, last)] = 1
        elif e > s:
            truth[s : min(e, last)] += amount[row] / (e - s)
        elif s <= last:
            truth[s] += amount[row]
    truth[:first] = 0
    wanted = [truth[at : at + width].sum() for at in range(first, last, width)]
    assert (sums + np.cumsum(steps))[: len(wanted)] == pytest.approx(wanted, rel=1e-9, abs=1e-9)
    assert until == (0 if amounts else end.max())
    with pytest.raises(ValueError, match="fewer than windows"):
        _native.spread(first, last, width, sums[:20], steps, start, end, None, 0)
    with pytest.raises(ValueError, match="no length"):
        _native.spread(first, last, 0, sums, steps, start, end, None, 0)
    with pytest.raises(ValueError, match="not as long"):
        _native.spread(first, last, width, sums, steps, start, end[1:], None, 0)
