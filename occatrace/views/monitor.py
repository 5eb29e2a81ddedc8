"""What a run that goes on is doing: kernels, devices, memory, rates, ranks and losses, kept up to date by reading what is new
in its trace. Folds events of a stretch of time after another; prints nothing."""

from __future__ import annotations

import contextlib
import re
import shutil
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from occatrace import _native
from occatrace.core import halfway, naming
from occatrace.core import model as model_module
from occatrace.core.schema import COPY_KINDS, HOST_MODES
from occatrace.errors import RunError
from occatrace.ingest import live_buffers
from occatrace.ingest.gathered import allocations, kernel_runs, occa_copies
from occatrace.ingest.reading import Columns, Reader, text_of
from occatrace.ingest.threads import ThreadMap
from occatrace.run import control
from occatrace.run.folder import RunInfo, moment
from occatrace.run.liveness import is_recorded, is_running
from occatrace.run.nodes import read_nodes
from occatrace.run.opening import open_run
from occatrace.store import stream

Times = npt.NDArray[np.int64]
_Placed = tuple[npt.NDArray[np.int32], npt.NDArray[Any], Times, Times]  # work: threads, queues, starts, ends

# Work is written some time after it has finished (a tenth of a second in the background): shares are of a stretch that
# ended so long ago.
LAG_NS = 250_000_000
HORIZON_NS = 60_000_000_000  # how far back work is told apart from other work that ran at the same time
_ATTEMPTS = 3  # to read tables that somebody deletes at the same time
LOOKS = 5  # until then names that are on their way are there
END_S = 60.0  # for the end of a session, on a busy machine
IN_FLIGHT = 4  # calls within calls, whose numbers are taken and whose events are not written yet
_TOLD = ("process", "thread", "name", "kernel", "device", "queue", "exit", "progress", "counted")
_TEXTS = {"process": ("cmdline", "host"), "name": ("text",)}
_OCCA_NAME = re.compile(r"_occa_(.+)_\d+")


@dataclass
class Work:
    """Work or calls of a kind, since the start and in the last interval."""

    count: int = 0
    ns: int = 0
    now_count: int = 0
    now_ns: int = 0

    def add(self, count: int, ns: int) -> None:
        """More of it."""
        self.count += count
        self.ns += ns
        self.now_count += count
        self.now_ns += ns

    def more(self, other: Work) -> None:
        """Take in what has the same name."""
        for name in vars(self):
            setattr(self, name, getattr(self, name) + getattr(other, name))


class Busy:
    """The time in which at least one of some pieces of work ran."""

    def __init__(self) -> None:
        self._starts: Times = np.empty(0, np.int64)
        self._ends: Times = np.empty(0, np.int64)
        self._before = 0  # ns of what is older than the horizon
        self._horizon = 0
        self.first: int | None = None

    def add(self, starts: Times, ends: Times) -> None:
        """More work, in any order."""
        if not len(starts):
            return
        self.first = min(int(starts.min()), self.first or 1 << 62)
        late = starts < self._horizon
        if late.any():  # it began before the horizon: nobody knows what else ran then
            room = max(0, self._horizon - self.first - self._before)
            self._before += min(room, int((np.minimum(ends[late], self._horizon) - starts[late]).sum()))
            starts = np.maximum(starts, self._horizon)
            ends = np.maximum(ends, starts)
        starts, ends = np.concatenate([self._starts, starts]), np.concatenate([self._ends, ends])
        order = np.argsort(starts, kind="stable")
        starts, until = starts[order], np.maximum.accumulate(ends[order])
        begins = np.concatenate([[True], starts[1:] > until[:-1]])
        self._starts = starts[begins]
        self._ends = until[np.concatenate([np.flatnonzero(begins)[1:] - 1, [len(until) - 1]])]

    def forget(self, before: int) -> None:
        """Keep no single work of before a moment."""
        if before <= self._horizon:
            return
        self._before += self.within(self._horizon, before)
        kept = self._ends > before
        self._starts, self._ends = np.maximum(self._starts[kept], before), self._ends[kept]
        self._horizon = before

    def within(self, begin: int, end: int) -> int:
        """Busy ns in a stretch of time (after the horizon)."""
        return int(np.maximum(np.minimum(self._ends, end) - np.maximum(self._starts, begin), 0).sum())

    @property
    def total(self) -> int:
        """Busy ns since the begin."""
        return self._before + int((self._ends - self._starts).sum())


