"""A job on several nodes: here the names of the nodes are given, everything else is as on a cluster whose nodes share a
folder and nothing else."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import time
from collections.abc import Mapping
from pathlib import Path

import duckdb
import pytest

from occatrace.run import checksums
from occatrace.store import merge
from occatrace.store.tables import open_store
from tests.support.runs import PATIENCE, measured
from tests.support.suites.ranks import Job, make_job, numbers
from tests.support.suites.session import OCCA_PROF, PROGRAMS, Person, wait_for

END = "the run is in"
# Two ranks on each node, the second node's clock as SHIFT says.
NODE = """
rank=${OMPI_COMM_WORLD_RANK-$PMI_RANK}
export OCCATRACE_HOST=node$((rank / 2))
[ $rank -lt 2 ] || [ -z "$SHIFT" ] || export SHIFT_NS=$SHIFT LD_PRELOAD=$SHIFT_LIBRARY
exec "$@"
"""


def on_nodes(job: Job, ranks: int, *command: object, **env: str) -> subprocess.CompletedProcess[str]:
    words = ["sh", "-c", NODE, "sh", *OCCA_PROF, "-o", job.folder / "run", *command]
    return job.run(ranks, *words, timeout=60, **{"SHIFT": "", **env})


def on_nodes_anew(job: Job, what: str, env: Mapping[str, str]) -> None:
    shutil.rmtree(job.folder / "run", ignore_errors=True)
    done = on_nodes(job, 4, job.program, what, **env)
    assert done.returncode == 0, done.stderr


@pytest.fixture(scope="session")
def shift_library(mpi_programs: Path) -> Path:
    library = mpi_programs / "libshift.so"
    source = PROGRAMS / "shift_clock.c"
    if not source.exists():
        source = Path(__file__).resolve().parents[2] / "programs" / "session" / "shift_clock.c"
    subprocess.run(["gcc", "-O1", "-shared", "-fPIC", "-o", library, source], check=True)
    return library


def test_two_nodes(job: Job) -> None:
    done = on_nodes(job, 4, job.program)
    assert (done.returncode, done.stdout) == (0, "4 ranks, sum 6\n"), done.stderr
    assert done.stderr.count(END) == 1, done.stderr
    facts = job.facts
    assert facts["notes"] == [] and facts["job"]["nodes"] == ["node0", "node1"]
    rows = job.query("SELECT rank, host, trace, process FROM processes ORDER BY rank")
    assert [row[:3] for row in rows] == [(r, f"node{r // 2}", f"node{r // 2}") for r in range(4)]
    assert {row[3] for row in rows} == {1, 2, 3, 4}
    # Every thread belongs to a process of its own node, by its number there.
    tables = job.folder / "run" / "tables"
    stray = duckdb.execute(
        f"SELECT t.tid, p.pid FROM '{tables}/threads.parquet' t JOIN '{tables}/processes.parquet' p USING (process)"
        " WHERE t.start_ns < p.start_ns - 1e9"
    ).fetchall()
    assert stray == []
    assert sorted(p.name for p in (job.folder / "run").iterdir() if p.name[0] != ".") == [
        "nodes",
        "run.json",
        "tables",
        "trace",
    ]
    found = checksums.verify(job.folder / "run")
    files = [p for p in (job.folder / "run").glob("trace/*/**/*") if p.is_file() and p.name != checksums.FILE]
    assert (found.files, found.damaged) == (len(files), [])
    job.nothing_left()


def test_stream_on_two_nodes(one_job: Job) -> None:
    """Each node makes tables of its own trace; together they have what a run without has."""
    job = one_job
    counts = "SELECT p.rank, p.host, function, sum(calls)::BIGINT FROM call_stats JOIN processes p USING (process) GROUP BY ALL"
    single = "SELECT p.rank, function, count(*) FROM calls JOIN processes p USING (process) GROUP BY ALL"
    found = []
    for options in (("--stream",), ()):
        shutil.rmtree(job.folder / "run", ignore_errors=True)
        done = on_nodes(job, 4, *options, "-m", "full", job.program, "*:ping=50")
        assert done.returncode == 0 and done.stderr.count(END) == 1, done.stderr
        assert job.facts["notes"] == [] and job.facts["job"]["nodes"] == ["node0", "node1"]
        assert ("streamed" in (job.folder / "run" / "tables" / "tables.json").read_text()) == bool(options)
        with open_store(job.folder / "run") as store:
            store.functions()
            assert store.con.execute("SELECT count(*) FROM losses").fetchall() == [(0,)]
            found.append([sorted(store.con.execute(query).fetchall()) for query in (counts, single)])
    assert found[0] == found[1]
    assert {row[0] for row in found[0][0]} == {0, 1, 2, 3}


@pytest.mark.measures
def test_the_clocks_of_two_nodes(job: Job, shift_library: Path) -> None:
    shift = 2_500_000_000
    env = {"SHIFT": str(shift), "SHIFT_LIBRARY": str(shift_library)}
    measured(lambda: on_nodes_anew(job, "*:ping=200", env), lambda _: check_clocks(job, shift))


def check_clocks(job: Job, shift: int) -> None:
    clocks = job.facts["clocks"]
    assert clocks["node0"]["ahead_ns"] == 0
    second = clocks["node1"]
    assert second["edges"] >= 2 * 2 * 200  # two pairs of ranks, to and fro
    assert second["uncertainty_ns"] < 1_000_000 and second["drift"] == 0
    assert abs(second["ahead_ns"] - shift) <= second["uncertainty_ns"] + 1
    # As recorded the ends of the ranks are seconds apart, as shown they are not.
    raw = numbers(job.query("SELECT end_ns FROM processes ORDER BY rank"))
    assert min(raw[2:]) - max(raw[:2]) > shift - 1_000_000_000
    with open_store(job.folder / "run") as store:
        store.functions()
        spread = "SELECT max(start_ns) - min(start_ns) FROM calls WHERE function = 'MPI_Finalize'"
        assert store.con.execute(spread).fetchall()[0][0] < 1_000_000_000
        # No message is received before it was sent.
        messages, collectives = merge.edges_of_mpi(store.con, {"node0": 0, "node1": 1})
        for edges in (messages, collectives):
            assert len(edges.sent) and (edges.received - edges.sent).min() >= -1
    by_rank = job.person.run(
        [*OCCA_PROF, "report", str(job.folder / "run"), "--by", "rank"], env=job.environment(), cwd=job.folder
    )
    assert by_rank.returncode == 0 and "MPI_Finalize" in by_rank.stdout, by_rank.stderr


@pytest.mark.measures
def test_a_clock_that_drifts(one_job: Job, shift_library: Path) -> None:
    """It gains a thousandth less a bit: half a millisecond in the half second of the messages."""
    job = one_job
    env = {"SHIFT": "1000000000", "SHIFT_PPB": "900000", "SHIFT_LIBRARY": str(shift_library)}
    measured(
        lambda: on_nodes_anew(job, "*:ping=400", env | {"SHIFT_SINCE_NS": str(time.monotonic_ns())}),
        lambda _: check_drift(job),
    )


def check_drift(job: Job) -> None:
    second = job.facts["clocks"]["node1"]
    assert second["uncertainty_ns"] < 200_000
    assert second["drift"] == pytest.approx(9e-4, abs=3e-4)


def test_a_node_that_is_cut_off(mpi_programs: Path, job_folder: Path, people: dict[str, Person]) -> None:
    """Everything on the second node is killed at once: the first one reports, and names what is missing. (An ordinary
    user's, because these nodes would share root's daemon.)"""
    job = make_job("openmpi", mpi_programs, job_folder, people["user"])
    words = job.words(
        4,
        "sh",
        "-c",
        NODE,
        "sh",
        *OCCA_PROF,
        "-o",
        job.folder / "run",
        job.program,
        f"*:here={job.folder}",
        f"*:until={job.folder / 'go'}",
    )
    env = job.environment(OCCATRACE_PATIENCE="5", SHIFT="")
    said = job.folder / "said"
    said.touch()
    said.chmod(0o666)  # what a pipe of root's is not
    with said.open("a") as file:
        running = job.person.start(words, env=env, cwd=job.folder, stderr=file)
    wait_for(lambda: all((job.folder / rank).exists() for rank in "0123"), PATIENCE)
    for process in Path("/proc").glob("[0-9]*"):
        try:
            environ = (process / "environ").read_bytes()
            if b"OCCATRACE_HOST=node1" in environ and str(job.folder).encode() in environ:
                os.kill(int(process.name), signal.SIGKILL)
        except OSError:
            continue
    (job.folder / "go").touch()
    running.communicate(timeout=PATIENCE)
    wait_for(lambda: END in said.read_text())
    assert said.read_text().count(END) == 1
    notes = job.facts["notes"]
    assert any("node1 did not finish" in note for note in notes), notes
    assert any("ranks 2-3" in note for note in notes), notes
    assert {0, 1} <= set(numbers(job.query("SELECT rank FROM processes")))
