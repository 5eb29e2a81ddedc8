"""Tables of a run → a Perfetto trace: processes, threads with their calls, devices with their queues, flows between them.

Which slices there are and what they carry is decided here, in SQL; how they are encoded, in native/timeline.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from occatrace.schema import MEMORY_KINDS
from occatrace.sql import text as sql_text
from occatrace.tables import Store

WINDOW_ROWS = 1 << 18
Progress = Callable[[float], None]

# Slices of one kind of track, as SQL. `track` is the id of the thread, queue or device within the run.
_CALLS = """
SELECT 'thread' AS kind, c.thread AS track, c.seq, c.start_ns, c.end_ns, coalesce(k.name, c.function) AS name, c.api AS category,
       c.thread AS thread, NULL::UBIGINT AS flow, CASE WHEN k.name IS NOT NULL THEN c.function END AS function, c.error,
       nullif(c.bytes, 0) AS bytes, k.mode, k.source, NULL AS size, NULL AS block, NULL::UBIGINT AS waited_ns, c.seq AS number
FROM calls c
LEFT JOIN (SELECT r.thread, r.seq, k.name, k.mode, k.source || CASE WHEN k.line > 0 THEN ':' || k.line ELSE '' END AS source
           FROM kernel_runs r JOIN kernels k USING (kernel)) k ON c.api = 'occa' AND k.thread = c.thread AND k.seq = c.seq
UNION ALL
SELECT 'thread', u.thread, u.seq, u.start_ns, greatest(p.end_ns, u.start_ns), u.function || ' (never returned)', u.api,
       u.thread, NULL, NULL, 'never returned', NULL, NULL, NULL, NULL, NULL, NULL, u.seq
FROM unfinished u JOIN processes p USING (process)
"""
_ACTIVITIES = f"""
SELECT CASE WHEN a.kind IN {MEMORY_KINDS} THEN 'memory' ELSE 'queue' END AS kind,
       CASE WHEN a.kind IN {MEMORY_KINDS} THEN coalesce(a.device, 0) ELSE coalesce(a.queue, 0) END AS track,
       NULL::UINTEGER AS seq, a.start_ns, greatest(a.end_ns, a.start_ns) AS end_ns, a.name, a.kind AS category, NULL::UINTEGER AS thread,
       a.id AS flow, k.name AS function, CASE WHEN a.status < 0 THEN 'error ' || a.status END AS error, nullif(a.bytes, 0) AS bytes,
       k.mode, k.source || CASE WHEN k.line > 0 THEN ':' || k.line ELSE '' END AS source,
       CASE WHEN a.gx > 0 THEN concat_ws(' × ', a.gx, nullif(a.gy, 0), nullif(a.gz, 0)) END AS size,
       CASE WHEN a.lx > 0 THEN concat_ws(' × ', a.lx, nullif(a.ly, 0), nullif(a.lz, 0)) END AS block,
       CASE WHEN a.start_ns > a.queued_ns AND a.queued_ns > 0 THEN a.start_ns - a.queued_ns END AS waited_ns, a.seq AS number
