"""Writes a timeline larger than 2 GiB in bounded memory, and loads it into the 64-bit trace processor. Not part of the tests:

    python tests/bench/large_timeline.py [--gigabytes 2.3] [--no-load]

takes minutes, that much disk, and about 14 GB of memory for loading.
"""

from __future__ import annotations

import argparse
import resource
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from occatrace import _native

TRACKS = 32
BATCH = 1 << 17


def write(path: Path, wanted: int) -> tuple[int, int]:
    """As many slices as it takes; their number and the sum of their durations."""
    random = np.random.default_rng(1)
    timeline = _native.Timeline(str(path), 0, 10**18)
    timeline.process(1, 1, "large", [], [])
    names = np.array([timeline.string(f"kernel_{i}") for i in range(40)], np.uint32)
    category = np.full(BATCH, timeline.string("kernel"), np.uint32)
    lanes = [timeline.lanes(10 + i, 1, f"queue {i}", i, nested=False) for i in range(TRACKS)]
    size, rate, address = (timeline.string(text) for text in ("bytes", "GB/s", "address"))
    times = np.zeros(TRACKS, np.uint64)
    total, batch = 0, 0
    while timeline.bytes < wanted:
        track = batch % TRACKS
        steps = np.cumsum(random.integers(100, 3000, 2 * BATCH).astype(np.uint64)) + times[track]
        start, end = steps[0::2], steps[1::2]
        times[track] = steps[-1]
        total += int((end - start).sum())
        arguments = [
            (size, "uint", random.integers(1, 1 << 30, BATCH).astype(np.uint64), None),
            (rate, "float", random.random(BATCH), None),
            (address, "pointer", random.integers(1 << 46, 1 << 47, BATCH).astype(np.uint64), None),
        ]
        lanes[track].add(start, end, names[random.integers(0, 40, BATCH)], category, None, arguments)
        batch += 1
    for lane in lanes:
        lane.finish()
    timeline.close()
    return batch * BATCH, total


def main() -> None:
    """Prints what came of it; a wrong count is an error."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--gigabytes", type=float, default=2.3)
    parser.add_argument("--no-load", action="store_true", help="write only")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "large.pftrace"
        begin = time.monotonic()
        slices, total = write(path, round(args.gigabytes * 1e9))
        seconds = time.monotonic() - begin
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        print(
            f"{path.stat().st_size:,} bytes, {slices:,} slices written in {seconds:.0f} s, peak memory {peak:.0f} MiB",
            flush=True,
        )
        if args.no_load:
            return
        from tests.support.trace_processor import load

        begin = time.monotonic()
        with load(path, large=True) as processor:
            print(f"loaded in {time.monotonic() - begin:.0f} s", flush=True)
            (row,) = processor.query("SELECT count(*) AS slices, sum(dur) AS total FROM slice")
            errors = list(processor.query("SELECT name, value FROM stats WHERE severity <> 'info' AND value > 0"))
        print(f"{row.slices:,} slices, {row.total:,} ns; errors: {[(e.name, e.value) for e in errors]}")
        assert (row.slices, row.total, errors) == (slices, total, [])
        print("as written")


if __name__ == "__main__":
    main()
