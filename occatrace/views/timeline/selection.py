"""Which slices and flows a timeline has, in SQL; sorted and numbered on disk, in bounded memory."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from occatrace.core import naming
from occatrace.core.model import Function
from occatrace.core.schema import HOST_MODES, MEMORY_KINDS
from occatrace.core.sql import name as sql_name
from occatrace.core.sql import text as sql_text
from occatrace.core.units import Range, UnitError
from occatrace.store.tables import Store

WINDOW_ROWS = 1 << 17
FILE_FORMAT = f"(FORMAT parquet, COMPRESSION lz4, ROW_GROUP_SIZE {WINDOW_ROWS})"
DEVICE = "device"  # in Options.apis: the work on devices
ANNOTATIONS = ("nvtx", "roctx", "itt", "occatrace")  # in Options.apis: what the program marked by them
PYTHON = "python"  # in Options.apis: imports, calls across the border, functions, messages

# Kinds of tracks, in the order in which they are written, and so sorted.
THREAD, QUEUE, MEMORY, RANGES, PROBLEMS = range(5)
# Beside the work of devices, of which neither is a part: what the driver did to managed memory, and waits.
MANAGED, WAITS = 8, 9
# The track of device work whose queue or device is not known is that of its process, beyond all real numbers.
UNKNOWN = 1 << 31

FAILED = "✗ "  # before the names of calls and work that failed

Columns = dict[str, npt.NDArray[Any]]


_WHOLE = Range()


@dataclass(frozen=True)
class Options:
    """What to leave out. An empty tuple means all."""

    window: Range = _WHOLE
    threads: tuple[str, ...] = ()  # thread ids, or patterns of thread names
    apis: tuple[str, ...] = ()
    min_duration: int = 0  # ns
    filter_name: str = ""  # a regular expression
    ranks: tuple[int, ...] = ()
    names: str = naming.DEFAULT  # how kernels are called, one of naming.NAMES
    counters: bool = True
    split: int | Literal["rank"] | None = None  # a file per rank, or per so many ns


# Calls of threads. An OCCA kernel call carries the name that its author gave the kernel.
_CALLS = f"""
SELECT {THREAD} AS kind, c.thread AS track, c.start_ns, c.end_ns, c.seq AS number,
       CASE WHEN c.failed THEN '{FAILED}' ELSE '' END || coalesce(k.title, k.name, pl.label, c.function) AS name,
       c.api AS category, c.failed,
       c.process, c.thread, c.seq, l.id AS correlation,
       CASE WHEN coalesce(k.name, pl.label) IS NOT NULL THEN c.function END AS function, coalesce(k.source, pl.source) AS source,
       pl.team, pa.partner,
       coalesce(k.mode, o.mode) AS mode, o.kind AS direction,
       CASE WHEN c.failed THEN coalesce(c.error, 'failed') END AS error, f.code, nullif(c.bytes, 0) AS bytes,
       CASE WHEN o.mode IN {HOST_MODES} AND NOT c.failed AND c.end_ns > c.start_ns
            THEN o.bytes / (c.end_ns - c.start_ns) END AS rate
FROM calls c
LEFT JOIN (SELECT r.thread, r.seq, k.name, t.title, k.mode, source_line(k.source, k.line) AS source
           FROM kernel_runs r JOIN kernels k USING (kernel) LEFT JOIN titles t USING (kernel)) k
       ON c.api = 'occa' AND k.thread = c.thread AND k.seq = c.seq
LEFT JOIN occa_copies o ON c.api = 'occa' AND o.thread = c.thread AND o.seq = c.seq
LEFT JOIN places pl ON pl.thread = c.thread AND pl.seq = c.seq
LEFT JOIN partners pa ON pa.thread = c.thread AND pa.seq = c.seq
LEFT JOIN codes f ON f.thread = c.thread AND f.seq = c.seq
LEFT JOIN (SELECT thread, seq, min(id) AS id FROM work WHERE thread IS NOT NULL GROUP BY ALL) l
       ON l.thread = c.thread AND l.seq = c.seq
