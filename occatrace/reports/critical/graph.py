"""The dependency graph of a run, from its tables: threads of the host, device work, OpenMP teams, MPI. No names, no output.

A node is a moment: a thread comes to a launch, a wait, a message; a piece of device work ends. An edge says that a node
cannot be earlier than another one plus a weight. What a thread only waits for has no weight of its own: then the edge of the
last event to arrive has what is left, the latency. So the recorded times follow from the weights exactly, and other weights
give the times of another run. docs/critical-path.md tells the kinds of edges and what they leave out.
"""

from __future__ import annotations

import bisect
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from occatrace.core.sql import name as sql_name
from occatrace.reports.critical import lines

if TYPE_CHECKING:
    from occatrace.store.tables import Store

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]

# Kinds of edges.
HOST, LAUNCH, QUEUE, OTHER_QUEUE, DONE, MESSAGE, TOGETHER, FORK, JOIN, THREAD, END = range(11)
KINDS = (*("host", "launch", "queue", "other queue", "done", "message", "together", "fork", "join", "thread", "end"),)
# At the same moment: what others wait for comes before what waits.
_SOURCE, _POINT, _WORK, _MEETING, _SINK = range(5)

# Without rows in any of these nothing was recorded.
_OF = frozenset(("call_stats", "activities", "kernel_runs", "omp_regions", "mpi_messages", "python_calls"))
_DEVICE_APIS = ("opencl", "cuda", "cudart", "hip", "ze")
_OVERLAP_NS = 1000  # by which work of a queue in order may seem to begin before the work before it ends
_COMPLETING = ("MPI_Wait", "MPI_Test")
_COMPLETED_NS = 1_000_000  # by which what such a call completed may seem to be complete after its end
_EAGER_BYTES = 4096  # a send of more may wait for its receiver
# Collectives that nobody leaves before all have come.
_SYNCHRONIZING = frozenset(
    f"MPI_{name}"
    for name in (
        *("Barrier", "Allreduce", "Allgather", "Allgatherv", "Alltoall", "Alltoallv", "Alltoallw", "Reduce_scatter"),
        *("Reduce_scatter_block", "Init", "Init_thread", "Finalize", "Comm_split", "Comm_dup", "Comm_create"),
    )
)


@dataclass
class Graph:
    """Nodes in the order of time, and the edges between them. Times are ns since `zero`."""

    zero: int
    end: int  # node in which the run ends
    time: Ints
    thread: Ints  # -1: of no thread
    base: Floats  # time of a node that nothing leads to; else 0
    elastic: npt.NDArray[np.bool_]  # node that only waits
    source: npt.NDArray[np.uint32]
    target: npt.NDArray[np.uint32]
    kind: npt.NDArray[np.uint8]
    lag: Floats  # weight, without the work
    work: npt.NDArray[np.int32]  # piece of device work that an edge ends with, -1: none
    work_ns: Floats  # its duration, as far as it is behind the edge's source
    call: npt.NDArray[np.int32]  # of an edge: the MPI call that it ends, -1: none
    activities: dict[str, Any]
    calls: dict[str, Any]  # of MPI
    process_of: dict[int, int]  # of threads
    waits: dict[str, Any]  # calls that waited for device work: thread, s, e, and the piece of work

    @property
    def weight(self) -> Floats:
        """Weights as they were recorded."""
        return self.lag + self.work_ns


@dataclass
class _Builder:
    nodes: list[tuple[Ints, Ints, Ints, Ints]] = field(default_factory=list)  # time, order, thread, elastic
    edges: list[tuple[int, Ints, Ints, Ints]] = field(default_factory=list)  # kind, source, target, call
    count: int = 0

    def add(self, time: Any, order: int, thread: Any = -1, elastic: bool = False) -> Ints:
        """Nodes, and their numbers."""
        time = np.asarray(time, np.int64)
        thread = np.broadcast_to(np.asarray(thread, np.int32), time.shape)
        self.nodes.append((time, np.full(len(time), order, np.int8), thread, np.full(len(time), elastic)))
        self.count += len(time)
        return np.arange(self.count - len(time), self.count)

    def link(self, kind: int, source: Ints, target: Ints, call: Any = -1) -> None:
        """Edges."""
        call = np.broadcast_to(np.asarray(call, np.int32), source.shape)
        self.edges.append((kind, source.astype(np.int32), target.astype(np.int32), call))


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
    work, launches, ends = _device_work(store, b, zero)
    waits, waited = _waits(store, b, zero, calls_of, work, ends)
    mpi = _mpi(store, b, zero, calls_of)
    teams = _teams(store, b, zero)
    frame = _frame(b, zero, processes, threads, [launches, waits, mpi["nodes"], teams])
    return _finish(b, zero, frame, work, ends, mpi, waited, process_of)


