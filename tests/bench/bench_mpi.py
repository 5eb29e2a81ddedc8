"""What MPI calls cost: a byte to and fro between two ranks (4 calls a round trip, half of them on each rank) natively, with
calls as events and with calls only counted, in turn; and a getter, which is only counted."""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROUNDS = 5
MODES = ("native", "default", "tally")


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        for cc, run in (
            ("mpicc.openmpi", ["mpirun.openmpi", "--allow-run-as-root", "--oversubscribe"]),
            ("mpicc.mpich", ["mpirun.mpich"]),
        ):
            program = Path(folder) / cc
            subprocess.run([cc, "-O2", "-o", program, HERE / "programs" / "mpi_pingpong.c"], check=True)
            times: dict[str, list[tuple[float, float]]] = {mode: [] for mode in MODES}
            for at in range(ROUNDS):
                for mode in MODES:
                    words = [*run, "-n", "2", str(program)]
                    if mode != "native":
                        out = f"{folder}/{cc}-{mode}-{at}"
                        words = [sys.executable, "-m", "occatrace.cli", "-m", mode, "-o", out, *words]
                    done = subprocess.run(words, check=True, capture_output=True, text=True, env=dict(os.environ))
                    trip, call = map(float, done.stdout.split())
                    times[mode].append((trip, call))
            print(f"{cc:<16}{'round trip ns':>15}{'a call more':>13}{'ratio':>8}{'getter ns':>12}{'more':>8}")
            base = [statistics.median(pair[i] for pair in times["native"]) for i in (0, 1)]
            for mode in MODES:
                trip, call = (statistics.median(pair[i] for pair in times[mode]) for i in (0, 1))
                print(
                    f"  {mode:<14}{trip:>15.0f}{(trip - base[0]) / 4:>+13.0f}{trip / base[0]:>8.2f}{call:>12.1f}{call - base[1]:>+8.1f}"
                )


if __name__ == "__main__":
    main()