"""
# Calls that are constructs of a language: what people know of them is where they stand.
_PLACES = """
SELECT thread, seq, any_value(label) AS label, any_value(source) AS source, any_value(team) AS team FROM (
    SELECT thread, seq, kind || ' in ' || function AS label, nullif(source, '') AS source, nullif(threads, 0) AS team
    FROM omp_regions WHERE function <> ''
    UNION ALL
    SELECT t.thread, t.seq, 'thread of ' || r.function, nullif(r.source, ''), NULL
    FROM omp_threads t JOIN omp_regions r ON r.thread = t.region_thread AND r.seq = t.region_seq WHERE r.function <> ''
    UNION ALL
    SELECT thread, seq, operation || ' in ' || function, nullif(source, ''), NULL FROM omp_targets WHERE function <> ''
) GROUP BY thread, seq
"""
_UNFINISHED = f"""
SELECT {THREAD} AS kind, u.thread AS track, u.start_ns, greatest(p.end_ns, u.start_ns) AS end_ns, u.seq AS number,
       '{FAILED}' || u.function || ' (never returned)' AS name, u.api AS category, true AS failed,
       u.process, u.thread, u.seq, 'never returned' AS error
FROM unfinished u JOIN processes p USING (process)
"""
_WORK = f"""
SELECT CASE WHEN a.kind IN {MEMORY_KINDS} THEN {MEMORY} ELSE {QUEUE} END AS kind,
       coalesce(CASE WHEN a.kind IN {MEMORY_KINDS} THEN nullif(a.device, 0) ELSE nullif(a.queue, 0) END,
                {UNKNOWN} + a.process) AS track,
       a.start_ns, greatest(a.end_ns, a.start_ns) AS end_ns, a.id AS number,
       CASE WHEN a.status < 0 THEN '{FAILED}' ELSE '' END || coalesce(t.title, n.shown, a.name) AS name,
       a.kind AS category, a.status < 0 AS failed,
       a.process, a.thread, a.seq, a.run_seq, a.id, min(a.id) OVER (PARTITION BY a.thread, a.seq) AS correlation,
       k.name AS kernel, source_line(k.source, k.line) AS source,
       CASE WHEN a.status < 0 THEN 'error ' || a.status END AS error,
       CASE WHEN a.status < 0 THEN a.status END AS code, nullif(a.bytes, 0) AS bytes,
       CASE WHEN a.bytes > 0 AND a.end_ns > a.start_ns THEN a.bytes / (a.end_ns - a.start_ns) END AS rate,
       CASE WHEN a.gx > 0 THEN concat_ws(' × ', a.gx, nullif(a.gy, 0), nullif(a.gz, 0)) END AS grid,
       CASE WHEN a.lx > 0 THEN concat_ws(' × ', a.lx, nullif(a.ly, 0), nullif(a.lz, 0)) END AS block,
       CASE WHEN a.start_ns > a.queued_ns AND a.queued_ns > 0 THEN a.start_ns - a.queued_ns END AS waited
FROM work a LEFT JOIN kernels k USING (kernel) LEFT JOIN titles t USING (kernel)
LEFT JOIN renamed n ON a.kind = 'kernel' AND n.raw = a.name
"""
# What moved by itself, and faults, under the device; waits under the device whose work is waited for, or that waits.
_MANAGED = f"""
SELECT {MANAGED} AS kind, coalesce(m.device, {UNKNOWN} + m.process) AS track, m.start_ns, m.end_ns, 0 AS number,
       m.kind AS name, 'managed' AS category, false AS failed, m.process, m.bytes,
       CASE WHEN m.bytes > 0 AND m.end_ns > m.start_ns THEN m.bytes / (m.end_ns - m.start_ns) END AS rate,
       CASE WHEN m.count IS NOT NULL THEN m.count || ' faults' END AS note
