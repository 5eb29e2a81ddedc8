"""`--stream` beside the program: the trace is cut into pieces as it grows, each is given to a worker that makes tables of it,
and recording of events stops for a while where the disk would be fuller than was asked for.

The worker is a process of its own (occatrace/store/stream_worker.py); this is a thread in the process that holds the session.
"""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from occatrace.core.units import duration, size
from occatrace.lttng.chunks import pieces
from occatrace.run.control import Switch, size_of
from occatrace.run.layout import STREAM_FOLDER

if TYPE_CHECKING:
    from collections.abc import Callable

POLL_S = 0.1
LEAST_S = 1.0  # between two rotations: LTTng writes all of its metadata into each piece
PIECE = 8 << 20  # bytes of a piece, or less where little is allowed
AGE_S = 2.0  # a piece is finished after so long, however small: reports of the running program see it
ROTATION_S = 30.0
MARGIN_S = 5.0
SILENCE_S = 120.0  # without a word from the worker at the end: it hangs
DEFAULT_LIMIT = 2 << 30
# Parts of the limit: pieces that are not yet tables, what stays of the trace, the tables so far. The rest is for those of the
# end, which are made beside them.
WAITING_SHARE, KEPT_SHARE, TABLES_SHARE = 0.3, 0.1, 0.3


class Rotation:
    """Life of the stream of one session: start when recording has begun, finish when it is over."""

    def __init__(
        self, session: str, run: Path, host: str, limit: int | None, switch: Switch | None, is_used: Callable[[], bool]
    ) -> None:
        self._session = session
        self._run = run
        self._host = host
        self.limit = limit or DEFAULT_LIMIT
        self._trace = run / "trace" / host
        self._switch = switch
        self._is_used = is_used
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="rotation", daemon=True)
        self._worker: subprocess.Popen[str] | None = None
        self._listener: threading.Thread | None = None
        self._heard = time.monotonic()
        self._done = -1  # the last piece that is in the tables
        self._full = False  # the tables have their share of the disk
        self._failed = ""  # why the last piece was not cut
        self._held: float | None = None
        self._held_s = 0.0
        self._times_held = 0
        self.notes: list[str] = []

    def start(self) -> None:
        """From now on pieces are cut."""
        (self._run / STREAM_FOLDER / self._host).mkdir(mode=0o700, parents=True, exist_ok=True)
        self._thread.start()

    def stop(self) -> None:
        """No more pieces by themselves."""
        self._stop.set()
        if self._thread.is_alive():
            self._thread.join(ROTATION_S + MARGIN_S)  # a daemon that hangs would hold us for ever

    def cut(self) -> None:
        """The last piece, when all is written."""
        if self._is_used():
            self._rotate()

    def finish(self) -> None:
        """Return when there are tables of all pieces."""
        self._release()
        status = self._end_worker() if self._worker else 0
        if status:
            self.notes.append(
                f"the process that made tables of the trace ended early (status {status}): the report makes the rest"
            )
        if self._failed:
            self.notes.append(
                f"the end of the trace was not rotated into a chunk ({self._failed}): the report reads it"
            )
        if self._full:
            self.notes.append(
                f"--max-size {size(self.limit)}: the tables reached their part of it: from then on calls were only"
                " counted"
            )
        if self._times_held:
            times = f"{self._times_held} time{'s' if self._times_held > 1 else ''}"
            self.notes.append(
                f"--max-size {size(self.limit)}: {times} the trace grew faster than tables could be made of it, and for"
                f" {duration(round(self._held_s * 1e9))} in all calls were only counted"
            )

    def _end_worker(self) -> int:
        """Its exit status, when its work is done."""
        worker = self._worker
        assert worker and worker.stdin
        with suppress(OSError):
            worker.stdin.close()
        self._heard = time.monotonic()
        while True:
            try:
                status = worker.wait(1.0)
                break
            except subprocess.TimeoutExpired:
                if time.monotonic() - self._heard > SILENCE_S:
                    worker.kill()
        if self._listener:
            self._listener.join()
        return status

    # ---- in the thread ----

    def _watch(self) -> None:
        piece = min(PIECE, max(self.limit // 16, 1 << 16))
        begun = time.monotonic()
        while not self._stop.wait(POLL_S):
            if not self._is_used():
                begun = time.monotonic()
                continue
            current = sum(size_of(p.path) for p in pieces(self._trace) if not p.finished)
            age = time.monotonic() - begun
            if age > AGE_S or (current >= piece and age > LEAST_S):
                self._rotate()
                begun = time.monotonic()
            self._mind_the_disk()

    def _rotate(self) -> None:
        from occatrace import _session

        try:
            in_time = _session.rotate(self._session, ROTATION_S)
            self._failed = "" if in_time else f"LTTng was not done with it after {ROTATION_S:.0f} s"
        except _session.Error as error:
            self._failed = str(error)  # the next time, or the report
        # Also where it failed: the one before may have been late.
        if self._worker is None:
            try:
                self._start_worker()
            except OSError:
                return  # the next time, or the report
        assert self._worker and self._worker.stdin
        with suppress(OSError):  # it has ended, or hangs and does not read
            self._worker.stdin.write("go\n")
            self._worker.stdin.flush()

    def _start_worker(self) -> None:
        environment = {name: value for name, value in os.environ.items() if name != "LD_PRELOAD"}
        environment["PYTHONPATH"] = os.pathsep.join(
            filter(None, [str(Path(__file__).parents[2]), environment.get("PYTHONPATH")])
        )
        self._worker = subprocess.Popen(
            [
                sys.executable,
                "-m",
                "occatrace.store.stream_worker",
                str(self._run),
                self._host,
                str(int(self.limit * KEPT_SHARE)),
            ],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            env=environment,
            start_new_session=True,
        )
        assert self._worker.stdin
        os.set_blocking(self._worker.stdin.fileno(), False)
        self._listener = threading.Thread(target=self._listen, name="worker", daemon=True)
        self._listener.start()

    def _listen(self) -> None:
        assert self._worker and self._worker.stdout
        for line in self._worker.stdout:
            self._done = max(self._done, int(line))  # it also tells of those that stay
            self._heard = time.monotonic()

    def _mind_the_disk(self) -> None:
        """Record no events while there is no room for them."""
        if not self._switch or self._full:
            return
        waiting = sum(size_of(piece.path) for piece in pieces(self._trace) if piece.number > self._done)
        if self._held is None and waiting > self.limit * WAITING_SHARE:
            self._held = time.monotonic()
            self._times_held += 1
            self._switch.hold_events(True)
        elif self._held is not None and waiting < self.limit * WAITING_SHARE / 2:
            self._release()
        if size_of(self._run / STREAM_FOLDER / self._host) > self.limit * TABLES_SHARE:
            self._full = True
            self._switch.hold_events(True)

    def _release(self) -> None:
        if self._held is not None and self._switch:
            self._held_s += time.monotonic() - self._held
            self._held = None
            self._switch.hold_events(self._full)
