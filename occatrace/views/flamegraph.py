"""Where time and memory went, by nesting: ranges of the program, in them OCCA calls, in them the backend's calls, in them the work
of devices; between ranges and calls the stacks of the program (--call-paths) and the lines of Python (--python lines) that made
the calls, where they were recorded.

Calls and ranges → trees of stacks, one per process, over all of its threads; trees → collapsed stacks and speedscope's JSON.
"""

from __future__ import annotations

import json
from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TextIO

from occatrace.core.sql import text as sql_text
from occatrace.reports import spans
from occatrace.store import memory
from occatrace.store.tables import Store
from occatrace.views.plots import data

FAILED = "✗ "  # before the names of calls that failed
RANGE = "range"  # the category of ranges; that of calls is their API
PYTHON = "python"  # of lines of Python
PROGRAM = "program"  # of frames of the program
DEVICE = "device"  # of work of devices
_WINDOW_ROWS = 1 << 17


@dataclass(frozen=True)
class Measure:
    """What a stack may be weighed by."""

    title: str
    unit: str  # ns, bytes or count
    about: str


MEASURES: Mapping[str, Measure] = {
    "time": Measure("Host time", "ns", "time of the threads in calls and ranges"),
    "memory": Measure("Memory allocated", "bytes", "all memory that was allocated, freed or not"),
    "peak": Measure("Memory at the peak", "bytes", "memory in use at the peak"),
    "device-time": Measure("Device time", "ns", "time of devices in the work that was launched there"),
    "bytes": Measure("Bytes moved", "bytes", "bytes of copies, fills and maps"),
    "idle": Measure("Time with idle devices", "ns", "time of the threads while no device of the process had work"),
    "allocations": Measure("Allocations", "count", "number of allocations, of memory that was freed or not"),
    "cpu": Measure("CPU time", "ns", "processor time of the threads, by samples of their stacks"),
}

# An outer frame comes before the inner ones: it begins earlier, or ends later, or has the lower number.
_FRAMES = f"""
WITH held AS (
    SELECT thread, seq, count(*) AS n, sum(bytes) AS memory,
           sum(bytes) FILTER (since <= $peak AND (until IS NULL OR until > $peak)) AS peak
    FROM held_memory GROUP BY ALL
),
pieces AS (
    SELECT thread, seq, CASE WHEN kind = 'kernel' THEN coalesce(name, kind) ELSE kind END AS work, span(start_ns, end_ns) AS ns,
           bytes, kind = 'kernel' AS kernel
    FROM activities
    UNION ALL
    SELECT r.thread, r.seq, NULL, span(r.start_ns, r.end_ns), 0, true
    FROM kernel_runs r JOIN kernels USING (kernel) WHERE host_mode(mode)
    UNION ALL
    SELECT thread, seq, NULL, span(start_ns, end_ns), bytes, false FROM occa_copies WHERE host_mode(mode)
),
done AS (
    SELECT thread, seq, max(work) AS work, sum(ns) AS device, coalesce(sum(bytes) FILTER (NOT kernel), 0) AS moved
    FROM pieces GROUP BY ALL
),
frames AS (
    SELECT c.thread, c.start_ns, c.end_ns, c.seq, c.api AS category, h.n, h.memory, h.peak, l.frame, w.path, d.work, d.device, d.moved,
           CASE WHEN c.failed THEN '{FAILED}' ELSE '' END || coalesce(k.name, c.function) AS name
    FROM calls c LEFT JOIN held h USING (thread, seq) LEFT JOIN python_lines l USING (thread, seq)
    LEFT JOIN path_calls w USING (thread, seq) LEFT JOIN done d USING (thread, seq)
    LEFT JOIN (SELECT r.thread, r.seq, k.name FROM kernel_runs r JOIN kernels k USING (kernel)) k
           ON c.api = 'occa' AND k.thread = c.thread AND k.seq = c.seq
    UNION ALL
    SELECT u.thread, u.start_ns, greatest(p.end_ns, u.start_ns), u.seq, u.api, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL,
           '{FAILED}' || u.function || ' (never returned)'
    FROM unfinished u JOIN processes p USING (process)
    UNION ALL
    SELECT r.thread, r.start_ns, greatest(coalesce(r.end_ns, p.end_ns), r.start_ns), r.seq, '{RANGE}',
           NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, r.name
    FROM ranges r JOIN processes p USING (process) WHERE r.kind = 'push'
)
"""


