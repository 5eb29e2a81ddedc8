"""Slices per second and bytes per slice of the timeline's encoder, beside a writer with protozero and the Python builder
of the perfetto package. Debian's libprotozero-dev is installed if it is not there and this is root.

All write the same slices on the same tracks in one run: lean ones (a name and two times), and rich ones (two arguments
on all, a flow on half of them). CPU time of one thread.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from occatrace import _native

TRACKS = 8
NAMES = 40
BATCH = 1 << 16


class Content:
    """Slices of one track, one after the other, 1.5 µs on average."""

    def __init__(self, count: int, seed: int) -> None:
        random = np.random.default_rng(seed)
        steps = random.integers(200, 3000, 2 * count).astype(np.uint64)
        times = np.cumsum(steps)
        self.start: npt.NDArray[np.uint64] = times[0::2]
        self.end: npt.NDArray[np.uint64] = times[1::2]
        self.name = random.integers(0, NAMES, count).astype(np.uint32)
        self.bytes = random.integers(1, 1 << 24, count).astype(np.uint64)
        self.block = random.integers(0, 4, count).astype(np.uint32)
        # Half of the slices have a flow, each tied to its like on the neighbour's track.
        self.flows = np.arange(0, (count + 1) // 2, dtype=np.uint64)
        self.offsets = (np.arange(count + 1, dtype=np.uint32) + 1) // 2

    def columns(self, number: int) -> list[npt.NDArray[np.uint64]]:
        """As the writer with protozero reads them."""
        count = len(self.start)
        flow = np.zeros(count, np.uint64)
        flow[0::2] = np.uint64(1 + (number // 2) * count) + self.flows
        return [
            np.array([count], np.uint64),
            self.start,
            self.end,
            *(c.astype(np.uint64) for c in (self.name, self.bytes, self.block)),
            flow,
        ]


def native(path: Path, tracks: list[Content], rich: bool) -> float:
    """CPU seconds of our encoder."""
    begin = time.process_time()
    timeline = _native.Timeline(str(path), 0, 10**18)
    names = np.array([timeline.string(f"kernel_{i}") for i in range(NAMES)], np.uint32)
    category = timeline.string("kernel")
    blocks = np.array([timeline.string(f"{32 << i} × 1 × 1") for i in range(4)], np.uint32)
    size, block = timeline.string("bytes"), timeline.string("block")
    for number, content in enumerate(tracks):
        lanes = timeline.lanes(number + 1, 0, f"queue {number}", number, nested=False)
        for at in range(0, len(content.start), BATCH):
            rows = slice(at, at + BATCH)
            count = len(content.start[rows])
            arguments: list[tuple[int, str, npt.NDArray[Any], None]] = []
            flows = None
            if rich:
                arguments = [
                    (size, "uint", content.bytes[rows], None),
                    (block, "text", blocks[content.block[rows]], None),
                ]
                offsets = content.offsets[at : at + count + 1]
                ids = content.flows[offsets[0] : offsets[-1]] + np.uint64(1 + (number // 2) * len(content.start))
                flows = (offsets - offsets[0], ids)
            lanes.add(
                content.start[rows],
                content.end[rows],
                names[content.name[rows]],
                np.full(count, category, np.uint32),
                flows,
                arguments,
            )
        lanes.finish()
    timeline.close()
    return time.process_time() - begin


def python(path: Path, tracks: list[Content], rich: bool) -> float:
    """CPU seconds of the perfetto package's builder, interned as it recommends."""
    from perfetto.protos.perfetto.trace.perfetto_trace_pb2 import TrackEvent
    from perfetto.trace_builder.proto_builder import StreamingTraceProtoBuilder

    begin = time.process_time()
    with path.open("wb") as file:
        builder = StreamingTraceProtoBuilder(file)
        for number, content in enumerate(tracks):
            packet = builder.create_packet()
            packet.track_descriptor.uuid = number + 1
            packet.track_descriptor.name = f"queue {number}"
            builder.write_packet(packet)
            columns = (content.start, content.end, content.name, content.bytes, content.block)
            for i, (start, end, name, size, block) in enumerate(zip(*(c.tolist() for c in columns), strict=True)):
                packet = builder.create_packet()
                packet.timestamp = start
                packet.trusted_packet_sequence_id = 1
                event = packet.track_event
                event.type = TrackEvent.TYPE_SLICE_BEGIN
                event.track_uuid = number + 1
                event.name = f"kernel_{name}"
                event.categories.append("kernel")
                if rich:
                    argument = event.debug_annotations.add()
                    argument.name, argument.uint_value = "bytes", size
                    argument = event.debug_annotations.add()
                    argument.name, argument.string_value = "block", f"{32 << block} × 1 × 1"
                    if i % 2 == 0:
                        event.flow_ids.append(1 + (number // 2) * len(content.start) + i // 2)
                builder.write_packet(packet)
                packet = builder.create_packet()
                packet.timestamp = end
                packet.trusted_packet_sequence_id = 1
                packet.track_event.type = TrackEvent.TYPE_SLICE_END
                packet.track_event.track_uuid = number + 1
                builder.write_packet(packet)
    return time.process_time() - begin


def protozero(folder: Path) -> Path | None:
    """The compiled writer; None if protozero cannot be had."""
    header = Path("/usr/include/protozero/pbf_writer.hpp")
    if not header.exists() and shutil.which("apt-get") and os.geteuid() == 0:
        command = ["apt-get", "install", "-y", "-q", "--no-install-recommends", "libprotozero-dev"]
        subprocess.run(command, check=False, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    if not header.exists():
        print("protozero is not installed (apt-get install libprotozero-dev): no comparison with it")
        return None
    source = Path(__file__).parent / "programs" / "protozero_timeline.cpp"
    program = folder / "protozero_timeline"
    subprocess.run(["g++", "-O2", "-DNDEBUG", "-std=c++17", "-o", program, source], check=True)
    return program


def main() -> None:
    """Prints a line for each writer and content."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--slices", type=int, default=1_000_000)
    parser.add_argument("--python-slices", type=int, default=50_000)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "x.pftrace"
        writers: list[tuple[str, Any, int]] = [("occatrace", native, args.slices)]
        try:
            import perfetto.trace_builder.proto_builder  # noqa: F401

            writers.append(("perfetto (Python)", python, args.python_slices))
        except ImportError:
            print("the Python package perfetto is not installed: no comparison")
        program = protozero(Path(folder))

        def with_protozero(path: Path, tracks: list[Content], rich: bool) -> float:
            assert program
            columns = path.with_suffix(".columns")
            if not columns.exists():
                with columns.open("wb") as file:
                    for number, content in enumerate(tracks):
                        for column in content.columns(number):
                            column.tofile(file)
            return float(subprocess.check_output([program, columns, path, str(int(rich))]))

        if program:
            writers.insert(1, ("protozero", with_protozero, args.slices))
        for name, writer, slices in writers:
            tracks = [Content(slices // TRACKS, seed) for seed in range(TRACKS)]
            total = sum(len(t.start) for t in tracks)
            for rich in (False, True):
                seconds = min(writer(path, tracks, rich) for _ in range(3))
                kind = "with arguments and flows" if rich else "lean"
                rate, size = total / seconds / 1e6, path.stat().st_size / total
                print(f"{name:18} {kind:25} {rate:7.2f} M slices/s  {size:6.1f} B/slice")


if __name__ == "__main__":
    main()
