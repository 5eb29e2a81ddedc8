"""Communicators, and who a process is in MPI, as MPI says it."""

from __future__ import annotations

from occatrace.core.model import Function, Model
from occatrace.ingest.gathered.gathered import Gathered
from occatrace.ingest.reading import Columns
from occatrace.ingest.threads import ThreadMap

_COMMUNICATOR = ("seq", "id", "handle", "size", "rank", "first", "inter", "name")
_RANK = ("seq", "rank", "size", "library", "abi")


def _takes_communicator(event: str, function: Function | None, columns: Columns) -> bool:
    return event == "occatrace_mpi:communicator"


def _takes_rank(event: str, function: Function | None, columns: Columns) -> bool:
    return event == "occatrace_mpi:rank"


def _communicator_columns(threads: ThreadMap, columns: Columns) -> Columns:
    return {"time": columns["ts"], **{name: columns[name] for name in _COMMUNICATOR}}


def _rank_columns(threads: ThreadMap, columns: Columns) -> Columns:
    return {"time": columns["ts"], **{name: columns[name] for name in _RANK}}


def _insert_communicators(model: Model) -> str:
    # The last record of an object counts: it may have been given a name later.
    return """
        INSERT INTO mpi_comms BY NAME
        SELECT row_number() OVER (ORDER BY s.process, r.id) AS mpi_comm, s.process, r.id, n.text AS name, r.size,
               CASE WHEN r.rank >= 0 THEN r.rank END AS rank, CASE WHEN r.first >= 0 THEN r.first + s.first_rank END AS first_rank,
               r.inter != 0 AS inter, r.handle
        FROM raw_comms r JOIN slots s USING (slot)
        LEFT JOIN names n ON n.process = s.process AND n.id = r.name AND r.name != 0
        QUALIFY row_number() OVER (PARTITION BY s.process, r.id ORDER BY r.time DESC, r.seq DESC) = 1"""


def _insert_ranks(model: Model) -> str:
    return """
        INSERT INTO mpi_ranks BY NAME
        SELECT s.process, CASE WHEN r.rank >= 0 THEN r.rank + s.first_rank END AS rank, s.first_rank AS first,
               r.size, n.text AS library, a.text AS abi,
               min(r.time) OVER (PARTITION BY s.process) AS start_ns,
               CASE WHEN count(*) OVER (PARTITION BY s.process) > 1 THEN r.time END AS end_ns
        FROM raw_ranks r JOIN slots s USING (slot)
        LEFT JOIN names n ON n.process = s.process AND n.id = r.library AND r.library != 0
        LEFT JOIN names a ON a.process = s.process AND a.id = r.abi
        QUALIFY row_number() OVER (PARTITION BY s.process ORDER BY r.time DESC, r.seq DESC) = 1;
        UPDATE processes SET rank = m.rank, size = m.size FROM mpi_ranks m
        WHERE m.process = processes.process AND m.rank IS NOT NULL"""


COMMUNICATORS = Gathered(
    "raw_comms",
    "slot INTEGER, seq UINTEGER, time UBIGINT, id UINTEGER, handle UBIGINT, size INTEGER, rank INTEGER,"
    " first INTEGER, inter UTINYINT, name UINTEGER",
    _takes_communicator,
    _communicator_columns,
    _insert_communicators,
)
RANKS = Gathered(
    "raw_ranks",
    "slot INTEGER, seq UINTEGER, time UBIGINT, rank INTEGER, size INTEGER, library UINTEGER, abi UINTEGER",
    _takes_rank,
    _rank_columns,
    _insert_ranks,
)
