"""What `--stream` keeps of a run while it goes on: the finished pieces of its trace as tables, in `RUN/stream/<host>/`.

A piece becomes a part: its records, and its rows as Parquet; sums go into one file of all pieces so far. `manifest.json`
says which files count, and is replaced in one step after they are on the disk: whoever is killed at any moment leaves
each piece either in the tables or in the trace. `Stream` writes them (occatrace/store/stream_worker.py, or a report of a run
that was killed) and hands them to the first pass, as if the trace had been read at once.
"""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import IO, TYPE_CHECKING, Annotated, Any

from occatrace.core import checked, files
from occatrace.core.sql import text as sql_text
from occatrace.errors import RunError
from occatrace.lttng.chunks import CHUNK_NAME, Piece, pieces
from occatrace.lttng.packets import metadata_extent
from occatrace.run import checksums
from occatrace.run.control import size_of
from occatrace.run.layout import STREAM_FOLDER
from occatrace.store.made import check_files

if TYPE_CHECKING:
    from occatrace.core.duck import duckdb
    from occatrace.core.model import Model
    from occatrace.ingest import OpenReader, Reader
    from occatrace.ingest.folded import Folded
    from occatrace.ingest.host import Host

    OpenPiece = Callable[[Path, Sequence[str] | None], Reader]

MANIFEST = "manifest.json"
VERSION = 1
# What the assembly of tables from damaged files may raise.
DAMAGE = (OSError, EOFError, ValueError, TypeError, KeyError, IndexError, AttributeError)
DELETING_S = 2.0
FAN = 8  # parts of a size that become one
LARGEST_MERGED = 32 << 20


class StreamError(RunError):
    """The tables so far cannot be read; one line that says why."""


class NotYet(Exception):
    """A piece cannot be read before the next one is there."""


@dataclass(frozen=True)
class Part:
    """Some pieces, one after the other, as files in a folder."""

    name: Annotated[str, checked.Text("[0-9]{6,}-[0-9]{6,}", "the name of a part")]
    level: int
    bytes: int
    rows: Mapping[str, int]  # by raw table


@dataclass(frozen=True)
class Manifest:
    """Which files count."""

    state: Annotated[str, checked.Text("(state-[0-9]{6,}.npz)?", "the name of a state")] = ""  # the sums of all pieces
    parts: tuple[Part, ...] = ()
    consumed: int = -1  # the last piece that is in the tables
    events: int = 0
    until: float = 0.0  # when that piece was in them, seconds since 1970
    keep: int = 0  # bytes of the trace that stay, for single calls and the timeline: the newest

    @classmethod
    def read(cls, folder: Path) -> Manifest:
        """Of a folder; of one that has none yet, that of nothing."""
        try:
            said = checked.read(folder / MANIFEST)
            if said.get("version") != VERSION:
                raise StreamError(f"{folder}: written by another version of occatrace")
            manifest = checked.made(cls, said)
        except FileNotFoundError:
            return cls()
        except (OSError, checked.Damaged) as error:
            raise StreamError(f"{folder / MANIFEST} is damaged: {error}") from error
        from occatrace.ingest.gathered import GATHERED

        known = {gathered.raw for gathered in GATHERED}
        unknown = sorted({table for part in manifest.parts for table in part.rows} - known)
        if unknown:
            raise StreamError(
                f"{folder / MANIFEST} is damaged: parts.rows names {unknown[0][:40]!r}, which is no table"
            )
        return manifest

    def write(self, folder: Path) -> None:
        """Replace that of a folder in one step."""
        said = {"version": VERSION, **vars(self), "parts": [vars(part) for part in self.parts]}
        temporary = files.partial_name(folder / MANIFEST)
        with files.open_own(temporary, "xb") as file:
            file.write(json.dumps(said).encode())
            file.flush()
            os.fsync(file.fileno())
        temporary.rename(folder / MANIFEST)
        _sync(folder)


