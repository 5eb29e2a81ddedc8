"""A run as a rocpd file: the SQLite tables of AMD's rocprofv3, by its documented schema 3, for tools that read these.

Names of tables and columns: source/share/rocprofiler-sdk-rocpd in ROCm/rocprofiler-sdk. `occatrace.foreign.rocpd` reads them.
"""

from __future__ import annotations

import hashlib
import json
import sqlite3
from pathlib import Path
from typing import Any

from occatrace import __version__
from occatrace.core import naming
from occatrace.core.sql import name as sql_name
from occatrace.errors import StoreError
from occatrace.store.tables import Store
from occatrace.views.plots import data

SCHEMA = 3
_FETCH = 8192
_WHO = "nid INTEGER NOT NULL, pid INTEGER NOT NULL"
_SPAN = "start BIGINT NOT NULL, end BIGINT NOT NULL"
_LANE = "queue_id INTEGER, stream_id INTEGER"
_SIZES = ", ".join(f"{what}_size_{axis} INTEGER NOT NULL" for what in ("workgroup", "grid") for axis in "xyz")
# Beside `id`, `guid` and, except in the tables of _BARE, `extdata`.
_TABLES = {
    "metadata": "tag TEXT NOT NULL, value TEXT NOT NULL",
    "string": "string TEXT NOT NULL UNIQUE",
    "info_node": "hash BIGINT NOT NULL, machine_id TEXT NOT NULL, system_name TEXT, hostname TEXT, release TEXT, version TEXT,"
    " hardware_name TEXT, domain_name TEXT",
    "info_process": "nid INTEGER NOT NULL, ppid INTEGER, pid INTEGER NOT NULL, init BIGINT, fini BIGINT, start BIGINT,"
    " end BIGINT, command TEXT, environment JSONB NOT NULL DEFAULT '{}'",
    "info_thread": "nid INTEGER NOT NULL, ppid INTEGER, pid INTEGER NOT NULL, tid INTEGER NOT NULL, name TEXT, start BIGINT,"
    " end BIGINT",
    "info_agent": f"{_WHO}, type TEXT, absolute_index INTEGER, logical_index INTEGER, type_index INTEGER, uuid INTEGER,"
    " name TEXT, model_name TEXT, vendor_name TEXT, product_name TEXT, user_name TEXT",
    "info_queue": f"{_WHO}, name TEXT",
    "info_stream": f"{_WHO}, name TEXT",
    "info_pmc": f"{_WHO}, agent_id INTEGER, target_arch TEXT, event_code INTEGER, instance_id INTEGER, name TEXT NOT NULL,"
    " symbol TEXT NOT NULL, description TEXT, long_description TEXT, component TEXT, units TEXT, value_type TEXT, block TEXT,"
    " expression TEXT, is_constant INTEGER, is_derived INTEGER",
    "info_code_object": f"{_WHO}, agent_id INTEGER, uri TEXT, load_base BIGINT, load_size BIGINT, load_delta BIGINT,"
    " storage_type TEXT",
    "info_kernel_symbol": f"{_WHO}, code_object_id INTEGER NOT NULL, kernel_name TEXT, display_name TEXT, kernel_object INTEGER,"
    " kernarg_segment_size INTEGER, kernarg_segment_alignment INTEGER, group_segment_size INTEGER, private_segment_size INTEGER,"
    " sgpr_count INTEGER, arch_vgpr_count INTEGER, accum_vgpr_count INTEGER",
    "track": "nid INTEGER NOT NULL, pid INTEGER, tid INTEGER, name_id INTEGER",
    "event": "category_id INTEGER, stack_id INTEGER, parent_stack_id INTEGER, correlation_id INTEGER,"
    " call_stack JSONB NOT NULL DEFAULT '{}', line_info JSONB NOT NULL DEFAULT '{}'",
    "arg": "event_id INTEGER NOT NULL, position INTEGER NOT NULL, type TEXT NOT NULL, name TEXT NOT NULL, value TEXT",
    "pmc_event": "event_id INTEGER, pmc_id INTEGER NOT NULL, value REAL DEFAULT 0.0",
    "region": f"{_WHO}, tid INTEGER NOT NULL, {_SPAN}, name_id INTEGER NOT NULL, event_id INTEGER",
    "sample": "track_id INTEGER NOT NULL, timestamp BIGINT NOT NULL, event_id INTEGER",
    "kernel_dispatch": f"{_WHO}, tid INTEGER, agent_id INTEGER NOT NULL, kernel_id INTEGER NOT NULL,"
    " dispatch_id INTEGER NOT NULL, queue_id INTEGER NOT NULL, stream_id INTEGER NOT NULL, "
    + _SPAN
    + ", private_segment_size"
    f" INTEGER, group_segment_size INTEGER, {_SIZES}, region_name_id INTEGER, event_id INTEGER",
    "memory_copy": f"{_WHO}, tid INTEGER, {_SPAN}, name_id INTEGER NOT NULL, dst_agent_id INTEGER, dst_address INTEGER,"
    f" src_agent_id INTEGER, src_address INTEGER, size INTEGER NOT NULL, {_LANE}, region_name_id INTEGER, event_id INTEGER",
    "memory_allocate": f"{_WHO}, tid INTEGER, agent_id INTEGER, type TEXT, level TEXT, {_SPAN}, address INTEGER,"
    f" size INTEGER NOT NULL, {_LANE}, event_id INTEGER",
}
_BARE = ("metadata", "string")
_KERNEL, _COPY, _MEMORY, _RANGE = "KERNEL_DISPATCH", "MEMORY_COPY", "MEMORY_ALLOCATION", "MARKER_CORE_RANGE_API"
_RANGES = {"push": "roctxThreadRangeA", "start": "roctxProcessRangeA", "mark": "roctxMarkA"}
_COPIES = {
    "HtoD": "MEMORY_COPY_HOST_TO_DEVICE",
    "DtoH": "MEMORY_COPY_DEVICE_TO_HOST",
    "DtoD": "MEMORY_COPY_DEVICE_TO_DEVICE",
    "HtoH": "MEMORY_COPY_HOST_TO_HOST",
    "fill": "MEMORY_FILL",
}
_HOST = 1 << 30  # agents and queues from here on: the host's of each process, by its number


