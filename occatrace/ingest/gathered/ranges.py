"""Ranges and marks of the program's annotations: begins and ends are put together, whichever of them is missing."""

from __future__ import annotations

import numpy as np

from occatrace.core.model import Function, Model
from occatrace.core.schema import NO_SEQ
from occatrace.core.sql import text as sql_text
from occatrace.ingest.gathered.gathered import Gathered
from occatrace.ingest.reading import Columns
from occatrace.ingest.threads import ThreadMap

_SAME = ("seq", "api", "kind", "depth", "domain", "name", "text")
_OF_BEGIN = ("category", "color", "payload_type", "payload", "values")


def _takes(event: str, function: Function | None, columns: Columns) -> bool:
    return event in ("occatrace_annotation:range_begin", "occatrace_annotation:range_end")


def _columns(threads: ThreadMap, columns: Columns) -> Columns:
    same = {"time": columns["ts"], **{name: columns[name] for name in _SAME}}
    if "begin_tid" in columns:
        return {
            **same,
            "begin_slot": threads.of(columns["begin_tid"], columns["start"]),
            "begin_seq": columns["begin_seq"],
            "begin_time": columns["start"],
        }
    bits = np.ascontiguousarray(columns["payload"])
    return {
        **same,
        **{name: columns[name] for name in _OF_BEGIN},
        "payload_signed": bits.view(np.int64),
        "payload_float": bits.view(np.float64),
    }


def _case(column: str, model: Model, enum: str) -> str:
    names = model.texts("annotation", enum).items()
    return f"CASE {column} " + " ".join(f"WHEN {n} THEN {sql_text(name)}" for n, name in names) + " END"


def _insert(model: Model) -> str:
    return f"""
        INSERT INTO ranges BY NAME
        WITH begins AS (SELECT * FROM raw_ranges WHERE begin_slot IS NULL),
        ends AS (SELECT * FROM raw_ranges WHERE begin_slot IS NOT NULL),
        -- A number that was not recorded names no begin.
        pairs AS (
            SELECT coalesce(e.begin_slot, b.slot) AS slot, b.seq, coalesce(e.begin_time, b.time) AS start_ns,
                   CASE WHEN b.kind = 2 THEN b.time ELSE e.time END AS end_ns, e.slot AS end_slot, e.seq AS end_seq,
                   coalesce(b.api, e.api) AS api, coalesce(b.kind, e.kind) AS kind, coalesce(b.depth, e.depth) AS depth,
                   coalesce(b.domain, e.domain) AS domain, coalesce(b.name, e.name) AS name,
                   coalesce(b.text, e.text) AS text, b.category, b.color, b.payload_type, b.payload, b.payload_signed,
                   b.payload_float, b.values
            FROM begins b FULL JOIN ends e
            ON e.begin_slot = b.slot AND e.begin_seq = b.seq AND e.begin_seq != {NO_SEQ}
        )
        SELECT s.process, {_case("r.api", model, "annotation_api")} AS api, coalesce(d.text, '') AS domain,
               c.text AS category, coalesce(n.text, r.text) AS name, {_case("r.kind", model, "range_kind")} AS kind,
               nullif(r.color, 0) AS color,
               coalesce(nullif(r.values, ''), CASE r.payload_type WHEN 1 THEN r.payload::VARCHAR
                   WHEN 2 THEN r.payload_signed::VARCHAR WHEN 3 THEN r.payload_float::VARCHAR END) AS payload,
               r.slot + 1 AS thread, r.seq, r.depth, r.start_ns, r.end_ns, r.end_slot + 1 AS end_thread, r.end_seq
        FROM pairs r JOIN slots s USING (slot)
        LEFT JOIN names d ON d.process = s.process AND d.id = r.domain AND r.domain != 0
        LEFT JOIN names c ON c.process = s.process AND c.id = r.category AND r.category != 0
        LEFT JOIN names n ON n.process = s.process AND n.id = r.name AND r.name != 0"""


GATHERED = Gathered(
    "raw_ranges",
    "slot INTEGER, seq UINTEGER, time UBIGINT, api UTINYINT, kind UTINYINT, depth USMALLINT, domain UINTEGER,"
    " name UINTEGER, text VARCHAR, category UINTEGER, color UINTEGER, payload_type UTINYINT, payload UBIGINT,"
    " payload_signed BIGINT, payload_float DOUBLE, values VARCHAR, begin_slot INTEGER, begin_seq UINTEGER,"
    " begin_time UBIGINT",
    _takes,
    _columns,
    _insert,
    texts=("text", "values"),
)