@dataclass
class Process:
    """A process of the run."""

    pid: int
    host: str
    start: int
    cmdline: str
    rank: int | None
    ended: bool = False  # it said so
    lost: bool = False  # it is gone and did not


@dataclass
class Memory:
    """Memory in use."""

    in_use: int = 0
    high: int = 0
    objects: int = 0

    def change(self, size: int, objects: int) -> None:
        """Allocated, or (negative) freed."""
        self.in_use += size
        self.objects += objects
        self.high = max(self.high, self.in_use)


@dataclass(frozen=True)
class Device:
    """A device of a process, as it is shown."""

    name: str
    rank: int | None
    pid: int
    busy_now: float | None  # share of the last stretch
    busy: float | None  # of the time since its first work
    memory: Memory


@dataclass(frozen=True)
class Rank:
    """A rank, as it is shown."""

    rank: int
    host: str
    pid: int
    state: str  # running, ended, lost
    calls: float  # per second, of the last stretch
    launches: float
    busy_now: float | None


@dataclass(frozen=True)
class View:
    """All that is shown of a run at a moment."""

    folder: Path
    program: Sequence[str]
    mode: str
    elapsed: float  # s
    stretch: float  # s: what rates and shares are of
    state: str  # recording, paused, stopped, full, ending, ended, cut off
    status: int | None  # of the program, when it has ended
    kernels: Mapping[str, Work]
    functions: Mapping[str, Work]
    devices: Sequence[Device]
    ranks: Sequence[Rank]
    size: int  # of the job; 0: none
    rates: Mapping[str, float]  # calls, launches, bytes, events: per second
    trace: int  # bytes
    lost: int  # events
    threads_lost: int
    notes: Sequence[str] = ()


@dataclass
class _Host:
    """What is known of one host's part."""

    watch: live_buffers.HostWatch
    since: int = -1
    behind: int = 0  # how often parts that have gone are looked through again for names that are not known
    unplaced: list[_Placed] = field(default_factory=list)  # work of threads whose process is not known yet
    threads: ThreadMap = field(default_factory=lambda: ThreadMap(0))
    stats: _native.ThreadStatistics = field(default_factory=_native.ThreadStatistics)
    next_seq: dict[int, int] = field(default_factory=dict)
    counted: dict[int, int] = field(default_factory=dict)  # events that became tallies, by thread
    pids: dict[int, int] = field(default_factory=dict)  # by thread id
    processes: dict[int, Process] = field(default_factory=dict)
    texts: dict[tuple[int, int], dict[int, str]] = field(default_factory=dict)  # by process id and number: its pieces
    kernels: dict[tuple[int, int], tuple[int, int]] = field(default_factory=dict)  # name and mode
    devices: dict[tuple[int, int], tuple[int, int]] = field(default_factory=dict)  # API and name
    queues: dict[tuple[int, int], tuple[int, int]] = field(default_factory=dict)  # device and context
    work: dict[tuple[int, int, int], Work] = field(default_factory=dict)  # by thread, kind, name
    runs: dict[tuple[int, int], Work] = field(default_factory=dict)  # calls of OCCA kernels, by thread and kernel
    calls: dict[str, Work] = field(default_factory=dict)  # by event
    tallies: dict[tuple[int, int], Work] = field(default_factory=dict)  # by thread and name of the function
    busy: dict[tuple[int, object], Busy] = field(default_factory=dict)  # by process and device, or mode of OCCA
    memory: dict[tuple[int, object], Memory] = field(default_factory=dict)
    blocks: dict[tuple[int, str, int], tuple[int, tuple[int, object]]] = field(default_factory=dict)
    rows: dict[int, int] = field(default_factory=dict)  # calls of the last stretch, by thread id
    events: int = 0
    moved: int = 0

    def text(self, pid: int, number: int) -> str:
        """A text by its number."""
        return "".join(part for _, part in sorted(self.texts.get((pid, number), {}).items()))

    def pid(self, slot: int) -> int:
        """The process of a thread."""
        tid = self.threads.tids[slot]
        return self.pids.get(tid, tid)


