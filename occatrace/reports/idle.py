"""The report `idle_sum`: why each device had nothing to do, on the graph of the run (critical/).

A gap between work of a device is cut where its cause changes: first nothing is enqueued, then what comes next is enqueued and waits.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from occatrace.core.sql import name as sql_name
from occatrace.reports import critical, limits, scope
from occatrace.reports.critical import building, graph, labels
from occatrace.store import captures

if TYPE_CHECKING:
    from collections.abc import Sequence

    from occatrace.reports import Report
    from occatrace.store.tables import Store

Ints = npt.NDArray[np.int64]

NOTHING, LATENCY, OTHER, DEPENDENCY = "no work submitted", "launch latency", "waiting for another queue", "dependency"
_AT_ONCE = 1 << 18  # gaps of a thread that are looked at at a time
_HOST = {
    "host": "host code",
    "build": "kernel build",
    "import": "Python",
    "python": "Python",
    "function": "OpenMP",
    "kernel": "host kernel",
}


def rows(store: Store, _: str, __: Sequence[Report] = ()) -> list[tuple[Any, ...]]:
    """Rows of the report, by device, the largest part first."""
    return [row[:-1] for row in found(store, critical.of(store))]


def found(store: Store, run: critical.Run, between: bool = False) -> list[tuple[Any, ...]]:
    """The same of a graph that is there, with the longest time of each row (ns) at its end. `between`: only from the first to the
    last work of each device."""
    if run.graph is None:
        return []
    devices = _Idle(store, run, run.graph)
    out = []
    names = dict(scope.titles(store.con, "device"))
    for device, process in store.con.execute(
        "SELECT device, process FROM devices WHERE device IN (SELECT device FROM activities) ORDER BY device"
    ).fetchall():
        out += devices.of_device(device, process, names[device], between)
    return out


def notes(store: Store, _: str) -> list[str]:
    """What cannot be told."""
    out = limits.lines(
        store,
        "nothing is known of devices",
        "work among them is missing, and its time counts as idle",
        "only the recorded time counts",
    )
    unused = store.con.execute(
        "SELECT count(*) FROM devices WHERE device NOT IN (SELECT device FROM activities WHERE device IS NOT NULL)"
    ).fetchall()[0][0]
    if unused:
        out.append(
            f"{unused} device{'s' * (unused > 1)} had no work in the whole run and {'are' if unused > 1 else 'is'} not listed"
        )
    return out


class _Idle:
    def __init__(self, store: Store, run: critical.Run, g: graph.Graph) -> None:
        self._run, self._g = run, g
        self._unrecorded = captures.partly(store.con)
        self._store = store
        work = g.activities
        # Until when each piece waited for one of another queue, and for its wait list.
        self._other = np.full(len(work["e"]), -1, np.int64)
        edges = np.flatnonzero(g.kind == building.OTHER_QUEUE)  # they lead to work only
        self._other[g.works_of(edges)] = g.time[g.source[edges]]
        self._submitted = self._listed()
        self._frames = {
            process: (int(start), int(end), main)
            for process, start, end, main in store.con.execute(
                f"SELECT p.process, p.start_ns::BIGINT - {g.zero}, p.end_ns::BIGINT - {g.zero},"
                " coalesce(min(t.thread) FILTER (t.tid = p.pid), min(t.thread))"
                " FROM processes p JOIN threads t USING (process) GROUP BY ALL"
            ).fetchall()
        }

    def _listed(self) -> dict[tuple[int, int], int]:
        """By thread and number of the call, when work that had a list of events to wait for was submitted."""
        out = {}
        for name in self._store.functions():
            api, _, _ = name.partition(".")
            if api != "opencl":
                continue
            # The arguments that this run has, which need not be those of today's model.
            kind = self._store.con.execute(f"SELECT typeof(args) FROM {sql_name(name)} LIMIT 1").fetchone()
            if kind and "num_events_in_wait_list" in kind[0]:
                out.update(
                    {
                        (thread, seq): submitted
                        for thread, seq, submitted in self._store.con.execute(
                            f"SELECT thread, seq, max(a.submitted_ns)::BIGINT - {self._g.zero} FROM activities a"
                            f" JOIN {sql_name(name)} c USING (thread, seq) WHERE c.args.num_events_in_wait_list > 0 GROUP BY ALL"
                        ).fetchall()
                    }
                )
        return out

    def of_device(self, device: int, process: int, name: str, between: bool = False) -> list[tuple[Any, ...]]:
        """Rows of one device."""
        if process not in self._frames:
            return []
        work = self._g.activities
        first, last, main = self._frames[process]
        own = np.flatnonzero(work["device"] == device)
        own = own[np.argsort(self._g.starts(own), kind="stable")]
        if not len(own):
            return []
        starts, ends, launched = self._g.starts(own), work["e"][own], self._g.launched(own)
        if between:
            first, last = int(starts[0]), int(ends.max())
        threads = np.where(work["thread"][own] >= 0, work["thread"][own], main)
        earliest = np.minimum.accumulate(launched[::-1])[::-1]
        a, b, following = self._gaps(process, starts, ends, first, last)
        sums: dict[tuple[str, str, str, str], list[int]] = {}

        def add(cause: str, ns: Ints) -> None:
            there = ns[ns > 0]
            if len(there):
                entry = sums.setdefault((cause, "", "", ""), [0, 0, 0])
                entry[0] += int(there.sum())
                entry[1] += len(there)
                entry[2] = max(entry[2], int(there.max()))

        # After the last work nothing comes next: nothing is submitted until the end.
        comes = following < len(own)
        following = np.minimum(following, len(own) - 1)
        piece = own[following]
        own_launch = np.where(comes, np.clip(launched[following], a, b), b)
        any_launch = np.where(comes, np.clip(earliest[following], a, b), b)
        add(DEPENDENCY, own_launch - any_launch)
        until = np.clip(self._other[piece], own_launch, b)
        add(OTHER, until - own_launch)
        waited = until
        if self._submitted:
            calls = zip(work["thread"][piece].tolist(), work["seq"][piece].tolist(), strict=True)
            listed = np.fromiter((self._submitted.get(call, 0) for call in calls), np.int64, len(piece))
            waited = np.clip(listed, until, b)
            add(DEPENDENCY, waited - until)
        add(LATENCY, b - waited)
        empty = any_launch > a
        of = threads[following[empty]]
        a, any_launch = a[empty], any_launch[empty]
        for thread in np.flatnonzero(np.bincount(of)).tolist() if len(of) else ():
            own_gaps = np.flatnonzero(of == thread)
            for at in range(0, len(own_gaps), _AT_ONCE):
                some = own_gaps[at : at + _AT_ONCE]
                self._of_host(thread, a[some], any_launch[some], sums)
        whole = sum(ns for ns, *_ in sums.values())
        rank = self._run.rank_of(process)
        return [
            (100.0 * ns / whole, round(ns), times, *key, rank, name, longest)
            for key, (ns, times, longest) in sorted(sums.items(), key=lambda item: (-item[1][0], item[0]))
        ]

    def _gaps(self, process: int, starts: Ints, ends: Ints, first: int, last: int) -> tuple[Ints, Ints, Ints]:
        """Where the device has no work, and which piece comes next. What was not recorded is no gap."""
        s, e = starts, ends
        if self._unrecorded:
            paused = self._store.con.execute(
                f"SELECT start_ns::BIGINT - {self._g.zero}, end_ns::BIGINT - {self._g.zero} FROM unrecorded"
                f" WHERE process = {int(process)}"
            ).fetchall()
            s = np.r_[s, np.array([row[0] for row in paused], np.int64)]
            e = np.r_[e, np.array([row[1] for row in paused], np.int64)]
            order = np.argsort(s, kind="stable")
            s, e = s[order], e[order]
        low = np.r_[first, np.maximum(np.maximum.accumulate(e), first)]
        high = np.r_[s, max(last, int(e.max()))]
        there = high > low
        return low[there], high[there], np.searchsorted(starts, high[there], "left")

    def _of_host(self, thread: int, start: Ints, end: Ints, sums: dict[tuple[str, str, str, str], list[int]]) -> None:
        """What a thread did in these times, added to the sums and counts."""
        begins, until, label = labels.split(self._run.labels, start, end, self._run.layers(thread))
        size = len(self._run.labels.all)
        # Sums of ns are exact in a double up to 2^53, 104 days.
        ns, times = np.bincount(label, until - begins, size), np.bincount(label, until > begins, size)
        longest = np.zeros(size, np.int64)
        np.maximum.at(longest, label, until - begins)
        for number in np.flatnonzero(ns).tolist():
            one = self._run.labels.all[number]
            host = "MPI" if one.kind == "call" and one.name.startswith("MPI_") else _HOST.get(one.kind, one.kind)
            entry = sums.setdefault((NOTHING, host, one.name, one.source), [0, 0, 0])
            entry[0] += int(ns[number])
            entry[1] += int(times[number])
            entry[2] = max(entry[2], int(longest[number]))
