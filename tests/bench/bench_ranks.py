"""What a job of eight ranks costs beside itself: start, session, tables, one report. Native and profiled in turn, by
each MPI that is here; CPU time counts everything that was started, and is what to look at on a busy machine."""

from __future__ import annotations

import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SOURCE = ROOT / "tests" / "programs" / "session" / "mpi_rank.c"
RANKS, ROUNDS = 8, 5


def timed(command: Sequence[object]) -> tuple[float, float]:
    """Milliseconds on the wall and of CPU, until the last word has been said."""
    before, begin = os.times(), time.perf_counter()
    subprocess.run([str(word) for word in command], check=True, capture_output=True)
    wall, after = time.perf_counter() - begin, os.times()
    cpu = after.children_user + after.children_system - before.children_user - before.children_system
    return wall * 1e3, cpu * 1e3


def main() -> None:
    print(f"{RANKS} ranks, ms{'':20}{'native':>10}{'occa_prof':>12}{'difference':>12}{'ratio':>8}{'CPU':>8}")
    for mpi in ("openmpi", "mpich"):
        if not shutil.which(f"mpirun.{mpi}"):
            continue
        with tempfile.TemporaryDirectory() as name:
            program = Path(name) / "rank"
            subprocess.run([f"mpicc.{mpi}", "-O1", "-o", program, SOURCE, "-ldl"], check=True)
            options = ["--oversubscribe", "--allow-run-as-root"] if mpi == "openmpi" else []
            launch = [f"mpirun.{mpi}", *options, "-n", RANKS]
            profiled = [sys.executable, "-m", "occatrace.cli", "--force", "-o", Path(name) / "run"]
            for title, more in (("with the summary", []), ("-q (no analysis)", ["-q"])):
                timed([*launch, *profiled, program])
                pairs = [
                    (*timed([*launch, program]), *timed([*launch, *profiled, *more, program])) for _ in range(ROUNDS)
                ]
                alone, alone_cpu, with_us, with_us_cpu = (statistics.median(c) for c in zip(*pairs, strict=True))
                print(
                    f"{mpi + ', ' + title:33}{alone:10.0f}{with_us:12.0f}{with_us - alone:12.0f}{with_us / alone:8.2f}"
                    f"{with_us_cpu - alone_cpu:8.0f}"
                )


if __name__ == "__main__":
    main()
