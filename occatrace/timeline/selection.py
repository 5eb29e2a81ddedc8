"""Which slices, flows and counter values a timeline has, in SQL; sorted and numbered on disk, in bounded memory."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy.typing as npt

from occatrace.schema import HOST_MODES, MEMORY_KINDS
from occatrace.sql import name as sql_name
from occatrace.sql import text as sql_text
from occatrace.tables import Store

WINDOW_ROWS = 1 << 17
_FORMAT = f"(FORMAT parquet, COMPRESSION lz4, ROW_GROUP_SIZE {WINDOW_ROWS})"
DEVICE = "device"  # in Options.apis: the work on devices

# Kinds of tracks, in the order in which they are written, and so sorted.
THREAD, QUEUE, MEMORY, PROBLEMS = range(4)
# Kinds of counters.
IN_FLIGHT, ALLOCATED = range(2)
# The track of device work whose queue or device is not known is that of its process, beyond all real numbers.
UNKNOWN = 1 << 31

FAILED = "✗ "  # before the names of calls and work that failed

Columns = dict[str, npt.NDArray[Any]]


@dataclass(frozen=True)
class Window:
    """A part of a run, in ns since its first call; open where None."""

    begin: int | None = None
    end: int | None = None


@dataclass(frozen=True)
class Options:
    """What to leave out. An empty tuple means all."""

    window: Window = Window()
    threads: tuple[str, ...] = ()  # thread ids, or patterns of thread names
    apis: tuple[str, ...] = ()
    min_duration: int = 0  # ns
    names: str = ""  # a regular expression
    counters: bool = True


# Calls of threads. An OCCA kernel call carries the name that its author gave the kernel.
_CALLS = f"""
SELECT {THREAD} AS kind, c.thread AS track, c.start_ns, c.end_ns, c.seq AS number,
       CASE WHEN c.failed THEN '{FAILED}' ELSE '' END || coalesce(k.name, c.function) AS name, c.api AS category, c.failed,
       c.process, c.thread, c.seq, l.id AS correlation,
       CASE WHEN k.name IS NOT NULL THEN c.function END AS function, k.source,
       coalesce(k.mode, o.mode) AS mode, o.kind AS direction,
       CASE WHEN c.failed THEN coalesce(c.error, 'failed') END AS error, nullif(c.bytes, 0) AS bytes,
       CASE WHEN o.mode IN {HOST_MODES} AND NOT c.failed AND c.end_ns > c.start_ns
            THEN o.bytes / (c.end_ns - c.start_ns) END AS rate
FROM calls c
LEFT JOIN (SELECT r.thread, r.seq, k.name, k.mode, source_line(k.source, k.line) AS source
           FROM kernel_runs r JOIN kernels k USING (kernel)) k
       ON c.api = 'occa' AND k.thread = c.thread AND k.seq = c.seq
LEFT JOIN occa_copies o ON c.api = 'occa' AND o.thread = c.thread AND o.seq = c.seq
LEFT JOIN (SELECT thread, seq, min(id) AS id FROM work WHERE thread IS NOT NULL GROUP BY ALL) l
       ON l.thread = c.thread AND l.seq = c.seq
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
       CASE WHEN a.status < 0 THEN '{FAILED}' ELSE '' END || a.name AS name, a.kind AS category, a.status < 0 AS failed,
       a.process, a.thread, a.seq, a.run_seq, a.id, min(a.id) OVER (PARTITION BY a.thread, a.seq) AS correlation,
       k.name AS kernel, source_line(k.source, k.line) AS source,
       CASE WHEN a.status < 0 THEN 'error ' || a.status END AS error, nullif(a.bytes, 0) AS bytes,
       CASE WHEN a.bytes > 0 AND a.end_ns > a.start_ns THEN a.bytes / (a.end_ns - a.start_ns) END AS rate,
       CASE WHEN a.gx > 0 THEN concat_ws(' × ', a.gx, nullif(a.gy, 0), nullif(a.gz, 0)) END AS grid,
       CASE WHEN a.lx > 0 THEN concat_ws(' × ', a.lx, nullif(a.ly, 0), nullif(a.lz, 0)) END AS block,
       CASE WHEN a.start_ns > a.queued_ns AND a.queued_ns > 0 THEN a.start_ns - a.queued_ns END AS waited
