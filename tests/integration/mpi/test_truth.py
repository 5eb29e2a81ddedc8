"""Programs of known messages under every MPI: counts, bytes, partners, tags and communicators are exact."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections import Counter

import pytest

from tests.support.suites.mpi import MPIS, PROGRAMS, Build, Mpi, Trace, Traced

RANKS = 4
Message = tuple[int, int, int, int]  # from, to, tag, bytes


def _messages(partitioned: bool) -> Counter[Message]:
    """What cases.c sends."""
    out: Counter[Message] = Counter()
    for i, size in enumerate((0, 1, 100, 4096, 65536, 1 << 20)):
        out[0, 1, 10 + i, size] += 1
    out[2, 3, 30, 5 * 3 * 8] += 1
    for rank in range(RANKS):
        following, previous = (rank + 1) % RANKS, (rank - 1) % RANKS
        for i in range(8):
            out[rank, following, 40 + i, 4000] += 1
        out[rank, rank ^ 1, 60, 16 * 8] += 3
        out[rank, following, 90, 40] += 1
        out[rank, previous, 91, 40] += 1
    if partitioned:
        out[0, 1, 70, 4 * 25 * 4] += 1
        out[2, 3, 70, 4 * 25 * 4] += 1
    out[3, 2, 80, 100] += 1
    for i in range(100):
        out[0, 1, 200 + i, 8] += 1
    out[3, 1, 100, 28] += 1
    out[2, 0, 100, 28] += 1
    return out


# Bytes given and got in cases.c, by collective and rank.
COLLECTIVES = {
    "MPI_Bcast": (100, 100, 100, 100),
    "MPI_Allreduce": (200, 200, 200, 200),
    "MPI_Allgather": (300, 300, 300, 300),
    "MPI_Alltoall": (400, 400, 400, 400),
    "MPI_Barrier": (0, 0, 0, 0),
    "MPI_Gather": (8 + 8, 8 + 32 + 8, 8 + 24, 8 + 8),
    "MPI_Gatherv": (4 + 40, 8, 12, 16),
    "MPI_Scatterv": (40 + 4, 8, 12, 16),
    "MPI_Reduce": (12, 12, 12, 12 + 12),
    "MPI_Reduce_scatter": (20, 20, 20, 20),
    "MPI_Exscan": (4, 8, 8, 8),
    None: (32, 32, 32, 32),  # MPI_Iallreduce, told by its request
}


def _found(traced: Traced, kind: str) -> Counter[Message]:
    ends = "p.rank, m.partner" if kind == "send" else "m.partner, p.rank"
    rows = traced.rows(
        f"SELECT {ends}, m.tag, m.bytes, count(*) FROM mpi_messages m JOIN processes p USING (process)"
        f" WHERE m.kind = '{kind}' AND m.state = 'complete' AND NOT m.nobody GROUP BY ALL"
    )
    return Counter({row[:4]: row[4] for row in rows})


def test_messages_and_bytes(mpi: Mpi, build: Build, trace: Trace) -> None:
    # With status 0: a launcher kills the other ranks as soon as one ends with another, and what they counted is gone.
    traced = trace(mpi, RANKS, build(mpi, "cases.c"))
    assert traced.status == 0, traced.stderr
    assert traced.rows("SELECT count(*) FROM losses") == [(0,)]
    assert "unknown kind" not in traced.stderr

    ranks = traced.rows(
        "SELECT m.rank, m.size, m.abi, p.rank FROM mpi_ranks m JOIN processes p USING (process) ORDER BY 1"
    )
    abi = "Open MPI" if mpi.is_open_mpi else "MPI ABI" if mpi.name == "MPI ABI" else "MPICH"
    assert ranks == [(rank, RANKS, abi, rank) for rank in range(RANKS)]

    expected = _messages(mpi.partitioned)
    expected[2, 3, 121, 40] = expected[2, 3, 122, 8] = 1
    assert _found(traced, "send") == expected
    assert _found(traced, "receive") == expected - Counter({(2, 3, 121, 40): 1})  # too long for its receive
    nobody = "SELECT kind, tag, sum(bytes), count(*) FROM mpi_messages WHERE nobody GROUP BY ALL ORDER BY kind DESC"
    assert [(row[0], *row[2:]) for row in traced.rows(nobody)] == [("send", 0, 4), ("receive", 0, 4)]
    states = "SELECT state, kind, tag, bytes, count(*) FROM mpi_messages WHERE state != 'complete' GROUP BY ALL"
    assert sorted(traced.rows(states)) == [("cancelled", "receive", 110, 0, 4), ("failed", "receive", 121, 0, 1)]

    one_sided = (
        "SELECT m.kind, p.rank, m.partner, m.bytes FROM mpi_messages m JOIN processes p USING (process)"
        " WHERE m.kind IN ('put', 'get', 'accumulate') ORDER BY m.kind, m.bytes"
    )
    assert traced.rows(one_sided) == [
        ("accumulate", 2, 0, 8),
        ("accumulate", 2, 0, 16),
        ("get", 1, 3, 12),
        ("put", 0, 2, 20),
    ]

    collectives = traced.rows(
        "SELECT m.function, p.rank, sum(m.bytes)::BIGINT FROM mpi_messages m JOIN processes p USING (process)"
        " WHERE m.kind = 'collective' GROUP BY ALL"
    )
    assert {(name, rank): moved for name, rank, moved in collectives} == {
        (name, rank): moved for name, by_rank in COLLECTIVES.items() for rank, moved in enumerate(by_rank)
    }
    halves = (
        "SELECT name, size, first_rank, count(*) FROM mpi_comms WHERE name IN ('odd', 'even') GROUP BY ALL ORDER BY 1"
    )
    assert traced.rows(halves) == [("even", 2, 2, 2), ("odd", 2, 3, 2)]

    calls = traced.calls()
    assert calls["MPI_Wtime"] == RANKS * 1001  # only counted
    assert calls["MPI_Startall"] == RANKS * 3
    assert calls["MPI_Isend"] == calls["MPI_Irecv"] - RANKS - 2 == RANKS * 8 + 100
    failures = traced.rows("SELECT function, error FROM failures ORDER BY 1")
    assert [name for name, _ in failures] == ["MPI_Send"] * RANKS + ["MPI_Wait"]
    assert all("rank" in str(error).lower() for _, error in failures[:-1]), failures

    matrix = {(row["source"], row["target"]): row for row in traced.run.report("mpi_matrix")}
    pair = [count * message[3] for message, count in expected.items() if message[:2] == (0, 1)]
    assert matrix[0, 1]["total"] == sum(pair)
    assert matrix[2, 0]["total"] == 28 + 16 + 8  # the message of a half, and what was accumulated
    assert matrix[3, 1]["total"] == 28 + 12  # and what rank 1 got
    sizes = {(row["name"], row["range"]): row["count"] for row in traced.run.report("mpi_msg_size_sum")}
    assert sizes["send", "0 B"] == 1
    assert sizes["send", "up to 1 MiB"] == sizes["receive", "up to 1 MiB"] == 1
    balance = traced.run.report("mpi_imbalance")
    assert [row["name"] for row in balance] == [f"rank {rank}" for rank in range(RANKS)]
    sent = [sum(n * m[3] for m, n in expected.items() if m[0] == rank) for rank in range(RANKS)]
    assert [row["sent"] for row in balance] == [sent[0] + 20, sent[1], sent[2] + 16 + 8, sent[3]]
    assert all(row["compute_ns"] + row["mpi_ns"] == row["span_ns"] for row in balance)
    events = {row["name"]: row for row in traced.run.report("mpi_event_sum")}
    assert (events["MPI_Mrecv"]["calls"], events["MPI_Mrecv"]["bytes"], events["MPI_Mrecv"]["ranks"]) == (1, 100, 1)
    assert (events["MPI_Ssend"]["rank_min_ns"], events["MPI_Ssend"]["rank_max_ns"]) == (
        0,
        events["MPI_Ssend"]["total_ns"],
    )


def test_counted_only(build: Build, trace: Trace) -> None:
    mpi = next((m for m in MPIS if m.there), None)
    if mpi is None:
        pytest.skip("no MPI is there (tools/setup --test)")
    traced = trace(mpi, RANKS, build(mpi, "cases.c"), options=("-m", "tally"))
    assert traced.status == 0, traced.stderr
    calls = traced.calls()
    assert calls["MPI_Isend"] == RANKS * 8 + 100
    assert calls["MPI_Send"] == 6 + RANKS + 1 + 2 + RANKS + 2
    assert traced.rows("SELECT count(*) FROM mpi_messages") == [(0,)]
    assert traced.rows("SELECT rank FROM mpi_ranks ORDER BY 1") == [(rank,) for rank in range(RANKS)]
    assert traced.rows("SELECT count(*) FROM failures WHERE function = 'MPI_Send'") == [(RANKS,)]


def test_fortran(debian_mpi: Mpi, build: Build, trace: Trace) -> None:
    traced = trace(debian_mpi, 2, build(debian_mpi, "interfaces.f90"))
    assert traced.status == 0, traced.stderr
    expected = Counter({(a, 1 - a, tag, 8000): 1 for a in (0, 1) for tag in (1, 2, 3, 11, 12, 13)})
    assert _found(traced, "send") == expected
    assert _found(traced, "receive") == expected
    calls = traced.calls()
    # Once for each call of the program, whatever it passes through on its way.
    for name, count in {"MPI_Send": 6, "MPI_Recv": 6, "MPI_Isend": 6, "MPI_Irecv": 6, "MPI_Waitall": 6}.items():
        assert calls[name] == count, name
    reduced = "SELECT count(*), sum(bytes)::BIGINT FROM mpi_messages WHERE function = 'MPI_Allreduce'"
    assert traced.rows(reduced) == [(6, 6 * 2 * 12)]


@pytest.mark.parametrize("number", [0, 2, 4], ids=["Open MPI 4", "Open MPI 5", "MPICH 5"])
def test_mpi4py(number: int, trace: Trace) -> None:
    pytest.importorskip("mpi4py")
    mpi = MPIS[number]
    if not mpi.there:
        pytest.skip(f"{mpi.name} is not there (tools/setup --test)")
    env = {"MPI4PY_LIBMPI": mpi.library}
    command = [sys.executable, str(PROGRAMS / "mpi4py_work.py")]
    native = subprocess.run(
        [*mpi.run, "-n", "2", *command], capture_output=True, text=True, timeout=300, env={**os.environ, **env}
    )
    traced = trace(mpi, 2, *command, env=env)
    assert (traced.status, traced.stdout) == (native.returncode, native.stdout) == (0, native.stdout), traced.stderr
    assert native.stdout.count("\n") == 2
    suffix = "_c" if mpi.large_counts else ""
    calls = traced.calls()
    assert (calls[f"MPI_Send{suffix}"], calls[f"MPI_Isend{suffix}"]) == (2, 2 + 2)  # sendrecv of objects begins one too
    for kind in ("send", "receive"):
        found = {m: n for m, n in _found(traced, kind).items() if m[3] == 4000}
        assert found == {(0, 1, 1, 4000): 1, (1, 0, 1, 4000): 1, (0, 1, 2, 4000): 1, (1, 0, 2, 4000): 1}


def test_functions_asked_for_with_a_handle(debian_mpi: Mpi, trace: Trace) -> None:
    """As by ctypes and Julia, of a library that only the program's handle leads to."""
    library = "libmpi.so.40" if debian_mpi.is_open_mpi else "libmpich.so.12"
    for options in ((), ("--trace", "mpi")):
        traced = trace(debian_mpi, 2, sys.executable, str(PROGRAMS / "by_handle.py"), library, options=options)
        assert (traced.status, traced.stdout) == (0, "3.0\n"), traced.stderr
        calls = traced.calls()
        assert (calls["MPI_Init"], calls["MPI_Allreduce"], calls["MPI_Finalize"]) == (2, 100, 2)
        assert _found(traced, "send") == _found(traced, "receive") == {(0, 1, 7, 8000): 1}


