"""Copies by OCCA calls."""

from __future__ import annotations

import numpy as np

from occatrace.core.model import Function, Model
from occatrace.ingest.gathered.gathered import Gathered, kind_text
from occatrace.ingest.reading import Columns
from occatrace.ingest.threads import ThreadMap


def _takes(event: str, function: Function | None, columns: Columns) -> bool:
    if function is None or function.api != "occa" or function.allocates:
        return False
    return {"kind", "mode", "bytes"} <= columns.keys()


def _columns(threads: ThreadMap, columns: Columns) -> Columns:
    return {
        "end": columns["ts"],
        **{name: columns[name] for name in ("seq", "kind", "mode", "bytes", "start")},
        "error": columns.get("error", np.zeros(len(columns["ts"]), np.uint32)),
    }


def _insert(model: Model) -> str:
    return f"""
        INSERT INTO occa_copies BY NAME
        SELECT s.process, r.slot + 1 AS thread, r.seq, {kind_text(model)} AS kind, m.text AS mode, r.bytes,
               r.start AS start_ns, r.end AS end_ns, n.text AS error
        FROM raw_copies r JOIN slots s USING (slot)
        LEFT JOIN names m ON m.process = s.process AND m.id = r.mode
        LEFT JOIN names n ON n.process = s.process AND n.id = r.error AND r.error != 0"""


GATHERED = Gathered(
    "raw_copies",
    'slot INTEGER, seq UINTEGER, kind UTINYINT, mode UINTEGER, bytes UBIGINT, "start" UBIGINT, "end" UBIGINT,'
    " error UINTEGER",
    _takes,
    _columns,
    _insert,
)
