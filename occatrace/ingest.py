"""First pass over a trace: batches of columns to statistics of the calls and to the small tables, in one read.

Bounded memory: calls are folded into statistics as they come; device work, kernel runs and copies go to DuckDB, which
spills. The single calls with their arguments are left to occatrace/calls.py, for those who ask for them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import duckdb
import numpy as np
import numpy.typing as npt

from occatrace import _native, histogram
from occatrace.model import Function, Model
from occatrace.schema import BY_NAME, NO_SEQ

Columns = Mapping[str, npt.NDArray[Any]]
U64 = npt.NDArray[np.uint64]
Index = npt.NDArray[np.int64]

_MAX_TID = 1 << 22  # Linux' limit of process ids; beyond it a trace is damaged


class Batch(Protocol):
    """Columns of one kind of event (`occatrace._native.Batch`)."""

    @property
    def event(self) -> str: ...
    @property
    def columns(self) -> Columns: ...


class Reader(Protocol):
    """A trace as batches (`occatrace._native.Reader`)."""

    @property
    def strings(self) -> Sequence[bytes | str]: ...
    @property
    def schema(self) -> Mapping[str, Mapping[str, str]]: ...
    @property
    def problems(self) -> Sequence[str]: ...

    def __iter__(self) -> Iterator[Batch]: ...


OpenReader = Callable[[Sequence[str] | None], Reader]
"""Opens one host's trace from its beginning, all events or the given ones."""


@dataclass(frozen=True)
class HostTrace:
    """The trace of one host."""

    host: str
    open: OpenReader


def text_of(value: bytes | str) -> str:
    """Valid text from a string of the trace, whatever its bytes are."""
    raw = value if isinstance(value, bytes) else value.encode("utf-8", "surrogateescape")
    return raw.decode("utf-8", "backslashreplace").replace("\0", "\\x00")


class ThreadMap:
    """Thread ids of one host to threads of the run. `reused`: when each thread of an id that occurs again began."""

    def __init__(self, first: int, reused: Mapping[int, Sequence[int]] | None = None) -> None:
        self._lut = np.full(1 << 15, -1, np.int32)
        self.first = first
        self.tids: list[int] = []
        self._reused: dict[int, tuple[U64, npt.NDArray[np.int32]]] = {}
        for tid, starts in (reused or {}).items():
            slots = np.arange(self.end, self.end + len(starts), dtype=np.int32)
            self.tids += [tid] * len(starts)
            self._reused[tid] = (np.sort(np.asarray(starts, np.uint64)), slots)
            self._grow(tid)
            self._lut[tid] = slots[-1]

    @classmethod
    def known(cls, first: int, threads: Sequence[tuple[int, int]]) -> ThreadMap:
        """Threads that are all known, as (thread id, start), numbered in this order."""
        result = cls(first)
        of_tid: dict[int, list[tuple[int, int]]] = {}
        for slot, (tid, start) in enumerate(threads, first):
            of_tid.setdefault(tid, []).append((start, slot))
            result.tids.append(tid)
            result._grow(tid)
            result._lut[tid] = slot
        for tid, instances in of_tid.items():
            if len(instances) > 1:
                starts, slots = zip(*sorted(instances), strict=True)
                result._reused[tid] = (np.array(starts, np.uint64), np.array(slots, np.int32))
        return result

    @property
    def end(self) -> int:
        """One past the last thread."""
        return self.first + len(self.tids)

    def _grow(self, tid: int) -> None:
        if tid >= len(self._lut):
            grown = np.full(1 << int(tid).bit_length(), -1, np.int32)
            grown[: len(self._lut)] = self._lut
            self._lut = grown

    def of(self, tids: npt.NDArray[Any], ts: npt.NDArray[Any]) -> npt.NDArray[np.int32]:
        """The thread of each event, from its thread id and time."""
        if not len(tids):
            return np.empty(0, np.int32)
        if int(tids.max()) >= _MAX_TID:
            tids = np.where(tids < _MAX_TID, tids, 0)
        self._grow(int(tids.max()))
        slots: npt.NDArray[np.int32] = self._lut[tids]
        if slots.min() < 0:
            new = np.unique(tids[slots < 0])
            self._lut[new] = np.arange(self.end, self.end + len(new), dtype=np.int32)
            self.tids += new.tolist()
            slots = self._lut[tids]
        for tid, (starts, instances) in self._reused.items():
            mask = tids == tid
            if mask.any():
                slots[mask] = instances[np.maximum(np.searchsorted(starts, ts[mask], "right") - 1, 0)]
        return slots


