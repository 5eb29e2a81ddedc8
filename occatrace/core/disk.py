"""Disks without room: how that shows, and the room that a run keeps for what it has to write at its end."""

from __future__ import annotations

import contextlib
import errno
import os
from pathlib import Path

_FULL = (errno.ENOSPC, errno.EDQUOT)
_SAID = tuple(os.strerror(number) for number in _FULL)
WORDS = "no space left on device"
_MOST = 2 << 20  # metadata of OpenCL in mode full is 0.7 MB
_LEAST = 64 << 10
_MORE = 64 << 10  # where not even this can be had, the disk is full
PREFIX = ".reserve-"


def is_full(error: BaseException | None) -> bool:
    """Whether an error, or what it came from, is that of a disk without room. (DuckDB says it in words only.)"""
    while error is not None:
        if isinstance(error, OSError) and error.errno in _FULL:
            return True
        if type(error).__module__ in ("duckdb", "_duckdb") and says_full(str(error)):
            return True
        error = error.__cause__ or error.__context__
    return False


def says_full(text: str) -> bool:
    """Whether a text has the system's words for it."""
    return any(words in text for words in _SAID)


def mount_of(path: Path) -> Path:
    """Where the disk of a path is mounted."""
    path = path.absolute()
    while not os.path.ismount(path) and path != path.parent:
        path = path.parent
    return path


def is_used_up(path: Path) -> bool:
    """Whether nothing can be made below a path: the disk has no block or no inode left."""
    while not path.exists() and path != path.parent:
        path = path.parent
    with contextlib.suppress(OSError):
        there = os.statvfs(path)
        return there.f_bavail == 0 < there.f_blocks or there.f_favail == 0 < there.f_files
    return False


def needs_room(path: Path) -> str:
    """What is said where something cannot be written below a path."""
    return f"{WORDS}: the disk of {path} is full ({mount_of(path)}); free some space there"


class Reserve:
    """A file that takes up room while a run is recorded, so that a disk that fills up has some for the metadata, without which
    no event can be read, and for run.json."""

    def __init__(self, run: Path, host: str) -> None:
        self._file = run / f"{PREFIX}{host}"
        self._fd: int | None = None
        self._size = 0

    def make(self) -> None:
        """Take the room; less, or none, where there is not that much."""
        with contextlib.suppress(OSError):
            self._fd = os.open(self._file, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
            about = os.fstatvfs(self._fd)
            size = min(_MOST, about.f_bavail * about.f_frsize // 3)
            while size >= _LEAST and not self._size:
                with contextlib.suppress(OSError):
                    os.posix_fallocate(self._fd, 0, size)
                    self._size = size
                size //= 2

    def is_full(self, log: Path) -> bool:
        """Whether the disk is full, or was at a moment: then the daemon has said so in its log."""
        with contextlib.suppress(OSError):
            if says_full(log.read_text(encoding="utf-8", errors="replace")):
                return True
        try:
            if self._fd is not None:
                os.posix_fallocate(self._fd, self._size, _MORE)
        except OSError as error:
            return is_full(error)
        return False

    def release(self) -> None:
        """Give the room back."""
        if self._fd is not None:
            os.close(self._fd)
            self._fd = None
            self._file.unlink(missing_ok=True)


def clear_reserves(run: Path) -> None:
    """Remove those of a recording that was killed."""
    for file in run.glob(f"{PREFIX}*"):
        file.unlink(missing_ok=True)