def test_ranks_that_ranks_start(build: Build, trace: Trace) -> None:
    """MPI_Comm_spawn: others with the same numbers, in an MPI_COMM_WORLD of their own, count on from those that started them."""
    mpi = MPIS[0]
    traced = trace(mpi, 2, build(mpi, "spawned.c"))
    assert (traced.status, traced.stdout) == (0, "7\n"), traced.stderr
    ranks = traced.rows(
        "SELECT p.rank, m.rank, m.first, m.size FROM processes p JOIN mpi_ranks m USING (process) ORDER BY 1"
    )
    assert ranks == [(0, 0, 0, 2), (1, 1, 0, 2), (2, 2, 2, 2), (3, 3, 2, 2)]
    assert [row["name"] for row in traced.run.report("mpi_imbalance")] == [f"rank {rank}" for rank in range(4)]
    assert traced.calls()["MPI_Send"] == traced.calls()["MPI_Recv"] == 10
    # Those of one world wait for each other only: at its start, in its barrier, at its end.
    waits = [
        (row["name"], row["rank"], row["culprit_rank"], row["total_ns"])
        for row in traced.run.report("wait_states")
        if row["rank"] is not None and row["culprit_rank"] is not None
    ]
    assert {(rank < 2, culprit < 2) for _, rank, culprit, _ in waits} <= {(True, True), (False, False)}
    (barrier,) = (ns for name, rank, culprit, ns in waits if (name, rank, culprit) == ("wait at barrier", 2, 3))
    assert 90e6 < barrier < 1e9


