"""Calls per second into numpy columns, and peak memory: both decoders, 2 and 128 streams, beside babeltrace2's own readers.

The trace is recorded from the test emitter (an event per call with three arguments, 42 bytes) and multiplied: its packets are
dealt out to as many streams as asked, their times moved on. Each figure is a process of its own, which prints what it saw.
"""

from __future__ import annotations

import argparse
import json
import shutil
import struct
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from tests.support import traces

EVENT = "columns_test:call"
CALL_BYTES = 42
# Places in LTTng-UST's packet: header (magic, uuid, stream_id, stream_instance_id), then context.
INSTANCE, BEGIN, END, SIZE, FIRST_EVENT = 24, 32, 40, 56, 84
EXTENDED = 65535  # an event's number where its header has a time of 64 bits: the first event of a packet may

READ = """
import json, resource, sys, time
from occatrace import _native
base = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
wall, cpu, rows = time.perf_counter(), time.process_time(), 0
reader = _native.Reader(sys.argv[1], threads=int(sys.argv[2]), decoder=sys.argv[3])
for batch in reader:
    rows += len(batch)
assert not reader.problems, reader.problems
used = resource.getrusage(resource.RUSAGE_SELF)
print(json.dumps({"rows": rows, "wall": time.perf_counter() - wall, "cpu": time.process_time() - cpu,
                  "more": (used.ru_maxrss - base) / 1024, "peak": used.ru_maxrss / 1024}))
"""


def multiply(trace: Path, out: Path, streams: int, calls: int) -> Path:
    """A trace of about `calls` events in `streams` streams, from the packets of a small one."""
    packets = []
    for file in sorted(trace.glob("ch_*")):
        data = file.read_bytes()
        place = 0
        while place < len(data):
            (size,) = struct.unpack_from("<Q", data, place + SIZE)
            packets.append(data[place : place + size // 8])
            place += size // 8
    total = sum(len(packet) for packet in packets)
    # Whole multiples of 2^32 ns leave the low bits of the events' times as they are.
    span = 1 << 34
    out.mkdir()
    shutil.copy(trace / "metadata", out)
    files = [(out / f"ch_{number}").open("wb") for number in range(streams)]
    for number in range(max(1, calls * CALL_BYTES // total) * len(packets)):
        turn, index = divmod(number, len(packets))
        packet = bytearray(packets[index])
        stream = number % streams
        begin, end = struct.unpack_from("<QQ", packet, BEGIN)
        # Each packet in a time of its own: packets of two threads may land in one stream.
        shift = (turn * len(packets) + index) * span
        struct.pack_into("<Q", packet, INSTANCE, stream)
        struct.pack_into("<QQ", packet, BEGIN, begin + shift, end + shift)
        if struct.unpack_from("<H", packet, FIRST_EVENT) == (EXTENDED,):
            (moment,) = struct.unpack_from("<Q", packet, FIRST_EVENT + 6)
            struct.pack_into("<Q", packet, FIRST_EVENT + 6, moment + shift)
        files[stream].write(packet)
    for opened in files:
        opened.close()
    return out


def read(trace: Path, threads: int, decoder: str) -> dict[str, float]:
    done = subprocess.run(
        [sys.executable, "-c", READ, str(trace), str(threads), decoder], check=True, capture_output=True, text=True
    )
    result: dict[str, float] = json.loads(done.stdout)
    return result


def babeltrace2(trace: Path, *arguments: str) -> float:
    begin = time.perf_counter()
    subprocess.run(["babeltrace2", str(trace), *arguments], check=True, stdout=subprocess.DEVNULL)
    return time.perf_counter() - begin


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--calls", type=int, default=4_000_000)
    parser.add_argument("--repeat", type=int, default=3, help="the best of so many")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="occatrace-bench-") as folder:
        small = traces.record(Path(folder) / "small", "2", "75000", "calls", events=EVENT)
        for streams in (2, 128):
            trace = multiply(small, Path(folder) / f"streams-{streams}", streams, arguments.calls)
            rates: dict[tuple[str, int], float] = {}
            print(f"{streams} streams, {sum(f.stat().st_size for f in trace.iterdir()) >> 20} MiB")
            for decoder in ("fast", "babeltrace2"):
                for threads in (1, 2):
                    runs = [read(trace, threads, decoder) for _ in range(arguments.repeat)]
                    best = min(runs, key=lambda run: run["wall"])
                    rates[decoder, threads] = best["rows"] / best["wall"]
                    print(
                        f"  {decoder:12} {threads} threads: {best['rows'] / best['wall'] / 1e6:6.2f} M calls/s,"
                        f" {best['rows'] / best['cpu'] / 1e6:6.2f} per second of CPU,"
                        f" peak {best['peak']:.0f} MiB ({best['more']:.0f} more than before reading)"
                    )
            rows = runs[0]["rows"]
            dummy = rows / babeltrace2(trace, "-o", "dummy")
            print(f"  babeltrace2 -o dummy (muxed):  {dummy / 1e6:6.2f} M events/s")
            print(
                f"  ratios with 2 threads: fast / dummy {rates['fast', 2] / dummy:.1f},"
                f" sink / dummy {rates['babeltrace2', 2] / dummy:.1f},"
                f" fast / sink {rates['fast', 2] / rates['babeltrace2', 2]:.1f}"
            )


if __name__ == "__main__":
    main()
