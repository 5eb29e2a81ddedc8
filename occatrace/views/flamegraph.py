"""Where time and memory went, by nesting: ranges of the program, in them OCCA calls, in them the backend's calls, in them the work
of devices; between ranges and calls the stacks of the program (--call-paths) and the lines of Python (--python lines) that made
the calls, where they were recorded.

Calls and ranges → trees of stacks, one per process, over all of its threads; trees → collapsed stacks and speedscope's JSON.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TextIO

import numpy as np
import numpy.typing as npt

from occatrace import _native
from occatrace.core.duck import duckdb
from occatrace.core.sql import name as sql_name
from occatrace.core.sql import text as sql_text
from occatrace.store import memory
from occatrace.store.tables import Store
from occatrace.store.windows import between, windows
from occatrace.views.plots import data

FAILED = "✗ "  # before the names of calls that failed
RANGE = "range"  # the category of ranges; that of calls is their API
PYTHON = "python"  # of lines of Python
PROGRAM = "program"  # of frames of the program
DEVICE = "device"  # of work of devices
_WINDOW_ROWS = 1 << 19  # frames that are in memory at a time, about
_FETCH = 1 << 16  # rows that are Python objects at a time

Columns = dict[str, npt.NDArray[Any]]


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

# What calls did beside taking time. Memory that they allocated, and device work that they launched: its name, time and bytes.
_HELD = """
CREATE OR REPLACE TEMP TABLE flame_memory AS
    SELECT thread, seq, count(*) AS n, sum(bytes)::BIGINT AS memory,
           coalesce(sum(bytes) FILTER (since <= $peak AND (until IS NULL OR until > $peak)), 0)::BIGINT AS peak
    FROM held_memory WHERE thread IS NOT NULL AND seq IS NOT NULL GROUP BY ALL
"""
_DONE = """
CREATE OR REPLACE TEMP TABLE flame_work AS
    WITH pieces AS (
        SELECT thread, seq, CASE WHEN kind = 'kernel' THEN coalesce(name, kind) ELSE kind END AS work, span(start_ns, end_ns) AS ns,
               bytes, kind = 'kernel' AS kernel
        FROM activities
        UNION ALL
        SELECT r.thread, r.seq, NULL, span(r.start_ns, r.end_ns), 0, true
        FROM kernel_runs r JOIN kernels USING (kernel) WHERE host_mode(mode)
        UNION ALL
        SELECT thread, seq, NULL, span(start_ns, end_ns), bytes, false FROM occa_copies WHERE host_mode(mode)
    )
    SELECT thread, seq, max(work) AS work, sum(ns)::BIGINT AS device,
           coalesce(sum(bytes) FILTER (NOT kernel), 0)::BIGINT AS moved
    FROM pieces WHERE thread IS NOT NULL AND seq IS NOT NULL GROUP BY ALL HAVING device > 0 OR moved > 0
