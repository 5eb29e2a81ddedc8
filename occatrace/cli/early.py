"""What begins before the command line is read: LTTng's daemon of a run, which takes as long to start as that does. Imports
nothing that takes time."""

from __future__ import annotations

import os

from occatrace.record import keeper

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_COMMANDS = os.path.dirname(__file__)  # has a module for each subcommand
# Words after which no program runs, or another daemon is used, or its buffers are elsewhere. Where one belongs to the program,
# the run starts as it would without this.
_OTHERWISE = ("-h", "--help", "-V", "--version", "--show-config", "--system-lttng", "--shm-path")
# How the variables end by which launchers tell a rank (occatrace/run/ranks.py): its node has one daemon for all.
_RANKS = ("RANK", "RANKID", "PROCID", "RANK_VAR")


def begin(words: Sequence[str]) -> None:
    """Start a daemon where these words look like those of a run. A wrong guess costs time only."""
    if records(words, os.environ) and all(map(_is_open, range(3))):
        keeper.begin()


def end() -> None:
    """Leave nothing behind: the words were no run's."""
    keeper.drop()


def records(words: Sequence[str], environment: Mapping[str, str]) -> bool:
    """Whether these words record a program, in a session of its own."""
    if words and words[0] == "run":
        words = words[1:]
    elif not words or os.path.exists(f"{_COMMANDS}/{words[0]}.py"):
        return False
    return (
        bool(words)
        and not any(word.partition("=")[0] in _OTHERWISE for word in words)
        and not any(name.endswith(_RANKS) for name in environment)
        and "_ARGCOMPLETE" not in environment
    )


def _is_open(fd: int) -> bool:
    """Where a standard stream is closed, a socket of ours would take its number."""
    try:
        os.fstat(fd)
    except OSError:
        return False
    return True
