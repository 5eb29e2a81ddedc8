"""Chrome's trace event format (JSON, also compressed by gzip), and what PyTorch's profiler (Kineto) writes in it."""

from __future__ import annotations

import gzip
import io
import json
import re
import zlib
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np

from occatrace.core.checked import printable
from occatrace.errors import RunError
from occatrace.foreign import staging as of
from occatrace.foreign.sqlite import LATEST
from occatrace.foreign.staging import Device, Process, Source, Staging

NAME = "chrome"
GZIP = b"\x1f\x8b"
_CHUNK = 1 << 20  # characters
_LONGEST = 64 << 20  # characters of one value
_LARGEST = 1 << 36  # characters of a file, uncompressed
_ROWS = 1 << 15
_SPACE = re.compile(r"[ \t\r\n]*")
_PLACE = re.compile(r"(.*)\((\d{1,9})\): (.*)", re.DOTALL)
_COPY = re.compile(r"Memcpy ([A-Za-z]+)(?: \((\w+) -> (\w+)\))?")

_RUNTIMES = ("cuda_runtime", "cuda_driver", "hip_runtime", "Runtime")
_WORK = {
    "kernel": "kernel",
    "Kernel": "kernel",
    "gpu_memcpy": "copy",
    "Memcpy": "copy",
    "gpu_memset": "fill",
    "Memset": "fill",
}
_PYTHON = ("python_function", "Python Function")
_SYNCS = {
    **{"Event Synchronize": "event", "Event Sync": "event", "Stream Wait Event": "stream for event"},
    **{
        "Stream Synchronize": "stream",
        "Stream Sync": "stream",
        "Context Synchronize": "context",
        "Context Sync": "context",
    },
}
_DIRECTIONS = {"HtoD": of.HTOD, "DtoH": of.DTOH, "DtoD": of.DTOD, "HtoH": of.HTOH, "PtoP": of.DTOD}
# The profiler's own spans, what follows from others, and arrows that the correlation ids give too.
_DERIVED = ("Trace", "gpu_user_annotation", "ac2g", "fwdbwd", "async_cpu_to_gpu", "async_gpu", "overhead", "Overhead")
_KINETO = (
    "cpu_op",
    "Operator",
    "user_annotation",
    "cuda_runtime",
    "hip_runtime",
    "gpu_memcpy",
    "kernel",
    "python_function",
)
_IGNORED_PHASES = "stfNODPvVRcp(),"

# Columns of the staging tables that are filled here.
_COLUMNS = {
    "calls": "p t s e source fn corr",
    "work": "p kind name dev ctx stream corr s e bytes gx gy gz lx ly lz src dst",
    "ranges": "p t s e kind dom named",
    "waits": "p corr kind dev ctx stream s e",
    "memory": "p dev addr bytes kind freed s",
    "python": "p t s e name source line",
    "counts": "p dev name unit s value",
}
_TEXT = {"waits": ("kind",), "memory": ("kind",), "python": ("name", "source"), "counts": ("name", "unit")}


def may_be(head: bytes) -> bool:
    """Whether a file with this beginning may be JSON, or is compressed."""
    return head.startswith(GZIP) or head.lstrip(b"\xef\xbb\xbf \t\r\n")[:1] in (b"{", b"[")


def read(file: Path, into: Staging) -> None:
    """Fill the staging tables. Raises a RunError for what means nothing."""
    events = _Events(into)
    try:
        with ExitStack() as stack:
            raw: Any = stack.enter_context(file.open("rb"))
            compressed = raw.read(2) == GZIP
            raw.seek(0)
            raw = stack.enter_context(gzip.open(raw)) if compressed else raw
            text = stack.enter_context(io.TextIOWrapper(raw, encoding="utf-8-sig", errors="backslashreplace"))
            heads = _read(_Source(text), events.add)
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise RunError(f"the compressed file is damaged or cut off ({error})") from None
    except RecursionError:
        raise RunError(f"event {events.number:,} is nested too deeply") from None
    events.finish(heads)


