"""Tables of nodes to tables of a run: nothing is lost, every number means what it meant."""

from __future__ import annotations

import json
from pathlib import Path

import duckdb
import pytest

from occatrace import reports
from occatrace.core.schema import BY_NAME, MOMENTS, NO_MOMENTS, SCHEMA_VERSION, TABLES
from occatrace.store import clocks, merge
from occatrace.store.tables import Store, connect, open_store
from tests.support.fake import MODEL, FakeTrace, run_folder

# Numbers that mean something within their process or thread only.
LOCAL = {
    "number",
    "parent",
    "pool",
    "frame",
    *("pid", "ppid", "tid", "id", "site", "path", "thread_num", "device_num"),
}


def test_every_column_is_known() -> None:
    """Whoever adds a column says whether it is a number of the run and whether it is a moment."""
    assert set(merge.SPACES) >= {"process", "thread", "kernel", "device", "queue"}
    for table in TABLES:
        for column in table.columns:
            if column.unit == "id":
                assert merge.space_of(column.name) or column.name in LOCAL or column.name.endswith("seq"), (
                    f"{table.name}.{column.name}"
                )
            if column.name.endswith("_ns"):
                # Beside a start, other times are lengths.
                known = column.name in (*MOMENTS, *NO_MOMENTS) or any(c.name == "start_ns" for c in table.columns)
                assert known, f"{table.name}.{column.name} is neither in MOMENTS nor in NO_MOMENTS (schema.py)"


def node(folder: Path, pids: list[int], kernels: int) -> Path:
    """The tables of a node with some processes, each of which ran some kernels."""
    trace = FakeTrace()
    for pid in pids:
        main = trace.process(pid, rank=pid % 100, size=8)
        names = {text: main.name(text) for text in ("Serial", "a.okl", *(f"k{i}" for i in range(kernels)))}
        for i in range(kernels):
            main.record(
                "kernel",
                5,
                id=i + 1,
                name=names[f"k{i}"],
                mode=names["Serial"],
                source=names["a.okl"],
                line=i,
                binary=0,
            )
            main.call("occa:kernel_run", 100 * i + 10, 100 * i + 10 + pid, kernel=i + 1, launches=0, error=0)
        main.record("exit", 10_000, reason=0)
    folder.mkdir()
    with open_store(run_folder(folder), model=MODEL, open_trace=trace.open) as store:
        return store.path


def opened(folder: Path) -> Store:
    return open_store(folder, model=MODEL, open_trace=lambda *_: pytest.fail("no trace is read"))


@pytest.mark.parametrize("fan", [256, 2])
def test_merge(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fan: int) -> None:
    monkeypatch.setattr(merge, "FAN", fan)
    nodes = {f"n{i}": ([1000 * (i + 1) + r for r in range(i + 1)], 2 + i) for i in range(5)}
    parts = [node(tmp_path / name, pids, kernels) for name, (pids, kernels) in nodes.items()]
    out = tmp_path / "merged" / "tables"
    out.parent.mkdir()
    with connect() as con:
        assert merge.merge_tables(parts, out, con) == []
    assert sorted(p.name for p in out.parent.iterdir()) == ["tables"]
    with opened(out.parent) as store:
        one = store.con.execute
        for table in TABLES:
            # No row is lost, and nothing but numbers changes.
            keep = [f'"{c.name}"' for c in table.columns if not (c.unit == "id" and merge.space_of(c.name))]
            columns = ", ".join(keep) or "count(*)"
            files = [str(part / f"{table.name}.parquet") for part in parts]
            expected = duckdb.execute(f"SELECT {columns} FROM read_parquet({files})").fetchall()
            assert sorted(map(repr, one(f"SELECT {columns} FROM {table.name}").fetchall())) == sorted(
                map(repr, expected)
            )
        for space, name in merge.SPACES.items():
            numbers = [row[0] for row in one(f"SELECT {space} FROM {name} ORDER BY 1").fetchall()]
            assert numbers == list(range(1, len(numbers) + 1)), space
        runs = one(
            "SELECT p.pid, k.name, r.end_ns - r.start_ns FROM kernel_runs r JOIN kernels k USING (kernel)"
            " JOIN processes p ON p.process = r.process JOIN threads t ON t.thread = r.thread"
            " WHERE t.process = r.process AND k.process = r.process"
        ).fetchall()
        assert sorted(runs) == sorted(
            (pid, f"k{i}", pid) for pids, kernels in nodes.values() for pid in pids for i in range(kernels)
        )
        assert sum(
            dict(zip((c.name for c in r.columns), row, strict=True))["calls"]
            for r in [reports.make(store, "occa_kern_sum")]
            for row in r.rows
        ) == len(runs)


