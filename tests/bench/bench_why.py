"""`why` on programs that know what delays them: whether the culprit comes first, with its line, and how far `--what-if` is from a
program that was really changed. tools/bench why [delays] [predictions]

An error is in points: of the time that the steps take before the change. The steps of both programs are timed by themselves, as
the start of MPI and OpenCL varies by more than the changes."""

from __future__ import annotations

import json
import statistics
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from tests.diagnosis.cases import CASES, PROGRAMS  # noqa: E402
from tests.diagnosis.runner import MPIRUN, Bench  # noqa: E402
from tests.support.runs import OCCA_PROF, execute  # noqa: E402

WHY = ROOT / "tests" / "programs" / "why"
TIMES = 3
COMPILERS = {"team": ("gcc", "-fopenmp"), "ranks": ("mpicc.openmpi",), "chain": ("gcc", "-lOpenCL")}


@dataclass(frozen=True)
class Delay:
    """What is to be the largest row of the path: its kind, a part of its name, the line that contains a text in the function of the
    problem, the rank."""

    case: str
    kind: str
    name: str
    text: str
    rank: int | None = None


@dataclass(frozen=True)
class Change:
    """A program before and after a change, and the change in the words of --what-if."""

    program: str
    before: str
    after: str
    what_if: str


DELAYS = (
    Delay("ranks-late_at_barrier", "host", "MPI_Barrier", "MPI_Barrier(", 2),
    Delay("ranks-imbalance", "host", "MPI_Allreduce", "MPI_Allreduce(", 3),
    Delay("ranks-late_sender", "host", "MPI_Send", "MPI_Send(", 1),
    Delay("ranks-late_root", "host", "MPI_Bcast", "MPI_Bcast(", 3),
    Delay("team-imbalance", "function", "imbalance", "#pragma"),
    Delay("team-triangle", "function", "triangle", "#pragma"),
    Delay("team-inner_barrier", "function", "inner_barrier", "#pragma"),
    Delay("device-builds", "build", "clBuildProgram", "// build"),
    Delay("device-unchanged", "copy", "HtoD", "// copy"),
    Delay("device-clean_queue", "kernel", "work", "LAUNCH("),
    Delay("device-slow_host", "host", "clFlush", "clFlush("),
    Delay("driver-false_dependency", "kernel", "lengthy", "LAUNCH(lengthy"),
)
TEAM, SLOW, CHAIN = "20 10 2 5 10", "20 20 2 5", "30 300000 150000 5 2"
# Of the host's code what is between regions: not the start of the program, which is not in its steps.
CHANGES = (
    Change("team", TEAM, "20 10 2 2.5 10", "function*0.5"),
    Change("team", TEAM, "20 10 2 1 10", "function*0.2"),
    Change("team", TEAM, "20 10 2 10 10", "function*2"),
    Change("team", TEAM, "20 10 2 5 5", "host:after*before**0.5"),
    Change("team", TEAM, "20 10 2 5 0", "host:after*before**0"),
    Change("team", TEAM, "20 10 2 2.5 5", "function*0.5,host:after*before**0.5"),
    Change("ranks", SLOW, "20 20 2 2", "rank:2=mean"),
    Change("ranks", SLOW, "20 20 2 2.5", "rank:2*0.5"),
    Change("ranks", SLOW, "20 20 2 1", "rank:2*0.2"),
    Change("ranks", SLOW, "20 20 2 0", "rank:2*0"),
    Change("ranks", SLOW, "20 20 2 7.5", "rank:2*1.5"),
    Change("ranks", SLOW, "20 30 2 5", "rank:0*1.5,rank:1*1.5,rank:2*1.5,rank:3*1.5"),
    Change("chain", CHAIN, "30 150000 150000 5 2", "kernel:first*0.5"),
    Change("chain", CHAIN, "30 300000 75000 5 2", "kernel:second*0.5"),
    Change("chain", CHAIN, "30 0 150000 5 2", "kernel:first*0"),
    Change("chain", CHAIN, "30 150000 75000 5 2", "kernel*0.5"),
    Change("chain", CHAIN, "30 600000 150000 5 2", "kernel:first*2"),
    Change("chain", CHAIN, "30 300000 300000 5 2", "kernel:second*2"),
    Change("chain", CHAIN, "30 300000 150000 5 0", "copy*0"),
    Change("chain", CHAIN, "30 300000 150000 5 1", "copy:HtoD*0.5"),
    Change("chain", CHAIN, "30 150000 150000 5 0", "kernel:first*0.5,copy*0"),
    Change("chain", CHAIN, "30 300000 150000 5 2 0", "wait:clFinish*0"),
)


