"""Tables of several nodes to tables of one run: numbers made unique, clocks compared. All of it streams.

Every node numbers its processes, threads, kernels, … from 1. A number space is a table whose first column is named as
the table, without the plural; columns of that name anywhere (`process`, `free_thread`) are numbers of that space.
"""

from __future__ import annotations

import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from occatrace import __version__
from occatrace.core.duck import duckdb
from occatrace.core.schema import BY_NAME, SCHEMA_VERSION, TABLES, Table
from occatrace.core.sql import text as sql_text
from occatrace.store import clocks
from occatrace.store.made import Made, read_made, write_made

FAN = 256  # parts that are merged at once; more of them are merged as a tree

SPACES: Mapping[str, str] = {
    table.columns[0].name: table.name
    for table in TABLES
    if table.columns[0].unit == "id" and table.name in (table.columns[0].name + "s", table.columns[0].name + "es")
}


def space_of(column: str) -> str | None:
    """The number space of a column: `free_thread` holds a thread."""
    return next((space for space in SPACES if column == space or column.endswith(f"_{space}")), None)


def is_part(folder: Path) -> bool:
    """Whether a folder holds the tables of a node."""
    return (folder / "tables.json").is_file()


def merge_tables(
    parts: Sequence[Path], out: Path, con: duckdb.DuckDBPyConnection, problems: Sequence[str] = (), level: int = 0
) -> list[str]:
    """Write the tables of all parts, in their order, to the new folder `out`; returns what was wrong with any of them,
    after the `problems` given."""
    if len(parts) > FAN:
        merged = []
        try:
            for at in range(0, len(parts), FAN):
                merged.append(out.with_name(f"{out.name}.level{level}-{at // FAN:06}"))
                merge_tables(parts[at : at + FAN], merged[-1], con, (), level + 1)
            return merge_tables(merged, out, con, problems, level + 1)
        finally:
            for folder in merged:
                shutil.rmtree(folder, ignore_errors=True)
    problems, streamed = list(problems), False
    for part in parts:
        made = read_made(part)
        if made is None or made.schema != SCHEMA_VERSION:
            raise ValueError(f"{part}: tables of schema version {made.schema if made else 0}, not {SCHEMA_VERSION}")
        problems += made.problems
        streamed = streamed or made.streamed
    out.mkdir(mode=0o700)
    first = {space: _firsts(parts, table, space, con) for space, table in SPACES.items()}
    for table in TABLES:
        sources = _sources(parts, table)
        con.register(
            "parts",
            {
                "filename": np.array([str(file) for _, file in sources], object),
                **{f"first_{space}": np.array([first[space][i] for i, _ in sources], np.uint32) for space in SPACES},
            },
        )
        names = ", ".join(sql_text(str(file)) for _, file in sources)
        con.execute(
            f"COPY (SELECT {_columns(table)} FROM read_parquet([{names}], filename = true) t JOIN parts p USING (filename))"
            f" TO {sql_text(str(out / f'{table.name}.parquet'))} (FORMAT parquet, COMPRESSION zstd)"
        )
        con.unregister("parts")
    write_made(out, Made(SCHEMA_VERSION, __version__, tuple(problems), streamed))
    return problems


def _sources(parts: Sequence[Path], table: Table) -> list[tuple[int, Path]]:
    return [(i, part / f"{table.name}.parquet") for i, part in enumerate(parts)]


def _firsts(parts: Sequence[Path], table: str, column: str, con: duckdb.DuckDBPyConnection) -> list[int]:
    """What to add to the numbers of each part, so that they go on where those of the part before end."""
    names = ", ".join(sql_text(str(part / f"{table}.parquet")) for part in parts)
    highest = dict(
        con.execute(
            f"SELECT filename, max({column}) FROM read_parquet([{names}], filename = true) GROUP BY ALL"
        ).fetchall()
    )
    firsts, total = [], 0
    for part in parts:
        firsts.append(total)
        total += highest.get(str(part / f"{table}.parquet")) or 0
    return firsts


def _columns(table: Table) -> str:
    out = []
    for column in table.columns:
        space = space_of(column.name) if column.unit == "id" else None
        value = f't."{column.name}"'
        if space:
            value = f'({value} + p.first_{space})::{column.type} AS "{column.name}"'
        out.append(value)
    return ", ".join(out)


# ---- clocks ----


def compare_clocks(con: duckdb.DuckDBPyConnection) -> list[tuple[Any, ...]]:
    """Rows of the table `host_clocks` for the open tables of a run with several hosts; none for one host."""
    walls = con.execute(
        "SELECT trace, median(realtime_ns::BIGINT - mono_ns::BIGINT) FROM processes GROUP BY trace ORDER BY trace"
    ).fetchall()
    if len(walls) < 2:
        return []
    hosts = {trace: number for number, (trace, _) in enumerate(walls)}
    wall = {hosts[trace]: float(value) for trace, value in walls if value}
    found = clocks.offsets(len(hosts), _edges(con, hosts), wall)
    rows = []
    for trace, number in hosts.items():
        offset = found.get(number, clocks.Offset(0.0, None))
        rows.append((trace, offset.at_ns, offset.drift, offset.since_ns, offset.uncertainty_ns, offset.edges))
    return rows