def test_times_are_shown_on_one_clock(tmp_path: Path) -> None:
    out = node(tmp_path / "run", [1000], 3)
    with connect() as con:
        con.execute(f"CREATE TABLE host_clocks ({BY_NAME['host_clocks'].ddl()})")
        con.execute("INSERT INTO host_clocks SELECT trace, 7.0, 0.5, 110, NULL, 0 FROM read_parquet($1)", [
            str(out / "processes.parquet")
        ])  # fmt: skip
        (out / "host_clocks.parquet").unlink()
        con.execute(f"COPY host_clocks TO '{out}/host_clocks.parquet'")
    with opened(out.parent) as store:
        rows = store.con.execute("SELECT start_ns, end_ns FROM kernel_runs ORDER BY start_ns").fetchall()
        # Less 7 at 110, and half of the way from there.
        assert rows[0] == (10 - 7 + 50, 1010 - 7 - 450)
        assert store.con.execute("SELECT realtime_ns FROM processes").fetchall() == [(10**18 + 1,)]


def test_parts_of_another_version_are_refused(tmp_path: Path) -> None:
    parts = [node(tmp_path / name, [1000], 1) for name in ("a", "b")]
    (parts[1] / "tables.json").write_text(json.dumps({"schema": SCHEMA_VERSION + 1, "problems": []}))
    with connect() as con, pytest.raises(ValueError, match="schema version"):
        merge.merge_tables(parts, tmp_path / "out", con)


MPI_TABLES = """
CREATE TABLE processes (process INTEGER, trace VARCHAR, rank INTEGER);
CREATE TABLE mpi_ranks (process INTEGER, rank INTEGER);
CREATE TABLE mpi_comms (mpi_comm INTEGER, process INTEGER, name VARCHAR, size INTEGER, first_rank INTEGER);
CREATE TABLE mpi_messages (process INTEGER, seq INTEGER, function VARCHAR, kind VARCHAR, state VARCHAR, mpi_comm INTEGER,
    partner INTEGER, tag INTEGER, bytes UBIGINT, start_ns UBIGINT, end_ns UBIGINT);
INSERT INTO processes SELECT r + 1, 'node' || (r // 2), r FROM range(4) t(r);
INSERT INTO mpi_ranks SELECT process, rank FROM processes;
INSERT INTO mpi_comms SELECT process, process, 'MPI_COMM_WORLD', 4, 0 FROM processes;
"""


def test_messages_and_collectives_tell_the_clocks() -> None:
    """Ranks 0 and 1 on one node, 2 and 3 on another, whose clock is 5 ms ahead."""
    ahead = 5_000_000
    shown = {rank: ahead * (rank // 2) for rank in range(4)}
    rows: list[tuple[object, ...]] = []
    at = 1_000_000
    for k in range(20):
        for a, b in ((0, 2), (2, 0), (1, 3), (3, 1), (0, 1)):
            at += 10_000
            delay = 1_000 + 137 * ((7 * k + a) % 11)
            rows.append(
                (a + 1, k, "MPI_Send", "send", "complete", a + 1, b, 7, 100, at + shown[a], at + shown[a] + 500)
            )
            # The receive was posted before.
            rows.append(
                (
                    b + 1,
                    k,
                    "MPI_Recv",
                    "receive",
                    "complete",
                    b + 1,
                    a,
                    7,
                    100,
                    at - 5000 + shown[b],
                    at + delay + shown[b],
                )
            )
        at += 50_000
        for rank in range(4):
            times = (at + 100 * rank + shown[rank], at + 2_500 + 50 * rank + shown[rank])
            rows.append((rank + 1, 100 + k, "MPI_Allreduce", "collective", "complete", rank + 1, None, 0, 8, *times))
    # A message that was never received, and a broadcast, after which one may be gone before the others come, say nothing.
    rows.append((1, 999, "MPI_Send", "send", "complete", 1, 3, 9, 100, 1, 2))
    rows.append((1, 998, "MPI_Bcast", "collective", "complete", 1, None, 0, 8, 1, 2))
    with duckdb.connect() as con:
        con.execute(MPI_TABLES)
        con.executemany(f"INSERT INTO mpi_messages VALUES ({', '.join('?' * 11)})", rows)
        messages, collectives = merge.edges_of_mpi(con, {"node0": 0, "node1": 1})
    assert len(messages.sent) == 80 and len(collectives.sent) == 40
    for edges in (messages, collectives):
        found = clocks.offsets(2, edges, {})[1]
        assert found.uncertainty_ns is not None and found.uncertainty_ns < 3_000
        assert abs(found.at_ns - ahead) <= found.uncertainty_ns
