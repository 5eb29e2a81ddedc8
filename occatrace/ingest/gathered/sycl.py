"""What SYCL's runtime said of itself: commands, allocations and waits with their lines, and which command waits for which."""

from __future__ import annotations

from occatrace.core.model import Function, Model
from occatrace.core.schema import NO_SEQ
from occatrace.ingest.gathered.gathered import Gathered, enum_text
from occatrace.ingest.reading import Columns
from occatrace.ingest.threads import ThreadMap

_PREFIX = "occatrace_sycl:"
_DEPENDENCY = _PREFIX + "dependency"
_SAME = ("seq", "operation", "function", "file", "line", "start")
_OF_COMMANDS = ("command", "name", "queue", "created", "last")


def _takes(event: str, function: Function | None, columns: Columns) -> bool:
    return event.startswith(_PREFIX) and event != _DEPENDENCY and function is not None


def _columns(threads: ThreadMap, columns: Columns) -> Columns:
    names = (*_SAME, *(name for name in _OF_COMMANDS if name in columns))
    return {"end": columns["ts"], **{name: columns[name] for name in names}}


def _insert(model: Model) -> str:
    return f"""
        INSERT INTO sycl_calls BY NAME
        SELECT s.process, r.slot + 1 AS thread, r.seq, {enum_text(model, "sycl", "sycl_operation", "r.operation")} AS operation,
               nullif(r.command, 0) AS command, coalesce(n.text, '') AS name, coalesce(f.text, '') AS function,
               coalesce(p.text || ':' || r.line::VARCHAR, '') AS source, nullif(r.queue, 0) AS sycl_queue,
               nullif(r.created, 0) AS created_ns, r.start AS start_ns, r.end AS end_ns, coalesce(r.last, {NO_SEQ}) AS last_seq
        FROM raw_sycl_calls r JOIN slots s USING (slot)
        LEFT JOIN names n ON n.process = s.process AND n.id = r.name AND r.name != 0
        LEFT JOIN names f ON f.process = s.process AND f.id = r.function AND r.function != 0
        LEFT JOIN names p ON p.process = s.process AND p.id = r.file AND r.file != 0"""


CALLS = Gathered(
    "raw_sycl_calls",
    "slot INTEGER, seq UINTEGER, operation UTINYINT, command UBIGINT, name UINTEGER, function UINTEGER, file UINTEGER,"
    ' line UINTEGER, queue UBIGINT, created UBIGINT, "start" UBIGINT, "end" UBIGINT, last UINTEGER',
    _takes,
    _columns,
    _insert,
)


def _takes_dependencies(event: str, function: Function | None, columns: Columns) -> bool:
    return event == _DEPENDENCY


def _dependency_columns(threads: ThreadMap, columns: Columns) -> Columns:
    return {name: columns[name] for name in ("command", "after")}


def _insert_dependencies(model: Model) -> str:
    return """
        INSERT INTO sycl_dependencies BY NAME
        SELECT s.process, r.command, r.after FROM raw_sycl_dependencies r JOIN slots s USING (slot)"""


DEPENDENCIES = Gathered(
    "raw_sycl_dependencies",
    "slot INTEGER, command UBIGINT, after UBIGINT",
    _takes_dependencies,
    _dependency_columns,
    _insert_dependencies,
)