class Stream:
    """The tables so far of one host. One process at a time writes them."""

    def __init__(
        self, run: Path, host: str, con: duckdb.DuckDBPyConnection, model: Model, manifest: Manifest | None = None
    ) -> None:
        self.folder = run / STREAM_FOLDER / host
        self.host = host
        self._con = con
        self._model = model
        self._out = self.folder  # where new parts go
        self.manifest = manifest or Manifest.read(self.folder)
        self._sums: Folded | None = None
        self._doomed: list[Path] = []
        self._trace = run / "trace" / host
        self.last = False  # nothing more comes: what is not whole is read as far as it goes

    # ---- writing ----

    def create(self) -> None:
        """Make the folder."""
        self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)

    def keep(self, size: int) -> None:
        """So many bytes of the trace are to stay."""
        self._settle(replace(self.manifest, keep=size))

    def keep_apart(self, folder: Path) -> None:
        """Leave the run as it is: new parts go into this folder, and are known to this object only."""
        self._out = folder / self.host
        self._out.mkdir(mode=0o700)

    @property
    def sums(self) -> Folded:
        """Those of all pieces so far."""
        from occatrace.ingest.folded import Folded
        from occatrace.ingest.threads import ThreadMap

        if self._sums is None:
            from zipfile import BadZipFile

            state = self.manifest.state
            try:
                self._sums = Folded.load(self._place(state)) if state else Folded(ThreadMap(0))
            except (*DAMAGE, BadZipFile) as error:
                raise StreamError(f"{self._place(state)} is damaged ({type(error).__name__})") from error
        return self._sums

    def consume(self, piece: Piece, open_piece: OpenPiece) -> None:
        """Put a piece into the tables, and delete the oldest that need not stay."""
        if piece.number > self.manifest.consumed:
            self._mend_metadata(piece)
            self.add(piece.number, lambda events: open_piece(piece.path, events))
        if self._out == self.folder:
            self._merge_parts()
            self._retire()
            self.clear()

    def add(self, number: int, open_trace: OpenReader) -> None:
        """Put what a reader has into the tables."""
        from occatrace.errors import StoreError
        from occatrace.ingest import FirstPass, HostTrace
        from occatrace.ingest.host import Host

        reading = FirstPass(self._con, self._model)
        before = self.manifest
        try:
            host = reading.read_piece(HostTrace(self.host, open_trace), self.sums.threads)
        except StoreError as error:
            host = Host(self.host, self.sums.threads, problems=[f"a piece of the trace is missing below: {error}"])
        self.sums.add(host)
        name = f"{number:06}-{number:06}"
        part = self._write_part(name, 0, host.records, reading.raw)
        reading.forget()
        state = f"state-{number:06}.npz"
        self.sums.save(self._out / state)
        events = int(self.sums.stats["seen"].sum())
        self._settle(
            replace(before, state=state, parts=(*before.parts, part), consumed=number, events=events, until=time.time())
        )
        if before.state:
            self._doomed.append(self.folder / before.state)

    def _mend_metadata(self, piece: Piece) -> None:
        """LTTng writes all of its metadata into each piece, and is now and then not done when the next one begins. It only
        grows, so the longest of any piece serves them all. Raises a NotYet where none is whole."""
        root = piece.path if piece.path.name != "ust" else piece.path.parent
        for metadata in sorted(piece.path.glob("**/metadata")):
            place = metadata.relative_to(root)
            kept = self._out / "metadata" / place.parent.name / place.parent.parent.name
            own = metadata_extent(metadata)
            others = [kept, *(other.path / place for other in pieces(self._trace) if other.path != piece.path)]
            best = max(others, key=metadata_extent)
            if metadata_extent(best)[0] > own[0]:
                shutil.copyfile(best, metadata)
                checksums.changed(self._trace, metadata)
            elif own > metadata_extent(kept):
                kept.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
                shutil.copyfile(metadata, kept)
            if not metadata_extent(metadata)[1] and not self.last:
                raise NotYet(f"{metadata} is not whole")

    def _retire(self) -> None:
        room = self.manifest.keep
        for piece in reversed(pieces(self._trace)):
            if piece.number <= self.manifest.consumed and piece.path not in self._doomed:
                room -= size_of(piece.path)
                if room < 0:
                    self._doomed.append(piece.path)

    def clear(self) -> None:
        """Delete what does not count any more, unless somebody reads it: then the next time."""
        if not self._doomed or self._out != self.folder:
            return
        with (self.folder / "lock").open("w") as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                return
            for path in self._doomed:
                if path.is_dir():
                    shutil.rmtree(path, ignore_errors=True)
                else:
                    path.unlink(missing_ok=True)
            checksums.changed(self._trace, *(path for path in self._doomed if self._trace in path.parents))
            self._doomed.clear()

    def _settle(self, manifest: Manifest) -> None:
        if self._out == self.folder:
            manifest.write(self.folder)
        self.manifest = manifest

    def _write_part(
        self, name: str, level: int, records: Mapping[str, Sequence[Mapping[str, Any]]], raw: Mapping[str, str]
    ) -> Part:
        """`raw`: queries of the rows, by table."""
        folder = self._out / name
        shutil.rmtree(folder, ignore_errors=True)  # of one who was killed
        folder.mkdir(mode=0o700)
        rows, files = {}, [folder / "records.json"]
        files[0].write_text(json.dumps(records, default=_text), encoding="ascii")
        for table, query in raw.items():
            files.append(folder / f"{table}.parquet")
            done = self._con.execute(
                f"COPY ({query}) TO {sql_text(str(files[-1]))} (FORMAT parquet, COMPRESSION zstd)"
            ).fetchall()
            rows[table] = int(done[0][0])
        for path in (*files, folder):
            _sync(path)
        return Part(name, level, sum(path.stat().st_size for path in files), rows)

    def _merge_parts(self) -> None:
        """Eight parts of a size become one, so that there are never many."""
        while True:
            parts = self.manifest.parts
            last = parts[-FAN:]
            if len(last) < FAN or len({part.level for part in last}) > 1:
                return
            if sum(part.bytes for part in last) > LARGEST_MERGED:
                return
            name = f"{last[0].name.partition('-')[0]}-{last[-1].name.partition('-')[2]}"
            tables = sorted({table for part in last for table in part.rows})
            merged = self._write_part(
                name,
                last[0].level + 1,
                _records(map(self._folder_of, last)),
                {table: f"FROM {self._rows_of(table, last)}" for table in tables},
            )
            self._settle(replace(self.manifest, parts=(*parts[:-FAN], merged)))
            self._doomed += [self.folder / part.name for part in last]

    # ---- reading ----

    def _place(self, name: str) -> Path:
        path = self._out / name
        return path if path.exists() else self.folder / name

    def _folder_of(self, part: Part) -> Path:
        return self._place(part.name)

    def _rows_of(self, table: str, parts: Sequence[Part]) -> str:
        files = (self._place(part.name) / f"{table}.parquet" for part in parts if table in part.rows)
        return f"read_parquet([{', '.join(sql_text(str(file)) for file in files)}], union_by_name = true)"

    def gathered(self) -> tuple[Host, set[str]]:
        """All pieces as if read at once: their sums and records, and views of their rows under the names of raw tables."""
        parts = self.manifest.parts
        for part in parts:
            check_files(self._folder_of(part))
        tables = {table for part in parts for table in part.rows}
        for table in tables:
            self._con.execute(f"CREATE OR REPLACE VIEW {table} AS FROM {self._rows_of(table, parts)}")
        return self.sums.host(self.host, _records(map(self._folder_of, parts))), tables


