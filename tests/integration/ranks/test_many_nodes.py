"""A job on nodes that share nothing but a folder, which shows late what another node wrote and locks nothing for others: each
is a set of namespaces with its own network, hostname, processes, /dev/shm and clock (tests/support/nodes.py)."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest

import occatrace
from tests.support import nodes
from tests.support.runs import OCCA_PROF, ROOT
from tests.support.suites.session import wait_for

CACHE = Path(
    os.environ.get("OCCATRACE_CACHE") or Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "occatrace"
)
MESSAGES = 320  # in each direction between ranks and their partners, all together
# With Debian's 4.0.2, 64 ranks in such nodes hung in MPI_Finalize (two of two runs, stacks in PMI and UCX); not tried natively.
COMPILER, LAUNCHER = (CACHE / "mpi" / "mpich-4.3.2" / "bin" / name for name in ("mpicc", "mpirun"))


@pytest.mark.parametrize(
    "count, each", [(4, 2), pytest.param(8, 8, marks=pytest.mark.slow)], ids=["4-nodes", "8-nodes-of-8-ranks"]
)
def test_one_report_of_all_nodes(tmp_path: Path, count: int, each: int) -> None:
    why = nodes.missing() or ("" if COMPILER.exists() else "MPICH 4.3.2 is not installed")
    if why:
        pytest.skip(why)
    ranks = count * each
    ping = MESSAGES // ranks
    with nodes.nodes(tmp_path, count) as cluster:
        source = ROOT / "tests" / "programs" / "session" / "mpi_rank.c"
        subprocess.run([COMPILER, "-O1", "-o", cluster.shared / "mpi_rank", source, "-ldl"], check=True)
        program = [nodes.SHARED / "mpi_rank", f"*:ping={ping}"]
        done = cluster.mpirun(each, *OCCA_PROF, "-o", "run", *program, timeout=600, launcher=str(LAUNCHER))
        assert (done.returncode, done.stdout) == (0, f"{ranks} ranks, sum {ranks * (ranks - 1) // 2}\n"), done.stderr
        run = cluster.shared / "run"
        wait_for(lambda: all(not left_on(cluster, name) for name in cluster.names), 120)
        assert sorted(path.name for path in cluster.shared.iterdir()) == ["mpi_rank", "run"]
    assert done.stderr.count("the run is in") == 1 and done.stderr.count("MPI calls (api_sum)") == 1, done.stderr
    facts = json.loads((run / "run.json").read_text())
    assert (facts["notes"], facts["job"]["nodes"], facts["job"]["size"]) == ([], list(cluster.names), ranks)
    with occatrace.open(run) as opened:
        assert not opened.losses.lines()
        found = opened.sql("SELECT rank, host FROM processes ORDER BY rank").fetchall()
        assert found == [(rank, cluster.names[rank // each]) for rank in range(ranks)]
        calls = "SELECT function, sum(calls)::BIGINT FROM call_stats WHERE function IN ('MPI_Send', 'MPI_Recv', 'MPI_Allreduce')"
        assert dict(opened.sql(f"{calls} GROUP BY 1").fetchall()) == {
            "MPI_Send": MESSAGES,
            "MPI_Recv": MESSAGES,
            "MPI_Allreduce": ranks,
        }
        # On one clock all left the barrier at the end together, though the clocks are 1000 s apart.
        spread = "SELECT max(start_ns) - min(start_ns) FROM calls WHERE function = 'MPI_Finalize'"
        assert opened.sql(spread).fetchall()[0][0] < 100 * 10**9
    for name, clock in facts["clocks"].items():
        ahead = cluster.ahead_ns[name] - cluster.ahead_ns[cluster.names[0]]
        assert abs(clock["ahead_ns"] - ahead) <= (clock["uncertainty_ns"] or 0) + 1, (name, clock)
    shutil.rmtree(run)


def left_on(cluster: nodes.Nodes, name: str) -> str:
    """Processes and files of ours on a node."""
    script = (
        "cat /proc/[0-9]*/comm | grep -E '^(occa|lttng|python)' || true; ls -A /dev/shm /tmp | grep -i occa || true"
    )
    return cluster.on(name, script)
