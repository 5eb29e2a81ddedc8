"""Memory that was allocated, and when it was freed: what the model says that events allocate and free, paired by handle.

Handles are used again as soon as they are free, so they are paired in the order of time, per process and API.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from occatrace.core.model import Allocates, Frees, Function, Model
from occatrace.core.schema import NO_SEQ
from occatrace.core.sql import bit_names
from occatrace.core.sql import text as sql_text
from occatrace.ingest.gathered.gathered import Gathered, never, nothing
from occatrace.ingest.reading import Columns
from occatrace.ingest.threads import ThreadMap

_ALLOCATED, _FREED = 0, 1


@dataclass(frozen=True)
class _Allocations(Gathered):
    def take(
        self, model: Model, event: str, function: Function | None, threads: ThreadMap, columns: Columns
    ) -> Columns | None:
        if function is None:
            record = model.freeing.get(event)
            if record is None or record.frees.handle not in columns:
                return None
            codes = {value: model.memory_code[record.api, text] for value, text in record.by.items()}
            default = next(iter(codes.values()), model.memory_code.get((record.api, record.name), 0))
            by = columns.get(record.frees.by or "", np.zeros(len(columns["ts"]), np.uint8))
            of = np.array([codes.get(value, default) for value in by.tolist()], np.uint32)
            return _freed(record.frees, of, threads, columns)
        # A trace of an older version lacks fields that the model has by now.
        if function.allocates and function.allocates.handle in columns:
            rows = _allocated(function.allocates, threads, columns)
        elif function.frees and function.frees.handle in columns:
            rows = _freed(function.frees, np.zeros(len(columns["ts"]), np.uint32), threads, columns)
        else:
            return None
        rows["function"] = np.full(len(rows["handle"]), model.memory_code[function.api, function.name], np.uint32)
        done = rows["handle"] != 0
        if function.failed and function.failed.field in columns:
            ok = ~function.failed.mask(columns[function.failed.field])
            done &= ok[rows.pop("event")] if "event" in rows else ok
        rows.pop("event", None)
        return {name: values[done] for name, values in rows.items()}


def _allocated(allocates: Allocates, threads: ThreadMap, columns: Columns) -> dict[str, npt.NDArray[Any]]:
    count = len(columns["ts"])

    def of(name: str | None, missing: int = 0) -> npt.NDArray[Any]:
        return columns.get(name or "", np.full(count, missing, np.uint64))

    return {
        "slot": threads.of(columns["tid"], columns["ts"]),
        "op": np.full(count, _ALLOCATED, np.uint8),
        "seq": columns["seq"],
        "moment": columns["ts"],
        "call": np.maximum(columns["ts"], columns["start"]) - columns["start"],
        "handle": columns[allocates.handle].astype(np.uint64, copy=False),
        "parent": of(allocates.parent).astype(np.uint64, copy=False),
        "bytes": of(allocates.bytes).astype(np.uint64, copy=False),
        "kind": allocates.kinds_of(columns, count),
        "mode": of(allocates.mode),
        "scope": of(allocates.scope, NO_SEQ),
        "context": of(allocates.context),
        "flags": of(allocates.flags).astype(np.uint64, copy=False),
    }


def _freed(
    frees: Frees, function: npt.NDArray[np.uint32], threads: ThreadMap, columns: Columns
) -> dict[str, npt.NDArray[Any]]:
    count = len(columns["ts"])
    event = np.arange(count)
    handles = columns[frees.handle]
    values = columns.get(f"{frees.handle}.values")
    if values is not None:
        offsets = handles.astype(np.int64)
        event = np.repeat(event, offsets[1:] - offsets[:-1])
        handles = values[: len(event)]
    if frees.also and frees.also in columns:
        # Behind each other, as a list of one or two.
        handles = np.column_stack([handles, columns[frees.also]]).ravel()
        event = np.repeat(event, 2)[handles != 0]
        handles = handles[handles != 0]
    start = columns.get("start", columns["ts"])
    rows: dict[str, npt.NDArray[Any]] = {
        "slot": threads.of(columns["tid"], columns["ts"])[event],
        "op": np.full(len(event), _FREED, np.uint8),
        "seq": columns["seq"][event],
        "moment": start[event],
        "call": (np.maximum(columns["ts"], start) - start)[event],
        "handle": handles.astype(np.uint64, copy=False),
        "function": function[event],
        **{
            name: np.zeros(len(event), np.uint32)
            for name in ("parent", "bytes", "kind", "mode", "scope", "context", "flags")
        },
    }
    if frees.unless and frees.unless in columns:
        kept = columns[frees.unless][event] == 0
        rows = {name: entries[kept] for name, entries in rows.items()}
        event = event[kept]
    if "start" in columns:
        rows["event"] = event
    return rows


def _flags(model: Model) -> Iterator[tuple[int, str]]:
    """Of each function whose memory has flags its code, and SQL for their names."""
    for at, (api, name) in enumerate(model.memory_code):
        function = model.function(api, name)
        if function is None or function.allocates is None or function.allocates.flags is None:
            continue
        arg = next(a for a in function.args if a.name == function.allocates.flags)
        names = model.enums[api][arg.enum or ""].values
        yield at, f"CASE WHEN flags != 0 THEN {bit_names('flags', names)} END"


def _insert(model: Model) -> str:
    kinds = " ".join(f"WHEN m.kind = {at} THEN {sql_text(kind)}" for at, kind in enumerate(model.memory_kinds))
    functions = ", ".join(
        f"({at}, {sql_text(api)}, {sql_text(name)})" for at, (api, name) in enumerate(model.memory_code)
    )
    flags = " ".join(f"WHEN {at} THEN {bits}" for at, bits in _flags(model))
    return f"""
        INSERT INTO allocations BY NAME
        WITH functions(code, api, name) AS (VALUES {functions or "(0, '', '')"}),
        -- An address that is allocated again was freed in between, seen or not.
        moments AS (
            SELECT r.* EXCLUDE (function, flags), s.process, f.api, f.name AS function,
                   {f"CASE r.function {flags} END" if flags else "NULL"} AS flags,
                   lead({{'op': op, 'moment': moment, 'call': call, 'thread': slot + 1, 'seq': seq, 'function': f.name}})
                       OVER (PARTITION BY s.process, f.api, handle ORDER BY moment, op, seq) AS next
            FROM raw_allocations r JOIN slots s USING (slot) JOIN functions f ON f.code = r.function
        ),
        -- A context with one device names it.
        contexts AS (
            SELECT process, context, min(device) AS device FROM queues GROUP BY ALL HAVING min(device) = max(device)
        ),
        paired AS (
            SELECT m.process, m.api, CASE {kinds or "WHEN false THEN NULL"} END AS kind, m.flags, n.text AS mode, c.device, m.handle,
                   nullif(m.parent, 0) AS parent, m.bytes, m.function, m.slot + 1 AS thread, m.seq,
                   nullif(m.scope, {NO_SEQ}) AS scope_seq, m.moment AS start_ns, m.call AS call_ns,
                   CASE WHEN next.op = {_FREED} THEN next.moment ELSE next.moment - next.call END AS end_ns,
                   CASE WHEN next.op = {_FREED} THEN next END AS free
            FROM moments m LEFT JOIN contexts c ON c.process = m.process AND c.context = m.context AND m.context != 0
            LEFT JOIN names n ON n.process = m.process AND n.id = m.mode AND m.mode != 0
            WHERE op = {_ALLOCATED}
        )
        SELECT a.* EXCLUDE (mode, device, free), coalesce(a.mode, p.mode) AS mode, coalesce(a.device, p.device) AS device,
               free.function AS free_function,
               free.thread AS free_thread, free.seq AS free_seq, free.call AS free_call_ns
        FROM paired a ASOF LEFT JOIN (SELECT process, api, handle, start_ns, mode, device FROM paired) p
        ON p.process = a.process AND p.api = a.api AND p.handle = a.parent AND p.start_ns <= a.start_ns"""


GATHERED = _Allocations(
    "raw_allocations",
    """slot INTEGER, op UTINYINT, function UINTEGER, seq UINTEGER, moment UBIGINT, call UBIGINT, handle UBIGINT,
    parent UBIGINT, bytes UBIGINT, kind UTINYINT, mode UINTEGER, scope UINTEGER, context UBIGINT, flags UBIGINT""",
    never,
    nothing,
    _insert,
)
