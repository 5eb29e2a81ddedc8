"""`occa_prof import` of a large export of nsys: seconds, and the highest memory of the process.

usage: bench_import.py [--megabytes N] [--keep FILE]  (the file is made by the documented schema)
"""

from __future__ import annotations

import argparse
import os
import sqlite3
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from tests.support.foreign import NSYS, nsys_rows, tid

ROUND = 5000  # launches at a time
BYTES = 90  # of a launch in the file: its call, its kernel


def make(path: Path, megabytes: int) -> int:
    """A file of about so many MB: launches and their kernels, of four threads on two streams each; returns their number."""
    db = sqlite3.connect(path)
    db.execute("PRAGMA journal_mode = OFF")
    db.execute("PRAGMA synchronous = OFF")
    rows = nsys_rows()
    for name, ddl in NSYS.items():
        db.execute(f'CREATE TABLE "{name}" ({ddl})')
    for name in ("StringIds", "PROCESSES", "TARGET_INFO_GPU", "META_DATA_EXPORT"):
        db.executemany(f"INSERT INTO {name} VALUES ({', '.join('?' * len(rows[name][0]))})", rows[name])
    total = megabytes * 1_000_000 // BYTES
    for first in range(0, total, ROUND):
        calls, kernels = [], []
        for n in range(first, min(first + ROUND, total)):
            at = 1_000_000_000 + n * 5000
            calls.append((at, at + 3000 + n % 97, 0, tid(2000 + n % 4), n, 1, 0, None))
            kernels.append(
                (at + 4000, at + 8000 + n % 89, 0, 1, None, 7 + n % 2, n, tid(0), 7, 8, 6, 10, 2, 1, 64, 1, 1)
            )
        db.executemany("INSERT INTO CUPTI_ACTIVITY_KIND_RUNTIME VALUES (?, ?, ?, ?, ?, ?, ?, ?)", calls)
        db.executemany(f"INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL VALUES ({', '.join('?' * 17)})", kernels)
    db.commit()
    db.close()
    return total


def main() -> None:
    """Make a file, import it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--megabytes", type=int, default=100)
    parser.add_argument("--keep", type=Path)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        file = args.keep or Path(folder, "app.sqlite")
        launches = make(file, args.megabytes) if not file.exists() else 0
        begin = time.monotonic()
        command = [sys.executable, "-m", "occatrace", "import", str(file), "-o", str(Path(folder, "run"))]
        pid = os.posix_spawn(sys.executable, command, os.environ)
        _, status, usage = os.wait4(pid, 0)
        took = time.monotonic() - begin
        size = file.stat().st_size / 1e6
        print(
            f"{size:.0f} MB, {launches:,} launches: {took:.1f} s ({took / size * 1000:.1f} s for 1 GB), CPU"
            f" {usage.ru_utime + usage.ru_stime:.1f} s, {usage.ru_maxrss / 1024:.0f} MiB at most, status {status}"
        )


if __name__ == "__main__":
    main()