# ---- devices ----


def _device_work(store: Store, b: _Builder, zero: int) -> tuple[dict[str, Any], Ints, Ints]:
    """A node at each launch, and one at the end of each piece of work."""
    work = _numpy(
        store,
        f"""
        SELECT a.process::INTEGER AS process, a.thread::INTEGER AS thread, a.seq::BIGINT AS seq, a.queue::INTEGER AS queue,
               a.device::INTEGER AS device, coalesce(q.flags & 1, 0)::TINYINT AS unordered, l.label::INTEGER AS label,
               CASE WHEN a.queued_ns > 0 THEN least(a.queued_ns, a.start_ns) ELSE a.start_ns END::BIGINT - {zero} AS launched,
               a.start_ns::BIGINT - {zero} AS s, greatest(a.start_ns, a.end_ns)::BIGINT - {zero} AS e
        FROM critical_work a LEFT JOIN queues q USING (queue)
        JOIN critical_labels l ON l.kind = a.kind AND l.name = a.name AND l.kernel = a.named_kernel AND l.line = a.line
        WHERE a.kind != 'marker' ORDER BY e""",
    )
    n = len(work["s"])
    ends = b.add(work["e"], _WORK)
    has = np.flatnonzero(work["thread"] >= 0)
    launches = np.empty(0, np.int64)
    if len(has):
        # Work of one call is launched at one moment of its thread.
        key = work["thread"][has].astype(np.int64) << 32 | (work["seq"][has] & 0xFFFFFFFF)
        calls, which = np.unique(key, return_inverse=True)
        first = np.full(len(calls), np.iinfo(np.int64).max)
        np.minimum.at(first, which, work["launched"][has])
        launches = b.add(first, _SOURCE, calls >> 32)
        b.link(LAUNCH, launches[which], ends[has])
    # In a queue in order each piece waits for the one before it.
    order = np.lexsort((work["e"], work["s"], work["queue"]))
    before, after = order[:-1], order[1:]
    same = (
        (work["queue"][before] == work["queue"][after]) & (work["queue"][after] >= 0) & (work["unordered"][after] == 0)
    )
    same &= work["e"][before] <= work["s"][after] + _OVERLAP_NS
    b.link(QUEUE, ends[before[same]], ends[after[same]])
    # Work that begins long after its launch, when its queue is free, waited for another one: the last to end before.
    if n > 1:
        latest = np.searchsorted(work["e"], work["s"], "right") - 1
        known = work["launched"].copy()
        previous = np.full(n, -1, np.int64)
        previous[after[same]] = work["e"][before[same]]
        known = np.maximum(known, previous)
        there = (latest >= 0) & (work["e"][latest] > known) & (work["process"][latest] == work["process"])
        there &= (work["queue"][latest] != work["queue"]) & (latest != np.arange(n))
        b.link(OTHER_QUEUE, ends[latest[there]], ends[there])
    return work, launches, ends


