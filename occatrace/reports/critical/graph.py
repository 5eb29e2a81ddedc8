"""The dependency graph of a run, from its tables: threads of the host, device work, OpenMP teams, MPI. No names, no output.

A node is a moment: a thread comes to a launch, a wait, a message; a piece of device work ends. An edge says that a node
cannot be earlier than another one plus a weight. What a thread only waits for has no weight of its own: then the edge of the
last event to arrive has what is left, the latency. So the recorded times follow from the weights exactly, and other weights
give the times of another run. docs/critical-path.md tells the kinds of edges and what they leave out.
"""

from __future__ import annotations

import bisect
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from occatrace import _native
from occatrace.core.sql import name as sql_name
from occatrace.reports.critical import lines

if TYPE_CHECKING:
    from occatrace.store.tables import Store

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]
Nodes = npt.NDArray[np.uint32]  # numbers of nodes, or of edges
Narrow = npt.NDArray[np.int32]  # numbers of what there are fewer of than two thousand million, -1: none
Flags = npt.NDArray[np.bool_]
Kinds = npt.NDArray[np.uint8]

# Kinds of edges.
HOST, LAUNCH, QUEUE, OTHER_QUEUE, DONE, MESSAGE, TOGETHER, FORK, JOIN, THREAD, END = range(11)
KINDS = (*("host", "launch", "queue", "other queue", "done", "message", "together", "fork", "join", "thread", "end"),)
# At the same moment: what others wait for comes before what waits.
_SOURCE, _POINT, _WORK, _MEETING, _SINK = range(5)
_ORDER_BITS = 3  # that these numbers need
_AT_ONCE = 1 << 20  # edges, or pieces of work, that are looked at at a time, for the sake of memory

# Without rows in any of these nothing was recorded.
_OF = frozenset(("call_stats", "activities", "kernel_runs", "omp_regions", "mpi_messages", "python_calls"))
_DEVICE_APIS = ("opencl", "cuda", "cudart", "hip", "ze")
_OVERLAP_NS = 1000  # by which work of a queue in order may seem to begin before the work before it ends
_COMPLETING = ("MPI_Wait", "MPI_Test")
COMPLETED_NS = 1_000_000  # by which what such a call completed may seem to be complete after its end
_EAGER_BYTES = 4096  # a send of more may wait for its receiver
_SYNCHRONOUS = re.compile(r"MPI_(S|Is)send")  # a send that is over when its receive has begun
_SEEN_TO_WAIT = 3  # sends from which one may say that all of their kind wait
ENDS = ("MPI_Init", "MPI_Init_thread", "MPI_Finalize")
# Collectives that nobody leaves before all have come, by the names of the blocking ones.
_SYNCHRONIZING = frozenset(
    f"MPI_{name}"
    for name in (
        *("Barrier", "Allreduce", "Allgather", "Allgatherv", "Alltoall", "Alltoallv", "Alltoallw", "Reduce_scatter"),
        "Reduce_scatter_block",
    )
) | {*ENDS}
_PREFIX = frozenset(("MPI_Scan", "MPI_Exscan"))  # each rank needs those before it
# Others that nobody leaves before all have come, of which it is not recorded in which communicator they are.
_OF_ALL = re.compile(
    r"MPI_(Comm_(split|split_type|dup|dup_with_info|create)|(Cart|Graph|Dist_graph)_create\w*"
    r"|Win_(fence|create|create_dynamic|allocate|allocate_shared|free)"
    r"|File_(open|close|set_view|set_size|preallocate|sync|(read|write)_(all|at_all|ordered)))"
)


@dataclass
class Graph:
    """Nodes in the order of time, and the edges between them in the order of their targets. Times are ns since `zero`.

    What is computed of an edge (`lags`, `works`, `works_of`) is not kept: of ten million edges it is more than all the rest."""

    zero: int
    end: int  # node in which the run ends
    time: Ints
    thread: npt.NDArray[np.signedinteger[Any]]  # -1: of no thread
    elastic: Flags  # node that only waits
    piece: Narrow  # piece of device work that ends at a node, -1: none
    source: Nodes
    target: Nodes
    kind: Kinds
    decides: Flags  # edge that has all the time between its nodes
    usual: Floats  # by kind: the lag of an edge that does not decide
    call: Narrow  # of an edge: the MPI call that it ends, -1: none
    activities: dict[str, Any]
    calls: dict[str, Any]  # of MPI
    process_of: dict[int, int]  # of threads
    waits: dict[str, Any]  # calls that waited for device work: thread, s, e, and the piece of work

    @property
    def base(self) -> Floats:
        """The time of each node that nothing leads to; of the others 0."""
        out = self.time.astype(np.float64)
        out[self.target] = 0.0
        return out

    def works_of(self, edges: Any) -> Narrow:
        """The piece of device work that each of these edges ends with; -1: none."""
        out: Narrow = self.piece[self.target[edges]]
        return out

    def works(self, edges: Any) -> Floats:
        """How long the work at the end of each of these edges takes, as far as it is behind the edge's source (ns)."""
        return _work_ns(self.time, self.piece, self.activities, self.source[edges], self.target[edges])

    def lags(self, edges: Any) -> Floats:
        """The weight of each of these edges without that work, as it was recorded (ns)."""
        left = _left(self.time, self.piece, self.activities, self.source[edges], self.target[edges])
        return np.where(self.decides[edges], left, self.usual[self.kind[edges]])