FROM work a LEFT JOIN kernels k USING (kernel)
"""


# What a reader must know before trusting the rest: it stands on a track of its own, over the time that it concerns.
def _problems(origin: int) -> str:
    return f"""
SELECT {PROBLEMS} AS kind, p.process AS track, greatest(p.start_ns, {origin}) AS start_ns,
       greatest(p.end_ns, p.start_ns, {origin}) AS end_ns, 0 AS number,
       n.name, 'problem' AS category, p.process, false AS failed
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
       'ended without notice (killed or crashed)' AS name, 'problem' AS category, process, false AS failed
FROM processes WHERE exit IS NULL AND end_ns >= {origin}
"""


_FAILED = (
    f"SELECT * REPLACE ({PROBLEMS} AS kind, process AS track, NULL AS id, NULL AS thread) FROM chosen WHERE failed"
)

# Arguments of slices: column, kind for the encoder, name in the trace.
ARGUMENTS = (
    ("error", "text", "error"),
    ("function", "text", "call"),
    ("kernel", "text", "OCCA kernel"),
    ("mode", "text", "OCCA mode"),
    ("source", "text", "source"),
    ("direction", "text", "direction"),
    ("bytes", "uint", "bytes"),
    ("rate", "float", "GB/s"),
    ("grid", "text", "grid (threads)"),
    ("block", "text", "block (threads)"),
    ("waited", "uint", "waited ns"),
    ("correlation", "uint", "correlation"),
)
_TYPES = {"text": "VARCHAR", "uint": "UBIGINT", "float": "DOUBLE"}
# The columns of a slice on its way. `thread`, `seq`, `run_seq` and `id` tell which call, or which work of which calls.
_COLUMNS = {
    **{"kind": "UTINYINT", "track": "UBIGINT", "start_ns": "UBIGINT", "end_ns": "UBIGINT", "number": "UBIGINT"},
    **{"name": "VARCHAR", "category": "VARCHAR", "failed": "BOOLEAN", "process": "UINTEGER", "thread": "UINTEGER"},
    **{"seq": "UINTEGER", "run_seq": "UINTEGER", "id": "UBIGINT"},
    **{column: _TYPES[kind] for column, kind, _ in ARGUMENTS},
}
TEXTS = ("name", "category", *(column for column, kind, _ in ARGUMENTS if kind == "text"))
NUMBERS = tuple(column for column, kind, _ in ARGUMENTS if kind != "text")

_IN_FLIGHT = f"""
SELECT {IN_FLIGHT} AS kind, process, device, '' AS mode, t, sum(d) AS d
FROM (SELECT process, coalesce(device, 0) AS device,
             CASE WHEN queued_ns > 0 THEN least(queued_ns, start_ns) ELSE start_ns END AS t, 1 AS d FROM activities
      UNION ALL SELECT process, coalesce(device, 0), greatest(end_ns, start_ns), -1 FROM activities)