FROM managed_memory m
"""
_WAITS = f"""
SELECT {WAITS} AS kind, coalesce(v.device, q.device, {UNKNOWN} + w.process) AS track, w.start_ns, w.end_ns, 0 AS number,
       CASE WHEN v.id IS NOT NULL THEN 'queue ' || v.id || ' waits for ' ELSE 'wait for ' END
       || CASE w.kind WHEN 'stream for event' THEN 'event' ELSE w.kind END
       || coalesce(CASE w.kind WHEN 'stream' THEN ': queue ' ELSE ' of queue ' END || q.id, '') AS name,
       'wait' AS category, false AS failed, w.process
FROM waits w LEFT JOIN queues q ON q.queue = w.queue LEFT JOIN queues v ON v.queue = w.waiting_queue
"""
# What the program marked. What is pushed is nested among the calls of its thread; what is started may overlap anything.
_RANGES = f"""
SELECT CASE WHEN r.kind = 'start' THEN {RANGES} ELSE {THREAD} END AS kind,
       CASE WHEN r.kind = 'start' THEN r.process ELSE r.thread END AS track, r.start_ns,
       CASE WHEN r.kind = 'mark' THEN r.start_ns ELSE greatest(coalesce(r.end_ns, p.end_ns), r.start_ns) END AS end_ns,
       r.seq AS number, r.name, r.api AS category, false AS failed, r.process, r.thread, r.kind = 'mark' AS instant,
       nullif(r.domain, '') AS domain, r.category AS topic, r.payload, format('#{{:06x}}', r.color & 16777215) AS color,
       CASE WHEN r.kind <> 'mark' AND r.end_ns IS NULL THEN 'never ended' END AS note
FROM ranges r JOIN processes p USING (process)
"""
# What Python did, among the calls of its threads: it nests as they do. The run of a program is all of its thread.
_PYTHON = f"""
SELECT {THREAD} AS kind, c.thread AS track, c.start_ns, greatest(c.end_ns, c.start_ns) AS end_ns, 0 AS number,
       CASE WHEN c.failed THEN '{FAILED}' ELSE '' END || CASE c.kind WHEN 'import' THEN 'import ' ELSE '' END || c.name AS name,
       '{PYTHON}' AS category, false AS failed, c.process, c.thread, nullif(source_line(c.source, c.line), '') AS source,
       CASE WHEN c.failed THEN 'ended by an exception' END AS error
FROM python_calls c WHERE c.kind <> 'run'
"""
# What it logged.
_LOG = f"""
SELECT {THREAD} AS kind, m.thread AS track, m.time_ns AS start_ns, m.time_ns AS end_ns, m.seq AS number,
       m.level_name || ': ' || m.text AS name, '{PYTHON}' AS category, false AS failed, m.process, m.thread, true AS instant,
       m.logger AS domain, source_line(m.source, m.line) AS source
FROM messages m
"""


# What a reader must know before trusting the rest: it stands on a track of its own, over the time that it concerns.
def _problems(origin: int) -> str:
    return f"""
SELECT {PROBLEMS} AS kind, p.process AS track, greatest(p.start_ns, {origin}) AS start_ns,
       greatest(p.end_ns, p.start_ns, {origin}) AS end_ns, 0 AS number, n.name, 'problem' AS category, p.process, false AS failed
FROM processes p JOIN (
    SELECT process, format('{{:,}} of {{:,}} events were lost', sum(lost)::BIGINT, sum(expected)::BIGINT) AS name
    FROM losses WHERE lost > 0 GROUP BY process
    UNION ALL
    SELECT d.process, format('{{:,}} times of {{}} were moved in between enqueue and completion, up to {{:,.1f}} µs',
                             w.clamped, d.name, w.worst_ns / 1000)
    FROM clock_warnings w JOIN devices d USING (device) WHERE w.clamped > 0
    UNION ALL
    SELECT (SELECT min(process) FROM processes), text FROM damages
) n USING (process)
UNION ALL BY NAME
SELECT {PROBLEMS} AS kind, process AS track, end_ns AS start_ns, end_ns, 1 AS number,
       CASE WHEN process IN (SELECT process FROM losses WHERE lost > 0) THEN 'its end is not recorded, as events were lost'
            ELSE 'ended without notice (killed or crashed)' END AS name, 'problem' AS category, process, false AS failed
