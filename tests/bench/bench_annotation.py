"""CPU time of a range, begin and end together: occatrace.h and occatrace.annotate, untraced and traced, beside Python's nvtx."""

from __future__ import annotations

import importlib.util
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
ROUNDS = 5
RANGES = 100_000

PYTHON = """
import sys, time
{setup}
def loop(n):
    begin = time.thread_time_ns()
    for _ in range(n):
        {body}
    return (time.thread_time_ns() - begin) / n
loop(1000)
print(f"{{loop({ranges}):.2f}}")
"""
SNIPPETS = {
    "Python: nothing": ("f = lambda: None", "f()"),
    "Python: with occatrace.annotate": ("import occatrace", "with occatrace.annotate('cost'): pass"),
    "Python: @occatrace.annotate": ("import occatrace\nf = occatrace.annotate('cost')(lambda: None)", "f()"),
    "Python: with nvtx.annotate": ("import nvtx", "with nvtx.annotate('cost'): pass"),
}


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        program = Path(folder) / "own"
        source = ROOT / "tests/programs/annotation/own.c"
        subprocess.run(["gcc", "-O2", f"-I{ROOT / 'include'}", source, "-o", program, "-lpthread"], check=True)
        commands = {"C: occatrace_push, occatrace_pop": [str(program), "cost", str(RANGES)]}
        for name, (setup, body) in SNIPPETS.items():
            if "nvtx" not in setup or importlib.util.find_spec("nvtx"):
                commands[name] = [sys.executable, "-c", PYTHON.format(setup=setup, body=body, ranges=RANGES)]
        print(f"{'ns per range':<36}{'untraced':>10}{'traced':>10}")
        for name, command in commands.items():
            alone, traced = [], []
            for turn in range(ROUNDS):
                alone.append(float(subprocess.run(command, check=True, capture_output=True, text=True).stdout))
                occa_prof = [
                    sys.executable,
                    "-m",
                    "occatrace.cli",
                    "-q",
                    "-o",
                    f"{folder}/{len(name)}-{turn}",
                    *command,
                ]
                traced.append(float(subprocess.run(occa_prof, check=True, capture_output=True, text=True).stdout))
            print(f"{name:<36}{statistics.median(alone):>10.1f}{statistics.median(traced):>10.1f}")


if __name__ == "__main__":
    main()
