"""Calls that build or load code for a device: OCCA's, with what they say of their cache, and those of the API below."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from occatrace.core.model import Function, Model
from occatrace.core.sql import text as sql_text
from occatrace.ingest.gathered.gathered import Gathered, never, nothing
from occatrace.ingest.reading import Columns
from occatrace.ingest.threads import ThreadMap

_NOT_KNOWN = 2  # cached or not
_OF_OCCA = (
    ("name", "function", np.uint32),
    ("kernel", "kernel", np.uint32),
    ("mode", "mode", np.uint32),
    ("source", "source", np.uint32),
    ("compiler", "compiler", np.uint64),
)


@dataclass(frozen=True)
class _Builds(Gathered):
    def take(
        self, model: Model, event: str, function: Function | None, threads: ThreadMap, columns: Columns
    ) -> Columns | None:
        if function is None or not function.compiles:
            return None
        count = len(columns["ts"])
        # The names of OCCA's fields; other APIs have fields of the same names that mean something else.
        own = columns if function.api == "occa" else {}
        rows: dict[str, npt.NDArray[Any]] = {
            "of": np.full(count, model.compiling.index(function), np.uint32),
            "seq": columns["seq"],
            "start": columns["start"],
            "end": columns["ts"],
            "cached": own.get("cached", np.full(count, _NOT_KNOWN, np.uint8)),
            "failed": np.zeros(count, np.bool_),
        }
        for name, field, kind in _OF_OCCA:
            rows[name] = own.get(field, np.zeros(count, kind))
        if function.failed and function.failed.field in columns:
            rows["failed"] = function.failed.mask(columns[function.failed.field])
        return rows


def _insert(model: Model) -> str:
    functions = ", ".join(f"({at}, {sql_text(f.api)}, {sql_text(f.name)})" for at, f in enumerate(model.compiling))
    return f"""
        INSERT INTO builds BY NAME
        WITH functions(code, api, function) AS (VALUES {functions or "(0, '', '')"})
        SELECT s.process, r.slot + 1 AS thread, r.seq, f.api, f.function, n.text AS name, k.kernel, m.text AS mode,
               c.text AS source, CASE WHEN r.cached != {_NOT_KNOWN} THEN r.cached != 0 END AS cached,
               r.compiler AS compiler_ns, r.start AS start_ns, r.end AS end_ns, r.failed
        FROM raw_builds r JOIN slots s USING (slot) JOIN functions f ON f.code = r.of
        LEFT JOIN names n ON n.process = s.process AND n.id = r.name AND r.name != 0
        LEFT JOIN names m ON m.process = s.process AND m.id = r.mode AND r.mode != 0
        LEFT JOIN names c ON c.process = s.process AND c.id = r.source AND r.source != 0
        LEFT JOIN kernels k ON k.process = s.process AND k.id = r.kernel AND r.kernel != 0"""


GATHERED = _Builds(
    "raw_builds",
    """slot INTEGER, "of" UINTEGER, seq UINTEGER, "start" UBIGINT, "end" UBIGINT, cached UTINYINT, failed BOOLEAN,
    name UINTEGER, kernel UINTEGER, mode UINTEGER, source UINTEGER, compiler UBIGINT""",
    never,
    nothing,
    _insert,
)
