"""What a process did when, as spans from tables that every run has, and how many of each kind are open at any moment. No output."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from occatrace.core.schema import HOST_MODES, MEMORY_KINDS
from occatrace.store import captures
from occatrace.store.windows import between, windows

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    from occatrace import _native
    from occatrace.core.duck import duckdb

    Ints = npt.NDArray[np.int64]

COMPUTING, COPIES, BUILDS, OPENMP = "device computing", "copies", "kernel builds", "OpenMP regions"
TRANSFER, RANKS, DEVICE = "MPI transfer", "waiting for other ranks", "waiting for the device"
IMPORTS, PYTHON, START = "Python imports", "Python", "before the first traced call"
UNRECORDED = "not recorded"
WINDOW_ROWS = 1 << 20  # spans that are read at a time
FEW = 8192  # spans that take less time in Python than numpy takes to load
_COPIED = f"({', '.join(repr(kind) for kind in MEMORY_KINDS)})"
_ON_HOST = f"({', '.join(repr(mode) for mode in HOST_MODES)})"

# Spans of each part as SELECT process, s, e, in the order in which a moment is given away, with the tables of which it is made.
SPANS: Sequence[tuple[str, str, str]] = (
    (COMPUTING, "activities", "SELECT process, start_ns, end_ns FROM activities WHERE kind IN ('kernel', 'native')"),
    (
        COMPUTING,
        "kernel_runs",
        f"SELECT r.process, r.start_ns, r.end_ns FROM kernel_runs r JOIN kernels k USING (kernel) WHERE k.mode IN {_ON_HOST}",
    ),
    (COPIES, "activities", f"SELECT process, start_ns, end_ns FROM activities WHERE kind IN {_COPIED}"),
    (COPIES, "occa_copies", f"SELECT process, start_ns, end_ns FROM occa_copies WHERE mode IN {_ON_HOST}"),
    (BUILDS, "builds", "SELECT process, start_ns, end_ns FROM builds"),
    (OPENMP, "omp_regions", "SELECT process, start_ns, end_ns FROM omp_regions WHERE depth = 0"),
    (RANKS, "mpi_messages", "SELECT process, start_ns, until_ns FROM mpi_waits"),
    (
        TRANSFER,
        "mpi_messages",
        "SELECT process, start_ns, end_ns FROM mpi_messages WHERE function IS NOT NULL AND state = 'complete'",
    ),
    (
        DEVICE,
        "activities",
        "SELECT process, queued_ns, start_ns FROM activities WHERE queued_ns > 0 AND kind != 'marker'",
    ),
    (
        IMPORTS,
        "python_calls",
        # Where functions are recorded, the first import is in a function.
        "SELECT process, start_ns, end_ns FROM python_calls i WHERE kind = 'import' AND NOT EXISTS"
        " (SELECT 1 FROM python_calls o WHERE o.kind = 'import' AND o.process = i.process AND o.number = i.parent)",
    ),
    (PYTHON, "python_calls", "SELECT process, start_ns, end_ns FROM python_calls WHERE parent IS NULL"),
    # The program before it uses a traced API, and the start of the recording with its first call.
    (
        START,
        "threads",
        "SELECT process, p.start_ns, min(t.start_ns) FROM threads t JOIN processes p USING (process) GROUP BY ALL",
    ),
)


def unrecorded(con: duckdb.DuckDBPyConnection) -> list[tuple[str, str]]:
    """Spans in which the run did not record; none where it recorded all the time."""
    if not captures.partly(con):
        return []
    clipped = (
        "SELECT process, greatest(u.start_ns, p.start_ns), least(u.end_ns, p.end_ns)"
        " FROM unrecorded u JOIN processes p USING (process)"
    )
    return [(UNRECORDED, clipped)]


def launchers(con: duckdb.DuckDBPyConnection, filled: frozenset[str]) -> set[int]:
    """Processes without a rank that did no work, where there are ranks: they wait for the ranks (`occa_prof mpirun …`, and what
    Open MPI starts for a program without mpirun), so they have no part in times of ranks."""
    ranks = dict(con.execute("SELECT process, rank FROM processes").fetchall())
    any_rank = any(rank is not None for rank in ranks.values())
    idle = {process for process, rank in ranks.items() if any_rank and rank is None}
    for name, table, sql in SPANS if idle else ():
        # Those of MPI have a rank; a launcher may be written in Python (torchrun).
        if table in filled and name not in (RANKS, TRANSFER, START, IMPORTS, PYTHON):
            worked = con.execute(f"SELECT DISTINCT process FROM ({sql}) t(process, s, e)").fetchall()
            idle -= {process for (process,) in worked}
    return idle


def without(processes: set[int]) -> str:
    """A condition of SQL that leaves out these processes."""
    return f"process NOT IN ({', '.join(map(str, sorted(processes)))})" if processes else "true"


def times(
    con: duckdb.DuckDBPyConnection, spans: Sequence[tuple[str, str]], names: Sequence[str]
) -> dict[int, dict[int, int]]:
    """By process, how long which names have an open span: the names as bits (1: the first of `names`), and ns. `spans`: names with
    queries of process, start and end; a name may have several."""
    few = con.execute(f"SELECT * FROM ({_every(spans, names)}) LIMIT {FEW + 1}").fetchall()
    if len(few) <= FEW:
        return times_of(few)
    from occatrace import _native

    sweep = _native.Sweep()
    for _ in _swept(con, spans, names, sweep):
        pass
    out: dict[int, dict[int, int]] = {}
    for process, open_names, ns in zip(*(column.tolist() for column in sweep.times()), strict=True):
        out.setdefault(process, {})[open_names] = ns
    return out


def times_of(spans: Sequence[tuple[int, int, int, int]]) -> dict[int, dict[int, int]]:
    """The times of a few spans (process, number of the name, start, end), as `times` has them."""
    marks = sorted(mark for process, name, s, e in spans for mark in ((process, s, name, 1), (process, e, name, -1)))
    out: dict[int, dict[int, int]] = {}
    own: dict[int, int] = {}
    open_spans: dict[int, int] = {}
    bits, before, last = 0, 0, -1
    for process, t, name, step in marks:
        if process != last:
            bits, before, last = 0, t, process
            own = out.setdefault(process, {})
            open_spans = {}
        if t > before:
            own[bits] = own.get(bits, 0) + t - before
            before = t
        open_spans[name] = count = open_spans.get(name, 0) + step
        bits = bits | 1 << name if count else bits & ~(1 << name)
    return out


def pieces(
    con: duckdb.DuckDBPyConnection, spans: Sequence[tuple[str, str]], names: Sequence[str]
) -> Iterator[tuple[Ints, Ints, Ints, Ints]]:
    """The single times of which `times` has the sums, cut at each start and end, some at a time, those of a process in order:
    process, names as bits, start and end (ns)."""
    from occatrace import _native

    sweep = _native.Sweep(pieces=True)
    for _ in _swept(con, spans, names, sweep):
        yield sweep.take_pieces()


def _every(spans: Sequence[tuple[str, str]], names: Sequence[str], where: str = "true") -> str:
    """A query of all spans for which a condition holds: process, number of the name, start and end. The condition is about the
    columns as they are stored: about their casts DuckDB would read all rows."""
    place = {name: number for number, name in enumerate(names)}
    return " UNION ALL ".join(
        f"SELECT process::UINTEGER AS process, {place[name]}::UINTEGER AS kind, s::BIGINT AS s, e::BIGINT AS e"
        f" FROM ({sql}) t(process, s, e) WHERE s < e AND {where}"
        for name, sql in spans
    )


def _swept(
    con: duckdb.DuckDBPyConnection, spans: Sequence[tuple[str, str]], names: Sequence[str], sweep: _native.Sweep
) -> Iterator[None]:
    """Spans are read in windows of time and swept natively, which is bounded in memory: sorting those of five million launches in
    DuckDB took minutes of processor time."""
    import numpy as np  # takes 40 ms to load

    every = _every(spans, names)

    def read(sql: str) -> list[Any]:
        columns = con.execute(sql).fetchnumpy()
        # DuckDB hands out masked arrays where a column might be null. (numpy.ma takes 20 ms to load)
        return [np.asarray(columns[name]) for name in ("process", "kind", "s", "e")]

    few = read(f"SELECT * FROM ({every}) LIMIT {WINDOW_ROWS}")
    if len(few[0]) < WINDOW_ROWS:
        sweep.add(*few)
    else:
        del few
        for begin, end in windows(con, f"SELECT s AS start_ns FROM ({every})", WINDOW_ROWS):
            sweep.add(*read(_every(spans, names, between("s", begin, end))))
            if end is not None:
                sweep.advance(end)
                yield
    sweep.finish()
    yield