def _work_ns(time: Ints, piece: Narrow, work: dict[str, Any], source: Any, target: Any) -> Floats:
    """Of edges the duration of the work that they end with, as far as it is behind their source."""
    out = np.zeros(len(source))
    pieces = piece[target]
    has = np.flatnonzero(pieces >= 0)
    if len(has):
        which = pieces[has]
        out[has] = np.minimum(work["e"][which] - work["s"][which], time[target[has]] - time[source[has]])
    return out


@dataclass
class _Builder:
    nodes: list[tuple[Ints, Narrow]] = field(default_factory=list)  # time and order as a key, thread
    elastic: list[Flags] = field(default_factory=list)
    edges: list[tuple[int, Nodes, Nodes]] = field(default_factory=list)
    calls: list[Any] = field(default_factory=list)  # of the edges
    count: int = 0

    def add(self, time: Any, order: int, thread: Any = -1, elastic: bool = False) -> Nodes:
        """Nodes, and their numbers."""
        key = np.maximum(np.asarray(time, np.int64), 0) << _ORDER_BITS | order
        thread = np.broadcast_to(np.asarray(thread, np.int32), key.shape)
        self.nodes.append((key, thread))
        self.elastic.append(np.broadcast_to(np.array(elastic), key.shape))
        self.count += len(key)
        return np.arange(self.count - len(key), self.count, dtype=np.uint32)

    def link(self, kind: int, source: Any, target: Any, call: Any = None) -> None:
        """Edges."""
        self.edges.append((kind, np.asarray(source, np.uint32), np.asarray(target, np.uint32)))
        self.calls.append(call)


def _left(time: Ints, piece: Narrow, work: dict[str, Any], source: Any, target: Any) -> Floats:
    """Of edges the time between their nodes without the work that they end with."""
    out: Floats = time[target] - time[source] - _work_ns(time, piece, work, source, target)
    return out


def _numpy(store: Store, sql: str) -> dict[str, Any]:
    """Columns as numbers; what is NULL is -1."""
    rows = store.con.execute(sql).fetchnumpy()
    out = {}
    for name, column in rows.items():
        values = np.ma.filled(column, -1) if isinstance(column, np.ma.MaskedArray) else column
        out[name] = values
    return out


def build(store: Store) -> Graph | None:
    """The graph of a run; None: nothing was recorded in it."""
    if not store.filled & _OF:
        return None
    calls_of = store.functions()
    processes = _numpy(
        store,
        "SELECT process::BIGINT AS process, pid::BIGINT AS pid, ppid::BIGINT AS ppid, start_ns::BIGINT AS s, end_ns::BIGINT AS e"
        " FROM processes WHERE end_ns > start_ns ORDER BY start_ns",
    )
    if not len(processes["process"]):
        return None
    zero = int(processes["s"].min())
    threads = _numpy(
        store,
        "SELECT thread::BIGINT AS thread, process::BIGINT AS process, tid::BIGINT AS tid, start_ns::BIGINT AS s,"
        " end_ns::BIGINT AS e FROM threads ORDER BY thread",
    )
    process_of = dict(zip(threads["thread"].tolist(), threads["process"].tolist(), strict=True))
    b = _Builder()
    work, ends = _device_work(store, b, zero)
    waited = _waits(store, b, zero, calls_of, work, ends)
    mpi = _mpi(store, b, zero, calls_of)
    _teams(store, b, zero)
    frame = _frame(b, zero, processes, threads)
    return _finish(b, zero, frame, work, ends, mpi, waited, process_of)


# ---- devices ----


def _device_work(store: Store, b: _Builder, zero: int) -> tuple[dict[str, Any], Nodes]:
    """A node at each launch, and one at the end of each piece of work."""
    work = _work(store, zero)
    ends = b.add(work["e"], _WORK)
    _launches(b, work, ends)
    # In a queue in order each piece waits for the one before it. Work is in the order of its ends.
    order = np.lexsort((work["s"], work["queue"])).astype(np.int32)
    before, after = order[:-1], order[1:]
    queue = work["queue"][order]
    same = (queue[:-1] == queue[1:]) & (queue[1:] >= 0) & (work["unordered"][after] == 0)
    del queue
    same &= work["e"][before] <= work["s"][after] + _OVERLAP_NS
    before, after = before[same], after[same]
    del order, same
    b.link(QUEUE, ends[before], ends[after])
    previous = np.full(len(work["s"]), -1, np.int32)
    previous[after] = before
    del before, after
    # Work that begins long after its launch, when its queue is free, waited for another one: the last to end before.
    others = [_other(work, previous, at) for at in range(0, len(previous), _AT_ONCE)]
    if others:
        source, target = (np.concatenate([part[i] for part in others]) for i in range(2))
        b.link(OTHER_QUEUE, ends[source], ends[target])
    del work["unordered"]
    return work, ends


def _work(store: Store, zero: int) -> dict[str, Any]:
    """The device work of a run, in the order of its ends; what ends at one moment always in the same order."""
    parts: dict[str, list[Any]] = {}
    for between in _slices(store):
        some = _numpy(
            store,
            f"""
            SELECT a.process::INTEGER AS process, a.thread::INTEGER AS thread, a.seq::BIGINT AS seq, a.queue::INTEGER AS queue,
                   a.device::INTEGER AS device, coalesce(q.flags & 1, 0)::TINYINT AS unordered, l.label::INTEGER AS label,
                   CASE WHEN a.queued_ns > 0 THEN least(a.queued_ns, a.start_ns) ELSE a.start_ns END::BIGINT - {zero} AS launched,
                   a.start_ns::BIGINT - {zero} AS s, greatest(a.start_ns, a.end_ns)::BIGINT - {zero} AS e
            FROM critical_work a LEFT JOIN queues q USING (queue)
            JOIN critical_labels l ON l.kind = a.kind AND l.name = a.name AND l.kernel = a.named_kernel AND l.line = a.line
            WHERE a.kind != 'marker'{between}""",
        )
        for name in list(some):
            column = some.pop(name)
            parts.setdefault(name, []).append(column if name in _MOMENTS else _small(column))
    work: dict[str, Any] = {}
    for name in list(parts):
        work[name] = np.concatenate(parts.pop(name))
    order = _in_order_of_ends(work)
    for name, column in work.items():
        work[name] = column[order] if name in _MOMENTS else _small(column[order])
    return work