@pytest.mark.parametrize("how", ["error", "abort", "null"])
def test_ends_as_without_us(debian_mpi: Mpi, build: Build, trace: Trace, how: str) -> None:
    """The program's own error: MPI's message names no call of ours, and the status is the same."""
    program = build(debian_mpi, "ends.c")
    native = subprocess.run([*debian_mpi.run, "-n", "2", program, how], capture_output=True, text=True, timeout=300)
    traced = trace(debian_mpi, 2, program, how)
    assert traced.status == native.returncode != 0, traced.stderr
    said = traced.stdout + traced.stderr
    assert "Comm_size" not in said and "Type_size" not in said  # we ask nothing before the program's call
    # Where it came through: launchers that end a job may lose what its ranks said. Handlers below hear it without them.
    named = re.findall(r"(?:An error occurred in|Fatal error in) (\w+)", said)
    assert all(name.endswith("_Send") for name in named), said
    last = traced.rows("SELECT function FROM unfinished WHERE function IN ('MPI_Send', 'MPI_Abort')")
    assert last == [("MPI_Abort" if how == "abort" else "MPI_Send",)]


def test_an_error_handler_hears_the_same(debian_mpi: Mpi, build: Build, trace: Trace) -> None:
    """What MPI tells the program's own handler names the call of the program."""
    program = build(debian_mpi, "ends.c")
    native = subprocess.run([*debian_mpi.run, "-n", "2", program, "told"], capture_output=True, text=True, timeout=300)
    traced = trace(debian_mpi, 2, program, "told")
    assert traced.status == native.returncode == 0, traced.stderr
    told = [re.sub(r"0x[0-9a-f]+", "ADDRESS", text) for text in (native.stdout, traced.stdout)]
    assert told[0] == told[1] and told[0].count("told: ") == 2
    assert all("MPI_Send" in each for each in told[0].split("told: ")[1:]), told[0]


