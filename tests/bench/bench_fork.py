"""What fork costs a traced process, natively and under occa_prof in turn: alone, and while threads record all the time.

Wall times say what the program waits for, and have the other work of the machine in them; CPU times of the forking thread and
of the child (up to its first traced call, which it never makes) do not."""

from __future__ import annotations

import statistics
import subprocess
import tempfile
from pathlib import Path

from tests.support.runs import OCCA_PROF

HERE = Path(__file__).resolve().parent
ROUNDS = 7
CHILDREN = 200
BUDGET_MS = 2.0
COLUMNS = ("wall, until the child is gone", "wall, fork()", "CPU, forking thread", "CPU, child")


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        program = Path(folder) / "forks"
        subprocess.run(["gcc", "-O2", "-o", program, HERE / "programs" / "forks.c", "-lpthread"], check=True)
        print(f"{'ms per fork, medians':<48}{'native':>9}{'traced':>9}{'difference':>12}{'ratio':>8}")
        for threads in (0, 4):
            command = [str(program), str(CHILDREN), str(threads)]
            native, traced = [], []
            for turn in range(ROUNDS):
                native.append(medians(command))
                traced.append(medians([*OCCA_PROF, "-q", "-o", f"{folder}/{threads}-{turn}", *command]))
            for at, title in enumerate(COLUMNS):
                plain, under = (statistics.median(turn[at] for turn in turns) for turns in (native, traced))
                print(
                    f"{f'{threads} busy threads: {title}':<48}{plain:>9.3f}{under:>9.3f}{under - plain:>+12.3f}"
                    f"{under / plain:>8.2f}" + ("" if under - plain <= BUDGET_MS else "  above the budget")
                )


def medians(command: list[str]) -> list[float]:
    """Of each column of the program's lines, in ms."""
    out = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    rows = [list(map(int, line.split())) for line in out.splitlines()]
    assert len(rows) == CHILDREN
    return [statistics.median(column) / 1e6 for column in zip(*rows, strict=True)]


if __name__ == "__main__":
    main()