def _waits(
    store: Store, b: _Builder, zero: int, calls_of: tuple[str, ...], work: dict[str, Any], ends: Ints
) -> tuple[Ints, dict[str, Any]]:
    """Two nodes at each call that can wait for a device: where it begins, and where it returns. Also these calls and their work."""
    none = np.empty(0, np.int64)
    found = []
    for name in calls_of:
        api, _, key = name.partition(".")
        function = store.model.function(api, key) if api in _DEVICE_APIS else None
        if function and function.blocking and not function.compiles:
            found.append(f"SELECT process, thread, seq, start_ns, end_ns FROM {sql_name(name)} WHERE end_ns > start_ns")
    if not found or not len(ends):
        return none, dict.fromkeys(("thread", "s", "e", "work"), none)
    calls = _numpy(
        store,
        f"SELECT process::BIGINT AS process, thread::BIGINT AS thread, seq::BIGINT AS seq, start_ns::BIGINT - {zero} AS s,"
        f" end_ns::BIGINT - {zero} AS e FROM ({' UNION ALL '.join(found)}) ORDER BY e",
    )
    # Its own work, where it enqueued some; else the last of its thread, else of its process, that was over.
    own = _last_at(work, calls, "thread", own=True)
    thread = _last_at(work, calls, "thread")
    process = _last_at(work, calls, "process")

    def ended(which: Ints) -> Ints:
        return np.where(which >= 0, work["e"][which], -1)

    waited = np.where(ended(thread) >= calls["s"], thread, process)
    waited = np.where(ended(waited) >= calls["s"], waited, thread)
    waited = np.where(own >= 0, own, waited)
    # One whose own work goes on after it has returned waits for nothing.
    waits = (waited >= 0) & ~((own >= 0) & (ended(own) > calls["e"]))
    enter = b.add(calls["s"][waits], _SOURCE, calls["thread"][waits])
    leave = b.add(calls["e"][waits], _SINK, calls["thread"][waits], elastic=True)
    b.link(DONE, ends[waited[waits]], leave)
    kept = {name: calls[name][waits] for name in ("thread", "s", "e")} | {"work": waited[waits]}
    return np.concatenate([enter, leave]), kept


def _last_at(work: dict[str, Any], calls: dict[str, Any], by: str, own: bool = False) -> Ints:
    """Of each call the piece of work of the same thread or process that ended last before the call did; or its own."""
    out = np.full(len(calls["s"]), -1, np.int64)
    if own:
        key = work["thread"].astype(np.int64) << 32 | (work["seq"] & 0xFFFFFFFF)
        order = np.argsort(key, kind="stable")
        wanted = calls["thread"] << 32 | (calls["seq"] & 0xFFFFFFFF)
        at = np.searchsorted(key[order], wanted, "right") - 1
        hit = (at >= 0) & (key[order][at] == wanted)
        out[hit] = order[at[hit]]
        return out
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
        **dict.fromkeys(("sent", "probed", "posted"), (none, none)),
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
        f" FROM ({union}) c{known.join} ORDER BY thread, s",
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
    _collectives(b, rows, rank_of, place, enter, leave, calls)
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