class Monitor:
    """A run that goes on, or has just ended. Close it at the end."""

    def __init__(self, run: Path) -> None:
        self.run = run
        self.info = open_run(run).info
        self._model = model_module.load()
        self._scratch = halfway.make_folder()
        self._hosts: dict[str, _Host] = {}
        self._silent = 0.0  # since when nobody answers for the run
        self._before = 0.0  # when the last stretch ended, by the monotonic clock
        self._activity_kinds = self._model.texts("device", "activity_kind")

    @property
    def behind(self) -> bool:
        """Whether names of older parts of the trace may be known at the next refresh."""
        return any(host.behind for host in self._hosts.values())

    def close(self) -> None:
        """Leave nothing behind."""
        halfway.remove_path(self._scratch)

    # ---- reading ----

    def refresh(self) -> View:
        """Read what is new; what is shown now. Raises a RunError when the run has gone."""
        self.info = open_run(self.run).info
        state = self._state()
        for name in live_buffers.hosts_of(self.run):
            if name not in self._hosts:
                self._hosts[name] = _Host(live_buffers.HostWatch(self.run, self.info, name))
        now = time.monotonic()
        try:
            for host in self._hosts.values():
                self._read(host, whole=state in ("ended", "cut off"))
        except FileNotFoundError as error:
            raise RunError(f"{error.filename or self.run} is not there any more") from None
        stretch, self._before = now - self._before if self._before else live_buffers.age(self.info), now
        return self._view(state, max(stretch, 1e-3))

    def _state(self) -> str:
        if self.info.ended is not None:
            return "ended"
        if is_recorded(self.run):
            return control.state(self.run)
        self.info = open_run(self.run).info
        if self.info.ended is not None:
            return "ended"
        # Its session is being stopped, and run.json says so a moment later; or occa_prof was killed.
        holders = control.holders(self.run)
        self._silent = self._silent or time.monotonic()
        ending = any(map(is_running, holders)) if holders else time.monotonic() - self._silent < END_S
        return "ending" if ending else "cut off"

    def _read(self, host: _Host, whole: bool) -> None:
        for each in (host.work, host.runs, host.calls, host.tallies):
            for work in each.values():
                work.now_count = work.now_ns = 0
        host.rows, host.events, host.moved = {}, 0, 0
        gaps = host.watch.gaps
        since = host.since if host.watch.complete else -1
        look = host.watch.look(self._scratch, since, whole)
        try:
            if host.watch.gaps > gaps:
                host.behind = LOOKS
            known = self._catch_up(host) if host.behind else True
            if look.spans:
                self._fold(host, look, since)
            if host.behind and known:
                host.behind = host.behind - 1 if self._is_nameless(host) else 0
        finally:
            look.close()
            shutil.rmtree(look.folder, ignore_errors=True)
        host.since = look.until

    def _catch_up(self, host: _Host) -> bool:
        """Names and the like of parts of the trace that have gone; whether they could be read."""
        # Before the first deletion there is no lock to hold: then files may go while they are read. There is one the next time.
        for _ in range(_ATTEMPTS):
            with contextlib.suppress(FileNotFoundError), contextlib.closing(stream.Held(self.run)) as held:
                records = held.records(host.watch.host)
                break
        else:
            return False
        for record, rows in records.items():
            for row in rows:
                self._know(host, record, row)
        return True

    def _is_nameless(self, host: _Host) -> bool:
        """Whether there is work of a thread whose process is not known: that was on its way between two parts of the trace."""
        return any(host.threads.tids[slot] not in host.pids for slot in {slot for slot, *_ in host.work})

    def _fold(self, host: _Host, look: live_buffers.Look, since: int) -> None:
        reader = look.open(_one_thread, None, since)
        newest = 0
        placed, host.unplaced = host.unplaced, []
        hosted: list[tuple[Any, ...]] = []  # the same of OCCA kernels in the modes that work on the host
        memory: list[Columns] = []
        for event, columns in (part for b in reader for part in self._model.by_function(b.event, b.columns)):
            if not len(columns["ts"]) or "tid" not in columns:
                continue
            slots = host.threads.of(columns["tid"], columns["ts"])
            host.stats.add(slots, columns["seq"], columns["ts"])
            host.events += len(slots)
            newest = max(newest, int(columns["ts"].max()))
            function = self._model.by_event.get(event)
            taken = allocations.GATHERED.take(self._model, event, function, host.threads, columns)
            if taken is not None:
                memory.append({"slot": slots, **taken})
            if function:
                length = np.maximum(columns["ts"], columns["start"]) - columns["start"]
                host.calls.setdefault(event, Work()).add(len(slots), int(length.sum()))
                for slot, count in zip(*_counted(slots), strict=True):
                    tid = host.threads.tids[slot]
                    host.rows[tid] = host.rows.get(tid, 0) + count
                if kernel_runs.GATHERED.takes(event, function, columns):
                    hosted.append((slots, columns["kernel"], columns["start"], columns["ts"]))
                elif occa_copies.GATHERED.takes(event, function, columns):
                    hosted.append((slots, columns["mode"], columns["bytes"]))
            elif event == "occatrace_device:activity":
                placed.append((slots, columns["queue"], columns["start"], columns["end"]))
                self._add_work(host, slots, columns)
            elif event not in self._model.begin_events:
                self._record(host, event, columns, reader)
        for slots, queues, starts, ends in placed:
            self._place(host, slots, queues, starts, ends)
        for entry in hosted:
            self._on_host(host, entry)
        self._remember(host, memory)
        for busy in host.busy.values():
            busy.forget(min(newest, host.since) - HORIZON_NS)  # never in the stretch that is shown

    def _add_work(self, host: _Host, slots: npt.NDArray[np.int32], columns: Columns) -> None:
        keys = slots.astype(np.uint64) << np.uint64(40) | columns["kind"].astype(np.uint64) << np.uint64(32)
        found, inverse = np.unique(keys | columns["name"].astype(np.uint64), return_inverse=True)
        lengths = np.where(columns["end"] > columns["start"], columns["end"] - columns["start"], 0)
        counts = np.bincount(inverse, minlength=len(found))
        sums = np.bincount(inverse, lengths.astype(np.float64), len(found))
        for key, count, ns in zip(found.tolist(), counts.tolist(), sums.tolist(), strict=True):
            work = host.work.setdefault((key >> 40, key >> 32 & 0xFF, key & 0xFFFFFFFF), Work())
            work.add(count, round(ns))
        kinds = [value for value, name in self._activity_kinds.items() if name in COPY_KINDS]
        host.moved += int(columns["bytes"][np.isin(columns["kind"], kinds)].sum())

    def _place(
        self, host: _Host, slots: npt.NDArray[np.int32], queues: npt.NDArray[Any], starts: Times, ends: Times
    ) -> None:
        """To which device work belongs."""
        found, inverse = np.unique(slots.astype(np.uint64) << np.uint64(32) | queues, return_inverse=True)
        for at, key in enumerate(found.tolist()):
            rows = inverse == at
            if host.behind and host.threads.tids[key >> 32] not in host.pids:
                host.unplaced.append((slots[rows], queues[rows], starts[rows], ends[rows]))
                continue
            pid = host.pid(key >> 32)
            device = host.queues.get((pid, key & 0xFFFFFFFF), (0, 0))[0]
            host.busy.setdefault((pid, device), Busy()).add(starts[rows].astype(np.int64), ends[rows].astype(np.int64))

    def _on_host(self, host: _Host, entry: tuple[Any, ...]) -> None:
        """OCCA in the modes Serial and OpenMP: the call of a kernel is the work, that of a copy the copy."""
        slots, numbers, *rest = entry
        found, inverse = np.unique(slots.astype(np.uint64) << np.uint64(32) | numbers, return_inverse=True)
        for at, key in enumerate(found.tolist()):
            slot, number = key >> 32, key & 0xFFFFFFFF
            pid, rows = host.pid(slot), inverse == at
            mode = host.text(pid, number if len(rest) == 1 else host.kernels.get((pid, number), (0, 0))[1])
            if mode not in HOST_MODES:
                continue
            if len(rest) == 1:
                host.moved += int(rest[0][rows].sum())
                continue
            starts, ends = rest[0][rows].astype(np.int64), rest[1][rows].astype(np.int64)
            host.runs.setdefault((slot, number), Work()).add(len(starts), int((ends - starts).sum()))
            host.busy.setdefault((pid, mode), Busy()).add(starts, ends)

    def _remember(self, host: _Host, batches: Sequence[Columns]) -> None:
        """Memory that was allocated and freed, in the order of time."""
        if not batches:
            return
        names = ("moment", "op", "slot", "function", "handle", "bytes", "kind", "mode", "context")
        columns = {name: np.concatenate([batch[name].astype(np.int64) for batch in batches]) for name in names}
        order = np.lexsort((columns["op"], columns["moment"]))
        codes = list(self._model.memory_code)
        for row in zip(*(columns[name][order].tolist() for name in names[1:]), strict=True):
            op, slot, function, handle, size, kind, mode, context = row
            pid, api = host.pid(slot), codes[function][0]
            key = (pid, api, handle)
            older = host.blocks.pop(key, None)
            if older:
                host.memory[older[1]].change(-older[0], -1)
            if op == 0 and self._model.memory_kinds[kind] not in ("host", "mapped", "slice", "wrapped"):
                mode_text = host.text(pid, mode) if api == "occa" else ""
                if api == "occa" and mode_text not in HOST_MODES:
                    continue  # it lies in memory of the API below
                place = (pid, mode_text or self._device_of(host, pid, api, context))
                host.blocks[key] = size, place
                host.memory.setdefault(place, Memory()).change(size, 1)

    def _device_of(self, host: _Host, pid: int, api: str, context: int) -> object:
        """The device of a context, or the only one of the API; else the API."""
        own = {device for (p, _), (device, c) in host.queues.items() if p == pid and c & (1 << 63) - 1 == context}
        if len(own) != 1:
            own = {d for (p, d), (name, _) in host.devices.items() if p == pid and host.text(pid, name).lower() == api}
        return own.pop() if len(own) == 1 else api

    def _record(self, host: _Host, event: str, columns: Columns, reader: Reader) -> None:
        record = event.partition(":")[2]
        if record == "tally":
            return self._tallies(host, columns)
        if record not in _TOLD:
            return None
        names = [name for name in columns if "." not in name]
        for values in zip(*(columns[name].tolist() for name in names), strict=True):
            row = dict(zip(names, values, strict=True))
            for key in _TEXTS.get(record, ()):
                row[key] = text_of(reader.strings[row[key]])
            self._know(host, record, row)
        return None

    def _know(self, host: _Host, record: str, row: Mapping[str, Any]) -> None:
        """What a process has told of itself."""
        pid = row.get("pid", 0)
        if record == "progress":
            host.next_seq[row["owner"]] = max(row["next_seq"], host.next_seq.get(row["owner"], 0))
        elif record == "counted":
            host.counted[row["owner"]] = max(row["numbers"], host.counted.get(row["owner"], 0))
        elif record == "exit":
            process = host.processes.get(pid)
            if process and row["ts"] > process.start:
                process.ended = True
        elif record == "thread":
            host.pids[row["tid"]] = pid
        elif record == "name":
            host.texts.setdefault((pid, row["id"]), {})[row["offset"]] = row["text"]
        elif record == "kernel":
            host.kernels[pid, row["id"]] = row["name"], row["mode"]
        elif record == "device":
            host.devices[pid, row["id"]] = row["api"], row["name"]
        elif record == "queue":
            host.queues[pid, row["id"]] = row["device"], row["context"]
        elif record == "process" and (pid not in host.processes or host.processes[pid].start < row["ts"]):
            rank = None if row.get("rank", -1) < 0 else row["rank"]
            host.pids[pid] = pid
            host.processes[pid] = Process(pid, row["host"], row["ts"], row["cmdline"], rank)

    def _tallies(self, host: _Host, columns: Columns) -> None:
        """They are cumulative."""
        names = ("owner", "function", "count", "total", "ticks_hz")
        for owner, function, count, total, hz in zip(*(columns[name].tolist() for name in names), strict=True):
            work = host.tallies.setdefault((owner, function), Work())
            ns = round(total * 1e9 / hz) if hz else 0
            if count > work.count:
                host.rows[owner] = host.rows.get(owner, 0) + count - work.count
                work.add(count - work.count, max(0, ns - work.ns))

    # ---- what is shown ----

    def _view(self, state: str, stretch: float) -> View:
        kernels: dict[str, Work] = {}
        functions: dict[str, Work] = {}
        launches: dict[tuple[str, int], int] = {}  # of the last stretch, by process
        notes: list[str] = []
        rates = dict.fromkeys(("calls", "launches", "bytes", "events"), 0.0)
        lost = threads_lost = 0
        for name, host in self._hosts.items():
            for (slot, kind, number), work in host.work.items():
                if self._activity_kinds.get(kind) == "kernel":
                    pid = host.pid(slot)
                    kernels.setdefault(_kernel_name(host.text(pid, number)), Work()).more(work)
                    launches[name, pid] = launches.get((name, pid), 0) + work.now_count
            for (slot, number), work in host.runs.items():
                pid = host.pid(slot)
                kernels.setdefault(host.text(pid, host.kernels.get((pid, number), (0, 0))[0]), Work()).more(work)
                launches[name, pid] = launches.get((name, pid), 0) + work.now_count
            for event, work in host.calls.items():
                functions.setdefault(self._model.by_event[event].name, Work()).more(work)
            for (owner, number), work in host.tallies.items():
                pid = host.pids.get(owner, owner)
                recorded = host.text(pid, number)
                functions.setdefault(self._model.tally_function(recorded)[1] or "?", Work()).more(work)
                if self._model.lost(recorded) == "kernel":
                    launches[name, pid] = launches.get((name, pid), 0) + work.now_count
            rates["events"] += host.events / stretch
            rates["bytes"] += host.moved / stretch
            partial = not host.watch.complete and state not in ("ended", "cut off")
            missing = [] if host.watch.gaps or partial else [n for n in self._missing(host) if n > 0]
            lost, threads_lost = lost + sum(missing), threads_lost + len(missing)
            if host.watch.gaps:
                notes.append(
                    "older parts of the trace are tables by now (--stream): counts are of what came after them"
                )
            if partial:
                notes.append(f"of {name} what LTTng has written there: its buffers are out of reach")
        rates["calls"] = sum(work.now_count for work in functions.values()) / stretch
        rates["launches"] = sum(launches.values()) / stretch
        return View(
            folder=self.run,
            program=self.info.program,
            mode=self.info.mode,
            elapsed=self._elapsed(),
            stretch=stretch,
            state=state,
            status=self.info.exit_status,
            kernels=kernels,
            functions=functions,
            devices=self._devices(stretch),
            ranks=self._ranks(stretch, launches),
            size=int(self.info.job.get("size") or 0),
            rates=rates,
            trace=sum(host.watch.size for host in self._hosts.values()),
            lost=lost,
            threads_lost=threads_lost,
            notes=[*notes, *self.info.notes],
        )

    def _elapsed(self) -> float:
        ended = self.info.ended
        return live_buffers.age(self.info, moment(ended) if ended else None)

    def _missing(self, host: _Host) -> Iterable[int]:
        """Events of each thread that were lost, as in the tables, but for those that may be on their way."""
        stats = host.stats.columns()
        for slot, (seen, highest) in enumerate(zip(stats["seen"].tolist(), stats["max_seq"].tolist(), strict=True)):
            if slot < len(host.threads.tids):
                expected = max(host.next_seq.get(host.threads.tids[slot], 0), highest + 1)
                missing = expected - seen - host.counted.get(host.threads.tids[slot], 0)
                yield missing if missing > IN_FLIGHT else 0

    def _busy(self, host: _Host, busy: Busy, stretch: float) -> tuple[float | None, float | None]:
        """Share of the last stretch, and of the time since the first work."""
        end = host.since - LAG_NS
        if busy.first is None or host.since >= 1 << 62:
            return None, None
        length = round(stretch * 1e9)
        whole = host.since - busy.first
        return min(1.0, busy.within(end - length, end) / length), min(1.0, busy.total / whole) if whole > 0 else None

    def _devices(self, stretch: float) -> list[Device]:
        out = []
        for host in self._hosts.values():
            for pid, place in sorted({*host.busy, *host.memory}, key=lambda key: (key[0], str(key[1]))):
                if isinstance(place, int):
                    name = host.text(pid, host.devices.get((pid, place), (0, 0))[1]) or "unknown device"
                else:
                    name = f"host ({place})" if place in HOST_MODES else f"{place} memory"
                process = host.processes.get(pid)
                busy = host.busy.get((pid, place))
                shares = self._busy(host, busy, stretch) if busy else (None, None)
                memory = host.memory.get((pid, place), Memory())
                out.append(Device(name, process.rank if process else None, pid, *shares, memory))
        return out

    def _ranks(self, stretch: float, launches: Mapping[tuple[str, int], int]) -> list[Rank]:
        told = {rank.rank: rank.state for node in read_nodes(self.run) for rank in node.ranks}
        told |= {int(rank["rank"]): str(rank["state"]) for rank in self.info.job.get("ranks", ())}
        out: dict[int, Rank] = {}
        for name, host in self._hosts.items():
            for process in sorted(host.processes.values(), key=lambda p: p.start):
                if process.rank is None:
                    continue
                if not process.ended and host.watch.complete and not is_running(process.pid):
                    process.lost = True
                calls = sum(n for tid, n in host.rows.items() if host.pids.get(tid, tid) == process.pid)
                started = launches.get((name, process.pid), 0)
                shares = [
                    share
                    for (pid, _), busy in host.busy.items()
                    if pid == process.pid and (share := self._busy(host, busy, stretch)[0]) is not None
                ]
                state = "lost" if process.lost else "ended" if process.ended else "running"
                if told.get(process.rank) == "lost":
                    state = "lost"
                first = out.get(process.rank)
                if first:  # a child, or what the process became
                    busy_now = max((s for s in (first.busy_now, *shares) if s is not None), default=None)
                    state = first.state if first.state != "ended" else state
                    out[process.rank] = Rank(
                        first.rank, first.host, first.pid, state,
                        first.calls + calls / stretch, first.launches + started / stretch, busy_now,
                    )  # fmt: skip
                else:
                    out[process.rank] = Rank(
                        process.rank, process.host or name, process.pid, state,
                        calls / stretch, started / stretch, max(shares, default=None),
                    )  # fmt: skip
        return [out[rank] for rank in sorted(out)]


def newest(folder: Path) -> Path:
    """The run in a folder that began last, of those that go on."""
    found = []
    for file in folder.glob("*/run.json"):
        try:
            info: RunInfo = open_run(file.parent).info
        except RunError:
            continue
        if info.ended is None and is_recorded(file.parent):
            found.append((info.started, file.stat().st_mtime_ns, file.parent))
    if not found:
        raise RunError("no run is going on in this folder: name one, as in `occa_prof top RUN`")
    return max(found)[-1]


def _counted(slots: npt.NDArray[np.int32]) -> tuple[list[int], list[int]]:
    found, counts = np.unique(slots, return_counts=True)
    return found.tolist(), counts.tolist()


def _kernel_name(name: str) -> str:
    """As people know it: OCCA puts a prefix before and a number behind."""
    match = _OCCA_NAME.fullmatch(name)
    return match[1] if match else naming.short(name) or "kernel"


def _one_thread(path: Path, events: Sequence[str] | None, spans: live_buffers.Spans) -> Reader:
    try:
        reader: Reader = _native.Reader(str(path), threads=1, batch_rows=1 << 18, events=events, spans=dict(spans))
    except _native.TraceError as error:
        raise RunError(f"the trace cannot be read: {error}") from error
    return reader