def write(store: Store, file: Path) -> int:
    """Write the file; returns how many calls, ranges, pieces of device work and changes of memory it has.

    Times are those of the run (ns). Raises a StoreError where there are none.
    """
    with sqlite3.connect(file) as db:
        count = _Writer(store, db).write()
    db.close()
    if not count:
        raise StoreError("nothing to write: no calls, ranges, device work or memory were recorded")
    return count


class _Writer:
    def __init__(self, store: Store, db: sqlite3.Connection) -> None:
        self._con, self._db = store.con, db
        store.functions()
        data.prepare(store.con)
        ids = store.con.execute("SELECT run FROM processes ORDER BY process LIMIT 1").fetchall()
        digest = hashlib.blake2b(str(ids).encode(), digest_size=16).hexdigest()
        self._guid = "-".join((digest[:8], digest[8:12], digest[12:16], digest[16:20], digest[20:]))
        self._suffix = "_" + self._guid.replace("-", "_")

    def write(self) -> int:
        self._create()
        self._stage()
        self._things()
        for table, select in _EVENTS.items():
            self._copy(table, select)
        return self._count("event")

    def _create(self) -> None:
        """Tables, each with the suffix of the recording, and views of their plain names."""
        for name, columns in _TABLES.items():
            quoted = ", ".join(_quoted(column) for column in columns.split(", "))
            guid = "" if name == "metadata" else f"\"guid\" TEXT NOT NULL DEFAULT '{self._guid}', "
            rest = "" if name in _BARE else ", \"extdata\" JSONB NOT NULL DEFAULT '{}'"
            table = sql_name(f"rocpd_{name}{self._suffix}")
            self._db.execute(
                f'CREATE TABLE {table} ("id" INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT, {guid}{quoted}{rest})'
            )
            self._db.execute(f"CREATE VIEW rocpd_{name} AS SELECT * FROM {table}")

    def _count(self, table: str) -> int:
        ((count,),) = self._db.execute(f"SELECT count(*) FROM rocpd_{table}").fetchall()
        return int(count)

    def _copy(self, table: str, select: str) -> None:
        """The rows of a SELECT; its columns have the names of the table's."""
        cursor = self._con.execute(select)
        names = [column[0] for column in cursor.description or ()]
        into = f"{sql_name(f'rocpd_{table}{self._suffix}')} ({', '.join(map(sql_name, names))})"
        marks = ", ".join("?" * len(names))
        while rows := cursor.fetchmany(_FETCH):
            self._db.executemany(f"INSERT INTO {into} VALUES ({marks})", rows)

    def _insert(self, table: str, names: str, rows: list[tuple[Any, ...]]) -> None:
        columns = [sql_name(name) for name in names.split()]
        into = f"{sql_name(f'rocpd_{table}{self._suffix}')} ({', '.join(columns)})"
        self._db.executemany(f"INSERT INTO {into} VALUES ({', '.join('?' * len(columns))})", rows)

    def _stage(self) -> None:
        """Temporary tables: numbered calls, work, ranges, memory, and the texts that they refer to."""
        for name, select in _STAGED.items():
            self._con.execute(f"CREATE OR REPLACE TEMP TABLE rocpd_{name} AS {select}")

    def _things(self) -> None:
        """Names, processes, threads, devices, queues and kernels."""
        version = [("schema_version", str(SCHEMA)), ("uuid", self._suffix), ("guid", self._guid)]
        self._insert("metadata", "tag value", [*version, ("generator", f"occatrace {__version__}")])
        self._copy("string", "SELECT id, text AS string FROM rocpd_texts ORDER BY id")
        self._copy(
            "info_node", "SELECT id, id AS hash, host AS machine_id, host AS hostname FROM rocpd_nodes ORDER BY id"
        )
        rows = self._con.execute(
            "SELECT process, n.id, ppid, pid, start_ns::BIGINT, end_ns::BIGINT, cmdline, rank, size"
            " FROM processes JOIN rocpd_nodes n USING (host) ORDER BY process"
        ).fetchall()
        # A recording has the rank in the variables of its launcher: here in those of PMI.
        environment = [
            json.dumps(
                {key: str(value) for key, value in (("PMI_RANK", rank), ("PMI_SIZE", size)) if value is not None}
            )
            for *_, rank, size in rows
        ]
        self._insert(
            "info_process",
            "id nid ppid pid start end command environment",
            [(*row[:7], variables) for row, variables in zip(rows, environment, strict=True)],
        )
        for table, select in _THINGS.items():
            self._copy(table, select)
        kernels = self._con.execute(
            "SELECT id, nid, process, name FROM rocpd_kernels JOIN rocpd_places USING (process) ORDER BY id"
        ).fetchall()
        self._insert(
            "info_kernel_symbol",
            "id nid pid code_object_id kernel_name display_name",
            [(number, node, p, p, name, naming.demangled(name)) for number, node, p, name in kernels],
        )