def _messages(
    b: _Builder, rows: list[Any], rank_of: dict[int, int], place: dict[tuple[int, int], int],
    by_thread: dict[int, tuple[Ints, int]], probes: _Probes, enter: Ints, leave: Ints, calls: dict[str, Any],
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

    def completed(row: Any) -> int | None:
        """The call in which it was seen to be complete."""
        if row[3] is not None:
            return place.get((row[1], row[2]))
        starts, first = by_thread.get(row[1], (np.empty(0, np.int64), 0))
        at = int(np.searchsorted(starts, row[9], "right")) - 1
        if at < 0:
            return None
        # A call that waits writes what was completed after it has returned.
        late = _COMPLETED_NS if calls["function"][calls["f"][first + at]].startswith(_COMPLETING) else 0
        return first + at if calls["e"][first + at] + late >= row[9] else None

    def probed(row: Any) -> int | None:
        """The probe that found the message: the last one of its kind before it is received."""
        ends = probes.get((row[1], row[5], row[6]), [])
        at = bisect.bisect_right(ends, (row[8], 1 << 32)) - 1
        return place.get((row[1], ends.pop(at)[1])) if at >= 0 else None

    sent_by, got_by, got_at, posted_by, done_by, found_by, sent_for = [], [], [], [], [], [], []
    calls["unmatched"] = 0
    for key, ours in sent.items():
        theirs = received.get(key, [])
        if len(theirs) != len(ours):
            calls["unmatched"] += len(ours)
            continue  # which belongs to which is not sure
        for send, receive in zip(ours, theirs, strict=True):
            begun, got = place.get((send[1], send[2])), completed(receive)
            if begun is not None and got is not None:
                sent_by.append(begun)
                got_by.append(got)
                got_at.append(receive[9])
            if probes and begun is not None and (probe := probed(receive)) is not None:
                sent_for.append(begun)
                found_by.append(probe)
            posted, done = place.get((receive[1], receive[2])), completed(send)
            if posted is not None and done is not None and (send[7] or 0) > _EAGER_BYTES:
                posted_by.append(posted)
                done_by.append(done)
    # By call: who sent and in which call it was received, and when; which probe found it; who was ready to receive, and in which
    # call the send was over.
    calls["received"] = np.array(got_at, np.int64)
    calls["sent"] = np.array(sent_by, np.int64), np.array(got_by, np.int64)
    calls["posted"] = np.array(posted_by, np.int64), np.array(done_by, np.int64)
    calls["probed"] = np.array(sent_for, np.int64), np.array(found_by, np.int64)
    for first, last in (calls["sent"], calls["probed"], calls["posted"]):
        b.link(MESSAGE, enter[first], leave[last], last)


def _collectives(
    b: _Builder, rows: list[Any], rank_of: dict[int, int], place: dict[tuple[int, int], int],
    enter: Ints, leave: Ints, calls: dict[str, Any],
) -> None:  # fmt: skip
    """Where nobody leaves before all have come, all lead to a meeting and it to all. Else the last to come before a rank
    leaves leads to that rank."""
    counted: dict[Any, int] = {}
    meetings: dict[Any, list[int]] = {}
    for row in rows:
        process, function, kind, comm = row[0], row[3], row[4], row[10]
        call = place.get((row[1], row[2]))
        if kind != "collective" or function is None or call is None or process not in rank_of:
            continue
        number = counted[process, comm, function] = counted.get((process, comm, function), 0) + 1
        meetings.setdefault((comm, function, number), []).append(call)
    # Of the start and the end of MPI there are no messages.
    names = calls["function"]
    of_process: dict[Any, int] = {}
    for at, f in enumerate(calls["f"].tolist()):
        if names[f] in ("MPI_Init", "MPI_Init_thread", "MPI_Finalize"):
            key = ("", "MPI_Finalize" if names[f] == "MPI_Finalize" else "MPI_Init", 1)
            if of_process.setdefault((key, int(calls["process"][at])), at) == at:
                meetings.setdefault(key, []).append(at)
    calls["meetings"] = []
    for (_, function, _), members in meetings.items():
        if len(members) < 2:
            continue
        calls["meetings"].append((function, np.array(members, np.int64)))
        those = np.array(members, np.int64)
        begins, ends = calls["s"][those], calls["e"][those]
        if function in _SYNCHRONIZING and int(begins.max()) <= int(ends.min()):
            meeting = b.add([int(begins.max())], _MEETING, elastic=True)
            b.link(TOGETHER, enter[those], np.repeat(meeting, len(those)))
            b.link(MESSAGE, np.repeat(meeting, len(those)), leave[those], those)
            continue
        order = np.argsort(begins)
        before = order[np.searchsorted(begins[order], ends, "right") - 1]
        there = before != np.arange(len(those))
        b.link(MESSAGE, enter[those[before[there]]], leave[those[there]], those[there])


# ---- OpenMP ----


# When a thread of a team has nothing to do any more: tasks that it runs at the barrier at the end are its work.
ARRIVES = "(greatest(t.start_ns, t.end_ns) + t.late_ns)"


def _teams(store: Store, b: _Builder, zero: int) -> Ints:
    """A region begins, its threads begin and arrive, the last of them ends it."""
    if "omp_regions" not in store.filled:
        return np.empty(0, np.int64)
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
    return np.concatenate([begins, ends, forked, joined])


# ---- threads and processes ----


def _frame(
    b: _Builder, zero: int, processes: dict[str, Any], threads: dict[str, Any], groups: list[Ints]
) -> dict[str, Any]:
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
        "begins": begins, "ends": ends, "main": main, "groups": groups,
        "process": processes["process"][keep], "pid": processes["pid"][keep], "ppid": processes["ppid"][keep],
    }  # fmt: skip


