"""What a Python program did: its start, imports, calls from outside, functions; the lines behind traced calls;
where its processor time went; its log."""

from __future__ import annotations

import numpy as np

from occatrace.core.model import Function, Model
from occatrace.ingest.gathered.gathered import Gathered, enum_text
from occatrace.ingest.reading import Columns
from occatrace.ingest.threads import ThreadMap

_CALL = ("number", "parent", "kind", "failed", "depth", "name", "source", "line", "start", "end", "inner")
_FRAME = ("id", "parent", "function", "source", "line")
_MESSAGE = ("seq", "level", "level_name", "logger", "source", "line", "function", "text")


def _is_call(event: str, function: Function | None, columns: Columns) -> bool:
    return event == "occatrace_python:call"


def _calls(threads: ThreadMap, columns: Columns) -> Columns:
    return {"owner": threads.of(columns["owner"], columns["end"]), **{name: columns[name] for name in _CALL}}


def _insert_calls(model: Model) -> str:
    # What waited in memory came before its thread's first event.
    return f"""
        INSERT INTO python_calls BY NAME
        SELECT s.process, r.owner + 1 AS thread, r.number, nullif(r.parent, 0) AS parent,
               {enum_text(model, "python", "call_kind", "r.kind")} AS kind, r.failed != 0 AS failed, r.depth,
               coalesce(n.text, '') AS name, coalesce(f.text, '') AS source, r.line, r.start AS start_ns, r.end AS end_ns,
               r."inner" AS inner_ns
        FROM raw_python_calls r JOIN slots s USING (slot)
        LEFT JOIN names n ON n.process = s.process AND n.id = r.name
        LEFT JOIN names f ON f.process = s.process AND f.id = r.source AND r.source != 0;
        {_RUNS_OF_KILLED}"""


# A process writes the run of its program as it ends. That of one that was killed (a worker of multiprocessing.Pool, which
# terminates them) went on to its last event; its name is as native/intercept/python/python.c has it.
_RUNS_OF_KILLED = r"""
        INSERT INTO python_calls BY NAME
        SELECT c.process, c.thread, (SELECT max(number) FROM python_calls o WHERE o.process = c.process) + 1 AS number,
               NULL AS parent, 'run' AS kind, false AS failed, 0 AS depth,
               coalesce(nullif(regexp_extract(p.cmdline,
                   '^\S+(?: -[XW] \S+| -[^mc\s]\S*)* (-m \S+|-c|[^-\s]\S*)', 1), ''), 'Python') AS name,
               '' AS source, 0 AS line, c.end_ns AS start_ns, p.end_ns, 0 AS inner_ns
        FROM python_calls c JOIN processes p USING (process)
        WHERE c.kind = 'start' AND p.exit IS NULL AND p.end_ns > c.end_ns AND regexp_matches(p.exe, '/(python|pypy)[^/]*$')
          AND NOT EXISTS (SELECT 1 FROM python_calls o WHERE o.process = c.process AND o.kind = 'run')"""


def _is_frame(event: str, function: Function | None, columns: Columns) -> bool:
    return event == "occatrace_python:frame"


def _frames(threads: ThreadMap, columns: Columns) -> Columns:
    found = {name: columns[name] for name in _FRAME}
    added = {"part": np.uint8, "entered": np.uint16}  # older traces lack them
    return {**found, **{name: columns.get(name, np.zeros(len(columns["id"]), of)) for name, of in added.items()}}


def _insert_frames(model: Model) -> str:
    return f"""
        INSERT INTO python_frames BY NAME
        SELECT s.process, r.id, nullif(r.parent, 0) AS parent, coalesce(n.text, '') AS function,
               coalesce(f.text, '') AS source, r.line,
               {enum_text(model, "python", "frame_part", "r.part")} AS part, r.entered
        FROM raw_python_frames r JOIN slots s USING (slot)
        LEFT JOIN names n ON n.process = s.process AND n.id = r.function
        LEFT JOIN names f ON f.process = s.process AND f.id = r.source"""