@dataclass
class _Tally:
    """The latest state of one tally."""

    ts: int
    values: dict[str, int]
    ticks_hz: int
    buckets: npt.NDArray[Any]
    counts: npt.NDArray[Any]


@dataclass
class Host:
    """What the first pass gathered of one host."""

    name: str
    threads: ThreadMap
    stats: _native.ThreadStatistics = field(default_factory=_native.ThreadStatistics)
    calls: dict[str, _native.CallStatistics] = field(default_factory=dict)
    next_seq: dict[int, int] = field(default_factory=dict)  # by thread
    records: dict[str, list[dict[str, Any]]] = field(default_factory=dict)
    tallies: dict[tuple[int, int], _Tally] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)
    unknown: dict[str, int] = field(default_factory=dict)

    def reused(self) -> dict[int, list[int]]:
        """Thread ids that several threads had, with the times at which each began."""
        starts: dict[int, list[int]] = {}
        for record in self.records.get("thread", ()):
            starts.setdefault(int(record["tid"]), []).append(int(record["ts"]))
        return {tid: sorted(times) for tid, times in starts.items() if len(times) > 1}


_SMALL_RECORDS = ("process", "thread", "name", "kernel", "exit", "device", "queue", "clock", "clock_warning", "failure")

_RAW_TABLES = """
CREATE OR REPLACE TABLE raw_activities (slot INTEGER, seq UINTEGER, kind UTINYINT, corr_slot INTEGER, corr_seq UINTEGER,
    run_seq UINTEGER, queue UINTEGER, queued UBIGINT, submitted UBIGINT, "start" UBIGINT, "end" UBIGINT, bytes UBIGINT,
    name UINTEGER, gx UINTEGER, gy UINTEGER, gz UINTEGER, lx UINTEGER, ly UINTEGER, lz UINTEGER, status INTEGER);
CREATE OR REPLACE TABLE raw_runs (slot INTEGER, seq UINTEGER, kernel UINTEGER, "start" UBIGINT, "end" UBIGINT,
    launches UINTEGER, error UINTEGER);
CREATE OR REPLACE TABLE raw_copies (slot INTEGER, seq UINTEGER, kind UTINYINT, mode UINTEGER, bytes UBIGINT,
    "start" UBIGINT, "end" UBIGINT, error UINTEGER);
"""


