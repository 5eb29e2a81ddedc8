"""Which slices a timeline has, in SQL: a source for each kind of thing, with what its slices carry."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from occatrace.core import naming, reasons
from occatrace.core.duck import duckdb
from occatrace.core.model import Function
from occatrace.core.schema import HOST_MODES, MEMORY_KINDS
from occatrace.core.sql import name as sql_name
from occatrace.core.sql import text as sql_text
from occatrace.core.units import Range
from occatrace.errors import StoreError
from occatrace.store.call_files import CallFiles
from occatrace.store.macros import PYTHON_SOURCES
from occatrace.store.tables import Store

DEVICE = "device"  # in Options.apis: the work on devices
ANNOTATIONS = ("nvtx", "roctx", "itt", "occatrace")  # in Options.apis: what the program marked by them
PYTHON = "python"  # in Options.apis: imports, calls across the border, functions, messages

# Kinds of tracks, in the order in which they are written, and so sorted.
THREAD, QUEUE, MEMORY, RANGES, PROBLEMS = range(5)
# Beside the work of devices, of which neither is a part: what the driver did to managed memory, and waits.
MANAGED, WAITS = 8, 9
# Under a device, too: for how long the work of a range ran there.
PROJECTED = 10
# What the user asks for by SQL.
ASKED = 11
# Above the threads of a process: the critical path, where it goes through it.
CRITICAL = 12
# The track of device work whose queue or device is not known is that of its process, beyond all real numbers.
UNKNOWN = 1 << 31
NONE = 0xFFFF_FFFF  # number of a call: there is none

FAILED = "✗ "  # before the names of calls and work that failed

_WHOLE = Range()
_NO_FILES = CallFiles()


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
    tracks: tuple[tuple[str, str], ...] = ()  # further tracks: name, and SQL that gives ts, dur (ns) and name
    critical_path: bool = False  # a track of it


# Calls of OCCA and OpenMP: an OCCA kernel call carries the name that its author gave the kernel.
_NAMED_CALLS = f"""
SELECT {THREAD} AS kind, c.thread AS track, c.start_ns, c.end_ns, c.seq AS number,
       CASE WHEN c.failed THEN '{FAILED}' ELSE '' END || coalesce(k.title, k.name, pl.label, c.function) AS name,
       c.api AS category, c.failed, c.process, c.thread, c.seq,
       CASE WHEN coalesce(k.name, pl.label) IS NOT NULL THEN c.function END AS function, coalesce(k.source, pl.source) AS source,
       pl.team, pl.inner_ns, coalesce(k.mode, o.mode, b.mode) AS mode, o.kind AS direction, c.bytes, c.error, c.caller,
       b.name AS launched, CASE b.cached WHEN true THEN 'hit' WHEN false THEN 'miss' END AS cache,
       nullif(b.compiler_ns, 0) AS compiler,
       CASE WHEN o.mode IN {HOST_MODES} AND NOT c.failed AND c.end_ns > c.start_ns
            THEN o.bytes / (c.end_ns - c.start_ns) END AS rate
FROM c
LEFT JOIN (SELECT r.thread, r.seq, k.name, t.title, k.mode, source_line(k.source, k.line) AS source
           FROM kernel_runs r JOIN kernels k USING (kernel) LEFT JOIN titles t USING (kernel) WHERE $r) k
       ON c.api = 'occa' AND k.thread = c.thread AND k.seq = c.seq
