"""Messages and collectives of MPI as events of OTF2, at the begin and the end of the slices of their calls.

The events and what they mean: OTF2's documentation, "OTF2 records", MPI. A message is sent where its call begins, and received
where the call ends in which it was seen to be complete. What is followed by a request has its begin and its end.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from occatrace.core.sql import name as sql_name
from occatrace.store.tables import Store
from occatrace.views.timeline.messages import MOST

Event = Callable[[Any, int], object]  # is given the writer of the location, and the time
NO_ROOT = 0xFFFF_FFFF  # OTF2_UNDEFINED_UINT32

_RANK = "SELECT process, coalesce(m.rank, p.rank) AS rank FROM processes p LEFT JOIN mpi_ranks m USING (process)"
# What a request completed is written after the call that waited for it, so it belongs to the last call begun before.
_MESSAGES = f"""
WITH begun AS (SELECT thread, seq, start_ns AS s, function FROM calls WHERE api = 'mpi'),
roots AS ($roots),
known AS (
    SELECT m.*, r.rank, b.s AS begins, b.function AS called, o.root,
           (coalesce(c.name, ''), c.size, c.first_rank)::VARCHAR AS comm
    FROM mpi_messages m JOIN ({_RANK}) r USING (process) JOIN begun b USING (thread, seq)
    LEFT JOIN mpi_comms c USING (mpi_comm) LEFT JOIN roots o USING (thread, seq)
    WHERE m.state IN ('complete', 'freed') AND r.rank >= 0
      AND (m.kind = 'collective' OR (m.kind IN ('send', 'receive') AND m.partner >= 0))
)
SELECT k.thread, k.kind, k.begins, CASE WHEN k.function IS NULL THEN e.s ELSE k.begins END AS ends, k.function IS NULL AS followed,
       k.called, k.comm, k.partner, coalesce(k.tag, 0), k.bytes, coalesce(k.root, -1)
