"""Staging tables → the tables of a run and its single calls, in SQL, in bounded memory."""

from __future__ import annotations

import contextlib
import re
from pathlib import Path
from typing import Any

import numpy as np

from occatrace import __version__
from occatrace.core.model import Function, Model
from occatrace.core.schema import BY_NAME, CALLS, SCHEMA_VERSION, TABLES
from occatrace.core.sql import text as sql_text
from occatrace.errors import RunError
from occatrace.foreign.staging import (
    MESSAGE_KINDS,
    NO_NAME,
    RANGE_KINDS,
    SIDES,
    SPANS,
    WORK_KINDS,
    Device,
    Process,
    Staging,
)
from occatrace.store import empty
from occatrace.store.macros import macros
from occatrace.store.made import Made, write_made
from occatrace.store.memory import within

MOST_FAILURES = 1000  # of a function in a process that have a row
_PROCESS = (
    *(
        "process",
        "host",
        "pid",
        "ppid",
        "exe",
        "cmdline",
        "run",
        "mode",
        "version",
        "start_ns",
        "end_ns",
        "realtime_ns",
    ),
    *("mono_ns", "exit", "trace", "rank", "size", "local_rank", "job", "cpus", "first_ns"),
)
ENDED = "imported"  # in processes.exit: how they ended is not in such files
_FLUSH_ROWS = 1 << 15
WORK_ROWS = 750_000  # of device work that are joined with their calls at once: the join has to fit into the memory
_SAFE = re.compile(r"[A-Za-z0-9_:~.-]{1,150}")
_LARGEST = (1 << 32) - 1
# What CUPTI adds to names: the version in which a function came, and which stream is the default one.
_VERSIONED = re.compile(r"_v\d{4,5}$")
_DEFAULT_STREAM = re.compile(r"_pt(sz|ds)$")


