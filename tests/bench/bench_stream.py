"""A long run, scaled down: 100,000 calls a second for a minute in two threads, some of them launches, with --stream and without:
the rate, the highest size of the run's folder, CPU time of the process that makes tables, and what was lost.

usage: bench_stream.py [--seconds N] [--rate N] [--launches N] [--max-size SIZE]  (launches of the whole run)
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

import occatrace
from occatrace.run.control import size_of

_SOURCE = Path(__file__).resolve().parent / "programs" / "many_calls.cpp"
THREADS = 2
POLL_S = 0.05
TICKS = os.sysconf("SC_CLK_TCK")


class Watch(threading.Thread):
    """Looks at a run's folder, and at the worker of its occa_prof, while it goes on."""

    def __init__(self, run: Path) -> None:
        super().__init__(daemon=True)
        self._run_folder = run
        self._over = threading.Event()
        self.peak = 0
        self.cpu = 0.0
        self.highest = 0.0  # share of a core within a second

    def run(self) -> None:
        """Until it is told to end."""
        worker, before = None, (time.monotonic(), 0.0)
        while not self._over.wait(POLL_S):
            self.peak = max(self.peak, size_of(self._run_folder))
            worker = worker or self._worker()
            if worker is None:
                continue
            try:
                words = Path(f"/proc/{worker}/stat").read_text().rpartition(")")[2].split()
            except OSError:
                continue
            self.cpu = (int(words[11]) + int(words[12])) / TICKS
            now = time.monotonic()
            if now - before[0] >= 1:
                self.highest = max(self.highest, (self.cpu - before[1]) / (now - before[0]))
                before = now, self.cpu

    def _worker(self) -> int | None:
        for process in Path("/proc").glob("[0-9]*"):
            try:
                words = (process / "cmdline").read_bytes().split(b"\0")
            except OSError:
                continue
            if b"occatrace.store.stream_worker" in words and str(self._run_folder).encode() in words:
                return int(process.name)
        return None

    def end(self) -> None:
        """The run is over."""
        self._over.set()
        self.join()


def measure(run: Path, program: Path, arguments: list[str], options: list[str]) -> str:
    watch = Watch(run)
    watch.start()
    command = [sys.executable, "-m", "occatrace.cli", "-m", "full", *options, "-o", str(run), str(program), *arguments]
    begin = time.monotonic()
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    wall = time.monotonic() - begin
    watch.end()
    with occatrace.open(run) as opened:
        calls, work, rows, lost = opened.sql(
            "SELECT (SELECT sum(calls) FROM call_stats WHERE source = 'event')::BIGINT,"
            " (SELECT count(*) FROM activities WHERE kind = 'kernel'),"
            " (SELECT sum(calls) FROM call_stats WHERE source = 'tally')::BIGINT,"
            " (SELECT coalesce(sum(lost), 0) FROM losses)::BIGINT"
        ).fetchall()[0]
    for line in done.stderr.splitlines():
        if line.startswith("! "):
            print(line)
    cpu = (
        f"{watch.cpu:>9.2f}{100 * watch.cpu / wall:>9.1f}{100 * watch.highest:>9.1f}" if watch.cpu else f"{'-':>9}" * 3
    )
    return (
        f"{calls:>12,}{work:>10,}{calls / wall:>12,.0f}{rows or 0:>9,}{lost:>7,}{watch.peak / 2**20:>9.1f}"
        f"{size_of(run) / 2**20:>9.1f}{cpu}"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=int, default=60)
    parser.add_argument("--rate", type=int, default=100_000)
    parser.add_argument("--launches", type=int, default=60_000)
    parser.add_argument("--max-size", default="200M")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        program = Path(folder) / "many_calls"
        subprocess.run(["g++", "-O2", "-o", program, _SOURCE, "-lOpenCL", "-lpthread"], check=True)
        each = args.seconds * args.rate // THREADS
        arguments = [str(THREADS), str(each), str(args.rate), str(args.launches)]
        heads = (
            "events",
            "launches",
            "events/s",
            "counted",
            "lost",
            "peak MB",
            "end MB",
            "cpu s",
            "of wall %",
            "highest %",
        )
        widths = (12, 10, 12, 9, 7, 9, 9, 9, 9, 9)
        print(f"{'':<26}" + "".join(f"{head:>{width}}" for head, width in zip(heads, widths, strict=True)))
        for title, options in (
            (f"--stream --max-size {args.max_size}", ["--stream", "--max-size", args.max_size]),
            ("not streamed", []),
        ):
            print(
                f"{title:<26}{measure(Path(folder) / title.replace(' ', '_'), program, arguments, options)}", flush=True
            )


if __name__ == "__main__":
    main()