FROM numbered a LEFT JOIN kernels k USING (kernel)
"""

# Arguments of slices: column, kind, name in the trace.
_ARGUMENTS = (
    ("error", "text", "error"),
    ("function", "text", "call"),
    ("bytes", "uint", "bytes"),
    ("mode", "text", "OCCA mode"),
    ("source", "text", "source"),
    ("size", "text", "threads"),
    ("block", "text", "threads per block"),
    ("waited_ns", "uint", "waited ns"),
)
_TEXTS = ("name", "category", *(column for column, kind, _ in _ARGUMENTS if kind == "text"))
_KINDS = ("thread", "queue", "memory")


@dataclass(frozen=True)
class Written:
    """What was written."""

    slices: int
    bytes: int


def write(store: Store, path: Path, progress: Progress = lambda fraction: None) -> Written:
    """Write the timeline of a run to `path`, which is replaced only when all went well."""
    partial = path.with_name(f".{path.name}.partial-{os.getpid()}")
    try:
        result = _Writer(store, partial, progress).run()
        partial.replace(path)
    finally:
        partial.unlink(missing_ok=True)
    return result


class _Writer:
    """One timeline on its way to the file."""

    def __init__(self, store: Store, path: Path, progress: Progress) -> None:
        self._con = store.con
        self._path = path
        self._progress = progress
        self._scratch = store.scratch / "timeline.parquet"
        self._has_calls = bool(store.functions())

    def run(self) -> Written:
        from occatrace import _native

        con = self._con
        con.execute("CREATE OR REPLACE TEMP TABLE numbered AS SELECT *, row_number() OVER () AS id FROM activities")
        con.execute(
            "CREATE OR REPLACE TEMP TABLE flows AS SELECT thread, seq, id FROM numbered ORDER BY thread, seq, id"
        )
        self._sort()
        origin, rows = con.execute(
            f"SELECT coalesce(min(start_ns), 0), count(*) FROM read_parquet({sql_text(str(self._scratch))})"
        ).fetchall()[0]
        first = con.execute(
            "SELECT realtime_ns - mono_ns::HUGEINT FROM processes WHERE realtime_ns > 0 LIMIT 1"
        ).fetchall()
        offset = int(first[0][0]) if first else 0
        timeline = _native.Timeline(str(self._path), int(origin), int(origin) + offset)
        strings = np.array([timeline.string(text or "(no name)") for text in self._texts], np.uint32)
        tracks = _Tracks(con, timeline)
        done = 0
        for window in self._windows(rows):
            length = len(window["start_ns"])
            # The rows of each track within the window.
            key = window["kind"].astype(np.int64) << 32 | window["track"]
            cuts = [0, *(np.flatnonzero(np.diff(key)) + 1).tolist(), length]
            for begin, end in zip(cuts[:-1], cuts[1:], strict=True):
                lanes = tracks.lanes(_KINDS[int(window["kind"][begin])], int(window["track"][begin]))
                self._add(timeline, lanes, strings, {name: values[begin:end] for name, values in window.items()})
            done += length
            self._progress(done / rows)
        tracks.finish()
        timeline.close()
        for table in ("numbered", "flows", "texts"):
            con.execute(f"DROP TABLE {table}")
        self._scratch.unlink(missing_ok=True)
        return Written(int(timeline.slices), int(timeline.bytes))

    def _sort(self) -> None:
        """All slices, track by track in order, with numbers for texts: sorted and kept on disk by DuckDB."""
        con = self._con
        parts = ([_CALLS] if self._has_calls else []) + [_ACTIVITIES]
        con.execute(f"CREATE OR REPLACE TEMP VIEW all_slices AS {' UNION ALL BY NAME '.join(f'({p})' for p in parts)}")
        union = " UNION ".join(
            f"SELECT {column} AS text FROM all_slices WHERE {column} IS NOT NULL" for column in _TEXTS
        )
        con.execute(
            f"CREATE OR REPLACE TEMP TABLE texts AS SELECT text, (row_number() OVER () - 1)::UINTEGER AS number FROM ({union})"
        )
        self._texts = [row[0] for row in con.execute("SELECT text FROM texts ORDER BY number").fetchall()]
        joins = " ".join(f"LEFT JOIN texts t{i} ON t{i}.text = s.{column}" for i, column in enumerate(_TEXTS))
        columns = ", ".join(f"t{i}.number AS {column}" for i, column in enumerate(_TEXTS))
        kinds = "CASE s.kind WHEN 'thread' THEN 0 WHEN 'queue' THEN 1 ELSE 2 END"
        con.execute(f"""
            COPY (SELECT row_number() OVER (ORDER BY {kinds}, s.track, s.seq, s.start_ns, s.end_ns DESC, s.flow) - 1 AS rn,
                         {kinds}::UTINYINT AS kind, s.track::UINTEGER AS track, s.start_ns, s.end_ns, s.thread, s.number, s.flow,
                         s.bytes, s.waited_ns, {columns}
                  FROM all_slices s {joins} ORDER BY rn)
            TO {sql_text(str(self._scratch))} (FORMAT parquet, COMPRESSION zstd)""")

    def _windows(self, rows: int) -> Iterator[dict[str, npt.NDArray[Any]]]:
        for first in range(0, rows, WINDOW_ROWS):
            yield self._con.execute(
                f"SELECT * FROM read_parquet({sql_text(str(self._scratch))}) WHERE rn >= ? AND rn < ? ORDER BY rn",
                [first, first + WINDOW_ROWS],
            ).fetchnumpy()

    def _add(
        self, timeline: Any, lanes: Any, strings: npt.NDArray[np.uint32], rows: Mapping[str, npt.NDArray[Any]]
    ) -> None:
        arguments = []
        for column, kind, name in _ARGUMENTS:
            values = rows[column]
            present = None
            if np.ma.isMaskedArray(values):
                present = ~np.ma.getmaskarray(values)
                values = values.filled(0)
                if not present.any():
                    continue
            if kind == "text":
                values = strings[values]
            arguments.append((timeline.string(name), kind, values, present))
        lanes.add(
            _plain(rows["start_ns"]),
            _plain(rows["end_ns"]),
            strings[_plain(rows["name"])],
            strings[_plain(rows["category"])],
            self._flows(rows),
            arguments,
        )

    def _flows(
        self, rows: Mapping[str, npt.NDArray[Any]]
    ) -> tuple[npt.NDArray[np.uint32], npt.NDArray[np.uint64]] | None:
        """Flow ids: of device work its own, of a call those of all the work that it launched."""
        count = len(rows["start_ns"])
        if rows["kind"][0] != _KINDS.index("thread"):
            return np.arange(count + 1, dtype=np.uint32), _plain(rows["flow"]).astype(np.uint64)
        numbers = _plain(rows["number"]).astype(np.int64)
        found = self._con.execute(
            "SELECT seq, id FROM flows WHERE thread = ? AND seq BETWEEN ? AND ? ORDER BY seq, id",
            [int(rows["track"][0]), int(numbers[0]), int(numbers[-1])],
        ).fetchnumpy()
        seq, ids = _plain(found["seq"]).astype(np.int64), _plain(found["id"]).astype(np.uint64)
        known = np.isin(seq, numbers)
        seq, ids = seq[known], ids[known]
        if not len(ids):
            return None
        offsets = np.append(np.searchsorted(seq, numbers), len(seq)).astype(np.uint32)
        return offsets, ids


def _plain(values: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """DuckDB hands out masked arrays where a column may be null."""
    result: npt.NDArray[Any] = values.filled(0) if isinstance(values, np.ma.MaskedArray) else values
    return result


class _Tracks:
    """The tracks of a run: announced when they are first needed, so that none is empty."""

    def __init__(self, con: Any, timeline: Any) -> None:
        self._timeline = timeline
        self._lanes: dict[tuple[str, int], Any] = {}
        self._groups: set[tuple[str, int]] = set()
        self._uuids: dict[tuple[str, int], int] = {}
        self._machine = -1
        fetch = lambda sql: {row[0]: row[1:] for row in con.execute(sql).fetchall()}  # noqa: E731
        self._processes = fetch("SELECT process, host, pid, exe, cmdline FROM processes")
        self._threads = fetch("SELECT thread, process, tid, name FROM threads")
        self._devices = fetch("SELECT device, process, id, name, api FROM devices")
        self._queues = fetch("SELECT queue, process, device, id, flags FROM queues")
        self._hosts = {host: number for number, host in enumerate(sorted({row[0] for row in self._processes.values()}))}

    def lanes(self, kind: str, track: int) -> Any:
        """The track of a thread, of a queue, or of a device's memory operations."""
        key = (kind, track)
        if key not in self._lanes:
            self._lanes[key] = getattr(self, f"_{kind}")(track)
        return self._lanes[key]

    def finish(self) -> None:
        """Close all slices that are still open."""
        for (kind, track), lanes in self._lanes.items():
            self._on_machine(self._process_of(kind, track))
            lanes.finish()

    def _uuid(self, kind: str, number: int) -> int:
        """Numbers of tracks: within the run unique, spread over all 64 bits, never 0."""
        place = ("process", "thread", "device", "queue", "memory").index(kind)
        return ((number << 3 | place) * 0x9E3779B97F4A7C15 + 1) & 0xFFFF_FFFF_FFFF_FFFF

    def _process_of(self, kind: str, track: int) -> int:
        table = {"thread": self._threads, "queue": self._queues, "memory": self._devices}[kind]
        row = table.get(track)
        return int(row[0]) if row else next(iter(self._processes), 0)

    def _on_machine(self, process: int) -> None:
        host = self._processes[process][0] if process in self._processes else ""
        self._timeline.machine(self._hosts.get(host, 0))

    def _process(self, process: int) -> int:
        uuid = self._uuid("process", process)
        self._on_machine(process)
        if ("process", process) not in self._groups:
            self._groups.add(("process", process))
            host, pid, exe, cmdline = self._processes.get(process, ("", 0, "", ""))
            name = os.path.basename(exe) or "process"
            self._timeline.process(uuid, pid, name, [cmdline] if cmdline else [], [f"host {host}"] if host else [])
        return uuid

    def _thread(self, thread: int) -> Any:
        process, tid, name = self._threads[thread]
        parent = self._process(process)
        uuid = self._uuid("thread", thread)
        self._timeline.thread(uuid, self._processes[process][1], tid, name)
        return self._timeline.lanes(
            uuid, parent, f"{name or 'thread'} {tid} (overlapping)", 0, nested=True, announced=True
        )

    def _device(self, device: int, process: int) -> int:
        parent = self._process(process)
        uuid = self._uuid("device", device)
        if ("device", device) not in self._groups:
            self._groups.add(("device", device))
            _, number, name, _ = self._devices.get(device, (process, 0, "unknown device", ""))
            self._timeline.group(uuid, parent, f"Device {number - 1}: {name}" if number else name, 1000 + device)
        return uuid

    def _queue(self, queue: int) -> Any:
        process = self._process_of("queue", queue)
        _, device, number, flags = self._queues.get(queue, (process, 0, 0, 0))
        parent = self._device(device or 0, process)
        name = f"queue {number}" + (" (out of order)" if flags & 1 else "")
        return self._timeline.lanes(self._uuid("queue", queue), parent, name, queue, nested=False)

    def _memory(self, device: int) -> Any:
        parent = self._device(device, self._process_of("memory", device))
        return self._timeline.lanes(self._uuid("memory", device), parent, "memory operations", 1 << 20, nested=False)
