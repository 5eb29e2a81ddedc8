"""What the graph of a run is built of: types, kinds of edges, the order of nodes at a moment, and lists of nodes and edges."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from occatrace.store import memory

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
SOURCE, POINT, WORK, MEETING, SINK = range(5)
ORDER_BITS = 3  # that these numbers need
AT_ONCE = 1 << 20  # edges, or pieces of work, that are looked at at a time, for the sake of memory


@dataclass
class Builder:
    """Collects nodes and edges."""

    nodes: list[tuple[Ints, Narrow]] = field(default_factory=list)  # time and order as a key, thread
    elastic: list[Flags] = field(default_factory=list)
    edges: list[tuple[int, Nodes, Nodes]] = field(default_factory=list)
    count: int = 0

    def add(self, time: Any, order: int, thread: Any = -1, elastic: bool = False) -> Nodes:
        """Nodes, and their numbers."""
        key = np.maximum(np.asarray(time, np.int64), 0) << ORDER_BITS | order
        thread = np.broadcast_to(np.asarray(thread, np.int32), key.shape)
        self.nodes.append((key, thread))
        self.elastic.append(np.broadcast_to(np.array(elastic), key.shape))
        self.count += len(key)
        return np.arange(self.count - len(key), self.count, dtype=np.uint32)

    def link(self, kind: int, source: Any, target: Any) -> None:
        """Edges."""
        self.edges.append((kind, np.asarray(source, np.uint32), np.asarray(target, np.uint32)))


def numbers_of(store: Store, sql: str) -> dict[str, Any]:
    """Columns as numbers; what is NULL is -1. Where memory does not suffice only this query is made again, not what was made before."""
    rows = memory.within(store.con, lambda: store.con.execute(sql).fetchnumpy())
    out = {}
    for name, column in rows.items():
        values = np.ma.filled(column, -1) if isinstance(column, np.ma.MaskedArray) else column
        out[name] = values
    return out


def call_key(thread: Any, seq: Any) -> Ints:
    """A number of each call, by its thread and its number there."""
    key: Ints = thread.astype(np.int64) << 32 | (seq.astype(np.int64) & 0xFFFFFFFF)
    return key
