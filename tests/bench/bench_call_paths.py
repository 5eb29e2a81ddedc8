"""What stacks cost: of a call (--call-paths) that was seen before and that is new, and of a sample (--sample-stacks). CPU time,
the least of 60 blocks, so that a busy machine does not matter much. Then what sampling 8 busy threads at 100 Hz adds to the CPU
time of their process: runs with and without it in turn, the medians and the quartiles of the ratios of neighbours."""

from __future__ import annotations

import statistics
import subprocess
import tempfile
from pathlib import Path

from tests.support.runs import OCCA_PROF

HERE = Path(__file__).resolve().parent
ROUNDS = 3
TURNS = 20  # with and without samples


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        program = Path(folder) / "call_paths"
        source = HERE / "programs" / "call_paths.c"
        subprocess.run(["gcc", "-O2", "-g", source, "-o", program, "-lOpenCL"], check=True)

        def least(what: list[str], *options: str) -> float:
            """ns of the program alone, or under occa_prof with these options."""
            found = []
            for turn in range(ROUNDS):
                run = [*OCCA_PROF, "-q", "-o", f"{folder}/{len(list(Path(folder).iterdir()))}-{turn}", *options]
                command = [*(run if options else ()), program, *what]
                found.append(float(subprocess.run(command, check=True, capture_output=True, text=True).stdout))
            return min(found)

        def busy(turn: int, *options: str) -> float:
            command: list[str | Path] = [
                *OCCA_PROF,
                "-q",
                "-o",
                f"{folder}/busy-{len(options)}-{turn}",
                *options,
                program,
                "busy",
            ]
            return float(subprocess.run(command, check=True, capture_output=True, text=True).stdout)

        print(f"{'':<28}{'native':>10}{'traced':>10}{'with stack':>12}{'stack ns':>10}")
        for title, what in (("stack seen before", "known"), ("new stack", "new")):
            native, traced = least([what]), least([what], "--mode=full")
            stack = least([what], "--mode=full", "--call-paths")
            print(f"{title + ', 14 frames':<28}{native:>10.0f}{traced:>10.0f}{stack:>12.0f}{stack - traced:>10.0f}")
        empty, sample = least(["sample", "empty"]), least(["sample"], "--sample-stacks=1")
        print(f"{'sample, 14 frames':<28}{empty:>10.0f}{'':>10}{sample:>12.0f}{sample - empty:>10.0f}")
        # The order changes each time: what grows or shrinks with time does not count for one of the two.
        pairs = []
        for turn in range(TURNS):
            both = [busy(turn, *options) for options in ((), ("--sample-stacks=100",))[:: 1 if turn % 2 else -1]]
            pairs.append(both if turn % 2 else both[::-1])
        without, sampled = (statistics.median(column) / 1e6 for column in zip(*pairs, strict=True))
        low, middle, high = statistics.quantiles([b / a for a, b in pairs], n=4)
        print(
            f"8 busy threads: {without:.3f} s of CPU time, {sampled:.3f} s sampled at 100 Hz; {100 * (middle - 1):+.2f} %"
            f" ({100 * (low - 1):+.2f} to {100 * (high - 1):+.2f})"
        )


if __name__ == "__main__":
    main()
