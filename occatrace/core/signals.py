"""The signals that end a command, and what they do before anything was begun. Imports nothing that takes time."""

from __future__ import annotations

import _signal  # type: ignore[import-not-found]  # `signal` takes some ms

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import FrameType


ENDING = (_signal.SIGINT, _signal.SIGTERM, _signal.SIGHUP)


def hear(handler: object) -> None:
    """Have a handler called by the signals that end a command, but for those that whoever started us has ignored."""
    for number in ENDING:
        if _signal.getsignal(number) != _signal.SIG_IGN:
            _signal.signal(number, handler)


def leave(number: int, _: FrameType | None) -> None:
    """Nothing has been begun, so nothing is to be undone."""
    import posix

    posix._exit(128 + number)
