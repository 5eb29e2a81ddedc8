"""Memory pools of pyopencl and pycuda, their blocks, the programs that these made of source, and the last uses of memory."""

from __future__ import annotations

from collections.abc import Callable

from occatrace.core.model import Function, Model
from occatrace.ingest.gathered.gathered import Gathered, apis_with_handles
from occatrace.ingest.reading import Columns
from occatrace.ingest.threads import ThreadMap

_BLOCK = ("pool", "id", "asked", "size", "memory", "managed", "reused", "frame", "start")
_BUILD = ("library", "kernels", "source", "cached", "driver", "frame", "start")
_RESULTS = "CASE r.cached WHEN 0 THEN 'built' WHEN 1 THEN 'cached' WHEN 2 THEN 'uncached' ELSE 'failed' END"


def _is(name: str) -> Callable[[str, Function | None, Columns], bool]:
    """Whether an event is this record of Python's."""
    wanted = f"occatrace_python:{name}"
    return lambda event, function, columns: event == wanted


def _with_time(*names: str) -> Callable[[ThreadMap, Columns], Columns]:
    """Fields of a record, and its moment."""
    return lambda threads, columns: {"time": columns["ts"], **{name: columns[name] for name in names}}


def _insert_pools(model: Model) -> str:
    return """
        INSERT INTO pools BY NAME
        SELECT s.process, r.id, coalesce(k.text, '') AS kind, coalesce(a.text, '') AS allocator, nullif(r.frame, 0) AS frame
        FROM raw_pools r JOIN slots s USING (slot)
        LEFT JOIN names k ON k.process = s.process AND k.id = r.kind
        LEFT JOIN names a ON a.process = s.process AND a.id = r.allocator AND r.allocator != 0"""


def _insert_blocks(model: Model) -> str:
    return """
        INSERT INTO pool_blocks BY NAME
        SELECT s.process, r.pool, r.id, r.slot + 1 AS thread, r.asked, r.size AS bytes, r.memory, r.reused != 0 AS reused,
               nullif(r.frame, 0) AS frame, r.time AS start_ns, r.time - least(r.start, r.time) AS call_ns
        FROM raw_pool_blocks r JOIN slots s USING (slot);
        INSERT INTO pool_sizes BY NAME
        SELECT s.process, r.pool, r.time AS time_ns, r.managed AS bytes FROM raw_pool_blocks r JOIN slots s USING (slot)"""


def _insert_ends(model: Model) -> str:
    return """
        UPDATE pool_blocks SET end_ns = e.time
        FROM (SELECT s.process, r.block, r.time FROM raw_pool_ends r JOIN slots s USING (slot)) e
        WHERE e.process = pool_blocks.process AND e.block = pool_blocks.id"""


def _insert_sizes(model: Model) -> str:
    return """
        INSERT INTO pool_sizes BY NAME
        SELECT s.process, r.pool, r.time AS time_ns, r.managed AS bytes FROM raw_pool_sizes r JOIN slots s USING (slot)"""


def _insert_builds(model: Model) -> str:
    return f"""
        INSERT INTO python_builds BY NAME
        SELECT s.process, r.slot + 1 AS thread, coalesce(l.text, '') AS library, coalesce(k.text, '') AS kernels, r.source,
               {_RESULTS} AS result, CASE WHEN r.driver < 2 THEN r.driver = 1 END AS driver_cached,
               nullif(r.frame, 0) AS frame, r.start AS start_ns, r.time AS end_ns
        FROM raw_python_builds r JOIN slots s USING (slot)
        LEFT JOIN names l ON l.process = s.process AND l.id = r.library
        LEFT JOIN names k ON k.process = s.process AND k.id = r.kernels AND r.kernels != 0"""


