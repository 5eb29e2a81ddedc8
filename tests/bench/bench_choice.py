"""What a call costs that is not recorded: paused, or left out by its function, thread or kernel; ratios to the program alone.

`retain`, `set_arg`, `get_info` are cheap calls of 1, 4 and 5 arguments, `launch` an enqueue with its share of a clFinish.
Where there is valgrind, also instructions per call, which no busy machine changes: a getter and a launch of CUDA's driver for
tests, beside those of a disabled tracepoint.
"""

from __future__ import annotations

import os
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

from bench_cuda import FAKES, compiled

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


def instructions(folder: Path) -> None:
    """Print what calls cost in instructions: the difference of two runs that differ by so many of them."""
    shared = (
        "-shared",
        "-fPIC",
        "-fvisibility=hidden",
        "-lpthread",
        "-ldl",
        "-Wl,-Bsymbolic",
        "-Wl,-soname,libcuda.so.1",
    )
    compiled(FAKES / "driver.cpp", folder / "libcuda.so.1", *shared)
    program = folder / "choice_calls"
    compiled(HERE / "programs" / "choice_calls.cpp", program, str(folder / "libcuda.so.1"))
    env = {**os.environ, "LD_LIBRARY_PATH": str(folder), "OCCATRACE_DEVICE_TIME": "events"}

    def count(what: str, calls: int, options: tuple[str, ...] | None) -> int:
        words = ["valgrind", "--tool=callgrind", "--callgrind-out-file=/dev/null", program, what, calls]
        if options is not None:
            run = ["-q", "--force", *options, "-o", folder / "counted"]
            words = [sys.executable, "-m", "occatrace.cli", *run, *words]
        done = subprocess.run([str(w) for w in words], check=True, capture_output=True, text=True, env=env)
        # Of several processes the program, which has most.
        return max(int(n) for n in re.findall(r"Collected : (\d+)", done.stderr))

    def per_call(what: str, calls: int, options: tuple[str, ...] | None) -> float:
        return (count(what, 6 * calls, options) - count(what, calls, options)) / (5 * calls)

    print(f"\n{'way':<20}{'call':<10}{'instructions':>14}{'difference':>12}")
    print(f"{'a disabled tracepoint':<30}{per_call('disabled', 20_000, None):>14.1f}")
    for what, calls in (("getter", 20_000), ("launch", 500)):
        alone = per_call(what, calls, None)
        for way, options in WAYS.items():
            cost = alone if options is None else per_call(what, calls, tuple(o.replace("cl*", "cu*") for o in options))
            print(f"{way:<20}{what:<10}{cost:>14.1f}{cost - alone:>+12.1f}")


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
        if shutil.which("valgrind"):
            instructions(folder)


if __name__ == "__main__":
    main()
