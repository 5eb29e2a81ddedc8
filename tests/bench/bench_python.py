"""CPU time of a call of a Python function, and of a C function, under --python functions (chosen or not) and time; each CPython
that is here. Ratios to the program under occa_prof without the option."""

from __future__ import annotations

import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT)]
from tests.support.interpreters import interpreters  # noqa: E402

ROUNDS = 5
CALLS = 200_000
PROGRAM = f"""
import time
def chosen(): pass
def measure(f, *args):
    def loop(n):
        begin = time.thread_time_ns()
        for _ in range(n):
            f(*args)
        return (time.thread_time_ns() - begin) / n
    loop(1000)
    return loop({CALLS})
print(measure(chosen), measure(len, ()))
"""
WAYS = {
    "without": (),
    "functions": ("--python", "functions"),
    "functions:other": ("--python", "functions:other"),
    "time": ("--python", "time"),
}


def main() -> None:
    print(
        f"{'CPython':<10}{'--python':<18}{'Python call':>12}{'more':>8}{'ratio':>7}{'C call':>10}{'more':>8}{'ratio':>7}  (ns)"
    )
    with tempfile.TemporaryDirectory() as folder:
        program = Path(folder) / "calls.py"
        program.write_text(PROGRAM)
        for python in interpreters():
            found: dict[str, list[list[float]]] = {way: [] for way in WAYS}
            for turn in range(ROUNDS):
                for n, (way, options) in enumerate(WAYS.items()):
                    command = [
                        sys.executable,
                        "-m",
                        "occatrace.cli",
                        "-q",
                        *options,
                        "-o",
                        f"{folder}/{n}-{turn}",
                        python,
                        str(program),
                    ]
                    out = subprocess.run(command, check=True, capture_output=True, text=True).stdout
                    found[way].append([float(word) for word in out.split()])
                    subprocess.run(["rm", "-r", f"{folder}/{n}-{turn}"], check=True)
            version = subprocess.run([python, "-V"], check=True, capture_output=True, text=True).stdout.split()[1]
            base = [statistics.median(pair[i] for pair in found["without"]) for i in (0, 1)]
            for way, pairs in found.items():
                cells = ""
                for i, width in ((0, 12), (1, 10)):
                    ns = statistics.median(pair[i] for pair in pairs)
                    cells += f"{ns:>{width}.1f}{ns - base[i]:>+8.1f}{ns / base[i]:>7.2f}"
                print(f"{version:<10}{way:<18}{cells}")
            for entry in Path(folder).iterdir():
                if entry.is_dir():
                    subprocess.run(["rm", "-r", entry], check=True)


if __name__ == "__main__":
    main()
