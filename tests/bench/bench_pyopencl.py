"""What a pyopencl program pays whose kernels take a ms: its steps native and traced in turn, in the default way, with --python
pools and with --python lines, as a ratio beside its budget; the fixed cost of a run, which they do not have, apart."""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

PROGRAM = Path(__file__).resolve().parent / "programs" / "pyopencl_steps.py"
ROUNDS = int(os.environ.get("BENCH_ROUNDS", "7"))
STEPS = int(os.environ.get("BENCH_STEPS", "1000"))
BUDGET = 1.02
WAYS: dict[str, list[str] | None] = {
    "native": None,
    "traced": [],
    "--python pools": ["--python", "pools"],
    "--python lines": ["--python", "lines"],
}


def main() -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)

        def run(options: list[str] | None, *words: object) -> tuple[list[int], float]:
            program = [sys.executable, str(PROGRAM), *map(str, words)]
            run_folder = folder / f"run{len(list(folder.iterdir()))}"
            occa_prof = [sys.executable, "-m", "occatrace.cli", "-q", "-o", str(run_folder)]
            command = program if options is None else [*occa_prof, *options, *program]
            begin = time.monotonic()
            done = subprocess.run(command, check=True, capture_output=True, text=True)
            return [int(word) for word in done.stdout.split()], time.monotonic() - begin

        (length,), _ = run(None, 0, 0)
        run([], 1, length)  # what is built and loaded once
        found: dict[str, list[tuple[int, int, float]]] = {way: [] for way in WAYS}
        for _ in range(ROUNDS):
            for way, options in WAYS.items():
                (took, cpu), whole = run(options, STEPS, length)
                found[way].append((took, cpu, whole - took / 1e9))
    native = found.pop("native")
    print(
        f"native: {statistics.median(took for took, _, _ in native) / STEPS / 1e6:.3f} ms per step (kernel of 1 ms, array sum, pool)"
    )
    for way, rows in found.items():
        # Pairs of neighbours in time: what the machine does besides is the same for both.
        ratios = [took / alone for (took, _, _), (alone, _, _) in zip(rows, native, strict=True)]
        best = min(took for took, _, _ in rows) / min(took for took, _, _ in native)
        alone_cpu = min(row[1] for row in native)
        cpu = min(row[1] for row in rows) - alone_cpu
        fixed = statistics.median(row[2] for row in rows) - statistics.median(row[2] for row in native)
        print(
            f"{way}: wall time of the steps {statistics.median(ratios):.4f} times the native, least against least {best:.4f}"
            f" (budget {BUDGET}); processor time of its thread "
            f"{cpu / STEPS / 1e3:+.2f} µs per step of {alone_cpu / STEPS / 1e3:.2f} (the least); the run besides +{fixed:.2f} s"
        )


if __name__ == "__main__":
    main()