def _quoted(column: str) -> str:
    name, _, rest = column.partition(" ")
    return f'"{name}" {rest}'


def _case(column: str, names: dict[str, str]) -> str:
    whens = " ".join(f"WHEN '{key}' THEN '{text}'" for key, text in names.items())
    return f"CASE {column} {whens} ELSE {column} END"


# Events are numbered: calls, then ranges, device work and memory.
_STAGED = {
    "nodes": "SELECT row_number() OVER (ORDER BY host) AS id, host FROM (SELECT DISTINCT host FROM processes)",
    "places": "SELECT process, id AS nid FROM processes JOIN rocpd_nodes USING (host)",
    "calls": "SELECT row_number() OVER (ORDER BY thread, seq) AS event, process, thread, seq, start_ns AS s,"
    " greatest(start_ns, end_ns) AS e, upper(api) || '_API' AS category, function AS name FROM calls",
    "ranges": f"""
        SELECT row_number() OVER (ORDER BY r.start_ns, r.seq) + (SELECT count(*) FROM rocpd_calls) AS event, r.process, r.thread,
               r.start_ns AS s, greatest(coalesce(r.end_ns, p.end_ns), r.start_ns) AS e, r.name AS message,
               {_case("r.kind", _RANGES)} AS name
        FROM ranges r JOIN processes p USING (process)""",
    "kernels": "SELECT row_number() OVER (ORDER BY process, name) AS id, process, name"
    " FROM (SELECT DISTINCT process, name FROM activities WHERE kind = 'kernel')",
    "work": f"""
        SELECT row_number() OVER (ORDER BY a.start_ns) + (SELECT count(*) FROM rocpd_calls) + (SELECT count(*) FROM rocpd_ranges)
               AS event, a.process, coalesce(a.thread, {_HOST} + a.process) AS thread, coalesce(c.event, 0) AS stack, a.kind,
               {_case("a.kind", _COPIES)} AS name, k.id AS kernel, coalesce(a.device, {_HOST} + a.process) AS device,
               {_HOST} + a.process AS host, coalesce(a.queue, {_HOST} + a.process) AS queue, a.start_ns AS s,
               greatest(a.start_ns, a.end_ns) AS e, a.bytes, gx, gy, gz, lx, ly, lz
        FROM activities a LEFT JOIN rocpd_calls c ON c.thread = a.thread AND c.seq = a.seq
        LEFT JOIN rocpd_kernels k ON a.kind = 'kernel' AND k.process = a.process AND k.name = a.name""",
    # Allocated when the call returns; freed when the freeing call begins.
    "memory": """
        WITH held AS (
            SELECT h.*, coalesce(c.event, 0) AS stack FROM held_memory h LEFT JOIN rocpd_calls c USING (thread, seq)
        )
        SELECT row_number() OVER (ORDER BY e, type DESC) + (SELECT count(*) FROM rocpd_calls)
               + (SELECT count(*) FROM rocpd_ranges) + (SELECT count(*) FROM rocpd_work) AS event, *
        FROM (SELECT process, thread, stack, 'ALLOC' AS type, since - least(call_ns, since) AS s, since AS e, bytes, handle, device
              FROM held UNION ALL SELECT process, thread, 0, 'FREE', until, until, 0, handle, device FROM held
              WHERE until IS NOT NULL)""",
    "texts": f"""
        SELECT row_number() OVER (ORDER BY text) AS id, text FROM (
            SELECT DISTINCT unnest([category, name]) AS text FROM rocpd_calls UNION SELECT name FROM rocpd_ranges
            UNION SELECT name FROM rocpd_work WHERE kind <> 'kernel'
            UNION SELECT unnest(['', '{_KERNEL}', '{_COPY}', '{_MEMORY}', '{_RANGE}']))""",
}
_THINGS = {
    "info_thread": f"""
        SELECT thread AS id, nid, t.process AS pid, tid, name, t.start_ns::BIGINT AS start, t.end_ns::BIGINT AS "end"
        FROM threads t JOIN rocpd_places p ON p.process = t.process
        UNION ALL SELECT {_HOST} + process, nid, process, pid, '(not known)', NULL, NULL
        FROM processes JOIN rocpd_places USING (process)
        WHERE process IN (SELECT process FROM rocpd_work WHERE thread >= {_HOST})""",
    "info_agent": f"""
        SELECT device AS id, nid, process AS pid, 'GPU' AS type, device - 1 AS absolute_index, id - 1 AS logical_index,
               id - 1 AS type_index, device AS uuid, name, name AS model_name, vendor AS vendor_name, name AS product_name
        FROM devices JOIN rocpd_places USING (process)
        UNION ALL SELECT {_HOST} + process, nid, process, 'CPU', {_HOST} + process, 0, 0, {_HOST} + process, 'host', 'host', '', 'host'
        FROM rocpd_places""",
    "info_queue": f"""
        SELECT queue AS id, nid, process AS pid, 'queue ' || id AS name FROM queues JOIN rocpd_places USING (process)
        UNION ALL SELECT {_HOST} + process, nid, process, '(not known)' FROM rocpd_places""",
    "info_stream": f"""
        SELECT queue AS id, nid, process AS pid, 'stream ' || id AS name FROM queues JOIN rocpd_places USING (process)
        UNION ALL SELECT {_HOST} + process, nid, process, '(not known)' FROM rocpd_places""",
    "info_code_object": "SELECT process AS id, nid, process AS pid FROM rocpd_places"
    " WHERE process IN (SELECT process FROM rocpd_kernels)",
}


