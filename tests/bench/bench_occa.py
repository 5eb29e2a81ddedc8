"""What OCCA calls cost, native and traced in turn, in Serial mode, at level event and at level tally: a call of an empty
kernel with and without memory arguments, kernel::run() alone, a copy of 4 bytes, malloc and free. Budget: +200 ns for a
kernel call at level event."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PROGRAMS = ROOT / "tests" / "programs" / "occa"
CALLS, ROUNDS = 20_000, 5
MEASURES = {
    "kernel_call_ns": ("k(int)", 200),
    "kernel_memory_call_ns": ("k(int, 4 memory)", 200),
    "kernel_run_ns": ("kernel::run()", None),
    "copyFrom_ns": ("copyFrom, 4 bytes", None),
    "malloc_free_ns": ("malloc and free", None),
}


def measure(program: Path, folder: Path, mode: str | None, number: int) -> dict[str, float]:
    command = [str(program), "Serial", str(CALLS)]
    if mode is not None:
        run = folder / f"{mode}{number}"
        options = ["-m", mode, "--log-file", os.devnull, "-o", str(run)]
        command = [sys.executable, "-m", "occatrace.cli", *options, "--", *command]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    result: dict[str, float] = json.loads(done.stdout)
    return result


def main() -> None:
    occa = Path(os.environ.get("OCCA_DIR") or subprocess.check_output([ROOT / "tools/get_occa"], text=True).strip())
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        os.environ |= {"OCCA_DIR": str(occa), "OCCA_CACHE_DIR": str(folder / "cache")}
        program = folder / "bench"
        subprocess.run(["make", "-s", "-C", PROGRAMS, f"OUT={folder}", str(program)], check=True)
        subprocess.run([program, "Serial", "10"], check=True, stdout=subprocess.DEVNULL)  # builds the kernel
        found: dict[str | None, list[dict[str, float]]] = {None: [], "default": [], "tally": []}
        for number in range(ROUNDS):
            for mode, results in found.items():
                results.append(measure(program, folder, mode, number))
        titles = ("native", "event", "difference", "budget", "tally", "difference")
        print(f"{'ns per call':<22}" + "".join(f"{title:>12}" for title in titles))
        for key, (title, budget) in MEASURES.items():
            native, event, tally = (min(float(r[key]) for r in found[mode]) for mode in (None, "default", "tally"))
            limit = f"+{budget}" if budget else ""
            print(f"{title:<22}{native:>12.0f}{event:>12.0f}{event - native:>+12.0f}{limit:>12}", end="")
            print(f"{tally:>12.0f}{tally - native:>+12.0f}")


if __name__ == "__main__":
    main()