@dataclass
class Stacks:
    """The stacks of one process, as a tree in lists: a node's parent comes before it. Weights are without the callees'."""

    name: str
    names: list[str] = field(default_factory=list)
    categories: list[str] = field(default_factory=list)
    parents: list[int] = field(default_factory=list)  # -1: outermost
    calls: list[int] = field(default_factory=list)
    weights: dict[str, list[int]] = field(default_factory=lambda: {measure: [] for measure in MEASURES})
    _nodes: dict[tuple[int, str, str], int] = field(default_factory=dict)

    def node(self, parent: int, name: str, category: str) -> int:
        """The number of a stack."""
        number = self._nodes.setdefault((parent, name, category), len(self.names))
        if number == len(self.names):
            self.names.append(name)
            self.categories.append(category)
            self.parents.append(parent)
            self.calls.append(0)
            for weights in self.weights.values():
                weights.append(0)
        return number

    def rows(self, measure: str = "time") -> Iterator[tuple[list[str], int]]:
        """Every stack that has weight itself, outermost frame first."""
        for number, weight in enumerate(self.weights[measure]):
            if weight > 0:
                stack = []
                while number >= 0:
                    stack.append(self.names[number])
                    number = self.parents[number]
                yield stack[::-1], weight

    def totals(self, measure: str) -> list[int]:
        """Of each node, with what it called."""
        totals = list(self.weights[measure])
        for number in range(len(totals) - 1, -1, -1):
            if self.parents[number] >= 0:
                totals[self.parents[number]] += totals[number]
        return totals


def stacks(store: Store) -> list[Stacks]:
    """The stacks of each process of a run."""
    processes = dict(
        store.con.execute("SELECT process, regexp_extract(exe, '[^/]*$') || ' ' || pid FROM processes").fetchall()
    )
    owners = dict(store.con.execute("SELECT thread, process FROM threads").fetchall())
    found: dict[int, Stacks] = {}
    lines, paths = _python_stacks(store), _paths(store)
    # End and node of the frames that are open, and whether lines of Python or a call are above.
    current, tree, open_frames = -1, Stacks(""), list[tuple[int, int, bool, bool]]()
    sorted_frames = store.scratch / "flamegraph.parquet"
    texts = memory.within(store.con, lambda: _sort(store, sorted_frames))
    time: list[int] = []
    idle: list[int] = []
    works, busy = _works(store), None
    for thread, start, end, text, count, allocated, peak, frame, path, work, device, moved in _windows(
        store, sorted_frames
    ):
        if thread != current:
            current, open_frames = thread, []
            process = owners[thread]
            tree = found.setdefault(process, Stacks(processes[process]))
            time, idle = tree.weights["time"], tree.weights["idle"]
            busy = works.get(process)
        while open_frames and open_frames[-1][0] <= start:
            open_frames.pop()
        parent, known, called = open_frames[-1][1:] if open_frames else (-1, False, False)
        above = parent
        frames: Sequence[tuple[str, str]] = ()
        if path and not called:
            frames = paths.get((owners[thread], path, frame), ())
        elif frame and not known:
            frames = [(line, PYTHON) for line in lines.get((owners[thread], frame), ())]
        for outer in frames:
            above = tree.node(above, *outer)
        node = tree.node(above, *texts[text])
        tree.calls[node] += 1
        time[node] += end - start
        if parent >= 0:
            time[parent] -= min(end, open_frames[-1][0]) - start
        if busy is not None:
            idle[node] += busy.idle(start, end)
            if parent >= 0:
                idle[parent] -= busy.idle(start, min(end, open_frames[-1][0]))
        if allocated:
            tree.weights["memory"][node] += allocated
            tree.weights["peak"][node] += peak
            tree.weights["allocations"][node] += count
        if device or moved:
            done = tree.node(node, work, DEVICE) if work else node
            if done != node:
                tree.calls[done] += 1
            tree.weights["device-time"][done] += device
            tree.weights["bytes"][done] += moved
        open_frames.append((end, node, known or frame > 0, called or texts[text][1] != RANGE))
    sorted_frames.unlink()
    # Memory of which the allocating call is not there (it was only counted): it stands alone.
    for process, function, count, allocated, peak in store.con.execute(
        """SELECT process, function, count(*), sum(bytes)::BIGINT,
                  coalesce(sum(bytes) FILTER (since <= $peak AND (until IS NULL OR until > $peak)), 0)::BIGINT
           FROM held_memory h WHERE NOT EXISTS (FROM calls c WHERE c.thread = h.thread AND c.seq = h.seq) GROUP BY ALL""",
        {"peak": _peak(store)},
    ).fetchall():
        tree = found.setdefault(process, Stacks(processes[process]))
        node = tree.node(-1, function, "")
        tree.weights["memory"][node] += allocated
        tree.weights["peak"][node] += peak
        tree.weights["allocations"][node] += count
    _add_samples(store, found, processes, paths)
    return [found[process] for process in sorted(found)]