class Assembly:
    """Makes the tables once."""

    def __init__(self, staging: Staging, model: Model, folder: Path) -> None:
        """`folder`: where the tables are written; it must not be there yet."""
        self._staging = staging
        self._con = staging.con
        self._model = model
        self._folder = folder
        self._functions: list[tuple[int, str, str, str, int]] = []  # number, api, key, name, source

    def run(self) -> None:
        """Write all tables. Raises a RunError if there is nothing in the staging tables."""
        macros(self._con)
        for table in TABLES:
            self._con.execute(f"CREATE TABLE {table.name} ({table.ddl()})")
        self._shift()
        self._name_functions()
        self._name_threads()
        self._number()
        self._fill_things()
        self._fill_calls()
        self._fill_work()
        self._fill_ranges()
        self._fill_rest()
        self._write()

    @property
    def length(self) -> int:
        """ns from the first to the last moment."""
        return self._last - self._first

    def _all(self, sql: str) -> list[tuple[Any, ...]]:
        return self._con.execute(sql).fetchall()

    def _shift(self) -> None:
        """Times are positive: 0 means "not known" in some columns."""
        parts = [f"SELECT min({s}) AS a, max(greatest({s}, {e})) AS b FROM s_{name}" for name, (s, e) in SPANS.items()]
        first, last = self._all(f"SELECT min(a), max(b) FROM ({' UNION ALL '.join(parts)})")[0]
        if first is None:
            raise RunError("no calls, no device work and no ranges in it")
        self._first, self._last = int(first), int(last)
        self._by = max(0, 1 - self._first)

    def _t(self, column: str) -> str:
        """SQL: a time as the tables have it."""
        return f"({column} + {self._by})::UBIGINT"

    def _name_functions(self) -> None:
        """Table `functions`: API, key and name of what was called, by source and text."""
        numbers: dict[tuple[str, str], int] = {}
        rows: list[tuple[Any, ...]] = []
        found = self._all(
            "SELECT DISTINCT c.source, c.fn, x.text FROM (SELECT DISTINCT source, fn FROM s_calls) c"
            " LEFT JOIN s_texts x ON x.id = c.fn ORDER BY ALL"
        )
        for source, fn, text in found:
            of = self._staging.sources[source]
            name = _VERSIONED.sub("", text or f"function_{fn}")
            api = of.api_of(name)
            plain = _DEFAULT_STREAM.sub("", name)
            if plain != name and not self._model.function(api, name) and self._model.function(api, plain):
                name = plain
            if not _SAFE.fullmatch(name) or name.startswith("."):
                name = f"{re.sub(r'[^A-Za-z0-9_:~-]', '_', name)[:120]}_{fn & _LARGEST}"
            function = self._model.function(api, name)
            number = numbers.setdefault((api, name), len(numbers))
            if number == len(self._functions):
                self._functions.append((number, api, name, function.name if function else name, source))
            ignored = function.failed.ignored if function and function.failed else None
            rows.append((source, fn, number, api, function.name if function else name, of.fails, ignored))
        self._con.execute(
            "CREATE TABLE functions (source UTINYINT, fn BIGINT, f INTEGER, api VARCHAR, name VARCHAR, fails BOOLEAN,"
            " ignored BIGINT)"
        )
        if rows:
            self._con.executemany("INSERT INTO functions VALUES (?, ?, ?, ?, ?, ?, ?)", rows)

    def _name_threads(self) -> None:
        """Tables `ps` and `ts`: numbers of processes and threads."""
        staging = self._staging
        with_process = [name for name in SPANS if name != "texts"]
        found = self._all(" UNION ".join(f"SELECT p FROM s_{name}" for name in with_process))
        known = {p: staging.processes.get(p) or Process(p & 0xFFFFFF) for (p,) in found}
        self._processes = sorted(
            known.items(), key=lambda item: (item[1].rank is None, item[1].rank or 0, item[1].pid, item[0])
        )
        self._process = {p: number for number, (p, _) in enumerate(self._processes, 1)}
        self._con.execute("CREATE TABLE ps (p BIGINT, process UINTEGER)")
        self._con.executemany("INSERT INTO ps VALUES (?, ?)", list(self._process.items()))
        self._con.execute("""
            CREATE TABLE ts AS
            SELECT p, t, process, row_number() OVER (ORDER BY process, t)::UINTEGER AS thread
            FROM (SELECT p, t FROM s_calls UNION SELECT p, t FROM s_ranges UNION SELECT p, et FROM s_ranges WHERE et IS NOT NULL
                  UNION SELECT p, t FROM s_python) JOIN ps USING (p) WHERE t IS NOT NULL""")
        if self._all("SELECT count(*) FROM ts")[0][0] > _LARGEST:
            raise RunError("it names too many threads")

    def _number(self) -> None:
        """Table `numbered`: calls and the begins and ends of ranges, with their numbers in their threads. What begins and ends
        at one moment: an older range ends, a new one begins, then the calls, the longest first."""
        self._con.execute("CREATE TABLE rs AS SELECT row_number() OVER () AS rid, * FROM s_ranges")
        self._con.execute("DROP TABLE s_ranges")
        self._con.execute("""
            CREATE TABLE sorted AS SELECT row_number() OVER () AS rn, * FROM (
                SELECT ts.thread, ts.process, s, e, 1::TINYINT AS ord, f.f, c.corr, c.code, c.bytes, c.extra, NULL::BIGINT AS rid,
                       f.fails AND c.code <> 0 AND c.code IS DISTINCT FROM f.ignored AS failed
                FROM s_calls c JOIN ts USING (p, t) JOIN functions f USING (source, fn)
                UNION ALL BY NAME
                SELECT thread, process, s, e, 0::TINYINT AS ord, rid FROM rs JOIN ts USING (p, t)
                UNION ALL BY NAME
                SELECT thread, process, e AS s, e, CASE WHEN s < e THEN -1 ELSE 2 END::TINYINT AS ord, rid
                FROM rs JOIN ts ON ts.p = rs.p AND ts.t = coalesce(rs.et, rs.t) WHERE kind != 2 AND e IS NOT NULL
                ORDER BY thread, s, ord, e DESC NULLS FIRST)""")
        self._con.execute("DROP TABLE s_calls")
        self._con.execute("CREATE TABLE firsts AS SELECT thread, min(rn) AS first FROM sorted GROUP BY thread")
        self._con.execute(
            "CREATE VIEW numbered AS SELECT *, (rn - first + 1)::UINTEGER AS seq FROM sorted JOIN firsts USING (thread)"
        )
        if (
            self._all("SELECT coalesce(max(seq), 0) FROM (SELECT count(*) AS seq FROM sorted GROUP BY thread)")[0][0]
            >= _LARGEST
        ):
            raise RunError("a thread has more than 4,294,967,294 events")
        # Which call launched what, by its correlation id: of calls in each other the outer one.
        if not self._all("""
            SELECT 1 FROM sorted WHERE corr IS NOT NULL AND f IS NOT NULL GROUP BY process, corr HAVING count(*) > 1 LIMIT 1"""):
            self._con.execute("""
                CREATE VIEW launches AS SELECT process, corr, thread, seq, s, e, f FROM numbered
                WHERE corr IS NOT NULL AND f IS NOT NULL""")
            return
        self._con.execute("""
            CREATE TABLE launches AS
            SELECT process, corr, arg_min(thread, rn) AS thread, arg_min(seq, rn) AS seq, arg_min(s, rn) AS s,
                   arg_min(e, rn) AS e, arg_min(f, rn) AS f
            FROM numbered SEMI JOIN (SELECT process, corr FROM s_work JOIN ps USING (p) UNION
                                     SELECT process, corr FROM s_waits JOIN ps USING (p) UNION
                                     SELECT process, corr FROM s_memory JOIN ps USING (p)) USING (process, corr)
            WHERE corr IS NOT NULL AND f IS NOT NULL GROUP BY process, corr""")

    def _fill(self, table: str, select: str) -> None:
        within(self._con, lambda: self._con.execute(f"INSERT INTO {table} BY NAME {select}"))

    def _fill_things(self) -> None:
        """Processes, threads, devices and queues."""
        staging, con = self._staging, self._con
        tables = {"rs": ("s", "e"), **{f"s_{n}": span for n, span in SPANS.items() if n not in ("calls", "ranges")}}
        parts = [
            f"SELECT p, min({s}) AS a, max(greatest({s}, {e})) AS b FROM {table} GROUP BY p"
            for table, (s, e) in tables.items()
        ]
        parts.append("SELECT p, min(s), max(greatest(s, e)) FROM sorted JOIN ps USING (process) GROUP BY p")
        found = self._all(f"SELECT p, min(a), max(b) FROM ({' UNION ALL '.join(parts)}) GROUP BY p")
        spans = {p: (first + self._by, last + self._by) for p, first, last in found}
        rows: list[tuple[Any, ...]] = []
        for p, of in self._processes:
            host = of.host or staging.host or "imported"
            row: tuple[Any, ...] = (
                self._process[p],
                host,
                of.pid,
                of.ppid,
                of.exe,
                of.cmdline,
                "",
                "imported",
                staging.product,
            )
            row += (*spans[p], max(staging.realtime_ns, 0), self._by, ENDED, host, of.rank, of.size, None, "")
            rows.append((*row, "", self._first + self._by))  # processors are not known
        marks = ", ".join("?" * len(_PROCESS))
        con.executemany(f"INSERT INTO processes ({', '.join(_PROCESS)}) VALUES ({marks})", rows)
        known = [(t, tid & _LARGEST, name) for t, (tid, name) in staging.threads.items()]
        con.execute("CREATE TABLE known_threads (t BIGINT, tid UINTEGER, name VARCHAR)")
        if known:
            columns = {
                name: np.array(values)
                for name, values in zip(("t", "tid", "name"), zip(*known, strict=True), strict=True)
            }
            con.register("batch", {**columns, "name": columns["name"].astype(object)})
            con.execute("INSERT INTO known_threads SELECT t, tid, name FROM batch")
            con.unregister("batch")
        con.execute("""
            CREATE TABLE thread_spans AS
            SELECT thread, min(a) AS a, max(b) AS b FROM (
                SELECT thread, min(s) AS a, max(greatest(s, e)) AS b FROM sorted GROUP BY thread UNION ALL
                SELECT thread, min(s), max(e) FROM s_python JOIN ts USING (p, t) GROUP BY thread) GROUP BY thread""")
        self._fill(
            "threads",
            f"SELECT ts.thread, ts.process, coalesce(k.tid, ts.t & 16777215)::UINTEGER AS tid, coalesce(k.name, '') AS name,"
            f" {self._t('a')} AS start_ns, {self._t('b')} AS end_ns"
            " FROM ts LEFT JOIN known_threads k USING (t) JOIN thread_spans USING (thread) ORDER BY thread",
        )
        con.execute("""
            CREATE TABLE used AS SELECT DISTINCT process, dev, ctx, stream FROM (
                SELECT p, dev, ctx, stream FROM s_work UNION SELECT p, dev, ctx, stream FROM s_waits UNION
                SELECT p, dev, NULL, NULL FROM s_memory UNION SELECT p, dev, NULL, NULL FROM s_managed UNION
                SELECT p, dev, NULL, NULL FROM s_counts) JOIN ps USING (p)""")
        con.execute("""
            CREATE TABLE ds AS SELECT *, row_number() OVER (ORDER BY process, dev)::UINTEGER AS device
            FROM (SELECT DISTINCT process, dev FROM used WHERE dev IS NOT NULL)""")
        con.execute("""
            CREATE TABLE qs AS SELECT *, row_number() OVER (ORDER BY process, dev, ctx, stream)::UINTEGER AS queue,
                   count(*) OVER (PARTITION BY process, stream) AS alike,
                   row_number() OVER (PARTITION BY process ORDER BY dev, ctx, stream) AS place
            FROM (SELECT DISTINCT process, dev, ctx, stream FROM used WHERE stream IS NOT NULL)""")
        p_of = {number: p for p, number in self._process.items()}
        rows = []
        for process, dev, number in self._all("SELECT process, dev, device FROM ds ORDER BY device"):
            of_device = (
                staging.devices.get((p_of[process], dev)) or staging.devices.get((None, dev)) or _unknown(staging, dev)
            )
            told = (of_device.api, of_device.platform, of_device.name, of_device.vendor)
            rows.append((number, process, (dev + 1) & _LARGEST, *told, dev & ((1 << 63) - 1)))
        if rows:
            con.executemany(f"INSERT INTO devices VALUES ({', '.join('?' * len(rows[0]))})", rows)
        self._fill(
            "queues",
            "SELECT q.queue, q.process, CASE WHEN alike = 1 AND stream BETWEEN 0 AND 4294967295 THEN stream ELSE place END::UINTEGER"
            " AS id, d.device, (q.stream & 9223372036854775807)::UBIGINT AS handle, 0 AS flags,"
            " (coalesce(q.ctx, 0) & 9223372036854775807)::UBIGINT AS context"
            " FROM qs q LEFT JOIN ds d USING (process, dev) ORDER BY q.queue",
        )

    def _fill_calls(self) -> None:
        """Statistics, failures, calls that never returned, and the single calls."""
        con = self._con
        con.execute("CREATE TABLE names_of (f INTEGER, api VARCHAR, name VARCHAR)")
        if self._functions:
            con.executemany(
                "INSERT INTO names_of VALUES (?, ?, ?)", [(f, api, name) for f, api, _, name, _ in self._functions]
            )
        done = "f IS NOT NULL AND e IS NOT NULL"
        length = "span(s, greatest(s, e))"
        self._fill(
            "call_stats",
            f"""SELECT process, thread, n.api, n.name AS function, 'event' AS source, a.* EXCLUDE (process, thread, f) FROM (
                    SELECT process, thread, f, count(*) AS calls, count(*) FILTER (failed) AS failed, sum({length}) AS total_ns,
                           avg({length}) AS mean_ns, coalesce(var_pop({length}), 0) * count(*) AS m2, min({length}) AS min_ns,
                           max({length}) AS max_ns, coalesce(sum(bytes) FILTER (failed IS NOT true), 0) AS bytes
                    FROM sorted WHERE {done} GROUP BY process, thread, f) a JOIN names_of n USING (f)""",
        )
        self._fill(
            "call_hist",
            f"""SELECT process, thread, n.api, n.name AS function, bucket_middle(b) AS value_ns, calls FROM (
                    SELECT process, thread, f, bucket({length}) AS b, count(*) AS calls FROM sorted WHERE {done}
                    GROUP BY process, thread, f, b) JOIN names_of n USING (f)""",
        )
        self._fill_failures()
        self._fill(
            "unfinished",
            f"SELECT process, thread, seq, n.api, n.name AS function, {self._t('s')} AS start_ns"
            " FROM numbered JOIN names_of n USING (f) WHERE e IS NULL",
        )

    def _fill_failures(self) -> None:
        con = self._con
        con.execute("CREATE TABLE errors (f INTEGER, code BIGINT, error VARCHAR, lost VARCHAR)")
        functions = {number: (api, key) for number, api, key, _, _ in self._functions}
        codes = self._all("SELECT DISTINCT f, code FROM sorted WHERE failed ORDER BY ALL LIMIT 100000")
        rows = []
        for number, code in codes:
            name = ":".join(functions[number])
            known = self._model.function(*functions[number])
            error = self._model.error_name(name, code) if known and known.failed else str(code)
            rows.append((number, code, error, self._model.lost(name)))
        if rows:
            con.executemany("INSERT INTO errors VALUES (?, ?, ?, ?)", rows)
        self._fill(
            "failures",
            f"""SELECT process, thread, seq, n.api, n.name AS function, code, coalesce(x.error, code::VARCHAR) AS error, x.lost
                FROM (SELECT * FROM numbered WHERE failed
                      QUALIFY row_number() OVER (PARTITION BY process, f ORDER BY s) <= {MOST_FAILURES})
                JOIN names_of n USING (f) LEFT JOIN errors x USING (f, code)""",
        )

    def _fill_work(self) -> None:
        threads = ", ".join(
            f"coalesce(least(greatest(w.{name}, 0), {_LARGEST}), 0)::UINTEGER AS {name}"
            for name in ("gx", "gy", "gz", "lx", "ly", "lz")
        )
        kinds = _case("w.kind", WORK_KINDS)
        parts = 1 + self._all("SELECT count(*) FROM s_work")[0][0] // WORK_ROWS
        for part in range(parts):
            self._fill_activities(threads, kinds, *(f"hash({of}.corr::BIGINT) % {parts} = {part}" for of in "wl"))
        self._con.execute("DROP TABLE s_work")
        self._fill_from_work()

    def _fill_activities(self, threads: str, kinds: str, of_work: str, of_launch: str) -> None:
        """Device work with its calls, of one part of the correlation ids."""
        self._fill(
            "activities",
            f"""SELECT w.process, {kinds} AS kind,
                       CASE WHEN w.kind IN ({WORK_KINDS.index("kernel")}, {WORK_KINDS.index("other")})
                            THEN coalesce(nullif(x.text, ''), {sql_text(NO_NAME)}) ELSE {kinds} END AS name,
                       d.device, q.queue, l.thread, l.seq,
                       -- Enqueued when the call is over, or when the work begins, if that is earlier.
                       CASE WHEN l.seq IS NULL THEN 0 ELSE greatest(l.s, least(coalesce(l.e, w.s), w.s)) + {self._by} END::UBIGINT
                       AS queued_ns,
                       CASE WHEN l.seq IS NULL THEN 0 ELSE greatest(l.s, least(coalesce(l.e, w.s), w.s)) + {self._by} END::UBIGINT
                       AS submitted_ns,
                       {self._t("w.s")} AS start_ns, {self._t("greatest(w.s, w.e)")} AS end_ns, coalesce(w.bytes, 0)::UBIGINT AS bytes,
                       {threads},
                       0 AS status,
                       {_case("w.src", SIDES)} AS source, {_case("w.dst", SIDES)} AS target
                FROM (SELECT ps.process, w.* FROM s_work w JOIN ps USING (p) WHERE coalesce({of_work}, {of_work.endswith(" = 0")})) w
                LEFT JOIN (SELECT * FROM launches l WHERE {of_launch}) l USING (process, corr)
                LEFT JOIN ds d USING (process, dev)
                LEFT JOIN qs q ON q.process = w.process AND q.stream = w.stream AND q.dev IS NOT DISTINCT FROM w.dev
                     AND q.ctx IS NOT DISTINCT FROM w.ctx
                LEFT JOIN s_texts x ON x.id = w.name""",
        )

    def _fill_from_work(self) -> None:
        """What waited, managed memory, allocations."""
        self._fill(
            "waits",
            f"""SELECT ps.process, w.kind, l.thread, l.seq,
                       CASE WHEN w.kind = 'stream' THEN q.queue END AS queue,
                       CASE WHEN w.kind = 'stream for event' THEN q.queue END AS waiting_queue,
                       {self._t("w.s")} AS start_ns, {self._t("greatest(w.s, w.e)")} AS end_ns
                FROM s_waits w JOIN ps USING (p) LEFT JOIN launches l USING (process, corr)
                LEFT JOIN qs q ON q.process = ps.process AND q.stream = w.stream AND q.dev IS NOT DISTINCT FROM w.dev
                     AND q.ctx IS NOT DISTINCT FROM w.ctx""",
        )
        self._fill(
            "managed_memory",
            f"""SELECT process, m.kind, d.device, {self._t("s")} AS start_ns, {self._t("greatest(s, e)")} AS end_ns,
                       m.bytes::UBIGINT AS bytes, m.count::UBIGINT AS count, (m.addr & 9223372036854775807)::UBIGINT AS address
                FROM s_managed m JOIN ps USING (p) LEFT JOIN ds d USING (process, dev)""",
        )
        # Memory at an address ends when it is freed, or when it is given out again.
        self._fill(
            "allocations",
            f"""WITH turns AS (
                    SELECT *, lead(s) OVER w AS until, lead(freed) OVER w AS by_free, lead(corr) OVER w AS free_corr
                    FROM s_memory WINDOW w AS (PARTITION BY p, addr ORDER BY s, freed DESC)
                )
                SELECT ps.process, coalesce(n.api, {sql_text(self._staging.memory_api)}) AS api, m.kind, d.device,
                       (m.addr & 9223372036854775807)::UBIGINT AS handle, m.bytes::UBIGINT AS bytes, coalesce(n.name, '') AS function,
                       l.thread, l.seq, {self._t("m.s")} AS start_ns, {self._t("m.until")} AS end_ns,
                       CASE WHEN m.by_free THEN fn.name END AS free_function, CASE WHEN m.by_free THEN fl.thread END AS free_thread,
                       CASE WHEN m.by_free THEN fl.seq END AS free_seq, coalesce(greatest(l.e - l.s, 0), 0)::UBIGINT AS call_ns,
                       CASE WHEN m.by_free THEN coalesce(greatest(fl.e - fl.s, 0), 0) ELSE 0 END::UBIGINT AS free_call_ns
                FROM turns m JOIN ps USING (p) LEFT JOIN ds d USING (process, dev)
                LEFT JOIN launches l ON l.process = ps.process AND l.corr = m.corr LEFT JOIN names_of n ON n.f = l.f
                LEFT JOIN launches fl ON fl.process = ps.process AND fl.corr = m.free_corr LEFT JOIN names_of fn ON fn.f = fl.f
                WHERE NOT m.freed""",
        )

    def _fill_ranges(self) -> None:
        self._con.execute("""
            CREATE TABLE edges AS
            SELECT n.rid, n.rn, n.seq, n.thread, n.process, n.ord = 0 AS begins, rs.kind, rs.api, rs.dom
            FROM numbered n JOIN rs USING (rid)""")
        self._con.execute("""
            CREATE TABLE depths AS SELECT rid, depth FROM (
                SELECT rid, begins, sum(CASE WHEN begins THEN 1 ELSE -1 END)
                       OVER (PARTITION BY thread, api, dom ORDER BY rn) - 1 AS depth
                FROM edges WHERE kind = 0) WHERE begins""")
        self._fill(
            "ranges",
            f"""SELECT b.process, r.api, coalesce(d.name, '') AS domain, c.name AS category,
                       coalesce(r.name, x.text, '') AS name, {_case("r.kind", RANGE_KINDS)} AS kind,
                       (r.color & 4294967295)::UINTEGER AS color, r.payload, b.thread, b.seq,
                       greatest(coalesce(h.depth, 0), 0)::UINTEGER AS depth, {self._t("r.s")} AS start_ns,
                       CASE WHEN r.e IS NOT NULL THEN {self._t("greatest(r.s, r.e)")} END AS end_ns,
                       e.thread AS end_thread, e.seq AS end_seq
                FROM rs r JOIN edges b ON b.rid = r.rid AND b.begins LEFT JOIN edges e ON e.rid = r.rid AND NOT e.begins
                LEFT JOIN depths h ON h.rid = r.rid LEFT JOIN s_texts x ON x.id = r.named
                LEFT JOIN (SELECT p, dom, any_value(name) AS name FROM s_domains GROUP BY ALL) d ON d.p = r.p AND d.dom = r.dom
                LEFT JOIN (SELECT p, dom, cat, any_value(name) AS name FROM s_categories GROUP BY ALL) c
                     ON c.p = r.p AND c.dom IS NOT DISTINCT FROM r.dom AND c.cat = r.cat""",
        )

    def _fill_rest(self) -> None:
        """MPI, Python, counters."""
        rows = [(self._process[p], of.rank, of.size) for p, of in self._processes if of.rank is not None]
        if rows and any(api == "mpi" for _, api, *_ in self._functions):
            self._con.executemany(
                "INSERT INTO mpi_ranks BY NAME SELECT ?::UINTEGER AS process, ?::INTEGER AS rank, ?::INTEGER AS size,"
                " 0 AS first, '' AS library, '' AS abi, 0 AS start_ns",
                rows,
            )
            self._con.execute(
                "UPDATE mpi_ranks SET start_ns = p.start_ns FROM processes p WHERE p.process = mpi_ranks.process"
            )
        # What was posted is complete at the end of the first wait for its request.
        self._fill(
            "mpi_messages",
            f"""WITH posted AS (
                    SELECT n.process, n.thread, n.seq, n.s, n.e, m.*, f.name AS function
                    FROM numbered n JOIN s_messages m USING (extra) JOIN names_of f USING (f)
                ),
                ends AS (SELECT process, request, s, e FROM posted WHERE kind IS NULL AND request IS NOT NULL AND e IS NOT NULL),
                followed AS (
                    SELECT p.*, w.e AS until FROM posted p ASOF LEFT JOIN ends w
                    ON w.process = p.process AND w.request = p.request AND w.s >= p.e WHERE p.kind IS NOT NULL
                )
                SELECT process, thread, seq, CASE WHEN until IS NULL THEN function END AS function,
                       {_case("kind", MESSAGE_KINDS)} AS kind, CASE WHEN e IS NULL THEN 'unfinished' ELSE 'complete' END AS state,
                       CASE WHEN partner BETWEEN 0 AND 2147483647 THEN partner END::INTEGER AS partner,
                       kind < 2 AND partner < 0 AS nobody,
                       CASE WHEN tag BETWEEN -2147483648 AND 2147483647 THEN tag END::INTEGER AS tag,
                       coalesce(bytes, 0)::UBIGINT AS bytes, false AS on_device, {self._t("s")} AS start_ns,
                       {self._t("greatest(s, coalesce(until, e, s))")} AS end_ns
                FROM followed""",
        )
        self._fill(
            "counters",
            f"SELECT process, d.device, name, unit, {self._t('s')} AS time_ns, value FROM s_counts JOIN ps USING (p)"
            " LEFT JOIN ds d USING (process, dev)",
        )
        self._fill_python()

    def _fill_python(self) -> None:
        """Functions of Python: which one is in which follows from their times."""
        if not self._all("SELECT 1 FROM s_python LIMIT 1"):
            return
        order = "SELECT process, thread, s, greatest(s, e) AS e, name, source, line FROM s_python JOIN ts USING (p, t)"
        self._con.execute(f"""
            CREATE TABLE py AS SELECT row_number() OVER () AS rn, * FROM ({order} ORDER BY process, thread, s, e DESC)""")
        cursor = self._con.cursor().execute("SELECT process, thread, s, e FROM py ORDER BY rn")
        stack: list[tuple[int, int]] = []  # end, number
        inner: dict[int, int] = {}
        place = (0, 0)
        number = 0
        self._con.execute("CREATE TABLE nested (rn BIGINT, parent BIGINT, depth INTEGER)")
        while rows := cursor.fetchmany(1 << 16):
            out = []
            for process, thread, s, e in rows:
                number += 1
                if place != (process, thread):
                    place, stack = (process, thread), []
                while stack and (stack[-1][0] <= s or stack[-1][0] < e):
                    stack.pop()
                parent = stack[-1][1] if stack else None
                if parent is not None:
                    inner[parent] = inner.get(parent, 0) + e - s
                out.append((number, parent, len(stack)))
                stack.append((e, number))
            columns = list(zip(*out, strict=True))
            self._con.register(
                "batch",
                {
                    "rn": np.array(columns[0]),
                    "parent": np.array([-1 if v is None else v for v in columns[1]]),
                    "depth": np.array(columns[2]),
                },
            )
            self._con.execute("INSERT INTO nested SELECT rn, nullif(parent, -1), depth FROM batch")
            self._con.unregister("batch")
        self._con.execute("CREATE TABLE inners (rn BIGINT, ns BIGINT)")
        if inner:
            self._con.register("batch", {"rn": np.array(list(inner)), "ns": np.array(list(inner.values()))})
            self._con.execute("INSERT INTO inners SELECT rn, ns FROM batch")
            self._con.unregister("batch")
        self._fill(
            "python_calls",
            f"""SELECT process, thread, rn::UINTEGER AS number, parent::UINTEGER AS parent, 'function' AS kind, false AS failed,
                       depth::UINTEGER AS depth, name, source, line::UINTEGER AS line, {self._t("s")} AS start_ns,
                       {self._t("e")} AS end_ns, coalesce(i.ns, 0)::UBIGINT AS inner_ns
                FROM py JOIN nested USING (rn) LEFT JOIN inners i USING (rn)""",
        )

    def _write(self) -> None:
        self._folder.mkdir(mode=0o700)
        filled = {
            name
            for (name,) in self._all(" UNION ALL ".join(f"(SELECT '{t.name}' FROM {t.name} LIMIT 1)" for t in TABLES))
        }
        for table in TABLES:
            file = self._folder / f"{table.name}.parquet"
            if table.name in filled:
                self._con.execute(
                    f"COPY {table.name} TO {sql_text(str(file))} (FORMAT parquet, COMPRESSION zstd, COMPRESSION_LEVEL 1)"
                )
            else:
                empty.write(file, BY_NAME[table.name])
        self._write_calls()
        write_made(self._folder, Made(SCHEMA_VERSION, __version__))

    def _write_calls(self) -> None:
        """A dataset per function, as the single calls of a trace."""
        folder = self._folder / "calls"
        folder.mkdir(mode=0o700)
        own = {"args"} | {"f"}
        known = {
            "failed": "coalesce(c.failed, false)",
            "caller": "NULL",
            "error": "CASE WHEN c.failed THEN coalesce(x.error, c.code::VARCHAR) END",
            "start_ns": self._t("c.s"),
            "end_ns": self._t("greatest(c.s, c.e)"),
        }
        common = ", ".join(
            f"{known.get(c.name, f'c.{c.name}')}::{c.type} AS {c.name}" for c in CALLS.columns if c.name not in own
        )
        source = "FROM numbered c LEFT JOIN errors x USING (f, code)"
        simple: dict[bool, list[int]] = {}
        for number, api, key, _, of in self._functions:
            function = self._model.function(api, key)
            if api == "mpi" and function:
                self._write_messages(folder / f"{api}.{key}", number, function, common, source)
            else:
                simple.setdefault(self._staging.sources[of].codes, []).append(number)
        keys = {number: f"{api}.{key}" for number, api, key, _, _ in self._functions}
        self._con.execute(f"SET partitioned_write_flush_threshold = {_FLUSH_ROWS}")
        for codes, numbers in simple.items():
            args = ", {'ret': c.code} AS args" if codes else ""
            place = self._folder / ("calls.codes" if codes else "calls.plain")
            listed = ", ".join(map(str, numbers))
            self._con.execute(
                f"COPY (SELECT {common}{args}, c.f AS f {source} WHERE c.e IS NOT NULL AND c.f IN ({listed}))"
                f" TO {sql_text(str(place))} (FORMAT parquet, COMPRESSION zstd, COMPRESSION_LEVEL 1, PARTITION_BY (f))"
            )
            for part in place.glob("f=*"):
                part.rename(folder / keys[int(part.name.removeprefix("f="))])
            if place.is_dir():
                place.rmdir()
        with contextlib.suppress(PermissionError):  # a file system without modes
            for part in folder.iterdir():
                part.chmod(0o700)
                for file in part.iterdir():
                    file.chmod(0o600)

    def _write_messages(self, folder: Path, number: int, function: Function, common: str, source: str) -> None:
        there = ("bytes", "partner", "tag", "request")
        counts = ", ".join(f"count(m.{name})" for name in there)
        sql = f"SELECT {counts} FROM sorted c JOIN s_messages m USING (extra) WHERE c.f = {number}"
        known = self._all(sql)[0]
        # The timeline reads the partner of all functions that have one.
        given = {name for name, count in zip(there, known, strict=True) if count or name == "partner"}
        args = ", ".join(f"'{a.name}': m.{a.name}" for a in function.args if a.name in given)
        folder.mkdir(mode=0o700)
        file = sql_text(str(folder / "0000.parquet"))
        self._con.execute(
            f"COPY (SELECT {common}{f', {{{args}}} AS args' if args else ''} {source} LEFT JOIN s_messages m USING (extra)"
            f" WHERE c.e IS NOT NULL AND c.f = {number}) TO {file} (FORMAT parquet, COMPRESSION zstd, COMPRESSION_LEVEL 1)"
        )


def _unknown(staging: Staging, dev: int) -> Device:
    of_any = next(iter(staging.devices.values()), None)
    api, platform, vendor = (of_any.api, of_any.platform, of_any.vendor) if of_any else ("", "", "")
    return Device(f"device {dev}", api, platform, vendor)


def _case(column: str, names: tuple[str | None, ...]) -> str:
    """SQL: names of numbers."""
    whens = " ".join(f"WHEN {at} THEN {sql_text(name)}" for at, name in enumerate(names) if name is not None)
    return f"CASE {column} {whens} END"