FROM processes WHERE exit IS NULL AND end_ns >= {origin}
"""


# Arguments of slices: column, kind for the encoder, name in the trace.
ARGUMENTS = (
    ("error", "text", "error"),
    ("function", "text", "call"),
    ("kernel", "text", "OCCA kernel"),
    ("mode", "text", "OCCA mode"),
    ("source", "text", "source"),
    ("direction", "text", "direction"),
    ("code", "int", "return value"),
    ("team", "uint", "threads"),
    ("partner", "int", "partner rank"),
    ("domain", "text", "domain"),
    ("topic", "text", "range category"),
    ("payload", "text", "payload"),
    ("color", "text", "colour"),
    ("note", "text", "note"),
    ("bytes", "uint", "bytes"),
    ("rate", "float", "GB/s"),
    ("grid", "text", "grid (threads)"),
    ("block", "text", "block (threads)"),
    ("waited", "uint", "waited ns"),
    ("correlation", "uint", "correlation"),
)
_TYPES = {"text": "VARCHAR", "uint": "UBIGINT", "int": "BIGINT", "float": "DOUBLE"}
# The columns of a slice on its way. `thread`, `seq`, `run_seq` and `id` tell which call, or which work of which calls.
_COLUMNS = {
    **{"kind": "UTINYINT", "track": "UBIGINT", "start_ns": "UBIGINT", "end_ns": "UBIGINT", "number": "UBIGINT"},
    **{"name": "VARCHAR", "category": "VARCHAR", "failed": "BOOLEAN", "process": "UINTEGER", "thread": "UINTEGER"},
    **{"seq": "UINTEGER", "run_seq": "UINTEGER", "id": "UBIGINT", "instant": "BOOLEAN", "part": "UINTEGER"},
    **{column: _TYPES[kind] for column, kind, _ in ARGUMENTS},
}
TEXTS = ("name", "category", *(column for column, kind, _ in ARGUMENTS if kind == "text"))
NUMBERS = tuple(column for column, kind, _ in ARGUMENTS if kind != "text")

# Bytes in the file, for the estimate before it is written: of a slice, an end of an arrow, an argument of each kind.
_SLICE, _END, _ARGUMENT = 30, 10, {"text": 7, "uint": 8, "int": 8, "float": 13}


@dataclass(frozen=True)
class Part:
    """The slices of one file: all of them, or those of a rank or a piece of time."""

    number: int
    first: int  # row
    rows: int


class Selection:
    """The slices of one timeline, sorted by file, track and time, with their flows."""

    def __init__(self, store: Store, options: Options) -> None:
        self._con = store.con
        self._store = store
        self._slices = store.scratch / "timeline-slices.parquet"
        self._flows = store.scratch / "timeline-flows.parquet"
        self.texts: Sequence[str] = ()
        self.realtime = self._wall_clock()
        self.origin, self.begin, self.end = self._resolve(options.window)
        self.part = self._parts(options.split)
        self._choose(options)
        self._sort()
        self._tie()
        rows = self._con.execute(
            f"SELECT part, min(rn), count(*) FROM {self._file(self._slices)} GROUP BY part ORDER BY part"
        )
        self.parts = [Part(*map(int, row)) for row in rows.fetchall()]
        self.rows = sum(part.rows for part in self.parts)
        self.bytes = self._estimate()
        if self.rows:
            self.origin = min(self.origin, self._one(f"SELECT min(start_ns) FROM {self._file(self._slices)}"))

    def slices(self, part: Part) -> Iterator[tuple[Columns, Columns]]:
        """Windows of slices, each with the flows (`rn`, `id`) of its rows."""
        for first in range(part.first, part.first + part.rows, WINDOW_ROWS):
            bounds = [first, min(first + WINDOW_ROWS, part.first + part.rows)]
            flows = self._con.execute(
                f"SELECT rn, id FROM {self._file(self._flows)} WHERE rn >= ? AND rn < ? ORDER BY rn, id", bounds
            ).fetchnumpy()
            rows = self._con.execute(
                f"SELECT * FROM {self._file(self._slices)} WHERE rn >= ? AND rn < ? ORDER BY rn", bounds
            ).fetchnumpy()
            yield rows, flows

    def close(self) -> None:
        """Remove the files."""
        for path in (self._slices, self._flows):
            path.unlink(missing_ok=True)

    def _wall_clock(self) -> int:
        """CLOCK_REALTIME at the zero of the tables' clock, which is that of the first host."""
        return self._one(
            "SELECT coalesce((SELECT realtime_ns::BIGINT - mono_ns::BIGINT FROM processes WHERE realtime_ns > 0"
            " ORDER BY process LIMIT 1), 0)"
        )

    def _resolve(self, window: Range) -> tuple[int, int | None, int | None]:
        """Zero, which is the run's first call, and begin and end of the part of the run that is wanted."""
        rows = self._con.execute(
            "SELECT coalesce(min(first_ns), min(start_ns), 0), coalesce(max(end_ns), 0) FROM processes"
        ).fetchall()
        zero, end = map(int, rows[0])
        begin, last = (
            max(moment.at(zero, end, self.realtime), 0) if moment else None for moment in (window.begin, window.end)
        )
        if begin is not None and last is not None and last < begin:
            raise UnitError(f"--filter-time {window.text}: ends before it begins")
        return zero, begin, last

    def _parts(self, split: int | str | None) -> str:
        """SQL: the number of the file for a process and a time `t`."""
        if split is None:
            return "0"
        if split == "rank":
            return "(SELECT coalesce(p.rank + 1, 0) FROM processes p WHERE p.process = {process})"
        return f"greatest((({{t}})::BIGINT - {self.origin}) // {split}, 0)"

    def _one(self, sql: str) -> int:
        return int(self._con.execute(sql).fetchall()[0][0])

    @staticmethod
    def _file(path: Path) -> str:
        return f"read_parquet({sql_text(str(path))})"

    def _choose(self, options: Options) -> None:
        """Table `chosen`: the slices that are wanted, unsorted."""
        con = self._con
        con.execute(
            "CREATE OR REPLACE MACRO source_line(source, line) AS"
            " source || CASE WHEN line > 0 THEN ':' || line ELSE '' END"
        )
        con.execute("CREATE OR REPLACE TEMP TABLE damages (text VARCHAR)")
        for problem in filter(None, (self._store.partial, *self._store.problems)):
            con.execute("INSERT INTO damages VALUES (?)", [problem])
        # Where a call fails by an exception, the code is the number of a text.
        coded = [f.api for f in self._store.model.functions if f.failed and _is_code(f)]
        con.execute(
            "CREATE OR REPLACE TEMP TABLE codes AS SELECT thread, seq, code FROM failures"
            f" WHERE seq IS NOT NULL AND api IN ({', '.join(map(sql_text, sorted({*coded}))) or 'NULL'})"
        )
        con.execute(
            "CREATE OR REPLACE TEMP TABLE work AS"
            " SELECT *, row_number() OVER (ORDER BY start_ns, end_ns, thread, seq)::UBIGINT AS id FROM activities"
        )
        self._name(options.names)
        con.execute(f"CREATE OR REPLACE TEMP TABLE places AS {_PLACES}")
        con.execute(f"CREATE OR REPLACE TEMP TABLE partners AS {self._partners()}")
        parts = [_WORK, _UNFINISHED, _RANGES] + ([_CALLS] if self._store.functions() else [])
        rare = {"python_calls": _PYTHON, "messages": _LOG, "managed_memory": _MANAGED, "waits": _WAITS}
        for table, part_of_these in rare.items():
            # Planning costs more than all else of a small run.
            if con.execute(f"SELECT 1 FROM {table} LIMIT 1").fetchall():
                parts.append(part_of_these)
        wanted = self._conditions(options)
        con.execute(f"CREATE OR REPLACE TEMP TABLE chosen ({', '.join(f'{c} {t}' for c, t in _COLUMNS.items())})")
        part = self.part.format(process="s.process", t="s.start_ns")
        for given in parts:
            con.execute(f"""
                INSERT INTO chosen BY NAME SELECT *, {part} AS part FROM ({given}) s{wanted}""")
        failed = f"SELECT * REPLACE ({PROBLEMS} AS kind, process AS track, NULL AS id, NULL AS thread)"
        within = self._conditions(Options(ranks=options.ranks))
        con.execute(f"""
            INSERT INTO chosen BY NAME
            SELECT *, {part} AS part FROM ({_problems(self.origin)}) s{within}
            UNION ALL BY NAME {failed} FROM chosen WHERE failed""")
        for table in ("work", "damages", "codes", "renamed", "titles", "places", "partners"):
            con.execute(f"DROP TABLE {table}")

    def _partners(self) -> str:
        """The rank that a call sends to or receives from, where the model has one."""
        known = {f"{f.api}.{f.key}" for f in self._store.model.functions if any(a.name == "partner" for a in f.args)}
        parts = [
            f"SELECT thread, seq, args.partner::BIGINT AS partner FROM {sql_name(name)} WHERE args.partner >= 0"
            for name in self._store.functions()
            if name in known
        ]
        return (
            " UNION ALL ".join(parts)
            or "SELECT 0::UINTEGER AS thread, 0::UINTEGER AS seq, 0::BIGINT AS partner WHERE false"
        )

    def _name(self, style: str) -> None:
        """Tables `renamed` and `titles`: what kernels of backends and of OCCA are to be called."""
        con = self._con
        raw = [n for (n,) in con.execute("SELECT DISTINCT name FROM work WHERE kind = 'kernel'").fetchall() if n]
        renames: dict[str, Callable[[str], str]] = {"raw": str, "demangled": naming.demangled}
        rename = renames.get(style, naming.short)
        pairs = {"raw": np.array(raw, object), "shown": np.array([rename(name) for name in raw], object)}
        con.register("_renamed", pairs)
        con.execute(
            "CREATE OR REPLACE TEMP TABLE renamed AS SELECT raw::VARCHAR AS raw, shown::VARCHAR AS shown FROM _renamed"
        )
        con.unregister("_renamed")
        kernels = con.execute("SELECT kernel, name, coalesce(source, ''), coalesce(line, 0) FROM kernels").fetchall()
        con.execute("CREATE OR REPLACE TEMP TABLE titles (kernel UINTEGER, title VARCHAR)")
        if style == "okl" and kernels:
            con.executemany("INSERT INTO titles VALUES (?, ?)", [(k, naming.author(*of)) for k, *of in kernels])

    def _conditions(self, options: Options) -> str:
        """The WHERE clause over slices `s`."""
        out = []
        if self.begin is not None:
            out.append(f"s.end_ns >= {self.begin}")
        if self.end is not None:
            out.append(f"s.start_ns <= {self.end}")
        if options.min_duration:
            out.append(f"s.end_ns - s.start_ns >= {options.min_duration}")
        if options.filter_name:
            out.append(f"regexp_matches(ltrim(s.name, '{FAILED}'), {sql_text(options.filter_name)})")
        if options.apis:
            apis = ", ".join(sql_text(api) for api in options.apis)
            calls = f"(s.kind IN ({THREAD}, {RANGES}) AND s.category IN ({apis}))"
            out.append(f"({calls} OR s.kind NOT IN ({THREAD}, {RANGES}))" if DEVICE in options.apis else calls)
        if options.ranks:
            ranks = ", ".join(map(str, options.ranks))
            out.append(f"s.process IN (SELECT p.process FROM processes p WHERE p.rank IN ({ranks}))")
        if options.threads:
            either = [f"t.name GLOB {sql_text(thread)}" for thread in options.threads]
            either += [f"t.tid = {int(thread)}" for thread in options.threads if thread.isdecimal()]
            out.append(f"s.thread IN (SELECT t.thread FROM threads t WHERE {' OR '.join(either)})")
        return " WHERE " + " AND ".join(out) if out else ""

    def _sort(self) -> None:
        """The slices by track, in time, an outer one before the inner ones; texts as numbers."""
        con = self._con
        union = " UNION ".join(f"SELECT {c} AS text FROM chosen WHERE {c} IS NOT NULL" for c in TEXTS)
        con.execute(
            "CREATE OR REPLACE TEMP TABLE texts AS"
            f" SELECT text, (row_number() OVER (ORDER BY text) - 1)::UINTEGER AS n FROM ({union})"
        )
        self.texts = [row[0] for row in con.execute("SELECT text FROM texts ORDER BY n").fetchall()]
        con.execute("CREATE OR REPLACE TYPE timeline_text AS ENUM (SELECT text FROM texts ORDER BY n)")
        texts = ", ".join(f"enum_code({c}::timeline_text)::UINTEGER AS {c}" for c in TEXTS)
        con.execute(f"""
            COPY (SELECT row_number() OVER () - 1 AS rn, * EXCLUDE (number) FROM (
                      SELECT part, kind, track, start_ns, end_ns, number, thread, seq, run_seq, id,
                             coalesce(instant, false) AS instant, {", ".join(NUMBERS)}, {texts}
                      FROM chosen ORDER BY part, kind, track, start_ns, end_ns DESC, number))
            TO {sql_text(str(self._slices))} {FILE_FORMAT}""")
        self.processes: dict[int, list[int]] = {}  # of each part, in the order of their ranks
        ordered = "SELECT DISTINCT part, process, rank FROM chosen JOIN processes USING (process)"
        for part, process, _ in con.execute(f"{ordered} ORDER BY part, rank, process").fetchall():
            self.processes.setdefault(part, []).append(process)
        con.execute("DROP TABLE chosen")
        con.execute("DROP TABLE texts")
        con.execute("DROP TYPE timeline_text")

    def _tie(self) -> None:
        """Flows to device work, from the call that launched it and from the OCCA kernel call. Never one end only."""
        ends = f"""
            WITH slices AS (SELECT rn, part, kind, id, thread, seq, run_seq FROM {self._file(self._slices)}),
                 work AS (FROM slices WHERE kind IN ({QUEUE}, {MEMORY})),
                 calls AS (FROM slices WHERE kind = {THREAD}),
                 pairs AS (
                     SELECT c.rn AS source, w.rn AS target, 2 * w.id AS id FROM work w JOIN calls c USING (part, thread, seq)
                     UNION ALL
                     SELECT c.rn, w.rn, 2 * w.id + 1
                     FROM work w JOIN calls c
                     ON c.part = w.part AND c.thread = w.thread AND c.seq = w.run_seq AND w.run_seq <> w.seq)
            SELECT source AS rn, id::UBIGINT AS id FROM pairs UNION ALL SELECT target, id FROM pairs ORDER BY rn, id"""
        self._con.execute(f"COPY ({ends}) TO {sql_text(str(self._flows))} {FILE_FORMAT}")

    def _estimate(self) -> int:
        """Bytes of the file, about."""
        counts = ", ".join(f"count({column})" for column, _, _ in ARGUMENTS)
        arguments = self._con.execute(f"SELECT {counts} FROM {self._file(self._slices)}").fetchall()[0]
        total = self.rows * _SLICE + self._one(f"SELECT count(*) FROM {self._file(self._flows)}") * _END
        return total + sum(int(n) * _ARGUMENT[kind] for n, (_, kind, _) in zip(arguments, ARGUMENTS, strict=True))


def _is_code(function: Function) -> bool:
    """Whether a call of it fails by a value that means something in itself."""
    assert function.failed
    return any(arg.name == function.failed.field and arg.kind != "name" for arg in function.args)
