"""What OpenMP costs, native and traced in turn, with libgomp and LLVM's runtime, at level event (mode default) and at level
tally: an empty parallel region on two threads and on one, an empty critical section, an empty task. The best of the rounds each."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SOURCE = ROOT / "tests" / "bench" / "programs" / "empty_region.c"
COUNT = int(os.environ.get("BENCH_COUNT", "20000"))
ROUNDS = int(os.environ.get("BENCH_ROUNDS", "5"))
COMPILERS = {"libgomp": "gcc", "LLVM": "clang-19"}
MODES = (None, "default", "tally")
MEASURES = {
    "region_ns": "empty region, 2 threads",
    "one_ns": "empty region, 1 thread",
    "critical_ns": "critical section",
    "task_ns": "task",
}


def measure(program: Path, folder: Path, mode: str | None, number: int) -> dict[str, float]:
    command = [str(program), str(COUNT)]
    if mode is not None:
        options = ["-m", mode, "-q", "-o", str(folder / f"{program.name}-{mode}{number}")]
        command = [sys.executable, "-m", "occatrace.cli", *options, "--", *command]
    done = subprocess.run(
        command, capture_output=True, text=True, check=True, env=os.environ | {"OMP_PROC_BIND": "true"}
    )
    result: dict[str, float] = json.loads(done.stdout)
    return result


def main() -> None:
    titles = ("native", "event", "ratio", "difference", "tally", "ratio", "difference")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for runtime, compiler in COMPILERS.items():
            program = folder / runtime
            options = ["-O1", "-fopenmp"]
            if compiler != "gcc":
                found = subprocess.run(
                    [compiler, "-print-file-name=libomp.so"], capture_output=True, text=True, check=True
                )
                options.append(f"-Wl,-rpath,{Path(found.stdout.strip()).resolve().parent}")
            subprocess.run([compiler, str(SOURCE), *options, "-o", str(program)], check=True)
            rounds = [{mode: measure(program, folder, mode, number) for mode in MODES} for number in range(ROUNDS)]
            print(f"{runtime + ', ns':<26}" + "".join(f"{title:>12}" for title in titles))
            for key, title in MEASURES.items():
                native = min(r[None][key] for r in rounds)
                print(f"{title:<26}{native:>12.0f}", end="")
                for mode in ("default", "tally"):
                    traced = min(r[mode][key] for r in rounds)
                    print(f"{traced:>12.0f}{traced / native:>12.2f}{traced - native:>+12.0f}", end="")
                print()


if __name__ == "__main__":
    main()