LEFT JOIN (FROM occa_copies r WHERE $r) o ON c.api = 'occa' AND o.thread = c.thread AND o.seq = c.seq
LEFT JOIN places pl ON pl.thread = c.thread AND pl.seq = c.seq
LEFT JOIN (FROM builds r WHERE r.api = 'occa' AND $r) b ON c.api = 'occa' AND b.thread = c.thread AND b.seq = c.seq
"""
# Calls that are constructs of a language: what people know of them is where they stand.
_PLACES = """
SELECT thread, seq, any_value(label) AS label, any_value(source) AS source, any_value(team) AS team,
       any_value(inner_ns) AS inner_ns FROM (
    SELECT thread, seq, kind || ' in ' || function AS label, nullif(source, '') AS source, nullif(threads, 0) AS team,
           NULL::UBIGINT AS inner_ns
    FROM omp_regions WHERE function <> ''
    UNION ALL
    SELECT t.thread, t.seq, 'thread of ' || r.function, nullif(r.source, ''), NULL, nullif(t.barrier_ns, 0)
    FROM omp_threads t JOIN omp_regions r ON r.thread = t.region_thread AND r.seq = t.region_seq WHERE r.function <> ''
    UNION ALL
    SELECT thread, seq, operation || ' in ' || function, nullif(source, ''), NULL, NULL FROM omp_targets WHERE function <> ''
    UNION ALL
    -- Arguments of templates are in the name of the kernel.
    SELECT thread, seq, operation || coalesce(' ' || nullif(regexp_replace(name, '<.*', ''), ''), nullif(' in ' || function, ' in ')),
           nullif(source, ''), NULL, NULL
    FROM sycl_calls WHERE name <> '' OR function <> ''
) GROUP BY thread, seq
"""
_UNFINISHED = f"""
SELECT {THREAD} AS kind, u.thread AS track, u.start_ns, greatest(p.end_ns, u.start_ns) AS end_ns, u.seq AS number,
       '{FAILED}' || u.function || ' (never returned)' AS name, u.api AS category, true AS failed,
       u.process, u.thread, u.seq, 'never returned' AS error
FROM unfinished u JOIN processes p USING (process)
"""
_SIZES = ", ".join(f"coalesce(a.{c}, 0)" for c in ("gx", "gy", "gz", "lx", "ly", "lz"))
_WORK_BARE = f"""
SELECT CASE WHEN a.kind IN {MEMORY_KINDS} THEN {MEMORY} ELSE {QUEUE} END AS kind,
       coalesce(CASE WHEN a.kind IN {MEMORY_KINDS} THEN nullif(a.device, 0) ELSE nullif(a.queue, 0) END,
                {UNKNOWN} + a.process) AS track,
       a.start_ns, CASE WHEN a.end_ns > a.start_ns THEN a.end_ns ELSE a.start_ns END AS end_ns, coalesce(a.seq, 0) AS number,
       a.kind AS category, a.status < 0 AS failed, a.process, a.thread, a.seq, a.run_seq"""
# A kernel that OCCA launched is called as its call is, and so has its colour.
_KERNEL = "coalesce(CASE WHEN a.kind = 'kernel' THEN k.title END, n.shown, a.name)"
_WORK = f"""{_WORK_BARE},
       CASE WHEN a.status < 0 THEN '{FAILED}' || {_KERNEL} ELSE {_KERNEL} END AS name,
       k.name AS kernel, CASE WHEN a.kind = 'kernel' AND k.title <> a.name THEN a.name END AS backend, k.source AS source,
       CASE WHEN a.status < 0 THEN 'error ' || a.status END AS error,
       CASE WHEN a.status < 0 THEN a.status END AS code, nullif(a.bytes, 0) AS bytes,
       CASE WHEN a.bytes > 0 AND a.end_ns > a.start_ns THEN a.bytes / (a.end_ns - a.start_ns) END AS rate,
       z.grid_code, z.block_code,
       CASE WHEN a.start_ns > a.queued_ns AND a.queued_ns > 0 THEN a.start_ns - a.queued_ns END AS waited
FROM activities a
LEFT JOIN (SELECT kernel, k.name, t.title, source_line(k.source, k.line) AS source
           FROM kernels k LEFT JOIN titles t USING (kernel)) k USING (kernel)