def _records(parts: Iterable[Path]) -> dict[str, list[dict[str, Any]]]:
    out: dict[str, list[dict[str, Any]]] = {}
    for part in parts:
        file = part / "records.json"
        try:
            for record, rows in checked.read(file).items():
                out.setdefault(record, []).extend(checked.items(dict[str, Any], rows, record))
        except checked.Damaged as error:
            raise StreamError(f"{file} is damaged: {error}") from error
    return out


def _text(value: Any) -> str:
    """Strings of a trace that are no valid text."""
    if not isinstance(value, bytes):
        raise TypeError(f"{value!r} in a record")
    return value.decode("utf-8", "surrogateescape")


def _sync(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _share(lock: IO[str]) -> None:
    """Whoever deletes is done in a moment; one who was stopped in it is not waited for."""
    end = time.monotonic() + DELETING_S
    while time.monotonic() < end:
        try:
            return files.lock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            time.sleep(0.005)


class Held:
    """The tables so far of a run that goes on, as they are now: while this is held nothing that they need is deleted, nor any
    piece that is not in them."""

    def __init__(self, run: Path) -> None:
        self._run = run
        self._stack = ExitStack()
        self.manifests: dict[str, Manifest] = {}
        for host in hosts(run):
            folder = run / STREAM_FOLDER / host
            with suppress(OSError):  # not there: nothing has been deleted yet
                _share(self._stack.enter_context((folder / "lock").open("r")))
            self.manifests[host] = Manifest.read(folder)

    def is_consumed(self, host: str, file: Path) -> bool:
        """Whether a file of a host's trace is of a piece that is in the tables."""
        names = (CHUNK_NAME.fullmatch(part.name) for part in file.parents if part.parent.name == "archives")
        return host in self.manifests and any(n and int(n[1]) <= self.manifests[host].consumed for n in names)

    def records(self, host: str) -> dict[str, list[dict[str, Any]]]:
        """What the processes of a host have told of themselves in pieces that are in the tables."""
        parts = self.manifests[host].parts if host in self.manifests else ()
        return _records(self._run / STREAM_FOLDER / host / part.name for part in parts)

    def close(self) -> None:
        """Let go."""
        self._stack.close()


@contextmanager
def writing(folder: Path) -> Iterator[None]:
    """One writer of a host's tables at a time; who comes later waits until the other has ended."""
    with (folder / "writer").open("w") as lock:
        files.lock(lock, fcntl.LOCK_EX)
        yield


def hosts(run: Path) -> list[str]:
    """Of which there are tables so far."""
    return sorted(path.name for path in (run / STREAM_FOLDER).glob("*") if path.is_dir())


def finish(
    run: Path, host: str, con: duckdb.DuckDBPyConnection, model: Model, open_piece: OpenPiece, apart: Path | None
) -> Stream:
    """The tables of a host whose recording has ended, with what nobody came to put into them. `apart`: a folder for new
    parts, where the run is to stay as it is."""
    if (run / "trace" / host).is_symlink():
        raise StreamError(f"{run}/trace/{host} is a link, and pieces of a stream lie in the run: put the trace there")
    if apart:
        stream = Stream(run, host, con, model)
        stream.keep_apart(apart)
        _consume_all(stream, run / "trace" / host, open_piece)
        return stream
    with writing(run / STREAM_FOLDER / host):
        stream = Stream(run, host, con, model)
        _consume_all(stream, run / "trace" / host, open_piece)
    return stream


def _consume_all(stream: Stream, trace: Path, open_piece: OpenPiece) -> None:
    stream.last = True
    for piece in pieces(trace):
        stream.consume(piece, open_piece)


def discard(run: Path) -> None:
    """The tables of the run are made: what was kept for them goes."""
    for host in hosts(run):
        trace = run / "trace" / host
        if not pieces(trace):
            shutil.rmtree(trace, ignore_errors=True)
    shutil.rmtree(run / STREAM_FOLDER, ignore_errors=True)


def kept_since(run: Path) -> str | None:
    """From when on there is the trace, where its first pieces are deleted: the time of day by the names of pieces."""
    since = []
    for trace in (run / "trace").glob("*"):
        first = next(iter(pieces(trace)), None)
        if first is None:
            return "its end"
        if first.number and CHUNK_NAME.fullmatch(first.path.name):  # LTTng is moving it else
            since.append(datetime.strptime(first.path.name[:20], "%Y%m%dT%H%M%S%z").astimezone())
    return max(since).strftime("%H:%M:%S") if since else None
