"""What memory a copy reads and writes: the addresses that the call was given, looked up in the allocations of their time.

Only memory that is not as its direction says is looked for: pinned, mapped, registered and managed memory. The rest is pageable on
the host's side, unless the process did not record all the time, and plain memory of the device on the other.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from occatrace.core.model import Function, Maps, Model
from occatrace.core.sql import text as sql_text
from occatrace.ingest.gathered.gathered import Gathered, apis_with_handles, never, nothing
from occatrace.ingest.reading import Columns
from occatrace.ingest.threads import ThreadMap

_KINDS = {"host": "pinned", "mapped": "mapped", "wrapped": "registered", "managed": "managed", "svm": "svm"}
# An address within memory is found by the nearest beginning below it; if that memory is gone, by the next, so many times.
_ROUNDS = 3
_IS_MAP = 255  # no copy


@dataclass(frozen=True)
class _CopySides(Gathered):
    def take(
        self, model: Model, event: str, function: Function | None, threads: ThreadMap, columns: Columns
    ) -> Columns | None:
        if function is not None and function.maps is not None:
            return _mapped(function.maps, columns)
        if function is None or function.copies is None:
            return None
        count = len(columns["ts"])
        rows: dict[str, npt.NDArray[Any]] = {"seq": columns["seq"], "moment": columns["start"]}
        for side, name in (("source", function.copies.source), ("target", function.copies.target)):
            known = name in columns
            rows[side] = columns[name].astype(np.uint64, copy=False) if known else np.zeros(count, np.uint64)
            # A constant of the model, or an array where the call says so by an address of 0.
            fixed = model.copy_sides.index(name) + 1 if name in model.copy_sides else 0
            rows[f"{side}_is"] = np.full(count, fixed, np.uint8)
            if known:
                rows[f"{side}_is"][rows[side] == 0] = model.copy_sides.index("array") + 1
        return {**rows, "bytes": np.zeros(count, np.uint64)}


def _mapped(maps: Maps, columns: Columns) -> Columns | None:
    """Where the host sees memory, beside the copies."""
    if not {maps.address, maps.memory, maps.bytes} <= columns.keys():
        return None
    count = len(columns["ts"])
    return {
        "seq": columns["seq"],
        "moment": columns["ts"],
        "source": columns[maps.address].astype(np.uint64, copy=False),
        "target": columns[maps.memory].astype(np.uint64, copy=False),
        "bytes": columns[maps.bytes].astype(np.uint64, copy=False),
        "source_is": np.full(count, _IS_MAP, np.uint8),
        "target_is": np.full(count, _IS_MAP, np.uint8),
    }


def _insert(model: Model) -> str:
    fixed = " ".join(f"WHEN {at} THEN {sql_text(name)}" for at, name in enumerate(model.copy_sides, 1))
    kinds = " ".join(f"WHEN '{kind}' THEN '{shown}'" for kind, shown in _KINDS.items())
    apis = apis_with_handles(model)
    rounds = ""
    for n in range(1, _ROUNDS + 1):
        rounds += f"""
        below{n} AS (
            SELECT l.* EXCLUDE (place), h.handle AS place FROM look{n} l
            ASOF JOIN handles h ON h.process = l.process AND h.handle <= l.place
        ),
        tried{n} AS MATERIALIZED (
            SELECT b.*, CASE WHEN m.end_ns > b.moment AND b.address < m.handle + m.bytes THEN m.kind END AS kind FROM below{n} b
            ASOF LEFT JOIN memory m ON m.process = b.process AND m.handle = b.place AND m.start_ns <= b.moment
        ),
        look{n + 1} AS (SELECT * EXCLUDE (kind) REPLACE (place - 1 AS place) FROM tried{n} WHERE kind IS NULL AND place > 0),"""
    found = " UNION ALL ".join(
        f"SELECT process, address, moment, kind FROM tried{n} WHERE kind IS NOT NULL" for n in range(1, _ROUNDS + 1)
    )

    def side(name: str, found_as: str, is_host: str) -> str:
        return f"""CASE c.{name}_is {fixed} ELSE CASE {found_as}.kind {kinds}
                   ELSE CASE WHEN c.{name} = 0 THEN NULL WHEN a.kind NOT IN ({is_host}) THEN 'device'
                        WHEN c.process IN (SELECT process FROM captures) THEN NULL ELSE 'pageable' END END END"""

    return f"""
        UPDATE activities SET source = told.source, target = told.target FROM (
        WITH copies AS MATERIALIZED (
            SELECT s.process, r.slot + 1 AS thread, r.* EXCLUDE (slot) FROM raw_copy_sides r JOIN slots s USING (slot)
            WHERE r.source_is <> {_IS_MAP}
        ),
        -- Where handles are no addresses, the host sees memory where it was mapped, as long as there is that memory.
        mapped AS (
            SELECT s.process, r.source AS handle, r.bytes, r.moment AS start_ns, a.end_ns,
                   CASE WHEN a.kind IN ('host', 'wrapped') THEN a.kind ELSE 'mapped' END AS kind
            FROM raw_copy_sides r JOIN slots s USING (slot)
            ASOF JOIN (FROM allocations WHERE api IN ({apis}) AND kind <> 'svm') a
            ON a.process = s.process AND a.handle = r.target AND a.start_ns <= r.moment
            WHERE r.source_is = {_IS_MAP} AND r.source <> 0
        ),
        memory AS MATERIALIZED (
            SELECT process, handle, bytes, start_ns, coalesce(end_ns, 18446744073709551615) AS end_ns, kind FROM (
                SELECT process, handle, bytes, start_ns, end_ns, kind FROM allocations
                WHERE kind IN ({", ".join(map(sql_text, _KINDS))}) AND (kind = 'svm' OR api NOT IN ('occa', {apis})) AND bytes > 0
                UNION ALL FROM mapped)
        ),
        handles AS MATERIALIZED (SELECT DISTINCT process, handle FROM memory),
        bounds AS (SELECT min(handle) AS low, max(handle + bytes) AS high FROM memory),
        look1 AS MATERIALIZED (
            SELECT process, source AS address, source AS place, moment FROM copies, bounds
            WHERE source_is = 0 AND source >= low AND source < high
            UNION SELECT process, target, target, moment FROM copies, bounds WHERE target_is = 0 AND target >= low AND target < high
        ),{rounds}
        found AS MATERIALIZED ({found})
        SELECT a.rowid AS row, {side("source", "f", "'HtoD', 'HtoH'")} AS source, {side("target", "t", "'DtoH', 'HtoH'")} AS target
        FROM copies c JOIN activities a ON a.thread = c.thread AND a.seq = c.seq
        LEFT JOIN found f ON f.process = c.process AND f.address = c.source AND f.moment = c.moment AND c.source_is = 0
        LEFT JOIN found t ON t.process = c.process AND t.address = c.target AND t.moment = c.moment AND c.target_is = 0
        WHERE a.kind IN ('HtoD', 'DtoH', 'DtoD', 'HtoH')
        ) told WHERE activities.rowid = told.row"""


GATHERED = _CopySides(
    "raw_copy_sides",
    """slot INTEGER, seq UINTEGER, moment UBIGINT, source UBIGINT, target UBIGINT, source_is UTINYINT, target_is UTINYINT,
    bytes UBIGINT""",
    never,
    nothing,
    _insert,
)
