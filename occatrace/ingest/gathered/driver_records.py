"""What a vendor's library tells besides the work: what the driver did to managed memory, and waits for work."""

from __future__ import annotations

from occatrace.core.model import Function, Model
from occatrace.ingest.gathered.gathered import Gathered, enum_text
from occatrace.ingest.reading import Columns
from occatrace.ingest.threads import ThreadMap


def _takes_managed(event: str, function: Function | None, columns: Columns) -> bool:
    return event == "occatrace_device:managed"


def _managed_columns(threads: ThreadMap, columns: Columns) -> Columns:
    return {name: columns[name] for name in ("device", "kind", "start", "end", "value", "address")}


def _insert_managed(model: Model) -> str:
    kind = enum_text(model, "device", "managed_kind", "r.kind")
    return f"""
        INSERT INTO managed_memory BY NAME
        SELECT s.process, {kind} AS kind, d.device, r.start AS start_ns, greatest(r.end, r.start) AS end_ns,
               CASE WHEN {kind} IN ('HtoD', 'DtoH', 'DtoD') THEN r.value END AS bytes,
               CASE WHEN {kind} NOT IN ('HtoD', 'DtoH', 'DtoD') THEN r.value END AS count, r.address
        FROM raw_managed r JOIN slots s USING (slot)
        LEFT JOIN devices d ON d.process = s.process AND d.id = r.device AND r.device != 0"""


def _takes_waits(event: str, function: Function | None, columns: Columns) -> bool:
    return event == "occatrace_device:wait"


def _wait_columns(threads: ThreadMap, columns: Columns) -> Columns:
    called = threads.of(columns["corr_tid"], columns["start"])
    return {
        "corr_slot": called,
        **{name: columns[name] for name in ("kind", "corr_seq", "queue", "waiting", "start", "end")},
    }


def _insert_waits(model: Model) -> str:
    return f"""
        INSERT INTO waits BY NAME
        SELECT s.process, {enum_text(model, "device", "wait_kind", "r.kind")} AS kind, r.corr_slot + 1 AS thread,
               r.corr_seq AS seq, q.queue, w.queue AS waiting_queue, r.start AS start_ns, greatest(r.end, r.start) AS end_ns
        FROM raw_waits r JOIN slots s USING (slot)
        LEFT JOIN queues q ON q.process = s.process AND q.id = r.queue AND r.queue != 0
        LEFT JOIN queues w ON w.process = s.process AND w.id = r.waiting AND r.waiting != 0"""


MANAGED = Gathered(
    "raw_managed",
    'slot INTEGER, device UINTEGER, kind UTINYINT, "start" UBIGINT, "end" UBIGINT, "value" UBIGINT, address UBIGINT',
    _takes_managed,
    _managed_columns,
    _insert_managed,
)
WAITS = Gathered(
    "raw_waits",
    """slot INTEGER, corr_slot INTEGER, kind UTINYINT, corr_seq UINTEGER, queue UINTEGER, waiting UINTEGER, "start" UBIGINT,
    "end" UBIGINT""",
    _takes_waits,
    _wait_columns,
    _insert_waits,
)
