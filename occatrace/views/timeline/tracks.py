"""Where slices stand in the picture: processes with their threads, under them devices with queues, and counters."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping, Sequence
from typing import Any

from occatrace.views.timeline.counters import ALLOCATED, COUNTED, SAMPLED, Series
from occatrace.views.timeline.sources import (
    ASKED,
    CRITICAL,
    MANAGED,
    MEMORY,
    PROBLEMS,
    PROJECTED,
    QUEUE,
    RANGES,
    THREAD,
    UNKNOWN,
    WAITS,
)
from occatrace.views.timeline.text import COUNTERS

_PROCESS, _DEVICE, _COUNTER = 5, 6, 7  # further kinds of things with a number, after those of slices
_LAST = 1 << 20  # order of what stands below the queues


def salt(run: str) -> int:
    """A number that differs between runs, so that their timelines may be put into one file."""
    return int.from_bytes(hashlib.blake2b(run.encode(), digest_size=8).digest(), "little")


class Known:
    """What the tables say of processes, threads, devices and queues; once for all files of a timeline."""

    def __init__(self, con: Any, asked: Sequence[str] = ()) -> None:
        self.asked = asked  # names of the tracks that the user asked for

        def fetch(sql: str) -> dict[int, tuple[Any, ...]]:
            return {row[0]: row[1:] for row in con.execute(sql).fetchall()}

        self.processes = fetch("SELECT process, host, pid, exe, cmdline, rank, size FROM processes ORDER BY process")
        self.threads = fetch("SELECT thread, process, tid, name FROM threads ORDER BY thread")
        self.devices = fetch("SELECT device, process, id, name, api FROM devices")
        self.queues = fetch("SELECT queue, process, device, id, flags FROM queues")
        self.machines = _machines(self.processes)
        self.hosts = len({row[0] for row in self.processes.values()})
        first: dict[tuple[int, int], int] = {}
        # Threads with an id that another one of the process had before.
        self.again = {t for t, (process, tid, _) in self.threads.items() if first.setdefault((process, tid), t) != t}


class Tracks:
    """The tracks of a run in one file: described when they are first needed, so that none is empty."""

    def __init__(self, known: Known, timeline: Any, salt_: int, part: int = 0) -> None:
        self._known = known
        self._timeline = timeline
        self._salt = salt_
        self._part = part
        self._lanes: dict[tuple[int, int], Any] = {}
        self._described: set[int] = set()
        # A format that looks up what processes and threads did is told their numbers.
        self._numbers: dict[int, int] | None = getattr(timeline, "numbers", None)

    def lanes(self, kind: int, track: int) -> Any:
        """The track of a thread, a queue, a device's memory operations, a process's free ranges or its problems."""
        key = (kind, track)
        if key not in self._lanes:
            make = {
                **{THREAD: self._thread, QUEUE: self._queue, MEMORY: self._memory},
                **{RANGES: self._ranges, PROBLEMS: self._problems, MANAGED: self._managed, WAITS: self._waits},
                **{PROJECTED: self._projected, ASKED: self._asked, CRITICAL: self._critical},
            }[kind]
            self._lanes[key] = make(track)
        return self._lanes[key]

    def thread(self, thread: int) -> None:
        """Describe a thread, also where it has no slices."""
        self.lanes(THREAD, thread)

    def samples(self, process: int) -> Any:
        """The samples of a process, which Perfetto shows with its threads."""
        self.process(process)
        return self._timeline.samples(self._known.processes[process][1])

    def finish(self) -> None:
        """End all slices that are still open."""
        for lanes in self._lanes.values():
            lanes.finish()

    def counter(self, number: int, series: Series) -> Any:
        """A counter, under its device where it is known which that is."""
        process, device = series.process, series.device
        uuid = self._uuid(_COUNTER, number)
        label, order = series.label, _LAST + 1 + series.kind
        if series.kind == ALLOCATED:
            api, _, rest = label.partition(", ")
            mode, _, kind = rest.partition(", ")
            owners = [
                d
                for d, (p, _, _, shown) in self._known.devices.items()
                if p == process and shown.lower() == mode.lower()
            ]
            if not device and len(owners) == 1:
                device, label = owners[0], ", ".join(filter(None, (api, kind)))
            label = f"memory in use ({label})"
        elif series.kind in (SAMPLED, COUNTED):
            label = label or "(no name)"
        elif not device:
            device = UNKNOWN + process
        parent = self._device(device, process) if device else self._process_counters(process)
        return self._timeline.counter(uuid, parent, label, order, series.unit)

    def _uuid(self, kind: int, number: int) -> int:
        """Unique within the run, spread over all 64 bits, and never 0 in practice."""
        return ((number << 3 | kind) * 0x9E3779B97F4A7C15 + self._salt) & 0xFFFF_FFFF_FFFF_FFFF

    def _own(self, kind: int, number: int) -> int:
        """For tracks of which each file has its own: what runs over the end of one may overlap what the next one has."""
        return self._uuid(kind, number + (self._part << 33))

    def _describe(self, uuid: int) -> bool:
        """Whether this is the first time."""
        new = uuid not in self._described
        self._described.add(uuid)
        return new

    def process(self, process: int) -> int:
        """The group of a process. The interface shows them in the order of their descriptions."""
        uuid = self._uuid(_PROCESS, process)
        host, pid, exe, cmdline, rank, size = self._known.processes.get(process, ("", 0, "", "", None, None))
        if self._numbers is not None:
            self._numbers[uuid] = process
        self._timeline.machine(self._known.machines.get(process, 0))
        if self._describe(uuid):
            name = os.path.basename(exe) or "process"
            labels = [f"host {host}"] if host else []
            if self._known.machines.get(process, 0) >= self._known.hosts:
                labels.append("id of an earlier process (exec, or used again)")
            if rank is not None:
                name = f"rank {rank} {name}"
                labels.append(f"rank {rank} of {size}" if size else f"rank {rank}")
            self._timeline.process(uuid, pid, name, [cmdline] if cmdline else [], labels)
        return uuid

    def _thread(self, thread: int) -> Any:
        process, tid, name = self._known.threads[thread]
        parent = self.process(process)
        uuid = self._uuid(THREAD, thread)
        if self._numbers is not None:
            self._numbers[uuid] = thread
        if thread in self._known.again:
            # Perfetto would take it for the thread that had this number before.
            return self._timeline.lanes(uuid, parent, f"{name or 'thread'} {tid}", 15, nested=True)
        self._timeline.thread(uuid, self._known.processes[process][1], tid, name)
        # A thread's calls are nested, so further lanes are for damaged traces.
        return self._timeline.lanes(
            uuid, parent, f"{name or 'thread'} {tid} (overlapping)", 20, nested=True, announced=True
        )

    def _process_counters(self, process: int) -> int:
        """The group of the counters of a process. Perfetto shows what is directly below a process in the order of its names: so
        problems and annotations come before the devices, and these before counters."""
        parent = self.process(process)
        uuid = self._uuid(_PROCESS, process + (1 << 40))
        if self._describe(uuid):
            self._timeline.group(uuid, parent, COUNTERS, _LAST)
        return uuid

    def _device(self, device: int, process: int) -> int:
        parent = self.process(process)
        uuid = self._uuid(_DEVICE, device)
        if self._describe(uuid):
            _, number, name, _ = self._known.devices.get(device, (process, 0, "unknown device", ""))
            self._timeline.group(
                uuid, parent, f"Device {number - 1}: {name}" if number else name, 1000 + device % UNKNOWN
            )
        return uuid

    def _queue(self, queue: int) -> Any:
        process, device, number, flags = self._known.queues.get(queue, (queue % UNKNOWN, 0, 0, 0))
        parent = self._device(device or UNKNOWN + process, process)
        name = f"queue {number}" if number else "unknown queue"
        if flags & 1:
            name += " (out of order)"
        return self._timeline.lanes(self._own(QUEUE, queue), parent, name, number, nested=False)

    def _memory(self, device: int) -> Any:
        return self._of_device(device, 0, "memory operations")

    def _managed(self, device: int) -> Any:
        return self._of_device(device, 1, "managed memory")

    def _waits(self, device: int) -> Any:
        return self._of_device(device, 2, "waits")

    def _projected(self, device: int) -> Any:
        return self._of_device(device, 3, "ranges", 0)

    def _of_device(self, device: int, row: int, name: str, order: int = _LAST) -> Any:
        """One of the rows around a device's queues."""
        process = self._known.devices[device][0] if device in self._known.devices else device % UNKNOWN
        parent = self._device(device, process)
        uuid = self._own(MEMORY, device | row << 58)
        return self._timeline.lanes(uuid, parent, name, order, nested=False)

    def _ranges(self, process: int) -> Any:
        return self._timeline.lanes(self._own(RANGES, process), self.process(process), "Annotations", 1, nested=False)

    def _asked(self, number: int) -> Any:
        """A track that the user asked for by SQL, below the first process."""
        parent = self.process(min(self._known.processes))
        uuid = self._own(RANGES, number | 1 << 32)
        return self._timeline.lanes(uuid, parent, self._known.asked[number], 2 + number, nested=False)

    def _critical(self, process: int) -> Any:
        uuid = self._own(PROBLEMS, process | 1 << 31)
        return self._timeline.lanes(uuid, self.process(process), "! critical path", 0, nested=False)

    def _problems(self, process: int) -> Any:
        uuid = self._own(PROBLEMS, process)
        return self._timeline.lanes(uuid, self.process(process), "! problems", 0, nested=False)


def _machines(processes: Mapping[int, tuple[Any, ...]]) -> dict[int, int]:
    """A number for the machine of each process: ids of processes mean something on their host only, and Perfetto knows
    them by nothing else. A program that another one became (exec), or that got the id of one that ended, has the same;
    so it is on a machine of its own.
    """
    hosts = sorted({row[0] for row in processes.values()})
    taken: set[tuple[str, int]] = set()
    out, last = {}, len(hosts) - 1
    for process, (host, pid, *_) in processes.items():
        if (host, pid) in taken:
            last += 1
            out[process] = last
        else:
            out[process] = hosts.index(host)
        taken.add((host, pid))
    return out
