"""Folders where sockets and temporary files of a run may lie: shared with other users, and safe from them. In strings, and
without imports that take time: needed before anything else is imported. `files.py` says what else is defended."""

from __future__ import annotations

import os
import stat

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

USUAL = ("/tmp", "/dev/shm")


def shared() -> Iterator[str]:
    """Folders for sockets, in the order of preference; only those in which others cannot replace what is ours."""
    for base in (os.environ.get("XDG_RUNTIME_DIR"), os.environ.get("TMPDIR"), *USUAL):
        if base and _is_safe(base):
            yield base


def _is_safe(base: str) -> bool:
    try:
        status = os.stat(base)
    except OSError:
        return False
    # In a user namespace the owner of /tmp may have no number.
    owned = status.st_uid in (0, os.geteuid()) or base in USUAL
    return owned and bool(not status.st_mode & stat.S_IWOTH or status.st_mode & stat.S_ISVTX)