def why(run: Path, *changes: str) -> dict[str, Any]:
    """The answer about a run."""
    options = [word for change in changes for word in ("--what-if", change)]
    done = execute([*OCCA_PROF, "why", run, "--format", "json", *options])
    if done.returncode:
        raise RuntimeError(done.stderr)
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def delays(bench: Bench) -> int:
    """How many culprits do not come first, with line and rank. What a program does before its first step does not count."""
    wrong = 0
    for delay in DELAYS:
        case = next(case for case in CASES if case.name == delay.case)
        bench.run(case)
        rows = [row for row in why(bench.folder / case.name)["rows"] if not row["name"].startswith("before ")]
        lines = (PROGRAMS / case.program).read_text(encoding="utf-8").splitlines()
        begin = next(n for n, text in enumerate(lines) if f"{case.problem}(" in text)
        line = next(n for n in (*range(begin, len(lines)), *range(begin)) if delay.text in lines[n]) + 1
        row = rows[0]
        good = row["kind"] == delay.kind and delay.name in row["name"] and row["rank"] == delay.rank
        good &= row["source"].endswith(f"/{case.program}:{line}")
        wrong += not good
        said = f"{row['kind']} {row['name']} ({row['source']}), rank {row['rank']}, {row['share']:.0f} %"
        print(f"{'right' if good else 'WRONG':6s} {delay.case:26s} {said}", flush=True)
    print(f"culprit and line named: {len(DELAYS) - wrong} of {len(DELAYS)}")
    return wrong


def predictions(folder: Path) -> int:
    """Errors of predictions, by program."""
    errors: dict[str, list[float]] = {}
    for program, options in COMPILERS.items():
        done = execute([options[0], "-O1", "-g", "-o", folder / program, WHY / f"{program}.c", *options[1:]])
        if done.returncode:
            print(f"{program}: cannot be compiled here; left out", file=sys.stderr)
            continue
        for change in CHANGES:
            if change.program == program:
                errors.setdefault(program, []).append(_error(folder, change))
    every = [error for those in errors.values() for error in those]
    for name, those in (*errors.items(), ("all", every)):
        print(
            f"{name:6s} {len(those):2d} changes: median error {statistics.median(those):.1f} points, worst {max(those):.1f}"
        )
    return int(statistics.median(every) > 5 or max(every) > 10)


def _error(folder: Path, change: Change) -> float:
    """In turn, so that a busy machine slows both; of each the fastest run counts, which was disturbed least."""
    before: list[tuple[float, float]] = []  # how long the steps took, and would take
    after = []
    for number in range(TIMES):
        run = folder / f"run{number}"
        took = _steps(run, folder / change.program, change.before.split())
        found = why(run, change.what_if)
        before.append((took, took - (found["wall_ns"] - found["predicted_ns"]) / 1e9))
        after.append(_steps(folder / "changed", folder / change.program, change.after.split()))
    (base, told), real = min(before), min(after)
    error = 100 * abs(told - real) / base
    print(
        f"{change.program:6s} {change.what_if:46s} {base:6.3f} s; predicted {told:6.3f}, changed {real:6.3f}: {error:4.1f}",
        flush=True,
    )
    return error


def _steps(run: Path, program: Path, words: Sequence[str]) -> float:
    launcher = MPIRUN if program.name == "ranks" else ()
    done = execute([*launcher, *OCCA_PROF, "-q", "--force", "-o", run, program, *words])
    if done.returncode:
        raise RuntimeError(done.stderr)
    return float(done.stdout)


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as temporary:
        parts = sys.argv[1:] or ["delays", "predictions"]
        failed = delays(Bench(Path(temporary) / "diagnosis")) if "delays" in parts else 0
        failed += predictions(Path(temporary)) if "predictions" in parts else 0
    sys.exit(1 if failed else 0)
