"""Messages between ranks: from the calls that carry them themselves, and from the records of requests that completed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from occatrace.core.model import Function, Model
from occatrace.core.sql import text as sql_text
from occatrace.ingest.gathered.gathered import Gathered, never, nothing
from occatrace.ingest.reading import Columns
from occatrace.ingest.threads import ThreadMap

_RECORD = "occatrace_mpi:message"
_OF_THE_CALL = 0xFFFFFFFF  # no function: the one of the call
_KINDS = {"send": "send", "recv": "receive", "collective": "collective"}  # by class
_ONE_SIDED = {"put": "put", "get": "get"}  # by shape; the others accumulate

Rows = dict[str, npt.NDArray[Any]]


@dataclass(frozen=True)
class _Messages(Gathered):
    def take(
        self, model: Model, event: str, function: Function | None, threads: ThreadMap, columns: Columns
    ) -> Columns | None:
        if event == _RECORD:
            return {
                "slot": threads.of(columns["call_tid"], columns["begin"]),
                "seq": columns["call_seq"],
                "function": np.full(len(columns["ts"]), _OF_THE_CALL, np.uint32),  # that of the call
                "end": columns["ts"],
                **{n: columns[n] for n in ("kind", "state", "begin", "bytes", "partner", "tag", "comm", "buffer")},
            }
        if function is None or function.name not in model.message_functions or "bytes" not in columns:
            return None
        kinds = {text: code for code, text in model.texts(function.api, "message_kind").items()}
        done = columns["ret"] == 0
        if "request" in columns:
            done &= columns["request"] == 0  # else its request tells when it was complete
        code = model.message_functions.index(function.name)
        if function.kind == "sendrecv":
            parts = [
                _rows(columns, kinds["send"], columns["sent"], columns["partner"], columns["tag"]),
                _rows(
                    columns,
                    kinds["receive"],
                    columns["bytes"] - columns["sent"],
                    columns["source"],
                    columns["source_tag"],
                    buffer=False,
                ),
            ]
            rows = {name: np.concatenate([part[name][done] for part in parts]) for name in parts[0]}
            slots = np.tile(threads.of(columns["tid"], columns["ts"])[done], 2)
        else:
            kind = _KINDS.get(function.kind) or _ONE_SIDED.get(function.shape, "accumulate")
            partner = columns.get("partner", np.full(len(columns["ts"]), -1, np.int32))
            rows = _rows(columns, kinds[kind], columns["bytes"], partner, columns.get("tag"))
            rows = {name: values[done] for name, values in rows.items()}
            slots = threads.of(columns["tid"], columns["ts"])[done]
        return {**rows, "slot": slots, "function": np.full(len(slots), code, np.uint32)}


def _rows(
    columns: Columns,
    kind: int,
    moved: npt.NDArray[Any],
    partner: npt.NDArray[Any],
    tag: npt.NDArray[Any] | None,
    buffer: bool = True,
) -> Rows:
    count = len(columns["ts"])
    return {
        "seq": columns["seq"],
        "kind": np.full(count, kind, np.uint8),
        "state": np.zeros(count, np.uint8),
        "begin": np.minimum(columns["start"], columns["ts"]),
        "end": columns["ts"],
        "bytes": moved.astype(np.uint64),
        "partner": partner,
        "tag": np.zeros(count, np.int32) if tag is None else tag,
        "comm": columns.get("comm", np.zeros(count, np.uint32)),
        "buffer": columns["buffer"] if buffer else np.zeros(count, np.uint64),
    }


def _case(column: str, texts: Mapping[int, str]) -> str:
    whens = " ".join(f"WHEN {code} THEN {sql_text(text)}" for code, text in texts.items())
    return f"CASE {column} {whens} END" if whens else "NULL"


def _insert(model: Model) -> str:
    functions = dict(enumerate(model.message_functions))
    if not functions:
        return "SELECT 1"
    # Only where an address is the handle can a buffer be known to lie in device memory.
    return f"""
        INSERT INTO mpi_messages BY NAME
        WITH rows AS (
            SELECT s.process, r.slot + 1 AS thread, r.seq, {_case("r.function", functions)} AS function,
                   {_case("r.kind", model.texts("mpi", "message_kind"))} AS kind,
                   {_case("r.state", model.texts("mpi", "message_state"))} AS state,
                   c.mpi_comm, CASE WHEN r.partner >= 0 THEN r.partner + s.first_rank END AS partner, r.partner = -2 AS nobody,
                   r.tag, r.bytes,
                   nullif(r.buffer, 0) AS buffer, r.begin AS start_ns, greatest(r.begin, r.end) AS end_ns
            FROM raw_messages r JOIN slots s USING (slot)
            LEFT JOIN mpi_comms c ON c.process = s.process AND c.id = r.comm
        ),
        places AS (
            SELECT process, handle, bytes, start_ns, end_ns FROM allocations
            WHERE bytes > 0 AND (kind IN ('svm', 'managed') OR kind = 'device' AND api NOT IN ('occa', 'opencl'))
        )
        SELECT *, EXISTS (
            SELECT 1 FROM places p WHERE p.process = rows.process AND rows.buffer >= p.handle
            AND rows.buffer < p.handle + p.bytes AND rows.start_ns >= p.start_ns
            AND (p.end_ns IS NULL OR rows.start_ns <= p.end_ns)
        ) AS on_device FROM rows"""


GATHERED = _Messages(
    "raw_messages",
    'slot INTEGER, seq UINTEGER, function UINTEGER, kind UTINYINT, state UTINYINT, begin UBIGINT, "end" UBIGINT,'
    " bytes UBIGINT, partner INTEGER, tag INTEGER, comm UINTEGER, buffer UBIGINT",
    never,
    nothing,
    _insert,
)