"""
_MARKED = "SELECT thread, seq FROM flame_memory UNION SELECT thread, seq FROM flame_work ORDER BY thread, seq"

# Kinds of texts, as the folding knows them.
_OF_RANGE, _OF_CALL, _OF_UNFINISHED = range(3)
_NO_NODE = 0xFFFF_FFFF


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

    def fill(self, columns: Mapping[str, Any], texts: Sequence[tuple[str, str]]) -> None:
        """The nodes of a tree of `_native.StackFolding`, for a process that has none so far."""
        for parent, text in zip(columns["parent"].tolist(), columns["text"].tolist(), strict=True):
            self.node(-1 if parent == _NO_NODE else parent, *texts[text])
        self.calls = columns["calls"].tolist()
        self.weights["time"] = columns["time"].tolist()
        self.weights["idle"] = columns["idle"].tolist()

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
    con = store.con
    processes = dict(
        con.execute("SELECT process, regexp_extract(exe, '[^/]*$') || ' ' || pid FROM processes").fetchall()
    )
    data.prepare(con)
    peak = {"peak": _peak(store)}
    memory.within(con, lambda: con.execute(_HELD, peak))
    memory.within(con, lambda: con.execute(_DONE))
    texts = _Texts()
    frames = _frames(store, texts)
    paths = _paths(store)
    lines = _python_stacks(store, texts)
    stacks_of = {place: [texts.number(*frame) for frame in stack] for place, stack in paths.items()}
    owners = dict(con.execute("SELECT thread, process FROM threads").fetchall())
    folding = _native.StackFolding([owners.get(n, 0) for n in range(max(owners, default=0) + 1)], texts.kinds)
    for (process, line), stack in lines.items():
        folding.line(process, line, stack)
    for (process, path, line), stack in stacks_of.items():
        folding.path(process, path, line, stack)
    for work in _columns(con, f"{_WORK} ORDER BY process, start_ns"):
        folding.busy(work["process"].astype(np.uint32), work["start_ns"], work["end_ns"])
    for calls in _columns(con, _MARKED):
        folding.mark(calls["thread"].astype(np.uint32), calls["seq"].astype(np.uint32))
    starts = " UNION ALL ".join(
        f"SELECT start_ns FROM {table}" for table in ("calls", "unfinished", "ranges WHERE kind = 'push'")
    )
    for begin, end in windows(con, starts, _WINDOW_ROWS):
        sql = frames.replace("$r", between("r.start_ns", begin, end))
        rows = con.execute(f"SELECT * FROM ({sql}) WHERE {between('start_ns', begin, end)}").fetchnumpy()
        # DuckDB hands out masked arrays where a column might be null.
        folding.add(*(np.ma.getdata(values) for values in rows.values()))
    found: dict[int, Stacks] = {}
    for process, columns in folding.trees().items():
        found[process] = Stacks(processes[process])
        found[process].fill(columns, texts.all)
    con.register("_nodes", folding.take_marked())
    con.execute("CREATE OR REPLACE TEMP TABLE flame_nodes AS SELECT thread, seq, node FROM _nodes")
    con.unregister("_nodes")
    del folding
    memory.give_back()
    _add_facts(store, found)
    # Memory of which the allocating call is not there (it was only counted): it stands alone.
    for process, function, count, allocated, held in con.execute(
        """SELECT process, function, count(*), sum(bytes)::BIGINT,
                  coalesce(sum(bytes) FILTER (since <= $peak AND (until IS NULL OR until > $peak)), 0)::BIGINT
           FROM held_memory h WHERE NOT EXISTS (FROM flame_nodes c WHERE c.thread = h.thread AND c.seq = h.seq) GROUP BY ALL""",
        peak,
    ).fetchall():
        tree = found.setdefault(process, Stacks(processes[process]))
        node = tree.node(-1, function, "")
        tree.weights["memory"][node] += allocated
        tree.weights["peak"][node] += held
        tree.weights["allocations"][node] += count
    for table in ("flame_memory", "flame_work", "flame_nodes", "flame_kernels", "flame_ranges"):
        con.execute(f"DROP TABLE IF EXISTS {table}")
    _add_samples(store, found, processes, paths)
    return [found[process] for process in sorted(found)]


class _Texts:
    """Names and categories of frames, by number, with what each is the name of."""

    def __init__(self) -> None:
        self.all: list[tuple[str, str]] = []
        self.kinds: list[int] = []
        self._numbers: dict[tuple[str, str, int], int] = {}

    def number(self, name: str, category: str, kind: int = _OF_RANGE) -> int:
        """Of a name, which gets one where it has none."""
        number = self._numbers.setdefault((name, category, kind), len(self.all))
        if number == len(self.all):
            self.all.append((name, category))
            self.kinds.append(kind)
        return number


def _frames(store: Store, texts: _Texts) -> str:
    """SQL of all frames: thread, start_ns, end_ns, seq, text, and the stacks around them where there are any. `$r`: a condition on
    the start of a kernel call `r` of OCCA, which is that of its frame."""
    con = store.con
    kernels = con.execute(
        "SELECT kernel, name FROM kernels WHERE kernel IN (SELECT kernel FROM kernel_runs)"
    ).fetchall()
    con.execute("CREATE OR REPLACE TEMP TABLE flame_kernels (kernel UINTEGER, text UINTEGER, failed UINTEGER)")
    for kernel, name in kernels:
        both = (texts.number(mark + name, "occa", _OF_CALL) for mark in ("", FAILED))
        con.execute("INSERT INTO flame_kernels VALUES (?, ?, ?)", [kernel, *both])
    parts = []
    for view in store.functions():
        api = view.partition(".")[0]
        shown = store.model.tally_function(view.replace(".", ":", 1))[1]
        plain_text, failed = (texts.number(mark + shown, api, _OF_CALL) for mark in ("", FAILED))
        text, joined = f"CASE WHEN c.failed THEN {failed} ELSE {plain_text} END", ""
        if api == "occa" and kernels:
            text = f"coalesce(CASE WHEN c.failed THEN k.failed ELSE k.text END, {text})"
            joined = (
                " LEFT JOIN (SELECT r.thread, r.seq, n.text, n.failed FROM kernel_runs r JOIN flame_kernels n USING (kernel)"
                " WHERE $r) k ON k.thread = c.thread AND k.seq = c.seq"
            )
        parts.append(f"SELECT c.thread, c.start_ns, c.end_ns, c.seq, {text} AS text FROM {sql_name(view)} c{joined}")
    for function, api in con.execute("SELECT DISTINCT function, api FROM unfinished").fetchall():
        number = texts.number(f"{FAILED}{function} (never returned)", api, _OF_UNFINISHED)
        parts.append(
            f"SELECT u.thread, u.start_ns, greatest(p.end_ns, u.start_ns), u.seq, {number}"
            " FROM unfinished u JOIN processes p USING (process)"
            f" WHERE u.function = {sql_text(function)} AND u.api = {sql_text(api)}"
        )
    names = con.execute("SELECT DISTINCT name FROM ranges WHERE kind = 'push'").fetchall()
    if names:
        con.execute("CREATE OR REPLACE TEMP TABLE flame_ranges (name VARCHAR, text UINTEGER)")
        con.executemany(
            "INSERT INTO flame_ranges VALUES (?, ?)", [(name, texts.number(name, RANGE)) for (name,) in names]
        )
        parts.append(
            "SELECT r.thread, r.start_ns, greatest(coalesce(r.end_ns, p.end_ns), r.start_ns), r.seq, n.text"
            " FROM ranges r JOIN processes p USING (process) JOIN flame_ranges n USING (name) WHERE r.kind = 'push'"
        )
    parts = parts or ["SELECT NULL, NULL, NULL, NULL, NULL WHERE false"]
    sql = (
        "SELECT f.thread::UINTEGER AS thread, f.start_ns::UBIGINT AS start_ns, f.end_ns::UBIGINT AS end_ns,"
        " coalesce(f.seq, 0)::UINTEGER AS seq, f.text::UINTEGER AS text{}"
        f" FROM ({' UNION ALL '.join(parts)}) AS f(thread, start_ns, end_ns, seq, text){{}}"
    )
    if not any(con.execute(f"SELECT 1 FROM {table} LIMIT 1").fetchall() for table in ("python_lines", "path_calls")):
        return sql.format("", "")
    return sql.format(
        ", coalesce(l.frame, 0)::UINTEGER AS line, coalesce(w.path, 0)::UINTEGER AS path",
        " LEFT JOIN python_lines l USING (thread, seq) LEFT JOIN path_calls w USING (thread, seq)",
    )


def _columns(con: duckdb.DuckDBPyConnection, sql: str) -> Iterator[Columns]:
    """The rows of a query of numbers, some at a time."""
    rows = memory.within(con, lambda: con.execute(sql))
    names = [column[0] for column in rows.description or ()]
    while some := rows.fetchmany(_FETCH):
        yield dict(zip(names, np.array(some, np.uint64).T, strict=True))


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


def _add_facts(store: Store, found: Mapping[int, Stacks]) -> None:
    """Memory and device work of calls, at their nodes, which are in the table `flame_nodes`."""
    con = store.con
    of_call = "JOIN flame_nodes n USING (thread, seq) JOIN threads t USING (thread) GROUP BY ALL ORDER BY ALL"
    for process, node, count, allocated, peak in con.execute(
        f"SELECT t.process, n.node, sum(n)::BIGINT, sum(memory)::BIGINT, sum(peak)::BIGINT FROM flame_memory {of_call}"
    ).fetchall():
        weights = found[process].weights
        weights["memory"][node] += allocated
        weights["peak"][node] += peak
        weights["allocations"][node] += count
    for process, node, work, calls_made, device, moved in con.execute(
        f"SELECT t.process, n.node, work, count(*), sum(device)::BIGINT, sum(moved)::BIGINT FROM flame_work {of_call}"
    ).fetchall():
        tree = found[process]
        done = tree.node(node, work, DEVICE) if work else node
        if done != node:
            tree.calls[done] += calls_made
        tree.weights["device-time"][done] += device
        tree.weights["bytes"][done] += moved


def _python_stacks(store: Store, texts: _Texts) -> dict[tuple[int, int], list[int]]:
    """The lines of Python above a call, outermost first, by process and number of the innermost."""
    found: dict[tuple[int, int], list[int]] = {}
    rows = store.con.execute(
        "SELECT process, id, parent, function, source, line FROM python_frames ORDER BY process, id"
    )
    for process, number, parent, function, source, line in rows.fetchall():
        above = found.get((process, parent), []) if parent else []
        text = texts.number(f"{function} ({source.rpartition('/')[2]}:{line})", PYTHON)
        found[process, number] = [*above, text]
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