def _is_line(event: str, function: Function | None, columns: Columns) -> bool:
    return event == "occatrace_python:line"


def _lines(threads: ThreadMap, columns: Columns) -> Columns:
    return {"seq": columns["call_seq"], "frame": columns["frame"]}


def _insert_lines(model: Model) -> str:
    return """
        INSERT INTO python_lines BY NAME
        SELECT s.process, r.slot + 1 AS thread, r.seq, r.frame FROM raw_python_lines r JOIN slots s USING (slot)"""


def _is_sample(event: str, function: Function | None, columns: Columns) -> bool:
    return event == "occatrace_python:sample"


def _samples(threads: ThreadMap, columns: Columns) -> Columns:
    return {
        "owner": threads.of(columns["owner"], columns["time"]),
        **{name: columns[name] for name in ("part", "name", "time", "cpu")},
    }


def _insert_samples(model: Model) -> str:
    return f"""
        INSERT INTO python_samples BY NAME
        SELECT s.process, r.owner + 1 AS thread, r.time AS time_ns, r.cpu AS cpu_ns,
               {enum_text(model, "python", "sample_part", "r.part")} AS part, coalesce(n.text, '') AS name
        FROM raw_python_samples r JOIN slots s USING (slot)
        LEFT JOIN names n ON n.process = s.process AND n.id = r.name"""


def _is_message(event: str, function: Function | None, columns: Columns) -> bool:
    return event == "occatrace_python:message"


def _messages(threads: ThreadMap, columns: Columns) -> Columns:
    return {"time": columns["ts"], **{name: columns[name] for name in _MESSAGE}}


def _insert_messages(model: Model) -> str:
    return """
        INSERT INTO messages BY NAME
        SELECT s.process, r.slot + 1 AS thread, r.seq, r.time AS time_ns, r.level, coalesce(v.text, '') AS level_name,
               coalesce(l.text, '') AS logger, coalesce(f.text, '') AS source, r.line, coalesce(n.text, '') AS function,
               r.text
        FROM raw_python_messages r JOIN slots s USING (slot)
        LEFT JOIN names v ON v.process = s.process AND v.id = r.level_name
        LEFT JOIN names l ON l.process = s.process AND l.id = r.logger
        LEFT JOIN names f ON f.process = s.process AND f.id = r.source
        LEFT JOIN names n ON n.process = s.process AND n.id = r.function"""


CALLS = Gathered(
    "raw_python_calls",
    "slot INTEGER, owner INTEGER, number UINTEGER, parent UINTEGER, kind UTINYINT, failed UTINYINT, depth USMALLINT,"
    ' name UINTEGER, source UINTEGER, line UINTEGER, "start" UBIGINT, "end" UBIGINT, "inner" UBIGINT',
    _is_call,
    _calls,
    _insert_calls,
)
FRAMES = Gathered(
    "raw_python_frames",
    "slot INTEGER, id UINTEGER, parent UINTEGER, function UINTEGER, source UINTEGER, line UINTEGER, part UTINYINT, entered USMALLINT",
    _is_frame,
    _frames,
    _insert_frames,
)
LINES = Gathered("raw_python_lines", "slot INTEGER, seq UINTEGER, frame UINTEGER", _is_line, _lines, _insert_lines)
SAMPLES = Gathered(
    "raw_python_samples",
    'slot INTEGER, owner INTEGER, part UTINYINT, name UINTEGER, "time" UBIGINT, cpu UBIGINT',
    _is_sample,
    _samples,
    _insert_samples,
)
MESSAGES = Gathered(
    "raw_python_messages",
    "slot INTEGER, seq UINTEGER, time UBIGINT, level UINTEGER, level_name UINTEGER, logger UINTEGER, source UINTEGER,"
    " line UINTEGER, function UINTEGER, text VARCHAR",
    _is_message,
    _messages,
    _insert_messages,
    texts=("text",),
)
