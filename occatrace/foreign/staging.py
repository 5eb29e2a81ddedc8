"""What the readers of foreign recordings fill: tables in which processes, threads and names have the numbers of the other tool."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from occatrace.core.duck import duckdb
from occatrace.core.sql import text as sql_text

# Kinds of device work and sides of copies, as numbers in the staging tables.
WORK_KINDS = ("kernel", "HtoD", "DtoH", "DtoD", "HtoH", "fill", "marker", "other")
KERNEL, HTOD, DTOH, DTOD, HTOH, FILL, MARKER, OTHER = range(8)
SIDES = (None, "pageable", "pinned", "device", "array", "managed", "peer")
NULL = -(1 << 63)  # of a column of numbers: there is no value
LARGEST = (1 << 32) - 1  # threads of a kernel: more are told as so many
PUSH, START, MARK = range(3)  # kinds of ranges
RANGE_KINDS = ("push", "start", "mark")
NO_NAME = "(no name)"  # of device work
# Kinds of messages.
MESSAGE_KINDS = ("send", "receive", "collective", "other")

_TABLES = {
    # id of the other tool, text
    "texts": "id BIGINT, text VARCHAR",
    # source: number in Staging.sources; e: null if the call never returned; extra: number of its message
    "calls": "p BIGINT, t BIGINT, s BIGINT, e BIGINT, source UTINYINT, fn BIGINT, corr BIGINT, code BIGINT, bytes BIGINT,"
    " extra BIGINT",
    # gx, gy, gz: threads of all groups; lx, ly, lz: of one
    "work": "p BIGINT, kind UTINYINT, name BIGINT, dev BIGINT, ctx BIGINT, stream BIGINT, corr BIGINT, s BIGINT, e BIGINT,"
    " bytes BIGINT, gx BIGINT, gy BIGINT, gz BIGINT, lx BIGINT, ly BIGINT, lz BIGINT, src UTINYINT, dst UTINYINT",
    "ranges": "p BIGINT, t BIGINT, s BIGINT, e BIGINT, kind UTINYINT, api VARCHAR, dom BIGINT, cat BIGINT, name VARCHAR,"
    " named BIGINT, color BIGINT, payload VARCHAR, et BIGINT",
    "domains": "p BIGINT, dom BIGINT, name VARCHAR",
    "categories": "p BIGINT, dom BIGINT, cat BIGINT, name VARCHAR",
    "waits": "p BIGINT, corr BIGINT, kind VARCHAR, dev BIGINT, ctx BIGINT, stream BIGINT, s BIGINT, e BIGINT",
    "memory": "p BIGINT, dev BIGINT, addr BIGINT, bytes BIGINT, kind VARCHAR, freed BOOLEAN, s BIGINT, corr BIGINT",
    "managed": "p BIGINT, kind VARCHAR, dev BIGINT, s BIGINT, e BIGINT, bytes BIGINT, count BIGINT, addr BIGINT",
    "messages": "extra BIGINT, kind UTINYINT, partner BIGINT, tag BIGINT, bytes BIGINT, request BIGINT",
    "python": "p BIGINT, t BIGINT, s BIGINT, e BIGINT, name VARCHAR, source VARCHAR, line BIGINT",
    "counts": "p BIGINT, dev BIGINT, name VARCHAR, unit VARCHAR, s BIGINT, value DOUBLE",
}
# Of each: the columns of begin and end.
SPANS = {
    **dict.fromkeys(("calls", "work", "ranges", "waits", "managed", "python"), ("s", "e")),
    **dict.fromkeys(("memory", "counts"), ("s", "s")),
}


@dataclass(frozen=True)
class Source:
    """Where calls come from. `api`: of all of its functions, or by the beginning of their names; `codes`: they have the value
    that they returned, and whether another one than 0 is a failure."""

    api: str
    prefixes: tuple[tuple[str, str], ...] = ()  # beginning of a name, API
    codes: bool = False
    fails: bool = False

    def api_of(self, function: str) -> str:
        """The API of a function."""
        return next((api for prefix, api in self.prefixes if function.startswith(prefix)), self.api)


@dataclass
class Process:
    """A process, as far as it is known."""

    pid: int
    exe: str = ""
    cmdline: str = ""
    ppid: int = 0
    host: str = ""
    rank: int | None = None
    size: int | None = None


@dataclass
class Device:
    """A device, as a process numbers it."""

    name: str
    api: str
    platform: str
    vendor: str


@dataclass
class Staging:
    """The staging tables in a DuckDB connection, and the things that rows refer to by the other tool's numbers."""

    con: duckdb.DuckDBPyConnection
    sources: list[Source] = field(default_factory=list)
    processes: dict[int, Process] = field(default_factory=dict)  # by p
    threads: dict[int, tuple[int, str]] = field(default_factory=dict)  # by t: thread id and name
    devices: dict[tuple[int | None, int], Device] = field(default_factory=dict)  # by p (None: of any) and number
    realtime_ns: int = 0  # wall clock at the zero of the times
    host: str = ""
    product: str = ""  # who wrote the file, and its version
    memory_api: str = "cuda"  # of memory whose call is not known
    program: tuple[str, ...] = ()
    notes: list[str] = field(default_factory=list)
    number: str = "id"  # SQL: the number of a text as the other tool writes it

    def __post_init__(self) -> None:
        for name, ddl in _TABLES.items():
            self.con.execute(f"CREATE TABLE s_{name} ({ddl})")

    def add(self, table: str, select: str, batch: Mapping[str, npt.NDArray[Any]]) -> None:
        """Rows: a SELECT over the columns of `batch`, by name."""
        self.con.register("batch", dict(batch))
        self.con.execute(f"INSERT INTO s_{table} BY NAME SELECT {select} FROM batch")
        self.con.unregister("batch")

    def note_reversed(self) -> None:
        """Say how much ends before it begins: it has no length."""
        spans = [name for name, (begin, end) in SPANS.items() if begin != end]
        union = " UNION ALL ".join(f"SELECT count(*) AS n FROM s_{name} WHERE e < s" for name in spans)
        number = int(self.con.execute(f"SELECT sum(n)::BIGINT FROM ({union})").fetchall()[0][0])
        if number:
            what = (
                "1 record ends before it begins and has"
                if number == 1
                else f"{number:,} records end before they begin and have"
            )
            self.notes.append(f"{what} no length")

    def name_by_number(self) -> None:
        """Name what refers to a text that the file does not have by the number of that text, and say so."""
        told, examples = [], []
        for what, name, table, column, where in (
            ("kernel", "kernel ", "work", "name", f"kind = {KERNEL}"),
            ("device record", "work ", "work", "name", f"kind = {OTHER}"),
            ("call", "function_", "calls", "fn", "true"),
            ("range", "range ", "ranges", "named", "name IS NULL"),
        ):
            self.con.execute(f"""
                CREATE OR REPLACE TEMP TABLE unknown AS
                SELECT id, {sql_text(name)} || ({self.number}) AS text, n
                FROM (SELECT {column} AS id, count(*) AS n FROM s_{table} WHERE {where} AND {column} IS NOT NULL GROUP BY 1)
                ANTI JOIN s_texts USING (id)""")
            rows = self.con.execute("SELECT text, n FROM unknown ORDER BY n DESC, text").fetchall()
            self.con.execute("INSERT INTO s_texts SELECT id, text FROM unknown")
            if rows:
                count = sum(int(n) for _, n in rows)
                told.append(f"{count:,} {what}{'' if count == 1 else 's'}")
                examples += [text for text, _ in rows[:3]]
        if told:
            self.notes.append(
                f"the file lacks the names of {' and '.join(told)}: named by number ({', '.join(examples)})"
            )

    def add_all(self, table: str, select: str, batches: Iterable[Mapping[str, npt.NDArray[Any]]]) -> None:
        """Rows of many batches: each is inserted while the next one is read."""
        with ThreadPoolExecutor(1) as worker:
            pending: Future[None] | None = None
            for batch in batches:
                if pending:
                    pending.result()
                pending = worker.submit(self.add, table, select, batch)
            if pending:
                pending.result()

    def fill(self, table: str, names: str, rows: list[tuple[Any, ...]]) -> None:
        """A few rows."""
        if rows:
            arrays = {
                name: np.array(values, object if None in values or isinstance(values[0], str) else None)
                for name, values in zip(names.split(), zip(*rows, strict=True), strict=True)
            }
            self.add(table, "*", arrays)
