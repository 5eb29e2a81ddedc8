"""A recording of another tool → a run: finds out what the file is, makes the run beside its place, puts it there when it is whole."""

from __future__ import annotations

import hashlib
import os
import stat
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from occatrace import __version__
from occatrace.core import disk, files, halfway, progress
from occatrace.core import model as model_module
from occatrace.core.checked import printable
from occatrace.core.duck import duckdb
from occatrace.errors import RunError
from occatrace.foreign import FORMATS, chrome, ctf, nsys, rocpd, sqlite
from occatrace.foreign.assembly import Assembly
from occatrace.foreign.staging import Staging
from occatrace.run import folder as runs
from occatrace.run import layout
from occatrace.run.import_trace import find_traces
from occatrace.store.tables import connect

_CHUNK = 1 << 22


def import_file(file: Path, output: Path | None = None, *, force: bool = False) -> runs.Run:
    """Make a run of a file of another tool; `output`: its folder. Raises a RunError that says what it misses."""
    size = _check(file)
    kind, read = _reader(file)
    run_id = layout.new_id()
    target = output or runs.default_folder(file.name, run_id)
    runs.check_room(target, force)
    digest = _Digest(file)
    target.parent.mkdir(parents=True, exist_ok=True)
    partial = halfway.add_path(files.partial_name(target))
    try:
        info = runs.RunInfo(program=(file.name,), id=run_id, version=__version__, mode="imported")
        run = runs.create(partial, info)
        # Its place in the end is the same folder: what is written meanwhile needs no room elsewhere.
        with halfway.scratch(run.path) as temporary, connect(temporary) as con:
            staging = Staging(con)
            con.execute("SET preserve_insertion_order = false")
            length = _fill(file, read, staging, run.tables)
        facts: runs.ImportFacts = {
            "format": kind,
            "file": file.name,
            "bytes": size,
            "sha256": digest.result(),
            "product": staging.product,
        }
        begin = staging.realtime_ns / 1e9 if staging.realtime_ns > 0 else file.stat().st_mtime
        run = run.updated(
            program=staging.program or (file.name,),
            host=staging.host,
            started=_wall(begin),
            ended=_wall(begin + length / 1e9),
            imported=facts,
            notes=tuple(staging.notes),
        )
        runs.put(partial, target, force)
    except OSError as error:
        if disk.is_full(error):
            raise RunError(disk.needs_room(target.parent)) from None
        raise RunError(f"cannot write to {target}: {error.strerror or error}; choose another folder by -o") from None
    finally:
        digest.stop()
        halfway.remove_path(partial)
    return replace(run, path=target.resolve())


def _check(file: Path) -> int:
    """Size of a file that can be read at any place. Raises a RunError."""
    try:
        fd = os.open(file, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as error:
        raise RunError(f"{file}: {error.strerror}") from None
    try:
        status = os.fstat(fd)
    finally:
        os.close(fd)
    if stat.S_ISDIR(status.st_mode) and find_traces(file):
        return sum(part.stat().st_size for part in _parts(file))
    if not stat.S_ISREG(status.st_mode):
        raise RunError(f"{file} is no file: give a recording of another tool ({', '.join(FORMATS)})")
    if not status.st_size:
        raise RunError(f"{file} is empty")
    return status.st_size


def _parts(file: Path) -> list[Path]:
    """The file, or the files of a folder in the order of their names."""
    if not file.is_dir():
        return [file]
    return sorted(part for part in file.rglob("*") if part.is_file() and not part.is_symlink())


Read = Callable[[Path, Staging], None]


def _reader(file: Path) -> tuple[str, Read]:
    """Which format it is, and what reads it."""
    if file.is_dir():
        return ctf.NAME, ctf.read
    with file.open("rb") as opened:
        head = opened.read(64)
    if head.startswith(sqlite.MAGIC):
        with sqlite.Database(file) as db:
            for reader in (nsys, rocpd):
                if reader.is_one(db.tables):
                    return reader.NAME, _of_database(reader.read)
            shown = ", ".join(printable(name)[:40] for name in sorted(db.tables)[:6]) or "none"
            lacking = nsys.lacking(db.tables) + " and rocpd_string (rocpd)"
        raise RunError(f"{file} is SQLite, but of no tool that is known: {lacking}; it has the tables {shown}")
    if chrome.may_be(head):
        return chrome.NAME, chrome.read
    what = "; ".join(f"{name}: {about}" for name, about in FORMATS.items())
    raise RunError(f"{file} is of no format that can be imported ({what})")


def _of_database(read: Callable[[sqlite.Database, Staging], None]) -> Read:
    def read_file(file: Path, staging: Staging) -> None:
        with sqlite.Database(file) as db:
            read(db, staging)

    return read_file


def _fill(file: Path, read: Read, staging: Staging, tables: Path) -> int:
    """Make the tables; returns the length of the recording, in ns."""
    try:
        with progress.phase(f"reading {printable(file.name)}"):
            read(file, staging)
        staging.note_reversed()
        staging.name_by_number()
        with progress.phase("making the tables"):
            assembly = Assembly(staging, model_module.load(), tables)
            assembly.run()
    except RunError as error:
        line = str(error)
        raise RunError(line if str(file) in line else f"{file}: {line}") from None
    except (duckdb.OutOfRangeException, duckdb.ConversionException) as error:
        raise RunError(f"{file}: a number in it is too large ({str(error).splitlines()[0][:150]})") from None
    return assembly.length


def _wall(seconds: float) -> str:
    try:
        return time.strftime("%Y-%m-%dT%H:%M:%S%z", time.localtime(seconds))
    except (OverflowError, ValueError, OSError):
        return ""


class _Digest:
    """SHA-256 of a file, or of those of a folder one after another, by a thread beside the reader."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self._stopped = False
        self._sha = hashlib.sha256()
        self._error: OSError | None = None
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        try:
            for part in _parts(self._file):
                with part.open("rb") as opened:
                    while not self._stopped and (chunk := opened.read(_CHUNK)):
                        self._sha.update(chunk)
        except OSError as error:
            self._error = error

    def result(self) -> str:
        """The digits, when the file is read."""
        self._thread.join()
        if self._error:
            raise self._error
        return self._sha.hexdigest()

    def stop(self) -> None:
        """Nobody wants it any more."""
        self._stopped = True
        self._thread.join()


__all__ = ["FORMATS", "import_file"]
