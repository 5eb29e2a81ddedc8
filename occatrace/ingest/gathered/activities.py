"""Work of devices."""

from __future__ import annotations

import numpy as np

from occatrace.core.model import Function, Model
from occatrace.core.schema import NO_SEQ
from occatrace.ingest.gathered.gathered import Gathered, kind_text
from occatrace.ingest.reading import Columns
from occatrace.ingest.threads import ThreadMap

_SAME = (
    "seq",
    "kind",
    "corr_seq",
    "run_seq",
    "queue",
    "queued",
    "submitted",
    "start",
    "end",
    "bytes",
    "name",
    "status",
)
_GRID = ("gx", "gy", "gz", "lx", "ly", "lz")


def _takes(event: str, function: Function | None, columns: Columns) -> bool:
    return event == "occatrace_device:activity"


def _columns(threads: ThreadMap, columns: Columns) -> Columns:
    launched = np.where(columns["queued"] > 0, columns["queued"], columns["start"])
    return {
        "corr_slot": threads.of(columns["corr_tid"], launched),
        **{name: columns[name] for name in (*_SAME, *_GRID)},
    }


def _insert(model: Model) -> str:
    kind = kind_text(model)
    return f"""
        INSERT INTO activities BY NAME
        SELECT s.process, {kind} AS kind, coalesce(x.function
               || CASE WHEN x.source != '' THEN ' (' || regexp_extract(x.source, '[^/]*$') || ')' ELSE '' END,
               n.text, {kind}) AS name, q.device, q.queue,
               r.corr_slot + 1 AS thread, r.corr_seq AS seq, nullif(r.run_seq, {NO_SEQ}) AS run_seq, k.kernel,
               r.queued AS queued_ns, r.submitted AS submitted_ns, r.start AS start_ns, r.end AS end_ns, r.bytes,
               r.gx, r.gy, r.gz, r.lx, r.ly, r.lz, r.status
        FROM raw_activities r JOIN slots s USING (slot)
        LEFT JOIN names n ON n.process = s.process AND n.id = r.name AND r.name != 0
        LEFT JOIN site_texts x ON x.process = s.process AND x.id = r.name AND r.name != 0
        LEFT JOIN queues q ON q.process = s.process AND q.id = r.queue
        LEFT JOIN kernel_runs k ON k.thread = r.corr_slot + 1 AND k.seq = r.run_seq"""


GATHERED = Gathered(
    "raw_activities",
    """slot INTEGER, seq UINTEGER, kind UTINYINT, corr_slot INTEGER, corr_seq UINTEGER, run_seq UINTEGER, queue UINTEGER,
    queued UBIGINT, submitted UBIGINT, "start" UBIGINT, "end" UBIGINT, bytes UBIGINT, name UINTEGER, gx UINTEGER,
    gy UINTEGER, gz UINTEGER, lx UINTEGER, ly UINTEGER, lz UINTEGER, status INTEGER""",
    _takes,
    _columns,
    _insert,
)