class FirstPass:
    """Reads the traces of all hosts into the tables of `con`."""

    def __init__(self, con: duckdb.DuckDBPyConnection, model: Model) -> None:
        self._con = con
        self._model = model
        self._hosts: list[Host] = []

    def run(self, traces: Iterable[HostTrace]) -> list[str]:
        """Fill all tables; returns what was wrong with the traces."""
        self._con.execute(_RAW_TABLES)
        for trace in traces:
            first = self._hosts[-1].threads.end if self._hosts else 0
            host = self._read(trace, ThreadMap(first))
            reused = host.reused()
            if reused:
                # Rare (an exec, or process ids that went round): read again, now knowing when each thread began.
                for table in ("raw_activities", "raw_runs", "raw_copies"):
                    self._con.execute(f"DELETE FROM {table} WHERE slot >= {first}")
                host = self._read(trace, ThreadMap(first, reused))
            self._hosts.append(host)
        _Assembly(self._con, self._model, self._hosts).run()
        for table in ("raw_activities", "raw_runs", "raw_copies"):
            self._con.execute(f"DROP TABLE {table}")
        return self._problems()

    def _problems(self) -> list[str]:
        out = []
        for host in self._hosts:
            prefix = f"{host.name}: " if len(self._hosts) > 1 else ""
            out += [prefix + p for p in host.problems]
            out += [
                f"{prefix}{n} events of the unknown kind {event} were left out"
                for event, n in sorted(host.unknown.items())
            ]
        return out

    def _read(self, trace: HostTrace, threads: ThreadMap) -> Host:
        host = Host(trace.host, threads)
        reader = trace.open(None)
        for batch in reader:
            columns = batch.columns
            if not len(columns["ts"]):
                continue
            if "tid" not in columns:
                host.unknown[batch.event] = host.unknown.get(batch.event, 0) + len(columns["ts"])
                continue
            slots = threads.of(columns["tid"], columns["ts"])
            host.stats.add(slots, columns["seq"], columns["ts"])
            self._dispatch(host, batch.event, columns, slots, reader)
        host.problems = [text_of(p) for p in reader.problems]
        return host

    def _dispatch(self, host: Host, event: str, columns: Columns, slots: npt.NDArray[np.int32], reader: Reader) -> None:
        function = self._model.by_event.get(event)
        if function:
            self._add_calls(host, function, slots, columns)
            if "kernel" in columns and "launches" in columns:
                self._add_runs(slots, columns)
            elif function.api == "occa" and {"kind", "mode", "bytes"} <= columns.keys():
                self._add_copies(slots, columns)
            return
        begun = self._model.begin_events.get(event)
        if begun:
            calls = host.calls.setdefault(begun.event, _native.CallStatistics())
            calls.begin(slots, columns["call_seq"], columns["ts"])
            return
        provider, _, record = event.partition(":")
        if provider == "occatrace_device" and record == "activity":
            self._add_activities(host, slots, columns)
        elif provider in ("occatrace_process", "occatrace_device") and record in _SMALL_RECORDS:
            self._add_records(host, record, slots, columns, reader)
        elif record == "tally":
            self._add_tallies(host, columns)
        elif record == "progress":
            owners = host.threads.of(columns["owner"], columns["ts"])
            for slot, next_seq in zip(owners.tolist(), columns["next_seq"].tolist(), strict=True):
                host.next_seq[slot] = max(next_seq, host.next_seq.get(slot, 0))
        else:
            host.unknown[event] = host.unknown.get(event, 0) + len(slots)

    def _add_calls(self, host: Host, function: Function, slots: npt.NDArray[np.int32], columns: Columns) -> None:
        failed = moved = None
        if function.failed and function.failed.field in columns:
            failed = function.failed.mask(columns[function.failed.field])
        if function.bytes and function.bytes in columns:
            moved = columns[function.bytes].astype(np.uint64, copy=False)
        calls = host.calls.setdefault(function.event, _native.CallStatistics())
        calls.add(slots, columns["seq"], columns["start"], columns["ts"], failed, moved)

    def _insert(self, table: str, columns: Columns) -> None:
        self._con.register("batch", dict(columns))
        self._con.execute(f"INSERT INTO {table} BY NAME SELECT * FROM batch")
        self._con.unregister("batch")

    def _add_runs(self, slots: npt.NDArray[np.int32], columns: Columns) -> None:
        self._insert(
            "raw_runs",
            {
                "slot": slots,
                "end": columns["ts"],
                **{name: columns[name] for name in ("seq", "kernel", "start", "launches")},
                "error": columns.get("error", np.zeros(len(slots), np.uint32)),
            },
        )

    def _add_copies(self, slots: npt.NDArray[np.int32], columns: Columns) -> None:
        self._insert(
            "raw_copies",
            {
                "slot": slots,
                "end": columns["ts"],
                **{name: columns[name] for name in ("seq", "kind", "mode", "bytes", "start")},
                "error": columns.get("error", np.zeros(len(slots), np.uint32)),
            },
        )

    def _add_activities(self, host: Host, slots: npt.NDArray[np.int32], columns: Columns) -> None:
        launched = np.where(columns["queued"] > 0, columns["queued"], columns["start"])
        names = (
            "seq",
            "kind",
            "corr_seq",
            "run_seq",
            "queue",
            "queued",
            "submitted",
            "start",
            "end",
            "bytes",
            "name",
            "status",
        )
        self._insert(
            "raw_activities",
            {
                "slot": slots,
                "corr_slot": host.threads.of(columns["corr_tid"], launched),
                **{name: columns[name] for name in (*names, "gx", "gy", "gz", "lx", "ly", "lz")},
            },
        )

    def _add_records(
        self, host: Host, record: str, slots: npt.NDArray[np.int32], columns: Columns, reader: Reader
    ) -> None:
        rows = host.records.setdefault(record, [])
        strings = reader.strings
        names = [name for name in columns if "." not in name]
        for slot, *values in zip(slots.tolist(), *(columns[name].tolist() for name in names), strict=True):
            row = dict(zip(names, values, strict=True))
            for name in _TEXT_FIELDS.get(record, ()):
                row[name] = strings[row[name]]
            rows.append({"slot": slot, **row})

    def _add_tallies(self, host: Host, columns: Columns) -> None:
        owners = host.threads.of(columns["owner"], columns["ts"]).tolist()
        functions, times = columns["function"].tolist(), columns["ts"].tolist()
        latest: dict[tuple[int, int], int] = {}
        for row, key in enumerate(zip(owners, functions, strict=True)):
            known = host.tallies.get(key)
            if times[row] >= max(times[latest[key]] if key in latest else 0, known.ts if known else 0):
                latest[key] = row
        for key, row in latest.items():
            parts = [
                columns[f"{name}.values"][int(columns[name][row]) : int(columns[name][row + 1])].copy()
                for name in ("buckets", "counts")
            ]
            values = {name: int(columns[name][row]) for name in ("count", "failed", "total", "min", "max")}
            host.tallies[key] = _Tally(times[row], values, int(columns["ticks_hz"][row]), parts[0], parts[1])