def _add_samples(
    store: Store,
    found: dict[int, Stacks],
    processes: Mapping[int, str],
    paths: Mapping[tuple[int, int, int], Sequence[tuple[str, str]]],
) -> None:
    """Processor time, by the stacks that were sampled."""
    rows = store.con.execute(
        "SELECT process, path, frame, sum(cpu_ns)::BIGINT FROM stack_samples GROUP BY ALL ORDER BY ALL"
    )
    for process, path, frame, cpu in rows.fetchall():
        tree = found.setdefault(process, Stacks(processes[process]))
        node = -1
        for outer in paths.get((process, path, frame), (("(stack not known)", PROGRAM),)):
            node = tree.node(node, *outer)
        tree.weights["cpu"][node] += cpu


class _Busy:
    """When the devices of a process had work: intervals in order that do not overlap."""

    def __init__(self, intervals: Sequence[tuple[int, int]]) -> None:
        self._starts: list[int] = []
        self._ends: list[int] = []
        self._before: list[int] = []  # of each interval, how long there was work before it
        total = 0
        for start, end in intervals:
            self._starts.append(start)
            self._ends.append(end)
            self._before.append(total)
            total += end - start

    def _until(self, moment: int) -> int:
        at = bisect_right(self._starts, moment) - 1
        return self._before[at] + min(moment, self._ends[at]) - self._starts[at] if at >= 0 else 0

    def idle(self, start: int, end: int) -> int:
        """ns of an interval during which there was none."""
        return end - start - (self._until(end) - self._until(start)) if end > start else 0


def _works(store: Store) -> dict[int, _Busy]:
    """By process, for those that gave work to devices."""
    found: dict[int, list[tuple[int, int]]] = {}
    rows = store.con.execute(f"SELECT * FROM ({spans.joined(_WORK)}) ORDER BY process, s")
    while batch := rows.fetchmany(_WINDOW_ROWS):
        for process, start, end in batch:
            found.setdefault(process, []).append((start, end))
    return {process: _Busy(intervals) for process, intervals in found.items()}


def _python_stacks(store: Store) -> dict[tuple[int, int], list[str]]:
    """The lines of Python above a call, outermost first, by process and number of the innermost."""
    found: dict[tuple[int, int], list[str]] = {}
    rows = store.con.execute(
        "SELECT process, id, parent, function, source, line FROM python_frames ORDER BY process, id"
    )
    for process, number, parent, function, source, line in rows.fetchall():
        above = found.get((process, parent), []) if parent else []
        found[process, number] = [*above, f"{function} ({source.rpartition('/')[2]}:{line})"]
    return found


_WORK = "SELECT process, start_ns, end_ns FROM activities WHERE kind != 'marker'"


def _paths(store: Store) -> dict[tuple[int, int, int], list[tuple[str, str]]]:
    """The frames of each stack, outermost first: name and category. By process, call path and innermost line of Python (0: none)."""
    found: dict[tuple[int, int, int], list[tuple[str, str]]] = {}
    rows = store.con.execute(
        "SELECT process, path, frame, name, python FROM joined_frames ORDER BY process, path, frame, depth"
    )
    for process, path, frame, name, python in rows.fetchall():
        found.setdefault((process, path, frame), []).append((name, PYTHON if python else PROGRAM))
    return found


def _peak(store: Store) -> int:
    """When most memory was in use, by the run's clock."""
    rows = store.con.execute("""
        SELECT arg_max(t, (v, -t::BIGINT)) FROM (
            SELECT t, sum(sum(d)) OVER (ORDER BY t) AS v
            FROM (SELECT since AS t, bytes AS d FROM held_memory
                  UNION ALL SELECT until, -bytes FROM held_memory WHERE until IS NOT NULL) GROUP BY t)""").fetchall()
    return int(rows[0][0] or 0)


