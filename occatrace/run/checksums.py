"""Checksums of the files of a trace: `trace/<host>/checksums.json`, written when the recording is over, so that what a disk or a
copy has damaged since is noticed and named (`occa_prof report RUN --verify`).

They are CRC-32: 0.2 s of CPU time for a gigabyte, by zlib, which Python has loaded anyway. They tell damage, not forgery.
"""

from __future__ import annotations

import json
import os
import stat
import threading
import time
import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from occatrace.core import checked, files
from occatrace.core.checked import printable
from occatrace.errors import RunError
from occatrace.run.opening import open_run

FILE = "checksums.json"
SCHEMA = 1
_BLOCK = 1 << 20
_MANY = 32 << 20  # bytes from which on a thread per processor is worth it
_TRIES, _PAUSE_S = 20, 0.05
_ARCHIVES = "archives/"  # LTTng puts a piece of --stream there when it is finished


@dataclass(frozen=True)
class Sum:
    """What is known of a file."""

    bytes: int
    crc32: int

    @classmethod
    def of(cls, file: Path) -> Sum:
        """That of a file as it is. Raises an OSError, also for what is no plain file."""
        fd = os.open(file, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        with open(fd, "rb", buffering=0) as stream:
            if not stat.S_ISREG(os.fstat(fd).st_mode):
                raise OSError(f"{file} is no plain file")
            size, crc = 0, 0
            block = memoryview(bytearray(min(_BLOCK, os.fstat(fd).st_size + 1)))
            while count := stream.readinto(block):
                crc = zlib.crc32(block[:count], crc)
                size += count
        return cls(size, crc)


@dataclass(frozen=True)
class Damage:
    """A file that is not as it was recorded."""

    file: Path
    what: str


class Unverified(RunError):
    """The files of a run cannot be checked; one line that says why."""


def write(trace: Path) -> None:
    """Checksums of all files of one host's trace; none where there are no files. Raises an OSError."""
    for _ in range(_TRIES):
        found = _sums([Path(name) for name in _names(trace)])
        if not any(isinstance(each, FileNotFoundError) for _, each in found):
            break
        time.sleep(_PAUSE_S)  # LTTng moves the last piece of --stream
    if found:
        _save(trace, {_key(trace, file): each for file, each in found if isinstance(each, Sum)})


def changed(trace: Path, *paths: Path) -> None:
    """Files, or folders of them, that were changed or removed on purpose after the recording."""
    if not (trace / FILE).exists():
        return
    try:
        known = dict(_load(trace))
    except Unverified:
        return  # whoever checks is told
    for path in paths:
        own = _key(trace, path)
        for key in [key for key in known if key == own or key.startswith(f"{own}/")]:
            if not _place(trace, key).exists():
                del known[key]
        if path.is_file():
            known[own] = Sum.of(path)
    _save(trace, known)


def resized(trace: Path) -> list[Damage]:
    """Files that are missing or have another length; their content is not read."""
    if not (trace / FILE).exists():
        return []
    found = []
    for key, recorded in _load(trace).items():
        try:
            size = os.stat(_place(trace, key), follow_symlinks=False).st_size
        except OSError:
            found.append(_damage(trace, key, recorded, None))
        else:
            if size != recorded.bytes:
                found.append(_damage(trace, key, recorded, Sum(size, 0)))
    return found


@dataclass(frozen=True)
class Verdict:
    """What came of a check."""

    files: int
    bytes: int
    damaged: Sequence[Damage]


def verify(run: Path) -> Verdict:
    """Read all files of a run's traces again. Raises an Unverified where there are no checksums."""
    info = open_run(run).info
    traces = [path for path in sorted((run / "trace").glob("[!.]*")) if path.is_dir()]
    kept = bool(traces) or not info.processes
    traces = [path for path in traces if next(_names(path), None) or (path / FILE).exists()]
    if not traces:
        why = "nothing was recorded" if kept else "its trace is not kept"
        if info.imported:
            why = f"it was imported from {printable(info.imported.get('file', 'a file'))} and has no trace"
        raise Unverified(f"{run} cannot be checked: {why}")
    lacking = [path.name for path in traces if not (path / FILE).exists()]
    if lacking:
        if info.ended is None:
            raise Unverified(f"{run} has no checksums yet: they are written when it has ended, or at the first report")
        raise Unverified(
            f"{run} has no checksums of {', '.join(lacking)}: it was recorded by an older occatrace, or not by occa_prof;"
            " it cannot be checked for damage"
        )
    count, size, damaged = 0, 0, []
    for trace in traces:
        known = _load(trace)
        count += len(known)
        size += sum(recorded.bytes for recorded in known.values())
        places = {_place(trace, key): key for key in known}
        for file, found in _sums(list(places)):
            key = places[file]
            if found != known[key]:
                damaged.append(_damage(trace, key, known[key], found))
    return Verdict(count, size, sorted(damaged, key=lambda damage: damage.file))


def _damage(trace: Path, key: str, recorded: Sum, found: Sum | OSError | None) -> Damage:
    if found is None or isinstance(found, FileNotFoundError):
        what = f"is missing ({recorded.bytes:,} bytes)"
    elif isinstance(found, OSError):
        what = f"cannot be read: {found.strerror or found}"
    elif found.bytes != recorded.bytes:
        what = f"has {found.bytes:,} bytes, {recorded.bytes:,} were recorded"
    else:
        what = f"was changed: its checksum is {found.crc32:08x}, recorded was {recorded.crc32:08x}"
    return Damage(_place(trace, key), what)


def _names(trace: Path) -> Iterator[str]:
    """The files of a trace."""
    for folder, _, names in os.walk(trace):
        for name in names:
            if name != FILE and not name.startswith("."):
                yield os.path.join(folder, name)


def _key(trace: Path, file: Path) -> str:
    """A file's name in the list, wherever LTTng has put its piece."""
    return file.relative_to(trace).as_posix().removeprefix(_ARCHIVES)


def _place(trace: Path, key: str) -> Path:
    file = trace / key
    return file if file.exists() or not (trace / _ARCHIVES / key).exists() else trace / _ARCHIVES / key


def _sums(files: Sequence[Path]) -> list[tuple[Path, Sum | OSError]]:
    """Those of some files, or why there are none."""
    waiting = sorted(files, reverse=True)
    found: list[tuple[Path, Sum | OSError]] = []

    def work() -> None:
        while True:
            try:
                file = waiting.pop()
            except IndexError:
                return
            try:
                found.append((file, Sum.of(file)))
            except OSError as error:
                found.append((file, error))

    total = sum(os.stat(file).st_size for file in files if file.exists())
    helpers = [threading.Thread(target=work) for _ in range(len(os.sched_getaffinity(0)) - 1 if total > _MANY else 0)]
    for helper in helpers:
        helper.start()
    work()
    for helper in helpers:
        helper.join()
    return found


def _save(trace: Path, sums: Mapping[str, Sum]) -> None:
    lines = (f'{json.dumps(k)}: {{"bytes": {s.bytes}, "crc32": "{s.crc32:08x}"}}' for k, s in sorted(sums.items()))
    listed = ",\n  ".join(lines)  # json.dumps with an indent takes longer than the sums
    files.replace(trace / FILE, f'{{"schema": {SCHEMA}, "files": {{\n  {listed}\n}}}}\n'.encode("ascii"))


def _load(trace: Path) -> Mapping[str, Sum]:
    """The list of a trace. Raises an Unverified: the folder may come from anybody."""
    file = trace / FILE
    try:
        said = checked.read(file)
        if said["schema"] > SCHEMA:
            raise Unverified(f"{file} was written by a newer occatrace: update occatrace")
        found = {str(key): Sum(int(s["bytes"]), int(s["crc32"], 16)) for key, s in said["files"].items()}
    except (OSError, ValueError, TypeError, KeyError, AttributeError) as error:
        raise Unverified(f"{file} is damaged ({type(error).__name__}: {error})") from error
    for key in found:
        if key.startswith("/") or ".." in key.split("/") or not key:
            raise Unverified(f"{file} is damaged: it names {key!r}, which is not in the trace")
    return found