def _finish(
    b: _Builder, zero: int, frame: dict[str, Any], work: dict[str, Any], ends: Ints, mpi: dict[str, Any],
    waited: dict[str, Any], process_of: dict[int, int],
) -> Graph:  # fmt: skip
    time, order, thread, elastic = (np.concatenate([part[i] for part in b.nodes]) for i in range(4))
    time = np.maximum(time, 0)
    # What a thread does follows from what it did before.
    by_thread = np.lexsort((order, time, thread))
    by_thread = by_thread[thread[by_thread] >= 0].astype(np.int32)
    before, after = by_thread[:-1], by_thread[1:]
    same = thread[before] == thread[after]
    b.link(HOST, before[same], after[same])
    _threads(b, frame, time, thread, elastic, by_thread, process_of)
    del by_thread, before, after, same
    place = np.empty(len(time), np.int32)
    sequence = np.lexsort((order, time)).astype(np.int32)
    place[sequence] = np.arange(len(time), dtype=np.int32)
    kind = np.concatenate([np.full(len(part[1]), part[0], np.uint8) for part in b.edges])
    source = place[np.concatenate([part[1] for part in b.edges])]
    target = place[np.concatenate([part[2] for part in b.edges])]
    call = np.concatenate([part[3] for part in b.edges])
    b.edges.clear()
    b.nodes.clear()
    good = source < target  # clocks of devices and hosts are not exact to the last nanosecond
    kind, source, target, call = kind[good], source[good], target[good], call[good]
    piece = np.full(len(time), -1, np.int32)
    piece[place[ends]] = np.arange(len(ends), dtype=np.int32)
    if len(mpi["nodes"]):
        own_call = np.full(len(time), -1, np.int32)
        own_call[place[mpi["leave"]]] = np.arange(len(mpi["leave"]))
        host = kind == HOST
        # The host's edge to the end of a call is that call's.
        call = np.where(host, own_call[target], call)
    time, thread, elastic = time[sequence], thread[sequence], elastic[sequence]
    elastic = elastic | (piece >= 0)
    lag, work_ns = _weights(time, elastic, piece, work, kind, source, target)
    base = np.zeros(len(time))
    led = np.zeros(len(time), bool)
    led[target] = True
    base[~led] = time[~led]
    last = place[frame["ends"]]
    return Graph(
        zero, int(last[np.argmax(time[last])]), time, thread, base, elastic, source.astype(np.uint32),
        target.astype(np.uint32), kind, lag, piece[target], work_ns, call.astype(np.int32), work, mpi["calls"], process_of,
        waited,
    )  # fmt: skip


def _threads(
    b: _Builder, frame: dict[str, Any], time: Ints, thread: Ints, elastic: npt.NDArray[np.bool_], by_thread: Ints,
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
    time: Ints, elastic: npt.NDArray[np.bool_], piece: npt.NDArray[np.int32], work: dict[str, Any],
    kind: npt.NDArray[np.uint8], source: Ints, target: Ints,
) -> tuple[Floats, Floats]:  # fmt: skip
    """Of each edge its lag, and the work that it ends with. The last edge to arrive has all that is left until the node; the
    others what such edges usually have when they are the last, as far as there is room."""
    arrived = np.full(len(time), -1, np.int64)
    np.maximum.at(arrived, target, time[source])
    binding = time[source] == arrived[target]
    del arrived
    lag = (time[target] - time[source]).astype(np.float64)  # the work included, so far
    duration = np.zeros(len(kind))
    has = np.flatnonzero(piece[target] >= 0)
    if len(has):
        duration[has] = np.minimum((work["e"] - work["s"])[piece[target[has]]], lag[has])
        lag[has] -= duration[has]
    del has
    for each in range(len(KINDS)):
        of_kind = kind == each
        if each == HOST:
            # Where a node only waits, the thread's own edge has no weight unless it is the last to arrive.
            lag[of_kind & elastic[target] & ~binding] = 0.0
            continue
        last = of_kind & binding
        usual = float(np.percentile(lag[last], 25)) if last.any() else 0.0
        others = of_kind & ~binding
        lag[others] = np.minimum(lag[others], usual if each in (LAUNCH, DONE, MESSAGE, FORK) else 0.0)
    return lag, duration