def _sort(store: Store, path: Path) -> list[tuple[str, str]]:
    """Write all frames in the order of threads and time to a file; their names and categories, by number."""
    con = store.con
    store.functions()
    data.prepare(con)
    peak = {"peak": _peak(store)}
    con.execute(
        f"CREATE OR REPLACE TEMP TABLE frame_texts AS {_FRAMES}"
        " SELECT (row_number() OVER (ORDER BY name, category) - 1)::UINTEGER AS text, name, category"
        " FROM (SELECT DISTINCT name, category FROM frames)",
        peak,
    )
    # Joined first and sorted then: the hash tables of the joins and the sort together do not fit into the limit.
    joined = path.with_name(f"{path.stem}_joined.parquet")
    con.execute(
        f"""COPY ({_FRAMES}
                SELECT thread, start_ns, end_ns, seq, text, coalesce(n, 0)::BIGINT AS n,
                       coalesce(memory, 0)::BIGINT AS memory, coalesce(peak, 0)::BIGINT AS peak,
                       coalesce(frame, 0)::BIGINT AS frame, coalesce(path, 0)::BIGINT AS path, coalesce(work, '') AS work,
                       coalesce(device, 0)::BIGINT AS device, coalesce(moved, 0)::BIGINT AS moved
                FROM frames JOIN frame_texts USING (name, category))
            TO {sql_text(str(joined))} (FORMAT parquet, COMPRESSION lz4)""",
        peak,
    )
    con.execute(
        f"""COPY (SELECT row_number() OVER () - 1 AS rn, * FROM (
                SELECT * EXCLUDE (seq) FROM read_parquet({sql_text(str(joined))}) ORDER BY thread, start_ns, end_ns DESC, seq))
            TO {sql_text(str(path))} (FORMAT parquet, COMPRESSION lz4, ROW_GROUP_SIZE {_WINDOW_ROWS})"""
    )
    joined.unlink()
    texts = con.execute("SELECT name, category FROM frame_texts ORDER BY text").fetchall()
    con.execute("DROP TABLE frame_texts")
    return texts


def _windows(store: Store, path: Path) -> Iterator[tuple[int, int, int, int, int, int, int, int, int, str, int, int]]:
    """The rows of the sorted file, a window in memory at a time."""
    file = f"read_parquet({sql_text(str(path))})"
    count = store.con.execute(f"SELECT count(*) FROM {file}").fetchall()[0][0]
    for first in range(0, count, _WINDOW_ROWS):
        columns = store.con.execute(
            f"SELECT * EXCLUDE (rn) FROM {file} WHERE rn >= ? AND rn < ? ORDER BY rn",
            [first, first + _WINDOW_ROWS],
        ).fetchnumpy()
        yield from zip(*(column.tolist() for column in columns.values()), strict=True)


def folded(found: Sequence[Stacks], out: TextIO, measure: str = "time") -> None:
    """A line per stack, `process;outer;inner weight`, as flamegraph.pl, inferno and their kin read it."""
    for tree in found:
        for stack, weight in tree.rows(measure):
            out.write(";".join(_one_line(text) for text in (tree.name, *stack)) + f" {weight}\n")


def _one_line(text: str) -> str:
    return "".join(" " if c in "\r\n\t\v\f\x1c\x1d\x1e\x85\u2028\u2029" else "," if c == ";" else c for c in text)


def speedscope(found: Sequence[Stacks], out: TextIO) -> None:
    """For https://www.speedscope.app, which reads it without sending it anywhere: a profile per process and measure."""
    frames: dict[str, int] = {}
    profiles: list[dict[str, Any]] = []
    units = {"ns": "nanoseconds", "bytes": "bytes", "count": "none"}
    for measure, entry in MEASURES.items():
        for tree in found:
            rows = list(tree.rows(measure))
            if not rows:
                continue
            samples = [[frames.setdefault(name, len(frames)) for name in stack] for stack, _ in rows]
            weights = [weight for _, weight in rows]
            profiles.append(
                {"type": "sampled", "name": f"{tree.name}: {entry.title.lower()}", "unit": units[entry.unit],
                 "startValue": 0, "endValue": sum(weights), "samples": samples, "weights": weights}
            )  # fmt: skip
    content = {
        "$schema": "https://www.speedscope.app/file-format-schema.json",
        "exporter": "occatrace",
        "shared": {"frames": [{"name": name} for name in frames]},
        "profiles": profiles,
    }
    json.dump(content, out, ensure_ascii=False)
    out.write("\n")
