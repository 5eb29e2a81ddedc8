"""What a whole run costs beside the program: start, stop, tables, summary. Native and profiled in turn, as the user
that runs this; CPU time counts the daemon too, and is what to look at on a busy machine."""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PROBE = ROOT / "tests" / "programs" / "session" / "probe.c"
ROUNDS = 15


def timed(command: Sequence[object]) -> tuple[float, float]:
    """Milliseconds on the wall and of CPU."""
    before, begin = os.times(), time.perf_counter()
    subprocess.run([str(word) for word in command], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    wall, after = time.perf_counter() - begin, os.times()
    cpu = after.children_user + after.children_system - before.children_user - before.children_system
    return wall * 1e3, cpu * 1e3


def main() -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        probe = folder / "probe"
        subprocess.run(["gcc", "-O1", "-o", probe, PROBE, "-ldl"], check=True)
        occa_prof = [sys.executable, "-m", "occatrace.cli"]
        profiled = [*occa_prof, "--force", "-o", folder / "run"]
        cases: dict[str, tuple[Sequence[object], Sequence[object]]] = {
            "program that uses no traced API": (["true"], [*profiled, "true"]),
            "program with one traced process": ([probe, "1"], [*profiled, probe, "1"]),
            "the same, that runs 0.5 s": ([probe, "1", "sleep", "0.5"], [*profiled, probe, "1", "sleep", "0.5"]),
            "the same, -q (no analysis)": ([probe, "1"], [*profiled, "-q", probe, "1"]),
            "occa_prof report, second time": (["true"], [*occa_prof, "report", folder / "run"]),
        }
        subprocess.run([*map(str, profiled), probe, "1"], check=True, capture_output=True)
        print(f"{'ms':36}{'native':>10}{'occa_prof':>12}{'difference':>12}{'best':>8}{'CPU':>8}")
        for title, (native, traced) in cases.items():
            pairs = [(*timed(native), *timed(traced)) for _ in range(ROUNDS)]
            if "-q" in traced:
                subprocess.run([*map(str, profiled), probe, "1"], check=True, capture_output=True)
            alone, alone_cpu, with_us, with_us_cpu = (statistics.median(c) for c in zip(*pairs, strict=True))
            best = min(p[2] for p in pairs) - min(p[0] for p in pairs)
            cpu = with_us_cpu - alone_cpu
            print(f"{title:36}{alone:10.1f}{with_us:12.1f}{with_us - alone:12.1f}{best:8.1f}{cpu:8.0f}")


if __name__ == "__main__":
    main()
