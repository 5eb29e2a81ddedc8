"""Files and sockets where other users may write too: whose they are, and how they are opened without following links.

A run's folder, /tmp and /dev/shm are shared with strangers. docs/security.md says what is defended against what.
"""

from __future__ import annotations

import errno
import fcntl
import os
import socket
import stat
import struct
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

from occatrace.core import places

_OTHERS_WRITE = stat.S_IWGRP | stat.S_IWOTH
_CREDENTIALS = struct.Struct("3i")  # struct ucred: pid, uid, gid
_NO_LOCKS = (errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP)


def remove_tree(path: Path) -> None:
    """Remove a folder with all that is in it, as far as that goes."""
    import shutil  # with bz2 and lzma: a run that is only recorded needs none of them

    shutil.rmtree(path, ignore_errors=True)


class ForeignError(PermissionError):
    """Something belongs to another user, or others may change it. `strerror` says so."""

    def __init__(self, path: Path, why: str) -> None:
        super().__init__(1, why, str(path))


def shared_places() -> Iterator[Path]:
    """Folders for sockets, in the order of preference; only those in which others cannot replace what is ours."""
    return map(Path, places.shared())


def is_private(path: Path, uid: int | None = None) -> bool:
    """Whether this is a folder (not a link to one) of a user, by default the caller, in which nobody else may write."""
    try:
        status = os.lstat(path)
    except OSError:
        return False
    owner = os.geteuid() if uid is None else uid
    return stat.S_ISDIR(status.st_mode) and status.st_uid == owner and not status.st_mode & _OTHERS_WRITE


def check_private(path: Path) -> None:
    """Raise a ForeignError for a folder that exists and is not the caller's alone."""
    status = os.lstat(path)
    if not stat.S_ISDIR(status.st_mode):
        raise ForeignError(path, "is not a folder")
    if status.st_uid != os.geteuid():
        raise ForeignError(path, f"belongs to another user (uid {status.st_uid})")
    if status.st_mode & _OTHERS_WRITE:
        raise ForeignError(path, "can be written to by other users")


def is_safe_tree(folder: Path, links: frozenset[Path] = frozenset()) -> bool:
    """Whether a folder and all folders below it are the caller's, not writable by everybody, and hold no links, so that
    what is written there stays there. `links`: folders whose links are no harm."""
    uid = os.geteuid()
    waiting = [folder]
    try:
        if not _is_own_folder(os.lstat(folder), uid):
            return False
        while waiting:
            here = waiting.pop()
            below = _folders_in(here, uid, may_link=here in links)
            if below is None:
                return False
            waiting += below
    except OSError:
        return False
    return True


def _folders_in(here: Path, uid: int, may_link: bool) -> list[Path] | None:
    """The folders in a folder; None where one is another user's, or where there is a link and none may be."""
    found = []
    try:
        with os.scandir(here) as entries:
            for entry in entries:
                if entry.is_symlink():
                    if not may_link:
                        return None
                elif entry.is_dir(follow_symlinks=False):
                    if not _is_own_folder(entry.stat(follow_symlinks=False), uid):
                        return None
                    found.append(Path(entry.path))
    except FileNotFoundError:
        pass  # removed meanwhile, as by a recording that goes on
    return found


def _is_own_folder(status: os.stat_result, uid: int) -> bool:
    return stat.S_ISDIR(status.st_mode) and status.st_uid == uid and not status.st_mode & stat.S_IWOTH


@contextmanager
def folder_below(folder: Path, names: Sequence[str] = ()) -> Iterator[Path]:
    """A folder below another one, opened step by step without following links, and made where it is missing. The path
    leads through the descriptor: it stays the same folder whatever is renamed meanwhile."""
    flags = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
    fd = os.open(folder, flags)
    try:
        for name in names:
            try:
                below = os.open(name, flags, dir_fd=fd)
            except FileNotFoundError:
                os.mkdir(name, 0o700, dir_fd=fd)
                below = os.open(name, flags, dir_fd=fd)
            os.close(fd)
            fd = below
        yield Path(f"/proc/self/fd/{fd}")
    finally:
        os.close(fd)


def open_own(path: Path, mode: str, permissions: int = 0o600) -> IO[bytes]:
    """Open a file for writing, by default made for its owner only; neither a link nor anything but a file."""

    def opener(name: str, flags: int) -> int:
        fd = os.open(name, flags | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, permissions)
        status = os.fstat(fd)
        if not stat.S_ISREG(status.st_mode) or status.st_uid != os.geteuid():
            os.close(fd)
            raise ForeignError(path, "is not a file of the caller")
        return fd

    return open(path, mode, opener=opener)


def lock(file: IO[Any], operation: int) -> None:
    """flock(), where the file system has locks: those of clusters may be mounted without. Errors: OSError (BlockingIOError)."""
    try:
        fcntl.flock(file, operation)
    except OSError as error:
        if error.errno not in _NO_LOCKS:
            raise


def read_file(path: Path, largest: int, *, follow: bool = True, uid: int | None = None) -> bytes:
    """The content of a file. Raises an OSError for what is no file (a pipe would block) or too large; `uid`: its owner."""
    fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | (0 if follow else os.O_NOFOLLOW))
    with open(fd, "rb") as file:
        status = os.fstat(fd)
        if not stat.S_ISREG(status.st_mode):
            raise OSError(22, "is not a file", str(path))
        if uid is not None and status.st_uid != uid:
            raise ForeignError(path, f"belongs to another user (uid {status.st_uid})")
        if status.st_size > largest:
            raise OSError(27, "is too large", str(path))
        return file.read(largest)


def partial_name(path: Path) -> Path:
    """A name beside a file under which it is written first. Nobody can have put a link there before."""
    return path.with_name(f".{path.name[:50]}.{os.urandom(6).hex()}")


def replace(path: Path, content: bytes, permissions: int = 0o600) -> None:
    """Write a file in one step, by default for its owner only. A link is replaced, not followed; a device or pipe is written to."""
    if path.exists() and not path.is_file():
        path.write_bytes(content)
        return
    temporary = partial_name(path)
    try:
        with open_own(temporary, "xb", permissions) as file:
            file.write(content)
        temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def peer(connection: socket.socket) -> tuple[int, int]:
    """Process and user at the other end of a unix socket."""
    pid, uid, _ = _CREDENTIALS.unpack(connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size))
    return pid, uid


def connect(path: Path) -> socket.socket:
    """Connect to a socket of the caller's own. Raises a ForeignError for one at which another user listens."""
    client = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    try:
        status = os.lstat(path)
        if status.st_uid != os.geteuid() or not stat.S_ISSOCK(status.st_mode):
            raise ForeignError(path, f"is not a socket of the caller (uid {status.st_uid})")
        client.connect(str(path))
        uid = peer(client)[1]
        if uid != os.geteuid():
            raise ForeignError(path, f"another user listens there (uid {uid})")
    except BaseException:
        client.close()
        raise
    return client


def accept(listener: socket.socket) -> socket.socket | None:
    """The next connection; None where it was another user's, who is not heard."""
    connection, _ = listener.accept()
    if peer(connection)[1] != os.geteuid():
        connection.close()
        return None
    return connection
