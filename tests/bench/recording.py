"""Recording what the benchmarks of the analysis read: runs of set calls in which nothing is missing, and larger ones made of
them, as recording tens of millions of calls takes minutes."""

from __future__ import annotations

import re
import shutil
import struct
import subprocess
import sys
import tempfile
from contextlib import suppress
from pathlib import Path

import numpy as np

import occatrace

_HERE = Path(__file__).resolve().parent
# Calls a second of all threads together that the consumer of one busy core keeps up with.
PACE = 1_500_000
TRIES = 3
_LAST_PID = Path("/proc/sys/kernel/ns_last_pid")
_FIRST = 1_000_000  # id of a process: more than the number of calls of a thread
_APART = 250_000  # ids of the copies: below the 2^22 that Linux gives at most, for up to twelve copies


def record(run: Path, *, threads: int, calls: int, launches: int = 0) -> None:
    """Record programs/many_calls.cpp in mode full. A run from which events are missing would not be what it says: it is
    recorded again, slower."""
    with tempfile.TemporaryDirectory() as folder:
        program = Path(folder) / "many_calls"
        source = _HERE / "programs" / "many_calls.cpp"
        subprocess.run(["g++", "-O2", "-o", program, source, "-lOpenCL", "-lpthread"], check=True)
        for attempt in range(TRIES):
            shutil.rmtree(run, ignore_errors=True)
            with suppress(OSError):  # not root, or no such ids here
                _LAST_PID.write_text(str(_FIRST))
            words = [str(program), str(threads), str(calls // threads), str(PACE >> attempt), str(launches)]
            command = [sys.executable, "-m", "occatrace.cli", "-q", "-m", "full", "-o", str(run), *words]
            made = int(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
            with occatrace.open(run) as opened:
                lost = opened.sql("SELECT coalesce(sum(lost), 0) FROM losses").fetchall()[0][0]
                seen = opened.sql(
                    "SELECT sum(calls) FROM call_stats WHERE function IN"
                    " ('clRetainContext', 'clGetContextInfo', 'clReleaseContext')"
                ).fetchall()[0][0]
            # The contexts of the program's own beginning and end come on top.
            if lost == 0 and made <= seen <= made + 16:
                shutil.rmtree(run / "tables")
                return
            print(f"recording: {lost} events lost, again at {PACE >> (attempt + 1)} calls/s", file=sys.stderr)
    raise SystemExit(f"recording: events were lost {TRIES} times; is the machine busy, or /dev/shm small?")


# Places in LTTng-UST's packet: the number of the stream in its header, the size in its context (bits).
_INSTANCE, _SIZE = 24, 56


def multiply(run: Path, out: Path, copies: int) -> None:
    """A run of `copies` processes at the same time, from a run of one: every copy of the streams has its own process and
    thread ids, everywhere where they stand. Where the same bytes are something else the result is wrong, and refused."""
    with occatrace.open(run) as opened:
        ids = opened.sql("SELECT DISTINCT tid FROM threads UNION SELECT pid FROM processes ORDER BY 1").fetchall()
        wanted = opened.sql("SELECT sum(calls) FROM call_stats").fetchall()[0][0] * copies
    number = re.compile(b"|".join(re.escape(struct.pack("<I", one)) for (one,) in ids))
    shutil.copytree(run, out, ignore=shutil.ignore_patterns("tables"))
    for file in sorted(path for path in (out / "trace").rglob("*") if path.is_file()):
        if file.name == "metadata" or file.parent.name == "index":
            continue
        data = file.read_bytes()
        original = np.frombuffer(data, np.uint8)
        at = np.fromiter((found.start() for found in number.finditer(data)), np.int64)
        places = (at[:, None] + np.arange(4)).reshape(-1)
        numbers = original[places].view("<u4")
        for copy in range(1, copies):
            streams = original.copy()
            # Ids that the process does not have, so that a copy's are in nobody's way.
            streams[places] = (numbers + np.uint32(copy * _APART)).view(np.uint8)
            changed = bytearray(streams)
            packet = 0
            while packet < len(changed):
                (instance,) = struct.unpack_from("<Q", changed, packet + _INSTANCE)
                struct.pack_into("<Q", changed, packet + _INSTANCE, instance + 1000 * copy)
                packet += struct.unpack_from("<Q", changed, packet + _SIZE)[0] // 8
            file.with_name(f"{file.name}_{copy}").write_bytes(changed)
    with occatrace.open(out) as opened:
        made = opened.sql("SELECT sum(calls), (SELECT coalesce(sum(lost), 0) FROM losses) FROM call_stats").fetchall()[
            0
        ]
    if made != (wanted, 0):
        raise SystemExit(
            f"multiply: {made[0]} calls and {made[1]} lost events, {wanted} and none expected; ids of processes from"
            f" {_FIRST:,} on are mistaken for nothing else: as root, raise kernel.pid_max to 4194304, and record again"
        )
    shutil.rmtree(out / "tables")
