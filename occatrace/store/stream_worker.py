"""The process beside a run with `--stream`: it reads finished chunks of the trace, makes tables of them and deletes them,
on one core at most and behind the program.

`python -m occatrace.store.stream_worker RUN HOST KEEP`, started by occatrace/record/rotation.py. A line that it reads says
that there are new chunks; one that it writes is the number of one that is in the tables. KEEP bytes of the trace stay. It
ends with its input, its work done.
"""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from occatrace.lttng.chunks import pieces
from occatrace.run.layout import STREAM_FOLDER

NICE = 10


class Cpus:
    """Which CPU to work on: of those that we may use, the one that has been idle most since the last question."""

    def __init__(self) -> None:
        self._allowed = os.sched_getaffinity(0)
        self._before = self._idle()

    def _idle(self) -> dict[int, int]:
        out = {}
        with open("/proc/stat", encoding="ascii") as file:
            for line in file:
                words = line.split()
                if words[0].startswith("cpu") and words[0] != "cpu" and int(words[0][3:]) in self._allowed:
                    out[int(words[0][3:])] = int(words[4]) + int(words[5])
        return out

    def take(self) -> None:
        """Work there from now on, with all threads that come."""
        now = self._idle()
        if now:
            best = max(now, key=lambda cpu: now[cpu] - self._before.get(cpu, 0))
            for thread in os.listdir("/proc/self/task"):
                with suppress(OSError):  # it has ended
                    os.sched_setaffinity(int(thread), {best})
        self._before = now


def main(words: Sequence[str]) -> int:
    """Serve until the input ends."""
    run, host, keep = Path(words[0]), words[1], int(words[2])
    os.nice(NICE)
    cpus = Cpus()
    cpus.take()
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    from occatrace.core import model
    from occatrace.store import stream, tables

    folder = run / STREAM_FOLDER / host
    with (
        stream.writing(folder),
        tempfile.TemporaryDirectory(dir=folder, prefix=".scratch-") as scratch,
        tables.connect(Path(scratch)) as con,
    ):
        kept = stream.Stream(run, host, con, model.load())
        kept.keep(keep)
        for _ in sys.stdin:
            try:
                for piece in pieces(run / "trace" / host):
                    if piece.finished:
                        cpus.take()
                        kept.consume(piece, tables.native_reader)
                        print(piece.number, flush=True)
            except stream.NotYet:
                pass
        kept.clear()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