FROM known k ASOF LEFT JOIN begun e ON e.thread = k.thread AND e.s <= k.end_ns ORDER BY k.begins, k.seq
"""
_COMMS = f"""
SELECT (coalesce(c.name, ''), c.size, c.first_rank)::VARCHAR AS comm, any_value(c.name), any_value(c.size), list((c.rank, r.rank))
FROM mpi_comms c JOIN ({_RANK}) r USING (process) WHERE r.rank >= 0 AND NOT coalesce(c.inter, false) GROUP BY ALL
"""
_COLLECTIVE = re.compile(r"MPI_I?(\w+?)(_init|_c)*")


@dataclass
class _Comm:
    """A communicator; `ranks` leads from ranks in MPI_COMM_WORLD to its own, None: it is taken to have all ranks."""

    definition: Any
    ranks: Mapping[int, int] | None

    def rank(self, world: int) -> int | None:
        """The rank in it."""
        return world if self.ranks is None else self.ranks.get(world)


class MpiEvents:
    """What the slices of a run's MPI calls say of messages; nothing, where there are more than a million."""

    def __init__(self, store: Store, otf2: Any, trace: Any) -> None:
        self._otf2, self._definitions = otf2, trace.definitions
        self._at_begin: dict[tuple[int, int], list[Event]] = {}
        self._at_end: dict[tuple[int, int], list[Event]] = {}
        self._rows: list[tuple[Any, ...]] = []
        if "mpi_messages" not in store.filled:
            return
        ((count,),) = store.con.execute("SELECT count(*) FROM mpi_messages").fetchall()
        if count > MOST:
            return  # the timeline's note says so
        roots = [
            f"SELECT thread, seq, args.root AS root FROM {sql_name(view)}"
            for view in store.functions()
            if view.startswith("mpi.") and "root" in store.arguments(view)
        ]
        union = " UNION ALL ".join(roots) or "SELECT 0::UINTEGER AS thread, 0::UINTEGER AS seq, -1 AS root WHERE false"
        self._rows = store.con.execute(_MESSAGES.replace("$roots", union)).fetchall()
        self._comms_of = store.con.execute(_COMMS).fetchall()
        often = Counter(row[0] for row in self._rows)
        threads = store.con.execute(
            "SELECT thread, process, r.rank, trim(t.name || ' ' || t.tid) FROM threads t"
            f" JOIN ({_RANK}) r USING (process) WHERE r.rank >= 0 ORDER BY thread"
        ).fetchall()
        # What stands for a rank: the thread that calls MPI most.
        self._threads: dict[int, tuple[int, int, str]] = {}
        for thread, process, rank, label in threads:
            if rank not in self._threads or often[thread] > often[self._threads[rank][0]]:
                self._threads[rank] = (thread, process, label)
        ((told,),) = store.con.execute("SELECT coalesce(max(size), 0) FROM mpi_ranks").fetchall()
        self._size = max([told, *(rank + 1 for rank in self._threads), *((row[7] or 0) + 1 for row in self._rows)])

    def define(self, location: Callable[[int, tuple[int, int, str] | None], Any]) -> None:
        """Groups and communicators, before the first event. `location` makes that of a rank, given thread, process and label."""
        if not self._rows:
            return
        kinds, mpi, make = self._otf2.GroupType, self._otf2.Paradigm.MPI, self._definitions
        places = tuple(location(rank, self._threads.get(rank)) for rank in range(self._size))
        make.group("MPI locations", kinds.COMM_LOCATIONS, paradigm=mpi, members=places)
        everybody = make.group("MPI_COMM_WORLD", kinds.COMM_GROUP, paradigm=mpi, members=places)
        self._world = _Comm(make.comm("MPI_COMM_WORLD", everybody), None)
        self._comms: dict[str, _Comm] = {}
        for number, (identity, name, size, users) in enumerate(self._comms_of, 1):
            title = f"{name or 'communicator'} {number}"
            of: dict[int, int] = dict(users)
            known = len(of) == size and sorted(of) == list(range(size))
            if not size or name == "MPI_COMM_WORLD" or (size == self._size and all(a == b for a, b in of.items())):
                self._comms[identity] = self._world
            elif known:
                members = tuple(places[of[rank]] for rank in range(size))
                group = make.group(title, kinds.COMM_GROUP, paradigm=mpi, members=members)
                comm = make.comm(title, group, parent=self._world.definition)
                self._comms[identity] = _Comm(comm, {world: rank for rank, world in of.items()})
            else:
                # Who is in it is not known: all are, so that messages of different communicators stay apart.
                self._comms[identity] = _Comm(make.comm(title, everybody, parent=self._world.definition), None)
        for number, row in enumerate(self._rows):
            self._add(number, *row)
        self._rows = []

    def _add(
        self, number: int, thread: int, kind: str, begins: int, ends: int | None, followed: bool, called: str, comm: str,
        partner: int | None, tag: int, bytes_: int, root: int,
    ) -> None:  # fmt: skip
        of = self._comms.get(comm, self._world)
        begin = self._at_begin.setdefault((thread, begins), [])
        end = self._at_end.setdefault((thread, begins if ends is None else ends), [])
        if kind == "collective":
            found = _COLLECTIVE.fullmatch(called)
            op = getattr(self._otf2.CollectiveOp, found[1].upper(), None) if found else None
            if op is None:
                return
            at_root = of.rank(root) if root >= 0 else None  # the model has it in MPI_COMM_WORLD
            told = (op, of.definition, NO_ROOT if at_root is None else at_root, bytes_, 0)
            if followed:
                begin.append(lambda out, at: out.non_blocking_collective_request(at, number))
                end.append(lambda out, at: out.non_blocking_collective_complete(at, *told, number))
            else:
                begin.append(lambda out, at: out.mpi_collective_begin(at))
                end.append(lambda out, at: out.mpi_collective_end(at, *told))
            return
        assert partner is not None
        rank = of.rank(partner)
        if rank is None:
            of, rank = self._world, partner
        what = (rank, of.definition, tag & 0xFFFF_FFFF, bytes_)
        if kind == "send" and followed:
            begin.append(lambda out, at: out.mpi_isend(at, *what, number))
            end.append(lambda out, at: out.mpi_isend_complete(at, number))
        elif kind == "send":
            begin.append(lambda out, at: out.mpi_send(at, *what))
        elif followed:
            begin.append(lambda out, at: out.mpi_irecv_request(at, number))
            end.append(lambda out, at: out.mpi_irecv(at, *what, number))
        else:
            end.append(lambda out, at: out.mpi_recv(at, *what))

    def take(self, thread: int, start: int) -> tuple[list[Event], list[Event]]:
        """What is to be written after the begin, and before the end, of the slice of a call."""
        return self._at_begin.pop((thread, start), []), self._at_end.pop((thread, start), [])
