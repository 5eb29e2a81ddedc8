"""What can be read of a run that goes on: the packets that LTTng has written, and those that still lie in its buffers, up
to a moment just gone. Nothing here writes into the run, stops anything, or is waited for by the program.

The buffers are files that `lttng-crash` reads when all is over; their head says where everything is. They are read while
the program writes, so whatever may have changed meanwhile is not taken: LTTng is about to write it, or it is read next
time. Buffers of other nodes are out of reach: of these there is what LTTng has written.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import struct
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from occatrace.core import files
from occatrace.lttng.chunks import pieces
from occatrace.lttng.packets import EVENTS, EVENTS_MAGIC
from occatrace.run import control
from occatrace.run.folder import RunInfo, moment

if TYPE_CHECKING:
    from occatrace.ingest import Reader
    from occatrace.ingest.reading import Batch, Columns

# What an event may take from its time to its last byte: whoever writes it may be kept waiting by the machine in between.
MARGIN_NS = 100_000_000
# A packet is on its way to its file, or an event that was begun is not complete: another look a little later.
_PAUSES_S = (0.002, 0.004, 0.008, 0.016, 0.03, 0.06, *[0.1] * 10)

_File = tuple[int, int, bytes]
Spans = Mapping[str, tuple[int, int]]


class Consumed(Protocol):
    """The tables so far of a run with `--stream`."""

    def is_consumed(self, host: str, file: Path) -> bool:
        """Whether a file of a host's trace is in the tables."""
        ...


OpenSpans = Callable[[Path, "Sequence[str] | None", Spans], "Reader"]

# The head of a buffer's file: magic, length, byte order, version, word size, kind; where things are, how long, how far
# apart; size of the buffer, of a part of it, number of parts, mode.
_HEAD = struct.Struct("<16sQHHHBB11I8B3I3QI")
_HEAD_MAGIC = bytes((0x17, 0x7B, 0xF1, 0x77, 0xBF) * 4)[:16]
_ORDER, _WORD = 0x1234, 8
_FRAGMENT = b"\x1e"  # before each fragment of the metadata of CTF 2


@dataclass(frozen=True)
class Packet:
    """A packet that lies in a buffer, closed as if it ended with the last event that is complete."""

    number: int
    data: bytes


@dataclass(frozen=True)
class Written:
    """What of a stream's file is of interest: whole packets, from a byte to another, and the numbers that were looked at."""

    begin: int
    end: int
    numbers: tuple[int, int] | None