class _Source:
    """JSON text, of which a part is in memory."""

    def __init__(self, file: io.TextIOWrapper) -> None:
        self._file = file
        self._buffer = ""
        self._at = 0
        self._ended = False
        self._total = 0
        self._decoder = json.JSONDecoder(parse_float=Decimal, parse_constant=_no_number)

    def _more(self) -> bool:
        chunk = self._file.read(max(_CHUNK, len(self._buffer) - self._at))
        self._total += len(chunk)
        if len(self._buffer) - self._at > _LONGEST or self._total > _LARGEST:
            raise RunError("a value in it is too long, or the whole file is")
        self._buffer = self._buffer[self._at :] + chunk
        self._at = 0
        self._ended = not chunk
        return bool(chunk)

    def peek(self) -> str:
        """The next character that is no space; empty at the end."""
        while True:
            self._at = _SPACE.match(self._buffer, self._at).end()  # type: ignore[union-attr]
            if self._at < len(self._buffer):
                return self._buffer[self._at]
            if self._ended or not self._more():
                return ""

    def skip(self, character: str) -> bool:
        """Whether it is the next one, which is left behind then."""
        if self.peek() != character:
            return False
        self._at += 1
        return True

    def value(self) -> Any:
        """The next value. Raises a ValueError."""
        self.peek()
        while True:
            try:
                value, end = self._decoder.raw_decode(self._buffer, self._at)
            except ValueError:
                if self._ended or not self._more():
                    raise
                continue
            if end == len(self._buffer) and not self._ended and self._more():
                continue  # a number may go on
            # Half of a pair of UTF-16, which only an escape can write, is no text: it becomes the escape that it was.
            halves = self._buffer.find("\\ud", self._at, end) >= 0 or self._buffer.find("\\uD", self._at, end) >= 0
            self._at = end
            return _mended(value) if halves else value


def _mended(value: Any) -> Any:
    """A value of JSON in which all text can be encoded."""
    if isinstance(value, str):
        return value.encode("utf-8", "backslashreplace").decode()
    if isinstance(value, list):
        return [_mended(each) for each in value]
    if isinstance(value, dict):
        return {_mended(key): _mended(each) for key, each in value.items()}
    return value


def _no_number(name: str) -> Any:
    raise ValueError(name)


def _read(source: _Source, add: Callable[[Any], None]) -> dict[str, Any]:
    """All events; returns what else the file says. The list alone may lack its end, as the format allows."""
    if source.skip("["):
        _list(source, add, open_end=True)
        return {}
    if not source.skip("{"):
        raise RunError("it is no JSON of trace events")
    heads: dict[str, Any] = {}
    found = False
    while not source.skip("}"):
        try:
            key = source.value()
            if not isinstance(key, str) or not source.skip(":"):
                raise ValueError
            if key == "traceEvents" and source.skip("["):
                found = True
                _list(source, add, open_end=False)
            elif len(heads) < 1000:
                heads[key] = source.value()
        except ValueError:
            raise RunError(f"it is damaged or cut off{'' if found else ': it has no traceEvents'}") from None
        if not source.skip(",") and source.peek() != "}":
            raise RunError("it is damaged or cut off")
    if not found:
        raise RunError("it has no traceEvents")
    return heads


def _list(source: _Source, add: Callable[[Any], None], open_end: bool) -> None:
    number = 0
    while not source.skip("]"):
        if not source.peek():
            if open_end:
                return
            raise RunError(f"it is cut off after {number:,} events")
        try:
            event = source.value()
        except ValueError:
            raise RunError(f"it is damaged or cut off in event {number + 1:,}") from None
        add(event)
        number += 1
        if not source.skip(",") and source.peek() not in ("]", ""):
            raise RunError(f"it is damaged after event {number:,}")


