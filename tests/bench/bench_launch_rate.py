"""A million launches a second in 8 threads, with default buffers: how many were recorded, how many only counted, and how many lost.
On the fake CUDA driver, whose launches cost next to nothing; OpenCL runtimes for CPUs do not come near that rate.

usage: bench_launch_rate.py [--seconds N] [--rate N]
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
from pathlib import Path

import occatrace
from tests.bench.bench_cuda import compiled, fakes

SOURCE = Path(__file__).resolve().parent / "programs" / "launch_rate.cpp"
THREADS = 8
WAYS = {
    "calls": ("--device-time", "off"),
    "by events": ("--device-time", "events"),
    "by CUPTI": ("--device-time", "cupti"),
    "--stream": ("--device-time", "cupti", "--stream"),
}
COUNTS = """SELECT coalesce(sum(calls) FILTER (source = 'event'), 0)::BIGINT, coalesce(sum(calls) FILTER (source = 'tally'), 0)::BIGINT
    FROM call_stats WHERE "function" = 'cuLaunchKernel'"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--rate", type=int, default=1_000_000)
    args = parser.parse_args()
    print(f"{'':>10}  {'made':>11}  {'recorded':>11}  {'counted':>11}  {'lost events':>11}  remark")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        env = fakes(folder)
        program = folder / "launch_rate"
        compiled(SOURCE, program, str(folder / "libcuda.so.1"), "-lpthread")
        words = [str(program), str(THREADS), str(args.rate), str(args.seconds)]
        alone = subprocess.run(words, check=True, capture_output=True, text=True, env=env).stdout
        print(f"{'alone':>10}  {int(alone):>11,}")
        for way, options in WAYS.items():
            run = folder / "run"
            traced = [sys.executable, "-m", "occatrace.cli", "-q", *options, "--force", "-o", str(run), *words]
            made = int(subprocess.run(traced, check=True, capture_output=True, text=True, env=env).stdout)
            with occatrace.open(run) as opened:
                recorded, counted = opened.sql(COUNTS).fetchall()[0]
                lost = opened.losses.events
                remarks = [line for line in opened.losses.lines() if "only counted" in line]
            print(f"{way:>10}  {made:>11,}  {recorded:>11,}  {counted:>11,}  {lost:>11,}  {'; '.join(remarks)[:90]}")


if __name__ == "__main__":
    main()