LEFT JOIN renamed n ON a.kind = 'kernel' AND n.raw = a.name
LEFT JOIN sizes z ON (z.gx, z.gy, z.gz, z.lx, z.ly, z.lz) = ({_SIZES})
"""
# What calls launched: texts as numbers of themselves.
_LAUNCHED = f"""
SELECT a.start_ns, a.thread, a.seq, {_KERNEL} AS launched, z.grid_code, z.block_code
FROM activities a LEFT JOIN titles k USING (kernel) LEFT JOIN renamed n ON n.raw = a.name
LEFT JOIN sizes z ON (z.gx, z.gy, z.gz, z.lx, z.ly, z.lz) = ({_SIZES})
WHERE a.kind = 'kernel' AND a.thread IS NOT NULL AND a.seq IS NOT NULL
"""
# A thread of a team has come to the end of its region, and waits there for the others.
_TEAM_WAITS = f"""
SELECT {THREAD} AS kind, t.thread AS track, t.end_ns AS start_ns, t.end_ns + t.join_ns + t.late_ns AS end_ns, t.seq AS number,
       'barrier wait' AS name, 'openmp' AS category, false AS failed, t.process, t.thread,
       nullif(r.source, '') AS source
FROM omp_threads t JOIN omp_regions r ON r.thread = t.region_thread AND r.seq = t.region_seq WHERE t.join_ns + t.late_ns > 0
"""
# Of each range and device, from the start of the first work that was launched inside to the end of the last.
_PROJECTIONS = f"""
WITH numbered AS (
    SELECT row_number() OVER () AS range, r.*, coalesce(r.end_ns, t.end_ns) AS until, coalesce(r.seq, 0) AS from_seq,
           CASE WHEN r.end_thread = r.thread THEN r.end_seq END AS to_seq
    FROM ranges r JOIN threads t USING (thread) WHERE r.kind <> 'mark'
),
work AS (
    SELECT row_number() OVER () AS piece, process, thread, seq, device, coalesce(nullif(queued_ns, 0), start_ns) AS launched,
           start_ns AS s, greatest(start_ns, end_ns) AS e
    FROM activities WHERE kind <> 'marker' AND device IS NOT NULL
),
pushed AS (SELECT * FROM numbered WHERE kind = 'push'),
levels AS (SELECT DISTINCT thread, api, domain, depth FROM pushed),
candidates AS (SELECT w.piece, w.device, w.s, w.e, w.seq, l.* FROM work w JOIN levels l USING (thread)),
inside AS (
    SELECT p.range, c.device, c.s, c.e FROM candidates c ASOF JOIN pushed p
    ON c.thread = p.thread AND c.api = p.api AND c.domain = p.domain AND c.depth = p.depth AND c.seq >= p.from_seq
    WHERE p.to_seq IS NULL OR c.seq < p.to_seq
    UNION ALL
    SELECT r.range, w.device, w.s, w.e FROM numbered r JOIN work w
    ON w.process = r.process AND w.launched >= r.start_ns AND w.launched < r.until WHERE r.kind = 'start'
),
projected AS (SELECT range, device, min(s) AS start_ns, max(e) AS end_ns FROM inside GROUP BY range, device)
SELECT {PROJECTED} AS kind, j.device AS track, j.start_ns, j.end_ns, r.range AS number, r.name, r.api AS category,
       false AS failed, r.process, r.thread, nullif(r.domain, '') AS domain, format('#{{:06x}}', r.color & 16777215) AS color
FROM projected j JOIN numbered r USING (range)
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
    FROM clock_warnings w JOIN devices d USING (device) WHERE w.clamped > 0 AND w.worst_ns > 0
    UNION ALL
    SELECT d.process, format('{{:,}} times of {{}} are of the host: it has no clock', w.clamped, d.name)
    FROM clock_warnings w JOIN devices d USING (device) WHERE w.clamped > 0 AND w.worst_ns = 0
    UNION ALL
    SELECT (SELECT min(process) FROM processes), text FROM damages
) n USING (process)
UNION ALL BY NAME
SELECT {PROBLEMS} AS kind, process AS track, end_ns AS start_ns, end_ns, 1 AS number,
       CASE WHEN process IN (SELECT process FROM losses WHERE lost > 0) THEN 'its end is not recorded, as events were lost'
            ELSE 'ended without notice (killed, crashed, or a program in Go)' END AS name, 'problem' AS category, process,
       false AS failed
