"""The dependency graph of a run, from its tables: threads of the host, device work, OpenMP teams, MPI. No names, no output.

A node is a moment: a thread comes to a launch, a wait, a message; a piece of device work ends. An edge says that a node
cannot be earlier than another one plus a weight. What a thread only waits for has no weight of its own: then the edge of the
last event to arrive has what is left, the latency. So the recorded times follow from the weights exactly, and other weights
give the times of another run. docs/critical-path.md tells the kinds of edges and what they leave out.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from occatrace import _native
from occatrace.core.sql import name as sql_name
from occatrace.reports.critical import mpi
from occatrace.reports.critical.building import (
    AT_ONCE,
    DONE,
    END,
    FORK,
    HOST,
    JOIN,
    KINDS,
    LAUNCH,
    MESSAGE,
    ORDER_BITS,
    OTHER_QUEUE,
    POINT,
    QUEUE,
    SINK,
    SOURCE,
    THREAD,
    WORK,
    Builder,
    Flags,
    Floats,
    Ints,
    Kinds,
    Narrow,
    Nodes,
    call_key,
    numbers_of,
)

if TYPE_CHECKING:
    from occatrace.store.tables import Store

# Without rows in any of these nothing was recorded.
_OF = frozenset(("call_stats", "activities", "kernel_runs", "omp_regions", "mpi_messages", "python_calls"))
_DEVICE_APIS = ("opencl", "cuda", "cudart", "hip", "ze")
_OVERLAP_NS = 1000  # by which work of a queue in order may seem to begin before the work before it ends


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
    leaves: Narrow  # the MPI call that ends at a node, -1: none
    activities: dict[str, Any]  # device work in the order of its ends `e`; `ns`: how long, `ahead`: from its launch on
    calls: dict[str, Any]  # of MPI
    process_of: dict[int, int]  # of threads
    waits: dict[str, Any]  # calls that waited for device work: thread, s, e, and the piece of work

    @property
    def base(self) -> Floats:
        """The time of each node that nothing leads to; of the others 0."""
        out = self.time.astype(np.float64)
        out[self.target] = 0.0
        return out

    def starts(self, work: Any) -> Ints:
        """When these pieces of device work begin."""
        out: Ints = self.activities["e"][work] - self.activities["ns"][work]
        return out

    def launched(self, work: Any) -> Ints:
        """When these pieces of device work were launched."""
        out = self.starts(work)
        out -= self.activities["ahead"][work]
        return out

    def works_of(self, edges: Any) -> Narrow:
        """The piece of device work that each of these edges ends with; -1: none."""
        out: Narrow = self.piece[self.target[edges]]
        return out

    @property
    def in_mpi(self) -> Flags:
        """Edges of threads that are a call of MPI."""
        if not len(self.calls["f"]):
            return np.broadcast_to(np.array(False), self.kind.shape)
        out: Flags = self.kind == HOST
        out &= self.leaves[self.target] >= 0
        return out

    def calls_of(self, edges: Any) -> Narrow:
        """The MPI call that each of these edges ends; -1: none."""
        of = self.leaves[self.target[edges]]
        return np.where(np.isin(self.kind[edges], (HOST, MESSAGE)), of, -1).astype(np.int32)

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
        out[has] = np.minimum(work["ns"][which], time[target[has]] - time[source[has]])
    return out


def _left(time: Ints, piece: Narrow, work: dict[str, Any], source: Any, target: Any) -> Floats:
    """Of edges the time between their nodes without the work that they end with."""
    out: Floats = time[target] - time[source] - _work_ns(time, piece, work, source, target)
    return out


def build(store: Store) -> Graph | None:
    """The graph of a run; None: nothing was recorded in it."""
    if not store.filled & _OF:
        return None
    calls_of = store.functions()
    processes = numbers_of(
        store,
        "SELECT process::BIGINT AS process, pid::BIGINT AS pid, ppid::BIGINT AS ppid, start_ns::BIGINT AS s, end_ns::BIGINT AS e"
        " FROM processes WHERE end_ns > start_ns ORDER BY start_ns",
    )
    if not len(processes["process"]):
        return None
    zero = int(processes["s"].min())
    threads = numbers_of(
        store,
        "SELECT thread::BIGINT AS thread, process::BIGINT AS process, tid::BIGINT AS tid, start_ns::BIGINT AS s,"
        " end_ns::BIGINT AS e FROM threads ORDER BY thread",
    )
    process_of = dict(zip(threads["thread"].tolist(), threads["process"].tolist(), strict=True))
    b = Builder()
    work, ends = _device_work(store, b, zero)
    waited = _waits(store, b, zero, calls_of, work, ends)
    messages = mpi.nodes(store, b, zero, calls_of)
    _teams(store, b, zero)
    frame = _frame(b, zero, processes, threads)
    return _finish(b, zero, frame, work, ends, messages, waited, process_of)


# ---- devices ----


def _device_work(store: Store, b: Builder, zero: int) -> tuple[dict[str, Any], Nodes]:
    """A node at each launch, and one at the end of each piece of work."""
    work = _work(store, zero)
    ends = b.add(work["e"], WORK)
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
    others = [_other(work, previous, at) for at in range(0, len(previous), AT_ONCE)]
    if others:
        source, target = (np.concatenate([part[i] for part in others]) for i in range(2))
        b.link(OTHER_QUEUE, ends[source], ends[target])
    del work["unordered"]
    # How long takes half of the room that moments take.
    work["ahead"] = _small(work["s"] - work.pop("launched"))
    work["ns"] = _small(work["e"] - work.pop("s"))
    return work, ends


def _work(store: Store, zero: int) -> dict[str, Any]:
    """The device work of a run, in the order of its ends; what ends at one moment always in the same order."""
    parts: dict[str, list[Any]] = {}
    for between in _slices(store):
        some = numbers_of(
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
    return slices(store, "activities", count, AT_ONCE, "a.start_ns")


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
        last = min(first + AT_ONCE, len(order))
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


def _launches(b: Builder, work: dict[str, Any], ends: Nodes) -> None:
    """A node at each launch. Work of one call is launched at one moment of its thread."""
    has = np.flatnonzero(work["thread"] >= 0).astype(np.int32)
    if not len(has):
        return
    key = call_key(work["thread"][has], work["seq"][has])
    order = np.argsort(key, kind="stable").astype(np.int32)
    key = key[order]
    begins = np.r_[True, key[1:] != key[:-1]]
    first = np.flatnonzero(begins)
    threads = (key[first] >> 32).astype(np.int32)
    del key
    has = has[order]
    del order
    launches = b.add(np.minimum.reduceat(work["launched"][has], first), SOURCE, threads)
    del first
    which = np.cumsum(begins, dtype=np.int32)
    which -= 1
    b.link(LAUNCH, launches[which], ends[has])


def _other(work: dict[str, Any], previous: Narrow, at: int) -> tuple[Any, Any]:
    """Of some pieces of work those that waited for work of another queue, or of their own one that has no order: that work, and
    they."""
    some = slice(at, at + AT_ONCE)
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
    store: Store, b: Builder, zero: int, calls_of: tuple[str, ...], work: dict[str, Any], ends: Nodes
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
    calls = numbers_of(
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
    b.add(calls["s"][waits], SOURCE, calls["thread"][waits])
    leave = b.add(calls["e"][waits], SINK, calls["thread"][waits], elastic=True)
    b.link(DONE, ends[waited[waits]], leave)
    kept = {name: calls[name][waits] for name in ("thread", "s", "e")} | {"work": waited[waits]}
    return kept


def _own_of(work: dict[str, Any], calls: dict[str, Any]) -> Ints:
    """Of each call the piece of work of its own that ended last, -1: none."""
    out = np.full(len(calls["s"]), -1, np.int64)
    key = call_key(calls["thread"], calls["seq"])
    order = np.argsort(key, kind="stable")
    key = key[order]
    for at in range(0, len(work["e"]), AT_ONCE):
        some = slice(at, at + AT_ONCE)
        wanted = call_key(work["thread"][some], work["seq"][some])
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


# ---- OpenMP ----


# When a thread of a team has nothing to do any more: tasks that it runs at the barrier at the end are its work.
ARRIVES = "(greatest(t.start_ns, t.end_ns) + t.late_ns)"


def _teams(store: Store, b: Builder, zero: int) -> None:
    """A region begins, its threads begin and arrive, the last of them ends it."""
    if "omp_regions" not in store.filled:
        return
    regions = numbers_of(
        store,
        f"SELECT thread::BIGINT AS thread, seq::BIGINT AS seq, start_ns::BIGINT - {zero} AS s,"
        f" greatest(start_ns, end_ns)::BIGINT - {zero} AS e FROM omp_regions ORDER BY thread, seq",
    )
    parts = numbers_of(
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
    begins = b.add(regions["s"], SOURCE, regions["thread"])
    ends = b.add(regions["e"], SINK, regions["thread"], elastic=True)
    forked = b.add(np.maximum(parts["s"], regions["s"][at]), POINT, parts["thread"], elastic=True)
    joined = b.add(np.minimum(np.maximum(parts["e"], parts["s"]), regions["e"][at]), WORK, parts["thread"])
    b.link(FORK, begins[at], forked)
    b.link(JOIN, joined, ends[at])


# ---- threads and processes ----


def _frame(b: Builder, zero: int, processes: dict[str, Any], threads: dict[str, Any]) -> dict[str, Any]:
    """Where processes begin and end, and which thread is the main one of each."""
    main: dict[int, int] = {}
    pids = dict(zip(processes["process"].tolist(), processes["pid"].tolist(), strict=True))
    for thread, process, tid in zip(*(threads[n].tolist() for n in ("thread", "process", "tid")), strict=True):
        if process in pids and (process not in main or tid == pids[process]):
            main[process] = thread
    keep = [process in main for process in processes["process"].tolist()]
    mains = [main[p] for p in processes["process"].tolist() if p in main]
    begins = b.add((processes["s"] - zero)[keep], SOURCE, mains)
    ends = b.add((processes["e"] - zero)[keep], SINK, mains)
    return {
        "begins": begins, "ends": ends, "main": main,
        "process": processes["process"][keep], "pid": processes["pid"][keep], "ppid": processes["ppid"][keep],
    }  # fmt: skip


def _finish(
    b: Builder, zero: int, frame: dict[str, Any], work: dict[str, Any], ends: Nodes, messages: dict[str, Any],
    waited: dict[str, Any], process_of: dict[int, int],
) -> Graph:  # fmt: skip
    time, thread, elastic, place = _in_order(b)
    for at, (each, first, last) in enumerate(b.edges):
        b.edges[at] = each, place[first], place[last]
    # What a thread does follows from what it did before.
    by_thread = _native.grouped(thread)
    thread = _small(thread)
    of = thread[by_thread]
    ends_of = np.flatnonzero(np.r_[of[1:] != of[:-1], True][: len(of)]).astype(np.uint32) + np.uint32(1)
    del of
    frame["begins"], frame["ends"] = place[frame["begins"]], place[frame["ends"]]
    ends = place[ends]
    leave = messages["leave"]
    leaving = place[leave : leave + len(messages["calls"]["f"])].copy()
    del place
    count = len(b.edges)
    _threads(b, frame, time, thread, elastic, by_thread, ends_of, process_of)
    source, target, kind = _native.sort_edges(len(time), b.edges[:count], (HOST, by_thread, ends_of), b.edges[count:])
    b.edges.clear()
    del by_thread
    piece = np.full(len(time), -1, np.int32)
    piece[ends] = np.arange(len(ends), dtype=np.int32)
    # -1 everywhere takes no memory.
    leaves: Narrow = np.broadcast_to(np.array(-1, np.int32), time.shape)
    if len(leaving):
        leaves = np.full(len(time), -1, np.int32)
        leaves[leaving] = np.arange(len(leaving), dtype=np.int32)
    last = frame["ends"]
    end = int(last[np.argmax(time[last])])
    elastic |= piece >= 0
    decides, usual = _weights(time, elastic, piece, work, kind, source, target)
    return Graph(
        zero, end, time, thread, elastic, piece, source, target, kind, decides, usual, leaves, work, messages["calls"], process_of,
        waited,
    )  # fmt: skip


def _in_order(b: Builder) -> tuple[Ints, Narrow, Flags, Nodes]:
    """Time, thread and elasticity of the nodes in the order of time, and where each of them is there."""
    key = np.concatenate([part[0] for part in b.nodes])
    b.nodes[:] = [(np.empty(0, np.int64), part[1]) for part in b.nodes]
    sequence = np.argsort(key, kind="stable").astype(np.uint32)
    place = np.empty(len(sequence), np.uint32)
    place[sequence] = np.arange(len(sequence), dtype=np.uint32)
    time = key[sequence]
    del key
    time >>= ORDER_BITS
    thread = np.concatenate([part[1] for part in b.nodes])[sequence]
    elastic = np.concatenate(b.elastic)[sequence]
    b.nodes.clear()
    b.elastic.clear()
    return time, thread, elastic, place


def _threads(
    b: Builder, frame: dict[str, Any], time: Ints, thread: npt.NDArray[np.signedinteger[Any]], elastic: Flags, by_thread: Nodes,
    ends_of: Nodes, process_of: dict[int, int],
) -> None:  # fmt: skip
    """Other threads begin after what the main one did last, and what they did is over when the process ends. A main thread that
    makes no traced call while others begin, work and end waits for them."""
    ends = ends_of.tolist()
    span = {int(thread[by_thread[a]]): (a, z - 1) for a, z in zip([0, *ends], ends, strict=False)}
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
        for at in range(0, len(those), AT_ONCE):
            some = those[at : at + AT_ONCE]
            left[at : at + AT_ONCE] = _left(time, piece, work, source[some], target[some])
        usual[each] = np.percentile(left, 25) if len(left) else 0.0
    for at in range(0, len(kind), AT_ONCE):
        part = slice(at, at + AT_ONCE)
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
    for at in range(0, len(source), AT_ONCE):
        some = slice(at, at + AT_ONCE)
        out[some] = time[source[some]] == time[latest[target[some]]]
    return out
