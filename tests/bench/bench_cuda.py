"""What CUDA calls cost on the driver for tests: native and traced in turn, side by side with their budgets.

`getter` is a cheap call with three arguments, tallied in mode default; `launch` has its share of a synchronization. `off` is
the call alone, `cupti` the call and its ticket (and the stand-in's record), `events` the call between two events. What those two
ask of the driver itself, whoever records them, the program measures without us: two events recorded around each launch, and
asked when it ran. `of ours` is what is left of the difference without that.
"""

from __future__ import annotations

import importlib.util
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
FAKES = HERE.parent / "fakes" / "cuda"
ROUNDS = 3
WAYS = {
    "tally": ("-m", "tally"),
    "off": ("--device-time", "off"),
    "events": ("--device-time", "events"),
    "cupti": ("--device-time", "cupti"),
}
BUDGETS = {
    ("tally", "getter"): 20,
    ("tally", "launch"): 20,
    ("off", "launch"): 150,
    ("cupti", "launch"): 400,
    ("events", "launch"): 400,
}


def headers() -> Path:
    """The folder of cuda.h."""
    found = importlib.util.find_spec("nvidia")
    folders = [Path(p) / "cu13" / "include" for p in (found.submodule_search_locations or ())] if found else []
    return next(f for f in [*folders, Path("/usr/local/cuda/include")] if (f / "cuda.h").exists())


def compiled(source: Path, output: Path, *options: str) -> None:
    """A library or program of the fakes."""
    subprocess.run(["g++", "-std=c++17", "-O2", f"-I{headers()}", source, "-o", output, *options], check=True)


def fakes(folder: Path) -> dict[str, str]:
    """Compile the fake driver and CUPTI into a folder; the environment in which programs find them."""
    shared = ("-shared", "-fPIC", "-fvisibility=hidden", "-lpthread", "-ldl")
    compiled(FAKES / "driver.cpp", folder / "libcuda.so.1", *shared, "-Wl,-Bsymbolic", "-Wl,-soname,libcuda.so.1")
    compiled(FAKES / "cupti.cpp", folder / "libcupti.so.12", *shared, "-Wl,-soname,libcupti.so.12")
    return {**os.environ, "LD_LIBRARY_PATH": str(folder), "OCCATRACE_CUPTI": str(folder / "libcupti.so.12")}


def measure(command: list[str], env: dict[str, str]) -> dict[str, float]:
    """Smallest ns per call of each kind of call."""
    out = subprocess.run(command, check=True, capture_output=True, text=True, env=env).stdout
    return {line.split()[0]: float(line.split()[1]) for line in out.splitlines()}


def main() -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        env = fakes(folder)
        program = folder / "calls"
        compiled(HERE / "programs" / "cuda_calls.cpp", program, str(folder / "libcuda.so.1"))
        found: dict[str, list[dict[str, float]]] = {}
        for turn in range(ROUNDS):
            found.setdefault("native", []).append(measure([str(program), "events"], env))
            for way, options in WAYS.items():
                run = folder / f"{way}{turn}"
                traced = [sys.executable, "-m", "occatrace.cli", "-q", *options, "-o", str(run), str(program)]
                found.setdefault(way, []).append(measure(traced, env))

        def median(way: str, call: str) -> float:
            return statistics.median(turn[call] for turn in found[way])

        base = median("native", "launch")
        asked = median("native", "timed") - base
        print(f"native: getter {median('native', 'getter'):.1f} ns, launch {base:.1f} ns")
        print(f"two events recorded around a launch, without us: {median('native', 'recorded') - base:+.1f} ns", end="")
        print(f"; and asked when it ran: {asked:+.1f} ns")
        print(
            f"{'way':<10}{'call':<10}{'native ns':>12}{'traced ns':>12}{'difference':>12}{'of ours':>10}{'ratio':>8}{'budget':>8}"
        )
        for way in WAYS:
            for call in ("getter", "launch"):
                native, traced_ns = median("native", call), median(way, call)
                ours = traced_ns - native - (asked if (way, call) == ("events", "launch") else 0)
                budget = BUDGETS.get((way, call))
                print(
                    f"{way:<10}{call:<10}{native:>12.1f}{traced_ns:>12.1f}{traced_ns - native:>+12.1f}{ours:>+10.1f}"
                    f"{traced_ns / native:>8.2f}{f'+{budget}' if budget else '':>8}"
                )


if __name__ == "__main__":
    main()
