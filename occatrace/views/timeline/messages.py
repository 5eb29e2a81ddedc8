"""Arrows of MPI: from the call that sends to the moment at which the message was received, and from the last to arrive at a
collective to the others, with what these waited for it. A moment is where an arrow ends, as Perfetto draws arrows by the starts
of slices: a call that receives may begin before the one that sends."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from occatrace.reports.critical import mpi
from occatrace.store.tables import Store
from occatrace.views.timeline.sources import NONE, THREAD, Source, coded

Array = npt.NDArray[Any]

MOST = 1_000_000  # messages and collectives that are matched: that takes memory
_FIRST = 0xFFFF_FFFF  # ids of arrows count down from here, those of device work up from 2
_RANKS = "SELECT process, coalesce(m.rank, p.rank) AS rank FROM processes p LEFT JOIN mpi_ranks m USING (process)"


class Messages:
    """Matched once for all windows of a timeline."""

    def __init__(self, store: Store) -> None:
        self._con = store.con
        self.note = ""
        self.found = False
        if "mpi_messages" not in store.filled:
            return
        ((count,),) = store.con.execute("SELECT count(*) FROM mpi_messages").fetchall()
        if count > MOST:
            self.note = (
                f"{count:,} messages and collectives, more than {MOST:,}: the file does not show who sent to whom"
            )
            return
        calls = mpi.of_run(store)
        ranks: dict[int, int | None] = dict(store.con.execute(_RANKS).fetchall())
        self._rank = np.array([-1 if (r := ranks.get(p)) is None else r for p in calls["process"].tolist()], np.int64)
        self._calls = calls
        self._places = mpi.Places(calls)
        count = len(calls["s"])
        self.found = count > 0
        self._last_rank = np.full(count, -1, np.int64)
        self._waited = np.zeros(count, np.int64)
        self._leave = _Lists(np.empty(0, np.int64), np.empty(0, np.uint64), count)

    @property
    def source(self) -> Source:
        """The moments at which messages and the last of a collective arrived."""
        self._con.execute("CREATE OR REPLACE TEMP TABLE arrivals AS SELECT 1 WHERE false")
        texts = (
            f"SELECT unnest(['message from rank ' || rank, 'rank ' || rank || ' arrived', 'mpi']) FROM ({_RANKS}) WHERE rank >= 0",
        )
        columns = {"name": coded("s.name"), "category": coded("s.category"), "instant": "true", "arrow": "s.arrow"}
        return Source(THREAD, "SELECT * FROM arrivals", columns, texts=texts, tied=True, chosen=True)

    def place(self, part: Array, thread: Array, seq: Array, part_at: Callable[[Array, Array], Array]) -> None:
        """Fills the table `arrivals`, given the calls that are in the timeline (file, thread, number)."""
        calls = self._calls
        start, end = calls["s"], calls["e"]
        chosen = np.full(len(start), -1, np.int64)
        at = self._places.of(thread, seq)
        hit = at >= 0
        chosen[at[hit]] = part[hit]
        froms, tos = [calls["sent"][0]], [calls["sent"][1]]
        times = [np.maximum(calls["received"], start[tos[0]])]
        meetings = calls["meetings"]
        latest = meetings.comes[meetings.last(start[meetings.comes])].astype(np.int64)[meetings.number]
        known = (meetings.leaves >= 0) & (self._rank[latest] >= 0)
        members, latest = meetings.leaves[known].astype(np.int64), latest[known]
        self._last_rank[members] = self._rank[latest]
        self._waited[members] = np.maximum(np.minimum(start[latest], end[members]) - start[members], 0)
        others = (members != latest) & (end[members] > start[latest])
        froms.append(latest[others])
        tos.append(members[others])
        times.append(start[latest[others]] + 1)  # so that the arrow leads there
        source, target, time = (np.concatenate(each) for each in (froms, tos, times))
        time = np.maximum(np.minimum(time, end[target] - 1), start[target])  # within the call
        to_part = part_at(chosen[target], time)
        there = (to_part >= 0) & (self._rank[source] >= 0)
        arrow = there & (chosen[source] == to_part) & (start[source] < time) & (source != target)
        ids = np.zeros(len(source), np.uint64)
        ids[arrow] = np.uint64(_FIRST) - np.arange(arrow.sum(), dtype=np.uint64)
        self._leave = _Lists(source[arrow], ids[arrow], len(start))
        rows = {
            "time": time[there],
            "process": calls["process"][target][there],
            "thread": calls["thread"][target][there],
            "rank": self._rank[source][there],
            "message": (np.arange(len(source)) < len(calls["received"]))[there],
            "arrow": ids[there],
        }
        self._con.register("_arrivals", rows)
        self._con.execute(f"""
            CREATE OR REPLACE TEMP TABLE arrivals AS
            SELECT {THREAD} AS kind, thread AS track, time AS start_ns, time AS end_ns, {NONE}::BIGINT AS number, process, thread,
                   {NONE} AS seq, CASE WHEN message THEN 'message from rank ' || rank ELSE 'rank ' || rank || ' arrived' END AS name,
                   'mpi' AS category, false AS failed, arrow
            FROM _arrivals""")
        self._con.unregister("_arrivals")

    def tie(self, rows: dict[str, Array], thread: Array, seq: Array) -> None:
        """Adds arrows and what is known of collectives to the slices of calls."""
        at = self._places.of(thread, seq)
        hit = at >= 0
        known = hit & (self._last_rank[at] >= 0)
        if known.any():
            rows["last_rank"] = np.ma.array(self._last_rank[at], mask=~known)
            rows["for_last"] = np.ma.array(self._waited[at].astype(np.uint64), mask=~known)
        arriving = np.ma.filled(rows.pop("arrow", np.zeros(len(at), np.uint64)), 0)
        counts, ids = self._leave.of(at, hit)
        lists = [(counts, ids), ((arriving > 0).astype(np.int64), arriving[arriving > 0])]
        if "arrows" in rows:
            lists.append((np.diff(rows["offsets"].astype(np.int64)), rows["arrows"]))
        if any(len(some) for _, some in lists):
            rows["offsets"], rows["arrows"] = _merged(lists)


class _Lists:
    """Ids by the number of a call."""

    def __init__(self, of: Array, ids: Array, count: int) -> None:
        self._ids = ids[np.argsort(of, kind="stable")]
        self._offsets = np.concatenate([[0], np.cumsum(np.bincount(of, minlength=count))]).astype(np.int64)

    def of(self, at: Array, there: Array) -> tuple[Array, Array]:
        """How many each call has, and all of them in a row."""
        begin = self._offsets[at]
        counts = np.where(there, self._offsets[at + 1] - begin, 0)
        before = np.cumsum(counts) - counts
        which = np.arange(counts.sum()) - np.repeat(before, counts) + np.repeat(begin, counts)
        return counts, self._ids[which]


def _merged(lists: list[tuple[Array, Array]]) -> tuple[Array, Array]:
    """Several lists per row as one: offsets and ids."""
    row = np.concatenate([np.repeat(np.arange(len(counts)), counts) for counts, _ in lists])
    ids = np.concatenate([some for _, some in lists])
    counts = np.sum([counts for counts, _ in lists], axis=0)
    offsets = np.concatenate([[0], np.cumsum(counts)]).astype(np.uint32)
    return offsets, ids[np.argsort(row, kind="stable")].astype(np.uint64)
