"""How a command ends: by a signal, within a second and with nothing left behind; and what becomes of its last words.

A handler in Python undoes what has been begun and ends the process. No exception is raised for it: in the middle of an
import, or of native code that calls Python, that can end in an abort, and others may take it for an error of theirs. While a
query or other native code runs, no handler in Python does; so a thread hears of the signal too (by `set_wakeup_fd`, whose
pipe C code writes), and does the same when the main thread has not done it.
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import threading
import time
from collections.abc import Iterator
from types import FrameType
from typing import NoReturn

from occatrace.core import halfway
from occatrace.core.signals import ENDING, hear, leave

PATIENCE_S = 0.2  # for the main thread
_watching = False


def undo_first() -> None:
    """From now on a signal undoes what has been begun. Nothing changes where a command is called as a function."""
    if any(signal.getsignal(number) is leave for number in ENDING):
        hear(_end)


def watch() -> None:
    """From now on signals end native code, too. Not before a fork: the child would have the pipe, and no thread."""
    global _watching
    if _watching or not any(signal.getsignal(number) is _end for number in ENDING):
        return
    _watching = True
    reader, writer = os.pipe2(os.O_CLOEXEC)
    os.set_blocking(writer, False)
    signal.set_wakeup_fd(writer, warn_on_full_buffer=False)
    # Signals are for the main thread: of those that are blocked there, none may arrive here.
    before = signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
    try:
        threading.Thread(target=_watch, args=(reader,), name="ending", daemon=True).start()
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _watch(reader: int) -> None:
    while numbers := os.read(reader, 64):
        for number in numbers:
            if number in ENDING:
                time.sleep(PATIENCE_S)
                _end(number)


@contextlib.contextmanager
def handlers_of_others() -> Iterator[None]:
    """Within this context signals have other handlers, which may let the command go on."""
    pipe = signal.set_wakeup_fd(-1)
    try:
        yield
    finally:
        signal.set_wakeup_fd(pipe, warn_on_full_buffer=False)


def _end(number: int, _: FrameType | None = None) -> NoReturn:
    halfway.undo()
    os._exit(128 + number)


def settle(status: int) -> int:
    """The exit status, when a command has said all that it has to say: what is still in the buffers of the standard streams
    must not fail later, where Python has words and a status of its own for it."""
    for stream, number in ((sys.stdout, 1), (sys.stderr, 2)):
        try:
            if stream is not None:
                stream.flush()
        except (OSError, ValueError):
            with contextlib.suppress(OSError):
                os.dup2(os.open(os.devnull, os.O_WRONLY), number)
    return status
