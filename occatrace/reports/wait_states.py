"""The report `wait_states`: who waited for whom, by the patterns of Scalasca, on the graph of the run (critical/).

Definitions of Scalasca: a wait begins when the waiting side enters its call and ends when the other side enters its own,
at the latest when the call returns. A call waits once: for the last of those that it needs.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from occatrace.core.sql import name as sql_name
from occatrace.reports import critical, limits, spans
from occatrace.reports.critical import building, graph, labels, mpi
from occatrace.reports.critical.building import numbers_of
from occatrace.reports.critical.labels import Label, Spans

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from occatrace.reports import Report
    from occatrace.store.tables import Store

Ints = npt.NDArray[np.int64]

SENDER, RECEIVER, BARRIER, NXN = "late sender", "late receiver", "wait at barrier", "wait at NxN"
BROADCAST, REDUCE, SCAN, ENDS = "late broadcast", "early reduce", "early scan", "start or end of MPI"
DEVICE, QUEUE, LOCK = "wait for device", "wait for queue", "wait for lock"
TEAM, INNER = "end of OpenMP region", "OpenMP barrier"

_FROM_ROOT = frozenset(("MPI_Bcast", "MPI_Scatter", "MPI_Scatterv"))
_TO_ROOT = frozenset(("MPI_Reduce", "MPI_Gather", "MPI_Gatherv"))
_LIKE_BARRIER = frozenset(("MPI_Barrier", "MPI_Win_fence"))
_PATTERNS = (SENDER, RECEIVER, BARRIER, NXN, BROADCAST, REDUCE, SCAN, ENDS)
_SHOWN = {
    "host": "host code",
    "launch": "launch latency",
    "build": "kernel build",
    "import": "Python import",
    "python": "Python",
    "function": "OpenMP region",
}
_AT_ONCE = 1 << 20  # pieces of culprits that are looked at at a time


def rows(store: Store, _: str, __: Sequence[Report] = ()) -> list[tuple[Any, ...]]:
    """Rows of the report, the largest sum first."""
    run = critical.of(store)
    return found(store, run) if run.graph is not None else []


def found(store: Store, run: critical.Run) -> list[tuple[Any, ...]]:
    """The same of a graph that is there."""
    if run.graph is None:
        return []
    states = _States(store, run, run.graph)
    states.of_mpi()
    states.of_devices()
    states.of_queues()
    states.of_teams()
    counted = spans.without(spans.launchers(store.con, store.filled))
    sql = f"SELECT sum(span(start_ns, end_ns))::DOUBLE FROM processes WHERE {counted}"
    whole = store.con.execute(sql).fetchall()[0][0] or 0.0
    rows = [
        (100.0 * total / whole if whole else 0.0, total, times, most, *key)
        for key, (total, times, most) in states.sums.items()
        if total > 0
    ]
    return sorted(rows, key=lambda row: (-row[1], *(str(word) for word in row[4:])))


def notes(store: Store, _: str) -> list[str]:
    """What cannot be told."""
    out = limits.lines(
        store,
        "waits are not known",
        "waits in which they had a part are missing",
        "waits of the other times are not known",
    )
    ranks = store.con.execute(
        "SELECT count(DISTINCT coalesce(m.rank, p.rank)) FROM processes p LEFT JOIN mpi_ranks m USING (process)"
    ).fetchall()[0][0]
    if ranks == 1:
        out.append("one rank was recorded: waits for other ranks are not known")
    return out


class _States:
    def __init__(self, store: Store, run: critical.Run, g: graph.Graph) -> None:
        self._store, self._run, self._g = store, run, g
        self._tids = dict(store.con.execute("SELECT thread, tid::VARCHAR FROM threads").fetchall())
        self._waited: dict[int, Spans] = {}
        # By what makes a row: sum, count and longest.
        self.sums: dict[tuple[Any, ...], list[int]] = {}

    def _add(self, key: tuple[Any, ...], ns: int, times: int = 1, most: int | None = None) -> None:
        entry = self.sums.setdefault(key, [0, 0, 0])
        entry[0] += ns
        entry[1] += times
        entry[2] = max(entry[2], ns if most is None else most)

    def _rank(self, thread: int) -> int | None:
        return self._run.rank_of(self._g.process_of.get(thread, -1))

    # ---- MPI ----

    def of_mpi(self) -> None:
        """Waits for other ranks."""
        calls = self._g.calls
        if not len(calls["f"]):
            return
        own, other, until, pattern = self._latest(calls)
        culprits, culprit = np.unique(calls["thread"][other], return_inverse=True)
        order = np.argsort(culprit, kind="stable")
        bounds = np.searchsorted(culprit[order], np.arange(len(culprits) + 1))
        for number, thread in enumerate(culprits.tolist()):
            those = order[bounds[number] : bounds[number + 1]]
            who = own[those]
            start, end = calls["s"][who], until[those]
            doing = self._most([self._device_waits(thread), *self._run.layers(thread, programs=False)], start, end)
            columns = pattern[those], calls["thread"][who], calls["f"][who], doing
            self._add_all(columns, end - start, thread)

    def _add_all(self, columns: tuple[Any, ...], ns: Ints, culprit: int) -> None:
        """Rows of waits for one thread. `columns`: the pattern, the waiting thread, its function, the label of what the culprit did."""
        key = np.zeros(len(ns), np.int64)
        for column in columns:
            values, place = np.unique(column, return_inverse=True)
            key = key * len(values) + place
        keys, first, group = np.unique(key, return_index=True, return_inverse=True)
        sums, most = np.zeros(len(keys), np.int64), np.zeros(len(keys), np.int64)
        times = np.bincount(group, minlength=len(keys))
        np.add.at(sums, group, ns)
        np.maximum.at(most, group, ns)
        for at, row in enumerate(zip(*(column[first].tolist() for column in columns), strict=True)):
            pattern, thread, function, number = row
            who = self._rank(thread), self._tids.get(thread, ""), self._g.calls["function"][function]
            entry = (_PATTERNS[pattern], *who, self._rank(culprit), *self._words(number))
            self._add(entry, int(sums[at]), int(times[at]), int(most[at]))

    def _latest(self, calls: dict[str, Any]) -> tuple[Ints, Ints, Ints, Ints]:
        """Of each call that waited the latest that it waited for: the call, the one that came late, until when, and the pattern."""
        found = [
            (calls[what][1], calls[what][0], name)
            for name, what in ((SENDER, "sent"), (SENDER, "probed"), (SENDER, "driven"), (RECEIVER, "posted"))
        ]
        meetings, begins = calls["meetings"], calls["s"]
        found += self._of_roots(calls)
        for at in meetings.having(mpi.PREFIX).each():
            for i, call in enumerate(at.leaves.tolist()):
                last = int(at.comes[np.argmax(begins[at.comes[: i + 1]])])
                if begins[last] <= calls["e"][call]:  # else the ranks have another order there
                    found.append((np.array([call]), np.array([last]), SCAN))
        for function in filter(mpi.synchronizes, dict.fromkeys(meetings.names)):
            those = meetings.having(frozenset((function,)))
            name = BARRIER if function in _LIKE_BARRIER else ENDS if function in mpi.ENDS else NXN
            found.append((those.leaves, those.comes[those.last(begins[those.comes])][those.number], name))
        own, other = (np.concatenate([each[i] for each in found]).astype(np.int64) for i in (0, 1))
        pattern = np.repeat([_PATTERNS.index(name) for *_, name in found], [len(each) for each, *_ in found])
        until = np.minimum(begins[other], calls["e"][own])
        there = np.flatnonzero((own >= 0) & (until > begins[own]))  # -1: it is not known in which call
        # The latest of each call; of those at the same moment the first.
        there = there[np.lexsort((there, -until[there], own[there]))]
        there = there[np.r_[True, np.diff(own[there]) != 0]] if len(there) else there
        return own[there], other[there], until[there], pattern[there]

    def _of_roots(self, calls: dict[str, Any]) -> Iterator[tuple[Ints, Ints, str]]:
        """Waits for the root of a collective, and of the root for the last of the others."""
        meetings = calls["meetings"].having(_FROM_ROOT | _TO_ROOT)
        if not len(meetings):
            return
        rank = np.full(int(calls["thread"].max()) + 1, -1, np.int64)
        for thread in np.unique(calls["thread"]).tolist():
            own = self._rank(thread)
            rank[thread] = -1 if own is None else own
        root = self._roots(calls)[meetings.comes[meetings.first[:-1]]]
        root = root[meetings.number]
        at = meetings.first_of((rank[calls["thread"][meetings.comes]] == root) & (root >= 0))
        from_root = np.array([name in _FROM_ROOT for name in meetings.names], bool)[meetings.function]
        there = (from_root & (at >= 0))[meetings.number]
        yield meetings.leaves[there], meetings.comes[at[meetings.number[there]]], BROADCAST
        last = meetings.last(calls["s"][meetings.comes])
        to_root = ~from_root & (at >= 0)
        yield meetings.leaves[at[to_root]], meetings.comes[last[to_root]], REDUCE

    def _roots(self, calls: dict[str, Any]) -> Ints:
        """Of each call the rank of its root; -1: it has none."""
        out = np.full(len(calls["f"]), -1, np.int64)
        places = mpi.Places(calls)
        for function in calls["function"]:
            if mpi.blocking(function) in _FROM_ROOT | _TO_ROOT:
                columns = "thread::BIGINT AS thread, seq::BIGINT AS seq, args.root::BIGINT AS root"
                sql = f"SELECT {columns} FROM {sql_name('mpi.' + function)} WHERE args.root >= 0"
                rows = numbers_of(self._store, sql)
                out[places.of(rows["thread"], rows["seq"])] = rows["root"]
        return out

    # ---- devices ----

    def of_devices(self) -> None:
        """Threads that wait for device work: what ran in its queue meanwhile."""
        g = self._g
        waits, work = g.waits, g.activities
        if not len(waits["work"]):
            return
        end = np.minimum(waits["e"], work["e"][waits["work"]])
        real = end > waits["s"]
        start, end, thread, piece = waits["s"][real], end[real], waits["thread"][real], waits["work"][real]
        function = np.full(len(start), -1, np.int64)
        for one in np.unique(thread).tolist():
            rows = thread == one
            for layer in reversed(self._run.layers(one)):
                at = layer.at(start[rows])
                function[rows] = np.where(at >= 0, at, function[rows])
        latency = self._run.labels.number(Label("launch", ""))
        for queue in np.unique(work["queue"][piece]).tolist():
            rows = np.flatnonzero(work["queue"][piece] == queue)
            doing = self._most([self._of_queue(queue)], start[rows], end[rows], latency)
            for row, number in zip(rows.tolist(), doing.tolist(), strict=True):
                one = int(thread[row])
                rank = self._rank(one)
                name = self._run.labels.all[function[row]].name if function[row] >= 0 else ""
                key = (DEVICE, rank, self._tids.get(one, ""), name, rank, *self._words(number))
                self._add(key, int(end[row] - start[row]))

    def of_queues(self) -> None:
        """Work that waits for work of another queue."""
        g = self._g
        work = g.activities
        free = self._g.launched(slice(None))
        before = np.flatnonzero(g.kind == building.QUEUE)  # these and those of other queues lead from work to work only
        for at in range(0, len(before), building.AT_ONCE):
            some = before[at : at + building.AT_ONCE]
            np.maximum.at(free, g.works_of(some), g.time[g.source[some]])
        edges = np.flatnonzero(g.kind == building.OTHER_QUEUE)
        piece, other = g.works_of(edges), g.piece[g.source[edges]]
        ns = g.time[g.source[edges]] - free[piece]
        ns[work["queue"][piece] == work["queue"][other]] = 0  # in a queue without order: it waits for no other one
        label, ids = self._run.work_labels, dict(self._store.con.execute("SELECT queue, id FROM queues").fetchall())
        for one, culprit, lost in zip(piece[ns > 0].tolist(), other[ns > 0].tolist(), ns[ns > 0].tolist(), strict=True):
            rank = self._run.rank_of(int(work["process"][one]))
            own = self._run.labels.all[label[work["label"][one]]].name
            queue = f"queue {ids.get(int(work['queue'][one]), '')}"
            self._add((QUEUE, rank, queue, own, rank, *self._words(int(label[work["label"][culprit]]))), lost)

    def _of_queue(self, queue: int) -> Spans:
        work = self._g.activities
        own = np.flatnonzero(work["queue"] == queue)
        return self._in_order(self._g.starts(own), work["e"][own], self._run.work_labels[work["label"][own]])

    def _device_waits(self, thread: int) -> Spans:
        """The times in which a thread waited for a device, with what ran in the queue of the work that it waited for."""
        known = self._waited.get(thread)
        if known is None:
            waits, work = self._g.waits, self._g.activities
            own = np.flatnonzero(waits["thread"] == thread)
            none = np.empty(0, np.int64)
            parts = [(none, none, none)]
            for queue in np.unique(work["queue"][waits["work"][own]]).tolist():
                rows = own[work["queue"][waits["work"][own]] == queue]
                end = np.minimum(waits["e"][rows], work["e"][waits["work"][rows]])
                real = end > waits["s"][rows]
                waited = self._in_order(waits["s"][rows][real], end[real], rows[real])
                ran = self._of_queue(queue)
                if len(waited.start):
                    start, end, label = labels.split(self._run.labels, waited.start, waited.end, [ran])
                    of_work = np.isin(label, np.unique(ran.label))
                    parts.append((start[of_work], end[of_work], label[of_work]))
            known = self._waited[thread] = self._in_order(
                *(np.concatenate(column) for column in zip(*parts, strict=True))
            )
        return known

    @staticmethod
    def _in_order(start: Ints, end: Ints, label: Ints) -> Spans:
        """As spans that do not overlap: what begins first has the time."""
        order = np.lexsort((end, start))
        start, end, label = start[order], end[order], label[order]
        if len(start):
            start = np.maximum(start, np.r_[start[0], np.maximum.accumulate(end)[:-1]])
        keep = end > start
        return Spans(start[keep], end[keep], label[keep])

    def _most(self, layers: Sequence[Spans], start: Ints, end: Ints, gap: int | None = None) -> Ints:
        """The label with most of the time of each interval; `gap`: the one of times in no span, else host code."""
        low, high = int(start.min()), int(end.max())
        begins, until, label = labels.split(
            self._run.labels,
            np.array([low], np.int64),
            np.array([high], np.int64),
            [one for one in layers if len(one.start)],
        )
        if gap is not None:
            inside = np.isin(label, np.unique(np.concatenate([layer.label for layer in layers])))
            label = np.where(inside, label, gap)
        first = np.searchsorted(until, start, "right")
        counts = np.searchsorted(begins, end, "left") - first
        out = np.full(len(start), -1, np.int64)
        bound = np.r_[0, np.cumsum(counts)]
        at = 0
        while at < len(start):
            to = max(int(np.searchsorted(bound, bound[at] + _AT_ONCE, "right")) - 1, at + 1)
            which = np.repeat(np.arange(at, to), counts[at:to])
            piece = (
                np.arange(len(which))
                - np.repeat(bound[at:to] - bound[at], counts[at:to])
                + np.repeat(first[at:to], counts[at:to])
            )
            ns = np.minimum(until[piece], end[which]) - np.maximum(begins[piece], start[which])
            keys, group = np.unique(which << 32 | label[piece], return_inverse=True)
            sums = np.bincount(group, weights=ns, minlength=len(keys))
            order = np.argsort(sums, kind="stable")  # the largest last, and so the one that stays
            out[keys[order] >> 32] = keys[order] & 0xFFFFFFFF
            at = to
        return out

    def _words(self, number: int) -> tuple[str, str, str]:
        if number < 0:
            return "", "", ""
        label = self._run.labels.all[number]
        return _SHOWN.get(label.kind, label.kind), label.name, label.source

    # ---- OpenMP ----

    def of_teams(self) -> None:
        """Locks and barriers of OpenMP. Of a lock it is not known who had it."""
        if "omp_threads" not in self._store.filled:
            return
        place = "coalesce(nullif(r.function, ''), k.name, ''), coalesce(r.source, '')"
        source = (
            "omp_threads t JOIN omp_regions r ON r.thread = t.region_thread AND r.seq = t.region_seq"
            " LEFT JOIN kernels k ON k.kernel = r.kernel"
        )
        for name, column in ((LOCK, "mutex_ns"), (INNER, "barrier_ns")):
            sql = (
                f"SELECT t.thread, {place}, sum({column})::BIGINT, count(*), max({column})::BIGINT FROM {source}"
                f" WHERE {column} > 0 GROUP BY ALL"
            )
            for thread, function, where, ns, times, most in self._store.con.execute(sql).fetchall():
                rank = self._rank(thread)
                self._add((name, rank, self._tids.get(thread, ""), function, rank, "", "", where), ns, times, most)
        sql = f"""
            WITH last AS (SELECT region_thread, region_seq, arg_max(t.thread, {graph.ARRIVES}) AS late FROM omp_threads t GROUP BY ALL)
            SELECT t.thread, l.late, {place}, sum(t.join_ns)::BIGINT, count(*), max(t.join_ns)::BIGINT FROM {source}
            JOIN last l ON l.region_thread = t.region_thread AND l.region_seq = t.region_seq
            WHERE t.join_ns > 0 AND t.thread != l.late GROUP BY ALL"""
        for thread, late, function, where, ns, times, most in self._store.con.execute(sql).fetchall():
            rank = self._rank(thread)
            doing = f"{function} in thread {self._tids.get(late, '')}"
            key = (TEAM, rank, self._tids.get(thread, ""), function, rank, "OpenMP region", doing, where)
            self._add(key, ns, times, most)
