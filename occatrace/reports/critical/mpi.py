"""MPI in the graph of a run: which send belongs to which receive, who meets in collectives, and the edges of both. As arrays,
since a run may have ten million messages. No names of places, no output."""

from __future__ import annotations

import bisect
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from occatrace.core.sql import name as sql_name
from occatrace.reports.critical import lines
from occatrace.reports.critical.building import (
    MEETING,
    MESSAGE,
    SINK,
    SOURCE,
    TOGETHER,
    Builder,
    Flags,
    Ints,
    Narrow,
    Nodes,
    call_key,
    numbers_of,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from occatrace.store.tables import Store

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
PREFIX = frozenset(("MPI_Scan", "MPI_Exscan"))  # each rank needs those before it
# Others that nobody leaves before all have come, of which it is not recorded in which communicator they are.
_OF_ALL = re.compile(
    r"MPI_(Comm_(split|split_type|dup|dup_with_info|create)|(Cart|Graph|Dist_graph)_create\w*"
    r"|Win_(fence|create|create_dynamic|allocate|allocate_shared|free)"
    r"|File_(open|close|set_view|set_size|preallocate|sync|(read|write)_(all|at_all|ordered)))"
)
_SEND, _RECEIVE, _COLLECTIVE = range(3)
_NONE = -(1 << 31)  # of numbers that may be negative
_NO_CALL = (1 << 32) - 1
_LATEST = np.iinfo(np.int64).max


def blocking(function: str) -> str:
    """The name of the blocking function with small counts: MPI_Allreduce of MPI_Iallreduce_c."""
    name = function.removesuffix("_c")
    return f"MPI_{name[5].upper()}{name[6:]}" if name.startswith("MPI_I") else name


def synchronizes(function: str) -> bool:
    """Whether nobody leaves this collective before all have come. The name is that of the blocking function."""
    return function in _SYNCHRONIZING or _OF_ALL.fullmatch(function) is not None


@dataclass(frozen=True)
class Meetings:
    """Collectives. Those of number i are made by `names[function[i]]` (a blocking function); its members are the places from
    `first[i]` to `first[i + 1]`, two or more in the order of their ranks: in which call each comes, and in which it leaves (-1:
    this is not known)."""

    names: Sequence[str]
    function: Narrow
    first: Ints
    comes: Ints
    leaves: Ints

    def __len__(self) -> int:
        return len(self.function)

    @property
    def number(self) -> Ints:
        """Of each member the number of its collective."""
        return np.repeat(np.arange(len(self)), np.diff(self.first))

    def having(self, functions: frozenset[str]) -> Meetings:
        """Those of some functions."""
        wanted = np.array([name in functions for name in self.names], bool)
        return self.chosen(wanted[self.function] if len(self) else np.empty(0, bool))

    def chosen(self, those: Flags) -> Meetings:
        """Those that are marked."""
        members = np.repeat(those, np.diff(self.first))
        first = np.r_[0, np.cumsum(np.diff(self.first)[those])]
        return Meetings(self.names, self.function[those], first, self.comes[members], self.leaves[members])

    def each(self) -> Iterator[Meetings]:
        """One after another, each alone."""
        for number in range(len(self)):
            own = slice(int(self.first[number]), int(self.first[number + 1]))
            first = np.array([0, own.stop - own.start])
            yield Meetings(self.names, self.function[number : number + 1], first, self.comes[own], self.leaves[own])

    def first_of(self, marked: Flags) -> Ints:
        """Of each the place of the first marked member; -1: it has none."""
        places = np.flatnonzero(marked)[::-1]
        out = np.full(len(self), -1, np.int64)
        out[self.number[places]] = places  # of several the last assignment stays
        return out

    def last(self, begins: Ints) -> Ints:
        """Of each the place of the member that comes last (of several the first). `begins`: by place."""
        if not len(self):
            return np.empty(0, np.int64)
        return self.first_of(begins == np.maximum.reduceat(begins, self.first[:-1])[self.number])


def _no_meetings() -> Meetings:
    none = np.empty(0, np.int64)
    return Meetings([], np.empty(0, np.int32), np.zeros(1, np.int64), none, none)


def nodes(store: Store, b: Builder, zero: int, calls_of: tuple[str, ...]) -> dict[str, Any]:
    """Two nodes at each call of MPI; messages and collectives lead from the start of one to the end of another. The calls, and the
    first of the nodes in which they end."""
    names = [name for name in calls_of if name.startswith("mpi.")]
    none = np.empty(0, np.int64)
    if not names:
        matched = {"received": none, "meetings": _no_meetings(), "unmatched": 0}
        matched |= dict.fromkeys(("sent", "probed", "posted", "driven"), (none, none))
        return {"leave": 0, "calls": {"function": [], "lines": [""], "f": none, "line": none, **matched}}
    union = " UNION ALL ".join(
        f"SELECT {number} AS f, process, thread, seq, caller, start_ns, end_ns FROM {sql_name(name)}"
        for number, name in enumerate(names)
    )
    known = lines.of_calls(store)
    calls = numbers_of(
        store,
        f"SELECT f::INTEGER AS f, c.process::INTEGER AS process, c.thread::INTEGER AS thread, c.seq::UINTEGER AS seq,"
        f" ({known.number})::INTEGER AS line, start_ns::BIGINT - {zero} AS s, end_ns::BIGINT - {zero} AS e"
        f" FROM ({union}) c{known.join}",
    )
    # DuckDB needs twice the memory, as it sorts whole rows.
    order = np.lexsort((calls["seq"], calls["s"], calls["thread"])).astype(np.uint32)
    for name in calls:
        calls[name] = calls[name][order]
    del order
    calls["lines"] = known.texts
    calls["function"] = [name.partition(".")[2] for name in names]
    ranks = store.con.execute(
        "SELECT process, coalesce(m.rank, p.rank), coalesce(m.first, 0) FROM processes p LEFT JOIN mpi_ranks m USING (process)"
    ).fetchall()
    rank_of = {process: rank for process, rank, _ in ranks if rank is not None}
    world_of = {process: first for process, _, first in ranks}
    rows = _rows(store, zero, rank_of)
    places = Places(calls)
    rows["own"] = places.of(rows["thread"], rows["seq"])
    rows["done"] = _completed(rows, calls)
    del rows["named"]
    _messages(rows, _probes(store, names, zero), places, calls)
    calls["meetings"] = _joined(_counted(rows, calls), _of_all(rank_of, world_of, calls))
    del rows, places
    enter, leave = b.count, b.count + len(calls["s"])
    b.add(calls["s"], SOURCE, calls["thread"])
    b.add(np.maximum(calls["s"], calls["e"]), SINK, calls["thread"], elastic=True)
    for name in ("sent", "probed", "posted", "driven"):
        first, last = calls[name]
        b.link(MESSAGE, _at(enter, first), _at(leave, last))
    _meet(b, enter, leave, calls)
    return {"leave": leave, "calls": calls}


def _at(first: int, calls: Any) -> Nodes:
    """The nodes of calls, of which those of all stand together."""
    out: Nodes = calls.astype(np.uint32)
    out += np.uint32(first)
    return out


def of_run(store: Store) -> dict[str, Any]:
    """The calls of MPI alone: which sent to which (`sent`) and when that was received, which probe waited for what was sent
    (`probed`), and who met in collectives (`meetings`)."""
    calls: dict[str, Any] = nodes(store, Builder(), 0, store.functions())["calls"]
    return calls


def _rows(store: Store, zero: int, rank_of: dict[int, int]) -> dict[str, Any]:
    """Complete messages and collectives, with the ranks of those who made them (-1: not known)."""
    rows = numbers_of(
        store,
        f"""
        WITH communicators AS (
            SELECT mpi_comm, dense_rank() OVER (ORDER BY (coalesce(name, ''), size, first_rank)::VARCHAR) AS comm FROM mpi_comms
        )
        SELECT m.process::INTEGER AS process, m.thread::INTEGER AS thread, coalesce(m.seq, {_NO_CALL})::UINTEGER AS seq,
               m.function IS NOT NULL AS named,
               CASE m.kind WHEN 'send' THEN {_SEND} WHEN 'receive' THEN {_RECEIVE} ELSE {_COLLECTIVE} END::TINYINT AS kind,
               coalesce(m.partner, {_NONE})::INTEGER AS partner, coalesce(m.tag, {_NONE})::INTEGER AS tag,
               coalesce(m.bytes, 0) > {_EAGER_BYTES} AS large, m.start_ns::BIGINT - {zero} AS s, m.end_ns::BIGINT - {zero} AS e,
               coalesce(c.comm, -1)::INTEGER AS comm
        FROM mpi_messages m LEFT JOIN communicators c USING (mpi_comm)
        WHERE m.state = 'complete' AND m.kind IN ('send', 'receive', 'collective')""",
    )
    known = np.full(max(*rank_of, int(rows["process"].max(initial=0)), 0) + 1, -1, np.int32)
    for process, rank in rank_of.items():
        known[process] = rank
    rows["rank"] = known[rows["process"]]
    return rows


class Places:
    """Finds calls by their thread and their number there."""

    def __init__(self, calls: dict[str, Any]) -> None:
        key = call_key(calls["thread"], calls["seq"])
        # Numbers are given when calls begin, so this is mostly the order.
        self._order = None if np.all(key[1:] > key[:-1]) else np.argsort(key, kind="stable").astype(np.int32)
        self._key = key if self._order is None else key[self._order]

    def of(self, thread: Any, seq: Any) -> Narrow:
        """The places of calls; -1: it is not recorded."""
        wanted = call_key(np.asarray(thread), np.asarray(seq))
        if not len(self._key):
            return np.full(len(wanted), -1, np.int32)
        at = np.minimum(np.searchsorted(self._key, wanted), len(self._key) - 1)
        place = at if self._order is None else self._order[at]
        return np.where(self._key[at] == wanted, place, -1).astype(np.int32)


def _completed(rows: dict[str, Any], calls: dict[str, Any]) -> Narrow:
    """Of each row the call in which it was seen that it is complete; -1: none is known."""
    out: Narrow = rows["own"].copy()
    others = np.flatnonzero(~rows["named"])
    if not len(others):
        return out
    out[others] = -1
    others = others[np.argsort(rows["thread"][others], kind="stable")]
    # A call that waits writes what was completed after it has returned.
    late = np.array([COMPLETED_NS if name.startswith(_COMPLETING) else 0 for name in calls["function"]], np.int64)
    of_calls, first, count = np.unique(calls["thread"], return_index=True, return_counts=True)
    bounds = dict(zip(of_calls.tolist(), zip(first.tolist(), count.tolist(), strict=True), strict=True))
    threads, begin = np.unique(rows["thread"][others], return_index=True)
    for thread, low, high in zip(threads.tolist(), begin.tolist(), [*begin.tolist()[1:], len(others)], strict=True):
        if thread not in bounds:
            continue
        at, size = bounds[thread]
        those = others[low:high]
        place = at + np.searchsorted(calls["s"][at : at + size], rows["e"][those], "right") - 1
        before = place < at
        place = np.maximum(place, at)
        seen = calls["e"][place] + late[calls["f"][place]] >= rows["e"][those]
        out[those] = np.where(seen & ~before, place, -1)
    return out


# ---- messages ----


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


def _pairs(rows: dict[str, Any]) -> tuple[Nodes, Nodes, Ints, int]:
    """Rows of sends and of their receives, by sender and receiver (a number of each such two), and how many sends have none. MPI
    keeps the order of messages between two ranks: the first sent is the first received."""
    those = np.flatnonzero((rows["kind"] != _COLLECTIVE) & (rows["partner"] != _NONE) & (rows["rank"] >= 0)).astype(
        np.uint32
    )
    sends = rows["kind"][those] == _SEND
    rank, partner = (rows[name][those] for name in ("rank", "partner"))
    low = min(rank.min(initial=0), partner.min(initial=0))
    count = int(max(rank.max(initial=0), partner.max(initial=0))) - int(low) + 1
    between = np.where(sends, rank, partner).astype(np.int64)
    between -= low
    between *= count
    between += np.where(sends, partner, rank)
    between -= low
    del rank, partner
    # Small numbers, so that both fit into one.
    between, tag, comm = (
        _small(each) for each in (between, *(rows[name][those].astype(np.int64) for name in ("tag", "comm")))
    )
    tag *= int(comm.max(initial=0)) + 1
    tag += comm
    tag = _small(tag)
    del comm
    tags = int(tag.max(initial=0)) + 1
    between *= tags
    between += tag
    del tag
    sides = []
    for each in (sends, ~sends):
        channel, row = between[each], those[each]
        order = np.lexsort((rows["seq"][row], rows["s"][row], channel))
        sides.append((row[order], channel[order]))
    del between, those, sends
    runs = [_runs(channel) for _, channel in sides]
    matched = [_common(runs[0], runs[1]), _common(runs[1], runs[0])]  # else which belongs to which is not sure
    kept = [np.repeat(known, lengths) for known, (_, lengths) in zip(matched, runs, strict=True)]
    (send, channel), (receive, _) = sides
    return send[kept[0]], receive[kept[1]], channel[kept[0]] // tags, int(runs[0][1][~matched[0]].sum())


def _small(values: Ints) -> Ints:
    """Numbers below 2 ** 31 that are equal where the values are."""
    low, high = int(values.min(initial=_LATEST)), int(values.max(initial=0))
    if high - low < 1 << 31:
        return values - low if low else values
    out: Ints = np.unique(values, return_inverse=True)[1]
    return out


def _runs(values: Ints) -> tuple[Ints, Ints]:
    """The values of a sorted column, and how often each is there."""
    first = np.flatnonzero(np.r_[True, values[1:] != values[:-1]]) if len(values) else np.empty(0, np.int64)
    return values[first], np.diff(np.r_[first, len(values)])


def _common(some: tuple[Ints, Ints], others: tuple[Ints, Ints]) -> Flags:
    """Which values are there in both as often."""
    if not len(others[0]):
        return np.zeros(len(some[0]), bool)
    at = np.minimum(np.searchsorted(others[0], some[0]), len(others[0]) - 1)
    out: Flags = (others[0][at] == some[0]) & (others[1][at] == some[1])
    return out


def _messages(rows: dict[str, Any], probes: _Probes, places: Places, calls: dict[str, Any]) -> None:
    """Which calls of messages belong together."""
    send, receive, between, calls["unmatched"] = _pairs(rows)
    begun, over = rows["own"][send], rows["done"][send]
    posted, got = rows["own"][receive], rows["done"][receive]
    there = (begun >= 0) & (got >= 0)
    # By call: who sent and in which call it was received, and when; which probe found it; who was ready to receive, and in which
    # call the send was over; in which call of the sender a message went on its way that had been sent before.
    calls["received"] = rows["e"][receive][there]
    calls["sent"] = begun[there], got[there]
    calls["probed"] = _probed(rows, receive, begun, probes, places)
    # By sender, receiver and the names of calls, pairs of which the second call may be over when the first has begun.
    known = (posted >= 0) & (over >= 0)
    large = rows["large"][send][known]
    begun, over, posted, got, between = (each[known] for each in (begun, over, posted, got, between))
    f, count = calls["f"], len(calls["function"]) + 1
    ours = np.where(begun >= 0, f[begun], count - 1)
    synchronous = np.array([_SYNCHRONOUS.match(name) is not None for name in calls["function"]] + [False], bool)
    surely = large | synchronous[ours]
    kind = (between * count + ours) * count + f[over]
    short = _seen_to_wait(posted, over, kind, ~surely, calls)
    # MPI moves messages while it is called, so one may wait until the other side is in MPI again.
    passive = _seen_to_wait(got, over, kind, (got >= 0) & (got != posted), calls)
    kind = kind * count + np.where(got >= 0, f[got], count - 1)
    driven = _seen_to_wait(over, got, kind, (got >= 0) & (over != begun), calls)
    chosen = surely | short
    calls["posted"] = np.concatenate([posted[chosen], got[passive]]), np.concatenate([over[chosen], over[passive]])
    calls["driven"] = over[driven], got[driven]


def _probed(
    rows: dict[str, Any], receive: Nodes, begun: Narrow, probes: _Probes, places: Places
) -> tuple[Narrow, Narrow]:
    """Who sent what a probe found, and the probe: the last one of its kind before the message is received."""
    if not probes:
        return np.empty(0, np.int32), np.empty(0, np.int32)
    some = np.flatnonzero((begun >= 0) & np.isin(rows["thread"][receive], [key[0] for key in probes]))
    columns = (rows[name][receive[some]].tolist() for name in ("thread", "partner", "tag", "s"))
    sent, thread, seq = [], [], []
    for at, own, partner, tag, start in zip(some.tolist(), *columns, strict=True):
        ends = probes.get((own, partner, tag))
        place = bisect.bisect_right(ends, (start, 1 << 32)) - 1 if ends else -1
        if ends and place >= 0:
            sent.append(at)
            thread.append(own)
            seq.append(ends.pop(place)[1])
    found = places.of(np.array(thread, np.int64), np.array(seq, np.int64))
    return begun[np.array(sent, np.int64)][found >= 0], found[found >= 0]


def _seen_to_wait(first: Narrow, last: Narrow, kind: Ints, among: Flags, calls: dict[str, Any]) -> Flags:
    """Which pairs of calls are of a kind of which the second call goes on until the first begins, where that is later, often
    enough to say so."""
    out = np.zeros(len(first), bool)
    some = np.flatnonzero(among)
    kinds, of = np.unique(kind[some], return_inverse=True)
    begins = calls["s"][first[some]]
    late = begins > calls["s"][last[some]]
    often = np.bincount(of[late], minlength=len(kinds)) >= _SEEN_TO_WAIT
    early = late & (calls["e"][last[some]] < begins)
    out[some] = (often & (np.bincount(of[early], minlength=len(kinds)) == 0))[of]
    return out


# ---- collectives ----


def _meet(b: Builder, enter: int, leave: int, calls: dict[str, Any]) -> None:
    """Where nobody leaves before all have come, all lead to a meeting and it to all. Else the last to come before a rank
    leaves leads to that rank. A nonblocking one is left at the end of the call that saw it complete."""
    meetings: Meetings = calls["meetings"]
    if not len(meetings):
        return
    begins, left = calls["s"][meetings.comes], meetings.leaves >= 0
    ends = np.where(left, calls["e"][meetings.leaves], _LATEST)
    together = np.array([synchronizes(name) for name in meetings.names], bool)[meetings.function]
    latest = np.maximum.reduceat(begins, meetings.first[:-1])
    together &= latest <= np.minimum.reduceat(ends, meetings.first[:-1])
    some = np.logical_or.reduceat(left, meetings.first[:-1])
    number = meetings.number
    meet = np.full(len(meetings), -1, np.int64)
    meet[together & some] = b.add(latest[together & some], MEETING, elastic=True)
    there = (together & some)[number]
    b.link(TOGETHER, _at(enter, meetings.comes[there]), meet[number[there]])
    there &= left
    b.link(MESSAGE, meet[number[there]], _at(leave, meetings.leaves[there]))
    others = meetings.chosen(~together & some)
    if len(others):
        _one_after_another(b, others, enter, leave, calls)


def _one_after_another(b: Builder, meetings: Meetings, enter: int, leave: int, calls: dict[str, Any]) -> None:
    """Edges of collectives that one may leave before all have come."""
    begins, left = calls["s"][meetings.comes], meetings.leaves >= 0
    ends = np.where(left, calls["e"][meetings.leaves], -1)
    number, place = meetings.number, np.arange(len(begins))
    # The moments of each collective in a row: those who come before those who leave.
    moment = np.lexsort((np.repeat((0, 1), len(place)), np.r_[begins, ends], np.r_[number, number]))
    came = np.where(moment < len(place), np.arange(len(moment)), -1)
    before = moment[np.maximum(np.maximum.accumulate(came), 0)]
    last = np.empty(len(moment), np.int64)
    last[moment] = before
    before = last[len(place) :]
    there = left & (before != place) & (number[before] == number)
    prefix = np.array([name in PREFIX for name in meetings.names], bool)[meetings.function]
    for at in np.flatnonzero(prefix).tolist():
        # Each needs those before it; where it left earlier, ranks have another order in the communicator.
        own = slice(int(meetings.first[at]), int(meetings.first[at + 1]))
        upto = np.array([int(np.argmax(begins[own][: n + 1])) for n in range(own.stop - own.start)])
        before[own] = own.start + upto
        there[own] = left[own] & (before[own] != place[own]) & (begins[before[own]] <= ends[own])
    b.link(MESSAGE, _at(enter, meetings.comes[before[there]]), _at(leave, meetings.leaves[there]))


def _joined(*parts: Meetings) -> Meetings:
    names: list[str] = []
    functions, sizes = [], []
    for part in parts:
        functions.append(part.function + len(names))
        names += part.names
        sizes.append(np.diff(part.first))
    first = np.r_[0, np.cumsum(np.concatenate(sizes))].astype(np.int64)
    comes, leaves = (np.concatenate([getattr(part, what) for part in parts]) for what in ("comes", "leaves"))
    return Meetings(names, np.concatenate(functions).astype(np.int32), first, comes, leaves)


def _counted(rows: dict[str, Any], calls: dict[str, Any]) -> Meetings:
    """Collectives of a communicator: the first of each function there belong together, and so on."""
    those = np.flatnonzero((rows["kind"] == _COLLECTIVE) & (rows["own"] >= 0) & (rows["rank"] >= 0))
    if not len(those):
        return _no_meetings()
    call, count = rows["own"][those], len(calls["function"])
    f = calls["f"][call].astype(np.int64)
    _, of = np.unique((rows["comm"][those].astype(np.int64) + 1) * count + f, return_inverse=True)
    _, series = np.unique(of << 32 | rows["process"][those], return_inverse=True)
    order = np.lexsort((rows["seq"][those], rows["s"][those], series))
    begins = np.flatnonzero(np.r_[True, np.diff(series[order]) != 0])
    nth = np.empty(len(those), np.int64)
    nth[order] = np.arange(len(those)) - np.repeat(begins, np.diff(np.r_[begins, len(those)]))
    done = rows["done"][those]
    order = np.lexsort((done, call, rows["rank"][those], nth, of))
    edge = np.r_[True, (np.diff(nth[order]) != 0) | (np.diff(of[order]) != 0)]
    first = np.r_[np.flatnonzero(edge), len(those)].astype(np.int64)
    names = [blocking(name) for name in calls["function"]]
    found = Meetings(names, f[order[first[:-1]]].astype(np.int32), first, call[order], done[order])
    return found.chosen(np.diff(first) > 1)


def _of_all(rank_of: dict[int, int], world_of: dict[int, int], calls: dict[str, Any]) -> Meetings:
    """The start and the end of MPI, and collectives of which it is not known in which communicator they are: the first of each
    rank of an MPI_COMM_WORLD belong together, and so on, where all ranks have as many and all had come before one left."""
    numbers: dict[tuple[str, int], dict[int, list[int]]] = {}
    whole: dict[int, set[int]] = {}
    for process, rank in rank_of.items():
        whole.setdefault(world_of[process], set()).add(rank)
    process_of = calls["process"]
    for f, name in enumerate(calls["function"]):
        key = "MPI_Init" if name == "MPI_Init_thread" else name.removesuffix("_c")
        if name not in ENDS and not _OF_ALL.fullmatch(key):
            continue
        for at in np.flatnonzero(calls["f"] == f).tolist():
            process = int(process_of[at])
            numbers.setdefault((key, world_of.get(process, 0)), {}).setdefault(process, []).append(at)
    found: list[tuple[int, list[int]]] = []
    for n, ((name, world), of) in enumerate(numbers.items()):
        if name in ENDS:
            # Processes of one rank are those of several jobs.
            if len({rank_of.get(process, -1) for process in of}) == len(of) > 1:
                found.append((n, [those[0] for those in of.values()]))
            continue
        known = {rank_of[process]: those for process, those in of.items() if process in rank_of}
        if len(known) < 2 or known.keys() != whole[world] or len({len(those) for those in known.values()}) > 1:
            continue
        for each in zip(*(known[rank] for rank in sorted(known)), strict=True):
            if max(calls["s"][at] for at in each) <= min(calls["e"][at] for at in each):
                found.append((n, list(each)))
    members = np.array([at for _, each in found for at in each], np.int64)
    first = np.r_[0, np.cumsum([len(each) for _, each in found])].astype(np.int64)
    return Meetings([name for name, _ in numbers], np.array([n for n, _ in found], np.int32), first, members, members)
