"""Timelines of programs with MPI, OpenMP, ranges and counters: what Perfetto shows is what the tables say."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("perfetto")
pytest.importorskip("wasmtime")

import occatrace
from tests.support.perfetto_check import check
from tests.support.suites.reports import OCCA_PROF, ROOT, occa_prof
from tests.support.timelines import perfetto

PROGRAMS = ROOT / "tests" / "programs" / "timeline"

SLICES = """
SELECT s.ts, s.dur, s.name, s.category, t.tid, p.name AS process, parent.name AS parent
FROM slice s LEFT JOIN thread_track k ON k.id = s.track_id LEFT JOIN thread t USING (utid) LEFT JOIN process p USING (upid)
LEFT JOIN slice parent ON parent.id = s.parent_id
"""


def build(compiler: str, name: str, out: Path, *options: str) -> Path:
    """A program of this folder."""
    include = f"-I{ROOT / 'include'}"
    command: list[str | Path] = [
        compiler,
        "-g",
        "-O1",
        "-Wall",
        include,
        *options,
        PROGRAMS / f"{name}.c",
        "-o",
        out / name,
    ]
    subprocess.run(command, check=True)
    return out / name


def rows(run: Path, sql: str) -> list[tuple[Any, ...]]:
    with occatrace.open(run) as opened:
        return list(opened.sql(sql).fetchall())


@pytest.fixture(scope="module")
def hybrid(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of two ranks."""
    mpi = next((m for m in (".openmpi", ".mpich") if shutil.which(f"mpicc{m}") and shutil.which(f"mpirun{m}")), None)
    if not mpi:
        pytest.skip("no MPI: tools/setup --test installs one")
    out = tmp_path_factory.mktemp("hybrid")
    program = build(f"mpicc{mpi}", "hybrid", out, "-fopenmp")
    options = ["--oversubscribe", "--allow-run-as-root"] if mpi == ".openmpi" else []
    words: list[str | Path] = [f"mpirun{mpi}", *options, "-n", "2", *OCCA_PROF, "-o", out / "run", program]
    env = os.environ | {"OMPI_MCA_btl_vader_single_copy_mechanism": "none"}
    ran = subprocess.run(words, text=True, capture_output=True, timeout=300, env=env, check=False)
    assert ran.returncode == 0, ran.stderr
    return out / "run"


