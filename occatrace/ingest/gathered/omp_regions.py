"""Parallel regions of OpenMP, with the region, the OCCA kernel call and the target construct that they are in."""

from __future__ import annotations

import numpy as np

from occatrace.core.model import Function, Model
from occatrace.core.schema import NO_SEQ
from occatrace.ingest.gathered.gathered import Gathered, enum_text
from occatrace.ingest.reading import Columns
from occatrace.ingest.threads import ThreadMap

_SAME = ("seq", "site", "kind", "runtime", "requested", "threads", "start", "parent_seq", "run_seq", "target_seq")


def _takes(event: str, function: Function | None, columns: Columns) -> bool:
    return event == "occatrace_openmp:parallel"


def _columns(threads: ThreadMap, columns: Columns) -> Columns:
    inside = columns["parent_seq"] != NO_SEQ
    parent = np.full(len(inside), -1, np.int32)
    parent[inside] = threads.of(columns["parent_tid"][inside], columns["start"][inside])
    return {"parent_slot": parent, "end": columns["ts"], **{name: columns[name] for name in _SAME}}


# Of a region in the file that OCCA made of a kernel, beside the kernel's binary in its cache, or of which no line is known, the place
# of the kernel: people wrote that one. A region of a function that the kernel calls keeps its own.
_CACHED = r"""regexp_extract(n."binary", '^.*/')"""
_SOURCE = f"""
    CASE WHEN n.source != '' AND (coalesce(x.source, '') = '' OR ({_CACHED} != '' AND starts_with(x.source, {_CACHED})))
         THEN n.source || CASE WHEN n.line > 0 THEN ':' || n.line ELSE '' END ELSE x.source END"""


def _insert(model: Model) -> str:
    return f"""
        INSERT INTO omp_regions BY NAME
        WITH RECURSIVE up AS (
            SELECT slot, seq, parent_slot AS at_slot, parent_seq AS at_seq, 1 AS depth
            FROM raw_omp_regions WHERE parent_seq != {NO_SEQ}
            UNION ALL
            SELECT u.slot, u.seq, r.parent_slot, r.parent_seq, u.depth + 1
            FROM up u JOIN raw_omp_regions r ON r.slot = u.at_slot AND r.seq = u.at_seq
            WHERE r.parent_seq != {NO_SEQ} AND u.depth < 100
        ),
        outermost AS (
            SELECT slot, seq, max(depth) AS depth, arg_max(at_slot, depth) AS at_slot, arg_max(at_seq, depth) AS at_seq
            FROM up GROUP BY slot, seq
        )
        SELECT s.process, r.slot + 1 AS thread, r.seq, r.site, x.function, {_SOURCE} AS source,
               {enum_text(model, "openmp", "parallel_kind", "r.kind")} AS kind,
               {enum_text(model, "openmp", "runtime", "r.runtime")} AS runtime,
               r.requested, r.threads, r.start AS start_ns, r.end AS end_ns,
               CASE WHEN r.parent_seq != {NO_SEQ} THEN r.parent_slot + 1 END AS parent_thread,
               nullif(r.parent_seq, {NO_SEQ}) AS parent_seq, coalesce(o.depth, 0) AS depth,
               CASE WHEN c.run_seq != {NO_SEQ} THEN c.slot + 1 END AS run_thread,
               nullif(c.run_seq, {NO_SEQ}) AS run_seq, k.kernel, nullif(c.target_seq, {NO_SEQ}) AS target_seq
        FROM raw_omp_regions r JOIN slots s USING (slot)
        LEFT JOIN outermost o ON o.slot = r.slot AND o.seq = r.seq
        LEFT JOIN raw_omp_regions c ON c.slot = coalesce(o.at_slot, r.slot) AND c.seq = coalesce(o.at_seq, r.seq)
        LEFT JOIN kernel_runs k ON k.thread = c.slot + 1 AND k.seq = c.run_seq
        LEFT JOIN kernels n ON n.kernel = k.kernel
        LEFT JOIN site_texts x ON x.process = s.process AND x.id = r.site"""


GATHERED = Gathered(
    "raw_omp_regions",
    "slot INTEGER, seq UINTEGER, site UINTEGER, kind UTINYINT, runtime UTINYINT, requested UINTEGER, threads UINTEGER,"
    ' "start" UBIGINT, "end" UBIGINT, parent_slot INTEGER, parent_seq UINTEGER, run_seq UINTEGER, target_seq UINTEGER',
    _takes,
    _columns,
    _insert,
)
