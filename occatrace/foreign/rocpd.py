"""SQLite files of AMD's rocprofv3 (rocpd), by its documented schema 3: one set of tables per process, or several merged."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

from occatrace.core.checked import printable
from occatrace.errors import RunError
from occatrace.foreign import staging as of
from occatrace.foreign.sqlite import Column, Database, columns
from occatrace.foreign.staging import NULL, Device, Process, Source, Staging
from occatrace.run import ranks

NAME = "rocpd"
_TABLE = re.compile(r"(rocpd_[a-z]+(?:_[a-z]+)*?)((?:_[0-9a-f]{4,}[0-9a-f_]*)?)")
_KNOWN = (
    *(
        "rocpd_metadata",
        "rocpd_string",
        "rocpd_info_node",
        "rocpd_info_process",
        "rocpd_info_thread",
        "rocpd_info_agent",
    ),
    *("rocpd_info_queue", "rocpd_info_stream", "rocpd_info_pmc", "rocpd_info_code_object", "rocpd_info_kernel_symbol"),
    *(
        "rocpd_track",
        "rocpd_event",
        "rocpd_arg",
        "rocpd_pmc_event",
        "rocpd_region",
        "rocpd_sample",
        "rocpd_kernel_dispatch",
    ),
    *("rocpd_memory_copy", "rocpd_memory_allocate"),
)
EVENTS = ("rocpd_region", "rocpd_kernel_dispatch", "rocpd_memory_copy", "rocpd_memory_allocate")
_SHIFT = 40  # ids of the sets of tables are apart by so many bits
_VENDOR, _PLATFORM = "Advanced Micro Devices, Inc.", "AMD ROCm"
_API = re.compile(r"[A-Z]{2,12}")

_REGION = columns("pid! tid! start:time! end:time! name_id! event_id")
_DISPATCH = columns(
    "pid! agent_id! kernel_id! queue_id stream_id start:time! end:time! workgroup_size_x workgroup_size_y workgroup_size_z"
    " grid_size_x grid_size_y grid_size_z event_id"
)
_COPY = columns("pid! start:time! end:time! name_id! dst_agent_id src_agent_id size:size! queue_id stream_id event_id")
_ALLOCATE = columns("pid! agent_id type:text level:text start:time! end:time! address size:size! event_id")
_EVENT = columns("id! category_id stack_id")
_MESSAGE = columns("id! extdata:text")


def is_one(tables: frozenset[str]) -> bool:
    """Whether a database with these tables is a rocpd file."""
    return any(_split(table)[0] == "rocpd_string" for table in tables)


def _split(table: str) -> tuple[str, str]:
    """Name and suffix of a table: only letters, digits and underscores."""
    found = _TABLE.fullmatch(table)
    return (found[1], found[2]) if found else (table, "")


def read(db: Database, into: Staging) -> None:
    """Fill the staging tables. Raises a RunError for what means nothing."""
    into.product, into.memory_api = "rocprofv3", "hip"
    into.number = f"(CASE WHEN id < 0 THEN -1 - id ELSE id END) & {(1 << _SHIFT) - 1}"
    sets: dict[str, set[str]] = {}
    for table in db.tables:
        name, suffix = _split(table)
        sets.setdefault(suffix, set()).add(name)
    whole = {suffix: names for suffix, names in sets.items() if "rocpd_string" in names}
    if not any(name in names for names in whole.values() for name in EVENTS):
        raise RunError(f"a rocpd file without any table of events that is known: one of {', '.join(EVENTS)} is needed")
    into.con.execute("CREATE TABLE events (id BIGINT, category BIGINT, stack BIGINT)")
    into.con.execute("CREATE TABLE marker_texts (id BIGINT, text VARCHAR)")
    into.con.execute("CREATE TABLE agents (id BIGINT, gpu BOOLEAN)")
    rows = 0
    for number, suffix in enumerate(sorted(whole)):
        part = _Set(db, into, suffix, whole[suffix], number << _SHIFT)
        part.read()
        rows += part.left
    if rows:
        into.notes.append(f"not imported: {rows:,} rows of rocpd_memory_allocate (virtual, scratch, reclaimed)")
    left = sorted(
        {name for suffix, names in sets.items() for name in names if suffix not in whole or name not in _KNOWN}
    )
    left = [name for name in left if not name.startswith("sqlite_")]
    if left:
        shown = ", ".join(printable(name)[:60] for name in left[:12])
        into.notes.append(f"not imported: {shown}{f' and {len(left) - 12} more tables' if len(left) > 12 else ''}")


def _null(column: str) -> str:
    return f"nullif({column}, {NULL + 1} - 1)"


class _Set:
    """The tables of one suffix."""

    def __init__(self, db: Database, into: Staging, suffix: str, there: set[str], base: int) -> None:
        self._db = db
        self._into = into
        self._suffix = suffix
        self._there = there
        self._base = base
        self.left = 0  # rows of rocpd_memory_allocate

    def _rows(self, table: str, wanted: str) -> Iterator[tuple[Any, ...]]:
        if table in self._there:
            yield from self._db.rows(table + self._suffix, columns(wanted))

    def _load(self, table: str, wanted: tuple[Column, ...], into: str, select: str, where: str = "") -> None:
        con = self._into.con
        if table in self._there:
            for batch in self._db.batches(table + self._suffix, wanted, where):
                con.register("batch", batch)
                con.execute(f"INSERT INTO {into} BY NAME SELECT {select} FROM batch")
                con.unregister("batch")

    def read(self) -> None:
        """Names and things, then events."""
        for name in ("rocpd_info_process", "rocpd_info_kernel_symbol", "rocpd_event"):
            if name not in self._there:
                raise RunError(f"a rocpd file without the table {name}{self._suffix}")
        con, base = self._into.con, self._base
        con.execute("DELETE FROM events")
        con.execute("DELETE FROM marker_texts")
        con.execute("DELETE FROM agents")
        self._load("rocpd_string", columns("id! string:text!"), "s_texts", f"id + {base} AS id, string AS text")
        # A kernel's own name, without the suffix of its descriptor; below zero, as it is no row of rocpd_string.
        self._load(
            "rocpd_info_kernel_symbol",
            columns("id! kernel_name:text display_name:text"),
            "s_texts",
            f"-1 - (id + {base}) AS id, coalesce(regexp_replace(kernel_name, '[.]kd$', ''), display_name, '') AS text",
        )
        self._things()
        self._load(
            "rocpd_event", _EVENT, "events", f"id, {_null('category_id')} AS category, {_null('stack_id')} AS stack"
        )
        self._regions()
        self._work()

    def _things(self) -> None:
        into, base = self._into, self._base
        hosts = dict(self._rows("rocpd_info_node", "id! hostname:text"))
        for number, node, parent, pid, command, environment in self._rows(
            "rocpd_info_process", "id! nid ppid pid! command:text environment:text"
        ):
            process = Process(int(pid) & 0xFFFF_FFFF, _program(command), str(command or ""))
            process.ppid = int(parent or 0) & 0xFFFF_FFFF
            process.host = printable(str(hosts.get(node) or ""))[:200]
            process.rank, process.size = _rank(environment)
            into.processes[base + number] = process
            into.host = into.host or process.host
            into.program = into.program or tuple((command or "").split()[:1])
        for number, tid, name in self._rows("rocpd_info_thread", "id! tid! name:text"):
            into.threads[base + number] = (int(tid) & 0xFFFF_FFFF, name or "")
        rows = []
        for number, kind, *names in self._rows(
            "rocpd_info_agent", "id! type:text product_name:text model_name:text name:text"
        ):
            device = Device(next(filter(None, names), f"agent {number}"), "hip", _PLATFORM, _VENDOR)
            rows.append((number, kind == "GPU"))
            for p in into.processes:
                if p >> _SHIFT == base >> _SHIFT:
                    into.devices[p, number] = device
        if rows:
            into.con.executemany("INSERT INTO agents VALUES (?, ?)", rows)

    def _regions(self) -> None:
        """Calls, and ranges of ROCTX, which are regions too."""
        con, into, base = self._into.con, self._into, self._base
        con.execute(
            "CREATE OR REPLACE TEMP TABLE regions (p BIGINT, t BIGINT, s BIGINT, e BIGINT, name BIGINT, event BIGINT)"
        )
        select = (
            f'pid + {base} AS p, tid + {base} AS t, start AS s, "end" AS e, name_id + {base} AS name, event_id AS event'
        )
        self._load("rocpd_region", _REGION, "regions", select)
        categories = con.execute(
            "SELECT DISTINCT v.category, x.text FROM regions r LEFT JOIN events v ON v.id = r.event"
            f" LEFT JOIN s_texts x ON x.id = v.category + {base}"
        ).fetchall()
        markers, sources = [], []
        for category, text in categories:
            found = _API.match(text or "")
            if text and text.startswith("MARKER"):
                markers.append(category)
                continue
            source = Source(found[0].lower() if found else "other", (("hip", "hip"), ("hsa_", "hsa")))
            if source not in into.sources:
                into.sources.append(source)
            sources.append((category, into.sources.index(source)))
        listed = ", ".join(map(str, markers)) or "NULL"
        if markers:
            # Their text is in the JSON of the event.
            for batch in self._db.batches(f"rocpd_event{self._suffix}", _MESSAGE, f"category_id IN ({listed})"):
                rows = [
                    (int(i), text)
                    for i, raw in zip(batch["id"], batch["extdata"], strict=True)
                    if (text := _message(raw))
                ]
                if rows:
                    con.executemany("INSERT INTO marker_texts VALUES (?, ?)", rows)
        con.execute("CREATE OR REPLACE TEMP TABLE sources (category BIGINT, source UTINYINT)")
        if sources:
            con.executemany("INSERT INTO sources VALUES (?, ?)", sources)
        con.execute(
            "INSERT INTO s_calls BY NAME SELECT p, t, s, e, k.source, r.name AS fn, v.stack AS corr FROM regions r"
            " LEFT JOIN events v ON v.id = r.event JOIN sources k ON k.category IS NOT DISTINCT FROM v.category"
        )
        con.execute(f"""
            INSERT INTO s_ranges BY NAME
            SELECT p, t, s, e, CASE WHEN regexp_matches(x.text, '(?i)process|start') THEN {of.START}
                                    WHEN regexp_matches(x.text, '(?i)mark') THEN {of.MARK} ELSE {of.PUSH} END AS kind,
                   'roctx' AS api, 0 AS dom, coalesce(d.text, x.text) AS name
            FROM regions r JOIN events v ON v.id = r.event LEFT JOIN marker_texts d ON d.id = v.id LEFT JOIN s_texts x ON x.id = r.name
            WHERE v.category IN ({listed})""")
        con.execute("DROP TABLE regions")

    def _work(self) -> None:
        con, base = self._into.con, self._base
        queue = f"coalesce({_null('stream_id')}, {_null('queue_id')}) AS stream"
        common = f'pid + {base} AS p, start AS s, "end" AS e, {_null("event_id")} AS event'
        con.execute(
            "CREATE OR REPLACE TEMP TABLE raw AS SELECT *, 0::BIGINT AS event, 0::BIGINT AS source FROM s_work LIMIT 0"
        )
        sizes = ", ".join(
            f"{_null(f'grid_size_{axis}')} AS g{axis}, {_null(f'workgroup_size_{axis}')} AS l{axis}" for axis in "xyz"
        )
        select = f"{common}, {of.KERNEL} AS kind, -1 - (kernel_id + {base}) AS name, agent_id AS dev, {queue}, {sizes}"
        self._load("rocpd_kernel_dispatch", _DISPATCH, "raw", select)
        target, source = _null("dst_agent_id"), _null("src_agent_id")
        select = f"{common}, {of.OTHER} AS kind, name_id + {base} AS name, {target} AS dev, {source} AS source, {queue}, size AS bytes"
        self._load("rocpd_memory_copy", _COPY, "raw", select)
        known = (
            ("HOST_TO_DEVICE", of.HTOD),
            ("DEVICE_TO_HOST", of.DTOH),
            ("DEVICE_TO_DEVICE", of.DTOD),
            ("HOST_TO_HOST", of.HTOH),
            ("FILL", of.FILL),
        )
        kinds = " ".join(f"WHEN contains(x.text, '{text}') THEN {kind}" for text, kind in known)
        # A copy is work of the device that it leaves, where its target is the host.
        con.execute(f"""
            INSERT INTO s_work BY NAME
            SELECT r.* EXCLUDE (event, source, kind, dev, corr), v.stack AS corr,
                   CASE WHEN r.kind = {of.KERNEL} THEN r.kind {kinds} ELSE r.kind END AS kind,
                   CASE WHEN r.kind = {of.KERNEL} OR g.gpu THEN r.dev ELSE coalesce(h.id, r.dev) END AS dev
            FROM raw r LEFT JOIN events v ON v.id = r.event LEFT JOIN s_texts x ON x.id = r.name
            LEFT JOIN agents g ON g.id = r.dev LEFT JOIN agents h ON h.id = r.source AND h.gpu""")
        con.execute(
            "CREATE OR REPLACE TEMP TABLE raw AS SELECT *, '' AS type, '' AS level, 0::BIGINT AS event FROM s_memory LIMIT 0"
        )
        select = (
            f'pid + {base} AS p, "end" AS s, {_null("event_id")} AS event, {_null("agent_id")} AS dev, {_null("address")} AS addr,'
            " size AS bytes, type, level"
        )
        self._load("rocpd_memory_allocate", _ALLOCATE, "raw", select)
        con.execute("""
            INSERT INTO s_memory BY NAME
            SELECT p, addr, bytes, s, CASE WHEN g.gpu THEN 'device' ELSE 'host' END AS kind, type = 'FREE' AS freed, v.stack AS corr,
                   CASE WHEN g.gpu THEN dev END AS dev
            FROM raw r LEFT JOIN events v ON v.id = r.event LEFT JOIN agents g ON g.id = r.dev
            WHERE level = 'REAL' AND type IN ('ALLOC', 'FREE')""")
        left = con.execute(
            "SELECT count(*) FROM raw WHERE NOT coalesce(level = 'REAL' AND type IN ('ALLOC', 'FREE'), false)"
        )
        self.left = int(left.fetchall()[0][0])
        # Counters of the kernels, at the beginning of each.
        names = {}
        for number, name, unit in self._rows("rocpd_info_pmc", "id! name:text! units:text"):
            names[number] = (name, unit or "")
        if names and "rocpd_pmc_event" in self._there:
            con.execute("CREATE OR REPLACE TEMP TABLE pmcs (id BIGINT, name VARCHAR, unit VARCHAR)")
            con.executemany("INSERT INTO pmcs VALUES (?, ?, ?)", [(number, *text) for number, text in names.items()])
            con.execute("CREATE OR REPLACE TEMP TABLE values_of (event BIGINT, pmc BIGINT, value DOUBLE)")
            select = f"{_null('event_id')} AS event, pmc_id AS pmc, try_cast(value AS DOUBLE) AS value"
            self._load("rocpd_pmc_event", columns("event_id pmc_id! value:any"), "values_of", select)
            con.execute("CREATE OR REPLACE TEMP TABLE moments (event BIGINT, p BIGINT, dev BIGINT, s BIGINT)")
            select = f"event_id AS event, pid + {base} AS p, agent_id AS dev, start AS s"
            self._load("rocpd_kernel_dispatch", _DISPATCH, "moments", select)
            con.execute(
                "INSERT INTO s_counts BY NAME SELECT m.p, m.dev, n.name, n.unit, m.s, v.value"
                " FROM values_of v JOIN moments m USING (event) JOIN pmcs n ON n.id = v.pmc WHERE v.value IS NOT NULL"
            )


def _program(command: str | None) -> str:
    return (command or "").split(" ", 1)[0]


def _object(raw: str | None) -> dict[str, Any]:
    try:
        data = json.loads(raw or "{}")
    except (ValueError, RecursionError):
        return {}
    return data if isinstance(data, dict) else {}


def _message(raw: str | None) -> str | None:
    text = _object(raw).get("message")
    return text if isinstance(text, str) and text else None


def _rank(environment: str | None) -> tuple[int | None, int | None]:
    """Rank and size by the variables of the launcher."""
    place = ranks.place({name: str(value) for name, value in _object(environment).items()})
    return place.rank, place.size