def _slices(store: Store) -> list[str]:
    """Conditions that divide the device work by its start."""
    count = store.con.execute("SELECT count(*) FROM activities").fetchall()[0][0]
    return slices(store, "activities", count, _AT_ONCE, "a.start_ns")


def slices(store: Store, source: str, count: int, most: int, column: str = "start_ns") -> list[str]:
    """Conditions on `column` that divide `count` rows by their start, with about `most` in each, so that little is in memory at a
    time. `source`: SQL of the rows, behind FROM."""
    if count <= most:
        return [""]
    parts = [part * most / count for part in range(1, -(-count // most))]
    cuts = store.con.execute(f"SELECT approx_quantile(start_ns::BIGINT, {parts}) FROM {source}").fetchall()[0][0]
    low = [None, *sorted(set(cuts or ()))]
    out = []
    for at, start in enumerate(low):
        words = [f"{column} >= {start}"] if start is not None else []
        words += [f"{column} < {low[at + 1]}"] if at + 1 < len(low) else []
        out.append("".join(f" AND {word}" for word in words))
    return out


def _in_order_of_ends(work: dict[str, Any]) -> Narrow:
    """The numbers of the pieces of work in the order of their ends, of their starts and of their calls."""
    end = work["e"]
    order = np.argsort(end, kind="stable").astype(np.int32)
    first = 0
    while first < len(order):
        last = min(first + _AT_ONCE, len(order))
        while last < len(order) and end[order[last]] == end[order[last - 1]]:
            last += 1
        some = order[first:last]
        equal = np.diff(end[some]) == 0
        tied = np.flatnonzero(np.r_[equal, False] | np.r_[False, equal])
        those = some[tied]
        some[tied] = those[np.lexsort([work[name][those] for name in ("label", "queue", "seq", "thread", "s", "e")])]
        first = last
    return order


_MOMENTS = ("launched", "s", "e")


def _small(column: Any) -> Any:
    """The same numbers in as few bytes as they need."""
    if not len(column):
        return column
    low, high = int(column.min()), int(column.max())
    fitting = (
        kind for kind in (np.int8, np.int16, np.int32) if np.iinfo(kind).min <= low and high <= np.iinfo(kind).max
    )
    return column.astype(next(fitting, np.int64))


def _launches(b: _Builder, work: dict[str, Any], ends: Nodes) -> None:
    """A node at each launch. Work of one call is launched at one moment of its thread."""
    has = np.flatnonzero(work["thread"] >= 0).astype(np.int32)
    if not len(has):
        return
    key = _call_key(work["thread"][has], work["seq"][has])
    order = np.argsort(key, kind="stable").astype(np.int32)
    key = key[order]
    begins = np.r_[True, key[1:] != key[:-1]]
    first = np.flatnonzero(begins)
    threads = (key[first] >> 32).astype(np.int32)
    del key
    has = has[order]
    del order
    launches = b.add(np.minimum.reduceat(work["launched"][has], first), _SOURCE, threads)
    del first
    which = np.cumsum(begins, dtype=np.int32)
    which -= 1
    b.link(LAUNCH, launches[which], ends[has])


def _call_key(thread: Any, seq: Any) -> Ints:
    """A number of each call, by its thread and its number there."""
    key: Ints = thread.astype(np.int64) << 32 | (seq.astype(np.int64) & 0xFFFFFFFF)
    return key


def _other(work: dict[str, Any], previous: Narrow, at: int) -> tuple[Any, Any]:
    """Of some pieces of work those that waited for work of another queue, or of their own one that has no order: that work, and
    they."""
    some = slice(at, at + _AT_ONCE)
    s = work["s"][some]
    number = np.arange(at, at + len(s))
    latest = np.searchsorted(work["e"], s, "right") - 1
    known = np.maximum(work["launched"][some], -1)
    led = np.flatnonzero(previous[some] >= 0)
    known[led] = np.maximum(known[led], work["e"][previous[some][led]])
    there = (latest >= 0) & (work["e"][latest] > known) & (work["process"][latest] == work["process"][some])
    there &= (work["queue"][latest] != work["queue"][some]) | (work["unordered"][some] != 0)
    there &= latest != number
    return latest[there], number[there]


def _waits(
    store: Store, b: _Builder, zero: int, calls_of: tuple[str, ...], work: dict[str, Any], ends: Nodes
) -> dict[str, Any]:
    """Two nodes at each call that can wait for a device: where it begins, and where it returns. These calls and their work."""
    none = np.empty(0, np.int64)
    found = []
    for name in calls_of:
        api, _, key = name.partition(".")
        function = store.model.function(api, key) if api in _DEVICE_APIS else None
        if function and function.blocking and not function.compiles:
            found.append(f"SELECT process, thread, seq, start_ns, end_ns FROM {sql_name(name)} WHERE end_ns > start_ns")
    if not found or not len(ends):
        return dict.fromkeys(("thread", "s", "e", "work"), none)
    calls = _numpy(
        store,
        f"SELECT process::BIGINT AS process, thread::BIGINT AS thread, seq::BIGINT AS seq, start_ns::BIGINT - {zero} AS s,"
        f" end_ns::BIGINT - {zero} AS e FROM ({' UNION ALL '.join(found)}) ORDER BY e, thread, seq",
    )
    # Its own work, where it enqueued some; else the last of its thread, else of its process, that was over.
    own = _own_of(work, calls)
    thread = _last_at(work, calls, "thread")
    process = _last_at(work, calls, "process")

    def ended(which: Ints) -> Ints:
        return np.where(which >= 0, work["e"][which], -1)

    waited = np.where(ended(thread) >= calls["s"], thread, process)
    waited = np.where(ended(waited) >= calls["s"], waited, thread)
    waited = np.where(own >= 0, own, waited)
    # One whose own work goes on after it has returned waits for nothing.
    waits = (waited >= 0) & ~((own >= 0) & (ended(own) > calls["e"]))
    b.add(calls["s"][waits], _SOURCE, calls["thread"][waits])
    leave = b.add(calls["e"][waits], _SINK, calls["thread"][waits], elastic=True)
    b.link(DONE, ends[waited[waits]], leave)
    kept = {name: calls[name][waits] for name in ("thread", "s", "e")} | {"work": waited[waits]}
    return kept


def _own_of(work: dict[str, Any], calls: dict[str, Any]) -> Ints:
    """Of each call the piece of work of its own that ended last, -1: none."""
    out = np.full(len(calls["s"]), -1, np.int64)
    key = _call_key(calls["thread"], calls["seq"])
    order = np.argsort(key, kind="stable")
    key = key[order]
    for at in range(0, len(work["s"]), _AT_ONCE):
        some = slice(at, at + _AT_ONCE)
        wanted = _call_key(work["thread"][some], work["seq"][some])
        place = np.minimum(np.searchsorted(key, wanted), len(key) - 1)
        hit = np.flatnonzero(key[place] == wanted)
        out[order[place[hit]]] = hit + at  # of several the last one stays
    return out


def _last_at(work: dict[str, Any], calls: dict[str, Any], by: str) -> Ints:
    """Of each call the piece of work of the same thread or process that ended last before the call did."""
    out = np.full(len(calls["s"]), -1, np.int64)
    for value in np.unique(calls[by]).tolist():
        pieces = np.flatnonzero(work[by] == value)  # in the order of their ends
        rows = np.flatnonzero(calls[by] == value)
        at = np.searchsorted(work["e"][pieces], calls["e"][rows], "right") - 1
        out[rows[at >= 0]] = pieces[at[at >= 0]]
    return out


# ---- MPI ----


def _mpi(store: Store, b: _Builder, zero: int, calls_of: tuple[str, ...]) -> dict[str, Any]:
    """Two nodes at each call of MPI; messages and collectives lead from the start of one to the end of another."""
    names = [name for name in calls_of if name.startswith("mpi.")]
    none = np.empty(0, np.int64)
    matched = {
        "received": none,
        "meetings": [],
        "unmatched": 0,
        **dict.fromkeys(("sent", "probed", "posted", "driven"), (none, none)),
    }
    nothing = {"nodes": none, "calls": {"function": [], "lines": [""], "f": none, "line": none, **matched}}
    if not names:
        return nothing
    union = " UNION ALL ".join(
        f"SELECT {number} AS f, process, thread, seq, caller, start_ns, end_ns FROM {sql_name(name)}"
        for number, name in enumerate(names)
    )
    known = lines.of_calls(store)
    calls = _numpy(
        store,
        f"SELECT f::BIGINT AS f, c.process::BIGINT AS process, c.thread::BIGINT AS thread, c.seq::BIGINT AS seq,"
        f" {known.number} AS line, start_ns::BIGINT - {zero} AS s, end_ns::BIGINT - {zero} AS e"
        f" FROM ({union}) c{known.join} ORDER BY thread, s, seq",
    )
    calls["lines"] = known.texts
    calls["function"] = [name.partition(".")[2] for name in names]
    enter = b.add(calls["s"], _SOURCE, calls["thread"])
    leave = b.add(np.maximum(calls["s"], calls["e"]), _SINK, calls["thread"], elastic=True)
    place = {key: at for at, key in enumerate(zip(calls["thread"].tolist(), calls["seq"].tolist(), strict=True))}
    ranks = store.con.execute(
        "SELECT process, coalesce(m.rank, p.rank) FROM processes p LEFT JOIN mpi_ranks m USING (process)"
    ).fetchall()
    rank_of = {process: rank for process, rank in ranks if rank is not None}
    rows = store.con.execute(
        f"""
        SELECT m.process, m.thread, m.seq, m.function, m.kind, m.partner, m.tag, m.bytes, m.start_ns::BIGINT - {zero},
               m.end_ns::BIGINT - {zero}, (coalesce(c.name, ''), c.size, c.first_rank)::VARCHAR
        FROM mpi_messages m LEFT JOIN mpi_comms c USING (mpi_comm)
        WHERE m.state = 'complete' AND m.kind IN ('send', 'receive', 'collective') ORDER BY m.start_ns, m.seq"""
    ).fetchall()
    by_thread = _by_thread(calls)
    _messages(b, rows, rank_of, place, by_thread, _probes(store, names, zero), enter, leave, calls)
    _collectives(b, rows, rank_of, place, by_thread, enter, leave, calls)
    return {"nodes": np.concatenate([enter, leave]), "enter": enter, "leave": leave, "calls": calls}


def of_mpi(store: Store) -> dict[str, Any]:
    """The calls of MPI alone: which sent to which (`sent`) and when that was received, which probe waited for what was sent
    (`probed`), and who met in collectives (`meetings`)."""
    calls: dict[str, Any] = _mpi(store, _Builder(), 0, store.functions())["calls"]
    return calls


def _by_thread(calls: dict[str, Any]) -> dict[int, tuple[Ints, int]]:
    """Of each thread the begins of its calls, and the number of the first."""
    threads, first, counts = np.unique(calls["thread"], return_index=True, return_counts=True)
    return {
        int(thread): (calls["s"][at : at + count], int(at))
        for thread, at, count in zip(threads.tolist(), first.tolist(), counts.tolist(), strict=True)
    }


# By thread, partner and tag: end and number of each blocking probe, in the order of time.
_Probes = dict[tuple[int, int, int], list[tuple[int, int]]]


def _probes(store: Store, names: list[str], zero: int) -> _Probes:
    """Probes wait for the message that the next receive of the thread takes (mpi4py receives objects in this way)."""
    out: _Probes = {}
    for name in (f"mpi.MPI_{name}" for name in ("Probe", "Mprobe") if f"mpi.MPI_{name}" in names):
        sql = f"SELECT thread, args.partner, args.tag, end_ns::BIGINT - {zero}, seq FROM {sql_name(name)}"
        for thread, partner, tag, end, seq in store.con.execute(sql).fetchall():
            out.setdefault((thread, partner, tag), []).append((end, seq))
    return {key: sorted(ends) for key, ends in out.items()}


def _completed(
    row: Any, place: dict[tuple[int, int], int], by_thread: dict[int, tuple[Ints, int]], calls: dict[str, Any]
) -> int | None:
    """The call in which it was seen that a message or a collective is complete."""
    if row[3] is not None:
        return place.get((row[1], row[2]))
    starts, first = by_thread.get(row[1], (np.empty(0, np.int64), 0))
    at = int(np.searchsorted(starts, row[9], "right")) - 1
    if at < 0:
        return None
    # A call that waits writes what was completed after it has returned.
    late = COMPLETED_NS if calls["function"][calls["f"][first + at]].startswith(_COMPLETING) else 0
    return first + at if calls["e"][first + at] + late >= row[9] else None


def _messages(
    b: _Builder, rows: list[Any], rank_of: dict[int, int], place: dict[tuple[int, int], int],
    by_thread: dict[int, tuple[Ints, int]], probes: _Probes, enter: Nodes, leave: Nodes, calls: dict[str, Any],
) -> None:  # fmt: skip
    """MPI keeps the order of messages between two ranks: the first sent is the first received."""
    sent: dict[Any, list[Any]] = {}
    received: dict[Any, list[Any]] = {}
    for row in rows:
        process, kind, partner, tag, comm = row[0], row[4], row[5], row[6], row[10]
        if kind == "collective" or partner is None or process not in rank_of:
            continue
        if kind == "send":
            sent.setdefault((rank_of[process], partner, tag, comm), []).append(row)
        else:
            received.setdefault((partner, rank_of[process], tag, comm), []).append(row)

    def probed(row: Any) -> int | None:
        """The probe that found the message: the last one of its kind before it is received."""
        ends = probes.get((row[1], row[5], row[6]), [])
        at = bisect.bisect_right(ends, (row[8], 1 << 32)) - 1
        return place.get((row[1], ends.pop(at)[1])) if at >= 0 else None

    sent_by, got_by, got_at, posted_by, done_by, found_by, sent_for = [], [], [], [], [], [], []
    # By sender, receiver and the names of calls, pairs of which the second call may be over when the first has begun.
    short: dict[Any, list[tuple[int, int]]] = {}
    passive: dict[Any, list[tuple[int, int]]] = {}
    driven: dict[Any, list[tuple[int, int]]] = {}
    names = calls["function"]
    calls["unmatched"] = 0
    for key, ours in sent.items():
        theirs = received.get(key, [])
        if len(theirs) != len(ours):
            calls["unmatched"] += len(ours)
            continue  # which belongs to which is not sure
        for send, receive in zip(ours, theirs, strict=True):
            begun, got = place.get((send[1], send[2])), _completed(receive, place, by_thread, calls)
            if begun is not None and got is not None:
                sent_by.append(begun)
                got_by.append(got)
                got_at.append(receive[9])
            if probes and begun is not None and (probe := probed(receive)) is not None:
                sent_for.append(begun)
                found_by.append(probe)
            posted, done = place.get((receive[1], receive[2])), _completed(send, place, by_thread, calls)
            if posted is None or done is None:
                continue
            name = names[calls["f"][begun]] if begun is not None else ""
            of = *key[:2], name, names[calls["f"][done]]
            if (send[7] or 0) > _EAGER_BYTES or _SYNCHRONOUS.match(name):
                posted_by.append(posted)
                done_by.append(done)
            else:
                short.setdefault(of, []).append((posted, done))
            # MPI moves messages while it is called, so one may wait until the other side is in MPI again.
            if got is not None and got != posted:
                passive.setdefault(of, []).append((got, done))
            if got is not None and done != begun:
                driven.setdefault((*of, names[calls["f"][got]]), []).append((done, got))
    for pairs in (*short.values(), *passive.values()):
        if _seen_to_wait(pairs, calls):
            posted_by += [first for first, _ in pairs]
            done_by += [last for _, last in pairs]
    driven_by = [pair for pairs in driven.values() if _seen_to_wait(pairs, calls) for pair in pairs]
    # By call: who sent and in which call it was received, and when; which probe found it; who was ready to receive, and in which
    # call the send was over; in which call of the sender a message went on its way that had been sent before.
    calls["received"] = np.array(got_at, np.int64)
    calls["sent"] = np.array(sent_by, np.int64), np.array(got_by, np.int64)
    calls["posted"] = np.array(posted_by, np.int64), np.array(done_by, np.int64)
    calls["probed"] = np.array(sent_for, np.int64), np.array(found_by, np.int64)
    calls["driven"] = tuple(np.array([pair[i] for pair in driven_by], np.int64) for i in range(2))
    for first, last in (calls["sent"], calls["probed"], calls["posted"], calls["driven"]):
        b.link(MESSAGE, enter[first], leave[last], last)


def _seen_to_wait(pairs: list[tuple[int, int]], calls: dict[str, Any]) -> bool:
    """Whether the second call of each pair goes on until the first begins, where that is later, often enough to say so."""
    first, last = (np.array(each, np.int64) for each in zip(*pairs, strict=True))
    late = calls["s"][first] > calls["s"][last]
    return bool(late.sum() >= _SEEN_TO_WAIT and np.all(calls["e"][last[late]] >= calls["s"][first[late]]))


def _collectives(
    b: _Builder, rows: list[Any], rank_of: dict[int, int], place: dict[tuple[int, int], int],
    by_thread: dict[int, tuple[Ints, int]], enter: Nodes, leave: Nodes, calls: dict[str, Any],
) -> None:  # fmt: skip
    """Where nobody leaves before all have come, all lead to a meeting and it to all. Else the last to come before a rank
    leaves leads to that rank. A nonblocking one is left at the end of the call that saw it complete."""
    names = calls["function"]
    counted: dict[Any, int] = {}
    meetings: dict[
        Any, list[tuple[int, int, int]]
    ] = {}  # rank, the call in which it comes, that in which it leaves or -1
    for row in rows:
        process, kind, comm = row[0], row[4], row[10]
        call = place.get((row[1], row[2]))
        if kind != "collective" or call is None or process not in rank_of:
            continue
        function = names[calls["f"][call]]
        number = counted[process, comm, function] = counted.get((process, comm, function), 0) + 1
        done = _completed(row, place, by_thread, calls)
        key = comm, function, number
        meetings.setdefault(key, []).append((rank_of[process], call, -1 if done is None else done))
    calls["meetings"] = []
    for (_, function, _), members in meetings.items():
        if len(members) > 1:
            _meet(b, blocking(function), sorted(members), enter, leave, calls)
    for function, members in _of_all(rank_of, calls):
        _meet(b, function, members, enter, leave, calls)


def blocking(function: str) -> str:
    """The name of the blocking function with small counts: MPI_Allreduce of MPI_Iallreduce_c."""
    name = function.removesuffix("_c")
    return f"MPI_{name[5].upper()}{name[6:]}" if name.startswith("MPI_I") else name


def synchronizes(function: str) -> bool:
    """Whether nobody leaves this collective before all have come. The name is that of the blocking function."""
    return function in _SYNCHRONIZING or _OF_ALL.fullmatch(function) is not None


def _of_all(rank_of: dict[int, int], calls: dict[str, Any]) -> Iterator[tuple[str, list[tuple[int, int, int]]]]:
    """The start and the end of MPI, and collectives of which it is not known in which communicator they are: the first of each
    rank belong together, and so on, where all ranks have as many and all had come before one left."""
    numbers: dict[str, dict[int, list[int]]] = {}
    process_of = calls["process"]
    for f, name in enumerate(calls["function"]):
        key = "MPI_Init" if name == "MPI_Init_thread" else name.removesuffix("_c")
        if name not in ENDS and not _OF_ALL.fullmatch(key):
            continue
        of = numbers.setdefault(key, {})
        for at in np.flatnonzero(calls["f"] == f).tolist():
            of.setdefault(int(process_of[at]), []).append(at)
    for name, of in numbers.items():
        if name in ENDS:
            members = [(rank_of.get(process, -1), those[0], those[0]) for process, those in of.items()]
            # Processes of one rank are those of several jobs.
            if len({member[0] for member in members}) == len(members) > 1:
                yield name, members
            continue
        known = {rank_of[process]: those for process, those in of.items() if process in rank_of}
        if len(known) < 2 or known.keys() != set(rank_of.values()) or len({len(those) for those in known.values()}) > 1:
            continue
        for each in zip(*(known[rank] for rank in sorted(known)), strict=True):
            if max(calls["s"][at] for at in each) <= min(calls["e"][at] for at in each):
                yield name, [(rank, at, at) for rank, at in zip(sorted(known), each, strict=True)]


def _meet(
    b: _Builder, function: str, members: list[tuple[int, int, int]], enter: Nodes, leave: Nodes, calls: dict[str, Any]
) -> None:
    """The edges of one collective. Members in the order of their ranks."""
    those, done = (np.array([member[i] for member in members], np.int64) for i in (1, 2))
    calls["meetings"].append((function, those, done))
    begins, left = calls["s"][those], done >= 0
    ends = calls["e"][done]
    if not left.any():
        return
    last = int(begins.max())
    if synchronizes(function) and last <= int(ends[left].min()):
        meeting = b.add([last], _MEETING, elastic=True)
        b.link(TOGETHER, enter[those], np.repeat(meeting, len(those)))
        b.link(MESSAGE, np.repeat(meeting, int(left.sum())), leave[done[left]], done[left])
        return
    if function in _PREFIX:
        # Each needs those before it; where it left earlier, ranks have another order in the communicator.
        before = np.array([int(np.argmax(begins[: at + 1])) for at in range(len(those))])
        there = left & (before != np.arange(len(those))) & (begins[before] <= ends)
    else:
        order = np.argsort(begins)
        before = order[np.searchsorted(begins[order], ends, "right") - 1]
        there = left & (before != np.arange(len(those)))
    b.link(MESSAGE, enter[those[before[there]]], leave[done[there]], done[there])


# ---- OpenMP ----


# When a thread of a team has nothing to do any more: tasks that it runs at the barrier at the end are its work.
ARRIVES = "(greatest(t.start_ns, t.end_ns) + t.late_ns)"


def _teams(store: Store, b: _Builder, zero: int) -> None:
    """A region begins, its threads begin and arrive, the last of them ends it."""
    if "omp_regions" not in store.filled:
        return
    regions = _numpy(
        store,
        f"SELECT thread::BIGINT AS thread, seq::BIGINT AS seq, start_ns::BIGINT - {zero} AS s,"
        f" greatest(start_ns, end_ns)::BIGINT - {zero} AS e FROM omp_regions ORDER BY thread, seq",
    )
    parts = _numpy(
        store,
        f"SELECT region_thread::BIGINT AS region_thread, region_seq::BIGINT AS region_seq, thread::BIGINT AS thread,"
        f" start_ns::BIGINT - {zero} AS s, {ARRIVES}::BIGINT - {zero} AS e FROM omp_threads t",
    )
    key = regions["thread"] << 32 | regions["seq"]
    wanted = parts["region_thread"] << 32 | parts["region_seq"]
    at = np.minimum(np.searchsorted(key, wanted), max(len(key) - 1, 0))
    known = key[at] == wanted if len(key) else np.zeros(len(wanted), bool)
    parts = {name: column[known] for name, column in parts.items()}
    at = at[known]
    begins = b.add(regions["s"], _SOURCE, regions["thread"])
    ends = b.add(regions["e"], _SINK, regions["thread"], elastic=True)
    forked = b.add(np.maximum(parts["s"], regions["s"][at]), _POINT, parts["thread"], elastic=True)
    joined = b.add(np.minimum(np.maximum(parts["e"], parts["s"]), regions["e"][at]), _WORK, parts["thread"])
    b.link(FORK, begins[at], forked)
    b.link(JOIN, joined, ends[at])


# ---- threads and processes ----


def _frame(b: _Builder, zero: int, processes: dict[str, Any], threads: dict[str, Any]) -> dict[str, Any]:
    """Where processes begin and end, and which thread is the main one of each."""
    main: dict[int, int] = {}
    pids = dict(zip(processes["process"].tolist(), processes["pid"].tolist(), strict=True))
    for thread, process, tid in zip(*(threads[n].tolist() for n in ("thread", "process", "tid")), strict=True):
        if process in pids and (process not in main or tid == pids[process]):
            main[process] = thread
    keep = [process in main for process in processes["process"].tolist()]
    mains = [main[p] for p in processes["process"].tolist() if p in main]
    begins = b.add((processes["s"] - zero)[keep], _SOURCE, mains)
    ends = b.add((processes["e"] - zero)[keep], _SINK, mains)
    return {
        "begins": begins, "ends": ends, "main": main,
        "process": processes["process"][keep], "pid": processes["pid"][keep], "ppid": processes["ppid"][keep],
    }  # fmt: skip


def _finish(
    b: _Builder, zero: int, frame: dict[str, Any], work: dict[str, Any], ends: Nodes, mpi: dict[str, Any],
    waited: dict[str, Any], process_of: dict[int, int],
) -> Graph:  # fmt: skip
    time, thread, elastic, place = _in_order(b)
    for at, (each, first, last) in enumerate(b.edges):
        b.edges[at] = each, place[first], place[last]
    # What a thread does follows from what it did before.
    by_thread = _native.grouped(thread)
    thread = _small(thread)
    before, after = by_thread[:-1], by_thread[1:]
    same = thread[before] == thread[after]
    b.link(HOST, before[same], after[same])
    del before, after, same
    frame["begins"], frame["ends"] = place[frame["begins"]], place[frame["ends"]]
    _threads(b, frame, time, thread, elastic, by_thread, process_of)
    del by_thread
    called = any(call is not None for call in b.calls)
    source, target, kind, number = _native.sort_edges(len(time), b.edges, called)
    # -1 everywhere takes no memory.
    call: Narrow = np.broadcast_to(np.array(-1, np.int32), source.shape)
    if called:
        of_all = [
            np.broadcast_to(np.asarray(-1 if of is None else of, np.int32), part[1].shape)
            for part, of in zip(b.edges, b.calls, strict=True)
        ]
        call = np.concatenate(of_all)[number]
    del number
    b.edges.clear()
    b.calls.clear()
    piece = np.full(len(time), -1, np.int32)
    piece[place[ends]] = np.arange(len(ends), dtype=np.int32)
    if len(mpi["nodes"]):
        own_call = np.full(len(time), -1, np.int32)
        own_call[place[mpi["leave"]]] = np.arange(len(mpi["leave"]))
        # The host's edge to the end of a call is that call's.
        call = np.where(kind == HOST, own_call[target], call).astype(np.int32)
    last = frame["ends"]
    end = int(last[np.argmax(time[last])])
    del place
    elastic |= piece >= 0
    decides, usual = _weights(time, elastic, piece, work, kind, source, target)
    return Graph(
        zero, end, time, thread, elastic, piece, source, target, kind, decides, usual, call, work, mpi["calls"], process_of,
        waited,
    )  # fmt: skip


def _in_order(b: _Builder) -> tuple[Ints, Narrow, Flags, Nodes]:
    """Time, thread and elasticity of the nodes in the order of time, and where each of them is there."""
    key = np.concatenate([part[0] for part in b.nodes])
    b.nodes[:] = [(np.empty(0, np.int64), part[1]) for part in b.nodes]
    sequence = np.argsort(key, kind="stable").astype(np.uint32)
    place = np.empty(len(sequence), np.uint32)
    place[sequence] = np.arange(len(sequence), dtype=np.uint32)
    time = key[sequence]
    del key
    time >>= _ORDER_BITS
    thread = np.concatenate([part[1] for part in b.nodes])[sequence]
    elastic = np.concatenate(b.elastic)[sequence]
    b.nodes.clear()
    b.elastic.clear()
    return time, thread, elastic, place


def _threads(
    b: _Builder, frame: dict[str, Any], time: Ints, thread: npt.NDArray[np.signedinteger[Any]], elastic: Flags, by_thread: Nodes,
    process_of: dict[int, int],
) -> None:  # fmt: skip
    """Other threads begin after what the main one did last, and what they did is over when the process ends. A main thread that
    makes no traced call while others begin, work and end waits for them."""
    if not len(by_thread):
        return
    edge = np.flatnonzero(np.r_[True, thread[by_thread][1:] != thread[by_thread][:-1]])
    last_of = np.r_[edge[1:], len(by_thread)] - 1
    span = {int(thread[by_thread[a]]): (a, z) for a, z in zip(edge.tolist(), last_of.tolist(), strict=True)}
    sources, targets, kinds = [], [], []

    def hang_on(main: int, first: int, last: int, waits: bool) -> None:
        """From what the main thread did before `first`, and from `last` to what it did after that."""
        ours = by_thread[span[main][0] : span[main][1] + 1]
        at = int(np.searchsorted(time[ours], time[first], "right")) - 1
        if at >= 0:
            sources.append(ours[at])
            targets.append(first)
            kinds.append(THREAD)
        after = int(np.searchsorted(time[ours], time[last], "left"))
        if after < len(ours):
            sources.append(last)
            targets.append(ours[after])
            kinds.append(END)
            if after == at + 1 and waits:
                elastic[ours[after]] = True

    for own, (low, high) in span.items():
        process = process_of.get(own, -1)
        main = frame["main"].get(process)
        if main is None or main == own or main not in span:
            continue
        first = by_thread[low]
        hang_on(main, first, by_thread[high], waits=not elastic[first])
    pids = {int(pid): n for n, pid in enumerate(frame["pid"])}
    for n, ppid in enumerate(frame["ppid"].tolist()):
        parent = pids.get(int(ppid))
        main = frame["main"].get(int(frame["process"][parent])) if parent is not None else None
        if main not in span or parent == n:
            continue
        hang_on(main, frame["begins"][n], frame["ends"][n], waits=True)
    for kind in (THREAD, END):
        chosen = [i for i, k in enumerate(kinds) if k == kind]
        if chosen:
            b.link(kind, np.array([sources[i] for i in chosen]), np.array([targets[i] for i in chosen]))


def _weights(
    time: Ints, elastic: Flags, piece: Narrow, work: dict[str, Any],
    kind: Kinds, source: Nodes, target: Nodes,
) -> tuple[Flags, Floats]:  # fmt: skip
    """Of each edge whether it has all the time between its nodes: the last edge to arrive has all that is left until the node.
    The others have what such edges usually have when they are the last, as far as there is room: that of each kind comes second."""
    decides = _last_to_arrive(time, source, target)
    usual = np.zeros(len(KINDS))
    for each in (LAUNCH, DONE, MESSAGE, FORK):
        those = np.flatnonzero(decides & (kind == each)).astype(np.uint32)
        left = np.empty(len(those))
        for at in range(0, len(those), _AT_ONCE):
            some = those[at : at + _AT_ONCE]
            left[at : at + _AT_ONCE] = _left(time, piece, work, source[some], target[some])
        usual[each] = np.percentile(left, 25) if len(left) else 0.0
    for at in range(0, len(kind), _AT_ONCE):
        part = slice(at, at + _AT_ONCE)
        of = kind[part]
        left = _left(time, piece, work, source[part], target[part])
        # Where a node only waits, the thread's own edge has no weight unless it is the last to arrive.
        decides[part] |= np.where(of == HOST, ~elastic[target[part]] | (left == 0), left <= usual[of])
    return decides, usual


def _last_to_arrive(time: Ints, source: Nodes, target: Nodes) -> Flags:
    """Of each edge whether no other edge to its node comes from a later moment."""
    # Nodes are in the order of time, so the latest source has the highest number.
    latest = np.zeros(len(time), np.uint32)
    np.maximum.at(latest, target, source)
    out = np.empty(len(source), bool)
    for at in range(0, len(source), _AT_ONCE):
        some = slice(at, at + _AT_ONCE)
        out[some] = time[source[some]] == time[latest[target[some]]]
    return out
