"""What a child process that uses no traced API costs: exec of /bin/true and of a compiler, native and preloaded in turn."""

from __future__ import annotations

import statistics
import subprocess
import tempfile
from pathlib import Path

import occatrace

HERE = Path(__file__).resolve().parent
PRELOAD = Path(occatrace.__file__).parent / "lib" / "liboccatrace.so"


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        spawn = Path(folder) / "spawn"
        subprocess.run(["gcc", "-O2", "-o", spawn, HERE / "programs" / "spawn.c"], check=True)
        source = Path(folder) / "empty.cpp"
        source.write_text("int f() { return 1; }\n")
        cases = {
            "/bin/true": (["/bin/true"], 300),
            "g++ -c (4 processes)": (["/usr/bin/g++", "-c", str(source), "-o", str(source) + ".o"], 30),
        }
        print(f"{'exec of':<24}{'native ms':>12}{'traced ms':>12}{'difference ms':>15}{'ratio':>8}")
        for name, (command, rounds) in cases.items():
            out = subprocess.run(
                [spawn, PRELOAD, str(rounds), *command], check=True, capture_output=True, text=True
            ).stdout
            pairs = [tuple(map(int, line.split())) for line in out.splitlines()][5:]
            native = statistics.median(p[0] for p in pairs) / 1e6
            traced = statistics.median(p[1] for p in pairs) / 1e6
            print(f"{name:<24}{native:>12.2f}{traced:>12.2f}{traced - native:>+15.2f}{traced / native:>8.2f}")


if __name__ == "__main__":
    main()
