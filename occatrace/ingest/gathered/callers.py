"""Where in the program calls were made: sums by place of all of them, and the place of each of those that others refer to."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from occatrace import _native
from occatrace.core.model import Function, Model
from occatrace.ingest.gathered.gathered import Gathered, never, nothing
from occatrace.ingest.reading import Columns, Slots
from occatrace.ingest.threads import ThreadMap

_WAITED = ("cuda", "cudart")  # whose records of waits name the call


def sums(
    function: Function,
    slots: Slots,
    columns: Columns,
    failed: npt.NDArray[np.bool_] | None,
    moved: npt.NDArray[np.uint64] | None,
) -> Columns:
    """The rows of `SUMS` for a batch of calls whose events say where they were made."""
    found = _native.fold_callers(slots, columns["caller"], columns["start"], columns["ts"], failed, moved)
    count = len(found["slot"])
    return {**found, "api": np.full(count, function.api, object), "function": np.full(count, function.name, object)}


def _insert_sums(model: Model) -> str:
    return """
        INSERT INTO call_site_stats BY NAME
        SELECT s.process, r.slot + 1 AS thread, r.api, r.function, c.site, sum(r.calls) AS calls, sum(r.failed) AS failed,
               sum(r.total) AS total_ns, sum(r.bytes) AS bytes
        FROM raw_callers r JOIN slots s USING (slot) JOIN call_sites c ON c.process = s.process AND c.address = r.caller
        GROUP BY ALL"""


def _is_referred_to(event: str, function: Function | None, columns: Columns) -> bool:
    return (
        function is not None
        and "caller" in columns
        and bool(
            function.activity
            or function.allocates
            or function.compiles
            or "launches" in columns
            or (function.blocking and function.api in _WAITED)
        )
    )


def _places(threads: ThreadMap, columns: Columns) -> Columns:
    return {"seq": columns["seq"], "caller": columns["caller"]}


def _insert_places(model: Model) -> str:
    return """
        INSERT INTO call_places BY NAME
        SELECT s.process, r.slot + 1 AS thread, r.seq, c.site
        FROM raw_call_places r JOIN slots s USING (slot) JOIN call_sites c ON c.process = s.process AND c.address = r.caller"""


SUMS = Gathered(
    "raw_callers",
    "slot INTEGER, api VARCHAR, function VARCHAR, caller UBIGINT, since UBIGINT, calls UBIGINT, failed UBIGINT,"
    " total UBIGINT, bytes UBIGINT",
    never,
    nothing,
    _insert_sums,
)
PLACES = Gathered(
    "raw_call_places",
    "slot INTEGER, seq UINTEGER, caller UBIGINT",
    _is_referred_to,
    _places,
    _insert_places,
)
