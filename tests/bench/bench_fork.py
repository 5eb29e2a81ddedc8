"""What fork costs a traced process until a child that only ends is gone, natively and under occa_prof in turn: alone, and
beside threads that record all the time."""

from __future__ import annotations

import statistics
import subprocess
import tempfile
from pathlib import Path

from tests.support.runs import OCCA_PROF

HERE = Path(__file__).resolve().parent
ROUNDS = 7


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        program = Path(folder) / "forks"
        subprocess.run(["gcc", "-O2", "-o", program, HERE / "programs" / "forks.c", "-lpthread"], check=True)
        print(f"{'fork, _exit, waitpid':<24}{'native ms':>12}{'traced ms':>12}{'difference ms':>15}{'ratio':>8}")
        for threads in (0, 4):
            command = [str(program), "200", str(threads)]
            native, traced = [], []
            for turn in range(ROUNDS):
                native.append(median(command))
                traced.append(median([*OCCA_PROF, "-q", "-o", f"{folder}/{threads}-{turn}", *command]))
            plain, under = statistics.median(native), statistics.median(traced)
            print(
                f"{f'{threads} busy threads':<24}{plain:>12.2f}{under:>12.2f}{under - plain:>+15.2f}{under / plain:>8.2f}"
            )


def median(command: list[str]) -> float:
    out = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    return statistics.median(map(int, out.split())) / 1e6


if __name__ == "__main__":
    main()