_TEXT_FIELDS: Mapping[str, Sequence[str]] = {
    "process": ("host", "exe", "cmdline", "run", "version", "mode"),
    "thread": ("name",),
    "name": ("text",),
}


_DEEPEST = 4  # calls within calls
_ENCLOSING = 2
_STATISTICS = ("calls", "failed", "total", "mean", "m2", "min", "max", "bytes")


class _Assembly:
    """Puts the pieces of the first pass together: whose thread, which name, which device."""

    def __init__(self, con: duckdb.DuckDBPyConnection, model: Model, hosts: Sequence[Host]) -> None:
        self._con = con
        self._model = model
        self._hosts = hosts
        self._process_of: dict[int, int] = {}  # by thread
        self._names: dict[tuple[int, int], str] = {}
        self._hists: list[tuple[Any, ...]] = []
        self._unfinished: dict[int, int] = {}  # by thread
        self._killed: set[int] = set()  # processes that did not say how they ended

    def run(self) -> None:
        for table in BY_NAME.values():
            self._con.execute(f"CREATE OR REPLACE TABLE {table.name} ({table.ddl()})")
        self._processes_and_threads()
        self._name_table()
        self._objects()
        self._calls()
        self._losses()
        self._device_work()

    def _records(self, record: str) -> Iterator[tuple[Host, dict[str, Any]]]:
        for host in self._hosts:
            for row in host.records.get(record, ()):
                yield host, row

    def _fill(self, table: str, rows: Sequence[Sequence[Any]]) -> None:
        if not rows:
            return
        arrays = {}
        for column, values in zip(BY_NAME[table].columns, zip(*rows, strict=True), strict=True):
            kind = object if column.type == "VARCHAR" or None in values else _NUMPY[column.type]
            arrays[column.name] = np.array(values, dtype=kind)
        self._fill_arrays(table, arrays)

    def _fill_arrays(self, table: str, arrays: Mapping[str, npt.NDArray[Any]]) -> None:
        self._con.register("batch", dict(arrays))
        self._con.execute(f"INSERT INTO {table} BY NAME SELECT * FROM batch")
        self._con.unregister("batch")

    def _processes_and_threads(self) -> None:
        rows: list[list[Any]] = []
        threads: list[tuple[Any, ...]] = []
        for host in self._hosts:
            images: dict[int, list[tuple[int, int]]] = {}  # pid: (start, process), in time order
            records = sorted(host.records.get("process", ()), key=lambda r: int(r["start"]))
            for r in records:
                images.setdefault(r["pid"], []).append((int(r["start"]), len(rows) + 1))
                rows.append(
                    [len(rows) + 1, text_of(r["host"]) or host.name, r["pid"], r["ppid"]]
                    + [text_of(r[name]) for name in ("exe", "cmdline", "run", "mode", "version")]
                    + [r["start"], r["start"], r["realtime"], r["mono"], None, host.name]
                )
            known = {r["slot"]: r for r in host.records.get("thread", ())}
            first = host.threads.end - len(host.threads.tids)
            stats = host.stats.columns()
            own = [process for entries in images.values() for _, process in entries]
            stray: int | None = None
            for slot, tid in enumerate(host.threads.tids, first):
                start, end = 0, 0
                if slot < len(stats["seen"]) and stats["seen"][slot]:
                    start, end = int(stats["start"][slot]), int(stats["end"][slot])
                record = known.get(slot)
                pid = record["pid"] if record else tid
                entries = images.get(pid)
                if entries:
                    process = next((p for begin, p in reversed(entries) if begin <= start), entries[0][1])
                elif len(own) == 1 and not record:
                    process = own[0]
                else:
                    # Its process record is missing (lost, or the trace was cut): a row of its own.
                    if record:
                        process = len(rows) + 1
                        images[pid] = [(0, process)]
                        rows.append([process, host.name, pid, 0, "", "", "", "", "", start, end, 0, 0, None, host.name])
                    else:
                        if stray is None:
                            stray = len(rows) + 1
                            rows.append([stray, host.name, 0, 0, "", "", "", "", "", start, end, 0, 0, None, host.name])
                        process = stray
                self._process_of[slot] = process
                rows[process - 1][10] = max(rows[process - 1][10], end)
                threads.append((slot + 1, process, tid, text_of(record["name"]) if record else "", start, end))
            for r in host.records.get("exit", ()):
                rows[self._process_of[r["slot"]] - 1][13] = self._model.texts("process", "exit_reason").get(
                    r["reason"], str(r["reason"])
                )
        self._killed = {row[0] for row in rows if row[13] is None}
        self._fill("processes", rows)
        self._fill("threads", threads)

    def _name_table(self) -> None:
        pieces: dict[tuple[int, int], dict[int, bytes | str]] = {}
        for _, r in self._records("name"):
            pieces.setdefault((self._process_of[r["slot"]], r["id"]), {})[r["offset"]] = r["text"]
        for key, parts in pieces.items():
            raw = b"".join(
                p if isinstance(p, bytes) else p.encode("utf-8", "surrogateescape") for _, p in sorted(parts.items())
            )
            self._names[key] = text_of(raw)
        self._fill("names", [(process, id_, text) for (process, id_), text in self._names.items()])

    def _name(self, process: int, id_: int) -> str:
        return self._names.get((process, id_), f"name {id_}" if id_ else "")

    def _objects(self) -> None:
        """Kernels, devices, queues, clocks. A rotation repeats them: the last record of an object counts."""
        kernels: dict[tuple[int, int], tuple[Any, ...]] = {}
        devices: dict[tuple[int, int], tuple[Any, ...]] = {}
        queues: dict[tuple[int, int], tuple[Any, ...]] = {}
        for _, r in self._records("kernel"):
            p = self._process_of[r["slot"]]
            number = kernels.get((p, r["id"]), (len(kernels) + 1,))[0]
            texts = [self._name(p, r[name]) for name in ("name", "mode", "source")]
            kernels[p, r["id"]] = (number, p, r["id"], *texts, r["line"], self._name(p, r["binary"]))
        for _, r in self._records("device"):
            p = self._process_of[r["slot"]]
            number = devices.get((p, r["id"]), (len(devices) + 1,))[0]
            texts = [self._name(p, r[name]) for name in ("api", "platform", "name", "vendor")]
            devices[p, r["id"]] = (number, p, r["id"], *texts, r["handle"])
        for _, r in self._records("queue"):
            p = self._process_of[r["slot"]]
            number = queues.get((p, r["id"]), (len(queues) + 1,))[0]
            device = devices.get((p, r["device"]), (None,))[0]
            queues[p, r["id"]] = (number, p, r["id"], device, r["handle"], r["flags"], r["context"])
        self._fill("kernels", list(kernels.values()))
        self._fill("devices", list(devices.values()))
        self._fill("queues", list(queues.values()))

        def device_of(r: Mapping[str, Any]) -> int | None:
            number: int | None = devices.get((self._process_of[r["slot"]], r["device"]), (None,))[0]
            return number

        self._fill(
            "clocks", [(device_of(r), r["host"], r["device_time"], r["uncertainty"]) for _, r in self._records("clock")]
        )
        worst: dict[tuple[int, int], tuple[int | None, int, int]] = {}
        for _, r in self._records("clock_warning"):
            key = (self._process_of[r["slot"]], r["device"])
            before = worst.get(key, (None, 0, 0))
            worst[key] = (device_of(r), max(before[1], r["clamped"]), max(before[2], r["worst"]))
        self._fill("clock_warnings", list(worst.values()))

    def _calls(self) -> None:
        stats: list[tuple[Any, ...]] = []
        unfinished: list[tuple[Any, ...]] = []
        for host in self._hosts:
            for event, calls in host.calls.items():
                function = self._model.by_event[event]
                head = (function.api, function.name)
                columns = calls.columns()
                for slot in np.flatnonzero(columns["calls"]).tolist():
                    values = (columns[name][slot].item() for name in _STATISTICS)
                    stats.append((self._process_of[slot], slot + 1, *head, "event", *values))
                slots, buckets, amounts = calls.histogram()
                if len(slots):
                    self._hist(function.api, function.name, slots, histogram.middle(buckets), amounts)
                for slot in np.flatnonzero(columns["begin_seq"] > columns["max_seq"]).tolist():
                    seq, ts = int(columns["begin_seq"][slot]), int(columns["begin_ts"][slot])
                    unfinished.append((self._process_of[slot], slot + 1, seq, *head, ts))
                    self._unfinished[slot] = self._unfinished.get(slot, 0) + 1
            for (slot, function_id), tally in host.tallies.items():
                stats.append(self._tally(slot, function_id, tally))
        self._fill_hist()
        self._fill("call_stats", stats)
        self._failures()
        self._fill("unfinished", unfinished)

    def _failures(self) -> None:
        rows = []
        for _, r in self._records("failure"):
            process = self._process_of[r["slot"]]
            name = self._name(process, r["function"])
            error = self._name(process, r["text"]) if r["text"] else self._model.error_name(name, r["code"])
            seq = None if r["call_seq"] == NO_SEQ else r["call_seq"]
            rows.append((process, r["slot"] + 1, seq, *self._model.tally_function(name), r["code"], error))
        self._fill("failures", rows)

    def _tally(self, slot: int, function_id: int, tally: _Tally) -> tuple[Any, ...]:
        process = self._process_of[slot]
        api, function = self._model.tally_function(self._name(process, function_id))
        scale = 1e9 / tally.ticks_hz if tally.ticks_hz else 1.0
        v = tally.values
        middles = histogram.middle(tally.buckets) * scale
        mean = v["total"] * scale / v["count"] if v["count"] else 0.0
        m2 = float(np.sum(tally.counts * (middles - mean) ** 2)) if v["count"] > 1 else 0.0
        if len(tally.buckets):
            self._hist(api, function, np.full(len(middles), slot), middles, tally.counts)
        head = (process, slot + 1, api, function, "tally", v["count"], v["failed"])
        return (*head, round(v["total"] * scale), mean, m2, round(v["min"] * scale), round(v["max"] * scale), 0)

    def _hist(self, api: str, function: str, slots: Index, values: npt.NDArray[Any], counts: npt.NDArray[Any]) -> None:
        process = np.array([self._process_of[s] for s in slots.tolist()], np.uint32)
        self._hists.append(((api, function), process, slots + 1, values, counts))

    def _fill_hist(self) -> None:
        """All histograms at once; the functions by number first, as texts are slow to hand over one by one."""
        if not self._hists:
            return
        functions = sorted({head for head, *_ in self._hists})
        number = {head: i for i, head in enumerate(functions)}
        self._con.register(
            "functions",
            {
                "number": np.arange(len(functions)),
                "api": np.array([api for api, _ in functions], object),
                "function": np.array([function for _, function in functions], object),
            },
        )
        self._con.register(
            "batch",
            {
                "number": np.concatenate([np.full(len(values), number[head]) for head, _, _, values, _ in self._hists]),
                **{
                    name: np.concatenate([entry[place] for entry in self._hists])
                    for place, name in enumerate(("process", "thread", "value_ns", "calls"), 1)
                },
            },
        )
        self._con.execute(
            "INSERT INTO call_hist BY NAME SELECT * EXCLUDE (number) FROM batch JOIN functions USING (number)"
        )
        self._con.unregister("batch")
        self._con.unregister("functions")

    def _losses(self) -> None:
        rows = []
        for host in self._hosts:
            stats = host.stats.columns()
            for slot, (seen, highest) in enumerate(zip(stats["seen"].tolist(), stats["max_seq"].tolist(), strict=True)):
                if slot not in self._process_of:
                    continue
                expected = max(host.next_seq.get(slot, 0), highest + 1)
                missing = expected - seen
                # Calls in flight at the end have a number and no event: those that said so when they began; those after
                # which nothing came; and, when the process was killed, an enclosing call or two of the last events.
                unfinished = max(self._unfinished.get(slot, 0), min(expected - highest - 1, _DEEPEST))
                if self._process_of[slot] in self._killed:
                    unfinished = max(unfinished, min(missing, _ENCLOSING))
                lost = missing - unfinished
                if lost > 0:
                    rows.append((self._process_of[slot], slot + 1, expected, seen, unfinished, lost))
        self._fill("losses", rows)

    def _device_work(self) -> None:
        slots = np.array(sorted(self._process_of), np.int32)
        self._con.register(
            "batch", {"slot": slots, "process": np.array([self._process_of[s] for s in slots.tolist()], np.uint32)}
        )
        self._con.execute("CREATE OR REPLACE TEMP TABLE slots AS SELECT * FROM batch")
        self._con.unregister("batch")
        kinds = (
            "CASE r.kind "
            + " ".join(f"WHEN {n} THEN '{name}'" for n, name in self._model.texts("device", "activity_kind").items())
            + " ELSE 'other' END"
        )
        self._con.execute("""
            INSERT INTO kernel_runs BY NAME
            SELECT s.process, r.slot + 1 AS thread, r.seq, k.kernel, r.start AS start_ns, r.end AS end_ns, r.launches,
                   n.text AS error
            FROM raw_runs r JOIN slots s USING (slot)
            LEFT JOIN kernels k ON k.process = s.process AND k.id = r.kernel
            LEFT JOIN names n ON n.process = s.process AND n.id = r.error AND r.error != 0""")
        self._con.execute(f"""
            INSERT INTO occa_copies BY NAME
            SELECT s.process, r.slot + 1 AS thread, r.seq, {kinds} AS kind, m.text AS mode, r.bytes,
                   r.start AS start_ns, r.end AS end_ns, n.text AS error
            FROM raw_copies r JOIN slots s USING (slot)
            LEFT JOIN names m ON m.process = s.process AND m.id = r.mode
            LEFT JOIN names n ON n.process = s.process AND n.id = r.error AND r.error != 0""")
        self._con.execute(f"""
            INSERT INTO activities BY NAME
            SELECT s.process, {kinds} AS kind, coalesce(n.text, {kinds}) AS name, q.device, q.queue,
                   r.corr_slot + 1 AS thread, r.corr_seq AS seq, nullif(r.run_seq, {NO_SEQ}) AS run_seq, k.kernel,
                   r.queued AS queued_ns, r.submitted AS submitted_ns, r.start AS start_ns, r.end AS end_ns, r.bytes,
                   r.gx, r.gy, r.gz, r.lx, r.ly, r.lz, r.status
            FROM raw_activities r JOIN slots s USING (slot)
            LEFT JOIN names n ON n.process = s.process AND n.id = r.name AND r.name != 0
            LEFT JOIN queues q ON q.process = s.process AND q.id = r.queue
            LEFT JOIN kernel_runs k ON k.thread = r.corr_slot + 1 AND k.seq = r.run_seq""")


_NUMPY = {
    "UTINYINT": np.uint8,
    "UINTEGER": np.uint32,
    "UBIGINT": np.uint64,
    "INTEGER": np.int32,
    "BIGINT": np.int64,
    "DOUBLE": np.float64,
}
