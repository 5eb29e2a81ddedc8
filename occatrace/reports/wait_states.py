"""The report `wait_states`: who waited for whom, by the patterns of Scalasca, on the graph of the run (critical/).

Definitions of Scalasca: a wait begins when the waiting side enters its call and ends when the other side enters its own,
at the latest when the call returns. A call waits once: for the last of those that it needs.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from occatrace.core.sql import name as sql_name
from occatrace.reports import critical, limits, spans
from occatrace.reports.critical import graph, labels
from occatrace.reports.critical.labels import Label, Spans

if TYPE_CHECKING:
    from collections.abc import Sequence

    from occatrace.reports import Report
    from occatrace.store.tables import Store

Ints = npt.NDArray[np.int64]

SENDER, RECEIVER, BARRIER, NXN = "late sender", "late receiver", "wait at barrier", "wait at NxN"
BROADCAST, REDUCE, SCAN, ENDS = "late broadcast", "early reduce", "early scan", "start or end of MPI"
DEVICE, QUEUE, LOCK = "wait for device", "wait for queue", "wait for lock"
TEAM, INNER = "end of OpenMP region", "OpenMP barrier"

ENDING = ("MPI_Init", "MPI_Init_thread", "MPI_Finalize")
_FROM_ROOT = frozenset(("MPI_Bcast", "MPI_Scatter", "MPI_Scatterv"))
_TO_ROOT = frozenset(("MPI_Reduce", "MPI_Gather", "MPI_Gatherv"))
_PREFIX = frozenset(("MPI_Scan", "MPI_Exscan"))
_LIKE_BARRIER = frozenset(("MPI_Barrier", "MPI_Win_fence"))
_SHOWN = {
    "host": "host code",
    "launch": "launch latency",
    "build": "kernel build",
    "import": "Python import",
    "python": "Python",
    "function": "OpenMP region",
}
_AT_ONCE = 1 << 20  # pieces of culprits that are looked at at a time


@dataclass(frozen=True)
class _Wait:
    """Of one wait: its pattern, the waiting thread, from when until when, and the thread that was waited for."""

    name: str
    thread: int
    start: int
    end: int
    culprit: int


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
        # Of each call the latest that it waited for: until when, whose call, and the pattern.
        latest: dict[int, tuple[int, int, str]] = {}

        def waits(call: int, other: int, name: str) -> None:
            if call < 0:
                return  # it is not known in which call
            until = min(int(calls["s"][other]), int(calls["e"][call]))
            if until > calls["s"][call] and until > latest.get(call, (0, 0, ""))[0]:
                latest[call] = (until, other, name)

        for name, what in ((SENDER, "sent"), (SENDER, "probed"), (SENDER, "driven"), (RECEIVER, "posted")):
            others, own = calls[what]
            late = np.flatnonzero(calls["s"][others] > calls["s"][own])
            for other, call in zip(others[late].tolist(), own[late].tolist(), strict=True):
                waits(call, other, name)
        roots = self._roots()
        for function, members, done in calls["meetings"]:
            begins = calls["s"][members]
            if function in _FROM_ROOT or function in _TO_ROOT:
                root = roots.get((int(calls["thread"][members[0]]), int(calls["seq"][members[0]])))
                at = next((i for i, call in enumerate(members) if self._rank(int(calls["thread"][call])) == root), None)
                if at is None:
                    continue
                if function in _FROM_ROOT:
                    for call in done.tolist():
                        waits(call, int(members[at]), BROADCAST)
                else:
                    waits(int(done[at]), int(members[np.argmax(begins)]), REDUCE)
            elif function in _PREFIX:
                for i, call in enumerate(done.tolist()):
                    if begins[: i + 1].max() <= calls["e"][call]:  # else the ranks have another order there
                        waits(call, int(members[np.argmax(begins[: i + 1])]), SCAN)
            elif graph.synchronizes(function):
                name = BARRIER if function in _LIKE_BARRIER else ENDS if function in ENDING else NXN
                for call in done.tolist():
                    waits(call, int(members[np.argmax(begins)]), name)
        found: dict[int, list[tuple[_Wait, str]]] = {}
        for call, (until, other, name) in latest.items():
            wait = _Wait(name, int(calls["thread"][call]), int(calls["s"][call]), until, int(calls["thread"][other]))
            found.setdefault(wait.culprit, []).append((wait, calls["function"][calls["f"][call]]))
        for culprit, those in found.items():
            start, end = (np.array([getattr(wait, what) for wait, _ in those], np.int64) for what in ("start", "end"))
            doing = self._most([self._device_waits(culprit), *self._run.layers(culprit, programs=False)], start, end)
            for (wait, function), number in zip(those, doing.tolist(), strict=True):
                who = (self._rank(wait.thread), self._tids.get(wait.thread, ""), function)
                self._add((wait.name, *who, self._rank(culprit), *self._words(number)), wait.end - wait.start)

    def _roots(self) -> dict[tuple[int, int], int]:
        """Ranks of the roots of collectives, by thread and number of the call."""
        out = {}
        there = set(self._g.calls["function"])
        for function in sorted(name for name in there if graph.blocking(name) in _FROM_ROOT | _TO_ROOT):
            sql = f"SELECT thread, seq, args.root FROM {sql_name('mpi.' + function)} WHERE args.root >= 0"
            out.update({(thread, seq): root for thread, seq, root in self._store.con.execute(sql).fetchall()})
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
        free = work["launched"].copy()
        before = np.flatnonzero(g.kind == graph.QUEUE)  # these and those of other queues lead from work to work only
        np.maximum.at(free, g.works_of(before), g.time[g.source[before]])
        edges = np.flatnonzero(g.kind == graph.OTHER_QUEUE)
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
        return self._in_order(work["s"][own], work["e"][own], self._run.work_labels[work["label"][own]])

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