GROUP BY ALL
"""
# OCCA's calls that take memory and give it back; `bytes` is in their arguments.
_TAKES, _GIVES = ("device_malloc", "device_umalloc"), ("memory_free",)


class Selection:
    """The slices of one timeline, sorted by track and time, with their flows, and the values of the counters."""

    def __init__(self, store: Store, options: Options) -> None:
        self._con = store.con
        self._store = store
        self._slices = store.scratch / "timeline-slices.parquet"
        self._flows = store.scratch / "timeline-flows.parquet"
        self._values = store.scratch / "timeline-values.parquet"
        self.texts: Sequence[str] = ()
        self.origin = self._beginning()
        self._choose(options)
        self._sort()
        self._tie()
        self.counters = self._count(options)
        self.rows = self._one(f"SELECT count(*) FROM {self._file(self._slices)}")
        lowest = [self._one(f"SELECT min(start_ns) FROM {self._file(self._slices)}")] if self.rows else []
        lowest += [t for _, _, _, _, _, t in self.counters]
        self.origin = min([self.origin, *lowest])

    def slices(self) -> Iterator[tuple[Columns, Columns]]:
        """Windows of slices, each with the flows (`rn`, `id`) of its rows."""
        for first in range(0, self.rows, WINDOW_ROWS):
            bounds = [first, first + WINDOW_ROWS]
            flows = self._con.execute(
                f"SELECT rn, id FROM {self._file(self._flows)} WHERE rn >= ? AND rn < ? ORDER BY rn, id", bounds
            ).fetchnumpy()
            rows = self._con.execute(
                f"SELECT * FROM {self._file(self._slices)} WHERE rn >= ? AND rn < ? ORDER BY rn", bounds
            ).fetchnumpy()
            yield rows, flows

    def values(self, first: int, count: int) -> Iterator[Columns]:
        """Windows of the values (`t`, `value`) of a counter: `count` of them, from number `first` on."""
        for begin in range(first, first + count, WINDOW_ROWS):
            bounds = [begin, min(begin + WINDOW_ROWS, first + count)]
            yield self._con.execute(
                f"SELECT t, value FROM {self._file(self._values)} WHERE rn >= ? AND rn < ? ORDER BY rn", bounds
            ).fetchnumpy()

    def close(self) -> None:
        """Remove the files."""
        for path in (self._slices, self._flows, self._values):
            path.unlink(missing_ok=True)

    def _beginning(self) -> int:
        """The first call or work of the run, which the interface calls zero, whatever is left out."""
        times = [
            "SELECT min(start_ns) AS t FROM unfinished",
            "SELECT min(CASE WHEN queued_ns > 0 THEN least(queued_ns, start_ns) ELSE start_ns END) FROM activities",
        ]
        if self._store.functions():
            times.append("SELECT min(start_ns) FROM calls")
        first = f"SELECT min(t) FROM ({' UNION ALL '.join(times)})"
        return self._one(f"SELECT coalesce(({first}), (SELECT min(start_ns) FROM processes), 0)")

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
        for problem in self._store.problems:
            con.execute("INSERT INTO damages VALUES (?)", [problem])
        con.execute(
            "CREATE OR REPLACE TEMP TABLE work AS"
            " SELECT *, row_number() OVER (ORDER BY start_ns, end_ns, thread, seq)::UBIGINT AS id FROM activities"
        )
        parts = [_WORK, _UNFINISHED] + ([_CALLS] if self._store.functions() else [])
        wanted = self._conditions(options)
        con.execute(f"CREATE OR REPLACE TEMP TABLE chosen ({', '.join(f'{c} {t}' for c, t in _COLUMNS.items())})")
        for part in parts:
            con.execute(f"INSERT INTO chosen BY NAME SELECT * FROM ({part}) s{wanted}")
        problems = f"({_problems(self.origin)}) UNION ALL BY NAME ({_FAILED})"
        within = self._conditions(Options(options.window))
        con.execute(f"INSERT INTO chosen BY NAME SELECT * FROM ({problems}) s{within}")
        con.execute("DROP TABLE work")
        con.execute("DROP TABLE damages")

    def _conditions(self, options: Options) -> str:
        """The WHERE clause over slices `s`."""
        out = []
        if options.window.begin is not None:
            out.append(f"s.end_ns >= {self.origin + options.window.begin}")
        if options.window.end is not None:
            out.append(f"s.start_ns <= {self.origin + options.window.end}")
        if options.min_duration:
            out.append(f"s.end_ns - s.start_ns >= {options.min_duration}")
        if options.names:
            out.append(f"regexp_matches(ltrim(s.name, '{FAILED}'), {sql_text(options.names)})")
        if options.apis:
            apis = ", ".join(sql_text(api) for api in options.apis)
            calls = f"(s.kind = {THREAD} AND s.category IN ({apis}))"
            out.append(f"({calls} OR s.kind <> {THREAD})" if DEVICE in options.apis else calls)
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
                      SELECT kind, track, start_ns, end_ns, number, thread, seq, run_seq, id,
                             {", ".join(NUMBERS)}, {texts}
                      FROM chosen ORDER BY kind, track, start_ns, end_ns DESC, number))
            TO {sql_text(str(self._slices))} {_FORMAT}""")
        con.execute("DROP TABLE chosen")
        con.execute("DROP TABLE texts")
        con.execute("DROP TYPE timeline_text")

    def _tie(self) -> None:
        """Flows to device work, from the call that launched it and from the OCCA kernel call. Never one end only."""
        ends = f"""
            WITH slices AS (SELECT rn, kind, id, thread, seq, run_seq FROM {self._file(self._slices)}),
                 work AS (FROM slices WHERE kind IN ({QUEUE}, {MEMORY})),
                 calls AS (FROM slices WHERE kind = {THREAD}),
                 pairs AS (
                     SELECT c.rn AS source, w.rn AS target, 2 * w.id AS id FROM work w JOIN calls c USING (thread, seq)
                     UNION ALL
                     SELECT c.rn, w.rn, 2 * w.id + 1
                     FROM work w JOIN calls c ON c.thread = w.thread AND c.seq = w.run_seq AND w.run_seq <> w.seq)
            SELECT source AS rn, id::UBIGINT AS id FROM pairs UNION ALL SELECT target, id FROM pairs ORDER BY rn, id"""
        self._con.execute(f"COPY ({ends}) TO {sql_text(str(self._flows))} {_FORMAT}")

    def _count(self, options: Options) -> list[tuple[int, int, int, str, int, int]]:
        """The counters in the order of their values: kind, process, device, mode, number of values, first time."""
        con = self._con
        parts = [_IN_FLIGHT, *self._allocations()] if options.counters else []
        if options.apis and DEVICE not in options.apis:
            parts = []
        if not parts:
            return []
        window = self._conditions(Options(options.window)).replace("s.end_ns", "s.t").replace("s.start_ns", "s.t")
        con.execute(f"""
            COPY (SELECT *, row_number() OVER () - 1 AS rn FROM (
                      SELECT * FROM (
                          SELECT kind, process, device, mode, t,
                                 (sum(d) OVER (PARTITION BY kind, process, device, mode ORDER BY t))::BIGINT AS value
                          FROM ({" UNION ALL BY NAME ".join(f"({part})" for part in parts)})) s{window}
                      ORDER BY kind, process, device, mode, t))
            TO {sql_text(str(self._values))} {_FORMAT}""")
        return con.execute(
            "SELECT kind, process, device, mode, count(*), min(t) FROM"
            f" {self._file(self._values)} GROUP BY ALL ORDER BY min(rn)"
        ).fetchall()

    def _allocations(self) -> list[str]:
        """Memory in use by OCCA's own account, per process and mode."""
        functions = self._store.functions()
        parts = []
        for names, sign in ((_TAKES, ""), (_GIVES, "-")):
            for name in names:
                if f"occa.{name}" in functions:
                    parts.append(
                        f"SELECT process, coalesce(args.mode, '') AS mode, end_ns AS t, {sign}args.bytes::BIGINT AS d"
                        f" FROM {sql_name(f'occa.{name}')} WHERE NOT failed AND args.bytes > 0"
                    )
        if not parts:
            return []
        return [
            f"SELECT {ALLOCATED} AS kind, process, 0 AS device, mode, t, sum(d) AS d"
            f" FROM ({' UNION ALL '.join(parts)}) GROUP BY ALL"
        ]
