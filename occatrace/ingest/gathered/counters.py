"""Values over time that the program gives by its annotations."""

from __future__ import annotations

from occatrace.core.model import Function, Model
from occatrace.ingest.gathered.gathered import Gathered
from occatrace.ingest.reading import Columns
from occatrace.ingest.threads import ThreadMap


def _takes(event: str, function: Function | None, columns: Columns) -> bool:
    return event == "occatrace_annotation:counter"


def _columns(threads: ThreadMap, columns: Columns) -> Columns:
    return {"time": columns["ts"], **{name: columns[name] for name in ("name", "unit", "value")}}


def _insert(model: Model) -> str:
    return """
        INSERT INTO counters BY NAME
        SELECT s.process, n.text AS name, coalesce(u.text, '') AS unit, r.time AS time_ns, r.value
        FROM raw_counters r JOIN slots s USING (slot)
        LEFT JOIN names n ON n.process = s.process AND n.id = r.name
        LEFT JOIN names u ON u.process = s.process AND u.id = r.unit AND r.unit != 0"""


GATHERED = Gathered(
    "raw_counters",
    "slot INTEGER, name UINTEGER, unit UINTEGER, time UBIGINT, value DOUBLE",
    _takes,
    _columns,
    _insert,
)
