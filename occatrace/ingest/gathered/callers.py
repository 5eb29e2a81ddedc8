"""Where in the program calls were made: sums by place of all of them, and the place of each of those that others refer to."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from occatrace import _native
from occatrace.core.model import Function, Model
from occatrace.ingest.gathered.gathered import Gathered, never, nothing
from occatrace.ingest.reading import Columns, Slots
from occatrace.ingest.threads import ThreadMap

_WAITED = ("cuda", "cudart")  # whose records of waits name the call


def sums(
    function: Function,
    slots: Slots,
    columns: Columns,
    failed: npt.NDArray[np.bool_] | None,
    moved: npt.NDArray[np.uint64] | None,
) -> Columns:
    """The rows of `SUMS` for a batch of calls whose events say where they were made."""
    found = _native.fold_callers(slots, columns["caller"], columns["start"], columns["ts"], failed, moved)
    count = len(found["slot"])
    return {**found, "api": np.full(count, function.api, object), "function": np.full(count, function.name, object)}


def _insert_sums(model: Model) -> str:
    return """
        INSERT INTO call_site_stats BY NAME
        SELECT s.process, r.slot + 1 AS thread, r.api, r.function, c.site, sum(r.calls) AS calls, sum(r.failed) AS failed,
               sum(r.total) AS total_ns, sum(r.bytes) AS bytes
        FROM raw_callers r JOIN slots s USING (slot) JOIN call_sites c ON c.process = s.process AND c.address = r.caller
        GROUP BY ALL"""


def _is_referred_to(event: str, function: Function | None, columns: Columns) -> bool:
    return (
        function is not None
        and "caller" in columns
        and bool(
            function.activity
            or function.allocates
            or function.compiles
            or "launches" in columns
            or (function.blocking and function.api in _WAITED)
        )
    )


def _places(threads: ThreadMap, columns: Columns) -> Columns:
    return {"seq": columns["seq"], "caller": columns["caller"]}


def _insert_places(model: Model) -> str:
    return """
        INSERT INTO call_places BY NAME
        SELECT s.process, r.slot + 1 AS thread, r.seq, c.site
        FROM raw_call_places r JOIN slots s USING (slot) JOIN call_sites c ON c.process = s.process AND c.address = r.caller"""


def _is_path_frame(event: str, function: Function | None, columns: Columns) -> bool:
    return event == "occatrace_process:path_frame"


def _path_frames(threads: ThreadMap, columns: Columns) -> Columns:
    return {name: columns[name] for name in ("id", "parent", "address", "end")}


def _is_path(event: str, function: Function | None, columns: Columns) -> bool:
    return event == "occatrace_process:call_path"


def _paths(threads: ThreadMap, columns: Columns) -> Columns:
    return {"seq": columns["call_seq"], "path": columns["path"]}


def _insert_paths(model: Model) -> str:
    return """
        INSERT INTO path_calls BY NAME
        SELECT s.process, r.slot + 1 AS thread, r.seq, r.path FROM raw_path_calls r JOIN slots s USING (slot)"""


def _insert_path_frames(model: Model) -> str:
    return """
        INSERT INTO call_paths BY NAME
        WITH RECURSIVE nodes AS (
            SELECT DISTINCT s.process, r.id, r.parent, r.address, r."end" FROM raw_path_frames r JOIN slots s USING (slot)
        ),
        walk AS (
            SELECT p.process, p.path, n.parent, n.address, n."end", 0 AS level
            FROM (SELECT process, path FROM path_calls UNION SELECT process, path FROM stack_samples) p
            JOIN nodes n ON n.process = p.process AND n.id = p.path
            UNION ALL
            SELECT w.process, w.path, n.parent, n.address, n."end", w.level + 1
            FROM walk w JOIN nodes n ON n.process = w.process AND n.id = w.parent
        ),
        frames AS (
            SELECT w.process, w.path, w."end", c.site, c.inlined, c.function, c.file, c.line,
                   row_number() OVER (PARTITION BY w.process, w.path ORDER BY w.level DESC, c.level DESC) - 1 AS depth
            FROM walk w JOIN path_sites c ON c.process = w.process AND c.address = w.address
        )
        SELECT * EXCLUDE ("end"), CASE WHEN depth > 0 OR "end" = 0 THEN '' WHEN "end" = 1 THEN 'more frames than recorded'
               ELSE 'no unwind table' END AS cut FROM frames"""


def _is_sample(event: str, function: Function | None, columns: Columns) -> bool:
    return event == "occatrace_process:stack_sample"


def _samples(threads: ThreadMap, columns: Columns) -> Columns:
    return {
        "owner": threads.of(columns["owner"], columns["time"]),
        **{name: columns[name] for name in ("time", "path", "cpu")},
        "frame": columns.get("frame", np.zeros(len(columns["time"]), np.uint32)),
    }


def _insert_samples(model: Model) -> str:
    return """
        INSERT INTO stack_samples BY NAME
        SELECT s.process, r.owner + 1 AS thread, r.time AS time_ns, r.cpu AS cpu_ns, r.path, r.frame
        FROM raw_stack_samples r JOIN slots s USING (slot)"""


SUMS = Gathered(
    "raw_callers",
    "slot INTEGER, api VARCHAR, function VARCHAR, caller UBIGINT, since UBIGINT, calls UBIGINT, failed UBIGINT,"
    " total UBIGINT, bytes UBIGINT",
    never,
    nothing,
    _insert_sums,
)
PLACES = Gathered(
    "raw_call_places",
    "slot INTEGER, seq UINTEGER, caller UBIGINT",
    _is_referred_to,
    _places,
    _insert_places,
)
PATH_CALLS = Gathered("raw_path_calls", "slot INTEGER, seq UINTEGER, path UINTEGER", _is_path, _paths, _insert_paths)
SAMPLES = Gathered(
    "raw_stack_samples",
    'slot INTEGER, owner INTEGER, "time" UBIGINT, path UINTEGER, cpu UBIGINT, frame UINTEGER',
    _is_sample,
    _samples,
    _insert_samples,
)
# After the calls and samples, whose stacks are wanted only.
PATH_FRAMES = Gathered(
    "raw_path_frames",
    'slot INTEGER, id UINTEGER, parent UINTEGER, address UBIGINT, "end" UTINYINT',
    _is_path_frame,
    _path_frames,
    _insert_path_frames,
)