class _Events:
    """Rows of the staging tables on their way, and what events refer to."""

    def __init__(self, into: Staging) -> None:
        self._into = into
        self._rows: dict[str, list[tuple[Any, ...]]] = {name: [] for name in _COLUMNS}
        self._texts: dict[str, int] = {}
        self._new: list[tuple[int, str]] = []
        self._processes: dict[Any, int] = {}
        self._threads: dict[tuple[int, Any], int] = {}
        self._open: dict[tuple[int, int], list[tuple[int, str, str]]] = {}  # B without E, by process and thread
        self._async: dict[tuple[int, str, str], list[tuple[int, int, str, str]]] = {}
        self._domains: set[tuple[int, int]] = set()
        self._left: dict[str, int] = {}
        self._kineto = False
        self._last = 0
        self.number = 0
        into.sources.append(Source("runtime", (("cuda", "cudart"), ("cu", "cuda"), ("hip", "hip"))))

    # ---- what an event says ----

    def _wrong(self, event: dict[str, Any], key: str, what: str) -> RunError:
        value = printable(str(event.get(key)))[:40]
        name = printable(str(event.get("name", "")))[:40]
        return RunError(f"event {self.number:,} ({name}): {key} is {value}, {what}")

    def _ns(self, event: dict[str, Any], key: str, least: int = -LATEST) -> int:
        """A time in µs as ns."""
        value = event.get(key)
        if isinstance(value, str) and re.fullmatch(r"-?\d{1,18}([.]\d{1,9})?", value, re.ASCII):
            value = Decimal(value)  # some writers quote them
        if isinstance(value, bool) or not isinstance(value, (int, Decimal)):
            raise self._wrong(event, key, "not a number")
        if not -(10**18) < value < 10**18 or not least <= (ns := round(value * 1000)) <= LATEST:
            raise self._wrong(event, key, "which cannot be")
        return ns

    def _args(self, event: dict[str, Any]) -> dict[str, Any]:
        args = event.get("args")
        return args if isinstance(args, dict) else {}

    def _process(self, pid: Any) -> int:
        key = pid if isinstance(pid, (int, str)) and not isinstance(pid, bool) else 0
        p = self._processes.get(key)
        if p is None:
            if isinstance(key, str) and key.isascii() and key.isdigit() and len(key) < 10:
                p = self._process(int(key))
            else:
                p = len(self._processes) + 1
                number = key & of.LARGEST if isinstance(key, int) else 0
                self._into.processes[p] = Process(number, key if isinstance(key, str) else "")
            self._processes[key] = p
        return p

    def _thread(self, p: int, tid: Any) -> int:
        key = (p, tid if isinstance(tid, (int, str)) and not isinstance(tid, bool) else 0)
        t = self._threads.get(key)
        if t is None:
            t = self._threads[key] = len(self._threads) + 1
            self._into.threads[t] = (key[1] & of.LARGEST, "") if isinstance(key[1], int) else (0, key[1])
        return t

    def _text(self, text: Any) -> int:
        name = text if isinstance(text, str) else ""
        found = self._texts.get(name)
        if found is None:
            found = self._texts[name] = len(self._texts)
            self._new.append((found, name.replace("\0", "")))
        return found

    def _put(self, table: str, *row: Any) -> None:
        rows = self._rows[table]
        rows.append(row)
        if len(rows) >= _ROWS:
            self._flush(table)

    def _flush(self, table: str) -> None:
        rows = self._rows[table]
        if not rows:
            return
        arrays, select = {}, []
        for name, values in zip(_COLUMNS[table].split(), zip(*rows, strict=True), strict=True):
            select.append(name)
            if name in _TEXT.get(table, ()):
                arrays[name] = np.array(values, object)
            elif name == "value":
                arrays[name] = np.array(values, np.float64)
            else:
                arrays[name] = np.array([of.NULL if v is None else v for v in values], np.int64)
                select[-1] = f"nullif({name}, {of.NULL + 1} - 1)::BIGINT AS {name}"
        self._into.add(table, ", ".join(select), arrays)
        rows.clear()

    def _api(self) -> str:
        return "pytorch" if self._kineto else "chrome"

    # ---- events ----

    def add(self, event: Any) -> None:
        """One event."""
        self.number += 1
        if not isinstance(event, dict):
            raise RunError(f"event {self.number:,} is no object")
        phase, category = event.get("ph"), event.get("cat", "")
        if not isinstance(phase, str) or not phase:
            raise self._wrong(event, "ph", "not a phase")
        if not isinstance(category, str):
            raise self._wrong(event, "cat", "not a text")
        if category in _DERIVED or phase in _IGNORED_PHASES:
            return
        if category in _KINETO:
            self._kineto = True
        if phase == "X":
            self._span(event, category)
        elif phase == "M":
            self._name(event)
        elif phase in "BE":
            self._nested(event, category, phase)
        elif phase in "be":
            self._overlapping(event, category, phase)
        elif phase in "iIn":
            self._instant(event, category)
        elif phase == "C":
            self._counter(event)
        else:
            key = f"events of phase {printable(phase)[:10]}"
            if key in self._left or len(self._left) < 20:
                self._left[key] = self._left.get(key, 0) + 1

    def _span(self, event: dict[str, Any], category: str) -> None:
        begin = self._ns(event, "ts")
        end = begin + (self._ns(event, "dur", 0) if event.get("dur") is not None else 0)
        self._last = max(self._last, end)
        if category in _WORK:
            self._work(event, _WORK[category], begin, end)
            return
        if category == "cuda_sync":
            self._wait(event, begin, end)
            return
        p = self._process(event.get("pid"))
        t = self._thread(p, event.get("tid"))
        if category in _RUNTIMES:
            self._put(
                "calls", p, t, begin, end, 0, self._text(event.get("name")), self._int(self._args(event), "correlation")
            )
        elif category in _PYTHON:
            name = str(event.get("name", "")).replace("\0", "")
            place = _PLACE.fullmatch(name)
            self._put("python", p, t, begin, end, *((place[3], place[1], int(place[2])) if place else (name, "", 0)))
        else:
            self._range(p, t, begin, end, of.PUSH, category, event.get("name"))

    def _range(self, p: int, t: int, begin: int, end: int | None, kind: int, category: str, name: Any) -> None:
        domain = self._text(category)
        self._domains.add((p, domain))
        self._put("ranges", p, t, begin, end, kind, domain, self._text(name))

    def _int(self, args: dict[str, Any], key: str, least: int = -(1 << 62)) -> int | None:
        value = args.get(key)
        if value is None or isinstance(value, bool):
            return None
        if not isinstance(value, int) or not least <= value < 1 << 62:
            raise RunError(f"event {self.number:,}: {key} is {printable(str(value))[:40]}, which cannot be")
        return value

    def _work(self, event: dict[str, Any], what: str, begin: int, end: int) -> None:
        args = self._args(event)
        name = event.get("name")
        kind, source, target = of.KERNEL if what == "kernel" else of.FILL, 0, 0
        if what == "copy":
            found = _COPY.match(name) if isinstance(name, str) else None
            kind = _DIRECTIONS.get(found[1], of.OTHER) if found else of.OTHER
            if found and found[2]:
                source, target = (
                    of.SIDES.index(s) if s in of.SIDES else 0 for s in (found[2].lower(), found[3].lower())
                )
            if found and found[1] == "PtoP":
                source = target = of.SIDES.index("peer")
        device = self._int(args, "device")
        if device is None and isinstance(event.get("pid"), int):
            device = self._int(event, "pid")
        stream = self._int(args, "stream")
        grid, block = (self._sizes(args.get(key)) for key in ("grid", "block"))
        threads = [min(g * b, of.LARGEST) for g, b in zip(grid, block, strict=True)]
        bytes_ = self._int(args, "bytes", 0)
        ids = (device or 0, self._int(args, "context"), stream, self._int(args, "correlation"))
        self._put("work", None, kind, self._text(name), *ids, begin, end, bytes_, *threads, *block, source, target)

    def _sizes(self, value: Any) -> list[int]:
        if not isinstance(value, list) or len(value) != 3:
            return [0, 0, 0]
        return [v if isinstance(v, int) and 0 <= v < 1 << 32 else 0 for v in value]

    def _wait(self, event: dict[str, Any], begin: int, end: int) -> None:
        args = self._args(event)
        kind = _SYNCS.get(event.get("name", ""))
        if kind is None:
            self._left["waits of an unknown kind"] = self._left.get("waits of an unknown kind", 0) + 1
            return
        stream = self._int(args, "stream") if kind.startswith("stream") else None
        ids = (self._int(args, "device"), self._int(args, "context"), None if stream is None or stream < 0 else stream)
        self._put("waits", None, self._int(args, "correlation"), kind, *ids, begin, end)

    def _nested(self, event: dict[str, Any], category: str, phase: str) -> None:
        moment = self._ns(event, "ts")
        self._last = max(self._last, moment)
        p = self._process(event.get("pid"))
        t = self._thread(p, event.get("tid"))
        stack = self._open.setdefault((p, t), [])
        if phase == "B":
            stack.append((moment, category, str(event.get("name", ""))))
        elif stack:
            begin, category, name = stack.pop()
            self._range(p, t, min(begin, moment), moment, of.PUSH, category, name)
        else:
            self._left["ends of ranges without their begins"] = (
                self._left.get("ends of ranges without their begins", 0) + 1
            )

    def _overlapping(self, event: dict[str, Any], category: str, phase: str) -> None:
        moment = self._ns(event, "ts")
        self._last = max(self._last, moment)
        p = self._process(event.get("pid"))
        t = self._thread(p, event.get("tid"))
        same = self._async.setdefault((p, category, str(event.get("id", event.get("id2", "")))[:200]), [])
        if phase == "b":
            same.append((moment, t, category, str(event.get("name", ""))))
        elif same:
            begin, thread, category, name = same.pop()
            self._range(p, thread, min(begin, moment), moment, of.START, category, name)

    def _instant(self, event: dict[str, Any], category: str) -> None:
        moment = self._ns(event, "ts")
        self._last = max(self._last, moment)
        p = self._process(event.get("pid"))
        args = self._args(event)
        if event.get("name") == "[memory]" and "Bytes" in args:
            size, address = self._int(args, "Bytes"), self._int(args, "Addr", 0)
            on_host = args.get("Device Type") == 0
            if size is not None and address is not None:
                place = None if on_host else self._int(args, "Device Id", 0)
                self._put("memory", p, place, address, abs(size), "host" if on_host else "device", size < 0, moment)
            return
        self._range(p, self._thread(p, event.get("tid")), moment, moment, of.MARK, category, event.get("name"))

    def _counter(self, event: dict[str, Any]) -> None:
        moment = self._ns(event, "ts")
        self._last = max(self._last, moment)
        p = self._process(event.get("pid"))
        values = {
            k: v for k, v in self._args(event).items() if isinstance(v, (int, Decimal)) and not isinstance(v, bool)
        }
        name = str(event.get("name", "")).replace("\0", "")
        for key, value in values.items():
            if not -(10**30) < value < 10**30:
                raise RunError(f"event {self.number:,}: {printable(key)[:40]} is too large a number")
            self._put("counts", p, None, name if len(values) == 1 else f"{name} {key}", "", moment, float(value))

    def _name(self, event: dict[str, Any]) -> None:
        text = self._args(event).get("name")
        if event.get("name") == "process_name" and isinstance(text, str):
            process = self._into.processes[self._process(event.get("pid"))]
            process.exe = process.cmdline = text.replace("\0", "")[:1000]
        elif event.get("name") == "thread_name" and isinstance(text, str):
            t = self._thread(self._process(event.get("pid")), event.get("tid"))
            self._into.threads[t] = (self._into.threads[t][0], text.replace("\0", "")[:200])

    # ---- the end ----

    def finish(self, heads: dict[str, Any]) -> None:
        """What is still open, the names, and what the file says of itself."""
        into, con = self._into, self._into.con
        for (p, t), stack in self._open.items():
            for begin, category, name in stack:
                self._range(p, t, begin, None, of.PUSH, category, name)
        for (p, _, _), same in self._async.items():
            for begin, t, category, name in same:
                self._range(p, t, begin, None, of.START, category, name)
        for table in _COLUMNS:
            self._flush(table)
        into.fill("texts", "id text", self._new)
        con.execute("UPDATE s_ranges SET api = ?", [self._api()])
        names = {number: text for text, number in self._texts.items()}
        into.fill("domains", "p dom name", [(p, dom, names[dom]) for p, dom in self._domains])
        # Work names no process: it is that of its call, else the one that made most calls.
        first = con.execute(
            "SELECT p FROM (SELECT p FROM s_calls UNION ALL SELECT p FROM s_ranges) GROUP BY p ORDER BY count(*) DESC, p LIMIT 1"
        ).fetchall()
        whose = first[0][0] if first else self._process(0)
        for table in ("work", "waits"):
            calls = "SELECT corr, min(p) AS p FROM s_calls GROUP BY corr"
            con.execute(f"UPDATE s_{table} SET p = c.p FROM ({calls}) c WHERE c.corr = s_{table}.corr")
            con.execute(f"UPDATE s_{table} SET p = {whose} WHERE p IS NULL")
        self._tell(heads, whose)
        into.memory_api = self._api()
        into.product = "PyTorch profiler (Kineto)" if self._kineto else "Chrome trace events"
        if self._left:
            into.notes.append(f"not imported: {', '.join(f'{count:,} {what}' for what, count in self._left.items())}")

    def _tell(self, heads: dict[str, Any], whose: int) -> None:
        into = self._into
        amd = any(name.startswith("hip") for name in self._texts)
        api, platform, vendor = ("hip", "AMD ROCm", "") if amd else ("cuda", "NVIDIA CUDA", "NVIDIA Corporation")
        into.devices[None, -1] = Device("device", api, platform, vendor)
        for device in _objects(heads.get("deviceProperties")):
            if isinstance(device.get("id"), int) and isinstance(device.get("name"), str):
                into.devices[None, device["id"]] = Device(device["name"][:200], api, platform, vendor)
        base = heads.get("baseTimeNanoseconds")
        if isinstance(base, int) and 0 < base < LATEST:
            into.realtime_ns = base
        host = heads.get("host_name")
        if isinstance(host, str) and host:
            into.host = printable(host)[:200]
        info = heads.get("distributedInfo")
        process = into.processes.get(whose)
        if isinstance(info, dict) and process:
            rank, size = info.get("rank"), info.get("world_size")
            if isinstance(rank, int) and 0 <= rank < 1 << 31:
                process.rank = rank
                process.size = size if isinstance(size, int) and 0 < size < 1 << 31 else None
        if process and process.exe:
            into.program = (process.exe,)


def _objects(value: Any) -> Iterator[dict[str, Any]]:
    if isinstance(value, list):
        yield from (entry for entry in value if isinstance(entry, dict))