# Collectives that nobody leaves before all have come, where there is something to exchange.
_SYNCHRONIZING = (
    *(
        "MPI_Barrier",
        "MPI_Allreduce",
        "MPI_Allgather",
        "MPI_Allgatherv",
        "MPI_Alltoall",
        "MPI_Alltoallv",
        "MPI_Alltoallw",
    ),
    *("MPI_Reduce_scatter", "MPI_Reduce_scatter_block"),
)
# Whose message it is: rank in MPI_COMM_WORLD, host, and the communicator as all of its ranks know it.
_PLACED = """
    SELECT m.*, h.number AS host, coalesce(r.rank, p.rank) AS rank, c.size AS comm_size,
           (coalesce(c.name, ''), c.size, c.first_rank) AS comm
    FROM mpi_messages m JOIN processes p USING (process) JOIN hosts h USING (trace) LEFT JOIN mpi_ranks r USING (process)
    LEFT JOIN mpi_comms c USING (mpi_comm)
    WHERE m.state = 'complete' AND coalesce(r.rank, p.rank) IS NOT NULL
"""
# MPI keeps the order of messages between two ranks: the first sent is the first received. Where the numbers of both sides
# differ, nothing is concluded.
_MATCHED = f"""
WITH placed AS ({_PLACED}),
sends AS (
    SELECT *, row_number() OVER w AS k, count(*) OVER (PARTITION BY rank, partner, tag, comm) AS n
    FROM placed WHERE kind = 'send' AND partner IS NOT NULL WINDOW w AS (PARTITION BY rank, partner, tag, comm ORDER BY start_ns, seq)
),
receives AS (
    SELECT *, row_number() OVER w AS k, count(*) OVER (PARTITION BY rank, partner, tag, comm) AS n
    FROM placed WHERE kind = 'receive' AND partner IS NOT NULL
    WINDOW w AS (PARTITION BY rank, partner, tag, comm ORDER BY start_ns, seq)
)
SELECT s.host AS source, r.host AS target, s.start_ns AS sent, r.end_ns AS received
FROM sends s JOIN receives r ON s.rank = r.partner AND s.partner = r.rank AND s.tag = r.tag
    AND s.comm IS NOT DISTINCT FROM r.comm AND s.k = r.k AND s.n = r.n AND s.bytes = r.bytes
WHERE s.host != r.host
"""
_TOGETHER = f"""
WITH placed AS ({_PLACED}),
numbered AS (
    SELECT *, row_number() OVER (PARTITION BY rank, comm, function ORDER BY start_ns, seq) AS k FROM placed
    WHERE kind = 'collective' AND function IN {_SYNCHRONIZING} AND (bytes > 0 OR function = 'MPI_Barrier') AND comm_size > 1
),
instances AS (
    SELECT comm, function, k, row_number() OVER () AS instance FROM numbered
    GROUP BY ALL HAVING count(*) = any_value(comm_size) AND count(DISTINCT rank) = count(*) AND count(DISTINCT host) > 1
)
SELECT i.instance, n.host, n.start_ns AS enter, n.end_ns AS leave
FROM numbered n JOIN instances i ON i.comm = n.comm AND i.function = n.function AND i.k = n.k
"""


def _edges(con: duckdb.DuckDBPyConnection, hosts: Mapping[str, int]) -> clocks.Edges:
    """What went from host to host: matched messages, and collectives."""
    if "mpi_messages" not in BY_NAME:
        return clocks.Edges.concat([])
    return clocks.Edges.concat(edges_of_mpi(con, hosts))


def edges_of_mpi(con: duckdb.DuckDBPyConnection, hosts: Mapping[str, int]) -> list[clocks.Edges]:
    """Of the tables mpi_messages, mpi_ranks and mpi_comms."""
    con.register("hosts", {"trace": np.array(list(hosts), object), "number": np.array(list(hosts.values()), np.int64)})
    try:
        matched = con.execute(_MATCHED).fetchnumpy()
        together = con.execute(_TOGETHER).fetchnumpy()
    finally:
        con.unregister("hosts")

    def column(rows: Mapping[str, Any], name: str) -> clocks.Times:
        return np.asarray(rows[name]).astype(np.int64)

    return [
        clocks.Edges(*(column(matched, name) for name in ("source", "target", "sent", "received"))),
        clocks.of_collectives(*(column(together, name) for name in ("instance", "host", "enter", "leave"))),
    ]
