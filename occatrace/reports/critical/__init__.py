"""The critical path of a run, and what another run would take: the reports `critical_path_sum` and `critical_path_trace`, and
`occa_prof why`.

The graph (graph.py) is walked back from the end of the run along the edges that decided (Böhme et al., SC'10); its pieces get
their names here.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from occatrace import _native
from occatrace.core.units import duration
from occatrace.errors import RunError
from occatrace.reports import limits
from occatrace.reports.critical import building, graph, labels, mpi, whatif
from occatrace.reports.critical.building import Ints, Narrow
from occatrace.reports.critical.called import Called
from occatrace.reports.critical.graph import Graph
from occatrace.reports.critical.labels import Label, Labels, Spans

if TYPE_CHECKING:
    from occatrace.reports import Report
    from occatrace.store.tables import Store

Floats = npt.NDArray[np.float64]

# What a piece is called that is no work: by the kind of its edge.
_LATENCY = {
    building.LAUNCH: ("launch", "launch latency of {}"),
    building.QUEUE: ("launch", "gap in the queue before {}"),
    building.OTHER_QUEUE: ("launch", "gap after other work before {}"),
    building.DONE: ("launch", "return from waiting for the device"),
    building.FORK: ("function", "start of an OpenMP team"),
    building.JOIN: ("function", "end of an OpenMP team"),
    building.THREAD: ("host", "until a thread begins"),
    building.END: ("host", "after a thread has ended"),
}
_NO_WORK = ("not recorded",)
_OF_PYTHON = ("import", "python")  # kinds of what Python does that is on a path
_GRAPH = "graph"  # in what a store keeps
_WORTH_NAMING = 0.05  # of the run, from which calls without times are named
_AT_ONCE = 1 << 18  # edges of which the pieces are made at a time, for the sake of memory


@dataclass(frozen=True)
class Pieces:
    """The pieces of a path, in order. `ns`: how long each takes; of a changed run not what was recorded."""

    start: Ints
    ns: Floats
    label: Narrow
    process: Narrow
    labels: Labels


@dataclass(frozen=True)
class Row:
    """A sum over pieces of one name in one rank."""

    kind: str
    name: str
    source: str
    rank: int | None
    time_ns: int
    share: float


@dataclass(frozen=True)
class Answer:
    """What `why` says."""

    wall_ns: int
    path_ns: int
    predicted_ns: int | None
    rows: Sequence[Row]
    notes: Sequence[str]


@dataclass(frozen=True)
class Recorded:
    """The critical path of a run as it was recorded, and its sums. Of each piece, in order: when it starts (ns since the zero of
    the run's views), how long it takes, its number in `labels`, its process, and the rank of that (-1: none)."""

    answer: Answer
    start: Ints
    ns: Floats
    label: Narrow
    process: Narrow
    rank: Ints
    labels: Sequence[Label]


class Run:
    """The graph of one run and its names, for any number of questions."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._labels = Labels()
        self._work_labels = labels.of_work(store, self._labels)
        self.graph = graph.build(store)
        self._named: dict[int, Spans] = labels.special(store, self._labels, self.graph.zero) if self.graph else {}
        self._of_python: dict[str, dict[int, Spans]] = {}
        self._called = Called(store, self._labels, self.graph.zero if self.graph else 0)
        ranks = store.con.execute(
            "SELECT process, coalesce(m.rank, p.rank) FROM processes p LEFT JOIN mpi_ranks m USING (process)"
        ).fetchall()
        self._rank_of: dict[int, int | None] = dict(ranks)

    @cached_property
    def computing(self) -> npt.NDArray[np.bool_]:
        """Of each edge whether it begins between MPI_Init and MPI_Finalize of its rank: what came before is no work of the job."""
        g = self._known
        out = np.ones(len(g.kind), bool)
        spans = self._store.con.execute(
            f"SELECT t.thread, m.start_ns::BIGINT - {g.zero}, coalesce(m.end_ns, p.end_ns)::BIGINT - {g.zero}"
            " FROM mpi_ranks m JOIN processes p USING (process) JOIN threads t USING (process)"
        ).fetchall()
        threads = g.thread[g.source]
        for thread, start, end in spans:
            rows = threads == thread
            out[rows] = (g.time[g.target[rows]] > start) & (g.time[g.source[rows]] <= end)
        return out

    @cached_property
    def busy(self) -> dict[int, float]:
        """By rank, how long it computes between MPI_Init and MPI_Finalize, with its device work (ns)."""
        g = self._known
        own = (g.kind == building.HOST) & ~g.in_mpi & self.computing
        thread_process = np.full(int(g.thread.max(initial=0)) + 1, -1, np.int64)
        for thread, process in g.process_of.items():
            if thread < len(thread_process):
                thread_process[thread] = process
        processes = thread_process[g.thread[g.source[own]]]
        lag = g.lags(np.flatnonzero(own))
        busy: dict[int, float] = {}
        for process in np.unique(processes).tolist():
            rank = self._rank_of.get(process)
            if rank is not None:
                busy[rank] = busy.get(rank, 0.0) + float(lag[processes == process].sum())
        durations = g.activities["ns"]
        for process in np.unique(g.activities["process"]).tolist():
            rank = self._rank_of.get(process)
            if rank is not None:
                busy[rank] = busy.get(rank, 0.0) + float(durations[g.activities["process"] == process].sum())
        return busy

    def pieces(self, changes: Sequence[whatif.Change] = ()) -> tuple[float, Pieces]:
        """The time at which the run ends, and the pieces of its critical path."""
        g = self._known
        factors = _Factors(self, changes)
        if not factors.changed:
            # The times are those that were recorded, so nothing has to be computed of edges beside the path.
            path = _native.decided_path(g.source, g.target, g.decides, g.end)
            return float(g.time[g.end]), self._of_path(path, factors)
        times, path = _native.longest_path(g.base, g.source, g.target, factors.weights(), g.end)
        return float(times[g.end]), self._of_path(path, factors)

    def times(self, changes: Sequence[whatif.Change]) -> Floats:
        """The time of each node of the changed run, in ns since its start."""
        g = self._known
        times, _ = _native.longest_path(g.base, g.source, g.target, _Factors(self, changes).weights(), g.end)
        return np.asarray(times)

    def without_queue(self, queue: str, name: str, other: str) -> float:
        """When the run would end if work of this name in this queue did not wait for work of another name in other queues (ns since
        its start). It ends as long after all work as it did, as somebody wants the results of each piece."""
        g = self._known
        work = g.activities
        every = np.arange(len(g.kind))
        weights = g.lags(every) + g.works(every)
        edges = np.flatnonzero(g.kind == building.OTHER_QUEUE)
        piece, before = g.works_of(edges), g.piece[g.source[edges]]
        names = np.array([label.name for label in self._labels.all])
        ids = self._store.con.execute("SELECT queue FROM queues WHERE 'queue ' || id = ?", [queue]).fetchall()
        those = np.isin(work["queue"][piece], [number for (number,) in ids])
        those &= names[self._work_labels[work["label"][piece]]] == name
        those &= names[self._work_labels[work["label"][before]]] == other
        weights[edges[those]] = -np.inf
        times, _ = _native.longest_path(g.base, g.source, g.target, weights, g.end)
        ends = g.piece >= 0
        after = g.time[g.end] - g.time[ends].max(initial=0)
        return max(float(times[g.end]), float(np.asarray(times)[ends].max(initial=0.0) + after))

    def recorded(self) -> Recorded:
        """The path as it was recorded."""
        end, found = self.pieces()
        processes, which = np.unique(found.process, return_inverse=True)
        ranks = [-1 if (rank := self._rank_of.get(process)) is None else rank for process in processes.tolist()]
        rank_of = np.array(ranks, np.int64)[which]
        start = found.start + (self._known.zero - self._store.zero)
        return Recorded(
            self._answer(end, found), start, found.ns, found.label, found.process, rank_of, found.labels.all
        )

    def answer(self, changes: Sequence[whatif.Change] = ()) -> Answer:
        """Where the time went, or would go."""
        return self._answer(*self.pieces(changes), changes)

    def _answer(self, end: float, found: Pieces, changes: Sequence[whatif.Change] = ()) -> Answer:
        g = self._known
        wall = int(g.time[g.end])
        chosen = np.array([label.kind not in _NO_WORK for label in self._labels.all] or [True])
        path = float(found.ns[chosen[found.label]].sum()) if len(found.ns) else 0.0
        whole = end if changes else float(wall)
        rows = self._rows(found, whole)
        return Answer(wall, round(path), round(end) if changes else None, rows, self._notes())

    def rank_of(self, process: int) -> int | None:
        """The rank of a process; None: it has none."""
        return self._rank_of.get(process)

    def layers(self, thread: int, programs: bool = True) -> list[Spans]:
        """What a thread did, in spans; of those that overlap, what is in an earlier layer counts. `programs`: with Python's programs,
        within which nothing is host code."""
        python = self._python("true" if programs else "kind != 'run'")
        return _filled(self._named.get(thread), self._called.of(thread), python.get(thread))

    def longest(self, thread: int, skipped: str, others: Sequence[int] = (), least: float = 0.0) -> Label | None:
        """What a thread did for most of its time, without calls whose names begin with `skipped`; None: nothing is known.

        With `others`, threads that do the same work in other ranks: what it did longest beyond their mean, if by more than
        `least` ns.
        """
        found = [self._sums(thread), *(sums for x in others if len(sums := self._sums(x)))]
        times = np.zeros((len(found), len(self._labels.all)))  # labels are added as threads are looked at
        for row, sums in zip(times, found, strict=True):
            row[: len(sums)] = sums
        sums = times[0] - times[1:].mean(axis=0) if len(times) > 1 else times[0]
        for number in np.argsort(-sums, kind="stable").tolist():
            label: Label = self._labels.all[number]
            if sums[number] > least and not (label.kind == "call" and label.name.startswith(skipped)):
                return label
        return None

    def _sums(self, thread: int) -> Floats:
        """The time that a thread spent on each label; empty: nothing is known of it."""
        g = self._known
        of = g.time[g.thread == thread]
        if not len(of):
            return np.zeros(0)
        layers = self.layers(thread, programs=False)
        start, end, label = labels.split(self._labels, of[:1], of[-1:], layers)
        return np.bincount(label, weights=end - start, minlength=len(self._labels.all)).astype(np.float64)

    def _python(self, chosen: str) -> dict[int, Spans]:
        """What Python did that is chosen (a condition in SQL), by thread; read once."""
        if chosen not in self._of_python:
            there = "python_calls" in self._store.filled
            found = labels.python(self._store, self._labels, self._known.zero, chosen) if there else {}
            self._of_python[chosen] = found
        return self._of_python[chosen]

    @property
    def _imports(self) -> dict[int, Spans]:
        """Starts and imports of Python, by thread."""
        return self._python("kind IN ('start', 'import')")

    def _on_path(self, thread: int, calls: Spans | None) -> list[Spans]:
        """What pieces of a thread are named after, with its calls; of those that overlap, what is in an earlier layer counts."""
        return _filled(self._named.get(thread), calls, self._imports.get(thread))

    @property
    def labels(self) -> Labels:
        """All names of pieces."""
        return self._labels

    @property
    def work_labels(self) -> Ints:
        """The label of each number in `graph.activities["label"]`."""
        return self._work_labels

    @property
    def _known(self) -> Graph:
        if self.graph is None:
            raise RunError(f"{self._store.run}: nothing was recorded, so there is no critical path")
        return self.graph

    def _rows(self, found: Pieces, whole: float) -> list[Row]:
        merged: dict[tuple[Label, int | None], float] = {}
        for at in range(0, len(found.ns), _AT_ONCE):
            some = slice(at, at + _AT_ONCE)
            pairs = found.label[some].astype(np.int64) << 32 | (found.process[some] + 1)
            keys, which = np.unique(pairs, return_inverse=True)
            sums = np.bincount(which, weights=found.ns[some], minlength=len(keys))
            for number, ns in zip(keys.tolist(), sums.tolist(), strict=True):
                key = (found.labels.all[number >> 32], self._rank_of.get((number & 0xFFFFFFFF) - 1))
                merged[key] = merged.get(key, 0.0) + ns
        rows = [
            Row(label.kind, label.name, label.source, rank, round(ns), 100.0 * ns / whole if whole else 0.0)
            for (label, rank), ns in merged.items()
            if round(ns) > 0
        ]
        return sorted(rows, key=lambda row: (-row.time_ns, row.kind, row.name, row.rank or 0))

    def _notes(self) -> list[str]:
        con = self._store.con
        out = limits.lines(
            self._store,
            "what a process did is one piece of host code",
            "launches, waits and messages among them are not followed",
            "what was not is on the path as not recorded, and not in its length",
        )
        tallied = con.execute("SELECT 1 FROM call_stats WHERE source = 'event' LIMIT 1").fetchall()
        if not out and not tallied:
            out.append("no single calls were recorded: what a process did is one piece of host code")
        out += self._counted()
        return out

    def _counted(self) -> list[str]:
        """Calls without times of their own that took a part of the run: on the path they are host code."""
        rows = self._store.con.execute(
            f"""SELECT function, sum(calls)::BIGINT, sum(total_ns)::DOUBLE AS ns FROM call_stats
            WHERE source = 'tally' AND process NOT IN (SELECT process FROM processes WHERE mode = 'tally') GROUP BY function
            HAVING ns / count(DISTINCT thread) > {_WORTH_NAMING} * recorded_ns(run_length()) ORDER BY ns DESC LIMIT 3"""
        ).fetchall()
        named = ", ".join(f"{function} ({calls:,} calls, {duration(ns)})" for function, calls, ns in rows)
        return [f"calls that are only counted have no times, and are part of host code: {named}"] if rows else []

    # ---- pieces ----

    def _of_path(self, path: npt.NDArray[np.uint32], factors: _Factors) -> Pieces:
        g = self._known
        parts: list[_Part] = []
        first = int(g.source[path[0]]) if len(path) else g.end
        kind, source, target = g.kind[path], g.source[path].astype(np.int64), g.target[path].astype(np.int64)
        lag = factors.lags_of(path)
        weight = factors.weights_of(path)
        if g.time[first] > 0:
            begun = np.array([self._labels.number(Label("host", "before the first process"))])
            owner = np.array([g.process_of.get(int(g.thread[first]), -1)])
            parts.append(_part(np.zeros(1, np.int64), np.array([float(g.time[first])]), begun, owner))
        parts += self._host(path, kind, source, target, weight, factors)
        self._called.forget()
        parts += self._device(path, kind, source, weight, lag)
        parts += self._latencies(path, kind, source, target, weight)
        del kind, source, target, lag, weight
        # A column at a time, as there may be ten million pieces.
        parts = parts or [_none()]
        starts, durations, names, owners = ([part[i] for part in parts] for i in range(4))
        parts.clear()
        start: Ints = _joined(starts)
        order = np.argsort(start, kind="stable").astype(np.uint32)
        start = start[order]
        ns, label, process = (_joined(column)[order] for column in (durations, names, owners))
        return Pieces(start, ns, label, process, self._labels)

    def _host(self, path: Any, kind: Any, source: Ints, target: Ints, weight: Floats, factors: _Factors) -> list[_Part]:
        """Time of threads: cut by what they did. Of MPI calls in which nobody was waited for, the call."""
        g = self._known
        parts = []
        own = kind == building.HOST
        of_mpi = own & (g.calls_of(path) >= 0)
        if of_mpi.any():
            numbers = self._mpi_labels(g.calls_of(path[of_mpi]), None)
            at = source[of_mpi]
            parts.append(_part(g.time[at], weight[of_mpi], numbers, self._processes(g.thread[at])))
        own &= ~of_mpi & (weight > 0)
        threads = g.thread[source]
        for thread in np.unique(threads[own]).tolist():
            rows = own & (threads == thread)
            layers = self._on_path(thread, self._called.of(thread))
            places = np.flatnonzero(rows)
            for at in range(0, len(places), _AT_ONCE):
                those = places[at : at + _AT_ONCE]
                start, end, label = labels.split(self._labels, g.time[source[those]], g.time[target[those]], layers)
                ns = (end - start) * factors.of_host(label, start, thread)
                parts.append(_part(start, ns, label, np.full(len(start), g.process_of.get(thread, -1), np.int32)))
        return parts

    def _device(self, path: Any, kind: Any, source: Ints, weight: Floats, lag: Floats) -> list[_Part]:
        g = self._known
        parts = []
        places = np.flatnonzero(g.works_of(path) >= 0)
        for at in range(0, len(places), _AT_ONCE):
            has = places[at : at + _AT_ONCE]
            which = g.works_of(path[has])
            of_work = self._work_labels[g.activities["label"][which]]
            process = g.activities["process"][which]
            latency = lag[has]
            work_ns = weight[has] - latency
            begins = np.maximum(g.time[source[has]] + latency.astype(np.int64), 0)
            # By kind of edge and by label: there are few of these pairs, and many pieces.
            pairs, which_pair = np.unique(kind[has].astype(np.int64) << 32 | of_work, return_inverse=True)
            names = np.array([self._latency(pair >> 32, pair & 0xFFFFFFFF) for pair in pairs.tolist()], np.int64)
            parts.append(_part(g.time[source[has]], latency, names[which_pair], process))
            parts.append(_part(begins, work_ns, of_work, process))
        return parts

    def _latencies(self, path: Any, kind: Any, source: Ints, target: Ints, weight: Floats) -> list[_Part]:
        g = self._known
        rest = (kind != building.HOST) & (g.works_of(path) < 0) & (weight > 0)
        if not rest.any():
            return []
        process = self._processes(np.where(g.thread[target[rest]] >= 0, g.thread[target[rest]], g.thread[source[rest]]))
        names = np.empty(int(rest.sum()), np.int64)
        sent = np.isin(kind[rest], (building.MESSAGE, building.TOGETHER))
        if sent.any():
            names[sent] = self._mpi_labels(g.calls_of(path[rest][sent]), source[rest][sent])
        kinds, which_kind = np.unique(kind[rest][~sent], return_inverse=True)
        names[~sent] = np.array([self._latency(k, None) for k in kinds.tolist()], np.int64)[which_kind]
        return [_part(g.time[source[rest]], weight[rest], names, process)]

    def _latency(self, kind: int, work: int | None) -> int:
        what, words = _LATENCY[kind]
        of = self._labels.all[work] if work is not None else Label("", "")
        return self._labels.number(Label(what, words.format(of.name), of.source))

    def _mpi_labels(self, which: Any, source: Ints | None) -> Ints:
        """Of calls of MPI: their own time, or the way of a message to their end. With the line of the call."""
        g = self._known
        froms = np.full(len(which), -1, np.int64) if source is None else self._processes(g.thread[source])
        keys = np.stack([g.calls["f"][which], g.calls["line"][which], froms])
        found, place = np.unique(keys, axis=1, return_inverse=True)
        numbers = []
        for f, line, process in found.T.tolist():
            name, rank = g.calls["function"][f], self._rank_of.get(process)
            told = name if rank is None else f"{name} from rank {rank}"
            numbers.append(self._labels.number(Label("network", told, g.calls["lines"][line])))
        return np.array(numbers, np.int64)[np.ravel(place)]

    def _processes(self, threads: npt.NDArray[Any]) -> Ints:
        of = self._known.process_of
        found, which = np.unique(threads, return_inverse=True)
        return np.array([of.get(thread, -1) for thread in found.tolist()], np.int64)[which]


_Part = tuple[Ints, Floats, Narrow, Narrow]  # starts, durations, labels and processes of pieces


def _filled(*layers: Spans | None) -> list[Spans]:
    """Those that have any spans."""
    return [spans for spans in layers if spans is not None and len(spans.start)]


def _none() -> _Part:
    return np.empty(0, np.int64), np.empty(0), np.empty(0, np.int32), np.empty(0, np.int32)


def _part(start: Ints, ns: Floats, label: Any, process: Any) -> _Part:
    """Those pieces that take time, in as few bytes as they need."""
    some = ns > 0
    return start[some], ns[some], label[some].astype(np.int32), process[some].astype(np.int32)


def _joined(parts: list[Any]) -> Any:
    """Parts as one column. They are not kept."""
    whole = np.concatenate(parts)
    parts.clear()
    return whole


class _Factors:
    """What the changes make of weights and pieces."""

    def __init__(self, run: Run, changes: Sequence[whatif.Change]) -> None:
        self._run = run
        self._changes = [change for change in changes if change.kind in whatif.KINDS]
        self._launches = [change for change in changes if change.kind == "launch"]
        self._unwaited = [change for change in changes if change.kind == "wait"]
        self._network = 1.0
        for change in changes:
            if change.kind == whatif.NETWORK:
                if not len(run._known.calls["f"]):
                    raise whatif.unknown(change, ())
                self._network *= change.factor if change.factor is not None else 1.0
        self._lag: Floats | None = None
        self._weights: Floats | None = None
        hosts = any(change.kind == "host" for change in self._changes)
        python = any(change.kind in _OF_PYTHON for change in self._changes)
        self._imports = run._imports if python else {}
        if self._unwaited or hosts or python or any(change.kind == "call" for change in self._changes):
            self._open_calls()
        self._host_code = self._split_host() if hosts else {}
        for change in (*self._changes, *self._launches, *self._unwaited):
            if not any(change.matches(label) for label in run._labels.all):
                raise whatif.unknown(change, run._labels.all)
        self._ranks = {int(change.name or 0): change for change in changes if change.kind == whatif.RANK}
        there = {rank for rank in run._rank_of.values() if rank is not None}
        for rank, change in self._ranks.items():
            if rank not in there:
                known = f"there are 0 to {max(there)}" if there else "the run has no ranks"
                raise RunError(f"--what-if {change.text}: no such rank; {known}")
        self._of_rank = self._rank_factors()

    def _open_calls(self) -> None:
        g = self._run._known
        self._run._called.hold(np.unique(g.thread[g.thread >= 0]).tolist())

    def _split_host(self) -> dict[int, tuple[Ints, Ints, Ints]]:
        """Of each thread the pieces of its own edges: the edge, the duration, the label. Host code has labels only now."""
        run, g = self._run, self._run._known
        edges = np.flatnonzero((g.kind == building.HOST) & ~g.in_mpi)
        edges = edges[g.lags(edges) > 0]
        edges = edges[np.lexsort((g.time[g.source[edges]], g.thread[g.source[edges]]))]
        threads = g.thread[g.source[edges]]
        out = {}
        for thread in np.unique(threads).tolist():
            own = edges[threads == thread]
            begin, end = g.time[g.source[own]], g.time[g.target[own]]
            layers = run._on_path(thread, run._called.held(thread))
            low, high, label = labels.split(run._labels, begin, end, layers)
            out[thread] = own[np.searchsorted(begin, low, "right") - 1], high - low, label
        return out

    def _of_label(self, changes: Sequence[whatif.Change] | None = None) -> Floats:
        """The factor of each label, by the changes of what it stands for itself, or by others."""
        out = np.ones(len(self._run._labels.all))
        for change in self._changes if changes is None else changes:
            for number, label in enumerate(self._run._labels.all):
                if change.matches(label):
                    out[number] *= change.factor if change.factor is not None else 1.0
        return out

    def of_host(self, label: Any, start: Ints, thread: int) -> Floats:
        """The factors of pieces of one thread."""
        run, g = self._run, self._run._known
        out: Floats = self._of_label()[label]
        factor = self._of_rank.get(g.process_of.get(thread, -1), 1.0)
        if factor != 1.0:
            at = np.flatnonzero((g.thread[g.source] == thread) & (g.kind == building.HOST) & run.computing)
            begins = np.sort(g.time[g.source[at]])
            inside = (
                (start >= begins[0]) & (start <= g.time[g.target[at]].max())
                if len(begins)
                else np.zeros(len(start), bool)
            )
            out = out * np.where(inside, factor, 1.0)
        return out

    @property
    def changed(self) -> bool:
        """Whether any weight may be another than it was recorded."""
        return bool(self._changes or self._launches or self._ranks or self._unwaited or self._network != 1.0)

    def weights(self) -> Floats:
        """The weights of all edges."""
        if self._weights is None:
            self._weights = self._make()
        return self._weights

    def weights_of(self, edges: Any) -> Floats:
        """The weights of some edges."""
        if self.changed:
            out: Floats = self.weights()[edges]
            return out
        g = self._run._known
        return g.lags(edges) + g.works(edges)

    def lags_of(self, edges: Any) -> Floats:
        """The weights of some edges without the device work that they end with."""
        if self.changed:
            self.weights()
        out: Floats = self._run._known.lags(edges) if self._lag is None else self._lag[edges]
        return out

    def _make(self) -> Floats:
        run, g = self._run, self._run._known
        lag, work = np.empty(len(g.kind)), np.empty(len(g.kind))
        for at in range(0, len(lag), _AT_ONCE):
            some = slice(at, at + _AT_ONCE)
            lag[some], work[some] = g.lags(some), g.works(some)
        of_label = self._of_label()
        which = g.works_of(slice(None))
        has = which >= 0
        if has.any():
            which = which[has]
            named = run._work_labels[g.activities["label"][which]]
            work[has] *= of_label[named]
            lag[has] *= self._of_label(self._launches)[named]
            process = g.activities["process"][which]
            work[has] *= np.array([self._of_rank.get(p, 1.0) for p in range(int(process.max(initial=0)) + 1)])[process]
        sent = np.isin(g.kind, (building.MESSAGE, building.TOGETHER)) | g.in_mpi
        # The start and the end of MPI move no messages: they take as long on a network that takes no time.
        if self._network != 1.0:
            ends = np.array([name in mpi.ENDS for name in g.calls["function"]])
            moved = np.flatnonzero(sent)
            call = g.calls_of(moved)
            lag[moved[~(ends[g.calls["f"][np.maximum(call, 0)]] & (call >= 0))]] *= self._network
        own = (g.kind == building.HOST) & ~sent & (lag > 0)
        threads = np.where(own, g.thread[g.source], -1)
        for thread in np.unique(threads[own]).tolist():
            of_thread = np.flatnonzero(threads == thread).astype(np.uint32)
            spans = _filled(run._named.get(thread), self._opened(thread), self._imported(thread))
            for at in range(0, len(of_thread), _AT_ONCE):
                rows = of_thread[at : at + _AT_ONCE]
                begin, end = g.time[g.source[rows]], g.time[g.target[rows]]
                near = [layer.near(int(begin.min()), int(end.max())) for layer in spans]
                for factor in np.unique(of_label[of_label != 1.0]).tolist():
                    for layer in near:
                        lag[rows] += (factor - 1.0) * (
                            layer.covered(end, of_label == factor) - layer.covered(begin, of_label == factor)
                        )
            if thread in self._host_code:
                edge, ns, label = self._host_code[thread]
                host = np.array([one.kind == "host" for one in run._labels.all])[label]
                np.add.at(lag, edge[host], ((of_label[label] - 1.0) * ns)[host])
            factor = self._of_rank.get(g.process_of.get(thread, -1), 1.0)
            for at in range(0, len(of_thread), _AT_ONCE):
                rows = of_thread[at : at + _AT_ONCE]
                lag[rows] = np.maximum(lag[rows], 0.0) * np.where(run.computing[rows], factor, 1.0)
        del own, threads, sent
        self._lag = lag
        weights: Floats = work
        weights += lag
        weights[self._not_waited_for()] = -np.inf
        return weights

    def _not_waited_for(self) -> Ints:
        """The edges from device work to calls that do not wait any more. The last call of a thread still does: somebody wants
        the results."""
        run, g = self._run, self._run._known
        if not self._unwaited:
            return np.empty(0, np.int64)
        chosen = np.array([any(change.matches(label) for change in self._unwaited) for label in run._labels.all])
        edges = np.flatnonzero((g.kind == building.DONE) & (g.thread[g.target] >= 0))
        threads = g.thread[g.target[edges]]
        out = []
        for thread in np.unique(threads).tolist():
            spans = run._called.held(thread)
            own = edges[threads == thread]
            if spans is None or not len(own):
                continue
            label = spans.at(g.time[g.target[own]] - 1)
            own = own[(label >= 0) & chosen[np.maximum(label, 0)]]
            out.append(own[np.argsort(g.time[g.target[own]], kind="stable")][:-1])
        return np.concatenate(out) if out else np.empty(0, np.int64)

    def _opened(self, thread: int) -> Spans | None:
        """Calls, where a change is about them."""
        return self._run._called.held(thread) if any(change.kind == "call" for change in self._changes) else None

    def _imported(self, thread: int) -> Spans | None:
        """Starts and imports of Python without the calls in them, where a change is about them."""
        run, whole = self._run, self._imports.get(thread)
        if whole is None:
            return None
        start, end, label = labels.split(
            run._labels, whole.start, whole.end, run._on_path(thread, run._called.held(thread))
        )
        own = np.isin(label, np.unique(whole.label))
        return Spans(start[own], end[own], label[own])

    def _rank_factors(self) -> dict[int, float]:
        """Of each process of a rank that changes, the factor of all that it does itself: not of MPI, and no waits."""
        if not self._ranks:
            return {}
        run = self._run
        busy = run.busy
        mean = sum(busy.values()) / len(busy) if busy else 0.0
        out = {}
        for process, rank in run._rank_of.items():
            change = self._ranks.get(rank) if rank is not None else None
            if change is not None and rank is not None:
                whole = busy.get(rank, 0.0)
                out[process] = change.factor if change.factor is not None else (mean / whole if whole else 1.0)
        return out


@contextmanager
def shared(store: Store) -> Iterator[None]:
    """Within it `of` makes the graph of a run once. It takes much memory: what is made of it comes together."""
    store.kept[_GRAPH] = None
    try:
        yield
    finally:
        store.kept.pop(_GRAPH, None)


def of(store: Store) -> Run:
    """The graph of a run and its names."""
    if _GRAPH not in store.kept:
        return Run(store)
    if store.kept[_GRAPH] is None:
        store.kept[_GRAPH] = Run(store)
    found: Run = store.kept[_GRAPH]
    return found


def recorded(store: Store) -> Recorded | None:
    """The critical path of a run, computed once; None: nothing was recorded."""
    if "critical path" not in store.kept:
        run = of(store)
        store.kept["critical path"] = None if run.graph is None else run.recorded()
    found: Recorded | None = store.kept["critical path"]
    return found


def rows(store: Store, name: str, reports: Sequence[Report] = ()) -> list[tuple[Any, ...]]:
    """Rows of critical_path_sum and critical_path_trace."""
    found = recorded(store)
    if found is None:
        return []
    if name == "critical_path_sum":
        return [(row.share, row.time_ns, row.kind, row.name, row.source, row.rank) for row in found.answer.rows]
    columns = zip(found.start.tolist(), found.ns.tolist(), found.label.tolist(), found.rank.tolist(), strict=True)
    return [
        (start, round(ns), label.kind, label.name, label.source, None if rank < 0 else rank)
        for start, ns, number, rank in columns
        for label in (found.labels[number],)
    ]