def test_time_steps(hybrid: Path, tmp_path: Path) -> None:
    path = tmp_path / "x.pftrace"
    wrote = occa_prof("timeline", hybrid, "-o", path)
    assert wrote.returncode == 0, wrote.stderr
    assert check(path).problems == []
    # The interface shows processes in the order of their descriptions.
    described = [t.process.process_name for t in check(path).tracks.values() if t.HasField("process")]
    assert described == ["rank 0 hybrid", "rank 1 hybrid"]
    found = perfetto(path, SLICES)
    processes = {r.process for r in found if r.process}
    assert processes == {"rank 0 hybrid", "rank 1 hybrid"}
    names = Counter((r.name, r.process) for r in found)
    for process in processes:
        assert names["time step", process] == 3
        assert names["MPI_Sendrecv", process] == names["MPI_Allreduce", process] == names["done", process] == 3
        assert names["parallel in main", process] == 3
        assert names["thread of main", process] == 6
    # Ranges enclose the calls of their thread.
    parents = {
        (r.name, r.parent) for r in found if r.name in ("MPI_Sendrecv", "MPI_Allreduce", "done", "parallel in main")
    }
    assert {parent for _, parent in parents} == {"time step"}
    assert names["exchange", None] == 6  # of a track of its own
    # To the nanosecond as the tables have it, by host.
    offset = rows(hybrid, "SELECT realtime_ns::BIGINT - mono_ns::BIGINT FROM processes ORDER BY process LIMIT 1")[0][0]
    calls = rows(hybrid, "SELECT c.start_ns, c.end_ns - c.start_ns, t.tid FROM calls c JOIN threads t USING (thread)")
    ranges = rows(
        hybrid,
        "SELECT r.start_ns, r.end_ns - r.start_ns, t.tid FROM ranges r JOIN threads t USING (thread) WHERE kind <> 'start'",
    )
    waits = rows(
        hybrid,
        "SELECT o.end_ns, o.join_ns + o.late_ns, t.tid FROM omp_threads o JOIN threads t USING (thread)"
        " WHERE o.join_ns + o.late_ns > 0",
    )
    expected = Counter((start + offset, duration, tid) for start, duration, tid in calls + ranges + waits)
    # Each of the two receives three messages; at three reductions, and where MPI starts and ends, one is the last.
    moments = Counter(r.name for r in found if r.dur == 0 and ("message from" in r.name or r.name.endswith("arrived")))
    assert {name: n for name, n in moments.items() if "message" in name} == {
        f"message from rank {n}": 3 for n in (0, 1)
    }
    assert sum(n for name, n in moments.items() if "arrived" in name) == 5
    assert Counter((r.ts, r.dur, r.tid) for r in found if r.tid is not None and r.name not in moments) == expected
    arguments = next(dict(s.arguments) for s in check(path).slices if s.name == "MPI_Sendrecv")
    assert arguments["partner rank"] in (0, 1)
    region = next(dict(s.arguments) for s in check(path).slices if s.name == "parallel in main")
    assert region["threads"] == 2 and region["source"].endswith("hybrid.c:23")
    values = perfetto(
        path,
        "SELECT value, unit FROM counter c JOIN counter_track t ON t.id = c.track_id WHERE t.name = 'residual' ORDER BY ts",
    )
    assert sorted(round(r.value, 6) for r in values) == [0.333333] * 2 + [0.5] * 2 + [1.0] * 2


def test_a_file_per_rank(hybrid: Path, tmp_path: Path) -> None:
    whole = tmp_path / "x.pftrace"
    for more in ((), ("--split", "rank")):
        wrote = occa_prof("timeline", hybrid, "-o", whole, *more)
        assert wrote.returncode == 0, wrote.stderr
    parts = [tmp_path / f"x.rank{rank}.pftrace" for rank in (0, 1)]
    for rank, part in enumerate(parts):
        assert check(part).problems == []
        assert {r.process for r in perfetto(part, SLICES) if r.process} == {f"rank {rank} hybrid"}
    both = tmp_path / "both.pftrace"
    both.write_bytes(parts[1].read_bytes() + parts[0].read_bytes())
    assert check(both).problems == []

    def content(path: Path) -> Counter[tuple[Any, ...]]:
        return Counter((r.ts, r.dur, r.name, r.category, r.tid, r.process, r.parent) for r in perfetto(path, SLICES))

    assert content(both) == content(whole)
    only = tmp_path / "only.pftrace"
    assert occa_prof("timeline", hybrid, "-o", only, "--ranks", "1").returncode == 0
    assert content(only) == content(parts[1])


def test_exec_and_fork(tmp_path: Path) -> None:
    """Two programs with one process id are two processes; a child is a third."""
    program = build("gcc", "stages", tmp_path)
    run = tmp_path / "run"
    ran = occa_prof("-l", "-o", run, program)
    assert ran.returncode == 0, ran.stderr
    path = run / "timeline.pftrace"
    assert check(path).problems == []
    found = perfetto(
        path,
        "SELECT s.name, p.upid, p.pid FROM slice s JOIN thread_track k ON k.id = s.track_id JOIN thread USING (utid)"
        " JOIN process p USING (upid)",
    )
    pids = {r.name: r.pid for r in found}
    assert set(pids) == {"first program", "second program", "child"}
    assert pids["first program"] == pids["second program"] != pids["child"]
    assert len({r.upid for r in found}) == 3
    labels = [list(t.process.process_labels) for t in check(path).tracks.values() if t.HasField("process")]
    assert sum("id of an earlier process (exec, or used again)" in words for words in labels) == 1
