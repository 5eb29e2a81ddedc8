"""Calls of OCCA kernels."""

from __future__ import annotations

import numpy as np

from occatrace.core.model import Function, Model
from occatrace.core.schema import NO_SEQ
from occatrace.ingest.gathered.gathered import Gathered
from occatrace.ingest.reading import Columns
from occatrace.ingest.threads import ThreadMap


def _takes(event: str, function: Function | None, columns: Columns) -> bool:
    return function is not None and "kernel" in columns and "launches" in columns


def _columns(threads: ThreadMap, columns: Columns) -> Columns:
    return {
        "end": columns["ts"],
        **{name: columns[name] for name in ("seq", "kernel", "start", "launches")},
        "error": columns.get("error", np.zeros(len(columns["ts"]), np.uint32)),
        "memory_args": columns.get("memory_args", np.full(len(columns["ts"]), NO_SEQ, np.uint32)),
        "memory_bytes": columns.get("memory_bytes", np.zeros(len(columns["ts"]), np.uint64)),
    }


def _insert(model: Model) -> str:
    return f"""
        INSERT INTO kernel_runs BY NAME
        SELECT s.process, r.slot + 1 AS thread, r.seq, k.kernel, r.start AS start_ns, r.end AS end_ns, r.launches,
               nullif(r.memory_args, {NO_SEQ}) AS memory_args,
               CASE WHEN r.memory_args != {NO_SEQ} THEN r.memory_bytes END AS memory_bytes, n.text AS error
        FROM raw_runs r JOIN slots s USING (slot)
        LEFT JOIN kernels k ON k.process = s.process AND k.id = r.kernel
        LEFT JOIN names n ON n.process = s.process AND n.id = r.error AND r.error != 0"""


GATHERED = Gathered(
    "raw_runs",
    'slot INTEGER, seq UINTEGER, kernel UINTEGER, "start" UBIGINT, "end" UBIGINT, launches UINTEGER, error UINTEGER,'
    " memory_args UINTEGER, memory_bytes UBIGINT",
    _takes,
    _columns,
    _insert,
)
