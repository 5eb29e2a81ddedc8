"""What OpenCL calls cost: native and traced in turn, the differences beside their budgets.

`retain`, `set_arg`, `get_info` are cheap calls of 1, 4 and 5 arguments: tallied in mode default, events in mode full.
`launch` is an enqueue with its share of a clFinish: call event and device time in mode default, device time in minimal.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROUNDS = 5
# Budgets in ns of what a call may cost more, by mode and call.
BUDGETS = {
    ("default", "retain"): 20,
    ("default", "set_arg"): 20,
    ("default", "get_info"): 20,
    ("full", "retain"): 120,
    ("full", "get_info"): 150,
    ("default", "launch"): 800,
}


def measure(command: list[str]) -> dict[str, float]:
    """Smallest ns per call of each kind of call."""
    out = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    return {line.split()[0]: float(line.split()[1]) for line in out.splitlines()}


def size_of_launch(program: Path, folder: Path) -> float:
    """Bytes of trace per launch: what 100,000 more launches add."""
    sizes = []
    for count in (1_000, 101_000):
        run = folder / f"size{count}"
        command = [sys.executable, "-m", "occatrace.cli", "-o", str(run), str(program), "launches", str(count)]
        subprocess.run(command, check=True, capture_output=True)
        sizes.append(sum(file.stat().st_size for file in (run / "trace").rglob("*") if file.is_file()))
    return (sizes[1] - sizes[0]) / 100_000


def main() -> None:
    os.environ.setdefault("PYOPENCL_NO_CACHE", "1")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        program, cases = folder / "calls", folder / "cases"
        source = HERE / "programs" / "opencl_calls.cpp"
        subprocess.run(["g++", "-O2", "-std=c++17", "-o", program, source, "-lOpenCL"], check=True)
        source = HERE.parent / "programs" / "opencl" / "cases.cpp"
        options = ["-std=c++17", "-O1", "-Wno-deprecated-declarations"]
        subprocess.run(["g++", *options, "-o", cases, source, "-lOpenCL", "-lpthread"], check=True)
        found: dict[str, list[dict[str, float]]] = {}
        for turn in range(ROUNDS):
            found.setdefault("native", []).append(measure([str(program)]))
            for mode in ("default", "minimal", "full", "tally"):
                run = folder / f"{mode}{turn}"
                traced = [sys.executable, "-m", "occatrace.cli", "-m", mode, "-o", str(run), str(program)]
                found.setdefault(mode, []).append(measure(traced))
        print(f"{'mode':<10}{'call':<10}{'native ns':>12}{'traced ns':>12}{'difference':>12}{'ratio':>8}{'budget':>10}")
        for mode in ("default", "minimal", "full", "tally"):
            for call in ("retain", "set_arg", "get_info", "launch"):
                native = statistics.median(turn[call] for turn in found["native"])
                traced_ns = statistics.median(turn[call] for turn in found[mode])
                budget = BUDGETS.get((mode, call))
                print(
                    f"{mode:<10}{call:<10}{native:>12.1f}{traced_ns:>12.1f}{traced_ns - native:>+12.1f}"
                    f"{traced_ns / native:>8.2f}{f'+{budget}' if budget else '':>10}"
                )
        print(f"bytes of trace per launch with device time: {size_of_launch(cases, folder):.0f} (budget 180)")


if __name__ == "__main__":
    main()