class Buffer:
    """A buffer of LTTng's, as it is in its file. Places in it count on and on, whatever part of the file they are in."""

    def __init__(self, file: Path) -> None:
        """Raises an OSError or a struct.error where the file is no buffer (any more)."""
        self._fd = os.open(file, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        try:
            head = os.pread(self._fd, _HEAD.size, 0)
            magic, _, order, major, minor, word, _, *self._rest = _HEAD.unpack(head)
            if (magic, order, major, minor, word) != (_HEAD_MAGIC, _ORDER, 0, 0, _WORD):
                raise struct.error(f"{file} is no buffer")
        except BaseException:
            self.close()
            raise
        self.complete = 0  # up to where all events were complete when the packets were read

    def close(self) -> None:
        """Let go of the file."""
        os.close(self._fd)

    def _number(self, at: int) -> int:
        value: int = struct.unpack("<Q", os.pread(self._fd, 8, at))[0]
        return value

    @property
    def produced(self) -> int:
        """Up to where events have been begun."""
        return self._number(self._rest[0])

    def packets(self) -> Iterator[Packet]:
        """What LTTng has not written yet."""
        produced_at, consumed_at, hot, hot_seq, ids, id_at, parts, part_page, page_data, content_at, size_at = (
            self._rest[:11]
        )
        hot_stride, ids_stride, parts_stride, size, part, count, _mode = self._rest[19:]
        # Up to where commits are counted in a round; above it stand bits that tell the rounds of parts apart.
        mask = (1 << 64) // count - 1
        produced = self._number(produced_at)
        place = self.complete = self._number(consumed_at) & ~(part - 1)
        while place < produced:
            index = place % size // part
            committed = self._number(hot + hot_stride * index + hot_seq)
            whole = ((committed - part) & mask) == (place & ~(size - 1)) // count
            length = part if whole else committed & (part - 1)
            if self.complete == place:
                self.complete += length
            page = self._number(parts + parts_stride * self._number(ids + ids_stride * index + id_at) + part_page)
            data = bytearray(os.pread(self._fd, length, self._number(page + page_data)))
            if length < EVENTS.size or len(data) < length:
                return
            # What LTTng is taking out just now has another packet's data in its place; what it has taken may be written over.
            taken = self._number(consumed_at) > place
            if (
                not taken
                and EVENTS.unpack_from(data)[-1] == place // part
                and data[:4] == EVENTS_MAGIC.to_bytes(4, "little")
            ):
                if not whole:
                    for at in (content_at, size_at):
                        struct.pack_into("<Q", data, at, 8 * length)
                else:
                    del data[struct.unpack_from("<Q", data, size_at)[0] // 8 :]
                yield Packet(place // part, bytes(data))
            place += part


def written(fd: int, begin: int, since: int) -> Written:
    """The whole packets of a stream's file from a byte on, without those that ended before `since`."""
    size = os.fstat(fd).st_size
    at, first = begin, None
    numbers: tuple[int, int] | None = None
    while at + EVENTS.size <= size:
        magic, *_, ended, _, bits, number = EVENTS.unpack(os.pread(fd, EVENTS.size, at))
        if magic != EVENTS_MAGIC or not bits or at + bits // 8 > size:
            break
        if first is None and ended >= since:
            first = at
        numbers = (numbers[0] if numbers else number), number
        at += bits // 8
    return Written(at if first is None else first, at, numbers)


@dataclass
class Look:
    """What was there at a moment, in a folder of links that a reader can be opened on. Close it."""

    host: str
    folder: Path
    until: int  # CLOCK_MONOTONIC: all events up to here, none after it
    complete: bool  # else there is what LTTng has written, as the buffers are elsewhere
    spans: dict[str, tuple[int, int]] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)
    fds: list[int] = field(default_factory=list)

    @property
    def bytes(self) -> int:
        """How much there is to read."""
        return sum(end - begin for begin, end in self.spans.values())

    def open(self, open_spans: OpenSpans, events: Sequence[str] | None = None, since: int = -1) -> Reader:
        """The events after `since` up to the moment."""
        return Between(open_spans(self.folder, events, self.spans), since, self.until, self.problems)

    def close(self) -> None:
        """Let go of the files."""
        for fd in self.fds:
            os.close(fd)
        self.fds.clear()


@dataclass
class Between:
    """A reader of the events of a time alone."""

    reader: Reader
    since: int
    until: int
    more: Sequence[str] = ()

    @property
    def strings(self) -> Sequence[bytes | str]:
        """As the reader has them."""
        return self.reader.strings

    @property
    def schema(self) -> Mapping[str, Mapping[str, str]]:
        """As the reader has it."""
        return self.reader.schema

    @property
    def problems(self) -> Sequence[str]:
        """Those of the reader, and why something may be missing."""
        return [*self.reader.problems, *self.more]

    def __iter__(self) -> Iterator[Batch]:
        for batch in self.reader:
            times = batch.columns["ts"]
            wanted = (times <= self.until) & (times.astype(np.int64) > self.since)
            if wanted.all():
                yield batch
            elif wanted.any():
                yield _Part(batch.event, _rows(batch.columns, wanted))


@dataclass(frozen=True)
class _Part:
    event: str
    columns: Columns

    def __len__(self) -> int:
        return len(self.columns["ts"])


def _rows(columns: Columns, wanted: np.ndarray[Any, np.dtype[np.bool_]]) -> Columns:
    """Some rows of a batch. A list is two columns: where each row's begins, and the values of all."""
    out = {}
    for name, column in columns.items():
        values = f"{name}.values"
        if values in columns:
            ends = column.astype(np.int64)
            lengths = ends[1:] - ends[:-1]
            out[name] = np.concatenate([[0], np.cumsum(lengths[wanted])]).astype(column.dtype)
            out[values] = columns[values][: int(column[-1])][np.repeat(wanted, lengths)]
        elif name not in out:
            out[name] = column[wanted]
    return out


class HostWatch:
    """The trace of one host of a run that goes on, looked at again and again."""

    def __init__(self, run: Path, info: RunInfo, host: str, held: Consumed | None = None) -> None:
        """`held`: of a run with `--stream`; what is in its tables is not looked at."""
        self.host = host
        self._held = held
        self._trace = run / "trace" / host
        self._buffers = buffers_of(run, info, host)
        # Of each file that was there: where packets begin that are still of interest, and the number of the last one.
        self._known: dict[_File, tuple[int, int | None]] = {}
        self._seen: dict[_File, tuple[int, int | None]] = {}  # the same by this look
        self._numbers: dict[tuple[Path, str], list[tuple[int, int]]] = {}  # of packets, by stream: of this look
        self._followed: dict[tuple[Path, str], int] = {}  # up to which packet all have been seen
        self._stuck: dict[Path, int] = {}  # buffers in which an event was never completed, and where
        self.size = 0  # bytes of the trace so far, buffers included
        self.gaps = 0  # how often packets had gone before anybody looked: --stream has made tables of them

    @property
    def complete(self) -> bool:
        """Whether the buffers are within reach; else there is what LTTng has written."""
        return self._buffers is not None

    def look(self, scratch: Path, since: int = -1, whole: bool = False) -> Look:
        """What there is by now, without packets all of which is older than `since`; `whole`: recording has ended. Where the
        buffers are out of reach, packets are of one look each: LTTng writes that of an older time after that of a newer."""
        until = time.monotonic_ns() - MARGIN_NS if self.complete and not whole else (1 << 63) - 1
        marks = self._marks()
        for attempt, pause in enumerate((*_PAUSES_S, None)):
            look = Look(self.host, scratch / f"{self.host}-{until}-{attempt}", until, self.complete)
            self._numbers.clear()
            self._seen.clear()
            before = pieces(self._trace)
            try:
                # A rotation moves files while they are listed.
                if self._gather(look, since, marks, pause is None) and (pause is None or pieces(self._trace) == before):
                    break
            except FileNotFoundError:
                if pause is None:
                    raise
            look.close()
            shutil.rmtree(look.folder, ignore_errors=True)
            time.sleep(pause or 0)
        self._known = dict(self._seen)
        self._follow()
        return look

    def _marks(self) -> dict[Path, int]:
        """Up to where events have been begun in each buffer: all of them are to be complete."""
        out = {}
        for file in sorted(self._buffers.rglob("*")) if self._buffers else ():
            with contextlib.suppress(OSError, struct.error), contextlib.closing(Buffer(file)) as buffer:
                out[file] = buffer.produced
        return out

    def _gather(self, look: Look, since: int, marks: Mapping[Path, int], last: bool) -> bool:
        """Fill a look; False: an event is not complete, or a packet is on its way from a buffer to its file. That goes on
        where a process was killed in an event: `last` takes what there is."""
        # The buffers first: what is not there any more is in the files by then.
        metadata, buffered, complete = self._of_buffers()
        for file, mark in marks.items():
            if complete.get(file, mark) < mark and complete[file] != self._stuck.get(file):
                if not last:
                    return False
                self._stuck[file] = complete[file]
        self.size = 0
        known: dict[tuple[Path, str], int] = {}  # the last packet that is written, by place and stream
        for number, trace in enumerate(sorted(self._trace.rglob("metadata"))):
            if self._held and self._held.is_consumed(self.host, trace):
                continue
            tail = _tail(trace.parent)
            folder = look.folder / f"{number}"
            text = metadata.get(tail) or _content(trace)
            if not text:
                continue
            folder.mkdir(parents=True)
            (folder / "metadata").write_bytes(text)
            for stream in sorted(trace.parent.iterdir()):
                if stream.name != "metadata" and stream.is_file():
                    found = self._file(look, folder, stream, since)
                    if found is not None:
                        known[tail, stream.name] = max(found, known.get((tail, stream.name), -1))
        for number, (tail, streams) in enumerate(buffered.items()):
            folder = look.folder / f"buffers{number}"
            folder.mkdir(parents=True)
            (folder / "metadata").write_bytes(metadata[tail])
            for name, packets in streams.items():
                wanted = [packet for packet in packets if packet.number > known.get((tail, name), -1)]
                # Files that are gone by now may have been the only ones of the stream.
                expected = known.get((tail, name), self._followed.get((tail, name)))
                if wanted and expected is not None and wanted[0].number > expected + 1 and not last:
                    return False
                if any(b.number != a.number + 1 for a, b in zip(wanted, wanted[1:], strict=False)) and not last:
                    return False
                if wanted:
                    self._numbers.setdefault((tail, name), []).append((wanted[0].number, wanted[-1].number))
                content = b"".join(packet.data for packet in wanted)
                (folder / name).write_bytes(content)
                look.spans[str(folder / name)] = (0, len(content))
                self.size += len(content)
        return True

    def _follow(self) -> None:
        """Whether packets are missing between those of this look and of the ones before."""
        for stream, found in self._numbers.items():
            followed = self._followed.get(stream, -1)
            for first, last in sorted(found):
                self.gaps += first > followed + 1
                followed = max(followed, last)
            self._followed[stream] = followed

    def _of_buffers(self) -> tuple[dict[Path, bytes], dict[Path, dict[str, list[Packet]]], dict[Path, int]]:
        """Metadata, and packets of each stream, by trace; and up to where the events of each buffer are complete."""
        metadata: dict[Path, bytes] = {}
        streams: dict[Path, dict[str, list[Packet]]] = {}
        complete: dict[Path, int] = {}
        for file in sorted(self._buffers.rglob("metadata")) if self._buffers else ():
            tail = _tail(file.parent)
            streams[tail] = {}
            for path in sorted(file.parent.iterdir()):
                with contextlib.suppress(OSError, struct.error), contextlib.closing(Buffer(path)) as buffer:
                    streams[tail][path.name] = list(buffer.packets())
                    complete[path] = buffer.complete
            metadata[tail] = _declarations(_content(file))  # after the packets: it knows their events
        return metadata, {tail: found for tail, found in streams.items() if metadata[tail]}, complete

    def _file(self, look: Look, folder: Path, stream: Path, since: int) -> int | None:
        """Add what is written of a stream; the number of its last packet. Held open, so that it stays what it is when
        LTTng puts it elsewhere."""
        try:
            fd = os.open(stream, os.O_RDONLY | os.O_CLOEXEC)
        except OSError:
            return None
        look.fds.append(fd)
        status = os.fstat(fd)
        # Of two files with the same number, one after the other, the first packets differ.
        key = status.st_dev, status.st_ino, os.pread(fd, EVENTS.size, 0)
        begin, last = self._known.get(key, (0, None))
        found = written(fd, begin, since)
        if found.end > found.begin:
            link = folder / stream.name
            link.symlink_to(f"/proc/{os.getpid()}/fd/{fd}")
            look.spans[str(link)] = (found.begin, found.end)
        if found.numbers:
            last = found.numbers[1]
            self._numbers.setdefault((_tail(stream.parent), stream.name), []).append(found.numbers)
        self._seen[key] = found.begin if self.complete else found.end, last
        self.size += status.st_size
        return last


def buffers_of(run: Path, info: RunInfo, host: str) -> Path | None:
    """The folder of the buffers of a host, where it is this machine's: beside the switch of that host lie the sockets of
    its session, which is called as they are."""
    sockets = control.sockets_of(run, host)
    if sockets is None:
        return None
    folder = Path(info.session.get("shm", "/dev/shm"), sockets.name.rpartition("-")[0])
    # They are not there yet while no process is traced.
    if folder.exists() and not (files.is_private(folder, run.stat().st_uid) and os.access(folder, os.R_OK)):
        return None
    return folder / "buffers"


def hosts_of(run: Path) -> list[str]:
    """The hosts that have begun to record."""
    found = {path.name for path in (run / "trace").glob("*") if path.is_dir()}
    return sorted(found | {path.stem for path in (run / control.FOLDER).glob("*.json")})


def age(info: RunInfo, at: float | None = None) -> float:
    """The seconds from a run's begin to a moment of the wall clock, or to now."""
    begin = moment(info.started)
    return 0.0 if begin is None else max(0.0, (time.time() if at is None else at) - begin)


def _tail(trace: Path) -> Path:
    """Whose trace it is, of which user and word size, wherever a rotation put it: ust/uid/1000/64-bit."""
    return Path(*trace.parts[-4:])


def _declarations(text: bytes) -> bytes:
    """Metadata that is being written, up to the last declaration that is whole; nothing before streams are declared."""
    if text.startswith(_FRAGMENT):  # CTF 2: a fragment ends with the brace that is not indented
        whole = text[: text.rfind(b"\n}") + 2]
        return whole if b'"data-stream-class"' in whole else b""
    whole = text[: text.rfind(b"\n};\n") + 4]
    return whole if b"stream {" in whole else b""


def _content(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError:
        return b""