FROM processes WHERE exit IS NULL AND end_ns >= {origin}
"""


# Arguments of slices: column, kind for the encoder, name in the trace.
ARGUMENTS = (
    ("error", "text", "error"),
    ("function", "text", "call"),
    ("launched", "text", "kernel"),
    ("kernel", "text", "OCCA kernel"),
    ("backend", "text", "backend kernel"),
    ("cache", "text", "cache"),
    ("compiler", "uint", "compiler CPU ns"),
    ("mode", "text", "OCCA mode"),
    ("source", "text", "source"),
    ("called_from", "text", "called from"),
    ("call_path", "text", "call path"),
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
    ("inner_ns", "uint", "waited at barriers ns"),
    ("last_rank", "int", "last rank to arrive"),
    ("for_last", "uint", "waited for it ns"),
    ("correlation", "uint", "correlation"),
)
TEXTS = ("name", "category", *(column for column, kind, _ in ARGUMENTS if kind == "text"))
_TYPES = {"text": "UINTEGER", "uint": "UBIGINT", "int": "BIGINT", "float": "DOUBLE"}


@dataclass(frozen=True)
class Source:
    """Where slices come from: SQL of rows `s`, in which `$r` stands for a condition on the begin of what is joined. Of rows that are
    equal otherwise `number` is the order."""

    kind: int  # of its tracks; MEMORY goes with QUEUE
    sql: str
    columns: Mapping[str, str]  # of its slices, beside those that all have: SQL over `s`
    bare: str = ""  # the same without texts and arguments, which cost more
    texts: Sequence[str] = ()  # SELECTs of all texts that there are; none: those of its columns
    tied: bool = False  # has `thread` and `seq`, which is also its `number`: may have arrows
    calls: bool = False  # `thread` is also the track
    launches: bool = (
        False  # its calls may have launched a kernel: the columns of LAUNCHED are found by thread and number
    )
    chosen: bool = False  # its rows are those that are wanted
    views: Sequence[str] = ()  # of single calls, each read as `FROM view c`
    files: CallFiles = _NO_FILES  # of these

    def rows(self, named: bool, begin: int | None = None, end: int | None = None) -> str:
        """SQL of all rows, or of those that begin at `begin` or later and before `end`."""
        sql = self.sql if named or not self.bare else self.bare
        if begin is not None or end is not None:
            for view in self.views:
                sql = sql.replace(_from(view), f"FROM {self.files.rows(view, begin, end)} c")
        bounds = [
            f"least(r.start_ns, r.end_ns) {sign} {at}" for sign, at in ((">=", begin), ("<", end)) if at is not None
        ]
        return sql.replace("$r", " AND ".join(bounds) or "true")


def _from(view: str) -> str:
    """SQL: all calls of a function."""
    return f"FROM {sql_name(view)} c"


def coded(column: str) -> str:
    """SQL: the number of a text."""
    return f"enum_code({column}::timeline_text)::UINTEGER"


def _of(*columns: str) -> dict[str, str]:
    kinds = {column: kind for column, kind, _ in ARGUMENTS}
    return {c: coded(f"s.{c}") if kinds.get(c, "text") == "text" else f"s.{c}::{_TYPES[kinds[c]]}" for c in columns}


_BOTH = ("name", "category")
_TEXTS_OF_WORK = (
    "SELECT unnest([name, kind]) FROM (SELECT DISTINCT name, kind FROM activities)",
    "SELECT unnest([shown]) FROM renamed UNION ALL SELECT unnest([name, source_line(source, line)]) FROM kernels",
    "SELECT title FROM titles UNION ALL SELECT unnest([grid, block]) FROM sizes",
)
_COMMON = "c.process, c.thread, c.seq, c.start_ns, c.end_ns, c.failed, c.error, nullif(c.bytes, 0) AS bytes, c.caller"


# What calls have of the kernel that they launched. A join would group and sort all launches.
LAUNCHED = ("launched", "grid", "block")


def launched() -> str:
    """SQL: when each kernel began (`start_ns`), its call (`thread`, `seq`), and the numbers of the texts of LAUNCHED."""
    numbers = (coded("l.launched"), "l.grid_code", "l.block_code")
    columns = ", ".join(
        f"coalesce({number}, {NONE})::UINTEGER AS {column}" for column, number in zip(LAUNCHED, numbers, strict=True)
    )
    return f"SELECT l.start_ns, l.thread::UINTEGER AS thread, l.seq::UINTEGER AS seq, {columns} FROM ({_LAUNCHED}) l"


# Where calls were made. A join of each call with them would take as long as reading it: its column CALLER is read, and becomes
# `called_from` afterwards.
CALLER = "caller"
SITES = 'SELECT process, address, line_place(file, line, module, "offset") AS called_from FROM call_sites'


class Sources:
    """The sources of a run, with the temporary tables that they read."""

    def __init__(self, store: Store, names: str, origin: int, tracks: Sequence[tuple[str, str]] = ()) -> None:
        self._con, self._store = store.con, store
        self._con.execute(
            "CREATE OR REPLACE MACRO source_line(source, line) AS"
            " source || CASE WHEN line > 0 THEN ':' || line ELSE '' END"
        )
        self._con.execute("CREATE OR REPLACE TEMP TABLE damages (text VARCHAR)")
        self._name(names)
        self._size()
        functions = store.functions()
        for problem in filter(None, (store.partial, *store.problems)):
            self._con.execute("INSERT INTO damages VALUES (?)", [problem])
        self.all = [
            *self._calls(functions),
            *self._work(),
            *self._others(),
            Source(PROBLEMS, _problems(origin), _of(*_BOTH)),
        ]
        if tracks:
            self.all.append(self._asked(tracks))

    def _some(self, sql: str) -> bool:
        return bool(self._con.execute(f"SELECT 1 FROM {sql} LIMIT 1").fetchall())

    def _calls(self, functions: Sequence[str]) -> list[Source]:
        con = self._con
        # Where a call fails by an exception, the code is the number of a text.
        apis = sorted({f.api for f in self._store.model.functions if f.failed and _is_code(f)})
        con.execute(
            "CREATE OR REPLACE TEMP TABLE codes AS SELECT thread, seq, code FROM failures"
            f" WHERE seq IS NOT NULL AND api IN ({', '.join(map(sql_text, apis)) or 'NULL'})"
        )
        con.execute(f"CREATE OR REPLACE TEMP TABLE places AS {_PLACES}")
        named = {"occa"} if self._some("kernel_runs") or self._some("occa_copies") else set()
        named |= {"openmp", "sycl"} if self._some("places") else set()
        partners = {f"{f.api}.{f.key}" for f in self._store.model.functions if any(a.name == "partner" for a in f.args)}
        named |= {"occa"} if self._some("builds WHERE api = 'occa'") else set()
        launching = self._launching()
        of_names = [f for f in functions if f.partition(".")[0] in named]
        others = [f for f in functions if f not in of_names]
        plain, launches = ([f for f in others if (f in launching) == wanted] for wanted in (False, True))
        out = [self._plain_calls(plain, partners)] if plain else []
        out += [self._launches(launches, partners)] if launches else []
        out += [self._named_calls(of_names)] if of_names else []
        files = self._store.call_files()
        return [replace(source, files=files) for source in out]

    def _launching(self) -> set[str]:
        """Views of the functions that launched kernels."""
        if not self._some("activities WHERE kind = 'kernel'"):
            return set()
        return {f"{f.api}.{f.key}" for f in self._store.model.functions if f.activity == "kernel"}

    def _launches(self, functions: Sequence[str], partners: Collection[str]) -> Source:
        """Calls that have to say which kernel they launched."""
        source = self._plain_calls(functions, partners)
        return replace(source, texts=[*source.texts, *_TEXTS_OF_WORK], launches=True)

    def _named_calls(self, functions: Sequence[str]) -> Source:
        """Calls whose slices have other names than their functions, or more to tell."""
        texts = [
            *self._texts_of(functions),
            f"SELECT unnest([name, '{FAILED}' || name, mode, source_line(source, line)]) FROM kernels",
            f"SELECT unnest([title, '{FAILED}' || title]) FROM titles",
            f"SELECT unnest([label, '{FAILED}' || label, source]) FROM places",
            "SELECT DISTINCT mode FROM occa_copies UNION ALL SELECT DISTINCT kind FROM occa_copies",
            "SELECT unnest([name, mode]) FROM builds UNION ALL SELECT unnest(['hit', 'miss'])",
        ]
        rows = " UNION ALL ".join(
            f"SELECT {sql_text(api)} AS api, {sql_text(shown)} AS function, {_COMMON} {_from(view)}"
            for view, api, shown in self._titles(functions)
        )
        columns = _of(
            *(*_BOTH, "function", "source", "mode", "direction", "team", "rate"),
            *("inner_ns", "launched", "cache", "compiler"),
        )
        bare = f"SELECT {THREAD} AS kind, c.thread AS track, c.api AS category, c.* FROM ({rows}) c"
        return self._with_failures(f"WITH c AS ({rows}) {_NAMED_CALLS}", bare, columns, texts, functions)

    def _plain_calls(self, functions: Sequence[str], partners: Collection[str]) -> Source:
        """Calls of which the function says all: their names are constants, which cost nothing."""
        rows, bare = [], []
        for view, api, shown in self._titles(functions):
            name, failed = sql_text(shown), sql_text(FAILED + shown)
            partner = (
                "CASE WHEN c.args.partner >= 0 THEN c.args.partner::BIGINT END" if view in partners else "NULL::BIGINT"
            )
            common = (
                f"SELECT {THREAD} AS kind, c.thread AS track, c.seq AS number, {sql_text(api)} AS category, {_COMMON},"
                f" CASE WHEN c.failed THEN {failed} ELSE {name} END AS name"
            )
            bare.append(f"{common} {_from(view)}")
            rows.append(
                f"{common}, CASE WHEN c.failed THEN {coded(failed)} ELSE {coded(name)} END AS name_code,"
                f" {coded(sql_text(api))} AS category_code, {partner} AS partner {_from(view)}"
            )
        columns = {"name": "s.name_code", "category": "s.category_code"}
        if not {*functions}.isdisjoint(partners):
            columns |= _of("partner")
        union = " UNION ALL ".join
        return self._with_failures(union(rows), union(bare), columns, self._texts_of(functions), functions)

    def _with_failures(
        self, sql: str, bare: str, columns: dict[str, str], texts: list[str], views: Sequence[str]
    ) -> Source:
        """What all calls have."""
        apis = ", ".join(f"({sql_text(api)}, {sql_text(shown)})" for _, api, shown in self._titles(views))
        if self._some(f"call_stats WHERE (api, function) IN ({apis}) AND (bytes > 0 OR failed > 0)"):
            columns |= _of("bytes")
        if self._some("call_stats WHERE failed > 0"):
            texts.append("SELECT 'failed' UNION ALL SELECT DISTINCT error FROM calls WHERE failed")
            columns |= {"error": coded("CASE WHEN s.failed THEN coalesce(s.error, 'failed') END")}
        if self._some("codes"):
            sql = f"SELECT c.*, f.code FROM ({sql}) c LEFT JOIN codes f ON c.failed AND f.thread = c.thread AND f.seq = c.seq"
            columns |= _of("code")
        if self._some("python_lines"):
            self._con.execute(PYTHON_SOURCES)
            sql = (
                f"SELECT c.*, coalesce(y.source, p.called_from) AS called_from FROM ({sql}) c"
                " LEFT JOIN python_sources y ON y.thread = c.track AND y.seq = c.number"
                f" LEFT JOIN ({SITES}) p ON p.process = c.process AND p.address = c.caller"
            )
            texts.append(f"SELECT called_from FROM ({SITES}) UNION ALL SELECT source FROM python_sources")
            columns |= _of("called_from")
        elif self._some("call_sites"):
            texts.append(f"SELECT called_from FROM ({SITES})")
            columns |= {CALLER: "coalesce(s.caller, 0)::UBIGINT"}
        if self._some("path_calls"):
            paths = "SELECT thread, seq, text AS call_path FROM path_texts"
            sql = f"SELECT c.*, w.call_path FROM ({sql}) c LEFT JOIN ({paths}) w ON w.thread = c.track AND w.seq = c.number"
            texts.append("SELECT DISTINCT text FROM path_texts")
            columns |= _of("call_path")
        return Source(THREAD, sql, columns, bare, texts, tied=True, calls=True, views=views)

    def _titles(self, functions: Sequence[str]) -> list[tuple[str, str, str]]:
        """View, API and shown name of each function."""
        titles = (self._store.model.tally_function(f.replace(".", ":", 1))[1] for f in functions)
        return [(f, f.partition(".")[0], title) for f, title in zip(functions, titles, strict=True)]

    def _texts_of(self, functions: Sequence[str]) -> list[str]:
        texts = {text for _, api, title in self._titles(functions) for text in (api, title, FAILED + title)}
        return [f"SELECT unnest([{', '.join(map(sql_text, sorted(texts)))}])"]

    def _work(self) -> list[Source]:
        if not self._some("activities"):
            return []
        texts = [*_TEXTS_OF_WORK]
        # Each column takes time, so those in which there would be nothing are left out.
        kinds = [kind for (kind,) in self._con.execute("SELECT DISTINCT kind FROM activities").fetchall() if kind]
        numbers = " ".join(f"WHEN {sql_text(kind)} THEN {coded(sql_text(kind))}" for kind in kinds)
        columns = {**_of("name"), "category": f"CASE s.category {numbers} END"}
        if self._some("kernels"):
            columns |= _of("kernel", "backend", "source")
        if self._some("activities WHERE bytes > 0"):
            columns |= _of("bytes", "rate")
        columns |= {"grid": "s.grid_code", "block": "s.block_code", **_of("waited")}
        if self._some("activities WHERE status < 0"):
            texts = [*texts, *(f"SELECT '{FAILED}' || text FROM ({t}) AS s(text)" for t in texts)]
            texts.append("SELECT DISTINCT 'error ' || status FROM activities WHERE status < 0")
            columns |= _of("error", "code")
        columns |= {"run_seq": f"coalesce(s.run_seq, {NONE})::UINTEGER"}
        return [Source(QUEUE, _WORK, columns, f"{_WORK_BARE} FROM activities a", texts, tied=True)]

    def _size(self) -> None:
        """Table `sizes`: grids and blocks as texts."""
        sizes = f"SELECT DISTINCT {_SIZES} FROM activities a WHERE a.gx > 0 OR a.lx > 0"
        self._con.execute(f"""
            CREATE OR REPLACE TEMP TABLE sizes AS SELECT *,
                CASE WHEN gx > 0 THEN concat_ws(' × ', gx, nullif(gy, 0), nullif(gz, 0)) END AS grid,
                CASE WHEN lx > 0 THEN concat_ws(' × ', lx, nullif(ly, 0), nullif(lz, 0)) END AS block
            FROM ({sizes}) AS s(gx, gy, gz, lx, ly, lz)""")

    def number_sizes(self) -> None:
        """Add the numbers of its texts to the table `sizes`, which are there now."""
        codes = ", ".join(f"{coded(column)} AS {column}_code" for column in ("grid", "block"))
        self._con.execute(f"CREATE OR REPLACE TEMP TABLE sizes AS SELECT *, {codes} FROM sizes")

    def _others(self) -> list[Source]:
        """What is rare, and never asked for where there is none: planning costs more than all else of a small run."""
        unfinished, python, log = _of(*_BOTH, "error"), _of(*_BOTH, "source", "error"), _of(*_BOTH, "domain", "source")
        marked = _of(*_BOTH, "domain", "topic", "payload", "color", "note")
        instant = {"instant": "s.instant"}
        self._project()
        on_device = Source(PROJECTED, "SELECT * FROM projections", _of(*_BOTH, "domain", "color"))
        rare = (
            ("unfinished", Source(THREAD, _UNFINISHED, unfinished, tied=True)),
            ("ranges WHERE kind <> 'start'", Source(THREAD, f"{_RANGES} WHERE r.kind <> 'start'", marked | instant)),
            ("python_calls", Source(THREAD, _PYTHON, python)),
            ("messages", Source(THREAD, _LOG, log | instant)),
            ("ranges WHERE kind = 'start'", Source(RANGES, f"{_RANGES} WHERE r.kind = 'start'", marked)),
            ("projections", on_device),
            ("omp_threads WHERE join_ns + late_ns > 0", Source(THREAD, _TEAM_WAITS, _of(*_BOTH, "source"))),
            ("managed_memory", Source(MANAGED, _MANAGED, _of(*_BOTH, "bytes", "rate", "note"))),
            ("waits", Source(WAITS, _WAITS, _of(*_BOTH))),
        )
        return [source for table, source in rare if self._some(table)]

    def _asked(self, tracks: Sequence[tuple[str, str]]) -> Source:
        """The rows of the user's SQL, in the table `asked`. Raises a StoreError that says what is wrong with it."""
        self._store.functions()  # it may be about single calls
        self._con.execute(
            "CREATE OR REPLACE TEMP TABLE asked (track UINTEGER, ts BIGINT, dur BIGINT, name VARCHAR, row INTEGER)"
        )
        for number, (name, sql) in enumerate(tracks):
            # A newline: it may end in a comment. As a part of another query it can only read.
            rows = (
                f"SELECT {number}, ts, coalesce(dur, 0), name, row_number() OVER () FROM ({sql.strip().rstrip(';')}\n)"
            )
            try:
                self._con.execute(f"INSERT INTO asked {rows}")
            except duckdb.Error as error:
                why = reasons.of_query(error)
                raise StoreError(f"--track {name}: {why}; it has to give the columns ts, dur (ns) and name") from error
        return Source(
            ASKED,
            f"SELECT {ASKED} AS kind, track, ts AS start_ns, ts + greatest(dur, 0) AS end_ns, row AS number, name,"
            " 'asked' AS category, false AS failed, (SELECT min(process) FROM processes) AS process, NULL::UINTEGER AS thread"
            " FROM asked WHERE ts >= 0",
            _of(*_BOTH),
        )

    def _project(self) -> None:
        """Table `projections`: ranges on devices."""
        both = self._some("ranges WHERE kind <> 'mark'") and self._some("activities WHERE device IS NOT NULL")
        self._con.execute(
            f"CREATE OR REPLACE TEMP TABLE projections AS {_PROJECTIONS if both else 'SELECT 1 WHERE false'}"
        )

    def _name(self, style: str) -> None:
        """Tables `renamed` and `titles`: what kernels of backends and of OCCA are to be called."""
        con = self._con
        raw = [n for (n,) in con.execute("SELECT DISTINCT name FROM activities WHERE kind = 'kernel'").fetchall() if n]
        renames: dict[str, Callable[[str], str]] = {"raw": str, "demangled": naming.demangled}
        rename = renames.get(style, naming.short)
        pairs = {"raw": np.array(raw, object), "shown": np.array([rename(name) for name in raw], object)}
        con.register("_renamed", pairs)
        con.execute(
            "CREATE OR REPLACE TEMP TABLE renamed AS SELECT raw::VARCHAR AS raw, shown::VARCHAR AS shown FROM _renamed"
            " WHERE raw <> shown"
        )
        con.unregister("_renamed")
        kernels = con.execute("SELECT kernel, name, coalesce(source, ''), coalesce(line, 0) FROM kernels").fetchall()
        con.execute("CREATE OR REPLACE TEMP TABLE titles (kernel UINTEGER, title VARCHAR)")
        if style != "raw" and kernels:
            titles = [(k, naming.author(*of) if style == "okl" else of[0]) for k, *of in kernels]
            con.executemany("INSERT INTO titles VALUES (?, ?)", titles)


def _is_code(function: Function) -> bool:
    """Whether a call of it fails by a value that means something in itself."""
    assert function.failed
    return any(arg.name == function.failed.field and arg.kind != "name" for arg in function.args)
