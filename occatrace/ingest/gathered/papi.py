"""What PAPI counted in kernel calls and ranges."""

from __future__ import annotations

from occatrace.core.model import Function, Model
from occatrace.ingest.gathered.gathered import Gathered
from occatrace.ingest.reading import Columns
from occatrace.ingest.threads import ThreadMap


def _takes(event: str, function: Function | None, columns: Columns) -> bool:
    return event == "occatrace_papi:count"


def _columns(threads: ThreadMap, columns: Columns) -> Columns:
    return {"seq": columns["call_seq"], "counter": columns["counter"], "value": columns["value"]}


def _insert(model: Model) -> str:
    return """
        INSERT INTO papi_counts BY NAME
        SELECT s.process, r.slot + 1 AS thread, r.seq, coalesce(n.text, '') AS counter, r.value
        FROM raw_papi_counts r JOIN slots s USING (slot)
        LEFT JOIN names n ON n.process = s.process AND n.id = r.counter"""


GATHERED = Gathered(
    "raw_papi_counts", "slot INTEGER, seq UINTEGER, counter UINTEGER, value BIGINT", _takes, _columns, _insert
)
