"""Target constructs of OpenMP and what they did on devices."""

from __future__ import annotations

import numpy as np

from occatrace.core.model import Function, Model
from occatrace.core.schema import NO_SEQ
from occatrace.ingest.gathered.gathered import Gathered, enum_text
from occatrace.ingest.reading import Columns
from occatrace.ingest.threads import ThreadMap

_PREFIX = "occatrace_openmp:target"


def _takes(event: str, function: Function | None, columns: Columns) -> bool:
    return event.startswith(_PREFIX) and function is not None


def _columns(threads: ThreadMap, columns: Columns) -> Columns:
    n = len(columns["ts"])
    names = ("seq", "site", "device", "source_device", "destination_device", "kind", "bytes", "start", "run_seq")
    given = {
        name: columns[name]
        for name in (*names, "target_seq", "mapped_to", "mapped_from", "construct", "nowait")
        if name in columns
    }
    # Events do not say what they are; the fields that only one kind has do.
    if "mapped_to" in columns:
        what = "construct"
    elif "teams" in columns:
        what = "submit"
    elif "source_device" in columns:
        what = "transfer"
    elif "associated" in columns:
        what = "associate"
    else:
        what = "alloc" if "bytes" in columns else "free"
    return {"what": np.full(n, what, object), "end": columns["ts"], **given}


def _insert(model: Model) -> str:
    return f"""
        INSERT INTO omp_targets BY NAME
        SELECT s.process, r.slot + 1 AS thread, r.seq, r.operation,
               r.site, x.function, x.source, coalesce(r.device, CASE WHEN r.kind = 3 THEN r.source_device
               ELSE r.destination_device END) AS device_num, coalesce(r.bytes, 0) AS bytes,
               coalesce(r.mapped_to, 0) AS mapped_to, coalesce(r.mapped_from, 0) AS mapped_from,
               r.start AS start_ns, r.end AS end_ns, nullif(r.target_seq, {NO_SEQ}) AS target_seq,
               nullif(coalesce(r.run_seq, c.run_seq), {NO_SEQ}) AS run_seq
        FROM (
            SELECT *, CASE what WHEN 'transfer' THEN {enum_text(model, "openmp", "transfer_kind", "kind")}
                      WHEN 'construct' THEN {enum_text(model, "openmp", "construct", "construct")}
                      ELSE what END AS operation FROM raw_omp_targets
        ) r JOIN slots s USING (slot)
        LEFT JOIN raw_omp_targets c ON c.slot = r.slot AND c.seq = r.target_seq
        LEFT JOIN site_texts x ON x.process = s.process AND x.id = coalesce(r.site, c.site)"""


GATHERED = Gathered(
    "raw_omp_targets",
    "slot INTEGER, seq UINTEGER, what VARCHAR, site UINTEGER, device INTEGER, source_device INTEGER,"
    ' destination_device INTEGER, kind UTINYINT, bytes UBIGINT, "start" UBIGINT, "end" UBIGINT, run_seq UINTEGER,'
    " target_seq UINTEGER, mapped_to UBIGINT, mapped_from UBIGINT, construct UTINYINT, nowait UTINYINT",
    _takes,
    _columns,
    _insert,
)
