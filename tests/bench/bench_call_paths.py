"""What stacks cost: of a call (--call-paths) that was seen before and that is new, and of a sample (--sample-stacks). CPU time,
the least of 60 blocks, so that a busy machine does not matter much."""

from __future__ import annotations

import subprocess
import tempfile
from pathlib import Path

from tests.support.runs import OCCA_PROF

HERE = Path(__file__).resolve().parent
ROUNDS = 3


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

        print(f"{'':<28}{'native':>10}{'traced':>10}{'with stack':>12}{'stack ns':>10}")
        for title, what in (("stack seen before", "known"), ("new stack", "new")):
            native, traced = least([what]), least([what], "--mode=full")
            stack = least([what], "--mode=full", "--call-paths")
            print(f"{title + ', 14 frames':<28}{native:>10.0f}{traced:>10.0f}{stack:>12.0f}{stack - traced:>10.0f}")
        empty, sample = least(["sample", "empty"]), least(["sample"], "--sample-stacks=1")
        print(f"{'sample, 14 frames':<28}{empty:>10.0f}{'':>10}{sample:>12.0f}{sample - empty:>10.0f}")


if __name__ == "__main__":
    main()