def _told(table: str, memory: str) -> str:
    """SQL that notes the last use of memory: of what was at the place last when the call was made.

    Handles are their memory, addresses lie within it; what uses a part uses the whole.
    """
    return f"""
        UPDATE {table} SET used_ns = told.used_ns, uses = told.uses FROM (
            WITH memory AS MATERIALIZED ({memory}),
            places AS (SELECT DISTINCT process, place FROM memory),
            found AS (
                SELECT u.*, p.place FROM memory_uses u ASOF JOIN places p ON p.process = u.process AND p.place <= u.memory
            ),
            used AS (
                SELECT m.row, m.parent, m.process, f.moment, f.used_ns FROM found f
                ASOF JOIN memory m ON m.process = f.process AND m.place = f.place AND m.start_ns <= f.moment
                WHERE f.memory < m.place + m.extent
            ),
            whole AS (
                SELECT row, used_ns FROM used
                UNION ALL
                SELECT m.row, u.used_ns FROM (FROM used WHERE parent IS NOT NULL) u
                ASOF JOIN memory m ON m.process = u.process AND m.place = u.parent AND m.start_ns <= u.moment
            )
            SELECT m.row, max(w.used_ns) AS used_ns, count(w.row) AS uses FROM memory m LEFT JOIN whole w USING (row) GROUP BY m.row
        ) told WHERE {table}.rowid = told.row"""


def _insert_uses(model: Model) -> str:
    # A handle is one word.
    extent = f"CASE WHEN api IN ({apis_with_handles(model)}) AND kind <> 'svm' THEN 1 ELSE greatest(bytes, 1) END"
    of_apis = f"""
        SELECT rowid AS row, process, handle AS place, {extent} AS extent, start_ns, parent FROM allocations
        WHERE api <> 'occa' AND process IN (SELECT process FROM memory_uses)"""
    of_pools = """
        SELECT b.rowid AS row, b.process, memory AS place,
               CASE WHEN p.kind = 'pyopencl.MemoryPool' THEN 1 ELSE greatest(bytes, 1) END AS extent,
               start_ns, NULL::UBIGINT AS parent
        FROM pool_blocks b JOIN pools p ON p.process = b.process AND p.id = b.pool
        WHERE b.process IN (SELECT process FROM memory_uses)"""
    return f"""
        CREATE OR REPLACE TEMP TABLE memory_uses AS
        SELECT s.process, r.memory, r.time AS moment, coalesce(a.until, r.time) AS used_ns
        FROM raw_uses r JOIN slots s USING (slot) LEFT JOIN (
            SELECT thread, seq, max(greatest(start_ns, end_ns)) AS until FROM activities GROUP BY ALL
        ) a ON a.thread = r.slot + 1 AND a.seq = r.seq;
        {_told("allocations", of_apis)};
        {_told("pool_blocks", of_pools)};
        DROP TABLE memory_uses"""


POOLS = Gathered(
    "raw_pools",
    "slot INTEGER, time UBIGINT, id UINTEGER, kind UINTEGER, allocator UINTEGER, frame UINTEGER",
    _is("pool"),
    _with_time("id", "kind", "allocator", "frame"),
    _insert_pools,
)
BLOCKS = Gathered(
    "raw_pool_blocks",
    "slot INTEGER, time UBIGINT, pool UINTEGER, id UINTEGER, asked UBIGINT, size UBIGINT, memory UBIGINT, managed UBIGINT,"
    ' reused UTINYINT, frame UINTEGER, "start" UBIGINT',
    _is("pool_block"),
    _with_time(*_BLOCK),
    _insert_blocks,
)
ENDS = Gathered(
    "raw_pool_ends",
    "slot INTEGER, time UBIGINT, block UINTEGER",
    _is("pool_free"),
    _with_time("block"),
    _insert_ends,
)
SIZES = Gathered(
    "raw_pool_sizes",
    "slot INTEGER, time UBIGINT, pool UINTEGER, managed UBIGINT",
    _is("pool_managed"),
    _with_time("pool", "managed"),
    _insert_sizes,
)
USES = Gathered(
    "raw_uses",
    "slot INTEGER, time UBIGINT, seq UINTEGER, memory UBIGINT",
    _is("use"),
    lambda threads, columns: {"time": columns["ts"], "seq": columns["call_seq"], "memory": columns["memory"]},
    _insert_uses,
)
BUILDS = Gathered(
    "raw_python_builds",
    "slot INTEGER, time UBIGINT, library UINTEGER, kernels UINTEGER, source VARCHAR, cached UTINYINT, driver UTINYINT, frame UINTEGER,"
    ' "start" UBIGINT',
    _is("build"),
    _with_time(*_BUILD),
    _insert_builds,
    texts=("source",),
)
