"""Whole commands on a large run, each in a process of its own: wall time, CPU time, peak memory. Budget: 60 s on two cores
and 512 MB for each.

The run has 50 million calls of 130 threads in ten processes and 5 million launches: 5 million calls of 13 threads with half a
million launches are recorded and made ten times as large (4 GB on disk).
10,000 ranks are simulated from a run of four. Of MPI there is a run of four ranks with 5 million calls and 4 million messages.

usage: bench_scale.py [--calls N] [--launches N] [--run FOLDER] [--only WORD]... [--docs FILE] [--loaded]
       --run: kept and used again; --only: commands with one of these words in them; --docs: write the table there
       --loaded: others use the machine, so wall times say nothing and are left out of the table
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import occatrace
from tests.bench.recording import multiply, record

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
COPIES, THREADS = 10, 13
RANKS = 10_000
ROUNDS = 240_000  # of the ranks that send messages: 21 calls in four rounds
SECONDS, MEGABYTES = 60, 512
LIMIT_S = 240  # of CPU: a command is stopped then
OURS = (sys.executable, "-m", "occatrace.cli")
OF_MPI = "4 ranks, 9 million MPI calls and messages:"
CALLS_BY_FUNCTION = "SELECT function, sum(calls) FROM call_stats GROUP BY 1 ORDER BY 2 DESC"
SLOWEST_CALLS = "SELECT function, end_ns - start_ns AS ns FROM calls ORDER BY ns DESC LIMIT 10"


@dataclass(frozen=True)
class Measured:
    """One command: seconds on the wall and of CPU, MB at the peak, exit status (None: stopped at LIMIT_S), bytes printed."""

    wall: float
    cpu: float
    peak: float
    status: int | None
    printed: int


def measure(command: Sequence[object]) -> Measured:
    """Run a command; its output goes into a file, as a pipe would make it wait for us."""
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as said:
        begin = time.perf_counter()
        limited = ["prlimit", f"--cpu={LIMIT_S}", "--", *(str(word) for word in command)]
        child = subprocess.Popen(limited, stdout=out, stderr=said)
        _, code, used = os.wait4(child.pid, 0)
        status: int | None = os.waitstatus_to_exitcode(code)
        child.returncode = status or 0
        if status in (-signal.SIGXCPU, -signal.SIGKILL):
            status = None
        wall = time.perf_counter() - begin
        if status not in (0, None):
            said.seek(0)
            print(said.read().decode(errors="replace")[-2000:], file=sys.stderr)
        return Measured(wall, used.ru_utime + used.ru_stime, used.ru_maxrss / 1024, status, out.seek(0, 2))


def make(run: Path, calls: int, launches: int) -> None:
    """Record a run and multiply it."""
    with tempfile.TemporaryDirectory() as folder:
        one = Path(folder) / "one"
        record(one, threads=THREADS, calls=calls // COPIES, launches=launches // COPIES)
        multiply(one, run, COPIES)


def commands(run: Path, half: Path, messages: Path, made: Path) -> dict[str, Sequence[object]]:
    """Title: command. `half`: a run to compare with; `messages`: one of MPI; `made`: a folder for what they write."""
    from occatrace import reports

    ours = list(OURS)
    every = [word for name in reports.definitions() if name != "api_trace" for word in ("--report", name)]
    return {
        "report, the first (makes the tables)": [*ours, "report", run],
        "report, again": [*ours, "report", run],
        "report: all but api_trace": [*ours, "report", *every, "--rows", 1000, run],
        "report api_trace, 1000 rows": [*ours, "report", "--report", "api_trace", "--rows", 1000, run],
        "report --by thread": [*ours, "report", "--by", "thread", run],
        "report --filter-time 25%:50%": [*ours, "report", "--filter-time", "25%:50%", run],
        "report --format html": [*ours, "report", "--format", "html", "-o", made / "page.html", run],
        "why": [*ours, "why", run],
        f"{OF_MPI} why": [*ours, "why", messages],
        f"{OF_MPI} wait_states": [*ours, "report", "--report", "wait_states", messages],
        "digest": [*ours, "digest", run],
        "trace": [*ours, "trace", run],
        "query, calls by function": [*ours, "query", run, CALLS_BY_FUNCTION],
        "query, the slowest single calls": [*ours, "query", run, SLOWEST_CALLS],
        "flamegraph": [*ours, "flamegraph", run, "-o", made / "flame.html"],
        "timeline": [*ours, "timeline", run, "-o", made / "timeline.pftrace"],
        "export, Parquet": [*ours, "export", run, "-o", made / "parquet"],
        "export --calls, Parquet": [*ours, "export", "--calls", run, "-o", made / "calls"],
        "export, SQLite": [*ours, "export", "--format", "sqlite", run, "-o", made / "run.db"],
        "export, CSV of nsys": [*ours, "export", "--format", "nsys", run, "-o", made / "nsys"],
        "compare with a copy": [*ours, "compare", half, run],
        f"merge and report {RANKS:,} ranks": [
            sys.executable, ROOT / "tools" / "simulate_ranks", RANKS, made, made / "ranks", "--merge",
        ],
    }  # fmt: skip


def record_ranks(source: Path, made: Path, *arguments: str) -> Path | None:
    """A run of four ranks of an MPI program, with its tables; None: there is no MPI."""
    compiler, launcher = shutil.which("mpicc.openmpi"), shutil.which("mpirun.openmpi")
    if not compiler or not launcher:
        return None
    program, run = made / source.stem, made / f"run-{source.stem}"
    subprocess.run([compiler, "-O1", "-o", program, source], check=True)
    options = ["--oversubscribe", "--allow-run-as-root"]
    recorded: list[str | Path] = [launcher, *options, "-n", "4", *OURS, "-q", "-o", run, program, *arguments]
    subprocess.run(recorded, check=True, capture_output=True)
    subprocess.run([*OURS, "report", run], check=True, capture_output=True)
    return run


def simulate_ranks(made: Path) -> bool:
    """Write the partial summaries of RANKS ranks; whether there is an MPI to record the four that they are made from."""
    run = record_ranks(ROOT / "tests" / "programs" / "fixed_cost" / "four_calls.c", made)
    if run is None:
        return False
    tool = ROOT / "tools" / "simulate_ranks"
    subprocess.run([sys.executable, tool, str(RANKS), run, made / "ranks"], check=True, capture_output=True)
    return True


def table(rows: dict[str, Measured], facts: str, loaded: bool, missing: Sequence[str]) -> str:
    """The page of the documentation. `loaded`: without wall times; `missing`: commands that were not run."""
    others = "Others used the machine meanwhile, so only CPU time is given: that of 60 s on two cores is 120 s."
    lines = [
        "# Whole commands on a large run",
        "",
        "Written by `tests/bench/bench_scale.py --docs docs/scale.md` (`tools/bench scale`). " + facts,
        "",
        f"Budget for each: {SECONDS} s on two cores, {MEGABYTES} MB. A figure above it is in bold.",
        "",
        *([others, ""] if loaded else []),
        f"| command |{'' if loaded else ' wall s |'} CPU s | peak MB |",
        f"|---|{'' if loaded else '---:|'}---:|---:|",
    ]
    for title, m in rows.items():
        wall, cpu = (f"**{v:.1f}**" if v > SECONDS * n else f"{v:.1f}" for v, n in ((m.wall, 1), (m.cpu, 2)))
        peak = f"**{m.peak:.0f}**" if m.peak > MEGABYTES else f"{m.peak:.0f}"
        ended = {0: "", None: f" (stopped after {LIMIT_S} s of CPU)"}.get(m.status, f" (exit status {m.status})")
        lines.append(f"| {title}{ended} |{'' if loaded else f' {wall} |'} {cpu} | {peak} |")
    if missing:
        lines += ["", f"Not measured on this run: {', '.join(missing)}."]
    return "\n".join([*lines, ""])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--calls", type=int, default=50_000_000)
    parser.add_argument("--launches", type=int, default=5_000_000)
    parser.add_argument("--run", type=Path, help="folder of the run; recorded where it is not there")
    parser.add_argument("--only", action="append", default=[], help="commands with this word in their title")
    parser.add_argument("--loaded", action="store_true", help="leave wall times out of the table")
    parser.add_argument("--docs", type=Path, help="write the table to this file")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        made = Path(folder)
        run: Path = args.run or made / "run"
        if not run.exists():
            # In a process of its own: what starts a command counts as memory of it until the command's program is loaded.
            with multiprocessing.get_context("spawn").Pool(1) as pool:
                pool.apply(make, (run, args.calls, args.launches))
        if not args.only:
            shutil.rmtree(run / "tables", ignore_errors=True)
        rows: dict[str, Measured] = {}
        print(f"{'':<60}{'wall s':>9}{'CPU s':>9}{'peak MB':>9}")

        def wanted(title: str) -> bool:
            return not args.only or any(word in title for word in args.only)

        there = simulate_ranks(made) if wanted(f"merge and report {RANKS:,} ranks") else False
        of_mpi = [title for title in commands(run, run, made, made) if title.startswith(OF_MPI)]
        ring = HERE / "programs" / "mpi_ring.c"
        messages = record_ranks(ring, made, str(ROUNDS)) if any(map(wanted, of_mpi)) else None
        missing = []
        for title, command in commands(run, run, messages or made, made).items():
            absent = (title.startswith("merge") and not there) or (title in of_mpi and messages is None)
            if not wanted(title) or absent:
                missing.append(title)
                continue
            m = rows[title] = measure(command)
            ended = {0: "", None: "  stopped"}.get(m.status, f"  exit status {m.status}")
            print(f"{title:<60}{m.wall:>9.1f}{m.cpu:>9.1f}{m.peak:>9.0f}{ended}", flush=True)
        if args.docs:
            with occatrace.open(run) as opened:
                calls, work = opened.sql(
                    "SELECT sum(calls)::BIGINT, (SELECT count(*) FROM activities) FROM call_stats"
                ).fetchall()[0]
            facts = (
                f"The run has {calls:,} calls and {work:,} recorded launches, of {COPIES * THREADS} threads"
                f" in {COPIES} processes; {RANKS:,} ranks are simulated. It was measured on two cores."
            )
            args.docs.write_text(table(rows, facts, args.loaded, missing))


if __name__ == "__main__":
    main()