def test_a_tool_of_the_program(debian_mpi: Mpi, build: Build, trace: Trace) -> None:
    traced = trace(debian_mpi, 2, build(debian_mpi, "ends.c"), "tool")
    assert (traced.status, traced.stdout) == (0, "1 sends\n"), traced.stderr
    assert _found(traced, "send") == _found(traced, "receive") == Counter({(0, 1, 5, 4): 1})


def test_threads(debian_mpi: Mpi, build: Build, trace: Trace) -> None:
    traced = trace(debian_mpi, 2, build(debian_mpi, "threads.c"))
    assert (traced.status, traced.stdout) == (0, ""), traced.stderr
    expected = Counter({(a, 1 - a, tag, 64): 250 for a in (0, 1) for tag in range(4)})
    assert _found(traced, "send") == _found(traced, "receive") == expected
    assert traced.rows("SELECT count(*) FROM losses") == [(0,)]
    threads = "SELECT count(DISTINCT thread) FROM mpi_messages"
    assert traced.rows(threads) == [(8,)]
    # A row names the call that started it, by thread and number.
    calls = (
        "SELECT count(*), count(c.seq) FROM mpi_messages m LEFT JOIN calls c USING (thread, seq)"
        " WHERE c.function IN ('MPI_Send', 'MPI_Recv', 'MPI_Isend', 'MPI_Irecv') OR c.function IS NULL"
    )
    assert traced.rows(calls) == [(4000, 4000)]


def test_device_buffers_are_marked(build: Build, trace: Trace) -> None:
    mpi = MPIS[0]
    if not mpi.there:
        pytest.skip(f"{mpi.name} is not there (tools/setup --test)")
    traced = trace(mpi, 1, build(mpi, "svm.c"))
    if traced.status == 77:
        pytest.skip("no OpenCL device with shared virtual memory")
    assert traced.status == 0, traced.stderr
    rows = traced.rows("SELECT kind, tag, bytes, on_device FROM mpi_messages ORDER BY tag, kind DESC")
    assert rows == [
        ("send", 1, 1000, True),
        ("receive", 1, 1000, False),
        ("send", 2, 10, False),
        ("receive", 2, 10, False),
    ]


def test_no_mpi_no_difference(tmp_path_factory: pytest.TempPathFactory) -> None:
    """A program without MPI is not told that it has one."""
    from occatrace.run import install

    program = tmp_path_factory.mktemp("probing") / "probing"
    # Bound when first used, after the start.
    subprocess.run(["gcc", "-O1", "-o", program, PROGRAMS / "probing.c", "-ldl"], check=True)
    done = subprocess.run(
        [program], capture_output=True, text=True, env={**os.environ, "LD_PRELOAD": str(install.PRELOAD)}
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "asked\n", "")
