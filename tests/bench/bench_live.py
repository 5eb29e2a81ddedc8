"""What live quantities cost: an OpenCL launch uncounted and counted in turn, and a call of occatrace.live() beside its budget."""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROUNDS = 5
BUDGET = 10_000  # ns of a call of live()

CALLS = """
import time
import occatrace
occatrace.live()
best = 1e9
for _ in range(5):
    begin = time.perf_counter_ns()
    for _ in range(10_000):
        occatrace.live()
    best = min(best, (time.perf_counter_ns() - begin) / 10_000)
print(best)
"""


def main() -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        program = folder / "calls"
        source = HERE / "programs" / "opencl_calls.cpp"
        subprocess.run(["g++", "-O2", "-std=c++17", "-o", program, source, "-lOpenCL"], check=True)

        def run(live: str, *command: object) -> str:
            occa_prof = [
                sys.executable,
                "-m",
                "occatrace.cli",
                "-q",
                "-o",
                folder / f"run{len(list(folder.iterdir()))}",
            ]
            words = [str(word) for word in (*occa_prof, *command)]
            env = os.environ | {"OCCATRACE_LIVE": live}
            return subprocess.run(words, check=True, capture_output=True, text=True, env=env).stdout

        launches: dict[str, list[float]] = {"0": [], "1": []}
        for _ in range(ROUNDS):
            for live, found in launches.items():
                lines = dict(line.split()[:2] for line in run(live, program).splitlines())
                found.append(float(lines["launch"]))
        off, on = (statistics.median(found) for found in launches.values())
        print(f"ns per launch: uncounted {off:.0f}, counted {on:.0f}, ratio {on / off:.3f}")
        traced = float(run("1", sys.executable, "-c", CALLS))
        untraced = float(
            subprocess.run([sys.executable, "-c", CALLS], check=True, capture_output=True, text=True).stdout
        )
        print(f"ns per occatrace.live(): traced {traced:.0f} (budget {BUDGET}), untraced {untraced:.0f}")


if __name__ == "__main__":
    main()
