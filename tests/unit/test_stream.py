"""What is read piece by piece is what is read at once: sums, threads, and tables of which somebody was killed at the worst
moment."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import cast

import numpy as np
import pytest

from occatrace import _native, _session
from occatrace.ingest.folded import Folded
from occatrace.ingest.host import Host, Tally
from occatrace.ingest.threads import ThreadMap
from occatrace.lttng import chunks
from occatrace.record.rotation import Rotation
from occatrace.run import layout
from occatrace.run.control import Switch
from occatrace.store import stream

CALLS, THREADS, PIECES = 20_000, 5, 7
EVENTS = ("occatrace_opencl:clFlush", "occatrace_opencl:clFinish")


def hosts(seed: int) -> tuple[Host, list[Host]]:
    """Random calls in one host, and cut into pieces of random lengths."""
    random = np.random.default_rng(seed)
    whole = Host("h", ThreadMap(0))
    parts = [Host("h", ThreadMap(0)) for _ in range(PIECES)]
    cuts = [0, *sorted(random.integers(0, CALLS, PIECES - 1).tolist()), CALLS]
    thread = random.integers(0, THREADS, CALLS).astype(np.int32)
    seq = np.arange(CALLS, dtype=np.uint32)
    start = np.sort(random.integers(10**15, 2 * 10**15, CALLS)).astype(np.uint64)
    took = random.integers(0, 10 ** random.integers(1, 9, CALLS)).astype(np.uint64)
    failed = random.random(CALLS) < 0.1
    moved = random.integers(0, 10**6, CALLS).astype(np.uint64)
    kind = random.integers(0, len(EVENTS), CALLS)
    for host, rows in (
        (whole, slice(None)),
        *((part, slice(a, b)) for part, a, b in zip(parts, cuts, cuts[1:], strict=False)),
    ):
        host.stats.add(thread[rows], seq[rows], start[rows])
        for number, event in enumerate(EVENTS):
            own = kind[rows] == number
            if own.any():
                statistics = host.calls.setdefault(event, _native.CallStatistics())
                columns = (c[rows][own] for c in (thread, seq, start, start + took, failed, moved))
                statistics.add(*columns)
                statistics.begin(thread[rows][own], seq[rows][own], start[rows][own])
    return whole, parts


@pytest.mark.parametrize("seed", range(5))
def test_sums_of_pieces(seed: int, tmp_path: Path) -> None:
    whole, parts = hosts(seed)
    sums = Folded(ThreadMap(0))
    for number, part in enumerate(parts):
        part.next_seq = {0: 10 * number}
        counts = np.array([number], np.uint64)
        part.tallies = {
            (1, 2): Tally(
                100 - number, {**dict.fromkeys(("count", "failed", "total", "min", "max"), number)}, 7, counts, counts
            )
        }
        sums.add(part)
        sums.save(tmp_path / "state.npz")
        sums = Folded.load(tmp_path / "state.npz")
    host = sums.host("h", {})
    expected = whole.stats.columns()
    for name, values in host.stats.columns().items():
        assert values[:THREADS].tolist() == expected[name][:THREADS].tolist(), name
    for event in EVENTS:
        expected, found = whole.calls[event].columns(), host.calls[event].columns()
        for name in expected:
            if name in ("mean", "m2"):
                assert found[name][:THREADS] == pytest.approx(expected[name][:THREADS], rel=1e-9), name
            else:
                assert found[name][:THREADS].tolist() == expected[name][:THREADS].tolist(), name
        rows = [
            list(zip(*(c.tolist() for c in of[event].histogram()), strict=True)) for of in (whole.calls, host.calls)
        ]
        assert sorted(rows[0]) == sorted(rows[1])
    assert host.next_seq == {0: 10 * (PIECES - 1)}
    (tally,) = host.tallies.values()
    assert (tally.ts, tally.values["count"], tally.counts.tolist()) == (100, 0, [0])  # the latest by its own time


def test_a_thread_id_that_is_used_again_in_a_later_piece(tmp_path: Path) -> None:
    threads = ThreadMap(0)
    threads.begin(41, 1000)
    threads.begin(42, 1010)
    sums = Folded(threads)
    sums.save(tmp_path / "state.npz")
    threads = Folded.load(tmp_path / "state.npz").threads
    threads.begin(41, 1000)  # said twice
    threads.begin(41, 5000)
    tids, times = np.array([41, 41, 42, 43, 41]), np.array([4999, 5000, 9000, 9000, 9000], np.uint64)
    assert threads.of(tids, times).tolist() == [0, 2, 1, 3, 2]
    assert threads.tids == [41, 42, 41, 43]


def test_pieces_in_their_order(tmp_path: Path) -> None:
    """As LTTng lays them: in its own folder at first, then in one with a number; finished ones in archives."""
    (tmp_path / "ust").mkdir()
    assert [(p.number, p.finished) for p in chunks.pieces(tmp_path)] == [(0, False)]
    (tmp_path / "ust").rename(tmp_path / ".tmp_old_chunk")
    (tmp_path / "20261122T020823+0000-1").mkdir()
    assert [(p.number, p.finished) for p in chunks.pieces(tmp_path)] == [(0, False), (1, False)]
    assert chunks.written(tmp_path).name == "20261122T020823+0000-1"
    (tmp_path / "archives").mkdir()
    (tmp_path / ".tmp_old_chunk").rename(tmp_path / "archives" / "20261122T020819+0000-20261122T020823+0000-0")
    (tmp_path / "archives" / "20261122T020823+0000-20261122T020830+0000-10").mkdir()
    (tmp_path / "archives" / "20261122T020823+0000-20261122T020830+0000-9").mkdir()
    (tmp_path / "20261122T020823+0000-1").rename(tmp_path / "20261122T020830+0000-11")
    assert [(p.number, p.finished) for p in chunks.pieces(tmp_path)] == [(0, True), (9, True), (10, True), (11, False)]
    assert stream.kept_since(tmp_path.parent / "none") is None


def test_a_damaged_manifest_is_said(tmp_path: Path) -> None:
    (tmp_path / stream.MANIFEST).write_text("{")
    with pytest.raises(stream.StreamError, match="is damaged"):
        stream.Manifest.read(tmp_path)
    (tmp_path / stream.MANIFEST).write_text('{"version": 99}')
    with pytest.raises(stream.StreamError, match="another version"):
        stream.Manifest.read(tmp_path)


class Page:
    """A switch that remembers whether events are recorded."""

    events = True

    def hold_events(self, held: bool) -> None:
        self.events = not held


@pytest.fixture
def rotation(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Rotation:
    """Of a session that cuts no pieces, and whose worker cannot be started."""
    monkeypatch.setattr(_session, "rotate", lambda *_: True)

    def refuse(*_: object, **__: object) -> None:
        raise BlockingIOError("no more processes")

    monkeypatch.setattr("subprocess.Popen", refuse)
    (tmp_path / layout.STREAM_FOLDER / "h").mkdir(parents=True)
    return Rotation("s", tmp_path, "h", 1000, cast("Switch", Page()), lambda: True)


def test_tables_that_have_their_part_of_the_disk(rotation: Rotation, tmp_path: Path) -> None:
    """From then on nothing is recorded one by one, also after more pieces, and that is told."""
    (tmp_path / layout.STREAM_FOLDER / "h" / "rows").write_bytes(bytes(500))
    rotation._mind_the_disk()
    assert rotation._switch and not cast("Page", rotation._switch).events
    (tmp_path / layout.STREAM_FOLDER / "h" / "rows").unlink()
    rotation.cut()
    rotation._mind_the_disk()
    rotation.finish()
    assert not cast("Page", rotation._switch).events
    assert [note for note in rotation.notes if "the tables reached their part of it" in note] == rotation.notes != []


def test_what_waits_is_what_is_in_no_table(rotation: Rotation, tmp_path: Path) -> None:
    """Pieces that stay though they are in the tables leave room, also after the next piece was cut."""
    piece = tmp_path / "trace" / "h" / "archives" / "20261122T020819+0000-20261122T020823+0000-0"
    piece.mkdir(parents=True)
    (piece / "events").write_bytes(bytes(500))
    rotation._done = 0
    rotation.cut()
    rotation._mind_the_disk()
    assert rotation._switch and cast("Page", rotation._switch).events
    rotation._done = -1
    rotation._mind_the_disk()
    assert not cast("Page", rotation._switch).events
    rotation.finish()
    assert cast("Page", rotation._switch).events
    assert len(rotation.notes) == 1 and "the trace grew faster" in rotation.notes[0]


def test_a_last_piece_that_cannot_be_cut_is_told(rotation: Rotation, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise _session.Error("no answer")

    monkeypatch.setattr(_session, "rotate", fail)
    rotation.cut()
    rotation.finish()
    assert rotation.notes == ["the end of the trace was not rotated into a chunk (no answer): the report reads it"]
    rotation.notes.clear()
    monkeypatch.setattr(_session, "rotate", lambda *_: False)
    rotation.cut()
    rotation.finish()
    assert len(rotation.notes) == 1 and "(LTTng was not done with it after 30 s)" in rotation.notes[0]


def test_a_daemon_that_hangs(rotation: Rotation, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody waits for it for ever."""
    asked, over = threading.Event(), threading.Event()

    def hang(*_: object) -> bool:
        asked.set()
        return over.wait()

    monkeypatch.setattr(_session, "rotate", hang)
    for name in ("AGE_S", "ROTATION_S", "MARGIN_S"):
        monkeypatch.setattr(f"occatrace.record.rotation.{name}", 0.0)
    rotation.start()
    assert asked.wait(60)
    stopping = threading.Thread(target=rotation.stop, daemon=True)
    stopping.start()
    stopping.join(60)
    assert not stopping.is_alive()
    over.set()
    rotation._thread.join(60)
    assert not rotation._thread.is_alive()