def _id(text: str) -> str:
    return f"(SELECT id FROM rocpd_texts WHERE text = '{text}')"


_OF = "JOIN rocpd_places USING (process)"
_TEXT = "JOIN rocpd_texts t ON t.text = name"
_SPAN_OF = 's::BIGINT AS start, e::BIGINT AS "end"'
_EVENTS = {
    "event": f"""
        SELECT event AS id, t.id AS category_id, event AS stack_id, 0 AS parent_stack_id, 0 AS correlation_id, '{{}}' AS extdata
        FROM rocpd_calls JOIN rocpd_texts t ON t.text = category
        UNION ALL SELECT event, {_id(_RANGE)}, event, 0, 0, json_object('message', message)::VARCHAR FROM rocpd_ranges
        UNION ALL SELECT event, CASE kind WHEN 'kernel' THEN {_id(_KERNEL)} ELSE {_id(_COPY)} END, stack, 0, stack, '{{}}'
        FROM rocpd_work
        UNION ALL SELECT event, {_id(_MEMORY)}, stack, 0, stack, '{{}}' FROM rocpd_memory""",
    "region": f"""
        SELECT nid, process AS pid, thread AS tid, {_SPAN_OF}, t.id AS name_id, event AS event_id FROM rocpd_calls {_OF} {_TEXT}
        UNION ALL SELECT nid, process, thread, s::BIGINT, e::BIGINT, t.id, event FROM rocpd_ranges {_OF} {_TEXT}""",
    "kernel_dispatch": f"""
        SELECT nid, process AS pid, thread AS tid, device AS agent_id, kernel AS kernel_id,
               row_number() OVER (ORDER BY event) AS dispatch_id, queue AS queue_id, queue AS stream_id, {_SPAN_OF},
               lx AS workgroup_size_x, ly AS workgroup_size_y, lz AS workgroup_size_z, gx AS grid_size_x, gy AS grid_size_y,
               gz AS grid_size_z, {_id("")} AS region_name_id, event AS event_id
        FROM rocpd_work {_OF} WHERE kind = 'kernel'""",
    "memory_copy": f"""
        SELECT nid, process AS pid, thread AS tid, {_SPAN_OF}, t.id AS name_id,
               CASE WHEN kind IN ('DtoH', 'HtoH') THEN host ELSE device END AS dst_agent_id,
               CASE WHEN kind IN ('DtoH', 'DtoD') THEN device ELSE host END AS src_agent_id, bytes::BIGINT AS size,
               queue AS queue_id, queue AS stream_id, event AS event_id
        FROM rocpd_work {_OF} {_TEXT} WHERE kind <> 'kernel'""",
    "memory_allocate": f"""
        SELECT nid, process AS pid, thread AS tid, coalesce(device, {_HOST} + process) AS agent_id, type, 'REAL' AS level, {_SPAN_OF},
               (handle & 9223372036854775807)::BIGINT AS address, bytes AS size, event AS event_id
        FROM rocpd_memory {_OF}""",
}
