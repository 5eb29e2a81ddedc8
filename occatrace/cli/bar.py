"""The progress bar of analyses: on a terminal only, and only when a command has worked for a second."""

from __future__ import annotations

import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from occatrace.core import progress

DELAY_S = 1.0


class Bar:
    """Draws the innermost phase to standard error; the line is gone when the phase ends."""

    def __init__(self, delay: float | None = None, clock: Callable[[], float] = time.monotonic) -> None:
        self._delay = DELAY_S if delay is None else delay
        self._clock = clock
        self._began = clock()
        self._phases: list[str] = []
        self._fraction: float | None = None
        self._live: Any = None
        self._timer: threading.Timer | None = None
        self._lock = threading.RLock()

    def begin(self, text: str) -> None:
        """A phase begins."""
        with self._lock:
            self._phases.append(text)
            self._fraction = None
            left = self._delay - (self._clock() - self._began)
            if left <= 0:
                self._draw()
            elif self._timer is None:
                self._timer = threading.Timer(left, self._late)
                self._timer.daemon = True
                with _signals_for_the_main_thread():
                    self._timer.start()

    def update(self, fraction: float | None) -> None:
        """How far the innermost phase is."""
        with self._lock:
            self._fraction = fraction
            if self._live is not None:
                self._draw()

    def end(self) -> None:
        """The innermost phase ends."""
        with self._lock:
            self._phases.pop()
            self._fraction = None
            if self._phases:
                if self._live is not None:
                    self._draw()
                return
            if self._timer is not None:
                self._timer.cancel()
                self._timer = None
            if self._live is not None:
                self._live.stop()
                self._live = None

    def _late(self) -> None:
        with self._lock:
            if self._phases:
                self._draw()

    def _draw(self) -> None:
        if self._live is None:
            with _signals_for_the_main_thread():
                self._live = _live()
                self._live.start()
        text, fraction = self._phases[-1], self._fraction
        self._live.update(
            self._live.task_ids[0], description=text, total=None if fraction is None else 1.0, completed=fraction or 0
        )


def _live() -> Any:
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    class _Console(Console):
        def show_cursor(self, show: bool = True) -> bool:
            """It stays visible: whoever ends us by a signal finds the terminal as it was."""
            return False

    columns = (TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn())
    live = Progress(*columns, console=_Console(stderr=True), transient=True, redirect_stdout=False)
    live.add_task("", total=None)
    return live


@contextmanager
def _signals_for_the_main_thread() -> Iterator[None]:
    before = signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def use() -> None:
    """Show phases from now on, if standard error is a terminal."""
    if sys.stderr is not None and sys.stderr.isatty():
        progress.show_in(Bar())
