"""The critical path as a track of each process that it goes through, with arrows from process to process."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from occatrace.reports import critical
from occatrace.store.tables import Store
from occatrace.views.timeline.sources import CRITICAL, Source, coded

Array = npt.NDArray[Any]

_LAST_ID = 0xC000_0000  # ids of arrows count down from here: below those of MPI, far above those of device work


class Path:
    """The pieces of the path, in the temporary table `path_pieces`; those from the zero of the timeline on."""

    def __init__(self, store: Store, origin: int) -> None:
        self._con = store.con
        found = critical.recorded(store)
        self._con.execute("CREATE OR REPLACE TEMP TABLE path_pieces AS SELECT 1 WHERE false")
        self.found = found is not None and len(found.start) > 0
        if found is None or not self.found:
            return
        # A piece ends where the next one starts: rounding must not make them overlap.
        start = found.start
        end = np.minimum(np.round(start + found.ns).astype(np.int64), np.r_[start[1:], np.iinfo(np.int64).max])
        later = end > 0
        start, end = np.maximum(start[later], 0), end[later]
        process, label = found.process[later], found.label[later]
        # The arrow from each piece to the next, where that is in another process; 0: none.
        leaves = np.zeros(len(start), np.uint64)
        crossing = np.flatnonzero(process[1:] != process[:-1])
        leaves[crossing] = np.uint64(_LAST_ID) - np.arange(len(crossing), dtype=np.uint64)
        arrives = np.r_[np.zeros(1, np.uint64), leaves[:-1]]
        pieces = {
            "start": start + origin, "until": end + origin, "process": process, "label": label.astype(np.int64),
            "leaves": leaves, "arrives": arrives,
        }  # fmt: skip
        labels = {
            "label": np.arange(len(found.labels)),
            "name": np.array([one.name or one.kind for one in found.labels], object),
            "category": np.array([one.kind for one in found.labels], object),
            "source": np.array([one.source or None for one in found.labels], object),
        }
        self._con.register("_pieces", pieces)
        self._con.register("_labels", labels)
        self._con.execute(f"""
            CREATE OR REPLACE TEMP TABLE path_pieces AS
            SELECT {CRITICAL} AS kind, process AS track, start::UBIGINT AS start_ns, until::UBIGINT AS end_ns, 0 AS number, process,
                   NULL::UINTEGER AS thread, name, category, source, false AS failed, leaves, arrives
            FROM _pieces JOIN _labels USING (label)""")
        self._con.unregister("_pieces")
        self._con.unregister("_labels")

    @property
    def source(self) -> Source:
        """The pieces as slices."""
        columns = {name: coded(f"s.{name}") for name in ("name", "category", "source")}
        return Source(CRITICAL, "SELECT * FROM path_pieces", {**columns, "leaves": "s.leaves", "arrives": "s.arrives"})


def tie(rows: dict[str, Array]) -> None:
    """The arrows of slices of the path, as the encoder takes them."""
    ends = np.stack([rows.pop("arrives"), rows.pop("leaves")], axis=1).astype(np.uint64)
    counts = (ends > 0).sum(axis=1)
    if counts.any():
        rows["offsets"] = np.concatenate([[0], np.cumsum(counts)]).astype(np.uint32)
        rows["arrows"] = ends[ends > 0]
