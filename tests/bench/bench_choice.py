"""What a call costs that is not recorded: paused, or left out by its function, thread or kernel; ratios to the program alone.

`retain`, `set_arg`, `get_info` are cheap calls of 1, 4 and 5 arguments, `launch` an enqueue with its share of a clFinish.
"""

from __future__ import annotations

import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROUNDS = 3
CALLS = ("retain", "set_arg", "get_info", "launch")
WAYS: dict[str, tuple[str, ...] | None] = {
    "alone": None,
    "recorded": (),
    "paused": ("--start-paused",),
    "not in a range": ("--capture-range", "range:none"),
    "kernel left out": ("--exclude-kernels", "."),
    "function left out": ("--exclude-functions", "cl*"),
    "thread left out": ("--threads", "nobody"),
}


def measure(command: list[str]) -> dict[str, float]:
    """Smallest ns per call of each kind of call."""
    out = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    return {line.split()[0]: float(line.split()[1]) for line in out.splitlines()}


def main() -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        program = folder / "calls"
        source = HERE / "programs" / "opencl_calls.cpp"
        subprocess.run(["g++", "-O2", "-std=c++17", "-o", program, source, "-lOpenCL"], check=True)
        found: dict[str, list[dict[str, float]]] = {way: [] for way in WAYS}
        for turn in range(ROUNDS):
            for way, options in WAYS.items():
                command = [str(program)]
                if options is not None:
                    run = folder / f"{way.replace(' ', '-')}{turn}"
                    command = [sys.executable, "-m", "occatrace.cli", "-q", *options, "-o", str(run), *command]
                found[way].append(measure(command))
        print(f"{'way':<20}{'call':<10}{'ns':>12}{'difference':>12}{'ratio':>8}")
        for way, turns in found.items():
            for call in CALLS:
                alone = statistics.median(turn[call] for turn in found["alone"])
                cost = statistics.median(turn[call] for turn in turns)
                print(f"{way:<20}{call:<10}{cost:>12.1f}{cost - alone:>+12.1f}{cost / alone:>8.2f}")


if __name__ == "__main__":
    main()
